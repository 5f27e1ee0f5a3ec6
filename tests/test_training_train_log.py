"""Tests what a run logs on the screen, in train_log.jsonl and TensorBoard."""

import errno
import io
import json
import os
import pathlib
import types

import numpy as np
import pytest
import tensorflow as tf

from common import file_io
from running import trackers
from training import loop, train_log

SPEED = "examples_per_second"


class Fakes:
  """A clock that a test sets, and a logger that stores its messages."""

  def __init__(self):
    self.now = 1000.0
    self.infos, self.details, self.warnings = [], [], []

  def monotonic(self):
    return self.now

  def info(self, message, *values):
    self.infos.append(message % values)

  def debug(self, message, *values):
    self.details.append(message % values)

  def warning(self, message, *values):
    self.warnings.append(message % values)


@pytest.fixture
def fakes(monkeypatch):
  fakes = Fakes()
  monkeypatch.setattr(train_log, "time", fakes)
  monkeypatch.setattr(train_log, "logging", fakes)
  return fakes


def open_log(folder, *, first_step=0, writes_files=True, **options):
  return train_log.TrainingLog(
    loop.TrainOptions(
      output_dir=str(folder), num_train_steps=100, batch_size=8, **options
    ),
    first_step=first_step,
    writes_files=writes_files,
  )


def log_block(
  log,
  step,
  losses,
  *,
  rate=0.1,
  norms=None,
  overflows=None,
  updates=4,
  scale=1.0,
  **metrics,
):
  """Logs a block with one step per loss; `step` is the last step."""
  metrics = metrics or {"accuracy": (0.0, 1.0)}
  log.block_done(
    step,
    len(losses),
    train_log.BlockResults(
      losses=tf.constant(losses, tf.float32),
      norms=tf.constant(norms or [1.0] * len(losses)),
      overflows=tf.constant(overflows or [False] * len(losses)),
      metrics={n: tuple(map(tf.constant, m)) for n, m in metrics.items()},
      learning_rate=tf.constant(rate),
      applied_updates=tf.constant(updates, tf.int64),
      loss_scale=tf.constant(scale),
    ),
  )


def written(folder):
  text = (pathlib.Path(folder) / "train_log.jsonl").read_text()
  return [json.loads(line) for line in text.splitlines()]


def test_values_are_means_since_the_last_logged_step(tmp_path):
  log = open_log(tmp_path, log_steps=4)
  log_block(log, 2, [1.0, 2.0], accuracy=(2.0, 4.0))
  log_block(log, 4, [3.0, 6.0], accuracy=(4.0, 4.0), rate=0.3, norms=[5.0, 7.0])
  log_block(log, 8, [1.0] * 4, accuracy=(1.0, 2.0))
  log.close()
  first, second = written(tmp_path)
  assert first.pop(SPEED) >= 0
  assert first == {
    "step": 4,
    "loss": 3.0,
    "accuracy": 0.75,
    "skipped_steps": 0,
    "learning_rate": pytest.approx(0.3),
    "gradient_norm": 7.0,
  }
  assert (second["step"], second["loss"], second["accuracy"]) == (8, 1.0, 0.5)


def test_a_block_is_logged_when_the_next_one_is_queued(tmp_path):
  log = open_log(tmp_path, log_steps=1)
  log_block(log, 1, [1.0])
  assert written(tmp_path) == []
  log_block(log, 2, [1.0])
  assert [line["step"] for line in written(tmp_path)] == [1]
  log.close()
  assert [line["step"] for line in written(tmp_path)] == [1, 2]


def test_the_last_step_is_logged_whatever_its_number(tmp_path):
  log = open_log(tmp_path, log_steps=10)
  log_block(log, 10, [1.0] * 10)
  log_block(log, 13, [2.0] * 3)
  log.close()
  assert [(line["step"], line["loss"]) for line in written(tmp_path)] == [
    (10, 1.0),
    (13, 2.0),
  ]


def test_values_are_logged_even_after_an_evaluation(tmp_path):
  log = open_log(tmp_path, log_steps=10)
  log_block(log, 7, [2.0])
  log.evaluated(7, {"loss": 1.0})
  log.close()
  lines = written(tmp_path)
  assert [line["step"] for line in lines] == [7, 7]
  assert lines[0].get("eval/loss") == 1.0
  assert lines[1]["loss"] == 2.0


