"""Trains, evaluates, saves and resumes with any tf.distribute strategy.

This module is independent of BERT: a script passes the variables, an
objective, an optimizer and a stream of batches. training_step.py has one step;
all its randomness is a function of (seed, step), so a resumed run equals a run
that was never stopped.
"""

import contextlib
import dataclasses
import functools
import math
import signal
from collections.abc import Callable, Iterable, Iterator

import tensorflow as tf
from absl import logging

import named_weights
import optimization
import optimizers
from checkpoints import weight_files
from common import errors
from training import (
  background_saving,
  batch_parts,
  distribution,
  evaluation_loop,
  run_folder,
  train_log,
  training_step,
)

EXIT_INTERRUPTED = errors.STOPPED

# The target duration of one call of the compiled loop. Between two calls, the
# host shows progress and checks for signals.
_SECONDS_PER_CALL = 5.0

# Weights count as ruined if their norm grows by this factor during a run. In
# pre-training from random weights, the norm grows by a factor of ten.
_RUINOUS_GROWTH = 1000.0


@dataclasses.dataclass(frozen=True)
class TrainOptions:
  """The options of a training run; steps are optimizer steps.

  The run ends at num_train_steps; the schedule may be longer (--stop_step).
  """

  output_dir: str  # Folder of checkpoints, summaries and logs.
  num_train_steps: int
  save_checkpoints_steps: int = 1000  # The last step is always saved.
  # Maximum number of steps in one call of the compiled loop, without the host.
  iterations_per_loop: int = 1000
  log_steps: int = 100
  batch_size: int = 32  # Over all replicas.
  seed: int = 12345  # Dropout is a function of (seed, step, replica, part).
  # Number of parts into which a replica splits its share, to save memory.
  gradient_accumulation_steps: int = 1
  jit_compile: bool = False  # Whether XLA compiles the step.
  loss_scaling: bool = False  # Whether to scale the loss, for float16.
  max_to_keep: int = 5
  max_bad_steps: int = 10  # This many non-finite steps in a row end the run.
  profile_steps: tuple = ()  # First and last step to profile.


class StopRequest:
  """A request to end the run; `by` names the signal, or is None without one."""

  by = None

  def note(self, number: int, frame) -> None:
    """Records a signal; a SIGINT after another signal interrupts at once."""
    del frame
    # A second SIGTERM changes nothing, because schedulers may send several.
    if self.by and number == signal.SIGINT:
      raise KeyboardInterrupt
    self.by = signal.Signals(number).name
    logging.info("%s: finishing the current steps, then saving", self.by)


@contextlib.contextmanager
def catch_signals() -> Iterator[StopRequest]:
  """Records SIGTERM and SIGINT in its block instead of ending the process."""
  stop = StopRequest()
  numbers = (signal.SIGTERM, signal.SIGINT)
  previous = [signal.signal(number, stop.note) for number in numbers]
  try:
    yield stop
  finally:
    for number, handler in zip(numbers, previous):
      signal.signal(number, handler)


