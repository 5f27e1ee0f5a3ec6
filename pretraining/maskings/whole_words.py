"""All pieces of a word together; words are chosen in random order."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from pretraining import maskings


def groups(text: maskings.Text, rng: random.Random) -> Iterator[Sequence[int]]:
  """Yields whole words; see maskings."""
  return maskings.in_random_order(text, text.words(), rng)


def choose(tokens: Any) -> Any:
  """Returns a dynamic_masking.Choice of whole words."""
  return tokens.choose_words()
