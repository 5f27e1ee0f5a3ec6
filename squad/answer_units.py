"""Normalizes answers, and splits them into the units that F1 counts.

  --f1_units   as in the scripts of   units
  words        SQuAD                  words between spaces, without a, an, the
  mixed        MLQA (Chinese)         each Han character; other words
  characters   KorQuAD                each character

Text in Han characters, kana, Thai, Lao, Khmer or Burmese has no spaces, and
Korean has endings that are part of a word, so the words of such answers say
little. No TensorFlow.
"""

import functools
import re
import string
import sys
import unicodedata
from collections.abc import Iterable
from typing import Any

from absl import logging

from common import flag_values

UNITS = AUTO, WORDS, MIXED, CHARACTERS = flag_values.ANSWER_UNITS
_PUNCTUATION = string.punctuation
# KorQuAD's script also removes these.
_KOREAN_PUNCTUATION = "《》〈〉‘’"
_ARTICLE = re.compile(r"\b(?:an?|the)\b")
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_IS_HAN = re.compile(f"[{_HAN}]")
# MLQA's script treats only these as Han.
_MLQA_HAN = re.compile(r"[\u4e00-\u9fa5]")
# Kana, Hangul, Thai, Lao, Burmese and Khmer.
_IS_OTHER = re.compile(
  "[\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f\u1100-\u11ff\u3130-\u318f"
  "\uac00-\ud7af\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"
)


@functools.cache
def _removed(units: str) -> dict[int, Any]:
  """Returns the table for str.translate that removes punctuation."""
  chars = _PUNCTUATION
  if units == MIXED:
    chars += "".join(
      char
      for char in map(chr, range(sys.maxunicode + 1))
      if unicodedata.category(char)[0] == "P"
    )
  elif units == CHARACTERS:
    chars += _KOREAN_PUNCTUATION
  return str.maketrans("", "", chars)


def normalized(text: str, units: str = WORDS) -> str:
  """Returns a text normalized for the exact match.

  It lower-cases the text and removes punctuation. For words, it removes ASCII
  punctuation (typographic quotes stay), then a, an and the: "well-known"
  becomes "wellknown". For mixed, it separates Han characters by spaces.
  """
  text = text.lower().translate(_removed(units))
  if units == WORDS:
    text = _ARTICLE.sub(" ", text)
  elif units == MIXED:
    text = _MLQA_HAN.sub(r" \g<0> ", text)
  return " ".join(text.split())


def spaced(text: str, units: str = WORDS) -> str:
  """Returns a normalized text with a space between its units."""
  return " ".join("".join(text.split())) if units == CHARACTERS else text


def of_answers(answers: Iterable[str]) -> str:
  """Returns the units of gold answers, by the script of most of their letters.

  Han characters give "mixed", unless more than a tenth is kana or another
  script of this kind: these give "characters". All others give "words".
  """
  text = "".join(answers)
  han, others = len(_IS_HAN.findall(text)), len(_IS_OTHER.findall(text))
  if 2 * (han + others) <= sum(map(str.isalpha, text)) or not han + others:
    return WORDS
  units = CHARACTERS if 10 * others > han + others else MIXED
  _say(units)
  return units


@functools.cache
def _say(units: str) -> None:
  """Logs the choice of units, once per process."""
  logging.info(
    "the answers have no English words: F1 counts %s (--f1_units=%s)",
    "characters" if units == CHARACTERS else "Han characters and words",
    units,
  )
