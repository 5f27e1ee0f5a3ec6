"""pretraining_ways.py: its rows have every extension and known flags."""

import json
import pathlib

import pytest

import pretraining_ways
import script_flags
from pretraining import points

KINDS = {
  points.OBJECTIVES: "masked_lm next_sentence",
  points.NETWORKS: "encoder next_word",
  points.MASKINGS: "pieces",
  points.PACKINGS: "sentence_pairs",
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.flag)
def test_every_extension_has_a_row(kind):
  place = pathlib.Path(pretraining_ways.__file__).with_suffix(".csv")
  text = place.read_text("utf-8")
  defaults = KINDS[kind].split()
  missing = [n for n in kind.names() if n not in text and n not in defaults]
  assert not missing


def test_the_flags_of_all_rows_are_defined(tmp_path):
  for column, script in (
    ("records", "create_pretraining_data"),
    ("training", "run_pretraining"),
  ):
    with script_flags.defined(script) as names:
      for row in pretraining_ways.rows(""):
        flags = pretraining_ways.split_flags(row[column], tmp_path)
        assert {flag[2:].partition("=")[0] for flag in flags} <= {*names}


def test_a_row_is_described(tmp_path):
  (row,) = pretraining_ways.rows("^spans")
  results = {"loss": 2.5, "masked_lm_loss": 2.5, "masked_lm_accuracy": 0.125}
  (tmp_path / "eval_results.json").write_text(json.dumps(results))
  lines = [
    {"step": 10, "examples_per_second": 80.0},
    {"step": 20, "eval/loss": 3.0, "examples_per_second": 160.0},
  ]
  log = "".join(json.dumps(line) + "\n" for line in lines)
  (tmp_path / "train_log.jsonl").write_text(log)
  line = pretraining_ways.describe(row, tmp_path)
  assert line == "| spans | 2.500 | masked_lm 2.500 (12.5%) | 160 |"
  assert [*pretraining_ways.progress(tmp_path, 32)] == [(20, 6.0, 3.0)]
