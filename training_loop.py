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
import signal
from typing import Callable, Optional

import tensorflow as tf
from absl import logging

import checkpoints
import distribution
import errors
import optimization
import run_folder
import training_log

# The exit code after SIGTERM or SIGINT: the run was saved, start it again.
# It is the EX_TEMPFAIL of sysexits.h.
EXIT_INTERRUPTED = 75

# One call of the compiled loop should give control back after so long, to
# show progress and to notice a signal.
_SECONDS_PER_CALL = 5.0


@dataclasses.dataclass(frozen=True)
class Objective:
  """What a task minimises: loss = sum over k of sums[k] / weights[k].

  The denominators are apart because they belong to the whole batch: replicas
  and accumulated parts divide by the same numbers, so however a batch is cut
  the loss and its gradient are those of the batch as one.

  Attributes:
    weights: function of a batch; returns dict from name of a loss to a scalar,
      computed from data alone. Weights of parts must add up to the whole's.
    sums: function of (batch, dropout_seed); returns (dict from name of a loss
      to a scalar, dict from name of a metric to a pair of scalars (sum,
      weight)). dropout_seed is int32 [2] in training and None in evaluation.
      From a metric `tokens_per_example` the log works out tokens per second.
  """

  weights: Callable
  sums: Callable


@dataclasses.dataclass(frozen=True)
class TrainOptions:
  """How long to train, and when to do what; steps are optimizer steps.

  Attributes:
    output_dir: folder of checkpoints, summaries and logs.
    num_train_steps: the run ends after so many steps.
    save_checkpoints_steps: a checkpoint every so many steps, and at the end.
    iterations_per_loop: at most so many steps in one call of the compiled
      loop, between which the host is not asked.
    log_steps: values are logged every so many steps.
    batch_size: examples in a global batch; for the log.
    seed: dropout is a function of (seed, step, replica, part).
    gradient_accumulation_steps: each replica computes its share of a batch in
      so many parts, one after another, to save memory.
    jit_compile: whether XLA compiles the step; None: where it pays.
    loss_scaling: whether the loss is scaled dynamically, for float16.
    max_to_keep: how many checkpoints are kept.
    max_bad_steps: so many steps in a row without a finite gradient end the
      run.
    profile_steps: (first, last) step to record for the TensorFlow profiler.
  """

  output_dir: str
  num_train_steps: int
  save_checkpoints_steps: int = 1000
  iterations_per_loop: int = 1000
  log_steps: int = 100
  batch_size: int = 32
  seed: int = 12345
  gradient_accumulation_steps: int = 1
  jit_compile: Optional[bool] = None
  loss_scaling: bool = False
  max_to_keep: int = 5
  max_bad_steps: int = 10
  profile_steps: tuple = ()


class LossScale:
  """The factor that keeps float16 gradients from vanishing.

  It doubles after 2000 finite steps and halves at each that is not
  (Micikevicius et al., arXiv 1710.03740, section 3.2).
  """

  def __init__(self, enabled):
    self.enabled = enabled
    self.scale = _counter("loss_scale/scale", 2.0**15 if enabled else 1.0)
    self.finite_steps = _counter("loss_scale/finite_steps", 0)

  def applied_to(self, loss):
    """Returns the loss to take the gradient of."""
    return loss * self.scale if self.enabled else loss

  def update(self, is_finite):
    """Moves the factor after a step; `is_finite` is a scalar bool tensor."""
    if not self.enabled:
      return
    steps = tf.where(is_finite, self.finite_steps + 1, 0)
    grow = steps >= 2000
    factor = tf.where(is_finite, tf.where(grow, 2.0, 1.0), 0.5)
    self.scale.assign(tf.clip_by_value(self.scale * factor, 1.0, 2.0**24))
    self.finite_steps.assign(tf.where(grow, tf.zeros_like(steps), steps))


def _counter(name, value):
  """A variable that every replica sees alike and one update changes."""
  return tf.Variable(
    value,
    name=name,
    trainable=False,
    dtype=tf.int64 if isinstance(value, int) else tf.float32,
    aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
  )


