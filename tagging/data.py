"""Reads sentences with labels from files, and adds predicted labels to files.

CoNLL columns ("conll"):

  -DOCSTART- -X- O O        begins a document

  U.N. NNP I-NP I-ORG       a word and its labels, one per column
  official NN I-NP O
                            an empty line ends a sentence

Raw sentences, one per line ("text"), and JSON lines ("jsonl"):

  {"words": ["U.N.", "official"], "labels": ["B-ORG", "O"], "id": 7}

`tokens` and `ner_tags`, the names in Hugging Face's data sets, mean the same as
`words` and `labels`. Prediction needs no labels. Consecutive lines with the
same `document` form a document. A predictions file keeps all keys of its input.
A .json file may have an array of such objects. In the formats of spaCy,
doccano, Prodigy and Label Studio, spans of characters become IOB2 labels, and
predicted labels become spans:

  {"text": "U.N. official", "entities": [[0, 4, "ORG"]]}
  {"text": "U.N. official", "spans": [{"start": 0, "end": 4, "label": "ORG"}]}

In columns, a line that begins with # is a comment if it precedes a sentence and
has more or fewer columns than lines with words. A file with ten columns is
CoNLL-U, in which ranges (2-3) and empty nodes (3.1) are not words.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from absl import logging

import tokenization
from common import errors, file_io, flag_values, json_files
from tagging import scores, text_spans

SCHEMES = flag_values.TAGGING_SCHEMES
_DOCUMENT = "-DOCSTART-"
_TAGS = {
  "iob1": "IOB",
  "iob2": "IOB",
  "iobes": "IOBES",
  "bilou": "BILUO",
  "bmes": "BMESO",
}
# Maps the tags of BILOU and BMES to the tags of IOBES.
_IOBES = {"L": "E", "U": "S", "M": "I"}
_CONLLU_COLUMNS, _CONLLU_EXTRA = 10, re.compile(r"\d+[-.]\d+")
_SPACE = " \t\r"
_WORDS, _LABELS = ("words", "tokens"), ("labels", "ner_tags")
_EXPECTED = (
  'expected for example {"words": ["U.N.", "official"]}, or {"text": "U.N. '
  'official", "entities": [[0, 4, "ORG"]]}'
)
# Training and evaluation skip examples with these values of Prodigy's `answer`.
_REFUSED = ("reject", "ignore")


class Sentence(NamedTuple):
  """A sentence of a file.

  Attributes:
    document: number of the document. In columns, the sentences before the first
      -DOCSTART- line belong to document 0.
    lines: the number of each word's line, from 1.
    words: the words in order.
    labels: a label for each word, or None if the file has no labels.
  """

  document: int
  lines: list[int]
  words: list[str]
  labels: list[str] | None


def format_of(path: str, file_format: str | None = None) -> str:
  """Returns `file_format` if given, else the format that `path` implies."""
  is_json = path.endswith((".jsonl", ".json"))
  return file_format or ("jsonl" if is_json else "conll")


def read(
  path: str,
  *,
  file_format: str | None = None,
  labelled: bool | None = True,
  scheme: str = "iob2",
  lenient: bool = False,
  label_names: Sequence[str] = (),
  **columns,
) -> list[Sentence]:
  """Reads the sentences of a file.

  Raises InputError: the file has no sentences, or has invalid lines, which the
  message lists.

  Args:
    file_format: one of flag_values.TAGGING_FORMATS; None infers it from the
      file's name.
    labelled: True requires labels, False ignores them. None reads labels if the
      first JSON object has them, or if there are at least two columns.
    scheme: one of SCHEMES; labels must follow it. "none" accepts any labels,
      such as parts of speech. "plain" has types without tags.
    lenient: whether to accept labels in an order that the scheme does not
      allow. The log has the number of such labels.
    label_names: the names of numeric labels in JSON.
    **columns: word_column and label_column of `_parse_columns`.
  """
  file_format = format_of(path, file_format)
  checker = LabelChecker(scheme, lenient)
  if file_format == "jsonl":
    sentences = _parse_json(path, labelled, checker, label_names)
  elif file_format == "text":
    return _parse_columns(_text_lines(path), path, checker, labelled=False)
  else:
    sentences = _parse_columns(
      file_io.read_lines(path), path, checker, labelled=labelled, **columns
    )
  if checker.first_odd:
    logging.warning(
      "%s: %d labels are in an order that %s does not allow; they are scored "
      "as in conlleval; the first: %s",
      path,
      checker.num_odd,
      scheme,
      checker.first_odd,
    )
  if file_format != "jsonl" and all(
    s.words == [*map(str, range(1, len(s.words) + 1))] for s in sentences
  ):
    logging.warning(
      "%s: the words of each sentence are the numbers 1, 2, ...; pass a "
      "different --word_column, such as 1",
      path,
    )
  return sentences


def _require_sentences(sentences, path):
  if not sentences:
    raise errors.InputError(
      f"{path} holds no sentence, only empty lines or rejected examples"
    )


# Columns.


def columns(line: str) -> list[str]:
  """Returns the columns of a line, split at tabs if any, else at spaces.

  No-break spaces belong to words.
  """
  # str.strip without an argument would also remove no-break spaces.
  line = line.strip(_SPACE)
  if "\t" in line:
    return [column.strip(_SPACE) for column in line.split("\t")]
  return [column for column in line.split(" ") if column]


def _text_lines(path):
  """Returns (line number, word) for all words of a file of raw sentences.

  Each punctuation mark and each Han character is a separate word. An empty word
  ends each sentence, like an empty line in columns. Raises InputError: a line
  is empty.
  """
  split, rows = tokenization.BasicTokenizer(do_lower_case=False).tokenize, []
  faults = errors.Faults()
  for number, line in file_io.read_lines(path):
    with faults.collected():
      errors.require_text(line, f"{path}:{number}")
      rows += ((number, word) for word in [*split(line), ""])
  faults.refuse(path)
  return rows


def _parse_columns(
  lines, path, checker, *, labelled, word_column=0, label_column=-1
):
  """Returns the Sentences in columns, see `read`.

  Raises InputError: a column is missing, lines differ in their number of
  columns, a label does not follow the scheme, or the file has no sentence. The
  message names file and line of the first fault in each sentence.

  Args:
    lines: pairs of a line number, from 1, and a line.
    path: the file of the lines, for messages.
    checker: the LabelChecker.
    word_column, label_column: column numbers; negative ones count from the end.
  """
  blocks, empty_at = _blocks(lines)
  _require_sentences(blocks, path)
  if empty_at:
    logging.warning(
      "%s: skipped %d empty sentences, the first at line %d",
      path,
      len(empty_at),
      empty_at[0],
    )
  line, row = blocks[0][1][0]
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
  sentences, faults = [], errors.Faults()
  for document, rows in blocks:
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
        checker.check(column_labels, places)
      sentences.append(
        Sentence(
          document,
          [number for number, _ in rows],
          words,
          labels[0] if labels else None,
        )
      )
  faults.refuse(path)
  return sentences


def _blocks(lines):
  """Splits lines at empty lines and -DOCSTART-; skips lines without a word.

  Returns:
    A list of (document, [(line number, columns), ...]), and a list of the line
    numbers of empty sentences.
  """
  blocks, empty_at, rows, document, is_separated = [], [], [], 0, True
  split = [(number, columns(line)) for number, line in lines]
  width = next(
    (
      len(row)
      for _, row in split
      if row and row[0] != _DOCUMENT and not row[0].startswith("#")
    ),
    None,
  )
  for number, row in itertools.chain(split, [(0, [_DOCUMENT])]):
    if row and row[0] != _DOCUMENT:
      is_comment = not rows and row[0].startswith("#") and len(row) != width
      if not (width and is_comment or _is_conllu_extra(row)):
        rows.append((number, row))
      continue
    if rows:
      blocks.append((document, rows))
    # Count an empty line only if it directly follows another empty line.
    elif not row and not is_separated:
      empty_at.append(number)
    is_separated = bool(row)
    document += bool(row)
    rows = []
  return blocks, empty_at


def _is_conllu_extra(row):
  """Returns whether columns are a word range or an empty node of CoNLL-U."""
  return len(row) == _CONLLU_COLUMNS and _CONLLU_EXTRA.fullmatch(row[0])


def _with_column(lines, words, predicted):
  """Yields the lines of a file with predicted labels as an additional column.

  Args:
    lines: the lines that `_parse_columns` read, with their numbers.
    words: the numbers of the lines with words.
    predicted: the labels of each sentence.

  Yields:
    Lines with a newline. Empty lines and comments do not change. If a label has
    a blank, tabs separate the columns of all other lines. A -DOCSTART-
    line gets "O", because conlleval needs equal numbers of columns. A range or
    an empty node of CoNLL-U gets "_".
  """
  labels = itertools.chain.from_iterable(predicted)
  has_blanks = any(" " in label for part in predicted for label in part)
  for number, line in lines:
    row, label = columns(line), None
    if row and number in words:
      label = next(labels)
    elif row[:1] == [_DOCUMENT]:
      label = "O"
    elif _is_conllu_extra(row):
      label = "_"
    if label is not None:
      separator = "\t" if has_blanks or "\t" in line.strip(_SPACE) else " "
      line = "\t".join(row) if has_blanks else line.rstrip(_SPACE)
      line += separator + label
    yield f"{line}\n"


# JSON lines.


def _parse_object(line, place):
  """Returns the object in a line of JSON; `place` is file and line number.

  Raises InputError: the line is not JSON, or has neither words nor a text.
  """
  try:
    values = json_files.parse(line)
  except errors.InputError as error:
    raise errors.InputError(f"{place}: {error}; {_EXPECTED}") from error
  if isinstance(values, dict) and {"annotations", "data"} <= values.keys():
    with errors.placed(place):
      values = text_spans.of_label_studio(values)
  words = _words_of(values) if isinstance(values, dict) else None
  if (
    words is None
    and isinstance(values, dict)
    and _are_texts([values.get("text")])
  ):
    words = text_spans.words_of(values["text"])
  if not _are_texts(words) or not words or not all(map(str.strip, words)):
    raise errors.InputError(
      f"{place}: no list of non-empty words under "
      f"{' or '.join(map(repr, _WORDS))}; {_EXPECTED}"
    )
  return values


def _entry(values, names):
  """Returns the value of the first name that is present, or None."""
  return next((values[name] for name in names if name in values), None)


def _words_of(values):
  """Returns an object's list of words, or None if it has a text instead."""
  words = _entry(values, _WORDS)
  # Prodigy's objects have a text, and tokens that are objects, not words.
  are_objects = isinstance(words, list) and {*map(type, words)} == {dict}
  return None if are_objects and _are_texts([values.get("text")]) else words


