"""Reads the examples of classifiers from the user's files.

  text,label                  text<tab>label        {"text": ..., "label": ...}
  "Well, it works.",good      It works.<tab>good    {"text": "It works.", ...}

Columns are identified by name or, without a header, by number. Invalid rows are
reported together, or skipped and logged. `glue` reads official files.
"""

import ast
import collections
import itertools
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from classification import soft_labels, tables
from common import errors, file_io, flag_values, run_settings

SINGLE = "single"  # One of several classes: softmax.
REGRESSION = "regression"  # A number.
MULTI_LABEL = "multi_label"  # Any number of classes: one sigmoid per class.
CHOICE = "choice"  # Multiple choice: one of several endings of a text.
# Kinds of a reranker, which scores a passage for a query. The score is the
# sigmoid of the logit, or (in models of sentence-transformers) the logit.
RANKING = "ranking"
RANKING_LOGIT = "ranking_logit"
# Kinds of a bi-encoder, which computes one vector per text:
SIMILARITY = "similarity"  # The cosine of two texts predicts their score.
RETRIEVAL = "retrieval"  # The second text should be the nearest to the first.
OF_RANKS = (RANKING, RANKING_LOGIT)
OF_VECTORS = (SIMILARITY, RETRIEVAL)
OF_ONE_LOGIT = (REGRESSION, *OF_RANKS)  # The head has one output per sequence.
OF_PAIRS = (*OF_RANKS, *OF_VECTORS)  # An example needs two texts.
KINDS = (SINGLE, REGRESSION, MULTI_LABEL, CHOICE, *OF_PAIRS)
OF_NUMBERS = (REGRESSION, *OF_PAIRS)  # The prediction is a number.
_MAX_LISTED_LABELS = 20
# The valid cells in a column of --label_columns.
_BOOLEANS = {
  "0": False,
  "0.0": False,
  "false": False,
  "1": True,
  "1.0": True,
  "true": True,
}
# Lists, tuples and sets as pandas writes them. (a), {a} and (0,5) are classes.
_LIST = re.compile(
  r"\[.*\]|[({]['\"][^(){}]*[)}]|{\d[^{}]*}|\(\)|set\(\)", re.DOTALL
)
_LARGEST_SCORE = float(np.finfo(np.float32).max)  # Records store float32.
# Column and label of rows in SNLI and MNLI on which the annotators disagreed.
_DISAGREED = ("gold_label", "-")
# Constant labels: {kind that has no label column: label}.
_CONSTANT_LABELS = {RETRIEVAL: 1.0}


class Example(NamedTuple):
  """One or two texts with a label.

  Attributes:
    guid: the id from the file, or else the split and a number ("train-1").
    text_b: None if the example has one text.
    label: the class (str); a float for OF_NUMBERS (1.0 for retrieval); a tuple
      of str, which may be empty, for multi_label; None if unknown. For multiple
      choice it is the index of the correct ending, from "0". For a query with
      several passages it is a tuple of their relevances, padded with -1 to the
      number of passages in the largest example.
    endings: the texts to choose from (multiple choice), or the passages of a
      query; each of them follows text_a, and text_b is None. For retrieval, the
      hard negative, if any.
    place: "file:line", for error messages.
  """

  guid: str
  text_a: str
  text_b: str | None = None
  label: object = None
  endings: tuple = ()
  place: str = ""


class BadRow(NamedTuple):
  """An invalid row: its file, its first line, and what is wrong."""

  path: str
  line: int
  fault: str

  def __str__(self) -> str:
    return f"{self.path}:{self.line}: {self.fault}"


