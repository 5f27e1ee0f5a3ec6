"""A paragraph -> its sentences, by a rule that needs no data.

A sentence ends behind ".", "!", "?" or "…" (and closing quotes and brackets)
if white space follows and then, behind opening quotes and brackets, a letter
that is not a small one, or a digit. It does not end behind a "." which

  - follows an abbreviation used before names and numbers (Mr., Fig.),
  - follows small letters with dots (e.g., i.e.), or a single capital or
    capitals with dots (J. Smith, U.S.) unless a word follows that often
    starts a sentence (The, In, He, ...),
  - ends a number at the start of the paragraph ("1. Introduction").

"。", "！" and "？" always end a sentence.
"""

import re

_CLOSING, _OPENING = "\"'”’»)\\]」』）", "\"'“‘«¿¡(\\[「『（"
_END = re.compile(
  rf"(?:[.!?…]+[{_CLOSING}]*(?=\s+[{_OPENING}]*(\w+)))|"
  rf"(?:[。！？]+[{_CLOSING}]*)"
)
_LAST_WORD = re.compile(r"[\w.]+\Z")
_DOTTED_LETTERS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")

# Without their last dot. Those that may well end a sentence are not listed.
_ABBREVIATIONS = frozenset(
  "Mr Mrs Ms Dr Prof St Mt Ft Rev Hon Gen Col Lt Capt Sgt Cmdr Adm Maj Gov "
  "Sen Rep Pres Messrs Mme Mlle Sr Jr vs cf ca approx al viz No Nos Vol Vols "
  "Fig Figs Eq Eqs Sec Ch pp Ed Eds Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct "
  "Nov Dec".split()
)
_STARTERS = frozenset(
  "The A An In On At By For From To With It Its He She They We You I This "
  "That These Those There His Her Their But And As If When While After Before "
  "However".split()
)


def split_sentences(paragraph: str) -> list[str]:
  """Returns the sentences of a paragraph in order.

  Only the white space between them is lost. A blank paragraph gives [""], so
  that it still separates documents.
  """
  sentences = []
  start = 0
  for end in _END.finditer(paragraph):
    if _ends_sentence(paragraph[start : end.start()], end):
      sentences.append(paragraph[start : end.end()].strip())
      start = end.end()
  rest = paragraph[start:].strip()
  if rest or not sentences:
    sentences.append(rest)
  return sentences


def _ends_sentence(before, end):
  """Whether a match of _END, with the text before it, ends a sentence."""
  following = end[1]
  if following is None:
    return True
  # "e.g. the", "... and": whatever the mark, a sentence starts with no small
  # letter.
  if following[0].islower():
    return False
  if end[0] != ".":
    return True
  word = _LAST_WORD.search(before)
  if not word:
    return True
  if word[0] in _ABBREVIATIONS:
    return False
  if _DOTTED_LETTERS.fullmatch(word[0]):
    if word[0].islower():
      # "i.e." goes on; a single small letter ("see a.") ends.
      return len(word[0]) == 1
    return following in _STARTERS
  # The number of a list or a heading.
  return not (word[0].isdecimal() and word.start() == 0)
