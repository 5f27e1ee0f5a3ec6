"""Reports about a run that has been evaluated, for people.

Each file of this folder writes one report and defines

  write(settings, report)  writes it into --output_dir; `report` is a Report. A
                           run goes on without a report that cannot be written
"""

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from common import extensions, program, run_settings

NUM_MISTAKES = 20  # A report needs no more.


class Mistake(NamedTuple):
  """A wrong prediction; a larger `size` means a worse mistake.

  `probability` is the prediction's, if the model computes one.
  """

  size: float
  text: str
  expected: str
  predicted: str
  probability: float | None = None


class Report(NamedTuple):
  """The results of one evaluation, for the page and the card.

  Attributes:
    use: what the model does, as model hubs call it: "text-classification".
    results: {name: number}.
    details: the scores of each class as text, or "", without the confusions.
    labels: names of the L classes.
    confusions: int [L, L], numbers of examples of `row` predicted as `column`.
    mistakes: in any order; the page shows the largest.
    text_pairs: whether a classifier reads two texts.
    probabilities, gold: float [N, L] and int [N], the probabilities of the
      classes and the correct classes of N examples; None: not one class each.
  """

  use: str
  results: Mapping[str, float]
  details: str = ""
  labels: Sequence[str] = ()
  confusions: np.ndarray | None = None
  mistakes: Iterable[Mistake] = ()
  text_pairs: bool = False
  probabilities: np.ndarray | None = None
  gold: np.ndarray | None = None


def write_all(settings: run_settings.Settings, report: Report) -> None:
  """Writes the reports of all files in this folder."""
  for file in extensions.load_all(__name__):
    file.write(settings, report)


def title(settings: run_settings.Settings) -> str:
  """Returns the name of the run: of its folder."""
  return os.path.basename(os.path.abspath(settings.output_dir))


def command(arguments: Sequence[str]) -> str:
  """Returns the command as the user typed it, with other `arguments`."""
  words = shlex.join([program.name(), *arguments])
  is_file = program.name().endswith(".py")
  return f"python {words}" if is_file else words