def examples_of(
  table: tables.Table,
  make: Callable[[int, dict, str], Example | None],
  has_ids: bool,
  label: object,
) -> Iterator[Example | BadRow]:
  """Yields an Example or a BadRow for each row of a table, in order.

  Args:
    make: function of a row's number, {column: value}, and "file:line". Numbers
      count from 1 and include bad rows, so skipping a row does not change the
      ids of later rows. `make` raises InputError for a bad row, and returns
      None to skip a row.
    has_ids: whether rows have ids, which must be unique.
    label: the label column; None if labels are not read. Rows on which the
      annotators disagreed are skipped, and their number is logged.
  """
  first_places: dict[str, str] = {}
  disagreed = 0
  for number, (line, values, fault) in enumerate(table.rows, 1):
    try:
      if fault is not None:
        raise errors.InputError(fault)
      row = dict(zip(table.names, values))
      if (label, row.get(label)) == _DISAGREED:
        disagreed += 1
        continue
      example = make(number, row, f"{table.path}:{line}")
      if example and has_ids:
        guid = _checked_name(example.guid)
        if guid in first_places:
          raise errors.InputError(
            f"duplicate id {guid!r}, first at {first_places[guid]}; give each "
            "row its own id"
          )
        first_places[guid] = example.place
      if example:
        yield example
    except errors.InputError as error:
      yield BadRow(table.path, line, str(error))
  if disagreed:
    logging.warning(
      "%s: skipped rows without an agreed label (gold_label is -): %d",
      table.path,
      disagreed,
    )


def _checked_name(name: str) -> str:
  """Returns `name`, a label or id; raises InputError for a lone surrogate."""
  if not name.isascii() and re.search("[\ud800-\udfff]", name):
    raise errors.InputError(
      f"{ascii(name):.60} contains half a character (a lone surrogate), which "
      "UTF-8 cannot encode; fix the label or id"
    )
  return name


def read(
  path: str, settings: run_settings.Settings, task_kind: str, **options: Any
) -> list[Example]:
  """Returns a file's examples as a list; for arguments see ExampleStream."""
  examples: list[Example] = []
  ExampleStream(path, settings, task_kind, examples=examples, **options)
  return examples


