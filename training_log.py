"""What a training run says: a progress line, TensorBoard, train_log.jsonl."""

import json
import os
import sys
import time

import numpy as np
import tensorflow as tf
from absl import logging

import data_files

# On a terminal one line is rewritten; elsewhere a line comes this often.
_SECONDS_BETWEEN_LINES = 30.0

# A loss is called a spike if it is so many times the recent mean, which is an
# exponential moving average with this weight of the newest step.
_SPIKE_FACTOR, _NEWEST_WEIGHT, _STEPS_BEFORE_SPIKES = 3.0, 0.02, 50


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
    self._steps_told, self._recent_loss = 0, 0.0
    self._waiting = self._last = None
    self._profiling = False
    self._block_ended = self._line_shown = time.monotonic()
    self._speed_from = None
    self._reset_interval()
    self._screen = _Screen()
    self._files = None
    if writes_files:
      self._files = _Files(options.output_dir, first_step)

  def _reset_interval(self):
    """Starts the sums behind the values of the next logged step."""
    self._losses, self._norms, self._metrics = [], [], []

  def block_begins(self, step, num_steps):
    """Starts the profiler where --profile_steps begins in this block."""
    edges = self._options.profile_steps
    if edges and edges[0] <= step < edges[1] and not self._profiling:
      tf.profiler.experimental.start(self._options.output_dir)
      self._profiling = True

  def evaluated(self, step, results):
    """Tells the results of an evaluation during training."""
    self._tell_waiting()
    shown = "  ".join(f"{k} {v:.4g}" for k, v in sorted(results.items()))
    self._screen.end()
    logging.info("evaluation at step %d  %s", step, shown)
    if self._files:
      self._files.write(step, {f"eval/{k}": v for k, v in results.items()})
    # What an evaluation takes is not the speed of training.
    self._block_ended = time.monotonic()
    self._speed_from = step, self._block_ended

  def block_done(self, step, num_steps, results):
    """Takes note of a block of steps.

    Args:
      step: the number of steps done, this block included.
      num_steps: how many of them were in this block.
      results: losses [num_steps], dict from metric to (sum, weight) over the
        block, last learning rate, gradient norms [num_steps]; tensors.
    """
    self._tell_waiting()
    self._waiting = step, time.monotonic(), results
    if self._speed_from is None:
      # The first block traces and compiles: speed counts from its end.
      self._speed_from = self._waiting[:2]
    if self._profiling and step >= self._options.profile_steps[1]:
      self._stop_profiler()
    now = time.monotonic()
    self.seconds_per_step = (now - self._block_ended) / num_steps
    self._block_ended = now

  def close(self):
    """Tells what is left to tell and closes the files."""
    self._tell_waiting()
    if self._metrics:
      self._show(is_due=True)
    if self._profiling:
      self._stop_profiler()
    self._screen.end()
    if self._files:
      self._files.close()

  def _stop_profiler(self):
    tf.profiler.experimental.stop()
    self._profiling = False

  def _tell_waiting(self):
    if not self._waiting:
      return
    (step, moment, results), self._waiting = self._waiting, None
    losses, metrics, rate, norms = tf.nest.map_structure(np.asarray, results)
    self._name_bad_steps(step, losses)
    self._losses.extend(losses)
    self._norms.extend(norms)
    self._metrics.append(metrics)
    self._last = step, moment, rate
    self._show(is_due=step % self._options.log_steps == 0)

  def _show(self, is_due):
    """Shows the values of now, and writes them down if that is due."""
    step, moment, rate = self._last
    is_long_ago = moment - self._line_shown > _SECONDS_BETWEEN_LINES
    if is_due or self._screen.is_terminal or is_long_ago:
      values = self._values(step, moment, rate)
      self._screen.show(self._line(step, values), keep=is_due)
      self._line_shown = moment
    if is_due:
      if self._files:
        self._files.write(step, values)
      self._speed_from = step, moment
      self._reset_interval()

  def _name_bad_steps(self, step, losses):
    for number, loss in enumerate(losses, step - len(losses) + 1):
      if np.isfinite(loss):
        self.bad_steps_in_row = 0
        self._name_spike(number, loss)
        continue
      self.bad_steps_in_row += 1
      self._screen.end()
      logging.warning(
        "step %d skipped: its loss or gradient was not finite (%d in a row)",
        number, self.bad_steps_in_row,
      )

  def _name_spike(self, number, loss):
    self._steps_told += 1
    if self._steps_told > _STEPS_BEFORE_SPIKES:
      if loss > _SPIKE_FACTOR * self._recent_loss:
        self._screen.end()
        logging.warning(
          "step %d: loss spike, %.4g is %.1f times the recent %.4g",
          number, loss, loss / self._recent_loss, self._recent_loss,
        )
    # A plain mean at first, until the newest step's weight is the fixed one.
    weight = max(_NEWEST_WEIGHT, 1 / self._steps_told)
    self._recent_loss += weight * (loss - self._recent_loss)

  def _values(self, step, moment, rate):
    """What is logged: means since the last logged step, and speed."""
    finite = [loss for loss in self._losses if np.isfinite(loss)]
    values = {"loss": np.mean(finite) if finite else np.nan}
    for name in self._metrics[0]:
      total, weight = np.sum([m[name] for m in self._metrics], axis=0)
      values[name] = total / weight if weight else np.nan
    values["learning_rate"] = rate
    values["gradient_norm"] = self._norms[-1]
    first_step, began = self._speed_from
    values["examples_per_second"] = (
      (step - first_step) * self._options.batch_size / (moment - began)
      if moment > began
      else 0.0
    )
    if "tokens_per_example" in values:
      values["tokens_per_second"] = (
        values["tokens_per_example"] * values["examples_per_second"]
      )
    return {name: float(value) for name, value in values.items()}

  def _line(self, step, values):
    total = self._options.num_train_steps
    speed = values["examples_per_second"]
    left = (total - step) * self._options.batch_size
    shown = [
      f"{name} {value:.4g}"
      for name, value in values.items()
      if not name.startswith(("examples_", "tokens_"))
    ]
    return (
      f"step {step}/{total}  {'  '.join(shown)}  {speed:.1f} examples/s"
      + (f"  {_clock(left / speed)} left" if speed else "")
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

  def __init__(self, folder, first_step):
    tf.io.gfile.makedirs(folder)
    self._summaries = tf.summary.create_file_writer(folder)
    path = os.path.join(folder, "train_log.jsonl")
    kept = _lines_up_to(path, first_step)
    data_files.write_text(path, kept)
    self._lines = tf.io.gfile.GFile(path, "a")

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


def _lines_up_to(path, step):
  """The log of an earlier start, without the steps that are done again."""
  if not tf.io.gfile.exists(path):
    return ""
  with tf.io.gfile.GFile(path, "r") as stream:
    # A line that was cut short by a kill has no newline.
    lines = [line for line in stream if line.endswith("\n")]
  return "".join(line for line in lines if json.loads(line)["step"] <= step)


def _clock(seconds):
  minutes, seconds = divmod(int(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  return f"{hours}:{minutes:02d}:{seconds:02d}"
