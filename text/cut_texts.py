"""Counts the texts that do not fit into a sequence. No TensorFlow."""

import time

from absl import logging


class CutTexts:
  """Counts texts, and says in one line how many were cut."""

  def __init__(self, length: int, noun: str = "texts") -> None:
    """`length` is the longest sequence in tokens; `noun` names the texts."""
    self._length, self._noun = length, noun
    self._texts = self._cut = 0
    self._logged = -float("inf")

  def add(self, cut: int, texts: int = 1) -> None:
    """Adds `texts` texts, of which `cut` were cut."""
    self._texts += texts
    self._cut += cut

  def log(self, source: str = "", *, seconds: float = 0.0) -> None:
    """Logs the counts since the last line, if a text was cut.

    Args:
      source: the file of the texts; "": no file.
      seconds: the least time between two lines. The texts of a shorter time
        are counted in the next line. 0: each call logs its texts.
    """
    now = time.monotonic()
    if not self._cut and not seconds:
      self._texts = 0
    if not self._cut or now - self._logged < seconds:
      return
    place = f"{source}: " if source else ""
    logging.warning(
      "%s%d of %d %s are longer than %d tokens and were cut",
      place,
      self._cut,
      self._texts,
      self._noun,
      self._length,
    )
    self._texts = self._cut = 0
    self._logged = now
