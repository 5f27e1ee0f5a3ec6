"""One training step, on any tf.distribute strategy.

A batch has a share for each replica (device), and a share consists of parts,
more than one if gradients are accumulated. From the inside out:

  _part_gradients  computes the loss and the gradients of a part
  _gradients       adds them up over the parts of a share
  _replica_step    adds them up over replicas, clips them by their global norm,
                   and updates the variables
  _step            runs _replica_step on all replicas, and counts steps
  _run_block       takes several steps without the host

All randomness is a function of (seed, step).

This module is independent of BERT: the loss is an `Objective`.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

import kernels
import named_weights
import optimization
import optimizers
from training import batch_parts, train_log

_LOWEST_SCALE, _HIGHEST_SCALE = 1.0, 2.0**24  # Bounds of _LossScale.


@dataclasses.dataclass(frozen=True)
class Objective:
  """The training objective: loss = sum over k of sums[k] / denominators[k].

  The denominators are separate because they belong to the whole batch. All
  replicas and accumulated parts divide by them, so the loss and its gradient do
  not depend on how the batch is split.

  Attributes:
    denominators: function of a batch; returns {name of a loss: scalar},
      computed from the data alone. The denominators of parts must add up to
      the denominators of the whole batch.
    sums: function of (batch, dropout_seed); returns ({name of a loss: scalar},
      {name of a metric: (sum, weight)}), where sum and weight are scalars.
      dropout_seed is int32 [2] in training and None in evaluation. The log
      derives tokens per second from a metric named `tokens_per_example`.
    outputs: needed if the loss compares all examples of a batch. Function of
      (batch, dropout_seed); returns the network's outputs, float32 [B, ...].
    compare: needed with `outputs`. Function of (a replica's share, its
      outputs); returns the share with two more tensors for `sums`: the loss of
      each example and the loss's gradient at its output (gradient caching). It
      is called if a batch is split into parts or over replicas.
  """

  denominators: Callable
  sums: Callable
  outputs: Callable | None = None
  compare: Callable | None = None


class _LossScale:
  """Scales the loss against float16 underflow (arXiv 1710.03740, section 3.2).

  The scale doubles after 2000 consecutive finite steps and halves after each
  non-finite step.
  """

  def __init__(self, enabled: bool):
    self.enabled = enabled
    self.scale = _state_variable(
      "loss_scale/scale", 2.0**15 if enabled else 1.0
    )
    self.finite_steps = _state_variable("loss_scale/finite_steps", 0)

  def update(self, is_finite: tf.Tensor) -> None:
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


def _state_variable(name: str, value: float) -> tf.Variable:
  """Returns a variable whose value the first replica sets on all replicas."""
  return tf.Variable(
    value,
    name=name,
    trainable=False,
    dtype=tf.int64 if isinstance(value, int) else tf.float32,
    aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
  )


def _are_finite(loss: tf.Tensor, norm: tf.Tensor) -> tf.Tensor:
  return tf.math.is_finite(loss) & tf.math.is_finite(norm)


class TrainingStep:
  """Takes optimizer steps and keeps their state.

  Attributes:
    step: `_step`, compiled.
    block: `_run_block`, compiled.
    global_step, applied_updates: tf.Variables, which count all steps and the
      steps that were not skipped.
    loss_scale: its `scale` is 1 without loss scaling.
    optimizer: the optimizer.
  """

  def __init__(
    self,
    strategy: tf.distribute.Strategy,
    trained: list[tf.Variable],
    objective: Objective,
    optimizer: optimizers.AdamWeightDecay,
    learning_rate: Callable,
    *,
    parts: batch_parts.Parts,
    jit_compile: bool,
    loss_scaling: bool,
  ):
    """Creates the optimizer's slots and the counters.

    Args:
      strategy: the strategy in whose scope the model was built.
      trained: the variables to update; the loss must reach each of them.
      objective: the loss.
      optimizer: an optimizer of optimizers.py.
      learning_rate: function of the step, int64 []; returns float32 [].
      parts: how a replica's share of a batch is split, to save memory.
      jit_compile: whether XLA compiles the step.
      loss_scaling: whether to scale the loss, for float16.
    """
    self._strategy, self._trained = strategy, trained
    self._objective, self.optimizer = objective, optimizer
    self._learning_rate, self._parts = learning_rate, parts
    self._compile(jit_compile, alone=strategy.num_replicas_in_sync == 1)
    with strategy.scope():
      self.global_step = _state_variable("global_step", 0)
      self.applied_updates = _state_variable("applied_updates", 0)
      self.loss_scale = _LossScale(loss_scaling)
      optimizer.create_slots(trained)

  def state(self) -> dict[str, tf.Variable]:
    """Returns the counters and the optimizer's slots, {name: variable}."""
    scale = self.loss_scale
    extra = [scale.scale, scale.finite_steps] if scale.enabled else []
    counters = [*extra, self.global_step, self.applied_updates]
    by_name = {named_weights.variable_name(v): v for v in counters}
    return {**by_name, **self.optimizer.slots}

  def _step(self, batch: Any) -> tuple:
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
    is_overflow &= self.loss_scale.scale > _LOWEST_SCALE
    self.loss_scale.update(is_finite)
    # global_step also counts skipped steps, because the schedule and the order
    # of the data depend on it.
    self.global_step.assign_add(1)
    self.applied_updates.assign_add(tf.cast(is_finite, tf.int64))

    def total(values: tf.Tensor) -> tf.Tensor:
      whole = self._strategy.reduce("SUM", values, axis=None)
      # The logged means exclude skipped steps.
      return tf.where(is_finite, whole, tf.zeros_like(whole))

    metrics = tf.nest.map_structure(total, metrics)
    loss = tf.where(is_finite, loss, float("nan"))
    return loss, metrics, rate, norm, is_overflow

  def _replica_step(self, batch: Any) -> tuple:
    """Computes, exchanges and applies the gradients of a replica's share."""
    replica = tf.distribute.get_replica_context()
    step = self.global_step.read_value()
    # Replicas divide by the whole batch's denominators. So their gradients add
    # up to the whole batch's gradient, even if their shares differ in size.
    denominators = replica.all_reduce(
      "SUM", self._objective.denominators(batch)
    )
    place = step, replica.replica_id_in_sync_group  # Dropout depends on both.
    compute, compare = self._objective.outputs, self._objective.compare
    if compute and compare and self._is_split:
      # The loss compares all examples, but a part's gradient needs its own
      # examples only: compute all outputs first, and add to `batch` the loss's
      # gradient at the outputs (arXiv 2101.06983).
      outputs = self._compiled_outputs(compute, batch, *place)
      batch = compare(batch, outputs)
    grads, squared_rows, loss, metrics = self._compiled_gradients(
      batch, denominators, *place
    )
    whole_loss = loss
    if replica.num_replicas_in_sync > 1:
      # A sum, not a mean: all terms have the whole batch's denominator.
      grads, squared_rows, whole_loss = replica.all_reduce(
        "SUM", (grads, squared_rows, loss)
      )
    # Clipping, logs and overflow checks need the unscaled gradient's norm.
    scale = self.loss_scale.scale.read_value()
    norm = self._global_norm(grads, squared_rows) / scale
    rate = self._learning_rate(step)
    self.optimizer.update_all(
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

  def _global_norm(
    self, grads: list, squared_rows: dict[str, tf.Tensor]
  ) -> tf.Tensor:
    """Returns the norm of all gradients; see optimization.rows_squared_norm."""
    dense = [
      grad
      for variable, grad in zip(self._trained, grads)
      if variable.name not in squared_rows
    ]
    squares = [*squared_rows.values(), optimization.squared_norm(dense)]
    return tf.sqrt(tf.add_n(squares))

  def _gradients(
    self,
    batch: Any,
    denominators: dict[str, tf.Tensor],
    step: tf.Tensor,
    replica_id: int | tf.Tensor,
  ) -> tuple:
    """Computes the gradients of a replica's share, one part after another.

    Returns:
      List of gradients (dense tensors if several parts or replicas are summed),
      {name of an embedding table: squared norm of its looked-up rows'
      gradients}, loss, metrics.
    """

    def part_of(index: int | tf.Tensor) -> tuple:
      part, seed = self._parts.part(batch, index, step, replica_id)
      return self._part_gradients(part, seed, denominators)

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

  def _part_gradients(
    self, part: Any, dropout_seed: tf.Tensor, denominators: dict[str, tf.Tensor]
  ) -> tuple:
    """Returns gradients, squared norms, loss and metrics of one part."""
    # Frozen variables need no gradient, so only trained ones are watched.
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch(self._trained)
      sums, metrics = self._objective.sums(part, dropout_seed)
      loss = tf.add_n([sums[name] / denominators[name] for name in sums])
      scaled = loss
      if self.loss_scale.enabled:
        scaled = loss * self.loss_scale.scale
    grads = tape.gradient(scaled, self._trained)
    squared_rows = {}
    for index, (variable, grad) in enumerate(zip(self._trained, grads)):
      if grad is None:
        raise ValueError(f"the loss does not reach {variable.name}")
      # As in the original: the norm of an embedding's gradient counts each
      # lookup separately, before the rows of equal tokens are summed.
      if isinstance(grad, tf.IndexedSlices):
        squared_rows[variable.name] = optimization.rows_squared_norm([grad])
      if self._is_split:
        grads[index] = tf.convert_to_tensor(grad)
    return grads, squared_rows, loss, metrics

  def _run_block(
    self, iterator, num_steps: tf.Tensor
  ) -> train_log.BlockResults:
    """Runs steps without the host; returns their train_log.BlockResults."""
    # All steps, including the first, run in the body of this loop. If the first
    # step ran before it, TensorFlow's arithmetic optimizer would order the sums
    # of accumulated gradients differently there, and the weights would depend
    # on the number of steps in a block.
    # Each step writes its results to a row; the host reads all rows at once.
    structure: list = []

    def take_step(index, rows) -> tuple:
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
      loss_scale=self.loss_scale.scale.read_value(),
    )

  def _compile(self, jit: bool, alone: bool) -> None:
    """Wraps the steps in tf.functions; `alone`: there is only one replica."""
    # If a batch is split, gradients are summed as dense tensors. If not, the
    # gradients of embedding lookups stay tf.IndexedSlices until the update.
    self._is_split = self._parts.count > 1 or not alone
    # XLA cannot compile MirroredStrategy's exchange of gradients. With several
    # replicas, it compiles only the part of the step before the exchange.
    # AutoGraph is off, because converting the network's code takes longer than
    # tracing it.
    step = kernels.for_compiler(self._step) if jit and alone else self._step
    self.step = tf.function(
      step, jit_compile=(jit and alone) or None, autograph=False
    )
    compiled = functools.partial(tf.function, jit_compile=True, autograph=False)
    self._compiled_gradients: Callable = self._gradients
    self._compiled_outputs: Callable = self._parts.outputs
    if jit and not alone:
      self._compiled_gradients = compiled(kernels.for_compiler(self._gradients))
      self._compiled_outputs = compiled(
        kernels.for_compiler(self._parts.outputs)
      )
    # Nested tf.functions slow down tracing, so they are used only for XLA.
    self._step_of_block = self.step if jit and alone else self._step
    self.block = tf.function(self._run_block, autograph=False)


def _as_row(scalars, structure) -> tf.Tensor:
  """Returns a structure of N scalars as float32 [N]; stores the structure."""
  # `structure` is a list, because a loop's body can only return tensors.
  structure.append(scalars)
  return tf.stack([tf.cast(s, tf.float32) for s in tf.nest.flatten(scalars)])