def test_speed_counts_from_the_end_of_the_first_block(tmp_path, fakes):
  log = open_log(tmp_path, log_steps=4)
  for seconds, step in ((60.0, 2), (1.0, 4), (3.0, 6), (1.0, 8)):
    fakes.now += seconds
    log_block(log, step, [1.0, 1.0])
  assert log.seconds_per_step == 0.5
  log.close()
  # Two steps of 8 examples take one second; then four steps take four seconds.
  assert [line[SPEED] for line in written(tmp_path)] == [16.0, 8.0]


def test_a_device_is_timed_by_its_results(tmp_path, fakes, monkeypatch):
  """The call of a block takes no time; its results take 1 s per step."""
  log = open_log(tmp_path, log_steps=100)
  original_flush = log.flush
  seconds = []
  for waiting_steps, num_steps in ((0, 1), (1, 4), (4, 2)):

    def flush(steps=waiting_steps):
      fakes.now += 1.0 * steps
      original_flush()

    monkeypatch.setattr(log, "flush", flush)
    log.block_begins(0)
    log_block(log, num_steps, [1.0] * num_steps)
    seconds.append(log.seconds_per_step)
  assert seconds == [0.0, 1.0, 1.0]


def test_an_evaluation_does_not_slow_the_training_down(tmp_path, fakes):
  log = open_log(tmp_path, log_steps=2)
  log_block(log, 2, [1.0, 1.0])
  fakes.now += 1.0
  log_block(log, 4, [1.0, 1.0])
  fakes.now += 500.0
  log.evaluated(4, {"loss": 0.5, "accuracy": 0.75})
  fakes.now += 2.0
  log_block(log, 6, [1.0, 1.0])
  assert log.seconds_per_step == 1.0
  log.close()
  lines = written(tmp_path)
  assert [line["step"] for line in lines] == [2, 4, 4, 6]
  assert lines[2] == {"step": 4, "eval/loss": 0.5, "eval/accuracy": 0.75}
  assert lines[3][SPEED] == 8.0
  assert "evaluation at step 4  accuracy 0.75  loss 0.5" in fakes.infos


def test_bad_steps_are_named_counted_and_left_out_of_the_mean(tmp_path, fakes):
  log = open_log(tmp_path, log_steps=6)
  nan = float("nan")
  in_row = []
  for step, losses in ((3, [1.0, nan, nan]), (5, [nan, nan]), (6, [3.0])):
    log_block(log, step, losses)
    in_row.append(log.bad_steps_in_row)
  log.close()
  assert in_row == [0, 2, 4]  # Counted one block late.
  assert log.bad_steps_in_row == 0
  assert [line.split(":")[0] for line in fakes.warnings] == [
    f"step {step} skipped" for step in (2, 3, 4, 5)
  ]
  assert fakes.warnings[-1].endswith("(4 in a row)")
  assert written(tmp_path)[0]["loss"] == 2.0


def test_an_overflow_of_the_loss_scale_is_not_a_bad_step(tmp_path, fakes):
  log = open_log(tmp_path, log_steps=2, loss_scaling=True)
  nan = float("nan")
  log_block(
    log, 2, [nan, nan], overflows=[True, False], updates=0, scale=2.0**13
  )
  log.close()
  assert log.bad_steps_in_row == 1
  assert fakes.infos[0].startswith("step 1 skipped: its gradient overflowed")
  assert [line[:14] for line in fakes.warnings] == ["step 2 skipped"]
  (line,) = written(tmp_path)
  assert (line["skipped_steps"], line["loss_scale"]) == (2, 2.0**13)
  assert "skipped_steps 2" in fakes.details[-1]


def test_values_that_are_not_finite_are_null_in_json(tmp_path):
  log = open_log(tmp_path, log_steps=1)
  log_block(log, 1, [np.nan], norms=[np.inf])
  log.evaluated(1, {"loss": np.nan, "f1": 0.5})
  log.close()
  text = (tmp_path / "train_log.jsonl").read_text()
  assert "NaN" not in text and "Infinity" not in text
  training, evaluation = written(tmp_path)
  assert training["loss"] is None and training["gradient_norm"] is None
  assert evaluation == {"step": 1, "eval/loss": None, "eval/f1": 0.5}


def test_tokens_per_second_come_from_tokens_per_example(tmp_path, fakes):
  log = open_log(tmp_path, log_steps=4)
  for step in (2, 4):
    log_block(log, step, [1.0, 1.0], tokens_per_example=(600.0, 6.0))
    fakes.now += 1.0
  log.close()
  (values,) = written(tmp_path)
  assert values["tokens_per_example"] == 100
  assert values["tokens_per_second"] == 100 * values["examples_per_second"]


