"""Classifies texts, and writes prediction files.

  test_results.tsv         as in the original: a number for each output
  predictions.tsv          ids, labels, probabilities and texts:

    id      label  probability  bad   good  text
    test-1  good   0.97         0.03  0.97  A warm film.

A cell with a tab, a quote or a newline is quoted as in CSV, so a CSV reader
restores the exact id or text. Letters: B batch, T tokens, L labels, D width.
"""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from absl import logging

from classification import data, scores, sequences
from common import errors, file_io
from text import cut_texts, input_sequences

# Number of examples that are sorted by length and scored together.
SCORED_TOGETHER = 1 << 12
# Reserved column names; the column of a class with such a name gets a prefix.
_COLUMNS = "id label labels gold predicted probability text text_b".split()


# Both types have the attributes `task_kind` and `labels`.
LabelOptions = sequences.InputOptions | scores.Results


def predict_texts(
  logits: Callable,
  options: sequences.InputOptions,
  texts: list[tuple],
  batch_size: int,
  *,
  cut: cut_texts.CutTexts | None = None,
) -> list[dict]:
  """Classifies inputs of one or two texts.

  Returns:
    A dict per input. If the task has no classes, the dict has only a `score`.
    Otherwise it has `labels`, `probabilities` and, unless several classes may
    be correct, the best `label` and its `probability`.

  Args:
    logits, batch_size, cut: see `scores_of`.
    texts: tuples of one or two strings.
  """
  if options.task_kind in data.OF_PAIRS and any(len(row) < 2 for row in texts):
    raise errors.InputError("a reranker needs two texts: query and passage")
  outputs = scores_of(
    logits,
    options,
    [data.Example("", *row) for row in texts],
    batch_size,
    cut=cut,
  )
  if not options.labels:
    return [{"score": score} for score in outputs[:, 0].tolist()]
  answers = [
    {"labels": [*options.labels], "probabilities": row}
    for row in outputs.tolist()
  ]
  if options.task_kind == data.MULTI_LABEL:
    return answers
  return [
    {**answer, "label": label, "probability": max(answer["probabilities"])}
    for answer, label in zip(answers, predicted_labels(options, outputs))
  ]


def scores_of(
  logits: Callable,
  options: sequences.InputOptions,
  examples: list[data.Example],
  batch_size: int,
  *,
  cut: cut_texts.CutTexts | None = None,
) -> np.ndarray:
  """Returns the scores of n examples, float32 [n, L]; see `scores.of_logits`.

  Args:
    logits: function of a dict of input_ids, input_mask, segment_ids, int32
      [B, T]; returns [B, L], or text vectors [B, D].
    batch_size: number of sequences per batch; batches of short sequences are
      larger (input_sequences.batch_sizes).
    cut: counts the examples that were cut.
  """
  arrays, num_rows, is_cut = sequences.encode(examples, options)
  if cut:
    cut.add(int(is_cut.sum()), len(examples))
  lengths = arrays["input_mask"].sum(axis=1)  # [rows]
  batches = list(
    input_sequences.batches_by_length(
      lengths.tolist(), batch_size, options.max_seq_length
    )
  )
  batch_outputs = []
  for positions in batches:
    longest = lengths[positions[0]]
    batch = {n: values[positions, :longest] for n, values in arrays.items()}
    batch_outputs.append(np.asarray(logits(batch)))
  # Restore the order of the examples: [rows, L].
  outputs = np.concatenate(batch_outputs)[np.argsort(np.concatenate(batches))]
  if options.task_kind in data.OF_VECTORS:
    outputs = outputs.reshape([len(examples), 2, -1])
  elif options.task_kind == data.CHOICE:
    outputs = outputs.reshape([len(examples), -1])
  else:  # Compute the mean over a text's windows.
    sums = np.add.reduceat(outputs, np.cumsum(num_rows) - num_rows)
    outputs = sums / num_rows[:, None].astype(np.float32)
  return scores.of_logits(options.task_kind, outputs)


def score_blocks(
  logits: Callable,
  options: sequences.InputOptions,
  examples: Iterable[data.Example],
  batch_size: int,
  *,
  cut: cut_texts.CutTexts | None = None,
) -> Iterator[np.ndarray]:
  """Yields the result of `scores_of` for each block of examples, in order."""
  rest = iter(examples)
  while block := list(itertools.islice(rest, SCORED_TOGETHER)):
    yield scores_of(logits, options, block, batch_size, cut=cut)


