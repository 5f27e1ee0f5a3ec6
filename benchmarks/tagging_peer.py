"""Reads columns and aligns tags with word pieces, for finetuning_peer.py.

This module imports neither torch nor transformers, so that a test can compare
its inputs with this project's without these packages.
"""

import itertools
import sys


def read_columns(path):
  """Returns [(words, tags), ...] for the sentences of a CoNLL file.

  The first column has the words, the last column the tags. Empty lines end
  sentences; lines with -DOCSTART- are skipped.
  """
  rows = map(str.split, path.read_text(encoding="utf-8").split("\n"))
  groups = itertools.groupby(
    rows, key=lambda row: bool(row) and row[0] != "-DOCSTART-"
  )
  return [
    tuple(map(list, zip(*((row[0], row[-1]) for row in sentence), strict=True)))
    for has_words, sentence in groups
    if has_words
  ]


def first_pieces(word_ids, count):
  """Returns the positions of the first pieces of a sentence's `count` words.

  `word_ids` has the word number of each piece, or None for [CLS] and [SEP].
  """
  missing = count - len({*word_ids} - {None})
  # A truncated word would not be scored.
  if missing:
    sys.exit(
      f"{missing} of a sentence's {count} words have no word piece within "
      "--max_seq_length; pass a larger --max_seq_length"
    )
  return list(map(list(word_ids).index, range(count)))


def tokenize(tokenizer, sentences, max_seq_length):
  """Returns (dict of inputs, positions of first pieces) for each sentence.

  `tokenizer` is a fast tokenizer; `sentences` are from `read_columns`.
  """
  texts, options = [words for words, _ in sentences], {"truncation": True}
  options |= {"is_split_into_words": True, "max_length": max_seq_length}
  encoded, results = tokenizer(texts, **options), []
  for i, words in enumerate(texts):
    inputs = {name: encoded[name][i] for name in encoded}
    results.append((inputs, first_pieces(encoded.word_ids(i), len(words))))
  return results


def with_labels(inputs, pieces, numbers):
  """Returns inputs with labels; a word's first piece has its label."""
  # torch's cross-entropy ignores -100.
  labels = [-100] * len(inputs["input_ids"])
  for piece, number in zip(pieces, numbers, strict=True):
    labels[piece] = number
  return inputs | {"labels": labels}
