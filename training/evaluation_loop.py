"""Evaluates and predicts over a strategy, and evaluates during training.

Like loop.py, it is independent of BERT.
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

  The function takes a distributed dataset and the number of batches to read. It
  returns {name of a metric: its weighted mean over examples} and "loss", the
  mean over batches. As in the original: the two means differ if batches differ
  in weight. It raises InputError if there is no batch.
  """

  def replica_step(batch):
    replica = tf.distribute.get_replica_context()
    weights = replica.all_reduce("SUM", objective.weights(batch))
    sums, metrics = objective.sums(batch, None)
    loss = tf.add_n([sums[name] / weights[name] for name in sums])
    # Each loss is divided by the whole batch's weights, so a sum is enough.
    return replica.all_reduce("SUM", (loss, metrics))

  @tf.function(autograph=False)
  def step(batch):
    return tf.nest.map_structure(
      lambda values: strategy.experimental_local_results(values)[0],
      strategy.run(replica_step, args=(batch,)),
    )

  def evaluate(batches, num_batches):
    # The range comes first, or zip would take one more batch and drop it.
    results = [step(batch) for _, batch in zip(range(num_batches), batches)]
    if not results:
      raise errors.InputError(
        "the evaluation data are less than one batch; lower --eval_batch_size"
      )
    # Batches are summed in float64; float32 is exact enough within a batch.
    losses, metrics = zip(*tf.nest.map_structure(np.float64, results))
    totals = tf.nest.map_structure(lambda *values: sum(values), *metrics)
    # As in the original: the mean is 0 without any weight (no masked word).
    means = {
      name: total / weight if weight else np.float64(0)
      for name, (total, weight) in totals.items()
    }
    return {"loss": np.mean(losses), **means}

  return evaluate


