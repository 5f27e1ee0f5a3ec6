"""The published results: rows.csv, what was published and how to get it again.

Sources: Devlin et al., arXiv 1810.04805 ("paper"); the README and
multilingual.md of the original ("README"); and, where the paper has only test
scores, later papers that ran the same model on the dev sets. Bands are from
published spreads over seeds: a run within its band counts as reproduced.
"""

import itertools
from typing import NamedTuple

from reproduction import catalog

# Released by the authors; the others are in rows.csv.
BASE = "uncased_L-12_H-768_A-12"


class Metric(NamedTuple):
  """A published number, in the unit of its table, such as per cent."""

  result: str  # Its name in eval_results.txt; "" if a server scores it.
  published: float
  low: float | None = None  # The band; None: open on this side.
  high: float | None = None
  scale: float = 100.0  # From the unit of eval_results.txt.

  def is_within(self, value: float) -> bool:
    """Whether a value, in the metric's unit, is in its band."""
    return (self.low is None or value >= self.low) and (
      self.high is None or value <= self.high
    )


class Row(NamedTuple):
  """A published result, and the recipe for it."""

  name: str  # What --row calls it.
  source: str  # The table that it is from.
  model: str  # In the catalog; "" if it must be pre-trained.
  data: str  # In the catalog or its pointers; "" for none.
  script: str  # "" if none can do it: the note says why.
  flags: tuple[str, ...]  # {data} is the data's folder, {output} the run's.
  metrics: tuple[Metric, ...]  # The first one counts.
  hours: str = ""  # The published time, with its hardware.
  note: str = ""


def _metric(line):
  low, high, scale = (
    float(line[name]) if line[name] else None
    for name in ("low", "high", "scale")
  )
  return Metric(
    line["result"].strip("-"), float(line["published"]), low, high,
    100.0 if scale is None else scale,
  )


def _read():
  """Returns {name: Row}; more lines of a name have more metrics."""
  rows = {}
  for name, group in itertools.groupby(
    catalog.read_table("rows.csv"), lambda line: line["name"]
  ):
    lines = list(group)
    texts = {k: lines[0][k] for k in ("source", "model", "data", "script")}
    rows[name] = Row(
      name, **texts, flags=tuple(lines[0]["flags"].split()),
      metrics=tuple(_metric(line) for line in lines if line["result"]),
      hours=lines[0]["hours"], note=lines[0]["note"],
    )
  return rows


ROWS = _read()

# Lines of the published files, headers included; of SQuAD's the questions. A
# run on fewer of them says so in the report.
FILE_ROWS = {
  "cola": {"train.tsv": 8551, "dev.tsv": 1043},
  "sst-2": {"train.tsv": 67350, "dev.tsv": 873},
  "mrpc": {"train.tsv": 3669, "dev.tsv": 409},
  "sts-b": {"train.tsv": 5750, "dev.tsv": 1501},
  "qqp": {"train.tsv": 363847, "dev.tsv": 40431},
  "mnli": {"train.tsv": 392703, "dev_matched.tsv": 9816},
  "qnli": {"train.tsv": 104744, "dev.tsv": 5464},
  "rte": {"train.tsv": 2491, "dev.tsv": 278},
  "wnli": {"train.tsv": 636, "dev.tsv": 72},
  "squad1": {"train-v1.1.json": 87599, "dev-v1.1.json": 10570},
  "squad2": {"train-v2.0.json": 130319, "dev-v2.0.json": 11873},
  "swag": {"train.csv": 73547, "val.csv": 20007},
  "conll2003": {"eng.train": 219554, "eng.testa": 55044},
}