class ExampleStream:
  """An iterable of a file's examples; each iteration reads the file again.

  Memory holds one example (all of a JSON array, many of a Parquet file), the
  bad rows and, with --id_column, all ids.
  """

  def __init__(
    self,
    path: str,
    settings: run_settings.Settings,
    task_kind: str,
    *,
    labels: tuple = (),
    split: str = "train",
    has_labels: bool = True,
    limit: int = 0,
    examples: list | None = None,
  ):
    """Checks the whole file.

    Raises InputError: the file is missing or lacks a column, a flag does not
    fit it, or rows are bad and not skipped (the message has their lines).

    Args:
      path: a file in one of flag_values.TABLE_FORMATS.
      settings: run_settings.Settings that describe the file.
      labels: the valid classes; empty: any class is valid.
      split: the prefix of guids if the file has no ids, as in "train-1".
      has_labels: whether to read the labels and the hard negatives.
      limit: maximum number of examples to yield; 0: all.
      examples: list to which the constructor appends all examples.
    """
    self._path, self._settings, self._split = path, settings, split
    self._task_kind, self._labels = task_kind, labels
    self._has_labels = has_labels
    self._range = _score_range(settings, task_kind)
    self._soft = None
    if has_labels and split == "train":
      is_multiple = task_kind == MULTI_LABEL
      self._soft = soft_labels.Reader.of(settings, is_multiple)
    bad: list[BadRow] = []
    count = 0
    for result in self._rows():
      if isinstance(result, BadRow):
        bad.append(result)
        continue
      count += 1
      if examples is not None:
        examples.append(result)
    _report_bad_rows(bad, count + len(bad), settings.on_bad_row == "skip")
    self._count = min(count, limit or count)

  def _rows(self) -> Iterator[Example | BadRow]:
    """Yields the Example or the BadRow of each row."""
    settings = self._settings
    text_a, text_b = settings.text_column, settings.text_b_column
    label, row_id = settings.label_column, settings.id_column
    negative = settings.get("negative_column")
    binary = settings.get("label_columns") or ()
    if not self._has_labels:
      negative, binary = None, ()
    if binary or not self._has_labels or self._task_kind == RETRIEVAL:
      label = None
    soft = self._soft
    if soft and soft.columns:
      label, binary = None, soft.columns
    columns = [n for n in (text_a, text_b, label, row_id, negative) if n]
    columns += binary
    table = _open_table(self._path, columns, settings)
    table.require(
      columns,
      (
        "fix the header, or, if there is none, pass column numbers (from 1) in "
        "all column flags, such as --text_column=2"
      ),
    )
    if self._task_kind in OF_RANKS:
      table = table._replace(
        rows=_rows_per_passage(table, text_b, label, row_id)
      )

    def make(number: int, row: dict, place: str) -> Example:
      name = f"{self._split}-{number}"
      return Example(
        # Ids in JSON may be numbers.
        _text(row, row_id, may_be_number=True) if row_id else name,
        _text(row, text_a),
        _text(row, text_b) if text_b else None,
        soft.label(row, label)
        if soft
        else self._label(_true_columns(row, binary) if binary else row[label])
        if label or binary
        else _CONSTANT_LABELS.get(self._task_kind),
        (_text(row, negative),) if negative else (),
        place,
      )

    return examples_of(table, make, bool(row_id), label)

  def _label(self, value: Any) -> Any:
    if self._task_kind in OF_NUMBERS:
      return _score(value, *self._range)
    if self._task_kind == MULTI_LABEL:
      label: Any = _classes(value, self._settings.label_separator)
    else:
      is_one = isinstance(value, list) and len(value) == 1
      label = _class(value[0] if is_one else value)
    for name in classes_of(label):
      if self._labels and name not in self._labels:
        fault = unknown_class(name, self._labels)
        raise errors.InputError(f"{fault}; fix the row, or add the class")
    return label

  def __len__(self) -> int:
    return self._count

  def __iter__(self) -> Iterator[Example]:
    rows = (row for row in self._rows() if isinstance(row, Example))
    count = 0
    for example in itertools.islice(rows, len(self)):
      count += 1
      yield example
    if count < len(self):
      raise errors.InputError(
        f"{self._path} changed during the run (valid rows before: {len(self)}, "
        f"now: {count}); run again"
      )


def _rows_per_passage(
  table: tables.Table, passage: str, relevance: str | None, row_id: str | None
) -> Iterator[tables.Row]:
  """Yields a table's rows; a list of passages becomes one row per passage."""
  for row in table.rows:
    values = dict(zip(table.names, row.values))
    passages = values.get(passage)
    if not isinstance(passages, list):
      yield row
      continue
    relevances = values[relevance] if relevance else passages
    count = len(relevances) if isinstance(relevances, list) else "no list"
    if not passages or count != len(passages):
      yield row._replace(
        fault=(
          f"texts in {passage!r}: {len(passages)}"
          + (f", numbers in {relevance!r}: {count}" if relevance else "")
          + "; pass at least one text, and as many relevances as texts"
        )
      )
      continue
    for number, text in enumerate(passages):
      single = {**values, relevance: relevances[number], passage: text}
      if isinstance(values.get(row_id), (str, int)):
        single[row_id] = f"{values[row_id]}-{number + 1}"
      yield row._replace(values=[single[name] for name in table.names])


