"""The classifier of every kind: logits, losses, windows, replicas."""

import numpy as np
import pytest
import tensorflow as tf

import tiny_model
import two_replicas
from checkpoints import model_writer
from classification import model, scores
from common import errors, run_settings
from tiny_model import assert_close
from training import distillation

SEED = tf.constant([1, 2], tf.int32)


def make(kind, outputs=3, **options):
  return model.ClassifierModel(
    tiny_model.tiny(), kind, outputs, seed=5, **options
  )


def batch(labels, *, sequences=1, length=8, seed=0, empty=()):
  """Random ids [B, W, T]; `empty` are (row, sequence) without tokens."""
  rows = len(labels)
  arrays = tiny_model.batch(rows * sequences, length, seed)
  names = ("input_ids", "input_mask", "segment_ids")
  result = {
    name: tf.reshape(array, [rows, sequences, length]).numpy()
    for name, array in zip(names, arrays)
  }
  # tiny_model's mask gets shorter from row to row: here all have tokens.
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
  weights = objective.weights(data)
  return float(sums["classifier"] / weights["classifier"]), metrics


def log_softmax(logits):
  return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def test_variables_have_the_names_of_the_original():
  names = {v.name.split(":")[0] for v in make("single").variables}
  assert {"output_weights", "output_bias"} <= names
  assert all(name.startswith(("bert/", "output_")) for name in names)


def test_one_class_of_several_is_cross_entropy():
  network, data = make("single"), batch([0, 2, 1])
  logits = network(data).numpy()
  assert logits.shape == (3, 3)
  losses = -log_softmax(logits)[[0, 1, 2], [0, 2, 1]]
  loss, metrics = loss_of(network, data)
  assert_close(loss, losses.mean())
  right = (logits.argmax(1) == [0, 2, 1]).sum()
  assert metrics["classifier_accuracy"][0].numpy() == right
  found = network.example_losses(tf.constant(logits), data["label_ids"])
  assert_close(found, losses)
  # Class weights make a weighted mean.
  loss, _ = loss_of(network, data, class_weights=[1.0, 2.0, 0.5])
  assert_close(loss, (losses * [1, 0.5, 2]).sum() / 3.5)


def test_a_number_is_learned_by_its_squared_error():
  network, data = make("regression", 1), batch([0.5, 2.0])
  logits = network(data).numpy()
  loss, metrics = loss_of(network, data)
  assert_close(loss, np.mean((logits[:, 0] - [0.5, 2.0]) ** 2))
  assert set(metrics) == {"classifier_loss", "tokens_per_example", "fill_rate"}
  assert [float(part) for part in metrics["tokens_per_example"]] == [16, 2]
  assert_close(scores.of_logits("regression", logits), logits)


def test_several_classes_at_once_have_a_sigmoid_each():
  network = make("multi_label")
  labels = np.array([[1, 0, 1], [0, 0, 1]])
  data = batch(labels)
  logits = network(data).numpy()
  probabilities = 1 / (1 + np.exp(-logits))
  losses = -np.log(np.where(labels, probabilities, 1 - probabilities))
  assert_close(loss_of(network, data)[0], losses.mean())
  weights = [1.0, 3.0, 0.5]
  loss, _ = loss_of(network, data, class_weights=weights)
  # What is not of a class counts as before.
  assert_close(loss, (losses * np.where(labels, weights, 1)).mean())
  assert_close(scores.of_logits("multi_label", logits), probabilities)


@pytest.mark.parametrize("task_kind, expected", [
  ("single", tf.nn.softmax), ("multi_label", tf.sigmoid),
])
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
        for name, value in data.items() if value.shape.rank == 3
      }
      assert_close(single(alone).numpy()[0, 0], logits[row, ending])
  losses = -log_softmax(logits)[[0, 1], [3, 0]]
  assert_close(loss_of(network, data)[0], losses.mean())


@pytest.mark.parametrize("skip_empty", [False, True])
def test_windows_without_tokens_change_nothing(skip_empty):
  network = make("single")
  data = batch([0, 1], sequences=3, empty=[(1, 1), (1, 2)])
  logits = network(data, skip_empty=skip_empty).numpy()
  arrays = {k: value for k, value in data.items() if value.shape.rank == 3}
  windows = [
    network({k: value[:, w : w + 1] for k, value in arrays.items()}).numpy()
    for w in range(3)
  ]
  assert_close(logits[0], np.mean([window[0] for window in windows], axis=0))
  assert_close(logits[1], windows[0][1])


