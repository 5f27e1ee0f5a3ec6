"""Gives float32 numbers the fewest digits that tell them apart.

A float32 that becomes a Python float prints as 0.10000000149011612, because
Python shows what tells float64 numbers apart. No TensorFlow.
"""

import numpy as np
import numpy.typing as npt

# A float64 holds these powers of ten exactly.
_POWERS = np.array([float(f"1e{n}") for n in range(23)])
# The sizes of numbers for which _POWERS suffice.
_SMALLEST, _LARGEST = 1e-13, 1e7


def of(values: npt.ArrayLike) -> np.ndarray:
  """Returns float64 values that print like the float32 `values`, e.g. 0.1.

  They have at most 9 significant digits, like str() of a NumPy float32, and
  np.float32 of them is exactly the given value. The result has the shape of
  `values`.
  """
  given = np.asarray(values, np.float32)
  exact = given.astype(np.float64)
  size = np.abs(exact)
  is_usual = (_SMALLEST <= size) & (size < _LARGEST)
  exponents = np.floor(np.log10(size, where=is_usual, out=np.zeros_like(size)))
  result = exact
  # 9 digits always tell float32 numbers apart, 6 digits are always kept.
  for digits in range(9, 5, -1):
    places = (digits - 1 - exponents).astype(np.intp)
    scale = _POWERS.take(places, mode="clip")
    # An integer divided by an exact power of ten is the float64 nearest to the
    # decimal number; float() would return the same for its digits.
    rounded = np.rint(exact * scale) / scale
    result = np.where(rounded.astype(np.float32) == given, rounded, result)
  for place in zip(*np.nonzero(~is_usual & (given != 0))):
    result[place] = float(str(given[place]))
  return result
