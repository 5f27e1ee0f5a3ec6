"""Writes a report page and a model card for a fine-tuned model.

  report.html             scores, curves, the largest mistakes, settings
  final_model/README.md   what the model does, its data, scores and use

The page needs no other file and no network access. The card begins with the
metadata that model hubs read.
"""

import glob
import html
import json
import math
import os
import pathlib
import re
import shlex
import string
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from absl import logging

from common import errors, file_io, program, run_settings
from training import report_plots, train_log

_FOLDER = pathlib.Path(__file__).parent
_PAGE = string.Template((_FOLDER / "run_report.html").read_text("utf-8"))
_CARD = string.Template((_FOLDER / "model_card.md").read_text("utf-8"))
NUM_MISTAKES = 20
# Thresholds of the advice. A recall below _POOR is poor. Published recipes have
# more than _FEW_STEPS steps: the shortest, for RTE, has 233. A class is rare if
# it has at most 1 / _RARE of the examples of the largest class.
_POOR, _FEW_STEPS, _RARE = 0.8, 100, 4
# Flags for small tables; BERT-base and larger models need a lower rate.
_SMALL_DATA = {"optimizer": "adamw", "learning_rate": "1e-4"}
# {metric of this project: its name on the Hub, if it differs}
_HUB_METRICS = {
  "matthews": "matthews_correlation",
  "pearson": "pearsonr",
  "spearman": "spearmanr",
  "auc": "roc_auc",
  "exact": "exact_match",
}


class Mistake(NamedTuple):
  """A wrong prediction; a larger `size` means a worse mistake.

  `probability` is the prediction's, if the model computes one.
  """

  size: float
  text: str
  expected: str
  predicted: str
  probability: float | None = None


class Report(NamedTuple):
  """The results of one evaluation, for the page and the card.

  Attributes:
    use: what the model does, one of USES.
    results: {name: number}.
    details: the scores of each class as text, or "", without the confusions.
    labels: names of the L classes.
    confusions: int [L, L], numbers of examples of `row` predicted as `column`.
    mistakes: in any order; the page shows the largest.
    text_pairs: whether a classifier reads two texts.
    probabilities, gold: float [N, L] and int [N], the probabilities of the
      classes and the correct classes of N examples; None: not one class each.
  """

  use: str
  results: Mapping[str, float]
  details: str = ""
  labels: Sequence[str] = ()
  confusions: np.ndarray | None = None
  mistakes: Iterable[Mistake] = ()
  text_pairs: bool = False
  probabilities: np.ndarray | None = None
  gold: np.ndarray | None = None


# {use: (head of an export, example call in Python)}
USES = {
  "text-classification": ("classification", 'classify(["a text"])'),
  "text-ranking": ("classification", 'classify(["a text"])'),
  "sentence-similarity": ("embedding", 'embed(["a text", "another"])'),
  "question-answering": ("span", 'answer("a question", "its context")'),
  "token-classification": ("tagging", 'tag(["a text"])'),
}


def write(settings: run_settings.Settings, report: Report) -> None:
  """Writes report.html into --output_dir and, after training, the card.

  Also logs the advice that the page gives.
  """
  folder = settings.output_dir
  log = train_log.read(folder)
  advice = _advice(settings, report, log[-1]["step"] if log else 0)
  for sentence in advice:
    logging.warning("%s", sentence)
  texts = {
    "title": os.path.basename(os.path.abspath(folder)),
    "versions": program.version(),
    "command": _command(sys.argv[1:]),
  }
  charts = [*report_plots.of_training(log)]
  predictions: Iterable[report_plots.Chart] = ()
  if report.probabilities is not None and report.gold is not None:
    predictions = report_plots.of_predictions(
      report.probabilities, report.gold, report.labels
    )
  details = f"<h2>Classes</h2><pre>{html.escape(report.details)}</pre>"
  values = settings.pick(sorted(settings))
  page = _PAGE.substitute(
    {key: html.escape(text) for key, text in texts.items()},
    scores=_table(sorted(report.results.items())),
    advice="".join(
      f'<p class="advice">Advice: {html.escape(s)}.</p>' for s in advice
    ),
    curves=_figures(charts) or "Nothing was trained.",
    predictions=_figures(predictions),
    confusions=_confusions(report),
    details=details if report.details else "",
    mistakes=_mistakes(report),
    settings=_table((k, json.dumps(v, default=str)) for k, v in values.items()),
  )
  path = os.path.join(folder, "report.html")
  with errors.by_product(path):
    file_io.write_text(path, page)
  if settings.do_train:
    path = os.path.join(folder, "final_model", "README.md")
    with errors.by_product(path):
      file_io.write_text(path, _card(settings, report, texts))


def _command(arguments: Sequence[str]) -> str:
  """Returns the command as the user typed it, with other `arguments`."""
  command = shlex.join([program.name(), *arguments])
  is_file = program.name().endswith(".py")
  return f"python {command}" if is_file else command


def _figures(charts: Iterable[report_plots.Chart]) -> str:
  return "".join(map(report_plots.svg, charts))


