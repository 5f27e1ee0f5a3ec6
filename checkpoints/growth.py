"""Grows a model: more words, more positions; what it knew stays, bit for bit.

A row that is new is made of rows that are there, and so are its moments, where
the checkpoint is one of a training: a second moment of 0 would let the first
steps be three times too large.

  a word       the mean of the rows of the pieces that it was cut into
  position p   the learned row 1 + (p - 1) mod (P - 1) of P. The rows
               are repeated (as by Beltagy et al. 2020, arXiv 2004.05150), since
               neighbours then stay neighbours; the first, which [CLS] alone
               had, is left out
"""

import os
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from absl import logging

import configuration
import tokenization
from checkpoints import converter, tokenizer_files, weight_files, weight_names
from common import errors, file_io
from variants import registry, vocabularies

# Tables with a row, or a number, for each word.
_WORDS = re.compile(
  r"bert/embeddings/word_embeddings|cls/predictions/output_bias"
)
_POSITIONS = "bert/embeddings/position_embeddings"
_UNUSED = re.compile(r"\[unused\d+\]")


class NewWord(NamedTuple):
  """A word, its id, and the ids of the pieces that it was cut into."""

  word: str
  token_id: int
  pieces: list[int]


class _GrownReader(weight_names.Reader):
  """A reader, some of whose tables have other rows."""

  def __init__(self, reader, tables):
    """Takes {name: (rows, function of a value that returns the new one)}."""
    vars(self).update(vars(reader))
    self._old, self._tables = reader, tables
    self.shapes = {**reader.shapes, **{
      name: (rows, *reader.shapes[name][1:])
      for name, (rows, _) in tables.items()
    }}

  def read(self, tf1):
    value = self._old.read(tf1)
    return self._tables[tf1][1](value) if tf1 in self._tables else value


def grow(
  source: converter.Source, folder: str, *, add_tokens: str | None = None,
  use_unused_tokens: bool = False, max_position_embeddings: int | None = None,
  do_lower_case: bool | None = None,
) -> tuple[converter.Source, list[NewWord]]:
  """Returns a model that is larger, and its new words.

  Args:
    folder: for the new vocabulary.
    add_tokens: file with one word a line.
    use_unused_tokens: whether words first take the places of [unused...].
    max_position_embeddings: how many there are to be.
    do_lower_case: of the text; None: see tokenizer_files.likely_case.

  Raises:
    InputError: the model has as many positions, the file has a line that
      cannot become a token (all are named), there is no vocabulary, or this
      machine cannot hold the larger model.
  """
  config, vocab_file = source.config, source.vocab_file
  words: list[NewWord] = []
  changes: dict[str, int] = {}
  if add_tokens:
    vocab_file, words = _add_words(
      source, folder, add_tokens, use_unused_tokens, do_lower_case
    )
    highest = max(word.token_id for word in words)
    changes["vocab_size"] = max(config.vocab_size, highest + 1)
  if max_position_embeddings:
    if max_position_embeddings <= config.max_position_embeddings:
      raise errors.InputError(
        f"--max_position_embeddings={max_position_embeddings}: the model has "
        f"{config.max_position_embeddings} already; pass more"
      )
    changes["max_position_embeddings"] = max_position_embeddings
  config = configuration.BertConfig.from_dict({**config.to_dict(), **changes})
  config.check_memory(registry.shapes)
  positions = registry.shapes(config)[_POSITIONS][0]

  def with_words(value):
    value = _lengthened(value, np.zeros(config.vocab_size - len(value), int))
    # After all: a piece may be in a place that is taken.
    means = [value[word.pieces].mean(0) for word in words]
    value[[word.token_id for word in words]] = means
    return value

  def with_positions(value):
    rows = np.arange(len(value), positions)
    # The row after the first token's, which is not row 0 in RoBERTa.
    second = positions - config.max_position_embeddings + 1
    return _lengthened(
      value, second + (rows - second) % max(1, len(value) - second)
    )

  tables: dict[str, tuple[int, Callable]] = {}
  for name in source.reader.shapes:
    weight = weight_files.without_slot(name)
    if words and _WORDS.fullmatch(weight):
      tables[name] = config.vocab_size, with_words
    if max_position_embeddings and weight == _POSITIONS:
      tables[name] = positions, with_positions
  reader = _GrownReader(source.reader, tables)
  return converter.Source(reader, config, vocab_file), words


