"""The extension points of classifiers, and their flags. No TensorFlow."""

from typing import Any

from common import errors, extension_points

LOSSES = extension_points.Point(
  "losses",
  f"{__name__.rpartition('.')[0]}.losses",
  ("KINDS", "COMPARES", "make"),
)


def head_of(settings: Any, task_kind: str) -> str:
  """Returns the head for the vectors of texts: "embedding" unless a loss says.

  Raises InputError: see `losses_of`.
  """
  files = [file for file, _ in losses_of(settings, task_kind)]
  heads = [file.HEAD for file in files if hasattr(file, "HEAD")]
  return heads[0] if heads else "embedding"


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
