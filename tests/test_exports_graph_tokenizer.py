"""Compares ids with tokenization.py, and offsets with the text."""

import random

import pytest
import tensorflow as tf

import test_tokenization as goldens
import tokenization
from common import errors
from exports import graph_tokenizer
from variants import vocabularies

full_tokenizers = goldens.full_tokenizers
vocab_file = goldens.vocab_file


@pytest.fixture(scope="module")
def graph_tokenizers(full_tokenizers):
  """{setting: function of a list of strings that returns Tokens}."""
  spec = [tf.TensorSpec([None], tf.string)]
  return {
    setting: tf.function(
      graph_tokenizer.GraphTokenizer(full).tokenize, input_signature=spec
    )
    for setting, full in full_tokenizers.items()
  }


def no_surrogates(text):
  """Whether a text can be encoded as UTF-8, as every input of a graph is."""
  return not any("\ud800" <= char <= "\udfff" for char in text)


@pytest.mark.parametrize("setting", goldens.SETTINGS)
def test_every_golden_line(setting, graph_tokenizers):
  rows = [r for r in goldens.read_golden_lines() if no_surrogates(r["text"])]
  assert len(rows) > 1500
  tokens = graph_tokenizers[setting](tf.constant([r["text"] for r in rows]))
  assert tokens.ids.to_list() == [row[setting] for row in rows]


@pytest.mark.parametrize(
  "setting",
  [
    "uncased",
    *(
      pytest.param(setting, marks=pytest.mark.slow)
      for setting in goldens.SETTINGS
      if setting != "uncased"
    ),
  ],
)
def test_every_character_and_every_token(setting, full_tokenizers):
  full = full_tokenizers[setting]
  graph_tokenizer.check_same(graph_tokenizer.GraphTokenizer(full), full)


def test_a_difference_is_refused(full_tokenizers, vocab_file):
  graph = graph_tokenizer.GraphTokenizer(full_tokenizers["uncased"])
  other_tokenizer = tokenization.FullTokenizer(vocab_file(goldens.PIECES))
  with pytest.raises(errors.InputError, match="gives different ids"):
    graph_tokenizer.check_same(graph, other_tokenizer)


@pytest.mark.parametrize("setting", ["uncased", "multi_cased"])
def test_bad_utf8_is_dropped(setting, full_tokenizers, graph_tokenizers):
  rng = random.Random(5)
  odd = [b"\xff", b"\xc3", b"\xe4\xb8", b"\xed\xa0\x80", b"\xf0\x90\x80"]
  odd += [b"\xf4\x90\x80\x80", b"\xc0\x80", b"a", b"b "]
  odd += ["\u00e9\u4e2d".encode()]
  texts = [b"".join(rng.choices(odd, k=rng.randrange(12))) for _ in range(2000)]
  tokens = graph_tokenizers[setting](tf.constant(texts))
  assert tokens.ids.to_list() == [
    full_tokenizers[setting].encode(text) for text in texts
  ]


def test_long_texts_and_batches_without_a_word(graph_tokenizers):
  tokenize = graph_tokenizers["uncased"]
  assert tokenize(tf.constant([], tf.string)).ids.to_list() == []
  empty = tokenize(tf.constant(["", " \u200b\n"]))
  assert all(value.to_list() == [[], []] for value in empty)
  ids = tokenize(tf.constant(["\u03a3" * 201, "\u03a3" * 200])).ids
  assert ids.row_lengths().numpy().tolist() == [1, 200]


def slices(tokens, text):
  return [
    text[start:end]
    for start, end in zip(tokens.starts.to_list()[0], tokens.ends.to_list()[0])
  ]


def test_offsets_refer_to_the_original_text(graph_tokenizers):
  text = " Caf\u00e9 CAFE\u0301\u0301,\u00ad \u4e2dCamelcased\u200bWords "
  text += "n\u0303 "
  tokens = graph_tokenizers["uncased"](tf.constant([text]))
  written = slices(tokens, text)
  assert written[:4] == ["Caf\u00e9", "CAFE\u0301\u0301", ",", "\u4e2d"]
  assert written[-1] == "n\u0303"
  assert "".join(written[4:-1]).replace("\u200b", "") == "CamelcasedWords"
  words, chunks = tokens.words.to_list()[0], tokens.chunks.to_list()[0]
  assert words[:5] == [0, 1, 2, 3, 4] and words[-1] == 5
  # The text starts with white space, so the number of its first chunk is 1.
  assert [chunks[0], chunks[2], chunks[3], chunks[-1]] == [1, 2, 3, 4]


def test_offsets_of_long_words_and_of_later_texts(graph_tokenizers):
  text = f"a {'b' * 201} c"
  tokens = graph_tokenizers["uncased"](tf.constant(["x", "y \u4e2d", text]))
  assert tokens.starts.to_list() == [[0], [0, 2], [0, 2, 204]]
  assert tokens.ends.to_list() == [[1], [1, 3], [1, 203, 205]]


@pytest.mark.parametrize("setting", ["cased", "multi_cased"])
def test_pieces_equal_text_slices(setting, full_tokenizers, graph_tokenizers):
  full = full_tokenizers[setting]
  for text in filter(no_surrogates, goldens.random_texts(seed=6, count=100)):
    tokens = graph_tokenizers[setting](tf.constant([text]))
    pieces = full.convert_ids_to_tokens(tokens.ids.to_list()[0])
    for piece, part in zip(pieces, slices(tokens, text)):
      if piece != "[UNK]":
        words = tokenization.BasicTokenizer(False).tokenize(part)
        assert "".join(words) == piece.removeprefix("##")


def test_vocabulary_lines_that_match_nothing(vocab_file):
  tokens = ["[UNK]", "a", "", "##", "##b", "a", "c d", "", "\r"]
  full = tokenization.FullTokenizer(vocab_file(tokens))
  graph = graph_tokenizer.GraphTokenizer(full)
  text = "a ab ## c d cd"
  assert graph.tokenize([text]).ids.to_list() == [full.encode(text)]
  # A token that occurs twice has the id of its last line.
  assert graph.tokenize(["a"]).ids.to_list() == [[5]]
  lines = vocabularies.lines(full)
  assert lines == ["[UNK]", "", "", "##", "##b", "a", "c d", "", ""]


def test_words_that_stay_whole_are_refused(vocab_file):
  full = tokenization.FullTokenizer(
    vocab_file(["[UNK]", "a+"]), never_split=["a+"]
  )
  message = r"--never_split=a\+: .* export with --format=onnx or litert"
  with pytest.raises(errors.InputError, match=message):
    graph_tokenizer.GraphTokenizer(full)


def test_a_vocabulary_needs_a_token_for_unknown_words(vocab_file):
  full = tokenization.FullTokenizer(vocab_file(["a"]))
  with pytest.raises(errors.InputError, match=r"vocab.txt: .\[UNK\]. is not"):
    graph_tokenizer.GraphTokenizer(full)
