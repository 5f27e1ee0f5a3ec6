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


def test_curves_of_thresholds_by_hand():
  scores = np.array([0.9, 0.8, 0.8, 0.1])
  gold = np.array([1, 0, 1, 0])
  precision, roc, _ = report_plots.of_predictions(
    np.stack([1 - scores, scores], 1), gold, ["no", "yes"]
  )
  # The two equal scores are taken together.
  assert np.array(precision.points) == pytest.approx(
    np.array([[0.5, 1], [1, 2 / 3], [1, 0.5]])
  )
  assert list(precision.notes) == [
    "threshold 0.900: 1.000 of 0.500",
    "threshold 0.800: 0.667 of 1.000",
    "threshold 0.100: 0.500 of 1.000",
  ]
  assert precision.name == (
    "precision and recall of yes (average precision 0.833)"
  )
  assert np.array(roc.points) == pytest.approx(
    np.array([[0, 0], [0, 0.5], [0.5, 1], [1, 1]])
  )
  assert roc.name == "ROC of yes (area 0.875)"
  assert precision.is_share and roc.is_share
  assert roc.diagonal and not precision.diagonal


@pytest.mark.parametrize("gold", [[0, 0], [1, 1]])
def test_a_single_class_has_no_curve_of_thresholds(gold):
  probabilities = np.array([[0.25, 0.75], [1.0, 0.0]])
  (chart,) = report_plots.of_predictions(
    probabilities, np.array(gold), ["no", "yes"]
  )
  assert chart.is_share and chart.diagonal
  # The largest probability is in the last tenth.
  right = [float(gold[0] == 1), float(gold[1] == 0)]
  assert list(chart.points) == [(0.75, right[0]), (1.0, right[1])]


def test_the_series_of_a_training():
  lines = [
    {"step": 1, "loss": 2.0, "learning_rate": 0.1, "eval/b": 3.0},
    {"step": 2, "loss": float("nan"), "eval/a": None},
    {"step": 4, "loss": 1.23456789, "eval/a": 5.0},
  ]
  charts = list(report_plots.of_training(lines))
  assert [(chart.name, list(chart.points)) for chart in charts] == [
    ("loss", [(1, 2.0), (4, 1.23456789)]),
    ("eval/a", [(4, 5.0)]),
    ("eval/b", [(1, 3.0)]),
  ]
  assert charts[0].notes == ["step 1: 2", "step 4: 1.23457"]
  assert not (charts[0].is_share or charts[0].diagonal or charts[0].y_name)


def parts_of(chart):
  """Returns the tags of a chart in order, without their texts."""
  return re.findall(r"<[^/][^>]*>", report_plots.svg(chart))


def test_the_lines_of_a_chart_of_shares():
  """The axes go from 0 to 1, from 48 to 390 and from 156 up to 10."""
  chart = report_plots.Chart(
    "c", "x", "y", [(0.5, 0.25)], ["n"], is_share=True, diagonal=True
  )
  rows = [("156.0", "159.0"), ("126.8", "129.8"), ("97.6", "100.6")]
  rows += [("68.4", "71.4"), ("39.2", "42.2"), ("10.0", "13.0")]
  columns = "48.0", "116.4", "184.8", "253.2", "321.6", "390.0"
  expected = ["<figure>", "<figcaption>"]
  expected += ['<svg role="img" aria-label="c" viewBox="0 0 400 190">']
  for line, text in rows:
    expected += [
      f'<path class="grid" d="M48 {line}H390"/>',
      f'<text x="43" y="{text}" text-anchor="end">',
    ]
  for column in columns:
    expected += [
      f'<path class="grid" d="M{column} 156v4"/>',
      f'<text x="{column}" y="171" text-anchor="middle">',
    ]
  assert parts_of(chart) == [
    *expected,
    '<path class="diagonal" d="M48.0 156.0L390.0 10.0"/>',
    '<polyline points="219.0,119.5"/>',
    '<circle cx="219.0" cy="119.5" r="2">',
    "<title>",
    '<text x="224.0" y="186" text-anchor="middle">',
    '<text transform="translate(12 78.0) rotate(-90)" text-anchor="middle">',
  ]


def test_a_chart_of_numbers_starts_at_step_0_and_at_its_smallest_value():
  chart = report_plots.Chart("c", "x", "", [(5, 2.0), (10, 4.0)])
  page = report_plots.svg(chart)
  assert 'points="219.0,156.0 390.0,10.0"' in page
  assert "rotate" not in page and "diagonal" not in page
  chart = report_plots.Chart("c", "x", "", [(-5, 2.0), (5, 4.0)])
  assert 'points="48.0,156.0 390.0,10.0"' in report_plots.svg(chart)


@pytest.mark.parametrize("count, dots", [(59, 59), (60, 0)])
def test_many_points_have_no_dots(count, dots):
  points = [(n, n) for n in range(count)]
  chart = report_plots.Chart("c", "x", "", points, ["n"] * count)
  assert report_plots.svg(chart).count("<circle") == dots