def test_a_resumed_run_continues_the_log_where_it_resumes(tmp_path):
  log = open_log(tmp_path, log_steps=1)
  for step in (1, 2, 3):
    log_block(log, step, [float(step)])
  log.close()
  with open(tmp_path / "train_log.jsonl", "a") as stream:
    stream.write('{"st\x00p": 2}\nnull\n')  # Damaged lines.
    stream.write('{"step": 4, "lo')  # The run was killed while it wrote.
  log = open_log(tmp_path, log_steps=1, first_step=2)
  log_block(log, 3, [30.0])
  log.close()
  assert [(line["step"], line["loss"]) for line in written(tmp_path)] == [
    (1, 1.0),
    (2, 2.0),
    (3, 30.0),
  ]


DAMAGED = [
  b"\xff\xfe",
  b'{"step": 2, "loss": \xff}',
  b'{"step": 2, "loss": "1"}',
  b'{"step": 2, "loss": [1]}',
  b'{"step": 2, "loss": NaN}',
  b'{"step": 2, "loss": true}',
  b'{"step": "2"}',
  b'{"step": 2.5}',
  b'{"step": true}',
  b'{"step": null}',
  b'{"loss": 1}',
  b"[" * 10_000,
  b"[2]",
  b"2",
  b"",
]


@pytest.mark.parametrize("line", DAMAGED)
def test_damaged_lines_are_skipped(tmp_path, line):
  good = {"step": 1, "loss": 0.5}, {"step": 3, "loss": None}
  first, last = (json.dumps(entry).encode() for entry in good)
  path = tmp_path / "train_log.jsonl"
  path.write_bytes(b"\n".join([first, line, last, b""]))
  assert trackers.history(str(tmp_path)) == list(good)
  open_log(tmp_path, first_step=1).close()
  assert path.read_bytes() == first + b"\n"


class FullDisk:
  """A stream that cannot be written."""

  def write(self, data):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

  flush = close = lambda self: None


def test_a_full_disk_does_not_end_the_training(tmp_path, caplog, monkeypatch):
  monkeypatch.setattr(file_io, "open_for_appending", lambda _: FullDisk())
  log = open_log(tmp_path, log_steps=1)
  for step in (1, 2, 3):
    log_block(log, step, [float(step)])
  log.close()
  path = f"{tmp_path}/train_log.jsonl"
  messages = [text for text in caplog.messages if path in text]
  assert messages == [
    f"{path} cannot be written (No space left on device); the training goes on",
    f"{path} lacks entries: 3 writes failed",
  ]
  assert tags_of(tmp_path)


def test_a_fault_of_the_program_is_no_full_disk(tmp_path, monkeypatch):
  class Broken(FullDisk):
    def write(self, data):
      raise KeyError("ours")

  monkeypatch.setattr(file_io, "open_for_appending", lambda _: Broken())
  log = open_log(tmp_path, log_steps=1)
  log_block(log, 1, [1.0])
  with pytest.raises(KeyError):
    log.flush()


def test_tensorboard_gets_the_same_values(tmp_path):
  log = open_log(tmp_path, log_steps=1)
  log_block(log, 1, [1.5], accuracy=(3.0, 4.0))
  log.close()
  (path,) = tmp_path.glob("events.out.tfevents.*")
  by_tag = {}
  for serialized in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
    event = tf.compat.v1.Event.FromString(serialized)
    for value in event.summary.value:
      by_tag[value.tag] = (event.step, float(tf.make_ndarray(value.tensor)))
  (line,) = written(tmp_path)
  assert by_tag == {
    name: (1, pytest.approx(value))
    for name, value in line.items()
    if name != "step"
  }


def test_only_the_chief_writes_files(tmp_path):
  folder = tmp_path / "run"
  log = open_log(folder, log_steps=1, writes_files=False)
  log_block(log, 1, [1.0])
  log.evaluated(1, {"loss": 1.0})
  log.close()
  assert not folder.exists()


def test_the_profiler_runs_for_the_requested_steps(tmp_path, monkeypatch):
  calls = []
  monkeypatch.setattr(
    tf.profiler,
    "experimental",
    types.SimpleNamespace(
      start=lambda folder: calls.append(("start", folder)),
      stop=lambda: calls.append("stop"),
    ),
  )
  log = open_log(tmp_path, profile_steps=(4, 8))
  for step in range(0, 12, 2):
    log.block_begins(step)
    calls.append(step)
    log_block(log, step + 2, [1.0, 1.0])
  log.close()
  assert calls == [0, 2, ("start", str(tmp_path)), 4, 6, "stop", 8, 10]


