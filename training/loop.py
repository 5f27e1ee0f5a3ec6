"""Trains, evaluates, saves and resumes with any tf.distribute strategy.

This module is independent of BERT: a script passes the variables, an
`Objective`, an optimizer and a stream of batches.

`Trainer._step` is one training step. Each replica computes the gradients of its
share of the batch (in several parts, if gradients are accumulated). They are
summed over parts and replicas, clipped by their global norm, and applied. All
randomness is a function of (seed, step), so a resumed run equals a run that was
never stopped.
"""

import contextlib
import dataclasses
import math
import signal
from collections.abc import Callable, Iterator

import tensorflow as tf
from absl import logging

import named_weights
import optimization
from checkpoints import weight_files
from common import errors
from training import batch_parts, distribution, run_folder, train_log

# The exit code after SIGTERM or SIGINT: the run is saved and can continue. In
# sysexits.h it is called EX_TEMPFAIL.
EXIT_INTERRUPTED = 75

# The target duration of one call of the compiled loop. Between two calls, the
# host shows progress and checks for signals.
_SECONDS_PER_CALL = 5.0

# Weights count as ruined if their norm grows by this factor during a run. In
# pre-training from random weights, the norm grows by a factor of ten.
_RUINOUS_GROWTH = 1000.0

_LOWEST_SCALE, _HIGHEST_SCALE = 1.0, 2.0**24  # Bounds of _LossScale.


@dataclasses.dataclass(frozen=True)
class Objective:
  """The training objective: loss = sum over k of sums[k] / weights[k].

  The denominators are separate because they belong to the whole batch. All
  replicas and accumulated parts divide by them, so the loss and its gradient do
  not depend on how the batch is split.

  Attributes:
    weights: function of a batch; returns {name of a loss: scalar}, computed
      from the data alone. The weights of parts must add up to the weights of
      the whole batch.
    sums: function of (batch, dropout_seed); returns ({name of a loss: scalar},
      {name of a metric: (sum, weight)}), where sum and weight are scalars.
      dropout_seed is int32 [2] in training and None in evaluation. The log
      derives tokens per second from a metric named `tokens_per_example`.
    outputs: needed if the loss compares all examples of a batch. Function of
      (batch, dropout_seed); returns the network's outputs, float32 [B, ...].
    compare: needed with `outputs`. Function of (a replica's share, its
      outputs); returns the share with the tensors from which `sums` computes
      the loss. It is called if a batch is split into parts or over replicas.
  """

  weights: Callable
  sums: Callable
  outputs: Callable | None = None
  compare: Callable | None = None


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


class _LossScale:
  """Scales the loss against float16 underflow (arXiv 1710.03740, section 3.2).

  The scale doubles after 2000 consecutive finite steps and halves after each
  non-finite step.
  """

  def __init__(self, enabled):
    self.enabled = enabled
    self.scale = _counter("loss_scale/scale", 2.0**15 if enabled else 1.0)
    self.finite_steps = _counter("loss_scale/finite_steps", 0)

  def update(self, is_finite):
    """Adjusts the scale after a step; `is_finite` is a scalar bool."""
    if not self.enabled:
      return
    steps = tf.where(is_finite, self.finite_steps + 1, 0)
    grow = steps >= 2000
    factor = tf.where(is_finite, tf.where(grow, 2.0, 1.0), 0.5)
    self.scale.assign(
      tf.clip_by_value(self.scale * factor, _LOWEST_SCALE, _HIGHEST_SCALE)
    )
    self.finite_steps.assign(tf.where(grow, tf.zeros_like(steps), steps))


def _counter(name, value):
  """Returns a variable whose value the first replica sets on all replicas."""
  return tf.Variable(
    value,
    name=name,
    trainable=False,
    dtype=tf.int64 if isinstance(value, int) else tf.float32,
    aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
  )


class StopRequest:
  """A request to end the run; `by` names the signal, or is None without one."""

  by = None

  def note(self, number, frame):
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


def _are_finite(loss, norm):
  return tf.math.is_finite(loss) & tf.math.is_finite(norm)


