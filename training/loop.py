"""Train, evaluate, save and resume, over any tf.distribute strategy.

Nothing in this file has to do with BERT: a script brings the variables, an
`Objective`, an optimizer and a stream of batches.

One training step, top to bottom, is `Trainer._step` and what it calls: each
replica takes its share of the batch (in several parts, if gradients are
accumulated), the gradients are summed over parts and replicas, clipped by
their global norm, and applied. Everything that looks random is a function of
(seed, step), so a resumed run equals one that was never stopped.
"""

import contextlib
import dataclasses
import math
import signal
from collections.abc import Callable, Iterator

import tensorflow as tf
from absl import logging

import layers
import optimization
from checkpoints import weight_files
from common import errors
from training import batch_parts, distribution, run_folder, train_log

# The exit code after SIGTERM or SIGINT: the run is saved and can continue. In
# sysexits.h it is called EX_TEMPFAIL.
EXIT_INTERRUPTED = 75

# The approximate time of one call of the compiled loop. Between two calls, the
# host shows progress and checks for signals.
_SECONDS_PER_CALL = 5.0

# Weights are ruined if their norm grows by this factor from the start. In
# pre-training from random weights, it grows by a factor of ten.
_RUINOUS_GROWTH = 1000.0

_LOWEST_SCALE, _HIGHEST_SCALE = 1.0, 2.0**24  # Scales of float16's loss.


@dataclasses.dataclass(frozen=True)
class Objective:
  """The training objective: loss = sum over k of sums[k] / weights[k].

  The denominators are separate because they belong to the whole batch: replicas
  and accumulated parts divide by the same numbers, so however a batch is cut
  the loss and its gradient equal the loss and gradient of the whole batch.

  Attributes:
    weights: function of a batch; returns dict from name of a loss to a scalar,
      computed from data alone. Weights of parts must add up to the whole's.
    sums: function of (batch, dropout_seed); returns (dict from name of a loss
      to a scalar, dict from name of a metric to a pair of scalars (sum,
      weight)). dropout_seed is int32 [2] in training and None in evaluation.
      From a metric `tokens_per_example` the log works out tokens per second.
    outputs: for a loss that compares all examples of a batch: function of
      (batch, dropout_seed); returns the network's outputs, float32 [B, ...].
    compare: function of (a replica's share of a cut batch, its outputs); adds
      tensors to it, from which `sums` takes the loss and its gradient.
  """

  weights: Callable
  sums: Callable
  outputs: Callable | None = None
  compare: Callable | None = None


@dataclasses.dataclass(frozen=True)
class TrainOptions:
  """How long to train, and when to do what; steps are optimizer steps.

  This run ends at num_train_steps; the schedule may continue after it.
  """

  output_dir: str  # Folder of checkpoints, summaries and logs.
  num_train_steps: int
  save_checkpoints_steps: int = 1000  # One more is saved at the end.
  # The most steps in one call of the compiled loop, without the host.
  iterations_per_loop: int = 1000
  log_steps: int = 100
  batch_size: int = 32  # Over all replicas.
  seed: int = 12345  # Dropout is a function of (seed, step, replica, part).
  # Number of parts in which a replica computes its share, to save memory.
  gradient_accumulation_steps: int = 1
  jit_compile: bool = False  # Whether XLA compiles the step.
  loss_scaling: bool = False  # Whether to scale the loss, for float16.
  max_to_keep: int = 5
  max_bad_steps: int = 10  # This many non-finite steps in a row end the run.
  profile_steps: tuple = ()  # First and last to record.


class _LossScale:
  """The factor that keeps float16 gradients from vanishing.

  It doubles after 2000 finite steps and halves after each non-finite step
  (Micikevicius et al., arXiv 1710.03740, section 3.2).
  """

  def __init__(self, enabled):
    self.enabled = enabled
    self.scale = _counter("loss_scale/scale", 2.0**15 if enabled else 1.0)
    self.finite_steps = _counter("loss_scale/finite_steps", 0)

  def update(self, is_finite):
    """Moves the factor after a step; `is_finite` is a scalar bool."""
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
  """Returns a variable that is equal on all replicas; the first assigns it."""
  return tf.Variable(
    value,
    name=name,
    trainable=False,
    dtype=tf.int64 if isinstance(value, int) else tf.float32,
    aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
  )


class StopRequest:
  """Whether a signal has asked the run to end; `by` is its name, or None."""

  by = None

  def note(self, number, frame):
    """Takes note of a signal; a second SIGINT interrupts."""
    del frame
    # A second Ctrl-C stops at once. A second SIGTERM changes nothing, because
    # schedulers may send several.
    if self.by and number == signal.SIGINT:
      raise KeyboardInterrupt
    self.by = signal.Signals(number).name
    logging.info("%s: finishing the current steps, then saving", self.by)