def test_lines_are_shown_at_intervals_and_at_the_end(tmp_path, fakes):
  log = open_log(tmp_path, log_steps=4)
  for step, seconds in ((1, 1.0), (3, 40.0), (4, 1.0), (8, 1.0), (100, 1.0)):
    fakes.now += seconds
    log_block(log, step, [1.0])
  log.close()
  steps = [line.split()[1] for line in (*fakes.infos, *fakes.details)]
  infos, details = steps[:2], steps[2:]
  assert infos == ["3/100", "100/100"] and len(fakes.infos) == 2
  assert details == ["4/100", "8/100"]


def test_a_line_has_values_speed_and_the_remaining_time(tmp_path, fakes):
  log = open_log(tmp_path, log_steps=2)
  log_block(log, 1, [1.0])
  fakes.now += 40.0
  log_block(log, 2, [3.0], accuracy=(1.0, 4.0), rate=1e-5, updates=2)
  log.close()
  assert fakes.details + fakes.infos == [
    "step 2/100  loss 2  0.2 examples/s  1:05:20 left  accuracy 0.2  "
    "learning_rate 1e-05  gradient_norm 1"
  ]


def test_the_first_line_has_only_what_is_known(tmp_path, fakes):
  """Without a speed, a share of tokens, or the loss a second time."""
  log = open_log(tmp_path, log_steps=1)
  metrics = {"classifier_loss": (2.0, 1.0), "fill_rate": (0.5, 1.0)}
  log_block(log, 1, [2.0], rate=1e-5, updates=1, **metrics)
  log.close()
  assert fakes.details == [
    "step 1/100  loss 2  learning_rate 1e-05  gradient_norm 1"
  ]


class Terminal(io.StringIO):
  def isatty(self):
    return True


def test_a_terminal_has_one_bar(tmp_path, fakes, monkeypatch):
  terminal = Terminal()
  monkeypatch.setattr("sys.stderr", terminal)
  monkeypatch.setenv("COLUMNS", "120")
  log = open_log(tmp_path, first_step=48, log_steps=2)
  for step in (49, 50):
    log_block(log, step, [np.pi])
  log.close()
  assert "\n" not in terminal.getvalue().rstrip("\n")
  last = terminal.getvalue().rstrip("\n").split("\r")[-1]
  assert last.startswith("step 50/100  loss 3.142  ")
  assert "  accuracy 0  learning_rate 0.1  " in last
  assert " left   50%|##" in last
  assert fakes.infos == [] and len(fakes.details) == 1


def tags_of(folder):
  return {
    (event.step, value.tag)
    for path in pathlib.Path(folder).glob("events.out.tfevents*")
    for event in tf.compat.v1.train.summary_iterator(str(path))
    for value in event.summary.value
  }


def test_tags_of_evaluations_have_a_prefix(tmp_path):
  log = open_log(tmp_path, log_steps=10)
  log_block(log, 5, [1.0] * 5)
  log.evaluated(5, {"eval_f1": 0.25, "loss": 2.0})
  log_block(log, 8, [1.0] * 3)
  log.close()
  evaluations = [line for line in written(tmp_path) if "eval/f1" in line]
  assert evaluations == [{"step": 5, "eval/f1": 0.25, "eval/loss": 2.0}]
  tags = {(step, tag) for step, tag in tags_of(tmp_path) if "eval" in tag}
  assert tags == {(5, "eval/f1"), (5, "eval/loss")}


def test_the_compilation_of_the_first_step_is_announced(tmp_path, fakes):
  log = open_log(tmp_path, first_step=6)
  log.block_begins(6)
  (message,) = fakes.infos
  assert message.startswith("compiling") and message.endswith("step 7 is done")
  log_block(log, 7, [1.0])
  log.block_begins(7)
  assert len(fakes.infos) == 1
  log.close()


def test_a_final_evaluation_has_the_same_tags(tmp_path):
  trackers.write_evaluation(str(tmp_path), 7, {"eval_f1": 0.25, "loss": 2.0})
  assert tags_of(tmp_path) == {(7, "eval/f1"), (7, "eval/loss")}
  # A folder that cannot be written costs only the summaries.
  (tmp_path / "file").write_text("")
  trackers.write_evaluation(str(tmp_path / "file" / "x"), 7, {"loss": 2.0})
