"""Evaluates and formats the rows of table.py's table.

Terms: a *work* (a task) is measured in turns. Each turn runs every
*contender* once and records its *measures*, such as wall seconds. A *row*
compares a measure of a work with a target.
"""

import itertools
import re
import statistics
from typing import NamedTuple

# measured_runs puts the project's modules on the path.
import engine_speed
import markdown_table
import measured_runs  # noqa: F401
from common import errors, file_io

OURS = "here"
_MORE_IS_BETTER = ("examples_per_second", "texts_per_second", "share", "score")
_UNITS = {
  "megabytes": " MB",
  "added_megabytes": " MB",
  "milliseconds": " ms",
  "examples_per_second": " examples/s",
  "texts_per_second": " texts/s",
  "share": " %",
  "score": "",
}  # All other measures are seconds.


class Row(NamedTuple):
  """A comparison of a measure with peers or a target."""

  title: str
  measure: str  # The part before a comma determines the unit.
  target: float | None = None
  # "ratio": ours / the best peer's; "speedup": above 1 if ours is faster;
  # "difference": ours - the best peer's; "own": ours.
  result: str = "ratio"
  peers: str = ""  # Prefix of the peers' names; "" means all but ours.
  ours: str = OURS  # Prefix of our contenders' names; the best counts.

  @property
  def is_more_better(self) -> bool:
    """Whether the largest value of the measure is the best."""
    return self.measure.partition(",")[0] in _MORE_IS_BETTER


class Outcome(NamedTuple):
  """A row with its numbers: medians of the turns."""

  row: Row
  ours: float
  peers: dict  # {contender: number}.
  peer: str | None  # The best peer.
  result: float


def evaluate(row: Row, turns) -> Outcome | None:
  """Returns the Outcome of a row, or None if the turns lack its measures.

  `turns` is a list of {contender: {measure: number}}.
  """
  values = {
    name: measures[row.measure]
    for name, measures in medians(turns).items()
    if row.measure in measures
  }
  better = max if row.is_more_better else min
  ours = {n: value for n, value in values.items() if n.startswith(row.ours)}
  peers = {
    name: value
    for name, value in values.items()
    if name.startswith(row.peers) and name not in ours
  }
  peer = better(peers, key=peers.get, default=None)
  if not ours or (peer is None and row.result != "own"):
    return None
  best = result = better(ours.values())
  if row.result == "difference":
    result = best - peers[peer]
  elif row.result == "speedup" and not row.is_more_better:
    result = peers[peer] / best
  elif row.result != "own":
    result = best / peers[peer]
  return Outcome(row, best, peers, peer, result)


def medians(turns):
  """Returns {contender: {measure: median of the turns}}."""
  values = {}
  for contender, measures in itertools.chain(*(turn.items() for turn in turns)):
    for measure, value in measures.items():
      lists = values.setdefault(contender, {})
      lists.setdefault(measure, []).append(value)
  return {
    name: {measure: statistics.median(v) for measure, v in lists.items()}
    for name, lists in values.items()
  }


def number(value, measure):
  """Formats a number with its unit: 12.3 s, 88 %."""
  unit = measure.partition(",")[0]
  if unit == "share":
    value *= 100
  digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
  digits = 4 if unit == "score" else digits
  return f"{value:.{digits}f}{_UNITS.get(unit, ' s')}"


def markdown(outcomes):
  """Returns the table, followed by a note on each run.

  `outcomes` maps (a work's name, processor) to its Outcomes and `run_note`.
  """
  names = "work", "processor", "here", "peers", "result", "target", "met", "run"
  # Rows of the same command share a note.
  notes = list(dict.fromkeys(note for _, note in outcomes.values()))
  rows = [
    (outcome.row.title, processor, *_cells(outcome), notes.index(note) + 1)
    for (_, processor), (work_outcomes, note) in outcomes.items()
    for outcome in work_outcomes
  ]
  numbered = (f"{index}. {note}" for index, note in enumerate(notes, 1))
  return "\n".join([markdown_table.table(names, rows), "", *numbered])


def _cells(outcome):
  row, ours, peers, _, result = outcome

  def show(value):
    if row.result in ("own", "difference"):
      return number(value, row.measure)
    return f"{value:.2f} ×"

  target = met = "–"
  if row.target is not None:
    is_floor = row.is_more_better or row.result == "speedup"
    target = f"{'≥' if is_floor else '≤'} {show(row.target)}"
    is_met = result >= row.target if is_floor else result <= row.target
    met = "yes" if is_met else "**no**"
  numbers = [f"{n}: {number(v, row.measure)}" for n, v in peers.items()]
  ours = number(ours, row.measure)
  return ours, "; ".join(numbers) or "–", show(result), target, met


def run_note(run):
  """Returns a run's machine, date, commit, number of turns and command."""
  turns = len(run["turns"])
  return (
    f"{run['machine']}; {run['date']}; code {run['code']}; median of {turns} "
    f"turn{'s' * (turns > 1)}; `{run['command']}`"
  )


