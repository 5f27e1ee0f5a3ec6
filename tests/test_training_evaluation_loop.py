"""Tests that evaluation and prediction see each example once and in order."""

import logging

import numpy as np
import pytest
import tensorflow as tf

import two_replicas
from common import errors
from records import pipeline, tfrecord
from training import distribution, evaluation_loop, training_step

FEATURES = {
  "input_ids": tf.io.FixedLenFeature([2], tf.int64),
  "input_mask": tf.io.FixedLenFeature([2], tf.int64),
}
STRATEGIES = {"one": tf.distribute.get_strategy, "two": two_replicas.strategy}


@pytest.fixture(params=list(STRATEGIES))
def strategy(request):
  return STRATEGIES[request.param]()


def write_records(path, count):
  """Writes records; record i has input_ids [i, i % 3] and i % 2 + 1 tokens."""
  with tfrecord.RecordWriter(str(path)) as writer:
    for i in range(count):
      writer.write(
        tfrecord.serialize_example(
          {"input_ids": [i, i % 3], "input_mask": [1, i % 2]}
        )
      )
  return pipeline.sequential_records([str(path)])


def numbered(batch):
  return {"number": batch["input_ids"][:, 0]}


@pytest.mark.parametrize("count", [1, 3, 4, 7, 8, 9])
def test_each_record_is_predicted_once_in_order(tmp_path, strategy, count):
  records, traces = write_records(tmp_path / "a.tfrecord", count), []

  def function(batch):
    traces.append(batch)
    squares = tf.cast(batch["input_ids"], tf.float32) ** 2
    return {**numbered(batch), "squares": squares}

  predictor = evaluation_loop.Predictor(strategy, function)
  for _ in range(2):
    outputs = predictor.predict(
      records, FEATURES, num_records=count, batch_size=4
    )
    assert outputs["number"].tolist() == list(range(count))
  expected = [[i**2, (i % 3) ** 2] for i in range(count)]
  np.testing.assert_array_equal(outputs["squares"], expected)
  assert len(traces) == strategy.num_replicas_in_sync


@pytest.mark.parametrize("on_tpu", [False, True])
def test_short_records_share_batches(tmp_path, strategy, on_tpu, monkeypatch):
  monkeypatch.setattr(distribution, "is_tpu", lambda strategy: on_tpu)
  length, count = 600, 50
  features = {
    name: tf.io.FixedLenFeature([length], tf.int64)
    for name in ("input_ids", "input_mask")
  }
  lengths = [length if i < 5 else i for i in range(count)]
  path = str(tmp_path / "a.tfrecord")
  with tfrecord.RecordWriter(path) as writer:
    for i, tokens in enumerate(lengths):
      writer.write(
        tfrecord.serialize_example(
          {
            "input_ids": [i] * length,
            "input_mask": [1] * tokens + [0] * (length - tokens),
          }
        )
      )

  def function(batch):
    rows = tf.shape(batch["input_ids"])[0]
    return {
      "number": batch["input_ids"][:, 0],
      "rows": tf.repeat(rows * strategy.num_replicas_in_sync, rows),
    }

  outputs = evaluation_loop.Predictor(strategy, function).predict(
    pipeline.sequential_records([path]),
    features,
    num_records=count,
    batch_size=2,
    lengths=lengths,
  )
  assert outputs["number"].tolist() == list(range(count))
  expected = [2] * count
  if not on_tpu:
    # A batch holds 2 records of 600 tokens or 24 of up to 48 tokens. The last
    # batch has 20. The record of 49 tokens shares a batch with one of 600.
    expected[5:49] = [20] * 20 + [24] * 24
  assert outputs["rows"].tolist() == expected


@pytest.mark.parametrize(
  "count, batch_size, window",
  [(1, 2, 3), (7, 2, 3), (7, 4, 2), (8, 4, 8), (9, 2, 100)],
)
def test_windows_are_in_order(tmp_path, strategy, count, batch_size, window):
  records = write_records(tmp_path / "a.tfrecord", count)
  predictor = evaluation_loop.Predictor(
    strategy,
    lambda batch: {
      **numbered(batch),
      "length": tf.reduce_sum(batch["input_mask"], axis=1),
    },
  )
  parts = list(
    predictor.windows(records, FEATURES, batch_size=batch_size, window=window)
  )
  assert [len(part["number"]) for part in parts] == [
    min(window, count - start) for start in range(0, count, window)
  ]
  numbers = np.concatenate([part["number"] for part in parts])
  assert numbers.tolist() == list(range(count))
  lengths = np.concatenate([part["length"] for part in parts])
  assert lengths.tolist() == [i % 2 + 1 for i in range(count)]