def _report_bad_rows(bad: list[BadRow], count: int, skips: bool) -> None:
  """Raises InputError for bad rows, or logs that they are skipped."""
  if not bad:
    return
  summary = f"{bad[0].path}: bad rows ({len(bad)} of {count})"
  # If all rows are bad, raise the error in spite of --on_bad_row=skip.
  if skips and len(bad) < count:
    logging.warning(
      "%s are skipped; the first is on line %d: %s (log.txt lists them all)",
      summary,
      bad[0].line,
      bad[0].fault,
    )
    for row in bad:
      logging.debug("%s", row)
    return
  if len(bad) == 1:
    advice = "" if count == 1 else "; or pass --on_bad_row=skip"
    raise errors.InputError(f"{bad[0]}{advice}")
  # If all objects of a JSON file lack the same column, report that once.
  lacks_column = {row.fault for row in bad} == {bad[0].fault} and (
    bad[0].fault.startswith("no '")
  )
  if not skips and len(bad) == count and lacks_column:
    raise errors.InputError(f"{bad[0]} (the same in all {count} rows)")
  advice = "no row is left" if skips else "fix them, or pass --on_bad_row=skip"
  raise errors.InputError(
    f"{summary}; {advice}:{errors.listed([*map(str, bad)])}"
  )


def _open_table(
  path: str, names: list[str], settings: run_settings.Settings
) -> tables.Table:
  """Opens the user's file as a tables.Table."""
  file_format = settings.file_format
  file_format = file_format or os.path.splitext(path)[1].lstrip(".").lower()
  file_format = {"txt": "text"}.get(file_format, file_format)
  if file_format not in flag_values.TABLE_FORMATS:
    if file_format == "gz":
      raise file_io.packed(path, "gzip")
    raise errors.InputError(
      f"{path}: the name does not end in .csv, .tsv, .jsonl, .json, .parquet "
      "or .txt; "
      f"pass --file_format, one of {', '.join(flag_values.TABLE_FORMATS)}"
    )
  delimiter = {"tab": "\t", "\\t": "\t"}.get(
    settings.separator, settings.separator
  )
  if delimiter is not None and len(delimiter) != 1:
    raise errors.InputError(
      f"--separator={delimiter}: expected one character, or tab"
    )
  if len(set(names)) < len(names):
    raise errors.InputError(
      f"two flags name the same column: {', '.join(names)}; change one"
    )
  if settings.encoding:
    tables.check_encoding(settings.encoding)
  return tables.open_table(
    path,
    file_format,
    names=names,
    delimiter=delimiter,
    encoding=settings.encoding,
    detects_quotes=True,
  )


# These functions parse cells, and raise InputError; the caller adds file:line.


def _text(row: dict, column: str, may_be_number: bool = False) -> str:
  value = row[column]
  # True is an int in Python, but not a valid id.
  if may_be_number and isinstance(value, int) and not isinstance(value, bool):
    value = str(value)
  # Values in JSON and Parquet may have any type.
  if not isinstance(value, str):
    raise errors.InputError(
      f"{column!r} is {value!r:.40}, not a text; write a string in quotes"
    )
  errors.require_text(value, repr(column))
  return value


def _true_columns(row: dict, columns: Sequence[str]) -> list[str]:
  """Returns the names of the columns whose cell in the row is 1 or true."""
  for name in columns:
    if str(row[name]).strip().lower() not in _BOOLEANS:
      raise errors.InputError(
        f"{name!r} is {row[name]!r:.40}; a column of --label_columns must have "
        "1 if the text has the class, else 0"
      )
  return [name for name in columns if _BOOLEANS[str(row[name]).strip().lower()]]


def _class(value: Any) -> str:
  """Returns a class name as str; in JSON it may be a number or a boolean."""
  # Spell booleans as in JSON. Check them first, because True is an int.
  if isinstance(value, bool):
    return str(value).lower()
  # NaN, which pandas writes for a missing label, does not equal itself.
  if isinstance(value, (int, float)) and value == value:
    return str(value)
  if isinstance(value, str) and value.strip():
    return _checked_name(value.strip())
  raise errors.InputError(
    f"label {value!r:.40} is not a class; every row needs a class name"
  )


