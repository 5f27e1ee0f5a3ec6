"""What a training run says: a progress line, TensorBoard, train_log.jsonl."""

import json
import os
import sys
import time

import numpy as np
import tensorflow as tf
from absl import logging

# On a terminal one line is rewritten; elsewhere a line comes this often.
_SECONDS_BETWEEN_LINES = 30.0


class TrainingLog:
  """Takes the results of each block of steps and tells them.

  Results are read from the device one block late, when the next block is
  already queued, so that telling never holds up computing.

  Attributes:
    seconds_per_step: of the last block; 0.0 before the second one.
    bad_steps_in_row: how many steps, up to the last one told, had no finite
      loss or gradient.
  """

  def __init__(self, options, *, first_step, writes_files=True):
    """Opens the files.

    Args:
      options: training_loop.TrainOptions.
      first_step: the step that training starts or resumes at.
      writes_files: False for processes that are not the chief.
    """
    self.seconds_per_step = 0.0
    self.bad_steps_in_row = 0
    self._options = options
    self._waiting = None
    self._step = self._told = first_step
    self._block_began = self._line_shown = time.monotonic()
    self._reset_interval()
    self._screen = _Screen()
    self._files = _Files(options.output_dir) if writes_files else None

  def _reset_interval(self):
    """Starts the sums behind the values of the next logged step."""
    self._interval_began = time.monotonic()
    self._losses, self._norms, self._metrics = [], [], []

  def block_done(self, step, num_steps, results):
    """Takes note of a block of steps.

    Args:
      step: the number of steps done, this block included.
      num_steps: how many of them were in this block.
      results: losses [num_steps], dict from metric to (sum, weight) over the
        block, last learning rate, gradient norms [num_steps]; tensors.
    """
    waiting, self._waiting = self._waiting, (step, results)
    if waiting:
      self._tell(*waiting)
    now = time.monotonic()
    self.seconds_per_step = (now - self._block_began) / num_steps
    self._block_began = now

  def close(self):
    """Tells the last block and closes the files."""
    if self._waiting:
      self._tell(*self._waiting, is_last=True)
    self._screen.end()
    if self._files:
      self._files.close()

  def _tell(self, step, results, is_last=False):
    losses, metrics, rate, norms = tf.nest.map_structure(np.asarray, results)
    self._name_bad_steps(step, losses)
    self._losses.extend(losses)
    self._norms.extend(norms)
    self._metrics.append(metrics)
    now = time.monotonic()
    is_due = step % self._options.log_steps == 0 or is_last
    since = now - self._line_shown
    if is_due or self._screen.is_terminal or since > _SECONDS_BETWEEN_LINES:
      values = self._values(step, rate, now - self._interval_began)
      self._screen.show(self._line(step, values), keep=is_due)
      self._line_shown = now
    if is_due:
      if self._files:
        self._files.write(step, values)
      self._told = step
      self._reset_interval()

  def _name_bad_steps(self, step, losses):
    for number, loss in enumerate(losses, step - len(losses) + 1):
      if np.isfinite(loss):
        self.bad_steps_in_row = 0
        continue
      self.bad_steps_in_row += 1
      self._screen.end()
      logging.warning(
        "step %d skipped: its loss or gradient was not finite (%d in a row)",
        number, self.bad_steps_in_row,
      )

  def _values(self, step, rate, seconds):
    """What is logged: means since the last logged step, and speed."""
    steps = step - self._told
    values = {"loss": np.nanmean(self._losses) if self._losses else np.nan}
    for name in self._metrics[0]:
      total, weight = np.sum([m[name] for m in self._metrics], axis=0)
      values[name] = total / weight if weight else np.nan
    values["learning_rate"] = rate
    values["gradient_norm"] = self._norms[-1]
    values["examples_per_second"] = (
      steps * self._options.batch_size / max(seconds, 1e-9)
    )
    return {name: float(value) for name, value in values.items()}

  def _line(self, step, values):
    total = self._options.num_train_steps
    speed = values["examples_per_second"]
    left = (total - step) * self._options.batch_size / max(speed, 1e-9)
    shown = [
      f"{name} {value:.4g}"
      for name, value in values.items()
      if name != "examples_per_second"
    ]
    return (
      f"step {step}/{total}  {'  '.join(shown)}  "
      f"{speed:.1f} examples/s  {_clock(left)} left"
    )


class _Screen:
  """Standard error: one rewritten line on a terminal, log lines elsewhere."""

  def __init__(self):
    self.is_terminal = sys.stderr.isatty()
    self._width = 0

  def show(self, line, keep):
    if not self.is_terminal:
      logging.info("%s", line)
      return
    sys.stderr.write("\r" + line.ljust(self._width))
    sys.stderr.flush()
    self._width = len(line)
    if keep:
      self.end()

  def end(self):
    """Moves on to a fresh line."""
    if self._width:
      sys.stderr.write("\n")
      self._width = 0


class _Files:
  """TensorBoard summaries and train_log.jsonl in a run's folder."""

  def __init__(self, folder):
    tf.io.gfile.makedirs(folder)
    self._summaries = tf.summary.create_file_writer(folder)
    self._lines = tf.io.gfile.GFile(
      os.path.join(folder, "train_log.jsonl"), "a"
    )

  def write(self, step, values):
    with self._summaries.as_default(step=step):
      for name, value in values.items():
        tf.summary.scalar(name, value)
    self._summaries.flush()
    self._lines.write(json.dumps({"step": step, **values}) + "\n")
    self._lines.flush()

  def close(self):
    self._summaries.close()
    self._lines.close()


def _clock(seconds):
  minutes, seconds = divmod(int(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  return f"{hours}:{minutes:02d}:{seconds:02d}"
