"""Compares bulk_random with random.Random, number by number."""

import random

import numpy as np
import pytest

from pretraining import bulk_random, packings

DRAWS = {
  "random": lambda rng: rng.random(),
  "randint": lambda rng: rng.randint(3, 700),
  "randint of one": lambda rng: rng.randint(5, 5),
  "randint of a power": lambda rng: rng.randint(0, 255),
  "large randint": lambda rng: rng.randint(0, 1 << 40),
  "randrange": lambda rng: rng.randrange(0, 30, 7),
  "getrandbits": lambda rng: [rng.getrandbits(k) for k in (0, 1, 32, 33, 70)],
  "randbytes": lambda rng: rng.randbytes(7),
  "choice": lambda rng: rng.choice("abcde"),
  "choices": lambda rng: rng.choices("abcde", k=3),
  "sample": lambda rng: rng.sample(range(50), 5),
  "shuffle": lambda rng: shuffled(rng, 20),
  "gauss": lambda rng: rng.gauss(0.0, 1.0),
  "coin_flips": lambda rng: list(packings.coin_flips(rng, 9)),
}


def shuffled(rng, size):
  items = list(range(size))
  rng.shuffle(items)
  return items


def used_generator():
  rng = random.Random(3)
  rng.random()
  return rng


@pytest.mark.parametrize("together", [3, 100, 1 << 14])
def test_each_method_gives_the_numbers_of_random(together):
  expected, source = used_generator(), used_generator()
  rng = bulk_random.BulkRandom(source, together=together)
  order = random.Random(1).choices(list(DRAWS), k=300)
  assert set(order) == set(DRAWS)
  for number, name in enumerate(order):
    assert DRAWS[name](rng) == DRAWS[name](expected), name
    if number % 40 == 39:
      rng.discard()
  rng.finish()
  assert source.random() == expected.random()


@pytest.mark.parametrize("a, b", [(2, 1), (0, -1)])
def test_an_empty_range_is_an_error_as_in_random(a, b):
  with pytest.raises(ValueError, match="empty range"):
    bulk_random.BulkRandom(random.Random(1)).randint(a, b)


def test_its_state_is_the_source_s():
  rng = bulk_random.BulkRandom(random.Random(1))
  for call in (rng.seed, rng.getstate, lambda: rng.setstate(())):
    with pytest.raises(NotImplementedError, match="finish"):
      call()


@pytest.mark.parametrize("together", [50, 1 << 14])
def test_skipped_shuffles(together):
  sizes = [*range(40), 125, 125, 125, 64, 300, bulk_random.MAX_SHUFFLED]
  expected, source = used_generator(), used_generator()
  rng = bulk_random.BulkRandom(source, together=together)
  starts, lists = [], []
  for size in sizes:
    starts.append(rng.position)
    rng.skip_shuffle(size)
    lists.append(shuffled(expected, size))
  columns = bulk_random.shuffled(
    rng.words, np.array(starts), np.array(sizes)
  ).T.tolist()
  for size, column, expected_list in zip(sizes, columns, lists, strict=True):
    assert column[:size] == expected_list
  assert rng.random() == expected.random()
