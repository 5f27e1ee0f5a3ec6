"""--seeds: a run for each seed, and the spread of their scores.

No TensorFlow.
"""

import os
from collections.abc import Iterable

from common import command, errors, file_io, flags, run_settings
from running import repetitions

FLAG = "seeds"


def is_for(script: repetitions.Script) -> bool:
  """Returns whether it is the script of classifiers."""
  return script.task == "classification"


def define(script: repetitions.Script, not_with: str) -> None:
  """Defines --seeds."""
  del script
  flags.DEFINE_list(
    "seeds",
    [],
    "Train and evaluate once per seed, in output_dir/seed_N. seeds_results.txt "
    "has the median, mean and standard deviation of each score.",
    not_with=not_with,
    why=", which needs one model",
  )
  flags.rule("seed", not_with="seeds")
  command.check_early(lambda: parse_seeds(flags.FLAGS.seeds))


def parse_seeds(texts: Iterable[str]) -> list[int]:
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
  # Imported here, because few commands need it, and many import this module.
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


def run(
  settings: run_settings.Settings,
  run: repetitions.Run,
  metric: str,
  *,
  is_chief: bool,
) -> None:
  """Makes a model for each seed, and compares the scores in a table.

  See repetitions.run for the arguments.
  """
  del metric  # The table has all.
  seeds = parse_seeds(settings.seeds)
  results = repetitions.results_of(
    settings, run, {f"seed_{seed}": {"seed": seed} for seed in seeds}
  )
  if settings.do_eval and is_chief:
    text = summary(dict(zip(seeds, results.values())))
    path = os.path.join(settings.output_dir, "seeds_results.txt")
    file_io.write_text(path, text)
    print(text, end="")