class Trainer:
  """Runs optimizer steps, keeps their state, and saves it.

  Attributes:
    step: `_step`, compiled.
    global_step, applied_updates: tf.Variables, which count all steps and the
      steps that were not skipped.
  """

  def __init__(
    self,
    *,
    strategy,
    variables,
    trained,
    objective,
    optimizer,
    learning_rate,
    options,
  ):
    """Creates the optimizer's slots and the counters.

    Raises InputError: gradient_accumulation_steps does not divide a replica's
    share of the batch.

    Args:
      strategy: the tf.distribute.Strategy in whose scope the model was built.
      variables: all variables of the model, which are saved.
      trained: the variables to update; the loss must reach each of them.
      objective: an Objective.
      optimizer: an optimizer of optimization.py.
      learning_rate: function of the step, int64 []; returns float32 [].
      options: TrainOptions.
    """
    parts = options.gradient_accumulation_steps
    share = options.batch_size // strategy.num_replicas_in_sync
    if share % parts:
      raise errors.InputError(
        f"a replica's share of the batch, {share}, cannot be split into equal "
        f"parts by --gradient_accumulation_steps={parts}; choose a divisor"
      )
    self._strategy = strategy
    self._variables, self._trained = list(variables), list(trained)
    self._objective, self._optimizer = objective, optimizer
    self._learning_rate, self._options = learning_rate, options
    self._parts = batch_parts.Parts(parts, options.seed)
    self._evaluation, self._extra, self._largest_norm = None, {}, 0.0
    self._compile(options.jit_compile, alone=strategy.num_replicas_in_sync == 1)
    with strategy.scope():
      self.global_step = _counter("global_step", 0)
      self.applied_updates = _counter("applied_updates", 0)
      self._loss_scale = _LossScale(options.loss_scaling)
      optimizer.create_slots(self._trained)

  def _compile(self, jit, alone):
    """Wraps the steps in tf.functions; `alone`: there is only one replica."""
    # Gradients of embedding lookups stay tf.IndexedSlices until the optimizer
    # uses them, unless gradients of several parts or replicas must be summed.
    self._adds_gradients = self._parts.count > 1 or not alone
    # XLA cannot compile MirroredStrategy's exchange of gradients. With several
    # replicas, it compiles only the part of the step before the exchange.
    # AutoGraph is off, because converting the network's code takes longer than
    # tracing it.
    self.step = tf.function(
      self._step, jit_compile=(jit and alone) or None, autograph=False
    )
    self._compiled_gradients, self._compiled_outputs = [
      tf.function(function, jit_compile=True, autograph=False)
      if jit and not alone
      else function
      for function in (self._gradients, self._parts.outputs)
    ]
    # Nested tf.functions slow down tracing, so they are used only for XLA.
    self._step_of_block = self.step if jit and alone else self._step
    self._block = tf.function(self._run_block, autograph=False)

  # One step.

  def _step(self, batch):
    """Takes one optimizer step on a distributed batch.

    Returns:
      Scalars of the whole batch: loss (NaN if the step was skipped), {name of a
      metric: (sum, weight)}, learning rate, gradient norm, and whether the step
      was skipped only because the loss scale was too large.
    """
    loss, metrics, rate, norm = self._strategy.run(
      self._replica_step, args=(batch,)
    )
    # These are all-reduced, so all replicas have equal values.
    loss, rate, norm = [
      self._strategy.experimental_local_results(values)[0]
      for values in (loss, rate, norm)
    ]
    # Unlike the original: a step whose loss or gradient is not finite changes
    # no weight. In the original, all weights become NaN, or the run ends.
    is_finite = _are_finite(loss, norm)
    # A lower loss scale may help, unless the scale is already the lowest.
    is_overflow = tf.math.is_finite(loss) & ~is_finite
    is_overflow &= self._loss_scale.scale > _LOWEST_SCALE
    self._loss_scale.update(is_finite)
    # global_step also counts skipped steps, because the schedule and the order
    # of the data depend on it.
    self.global_step.assign_add(1)
    self.applied_updates.assign_add(tf.cast(is_finite, tf.int64))

    def total(values):
      whole = self._strategy.reduce("SUM", values, axis=None)
      # The logged means exclude skipped steps.
      return tf.where(is_finite, whole, tf.zeros_like(whole))

    metrics = tf.nest.map_structure(total, metrics)
    loss = tf.where(is_finite, loss, float("nan"))
    return loss, metrics, rate, norm, is_overflow

  def _replica_step(self, batch):
    """Computes, exchanges and applies the gradients of a replica's share."""
    replica = tf.distribute.get_replica_context()
    step = self.global_step.read_value()
    # Replicas divide by the whole batch's weights. So their gradients add up to
    # the gradient of the whole batch, even if their shares differ in weight.
    weights = replica.all_reduce("SUM", self._objective.weights(batch))
    seeds = step, replica.replica_id_in_sync_group  # Dropout depends on both.
    if self._objective.outputs and self._adds_gradients:
      # Adds to `batch` the loss's gradient at the outputs (arXiv 2101.06983).
      outputs = self._compiled_outputs(self._objective.outputs, batch, *seeds)
      batch = self._objective.compare(batch, outputs)
    grads, squared_rows, loss, metrics = self._compiled_gradients(
      batch, weights, *seeds
    )
    whole_loss = loss
    if replica.num_replicas_in_sync > 1:
      # A sum, not a mean: all terms are divided by the whole batch's weights.
      grads, squared_rows, whole_loss = replica.all_reduce(
        "SUM", (grads, squared_rows, loss)
      )
    # Clipping, logs and overflow checks need the unscaled gradient's norm.
    scale = self._loss_scale.scale.read_value()
    norm = self._global_norm(grads, squared_rows) / scale
    rate = self._learning_rate(step)
    self._optimizer.update_all(
      self._trained,
      grads,
      learning_rate=rate,
      # Not global_step: Adam's bias correction counts updates of its moments.
      step=self.applied_updates.read_value(),
      # Unscaling and clipping are one factor, applied within the update.
      grad_scale=optimization.clip_scale(norm) / scale,
      # All replicas decide alike: loss and norm belong to the whole batch.
      apply=_are_finite(whole_loss, norm),
    )
    return whole_loss, metrics, rate, norm

  def _global_norm(self, grads, squared_rows):
    """Returns the norm of all gradients; see optimization.rows_squared_norm."""
    dense = [
      grad
      for variable, grad in zip(self._trained, grads)
      if variable.name not in squared_rows
    ]
    squares = [*squared_rows.values(), optimization.squared_norm(dense)]
    return tf.sqrt(tf.add_n(squares))

  def _gradients(self, batch, weights, step, replica_id):
    """Computes the gradients of a replica's share, one part after another.

    Returns:
      List of gradients (dense tensors if several parts or replicas are summed),
      {name of an embedding table: squared norm of its looked-up rows'
      gradients}, loss, metrics.
    """

    def part_of(index):
      return self._part_gradients(
        *self._parts.part(batch, index, step, replica_id), weights
      )

    total = part_of(0)
    if self._parts.count > 1:
      # With a loop, the graph holds only two copies of the network.
      _, total = tf.while_loop(
        lambda index, _: index < self._parts.count,
        lambda index, total: (
          index + 1,
          tf.nest.map_structure(tf.add, total, part_of(index)),
        ),
        (1, total),
      )
    return total

  def _part_gradients(self, part, dropout_seed, weights):
    # Frozen variables need no gradient, so only trained ones are watched.
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch(self._trained)
      sums, metrics = self._objective.sums(part, dropout_seed)
      loss = tf.add_n([sums[name] / weights[name] for name in sums])
      scale = self._loss_scale
      scaled = loss * scale.scale if scale.enabled else loss
    grads = tape.gradient(scaled, self._trained)
    squared_rows = {}
    for index, (variable, grad) in enumerate(zip(self._trained, grads)):
      if grad is None:
        raise ValueError(f"the loss does not reach {variable.name}")
      # As in the original: the norm of an embedding's gradient counts each
      # lookup separately, before the rows of equal tokens are summed.
      if isinstance(grad, tf.IndexedSlices):
        squared_rows[variable.name] = optimization.rows_squared_norm([grad])
      if self._adds_gradients:
        grads[index] = tf.convert_to_tensor(grad)
    return grads, squared_rows, loss, metrics

  # Many steps.

  def _run_block(self, iterator, num_steps):
    """Runs steps without the host; returns their train_log.BlockResults."""
    # All steps, including the first, run in the body of this loop. If the first
    # step ran before it, TensorFlow's arithmetic optimizer would order the sums
    # of accumulated gradients differently there, and the weights would depend
    # on the number of steps in a block.
    # Each step writes its results to a row; the host reads all rows at once.
    structure = []

    def take_step(index, rows):
      row = _as_row(self._step_of_block(next(iterator)), structure)
      return index + 1, rows.write(index, row)

    _, rows = tf.while_loop(
      lambda index, rows: index < num_steps,
      take_step,
      [0, tf.TensorArray(tf.float32, num_steps)],
    )
    columns = tf.transpose(rows.stack())
    losses, metrics, rates, norms, overflows = tf.nest.pack_sequence_as(
      structure[0], tf.unstack(columns, len(tf.nest.flatten(structure[0])))
    )
    return train_log.BlockResults(
      losses,
      norms,
      tf.cast(overflows, tf.bool),
      metrics=tf.nest.map_structure(tf.reduce_sum, metrics),
      learning_rate=rates[-1],
      applied_updates=self.applied_updates.read_value(),
      loss_scale=self._loss_scale.scale.read_value(),
    )

  def state(self):
    """Returns the content of a checkpoint, {name: variable}."""
    scale = self._loss_scale
    extra = [scale.scale, scale.finite_steps] if scale.enabled else []
    counters = [self.global_step, self.applied_updates]
    variables = self._variables + extra + counters
    by_name = {named_weights.variable_name(v): v for v in variables}
    return {**by_name, **self._optimizer.slots}

  def start_from(self, start, *, allowed_missing=()):
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

  def _resume(self, path):
    reader = weight_files.open_reader(path)
    missing = [n for n in self._optimizer.slots if n not in reader.shapes]
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

  def save(self):
    """Writes a checkpoint of the current step.

    Unlike the original: the initial weights are not saved as model.ckpt-0, and
    a checkpoint is valid only once its .commit file exists.
    """
    step = int(self.global_step.numpy())
    self._check_weights(step)
    if not distribution.is_chief(self._strategy):
      return
    evaluation = self._evaluation
    run_folder.save(
      self._options.output_dir,
      step,
      self.state(),
      extra={"evaluation": evaluation.state()} if evaluation else {},
      max_to_keep=self._options.max_to_keep,
    )

  def train(self, make_batches, evaluation=None):
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
    with catch_signals() as stop, contextlib.closing(log):
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

  def _is_finished(self, step):
    early = self._evaluation and self._evaluation.should_stop
    return early or step >= self._options.num_train_steps

  def _is_due(self, step):
    """Whether to evaluate `step` now, see PeriodicEvaluation.is_due."""
    return self._evaluation and self._evaluation.is_due(step)

  def _train_blocks(self, iterator, log, stop):
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
      results = self._block(iterator, tf.constant(num_steps))
      step += num_steps
      log.block_done(step, num_steps, results)
      # After a signal there is no time for an evaluation.
      if self._is_due(step) and not self._agreed(stop)[0]:
        self._evaluate(step, log)
      # This follows the evaluation, whose state the checkpoint stores.
      if step % self._options.save_checkpoints_steps == 0:
        self.save()
        saved_step = step
      self._end_if_bad(log, is_saved=saved_step == step)
      is_stopped, seconds_per_step = self._agreed(stop, log.seconds_per_step)
    log.flush()
    self._end_if_bad(log, is_saved=saved_step == step, is_end=not is_stopped)
    if saved_step != step:
      self.save()

  def _weights_norm(self):
    return math.sqrt(float(optimization.squared_norm(self._variables)))

  def _check_weights(self, step):
    """Raises InputError if the weights are ruined, so they are not saved.

    The check for finite losses comes too late: the loss before a ruinous update
    is finite.
    """
    norm = self._weights_norm()
    if norm <= self._largest_norm:
      return
    last = run_folder.newest_checkpoint(self._options.output_dir)
    raise errors.InputError(
      f"the weights of step {step} are ruined (their norm is {norm:.3g}) and "
      "are not saved: an update was too large or not finite; run the same "
      "command again with a lower --learning_rate (or change --adam_beta2, "
      "--adam_epsilon, --weight_decay_rate or --layerwise_lr_decay): it starts "
      f"from {last.path if last else 'the beginning'}"
    )

  def _evaluate(self, step, log):
    self._check_weights(step)
    try:
      results = self._evaluation.run(step)
    except errors.InputError:
      # For example, --save_best is not a result. The weights are saved anyway.
      self.save()
      raise
    log.evaluated(step, results)

  def _end_if_bad(self, log, *, is_saved, is_end=False):
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

  def _check_start(self, first_step):
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
    self._largest_norm = _RUINOUS_GROWTH * max(norm, 1.0)

  def _agreed(self, stop, seconds_per_step=0.0):
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

  def _block_length(self, step, seconds_per_step):
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


def _as_row(scalars, structure):
  """Returns a structure of N scalars as float32 [N]; stores the structure."""
  # `structure` is a list, because a loop's body can only return tensors.
  structure.append(scalars)
  return tf.stack([tf.cast(s, tf.float32) for s in tf.nest.flatten(scalars)])


def _next_multiple(step, interval):
  # 7, 5 -> 10; 10, 5 -> 15, because step 10 is already done.
  return (step // interval + 1) * interval
