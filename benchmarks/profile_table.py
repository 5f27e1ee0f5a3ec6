"""What the operations of a training step cost, by kind, from a recording.

  python run_classifier.py --do_train --profile_steps=30,40 --output_dir=out ...
  python benchmarks/profile_table.py --profile=out

prints a Markdown table. The time of an operation is from its start to its end
on the thread that runs it. Where operations run at the same time, as on two
cores, their sum exceeds the step's.
"""

import argparse
import collections
import os
import pathlib
import re
import statistics
import sys

from tensorflow.tsl.profiler.protobuf import xplane_pb2

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from common import errors

# An operation's event is called "name:type".
_OPERATION = re.compile(r"(?P<name>[\w./-]+):(?P<type>_?[A-Z]\w*)")
# They contain others.
_CALLS = re.compile(r"(Stateless)?(While|If)|(Stateful)?PartitionedCall")
_KINDS = (
  ("matrix products", re.compile("MatMul")),
  ("the optimizer's updates", re.compile("ResourceApply")),
  ("random numbers", re.compile("Random")),
)


def recording(path):
  """Returns the one .xplane.pb file that `path` is or holds."""
  if path.is_file():
    return path
  found = sorted(path.glob("**/*.xplane.pb"))
  if len(found) != 1:
    raise errors.InputError(
      f"{path} holds {len(found)} recordings (*.xplane.pb), not 1; name the "
      "--output_dir of a run with --profile_steps, or one of the files"
    )
  return found[0]


def operations(path):
  """Returns dict from (name, type) of an operation to its milliseconds.

  The values are lists with one number for each time that it ran.
  """
  space = xplane_pb2.XSpace.FromString(path.read_bytes())
  durations = collections.defaultdict(list)
  for plane in space.planes:
    names = {
      number: _OPERATION.fullmatch(metadata.name)
      for number, metadata in plane.event_metadata.items()
    }
    for line in plane.lines:
      for event in line.events:
        match = names[event.metadata_id]
        if match and not _CALLS.fullmatch(match["type"]):
          durations[match["name"], match["type"]].append(
            event.duration_ps / 1e9
          )
  if not durations:
    raise errors.InputError(f"{path}: no operation of TensorFlow's executor")
  return durations


def kind_of(operation_type):
  """Returns the kind that a type of operation counts for, or its own name."""
  for kind, pattern in _KINDS:
    if pattern.search(operation_type):
      return kind
  return f"`{operation_type.removeprefix('_')}`"


def by_kind(durations):
  """Returns a list of (kind, operations, milliseconds), both of one step."""
  # Nearly all operations run once in a step.
  steps = statistics.mode(len(times) for times in durations.values())
  numbers, totals = collections.Counter(), collections.Counter()
  for (_, operation_type), times in durations.items():
    kind = kind_of(operation_type)
    numbers[kind] += len(times) / steps
    totals[kind] += sum(times) / steps
  return [
    (kind, numbers[kind], total) for kind, total in totals.most_common()
  ]


def table(kinds, rows):
  """Returns the lines of a Markdown table, the last ones added up."""
  shown, rest = kinds[:rows], kinds[rows:]
  if rest:
    _, numbers, totals = zip(*rest, strict=True)
    shown = [*shown, ("others", sum(numbers), sum(totals))]
  whole = sum(row[2] for row in kinds)
  return [
    "| operations | in a step | ms | share |",
    "|---|---|---|---|",
    *(
      f"| {kind} | {number:.0f} | {total:.1f} | {total / whole:.1%} |"
      for kind, number, total in shown
    ),
  ]


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument(
    "--profile", required=True, type=pathlib.Path,
    help="--output_dir of a run with --profile_steps, or one .xplane.pb file",
  )
  parser.add_argument(
    "--rows", type=int, default=12, help="kinds to print, the most costly"
  )
  arguments = parser.parse_args()
  durations = operations(recording(arguments.profile))
  print("\n".join(table(by_kind(durations), arguments.rows)))


if __name__ == "__main__":
  errors.report_input_errors(lambda argv: main())(sys.argv)
