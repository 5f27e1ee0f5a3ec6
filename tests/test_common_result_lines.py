"""result_lines.py writes and logs lines of `name = value`."""

import json

import numpy as np

from common import result_lines


def test_results_are_written_in_order_and_logged_with_notes(tmp_path, caplog):
  caplog.set_level("INFO", logger="absl")
  path = tmp_path / "eval_results.txt"
  results = {"loss": np.float32(0.1), "global_step": 7, "eval_f1": 0.5}
  result_lines.write(str(path), results, {"eval_f1": "of class 'a'"})
  assert path.read_text() == "eval_f1 = 0.5\nglobal_step = 7\nloss = 0.1\n"
  values = (tmp_path / "eval_results.json").read_text()
  assert values == (
    '{\n  "eval_f1": 0.5,\n  "global_step": 7,\n  "loss": 0.1\n}\n'
  )
  result_lines.write(None, {"f1": 1.0})  # Without a file: only logged.
  messages = [record.getMessage() for record in caplog.records]
  assert messages == [
    "  eval_f1 = 0.5 (of class 'a')",
    "  global_step = 7",
    "  loss = 0.1",
    "  f1 = 1.0",
  ]


def test_a_result_that_is_no_number_is_null(tmp_path):
  """JSON has no NaN."""
  results = {"f1": float("nan"), "loss": np.float32("inf"), "n": 1}
  result_lines.write_files(str(tmp_path / "test_results.txt"), results)
  stored = json.loads((tmp_path / "test_results.json").read_text())
  assert stored == {"f1": None, "loss": None, "n": 1}
