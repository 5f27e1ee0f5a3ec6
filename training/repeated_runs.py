"""Runs a command several times, for --seeds or for the grid of --search.

No TensorFlow is imported here.
"""

import itertools
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from absl import logging

from common import errors, file_io, flag_values, run_settings


def parse_seeds(texts: Iterable[str]):
  """Parses --seeds as ints; raises InputError if any is invalid or repeated."""
  flag = f"--seeds={','.join(texts)}"
  try:
    seeds = [int(text) for text in texts]
  except ValueError as error:
    raise errors.InputError(
      f"{flag}: expected whole numbers, say 1,2,3"
    ) from error
  if not all(-(2**63) <= seed < 2**63 for seed in seeds):
    raise errors.InputError(f"{flag}: expected numbers of at most 64 bits")
  if len(set(seeds)) < len(seeds):
    raise errors.InputError(f"{flag}: a seed is repeated; list each seed once")
  return seeds


def summary(results: dict[int, dict[str, float]]) -> str:
  """Returns a table with a row for each result and a column for each seed.

  `sd` is the standard deviation of a sample (n - 1), and 0 for one seed.
  """
  # Imported here, because few commands need it, and all import this module.
  import statistics

  # The table has only the metrics that all runs have.
  names = sorted(set.intersection(*map(set, results.values())))
  width = max([len(name) for name in names] + [6]) + 2
  columns = ["median", "mean", "sd", *(f"seed {seed}" for seed in results)]
  lines = [" " * width + "".join(f"{column:>12}" for column in columns)]
  for name in names:
    values = [float(metrics[name]) for metrics in results.values()]
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    summaries = statistics.median(values), statistics.fmean(values), spread
    cells = "".join(f"{number:12.5f}" for number in (*summaries, *values))
    lines.append(f"{name:{width}}{cells}")
  return "\n".join(lines) + "\n"


def parse_search(
  parts: Sequence[str] | None,
  parse: Callable[[str, str], Any],
  given_flags: Collection[str] = (),
) -> dict[str, dict[str, Any]]:
  """Returns the runs of --search: {name of a run's folder: values of flags}.

  Args:
    parts: such as ["learning_rate=5e-5,3e-5", "num_train_epochs=2,3"].
    parse: function of the name and the text of a flag; returns its value.
    given_flags: names of the flags that the user gave.

  Raises:
    InputError: `parts` is empty; a flag is not in flag_values.SEARCHED, is
      named twice, or is also given; or a value is invalid or repeated.
  """
  if parts is None:
    return {}
  text = " ".join(parts)
  grid: dict[str, list] = {}
  for part in parts:
    name, _, values = part.partition("=")
    if name not in flag_values.SEARCHED:
      raise errors.InputError(
        f"--search={text}: {name!r} cannot be searched; expected one of "
        f"{', '.join(flag_values.SEARCHED)}; pass for example "
        "learning_rate=5e-5,3e-5"
      )
    if name in given_flags:
      raise errors.InputError(
        f"--{name} is given, but --search sets it, too; leave one of them out"
      )
    if name in grid:
      raise errors.InputError(
        f"--search={text}: {name} is repeated; list all its values together"
      )
    if not all(values.split(",")):
      raise errors.InputError(
        f"--search={text}: {name} has an empty value; separate values with "
        "commas and no spaces, as in learning_rate=5e-5,3e-5"
      )
    try:
      grid[name] = [parse(name, value) for value in values.split(",")]
    except (TypeError, ValueError) as error:
      raise errors.InputError(f"--search={text}: {name}: {error}") from error
    if len(set(grid[name])) < len(grid[name]):
      raise errors.InputError(
        f"--search={text}: a value of {name} is repeated; list it once"
      )
  if not grid:
    raise errors.InputError(
      "--search is empty; pass for example learning_rate=5e-5,3e-5"
    )
  runs = [dict(zip(grid, row)) for row in itertools.product(*grid.values())]
  return {
    "_".join(f"{name}={value}" for name, value in changes.items()): changes
    for changes in runs
  }


def search_table(
  grid: dict[str, dict[str, Any]],
  results: dict[str, dict[str, float]],
  metric: str,
) -> str:
  """Returns a TSV of settings and scores, the best run first.

  Args:
    grid: the runs that `parse_search` returned.
    results: the scores of each run.
    metric: the score to compare; among equal scores, the first run is best.
  """
  shared = set.intersection(*map(set, results.values()))
  metrics = [metric, *sorted(shared - {metric})]
  order = sorted(results, key=lambda name: -results[name][metric])
  rows = [[*grid[order[0]], *metrics]]
  for name in order:
    scores = [f"{results[name][score]:g}" for score in metrics]
    rows.append([*map(str, grid[name].values()), *scores])
  return "".join("\t".join(row) + "\n" for row in rows)


def run_all(
  settings: run_settings.Settings, run: Callable, runs: dict[str, dict]
) -> dict[str, dict[str, float]]:
  """Executes each run in a folder with its name; returns {name: scores}.

  Args:
    run: function of the settings of a run; returns its scores.
    runs: {name of a run: the settings that it changes}.
  """
  results: dict[str, dict[str, float]] = {}
  for name, changes in runs.items():
    logging.info("run %d of %d: %s", len(results) + 1, len(runs), name)
    folder = os.path.join(settings.output_dir, name)
    results[name] = run(settings.replace(**changes, output_dir=folder))
  return results


def run_grid(
  settings: run_settings.Settings,
  run: Callable,
  grid: dict[str, dict],
  metric: str,
  *,
  is_chief: bool,
) -> None:
  """Runs a command for each combination of --search; keeps the best model.

  Args:
    run: as in `run_all`.
    grid: the runs that `parse_search` returned.
    metric: the score to compare.
    is_chief: whether this process writes the table and the model.

  Raises InputError: --output_dir has the model of a run without --search.
  """
  path = os.path.join(settings.output_dir, "search_results.tsv")
  target = os.path.join(settings.output_dir, "final_model")
  if os.path.exists(target) and not os.path.exists(path):
    raise errors.InputError(
      f"{target} belongs to a run without --search and would be replaced; pass "
      "another --output_dir"
    )
  results = run_all(settings, run, grid)
  if not is_chief:
    return
  text = search_table(grid, results, metric)
  file_io.write_text(path, text)
  print(text, end="")
  best = max(results, key=lambda name: results[name][metric])
  folder = os.path.join(settings.output_dir, best, "final_model")
  shutil.rmtree(target, ignore_errors=True)
  with file_io.new_folder(target) as temporary:
    shutil.copytree(folder, temporary, dirs_exist_ok=True)
  logging.info("the best model, a copy of %s, is in %s", folder, target)
