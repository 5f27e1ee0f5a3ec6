"""Evaluates and formats the rows of table.py's table.

Terms: a *work* (a task) is measured in turns. Each turn runs every
*contender* once and records its *measures*, such as wall seconds. A *row*
compares a measure of a work with a target.
"""

import itertools
import re
import statistics
from typing import NamedTuple

# This import comes first, because it puts the project's modules on the path.
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
  values = medians(turns, row.measure)
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


def medians(turns, measure):
  """Returns {contender: median of a measure} for contenders that have it."""
  values = {}
  for contender, measures in itertools.chain(*(turn.items() for turn in turns)):
    if measure in measures:
      values.setdefault(contender, []).append(measures[measure])
  return {name: statistics.median(v) for name, v in values.items()}


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
  lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
  # Rows of the same command share a note.
  notes = list(dict.fromkeys(note for _, note in outcomes.values()))
  for (_, processor), (work_outcomes, note) in outcomes.items():
    run = notes.index(note) + 1
    lines += [
      f"| {outcome.row.title} | {processor} {_cells(outcome)} {run} |"
      for outcome in work_outcomes
    ]
  lines.append("")
  lines += [f"{index}. {note}" for index, note in enumerate(notes, 1)]
  return "\n".join(lines)


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
  peer_numbers = "; ".join(
    f"{name}: {number(value, row.measure)}" for name, value in peers.items()
  )
  return (
    f"| {number(ours, row.measure)} | {peer_numbers or '–'} "
    f"| {show(result)} | {target} | {met} |"
  )


def run_note(run):
  """Returns a run's machine, date, commit, number of turns and command."""
  turns = len(run["turns"])
  return (
    f"{run['machine']}; {run['date']}; code {run['code']}; median of {turns} "
    f"turn{'s' * (turns > 1)}; `{run['command']}`"
  )


def write_into(page, name, text):
  """Writes text between `<!-- name: begin -->` and `<!-- name: end -->`.

  Raises InputError: the page lacks one of these lines, or repeats it.
  """
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


def headline_table(headlines):
  """Returns a Markdown table of Headlines."""
  lines = ["| | processor | here | the fastest other program | |"]
  lines.append("|---|---|---|---|---|")
  for group, processor, (row, ours, peers, peer, result) in headlines:
    compared = f"**{result:.1f}× faster**"
    if 1 / 1.05 < result < 1.05:
      compared = "equal within 5 %"
    elif result < 1:
      compared = f"{1 / result:.1f}× slower"
    lines.append(
      f"| {group}: {row.title} | {processor} | {number(ours, row.measure)} "
      f"| {peer}: {number(peers[peer], row.measure)} | {compared} |"
    )
  return "\n".join(lines)


def draw(headlines, path):
  """Draws a bar for each headline, colored by processor; 1× is equal speed."""
  from matplotlib import figure, patches

  height = 1.2 + 0.34 * len(headlines)
  picture = figure.Figure(figsize=(8, height), layout="tight")
  axes = picture.subplots()
  processors = dict.fromkeys(headline.processor for headline in headlines)
  colors = {name: f"C{index}" for index, name in enumerate(processors)}
  rows = {}
  for headline in headlines:
    title = f"{headline.group}: {headline.outcome.row.title}"
    rows.setdefault(title, []).append(headline)
  place, middles = 0, []
  for same in rows.values():
    middles.append(place + (len(same) - 1) / 2)
    for _, processor, (_, _, _, peer, result) in same:
      # Bars begin at 1×, so bars of slower results go to the left.
      color = colors[processor]
      axes.barh(place, result - 1, left=1, height=1, color=color)
      text = f" {result:.1f}×  {peer}"
      axes.text(max(1, result), place, text, va="center", fontsize=8)
      place += 1
    place += 0.6  # The bars of a row touch; rows are apart.
  axes.set_yticks(middles, [*rows])
  axes.invert_yaxis()
  axes.tick_params(labelsize=8)
  results = [headline.outcome.result for headline in headlines]
  axes.set(xscale="log", xlim=(min(1, *results), 2.5 * max(results)))
  steps = [2.0**n for n in range(-3, 8)]
  steps = [x for x in steps if min(1, *results) <= x < 2.5 * max(results)]
  axes.set_xticks(steps, [f"{step:g}×" for step in steps])
  axes.minorticks_off()
  axes.set_title("Speed relative to the fastest other program")
  axes.spines[["top", "right"]].set_visible(False)
  legend = [patches.Patch(color=c, label=name) for name, c in colors.items()]
  axes.legend(handles=legend, fontsize=8, loc="lower right")
  picture.savefig(path, dpi=80)
