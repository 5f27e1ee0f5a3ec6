"""The rows of the published tables, and that the scripts take their flags."""

import math
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
    assert not (row.model and row.is_chained)
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


# The tables as they were published. The name of a row is made of the column's
# and the line's names; a cell has the row's metrics, such as F1/accuracy.
TABLES = {
  # BERT's paper, table 1, and the dev sets of table 5 and later papers.
  "{column}-{line}-test": """
  row    mnli      qqp  qnli sst-2 cola sts-b mrpc rte  glue
  base   84.6/83.4 71.2 90.5 93.5  52.1 85.8  88.9 66.4 79.6
  large  86.7/85.9 72.1 92.7 94.9  60.5 86.5  89.3 70.1 82.1
  """,
  "{column}-base": """
  row   mnli qqp  qnli sst-2 cola sts-b mrpc rte  wnli swag
  base  84.4 89.6 88.4 92.7  56.3 89.0  86.7 69.3 53.5 81.6
  """,
  "{column}-large": """
  row   mnli qqp  qnli sst-2 cola sts-b mrpc rte  swag
  large 86.6 91.3 92.3 93.2  60.6 90.0  88.0 70.4 86.6
  """,
  # The README's small models: F1/accuracy, or Pearson/Spearman.
  "{column}-{line}": """
  row    cola sst-2 mrpc      sts-b     qqp       mnli
  tiny   0.0  83.2  81.1/71.1 74.3/73.6 62.2/83.4 70.2/70.3
  mini   0.0  85.9  81.1/71.8 75.4/73.3 66.4/86.2 74.8/74.3
  small  27.8 89.7  83.4/76.2 78.8/77.0 68.1/87.0 77.6/77.0
  medium 38.0 89.6  86.6/81.6 80.4/78.4 69.6/87.9 80.0/79.1
  """,
  "{column}-{line}#": """
  row    qnli rte  wnli ax   glue
  tiny   81.5 57.2 62.3 21.0 64.2
  mini   84.1 57.9 62.3 26.1 65.8
  small  86.4 61.8 62.3 28.6 71.2
  medium 87.7 62.2 62.3 30.5 73.5
  """,
  # Tables 2 and 3, and the README: F1/exact match.
  "{column}-{line}##": """
  row              squad1          squad2
  base             88.5/80.8       76.3
  large            90.9/84.1       81.9/78.7
  base-readme      88.4125/81.2488
  large-readme     90.8708/84.3898
  large-uncased    91.0/84.3
  large-wwm        92.8/86.7
  large-cased      91.5/84.8
  large-cased-wwm  92.9/86.7
  """,
  # The README: whole-word masking, and its examples.
  "{column}": """
  row mnli-large-readme mnli-large-wwm mnli-large-cased mnli-large-cased-wwm
  -   86.05             87.07          86.09            86.46
  """,
  "{column}#": """
  row mrpc-base-readme pretrain-readme
  -   84.5588          0.985479/0.0979328/1.0/3.45724e-05/0.0979674
  """,
  # Table 5.
  "ablation-{line}-{column}": """
  row         mnli qnli mrpc sst-2 squad1
  no-nsp      83.9 84.9 86.5 92.6  87.9
  ltr         82.1 84.3 77.5 92.1  77.8
  """,
  # Table 6; its perplexities are below. Figure 5.
  "size-{line}-{column}": """
  row         mnli mrpc sst-2
  3-768-12    77.9 79.8 88.4
  6-768-3     80.6 82.2 90.7
  6-768-12    81.9 84.8 91.3
  12-768-12   84.4 86.7 92.9
  12-1024-16  85.7 86.9 93.3
  24-1024-16  86.6 87.8 93.7
  """,
  "steps-{line}-{column}": """
  row   mnli
  500k  83.4
  1000k 84.4
  """,
  # Table 7.
  "conll2003-{column}": """
  row base large base-test large-test
  -   96.4 96.6  92.4      92.8
  """,
  "conll2003-features-{line}": """
  row                     -
  embeddings              91.0
  second-to-last          95.6
  last                    94.9
  weighted-sum-last-four  95.9
  concat-last-four        96.1
  weighted-sum-all        95.5
  """,
  # Table 8.
  "masking-{line}-{column}": """
  row       mnli ner  ner-features
  80-10-10  84.2 95.4 94.9
  100-0-0   84.3 94.9 94.0
  80-0-20   84.1 95.2 94.6
  80-20-0   84.4 95.2 94.7
  0-20-80   83.7 94.8 94.6
  0-0-100   83.6 94.9 94.6
  """,
  # multilingual.md.
  "xnli-{line}-{column}": """
  row multilingual-cased multilingual-uncased
  en  81.9               81.4
  zh  76.6               74.2
  es  77.8               77.3
  de  75.9               75.2
  ar  70.7               70.5
  ur  61.6               61.7
  """,
  "xnli-{line}-{column}#": """
  row zero-shot translate-test
  zh  63.8      70.1
  es  74.3      74.9
  de  70.5      74.4
  ar  62.1      70.4
  ur  58.3      62.1
  """,
  "xnli-zh-{column}": """
  row chinese
  -   77.2
  """,
}
PERPLEXITIES = {
  "size-3-768-12": 5.84, "size-6-768-3": 5.24, "size-6-768-12": 4.68,
  "size-12-768-12": 3.99, "size-12-1024-16": 3.54, "size-24-1024-16": 3.23,
  "pretrain-base": 3.99, "pretrain-base-512": 3.99,
}
# NVIDIA's README: the loss of both phases.
LOSSES = {"pretrain-large-lamb-1": 1.67, "pretrain-large-lamb-2": 1.67}
METRICS = {
  "cola": ["eval_matthews"], "mrpc": ["eval_f1", "eval_accuracy"],
  "qqp": ["eval_f1", "eval_accuracy"],
  "sts-b": ["eval_pearson", "eval_spearman"],
  "mnli": ["eval_accuracy", "eval_mismatched_accuracy"],
  "squad1": ["f1", "exact_match"], "squad2": ["f1", "exact"],
  "conll2003": ["f1"],
}
PRETRAINING = [
  "masked_lm_accuracy", "masked_lm_loss", "next_sentence_accuracy",
  "next_sentence_loss", "loss",
]


