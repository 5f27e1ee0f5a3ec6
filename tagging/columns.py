"""Reads columns of words with labels, and adds a column of predictions.

  -DOCSTART- -X- O O        begins a document

  U.N. NNP I-NP I-ORG       a word and its labels, one per column
  official NN I-NP O
                            an empty line ends a sentence

Lines between words that are not words keep their place in a predictions file:
comments, the ranges (2-3) and empty nodes (3.1) of CoNLL-U, which has ten
columns, and words of white space, which have no word pieces. No TensorFlow.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from absl import logging

from common import errors
from tagging import label_schemes

DOCUMENT = "-DOCSTART-"
_CONLLU_COLUMNS, _CONLLU_EXTRA = 10, re.compile(r"\d+[-.]\d+")
_SPACE = " \t\r"
_OUTSIDE = label_schemes.OUTSIDE


def split(line: str) -> list[str]:
  """Returns the columns of a line, split at tabs if any, else at spaces.

  No-break spaces belong to words.
  """
  # str.strip without an argument would also remove no-break spaces.
  line = line.strip(_SPACE)
  if "\t" in line:
    return [column.strip(_SPACE) for column in line.split("\t")]
  return [column for column in line.split(" ") if column]


class _Line(NamedTuple):
  """A line with its number, from 1, and its columns."""

  number: int
  text: str
  row: list[str]


class Layout(NamedTuple):
  """The layout of the lines of a file.

  Attributes:
    blocks: (document, [(line number, columns), ...]) for each sentence.
    empty_at: the line numbers of empty sentences.
    comments: the numbers of comment lines with as many columns as words.
    blanks: the numbers of lines whose word is white space.
  """

  blocks: list[tuple[int, list[tuple[int, list[str]]]]]
  empty_at: list[int]
  comments: list[int]
  blanks: list[int]

  @classmethod
  def of(cls, lines: Iterable[tuple[int, str]]) -> "Layout":
    """Splits lines, with their numbers, at empty lines and -DOCSTART-."""
    layout, document, is_separated = cls([], [], [], []), 0, True
    rows: list[tuple[int, list[str]]] = []
    all_lines = [_Line(*pair, split(pair[1])) for pair in lines]
    kinds = _Kinds(all_lines)
    for line in itertools.chain(all_lines, [_Line(0, "", [DOCUMENT])]):
      row = line.row
      if row and row[0] != DOCUMENT:
        if not rows and kinds.is_comment(line):
          if len(row) == kinds.width:
            layout.comments.append(line.number)
        elif kinds.is_blank(line):
          layout.blanks.append(line.number)
        elif not _is_conllu_extra(row):
          rows.append((line.number, row))
        continue
      if rows:
        layout.blocks.append((document, rows))
      # Count an empty line only if it directly follows another empty line.
      elif not row and not is_separated:
        layout.empty_at.append(line.number)
      is_separated = bool(row)
      document += bool(row)
      rows = []
    return layout

  def log(self, path: str) -> None:
    """Warns about the lines that are not words."""
    for numbers, fault in (
      (self.empty_at, "skipped %d empty sentences"),
      (self.comments, "%d lines that begin with # are comments, not words"),
      (
        self.blanks,
        "%d words of white space, which have no word pieces, are left out",
      ),
    ):
      if numbers:
        logging.warning(
          f"%s: {fault}, the first at line %d", path, len(numbers), numbers[0]
        )


class _Kinds:
  """Distinguishes the words of a file from comments and blank words.

  Attributes:
    width: the number of columns of the first word; None if it is unknown.
  """

  def __init__(self, lines: list[_Line]):
    words = [
      line
      for line in lines
      if line.row
      and line.row[0] != DOCUMENT
      and not line.row[0].startswith("#")
      and line.text[0] not in _SPACE
    ]
    self.width = len(words[0].row) if words else None
    self._has_tabs = bool(words) and "\t" in words[0].text.strip(_SPACE)
    # The values of each column but the first, for words.
    columns = zip(*(x.row for x in words if len(x.row) == self.width))
    self._values = [set(column) for column in columns][1:]

  def is_comment(self, line: _Line) -> bool:
    """Returns whether a line that precedes a sentence is a comment.

    It begins with #, and has a different number of columns than words, or is
    "# key = value", or lacks their tabs, or has no value in common with them.
    """
    row = line.row
    if not self.width or not row[0].startswith("#"):
      return False
    if len(row) != self.width or self.width == 1:
      return len(row) != self.width
    if self._has_tabs and "\t" not in line.text.strip(_SPACE):
      return True
    if row[0] == "#" and row[2:3] == ["="]:
      return True
    return not any(map(set.__contains__, self._values, row[1:]))

  def is_blank(self, line: _Line) -> bool:
    """Returns whether the word of a line is white space."""
    is_indented = line.text[:1] in tuple(_SPACE)
    if not self.width:
      return False
    return is_indented and len(line.row) == self.width - 1


def _is_conllu_extra(row: list[str]) -> bool:
  """Returns whether columns are a word range or an empty node of CoNLL-U."""
  is_conllu = len(row) == _CONLLU_COLUMNS
  return is_conllu and _CONLLU_EXTRA.fullmatch(row[0]) is not None


def parse(
  lines: Iterable[tuple[int, str]],
  path: str,
  reader: label_schemes.LabelReader,
  *,
  labelled: bool | None,
  word_column: int = 0,
  label_column: int = -1,
) -> Iterator[tuple]:
  """Yields (document, line numbers, words, labels or None) of each sentence.

  Raises InputError: a column is missing, lines differ in their number of
  columns, a label does not follow the scheme, or the file has no sentence. The
  message names file and line of the first fault in each sentence.

  Args:
    lines: pairs of a line number, from 1, and a line.
    path: the file of the lines, for messages.
    reader: the reader of the labels.
    labelled: see data.read.
    word_column, label_column: column numbers; negative ones count from the end.
  """
  layout = Layout.of(lines)
  require_sentences(layout.blocks, path)
  layout.log(path)
  line, row = layout.blocks[0][1][0]
  width = len(row)
  used = {"--word_column": word_column}
  # A single column has only words.
  if labelled or (labelled is None and width > 1):
    used["--label_column"] = label_column
  for flag, column in used.items():
    if not -width <= column < width:
      raise errors.InputError(
        f"{path}:{line}: {flag}={column}, but the column count is {width}; "
        f"pass a number from {-width} to {width - 1}"
      )
  faults = errors.Faults()
  for document, rows in layout.blocks:
    with faults.collected():
      places = [f"{path}:{number}" for number, _ in rows]
      for (_, row), place in zip(rows, places):
        if len(row) != width:
          raise errors.InputError(
            f"{place}: column count {len(row)}, but {width} in line {line}; "
            "every word needs all columns, and an empty line ends a sentence"
          )
      words, *labels = ([row[n] for _, row in rows] for n in used.values())
      for column_labels in labels:
        refuse_sentences(words, column_labels, places, reader.scheme)
      labels = [reader.read(each, places) for each in labels]
      numbers = [number for number, _ in rows]
      yield document, numbers, words, labels[0] if labels else None
  faults.refuse(path)


def require_sentences(sentences: list, path: str) -> None:
  """Raises InputError if a file has no sentence."""
  if not sentences:
    raise errors.InputError(
      f"{path} holds no sentence, only empty lines or rejected examples"
    )


def refuse_sentences(
  words: list[str], labels: list[str], places: list[str], scheme: str
) -> None:
  """Raises InputError if a "word" is a sentence, with a label for each word."""
  for word, label, place in zip(words, labels, places):
    parts = label.split()
    if len(parts) == len(word.split()) > 1 and all(
      label_schemes.is_label(part, scheme) for part in parts
    ):
      raise errors.InputError(
        f"{place}: the word {word!r:.40} has {len(parts)} words, and its label "
        f"{label!r:.40} as many labels; write each word with its label in a "
        "line of its own"
      )


def with_predictions(
  lines: Iterable[str], predicted: list[list[str]], scheme: str
) -> Iterator[str]:
  """Yields lines with the predicted labels as an additional column.

  Args:
    lines: the lines that `parse` read.
    predicted: the labels of each sentence.
    scheme: the scheme of the labels.

  Yields:
    Lines with a newline. Empty lines and comments do not change. If a label has
    a blank, tabs separate the columns of all other lines. A -DOCSTART-
    line gets "O", because conlleval needs equal numbers of columns. A range or
    an empty node of CoNLL-U gets "_", and a word of white space the label of
    the entity around it.
  """
  # Raw sentences have several words with the same line number.
  numbered = list(enumerate(lines))
  layout = Layout.of(numbered)
  label_of: dict[int, str] = {}
  for (_, rows), labels in zip(layout.blocks, predicted, strict=True):
    label_of |= zip((number for number, _ in rows), labels, strict=True)
  blanks = set(layout.blanks)
  for number in layout.blanks:
    # An earlier blank word already has its label.
    following = next(n for n in itertools.count(number + 1) if n not in blanks)
    label_of[number] = label_schemes.between(
      label_of.get(number - 1, _OUTSIDE),
      label_of.get(following, _OUTSIDE),
      scheme,
    )
  has_blanks = any(" " in label for part in predicted for label in part)
  for number, line in numbered:
    row, label = split(line), label_of.get(number)
    if row[:1] == [DOCUMENT]:
      label = _OUTSIDE
    elif _is_conllu_extra(row):
      label = "_"
    if label is not None:
      # A word of white space is the part before the first tab.
      text = line.rstrip(_SPACE) if number in blanks else line.strip(_SPACE)
      separator = "\t" if has_blanks or "\t" in text else " "
      if has_blanks:
        line = "\t".join(row if number not in blanks else ["", *row])
      line = line.rstrip(_SPACE) + separator + label
    yield f"{line}\n"
