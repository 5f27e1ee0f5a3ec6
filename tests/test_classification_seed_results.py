"""The results of several seeds."""

import pytest

from classification import seed_results
from common import errors


def test_median_mean_and_deviation():
  text = seed_results.summary({
    1: {"eval_f1": 0.5, "loss": 1.0},
    2: {"eval_f1": 0.9, "loss": 1.0},
    7: {"eval_f1": 0.7, "loss": 1.0},
  })
  header, f1, loss = [line.split() for line in text.splitlines()]
  assert header == "median mean sd seed 1 seed 2 seed 7".split()
  assert f1[0] == "eval_f1"
  assert [float(value) for value in f1[1:]] == [0.7, 0.7, 0.2, 0.5, 0.9, 0.7]
  assert float(loss[3]) == 0


def test_one_seed_does_not_deviate():
  text = seed_results.summary({1: {"loss": 0.25}})
  assert text.splitlines()[1].split() == [
    "loss", "0.25000", "0.25000", "0.00000", "0.25000"
  ]


def test_seeds_are_different_whole_numbers():
  assert seed_results.parse_seeds(["1", "20"]) == [1, 20]
  with pytest.raises(errors.InputError, match="1,x: expected whole numbers"):
    seed_results.parse_seeds(["1", "x"])
  with pytest.raises(errors.InputError, match="is there twice"):
    seed_results.parse_seeds(["1", "2", "1"])
  with pytest.raises(errors.InputError, match="at most 64 bits"):
    seed_results.parse_seeds(["1", "9" * 20])
