"""Predictions -> predictions.tsv: names and probabilities that people can use.

  id      label  probability        id      score      id      labels  a     b
  test-1  good   0.97               test-1  3.25       test-1  a,b     0.75  0.5

Next to the original's test_results.tsv, which has probabilities alone.
"""

import numpy as np

from classification import labelled_examples

FILE_NAME = "predictions.tsv"
# From which probability on a class is among those predicted.
THRESHOLD = 0.5


def predicted_labels(kind, outputs, labels):
  """Returns what is predicted, in words.

  Args:
    kind: one of labelled_examples.KINDS.
    outputs: probabilities [n, classes] (of single classes and of choices they
      add up to 1), or for regression scores [n].
    labels: list of str, the classes.

  Returns:
    List of n: str; a tuple of str for MULTI_LABEL; float for REGRESSION. Of
    classes that are equally probable the first.
  """
  outputs = np.asarray(outputs)
  if kind == labelled_examples.REGRESSION:
    return [float(score) for score in outputs]
  if kind == labelled_examples.MULTI_LABEL:
    return [
      tuple(label for label, is_on in zip(labels, row) if is_on)
      for row in (outputs >= THRESHOLD).tolist()
    ]
  return [labels[number] for number in outputs.argmax(-1).tolist()]


def header(kind, labels):
  """Returns the first line of predictions.tsv."""
  columns = {
    labelled_examples.REGRESSION: ["id", "score"],
    labelled_examples.MULTI_LABEL: ["id", "labels", *labels],
  }.get(kind, ["id", "label", "probability"])
  return _line(columns)


def lines(kind, guids, outputs, labels):
  """Returns the lines of predictions.tsv after the first.

  Args:
    kind, outputs, labels: as of `predicted_labels`.
    guids: the n names of the examples; a tab or newline in one becomes a
      space.

  Returns:
    List of n str, each with its newline. Numbers are written as numpy writes
    float32, so that they can be read back.
  """
  # Of a float32 str() gives the fewest digits that read back equal.
  outputs = np.asarray(outputs, np.float32)
  # zip would drop the rest without a word.
  if len(outputs) != len(guids):
    raise ValueError(f"{len(outputs)} outputs for {len(guids)} examples")
  found = predicted_labels(kind, outputs, labels)
  if kind == labelled_examples.REGRESSION:
    rows = ([guid, str(score)] for guid, score in zip(guids, outputs))
  elif kind == labelled_examples.MULTI_LABEL:
    rows = (
      [guid, ",".join(names), *map(str, row)]
      for guid, names, row in zip(guids, found, outputs)
    )
  else:
    rows = (
      [guid, name, str(probability)]
      for guid, name, probability in zip(guids, found, outputs.max(-1))
    )
  return [_line(row) for row in rows]


def _line(columns):
  # White space within a name must not become a column or a line.
  return "\t".join(" ".join(text.split()) for text in columns) + "\n"
