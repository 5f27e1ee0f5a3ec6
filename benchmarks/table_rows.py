"""Rows of the table of table.py: from measured numbers to met or not.

Terms: a *work* is measured in turns, each of which runs every *contender* once
and gives each some *measures*, such as wall seconds; a *row* compares one
measure of a work with a target.
"""

import dataclasses
import os
import statistics
import sys
from typing import NamedTuple

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from common import errors, file_io

OURS = "here"
_MORE_IS_BETTER = ("examples_per_second", "texts_per_second", "share", "score")
_UNITS = {
  "megabytes": " MB", "added_megabytes": " MB", "milliseconds": " ms",
  "examples_per_second": " examples/s", "texts_per_second": " texts/s",
  "share": " %", "score": "", "imports": " imports",
}  # All others are seconds.
_COLORS = ("#1f4e79", "#4c9a6a", "#c8773a", "#7a5195")


@dataclasses.dataclass(frozen=True)
class Row:
  """One comparison.

  Attributes:
    title: what it is, for readers.
    measure: name of a measure; what stands before a comma says its unit.
    target: the number to reach, or None.
    at_most: whether the result may be no more than the target; else no less.
    result: "ratio": ours / the best peer's; "speedup": the best peer's / ours;
      "difference": ours - the best peer's; "own": ours.
    peers: only contenders whose names start so; "": all but ours.
    ours: the best contender whose name starts so counts.
  """

  title: str
  measure: str
  target: float | None
  at_most: bool
  result: str = "ratio"
  peers: str = ""
  ours: str = OURS


class Outcome(NamedTuple):
  """A row with its numbers.

  Attributes:
    row: Row.
    ours: median of our turns.
    peers: dict from contender to the median of its turns.
    result: float, or None where what is divided by is 0.
    is_met: bool, or None where there is no target or no result.
  """

  row: Row
  ours: float
  peers: dict
  result: float | None
  is_met: bool | None


def evaluate(row, turns):
  """Returns the Outcome of a row, or None if the turns lack what it needs.

  Args:
    row: Row.
    turns: list of dicts from contender to dict from measure to number.
  """
  found = medians(turns, row.measure)
  ours = {name for name in found if name.startswith(row.ours)}
  if not ours:
    return None
  # The best, whichever way its measure goes.
  better = max if is_better_larger(row.measure) else min
  best_of_ours = better(found[name] for name in ours)
  peers = {
    name: value
    for name, value in found.items()
    if name not in ours and name.startswith(row.peers)
  }
  result = best_of_ours
  if row.result != "own":
    if not peers:
      return None
    result = _compared(row, best_of_ours, better(peers.values()))
  is_met = None
  if row.target is not None and result is not None:
    is_met = result <= row.target if row.at_most else result >= row.target
  return Outcome(row, best_of_ours, peers, result, is_met)


def medians(turns, measure):
  """Returns dict from contender to the median of a measure, if it has it."""
  values = {}
  for turn in turns:
    for contender, measures in turn.items():
      if measure in measures:
        values.setdefault(contender, []).append(measures[measure])
  return {name: statistics.median(found) for name, found in values.items()}


def _kind(measure):
  return measure.partition(",")[0]


def is_better_larger(measure):
  """Whether the largest of a measure is the best."""
  return _kind(measure) in _MORE_IS_BETTER


def _compared(row, ours, best):
  if row.result == "difference":
    return ours - best
  if not best or not ours:
    return None
  # A speedup is of costs: what they take for each second of ours.
  return ours / best if row.result == "ratio" else best / ours


def number(value, measure):
  """Returns a number with its unit: 12.3 s, 88 %."""
  kind = _kind(measure)
  if kind == "share":
    value *= 100
  digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
  if kind == "score":
    digits = 4
  return f"{value:.{digits}f}{_UNITS.get(kind, ' s')}"


def result_text(outcome):
  """Returns what an outcome's result and target are, as two str."""
  row = outcome.row
  sign = "≤" if row.at_most else "≥"

  def show(value):
    if value is None:
      return "–"
    if row.result in ("own", "difference"):
      return number(value, row.measure)
    return f"{value:.2f} ×"

  target = "–" if row.target is None else f"{sign} {show(row.target)}"
  return show(outcome.result), target


def markdown(outcomes, notes_of):
  """Returns the table, and below it where and how each row was measured.

  Args:
    outcomes: dict from the work's name to a list of its Outcomes.
    notes_of: dict from the work's name to its `run_note`.
  """
  lines = [
    "| work | here | peers | result | target | met | run |",
    "|---|---|---|---|---|---|---|",
  ]
  notes = []
  for name, found in outcomes.items():
    note = notes_of[name]
    # Rows of one command share a note.
    if note not in notes:
      notes.append(note)
    for outcome in found:
      lines.append(_table_line(outcome, notes.index(note) + 1))
  lines.append("")
  lines += [f"{place}. {note}" for place, note in enumerate(notes, 1)]
  return "\n".join(lines)


