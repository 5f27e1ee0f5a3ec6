"""CSV, TSV and JSON lines of one's own -> examples, by the columns' names.

  text,label                  text<tab>label        {"text": ..., "label": ...}
  "Well, it works.",good      It works.<tab>good    {"text": "It works.", ...}

CSV has quotes as in RFC 4180; TSV has none unless asked. Classes that are not
given are those of the training data, sorted: numbers by size, names by
character, so that the order of the rows plays no part.
"""

import math
import os
from typing import NamedTuple, Optional

from classification import labelled_examples, tables
from common import errors

CSV, TSV, JSON_LINES = "csv", "tsv", "jsonl"
FORMATS = (CSV, TSV, JSON_LINES)


class Columns(NamedTuple):
  """The names of the columns.

  Attributes:
    text_a: of the text.
    text_b: of the second text; None if there is one text.
    label: of the label; None to read texts alone.
    id: of the rows' names; None to number them.
  """

  text_a: str = "text"
  text_b: Optional[str] = None
  label: Optional[str] = "label"
  id: Optional[str] = None


@tables.collector_paused()
def read(
  path, columns, *, kind=labelled_examples.SINGLE, separator=None,
  split="train", file_format=None, quoted=None,
):
  """Reads examples.

  Args:
    path: UTF-8 text with a header, or a JSON object on each line.
    columns: Columns.
    kind: SINGLE: labels are names, or numbers used as names; REGRESSION:
      numbers; MULTI_LABEL: several names, or none, in one column, parted by
      `separator` or in a JSON list.
    separator: str, for MULTI_LABEL.
    split: the first part of the names of rows without ids: "train-1".
    file_format: one of FORMATS; None to tell from the end of the name.
    quoted: whether a TSV has quotes like a CSV; None for the format's own.

  Returns:
    List of Example.

  Raises:
    InputError: the file is missing, has none of the columns, or a row is
      broken: too few columns, an empty text, no label, an id that comes again.
      File and line are named; a record of several lines by the first.
  """
  table = _read_table(path, columns, file_format, quoted)
  place_of = {
    name: tables.column(table, name) for name in columns if name
  }
  rows = list(zip(table.rows, table.lines))
  examples = []
  for number, (row, line) in enumerate(rows, 1):
    values = Columns(
      *(row[place_of[name]] if name else None for name in columns)
    )
    place = f"{table.path}:{line}"
    guid = f"{split}-{number}"
    if columns.id:
      guid = _name(values.id, columns.id, place)
    label = None
    if columns.label:
      label = _label(values.label, kind, separator, f"{place}: label")
    text_b = _text(values.text_b, columns.text_b, place)
    examples.append(labelled_examples.Example(
      guid, _text(values.text_a, columns.text_a, place), text_b, label,
      place=place,
    ))
  if columns.id:
    labelled_examples.check_ids(examples)
  return examples


def _read_table(path, columns, file_format, quoted):
  file_format = file_format or os.path.splitext(path)[1].lstrip(".").lower()
  if file_format not in FORMATS:
    raise errors.InputError(
      f"{path}: neither .csv, .tsv nor .jsonl at the end; name the format: "
      f"{', '.join(FORMATS)}"
    )
  names = [name for name in columns if name]
  if len(set(names)) < len(names):
    raise errors.InputError(
      f"one column is named twice: {', '.join(names)}; texts, label and id "
      "need a column each"
    )
  if file_format == JSON_LINES:
    return tables.read_json_lines(path, names)
  if file_format == CSV or quoted:
    return tables.read_csv(
      path, delimiter="," if file_format == CSV else "\t"
    )
  return tables.read_tsv(path)


def _text(value, column, place):
  if column is None:
    return None
  if not isinstance(value, str):
    raise errors.InputError(
      f"{place}: {column!r} is {value!r:.40}, not a text; write it between "
      "quotes"
    )
  if not value or value.isspace():
    raise errors.InputError(
      f"{place}: an empty text in {column!r}; every example needs its texts"
    )
  return value


def _name(value, column, place):
  if isinstance(value, int) and not isinstance(value, bool):
    value = str(value)
  if not isinstance(value, str) or not value.strip():
    raise errors.InputError(
      f"{place}: {value!r:.40} is no id; every row needs a text or a whole "
      f"number in {column!r}"
    )
  return value


def _label(value, kind, separator, place):
  if kind == labelled_examples.REGRESSION:
    return _score(value, place)
  if kind == labelled_examples.MULTI_LABEL:
    return _classes(value, separator, place)
  return _class(value, place)


def _class(value, place):
  """Returns the name of a class; what JSON has for a number is one too."""
  if isinstance(value, bool):
    return str(value).lower()
  if isinstance(value, (int, float)):
    return str(value)
  if isinstance(value, str) and value.strip():
    return value.strip()
  raise errors.InputError(
    f"{place} {value!r:.40} is no class; every row needs the name of one"
  )


def _classes(value, separator, place):
  if isinstance(value, str):
    if not separator:
      raise errors.InputError(
        f"{place} {value!r:.40}: what parts the classes in it is not said; "
        "give the separator, or a list in JSON"
      )
    value = [part.strip() for part in value.split(separator)]
    value = [] if value == [""] else value
  if not isinstance(value, list):
    raise errors.InputError(
      f"{place} {value!r:.40} is no list of classes; write [] for none"
    )
  return tuple(dict.fromkeys(_class(part, place) for part in value))


def _score(value, place):
  try:
    score = math.nan if isinstance(value, bool) else float(value)
  except (TypeError, ValueError):
    score = math.nan
  if not math.isfinite(score):
    raise errors.InputError(
      f"{place} {value!r:.40} is no number; regression needs one in every row"
    )
  return score


def label_list(examples):
  """Returns the classes of examples, sorted.

  By size if all of them are finite numbers, else by their characters: the
  order is that of the model's outputs and must not hang on that of the rows.

  Args:
    examples: list of Example, not of regression.

  Returns:
    List of str.

  Raises:
    InputError: there are fewer than two classes, so nothing to tell apart;
      or, where several may hold at once, none.
  """
  names = {
    name
    for example in examples
    for name in labelled_examples.classes_of(example.label)
  }
  needed = 1 if any(isinstance(e.label, tuple) for e in examples) else 2
  if len(names) < needed:
    found = ", ".join(map(repr, names)) or "none"
    raise errors.InputError(
      f"the examples have too few classes ({found}); give data of at least "
      f"{needed}, or name the classes"
    )
  try:
    sizes = {name: float(name) for name in names}
  except ValueError:
    return sorted(names)
  if not all(map(math.isfinite, sizes.values())):
    return sorted(names)  # nan is neither more nor less than a number.
  return sorted(names, key=lambda name: (sizes[name], name))
