"""At sentence-ending punctuation of any script, without data of a language.

A sentence ends after a mark that ends sentences in Unicode (class STerm of UAX
#29: . ! ? … 。 ！ ？ । ؟ ۔ ։ and others) with the closing quotes and brackets
after it. After the marks of scripts that write spaces, white space must follow,
and the next word must not start with a small letter. After a single full stop,
the sentence goes on

  - if the word before it is one letter, or letters with full stops (J. Smith,
    U.S., e.g.),
  - if it is a short word without a vowel (Mr., Dr., St., Nr., vs.),
  - if it is the number of a list at the start (1. Introduction),
  - if a digit follows a capitalized word of up to three letters (No. 5).

No TensorFlow.
"""

import re
import unicodedata

_CLOSING = "\"'”’»)]}」』）】"
_OPENING = "\"'“‘«¿¡([{「『（【„‚"
# As in Unicode: full stops and ends of sentences of scripts that write spaces.
_SPACED = ".!?…\u037e\u0589\u061f\u06d4\u0700\u0701\u0702\u07f9\u0964\u0965"
_SPACED += "\u104a\u104b\u1362\u1367\u1368\u166e\u1803\u1809\u203c\u203d\u2047"
_SPACED += "\u2048\u2049\ua60e\ua60f"
_UNSPACED = "\u3002\uff0e\uff01\uff1f\uff61"
_END = re.compile(
  rf"[{re.escape(_SPACED)}]+[{re.escape(_CLOSING)}]*"
  rf"(?=\s+[{re.escape(_OPENING)}]*(\w))|"
  rf"[{_UNSPACED}]+[{re.escape(_CLOSING)}]*"
)
_LAST_WORD = re.compile(r"[\w.]+\Z")
_LETTERS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
_VOWELS = set("aeiouyæœøäöüаеёиоуыэюяαεηιουω")
_LONGEST_ABBREVIATION = 4


def split(paragraph: str) -> list[str]:
  """Returns the sentences of a paragraph; only white space between is lost."""
  sentences, start = [], 0
  for end in _END.finditer(paragraph):
    if _ends_sentence(paragraph[start : end.start()], end):
      sentences.append(paragraph[start : end.end()].strip())
      start = end.end()
  rest = paragraph[start:].strip()
  return [*sentences, rest] if rest or not sentences else sentences


def _ends_sentence(before: str, end: re.Match) -> bool:
  """Returns whether a match of _END, with the text before it, is an end."""
  following = end[1]
  if following is None:  # A mark of a script without spaces.
    return True
  if following.islower():
    return False
  word = _LAST_WORD.search(before)
  if end[0] != "." or not word:
    return True
  text = word[0]
  if _LETTERS.fullmatch(text):
    # A pronoun or a letter at the end ("so am I.") is rarer than an initial.
    return False
  if text.isdecimal():
    return word.start() > 0
  return not _is_abbreviation(text, following)


def _is_abbreviation(word: str, following: str) -> bool:
  """Returns whether a full stop probably belongs to the word before it."""
  letters = unicodedata.normalize("NFD", word.lower())
  # Scripts without capitals have no such abbreviations.
  has_case = word.lower() != word.upper() and word.isalpha()
  if len(word) > _LONGEST_ABBREVIATION or not has_case:
    return False
  if not _VOWELS.intersection(letters):
    return True
  return following.isdecimal() and word[0].isupper() and len(word) <= 3
