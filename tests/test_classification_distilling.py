"""A classifier that learns a teacher's outputs, against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

import tiny_model
from checkpoints import model_folder
from classification import classifier, distilling, labelled_examples, tasks
from common import errors, run_settings
from training import distillation

KINDS = ["single", "multi_label", "regression"]
LABELS = ("bad", "fair", "good")
TEMPERATURE, WEIGHT = 2.0, 0.3
SHAPE = dict(
  num_hidden_layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
)
SETTINGS = {
  "distillation_weight": WEIGHT, "distillation_temperature": TEMPERATURE,
}


def make_batch(kind):
  arrays = tiny_model.batch(3)
  names = ("input_ids", "input_mask", "segment_ids")
  labels = {
    "single": tf.constant([2, 0, 1]),
    "multi_label": tf.constant([[1, 0, 1], [0, 0, 0], [1, 1, 1]]),
    "regression": tf.constant([0.5, -1.0, 2.0]),
  }
  return {
    **{name: array[:, tf.newaxis] for name, array in zip(names, arrays)},
    "label_ids": labels[kind],
    "is_real_example": tf.constant([1, 1, 0]),
  }


def make_task(kind, labels=LABELS):
  return tasks.ClassifierTask(
    name="own data", kind=kind, labels=() if kind == "regression" else labels,
    metrics=[], splits={}, official=None, text_pairs=False,
  )


def make_teacher(folder, kind, names=LABELS):
  """Writes a trained model; returns distillation.Teacher and the model."""
  config = tiny_model.tiny()
  if kind != "regression":
    config.id2label = {str(n): name for n, name in enumerate(names)}
  outputs = classifier.num_outputs(kind, names)
  model = classifier.ClassifierModel(config, kind, outputs, seed=7)
  # Initial heads give almost equal logits.
  for variable in model.head.variables:
    variable.assign(
      np.random.default_rng(1).normal(0, 1, variable.shape).astype(np.float32)
    )
  model_folder.write(str(folder), model.variables, config)
  return distillation.Teacher(config, str(folder)), model


def make_distillation(teacher, task, given=(), **settings):
  settings = run_settings.Settings({**SETTINGS, **settings}, given)
  return distilling.Distillation(settings, teacher, task, seed=2)


def numpy_loss(kind, ours, theirs):
  """The mean of the two real examples."""
  losses = []
  for a, b in zip(ours[:2].astype(np.float64), theirs[:2].astype(np.float64)):
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


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_that_of_labels_and_of_the_teacher(tmp_path, kind):
  teacher, teacher_model = make_teacher(tmp_path, kind)
  student = classifier.ClassifierModel(
    tiny_model.tiny(**SHAPE), kind, classifier.num_outputs(kind, LABELS), seed=1
  )
  data = make_batch(kind)
  plain = classifier.objective(student)
  distills = make_distillation(teacher, make_task(kind))
  objective = classifier.objective(student, distills=distills)
  denominator = objective.weights(data)["classifier"]
  assert float(denominator) == 2
  hard = float(plain.sums(data, None)[0]["classifier"] / denominator)
  soft = numpy_loss(kind, student(data).numpy(), teacher_model(data).numpy())
  losses, metrics = objective.sums(data, None)
  expected = (1 - WEIGHT) * hard + WEIGHT * soft
  assert float(losses["classifier"] / denominator) == pytest.approx(
    expected, rel=1e-4
  )
  total, count = metrics["soft_labels_loss"]
  assert float(total / count) == pytest.approx(soft, rel=1e-4)
  total, count = metrics["classifier_loss"]
  assert float(total / count) == pytest.approx(hard, rel=1e-5)


def test_a_teachers_outputs_go_by_the_names_of_its_classes(tmp_path):
  teacher, model = make_teacher(tmp_path, "single", ("Good", "Bad", "Fair"))
  data = make_batch("single")
  distills = make_distillation(teacher, make_task("single"))
  student = tf.gather(model(data), [1, 2, 0], axis=1)
  losses = distills.example_losses(data, student, skip_empty=False)
  np.testing.assert_allclose(losses, np.zeros(3), atol=1e-5)


def test_classes_of_another_task_are_refused():
  config = tiny_model.tiny()
  assert distilling.column_order(config, "single", LABELS) is None
  config.id2label = {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}
  assert distilling.column_order(config, "single", LABELS) is None
  config.id2label = {"0": "yes", "1": "no"}
  with pytest.raises(errors.InputError, match="the classes yes, no, and these"):
    distilling.column_order(config, "single", LABELS)
  choice = labelled_examples.CHOICE
  assert distilling.column_order(config, choice, ("0", "1")) is None


def test_a_temperature_of_numbers_is_refused(tmp_path):
  teacher, _ = make_teacher(tmp_path, "regression")
  with pytest.raises(errors.InputError, match="outputs are numbers"):
    make_distillation(
      teacher, make_task("regression"), ["distillation_temperature"]
    )
