"""Runs of 1 to 3 whole words, as in ALBERT (arXiv 1909.11942).

As in equation 1: the probability of a length n is proportional to 1 / n.
"""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pretraining import maskings

LIMITS = [*itertools.accumulate(1 / n for n in range(1, 4))]


def groups(text: maskings.Text, rng: random.Random) -> Iterator[Sequence[int]]:
  """Yields runs of words; see maskings."""
  return maskings.runs(text, rng, LIMITS)


def kinds(size: int, draw: Callable) -> list:
  """Returns a replacement for each token of an n-gram; see maskings."""
  return [draw() for _ in range(size)]


def choose(tokens: Any) -> Any:
  """Returns a dynamic_masking.Choice of runs of words."""
  return tokens.choose_runs(LIMITS, together=False)