def _classes(value: Any, separator: str) -> tuple[str, ...]:
  is_set = str(value).strip().startswith("{")
  if isinstance(value, str):
    if not separator:
      raise errors.InputError(
        f"label {value!r:.40}: the separator of its classes is unknown; pass "
        "--label_separator, or write a list in JSON"
      )
    # An empty cell means no class.
    value = (
      _list_of(value)
      if _LIST.fullmatch(value.strip())
      else (value.split(separator) if value.strip() else [])
    )
  if not isinstance(value, list):
    raise errors.InputError(
      f"label {value!r:.40} is not a list of classes; write [] for no class"
    )
  if len(value) > 1 and all(each in (0, 1) for each in value) and not is_set:
    raise errors.InputError(
      f"label {value!r:.40} has 0 or 1 per class; write the names of the "
      "classes that the text has, such as a,b"
    )
  if _are_probabilities(value):
    raise errors.InputError(
      f"label {value!r:.40} has a probability per class; write the names of "
      "the classes that the text has, such as a,b"
    )
  return tuple(dict.fromkeys(map(_class, value)))


def _are_probabilities(value: list) -> bool:
  """Returns whether a list has a probability per class, such as [0.2, 1]."""
  try:
    numbers = [float(each) for each in value]
  except (TypeError, ValueError):
    return False
  is_share = all(0 <= number <= 1 for number in numbers)
  return is_share and any(number not in (0, 1) for number in numbers)


def _list_of(text: str) -> list:
  """Parses a cell that pandas wrote, such as "['a', 'b']" or "{'a', 'b'}".

  Raises InputError: not a list, or a NumPy array, which has no commas.
  """
  try:
    # As a list, a set keeps its order.
    values = ast.literal_eval(f"[{text.strip().removeprefix('set')[1:-1]}]")
  except (ValueError, SyntaxError, MemoryError, RecursionError):
    values = None
  # Python parses "['a' 'b']" as ["ab"], so count the commas and quotes.
  if (
    isinstance(values, list)
    and text.count(",") >= len(values) - 1
    and (len(re.findall(r"(['\"]).*?\1", text)) in (0, len(values)))
  ):
    return values
  raise errors.InputError(
    f"label {text!r:.40} is not a valid list; write the class names with "
    "commas between them"
  )


def _score_range(
  settings: run_settings.Settings, task_kind: str
) -> tuple[float, float]:
  """Returns the lowest and the highest valid score.

  Regression allows any finite float32, similarity 0 to 1, and ranking any
  relevance from 0 on (to train with the pointwise loss, at most 1).
  """
  if task_kind in OF_RANKS:
    # The pointwise loss, binary cross-entropy, needs labels from 0 to 1.
    is_unit = settings.get("do_train") and settings.ranking_loss == "pointwise"
    return 0.0, 1.0 if is_unit else _LARGEST_SCORE
  if task_kind == SIMILARITY:
    return 0.0, 1.0
  return -_LARGEST_SCORE, _LARGEST_SCORE


def _score(value: Any, low: float, high: float) -> float:
  try:
    # Reject True and "1_000", although float() accepts them.
    is_odd = isinstance(value, bool) or "_" in str(value)
    score = math.nan if is_odd else float(value)
  # An integer with 400 digits raises OverflowError.
  except (TypeError, ValueError, OverflowError):
    score = math.nan
  # This also rejects "nan" and "inf", which float() accepts.
  if low <= score <= high:
    return score
  expected = "in the range of float32"
  if high == 1:
    expected = (
      "from 0 to 1; fix the row; for similarity, scale all scores; for "
    )
    expected += "ranking, pass --ranking_loss=listwise"
  elif low == 0:
    expected = "from 0 to the largest float32"
  raise errors.InputError(f"label {value!r:.40} is not a number {expected}")


def query_numbers(examples: Iterable[Example]) -> np.ndarray:
  """Returns each example's query number, int [N]: equal for equal text_a."""
  numbers: dict[str, int] = {}
  texts = [each.text_a for each in examples]
  return np.array([numbers.setdefault(text, len(numbers)) for text in texts])


