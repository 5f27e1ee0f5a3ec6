"""Writes final_model/README.md: what the model does, its data, scores and use.

The card begins with the metadata that model hubs read.
"""

import glob
import json
import math
import os
import pathlib
import re
import string
import sys
from collections.abc import Iterator

from common import errors, file_io, program, run_settings
from running import reports

_CARD = string.Template(
  pathlib.Path(__file__).with_suffix(".md").read_text("utf-8")
)
# {metric of this project: its name on the Hub, if it differs}
_HUB_METRICS = {
  "matthews": "matthews_correlation",
  "pearson": "pearsonr",
  "spearman": "spearmanr",
  "auc": "roc_auc",
  "exact": "exact_match",
}
# {use: (head of an export, example call in Python)}
USES = {
  "text-classification": ("classification", 'classify(["a text"])'),
  "text-ranking": ("classification", 'classify(["a text"])'),
  "sentence-similarity": ("embedding", 'embed(["a text", "another"])'),
  "question-answering": ("span", 'answer("a question", "its context")'),
  "token-classification": ("tagging", 'tag(["a text"])'),
}


def write(settings: run_settings.Settings, report: reports.Report) -> None:
  """Writes the card of a model that was trained."""
  if settings.do_train:
    path = os.path.join(settings.output_dir, "final_model", "README.md")
    with errors.by_product(path):
      file_io.write_text(path, _card(settings, report))


def _card(settings: run_settings.Settings, report: reports.Report) -> str:
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
  words = [_without_folders(word) for word in sys.argv[1:]]
  title = reports.title(settings)
  return _CARD.substitute(
    title=title,
    versions=program.version(),
    command=reports.command(words),
    use=report.use,
    head=head,
    call=call,
    data=json.dumps(data),
    name=json.dumps(title),
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