def test_a_frozen_encoder_drops_nothing():
  network, data = make("single", is_frozen=True), batch([0, 2])
  states, mask = network.first_states(data)
  cached = {"first_states": states, "sequence_mask": mask}
  assert_close(network(cached), network(data))
  # In training the head drops, and nothing else does.
  assert_close(network(cached, SEED), network(data, SEED))
  assert np.abs(network(data, SEED) - network(data)).max() > 1e-3
  trained = make("single")
  assert np.abs(trained(data, SEED) - network(data, SEED)).max() > 1e-3


def test_states_that_are_kept_in_half_precision_are_the_same():
  network = make("single", is_frozen=True, compute_dtype=tf.bfloat16)
  data = batch([0, 2])
  states, mask = network.first_states(data)
  kept = tf.cast(states, tf.float32)
  cached = {"first_states": kept, "sequence_mask": mask}
  assert_close(network(cached), network(data), 0)


def test_a_batch_whose_classes_weigh_nothing_teaches_nothing():
  network, data = make("single"), batch([1, 1])
  objective = model.objective(network, [1.0, 0.0, 2.0])
  with tf.GradientTape() as tape:
    sums, _ = objective.sums(data, None)
    loss = sums["classifier"] / objective.weights(data)["classifier"]
  assert loss.numpy() == 0
  for gradient in tape.gradient(loss, network.trainable_variables):
    assert (tf.convert_to_tensor(gradient).numpy() == 0).all()


@pytest.mark.parametrize("labels", [[0, 2, 1, 1], [0, 0, 1, 2]])
def test_two_replicas_learn_as_one_device(labels):
  """The first of them may have nothing but a class that weighs nothing."""
  strategy = two_replicas.strategy()
  data = batch(labels, sequences=2, empty=[(0, 1), (3, 1)])
  alone, weights = make("single"), [0.0, 1.0, 2.0]
  with strategy.scope():
    shared = make("single")

  def loss_and_gradients(network, data, total=lambda weights: weights):
    objective = model.objective(network, weights, skip_empty=True)
    whole = total(objective.weights(data))["classifier"]
    with tf.GradientTape() as tape:
      loss = objective.sums(data, None)[0]["classifier"] / whole
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

  found = run(two_replicas.halves(data))
  for ours, expected in zip(
    tf.nest.flatten(found), tf.nest.flatten(loss_and_gradients(alone, data))
  ):
    assert_close(ours, expected)


def test_how_many_outputs_a_task_has():
  count = model.num_outputs
  assert count("single", ["a", "b", "c"]) == 3
  assert count("multi_label", ["a", "b"]) == 2
  assert count("regression", []) == count("choice", ["0", "1"]) == 1


# A teacher's soft labels, against NumPy.

LABELS = ("bad", "fair", "good")
TEMPERATURE, WEIGHT = 2.0, 0.3
TEACHER_BATCHES = {
  "single": [2, 0, 1], "multi_label": [[1, 0, 1], [0, 0, 0], [1, 1, 1]],
  "regression": [0.5, -1.0, 2.0],
}


def make_teacher(folder, kind, names=LABELS):
  """Writes a trained model; returns distillation.Teacher and the model."""
  config = tiny_model.tiny()
  if kind != "regression":
    config.id2label = {str(n): name for n, name in enumerate(names)}
  outputs = model.num_outputs(kind, names)
  teacher = model.ClassifierModel(config, kind, outputs, seed=7)
  # Initial heads give almost equal logits.
  for variable in teacher.head.variables:
    variable.assign(
      np.random.default_rng(1).normal(0, 1, variable.shape).astype(np.float32)
    )
  model_writer.write(str(folder), teacher.variables, config)
  return distillation.Teacher(config, str(folder)), teacher


def make_distillation(teacher, kind, given=(), labels=LABELS):
  settings = run_settings.Settings({
    "distillation_weight": WEIGHT, "distillation_temperature": TEMPERATURE,
  }, given)
  return model.Distillation(settings, teacher, kind, labels, seed=2)


def numpy_loss(kind, ours, theirs):
  """The mean of examples."""
  losses = []
  for a, b in zip(ours.astype(np.float64), theirs.astype(np.float64)):
    if kind == "regression":
      losses.append((a[0] - b[0]) ** 2)
    elif kind == "single":
      p, q = (np.exp(x / TEMPERATURE) for x in (a, b))
      p, q = p / p.sum(), q / q.sum()
      losses.append(TEMPERATURE**2 * np.sum(q * np.log(q / p)))
    else:
      p, q = (1 / (1 + np.exp(-x / TEMPERATURE)) for x in (a, b))
      terms = q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p))
      losses.append(TEMPERATURE**2 * terms.mean())
  return np.mean(losses)