def predicted_labels(task: LabelOptions, outputs: np.ndarray) -> list:
  """Returns the predictions, each with the type of data.Example.label.

  `outputs` are probabilities [n, L], or numbers [n, 1]. If probabilities are
  equal, the first class wins.
  """
  if task.task_kind in data.OF_NUMBERS:
    return outputs[:, 0].tolist()
  if task.task_kind == data.MULTI_LABEL:
    return [
      tuple(itertools.compress(task.labels, row))
      for row in outputs >= scores.THRESHOLD
    ]
  return [task.labels[number] for number in outputs.argmax(-1).tolist()]


def rows(
  task: LabelOptions, examples: list, outputs: np.ndarray, *, gold: bool = False
) -> Iterator[dict]:
  """Yields a row of predictions.tsv for each example: {column: str}.

  With `gold`, the correct label precedes the prediction. For `outputs` see
  `predicted_labels`. A reranker's row also has the passage's rank.
  """
  # str() of a float32 has the fewest digits that identify the number.
  outputs = np.asarray(outputs, np.float32)
  answers = predicted_labels(task, outputs)
  name = "labels" if task.task_kind == data.MULTI_LABEL else "label"
  if task.task_kind in data.OF_NUMBERS:
    name, answers = "score", list(outputs[:, 0])
  ranks = [0] * len(outputs)
  if task.task_kind in data.OF_RANKS:
    queries = data.query_numbers(examples)
    ranks = scores.ranks(queries, outputs[:, 0]).tolist()
  for example, answer, row, rank in zip(
    examples, answers, outputs, ranks, strict=True
  ):
    values = {"id": example.guid}
    if gold:
      values["gold"], name = _label_text(example.label), "predicted"
    values[name] = _label_text(answer)
    if rank:
      values["rank"] = str(rank)
    if task.task_kind in (data.SINGLE, data.CHOICE):
      values["probability"] = str(row.max())
    for label, number in zip(task.labels, row):
      values[f"class {label}" if label in _COLUMNS else label] = str(number)
    values["text"] = example.text_a
    if example.text_b is not None:
      values["text_b"] = example.text_b
    yield values | {f"ending_{n}": e for n, e in enumerate(example.endings)}


def _label_text(label: Any) -> str:
  return ",".join(label) if isinstance(label, tuple) else str(label)


@contextlib.contextmanager
def open_table(path: str) -> Iterator[Callable[[Iterable[dict]], None]]:
  """Provides a function that writes rows; the first row's keys are the header.

  An existing file is replaced only if the `with` block raises no error.
  """
  columns: list[str] = []
  with file_io.open_for_writing(path) as stream:

    def write_line(cells: Iterable[str]) -> None:
      line = "\t".join(map(_quoted, cells)) + "\n"
      # A text from JSON may have a lone surrogate, which UTF-8 cannot encode.
      stream.write(line.encode("utf-8", "backslashreplace"))

    def write(rows: Iterable[dict]) -> None:
      for row in rows:
        if not columns:
          columns.extend(row)
          write_line(columns)
        write_line(row.get(column, "") for column in columns)

    yield write


def _quoted(cell: str) -> str:
  if any(mark in cell for mark in '\t\n\r"'):
    cell = '"' + cell.replace('"', '""') + '"'
  return cell


def write_predictions(
  folder: str,
  suffix: str,
  task: LabelOptions,
  examples: Iterable[data.Example],
  parts: Iterable[np.ndarray],
  *,
  predicted: list | None = None,
) -> None:
  """Writes both prediction files while `parts` are computed.

  An existing file is replaced only when the new one is complete. `parts` are
  blocks of scores, float32 [n, L]. `suffix` is appended to the file names, for
  example "_mismatched". Predicted labels are appended to `predicted`.
  """
  table_path = os.path.join(folder, f"predictions{suffix}.tsv")
  path = os.path.join(folder, f"test_results{suffix}.tsv")
  examples = iter(examples)
  if task.task_kind in data.OF_RANKS:
    # A query's passages may be in several blocks, so ranks need all blocks.
    parts = [np.concatenate(list(parts))]
  with (
    open_table(table_path) as write,
    file_io.open_for_writing(path) as stream,
  ):
    for outputs in parts:
      # As in the original: no header, and numbers in NumPy's float32 format.
      lines = ["\t".join(map(str, row)) + "\n" for row in outputs]
      stream.write("".join(lines).encode("utf-8"))
      block = list(itertools.islice(examples, len(outputs)))
      write(rows(task, block, outputs))
      if predicted is not None:
        predicted += predicted_labels(task, outputs)
  logging.info("predictions with ids and texts are in %s", table_path)
  logging.info("predictions in google-research/bert's format are in %s", path)
