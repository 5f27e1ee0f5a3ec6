"""Gives advice, sentences with flags, if the results of a training are poor.

No TensorFlow is imported here. Published recipes have enough steps to get no
advice: the shortest, for RTE, takes 233.
"""

import math

import numpy as np

_FEW_STEPS = 100
_POOR = 0.8  # A mean recall, an F1 or a correlation below this is poor.
_UNBALANCED = 4  # The largest class is this many times larger than a rare one.


def sentences(settings, report, last_step: int) -> list[str]:
  """Returns sentences of advice for the run_report.Report of an evaluation.

  `last_step` is the last step of the training, if `settings` train.
  """
  advice, fault = [], ""
  if report.confusions is None:
    names = ("eval_f1_micro", "eval_pearson", "f1")
    for name in [name for name in names if name in report.results]:
      value = report.results[name]
      # SQuAD's scores are percentages.
      if value < _POOR or 1 < value < 100 * _POOR:
        fault = f"{name} is {value:.3g}"
  else:
    counts, right = report.confusions.sum(1), np.diag(report.confusions)
    recalls = right / np.maximum(counts, 1)
    recall = recalls[counts > 0].mean()
    predicted = np.flatnonzero(report.confusions.sum(0))
    if len(predicted) == 1 < np.count_nonzero(counts):
      fault = f"every prediction is {report.labels[predicted[0]]!r}"
      advice = ["try more --num_train_epochs or another --learning_rate"]
    elif recall < _POOR:
      fault = f"the mean recall is {recall:.2f}"
  if fault and (epochs := _epochs_of_enough_steps(settings, last_step)):
    advice = [
      f"{last_step} steps are few: try --optimizer=adamw --learning_rate=1e-4 "
      "(5e-5 for BERT-base and larger models) --train_batch_size=16 "
      f"--num_train_epochs={epochs}"
    ]
  advice = [f"{fault}; {sentence}" for sentence in advice]
  if report.confusions is not None and settings.do_train and not (
    settings.get("class_weights") or settings.get("teacher_checkpoint")
  ):
    is_rare = (0 < counts) & (_UNBALANCED * counts <= max(counts))
    worst = np.where(is_rare, recalls, 1.0).argmin()
    if is_rare[worst] and recalls[worst] < _POOR:
      advice.append(
        f"{right[worst]} of {counts[worst]} texts of {report.labels[worst]!r} "
        f"are recognised, and the largest class has {max(counts)}; try "
        "--class_weights=balanced"
      )
  return advice


def _epochs_of_enough_steps(settings, last_step):
  """Returns the epochs, in batches of 16, that give enough steps, or 0.

  It returns 0 for enough steps, official tasks, a frozen encoder, flags with a
  number of steps, and for fewer than 16 rows, which need rows, not steps.
  """
  names = ("task_name", "freeze_encoder", "max_train_steps", "stop_step")
  if not settings.do_train or last_step >= _FEW_STEPS or any(
    settings.get(name) for name in names
  ):
    return 0
  examples = last_step * settings.train_batch_size / settings.num_train_epochs
  return max(4, math.ceil(16 * _FEW_STEPS / examples)) if examples >= 16 else 0