@pytest.mark.parametrize("kind", TEACHER_BATCHES)
def test_the_loss_is_that_of_labels_and_of_the_teacher(tmp_path, kind):
  teacher, teachers = make_teacher(tmp_path, kind)
  student = make(kind, model.num_outputs(kind, LABELS))
  data = batch(TEACHER_BATCHES[kind])
  # The last example only fills the batch up.
  data["is_real_example"] = tf.constant([1, 1, 0])
  hard, _ = loss_of(student, data)
  soft = numpy_loss(kind, student(data)[:2].numpy(), teachers(data)[:2].numpy())
  loss, metrics = loss_of(
    student, data, distills=make_distillation(teacher, kind)
  )
  assert loss == pytest.approx((1 - WEIGHT) * hard + WEIGHT * soft, rel=1e-4)
  total, count = metrics["soft_labels_loss"]
  assert float(total / count) == pytest.approx(soft, rel=1e-4)
  total, count = metrics["classifier_loss"]
  assert float(total / count) == pytest.approx(hard, rel=1e-5)


@pytest.mark.parametrize("kind", TEACHER_BATCHES)
def test_without_a_label_the_teacher_alone_teaches(tmp_path, kind):
  teacher, teachers = make_teacher(tmp_path, kind)
  student = make(kind, model.num_outputs(kind, LABELS))
  data = batch(TEACHER_BATCHES[kind])
  ours, theirs = student(data).numpy(), teachers(data).numpy()
  hard, soft = np.array([
    (
      student.example_losses(ours[n : n + 1], data["label_ids"][n : n + 1])
      .numpy()[0],
      numpy_loss(kind, ours[n : n + 1], theirs[n : n + 1]),
    ) for n in range(3)
  ]).T
  # Only of one class of several are whole examples weighted.
  weights = [2.0, 5.0, 7.0] if kind == "single" else None
  data["has_label"] = tf.constant([1, 0, 1])
  counts = np.ones(3)
  if weights:
    counts = np.where([1, 0, 1], np.take(weights, data["label_ids"]), 1.0)
  shares = np.array([WEIGHT, 1.0, WEIGHT])
  expected = counts @ ((1 - shares) * hard + shares * soft) / counts.sum()
  options = {"distills": make_distillation(teacher, kind)}
  loss, metrics = loss_of(student, data, class_weights=weights, **options)
  assert loss == pytest.approx(expected, rel=1e-5)
  total, count = metrics["classifier_loss"]
  assert float(count) == pytest.approx(counts[[0, 2]].sum())
  assert float(total) == pytest.approx((counts * hard)[[0, 2]].sum(), rel=1e-5)
  if kind == "single":
    assert float(metrics["classifier_accuracy"][1]) == 2
  # What stands in for the label has no part in it.
  stands_in = data["label_ids"].numpy()
  stands_in[1] = 0
  data["label_ids"] = tf.constant(stands_in)
  again, _ = loss_of(student, data, class_weights=weights, **options)
  assert again == loss


@pytest.mark.parametrize("kind, names, order", [
  ("single", ("Good", "Bad", "Fair"), [1, 2, 0]),
  ("single", ("LABEL_0", "LABEL_1", "LABEL_2"), [0, 1, 2]),
  ("single", (), [0, 1, 2]),
  ("choice", ("Good", "Bad", "Fair"), [0]),
])
def test_a_teachers_classes_go_by_their_names(tmp_path, kind, names, order):
  teacher, theirs = make_teacher(tmp_path, kind, names or LABELS)
  if not names:
    teacher.config.id2label = None
  data = batch([2, 0, 1])
  student = tf.gather(theirs(data), order, axis=1)
  losses = make_distillation(teacher, kind).example_losses(
    data, student, skip_empty=False
  )
  np.testing.assert_allclose(losses, np.zeros(3), atol=1e-5)


def test_a_teacher_of_another_task_is_refused(tmp_path):
  teacher, _ = make_teacher(tmp_path, "single", ("yes", "no"))
  with pytest.raises(errors.InputError, match="the classes yes, no, and these"):
    make_distillation(teacher, "single")
  teacher, _ = make_teacher(tmp_path, "regression")
  with pytest.raises(errors.InputError, match="outputs are numbers"):
    make_distillation(teacher, "regression", ["distillation_temperature"], ())
