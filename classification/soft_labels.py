"""Reads probabilities of classes as labels, for --losses=soft_labels.

  text             good   bad          {"text": "A warm film.",
  A warm film.     0.97   0.03          "label": [0.97, 0.03]}

A label is the likeliest class (for multi_label, the classes from 0.5 on), and
carries the probabilities. No TensorFlow.
"""

import ast
import contextlib
import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from common import errors

NAME = "soft_labels"
# Columns of predictions.tsv whose class has the name of another column.
_PREFIX = "class "
_TOLERANCE = 1e-3


class SoftClass(str):
  """The likeliest class, with the probability of each class, a tuple."""

  shares: tuple[float, ...]

  def __new__(cls, name: str, shares: tuple[float, ...]) -> "SoftClass":
    """Returns the name of the class, with the probabilities as `shares`."""
    self = super().__new__(cls, name)
    self.shares = shares
    return self

  def __getnewargs__(self) -> tuple:  # type: ignore[override]
    return str(self), self.shares

  def __repr__(self) -> str:
    return f"{str.__repr__(self)} of {self.shares}"


class SoftClasses(tuple):
  """The classes from 0.5 on, with the probability of each class, a tuple."""

  shares: tuple[float, ...]

  def __new__(
    cls, names: tuple[str, ...], shares: tuple[float, ...]
  ) -> "SoftClasses":
    """Returns the names of the classes, with the probabilities as `shares`."""
    self = super().__new__(cls, names)
    self.shares = shares
    return self

  def __getnewargs__(self) -> tuple:  # type: ignore[override]
    return tuple(self), self.shares

  def __repr__(self) -> str:
    return f"{tuple.__repr__(self)} of {self.shares}"


class Reader(NamedTuple):
  """Reads the soft labels of rows.

  Attributes:
    columns: a column per class; empty: the label column has a list.
    labels: the names of the classes.
    is_multiple: whether a text may have several classes.
    are_logits: whether the numbers are logits.
  """

  columns: tuple[str, ...]
  labels: tuple[str, ...]
  is_multiple: bool
  are_logits: bool

  @classmethod
  def of(cls, settings: Any, is_multiple: bool) -> "Reader | None":
    """Returns the reader that the flags ask for, or None.

    Raises InputError: the names of the classes are unknown.
    """
    if NAME not in (settings.get("losses") or ()):
      return None
    columns = tuple(settings.get("soft_label_columns") or ())
    labels = tuple(settings.labels) or class_names(columns)
    if not labels:
      raise errors.InputError(
        "--losses=soft_labels needs the classes of the probabilities; pass "
        "--soft_label_columns, or, for a list per text, --labels in its order"
      )
    if columns and len(columns) != len(labels):
      raise errors.InputError(
        f"--soft_label_columns has {len(columns)} columns, but --labels "
        f"{len(labels)} classes; pass a column for each class, in their order"
      )
    logits = bool(settings.get("soft_labels_are_logits"))
    return cls(columns, labels, is_multiple, logits)

  def label(self, row: dict, column: str | None) -> SoftClass | SoftClasses:
    """Returns the label in a row; `column` has its list, if given.

    Raises InputError: it is not a probability for each class.
    """
    cells = [row[name] for name in self.columns]
    if not self.columns:
      cells = _listed(row[column])
    values = self._probabilities(cells)
    shares = tuple(values.tolist())
    if self.is_multiple:
      names = [n for n, share in zip(self.labels, shares) if share >= 0.5]
      return SoftClasses(tuple(names), shares)
    return SoftClass(self.labels[int(values.argmax())], shares)

  def _probabilities(self, cells: list) -> np.ndarray:
    """Returns a probability per class, float64 [L]."""
    try:
      values = np.array([_number(cell) for cell in cells], np.float64)
    except (TypeError, ValueError, OverflowError):
      values = np.array([np.nan])
    if values.shape != (len(self.labels),) or not np.isfinite(values).all():
      raise errors.InputError(
        f"soft label {cells!r:.60}: expected {len(self.labels)} finite "
        f"numbers, one for each of {', '.join(self.labels)}"
      )
    if self.are_logits:
      if self.is_multiple:
        return 1 / (1 + np.exp(-np.clip(values, -500, 500)))
      powers = np.exp(values - values.max())
      return powers / powers.sum()
    total = 1.0 if self.is_multiple else values.sum()
    if (
      values.min() < 0
      or values.max() > 1 + _TOLERANCE
      or (abs(total - 1) > _TOLERANCE)
    ):
      raise errors.InputError(
        f"soft label {cells!r:.60}: expected probabilities"
        f"{'' if self.is_multiple else ' that add up to 1'}; for logits, pass "
        "--soft_labels_are_logits"
      )
    return values / total


def _number(cell: Any) -> float:
  # Python also reads True and "1_0" as numbers.
  if isinstance(cell, bool) or "_" in str(cell):
    return math.nan
  return float(cell)


def _listed(cell: Any) -> list:
  """Returns the list in a cell; a CSV has it as text."""
  if isinstance(cell, str):
    with contextlib.suppress(ValueError, SyntaxError, RecursionError):
      cell = json.loads(cell)
    if isinstance(cell, str):
      with contextlib.suppress(ValueError, SyntaxError, RecursionError):
        cell = ast.literal_eval(cell)
  return cell if isinstance(cell, list) else [cell]


def class_names(columns: Sequence[str]) -> tuple[str, ...]:
  """Returns the classes of columns, such as the columns of predictions.tsv."""
  return tuple(name.removeprefix(_PREFIX) for name in columns)


def hard(label: Any) -> Any:
  """Returns a label without probabilities, for an evaluation."""
  if isinstance(label, SoftClass):
    return str(label)
  return tuple(label) if isinstance(label, SoftClasses) else label


def is_soft(label: Any) -> bool:
  """Returns whether a label has probabilities."""
  return isinstance(label, (SoftClass, SoftClasses))


def array(labels: list) -> np.ndarray | None:
  """Returns the probabilities of soft labels, float32 [N, L], or None."""
  if not labels or not is_soft(labels[0]):
    return None
  return np.array([label.shares for label in labels], np.float32)
