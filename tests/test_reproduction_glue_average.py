"""GLUE's average over the rows of a report."""

import pytest

from reproduction import glue_average


def line(row, metric, median, deviations=()):
  return {
    "row": row,
    "metric": metric,
    "median": median,
    "deviations": list(deviations),
  }


LINES = [
  line("cola-tiny", "eval_matthews", 10.0, ["other flags"]),
  line("cola-tiny", "eval_matthews", 20.0),
  line("mrpc-tiny", "eval_f1", 80.0),
  line("mrpc-tiny", "eval_accuracy", 70.0),
  line("mnli-tiny", "eval_accuracy", 60.0),
  line("mnli-tiny", "eval_mismatched_accuracy", 64.0),
  line("wnli-tiny", "eval_accuracy", 1.0),
  line("rte-mini", "eval_accuracy", 50.0),
  line("sst-2-tiny", "GLUE's server", None),
]


def test_a_task_counts_with_the_mean_of_its_metrics():
  (average,) = glue_average.averages(LINES)
  assert average.suffix == "tiny"
  assert average.value == pytest.approx((20 + 75 + 62) / 3)
  assert average.tasks == ["cola", "mrpc", "mnli"]
  assert average.missing == ["sst-2", "sts-b", "qqp", "qnli", "rte"]
  (*_, row) = glue_average.markdown(LINES).strip().split("\n")
  assert row.startswith("| tiny | 52.3 | cola, mrpc, mnli | sst-2, sts-b, ")


def test_a_single_task_has_no_average():
  assert glue_average.markdown(LINES[:2]) == ""


def test_averages_are_sorted_and_a_complete_one_lacks_nothing():
  lines = [
    line(f"{task}-{suffix}", "m", value)
    for suffix, value in (("small", 30.0), ("base", 80.25))
    for task in glue_average.TASKS
  ]
  first, second = glue_average.markdown(lines).strip().split("\n")[-2:]
  assert first.startswith("| base | 80.2 | ") and first.endswith(" | none |")
  assert second.startswith("| small | 30.0 | ")
