"""Distillation from a teacher: losses, and the student's initial weights.

Soft targets are as in Hinton et al. (arXiv 1503.02531); the cosine of hidden
states and the choice of layers are as in DistilBERT (arXiv 1910.01108).
Letters: L labels or words, H width of the hidden states.
"""

import re
from typing import NamedTuple

import numpy as np
import tensorflow as tf

import configuration
from checkpoints import model_folder, tokenizer_files, weight_files
from common import errors
from variants import vocabularies

# Losses


def soft_target_losses(
  student: tf.Tensor, teacher: tf.Tensor, temperature: float
) -> tf.Tensor:
  """Returns the divergence of the student's from the teacher's probabilities.

  It is T^2 KL(softmax(teacher / T) || softmax(student / T)) of logits [..., L],
  float32 [...]. The factor T^2 keeps gradients at every temperature T as large
  as gradients of labels.
  """
  log_student = tf.nn.log_softmax(student / temperature)
  log_teacher = tf.nn.log_softmax(teacher / temperature)
  # [..., L]. With logarithms, a probability of 0 gives 0, not NaN.
  divergence = tf.exp(log_teacher) * (log_teacher - log_student)
  return temperature**2 * tf.reduce_sum(divergence, axis=-1)


def soft_sigmoid_losses(
  student: tf.Tensor, teacher: tf.Tensor, temperature: float
) -> tf.Tensor:
  """Returns `soft_target_losses` if several labels can be right, float32 [...].

  Each label is a binary choice, with the probability of a sigmoid. The loss is
  the mean over the labels.
  """

  def of_two(logits):
    # [..., L, 2]: sigmoid(x) is the first of softmax([x, 0]).
    return tf.stack([logits, tf.zeros_like(logits)], axis=-1)

  losses = soft_target_losses(of_two(student), of_two(teacher), temperature)
  return tf.reduce_mean(losses, axis=-1)


def cosine_losses(student: tf.Tensor, teacher: tf.Tensor) -> tf.Tensor:
  """Returns 1 - cos(student, teacher), float32 [...] of states [..., H]."""
  units = [
    tf.math.l2_normalize(tf.cast(states, tf.float32), axis=-1, epsilon=1e-12)
    for states in (student, teacher)
  ]
  return 1.0 - tf.reduce_sum(units[0] * units[1], axis=-1)


# The teacher


class Teacher(NamedTuple):
  """A folder with a trained model; `path` is the path of its weights."""

  config: configuration.BertConfig
  path: str


def find_teacher(settings, config: configuration.BertConfig) -> Teacher | None:
  """Returns the teacher of --teacher_checkpoint; `config` is the student's.

  Raises InputError: it is not a model's folder, or the teacher needs other ids
  or another case than the student.
  """
  folder = settings.teacher_checkpoint
  if not folder:
    return None
  paths = _files(folder)
  teacher = configuration.BertConfig.from_json_file(paths["bert_config_file"])
  # Teacher and student read the same batch.
  teacher.check_sequence_length(settings.max_seq_length)
  if teacher.vocab_size != config.vocab_size:
    raise errors.InputError(
      f"--teacher_checkpoint={folder} has vocab_size {teacher.vocab_size}, and "
      f"the student {config.vocab_size}: both read the same ids; give the "
      "student the teacher's vocabulary"
    )
  teacher_vocab = paths.get("vocab_file")
  if teacher_vocab and settings.vocab_file:
    _check_same_text(settings, teacher_vocab)
  return Teacher(teacher, paths["init_checkpoint"])


def _files(folder):
  try:
    return model_folder.find(folder)
  except errors.InputError as error:
    reason = str(error).replace("--model_dir", "--teacher_checkpoint")
    raise errors.InputError(reason) from error


def _check_same_text(settings, teacher_vocab):
  """Raises InputError if teacher and student tokenize texts differently."""
  student_vocab, load = settings.vocab_file, vocabularies.load_vocab
  if load(student_vocab) != load(teacher_vocab):
    raise errors.InputError(
      f"--vocab_file={student_vocab} differs from the teacher's, "
      f"{teacher_vocab}: both read the same ids; pass "
      f"--vocab_file={teacher_vocab}"
    )
  known = tokenizer_files.read_do_lower_case(teacher_vocab)
  student = settings.get("do_lower_case", known)
  if known is not None and known != student:
    raise errors.InputError(
      f"--do_lower_case={student}, but the teacher was trained with {known}; "
      f"pass --do_lower_case={str(known).lower()}"
    )


def with_starting_weights(settings):
  """Returns settings, with the teacher as --init_checkpoint if flags say so."""
  if not settings.init_from_teacher:
    return settings
  return settings.replace(init_checkpoint=settings.teacher_checkpoint)


def student_start(
  settings, start, teacher: Teacher | None, config: configuration.BertConfig
):
  """Returns `start`, or for --init_from_teacher every second teacher layer.

  `settings` come from `with_starting_weights`; `config` is the student's.
  Raises InputError: the teacher does not have twice as many layers.
  """
  takes_weights = start.origin == "init" and settings.init_from_teacher
  if not (teacher and takes_weights):
    return start
  return start._replace(
    path=EverySecondLayer(teacher, config.num_hidden_layers)
  )


class EverySecondLayer:
  """Reads a teacher's weights as weights of a student with half the layers.

  Layer i of the student is layer 2 i of the teacher, from 0; all other weights
  are the teacher's.
  """

  def __init__(self, teacher: Teacher, num_layers: int):
    """Opens a teacher for a student of `num_layers` layers."""
    teacher_layers = teacher.config.num_hidden_layers
    if teacher_layers not in (2 * num_layers - 1, 2 * num_layers):
      raise errors.InputError(
        "--init_from_teacher takes every second layer, "
        f"{(teacher_layers + 1) // 2} of the teacher's {teacher_layers}, and "
        f"the student has {num_layers}; change num_hidden_layers in "
        "--bert_config_file"
      )
    self._reader = weight_files.open_reader(teacher.path)
    self.path = self._reader.path
    self._names = {}
    for name in self._reader.shapes:
      # An odd number of layers keeps both the first and the last layer.
      layer = re.search(r"(?<=/encoder/layer_)\d+(?=/)", name)
      if not layer:
        self._names[name] = name
      elif int(layer[0]) % 2 == 0:
        number = int(layer[0]) // 2
        student_name = f"{name[: layer.start()]}{number}{name[layer.end():]}"
        self._names[student_name] = name
    self.shapes = {
      student_name: self._reader.shapes[name]
      for student_name, name in self._names.items()
    }

  def read(self, name: str) -> np.ndarray:
    """Returns the value of a student's variable."""
    return self._reader.read(self._names[name])
