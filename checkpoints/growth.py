"""Adds words or positions to a model.

Existing rows do not change, except the rows of replaced [unused...] tokens. New
rows are computed from existing rows. So are their moments, if a training's
checkpoint has them: with a second moment of 0, the first steps would be three
times too large.

  a word       the mean of the rows of the word pieces that it was split into
  position p   the learned row 1 + (p - 1) mod (P - 1) of P, which keeps
               neighbours together (Beltagy et al. 2020, arXiv 2004.05150).
               The first row, which only [CLS] had, is skipped
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

# Tables with a row or a number for each word.
_WORDS = re.compile(
  r"bert/embeddings/word_embeddings|cls/predictions/output_bias"
)
_POSITIONS = "bert/embeddings/position_embeddings"
_UNUSED = re.compile(r"\[unused\d+\]")


class NewWord(NamedTuple):
  """A word, its id, and the ids of the word pieces that it was split into."""

  word: str
  token_id: int
  pieces: list[int]


class _GrownReader(weight_names.Reader):
  """A reader of a checkpoint with some larger tables."""

  def __init__(self, reader, tables):
    """Takes {name: (rows, function from the old value to the new value)}."""
    vars(self).update(vars(reader))
    self._old, self._tables = reader, tables
    self.shapes = {
      **reader.shapes,
      **{
        name: (rows, *reader.shapes[name][1:])
        for name, (rows, _) in tables.items()
      },
    }

  def read(self, tf1):
    value = self._old.read(tf1)
    return self._tables[tf1][1](value) if tf1 in self._tables else value


def grow(
  source: converter.Source,
  folder: str,
  *,
  add_tokens: str | None = None,
  use_unused_tokens: bool = False,
  max_position_embeddings: int | None = None,
  do_lower_case: bool | None = None,
) -> tuple[converter.Source, list[NewWord]]:
  """Returns a larger model, and its new words.

  Args:
    folder: folder for the new vocabulary.
    add_tokens: file with one word per line.
    use_unused_tokens: whether words first replace [unused...] tokens.
    max_position_embeddings: new number of positions.
    do_lower_case: whether text is lower-cased; None: see
      tokenizer_files.likely_case.

  Raises:
    InputError: the model has that many positions, lines cannot become tokens
      (all are listed), the vocabulary is missing, or the memory is too small.
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
    # Compute all means before writing, which may replace the row of a piece.
    means = [value[word.pieces].mean(0) for word in words]
    value[[word.token_id for word in words]] = means
    return value

  def with_positions(value):
    rows = np.arange(len(value), positions)
    # The second token's row; RoBERTa's first token does not have row 0.
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
  """Returns a copy of a table with some of its rows repeated at the end."""
  return np.concatenate([value, value[rows % len(value)]])


def _add_words(source, folder, path, use_unused, do_lower_case):
  """Writes the vocabulary and the tokenizer's files.

  Returns:
    the vocabulary's path, and a list of NewWord.
  """
  old = source.vocab_file
  if not old or vocabularies.is_tokenizer_file(old):
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
  # Tokenizers split a word with punctuation unless never_split has it.
  kept = [word for word in kept if word in lines]
  kept += [
    word for word in words if _basic_like(tokenizer).tokenize(word) != [word]
  ]
  tokenizer_files.write(
    folder,
    grown,
    do_lower_case,
    source.config.max_position_embeddings,
    never_split=kept,
  )
  return grown, list(map(NewWord, words, places, map(tokenizer.encode, words)))


def _basic_like(tokenizer, never_split=()):
  """Returns a tokenizer's BasicTokenizer with another never_split."""
  basic = tokenizer.basic_tokenizer
  return tokenization.BasicTokenizer(
    basic.do_lower_case,
    never_split,
    strip_accents=basic.strip_accents,
    tokenize_chinese_chars=basic.tokenize_chinese_chars,
  )


def _read_words(path, tokenizer):
  """Returns the words of a file in the tokenizer's form: "Café" -> "cafe".

  Raises InputError: words are invalid; the message has all of them.
  """
  faults, lines = errors.Faults(), {}
  for number, line in file_io.read_lines(path):
    word = line.strip()
    # Keep white space in a word, which `_fault` reports.
    read = " ".join(
      "".join(_basic_like(tokenizer).tokenize(part)) for part in word.split()
    )
    if read and read != word and word not in tokenizer.vocab:
      logging.warning(
        "%s:%d: %r is added as %r (normalized)", path, number, word, read
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
  """Returns the reason for which a word cannot become a token, or ""."""
  if word in tokenizer.vocab:
    return f"is a token of {tokenizer.vocab_file} already"
  if word.split() != [word]:
    return "has white space inside; a token is one word"
  if word.startswith("##"):
    return "begins with ##; give whole words, not their pieces"
  if "".join(_basic_like(tokenizer).tokenize(word)) != word:
    return "has only characters that the tokenizer removes"
  longest = tokenizer.wordpiece_tokenizer.max_input_chars_per_word
  if len(word) > longest:
    return f"is longer than {longest} characters, so it is read as [UNK]"
  if _basic_like(tokenizer, [word]).tokenize(word) != [word]:
    return "has Han characters, each of which is a word of its own"
  return ""
