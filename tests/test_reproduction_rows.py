"""The rows of the published tables, and that the scripts take their flags."""

import multiprocessing
import runpy
import sys

import pytest

import test_layout
from classification import glue
from reproduction import catalog, report, rows, runs

SCRIPTS = sorted({row.script for row in rows.ROWS.values() if row.script})


def test_names_sources_and_places():
  for row in rows.ROWS.values():
    assert row.source
    assert row.script or row.note
    assert not row.model or row.model in catalog.MODELS
    assert not row.after or row.after in rows.ROWS
    assert row.data in ("", *catalog.DATA, *catalog.ELSEWHERE)
    for metric in row.metrics:
      assert metric.low is None or metric.high is None or (
        metric.low < metric.high
      )


def test_every_table_of_the_paper_and_the_readmes_has_rows():
  sources = {row.source for row in rows.ROWS.values()}
  tables = [f"paper, table {number}" for number in range(1, 9)]
  assert {*tables, "README", "README, test set", "multilingual.md",
          "README, whole-word masking"} <= sources
  models = {row.model for row in rows.ROWS.values()}
  assert {"chinese_L-12_H-768_A-12", "uncased_L-8_H-512_A-8"} <= models


# The README's table of small models: F1/accuracy, or Pearson/Spearman.
SMALL_MODELS = """
size    cola  sst-2  mrpc       sts-b      qqp        mnli qnli rte  wnli
tiny    0.0   83.2   81.1/71.1  74.3/73.6  62.2/83.4  70.2 81.5 57.2 62.3
mini    0.0   85.9   81.1/71.8  75.4/73.3  66.4/86.2  74.8 84.1 57.9 62.3
small   27.8  89.7   83.4/76.2  78.8/77.0  68.1/87.0  77.6 86.4 61.8 62.3
medium  38.0  89.6   86.6/81.6  80.4/78.4  69.6/87.9  80.0 87.7 62.2 62.3
"""
METRICS = {
  "cola": ["eval_matthews"], "mrpc": ["eval_f1", "eval_accuracy"],
  "qqp": ["eval_f1", "eval_accuracy"],
  "sts-b": ["eval_pearson", "eval_spearman"],
}


def test_small_models_are_compared_by_the_metrics_of_their_table():
  header, *lines = map(str.split, SMALL_MODELS.strip().splitlines())
  checked = 0
  for size, *cells in lines:
    for task, cell in zip(header[1:], cells):
      metrics = rows.ROWS[f"{task}-{size}"].metrics
      found = [(metric.result, metric.published) for metric in metrics]
      names = METRICS.get(task, ["eval_accuracy"])
      assert found == list(zip(names, map(float, cell.split("/"))))
      # The task's script computes them.
      official = glue.find(task)
      known = {f"eval_{name}" for name in (*official.metrics, "accuracy")}
      assert known >= set(names)
      checked += len(found)
  assert checked == 4 * 12


def _parse(script, commands, results):
  """In a process of its own: defines a script's flags and parses commands."""
  from absl import flags

  sys.argv = [script]
  sys.path.insert(0, str(test_layout.ROOT))
  runpy.run_path(str(test_layout.ROOT / script), run_name="not_main")
  for name, command in commands.items():
    flags.FLAGS.unparse_flags()
    try:
      flags.FLAGS(command)
    except flags.Error as error:
      results.put(f"{name}: {error}")
  results.put(None)


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_the_script_of_each_row_takes_its_flags(script, tmp_path):
  (tmp_path / "config.json").write_text("{}")
  (tmp_path / "model.safetensors").write_text("")
  commands = {
    row.name: runs.command(
      runs.Plan(row, str(tmp_path), str(tmp_path), "out", 7), 1
    )[1:]
    for row in rows.ROWS.values()
    if row.script == script
  }
  context = multiprocessing.get_context("spawn")
  results = context.Queue()
  process = context.Process(target=_parse, args=(script, commands, results))
  process.start()
  wrong = list(iter(results.get, None))
  process.join()
  assert not wrong


def test_bands():
  metric = rows.Metric("f1", 90.0, 89.0, 91.0)
  assert metric.is_within(89.0) and metric.is_within(91.0)
  assert not metric.is_within(88.9) and not metric.is_within(91.1)
  assert metric._replace(low=None, high=None).is_within(0.0)
  for low, high, text in [
    (1.0, 2.5, "1 to 2.5"), (1.0, None, "at least 1"), (None, 2.0, "at most 2"),
    (None, None, "-"),
  ]:
    assert report.band_text({"low": low, "high": high}) == text
