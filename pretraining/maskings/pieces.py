"""Single word pieces in random order, BERT's default."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from pretraining import maskings


def groups(text: maskings.Text, rng: random.Random) -> Iterator[Sequence[int]]:
  """Yields single pieces; see maskings."""
  return maskings.in_random_order(text, text.pieces(), rng)


def choose(tokens: Any) -> Any:
  """Returns a dynamic_masking.Choice of single pieces."""
  return tokens.choose_pieces()