def _advice(
  settings: run_settings.Settings, report: Report, last_step: int
) -> list[str]:
  """Returns sentences that suggest flags, if the recall of classes is poor."""
  if report.confusions is None or not settings.do_train:
    return []
  counts, right = report.confusions.sum(1), np.diag(report.confusions)
  recalls = right / np.maximum(counts, 1)
  advice, recall = [], recalls[counts > 0].mean()
  exempt = ("task_name", "freeze_encoder", "max_train_steps", "stop_step")
  is_short = last_step < _FEW_STEPS and not any(map(settings.get, exempt))
  if recall < _POOR and is_short:
    # A flag that the user gave is the user's choice.
    flags = " ".join(
      f"--{name}={value}"
      for name, value in _SMALL_DATA.items()
      if name not in settings.given
    )
    at_least = f"at least {_FEW_STEPS} steps"
    longer = "longer training"
    if "num_train_epochs" not in settings.given:
      longer = "more --num_train_epochs"
    advice.append(
      f"the mean recall is {recall:.2f} after too few steps ({last_step}): try "
      + (f"{flags}, and " if flags else "")
      + f"{longer}, for {at_least}"
    )
  is_rare = (counts > 0) & (_RARE * counts <= counts.max())
  worst = int(np.where(is_rare, recalls, 1.0).argmin())
  is_missed = is_rare[worst] and recalls[worst] < _POOR
  if is_missed and not settings.get("class_weights", "no such flag"):
    advice.append(
      f"the recall of {report.labels[worst]!r} is {right[worst]}/"
      f"{counts[worst]}, and the largest class has {counts.max()} texts: try "
      "--class_weights=balanced"
    )
  return advice


# The page.


def _table(rows: Iterable, *head: str) -> str:
  """Returns an HTML table, "None." without rows; `head`: names of columns."""
  rows = list(rows)
  names = "".join(f"<th>{html.escape(name)}</th>" for name in head)
  lines = [f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows]
  return (
    f"<table>{names and f'<tr>{names}</tr>'}{''.join(lines)}</table>"
    if rows
    else "None."
  )


def _cell(value) -> str:
  """Returns an HTML cell; numbers are right-aligned."""
  if isinstance(value, (int, float, np.number)):
    return f'<td class="number">{value:.6g}</td>'
  return f"<td>{html.escape(str(value))}</td>"


def _confusions(report: Report) -> str:
  """Returns the confusion matrix; stronger colors are larger shares."""
  if report.confusions is None:
    return ""
  rows = []
  for number, (label, counts) in enumerate(
    zip(report.labels, report.confusions)
  ):
    shares = counts / max(1, counts.sum())
    cells = [
      f'<td class="number {"wrong" if column != number else "right"}" '
      f'style="--share:{share:.2f}">{count}</td>'
      for column, (share, count) in enumerate(zip(shares, counts))
    ]
    rows.append(f"<tr><th>{html.escape(label)}</th>{''.join(cells)}</tr>")
  names = "".join(f"<th>{html.escape(label)}</th>" for label in report.labels)
  return (
    '<h2>Confusions</h2><div class="wide"><table class="confusions">'
    f"<tr><th>correct \\ predicted</th>{names}</tr>{''.join(rows)}"
    "</table></div>"
  )


def _mistakes(report: Report) -> str:
  largest = sorted(report.mistakes, key=lambda mistake: -mistake.size)
  chosen = largest[:NUM_MISTAKES]
  if all(mistake.probability is None for mistake in chosen):
    texts = [mistake[1:4] for mistake in chosen]
    return _table(texts, "text", "correct", "predicted")
  rows = [
    (*mistake[1:4], "" if p is None else f"{p:.3f}")
    for mistake in chosen
    for p in [mistake.probability]
  ]
  return _table(rows, "text", "correct", "predicted", "probability")


# The card.


def _card(settings: run_settings.Settings, report: Report, texts: dict) -> str:
  head, call = USES[report.use]
  if report.text_pairs and head == "classification":
    call = 'classify([("a text", "another")])'
  scores = {
    name: float(value) for name, value in sorted(report.results.items())
  }
  metrics = [
    {"type": _hub_metric(name), "name": name, "value": value}
    for name, value in scores.items()
    if math.isfinite(value)
  ]
  data = settings.get("task_name") or os.path.basename(
    settings.get("eval_file") or settings.get("predict_file") or "data"
  )
  command = _command([_without_folders(word) for word in sys.argv[1:]])
  return _CARD.substitute(
    {**texts, "command": command},
    use=report.use,
    head=head,
    call=call,
    data=json.dumps(data),
    name=json.dumps(texts["title"]),
    metrics=json.dumps(metrics),
    labels=", ".join(f"`{label}`" for label in report.labels) or "none",
    scores="\n".join(f"| {n} | {value:.6g} |" for n, value in scores.items())
    or "| not evaluated | |",
    files="\n".join(_data_rows(settings)),
  )


def _hub_metric(name: str) -> str:
  """Returns "accuracy" for "eval_accuracy": a metric's name on the Hub."""
  name = re.sub(r"^eval_(mismatched_)?", "", name)
  return _HUB_METRICS.get(name, name.replace("@", "_at_"))


def _without_folders(word: str) -> str:
  """Returns an argument with names instead of absolute paths."""
  return re.sub(r"(?<![^=,])[/~][^=,]*/(?=[^/=,])", "", word)


def _data_rows(settings: run_settings.Settings) -> Iterator[str]:
  """Yields a table row for each data file: its name, size and checksum."""
  paths = []
  for flag in ("train_file", "eval_file"):
    if value := settings.get(flag):
      paths += file_io.expand_file_patterns(
        ",".join(value) if isinstance(value, (list, tuple)) else value
      )
  if folder := settings.get("data_dir"):
    paths += sorted(glob.glob(os.path.join(glob.escape(folder), "*.*")))
  for path in paths:
    # A pipe cannot be read a second time, and a folder has no checksum.
    if not (file_io.is_remote(path) or os.path.isfile(path)):
      continue
    size, digest = file_io.size_and_sha256(path)
    yield f"| `{os.path.basename(path)}` | {size:,} | `{digest}` |"
