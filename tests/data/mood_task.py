"""A task of two moods, as --task_module takes it."""

from classification import glue
from classification.labelled_examples import Example


def read(task, path, prefix):
  """Reads `label: text` lines."""
  with open(path, encoding="utf-8") as stream:
    for number, line in enumerate(stream, 1):
      label, _, text = line.strip().partition(": ")
      yield Example(f"{prefix}-{number}", text, label=label,
                    place=f"{path}:{number}")


glue.register(glue.Task(
  "mood", "Mood", ("sad", "glad"), ("accuracy",),
  {"train": glue.Layout(("train.txt",)), "dev": glue.Layout(("dev.txt",))},
  reader=read,
))
