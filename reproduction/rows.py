"""The published results: rows.csv, what was published and how to get it again.

Sources: Devlin et al., arXiv 1810.04805 ("paper"); the README and
multilingual.md of the original ("README"); and, where the paper has only test
scores, later papers that ran the same model on the dev sets. Bands are from
published spreads over seeds: a run within its band counts as reproduced.
"""

import shlex
from typing import NamedTuple

from reproduction import catalog


class Metric(NamedTuple):
  """A published number, in the unit of its table, such as per cent."""

  result: str  # Its name in eval_results.txt; "" if a server scores it.
  published: float
  low: float | None = None  # The band; None: open on this side.
  high: float | None = None
  scale: float = 100.0  # From the unit of eval_results.txt.

  def is_within(self, value: float) -> bool:
    """Returns whether a value, in the metric's unit, is in its band."""
    return (self.low is None or value >= self.low) and (
      self.high is None or value <= self.high
    )


class Row(NamedTuple):
  """A published result, and the recipe for it."""

  name: str  # What --row calls it.
  source: str  # The table that it is from.
  model: str  # In the catalog; "" if it must be pre-trained.
  data: str  # In the catalog; "" for none.
  script: str  # "" if none can do it: the note says why.
  # {data} is the data's folder, {output} the run's, {before} the model that the
  # run of the row in `after` left.
  flags: tuple[str, ...]
  metrics: tuple[Metric, ...]  # The first one counts.
  hours: str  # The published time, with its hardware.
  after: str  # The row whose finished runs this one starts from; "": none.
  note: str
  config: dict[str, str]  # Values that bert_config.json must have.

  @property
  def is_chained(self) -> bool:
    """Whether it trains or scores the model of another row's run."""
    return any("{before}" in flag for flag in self.flags)


def _metric(line):
  numbers = "published low high scale"
  found = {name: float(line[name]) for name in numbers.split() if line[name]}
  return Metric(line["result"].strip("-"), **found)


def _read():
  """Yields the Rows; more lines of a name have more metrics."""
  for lines in catalog.read_groups("rows.csv"):
    texts = "name source model data script hours after note"
    yield Row(
      flags=tuple(shlex.split(lines[0]["flags"])),
      metrics=tuple(_metric(line) for line in lines if line["result"]),
      config=dict(item.split("=") for item in lines[0]["config"].split()),
      **{name: lines[0][name] for name in texts.split()},
    )


ROWS = {row.name: row for row in _read()}
