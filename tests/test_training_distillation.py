"""Losses of distillation against NumPy; a teacher's weights and mistakes."""

import numpy as np
import pytest
import tensorflow as tf

import modeling
import stored_weights
import tiny_model
from checkpoints import model_writer, weight_files
from common import errors, run_settings
from training import distillation, run_folder

RNG = np.random.default_rng(0)
STUDENT, TEACHER = RNG.normal(0, 2, (2, 3, 4, 5)).astype(np.float32)


def softmax(x):
  powers = np.exp(x.astype(np.float64))
  return powers / powers.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("temperature", [1.0, 2.0, 0.5])
def test_soft_targets_equal_numpys(temperature):
  found = distillation.soft_target_losses(STUDENT, TEACHER, temperature)
  ours, theirs = softmax(STUDENT / temperature), softmax(TEACHER / temperature)
  expected = np.zeros([3, 4])
  for place in np.ndindex(3, 4):
    for p, q in zip(ours[place], theirs[place]):
      expected[place] += temperature * temperature * q * np.log(q / p)
  np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
  same = distillation.soft_target_losses(TEACHER, TEACHER, temperature)
  np.testing.assert_allclose(same, np.zeros([3, 4]), atol=1e-6)


def test_the_gradient_is_the_difference_of_probabilities():
  """At temperature 1 that of a cross-entropy with soft labels."""
  logits = tf.constant(STUDENT[0])
  with tf.GradientTape() as tape:
    tape.watch(logits)
    loss = tf.reduce_sum(
      distillation.soft_target_losses(logits, TEACHER[0], 1.0)
    )
  expected = softmax(STUDENT[0]) - softmax(TEACHER[0])
  np.testing.assert_allclose(tape.gradient(loss, logits), expected, atol=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_soft_sigmoids_equal_numpys(temperature):
  found = distillation.soft_sigmoid_losses(STUDENT, TEACHER, temperature)
  p, q = (
    1 / (1 + np.exp(-x.astype(np.float64) / temperature))
    for x in (STUDENT, TEACHER)
  )
  divergence = q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p))
  expected = temperature**2 * divergence.mean(axis=-1)
  np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_cosines_equal_numpys():
  found = distillation.cosine_losses(STUDENT, TEACHER)
  for place in np.ndindex(3, 4):
    a, b = (x[place].astype(np.float64) for x in (STUDENT, TEACHER))
    expected = 1 - a @ b / np.sqrt(a @ a * (b @ b))
    assert float(found[place]) == pytest.approx(expected, abs=1e-6)
  half = tf.cast(TEACHER, tf.bfloat16)
  assert distillation.cosine_losses(half, 3 * half).numpy() == pytest.approx(
    np.zeros([3, 4]), abs=1e-3
  )


@pytest.fixture
def teacher(tmp_path):
  config = tiny_model.tiny(num_hidden_layers=4)
  model = modeling.BertModel(config, seed=3)
  vocab_file = tiny_model.write_vocabulary(tmp_path, "a")
  folder = tmp_path / "teacher"
  model_writer.write(str(folder), model.variables, config, vocab_file, True)
  return {
    "teacher_checkpoint": str(folder), "max_seq_length": 8,
    "vocab_file": vocab_file, "do_lower_case": True,
    "init_from_teacher": True, "init_checkpoint": None, "model_dir": None,
    "do_train": True, "distillation_temperature": 2.0,
  }


def settings_of(values, given=()):
  return run_settings.Settings(values, given)


def test_every_second_layer_becomes_the_students(teacher):
  settings = distillation.with_starting_weights(settings_of(teacher))
  assert settings.init_checkpoint == teacher["teacher_checkpoint"]
  config = tiny_model.tiny()
  model = distillation.find_teacher(settings, config)
  start = run_folder.StartingPoint("init", settings.init_checkpoint)
  start = distillation.student_start(settings, start, model, config)
  student = modeling.BertModel(config)
  weight_files.load(student.variables, start.path)
  theirs = stored_weights.read(teacher["teacher_checkpoint"])
  assert len(student.variables) == 5 + 2 * 16 + 2
  for variable in student.variables:
    name = variable.name.removesuffix(":0").replace("layer_1/", "layer_2/")
    np.testing.assert_array_equal(variable, theirs[name], err_msg=name)
  resumed = run_folder.StartingPoint("resume", "x")
  assert distillation.student_start(settings, resumed, model, config) is resumed


def test_a_teacher_of_another_depth_is_refused(teacher):
  model = distillation.find_teacher(settings_of(teacher), tiny_model.tiny())
  with pytest.raises(errors.InputError, match="2 of the teacher's 4, and the"):
    distillation.EverySecondLayer(model, 3)


@pytest.mark.parametrize("changes, sentence", [
  ({"max_seq_length": 13}, "sequence length 13"),
  ({"do_lower_case": False}, "pass --do_lower_case=true"),
  ({"teacher_checkpoint": "nowhere"}, "teacher_checkpoint=nowhere: no such"),
])
def test_teachers_that_do_not_fit(teacher, changes, sentence):
  with pytest.raises(errors.InputError, match=sentence):
    distillation.find_teacher(
      settings_of({**teacher, **changes}), tiny_model.tiny()
    )


def test_a_teacher_with_another_vocabulary(teacher, tmp_path):
  with pytest.raises(errors.InputError, match="has vocab_size 30, and the"):
    distillation.find_teacher(
      settings_of(teacher), tiny_model.tiny(vocab_size=31)
    )
  other = tiny_model.write_vocabulary(tmp_path, "b", "other.txt")
  with pytest.raises(errors.InputError, match="differs from the teacher's"):
    distillation.find_teacher(
      settings_of({**teacher, "vocab_file": other}), tiny_model.tiny()
    )
