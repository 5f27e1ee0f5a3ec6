"""Tests how texts are split into words and labelled."""

import pytest
import tensorflow as tf

import tiny_model
import tokenization
from tagging import answers, text_spans

LABELS = ["O", "B-X"]


def test_batches_do_not_change_a_label(tmp_path):
  tokenizer = tokenization.FullTokenizer(
    tiny_model.write_vocabulary(tmp_path, "ab")
  )

  def model(batch):
    assert set(batch) == {"input_ids", "input_mask", "segment_ids"}
    return tf.one_hot(tf.cast(batch["input_ids"] == 6, tf.int32), 2)

  first, *others, last = answers.tag_texts(
    ["a,b", "a b b a a b b", "b", "\u200b"],
    model,
    LABELS,
    tokenizer,
    max_seq_length=5,
    batch_size=2,
    at_punctuation=True,
  )
  assert first == {
    "words": ["a", ",", "b"],
    "tags": ["O", "O", "B-X"],
    "probabilities": [1.0] * 3,
    "starts": [0, 1, 2],
    "ends": [1, 2, 3],
    "num_words": 3,
  }
  for answer in others:
    assert answer["tags"] == [LABELS[w == "b"] for w in answer["words"]]
  assert [answer["num_words"] for answer in others] == [7, 1]
  assert last["words"] == last["tags"] == last["probabilities"] == []


@pytest.mark.parametrize(
  "text, at_punctuation, words",
  [
    (
      " Stra\u00dfe, na\u0308h-e 3",
      True,
      ["Stra\u00dfe", ",", "na\u0308h", "-", "e", "3"],
    ),
    ("a-b  U.N.\u2028c", False, ["a-b", "U.N.", "c"]),
    # Control characters belong to no word, unless they are within one.
    ("\x00a\u200bb\x00 \x00 c", True, ["a\u200bb", "c"]),
    ("\u4e2d\u6587x", True, ["\u4e2d", "\u6587", "x"]),
    ("\u4e2d\u6587x", False, ["\u4e2d\u6587x"]),
    # A combining accent belongs to its word, also at the end.
    ("cafe\u0301 x", True, ["cafe\u0301", "x"]),
    (" ", True, []),
  ],
)
def test_words(text, at_punctuation, words):
  offsets = text_spans.word_places(text, at_punctuation=at_punctuation)
  assert [text[start:end] for start, end in offsets] == words
  if at_punctuation:
    tokens = tokenization.BasicTokenizer(False).tokenize(text)
    assert tokens == [word.replace("\u200b", "") for word in words]
