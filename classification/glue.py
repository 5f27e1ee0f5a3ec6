"""The official files of GLUE and its like -> examples: one row for each task.

  task     files                                 texts and label
  MRPC     train.tsv dev.tsv test.tsv            "#1 String" "#2 String" Quality
  MNLI     train.tsv dev_matched.tsv ...         sentence1 sentence2 gold_label

Columns are found by the names in the header, so that a file in another layout
is refused and not misread; only CoLA's train.tsv and dev.tsv have none.
As in the original: which rows there are, their names (guid), their texts and
the order of the labels, for CoLA, MNLI, MRPC and XNLI.
Unlike the original: a row that cannot be what the file means is refused with
its line, and a test file that has labels is read with them.
"""

import collections
import math
import os
from typing import Callable, NamedTuple, Optional

import tensorflow as tf
from absl import logging

from classification import labelled_examples, tables
from common import errors, file_io

_NLI = ("contradiction", "entailment", "neutral")
_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
# More broken rows, or a larger part, are no longer the official file's.
_MOST_BROKEN, _MOST_BROKEN_PART = 10, 0.05


class Layout(NamedTuple):
  """Where the examples of one split are.

  Attributes:
    files: paths below the data folder, {language} filled in; the first that
      exists is read.
    text_a, text_b, label: names of columns, or numbers where there is no
      header; None if there is no such column.
    id: the column that names the rows, where there is one; else they are
      numbered, from 1 after a header and from 0 without.
    endings: (column that begins every ending, columns of the endings).
    width: number of columns of a file without a header.
    language: the column that says it; rows in others are not read.
    renamed: {label in the file: label of the task}.
    prefix: of the guid, if it is not the name of the split.
    has_labels: False where the label may be missing: what is to be predicted.
      What a reader then gives for no class is no label.
    may_be_empty: whether a text may be.
    broken: None, or the texts that mean missing ones. Rows with them,
      and any other broken ones, are left out with a warning: the official
      file is known to have some.
  """

  files: tuple = ()
  text_a: object = None
  text_b: object = None
  label: object = None
  id: Optional[str] = None
  endings: tuple = ()
  width: Optional[int] = None
  language: Optional[str] = None
  renamed: dict = {}
  prefix: Optional[str] = None
  has_labels: bool = True
  may_be_empty: bool = False
  broken: Optional[tuple] = None


class Task(NamedTuple):
  """A row of the table.

  Attributes:
    name: as --task_name has it.
    title: as its authors write it.
    kind: one of labelled_examples.KINDS.
    labels: the classes in the order of the model's outputs.
    metrics: the official ones, that of the leader board first.
    layouts: {name of split: Layout}.
    language: that of the data if none is named; None if there is but one.
    scores: (lowest, highest) of regression.
    hint: what to know where a file is missing.
    reader: function of (Task, path of the split's file or folder, prefix of
      the guids) that returns a list of Example; None for a table with the
      columns of the layout.
  """

  name: str
  title: str
  labels: tuple
  metrics: tuple
  layouts: dict
  kind: str = labelled_examples.SINGLE
  language: Optional[str] = None
  scores: Optional[tuple] = None
  hint: str = ""
  reader: Optional[Callable] = None


def _splits(layout, **files):
  """Returns {split: Layout} for files that have the same columns."""
  return {
    split: layout._replace(
      files=names if isinstance(names, tuple) else (names,),
      has_labels=not split.startswith("test"),
    )
    for split, names in files.items()
  }


def _official(*columns, **options):
  return _splits(
    Layout((), *columns, **options),
    train="train.tsv", dev="dev.tsv", test="test.tsv",
  )


