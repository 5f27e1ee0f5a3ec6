"""Checks the numbers of the published tables, and the flags of their rows."""

import math

import pytest
from absl import flags

import script_flags
from classification import glue
from reproduction import catalog, rows, runs

SCRIPTS = sorted({row.script for row in rows.ROWS.values() if row.script})


def test_models_data_and_chains_exist():
  for row in rows.ROWS.values():
    assert row.source and (row.script or row.note)
    assert not row.model or row.model in catalog.MODELS
    assert not (row.model and row.is_chained)
    assert row.is_chained <= bool(row.after)
    assert row.data in ("", *catalog.DATA, *catalog.ELSEWHERE)
    for metric in row.metrics:
      assert (
        metric.low is None or metric.high is None or (metric.low < metric.high)
      )
    first = row
    while first.after:
      first = rows.ROWS[first.after]
    # A chain begins with weights or with a configuration.
    assert first.model or first.config or not first.script, row.name


# The published tables, in the order of rows.csv. A slash separates the metrics
# of a row, such as MNLI matched/mismatched, F1/accuracy or F1/exact match.
PUBLISHED = {
  # mnli qqp qnli sst-2 cola sts-b mrpc rte: base, large; then both averages.
  "paper, table 1": """
    84.6/83.4 71.2 90.5 93.5 52.1 85.8 88.9 66.4
    86.7/85.9 72.1 92.7 94.9 60.5 86.5 89.3 70.1 79.6 82.1""",
  "paper, table 2": "88.5/80.8 90.9/84.1",
  "paper, table 3": "81.9/78.7",
  "paper, table 4": "81.6 86.6",
  # mnli qnli mrpc sst-2 (and squad1): BERT, no next sentences, left to right,
  # and that with a BiLSTM.
  "paper, table 5": """
    84.4 88.4 86.7 92.7 83.9 84.9 86.5 92.6 87.9
    82.1 84.3 77.5 92.1 77.8 82.1 84.1 75.7 91.6 84.9""",
  # Losses of pretrain-base and of the sizes; then mnli mrpc sst-2 of each size.
  "paper, table 6": " ".join(
    [f"{math.log(p):.3f}" for p in (3.99, 5.84, 5.24, 4.68, 3.99, 3.54, 3.23)]
  )
  + """
    77.9 79.8 88.4 80.6 82.2 90.7 81.9 84.8 91.3
    84.4 86.7 92.9 85.7 86.9 93.3 86.6 87.8 93.7""",
  "paper, table 7": "96.4 96.6 91.0 95.6 94.9 95.9 96.1 95.5 92.4 92.8",
  # For each way of masking: mnli, conll2003 fine-tuned and with features.
  "paper, table 8": """
    84.2 95.4 94.9 84.3 94.9 94.0 84.1 95.2 94.6
    84.4 95.2 94.7 83.7 94.8 94.6 83.6 94.9 94.6""",
  "paper, figure 5": "83.4 84.4",
  "paper, appendix A.2": f"{math.log(3.99):.3f}",
  "BERT-Base in arXiv 1910.01108, table 1": "89.6 56.3 89.0 69.3 53.5",
  "BERT-Large in arXiv 1907.11692, table 5": (
    "86.6 91.3 92.3 93.2 60.6 90.0 88.0 70.4"
  ),
  "BERT-Base in arXiv 1907.11692, table 2": "76.3",
  "NVIDIA's README, phase 1": "1.67",
  "NVIDIA's README, phase 2": "1.67",
  "README": "88.4125/81.2488 90.8708/84.3898 84.5588",
  "README, pre-training": "0.985479/0.0979328/1.0/3.45724e-05/0.0979674",
  "README, whole-word masking": (
    "91.5/84.8 92.8/86.7 92.9/86.7 86.05 87.07 86.09 86.46 91.0/84.3"
  ),
  # cola sst-2 mrpc sts-b qqp mnli qnli rte wnli; at the end glue and ax.
  "README, test set": """
    0.0 83.2 81.1/71.1 74.3/73.6 62.2/83.4 70.2/70.3 81.5 57.2 62.3
    0.0 85.9 81.1/71.8 75.4/73.3 66.4/86.2 74.8/74.3 84.1 57.9 62.3
    27.8 89.7 83.4/76.2 78.8/77.0 68.1/87.0 77.6/77.0 86.4 61.8 62.3
    38.0 89.6 86.6/81.6 80.4/78.4 69.6/87.9 80.0/79.1 87.7 62.2 62.3
    64.2 21.0 65.8 26.1 71.2 28.6 73.5 30.5""",
  "notebook": "86.64/86.6",
  # en zh es de ar ur of both multilingual models; Chinese; then zh es de ar ur,
  # zero-shot and with translated tests.
  "multilingual.md": """
    81.9 76.6 77.8 75.9 70.7 61.6 81.4 74.2 77.3 75.2 70.5 61.7 77.2
    63.8 74.3 70.5 62.1 58.3 70.1 74.9 74.4 70.4 62.1""",
}
NAMES = {
  "squad1": ["f1", "exact_match"],
  "squad2": ["f1", "exact"],
  "conll2003": ["f1"],
  "imdb": ["eval_accuracy", "eval_f1"],
}
PRETRAINING_NAMES = [
  "masked_lm_accuracy",
  "masked_lm_loss",
  "next_sentence_accuracy",
  "next_sentence_loss",
  "loss",
]


def metric_names(row, count):
  """Returns the names of a row's `count` numbers in eval_results.txt."""
  if (
    row.data == "ax"
    or not row.script
    or (row.data in glue.TASKS and row.name.endswith("-test"))
  ):
    return [""] * count  # GLUE's server scores them.
  if row.script == "run_pretraining.py":
    single = ["loss" if "lamb" in row.name else "masked_lm_loss"]
    return single if count == 1 else PRETRAINING_NAMES
  if row.data in NAMES:
    return NAMES[row.data][:count]
  names = [f"eval_{name}" for name in glue.find(row.data or "xnli").metrics]
  if row.data == "mnli" and count > 1:
    names.append("eval_mismatched_accuracy")
  # Later papers give one number for a dev set: the second metric.
  return names[-count:]


def test_numbers_and_metrics_are_those_of_the_published_tables():
  numbers: dict[str, list] = {}
  for row in rows.ROWS.values():
    if row.metrics:
      published = [metric.published for metric in row.metrics]
      numbers.setdefault(row.source, []).append(published)
      names = [metric.result for metric in row.metrics]
      assert names == metric_names(row, len(names)), row.name
  assert numbers == {
    source: [list(map(float, cell.split("/"))) for cell in text.split()]
    for source, text in PUBLISHED.items()
  }


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_script_of_each_row_takes_its_flags(script, tmp_path):
  (tmp_path / "config.json").write_text("{}")
  (tmp_path / "model.safetensors").write_text("")
  plan = runs.Plan(None, str(tmp_path), str(tmp_path), "out", 7)
  with script_flags.defined(script.removesuffix(".py")):
    for row in rows.ROWS.values():
      if row.script == script:
        flags.FLAGS.unparse_flags()
        flags.FLAGS(runs.command(plan._replace(row=row), 1)[1:])
