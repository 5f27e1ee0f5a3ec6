"""The loss of a student in pre-training against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

import modeling
import tiny_model
from checkpoints import model_writer
from common import errors
from pretraining.model import (
  Distillation,
  DistillationWeights,
  PretrainingModel,
  objective,
  parse_weights,
)
from test_training_distillation import softmax
from training import distillation

ROWS, LENGTH, PREDICTIONS = 3, 8, 2
TEMPERATURE = 2.0
STUDENT = tiny_model.tiny(
  num_hidden_layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
)


def batch():
  return tiny_model.pretraining_batch(
    [[1, 3], [2, 0], [1, 4]], [[1, 1], [1, 0], [1, 1]], ROWS, LENGTH
  )


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
  """A distillation.Teacher with a masked-LM head, and its model."""
  config = tiny_model.tiny()
  model = PretrainingModel(config, seed=5, with_next_sentence=False)
  folder = str(tmp_path_factory.mktemp("teacher"))
  model_writer.write(folder, model.variables, config)
  return distillation.Teacher(config, folder), model


def make_student():
  return PretrainingModel(STUDENT, seed=1, with_next_sentence=False)


def make_distillation(teacher, *weights):
  weights = DistillationWeights(*weights)
  return Distillation(teacher[0], weights, TEMPERATURE, seed=9)


def numpy_losses(data, student, teacher):
  """Returns the means of soft targets and cosines, token by token."""
  ours, our_states = student.run(data, whole=True)
  theirs, their_states = teacher.run(data, whole=True)
  soft, cosines = [], []
  for row in range(ROWS):
    for number in range(PREDICTIONS):
      if data["masked_lm_weights"][row, number]:
        p, q = (
          softmax(each["masked_lm"].numpy()[row, number] / TEMPERATURE)
          for each in (ours, theirs)
        )
        soft.append(TEMPERATURE**2 * np.sum(q * np.log(q / p)))
    for place in range(LENGTH):
      if data["input_mask"][row, place]:
        a, b = our_states[row, place].numpy(), their_states[row, place].numpy()
        cosines.append(1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b))
  return np.mean(soft), np.mean(cosines)


def test_the_loss_is_the_weighted_sum(teacher):
  student = make_student()
  data = batch()
  soft, cosine = numpy_losses(data, student, teacher[1])
  goal = objective(student, make_distillation(teacher, 5, 2, 3))
  weights = goal.weights(data)
  sums, metrics = goal.sums(data, [1, 2])
  losses = {name: float(sums[name] / weights[name]) for name in sums}
  plain = objective(student)
  alone = plain.sums(data, None)[0]["masked_lm"] / weights["masked_lm"]
  assert losses == {
    "masked_lm": pytest.approx(2 * float(alone), rel=1e-5),
    "soft_targets": pytest.approx(5 * soft, rel=1e-4),
    "cosine": pytest.approx(3 * cosine, rel=1e-4),
  }
  means = {name: float(total / count) for name, (total, count) in
           metrics.items()}
  assert means["soft_targets_loss"] == pytest.approx(soft, rel=1e-4)
  assert means["cosine_loss"] == pytest.approx(cosine, rel=1e-4)
  assert means["masked_lm_loss"] == pytest.approx(float(alone), rel=1e-5)


def test_an_evaluation_is_that_of_a_model_without_a_teacher(teacher):
  student = make_student()
  objectives = (
    objective(student, make_distillation(teacher, 5, 2, 1)), objective(student),
  )
  sums = [goal.sums(batch(), None) for goal in objectives]
  assert sums[0][0].keys() == sums[1][0].keys() == {"masked_lm"}
  assert sums[0][1].keys() == sums[1][1].keys()
  assert float(sums[0][0]["masked_lm"]) == pytest.approx(
    float(sums[1][0]["masked_lm"]), rel=1e-6
  )


def test_only_the_student_has_gradients(teacher):
  student = make_student()
  distills = make_distillation(teacher, 5, 2, 1)
  goal = objective(student, distills)
  trained = student.trained_variables()
  with tf.GradientTape(watch_accessed_variables=False) as tape:
    tape.watch(trained)
    losses = goal.sums(batch(), [1, 2])[0]
    total = losses["soft_targets"] + losses["cosine"]
  gradients = tape.gradient(total, trained)
  assert all(gradient is not None for gradient in gradients)
  assert not {v.ref() for v in trained} & {
    v.ref() for v in distills._model.variables
  }


def test_a_narrow_student_has_no_states_to_compare(teacher):
  narrow = tiny_model.tiny(hidden_size=8)
  with pytest.raises(errors.InputError, match="_weights=5,2,0, or a student"):
    make_distillation(teacher, 5, 2, 1).check_student(narrow)
  distills = make_distillation(teacher, 5, 2, 0)
  distills.check_student(narrow)
  student = PretrainingModel(narrow, seed=1)
  losses, _ = objective(student, distills).sums(batch(), [1, 2])
  assert losses.keys() == {"masked_lm", "soft_targets", "next_sentence"}


def test_a_teacher_without_a_head_is_refused(tmp_path):
  config = tiny_model.tiny()
  model_writer.write(
    str(tmp_path), modeling.BertModel(config).variables, config
  )
  found = distillation.Teacher(config, str(tmp_path))
  with pytest.raises(errors.InputError, match="has no cls/predictions/"):
    make_distillation([found], 5, 2, 1)


@pytest.mark.parametrize(
  "texts", ["5,2", "a,b,c", "-1,2,1", "nan,1,1", "0,1,0"]
)
def test_weights_that_make_no_sense(texts):
  with pytest.raises(errors.InputError, match=f"_weights={texts}: "):
    parse_weights(texts.split(","))
  assert parse_weights(["5", "2", "1"]) == (5, 2, 1)
