"""Logs a training run: progress on the screen, and its trackers' records."""

import math
import os
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from common import errors, progress
from running import trackers

# Time between progress lines if there is no terminal to show a progress bar.
_SECONDS_BETWEEN_LINES = 30.0


class BlockResults(NamedTuple):
  """The results of a block of N steps, as tensors."""

  losses: tf.Tensor  # float32 [N], NaN for skipped steps.
  norms: tf.Tensor  # float32 [N], gradient norms before clipping.
  overflows: tf.Tensor  # bool [N], whether float16 gradients overflowed.
  metrics: dict  # {name: (sum, weight)} over the block.
  learning_rate: tf.Tensor  # Of the last step.
  applied_updates: tf.Tensor  # Steps of the whole run that were not skipped.
  loss_scale: tf.Tensor  # After the last step.


class TrainingLog:
  """Logs the results of each block of steps.

  Results are read from the device one block late, when the next block is
  already queued, so that the device does not wait for the log.

  Attributes:
    seconds_per_step: duration of a recent step; 0.0 before the first block.
    bad_steps_in_row: number of consecutive steps, up to the last logged step,
      whose loss or gradient was not finite. An overflow that a smaller loss
      scale fixes does not count.
  """

  def __init__(self, options, *, first_step: int, writes_files: bool = True):
    """Opens the trackers if `writes_files`: only the chief writes files."""
    self.seconds_per_step: float = 0.0
    self.bad_steps_in_row: int = 0
    self._options = options
    # (step, time, results) of the block to log next, and of the block before.
    self._waiting: tuple[int, float, BlockResults] | None = None
    self._last: tuple[int, float, BlockResults] | None = None
    self._profile = os.path.join(options.output_dir, "plugins", "profile")
    self._profiling = False
    # The monotonic clock cannot be set back, unlike time.time().
    self._block_began = self._line_shown = time.monotonic()
    self._speed_from: tuple[int, float] | None = None
    # These collect the values of the steps after the last logged step.
    self._losses: list = []
    self._norms: list = []
    self._metrics: list[dict] = []
    self._bar = progress.bar(options.num_train_steps, first_step)
    self._trackers = None
    if writes_files:
      tf.io.gfile.makedirs(options.output_dir)
      self._trackers = trackers.Trackers(options.output_dir, first_step)

  def block_begins(self, step: int) -> None:
    """Records the time; starts the profiler at the first of --profile_steps."""
    if self._speed_from is None:
      logging.info(
        "compiling the training step: nothing is shown until step %d is done",
        step + 1,
      )
    self._block_began = time.monotonic()
    edges = self._options.profile_steps
    if edges and edges[0] <= step < edges[1] and not self._profiling:
      with errors.by_product(self._profile):
        tf.profiler.experimental.start(self._options.output_dir)
        self._profiling = True

  def evaluated(self, step: int, results: dict[str, float]) -> None:
    """Logs the results of an evaluation during training."""
    self.flush()
    text = "  ".join(f"{k} {v:.4g}" for k, v in sorted(results.items()))
    logging.info("evaluation at step %d  %s", step, text)
    if self._trackers:
      self._trackers.evaluated(step, results)
    # The training speed does not include the time of evaluations.
    self._block_began = time.monotonic()
    self._speed_from = step, self._block_began

  def block_done(
    self, step: int, num_steps: int, results: BlockResults
  ) -> None:
    """Records a block of steps, which ends at `step`."""
    self._measure(num_steps)
    moment = time.monotonic()
    self._waiting = step, moment, results
    if self._speed_from is None:
      # The speed is measured from the end of the first block, which compiles.
      self._speed_from = step, moment
    if self._profiling and step >= self._options.profile_steps[1]:
      self._stop_profiler()

  def _measure(self, num_steps: int) -> None:
    """Logs the previous block, and measures the duration of a step.

    On an accelerator, the call of a block returns at once, and this method
    waits for the results of the previous block. On a CPU, the call takes all
    the time. So the duration of a step is the time of the call divided by the
    steps of this block, plus the wait divided by the previous block's steps.
    """
    returned = time.monotonic()
    seconds = (returned - self._block_began) / num_steps
    if self._waiting:
      steps_waited_for = len(self._waiting[2].losses)
      self.flush()
      seconds += (time.monotonic() - returned) / steps_waited_for
    self.seconds_per_step = seconds
    self._block_began = time.monotonic()

  def close(self) -> None:
    """Logs the remaining results and closes the files."""
    self.flush()
    if self._metrics:
      self._show(is_due=True)
    if self._profiling:
      self._stop_profiler()
    self._bar.close()
    if self._trackers:
      self._trackers.close()

  def _stop_profiler(self) -> None:
    self._profiling = False
    with errors.by_product(self._profile):
      tf.profiler.experimental.stop()

  def flush(self) -> None:
    """Waits for the last block and logs it."""
    if not self._waiting:
      return
    (step, moment, results), self._waiting = self._waiting, None
    # Here the host waits for the device.
    results = tf.nest.map_structure(np.asarray, results)
    self._log_bad_steps(step, results)
    self._losses.extend(results.losses)
    self._norms.extend(results.norms)
    self._metrics.append(results.metrics)
    self._last = step, moment, results
    self._show(is_due=step % self._options.log_steps == 0)

  def _show(self, is_due: bool) -> None:
    """Shows the current values, and writes them to the files if `is_due`."""
    assert self._last
    step, moment, results = self._last
    is_long_ago = moment - self._line_shown > _SECONDS_BETWEEN_LINES
    is_shown = self._bar.disable and (
      is_long_ago or step == self._options.num_train_steps
    )
    if is_due or is_shown or not self._bar.disable:
      values = self._values(step, moment, results)
      self._bar.describe(*self._texts(step, values))
      self._bar.update(step - self._bar.n)
    if is_shown:
      self._line_shown = moment
    if is_shown or is_due:
      log = logging.info if is_shown else logging.debug
      log("%s", self._line(step, values))
    if is_due:
      if self._trackers:
        self._trackers.write(step, values)
      self._speed_from = step, moment
      self._losses, self._norms, self._metrics = [], [], []

  def _log_bad_steps(self, step, results: BlockResults) -> None:
    steps = range(step - len(results.losses) + 1, step + 1)
    rows = zip(steps, results.losses, results.overflows)
    for number, loss, is_overflow in rows:
      if np.isfinite(loss):
        self.bad_steps_in_row = 0
      elif is_overflow:
        logging.info(
          "step %d skipped: its gradient overflowed float16; the loss scale is "
          "halved",
          number,
        )
      else:
        self.bad_steps_in_row += 1
        logging.warning(
          "step %d skipped: its loss or gradient was not finite (%d in a row)",
          number,
          self.bad_steps_in_row,
        )

  def _values(self, step, moment, results: BlockResults) -> dict:
    """Returns the values to log: means since the last log, and the speed."""
    # The loss of skipped steps is NaN.
    finite = [loss for loss in self._losses if np.isfinite(loss)]
    values = {"loss": np.mean(finite) if finite else np.nan}
    for name in self._metrics[0]:
      # Blocks may differ in weight, so the mean of their means would be wrong.
      total, weight = np.sum([m[name] for m in self._metrics], axis=0)
      values[name] = total / weight if weight else np.nan
    values["learning_rate"] = results.learning_rate
    # This is the norm before clipping.
    values["gradient_norm"] = self._norms[-1]
    # Both counts include the steps of earlier starts of the run.
    values["skipped_steps"] = step - results.applied_updates
    if self._options.loss_scaling:
      values["loss_scale"] = results.loss_scale
    assert self._speed_from
    first_step, began = self._speed_from
    examples = (step - first_step) * self._options.batch_size
    speed = examples / (moment - began) if moment > began else 0.0
    values["examples_per_second"] = speed
    if "tokens_per_example" in values:
      values["tokens_per_second"] = values["tokens_per_example"] * speed
    return {name: float(value) for name, value in values.items()}

  def _texts(self, step, values) -> tuple:
    """Returns ("step 20/100  loss 2.31  12.5 examples/s", "accuracy 0.8 ...").

    A narrow terminal leaves out the second text.
    """
    parts = [
      f"step {step}/{self._options.num_train_steps}",
      f"loss {values['loss']:.4g}",
    ]
    # The first block, which compiles, has no speed.
    if speed := values["examples_per_second"]:
      parts.append(f"{speed:,.1f} examples/s")
    others = [
      f"{name} {value:.4g}"
      for name, value in values.items()
      if name not in ("loss", "fill_rate")
      and not name.startswith(("examples_", "tokens_"))
      # The number of skipped steps is omitted while it is 0.
      and (value or name != "skipped_steps")
      # The only loss of a task equals its sum.
      and not (name.endswith("_loss") and math.isclose(value, values["loss"]))
    ]
    return "  ".join(parts), "  ".join(others)

  def _line(self, step, values) -> str:
    first, others = self._texts(step, values)
    left = (self._options.num_train_steps - step) * self._options.batch_size
    if speed := values["examples_per_second"]:
      first += f"  {progress.interval(left / speed)} left"
    return f"{first}  {others}"
