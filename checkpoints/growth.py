"""Adds words or positions to a model.

Existing rows do not change, except the rows of replaced [unused...] tokens. New
rows are computed from existing rows. If the checkpoint has optimizer moments,
the moments of new rows are computed in the same way: with moments of 0, the
first updates would be about three times too large.

  a word       the mean of the rows of the word pieces that it was split into
  position p   of the P old rows, the one with number 1 + (p - 1) mod (P - 1):
               most neighbours stay neighbours (Beltagy et al. 2020, arXiv
               2004.05150). Row 0 is skipped, because only [CLS] uses it
"""

import os
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from absl import logging

import configuration
import tokenization
from checkpoints import converter, tokenizer_files, weight_files, weight_names
from common import errors, file_io, json_files
from variants import registry, vocabularies, vocabulary_files

# Weights with a row or a value per vocabulary entry.
_WORDS = re.compile(
  r"bert/embeddings/word_embeddings|"
  r"cls/(pair_target_)?predictions/output_bias"
)
_POSITIONS = "bert/embeddings/position_embeddings"
_UNUSED = re.compile(r"\[unused\d+\]")


class NewWord(NamedTuple):
  """A word, its id, and the ids of the word pieces that it was split into."""

  word: str
  token_id: int
  pieces: list[int]


class _GrownReader(weight_names.Reader):
  """Reads a checkpoint and enlarges some of its tables."""

  def __init__(
    self,
    reader: weight_names.Reader,
    tables: dict[str, tuple[int, Callable[[np.ndarray], np.ndarray]]],
  ):
    """`tables` is {name: (number of rows, function from old to new value)}."""
    vars(self).update(vars(reader))
    self._old, self._tables = reader, tables
    self.shapes = {**reader.shapes}
    for name, (rows, _) in tables.items():
      self.shapes[name] = (rows, *reader.shapes[name][1:])

  def read(self, tf1: str) -> np.ndarray:
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
    use_unused_tokens: whether to replace [unused...] tokens before appending.
    max_position_embeddings: new number of positions.
    do_lower_case: whether text is lower-cased; None: see
      VocabularyFiles.likely_case.

  Raises:
    InputError: the model already has that many positions or more, `add_tokens`
      has no words or invalid ones (the message lists them), no list of word
      pieces is given, or the larger model does not fit in memory.
  """
  config, vocab_file = source.config, source.vocab_file
  max_length = source.max_length
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
        f"{config.max_position_embeddings} already; pass a higher number"
      )
    changes["max_position_embeddings"] = max_position_embeddings
    if max_length == config.max_position_embeddings:
      max_length = max_position_embeddings
      if vocab_file and not add_tokens:
        vocab_file = _with_length(vocab_file, folder, max_length)
  config = configuration.BertConfig.from_dict({**config.to_dict(), **changes})
  config.check_memory(registry.shapes)
  shapes = registry.shapes(config)

  def with_words(value: np.ndarray) -> np.ndarray:
    value = _lengthened(value, np.zeros(config.vocab_size - len(value), int))
    # Compute all means from the old rows before any row changes.
    means = [value[word.pieces].mean(0) for word in words]
    value[[word.token_id for word in words]] = means
    return value

  def with_positions(value: np.ndarray) -> np.ndarray:
    positions, _ = shapes[_POSITIONS]
    rows = np.arange(len(value), positions)
    # The row of the second token; in RoBERTa, the first token's row is not 0.
    second = positions - config.max_position_embeddings + 1
    return _lengthened(
      value, second + (rows - second) % max(1, len(value) - second)
    )

  tables: dict[str, tuple[int, Callable]] = {}
  for name in source.reader.shapes:
    weight = weight_files.without_slot(name)
    if words and _WORDS.fullmatch(weight):
      tables[name] = config.vocab_size, with_words
    # ModernBERT's positions have no table.
    if max_position_embeddings and weight == _POSITIONS:
      tables[name] = shapes[weight][0], with_positions
  reader = _GrownReader(source.reader, tables)
  return converter.Source(reader, config, vocab_file, max_length), words


def _with_length(vocab_file: str, folder: str, max_length: int) -> str:
  """Copies a tokenizer.json with a new length; returns the vocabulary's path.

  A list of word pieces stays where it is, because all of its tokenizer's files
  are written anew.
  """
  files = vocabulary_files.VocabularyFiles(vocab_file)
  if files.is_list or files.max_length is None:
    return vocab_file
  tokenizer_files.write(folder, vocab_file, None, max_length)
  json_files.write(
    os.path.join(folder, vocabulary_files.CONFIG),
    {**files.config, "model_max_length": max_length},
  )
  return os.path.join(folder, vocabulary_files.TOKENIZER_FILE)


def _lengthened(value: np.ndarray, rows: np.ndarray) -> np.ndarray:
  """Returns a copy of a table with some of its rows repeated at the end."""
  return np.concatenate([value, value[rows % len(value)]])


def _add_words(
  source: converter.Source,
  folder: str,
  path: str,
  use_unused: bool,
  do_lower_case: bool | None,
) -> tuple[str, list[NewWord]]:
  """Writes the tokenizer's files; returns (path of vocab.txt, [NewWord])."""
  old = source.vocab_file
  files = vocabulary_files.VocabularyFiles(old) if old else None
  if not (old and files and files.is_list):
    raise errors.InputError(
      "--add_tokens needs a vocabulary with one token per line; "
      + (f"{old} has another format" if old else "pass --vocab_file")
    )
  if do_lower_case is None:
    do_lower_case = files.likely_case
  tokenizer = vocabularies.make_tokenizer(
    files, do_lower_case=do_lower_case, never_split=files.never_split
  )
  words = _read_words(path, tokenizer)
  lines = [line for _, line in file_io.read_lines(old)]
  token_ids = []
  if use_unused:
    unused = map(_UNUSED.fullmatch, map(str.strip, lines))
    token_ids = [n for n, match in enumerate(unused) if match][: len(words)]
  appended = len(words) - len(token_ids)
  token_ids += range(len(lines), len(lines) + appended)
  lines += [""] * appended
  for word, token_id in zip(words, token_ids):
    lines[token_id] = word
  grown = os.path.join(folder, vocabulary_files.LIST)
  file_io.write_text(grown, "".join(f"{line}\n" for line in lines))
  # Tokenizers split a word with punctuation unless it is in never_split.
  never_split = [word for word in files.never_split if word in lines]
  never_split += [
    word for word in words if _basic_like(tokenizer).tokenize(word) != [word]
  ]
  tokenizer_files.write(
    folder,
    grown,
    do_lower_case,
    source.max_length,
    never_split=never_split,
    text_rules=files.text_rules,
  )
  pieces = map(tokenizer.encode, words)
  return grown, list(map(NewWord, words, token_ids, pieces))


