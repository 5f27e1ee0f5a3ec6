"""Tests how lines of text become batches."""

import pytest

import serving_models
from common import errors
from features import text_batches
from text import cut_texts


@pytest.fixture(scope="module")
def tokenizer():
  return serving_models.tokenizer()


def examples(*lengths):
  return [
    text_batches.Example(index, [7] * length, [0] * length)
    for index, length in enumerate(lengths)
  ]


@pytest.mark.parametrize(
  "line, texts",
  [
    ("", ("", None)),
    ("  one text \t", ("one text", None)),
    ("a ||| b", ("a", "b")),
    ("a ||| b ||| c", ("a ||| b", "c")),
    ("a ||| ||| b", ("a |||", "b")),
    ("a|||b", ("a|||b", None)),
    ("a ||| ", ("a |||", None)),
    (" ||| b", ("||| b", None)),
  ],
)
def test_the_last_separator_splits_a_line(line, texts):
  assert text_batches.split_pair(line) == texts


def test_lines_are_cut_to_the_maximum_length(tmp_path, tokenizer):
  path = tmp_path / "lines.txt"
  path.write_text("up up up up up\nup ||| on on on on on\n")
  encode = text_batches.make_line_encoder(tokenizer, 6)
  single, pair = text_batches.read_examples(str(path), encode)
  up, on, cls_id, sep_id = tokenizer.convert_tokens_to_ids(
    ["up", "on", "[CLS]", "[SEP]"]
  )
  assert single == (0, [cls_id, up, up, up, up, sep_id], [0] * 6)
  assert pair == (1, [cls_id, up, sep_id, on, on, sep_id], [0, 0, 0, 1, 1, 1])


def test_a_sequence_without_room_is_refused(tokenizer):
  with pytest.raises(
    errors.InputError, match="--max_seq_length=2 is too short"
  ):
    text_batches.make_encoder(tokenizer, 2)


def test_as_pair_makes_each_text_an_input(tokenizer):
  encode = text_batches.make_line_encoder(tokenizer, 8, as_pair=True)
  tokens = [
    tokenizer.convert_ids_to_tokens(example.input_ids)
    for example in encode(1, "up ||| on\n")
  ]
  assert tokens == [["[CLS]", "up", "[SEP]"], ["[CLS]", "on", "[SEP]"]]


def test_blocks_hold_every_example_once_in_order():
  all_examples = examples(3, 5, 4, 4, 1)
  blocks = list(text_batches.blocks(all_examples, 8))
  lengths = [[len(example.input_ids) for example in b] for b in blocks]
  assert lengths == [[3, 5], [4, 4], [1]]
  assert [example for block in blocks for example in block] == all_examples


def test_blocks_do_not_split_a_group():
  blocks = list(text_batches.blocks(examples(9, 1, 9, 1), 8, group=2))
  assert [len(block) for block in blocks] == [2, 2]


def test_blocks_read_no_further_than_needed():
  unread = iter(examples(4, 4, 4))
  next(text_batches.blocks(unread, 8))
  assert len(list(unread)) == 1


@pytest.mark.parametrize(
  "line, cut",
  [
    ("up up up up", 0),
    ("up up up up up", 1),
    ("up ||| on on", 0),
    ("up up ||| on", 0),
    ("up up ||| on on", 1),
  ],
)
def test_texts_that_do_not_fit_are_counted(tokenizer, line, cut, caplog):
  counter = cut_texts.CutTexts(6)
  text_batches.make_line_encoder(tokenizer, 6, cut=counter)(0, line)
  counter.log()
  assert [m[:8] for m in caplog.messages] == ["1 of 1 t"] * cut