# Source, label, the author's mark, sentence: without a header.
_COLA = Layout((), 3, None, 1, width=4)
# A cut row is put together again; three rows lack a question.
_QQP = _official("question1", "question2", "is_duplicate", "id", broken=())
# What is to be predicted keeps all its rows: the leader board counts them.
_QQP["test"] = _QQP["test"]._replace(broken=None, may_be_empty=True)
_MNLI = _splits(
  Layout((), "sentence1", "sentence2", "gold_label", "index",
         may_be_empty=True),
  train="train.tsv",
  dev_matched="dev_matched.tsv",
  dev_mismatched="dev_mismatched.tsv",
  test_matched="test_matched.tsv",
  test_mismatched="test_mismatched.tsv",
)
# As in the original: guids of the matched test are "test-<n>".
_MNLI["test_matched"] = _MNLI["test_matched"]._replace(prefix="test")
_XNLI = {
  "train": Layout(
    tuple(f"{folder}multinli/multinli.train.{{language}}.tsv"
          for folder in ("", "XNLI-MT-1.0/")),
    "premise", "hypo", "label", may_be_empty=True,
    # As in the original: the training files have another word for it.
    renamed={"contradictory": "contradiction"},
  ),
  **_splits(
    Layout((), "sentence1", "sentence2", "gold_label", language="language",
           may_be_empty=True),
    dev=("xnli.dev.tsv", "XNLI-1.0/xnli.dev.tsv"),
    test=("xnli.test.tsv", "XNLI-1.0/xnli.test.tsv"),
  ),
}
_PAWS_X = _splits(
  Layout((), "sentence1", "sentence2", "label", broken=("NS",)),
  **{
    split: tuple(
      f"{folder}{{language}}/{name}"
      for folder in ("", "x-final/")
      for name in names
    )
    for split, names in {
      "train": ("translated_train.tsv", "train.tsv"),
      "dev": ("dev_2k.tsv",),
      "test": ("test_2k.tsv",),
    }.items()
  },
)
# An ending is sent2, the beginning of its sentence, and one of the four.
_SWAG = _splits(
  Layout((), "sent1", None, "label",
         endings=("sent2", tuple(f"ending{n}" for n in range(4)))),
  train="train.csv", dev="val.csv", test="test.csv",
)
# Folders of files, named by their class.
_IMDB = _splits(
  Layout(), train=("train", "aclImdb/train"), test=("test", "aclImdb/test")
)

_ROWS = [
  # As in the original: of CoLA's files only the test set has a header.
  Task("cola", "CoLA", _BINARY, ("matthews",), {
    **_splits(_COLA, train="train.tsv", dev="dev.tsv"),
    **_splits(Layout((), "sentence", None, "label"), test="test.tsv"),
  }),
  Task("sst-2", "SST-2", _BINARY, ("accuracy",),
       _official("sentence", None, "label", "index")),
  Task("mrpc", "MRPC", _BINARY, ("f1", "accuracy"),
       _official("#1 String", "#2 String", "Quality"),
       hint="train.tsv and dev.tsv are the two parts of "
            "msr_paraphrase_train.txt, in its columns"),
  Task("sts-b", "STS-B", (), ("pearson", "spearman"),
       _official("sentence1", "sentence2", "score", "index"),
       kind=labelled_examples.REGRESSION, scores=(0.0, 5.0)),
  Task("qqp", "QQP", _BINARY, ("f1", "accuracy"), _QQP),
  Task("mnli", "MNLI", _NLI, ("accuracy",), _MNLI),
  Task("qnli", "QNLI", _ENTAILMENT, ("accuracy",),
       _official("question", "sentence", "label", "index")),
  Task("rte", "RTE", _ENTAILMENT, ("accuracy",),
       _official("sentence1", "sentence2", "label", "index")),
  Task("wnli", "WNLI", _BINARY, ("accuracy",),
       _official("sentence1", "sentence2", "label", "index")),
  Task("ax", "AX", _NLI, ("matthews",), _splits(
    Layout((), "sentence1", "sentence2", "label", "index"),
    test=("diagnostic.tsv", "AX.tsv", "diagnostic/diagnostic.tsv"),
  ), hint="it is GLUE's diagnostic set, for a model trained on MNLI"),
  # As in the original: Chinese, where no --language is given.
  Task("xnli", "XNLI", _NLI, ("accuracy",), _XNLI, language="zh"),
  Task("paws-x", "PAWS-X", _BINARY, ("accuracy",), _PAWS_X, language="en"),
  Task("imdb", "IMDB", ("neg", "pos"), ("accuracy",), _IMDB,
       # A lambda, since the function is defined further down.
       reader=lambda *arguments: _read_folders(*arguments)),
  Task("swag", "SWAG", ("0", "1", "2", "3"), ("accuracy",), _SWAG,
       kind=labelled_examples.CHOICE),
]
TASKS = {task.name: task for task in _ROWS}


