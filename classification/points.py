"""The extension points of classifiers, and their flags. No TensorFlow."""

from typing import Any

from common import errors, extension_points

LOSSES = extension_points.Point(
  "losses",
  f"{__name__.rpartition('.')[0]}.losses",
  ("KINDS", "COMPARES", "make"),
)


def losses_of(settings: Any, task_kind: str) -> list[tuple[Any, dict]]:
  """Returns the files that --losses names, each with its options' values.

  Raises InputError: there is no such file, or it does not fit the kind of task.
  """
  chosen: list[tuple[Any, dict]] = []
  for name in settings.get("losses") or ():
    file: Any = LOSSES.load(name)
    if task_kind not in file.KINDS:
      raise errors.InputError(
        f"--losses={name} is for --task_kind={' or '.join(file.KINDS)}, and "
        f"this task is of the kind {task_kind}; leave {name} out"
      )
    chosen.append((file, LOSSES.values(name, settings)))
  return chosen
