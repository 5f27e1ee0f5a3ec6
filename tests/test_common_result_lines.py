"""result_lines.py writes and logs lines of `name = value`."""

import numpy as np

from common import result_lines


def test_results_are_written_in_order_and_logged_with_notes(tmp_path, caplog):
  caplog.set_level("INFO", logger="absl")
  path = tmp_path / "eval_results.txt"
  results = {"loss": np.float32(0.1), "global_step": 7, "eval_f1": 0.5}
  result_lines.write(str(path), results, {"eval_f1": "of class 'a'"})
  assert path.read_text() == "eval_f1 = 0.5\nglobal_step = 7\nloss = 0.1\n"
  result_lines.write(None, {"f1": 1.0})  # Without a file: only logged.
  messages = [record.getMessage() for record in caplog.records]
  assert messages == [
    "  eval_f1 = 0.5 (of class 'a')",
    "  global_step = 7",
    "  loss = 0.1",
    "  f1 = 1.0",
  ]