class Trainer:
  """Runs optimizer steps, keeps their state, and saves it."""

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

    Args:
      strategy: the tf.distribute.Strategy in whose scope the model was made.
      variables: all variables of the model; they are saved.
      trained: those of them that the loss reaches and that are updated.
      objective: an Objective.
      optimizer: an optimizer of optimization.py.
      learning_rate: function of the step (int64 scalar) to a float32 scalar.
      options: TrainOptions.

    Raises:
      InputError: the shares of the batch cannot be cut into as many parts as
        gradient_accumulation_steps says.
    """
    share = options.batch_size // strategy.num_replicas_in_sync
    if share % options.gradient_accumulation_steps:
      raise errors.InputError(
        f"{share} examples a replica cannot be cut into "
        f"{options.gradient_accumulation_steps} equal parts; choose "
        "--gradient_accumulation_steps that divides it"
      )
    self._strategy = strategy
    self._variables = list(variables)
    self._trained = list(trained)
    self._objective = objective
    self._optimizer = optimizer
    self._learning_rate = learning_rate
    self._options = options
    self._evaluation, self._extra = None, {}
    jit = options.jit_compile
    if jit is None:
      jit = distribution.default_jit_compile(strategy)
    # A step of several replicas exchanges gradients, which XLA cannot do for
    # MirroredStrategy: then only what lies before the exchange is compiled.
    alone = strategy.num_replicas_in_sync == 1
    self._compiled_step = tf.function(
      self._step, jit_compile=(jit and alone) or None
    )
    self._compiled_gradients = tf.function(
      self._gradients, jit_compile=(jit and not alone) or None
    )
    self._block = tf.function(self._run_block)
    with strategy.scope():
      self.global_step = _counter("global_step", 0)
      self._loss_scale = LossScale(options.loss_scaling)
      optimizer.create_slots(self._trained)

  # One step.

  def step(self, batch):
    """Takes one step on a distributed batch, compiled; see `_step`."""
    return self._compiled_step(batch)

  def _step(self, batch):
    """Takes one optimizer step on a distributed batch.

    Returns:
      loss (NaN if the step was skipped), dict of metrics' (sum, weight),
      learning rate, gradient norm: scalars of the whole batch.
    """
    loss, metrics, rate, norm, is_finite = self._strategy.run(
      self._replica_step, args=(batch,)
    )
    loss, rate, norm, is_finite = [
      self._strategy.experimental_local_results(values)[0]
      for values in (loss, rate, norm, is_finite)
    ]
    self._loss_scale.update(is_finite)
    self.global_step.assign_add(1)

    def total(values):
      whole = self._strategy.reduce("SUM", values, axis=None)
      # A skipped step counts for nothing in the means that are logged.
      return tf.where(is_finite, whole, tf.zeros_like(whole))

    metrics = tf.nest.map_structure(total, metrics)
    return tf.where(is_finite, loss, float("nan")), metrics, rate, norm

  def _replica_step(self, batch):
    """What one replica does: gradients of its share, exchange, update."""
    replica = tf.distribute.get_replica_context()
    step = self.global_step.read_value()
    weights = replica.all_reduce("SUM", self._objective.weights(batch))
    grads, squared_rows, loss, metrics = self._compiled_gradients(
      batch, weights, step, replica.replica_id_in_sync_group
    )
    grads, squared_rows, whole_loss = replica.all_reduce(
      "SUM", (grads, squared_rows, loss)
    )
    loss_scale = self._loss_scale.scale.read_value()
    norm = self._global_norm(grads, squared_rows) / loss_scale
    is_finite = tf.math.is_finite(norm) & tf.math.is_finite(whole_loss)
    rate = self._learning_rate(step)
    for variable, grad in zip(self._trained, grads):
      self._optimizer.update(
        variable,
        grad,
        learning_rate=rate,
        step=step,
        grad_scale=optimization.clip_scale(norm) / loss_scale,
        apply=is_finite,
      )
    return whole_loss, metrics, rate, norm, is_finite

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
    """Gradients of one replica's share, part after part.

    Returns:
      list of dense gradients, dict from the name of a variable whose rows were
      looked up to the squared norm of those rows, loss, metrics.
    """
    parts = self._options.gradient_accumulation_steps
    seed = tf.stack([tf.cast(self._options.seed, tf.int64), step])

    def part_of(index):
      salt = replica_id * parts + index
      part = tf.nest.map_structure(
        lambda values: _cut(values, parts)[index], batch
      )
      return self._part_gradients(
        part,
        weights,
        tf.random.experimental.stateless_fold_in(seed, salt),
      )

    total = part_of(0)
    if parts > 1:
      for index in tf.range(1, parts):
        total = tf.nest.map_structure(tf.add, total, part_of(index))
    return total

  def _part_gradients(self, part, weights, dropout_seed):
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch(self._trained)
      sums, metrics = self._objective.sums(part, dropout_seed)
      loss = tf.add_n([sums[name] / weights[name] for name in sums])
      scaled = self._loss_scale.applied_to(loss)
    grads = tape.gradient(scaled, self._trained)
    squared_rows = {}
    for index, (variable, grad) in enumerate(zip(self._trained, grads)):
      if grad is None:
        raise ValueError(f"the loss does not reach {variable.name}")
      if isinstance(grad, tf.IndexedSlices):
        squared_rows[variable.name] = optimization.rows_squared_norm([grad])
      grads[index] = tf.convert_to_tensor(grad)
    return grads, squared_rows, loss, metrics

  # Many steps.

  def _run_block(self, iterator, num_steps):
    """Takes `num_steps` steps without asking the host.

    Returns:
      losses [num_steps], metrics summed over the steps, last learning rate,
      gradient norms [num_steps].
    """
    losses = tf.TensorArray(tf.float32, num_steps, element_shape=[])
    norms = tf.TensorArray(tf.float32, num_steps, element_shape=[])
    loss, metrics, rate, norm = self.step(next(iterator))
    losses, norms = losses.write(0, loss), norms.write(0, norm)
    for index in tf.range(1, num_steps):
      loss, more, rate, norm = self.step(next(iterator))
      metrics = tf.nest.map_structure(tf.add, metrics, more)
      losses, norms = losses.write(index, loss), norms.write(index, norm)
    return losses.stack(), metrics, rate, norms.stack()

  def state(self):
    """Returns what a checkpoint holds: dict from name to variable."""
    scale = self._loss_scale
    extra = [scale.scale, scale.finite_steps] if scale.enabled else []
    variables = self._variables + extra + [self.global_step]
    by_name = {v.name.split(":")[0]: v for v in variables}
    return {**by_name, **self._optimizer.slots}

  def start_from(self, start, *, may_be_missing=()):
    """Loads what a run starts from.

    Args:
      start: run_folder.StartingPoint; a resumed run gets its optimizer state
        and step back, any other only weights.
      may_be_missing: regular expressions of the names of variables that
        --init_checkpoint need not hold: those of a new head.
    """
    if start.kind == "resume":
      checkpoints.load(self.state(), start.path)
      self._extra = start.commit.extra
    elif start.kind == "init":
      checkpoints.load(
        self._variables, start.path, allowed_missing=may_be_missing
      )

  def save(self):
    """Writes a checkpoint of the current step."""
    if not distribution.is_chief(self._strategy):
      return
    evaluation = self._evaluation
    run_folder.save(
      self._options.output_dir,
      int(self.global_step.numpy()),
      self.state(),
      extra={"evaluation": evaluation.state()} if evaluation else {},
      max_to_keep=self._options.max_to_keep,
    )

  def train(self, make_batches, evaluation=None):
    """Trains until num_train_steps, saving, logging, and heeding signals.

    Args:
      make_batches: function of the first step to take; returns an endless
        distributed dataset that starts there.
      evaluation: an evaluation_loop.PeriodicEvaluation to interrupt the
        training with, or None.

    Raises:
      SystemExit: with EXIT_INTERRUPTED, after a SIGTERM or SIGINT; the
        finished step is saved.
      InputError: max_bad_steps steps in a row had no finite gradient; the
        weights of before them are saved.
    """
    options = self._options
    first_step = int(self.global_step.numpy())
    self._evaluation = evaluation
    if evaluation:
      evaluation.restore(self._extra.get("evaluation"))
    if self._is_finished(first_step):
      logging.info(
        "nothing to train: the checkpoint in %s is at step %d, where this run "
        "ended", options.output_dir, first_step,
      )
      return
    iterator = iter(make_batches(first_step))
    log = training_log.TrainingLog(
      options,
      first_step=first_step,
      writes_files=distribution.is_chief(self._strategy),
    )
    with stop_on_signals() as stop, contextlib.closing(log):
      self._train_blocks(iterator, log, stop)
      is_stopped = self._agreed(stop)
    if is_stopped:
      logging.info(
        "stopped by %s; step %d is saved: run the same command again to "
        "continue", stop.by, self.global_step.numpy(),
      )
      raise SystemExit(EXIT_INTERRUPTED)

  def _is_finished(self, step):
    early = self._evaluation and self._evaluation.should_stop
    return early or step >= self._options.num_train_steps

  def _train_blocks(self, iterator, log, stop):
    """Block after block of steps; between them, whatever is due."""
    options = self._options
    step, saved_step = int(self.global_step.numpy()), None
    while not self._is_finished(step) and not self._agreed(stop):
      num_steps = self._block_length(step, log.seconds_per_step)
      log.block_begins(step, num_steps)
      results = self._block(iterator, tf.constant(num_steps))
      step += num_steps
      log.block_done(step, num_steps, results)
      if self._evaluation and step % self._evaluation.every_steps == 0:
        log.evaluated(step, self._evaluation.run(step))
      is_bad = log.bad_steps_in_row >= options.max_bad_steps
      if step % options.save_checkpoints_steps == 0 or is_bad:
        self.save()
        saved_step = step
      if is_bad:
        raise errors.InputError(
          f"{log.bad_steps_in_row} steps in a row had no finite loss or "
          f"gradient; the weights of before them are kept in "
          f"{options.output_dir}; try a lower --learning_rate"
        )
    if saved_step != step:
      self.save()

  def _agreed(self, stop):
    """Whether any process was asked to stop: all must stop at one step."""
    if not distribution.is_multi_worker(self._strategy):
      return stop.requested

    def count_of_requests():
      flag = tf.cast(stop.requested, tf.int32)
      return tf.distribute.get_replica_context().all_reduce("SUM", flag)

    counts = self._strategy.run(count_of_requests)
    # A signal that came after it was counted is for the next time: going by
    # `stop.requested` here, this process would stop alone.
    is_agreed = bool(self._strategy.experimental_local_results(counts)[0])
    if is_agreed and not stop.requested:
      stop.by = "a signal to another process"
    return is_agreed

  def _block_length(self, step, seconds_per_step):
    """How many steps the next call takes: up to the next thing to do."""
    options = self._options
    ends = [
      options.num_train_steps,
      _next_multiple(step, options.save_checkpoints_steps),
      _next_multiple(step, options.log_steps),
      step + options.iterations_per_loop,
    ]
    if self._evaluation:
      ends.append(_next_multiple(step, self._evaluation.every_steps))
    if options.profile_steps:
      ends += [edge for edge in options.profile_steps if edge > step]
    # Several processes must agree on the length, so none goes by its clock.
    if not distribution.is_multi_worker(self._strategy):
      affordable = 1
      if seconds_per_step:
        affordable = max(1, int(_SECONDS_PER_CALL / seconds_per_step))
      ends.append(step + affordable)
    return min(ends) - step


def _cut(values, parts):
  """[B, ...] -> [parts, B / parts, ...]"""
  shape = tf.shape(values)
  return tf.reshape(values, tf.concat([[parts, -1], shape[1:]], 0))


def _next_multiple(step, interval):
  return (step // interval + 1) * interval


@contextlib.contextmanager
def stop_on_signals():
  """Notes SIGTERM and SIGINT instead of dying; a second SIGINT interrupts.

  Yields:
    An object with `requested` (bool) and `by` (name of the signal).
  """
  stop = _StopRequest()
  before = {
    number: signal.signal(number, stop.note)
    for number in (signal.SIGTERM, signal.SIGINT)
  }
  try:
    yield stop
  finally:
    for number, handler in before.items():
      signal.signal(number, handler)


class _StopRequest:
  """Whether something has asked the run to end, and what."""

  by = None

  @property
  def requested(self):
    return self.by is not None

  def note(self, number, frame):
    del frame
    if self.requested and number == signal.SIGINT:
      raise KeyboardInterrupt
    self.by = signal.Signals(number).name
    logging.info("%s: finishing the step, then saving", self.by)
