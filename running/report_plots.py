"""Draws the report's charts as SVG: loss, scores, precision, calibration.

A chart has axes with round numbers, and needs neither a script nor a network.
Letters: N examples, L classes.
"""

import html
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

# A chart's size in the units of its SVG, and the room for the numbers.
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _EDGE = 400, 190, 48, 34, 10
_MOST_POINTS = 200
_BINS = 10  # The calibration groups probabilities by tenths.


class Chart(NamedTuple):
  """A line through points.

  Attributes:
    name, x_name, y_name: the titles of the chart and of its axes.
    points: (x, y) pairs, from left to right.
    notes: a text per point, which the mouse shows.
    is_share: whether both axes go from 0 to 1.
    diagonal: whether to draw the line x = y, a perfect calibration or chance.
  """

  name: str
  x_name: str
  y_name: str
  points: Sequence[tuple[float, float]]
  notes: Sequence[str] = ()
  is_share: bool = False
  diagonal: bool = False


def of_training(lines: Iterable[dict]) -> Iterator[Chart]:
  """Yields the loss and each score of evaluations, by step.

  `lines` are the entries of train_log.read; values that are not finite are left
  out.
  """
  series: dict[str, list] = {}
  for line in lines:
    for name, value in line.items():
      is_number = value is not None and math.isfinite(value)
      if is_number and (name == "loss" or name.startswith("eval/")):
        series.setdefault(name, []).append((line["step"], value))
  for name in sorted(series, key=lambda name: (name != "loss", name)):
    points = thinned(series[name])
    notes = [f"step {step}: {value:.6g}" for step, value in points]
    yield Chart(name, "step", "", points, notes)


def of_predictions(
  probabilities: np.ndarray, gold: np.ndarray, labels: Sequence[str]
) -> Iterator[Chart]:
  """Yields the calibration and, for two classes, two curves of thresholds.

  Args:
    probabilities: float [N, L].
    gold: int [N], the correct classes.
    labels: the names of the L classes; the curves show the second class.
  """
  if probabilities.shape[1] == 2 and 0 < gold.sum() < len(gold):
    yield from _of_thresholds(probabilities[:, 1], gold == 1, labels[1])
  yield _calibration(probabilities.max(1), probabilities.argmax(1) == gold)


def _of_thresholds(
  scores: np.ndarray, is_right: np.ndarray, label: str
) -> Iterator[Chart]:
  """Yields the precision–recall and the ROC curve of one class."""
  order = np.argsort(-scores, kind="stable")
  found, taken = np.cumsum(is_right[order]), np.arange(1, len(scores) + 1)
  # Examples with equal scores are above the threshold together.
  last = np.append(np.diff(scores[order]) != 0, True)
  found, taken, thresholds = found[last], taken[last], scores[order][last]
  recall, precision = found / is_right.sum(), found / taken
  false = (taken - found) / (len(scores) - is_right.sum())
  notes = [f"threshold {value:.3f}" for value in thresholds]
  # As in scikit-learn, the average precision sums precision by steps of recall.
  average = (np.diff(recall, prepend=0) * precision).sum()
  rows = list(zip(recall, precision, notes))
  *points, _ = zip(*thinned(rows))
  yield Chart(
    f"precision and recall of {label} (average precision {average:.3f})",
    "recall",
    "precision",
    list(zip(*points)),
    [f"{note}: {p:.3f} of {r:.3f}" for r, p, note in thinned(rows)],
    is_share=True,
  )
  x, y = np.insert(false, 0, 0), np.insert(recall, 0, 0)
  area = (np.diff(x) * (y[1:] + y[:-1]) / 2).sum()
  yield Chart(
    f"ROC of {label} (area {area:.3f})",
    "false positive rate",
    "true positive rate",
    thinned(list(zip(x, y))),
    is_share=True,
    diagonal=True,
  )