def _basic_like(
  tokenizer: tokenization.FullTokenizer, never_split: Sequence[str] = ()
) -> tokenization.BasicTokenizer:
  """Returns a copy of a tokenizer's BasicTokenizer with `never_split`."""
  basic = tokenizer.basic_tokenizer
  return tokenization.BasicTokenizer(
    basic.do_lower_case,
    never_split,
    strip_accents=basic.strip_accents,
    tokenize_chinese_chars=basic.tokenize_chinese_chars,
    final_sigma=basic.final_sigma,
  )


def _read_words(path: str, tokenizer: tokenization.FullTokenizer) -> list[str]:
  """Returns a file's words, normalized by the tokenizer: "Café" -> "cafe".

  Raises InputError: words are invalid (the message lists them), or missing.
  """
  faults = errors.Faults()
  lines: dict[str, int] = {}  # {word: number of its line}
  for number, line in file_io.read_lines(path):
    word = line.strip()
    # Keep white space inside a word, so that `_fault` reports it.
    normalized = " ".join(
      "".join(_basic_like(tokenizer).tokenize(part)) for part in word.split()
    )
    if normalized and normalized != word and word not in tokenizer.vocab:
      logging.warning(
        "%s:%d: %r is added as %r (normalized)", path, number, word, normalized
      )
      word = normalized
    reason = _fault(word, tokenizer)
    if word in lines:
      reason = f"is already on line {lines[word]}"
    lines.setdefault(word, number)
    if word and reason:
      faults.messages.append(f"{path}:{number}: {word!r} {reason}")
  faults.refuse(path)
  words = list(filter(None, lines))
  if not words:
    raise errors.InputError(f"{path} has no words; write one per line")
  return words


def _fault(word: str, tokenizer: tokenization.FullTokenizer) -> str:
  """Returns why a word cannot become a token, or ""."""
  if word in tokenizer.vocab:
    return f"is already a token of {tokenizer.vocab_file}"
  if word.split() != [word]:
    return "has white space inside; a token is one word"
  if word.startswith("##"):
    return "begins with ##; write whole words, not word pieces"
  if "".join(_basic_like(tokenizer).tokenize(word)) != word:
    return "has only characters that the tokenizer removes"
  longest = tokenizer.wordpiece_tokenizer.max_input_chars_per_word
  if len(word) > longest:
    return f"has over {longest} characters; such a word becomes [UNK]"
  if _basic_like(tokenizer, [word]).tokenize(word) != [word]:
    return "has Han characters, which the tokenizer splits into separate words"
  return ""
