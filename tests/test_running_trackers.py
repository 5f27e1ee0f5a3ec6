"""Tests what the trackers record; test_training_train_log.py has the values."""

import pytest

from common import extensions
from running import trackers

RECORDS = [{"step": 3, "loss": 2.0}, {"step": 3, "eval/f1": 0.5}]


@pytest.mark.parametrize(
  "files, kinds, history",
  [
    (("json_lines", "tensorboard"), {"train_log", "events"}, RECORDS),
    (("json_lines",), {"train_log"}, RECORDS),
    (("tensorboard",), {"events"}, []),
    ((), set(), []),
  ],
)
def test_each_file_records_alone(tmp_path, monkeypatch, files, kinds, history):
  monkeypatch.setattr(extensions, "names", lambda _: files)
  run = trackers.Trackers(str(tmp_path), 0)
  run.write(3, {"loss": 2.0})
  run.evaluated(3, {"eval_f1": 0.5})
  run.close()
  trackers.write_evaluation(str(tmp_path), 3, {"eval_f1": 0.5})
  written = [path.name for path in tmp_path.iterdir()]
  assert {name.partition(".")[0] for name in written} == kinds
  # The final evaluation of TensorBoard has a file of its own.
  assert len(written) == ("json_lines" in files) + 2 * ("tensorboard" in files)
  assert trackers.history(str(tmp_path)) == history
