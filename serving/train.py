"""Trains a model in Python: texts and labels in, a model's folder out.

  from bert_tf2 import train

  trained = train.classifier(texts, labels, model_dir="minilm")
  print(trained.results, trained.model_dir)

Each function writes the texts to a file and runs the task's script in this
process, with the script's flags as keyword arguments. So the data, the log, the
checkpoints and the scores are the script's, and a killed run continues.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from common import command, errors, file_io, json_files


class Trained(NamedTuple):
  """A trained model.

  Attributes:
    model_dir: the folder for text_models.load, serve.py and exports.
    results: {name: number} of the evaluation; {} without one.
    output_dir: the run's folder, with its log, checkpoints and report.html.
  """

  model_dir: str
  results: dict[str, float]
  output_dir: str


def classifier(
  texts: Sequence,
  labels: Sequence,
  *,
  evaluation: tuple[Sequence, Sequence] | None = None,
  **flags: Any,
) -> Trained:
  """Trains a classifier with run_classifier.py.

  Args:
    texts: N str, or N pairs (str, str).
    labels: N class names, lists of class names (`task_kind="multi_label"`) or
      numbers (`task_kind="regression"`).
    evaluation: texts and labels to evaluate on.
    **flags: flags of the script, such as model_dir, output_dir (by default a
      new temporary folder), num_train_epochs, eval_fraction.

  Raises:
    InputError: a flag, a text or a label is invalid.
  """
  is_pair = any(not isinstance(text, str) for text in texts)
  columns = ("text", "text_b") if is_pair else ("text",)
  rows = {
    name: _rows([*columns, "label"], *_columns(data[0], is_pair), data[1])
    for name, data in _splits(texts, labels, evaluation)
  }
  if is_pair:
    flags = {"text_b_column": "text_b", **flags}
  return _run("run_classifier", rows, flags)


def sentence_vectors(
  pairs: Sequence,
  scores: Sequence[float] | None = None,
  *,
  evaluation: tuple | None = None,
  **flags: Any,
) -> Trained:
  """Trains vectors whose cosines compare texts, with run_classifier.py.

  Args:
    pairs: N pairs of texts with related meanings.
    scores: the cosine to learn for each pair, from 0 to 1. None: each first
      text shall find its second among the second texts of other pairs.
    evaluation: pairs and scores (or None) to evaluate on.
    **flags: see `classifier`.
  """
  kind = "retrieval" if scores is None else "similarity"
  names = ["text", "text_b", *([] if scores is None else ["label"])]
  rows = {
    name: _rows(names, *_columns(data[0], True), *data[1:][: len(names) - 2])
    for name, data in _splits(pairs, scores, evaluation)
  }
  flags = {"task_kind": kind, "text_b_column": "text_b", **flags}
  return _run("run_classifier", rows, flags)


def tagger(
  words: Sequence[Sequence[str]],
  tags: Sequence[Sequence[str]],
  *,
  evaluation: tuple | None = None,
  **flags: Any,
) -> Trained:
  """Trains a tagger with run_ner.py, from N sentences of words and their tags.

  For `evaluation` and `flags` see `classifier`; `scheme` says how tags mark
  entities.
  """
  rows = {
    name: _rows(["words", "labels"], *data)
    for name, data in _splits(words, tags, evaluation)
  }
  return _run("run_ner", rows, flags)


def question_answerer(
  questions: Sequence[str],
  contexts: Sequence[str],
  answers: Sequence[str],
  *,
  evaluation: tuple | None = None,
  **flags: Any,
) -> Trained:
  """Trains a model with run_squad.py that finds answers in contexts.

  Args:
    answers: parts of the contexts; each is learned where it occurs first. ""
      means no answer, and needs `version_2_with_negative=True`.
    evaluation: questions, contexts and answers to evaluate on.
    **flags: see `classifier`.

  Raises:
    InputError: an answer is not in its context.
  """
  rows = {
    name: [
      {
        "id": f"{name}-{number}",
        "question": question,
        "context": context,
        "answers": _answer(number, context, answer),
      }
      for number, (question, context, answer) in enumerate(_zipped(*data))
    ]
    for name, data in [("train", (questions, contexts, answers))]
    + ([("eval", evaluation)] if evaluation else [])
  }
  return _run("run_squad", rows, flags)


def _answer(number: int, context: str, answer: str) -> dict[str, list]:
  start = context.find(answer)
  if start < 0:
    raise errors.InputError(
      f"answer number {number}, {answer!r:.40}, is not in its context; pass a "
      "part of it, letter by letter"
    )
  return {
    "text": [answer] * bool(answer),
    "answer_start": [start] * bool(answer),
  }


def _splits(
  texts: Sequence, labels: Sequence | None, evaluation: tuple | None
) -> Iterator[tuple[str, tuple]]:
  yield "train", (texts, labels)
  if evaluation:
    yield "eval", evaluation


def _columns(texts: Sequence, is_pair: bool) -> list[Sequence]:
  """Returns the one or two columns of texts."""
  if not is_pair:
    return [texts]
  for number, text in enumerate(texts):
    if isinstance(text, str) or len(text) != 2:
      raise errors.InputError(
        f"text number {number} is {text!r:.40}; expected a pair, as the others"
      )
  return [[text[n] for text in texts] for n in range(2)]


def _zipped(*columns: Sequence) -> Iterator[tuple]:
  """Returns rows; raises InputError if the columns differ in length."""
  counts = [len(column) for column in columns]
  if len(set(counts)) > 1:
    listed = " and ".join(map(str, counts))
    raise errors.InputError(
      f"{listed} values: pass one label for each text, and so on"
    )
  return zip(*columns)


def _rows(names: Sequence[str], *columns: Sequence) -> list[dict]:
  return [dict(zip(names, map(_plain, row))) for row in _zipped(*columns)]


def _plain(value: Any) -> Any:
  """Returns a value as JSON has it; NumPy's types become Python's."""
  if isinstance(value, (np.generic, np.ndarray)):
    return value.tolist()
  return [*map(_plain, value)] if isinstance(value, (list, tuple)) else value


def _run(script, rows: Mapping[str, list], flags) -> Trained:
  """Writes the data, runs a script, and returns its model."""
  flags = {"output_dir": None, **flags}
  folder = os.fspath(flags["output_dir"] or tempfile.mkdtemp(prefix="bert_"))
  data = os.path.join(folder, "data")
  os.makedirs(data, exist_ok=True)
  for name, examples in rows.items():
    path = os.path.join(data, f"{name}.jsonl")
    file_io.write_text(path, "".join(map(json_files.line, examples)))
    flags[f"{name}_file"] = path
  evaluates = "eval" in rows or bool(flags.get("eval_fraction"))
  flags = {"do_train": True, "do_eval": evaluates, **flags}
  command.call(script, {**flags, "output_dir": folder})
  results = {}
  path = os.path.join(folder, "eval_results.json")
  if flags["do_eval"] and os.path.exists(path):
    results = json_files.read(path)
  return Trained(os.path.join(folder, "final_model"), results, folder)