@contextlib.contextmanager
def catch_signals() -> Iterator[StopRequest]:
  """Records SIGTERM and SIGINT in its block; they do not end the process."""
  stop = StopRequest()
  numbers = (signal.SIGTERM, signal.SIGINT)
  before = [signal.signal(number, stop.note) for number in numbers]
  try:
    yield stop
  finally:
    for number, handler in zip(numbers, before):
      signal.signal(number, handler)


def _are_finite(loss, norm):
  return tf.math.is_finite(loss) & tf.math.is_finite(norm)


class Trainer:
  """Runs optimizer steps, keeps their state, and saves it.

  Attributes:
    step: `_step`, compiled.
    global_step, applied_updates: tf.Variables; steps, and those not skipped.
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
    """Makes the optimizer's slots and the step counter.

    Raises InputError: the shares of the batch cannot be cut into as many parts
    as gradient_accumulation_steps says.

    Args:
      strategy: the tf.distribute.Strategy in whose scope the model was made.
      variables: all variables of the model; they are saved.
      trained: the variables that the loss reaches and that are updated.
      objective: an Objective.
      optimizer: an optimizer of optimization.py.
      learning_rate: function of the step (int64 scalar) to a float32 scalar.
      options: TrainOptions.
    """
    parts = options.gradient_accumulation_steps
    share = options.batch_size // strategy.num_replicas_in_sync
    if share % parts:
      raise errors.InputError(
        f"{share} examples per replica cannot be cut into {parts} equal parts; "
        "choose --gradient_accumulation_steps that divides it"
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
    # Gradients of looked-up rows stay tf.IndexedSlices until the optimizer uses
    # them, unless several parts or replicas must be summed.
    self._adds_gradients = self._parts.count > 1 or not alone
    # A step of several replicas exchanges gradients, which XLA cannot do for
    # MirroredStrategy: then XLA compiles only the part before the exchange.
    # AutoGraph is off: it takes longer to convert the network's code than
    # TensorFlow takes to trace it.
    self.step = tf.function(
      self._step, jit_compile=(jit and alone) or None, autograph=False
    )
    self._compiled_gradients, self._compiled_outputs = [
      tf.function(function, jit_compile=True, autograph=False)
      if jit and not alone
      else function
      for function in (self._gradients, self._parts.outputs)
    ]
    # Nested tf.functions slow down tracing.
    self._step_of_block = self.step if jit and alone else self._step
    self._block = tf.function(self._run_block, autograph=False)

  # One step.

  def _step(self, batch):
    """Takes one optimizer step on a distributed batch.

    Returns:
      loss (NaN if the step was skipped), dict of metrics' (sum, weight),
      learning rate, gradient norm, whether only the loss scale was too large:
      scalars of the whole batch.
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
    # nothing. In the original, all weights become NaN, or the run ends.
    is_finite = _are_finite(loss, norm)
    # A smaller scale may help, unless this is the lowest one.
    is_overflow = tf.math.is_finite(loss) & ~is_finite
    is_overflow &= self._loss_scale.scale > _LOWEST_SCALE
    self._loss_scale.update(is_finite)
    # Skipped steps count: the order of data and the schedule depend on it.
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
    """The step of a replica: gradients of its share, exchange, update."""
    replica = tf.distribute.get_replica_context()
    step = self.global_step.read_value()
    # The denominators of the whole batch come first. With them, the sum of the
    # replicas' gradients is the gradient of one large batch, even if its
    # weighted examples are distributed unevenly.
    weights = replica.all_reduce("SUM", self._objective.weights(batch))
    place = step, replica.replica_id_in_sync_group
    if self._objective.outputs and self._adds_gradients:
      # Gradients of the outputs are cached (GradCache, arXiv 2101.06983).
      outputs = self._compiled_outputs(self._objective.outputs, batch, *place)
      batch = self._objective.compare(batch, outputs)
    grads, squared_rows, loss, metrics = self._compiled_gradients(
      batch, weights, *place
    )
    whole_loss = loss
    if replica.num_replicas_in_sync > 1:
      # A plain sum: each part is divided by the whole batch's weights already.
      grads, squared_rows, whole_loss = replica.all_reduce(
        "SUM", (grads, squared_rows, loss)
      )
    # The norm is of the unscaled gradient, so the loss scale does not affect
    # clipping, the log and the test for overflow.
    scale = self._loss_scale.scale.read_value()
    norm = self._global_norm(grads, squared_rows) / scale
    rate = self._learning_rate(step)
    self._optimizer.update_all(
      self._trained,
      grads,
      learning_rate=rate,
      # Not global_step: Adam's bias correction counts the updates that its
      # moments have seen.
      step=self.applied_updates.read_value(),
      # Unscaling and clipping are one factor, applied within the update.
      grad_scale=optimization.clip_scale(norm) / scale,
      # Every replica decides alike: both are of the whole batch.
      apply=_are_finite(whole_loss, norm),
    )
    return whole_loss, metrics, rate, norm

  def _global_norm(self, grads, squared_rows):
    """Norm over all variables; see optimization.rows_squared_norm."""
    dense = [
      grad
      for variable, grad in zip(self._trained, grads)
      if variable.name not in squared_rows
    ]
    squares = [*squared_rows.values(), optimization.squared_norm(dense)]
    return tf.sqrt(tf.add_n(squares))

  def _gradients(self, batch, weights, step, replica_id):
    """Returns the gradients of a replica's share, computed part after part.

    Returns:
      list of gradients (dense if several parts or replicas are added up),
      dict from the name of a variable whose rows were looked up to
      the squared norm of those rows, loss, metrics.
    """

    def part_of(index):
      return self._part_gradients(
        *self._parts.part(batch, index, step, replica_id), weights
      )

    total = part_of(0)
    if self._parts.count > 1:
      # A loop in the graph, which then has two copies of the network for any
      # number of parts.
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
    # Frozen variables are read too, and need no gradient.
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
      # As in the original: the norm of looked-up rows is the norm of the list,
      # before rows of the same word are added up.
      if isinstance(grad, tf.IndexedSlices):
        squared_rows[variable.name] = optimization.rows_squared_norm([grad])
      if self._adds_gradients:
        grads[index] = tf.convert_to_tensor(grad)
    return grads, squared_rows, loss, metrics

  # Many steps.

  def _run_block(self, iterator, num_steps):
    """Returns train_log.BlockResults of steps without asking the host."""
    # All steps, including the first, run in the body of this loop. If a copy of
    # the step preceded the loop, TensorFlow's arithmetic optimizer would order
    # its sums of accumulated gradients differently, and the weights would
    # depend on the number of steps in a block.
    # The results of a step are a row, and the host reads them once per block.
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
    """Returns the content of a checkpoint: dict from name to variable."""
    scale = self._loss_scale
    extra = [scale.scale, scale.finite_steps] if scale.enabled else []
    counters = [self.global_step, self.applied_updates]
    variables = self._variables + extra + counters
    by_name = {layers.variable_name(v): v for v in variables}
    return {**by_name, **self._optimizer.slots}

  def start_from(self, start, *, allowed_missing=()):
    """Loads the weights and the state from which a run starts.

    Raises InputError: the checkpoint does not fit these variables, or its run
    trained fewer of them.

    Args:
      start: run_folder.StartingPoint; a resumed run gets its optimizer state
        and step back, any other only weights.
      allowed_missing: regular expressions of the names of variables that
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
    lacking = [n for n in self._optimizer.slots if n not in reader.shapes]
    if lacking:
      raise errors.InputError(
        f"{path} has no {lacking[0]} ({len(lacking)} such names): the run "
        "began with fewer weights to train; keep its --freeze_layers, "
        "--freeze_encoder and --optimizer, or give another --output_dir and "
        f"--init_checkpoint={path}"
      )
    # A run that changes to float16 starts with a new scale.
    report = weight_files.load(
      self.state(), reader, allowed_missing=["^loss_scale/", "^applied_updates"]
    )
    if "applied_updates" in report.missing:
      # Older checkpoints lack this counter: all their steps count as applied.
      self.applied_updates.assign(self.global_step)

  def save(self):
    """Writes a checkpoint of the current step.

    Unlike the original: there is no model.ckpt-0 of the initial weights, and a
    checkpoint counts only once its commit file is there.
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
        step is saved, and the next start makes an evaluation that was due.
      InputError: max_bad_steps steps in a row had no finite gradient, or the
        evaluation failed; the last weights are saved. Or the processes start
        at different steps.
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
        "nothing to train: the checkpoint in %s is at step %d and %s; pass "
        "another --output_dir to start again, or more steps or epochs, or a "
        "larger --stop_step, to continue",
        options.output_dir,
        first_step,
        f"this start ends at step {options.num_train_steps}"
        if first_step >= options.num_train_steps
        else "--early_stopping_patience ended this run there",
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
    """Whether the weights of `step` are to be evaluated, and were not yet."""
    return self._evaluation and self._evaluation.is_due(step)

  def _train_blocks(self, iterator, log, stop):
    """Runs blocks of steps; evaluates and saves between them when due."""
    step, saved_step = int(self.global_step.numpy()), None
    if self._is_due(step):
      # A signal stopped the previous start before this evaluation.
      self._evaluate(step, log)
    is_stopped, seconds_per_step = self._agreed(stop)
    while not (is_stopped or self._is_finished(step)):
      num_steps = self._block_length(step, seconds_per_step)
      log.block_begins(step)
      # The length is a tensor: each Python number would be traced anew.
      results = self._block(iterator, tf.constant(num_steps))
      step += num_steps
      log.block_done(step, num_steps, results)
      # After a signal there is no time for an evaluation.
      if self._is_due(step) and not self._agreed(stop)[0]:
        self._evaluate(step, log)
      # The checkpoint follows, because it stores the evaluation's state.
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
    """Raises InputError if the weights are ruined, which must not be saved.

    The loss that leads to a ruinous update is finite; all that follow are not.
    """
    norm = self._weights_norm()
    if norm <= self._largest_norm:
      return
    last = run_folder.newest_checkpoint(self._options.output_dir)
    raise errors.InputError(
      f"the weights of step {step} are ruined (their norm is {norm:.3g}) and "
      "are not saved: an update was too large or not finite; run the same "
      "command again with a lower --learning_rate (or other --adam_beta2, "
      "--adam_epsilon, --weight_decay_rate, --layerwise_lr_decay): it starts "
      f"from {last.path if last else 'the beginning'}"
    )

  def _evaluate(self, step, log):
    self._check_weights(step)
    try:
      results = self._evaluation.run(step)
    except errors.InputError:
      # For example, --save_best names no result. Keep the trained weights.
      self.save()
      raise
    log.evaluated(step, results)

  def _end_if_bad(self, log, *, is_saved, is_end=False):
    """Raises InputError if too many steps in a row were skipped, or all."""
    is_untrained = is_end and log.bad_steps_in_row and not self.applied_updates
    if log.bad_steps_in_row < self._options.max_bad_steps and not is_untrained:
      return
    if not is_saved:
      self.save()
    raise errors.InputError(
      f"{log.bad_steps_in_row} steps in a row had no finite loss or "
      f"gradient; the weights from before these steps are kept in "
      f"{self._options.output_dir}; try a lower --learning_rate"
    )

  def _check_start(self, first_step):
    """Refuses bad weights, and processes that start with different ones."""
    if distribution.is_multi_worker(self._strategy):
      steps = distribution.all_gather(self._strategy, [first_step])
      if steps.min() != steps.max():
        raise errors.InputError(
          f"one process starts at step {int(steps.min())}, another at step "
          f"{int(steps.max())}: --output_dir={self._options.output_dir} must "
          "be one folder that all processes see"
        )
    norm = self._weights_norm()
    if not math.isfinite(norm):
      raise errors.InputError(
        f"the weights that step {first_step} is to start from are not all "
        "finite numbers: remove the newest checkpoint of "
        f"{self._options.output_dir}, or give another --init_checkpoint"
      )
    self._largest_norm = _RUINOUS_GROWTH * max(norm, 1.0)

  def _agreed(self, stop, seconds_per_step=0.0):
    """Agrees on values in all processes, since they must act alike.

    Returns whether any process was asked to stop, and the seconds per step of
    the slowest process.
    """
    if not distribution.is_multi_worker(self._strategy):
      return bool(stop.by), seconds_per_step
    # A collective operation: all processes call it at the same points.
    local_values = [float(bool(stop.by)), seconds_per_step]
    values = distribution.all_gather(self._strategy, local_values)
    requests, seconds = values.max(axis=0)
    # A signal after the exchange counts at the next one. If this process used
    # `stop.by` here, it would stop alone.
    if requests and not stop.by:
      stop.by = "a signal to another process"
    return bool(requests), float(seconds)

  def _block_length(self, step, seconds_per_step):
    """Returns the number of steps until the host has something to do."""
    options = self._options
    # Take one step while the time of a step is unknown.
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
  """A structure of scalars -> float32 [N]; it is appended to `structure`."""
  # This runs in tracing: the body of a loop can only return tensors.
  structure.append(scalars)
  return tf.stack([tf.cast(s, tf.float32) for s in tf.nest.flatten(scalars)])


def _next_multiple(step, interval):
  # 7, 5 -> 10; 10, 5 -> 15, because step 10 is done already.
  return (step // interval + 1) * interval