def _are_texts(values):
  return isinstance(values, list) and all(isinstance(v, str) for v in values)


def _sentence_of(
  values, number, place, *, labelled, checker, label_names, document
):
  """Returns the Sentence in an object that `_parse_object` returned.

  `number` is the line's number, from 1; `place` is file and line, for messages;
  for `label_names` see `read`. Raises InputError: a label is missing or not in
  the scheme, or a span is invalid.
  """
  words, labels = _words_of(values), None
  if words is None:
    text = values["text"]
    words = text_spans.words_of(text)
    if labelled and checker.scheme != "iob2":
      raise errors.InputError(
        f"{place}: spans of characters become iob2 labels; leave out "
        f"--scheme={checker.scheme}"
      )
    if labelled:
      labels = text_spans.labels_of(
        _entry(values, text_spans.NAMES), text, place
      )
  elif labelled:
    labels = _named(_entry(values, _LABELS), label_names, place)
    if not _are_texts(labels) or len(labels) != len(words):
      raise errors.InputError(
        f"{place}: expected a list of strings, one label per word, under "
        f"{' or '.join(map(repr, _LABELS))}; got {labels!r:.60}"
      )
    places = [f"{place}, word {n}" for n in range(1, len(words) + 1)]
    checker.check(labels, places)
  # All words of the sentence are on the same line.
  return Sentence(document, [number] * len(words), words, labels)


