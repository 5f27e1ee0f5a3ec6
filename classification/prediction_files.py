"""Predictions -> tables with names, inputs and probabilities.

  id      label  probability  bad   good  text
  test-1  good   0.97         0.03  0.97  A warm film.

Next to the original's test_results.tsv, which has probabilities alone. A cell
with a tab, a quote or a line end has quotes as CSV has them, so that whatever
an id or a text holds can be read back.
"""

import contextlib
import csv
import types
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from classification import labelled_examples
from common import file_io

# From which probability on a class is among those predicted.
THRESHOLD = 0.5
# What a column of a class must not be called.
_COLUMNS = (
  "id", "label", "labels", "gold", "predicted", "probability", "text", "text_b"
)


def predicted_labels(kind: str, outputs: np.ndarray, labels: list) -> list:
  """Returns what is predicted, in words.

  Args:
    kind: one of labelled_examples.KINDS.
    outputs: probabilities [n, classes] (of single classes and of choices they
      add up to 1), or for regression scores [n, 1].
    labels: the classes.

  Returns:
    List of n: str; a tuple of str for MULTI_LABEL; float for REGRESSION. Of
    classes that are equally probable the first.
  """
  outputs = np.asarray(outputs)
  if kind == labelled_examples.REGRESSION:
    return outputs[:, 0].tolist()
  if kind == labelled_examples.MULTI_LABEL:
    return [
      tuple(label for label, is_on in zip(labels, row) if is_on)
      for row in (outputs >= THRESHOLD).tolist()
    ]
  return [labels[number] for number in outputs.argmax(-1).tolist()]


def rows(
  kind: str,
  labels: list,
  examples: list,
  outputs: np.ndarray,
  *,
  gold: bool = False,
) -> Iterator[dict]:
  """Yields the row of each example, a dict from column to str.

  Args:
    kind, labels, outputs: as of `predicted_labels`. Numbers are written as
      numpy writes float32, so that they can be read back.
    examples: the n labelled_examples.Example.
    gold: whether what is right comes next to what is predicted.
  """
  # Of a float32 str() gives the fewest digits that read back equal.
  outputs = np.asarray(outputs, np.float32)
  found = predicted_labels(kind, outputs, labels)
  name, is_number = "label", kind == labelled_examples.REGRESSION
  if is_number:
    found, name = outputs[:, 0], "score"
  elif kind == labelled_examples.MULTI_LABEL:
    name = "labels"
  for example, answer, row in zip(examples, found, outputs, strict=True):
    values = {"id": example.guid}
    if gold:
      values["gold"], name = _shown(example.label), "predicted"
    values[name] = _shown(answer)
    if not is_number:
      if kind != labelled_examples.MULTI_LABEL:
        values["probability"] = str(row.max())
      values |= zip(map(_column, labels), map(str, row))
    yield {**values, **_inputs(example)}


def _shown(label):
  return ",".join(label) if isinstance(label, tuple) else str(label)


def _column(label):
  return f"class {label}" if label in _COLUMNS else label


def _inputs(example):
  texts = {"text": example.text_a}
  if example.text_b is not None:
    texts["text_b"] = example.text_b
  return texts | {f"ending_{n}": e for n, e in enumerate(example.endings)}


@contextlib.contextmanager
def open_table(path: str) -> Iterator[Callable[[Iterable[dict]], None]]:
  """Gives a function that writes rows; the first one's keys are the header.

  The file is there when the block has ended; until then, and if the block
  raises, it stays as it was.
  """
  with file_io.open_for_writing(path) as stream:

    def write_line(line):
      # csv quotes a cell with a part of its line end, so that is "\r\n". Half
      # a surrogate pair, which JSON can name, stays as it is named.
      stream.write(f"{line[:-2]}\n".encode("utf-8", "backslashreplace"))

    writer = csv.DictWriter(
      types.SimpleNamespace(write=write_line), (), extrasaction="ignore",
      dialect="excel-tab", lineterminator="\r\n",
    )

    def write(rows):
      for row in rows:
        if not writer.fieldnames:
          writer.fieldnames = list(row)
          writer.writeheader()
        writer.writerow(row)

    yield write
