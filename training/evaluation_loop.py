"""Evaluate and predict over a strategy; evaluate while training.

Like loop.py, nothing here has to do with BERT.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from common import errors
from records import pipeline, tfrecord
from text import input_sequences
from training import distribution


def make_evaluator(strategy: tf.distribute.Strategy, objective) -> Callable:
  """Returns a function that evaluates a loop.Objective, compiled once.

  It takes a distributed dataset and how many batches of it to take, and returns
  a dict from the name of each metric to its mean over examples (weighted), and
  "loss": the mean over batches. As in the original: the two kinds of mean
  differ where batches differ in weight. It raises InputError if there is not
  one batch.
  """

  def replica_step(batch):
    replica = tf.distribute.get_replica_context()
    weights = replica.all_reduce("SUM", objective.weights(batch))
    sums, metrics = objective.sums(batch, None)
    loss = tf.add_n([sums[name] / weights[name] for name in sums])
    # Each replica's loss is divided by the whole batch's weights: a plain sum.
    return replica.all_reduce("SUM", (loss, metrics))

  @tf.function(autograph=False)
  def step(batch):
    return tf.nest.map_structure(
      lambda values: strategy.experimental_local_results(values)[0],
      strategy.run(replica_step, args=(batch,)),
    )

  def evaluate(batches, num_batches):
    # The range first: zip would else take one batch more and drop it.
    results = [step(batch) for _, batch in zip(range(num_batches), batches)]
    if not results:
      raise errors.InputError(
        "the evaluation data are less than one batch; lower --eval_batch_size"
      )
    # Summed in float64 on the host: the step's own sums are exact enough.
    losses, metrics = zip(*tf.nest.map_structure(np.float64, results))
    totals = tf.nest.map_structure(lambda *values: sum(values), *metrics)
    # As in the original: the mean of nothing (no masked word at all) is 0.
    means = {
      name: total / weight if weight else np.float64(0)
      for name, (total, weight) in totals.items()
    }
    return {"loss": np.mean(losses), **means}

  return evaluate


class Predictor:
  """A function of batches that is compiled once, however often it predicts.

  A reference to it keeps its model alive; nothing else does.
  """

  def __init__(
    self, strategy: tf.distribute.Strategy, function: Callable, *,
    joins_short: bool = True
  ):
    """Takes what is to be computed.

    Args:
      strategy: that in whose scope the model was made.
      function: of a batch (dict of tensors [B, ...]); returns a dict of
        tensors [B, ...].
      joins_short: whether a batch of short records may be several times as
        large, see input_sequences.batch_sizes; not where outputs are as large
        for a short record as for a long one.
    """
    self._strategy = strategy
    # A TPU compiles each shape.
    self._joins_short = joins_short and not distribution.is_tpu(strategy)

    # Batches may differ in shape: in how many windows their texts have.
    @tf.function(reduce_retracing=True, autograph=False)
    def step(batch):
      outputs = strategy.run(function, args=(batch,))
      return tf.nest.map_structure(
        lambda values: strategy.gather(values, axis=0), outputs
      )

    self._step = step

  def predict(
    self, records: tf.data.Dataset, features: dict, *, num_records: int,
    batch_size: int, lengths: Sequence[int] | np.ndarray | None = None
  ) -> dict[str, np.ndarray]:
    """Computes outputs for every record exactly once, in their order.

    Returns arrays [num_records, ...].

    Args:
      records: serialized.
      features: of a record, for tf.io.
      batch_size: examples in a batch, over all replicas, or a part of one that
        `joins_short`. The last batch is filled with records from the beginning,
        whose outputs are dropped.
      lengths: tokens of each record, [num_records]; batches are then made of
        records of like length, so that a function that cuts batches to their
        longest sequence has little padding to compute; batches of short records
        may be larger. None: file order. The features have an `input_mask`.
    """
    places, joined = np.arange(num_records), None
    if lengths is not None:
      order = pipeline.order_by_length(lengths)  # [num_records]
      places = np.argsort(order)  # The inverse of a permutation.
      records = pipeline.reordered(records, order)
      if self._joins_short:
        sizes = input_sequences.batch_sizes(
          np.asarray(lengths)[order], batch_size,
          max_length=features["input_mask"].shape[-1],
        )
        joined = np.array(sizes) // batch_size
    parts = list(
      self._outputs(records, features, num_records, batch_size, joined)
    )
    return {
      name: np.concatenate([part[name] for part in parts])[places]
      for name in parts[0]
    }

  def windows(
    self, records: tf.data.Dataset, features: dict, *, batch_size: int,
    window: int
  ) -> Iterator[dict[str, np.ndarray]]:
    """Computes outputs as `predict` does, holding few of them in memory.

    Yields arrays [n, ...]; n is the window but for the last ones.

    Args:
      records, features, batch_size: as of `predict`; the features have an
        `input_mask`.
      window: this many consecutive records are sorted by length, so that
        batches need little padding, and their outputs are given together. A
        multiple of batch_size fills every batch.
    """
    # The next window is read while this one is computed.
    together = tfrecord.without_autotune(records.batch(window).prefetch(1))
    for strings in together:
      of_window = tf.data.Dataset.from_tensor_slices(strings)
      yield self.predict(
        of_window,
        features,
        num_records=len(strings),
        batch_size=batch_size,
        lengths=pipeline.token_counts(of_window, features)
        if "input_mask" in features else None,
      )

  def _outputs(self, records, features, num_records, batch_size, joined):
    """Yields the outputs of all batches, dicts of numpy arrays.

    The last batch is filled. A batch is fetched when the next one is on its
    way, so that a device does not wait for the host.
    """
    # 10 records in batches of 4: three, and the last has records 0 and 1 again.
    num_batches = -(-num_records // batch_size)
    batches = pipeline.distributed_batches(
      self._strategy, records.repeat().take(num_batches * batch_size), features,
      batch_size=batch_size, joined=joined
    )
    last = None
    for batch in batches:
      step_values = self._step(batch)
      if last is not None:
        yield {name: value.numpy() for name, value in last.items()}
      last = step_values
    yield {name: value.numpy() for name, value in last.items()}


class PeriodicEvaluation:
  """Evaluates every N steps, keeps the best, knows when to stop."""

  def __init__(
    self, evaluate: Callable, *, every_steps: int, last_step: int,
    metric: str | None = None, patience: int = 0,
    keep_best: Callable = lambda step: None, names: list[str] | None = None
  ):
    """Says what to evaluate and what to do with it.

    Raises InputError: the metric is not in names.

    Args:
      evaluate: function without arguments; returns dict from name to number.
      last_step: of the schedule; it is evaluated, too.
      metric: name of the result that is compared, with or without `eval_` at
        its beginning; smaller is better for names that end in "loss". Of equal
        ones that with the lower loss is better. None compares nothing.
      patience: after this many evaluations in a row that were not better the
        training stops; 0: never.
      keep_best: function of the step, called when the metric is the best so
        far.
      names: the names of the results, if they are known in advance.
    """
    if metric and names is not None:
      # Now: a misspelt name would else show after hours of training.
      metric = _find_metric(metric, names)
    self.every_steps, self._last_step = every_steps, last_step
    self._evaluate, self._keep_best = evaluate, keep_best
    self._patience = patience
    self._state: dict[str, Any] = {
      "metric": metric, "step": None, "value": None, "loss": None,
      "worse_since": 0, "evaluated_step": None,
    }

  @property
  def best_step(self) -> int | None:
    """The step of the best weights so far, None if there are none."""
    return self._state["step"]

  @property
  def should_stop(self) -> bool:
    """Whether patience is at its end."""
    return 0 < self._patience <= self._state["worse_since"]

  def is_due(self, step: int) -> bool:
    """Whether the weights of `step` are to be evaluated, and were not yet."""
    is_time = step % self.every_steps == 0 or step >= self._last_step
    return bool(step) and is_time and step != self._state["evaluated_step"]

  def state(self) -> dict:
    """Returns the state to store in a checkpoint, as JSON can hold it."""
    return dict(self._state)

  def restore(self, state: dict | None, step: int) -> None:
    """Takes back what `state` gave in a checkpoint of `step`.

    The best value of another metric says nothing: the comparison then begins
    anew.
    """
    if state is None:
      return
    # Older checkpoints were written after the evaluation, and named no metric.
    metric = self._state["metric"]
    state = {"metric": metric, "evaluated_step": step, **state}
    if state["metric"] == metric:
      self._state.update(state)
      return
    logging.info(
      "--save_best is %s now and was %s: what was best is forgotten", metric,
      state["metric"],
    )

  def run(self, step: int) -> dict[str, float]:
    """Evaluates the weights of `step`; returns the results.

    Raises InputError: the metric is not among the results.
    """
    results = {k: float(v) for k, v in self._evaluate().items()}
    if self._state["metric"]:
      self._compare(step, results)
    # Stored with the checkpoint: a run that is stopped after an evaluation
    # does not repeat it.
    self._state["evaluated_step"] = step
    return results

  def _compare(self, step, results):
    state = self._state
    metric = _find_metric(state["metric"], results)
    value = results[metric]
    loss = results.get("eval_loss", results.get("loss"))
    best = _rank(metric, state["value"], state["loss"])
    # The earlier weights win if values and losses are equal.
    if _rank(metric, value, loss) > best:
      state.update(step=step, value=value, loss=loss, worse_since=0)
      logging.info("best %s so far: %.6g", metric, value)
      self._keep_best(step)
      return
    state["worse_since"] += 1
    if self.should_stop:
      logging.info(
        "stopping early: %s", f"{metric} was best ({state['value']:.6g}) at "
        f"step {state['step']}" if state["step"]
        else f"{metric} was never a finite number",
      )


def _find_metric(metric, names):
  """Returns a result's name: as it is given, or with or without `eval_`.

  Raises InputError: there is no such result.
  """
  for name in (metric, f"eval_{metric}", metric.removeprefix("eval_")):
    if name in names:
      return name
  raise errors.InputError(
    f"--save_best={metric} is not among the results: "
    f"{', '.join(sorted(names))}"
  )


def _rank(metric, value, loss):
  """Returns a pair that is the larger, the better; least for no number."""
  if value is None or not math.isfinite(value):
    return -math.inf, -math.inf
  has_loss = loss is not None and math.isfinite(loss)
  return (
    -value if metric.endswith("loss") else value,
    -loss if has_loss else -math.inf,
  )