def check_labelled(examples: Iterable[Example]) -> None:
  """Raises InputError if an example has no label."""
  for example in examples:
    if example.label is None:
      raise errors.InputError(
        f"{example.place or example.guid}: no label, but training and "
        "evaluation need one; add labels, or use the file only for prediction"
      )


def classes_of(label: object) -> tuple:
  """Returns the classes in an Example's label as a tuple; it may be empty."""
  if label is None:
    return ()
  return label if isinstance(label, tuple) else (label,)


def label_list(examples: list[Example]) -> list[str]:
  """Returns the sorted classes; raises InputError if there are too few.

  They are sorted by value if all are finite numbers, else alphabetically. So
  the order of the model's outputs does not depend on the order of the rows.
  """
  names = {name for example in examples for name in classes_of(example.label)}
  # For multi_label, a single class is enough: a text has it or not.
  minimum = 1 if any(isinstance(e.label, tuple) for e in examples) else 2
  if len(names) < minimum:
    listed = ", ".join(map(repr, names)) or "none"
    raise errors.InputError(
      f"the examples have too few classes ({listed}; minimum: {minimum}); add "
      "examples of other classes, or pass --labels"
    )
  if are_numbers(names):
    return sorted(names, key=lambda name: (float(name), name))
  return sorted(names)


def class_counts(
  examples: list[Example], labels: Sequence[str]
) -> dict[str, int]:
  """Returns {label: number of examples} for each of `labels`."""
  counts = collections.Counter(
    label for example in examples for label in classes_of(example.label)
  )
  return {label: counts[label] for label in labels}


def unknown_class(label: str, labels: Sequence[str]) -> str:
  """Returns the error message for an unknown class."""
  shown = [*map(repr, labels[:_MAX_LISTED_LABELS]), "..."][: len(labels)]
  hint = ""
  if len(labels) > 2 and are_numbers([label, *labels]):
    hint = " (to predict numbers, pass --task_kind=regression)"
  return f"label {label!r} is none of {', '.join(shown)}{hint}"


def are_numbers(labels: Iterable[str]) -> bool:
  """Returns whether all class names are finite numbers."""
  try:
    return all(math.isfinite(float(label)) for label in labels)
  except ValueError:
    return False


def split_off(
  examples: list[Example], fraction: float, seed: int, unit: str = "examples"
) -> tuple[list[Example], list[Example]]:
  """Splits examples into a training part and an evaluation part.

  `fraction` is the share of the evaluation part. The split is random, and
  stratified by class or, for numbers, by value. The only example of a class
  goes into training. Both lists keep the order of `examples`. Raises InputError
  if one of them is empty; `unit` is the message's word for examples.
  """
  counts = collections.Counter(example.label for example in examples)
  # Numbers are stratified by value, even if each of them occurs only once.
  is_number = any(isinstance(label, float) for label in counts)
  indices = [
    index
    for index, example in enumerate(examples)
    if is_number or counts[example.label] > 1
  ]
  rng = np.random.RandomState(seed)
  order = rng.permutation(len(indices))
  # The sort is stable, so the examples of a class stay in random order. Of the
  # sorted examples, select every (1 / fraction)-th, with a random start.
  ordered = sorted(
    (indices[number] for number in order),
    key=lambda index: examples[index].label,
  )
  # `steps` increases by 1 at each selected example: with 0.25, at every fourth.
  # The random start makes the expected number of selected examples exact.
  steps = np.floor(np.arange(len(ordered) + 1) * fraction + rng.random_sample())
  selected = {index for index, taken in zip(ordered, np.diff(steps)) if taken}
  if not selected or len(selected) == len(examples):
    raise errors.InputError(
      f"--eval_fraction={fraction:g} leaves too few {unit}: {len(selected)} to "
      f"score, {len(examples) - len(selected)} to train on; pass another "
      "fraction, or --eval_file instead"
    )
  parts: tuple[list[Example], list[Example]] = [], []
  for index, example in enumerate(examples):
    parts[index in selected].append(example)
  return parts
