"""Tests of the fast writing of numbers."""

import json

import numpy as np
import pytest

from common import number_text


def by_python(values):
  return [round(float(value), 6) for value in values]


@pytest.mark.parametrize("scale", [1e-7, 1e-5, 1e-3, 0.1, 1, 10, 1e3, 1e9])
def test_numbers_equal_those_of_round(scale):
  values = np.random.RandomState(0).randn(2000).astype(np.float32) * scale
  text = number_text.json_list(values.astype(np.float32))
  assert json.loads(text) == by_python(values.astype(np.float32))


def test_halves_are_rounded_to_even():
  values = (np.arange(-64, 64) / 128).astype(np.float32)
  assert json.loads(number_text.json_list(values)) == by_python(values)


@pytest.mark.parametrize(
  "values, text",
  [
    ([], "[]"),
    ([0.0, -0.0], "[0.0, -0.0]"),
    ([1.5, -2.0, 10.25], "[1.5, -2.0, 10.25]"),
    ([0.000001, 98.5], "[0.000001, 98.5]"),
    ([0.1001, 0.100001], "[0.1001, 0.100001]"),
    ([100.0], "[100.0]"),
    ([float("nan"), 1.0], "[NaN, 1.0]"),
    ([float("inf")], "[Infinity]"),
  ],
)
def test_text(values, text):
  assert number_text.json_list(np.array(values, np.float32)) == text
