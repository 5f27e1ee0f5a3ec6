"""Reads the official files of GLUE and similar tasks.

The table `TASKS` describes the files, for example:

  task     files                                 texts and label
  MRPC     train.tsv dev.tsv test.tsv            "#1 String" "#2 String" Quality
  MNLI     train.tsv dev_matched.tsv ...         sentence1 sentence2 gold_label

Columns are identified by the names in the header, so a file with a different
layout is refused. Only CoLA's train.tsv and dev.tsv have no header.
As in the original: the examples, their ids (guid), their texts and the order of
the labels, for CoLA, MNLI, MRPC and XNLI.
Unlike the original: an invalid row raises an error with its line (except where
Layout.broken is set), and labels in a test file are read.
"""

import collections
import contextlib
import math
import os
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging

from classification import data, tables
from common import errors, file_io

# Number of predictions that GLUE's server expects in each file.
_SUBMITTED_ROWS = {
  "CoLA": 1063,
  "SST-2": 1821,
  "MRPC": 1725,
  "STS-B": 1379,
  "QQP": 390965,
  "MNLI-m": 9796,
  "MNLI-mm": 9847,
  "QNLI": 5463,
  "RTE": 3000,
  "WNLI": 146,
  "AX": 1104,
}
_NLI = ("contradiction", "entailment", "neutral")
_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
# A file is not the official one if its broken rows exceed both limits.
_MAX_BROKEN_ROWS, _MAX_BROKEN_SHARE = 10, 0.05


class Layout(NamedTuple):
  """The files and columns with the examples of a split.

  Attributes:
    files: paths in the data folder, with {language} as a placeholder; the first
      existing path is read.
    text_a, text_b, label: names of columns, or numbers from "1" if the file has
      no header; None if there is no such column. If text_a is None, the split
      is a folder with one file per text.
    id: the column of ids. Without it, rows are numbered from 1 after a header,
      and from 0 in a file without a header.
    endings: (column that begins each ending, columns that complete it).
    language: the column of the language; rows in other languages are skipped.
    renamed: {label in the file: label of the task}.
    has_labels: False for test data, whose labels may be missing; any value that
      is not a class then means a missing label.
    may_be_empty: whether a text may be empty.
    broken: None, or a tuple of placeholders for missing texts if the official
      file has broken rows. Rows with a placeholder, and other invalid rows,
      are then skipped with a warning.
  """

  files: tuple = ()
  text_a: str | None = None
  text_b: str | None = None
  label: str | None = None
  id: str | None = None
  endings: tuple = ()
  language: str | None = None
  renamed: dict = {}
  has_labels: bool = True
  may_be_empty: bool = False
  broken: tuple | None = None


class OfficialTask(NamedTuple):
  """An official task.

  Attributes:
    name, title: the value of --task_name, and the authors' spelling.
    labels: the classes in the order of the model's outputs.
    metrics: the official metrics; the first ranks the runs of --search.
    layouts: {name of split: Layout}.
    task_kind: one of data.KINDS.
    language: the default language; None if the data have only one.
    scores: (lowest, highest) score of regression.
    hint: advice for the error message about a missing file or split.
  """

  name: str
  title: str
  labels: tuple
  metrics: tuple
  layouts: dict
  task_kind: str = data.SINGLE
  language: str | None = None
  scores: tuple | None = None
  hint: str = ""


def _read_folders(
  task: OfficialTask, folder: str, prefix: str
) -> list[data.Example]:
  """Returns the examples in <folder>/<class>/<number>_<rating>.txt.

  They are sorted by number. Each class starts at 0, so the classes alternate;
  otherwise, training without a full shuffle would see one class after another.
  """
  numbered = []
  for label in task.labels:
    inside = os.path.join(folder, label)
    names = tf.io.gfile.listdir(inside) if file_io.exists(inside) else []
    stems = [n.removesuffix(".txt") for n in names if n.endswith(".txt")]
    if not stems:
      raise errors.InputError(
        f"no .txt files in {inside}; --data_dir must be the folder of "
        f"{task.title}'s official download"
      )
    numbered += [(_number(stem), stem, label) for stem in stems]
  examples, faults = [], errors.Faults()
  for _, stem, label in sorted(numbered):
    path = os.path.join(folder, label, f"{stem}.txt")
    text = "\n".join(line for _, line in file_io.read_lines(path)).strip()
    with faults.collected(), errors.placed(f"{path}:1"):
      errors.require_text(text)
    examples.append(
      data.Example(
        f"{prefix}-{label}-{stem}", text, label=label, place=f"{path}:1"
      )
    )
  faults.refuse(task.title)
  return examples


def _number(stem: str) -> float:
  # "127_8" is text 127 with rating 8. As an integer, 9 sorts before 10.
  number = stem.split("_")[0]
  return int(number) if number.isdecimal() else math.inf


