"""--search: a run for each combination of values, of which the best is kept.

No TensorFlow.
"""

import itertools
import os
import shutil
from collections.abc import Callable, Collection, Sequence
from typing import Any

from absl import logging

from common import command, errors, file_io, flag_values, flags, run_settings
from running import repetitions

FLAG = "search"


def is_for(script: repetitions.Script) -> bool:
  """Returns whether a score compares the script's models."""
  return bool(script.metric)


def define(script: repetitions.Script, not_with: str) -> None:
  """Defines --search."""
  flags.DEFINE_spaceseplist(
    "search",
    None,
    "Values to combine, such as 'learning_rate=5e-5,3e-5,2e-5 "
    "num_train_epochs=2,3,4': train and evaluate once for each combination, in "
    "its own folder in output_dir. search_results.tsv lists all scores; "
    f"final_model is the model that is best in {script.metric}.",
    needs="do_train do_eval",
    not_with=not_with,
  )
  command.check_early(_check)


def _check() -> None:
  values = flags.FLAGS
  given_flags = {name for name in values if values[name].present}
  parse_search(
    values.search,
    lambda name, text: values[name].parser.parse(text),
    given_flags,
  )
  if values.search and file_io.is_remote(values.output_dir or ""):
    raise errors.InputError(
      f"--output_dir={values.output_dir} is remote, but --search needs a local "
      "folder, to which it copies the best model; pass one"
    )


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


def run(
  settings: run_settings.Settings,
  run: repetitions.Run,
  metric: str,
  *,
  is_chief: bool,
) -> None:
  """Makes a model for each combination; writes the table and the best model.

  See repetitions.run for the arguments. Raises InputError: --output_dir has the
  model of a run without --search.
  """
  grid = parse_search(settings.search, settings.parse)
  path = os.path.join(settings.output_dir, "search_results.tsv")
  target = os.path.join(settings.output_dir, "final_model")
  if os.path.exists(target) and not os.path.exists(path):
    raise errors.InputError(
      f"{target} belongs to a run without --search and would be replaced; pass "
      "another --output_dir"
    )
  results = repetitions.results_of(settings, run, grid)
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
