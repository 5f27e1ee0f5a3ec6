"""Classifiers of every task kind: logits, losses, windows, replicas."""

import numpy as np
import pytest
import tensorflow as tf

import tiny_model
import two_replicas
from classification import model, scores
from tiny_model import assert_close

SEED = tf.constant([1, 2], tf.int32)


def make(task_kind, outputs=3, **options):
  return model.ClassifierModel(
    tiny_model.tiny(), task_kind, outputs, seed=5, **options
  )


def batch(labels, *, sequences=1, length=8, seed=0, empty=()):
  """Returns inputs [B, W, T]; `empty` lists (row, sequence) without tokens."""
  rows = len(labels)
  arrays = tiny_model.batch(rows * sequences, length, seed)
  names = ("input_ids", "input_mask", "segment_ids")
  result = {
    name: tf.reshape(array, [rows, sequences, length]).numpy()
    for name, array in zip(names, arrays)
  }
  # In tiny_model's mask, later rows have fewer tokens and may be empty.
  result["input_mask"][...] = 1
  for row, sequence in empty:
    for name in names:
      result[name][row, sequence] = 0
  is_number = isinstance(labels[0], float)
  result["label_ids"] = np.array(labels, np.float32 if is_number else np.int32)
  result["is_real_example"] = np.ones([rows], np.int32)
  return {name: tf.constant(value) for name, value in result.items()}


def loss_of(network, data, **options):
  objective = model.objective(network, **options)
  sums, metrics = objective.sums(data, None)
  denominators = objective.denominators(data)
  return float(sums["classifier"] / denominators["classifier"]), metrics


def log_softmax(logits):
  return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def test_variables_have_the_names_of_the_original():
  names = {v.name.split(":")[0] for v in make("single").variables}
  assert {"output_weights", "output_bias"} <= names
  assert all(name.startswith(("bert/", "output_")) for name in names)


def test_the_single_class_loss_is_cross_entropy():
  network, data = make("single"), batch([0, 2, 1])
  logits = network(data).numpy()
  assert logits.shape == (3, 3)
  losses = -log_softmax(logits)[[0, 1, 2], [0, 2, 1]]
  loss, metrics = loss_of(network, data)
  assert_close(loss, losses.mean())
  right = (logits.argmax(1) == [0, 2, 1]).sum()
  assert metrics["classifier_accuracy"][0].numpy() == right
  computed = network.example_losses(tf.constant(logits), data["label_ids"])
  assert_close(computed, losses)
  # Class weights make a weighted mean.
  loss, _ = loss_of(network, data, class_weights=[1.0, 2.0, 0.5])
  assert_close(loss, (losses * [1, 0.5, 2]).sum() / 3.5)


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 0.5]])
def test_examples_that_fill_a_batch_count_for_nothing(weights):
  network, data = make("single"), batch([0, 2, 1])
  data["is_real_example"] = tf.constant([1, 0, 1])
  logits = network(data).numpy()
  losses = -log_softmax(logits)[[0, 2], [0, 1]]
  loss, metrics = loss_of(network, data, class_weights=weights)
  shares = np.array([1.0, 2.0]) if weights else np.ones(2)
  assert_close(loss, (losses * shares).sum() / shares.sum())
  right = (logits.argmax(1)[[0, 2]] == [0, 1]).sum()
  found = [float(part) for part in metrics["classifier_accuracy"]]
  assert found == [right, 2]


def test_the_regression_loss_is_the_squared_error():
  network, data = make("regression", 1), batch([0.5, 2.0])
  logits = network(data).numpy()
  loss, metrics = loss_of(network, data)
  assert_close(loss, np.mean((logits[:, 0] - [0.5, 2.0]) ** 2))
  assert set(metrics) == {"classifier_loss", "tokens_per_example", "fill_rate"}
  assert [float(part) for part in metrics["tokens_per_example"]] == [16, 2]
  assert_close(scores.of_logits("regression", logits), logits)


def test_the_multi_label_loss_has_a_sigmoid_per_class():
  network = make("multi_label")
  labels = np.array([[1, 0, 1], [0, 0, 1]])
  data = batch(labels)
  logits = network(data).numpy()
  probabilities = 1 / (1 + np.exp(-logits))
  losses = -np.log(np.where(labels, probabilities, 1 - probabilities))
  assert_close(loss_of(network, data)[0], losses.mean())
  weights = [1.0, 3.0, 0.5]
  loss, _ = loss_of(network, data, class_weights=weights)
  # The weight of a class does not apply to its negative examples.
  assert_close(loss, (losses * np.where(labels, weights, 1)).mean())
  assert_close(scores.of_logits("multi_label", logits), probabilities)


