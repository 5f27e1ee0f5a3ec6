"""Runs of 1 to 10 whole words, as in SpanBERT (arXiv 1907.10529).

As in section 3.1: the length is drawn from Geometric(0.2) without lengths above
10, 3.8 words on average, and all tokens of a span are replaced in the same way.
"""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pretraining import maskings

LIMITS = [*itertools.accumulate(0.2 * 0.8**n for n in range(10))]


def groups(text: maskings.Text, rng: random.Random) -> Iterator[Sequence[int]]:
  """Yields runs of words; see maskings."""
  return maskings.runs(text, rng, LIMITS)


def kinds(size: int, draw: Callable) -> list:
  """Returns one replacement for all tokens of a span; see maskings."""
  return [draw()] * size


def choose(tokens: Any) -> Any:
  """Returns a dynamic_masking.Choice of runs of words."""
  return tokens.choose_runs(LIMITS, together=True)
