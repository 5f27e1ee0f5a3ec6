"""Classifies texts into classes that a model was not trained for.

A model of natural language inference says whether a premise entails a
hypothesis. The text is the premise, and each class a hypothesis: "This example
is about sports." (Yin et al., arXiv 1909.00161). transformers'
zero-shot-classification pipeline gives the same results. No TensorFlow.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from answering import answers
from classification import answers as classification_answers
from classification import data
from common import errors, run_settings

TEMPLATE = "This example is {}."
# {the beginning of a label of the model, in lower case}
_ENTAILMENT, _CONTRADICTION = "entail", "contra"


class Classes(NamedTuple):
  """The classes of a request.

  Attributes:
    labels: their names.
    hypothesis_template: the hypothesis for a label, which replaces {}.
    multi_label: whether each class is scored on its own, against the
      contradiction of its hypothesis; otherwise the scores' sum is 1.
  """

  labels: Sequence[str]
  hypothesis_template: str = TEMPLATE
  multi_label: bool = False

  def check(self) -> None:
    """Raises InputError if the classes are invalid."""
    listed = self.labels if isinstance(self.labels, (list, tuple)) else []
    if not listed or not all(isinstance(each, str) and each for each in listed):
      raise errors.InputError(
        f"labels are {self.labels!r:.60}; expected a list of names"
      )
    template = self.hypothesis_template
    if not isinstance(template, str) or template.count("{}") != 1:
      raise errors.InputError(
        f"hypothesis_template is {template!r:.60}; expected a sentence with "
        f"{{}} in the place of the label, as in {TEMPLATE!r}"
      )
    if not isinstance(self.multi_label, bool):
      raise errors.InputError(
        f"multi_label is {self.multi_label!r:.40}; expected True or False"
      )


def fits(model_labels: Sequence[str]) -> bool:
  """Returns whether a model is trained for inference, by its labels."""
  starts = [label.lower() for label in model_labels]
  return all(
    any(name.startswith(start) for name in starts)
    for start in (_ENTAILMENT, _CONTRADICTION)
  )


def make(
  settings: run_settings.Settings,
  network: answers.Network,
  batch_size: int,
  classes: Classes,
) -> Callable[[list[str]], list[dict]]:
  """Returns a function from texts to their answers.

  An answer has label, probability, labels and probabilities, like a
  classifier's; with `multi_label`, only the last two.

  Args:
    settings, network, batch_size: as for answers.make, of a classifier.

  Raises:
    InputError: the model is not one of inference, or the classes are invalid.
  """
  classes.check()
  if not fits(settings.labels):
    raise errors.InputError(
      "only a model of inference has classes of your own: its labels are "
      "entailment and contradiction, but this model's labels are "
      + (", ".join(settings.labels) or "none")
    )
  logits, options = answers.classifier(settings, network)
  # A regression's scores are the logits.
  options = dataclasses.replace(options, task_kind=data.REGRESSION)
  columns = [_column(settings.labels, s) for s in (_CONTRADICTION, _ENTAILMENT)]
  hypotheses = [
    classes.hypothesis_template.replace("{}", label) for label in classes.labels
  ]

  def answer(texts: list[str]) -> list[dict]:
    examples = [data.Example("", t, h) for t in texts for h in hypotheses]
    scores = classification_answers.scores_of(
      logits, options, examples, batch_size
    ).reshape(len(texts), len(hypotheses), -1)[..., columns]
    return [_answer(classes, row) for row in scores]

  return answer


def _column(labels: Sequence[str], start: str) -> int:
  return [label.lower().startswith(start) for label in labels].index(True)


def _answer(classes: Classes, scores: np.ndarray) -> dict:
  """Returns the answer for logits [classes, (contradiction, entailment)]."""
  labels = list(classes.labels)
  # As in transformers: a single class is compared with its contradiction.
  if classes.multi_label or len(labels) == 1:
    probabilities = _softmax(scores)[:, 1].tolist()
  else:
    probabilities = _softmax(scores[:, 1]).tolist()
  result = {"labels": labels, "probabilities": probabilities}
  if classes.multi_label:
    return result
  best = int(np.argmax(probabilities))
  return {**result, "label": labels[best], "probability": probabilities[best]}


def _softmax(scores: np.ndarray) -> np.ndarray:
  weights = np.exp(scores - scores.max(-1, keepdims=True))
  return weights / weights.sum(-1, keepdims=True)