def _splits(
  *columns: Any,
  files: dict[str, str] | None = None,
  folders: tuple[str, ...] = ("",),
  **options: Any,
) -> dict[str, Layout]:
  """Returns {split: Layout} for files with the same columns.

  Args:
    columns, **options: text_a, text_b, label, id and other fields of Layout.
    files: {split: file names separated by spaces}.
    folders: possible folders of the files, which differ between mirrors.
  """
  files = files or {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
  return {
    split: Layout(
      tuple(f"{folder}{n}" for folder in folders for n in names.split()),
      *columns,
      **{"has_labels": not split.startswith("test"), **options},
    )
    for split, names in files.items()
  }


_PAIR = ("sentence1", "sentence2")
# QQP's files have rows cut in two, and three rows that lack a question.
_QQP = _splits("question1", "question2", "is_duplicate", "id", broken=())
# Never skip a test row, because GLUE's server needs a prediction for each.
_QQP["test"] = _QQP["test"]._replace(broken=None, may_be_empty=True)
_MNLI = _splits(
  *_PAIR,
  "gold_label",
  "index",
  may_be_empty=True,
  files={
    split: f"{split}.tsv"
    for split in (
      "train",
      "dev_matched",
      "dev_mismatched",
      "test_matched",
      "test_mismatched",
    )
  },
)
_XNLI = {
  **_splits(
    "premise",
    "hypo",
    "label",
    folders=("", "XNLI-MT-1.0/"),
    files={"train": "multinli/multinli.train.{language}.tsv"},
    # As in the original: the training files' spelling is also accepted.
    renamed={"contradictory": "contradiction"},
    may_be_empty=True,
  ),
  **_splits(
    *_PAIR,
    "gold_label",
    language="language",
    may_be_empty=True,
    folders=("", "XNLI-1.0/"),
    files={"dev": "xnli.dev.tsv", "test": "xnli.test.tsv"},
  ),
}
_PAWS_X = _splits(
  *_PAIR,
  "label",
  broken=("NS",),
  folders=("{language}/", "x-final/{language}/"),
  files={
    "train": "translated_train.tsv train.tsv",
    "dev": "dev_2k.tsv",
    "test": "test_2k.tsv",
  },
)
# A full ending is sent2, the beginning of the sentence, plus one ending column.
_SWAG = _splits(
  "sent1",
  None,
  "label",
  endings=("sent2", ("ending0", "ending1", "ending2", "ending3")),
  files={"train": "train.csv", "dev": "val.csv", "test": "test.csv"},
)
# A text's class is the name of its folder.
_IMDB = _splits(
  folders=("", "aclImdb/"), files={"train": "train", "test": "test"}
)

_ROWS = [
  # The columns are source, label, the author's mark, sentence.
  # As in the original: among CoLA's files, only the test set has a header.
  OfficialTask(
    "cola",
    "CoLA",
    _BINARY,
    ("matthews",),
    {
      **_splits("4", None, "2", files={"train": "train.tsv", "dev": "dev.tsv"}),
      **_splits("sentence", None, "label", files={"test": "test.tsv"}),
    },
  ),
  OfficialTask(
    "sst-2",
    "SST-2",
    _BINARY,
    ("accuracy",),
    _splits("sentence", None, "label", "index"),
  ),
  OfficialTask(
    "mrpc",
    "MRPC",
    _BINARY,
    ("f1", "accuracy"),
    _splits("#1 String", "#2 String", "Quality"),
    hint="train.tsv and dev.tsv are two parts of msr_paraphrase_train.txt, "
    "with the same columns",
  ),
  OfficialTask(
    "sts-b",
    "STS-B",
    (),
    ("pearson", "spearman"),
    _splits(*_PAIR, "score", "index"),
    task_kind=data.REGRESSION,
    scores=(0.0, 5.0),
  ),
  OfficialTask("qqp", "QQP", _BINARY, ("f1", "accuracy"), _QQP),
  OfficialTask("mnli", "MNLI", _NLI, ("accuracy",), _MNLI),
  OfficialTask(
    "qnli",
    "QNLI",
    _ENTAILMENT,
    ("accuracy",),
    _splits("question", "sentence", "label", "index"),
  ),
  OfficialTask(
    "rte", "RTE", _ENTAILMENT, ("accuracy",), _splits(*_PAIR, "label", "index")
  ),
  OfficialTask(
    "wnli", "WNLI", _BINARY, ("accuracy",), _splits(*_PAIR, "label", "index")
  ),
  OfficialTask(
    "ax",
    "AX",
    _NLI,
    ("matthews",),
    _splits(
      *_PAIR,
      "label",
      "index",
      files={"test": "diagnostic.tsv AX.tsv diagnostic/diagnostic.tsv"},
    ),
    hint="AX is GLUE's diagnostic set, for a model trained on MNLI",
  ),
  # As in the original: without --language, XNLI is Chinese.
  OfficialTask("xnli", "XNLI", _NLI, ("accuracy",), _XNLI, language="zh"),
  OfficialTask(
    "paws-x", "PAWS-X", _BINARY, ("accuracy",), _PAWS_X, language="en"
  ),
  OfficialTask("imdb", "IMDB", ("neg", "pos"), ("accuracy",), _IMDB),
  OfficialTask(
    "swag",
    "SWAG",
    ("0", "1", "2", "3"),
    ("accuracy",),
    _SWAG,
    task_kind=data.CHOICE,
  ),
]
TASKS = {task.name: task for task in _ROWS}


def find(name: str) -> OfficialTask:
  """Returns the task by name; "STS-B", "sts-b" and "stsb" are equivalent."""
  for task in TASKS.values():
    if _plain(task.name) == _plain(name):
      return task
  raise errors.InputError(
    f"--task_name={name}: no such task; the tasks are {', '.join(TASKS)}; for "
    "your own data leave --task_name out, and pass --train_file"
  )


def _plain(name: str) -> str:
  return name.lower().replace("-", "").replace("_", "")


def has_pairs(task: OfficialTask) -> bool:
  """Returns whether the examples of a task are pairs of texts."""
  return any(
    layout.text_b is not None or layout.endings
    for layout in task.layouts.values()
  )


def splits(task: OfficialTask, purpose: str) -> list[str]:
  """Returns the splits for "train", "eval" or "predict".

  The first split is the one that the original uses. IMDB has no dev split, so
  "eval" uses its test split. AX has no labels, so it has no "eval".
  """

  def named(start: str) -> list[str]:
    return [split for split in task.layouts if split.startswith(start)]

  if purpose == "train":
    return ["train"]
  if purpose == "predict":
    return named("test")
  return named("dev") or (named("test") if "train" in task.layouts else [])


def read(
  task: OfficialTask,
  data_dir: str,
  split: str,
  *,
  language: str | None = None,
  encoding: str | None = None,
) -> list[data.Example]:
  """Returns the examples of a task's split, in the order of the file.

  IMDB's two classes alternate. A missing label is None. Raises InputError: the
  task lacks the split or the language, a file or a column is missing, or rows
  are invalid. The message has the file and the line.
  """
  hint = f"; {task.hint}" if task.hint else ""
  if split not in task.layouts:
    raise errors.InputError(
      f"{task.title} has no {split} data, only {', '.join(task.layouts)}{hint}"
    )
  if language and not task.language:
    raise errors.InputError(
      f"--language={language}: {task.title} has only one language; leave the "
      "flag out"
    )
  layout, language = task.layouts[split], language or task.language
  paths = _paths(layout, data_dir, language)
  path = next(filter(file_io.exists, paths), None)
  if path is None:
    raise errors.InputError(
      f"no such file: {', nor '.join(paths)}; --data_dir must be the folder of "
      f"{task.title}'s official files{hint}"
    )
  # As in the original: guids of the matched test set are "test-<n>".
  prefix = "test" if split == "test_matched" else split
  if encoding:
    tables.check_encoding(encoding)
  if layout.text_a is None:
    if encoding:
      raise errors.InputError(
        f"--encoding={encoding}: the texts of {task.title} are UTF-8; leave "
        "the flag out"
      )
    return _read_folders(task, path, prefix)
  table = tables.open_table(
    path,
    "csv" if path.endswith(".csv") else "tsv",
    names=_texts(layout),
    delimiter=",",
    encoding=encoding,
    joins_cut_rows=layout.broken is not None,
  )
  return _read_table(task, layout, table, prefix, language)


def exists(task: OfficialTask, data_dir: str, split: str) -> bool:
  """Returns whether a split's file in the default language exists."""
  paths = _paths(task.layouts[split], data_dir, task.language)
  return any(map(file_io.exists, paths))


def _paths(layout: Layout, data_dir: str, language: str | None) -> list[str]:
  names = [name.format(language=language) for name in layout.files]
  return [os.path.join(data_dir, name) for name in names]


def _texts(layout: Layout) -> list[str]:
  """Returns the columns of texts, without the beginning of the endings."""
  _, endings = layout.endings or (None, ())
  return list(filter(None, (layout.text_a, layout.text_b, *endings)))


def _read_table(
  task: OfficialTask,
  layout: Layout,
  table: tables.Table,
  prefix: str,
  language: str | None,
) -> list[data.Example]:
  """Returns the examples of a table; `_report` handles bad rows."""
  beginning, endings = layout.endings or (None, ())
  # The texts to check. The common beginning of the endings may be empty.
  texts, path = _texts(layout), table.path
  label = layout.label if layout.has_labels else None
  table.require([*texts, beginning, label, layout.language])
  has_ids, languages = layout.id in table.names, set()

  def make(number: int, row: dict, place: str) -> data.Example | None:
    if layout.language and row[layout.language] != language:
      languages.add(row[layout.language])
      return None
    for text in (row[name] for name in texts):
      if not layout.may_be_empty:
        errors.require_text(text)
      if text in (layout.broken or ()):
        raise errors.InputError(
          f"the text is {text!r}, which stands for a missing text"
        )
    # As in the original: the header is row 0, and skipped rows are counted.
    name = row[layout.id] if has_ids else number - texts[0].isdecimal()
    return data.Example(
      f"{prefix}-{name}",
      row[layout.text_a],
      row.get(layout.text_b),
      _label(row.get(layout.label), task, layout),
      tuple(f"{row[beginning]} {row[end]}".strip() for end in endings),
      place,
    )

  examples: list = []
  bad: list = []
  for result in data.examples_of(table, make, has_ids, label):
    (bad if isinstance(result, data.BadRow) else examples).append(result)
  _report(path, bad, len(examples), layout)
  if not examples and languages:
    raise errors.InputError(
      f"{path}: no row in --language={language}; pass one of "
      f"{', '.join(sorted(languages))}"
    )
  return examples


def _label(
  value: str | None, task: OfficialTask, layout: Layout
) -> str | float | None:
  """Returns the label in a cell; None for an invalid label in test data."""
  if value is None:
    return None
  if task.scores:
    low, high = task.scores
    with contextlib.suppress(ValueError):
      if low <= float(value) <= high:
        return float(value)
    fault = (
      f"score {value!r} is not a number from {low:g} to {high:g}; fix the row"
    )
  else:
    label = layout.renamed.get(value, value)
    if label in task.labels:
      return label
    fault = data.unknown_class(label, task.labels)
    fault = f"{fault}; {task.title} has no other labels"
  if layout.has_labels:
    raise errors.InputError(fault)
  return None


def _report(
  path: str, bad: list[data.BadRow], count: int, layout: Layout
) -> None:
  """Raises InputError for bad rows, or logs them (see Layout.broken)."""
  if layout.broken is None:
    faults = errors.Faults()
    faults.messages += map(str, bad)
    faults.refuse(path)
  # The official file has fewer broken rows, so this is a different file.
  if len(bad) > max(_MAX_BROKEN_ROWS, _MAX_BROKEN_SHARE * count):
    raise errors.InputError(
      f"{bad[0]}; {len(bad)} of {len(bad) + count} rows are broken, more than "
      "in the official file; download it again"
    )
  lines = collections.defaultdict(list)
  for row in bad:
    lines[row.fault].append(row.line)
  for fault, numbers in lines.items():
    logging.warning(
      "%s: skipped line%s %s: %s",
      path,
      "s" * (len(numbers) > 1),
      ", ".join(map(str, numbers)),
      fault,
    )


def _submitted_name(task: OfficialTask, split: str) -> str:
  suffix = {"test_matched": "-m", "test_mismatched": "-mm"}.get(split, "")
  return task.title + suffix


def check_submission(task: OfficialTask) -> None:
  """Raises InputError if GLUE's server does not accept a task."""
  names = [_submitted_name(task, split) for split in splits(task, "predict")]
  if not _SUBMITTED_ROWS.keys() >= set(names):
    raise errors.InputError(
      f"--glue_submission_dir: {task.title} is not a task of GLUE's server, "
      f"which expects {', '.join(_SUBMITTED_ROWS)}; leave the flag out"
    )


def write_submission(
  folder: str, task: OfficialTask, split: str, predictions: list
) -> str:
  """Writes the predictions of a test set for GLUE's server; returns the path.

  Column "index" counts from 0 in the order of the test file. Column
  "prediction" is a class as spelled in the training file, or a score of STS-B
  from 0 to 5. A submission is a zip file of all eleven files. `predictions` has
  the class or the score of each test example, in order.
  """
  name = _submitted_name(task, split)
  path = os.path.join(folder, f"{name}.tsv")
  if task.scores:
    low, high = task.scores
    # The server rejects scores outside the range.
    predictions = [f"{min(max(each, low), high):.3f}" for each in predictions]
  lines = [f"{index}\t{value}\n" for index, value in enumerate(predictions)]
  file_io.write_text(path, "".join(["index\tprediction\n", *lines]))
  # Only warn, because the user may have predicted part of the test set.
  if len(predictions) != _SUBMITTED_ROWS[name]:
    logging.warning(
      "%s: the server will reject it, because it has %d of %d predictions",
      path,
      len(predictions),
      _SUBMITTED_ROWS[name],
    )
  return path
