"""The results of one training under several seeds, in a table."""

import statistics

from common import errors


def parse_seeds(texts):
  """Returns the list of ints in a flag's list of str.

  Raises:
    InputError: one is no whole number, or is there twice.
  """
  try:
    seeds = [int(text) for text in texts]
  except ValueError as error:
    raise errors.InputError(
      f"--seeds={','.join(texts)}: expected whole numbers, say 1,2,3"
    ) from error
  if not all(-(2**63) <= seed < 2**63 for seed in seeds):
    raise errors.InputError(
      f"--seeds={','.join(texts)}: expected numbers of at most 64 bits"
    )
  if len(set(seeds)) < len(seeds):
    raise errors.InputError(
      f"--seeds={','.join(texts)}: a seed is there twice and would only "
      "count twice; take others"
    )
  return seeds


def summary(results: dict[int, dict[str, float]]) -> str:
  """Returns a table with a row for each result, the seeds next to each other.

  The standard deviation is that of a sample (n - 1), 0 of one seed.
  """
  # A metric that a run lacks has no mean over the runs.
  names = sorted(set.intersection(*map(set, results.values())))
  width = max([len(name) for name in names] + [6]) + 2
  columns = ["median", "mean", "sd", *(f"seed {seed}" for seed in results)]
  lines = [" " * width + "".join(f"{column:>12}" for column in columns)]
  for name in names:
    values = [float(of_seed[name]) for of_seed in results.values()]
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    numbers = [
      statistics.median(values), statistics.fmean(values), spread, *values
    ]
    shown = "".join(f"{number:12.5f}" for number in numbers)
    lines.append(f"{name:{width}}{shown}")
  return "\n".join(lines) + "\n"