def _table_line(outcome, run):
  row = outcome.row
  peers = "; ".join(
    f"{name}: {number(value, row.measure)}"
    for name, value in outcome.peers.items()
  )
  met = {True: "yes", False: "**no**", None: "–"}[outcome.is_met]
  cells = [
    row.title, number(outcome.ours, row.measure), peers or "–",
    *result_text(outcome), met, str(run),
  ]
  return f"| {' | '.join(cells)} |"


def run_note(run, is_older):
  """Returns where, when, of which code and with which command it was measured.

  Args:
    run: results of table.py.
    is_older: whether the code has changed since.
  """
  turns = len(run["turns"])
  code = run.get("code", "unknown") + ", which has changed since" * is_older
  return (
    f"{run['machine']}; {run['date']}; code {code}; median of {turns} "
    f"turn{'s' * (turns > 1)}; `{run['command']}`"
  )


def replace_table(page, table, name="make bench"):
  """Returns a page's text with a new table between its two markers.

  Args:
    page: the text.
    table: what is to be between `<!-- name: begin -->` and `... end -->`.
    name: of the markers.

  Raises:
    InputError: the page has not both markers, once each and in order.
  """
  first, last = (f"<!-- {name}: {place} -->" for place in ("begin", "end"))
  before, begin, rest = page.partition(first)
  _, end, after = rest.partition(last)
  # Twice would leave an old table in the page.
  if not begin or not end or first in rest or last in after:
    raise errors.InputError(
      f"expected one line {first} and after it one line {last} in the page "
      "that the table is written to: add them"
    )
  return f"{before}{first}\n{table}\n{last}{after}"


def write_into(page, name, text):
  """Writes text between the markers of a page."""
  old = page.read_text(encoding="utf-8")
  file_io.write_text(str(page), replace_table(old, text, name))


class Headline(NamedTuple):
  """A result of the page's own table: how much faster than the best peer.

  Attributes:
    group, text: what was measured.
    outcome: its Outcome.
    peer: name of the fastest peer.
  """

  group: str
  text: str
  outcome: Outcome
  peer: str


def headline(group, text, turns, measure, peers) -> Headline | None:
  """Returns the Headline of a work's turns, or None without a peer."""
  is_speed = is_better_larger(measure)
  result = "ratio" if is_speed else "speedup"
  row = Row(text, measure, None, at_most=False, result=result, peers=peers)
  outcome = evaluate(row, turns)
  if outcome is None or outcome.result is None:
    return None
  best = max if is_speed else min
  return Headline(
    group, text, outcome, best(outcome.peers, key=outcome.peers.get)
  )


def headline_table(headlines):
  """Returns the page's Markdown table."""
  lines = ["| | here | the fastest other program | |", "|---|---|---|---|"]
  for group, text, outcome, peer in headlines:
    ours, theirs = (
      number(value, outcome.row.measure)
      for value in (outcome.ours, outcome.peers[peer])
    )
    compared = f"**{outcome.result:.1f}× faster**"
    if outcome.result < 1:
      compared = f"{1 / outcome.result:.1f}× slower"
    lines.append(
      f"| {group}: {text} | {ours} | {peer}: {theirs} | {compared} |"
    )
  return "\n".join(lines)


def draw(headlines, path):
  """Draws a bar for each Headline, grouped; 1× is as fast."""
  from matplotlib import figure

  groups = list(dict.fromkeys(headline.group for headline in headlines))
  picture = figure.Figure(
    figsize=(8, 1 + 0.34 * (len(headlines) + len(groups))), layout="tight"
  )
  axes = picture.subplots()
  place, ticks = 0, {}
  for group, color in zip(groups, _COLORS, strict=False):
    axes.text(1, -place, f" {group}", weight="bold", va="center", fontsize=9)
    for _, text, outcome, peer in (h for h in headlines if h.group == group):
      place += 1
      ticks[-place] = text
      # From "as fast": what is slower goes to the left.
      width = outcome.result - 1
      axes.barh(-place, width, left=1, color=color, height=0.7)
      axes.text(
        max(1, outcome.result), -place, f" {outcome.result:.1f}×  {peer}",
        va="center", fontsize=8,
      )
    place += 1
  axes.set_yticks(list(ticks), list(ticks.values()), fontsize=8)
  results = [headline.outcome.result for headline in headlines]
  axes.set(xscale="log", ylim=(-place, 0.6))
  axes.set_xlim(min(1, *results), 2.5 * max(results))
  steps = [2.0**n for n in range(-3, 8) if min(1, *results) <= 2.0**n]
  steps = [step for step in steps if step < 2.5 * max(results)]
  axes.set_xticks(steps, [f"{step:g}×" for step in steps])
  axes.minorticks_off()
  axes.set_title("How many times as fast as the fastest other program")
  axes.spines[["top", "right"]].set_visible(False)
  picture.savefig(path, dpi=90)