def test_outputs_come_before_most_records_are_read(tmp_path):
  records = write_records(tmp_path / "a.tfrecord", 4000)
  read = []

  def note(string):
    read.append(string)
    return string

  records = records.map(
    lambda string: tf.ensure_shape(
      tf.numpy_function(note, [string], tf.string), []
    )
  )
  predictor = evaluation_loop.Predictor(tf.distribute.get_strategy(), numbered)
  parts = predictor.windows(records, FEATURES, batch_size=4, window=16)
  assert next(parts)["number"].tolist() == list(range(16))
  assert len(read) < 4000 / 2
  parts.close()


def test_means_are_over_examples_and_the_loss_over_batches(tmp_path, strategy):
  """Token counts are the weights of batches, so the two means differ."""
  records = write_records(tmp_path / "a.tfrecord", 6)

  def tokens(batch):
    return tf.cast(tf.reduce_sum(batch["input_mask"], axis=1), tf.float32)

  def sums(batch, dropout_seed):
    assert dropout_seed is None
    numbers = tf.cast(batch["input_ids"][:, 0], tf.float32)
    total = tf.reduce_sum(numbers * tokens(batch))
    return {"a": total}, {"number": (total, tf.reduce_sum(tokens(batch)))}

  objective = training_step.Objective(
    denominators=lambda batch: {"a": tf.reduce_sum(tokens(batch))}, sums=sums
  )
  evaluate = evaluation_loop.make_evaluator(strategy, objective)
  batches = pipeline.distributed_batches(
    strategy, records, FEATURES, batch_size=2
  )
  weights = np.array([1, 2, 1, 2, 1, 2])
  means = [(0 + 2) / 3, (2 + 6) / 3, (4 + 10) / 3]
  results = evaluate(batches, 100)
  assert results["loss"] == pytest.approx(np.mean(means), rel=1e-6)
  whole = np.average(np.arange(6), weights=weights)
  assert results["number"] == pytest.approx(whole, rel=1e-6)
  assert evaluate(batches, 1)["loss"] == pytest.approx(means[0], rel=1e-6)


def test_a_mean_without_weights_is_0(tmp_path):
  strategy = tf.distribute.get_strategy()
  zero = tf.constant(0.0)
  objective = training_step.Objective(
    denominators=lambda batch: {"a": tf.constant(2.0)},
    sums=lambda batch, seed: ({"a": tf.constant(3.0)}, {"f1": (zero, zero)}),
  )
  batches = pipeline.distributed_batches(
    strategy, write_records(tmp_path / "a.tfrecord", 4), FEATURES, batch_size=2
  )
  evaluate = evaluation_loop.make_evaluator(strategy, objective)
  assert evaluate(batches, 2) == {"loss": 1.5, "f1": 0.0}


def test_less_than_a_batch_is_refused(tmp_path):
  strategy = tf.distribute.get_strategy()
  evaluate = evaluation_loop.make_evaluator(
    strategy, training_step.Objective(denominators=dict, sums=dict)
  )
  batches = pipeline.distributed_batches(
    strategy, write_records(tmp_path / "a.tfrecord", 3), FEATURES, batch_size=4
  )
  with pytest.raises(errors.InputError, match="do not fill one batch"):
    evaluate(batches, 10)


def evaluation_of(values, **options):
  values, saved = iter(values), []
  options = {"every_steps": 2, "last_step": 7, "metric": "f1", **options}
  evaluation = evaluation_loop.PeriodicEvaluation(
    lambda: {options["metric"]: next(values)}, keep_best=saved.append, **options
  )
  return evaluation, saved


@pytest.mark.parametrize(
  "metric, best", [("accuracy", [1, 2]), ("loss", [1]), ("eval_loss", [1])]
)
def test_larger_is_better_unless_it_is_a_loss(metric, best):
  evaluation, saved = evaluation_of([0.5, 0.7, 0.6], metric=metric)
  for step in (1, 2, 3):
    evaluation.run(step)
  assert saved == best and not evaluation.should_stop