class Trainer:
  """Runs optimizer steps, and saves their state.

  Attributes:
    training_step: the training_step.TrainingStep.
    global_step, applied_updates: its counters.
  """

  def __init__(
    self,
    *,
    strategy: tf.distribute.Strategy,
    variables: Iterable[tf.Variable],
    trained: Iterable[tf.Variable],
    objective: training_step.Objective,
    optimizer: optimizers.AdamWeightDecay,
    learning_rate: Callable,
    options: TrainOptions,
  ):
    """Creates the training step.

    Raises InputError: gradient_accumulation_steps does not divide a replica's
    share of the batch.

    Args:
      variables: all variables of the model, which are saved.
      options: the options of the run.
      strategy, trained, objective, optimizer, learning_rate: see TrainingStep.
    """
    parts = options.gradient_accumulation_steps
    share = options.batch_size // strategy.num_replicas_in_sync
    if share % parts:
      raise errors.InputError(
        f"a replica's share of the batch, {share}, cannot be split into equal "
        f"parts by --gradient_accumulation_steps={parts}; choose a divisor"
      )
    self._strategy, self._options = strategy, options
    self._variables = list(variables)
    self._extra: dict = {}  # State of the evaluation, from a checkpoint.
    self._evaluation: evaluation_loop.PeriodicEvaluation | None = None
    self._saver = background_saving.BackgroundSaver()
    self._norm_limit = 0.0
    self.training_step = training_step.TrainingStep(
      strategy,
      list(trained),
      objective,
      optimizer,
      learning_rate,
      parts=batch_parts.Parts(parts, options.seed),
      jit_compile=options.jit_compile,
      loss_scaling=options.loss_scaling,
    )
    self.global_step = self.training_step.global_step
    self.applied_updates = self.training_step.applied_updates

  def state(self) -> dict:
    """Returns the content of a checkpoint, {name: variable}."""
    weights = {named_weights.variable_name(v): v for v in self._variables}
    return {**weights, **self.training_step.state()}

  def start_from(self, start, *, allowed_missing=()) -> None:
    """Loads the weights, optimizer state and step from which a run starts.

    Raises InputError: the checkpoint does not fit these variables, or its run
    trained fewer of them or used another optimizer.

    Args:
      start: run_folder.StartingPoint. The optimizer state and the step are
        loaded only if `start` resumes a run.
      allowed_missing: regular expressions for names of variables that
        --init_checkpoint may lack: the variables of a new head.
    """
    if start.origin == "resume":
      self._resume(start.path)
      self._extra = start.extra
    elif start.origin == "init":
      weight_files.load(
        self._variables, start.path, allowed_missing=allowed_missing
      )

  def _resume(self, path: str) -> None:
    reader = weight_files.open_reader(path)
    slots = self.training_step.optimizer.slots
    missing = [n for n in slots if n not in reader.shapes]
    if missing:
      raise errors.InputError(
        f"{path} has no {missing[0]} ({len(missing)} slots are missing): the "
        "run began with fewer trained weights or another optimizer; keep its "
        "--freeze_* and --optimizer flags, or pass another --output_dir and "
        f"--init_checkpoint={path}"
      )
    # A run that changes to float16 starts with a new loss scale.
    report = weight_files.load(
      self.state(), reader, allowed_missing=["^loss_scale/", "^applied_updates"]
    )
    if "applied_updates" in report.missing:
      # Older checkpoints lack this counter; count all their steps as applied.
      self.applied_updates.assign(self.global_step)

  def save(self) -> None:
    """Begins to write a checkpoint of the current step; `train` waits for it.

    Unlike the original: the initial weights are not saved as model.ckpt-0, and
    a checkpoint is valid only once its .commit file exists.
    """
    step = int(self.global_step.numpy())
    self._check_weights(step)
    if not distribution.is_chief(self._strategy):
      return
    evaluation = self._evaluation
    write = functools.partial(
      run_folder.save,
      self._options.output_dir,
      step,
      extra={"evaluation": evaluation.state()} if evaluation else {},
      max_to_keep=self._options.max_to_keep,
    )
    self._saver.save(write, self.state())

  def train(self, make_batches, evaluation=None) -> None:
    """Trains until num_train_steps; saves, logs and handles signals.

    Args:
      make_batches: function of the first step to take; returns an endless
        distributed dataset that starts there.
      evaluation: the evaluation_loop.PeriodicEvaluation that runs during the
        training, or None.

    Raises:
      SystemExit: with EXIT_INTERRUPTED, after a SIGTERM or SIGINT. The last
        step is saved; an evaluation that was due runs at the next start.
      InputError: all steps or too many in a row were skipped, or an evaluation
        failed (the last weights are saved); weights are ruined or not finite, a
        checkpoint cannot be written, or processes start at different steps.
    """
    options = self._options
    first_step = int(self.global_step.numpy())
    self._check_start(first_step)
    self._evaluation = evaluation
    if evaluation:
      # The next condition needs this state: patience may have ended the run.
      evaluation.restore(self._extra.get("evaluation"), first_step)
    if self._is_finished(first_step) and not self._is_due(first_step):
      logging.warning(
        "nothing to train: the checkpoint in %s is at step %d, and %s; to "
        "continue, pass more steps or epochs or a larger --stop_step; to start "
        "again, pass another --output_dir",
        options.output_dir,
        first_step,
        f"this command ends at step {options.num_train_steps}"
        if first_step >= options.num_train_steps
        else "--early_stopping_patience ended the run there",
      )
      return
    iterator = iter(make_batches(first_step))
    log = train_log.TrainingLog(
      options,
      first_step=first_step,
      writes_files=distribution.is_chief(self._strategy),
    )
    with catch_signals() as stop, contextlib.closing(log), self._saver:
      self._train_blocks(iterator, log, stop)
      is_stopped, _ = self._agreed(stop)
    if is_stopped:
      logging.info(
        "stopped by %s; step %d is saved: run the same command again to "
        "continue",
        stop.by,
        self.global_step.numpy(),
      )
      raise SystemExit(EXIT_INTERRUPTED)

  def _is_finished(self, step: int):
    early = self._evaluation and self._evaluation.should_stop
    return early or step >= self._options.num_train_steps

  def _is_due(self, step: int):
    """Whether to evaluate `step` now, see PeriodicEvaluation.is_due."""
    return self._evaluation and self._evaluation.is_due(step)

  def _train_blocks(self, iterator, log, stop) -> None:
    """Runs blocks of steps; evaluates and saves between them when due."""
    step, saved_step = int(self.global_step.numpy()), None
    if self._is_due(step):
      # The previous process ended before this evaluation, say after a signal.
      self._evaluate(step, log)
    is_stopped, seconds_per_step = self._agreed(stop)
    while not (is_stopped or self._is_finished(step)):
      num_steps = self._block_length(step, seconds_per_step)
      log.block_begins(step)
      # A tensor, because each new Python number would trigger a retrace.
      results = self.training_step.block(iterator, tf.constant(num_steps))
      step += num_steps
      log.block_done(step, num_steps, results)
      # After a signal there is no time for an evaluation.
      if self._is_due(step) and not self._agreed(stop)[0]:
        self._evaluate(step, log)
      # This follows the evaluation, whose state the checkpoint stores.
      if step % self._options.save_checkpoints_steps == 0:
        self.save()
        saved_step = step
      self._saver.check()
      self._end_if_bad(log, is_saved=saved_step == step)
      is_stopped, seconds_per_step = self._agreed(stop, log.seconds_per_step)
    log.flush()
    self._end_if_bad(log, is_saved=saved_step == step, is_end=not is_stopped)
    if saved_step != step:
      self.save()

  def _weights_norm(self) -> float:
    return math.sqrt(float(optimization.squared_norm(self._variables)))

  def _check_weights(self, step) -> None:
    """Raises InputError if the weights are ruined, so they are not saved.

    The check for finite losses comes too late: the loss before a ruinous update
    is finite.
    """
    norm = self._weights_norm()
    if norm <= self._norm_limit:
      return
    self._saver.wait()
    last = run_folder.newest_checkpoint(self._options.output_dir)
    raise errors.InputError(
      f"the weights of step {step} are ruined (their norm is {norm:.3g}) and "
      "are not saved: an update was too large or not finite; run the same "
      "command again with a lower --learning_rate (or change --adam_beta2, "
      "--adam_epsilon, --weight_decay_rate or --layerwise_lr_decay): it starts "
      f"from {last.path if last else 'the beginning'}"
    )

  def _evaluate(self, step: int, log: train_log.TrainingLog) -> None:
    self._check_weights(step)
    assert self._evaluation
    try:
      results = self._evaluation.run(step)
    except (errors.InputError, OSError, tf.errors.OpError):
      # For example, --save_best is not a result, or best_model cannot be
      # written. The weights are saved anyway.
      self.save()
      raise
    log.evaluated(step, results)

  def _end_if_bad(self, log, *, is_saved: bool, is_end: bool = False) -> None:
    """Raises InputError if all steps, or too many in a row, were skipped."""
    is_untrained = is_end and log.bad_steps_in_row and not self.applied_updates
    if log.bad_steps_in_row < self._options.max_bad_steps and not is_untrained:
      return
    if not is_saved:
      self.save()
    raise errors.InputError(
      f"consecutive steps without a finite loss or gradient: "
      f"{log.bad_steps_in_row}; the weights from before these steps are in "
      f"{self._options.output_dir}; try a lower --learning_rate"
    )

  def _check_start(self, first_step: int) -> None:
    """Raises InputError if weights are not finite or first steps differ."""
    if distribution.is_multi_worker(self._strategy):
      steps = distribution.all_gather(self._strategy, [first_step])
      if steps.min() != steps.max():
        raise errors.InputError(
          f"one process starts at step {int(steps.min())}, another at step "
          f"{int(steps.max())}: --output_dir={self._options.output_dir} must "
          "be the same shared folder for all processes"
        )
    norm = self._weights_norm()
    if not math.isfinite(norm):
      raise errors.InputError(
        f"the run starts at step {first_step}, but not all weights are finite "
        "numbers: remove the newest checkpoint in "
        f"{self._options.output_dir}, or pass another --init_checkpoint"
      )
    self._norm_limit = _RUINOUS_GROWTH * max(norm, 1.0)

  def _agreed(self, stop, seconds_per_step: float = 0.0) -> tuple:
    """Exchanges values between processes, which must all act alike.

    Returns whether any process was asked to stop, and the seconds per step of
    the slowest process.
    """
    if not distribution.is_multi_worker(self._strategy):
      return bool(stop.by), seconds_per_step
    # A collective operation: all processes call it at the same points.
    local_values = [float(bool(stop.by)), seconds_per_step]
    values = distribution.all_gather(self._strategy, local_values)
    requests, seconds = values.max(axis=0)
    # A signal after this exchange counts at the next exchange. If this process
    # returned `stop.by` now, it would stop alone.
    if requests and not stop.by:
      stop.by = "a signal to another process"
    return bool(requests), float(seconds)

  def _block_length(self, step, seconds_per_step: float):
    """Returns the number of steps until the host has something to do."""
    options = self._options
    # Take one step while the duration of a step is unknown.
    affordable = 1
    if seconds_per_step:
      affordable = max(1, int(_SECONDS_PER_CALL / seconds_per_step))
    ends = [
      options.num_train_steps,
      _next_multiple(step, options.save_checkpoints_steps),
      _next_multiple(step, options.log_steps),
      step + options.iterations_per_loop,
      step + affordable,
    ]
    if self._evaluation:
      ends.append(_next_multiple(step, self._evaluation.every_steps))
    # The profiler starts and ends between two blocks.
    ends += [edge for edge in options.profile_steps if edge > step]
    return min(ends) - step


def _next_multiple(step: int, interval: int) -> int:
  # 7, 5 -> 10; 10, 5 -> 15, because step 10 is already done.
  return (step // interval + 1) * interval