def register(task):
  """Adds a task to those that --task_name knows.

  Args:
    task: Task; its name is lower-case. Its layouts say which files below
      --data_dir are train, dev and test; `read` reads them as tables, or
      `task.reader` in any way.

  Raises:
    InputError: there is a task of this name, or something of it cannot be.
  """
  if _plain(task.name) in map(_plain, TASKS):
    raise errors.InputError(
      f"there is a task called {task.name} already; give yours another name"
    )
  if task.kind not in labelled_examples.KINDS:
    raise errors.InputError(
      f"the kind of the task {task.name} is {task.kind!r}; expected one of "
      f"{', '.join(labelled_examples.KINDS)}"
    )
  TASKS[task.name] = task


def find(name):
  """Returns the Task of a name, be it "STS-B", "sts-b" or "stsb".

  Raises:
    InputError: there is none.
  """
  for task in TASKS.values():
    if _plain(task.name) == _plain(name):
      return task
  raise errors.InputError(
    f"--task_name={name}: no such task; there are {', '.join(TASKS)}; your "
    "own data need no task, only their files"
  )


def _plain(name):
  return name.lower().replace("-", "").replace("_", "")


def eval_splits(task):
  """Returns the splits that a task is scored on, the original's first.

  IMDB, which has no dev split, is scored on its test split; AX has no labels.
  """
  dev = [split for split in task.layouts if split.startswith("dev")]
  if dev or "train" not in task.layouts:
    return dev
  return predict_splits(task)


def has_pairs(task):
  """Whether the examples of a task are pairs of texts."""
  return any(
    layout.text_b is not None or layout.endings
    for layout in task.layouts.values()
  )


def predict_splits(task):
  """Returns the splits that are to be predicted, the original's first."""
  return [split for split in task.layouts if split.startswith("test")]


def read(task, data_dir, split, *, language=None):
  """Reads a split of a task.

  Args:
    task: Task.
    data_dir: folder of the official files.
    split: one of task.layouts.
    language: of XNLI and PAWS-X; None for the task's own.

  Returns:
    List of Example, in the order of the file; IMDB's two classes take turns.
    A label is None where the file has none.

  Raises:
    InputError: the task has no such split or language, a file is missing, a
      column is, or a row is broken: too few columns, an unknown label, an
      empty text, an id that comes again. File and line are named.
  """
  layout = _layout(task, split)
  (path,) = paths(task, data_dir, split, language=language)
  prefix = layout.prefix or split
  # A task of a user's own: what it gives is checked as strictly as a table.
  if task.reader:
    return _checked(task, layout, task.reader(task, path, prefix))
  broken = None if layout.broken is None else []
  if path.endswith(".csv"):
    table = tables.open_csv(path)
  else:
    table = tables.open_tsv(
      path, width=layout.width, joins_cut_rows=broken is not None
    )
  language = language or task.language
  examples = _Rows(task, layout, table, broken).examples(prefix, language)
  if broken:
    _warn_of_broken(path, broken, len(examples))
  # Rows without ids are numbered, so no two have one name.
  if layout.id in table.names:
    labelled_examples.check_ids(examples)
  return examples


