"""float32 numbers with the fewest digits, for JSON."""

import numpy as np
import pytest

from common import short_floats


def as_numpy_prints(values):
  return [float(str(value)) for value in values]


@pytest.mark.parametrize(
  "values",
  [
    [0.1, -0.5, 0.0, 1 / 3, 123456.79, 16777216.0, 3.4e38, 1e-45, -2e-20],
    10.0 ** np.random.default_rng(1).uniform(-20, 7, 50_000),
    np.random.default_rng(2).normal(0, 0.05, 50_000),
    2.0 ** np.arange(-60, 23),
    # The float32 numbers next to a power of ten.
    np.nextafter(np.float32(10.0) ** np.arange(-12, 7), np.float32(0)),
    np.nextafter(np.float32(10.0) ** np.arange(-12, 7), np.float32(np.inf)),
  ],
  ids="listed any-size vector twos below above".split(),
)
def test_digits_are_those_of_numpy(values):
  given = np.asarray(values, np.float32)
  result = short_floats.of(given)
  assert result.dtype == np.float64
  assert result.tolist() == as_numpy_prints(given)
  # No bit is lost.
  assert np.array_equal(result.astype(np.float32), given)


def test_shape_and_odd_numbers_are_kept():
  given = np.array([[np.inf, -0.0], [-np.inf, np.nan]], np.float32)
  result = short_floats.of(given)
  assert np.array_equal(result, given, equal_nan=True)
  assert np.signbit(result[0, 1])
  assert short_floats.of([]).tolist() == []
