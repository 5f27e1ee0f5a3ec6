"""Tests what the trackers record; test_training_train_log.py has the values."""

import pytest

from common import extensions, file_io
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


def test_records_are_in_the_files_while_the_run_goes_on(tmp_path, monkeypatch):
  opened = []
  open_file = file_io.open_for_appending
  monkeypatch.setattr(
    file_io,
    "open_for_appending",
    lambda path: opened.append(open_file(path)) or opened[-1],
  )
  run = trackers.Trackers(str(tmp_path), 0)
  run.write(3, {"loss": 2.0, "worse": float("nan")})
  assert trackers.history(str(tmp_path)) == [
    {"step": 3, "loss": 2.0, "worse": None}
  ]
  (events,) = tmp_path.glob("events*")
  assert b"loss" in events.read_bytes()
  run.close()
  assert [stream.closed for stream in opened] == [True]
