"""The scores of a head on a labelled file, whatever network computes it.

  classification  a table with the columns text and label, and text_b of pairs
  embedding       the same of pairs; label is a number, that of people, which
                  the cosines of both vectors are correlated with
  span            SQuAD's JSON
  tagging         words and labels: the first and the last column, or JSON lines

Files are read and scored as their scripts do it, see the task folders; answers
are those that Python and serve.py give. What a function here returns for a
model is a function of an answers.Network.
"""

from collections.abc import Callable

import numpy as np

import configuration
from classification import data as classification_data
from classification import inputs as classification_inputs
from classification import scores as classification_scores
from common import errors, run_settings
from features import text_vectors
from serving import answers, models
from squad import data as squad_data
from squad import scores as squad_scores
from tagging import data as tagging_data
from tagging import scores as tagging_scores

BATCH_SIZE = 32
# Flags of run_classifier.py that say how a table is read, as by default.
_TABLE = {
  "text_column": "text", "label_column": "label", "id_column": None,
  "file_format": None, "separator": None, "encoding": None,
  "label_separator": ",", "on_bad_row": "error",
}

_SPAN_SCORES = ("exact_match", "exact", "f1")


def make(
  model: models.ServedModel, path: str
) -> Callable[[answers.Network], dict[str, float]]:
  """Returns a function of a network in place of the model's: its scores.

  Raises:
    InputError: the file cannot be used for this model.
  """
  return _HEADS[model.settings.head](model, path)


def _asked(model, rows):
  """Returns a function of a network: its answers to rows of texts."""
  return lambda network: answers.make(
    model.settings, model.tokenizer, network, BATCH_SIZE
  )(rows)


def _table(path, kind, labels, is_pairs):
  """Returns the examples, and a function of [N, L] that scores it."""
  settings = run_settings.Settings(
    {**_TABLE, "text_b_column": "text_b" if is_pairs else None}
  )
  examples = classification_data.read(
    path, settings, kind, labels=labels, split="eval"
  )
  gold = classification_inputs.label_ids(examples, kind, labels)
  names = classification_scores.default_metrics(kind, len(labels))

  def scored(values):
    results = classification_scores.Results(
      kind, labels, gold, np.asarray(values)
    )
    return classification_scores.compute(results, names)

  return examples, scored


def _classification(model, path):
  settings, is_pairs = model.settings, len(model.text_inputs) == 2
  kind = configuration.KIND_OF_ACTIVATION[settings.output_activation]
  examples, scored = _table(path, kind, settings.labels, is_pairs)
  asked = _asked(model, [
    (e.text_a, e.text_b) if is_pairs else (e.text_a,) for e in examples
  ])
  return lambda network: scored([
    row.get("probabilities") or [row["score"]] for row in asked(network)
  ])


def _embedding(model, path):
  if len(model.text_inputs) == 2:
    raise errors.InputError(
      f"--eval_file={path}: the vectors of two texts are compared, but with "
      "--text_pairs a vector is of two; leave one of them out"
    )
  examples, scored = _table(path, classification_data.REGRESSION, (), True)
  asked = _asked(model, [(t,) for e in examples for t in (e.text_a, e.text_b)])

  def score(network):
    vectors = np.array([row["embedding"] for row in asked(network)])
    return scored(text_vectors.cosines(vectors[::2], vectors[1::2])[:, None])

  return score


def _span(model, path):
  version_2 = model.settings.version_2_with_negative
  file = squad_data.read(path, version_2=version_2)
  squad_data.require_answers(file)
  asked = _asked(model, [
    (q.question_text, " ".join(q.doc_tokens)) for q in file.questions
  ])
  compare = squad_scores.score_v2 if version_2 else squad_scores.score_v1

  def score(network):
    texts = {
      q.qas_id: row["answer"] for q, row in zip(file.questions, asked(network))
    }
    found = compare(file.questions, texts)
    return {n: found[n] for n in _SPAN_SCORES if n in found}

  return score


def _tagging(model, path):
  sentences = tagging_data.read(path, scheme="none")
  tagging_data.label_ids(sentences, model.settings.labels, path)
  gold = [sentence.labels for sentence in sentences]
  # Parts of speech, say, are no entities.
  is_iob = any("-" in label for label in model.settings.labels)

  def score(network):
    tagger = answers.tagger(
      model.settings, model.tokenizer, network, BATCH_SIZE
    )
    found = tagging_scores.evaluate(
      gold, tagger.tag(sentences), 0.0, "iob2" if is_iob else "none"
    )
    # Without the kinds of entities, precision_PER, ...
    return {
      name: value for name, value in found.results.items()
      if "_" not in name and name != "loss"
    }

  return score


_HEADS = {
  "classification": _classification, "embedding": _embedding, "span": _span,
  "tagging": _tagging,
}