def _checked(task, layout, examples):
  """Checks what a reader gives as the rows of a table are checked."""
  if layout.has_labels:
    examples = list(examples)
    labelled_examples.check_labelled(examples)
  else:
    # Whatever the reader calls a missing label.
    examples = [
      each if _has_label(each, task) else each._replace(label=None)
      for each in examples
    ]
  if task.labels:
    labelled_examples.check_classes(examples, task.labels)
  faults = errors.Faults()
  for example in examples:
    with faults.collected():
      if not layout.may_be_empty:
        errors.require_text(example.text_a, example.place or example.guid)
  faults.refuse(task.title)
  labelled_examples.check_ids(examples)
  return examples


def _has_label(example, task):
  if task.kind == labelled_examples.REGRESSION:
    return isinstance(example.label, float)
  names = labelled_examples.classes_of(example.label)
  return all(name in task.labels for name in names)


def paths(task, data_dir, split, *, language=None):
  """Returns the list of files, or folders, that `read` would read.

  Args:
    As of `read`.

  Raises:
    InputError: the task has no such split or language, or there is none.
  """
  if language and not task.language:
    raise errors.InputError(
      f"--language={language}: {task.title} has no choice of languages; leave "
      "it out"
    )
  names = [
    name.format(language=language or task.language)
    for name in _layout(task, split).files
  ]
  for name in names:
    # The first that is there: mirrors pack the same files in several ways.
    path = os.path.join(data_dir, name)
    if tf.io.gfile.exists(path):
      return [path]
  also = "".join(f", nor {name}" for name in names[1:])
  hint = f"; {task.hint}" if task.hint else ""
  raise errors.InputError(
    f"no such file: {os.path.join(data_dir, names[0])}{also}; --data_dir must "
    f"be the folder of {task.title}'s official files{hint}"
  )


def _layout(task, split):
  if split not in task.layouts:
    hint = f": {task.hint}" if task.hint else ""
    raise errors.InputError(
      f"{task.title} has no {split} data, only {', '.join(task.layouts)}{hint}"
    )
  return task.layouts[split]


class _Rows:
  """Makes examples of the rows of a table."""

  def __init__(self, task, layout, table, broken):
    self._task = task
    self._layout = layout
    self._table = table
    self._broken = broken
    # Those that the files of some split call otherwise.
    self._labels = {label: label for label in task.labels} | layout.renamed
    self._text_a = self._place(layout.text_a)
    self._text_b = self._place(layout.text_b)
    self._label = self._place(layout.label, may_lack=not layout.has_labels)
    self._id = self._place(layout.id, may_lack=True)
    self._language = self._place(layout.language)
    self._endings = []
    if layout.endings:
      start, names = layout.endings
      self._endings = [(self._place(start), self._place(n)) for n in names]

  def _place(self, name, may_lack=False):
    if name is None or (may_lack and name not in self._table.names):
      return None
    return tables.column(self._table, name)

  def examples(self, prefix, language):
    """Returns the list of Example."""
    examples, languages, faults = [], set(), errors.Faults()
    # As in the original: the header is row 0, and rows in other languages
    # count too.
    number = int(self._layout.width is None) - 1
    for line, row, fault in self._table.rows:
      place = f"{self._table.path}:{line}"
      if fault is None:
        number += 1
        if self._language is not None and row[self._language] != language:
          languages.add(row[self._language])
          continue
        name = number if self._id is None else row[self._id]
        example, fault = self._example(row, f"{prefix}-{name}", place)
      if fault is None:
        examples.append(example)
      elif self._broken is None:
        faults.found.append(f"{place}: {fault}")
      else:
        self._broken.append((line, fault))
    faults.refuse(self._table.path)
    if not examples and languages:
      raise errors.InputError(
        f"{self._table.path}: no row in --language={language}, only in "
        f"{', '.join(sorted(languages))}; pass one of them"
      )
    return examples

  def _example(self, row, guid, place):
    """Returns (Example, what is wrong with it or None)."""
    text_a, text_b, label, endings = row[self._text_a], None, None, ()
    fault = self._text_fault(text_a)
    if self._text_b is not None:
      text_b = row[self._text_b]
      fault = fault or self._text_fault(text_b)
    if self._endings:
      # Only the endings: their common beginning may be empty.
      fault = fault or self._text_fault(*(row[end] for _, end in self._endings))
      endings = tuple(
        f"{row[start]} {row[end]}".strip() for start, end in self._endings
      )
    if self._label is not None and not fault:
      label, fault = self._parsed_label(row[self._label])
    example = labelled_examples.Example(
      guid, text_a, text_b, label, endings, place
    )
    return example, fault

  def _text_fault(self, *texts):
    for text in texts:
      if (not text or text.isspace()) and not self._layout.may_be_empty:
        return "an empty text; every example needs its texts"
      if text in (self._layout.broken or ()):
        return f"the text is {text!r}, which means a missing one"
    return None

  def _parsed_label(self, text):
    """Returns (label, None) or (None, what is wrong)."""
    if self._task.kind != labelled_examples.REGRESSION:
      label = self._labels.get(text)
      if label is not None:
        return label, None
      said = labelled_examples.unknown_class(text, self._task.labels)
      return None, f"{said}; {self._task.title} has no other"
    low, high = self._task.scores
    score = _number(text)
    if not low <= score <= high:
      return None, (
        f"score {text!r} is no number from {low:g} to {high:g}; fix the row"
      )
    return score, None


