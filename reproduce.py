r"""Reproduces published results (the rows of --list) and compares the scores.

  python reproduce.py --list
  python reproduce.py --row=mrpc-base --seeds=5 --model_dir=downloads \
      --data_dir=downloads --output_dir=reproduced
  python reproduce.py --report --output_dir=reproduced

This script downloads nothing: if files are missing, it says how to get them.
Run the same command again to resume a killed run. Flags after -- are
passed to the row's script and marked in the report: `... -- --dtype=bfloat16`.
"""

import shlex

from common import command, flags, run_settings

flags.DEFINE_list("row", [], "Names of rows from --list.")
flags.DEFINE_bool("list", False, "Print all rows and run nothing.")
flags.DEFINE_string(
  "model_dir", None, "Folder of the model, or the --dir of download.py."
)
flags.DEFINE_string(
  "data_dir",
  None,
  "Folder of the data, or the --dir of download.py; for pre-training, the "
  "record files.",
)
flags.DEFINE_string("output_dir", "reproduced", "Folder of all runs.")
flags.DEFINE_integer("seeds", 1, "Runs per row (seeds 1 to N).", lower_bound=1)
flags.DEFINE_integer(
  "max_steps",
  0,
  "End the training after this many steps, as a quick test; "
  "such a run never counts as reproduced. 0: the whole recipe.",
  lower_bound=0,
)
flags.DEFINE_bool("dry_run", False, "Print the commands, but do not run them.")
flags.DEFINE_bool(
  "report", False, "Collect all finished runs in report.md and report.json."
)

# --help and flag errors do not need the other imports.
command.parse_flags(__name__, imports_tensorflow=False)

from common import errors
from reproduction import report, rows, runs


def print_list() -> None:
  """Prints each row's name, source, published values, model, hours and note."""
  for row in rows.ROWS.values():
    published = ", ".join(
      f"{metric.result or 'test score'} {metric.published:g}"
      for metric in row.metrics
    )
    print(
      f"{row.name:36} {row.source}: {published or 'see the note'}; "
      f"{row.model or 'pre-trained by you'}"
    )
    for text in filter(None, (row.hours, row.note)):
      print(f"{'':36} {text}")


def check_flags(settings: run_settings.Settings, extra) -> None:
  """Raises InputError if flags, before or after --, cannot be used."""
  if not (settings.row or settings.report):
    raise errors.InputError("nothing to do: pass --row, --report or --list")
  if extra and not extra[0].startswith("-"):
    raise errors.InputError(f"{extra[0]!r} is not a flag; use --row=NAME")
  names = {flag.name for flag in flags.of_script()}
  for word in extra:
    name = word.lstrip("-").partition("=")[0] if word.startswith("-") else ""
    # A row's --seed comes from --seeds.
    name = "seeds=N" if name == "seed" else name
    if name == "seeds=N" or {name, name.removeprefix("no")} & names:
      raise errors.InputError(
        f"{word} comes after --, which is only for flags of the row's script; "
        f"--{name} is for reproduce.py: put it before --"
      )


def make_plan(settings: run_settings.Settings, name: str, extra):
  """Returns the runs.Plan of a row; raises InputError if it cannot be run."""
  if name not in rows.ROWS:
    raise errors.InputError(
      f"--row={name} is unknown; --list prints all rows, among them "
      f"{', '.join(list(rows.ROWS)[:3])}"
    )
  row = rows.ROWS[name]
  if not row.script:
    raise errors.InputError(f"--row={name} cannot be run: {row.note}")
  return runs.Plan(
    row,
    runs.find_model(row, settings.model_dir),
    runs.find_data(row, settings.data_dir),
    settings.output_dir,
    settings.max_steps,
    extra,
  )


def main(argv: list[str]) -> None:
  """Runs the rows of --row, and reports all finished runs."""
  settings, extra = flags.read_settings(), tuple(argv[1:])
  if settings.list:
    print_list()
    return
  check_flags(settings, extra)
  # Makes all plans before the first run, to report missing files at once.
  plans = [make_plan(settings, name, extra) for name in settings.row]
  for plan in plans:
    # Finishes each row before the next, so a stopped command has complete rows.
    for seed in range(1, settings.seeds + 1):
      if settings.dry_run:
        print(shlex.join(runs.command(plan, seed)))
      else:
        runs.run(plan, seed)
  if settings.report or (plans and not settings.dry_run):
    print(*report.write(settings.output_dir), sep="\n")


if __name__ == "__main__":
  command.run(main, takes_words=True)
