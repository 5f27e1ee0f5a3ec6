"""Evaluates models during and after training, and computes predictions.

Like loop.py, this module is independent of BERT.
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
  """Returns a function that evaluates a training_step.Objective.

  The function takes a distributed dataset and the number of batches to read. It
  returns {name: value}: "loss" is the mean over batches, and each metric is the
  weighted mean over examples. As in the original: these two kinds of mean
  differ if batches differ in weight. It raises InputError if there is no batch.
  """

  def replica_step(batch: dict[str, tf.Tensor]) -> tuple:
    replica = tf.distribute.get_replica_context()
    denominators = replica.all_reduce("SUM", objective.denominators(batch))
    sums, metrics = objective.sums(batch, None)
    loss = tf.add_n([sums[name] / denominators[name] for name in sums])
    # Replicas have the whole batch's denominators, so their losses add up.
    return replica.all_reduce("SUM", (loss, metrics))

  @tf.function(autograph=False)
  def step(batch: dict[str, tf.Tensor]) -> tuple:
    return tf.nest.map_structure(
      lambda values: strategy.experimental_local_results(values)[0],
      strategy.run(replica_step, args=(batch,)),
    )

  def evaluate(batches, num_batches) -> dict:
    # If the range came second, zip would read and drop one more batch.
    results = [step(batch) for _, batch in zip(range(num_batches), batches)]
    if not results:
      raise errors.InputError(
        "the evaluation data do not fill one batch; lower --eval_batch_size"
      )
    # Batches are summed in float64; float32 is exact enough within a batch.
    losses, metrics = zip(*tf.nest.map_structure(np.float64, results))
    totals = tf.nest.map_structure(lambda *values: sum(values), *metrics)
    # As in the original: the mean is 0 if all weights are 0 (no masked token).
    means = {
      name: total / weight if weight else np.float64(0)
      for name, (total, weight) in totals.items()
    }
    return {"loss": np.mean(losses), **means}

  return evaluate


class Predictor:
  """Applies a function to batches; compiles it once for all predictions.

  The model can be freed with the predictor, because no global cache refers to
  the compiled function.
  """

  def __init__(
    self,
    strategy: tf.distribute.Strategy,
    function: Callable,
    *,
    joins_short: bool = True,
  ):
    """Creates a predictor.

    Args:
      strategy: the strategy in whose scope the model was built.
      function: function of a batch (dict of tensors [B, ...]); returns a dict
        of tensors [B, ...].
      joins_short: whether batches of short records may hold more records, see
        input_sequences.batch_sizes. Pass False if the outputs of short records
        need as much memory as the outputs of long records.
    """
    self._strategy = strategy
    # Joined batches vary in shape, and a TPU would compile each shape.
    self._joins_short = joins_short and not distribution.is_tpu(strategy)

    # Batch shapes vary, for example with the number of windows in a text.
    @tf.function(reduce_retracing=True, autograph=False)
    def step(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
      outputs = strategy.run(function, args=(batch,))
      return tf.nest.map_structure(
        lambda tensor: strategy.gather(tensor, axis=0), outputs
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
    """Returns the outputs for all records, in order.

    They are {name: array [num_records, ...]}.

    Args:
      records: serialized records.
      features: {name: tf.io.FixedLenFeature} of a record.
      batch_size: examples in a batch, over all replicas; `joins_short` may join
        several batches. The last batch is filled with records from the
        beginning, whose outputs are dropped.
      lengths: the number of tokens in each record, [num_records]. Records of
        similar length then share a batch, so a function that trims batches to
        their longest sequence computes little padding. The features need an
        `input_mask`. None: batches follow the order of records.
    """
    positions, joined = np.arange(num_records), None
    if lengths is not None:
      order = pipeline.order_by_length(lengths)  # [num_records]
      positions = np.argsort(order)  # The inverse permutation.
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
      name: np.concatenate([part[name] for part in parts])[positions]
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

    Yields {name: array [n, ...]}; n is `window`, or less at the end.

    Args:
      records, features, batch_size: as in `predict`.
      window: the number of consecutive records whose outputs are yielded
        together. If records have an `input_mask`, each window is sorted by
        length to save padding. Use a multiple of batch_size, to fill batches.
    """
    # The next window is read while the current one is computed.
    windows = tfrecord.without_autotune(records.batch(window).prefetch(1))
    for strings in windows:
      window_records = tf.data.Dataset.from_tensor_slices(strings)
      yield self.predict(
        window_records,
        features,
        num_records=len(strings),
        batch_size=batch_size,
        lengths=pipeline.token_counts(window_records, features)
        if "input_mask" in features
        else None,
      )

  def _outputs(
    self, records, features, num_records: int, batch_size: int, joined
  ):
    """Yields the outputs of each batch, a dict of numpy arrays.

    The outputs of a batch are fetched after the next batch has started, so the
    device does not wait for the host.
    """
    # 10 records give 3 batches of 4; the last batch repeats records 0 and 1.
    num_batches = -(-num_records // batch_size)
    batches = pipeline.distributed_batches(
      self._strategy,
      records.repeat().take(num_batches * batch_size),
      features,
      batch_size=batch_size,
      joined=joined,
    )
    previous = None
    for batch in batches:
      outputs = self._step(batch)
      if previous is not None:
        yield {name: value.numpy() for name, value in previous.items()}
      previous = outputs
    if previous is not None:
      yield {name: value.numpy() for name, value in previous.items()}


class PeriodicEvaluation:
  """Evaluates every N steps, saves the best weights, and may end training."""

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
    """Sets up the evaluation.

    Raises InputError: `metric` is not in `names`.

    Args:
      evaluate: function without arguments; returns {name: number}.
      last_step: last step of the schedule, which is always evaluated.
      metric: name of the result that selects the best weights, with or without
        the prefix `eval_`. Smaller is better for names that end in "loss". If
        values are equal, the lower loss wins. None: nothing is compared.
      patience: number of consecutive evaluations without a better result after
        which training stops; 0: never.
      keep_best: function of the step; saves the current (best) weights.
      names: the names of the results, if they are known in advance.
    """
    if metric and names is not None:
      # Without this check, a misspelt name would fail after hours of training.
      metric = _find_metric(metric, names)
    self.every_steps, self._last_step = every_steps, last_step
    self._evaluate, self._keep_best = evaluate, keep_best
    self._patience = patience
    names = "metric step value loss worse_since evaluated_step".split()
    self._state: dict[str, Any] = dict.fromkeys(names)
    self._state.update(metric=metric, worse_since=0)

  @property
  def best_step(self) -> int | None:
    """The step of the best weights so far, None if there are none."""
    return self._state["step"]

  @property
  def should_stop(self) -> bool:
    """Whether `patience` is exhausted."""
    return 0 < self._patience <= self._state["worse_since"]

  def is_due(self, step: int) -> bool:
    """Whether `step` is to be evaluated and has not been evaluated yet."""
    is_time = step % self.every_steps == 0 or step >= self._last_step
    return bool(step) and is_time and step != self._state["evaluated_step"]

  def state(self) -> dict:
    """Returns the state to store in a checkpoint, in JSON types."""
    return dict(self._state)

  def restore(self, state: dict | None, step: int) -> None:
    """Restores `state` from the checkpoint of `step`, unless it is None.

    A state with another metric is ignored, because its best value cannot be
    compared.
    """
    if state is None:
      return
    metric = self._state["metric"]
    # Version 0.1 stored neither key; it evaluated a step before saving it.
    state = {"metric": metric, "evaluated_step": step, **state}
    if state["metric"] == metric:
      self._state.update(state)
      return
    logging.info(
      "--save_best is %s now and was %s before: the earlier best is ignored",
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
    # The checkpoint stores this step, so a run that is stopped after an
    # evaluation does not repeat it.
    self._state["evaluated_step"] = step
    return results

  def _compare(self, step, results: dict) -> None:
    state = self._state
    metric = _find_metric(state["metric"], results)
    value = results[metric]
    loss = results.get("eval_loss", results.get("loss"))
    best = _rank(metric, state["value"], state["loss"])
    # If value and loss equal the best ones, the earlier weights win.
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


def _find_metric(metric: str, names):
  """Returns the name that equals `metric`, apart from the prefix `eval_`.

  Raises InputError: no name does.
  """
  for name in (metric, f"eval_{metric}", metric.removeprefix("eval_")):
    if name in names:
      return name
  raise errors.InputError(
    f"--save_best={metric} is not among the results: {', '.join(sorted(names))}"
  )


def _rank(metric: str, value, loss) -> tuple:
  """Returns a sort key: larger is better; values that are not finite lose."""
  if value is None or not math.isfinite(value):
    return -math.inf, -math.inf
  has_loss = loss is not None and math.isfinite(loss)
  return (
    -value if metric.endswith("loss") else value,
    -loss if has_loss else -math.inf,
  )