class Predictor:
  """Applies a function to batches, and compiles it once for all predictions.

  It keeps its model alive; no global cache does.
  """

  def __init__(
    self,
    strategy: tf.distribute.Strategy,
    function: Callable,
    *,
    joins_short: bool = True,
  ):
    """Makes a predictor.

    Args:
      strategy: the strategy in whose scope the model was made.
      function: function of a batch (dict of tensors [B, ...]); returns a dict
        of tensors [B, ...].
      joins_short: whether batches of short records may be several times larger,
        see input_sequences.batch_sizes; False if the outputs of short and long
        records have the same size.
    """
    self._strategy = strategy
    # A TPU would compile each shape.
    self._joins_short = joins_short and not distribution.is_tpu(strategy)

    # Batches may differ in shape: their texts may have more or fewer windows.
    @tf.function(reduce_retracing=True, autograph=False)
    def step(batch):
      outputs = strategy.run(function, args=(batch,))
      return tf.nest.map_structure(
        lambda values: strategy.gather(values, axis=0), outputs
      )

    self._step = step

  def predict(
    self,
    records: tf.data.Dataset,
    features: dict,
    *,
    num_records: int,
    batch_size: int,
    lengths: Sequence[int] | np.ndarray | None = None,
  ) -> dict[str, np.ndarray]:
    """Computes outputs for every record exactly once, in their order.

    Returns arrays [num_records, ...].

    Args:
      records: serialized records.
      features: {name: feature of tf.io} of a record.
      batch_size: examples in a batch, over all replicas; `joins_short` may join
        several batches. The last batch is filled with records from the
        beginning, whose outputs are dropped.
      lengths: tokens of each record, [num_records]. Batches then have records
        of similar length, so a function that cuts batches to their longest
        sequence computes little padding. The features need an `input_mask`.
        None: file order.
    """
    places, joined = np.arange(num_records), None
    if lengths is not None:
      order = pipeline.order_by_length(lengths)  # [num_records]
      places = np.argsort(order)  # The inverse of a permutation.
      records = pipeline.reordered(records, order)
      if self._joins_short:
        sizes = input_sequences.batch_sizes(
          np.asarray(lengths)[order],
          batch_size,
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
    self,
    records: tf.data.Dataset,
    features: dict,
    *,
    batch_size: int,
    window: int,
  ) -> Iterator[dict[str, np.ndarray]]:
    """Computes outputs like `predict`, window by window, to limit the memory.

    Yields arrays [n, ...]; n is `window`, or less at the end.

    Args:
      records, features, batch_size: as in `predict`.
      window: this many consecutive records are sorted by length, if they have
        an `input_mask`, so that batches need little padding; their outputs are
        yielded together. A multiple of batch_size fills every batch.
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
        if "input_mask" in features
        else None,
      )

  def _outputs(self, records, features, num_records, batch_size, joined):
    """Yields the outputs of all batches, dicts of numpy arrays.

    The last batch is filled. Outputs of a batch are fetched after the next
    batch is started, so that the device does not wait for the host.
    """
    # 10 records give 3 batches of 4; the last repeats records 0 and 1.
    num_batches = -(-num_records // batch_size)
    batches = pipeline.distributed_batches(
      self._strategy,
      records.repeat().take(num_batches * batch_size),
      features,
      batch_size=batch_size,
      joined=joined,
    )
    last = None
    for batch in batches:
      step_values = self._step(batch)
      if last is not None:
        yield {name: value.numpy() for name, value in last.items()}
      last = step_values
    yield {name: value.numpy() for name, value in last.items()}


class PeriodicEvaluation:
  """Evaluates every N steps, keeps the best weights, decides when to stop."""

  def __init__(
    self,
    evaluate: Callable,
    *,
    every_steps: int,
    last_step: int,
    metric: str | None = None,
    patience: int = 0,
    keep_best: Callable = lambda step: None,
    names: list[str] | None = None,
  ):
    """Makes an evaluation.

    Raises InputError: `metric` is not in `names`.

    Args:
      evaluate: function without arguments; returns {name: number}.
      last_step: last step of the schedule, after which it evaluates, too.
      metric: name of the result that is compared, with or without the prefix
        `eval_`; smaller is better for names that end in "loss". If values are
        equal, the lower loss is better. None compares nothing.
      patience: number of consecutive evaluations without a better result after
        which training stops; 0: never.
      keep_best: function of the step, called when the metric is the best so
        far.
      names: the names of the results, if they are known in advance.
    """
    if metric and names is not None:
      # Otherwise, a misspelt name would be found after hours of training.
      metric = _find_metric(metric, names)
    self.every_steps, self._last_step = every_steps, last_step
    self._evaluate, self._keep_best = evaluate, keep_best
    self._patience = patience
    self._state: dict[str, Any] = {
      "metric": metric,
      "step": None,
      "value": None,
      "loss": None,
      "worse_since": 0,
      "evaluated_step": None,
    }

  @property
  def best_step(self) -> int | None:
    """The step of the best weights so far, None if there are none."""
    return self._state["step"]

  @property
  def should_stop(self) -> bool:
    """Whether `patience` is exhausted."""
    return 0 < self._patience <= self._state["worse_since"]

  def is_due(self, step: int) -> bool:
    """Whether to evaluate the weights of `step`, if that was not done yet."""
    is_time = step % self.every_steps == 0 or step >= self._last_step
    return bool(step) and is_time and step != self._state["evaluated_step"]

  def state(self) -> dict:
    """Returns the state to store in a checkpoint, in JSON types."""
    return dict(self._state)

  def restore(self, state: dict | None, step: int) -> None:
    """Restores the `state` from a checkpoint of `step`, None without one.

    If the state is of another metric, its best value is meaningless, and the
    comparison starts again.
    """
    if state is None:
      return
    metric = self._state["metric"]
    # Version 0.1 saved after the evaluation, and named no metric.
    state = {"metric": metric, "evaluated_step": step, **state}
    if state["metric"] == metric:
      self._state.update(state)
      return
    logging.info(
      "--save_best is %s now and was %s: the earlier best is forgotten",
      metric,
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
        "stopping early: %s",
        f"{metric} was best ({state['value']:.6g}) at step {state['step']}"
        if state["step"]
        else f"{metric} was never a finite number",
      )


def _find_metric(metric, names):
  """Returns the name of a result, which may differ from `metric` by `eval_`.

  Raises InputError: there is no such result.
  """
  for name in (metric, f"eval_{metric}", metric.removeprefix("eval_")):
    if name in names:
      return name
  raise errors.InputError(
    f"--save_best={metric} is not among the results: {', '.join(sorted(names))}"
  )


def _rank(metric, value, loss):
  """Returns a pair that is larger for a better value, least if not finite."""
  if value is None or not math.isfinite(value):
    return -math.inf, -math.inf
  has_loss = loss is not None and math.isfinite(loss)
  return (
    -value if metric.endswith("loss") else value,
    -loss if has_loss else -math.inf,
  )
