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
import shlex
import string
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from absl import logging

from common import errors, file_io, program, run_settings
from training import train_log

_FOLDER = pathlib.Path(__file__).parent
_PAGE = string.Template((_FOLDER / "run_report.html").read_text("utf-8"))
_CARD = string.Template((_FOLDER / "model_card.md").read_text("utf-8"))
NUM_MISTAKES = 20
_WIDTH, _HEIGHT = 400, 150  # A curve's size, in the units of its SVG.
_MOST_POINTS = 200
# Thresholds of the advice. A recall below _POOR is poor. Published recipes have
# more than _FEW_STEPS steps: the shortest, for RTE, has 233. A class is rare if
# it has at most 1 / _RARE of the examples of the largest class.
_POOR, _FEW_STEPS, _RARE = 0.8, 100, 4


class Mistake(NamedTuple):
  """A wrong prediction; a larger `size` means a worse mistake."""

  size: float
  text: str
  expected: str
  predicted: str


class Report(NamedTuple):
  """The results of one evaluation, for the page and the card.

  Attributes:
    use: what the model does, one of USES.
    results: {name: number}.
    details: the scores of each class as text, or "".
    labels: names of the L classes.
    confusions: int [L, L], numbers of examples of `row` predicted as `column`.
    mistakes: in any order; the page shows the largest.
    text_pairs: whether a classifier reads two texts.
  """

  use: str
  results: Mapping[str, float]
  details: str = ""
  labels: Sequence[str] = ()
  confusions: np.ndarray | None = None
  mistakes: Iterable[Mistake] = ()
  text_pairs: bool = False


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
  name = os.path.basename(os.path.abspath(folder))
  command = shlex.join([program.name(), *sys.argv[1:]])
  if command.partition(" ")[0].endswith(".py"):
    command = f"python {command}"
  texts = {"title": name, "versions": program.version(), "command": command}
  details = f"<h2>Classes</h2><pre>{html.escape(report.details)}</pre>"
  values = settings.pick(sorted(settings))
  page = _PAGE.substitute(
    {key: html.escape(text) for key, text in texts.items()},
    scores=_table(sorted(report.results.items())),
    advice="".join(f"<p>Advice: {html.escape(s)}.</p>" for s in advice),
    curves="".join(_curves(log)) or "Nothing was trained.",
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


def _advice(settings: run_settings.Settings, report, last_step: int):
  """Returns sentences that suggest flags, if the recall of classes is poor."""
  if report.confusions is None or not settings.do_train:
    return []
  counts, right = report.confusions.sum(1), np.diag(report.confusions)
  recalls = right / np.maximum(counts, 1)
  advice, recall = [], recalls[counts > 0].mean()
  exempt = ("task_name", "freeze_encoder", "max_train_steps", "stop_step")
  is_short = last_step < _FEW_STEPS and not any(map(settings.get, exempt))
  if recall < _POOR and is_short:
    advice.append(
      f"the mean recall is {recall:.2f} after too few steps ({last_step}): try "
      "--optimizer=adamw --learning_rate=1e-4 (5e-5 for BERT-base and larger "
      f"models), and more --num_train_epochs, for at least {_FEW_STEPS} steps"
    )
  is_rare = (counts > 0) & (_RARE * counts <= counts.max())
  worst = np.where(is_rare, recalls, 1.0).argmin()
  is_missed = is_rare[worst] and recalls[worst] < _POOR
  if is_missed and not settings.get("class_weights", "no such flag"):
    advice.append(
      f"the recall of {report.labels[worst]!r} is {right[worst]}/"
      f"{counts[worst]}, and the largest class has {counts.max()} texts: try "
      "--class_weights=balanced"
    )
  return advice


# The page.


def _table(rows: Iterable, *head) -> str:
  """Returns an HTML table, "None." without rows; `head`: a row of names."""
  rows = list(rows)
  lines = [f"<tr>{''.join(map(_cell, row))}</tr>" for row in (*head, *rows)]
  return f"<table>{''.join(lines)}</table>" if rows else "None."


def _cell(value) -> str:
  """Returns an HTML cell; numbers are right-aligned."""
  if isinstance(value, (int, float, np.number)):
    return f'<td class="number">{value:.6g}</td>'
  return f"<td>{html.escape(str(value))}</td>"


def _curves(lines: list[dict]) -> Iterator[str]:
  """Yields a curve for the loss, and one for each evaluation score, by step."""
  series: dict[str, list] = {}
  for line in lines:
    for name, value in line.items():
      is_number = value is not None and math.isfinite(value)
      if is_number and (name == "loss" or name.startswith("eval/")):
        series.setdefault(name, []).append((line["step"], value))
  for name in sorted(series, key=lambda name: (name != "loss", name)):
    step = math.ceil(len(series[name]) / _MOST_POINTS)
    yield _curve(name, series[name][::step])


def _curve(name: str, points):
  """Returns a figure that connects points (step, value)."""
  steps, values = np.array(points, float).T
  low, high, last = values.min(), values.max(), steps.max()
  x = steps / last * (_WIDTH - 20) + 10
  y = (high - values) / ((high - low) or 1.0) * (_HEIGHT - 40) + 20
  coordinates = list(zip(x.round(1), y.round(1)))
  return (
    f"<figure><figcaption>{html.escape(name)}</figcaption>"
    f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
    f'<polyline points="{" ".join(f"{a},{b}" for a, b in coordinates)}"/>'
    + "".join(
      f'<circle cx="{a}" cy="{b}" r="2"><title>step {step}: {value:.6g}'
      "</title></circle>"
      for (a, b), (step, value) in zip(coordinates, points)
    )
    + f'<text x="10" y="12">{high:.4g}</text>'
    f'<text x="10" y="{_HEIGHT - 6}">{low:.4g}</text>'
    f'<text x="{_WIDTH - 10}" y="{_HEIGHT - 6}" text-anchor="end">'
    f"step {last:.0f}</text></svg></figure>"
  )


def _confusions(report) -> str:
  """Returns the confusion matrix; darker cells are larger shares of a row."""
  if report.confusions is None:
    return ""
  rows = []
  for label, counts in zip(report.labels, report.confusions):
    shares = counts / max(1, counts.sum())
    cells = [
      f'<td class="number" style="background:rgba(26,115,232,{share:.2f})">'
      f"{count}</td>"
      for share, count in zip(shares, counts)
    ]
    rows.append(f"<tr><th>{html.escape(label)}</th>{''.join(cells)}</tr>")
  names = "".join(f"<th>{html.escape(label)}</th>" for label in report.labels)
  return (
    "<h2>Confusions</h2><table><tr><th>correct \\ predicted</th>"
    f"{names}</tr>{''.join(rows)}</table>"
  )


def _mistakes(report):
  largest = sorted(report.mistakes, key=lambda mistake: -mistake.size)
  rows = [mistake[1:] for mistake in largest[:NUM_MISTAKES]]
  return _table(rows, ["text", "correct", "predicted"])


# The card.


def _card(settings: run_settings.Settings, report, texts: dict[str, str]):
  head, call = USES[report.use]
  if report.text_pairs and head == "classification":
    call = 'classify([("a text", "another")])'
  scores = {
    name: float(value) for name, value in sorted(report.results.items())
  }
  data = settings.get("task_name") or os.path.basename(
    settings.get("eval_file") or settings.get("predict_file") or "data"
  )
  return _CARD.substitute(
    texts,
    use=report.use,
    head=head,
    call=call,
    folder=os.path.join(settings.output_dir, "final_model"),
    data=json.dumps(data),
    name=json.dumps(texts["title"]),
    metrics=json.dumps([{"type": n, "value": v} for n, v in scores.items()]),
    labels=", ".join(f"`{label}`" for label in report.labels) or "none",
    scores="\n".join(f"| {n} | {value:.6g} |" for n, value in scores.items())
    or "| not evaluated | |",
    files="\n".join(_data_rows(settings)),
  )


def _data_rows(settings: run_settings.Settings):
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
