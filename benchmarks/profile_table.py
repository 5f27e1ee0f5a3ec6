"""Sums the operations of a training step by type, from a profile.

  python run_classifier.py --do_train --profile_steps=30,40 --output_dir=out ...
  python benchmarks/profile_table.py --profile=out

prints a Markdown table. An operation's time is from its start to its end on its
thread. If operations run at the same time, for example on two cores, the sum
exceeds the time of the step.
"""

import argparse
import collections
import pathlib
import re
import statistics
import sys

from tensorflow.tsl.profiler.protobuf import xplane_pb2

# Imported before the project's modules, because it puts them on the path.
import measured_runs  # noqa: F401
from common import errors

# An operation's event is called "name:type". Calls contain other operations.
_OPERATION = re.compile(
  r"(?P<name>[\w./-]+):"
  r"(?!(Stateless)?(While|If)$|(Stateful)?PartitionedCall$)_?(?P<type>[A-Z]\w*)"
)
_GROUPS = {
  "matrix products": "MatMul", "the optimizer's updates": "ResourceApply",
  "random numbers": "Random",
}


def operations(path):
  """Returns {(name, type): list with the milliseconds of each execution}.

  `path` is a recording, or a folder with one recording.
  """
  if path.is_dir():
    recordings = sorted(path.glob("**/*.xplane.pb"))
    if len(recordings) != 1:
      raise errors.InputError(
        f"{path} holds {len(recordings)} recordings (*.xplane.pb), not 1; name "
        "the --output_dir of a run with --profile_steps, or one of the files"
      )
    path = recordings[0]
  durations = collections.defaultdict(list)
  for plane in xplane_pb2.XSpace.FromString(path.read_bytes()).planes:
    names = {
      number: _OPERATION.fullmatch(metadata.name)
      for number, metadata in plane.event_metadata.items()
    }
    for line in plane.lines:
      for event in line.events:
        if match := names[event.metadata_id]:
          key = match["name"], match["type"]
          durations[key].append(event.duration_ps / 1e9)
  if not durations:
    raise errors.InputError(f"{path}: no operation of TensorFlow's executor")
  return durations


def by_type(durations):
  """Returns a list of (type, operations per step, milliseconds per step)."""
  # Most operations run once in a step.
  steps = statistics.mode(map(len, durations.values()))
  numbers, totals = collections.Counter(), collections.Counter()
  for (_, operation_type), times in durations.items():
    name = f"`{operation_type}`"
    for group, part in _GROUPS.items():
      name = group if part in operation_type else name
    numbers[name] += len(times) / steps
    totals[name] += sum(times) / steps
  return [(name, numbers[name], total) for name, total in totals.most_common()]


def table(types, rows=12):
  """Returns the lines of a Markdown table, with a sum of the last types."""
  shown, rest = types[:rows], types[rows:]
  if rest:
    _, numbers, totals = zip(*rest, strict=True)
    shown = [*shown, ("others", sum(numbers), sum(totals))]
  whole = sum(total for _, _, total in types)
  return ["| operations | in a step | ms | share |", "|---|---|---|---|"] + [
    f"| {name} | {number:.0f} | {total:.1f} | {total / whole:.1%} |"
    for name, number, total in shown
  ]


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument(
    "--profile", required=True, type=pathlib.Path,
    help="--output_dir of a run with --profile_steps, or one .xplane.pb file",
  )
  arguments = parser.parse_args()
  print("\n".join(table(by_type(operations(arguments.profile)))))


if __name__ == "__main__":
  errors.report_input_errors(lambda argv: main())(sys.argv)