def _named(labels, names, place):
  """Returns the names of numeric labels; other labels do not change."""
  # Compare types, because isinstance(True, int) is true.
  if not isinstance(labels, list) or {*map(type, labels)} != {int}:
    return labels
  if not names:
    raise errors.InputError(
      f"{place}: labels are numbers; pass their names, in order from 0, with "
      "--label_names=O,B-PER,..."
    )
  if unnamed := {*labels} - {*range(len(names))}:
    raise errors.InputError(
      f"{place}: label {min(unnamed)}, but --label_names has only the labels "
      f"from 0 to {len(names) - 1}"
    )
  return [names[number] for number in labels]


def _json_lines(path):
  """Returns (line, or from 1 the position in the array, JSON) per object."""
  lines = (pair for pair in file_io.read_lines(path) if pair[1].strip())
  first = next(lines, None) if path.endswith(".json") else None
  if first and first[1].lstrip().startswith("["):
    return enumerate(map(json_files.line, json_files.read(path, list)), 1)
  return itertools.chain([first] if first else [], lines)


def _parse_json(path, labelled, checker, label_names):
  sentences, document, last, faults = [], 0, None, errors.Faults()
  # Prediction needs every line, so only training and evaluation skip examples.
  is_for_training, num_refused = bool(labelled), 0
  for number, line in _json_lines(path):
    place = f"{path}:{number}"
    with faults.collected():
      values = _parse_object(line, place)
      if is_for_training and values.get("answer") in _REFUSED:
        num_refused += 1
        continue
      if labelled is None:
        is_text = _words_of(values) is None
        names = text_spans.NAMES if is_text else _LABELS
        labelled = _entry(values, names) is not None
      # The first sentence always begins document 0.
      document += bool(sentences) and values.get("document") != last
      last = values.get("document")
      sentences.append(
        _sentence_of(
          values,
          number,
          place,
          labelled=labelled,
          checker=checker,
          label_names=label_names,
          document=document,
        )
      )
  faults.refuse(path)
  if num_refused:
    logging.warning(
      "%s: skipped %d examples whose answer is %s",
      path,
      num_refused,
      " or ".join(_REFUSED),
    )
  _require_sentences(sentences, path)
  return sentences


