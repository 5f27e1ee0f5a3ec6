"""Writes report.html: scores, curves, the largest mistakes, settings.

The page needs no other file and no network access. It gives advice if the
recall of classes is poor.
"""

import html
import json
import os
import pathlib
import string
import sys
from collections.abc import Iterable

import numpy as np
from absl import logging

from common import errors, file_io, program, run_settings
from running import report_plots, reports, trackers

_PAGE = string.Template(
  pathlib.Path(__file__).with_suffix(".html").read_text("utf-8")
)
# Thresholds of the advice. A recall below _POOR is poor. Published recipes have
# more than _FEW_STEPS steps: the shortest, for RTE, has 233. A class is rare if
# it has at most 1 / _RARE of the examples of the largest class.
_POOR, _FEW_STEPS, _RARE = 0.8, 100, 4
# Flags for small tables; BERT-base and larger models need a lower rate.
_SMALL_DATA = {"optimizer": "adamw", "learning_rate": "1e-4"}


def write(settings: run_settings.Settings, report: reports.Report) -> None:
  """Writes report.html into --output_dir.

  Also logs the advice that the page gives.
  """
  folder = settings.output_dir
  log = trackers.history(folder)
  advice = _advice(settings, report, log[-1]["step"] if log else 0)
  for sentence in advice:
    logging.warning("%s", sentence)
  texts = {
    "title": reports.title(settings),
    "versions": program.version(),
    "command": reports.command(sys.argv[1:]),
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


def _figures(charts: Iterable[report_plots.Chart]) -> str:
  return "".join(map(report_plots.svg, charts))


def _advice(
  settings: run_settings.Settings, report: reports.Report, last_step: int
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


# The parts of the page.


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


def _confusions(report: reports.Report) -> str:
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


def _mistakes(report: reports.Report) -> str:
  largest = sorted(report.mistakes, key=lambda mistake: -mistake.size)
  chosen = largest[: reports.NUM_MISTAKES]
  if all(mistake.probability is None for mistake in chosen):
    texts = [mistake[1:4] for mistake in chosen]
    return _table(texts, "text", "correct", "predicted")
  rows = [
    (*mistake[1:4], "" if p is None else f"{p:.3f}")
    for mistake in chosen
    for p in [mistake.probability]
  ]
  return _table(rows, "text", "correct", "predicted", "probability")
