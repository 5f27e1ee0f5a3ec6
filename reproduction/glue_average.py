"""Averages the scores of GLUE's tasks in a report. No TensorFlow.

As GLUE does, a task with several metrics counts with their mean, and so do
MNLI's two dev sets. As in BERT's paper, WNLI is left out.
"""

import statistics
from typing import NamedTuple

TASKS = ("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte")


class Average(NamedTuple):
  """The average of rows with the same suffix, such as "tiny" of cola-tiny.

  Attributes:
    suffix: what follows the task in the rows' names.
    value: the mean over the tasks, in percent.
    tasks, missing: the tasks with and without a score.
  """

  suffix: str
  value: float
  tasks: list[str]
  missing: list[str]


def averages(lines: list[dict]) -> list[Average]:
  """Returns an Average for each suffix with at least two tasks.

  `lines` comes from report.collect. Of several runs of a row, such as one with
  other flags, the first with the fewest deviations counts.
  """
  groups: dict[str, dict[str, dict[str, float]]] = {}
  for line in sorted(lines, key=lambda line: len(line["deviations"])):
    task = next((t for t in TASKS if line["row"].startswith(f"{t}-")), None)
    if task and line["median"] is not None:
      suffix = line["row"].removeprefix(f"{task}-")
      metrics = groups.setdefault(suffix, {}).setdefault(task, {})
      metrics.setdefault(line["metric"], line["median"])
  return [
    Average(
      suffix,
      statistics.fmean(statistics.fmean(m.values()) for m in tasks.values()),
      [task for task in TASKS if task in tasks],
      [task for task in TASKS if task not in tasks],
    )
    for suffix, tasks in sorted(groups.items())
    if len(tasks) > 1
  ]


def markdown(lines: list[dict]) -> str:
  """Returns a table of the averages, "" if there are none."""
  found = averages(lines)
  rows = [
    f"| {each.suffix} | {each.value:.1f} | {', '.join(each.tasks)} | "
    f"{', '.join(each.missing) or 'none'} |\n"
    for each in found
  ]
  return (
    "\n## GLUE's average over the dev sets, without WNLI\n\n"
    "| rows | average | tasks | without a score |\n|---|---|---|---|\n"
    + "".join(rows)
    if found
    else ""
  )
