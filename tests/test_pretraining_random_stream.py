"""random_stream: the very numbers of random.Random."""

import random

import numpy as np
import pytest

from pretraining import random_stream


@pytest.mark.parametrize("chunk", [8, 100, 1 << 12])
@pytest.mark.parametrize("seed", range(4))
def test_every_draw_is_that_of_random(seed, chunk):
  plan = random.Random(-seed - 1)
  expected, given = random.Random(seed), random.Random(seed)
  stream = random_stream.RandomWordStream(given, chunk=chunk)
  for _ in range(300):
    kind = plan.randrange(5)
    if kind == 0:
      assert stream.random() == expected.random()
    elif kind == 1:
      first = plan.randrange(100)
      last = first + plan.choice([0, 1, 5, 255, 256, 30521, 10**6])
      assert stream.randint(first, last) == expected.randint(first, last)
    elif kind == 2:
      count = plan.randrange(6)
      heads = bytes(expected.random() < 0.5 for _ in range(count))
      assert stream.coin_flips(count) == heads
    elif kind == 3:
      size = plan.randrange(40)
      items, same_items = list(range(size)), list(range(size))
      expected.shuffle(items)
      stream.shuffle(same_items)
      assert same_items == items
    elif stream.should_discard:
      stream.discard_used()
  stream.restore_rng()
  assert given.getstate() == expected.getstate()


@pytest.mark.parametrize("chunk, words_per_round", [(64, 1), (1 << 15, 32)])
def test_shuffles_are_those_of_random(chunk, words_per_round, monkeypatch):
  monkeypatch.setattr(random_stream, "_WORDS_PER_ROUND", words_per_round)
  sizes = [0, 1, 2, 3, 31, 32, 33, 63, 64, 127, 128, 254, 255, 256, 257]
  sizes += [300, 509, 510, 511, 700, 3000, 3000]
  expected = random.Random(3)
  stream = random_stream.RandomWordStream(random.Random(3), chunk=chunk)
  starts, lists = [], []
  for size in sizes:
    starts.append(stream.position)
    stream.skip_shuffle(size)
    lists.append(list(range(size)))
    expected.shuffle(lists[-1])
    assert stream.random() == expected.random()  # As many words were used.
  shuffled = stream.shuffled(np.array(starts), np.array(sizes))
  for column, items in enumerate(lists):
    assert shuffled[: len(items), column].tolist() == items
  assert stream.shuffled(np.arange(2), np.array([0, 1])).tolist() == [[0, 0]]


def test_numbers_at_many_positions():
  stream = random_stream.RandomWordStream(random.Random(5), chunk=1 << 12)
  starts = np.arange(0, 2000, 7)
  numbers, ends = stream.numbers_below_at(1000, starts)
  for start, number, end in zip(starts, numbers, ends):
    stream.position = int(start)
    assert stream.randint(0, 999) == number
    assert stream.position == end


def test_draws_follow_the_words():
  rng = random.Random(7)
  stream = random_stream.RandomWordStream(rng, draws=np.copy, chunk=16)
  assert len(stream.words) == 16
  for step in (stream.extend, stream.discard_used):
    step()
    np.testing.assert_array_equal(stream.draws, stream.words)
  stream.restore_rng()
  assert rng.getstate() == random.Random(7).getstate()