def _with_labels(values, predicted, scheme):
  """Returns a sentence's object with its predicted labels as a line of JSON.

  For a text, the labels become spans of characters, [start, end, label].
  """
  is_text = _words_of(values) is None
  return json_files.line(
    {
      **values,
      "predicted": text_spans.spans_of(predicted, values["text"], scheme)
      if is_text
      else predicted,
    }
  )


def with_predictions(
  path: str, file_format: str, predicted: list[list[str]], scheme: str
) -> Iterator[str]:
  """Yields the lines of a file with the predicted labels of its sentences."""
  if file_format == "jsonl":
    return (
      _with_labels(_parse_object(line, f"{path}:{number}"), labels, scheme)
      for (number, line), labels in zip(
        _json_lines(path), predicted, strict=True
      )
    )
  is_text = file_format == "text"
  rows = list(_text_lines(path) if is_text else file_io.read_lines(path))
  words = {number for _, block in _blocks(rows)[0] for number, _ in block}
  return _with_column(rows, words, predicted)


# Labels.


class LabelChecker:
  """Refuses or counts labels that a scheme does not allow.

  Attributes:
    scheme: one of SCHEMES.
    num_odd: number of labels that must not follow the previous label.
    first_odd: place and text of the first such label, or "".
  """

  def __init__(self, scheme: str, lenient: bool = False):
    """With `lenient`, labels in an invalid order are counted, not refused."""
    self.scheme, self._lenient = scheme, lenient
    self.num_odd, self.first_odd = 0, ""

  def check(self, labels: list[str], places: list[str]) -> None:
    """Checks the labels of a sentence.

    `places` has file and line of each label, for messages. Raises InputError: a
    label does not exist in the scheme or, unless lenient, must not follow the
    previous label. The file then probably has a different scheme.
    """
    scheme = self.scheme
    if scheme not in _TAGS:
      return
    before = "O"
    for label, place in zip(labels, places):
      tag, entity_type = scores.split_label(label)
      # Compare with a tuple, because every string contains "".
      if tag not in tuple(_TAGS[scheme]) or (label != "O") != bool(entity_type):
        known = ", ".join(f"{tag}-TYPE" for tag in _TAGS[scheme] if tag != "O")
        raise errors.InputError(
          f"{place}: {label!r} is not a label of {scheme} (O, {known}); "
          "check --label_column, or pass another --scheme (plain for types "
          "without tags, none for labels of single words, such as parts of "
          "speech)"
        )
      self._check_follows(before, label, place)
      before = label
    # In the other schemes, the last word of an entity needs a final tag.
    if scheme not in ("iob1", "iob2"):
      self._check_follows(before, "O", f"{places[-1]} (end of the sentence)")

  def _check_follows(self, before, label, place):
    if may_follow(before, label, self.scheme):
      return
    if not self._lenient:
      raise errors.InputError(
        f"{place}: {label} follows {before}, which {self.scheme} does not "
        "allow; fix the labels, pass --lenient to score them as in conlleval, "
        f"or pass another --scheme: {', '.join(SCHEMES)}"
      )
    self.num_odd += 1
    self.first_odd = self.first_odd or f"{place}: {label} follows {before}"