def published():
  """Yields the name of each row of TABLES, and its published numbers."""
  for pattern, table in TABLES.items():
    header, *lines = map(str.split, table.strip().splitlines())
    for line, *cells in lines:
      for column, cell in zip(header[1:], cells):
        name = pattern.strip("#").format(line=line, column=column)
        yield name, [float(number) for number in cell.split("/")]


def metric_names(row):
  """Returns what eval_results.txt calls a row's published numbers."""
  if row.name.endswith("-test") and row.data not in ("conll2003", "") or (
    row.data == "ax" or not row.script
  ):
    return ["", ""]  # GLUE's server scores them.
  if row.script == "run_pretraining.py":
    return PRETRAINING
  # Later papers give one number for a dev set: the second metric.
  singles = {"sts-b": ["eval_spearman"], **dict.fromkeys(
    ("mrpc", "qqp"), ["eval_accuracy"]
  )}
  if len(row.metrics) == 1 and row.data in singles:
    return singles[row.data]
  return METRICS.get(row.data, ["eval_accuracy"])


def test_every_number_is_that_of_its_table():
  checked = set()
  for name, numbers in published():
    row = rows.ROWS[name]
    assert [metric.published for metric in row.metrics] == numbers, name
    names = [metric.result for metric in row.metrics]
    assert names == metric_names(row)[:len(names)], name
    checked.add(name)
  for name, perplexity in PERPLEXITIES.items():
    [metric] = rows.ROWS[name].metrics
    assert metric.result == "masked_lm_loss"
    assert metric.published == round(math.log(perplexity), 3)
  for name, loss in LOSSES.items():
    [metric] = rows.ROWS[name].metrics
    assert (metric.result, metric.published) == ("loss", loss)
  checked |= {*PERPLEXITIES, *LOSSES}
  assert checked == {row.name for row in rows.ROWS.values() if row.metrics}
  assert sum(len(row.metrics) for row in rows.ROWS.values()) == 219


def test_the_scripts_compute_the_metrics_of_glue():
  for row in rows.ROWS.values():
    if row.data in glue.TASKS and row.script and row.data != "ax":
      task = glue.find(row.data)
      known = {*task.metrics, "accuracy", "mismatched_accuracy"}
      results = {metric.result for metric in row.metrics if metric.result}
      assert {f"eval_{name}" for name in known} >= results


def test_a_chain_begins_with_weights_or_with_a_shape():
  for row in rows.ROWS.values():
    assert row.is_chained <= bool(row.after)
    first = row
    while first.after:
      first = rows.ROWS[first.after]
    assert first.model or first.config or not first.script, row.name


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
