"""The phrases and entities of a file, and other words, as wholes (ERNIE).

As in arXiv 1904.09223, section 3.2: all tokens of a phrase are masked together,
each with its own replacement. The file has one phrase a line. The longest
phrase that begins at a token counts, and phrases do not overlap. With
--dynamic_masking, the records say where phrases begin.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from common import errors, file_io
from pretraining import data, maskings

OPTIONS = {
  "phrases_file": (None, "File with a phrase or an entity on each line.")
}


def groups(text: maskings.Text, rng: random.Random) -> Iterator[Sequence[int]]:
  """Yields phrases and words; see maskings."""
  return maskings.in_random_order(text, text.words(), rng)


def choose(tokens: Any) -> Any:
  """Returns a dynamic_masking.Choice of the units that the records mark."""
  return tokens.choose_words()


def prepare(
  corpus: data.Corpus, tokenizer: Any, *, phrases_file: str | None
) -> data.Corpus:
  """Returns the corpus with each phrase as a word.

  Raises InputError: there is no file, or no phrase in it.
  """
  if not phrases_file:
    raise errors.InputError("--masking=phrases needs --phrases_file")
  phrases: dict[int, set[bytes]] = {}  # {bytes of the ids: the phrases}
  for _, line in file_io.read_lines(phrases_file):
    ids = np.asarray(tokenizer.encode(line.strip()), corpus.ids.dtype)
    if len(ids) > 1:
      phrases.setdefault(len(ids), set()).add(ids.tobytes())
  if not phrases:
    raise errors.InputError(
      f"{phrases_file}: no phrase of two or more word pieces; write one a line"
    )
  continues = bytearray(corpus.continues)
  for start, end in zip(corpus.sentence_starts, corpus.sentence_starts[1:]):
    _join(corpus.ids[start:end], continues, start, phrases)
  return corpus._replace(continues=bytes(continues))


def _join(
  ids: np.ndarray, continues: bytearray, start: int, phrases: dict
) -> None:
  """Marks the tokens of a sentence's phrases as one word each."""
  raw, size = ids.tobytes(), ids.itemsize
  lengths = sorted(phrases, reverse=True)
  first, count = 0, len(ids)
  while first < count:
    found = 1
    # A phrase starts and ends with whole words.
    if continues[start + first] == data.STARTS_WORD:
      for length in lengths:
        end = first + length
        is_whole = end == count or (
          end < count and continues[start + end] != data.CONTINUES_WORD
        )
        if is_whole and raw[first * size : end * size] in phrases[length]:
          fill = bytes([data.CONTINUES_WORD]) * (length - 1)
          continues[start + first + 1 : start + end] = fill
          found = length
          break
    first += found
