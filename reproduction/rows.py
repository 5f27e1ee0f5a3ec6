"""Reads rows.csv: published results, and the commands that reproduce them.

Sources: the "paper" (Devlin et al., arXiv 1810.04805); the original's README
and multilingual.md; NVIDIA's README for LAMB; and, for dev set scores that the
paper lacks, later papers. Bands are from published spreads over seeds. A result
within its band counts as reproduced if the recipe is unchanged.
"""

import shlex
from typing import NamedTuple

from reproduction import catalog


class Metric(NamedTuple):
  """A published number, in the unit of its table, such as percent."""

  result: str  # Its name in eval_results.txt; "" if only a server computes it.
  published: float
  low: float | None = None  # The limits of the band; None: no limit.
  high: float | None = None
  scale: float = 100.0  # Factor for a value of eval_results.txt.


class Row(NamedTuple):
  """A published result, and the recipe for it."""

  name: str  # The value of --row.
  source: str  # The table with the published result.
  model: str  # Name in the catalog; "" for a model to pre-train.
  data: str  # Name in the catalog; "" for none.
  script: str  # "" if no script can reproduce the row; the note says why.
  # {data} stands for the data's folder or files, {output} for the run's folder,
  # and {before} for the model from a run of the row in `after`.
  flags: tuple[str, ...]
  metrics: tuple[Metric, ...]  # The first is the main metric.
  hours: str  # The published training time and hardware.
  after: str  # Row from whose finished runs this row starts; "": none.
  note: str
  config: dict[str, str]  # Values that bert_config.json must have.

  @property
  def is_chained(self) -> bool:
    """Whether the row uses the model from a run of another row."""
    return any("{before}" in flag for flag in self.flags)


def _row(lines: list[dict]) -> Row:
  """Builds a Row from its lines in the CSV file, one line per metric."""
  text_fields = "name source model data script hours after note"
  number_fields = "published low high scale"
  return Row(
    flags=tuple(shlex.split(lines[0]["flags"])),
    metrics=tuple(
      Metric(
        line["result"].strip("-"),
        **{n: float(line[n]) for n in number_fields.split() if line[n]},
      )
      for line in lines
      if line["result"]
    ),
    config=dict(item.split("=") for item in lines[0]["config"].split()),
    **{name: lines[0][name] for name in text_fields.split()},
  )


ROWS = {row.name: row for row in map(_row, catalog.read_groups("rows.csv"))}
