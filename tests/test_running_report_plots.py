"""The report's charts: scikit-learn's areas, round numbers on the axes."""

import re

import numpy as np
import pytest

from running import report_plots


@pytest.mark.parametrize(
  "low, high, expected",
  [
    (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
    (0, 187, [0, 50, 100, 150]),
    (0.31, 2.2, [0.5, 1, 1.5, 2]),
    (3, 3, [3]),
  ],
)
def test_ticks_are_round(low, high, expected):
  assert report_plots.ticks(low, high) == pytest.approx(expected)


def test_areas_equal_scikit_learn():
  metrics = pytest.importorskip("sklearn.metrics")
  random = np.random.default_rng(3)
  gold = random.integers(0, 2, 400)
  # With equal scores, which count together.
  scores = np.round(np.clip(0.3 * gold + random.random(400) * 0.7, 0, 1), 2)
  probabilities = np.stack([1 - scores, scores], 1)
  precision, roc, _ = report_plots.of_predictions(
    probabilities, gold, ["no", "yes"]
  )
  average = metrics.average_precision_score(gold, scores)
  assert precision.name.endswith(f"(average precision {average:.3f})")
  area = metrics.roc_auc_score(gold, scores)
  assert roc.name.endswith(f"(area {area:.3f})")
  expected = metrics.roc_curve(gold, scores, drop_intermediate=False)[:2]
  assert np.array(roc.points).T == pytest.approx(np.array(expected))


def test_calibration_compares_probability_and_accuracy():
  probabilities = np.array([[0.95, 0.05, 0.0]] * 4 + [[0.3, 0.35, 0.35]] * 2)
  (chart,) = report_plots.of_predictions(
    probabilities, np.array([0, 0, 0, 1, 1, 1]), list("abc")
  )
  expected = np.array([[0.35, 1.0], [0.95, 0.75]])
  assert np.array(chart.points) == pytest.approx(expected)
  assert list(chart.notes) == ["2 predictions", "4 predictions"]
  # (2 * 0.65 + 4 * 0.2) / 6
  assert chart.name == "calibration (expected error 0.350)"


@pytest.mark.parametrize("count", [1, 199, 200, 201, 1999, 2000])
def test_long_series_keep_their_ends(count):
  points = [(n, n) for n in range(count)]
  kept = report_plots.thinned(points)
  assert len(kept) <= 201 and (kept[0], kept[-1]) == (points[0], points[-1])
  assert sorted({*kept}) == kept  # Neither end twice.


def test_a_chart_has_axes_and_escapes_names():
  chart = report_plots.Chart("a<b", "step", "y", [(1, 5.0), (100, 1.0)], ["<"])
  page = report_plots.svg(chart)
  assert "a&lt;b" in page and "<title>&lt;</title>" in page
  assert re.findall(r">(\d+)</text>", page) == list("12345") + [
    "0",
    "20",
    "40",
    "60",
    "80",
    "100",
  ]
  single = report_plots.Chart("loss", "step", "", [(0, 2.0)])
  assert 'points="48.0,156.0"' in report_plots.svg(single)