def _number(text):
  try:
    return float(text)
  except ValueError:
    # In no range of scores: the row is refused.
    return math.nan


def _warn_of_broken(path, broken, count):
  """Says which rows were left out; refuses a file that has too many."""
  lines = collections.defaultdict(list)
  for line, fault in broken:
    lines[fault].append(line)
  # Too many for an official file: it is damaged or another one.
  if len(broken) > max(_MOST_BROKEN, _MOST_BROKEN_PART * count):
    line, fault = min(broken)
    raise errors.InputError(
      f"{path}:{line}: {fault}; {len(broken)} of {len(broken) + count} rows "
      "are broken, more than the official file has; download it again"
    )
  for fault, numbers in lines.items():
    logging.warning(
      "%s: left out line%s %s: %s", path, "s" * (len(numbers) > 1),
      ", ".join(map(str, numbers)), fault,
    )


def _read_folders(task, folder, prefix):
  """Reads <folder>/<class>/<number>_<rating>.txt.

  In the order of the numbers, the classes in turn: sorted by class they would
  be learned one after the other.
  """
  found = []
  for label in task.labels:
    inside = os.path.join(folder, label)
    names = tf.io.gfile.listdir(inside) if tf.io.gfile.isdir(inside) else []
    files = [os.path.join(inside, n) for n in names if n.endswith(".txt")]
    if not files:
      raise errors.InputError(
        f"no .txt files in {inside}; --data_dir must be the folder of "
        f"{task.title}'s official download"
      )
    found += [(*_file_order(path), label, path) for path in files]
  examples = []
  for _, name, label, path in sorted(found):
    text = _read_text(path)
    examples.append(labelled_examples.Example(
      f"{prefix}-{label}-{name}", text, label=label, place=f"{path}:1"
    ))
  return examples


def _file_order(path):
  name = os.path.splitext(os.path.basename(path))[0]
  # 127_8.txt is text 127, rated 8. By number: 9 comes before 10.
  number = name.split("_")[0]
  return (int(number) if number.isdecimal() else math.inf, name)


def _read_text(path):
  text = "\n".join(line for _, line in file_io.read_lines(path)).strip()
  if not text:
    raise errors.InputError(
      f"{path}:1: an empty text; every example needs its text"
    )
  return text