def test_values_that_are_not_finite_are_worst():
  nan = float("nan")
  evaluation, saved = evaluation_of([nan, 0.1, nan, 0.2, nan, nan], patience=2)
  for step in (2, 4, 6, 8):
    evaluation.run(step)
    assert not evaluation.should_stop
  assert saved == [4, 8]
  evaluation.run(10)
  assert not evaluation.should_stop
  evaluation.run(12)
  assert evaluation.should_stop
  evaluation, saved = evaluation_of([0.1])
  evaluation.restore({"step": 2, "value": nan, "worse_since": 1}, 2)
  evaluation.run(4)
  assert saved == [4]


@pytest.mark.parametrize(
  "values, messages",
  [
    (
      [0.5, 0.25, 0.75, 0.5, 0.5],
      [
        "best f1 so far: 0.5",
        "best f1 so far: 0.75",
        "stopping early: f1 was best (0.75) at step 3",
      ],
    ),
    ([float("nan")] * 2, ["stopping early: f1 was never a finite number"]),
    ([0.5, 0.25], ["best f1 so far: 0.5"]),
  ],
)
def test_the_best_value_and_an_early_end_are_logged(caplog, values, messages):
  caplog.set_level(logging.INFO, logger="absl")
  evaluation, _ = evaluation_of(values, patience=2)
  for step in range(1, len(values) + 1):
    assert not evaluation.should_stop
    evaluation.run(step)
  assert caplog.messages == messages
  assert evaluation.should_stop == messages[-1].startswith("stopping")


@pytest.mark.parametrize("name", ["loss", "eval_loss"])
def test_the_lower_loss_decides_between_equal_values(name):
  nan = float("nan")
  f1s = [0.5, 0.5, 0.5, 0.5, 0.5, 0.4, 0.5]
  losses = [nan, 3.0, nan, 2.0, 2.0, 1.0, 1.5]
  results = iter(zip(f1s, losses))
  evaluation, saved = evaluation_of([], names=["f1", name])
  evaluation._evaluate = lambda: dict(zip(("f1", name), next(results)))
  for step in range(7):
    evaluation.run(step)
  assert saved == [0, 1, 3, 6]


def test_each_step_is_evaluated_once_and_the_last_one_always():
  evaluation, _ = evaluation_of([0.1, 0.2])
  due = [step for step in range(8) if evaluation.is_due(step)]
  assert due == [2, 4, 6, 7]
  evaluation.run(4)
  assert not evaluation.is_due(4)
  # After a stop, step 4 was already evaluated and step 6 was not.
  for step, is_due in ((4, False), (6, True)):
    resumed, _ = evaluation_of([0.1])
    resumed.restore(evaluation.state(), step)
    assert resumed.is_due(step) == is_due


def test_another_metric_restarts_the_comparison(caplog):
  evaluation, _ = evaluation_of([0.9])
  evaluation.run(2)
  fresh = evaluation_loop.PeriodicEvaluation(
    lambda: {"loss": 5.0}, every_steps=2, last_step=7, metric="loss"
  )
  with caplog.at_level(logging.INFO, logger="absl"):
    fresh.restore(evaluation.state(), 2)
  assert "--save_best is loss now and was f1" in caplog.text
  assert fresh.is_due(2)
  fresh.run(2)
  assert fresh.state()["value"] == 5.0 and fresh.state()["metric"] == "loss"


def test_unknown_metric_names_the_known_ones():
  evaluation = evaluation_loop.PeriodicEvaluation(
    lambda: {"f1": 0.5, "loss": 1.0},
    every_steps=1,
    last_step=7,
    metric="accuracy",
  )
  with pytest.raises(errors.InputError, match="accuracy.*: f1, loss"):
    evaluation.run(1)
  with pytest.raises(errors.InputError, match="=f1 is .* results: accuracy"):
    evaluation_of([], names=["accuracy"])


@pytest.mark.parametrize(
  "metric, names",
  [
    ("f1", ["eval_f1", "loss"]),
    ("eval_f1", ["f1", "loss"]),
    ("f1", ["f1", "eval_f1"]),
    ("loss", ["loss", "eval_loss"]),
  ],
)
def test_a_metric_is_found_with_and_without_eval(metric, names):
  saved = []
  periodic = evaluation_loop.PeriodicEvaluation(
    lambda: {name: float(number) for number, name in enumerate(names)},
    every_steps=1,
    last_step=7,
    metric=metric,
    keep_best=saved.append,
    names=names,
  )
  periodic.run(7)
  assert saved == [7] and periodic.best_step == 7
  assert periodic.state()["metric"] == names[0]
  assert periodic.state()["value"] == 0
