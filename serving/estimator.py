"""A classifier with scikit-learn's interface, for pipelines and validation.

  from bert_tf2.serving import estimator

  classifier = estimator.TextClassifier("minilm", {"num_train_epochs": 3})
  model_selection.cross_val_score(classifier, texts, labels)

It trains with `train.classifier`, so with run_classifier.py. It needs
scikit-learn, which no other module does.
"""

import tempfile
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from common import errors
from serving import text_models, train

with errors.needs_extra("sklearn"):
  from sklearn import base


class TextClassifier(base.ClassifierMixin, base.BaseEstimator):
  """Classifies texts, or pairs of texts.

  Attributes:
    classes_: the classes, sorted, as `fit` got them.
    trained_: train.Trained.
    model_: text_models.TextModel of the trained model.
  """

  def __init__(
    self, model_dir: str | None = None, flags: dict[str, Any] | None = None
  ):
    """Stores the parameters, as scikit-learn demands.

    Args:
      model_dir: the folder of the weights from which each `fit` starts.
      flags: further flags of run_classifier.py.
    """
    self.model_dir, self.flags = model_dir, flags

  def fit(self, X: Sequence, y: Sequence) -> "TextClassifier":  # noqa: N803
    """Trains a new model in a temporary folder, which ends with this object.

    Args:
      X: N str, or N pairs of str.
      y: N classes of any type whose names (str) differ.
    """
    self.classes_ = np.unique(y)
    self._folder = tempfile.TemporaryDirectory(prefix="bert_")
    self.trained_ = train.classifier(
      _listed(X),
      [str(label) for label in y],
      model_dir=self.model_dir,
      output_dir=self._folder.name,
      **(self.flags or {}),
    )
    self.model_ = text_models.load(self.trained_.model_dir)
    return self

  def predict_proba(self, X: Sequence) -> np.ndarray:  # noqa: N803
    """Returns the probabilities of `classes_`, float64 [N, number of them]."""
    answers = self.model_.classify(_listed(X))
    columns = [answers[0]["labels"].index(str(c)) for c in self.classes_]
    return np.array([a["probabilities"] for a in answers])[:, columns]

  def predict(self, X: Sequence) -> np.ndarray:  # noqa: N803
    """Returns the likeliest of `classes_` for each of N texts."""
    return self.classes_[self.predict_proba(X).argmax(1)]


def _listed(texts: Iterable) -> list:
  # scikit-learn gives arrays, in which a pair is a row.
  return [text if isinstance(text, str) else tuple(text) for text in texts]