@pytest.mark.parametrize(
  "task_kind, expected",
  [("single", tf.nn.softmax), ("multi_label", tf.sigmoid)],
)
def test_scores_of_large_logits_do_not_overflow(task_kind, expected):
  logits = np.random.RandomState(0).normal(0, 99, [5, 3]).astype(np.float32)
  computed = scores.of_logits(task_kind, logits)
  assert computed.dtype == np.float32
  assert_close(computed, expected(logits))


def test_endings_are_scored_one_by_one_and_compared():
  network, data = make("choice", 1), batch([3, 0], sequences=4)
  logits = network(data).numpy()
  assert logits.shape == (2, 4)
  single = make("regression", 1)
  for row in range(2):
    for ending in range(4):
      alone = {
        name: value[row : row + 1, ending : ending + 1]
        for name, value in data.items()
        if value.shape.rank == 3
      }
      assert_close(single(alone).numpy()[0, 0], logits[row, ending])
  losses = -log_softmax(logits)[[0, 1], [3, 0]]
  assert_close(loss_of(network, data)[0], losses.mean())


@pytest.mark.parametrize("skip_padding", [False, True])
def test_windows_without_tokens_change_nothing(skip_padding):
  network = make("single", skip_padding=skip_padding)
  data = batch([0, 1], sequences=3, empty=[(1, 1), (1, 2)])
  logits = network(data).numpy()
  arrays = {k: value for k, value in data.items() if value.shape.rank == 3}
  windows = [
    network({k: value[:, w : w + 1] for k, value in arrays.items()}).numpy()
    for w in range(3)
  ]
  assert_close(logits[0], np.mean([window[0] for window in windows], axis=0))
  assert_close(logits[1], windows[0][1])


def test_a_frozen_encoder_has_no_dropout():
  network, data = make("single", is_frozen=True), batch([0, 2])
  states, mask = network.first_states(data)
  cached = {"first_states": states, "sequence_mask": mask}
  assert_close(network(cached), network(data))
  # In training, only the head has dropout.
  assert_close(network(cached, SEED), network(data, SEED))
  assert np.abs(network(data, SEED) - network(data)).max() > 1e-3
  trained = make("single")
  assert np.abs(trained(data, SEED) - network(data, SEED)).max() > 1e-3


def test_stored_states_of_half_precision_are_exact():
  network = make("single", is_frozen=True, compute_dtype=tf.bfloat16)
  data = batch([0, 2])
  states, mask = network.first_states(data)
  stored = tf.cast(states, tf.float32)
  cached = {"first_states": stored, "sequence_mask": mask}
  assert_close(network(cached), network(data), 0)


def test_a_batch_of_zero_weight_classes_has_zero_gradients():
  network, data = make("single"), batch([1, 1])
  objective = model.objective(network, [1.0, 0.0, 2.0])
  with tf.GradientTape() as tape:
    sums, _ = objective.sums(data, None)
    loss = sums["classifier"] / objective.denominators(data)["classifier"]
  assert loss.numpy() == 0
  for gradient in tape.gradient(loss, network.trainable_variables):
    assert (tf.convert_to_tensor(gradient).numpy() == 0).all()


@pytest.mark.parametrize("labels", [[0, 2, 1, 1], [0, 0, 1, 2]])
def test_two_replicas_learn_as_one_device(labels):
  """The first replica may have only examples whose class has the weight 0."""
  strategy = two_replicas.strategy()
  data = batch(labels, sequences=2, empty=[(0, 1), (3, 1)])
  alone, weights = make("single", skip_padding=True), [0.0, 1.0, 2.0]
  with strategy.scope():
    shared = make("single", skip_padding=True)

  def loss_and_gradients(network, data, total=lambda weights: weights):
    objective = model.objective(network, weights)
    divisor = total(objective.denominators(data))["classifier"]
    with tf.GradientTape() as tape:
      loss = objective.sums(data, None)[0]["classifier"] / divisor
    return loss, [
      tf.convert_to_tensor(gradient)
      for gradient in tape.gradient(loss, network.trainable_variables)
    ]

  @tf.function
  def run(values):
    def step(part):
      replica = tf.distribute.get_replica_context()
      return loss_and_gradients(
        shared, part, lambda weights: replica.all_reduce("SUM", weights)
      )

    return tf.nest.map_structure(
      lambda value: strategy.reduce("SUM", value, None),
      strategy.run(step, args=(values,)),
    )

  computed = run(two_replicas.halves(data))
  for result, expected in zip(
    tf.nest.flatten(computed), tf.nest.flatten(loss_and_gradients(alone, data))
  ):
    assert_close(result, expected)
