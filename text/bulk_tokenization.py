"""Lines of text -> ids, thousands at a time: equal to FullTokenizer, faster.

tensorflow_text's FastBertTokenizer (Song et al. 2021) is 10× faster than
any tokenizer in Python, but not equal: it lower-cases by another table, has
another Unicode version, and its longest word has 100 bytes instead of 200
characters. So it gets only lines for which both are known to agree, by their
characters; the FullTokenizer itself encodes all others.
"""

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from absl import logging

import tokenization
from common import errors

# Reading the vocabulary into its tables takes FastBertTokenizer a second and
# 40 MB, and importing it two seconds more, four where TensorFlow is not loaded:
# too much for a text that takes the exact tokenizer no longer.
_CHARACTERS_BEFORE_FAST = 8_000_000
_ASCII_SPEED = 4  # The exact tokenizer's speedup on ASCII text.
_LONGEST_WORD_BYTES = 100

# Characters that both tokenizers treat alike, lower-casing or not, whatever
# their neighbours are. They are tested one by one, and chosen so that no
# version of Unicode will change them: without combining marks, compatibility
# forms (such as U+00BD) and sigma (which has a form at the end of a word).
_ALIKE = re.compile(
  "[ -~"  # ASCII without control characters.
  "\u00a0-\u00a7\u00a9\u00ab\u00ac\u00ae\u00b0\u00b1\u00b6\u00b7\u00bb"
  "\u00bf-\u00de\u00e0-\u0131\u0134-\u013e\u0141-\u0148\u014a-\u017e"  # Latin
  "\u0400-\u0481\u048a-\u04ff"  # Cyrillic
  "\u2010\u2012-\u2015\u2018-\u201f\u2020-\u2022\u2030\u2039\u203a\u20ac"
  "\u3001-\u3011\u3041-\u3093\u30a1-\u30f6\u30fc"  # Kana
  "\u4e00-\u9fa5\uac00-\ud7a3"  # Han, Hangul
  "]*"
)


def line_encoder(tokenizer) -> Callable:
  """Returns the fastest function that encodes lines as a tokenizer does.

  A tokenizer other than FullTokenizer may define `encode_lines`.
  """
  return getattr(tokenizer, "encode_lines", None) or BulkEncoder(tokenizer)


class BulkEncoder:
  """Encodes lines as a FullTokenizer does."""

  def __init__(
    self, tokenizer: tokenization.FullTokenizer,
    characters_before_fast: int | None = _CHARACTERS_BEFORE_FAST
  ):
    """Makes an encoder.

    Args:
      tokenizer: the tokenizer whose ids it reproduces.
      characters_before_fast: how much text `tokenizer` encodes before the
        faster one is made; ASCII counts a quarter.
    """
    self._tokenizer = tokenizer
    self._characters_before_fast = characters_before_fast
    self._fast: Any = None
    words = "|".join(map(re.escape, tokenizer.basic_tokenizer.never_split))
    self._never_split = words and re.compile(words, re.IGNORECASE)

  def __call__(self, lines: list[str]) -> tuple:
    """Encodes lines.

    Returns:
      (ids of all lines one after another, number of ids of each line, None),
      see data.read_corpus of pretraining.
    """
    if not self._may_be_fast(lines):
      return (*self._encode_exactly(lines), None)
    # [lines]; two encoders share them, and the ids are put together below.
    alike = np.array([self._is_alike(line) for line in lines], bool)
    rest = list(itertools.compress(lines, ~alike))
    plain = list(itertools.compress(lines, alike))
    fast_ids, fast_lengths = self._fast(plain)
    lengths = np.empty(len(lines), np.int64)
    lengths[alike] = fast_lengths
    rest_ids, lengths[~alike] = self._encode_exactly(rest)
    # The mask of lines, repeated for each id, keeps both in their order.
    ids = np.empty(lengths.sum(), np.int32)
    # Lines fast, exact, fast with 2, 1 and 2 ids give 1 1 0 1 1.
    of_alike = np.repeat(alike, lengths)
    ids[of_alike] = fast_ids
    ids[~of_alike] = rest_ids
    return ids, lengths.tolist(), None

  def _is_alike(self, line):
    if not is_alike(line):
      return False
    # In other lines an accent could hide a `never_split` word.
    return not self._never_split or (
      line.isascii() and not self._never_split.search(line)
    )

  def _encode_exactly(self, lines):
    rows = list(map(self._tokenizer.encode, lines))
    return list(itertools.chain.from_iterable(rows)), list(map(len, rows))

  def _may_be_fast(self, lines):
    """Whether there is a faster tokenizer; makes it after enough text."""
    if self._fast is None and self._characters_before_fast is not None:
      self._characters_before_fast -= sum(
        len(line) / _ASCII_SPEED if line.isascii() else len(line)
        for line in lines
      )
      if self._characters_before_fast < 0:
        self._characters_before_fast = None
        self._fast = _fast_tokenizer(self._tokenizer)
    return self._fast is not None


def _fast_tokenizer(tokenizer):
  """Returns a FastBertTokenizer's function from lines to (ids, lengths).

  It returns None for an unfit vocabulary: it finds other pieces if a token
  contains a space, and cannot represent the ids of one with a repeated token.
  """
  tokens = list(tokenizer.vocab)
  # A token's last line counts, so a repeated one leaves a gap in the ids.
  is_twice = list(tokenizer.vocab.values()) != list(range(len(tokens)))
  has_space = any(len(token.split()) != 1 for token in tokens)
  basic = tokenizer.basic_tokenizer
  # It has one switch for case and accents, and always isolates Han characters.
  has_other_rules = (
    basic.strip_accents != basic.do_lower_case
    or not basic.tokenize_chinese_chars
  )
  unfit = is_twice or has_space or has_other_rules
  if unfit or "[UNK]" not in tokenizer.vocab:
    return None
  try:
    # The import is here because most runs are too small to need it.
    from common import lean_tensorflow

    tensorflow_text = lean_tensorflow.import_tensorflow_text()
    import tensorflow as tf

    fast = tensorflow_text.FastBertTokenizer(
      vocab=tokens, token_out_type=tf.int32, unknown_token="[UNK]",
      lower_case_nfd_strip_accents=basic.do_lower_case
    )
  # A package is missing, or a token has over 256 bytes, for example.
  except (ImportError, RuntimeError, errors.InputError) as error:
    logging.info("The text is tokenized more slowly: %s", error)
    return None

  def encode(lines):
    rows = fast.tokenize(tf.constant(lines, tf.string))
    return rows.values.numpy(), rows.row_lengths().numpy()

  return encode


def is_alike(line: str) -> bool:
  """Whether both tokenizers certainly give the same ids for a line."""
  if line.isascii():
    return line.isprintable() and _has_short_words(line, _LONGEST_WORD_BYTES)
  return bool(_ALIKE.fullmatch(line)) and _has_short_words(
    line, _LONGEST_WORD_BYTES // 3  # No character there has more bytes.
  )


def _has_short_words(line, longest):
  """Whether every stretch of `longest` + 1 characters has a space."""
  end = 0
  while len(line) - end > longest:
    space = line.rfind(" ", end, end + longest + 1)
    if space < 0:
      return False
    end = space + 1
  return True
