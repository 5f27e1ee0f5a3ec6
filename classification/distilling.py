"""Fine-tuning a student with a teacher's soft labels (arXiv 1503.02531).

  loss = (1 - w) loss of the labels + w loss of the teacher's outputs
"""

import tensorflow as tf

import modeling
from checkpoints import weight_files
from classification import classifier, labelled_examples, tasks
from common import errors
from training import distillation


def column_order(
  config: modeling.BertConfig, kind: str, labels: tuple
) -> list[int] | None:
  """Returns which of a teacher's outputs belongs to each class.

  None where its outputs are taken as they come: they have no names, or are no
  classes.

  Args:
    config: of the teacher.
    labels: the student's classes.

  Raises:
    InputError: the teacher was trained for other classes.
  """
  names = [name.lower() for name in config.label_names()]
  no_classes = (labelled_examples.REGRESSION, labelled_examples.CHOICE)
  # Hugging Face's names where nobody gave any.
  are_numbered = names == [f"label_{n}" for n in range(len(names))]
  if kind in no_classes or not names or are_numbered:
    return None
  wanted = [label.lower() for label in labels]
  if sorted(names) != sorted(wanted):
    raise errors.InputError(
      f"--teacher_checkpoint was trained for the classes {', '.join(names)}, "
      f"and these data have {', '.join(wanted)}; take a teacher that was "
      "trained for the same classes"
    )
  return [names.index(label) for label in wanted]


def example_losses(
  kind: str, student: tf.Tensor, teacher: tf.Tensor, temperature: float
) -> tf.Tensor:
  """Returns the loss of each example by the teacher's outputs, float32 [B].

  Of a number, the squared difference; else soft targets.

  Args:
    student, teacher: float32 logits [B, L].
  """
  if kind == labelled_examples.REGRESSION:
    return tf.square(student[:, 0] - teacher[:, 0])
  if kind == labelled_examples.MULTI_LABEL:
    return distillation.soft_sigmoid_losses(student, teacher, temperature)
  return distillation.soft_target_losses(student, teacher, temperature)


class Distillation:
  """A teacher's part in the loss of a classifier.

  Attributes:
    weight: of the teacher's outputs, w.
  """

  def __init__(
    self,
    settings,
    teacher: distillation.Teacher,
    task: tasks.ClassifierTask,
    **model_options,
  ):
    """Makes the teacher's model; in the scope of the strategy.

    Args:
      task: of the student.
      **model_options: of modeling.BertModel.

    Raises:
      InputError: it has no classifier for this task.
    """
    self.weight = settings.distillation_weight
    self._kind = task.kind
    self._temperature = settings.distillation_temperature
    self._columns = column_order(teacher.config, task.kind, task.labels)
    is_number = task.kind == labelled_examples.REGRESSION
    if is_number and "distillation_temperature" in settings.given:
      raise errors.InputError(
        "--distillation_temperature softens probabilities, and this task's "
        "outputs are numbers; leave it out"
      )
    self._model = classifier.ClassifierModel(
      teacher.config,
      task.kind,
      classifier.num_outputs(task.kind, task.labels),
      **model_options,
    )
    # Nothing may be missing: a teacher with a new head teaches noise.
    weight_files.load(self._model.variables, teacher.path)

  def example_losses(self, batch, logits, *, skip_empty):
    """Returns float32 [B] for the student's logits [B, L]."""
    # Without a dropout_seed: a teacher does not drop. Its variables are not
    # among those that are watched, so no gradient reaches it.
    theirs = self._model(batch, skip_empty=skip_empty)
    if self._columns:
      theirs = tf.gather(theirs, self._columns, axis=1)  # [B, L]
    return example_losses(self._kind, logits, theirs, self._temperature)