def _lengthened(value, rows):
  """Returns a copy of a table with some of its rows once more at its end."""
  return np.concatenate([value, value[rows % len(value)]])


def _add_words(source, folder, path, use_unused, do_lower_case):
  """Writes the vocabulary and the files next to it.

  Returns:
    its path, and a list of NewWord.
  """
  old = source.vocab_file
  if not old or vocabularies.name_of(old) != vocabularies.LIST:
    raise errors.InputError(
      "--add_tokens needs a vocabulary of one token a line; "
      + (f"{old} is another kind" if old else "pass --vocab_file")
    )
  if do_lower_case is None:
    do_lower_case = tokenizer_files.likely_case(old)
  kept = tokenizer_files.read_never_split(old)
  tokenizer = vocabularies.make_tokenizer(
    old, do_lower_case=do_lower_case, never_split=kept
  )
  words = _read_words(path, tokenizer)
  lines = [line for _, line in file_io.read_lines(old)]
  places = []
  if use_unused:
    unused = map(_UNUSED.fullmatch, map(str.strip, lines))
    places = [n for n, match in enumerate(unused) if match][: len(words)]
  new = len(words) - len(places)
  places += range(len(lines), len(lines) + new)
  lines += [""] * new
  for word, place in zip(words, places):
    lines[place] = word
  grown = os.path.join(folder, vocabularies.LIST)
  file_io.write_text(grown, "".join(f"{line}\n" for line in lines))
  # With punctuation in it, a word is whole only if the tokenizers know of it.
  kept = [word for word in kept if word in lines]
  kept += [
    word for word in words if _basic_like(tokenizer).tokenize(word) != [word]
  ]
  tokenizer_files.write(
    folder, grown, do_lower_case, source.config.max_position_embeddings,
    never_split=kept,
  )
  return grown, list(map(NewWord, words, places, map(tokenizer.encode, words)))


def _basic_like(tokenizer, never_split=()):
  """Returns the BasicTokenizer of a tokenizer, with other whole words."""
  basic = tokenizer.basic_tokenizer
  return tokenization.BasicTokenizer(
    basic.do_lower_case, never_split, strip_accents=basic.strip_accents,
    tokenize_chinese_chars=basic.tokenize_chinese_chars,
  )


def _read_words(path, tokenizer):
  """Returns the words of a file, as text is read: "Café" -> "cafe".

  Raises InputError: it names all words that cannot be used.
  """
  faults, lines = errors.Faults(), {}
  for number, line in file_io.read_lines(path):
    word = line.strip()
    # A word with white space stays two, for its error.
    read = " ".join(
      "".join(_basic_like(tokenizer).tokenize(part)) for part in word.split()
    )
    if read and read != word and word not in tokenizer.vocab:
      logging.warning(
        "%s:%d: %r is added as %r, as text is read", path, number, word, read
      )
      word = read
    reason = _fault(word, tokenizer)
    if word in lines:
      reason = f"is in line {lines[word]} already"
    lines.setdefault(word, number)
    if word and reason:
      faults.messages.append(f"{path}:{number}: {word!r} {reason}")
  faults.refuse(path)
  words = list(filter(None, lines))
  if not words:
    raise errors.InputError(f"{path}: no word in it; write one a line")
  return words


def _fault(word, tokenizer):
  """Returns why a word cannot become a token, or ""."""
  if word in tokenizer.vocab:
    return f"is a token of {tokenizer.vocab_file} already"
  if word.split() != [word]:
    return "has white space inside; a token is one word"
  if word.startswith("##"):
    return "begins with ##; give whole words, not their pieces"
  if "".join(_basic_like(tokenizer).tokenize(word)) != word:
    return "has only characters that the tokenizer removes"
  if len(word) > tokenizer.wordpiece_tokenizer.max_input_chars_per_word:
    return "is longer than any word that is looked for"
  if _basic_like(tokenizer, [word]).tokenize(word) != [word]:
    return "has Han characters, each of which is a word of its own"
  return ""