def _calibration(confidences: np.ndarray, is_right: np.ndarray) -> Chart:
  """Returns the share of right predictions by their probability."""
  bins = np.minimum((confidences * _BINS).astype(int), _BINS - 1)
  points, notes, error = [], [], 0.0
  for number in range(_BINS):
    chosen = bins == number
    if count := chosen.sum():
      mean, share = confidences[chosen].mean(), is_right[chosen].mean()
      points.append((float(mean), float(share)))
      notes.append(f"{count} predictions")
      # Guo et al. (arXiv 1706.04599): the expected calibration error.
      error += count / len(bins) * abs(mean - share)
  return Chart(
    f"calibration (expected error {error:.3f})",
    "probability of the prediction",
    "share that is right",
    points,
    notes,
    is_share=True,
    diagonal=True,
  )


def thinned(points: Sequence) -> Sequence:
  """Returns about _MOST_POINTS of the points, with the first and the last."""
  step = math.ceil(len(points) / _MOST_POINTS)
  kept = list(points[::step])
  return kept if len(points) % step == 1 or step == 1 else [*kept, points[-1]]


def ticks(low: float, high: float, count: int = 4) -> list[float]:
  """Returns round numbers from `low` to `high`, about `count` of them."""
  if high <= low:
    return [low]
  rough = (high - low) / count
  power = 10.0 ** math.floor(math.log10(rough))
  size = min((m * power for m in (1, 2, 5, 10)), key=lambda s: abs(s - rough))
  first = math.ceil(low / size - 1e-9)
  return [
    round(n * size, 12)
    for n in range(first, first + 2 * count + 2)
    if n * size <= high + size * 1e-9
  ]


def svg(chart: Chart) -> str:
  """Returns a figure in HTML."""
  xs, ys = np.array(chart.points, float).T
  ranges = [(0.0, 1.0)] * 2
  if not chart.is_share:
    ranges = [(min(0.0, xs.min()), xs.max()), (ys.min(), ys.max())]
  (x_low, x_high), (y_low, y_high) = ranges

  def column(x: Any) -> Any:
    share = (np.asarray(x) - x_low) / ((x_high - x_low) or 1.0)
    return _LEFT + share * (_WIDTH - _LEFT - _EDGE)

  def row(y: Any) -> Any:
    share = (np.asarray(y) - y_low) / ((y_high - y_low) or 1.0)
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - _EDGE)

  bottom = _HEIGHT - _BOTTOM
  parts = [
    f'<path class="grid" d="M{_LEFT} {row(y):.1f}H{_WIDTH - _EDGE}"/>'
    f'<text x="{_LEFT - 5}" y="{row(y) + 3:.1f}" text-anchor="end">{y:g}</text>'
    for y in ticks(y_low, y_high)
  ]
  parts += [
    f'<path class="grid" d="M{column(x):.1f} {bottom}v4"/>'
    f'<text x="{column(x):.1f}" y="{bottom + 15}" text-anchor="middle">{x:g}'
    "</text>"
    for x in ticks(x_low, x_high)
  ]
  if chart.diagonal:
    parts.append(
      f'<path class="diagonal" d="M{column(0.0):.1f} {row(0.0):.1f}L'
      f'{column(1.0):.1f} {row(1.0):.1f}"/>'
    )
  places = list(zip(column(xs).round(1), row(ys).round(1)))
  drawn = " ".join(f"{x},{y}" for x, y in places)
  parts.append(f'<polyline points="{drawn}"/>')
  # Many dots would hide the line.
  for (x, y), note in zip(places, chart.notes if len(places) < 60 else ()):
    parts.append(
      f'<circle cx="{x}" cy="{y}" r="2"><title>{html.escape(note)}</title>'
      "</circle>"
    )
  parts.append(
    f'<text x="{(_LEFT + _WIDTH) / 2}" y="{_HEIGHT - 4}" text-anchor="middle">'
    f"{html.escape(chart.x_name)}</text>"
  )
  if chart.y_name:
    middle = bottom / 2
    parts.append(
      f'<text transform="translate(12 {middle}) rotate(-90)" '
      f'text-anchor="middle">{html.escape(chart.y_name)}</text>'
    )
  name = html.escape(chart.name)
  return (
    f'<figure><figcaption>{name}</figcaption><svg role="img" '
    f'aria-label="{name}" viewBox="0 0 {_WIDTH} {_HEIGHT}">'
    f"{''.join(parts)}</svg></figure>"
  )