def write_into(page, name, text):
  """Writes text between `<!-- name: begin -->` and `<!-- name: end -->`."""
  first, last = (f"<!-- {name}: {place} -->" for place in ("begin", "end"))
  new, count = re.subn(
    f"{first}\n.*?{last}",
    lambda match: f"{first}\n{text}\n{last}",
    page.read_text(encoding="utf-8"),
    flags=re.DOTALL,
  )
  if count != 1:
    raise errors.InputError(
      f"{page} must have one line {first} and, after it, one line {last}: "
      "add them"
    )
  file_io.write_text(str(page), new)


class Headline(NamedTuple):
  """A result for docs/performance.md and the chart."""

  group: str
  processor: str
  outcome: Outcome  # Its result is a "speedup".

  @property
  def title(self) -> str:
    """The title of the row or the bar."""
    return f"{self.group}: {self.outcome.row.title}"

  def cells(self) -> tuple:
    """Returns the cells of the row."""
    row, ours, peers, peer, result = self.outcome
    compared = f"**{result:.1f}× faster**"
    if 1 / 1.05 < result < 1.05:
      compared = "equal within 5 %"
    elif result < 1:
      compared = f"{1 / result:.1f}× slower"
    here, best = (number(x, row.measure) for x in (ours, peers[peer]))
    return self.title, self.processor, here, f"{peer}: {best}", compared


def headline_table(headlines):
  """Returns a Markdown table of Headlines."""
  names = "", "processor", "here", "the fastest other program", ""
  return markdown_table.table(names, (line.cells() for line in headlines))


def engine_table(turns, threads):
  """Returns a Markdown table of engine_speed's measures; "" without any."""
  sizes = [f"{length} × {size}" for size, length in engine_speed.BATCHES]
  rows, taken = [], medians(turns)
  for name in engine_speed.CONTENDERS:
    values = {
      measure.removesuffix(f", {threads}"): value
      for measure, value in taken.get(name, {}).items()
      if measure.endswith(f", {threads}")
    }
    if values:
      cells = [
        f"{values[f'texts_per_second, {size}']:.0f} / "
        f"{values[f'texts_per_processor_second, {size}']:.0f}"
        for size in sizes
      ]
      cells += [f"{values[f'milliseconds, p{p}']:.1f} ms" for p in (50, 99)]
      cells += [f"{values[n]:.0f} MB" for n in ("megabytes", "megabytes, disk")]
      rows.append((name, *cells))
  names = "engine", *sizes, "one text, p50", "p99", "memory", "on disk"
  return markdown_table.table(names, rows) if rows else ""


def score_table(runs):
  """Returns a Markdown table of {column: run of a work engines/scores/*}."""
  columns, rows = [medians(run["turns"]) for run in runs.values()], []
  for name in engine_speed.CONTENDERS:
    scores = (column.get(name) for column in columns)
    cells = (f"{taken['score']:.4f}" if taken else "–" for taken in scores)
    rows.append((name, *cells))
  return markdown_table.table(("engine", *runs), rows)


def draw(headlines, path):
  """Draws a bar for each headline, colored by processor; 1× is equal speed."""
  from matplotlib import figure

  height = 1.2 + 0.34 * len(headlines)
  picture = figure.Figure(figsize=(8, height), layout="tight")
  axes = picture.subplots()
  titles = list(dict.fromkeys(line.title for line in headlines))
  # The bars of a title touch; titles are apart.
  places = [
    place + 0.6 * titles.index(line.title)
    for place, line in enumerate(headlines)
  ]
  bars = list(zip(places, headlines, strict=True))
  for processor in dict.fromkeys(line.processor for line in headlines):
    of_one = [bar for bar in bars if bar[1].processor == processor]
    # Bars begin at 1×, so bars of slower results go to the left.
    widths = [line.outcome.result - 1 for _, line in of_one]
    ends = [place for place, _ in of_one]
    axes.barh(ends, widths, left=1, height=1, label=processor)
  for place, line in bars:
    _, _, _, peer, result = line.outcome
    text = f" {result:.1f}×  {peer}"
    axes.text(max(1, result), place, text, va="center", fontsize=8)
  middles = (
    statistics.mean(place for place, line in bars if line.title == title)
    for title in titles
  )
  axes.set_yticks([*middles], titles)
  axes.invert_yaxis()
  axes.tick_params(labelsize=8)
  results = [line.outcome.result for line in headlines]
  axes.set_xscale("log", base=2)
  axes.set_xlim(min(1, *results), 2.5 * max(results))
  axes.xaxis.set_major_formatter("{x:g}×")
  axes.set_title("Speed relative to the fastest other program")
  axes.spines[["top", "right"]].set_visible(False)
  axes.legend(fontsize=8, loc="lower right")
  picture.savefig(path, dpi=80)