def may_follow(before: str, label: str, scheme: str) -> bool:
  """Returns whether a scheme allows `label` after `before`.

  IOB1 uses B only between neighbouring entities of the same type, IOB2 at the
  start of each entity. IOBES ends an entity of several words with E, and marks
  an entity of one word with S. BILOU has L and U instead of E and S; BMES has M
  instead of I.
  """
  tag, entity_type = scores.split_label(label)
  tag_before, type_before = scores.split_label(before)
  tag, tag_before = _IOBES.get(tag, tag), _IOBES.get(tag_before, tag_before)
  inside = tag_before in ("B", "I") and entity_type == type_before
  if scheme == "iob1":
    return tag != "B" or inside
  if scheme == "iob2":
    return tag != "I" or inside
  if tag_before in ("B", "I"):
    return inside and tag in ("I", "E")
  return tag in ("O", "B", "S")


def label_list(sentences: list[Sentence]) -> list[str]:
  """Returns the distinct labels in sentences: O first, the others sorted."""
  labels = {label for s in sentences for label in s.labels or ()}
  # Sorting gives a resumed run the same label ids.
  return sorted(labels, key=lambda label: (label != "O", label))


def label_ids(
  sentences: list[Sentence], labels: list[str], path: str
) -> list[list[int]]:
  """Returns each sentence's labels as indices into `labels`.

  Raises InputError: the file `path` has labels that are not among the model's
  `labels`; the message lists each of them with its first line.
  """
  number_of = {label: number for number, label in enumerate(labels)}
  faults, unknown = errors.Faults(), set()
  for sentence in sentences:
    for line, label in zip(sentence.lines, sentence.labels or ()):
      if label not in number_of and label not in unknown:
        unknown.add(label)
        faults.messages.append(
          f"{path}:{line}: {label!r} is not among the labels with which the "
          f"model was trained ({', '.join(labels)}); check --label_column, or "
          "train on data with this label"
        )
  faults.refuse(path)
  return [[number_of[label] for label in s.labels or ()] for s in sentences]
