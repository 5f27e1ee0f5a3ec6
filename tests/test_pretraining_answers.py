"""Tests texts with [MASK] as ids, and how long they may be."""

import types

import pytest

import tiny_model
import tokenization
from common import errors
from pretraining import answers
from text import cut_texts

CLS, SEP, MASK, A, B = 2, 3, 4, 5, 6


@pytest.fixture
def tokenizer(tmp_path):
  return tokenization.FullTokenizer(
    tiny_model.write_vocabulary(tmp_path, ["a", "b"])
  )


@pytest.mark.parametrize(
  "text, ids, positions",
  [
    ("a b", [A, B], []),
    ("a [MASK] b", [A, MASK, B], [2]),
    ("[MASK][MASK]a", [MASK, MASK, A], [1, 2]),
  ],
)
def test_masks_are_encoded_at_their_positions(tokenizer, text, ids, positions):
  encoded = answers.encode(tokenizer, text)
  assert encoded == ([CLS, *ids, SEP], positions)


@pytest.mark.parametrize(
  "strips, ids",
  [
    ((False, False), "(a _ b _)"),
    ((True, False), "(a_ b_)"),
    ((False, True), "(a _b _)"),
    ((True, True), "(a_b_)"),
  ],
)
def test_a_mask_includes_the_white_space_that_its_token_strips(strips, ids):
  """RoBERTa's tokens, unlike BERT's, include white space."""
  letters = types.SimpleNamespace(
    encode=list,
    frame=types.SimpleNamespace(cls_id="(", sep_id=")"),
    mask_id="_",
    specials=tokenization.BERTS._replace(mask_strips=strips),
  )
  encoded, positions = answers.encode(letters, "a [MASK] b [MASK]")
  assert "".join(encoded) == ids
  assert [encoded[position] for position in positions] == ["_", "_"]


def test_a_text_is_cut_behind_its_masks(tokenizer):
  cut = cut_texts.CutTexts(4)
  text = "a [MASK] b"
  whole = answers.encode_within(tokenizer, text, 5, cut)
  assert whole == ([CLS, A, MASK, B, SEP], [2])
  shorter = answers.encode_within(tokenizer, text, 4, cut)
  assert shorter == ([CLS, A, MASK, SEP], [2])
  assert (cut._texts, cut._cut) == (2, 1)
  with pytest.raises(errors.InputError, match=r"\[MASK\] at token 3, .* 3 "):
    answers.encode_within(tokenizer, text, 3)


def test_a_text_to_fill_has_a_mask_and_fits(tokenizer):
  answers.check("a [MASK] b", tokenizer, 5, "t:1")
  with pytest.raises(errors.InputError, match="^t:1: 5 .*max_seq_length=4"):
    answers.check("a [MASK] b", tokenizer, 4, "t:1")
  with pytest.raises(errors.InputError, match=r"^t:1: no \[MASK\] in 'a b'"):
    answers.check("a b", tokenizer, 5, "t:1")


def test_a_sentence_to_score_has_a_token_and_fits(tokenizer):
  answers.check_sentence("a b", tokenizer, 4, "t:1")
  with pytest.raises(errors.InputError, match="^t:1: 4 .*max_seq_length=3"):
    answers.check_sentence("a b", tokenizer, 3, "t:1")
  with pytest.raises(errors.InputError, match="^t:1: '.u200b' has no word pie"):
    answers.check_sentence("\u200b", tokenizer, 9, "t:1")
