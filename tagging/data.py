"""Reads sentences with labels from files, and adds predicted labels to files.

CoNLL columns ("conll"):

  -DOCSTART- -X- O O        begins a document

  U.N. NNP I-NP I-ORG       a word and its labels, one per column

Raw sentences, one per line ("text"), and JSON lines ("jsonl"):

  {"words": ["U.N.", "official"], "labels": ["B-ORG", "O"], "id": 7}

`tokens` means the same as `words`; `ner_tags` (Hugging Face's name), `tags` and
`ner` mean the same as `labels`. Prediction needs no labels. Consecutive lines
with the same `document` form a document. A predictions file keeps all keys of
its input. A .json file may have an array of such objects. In the formats of
spaCy, doccano, Prodigy and Label Studio, spans of characters become IOB2
labels, and predicted labels become spans:

  {"text": "U.N. official", "entities": [[0, 4, "ORG"]]}
  {"text": "U.N. official", "spans": [{"start": 0, "end": 4, "label": "ORG"}]}

`columns` describes the columns, and `label_schemes` the labels.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from absl import logging

import tokenization
from common import errors, file_io, json_files
from tagging import columns, label_schemes, text_spans

_WORDS, _LABELS = ("words", "tokens"), ("labels", "ner_tags", "tags", "ner")
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
  outside_label: str = label_schemes.OUTSIDE,
  label_names: Sequence[str] = (),
  **column_numbers,
) -> list[Sentence]:
  """Reads the sentences of a file.

  Raises InputError: the file has no sentences, or has invalid lines, which the
  message lists.

  Args:
    file_format: one of flag_values.TAGGING_FORMATS; None infers it from the
      file's name.
    labelled: True requires labels, False ignores them. None reads labels if the
      first JSON object has them, or if there are at least two columns.
    scheme: one of label_schemes.SCHEMES; labels must follow it. "none" accepts
      any labels, such as parts of speech. "plain" has types without tags.
    lenient: whether to accept labels in an order that the scheme does not
      allow. The log has the number of such labels.
    outside_label: the file's label of words outside of entities, read as O.
    label_names: the names of numeric labels in JSON.
    **column_numbers: word_column and label_column of `columns.parse`.
  """
  file_format = format_of(path, file_format)
  reader = label_schemes.LabelReader(
    scheme,
    lenient=lenient,
    outside=outside_label,
    advice="check --label_column, or " if file_format == "conll" else "",
  )
  if file_format == "jsonl":
    sentences = _parse_json(path, labelled, reader, label_names)
  else:
    lines = file_io.read_lines(path)
    if file_format == "text":
      lines, labelled = iter(_text_lines(path)), False
    sentences = [
      Sentence(*parts)
      for parts in columns.parse(
        lines, path, reader, labelled=labelled, **column_numbers
      )
    ]
  reader.log(path)
  if file_format == "conll" and all(
    s.words == [*map(str, range(1, len(s.words) + 1))] for s in sentences
  ):
    logging.warning(
      "%s: the words of each sentence are the numbers 1, 2, ...; pass a "
      "different --word_column, such as 1",
      path,
    )
  return sentences


def _text_lines(path: str) -> list[tuple[int, str]]:
  """Returns (line number, word) for all words of a file of raw sentences.

  Each punctuation mark and each Han character is a separate word. An empty word
  ends each sentence, like an empty line in columns. Raises InputError: a line
  is empty.
  """
  split = tokenization.BasicTokenizer(do_lower_case=False).tokenize
  rows: list = []
  faults = errors.Faults()
  for number, line in file_io.read_lines(path):
    with faults.collected():
      errors.require_text(line, f"{path}:{number}")
      rows += ((number, word) for word in [*split(line), ""])
  faults.refuse(path)
  return rows


# JSON lines.


def _parse_object(line: str, place: str) -> dict:
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


def _entry(values: dict, names: Sequence[str]) -> Any:
  """Returns the value of the first name that is present, or None."""
  return next((values[name] for name in names if name in values), None)


def _words_of(values: dict) -> Any:
  """Returns an object's list of words, or None if it has a text instead."""
  words = _entry(values, _WORDS)
  # Prodigy's objects have a text, and tokens that are objects, not words.
  are_objects = isinstance(words, list) and {*map(type, words)} == {dict}
  return None if are_objects and _are_texts([values.get("text")]) else words


def _has_labels(values: dict) -> bool:
  """Returns whether an object of a file to predict has labels."""
  words = _words_of(values)
  if words is None:
    return _entry(values, text_spans.NAMES) is not None
  labels = _entry(values, _LABELS)
  # Other programs also use the short names for something else.
  is_sure = _entry(values, _LABELS[:2]) is not None
  return is_sure or (isinstance(labels, list) and len(labels) == len(words))


def _are_texts(values: Any) -> bool:
  return isinstance(values, list) and all(isinstance(v, str) for v in values)


def _sentence_of(
  values: dict,
  number: int,
  place: str,
  *,
  labelled: bool,
  reader: label_schemes.LabelReader,
  label_names: Sequence[str],
  document: int,
) -> Sentence:
  """Returns the Sentence in an object that `_parse_object` returned.

  `number` is the line's number, from 1; `place` is file and line, for messages;
  for `label_names` see `read`. Raises InputError: a label is missing or not in
  the scheme, or a span is invalid.
  """
  words, labels = _words_of(values), None
  if words is None:
    text = values["text"]
    words = text_spans.words_of(text)
    if labelled and reader.scheme != "iob2":
      raise errors.InputError(
        f"{place}: spans of characters become iob2 labels; leave out "
        f"--scheme={reader.scheme}"
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
    columns.refuse_sentences(words, labels, places, reader.scheme)
    labels = reader.read(labels, places)
  # All words of the sentence are on the same line.
  return Sentence(document, [number] * len(words), words, labels)


def _named(labels: Any, names: Sequence[str], place: str) -> Any:
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


def _json_lines(path: str) -> Iterable[tuple[int, str]]:
  """Returns (line, or from 1 the position in the array, JSON) per object."""
  lines = (pair for pair in file_io.read_lines(path) if pair[1].strip())
  first = next(lines, None) if path.endswith(".json") else None
  if first and first[1].lstrip().startswith("["):
    return enumerate(map(json_files.line, json_files.read(path, list)), 1)
  return itertools.chain([first] if first else [], lines)


def _parse_json(
  path: str,
  labelled: bool | None,
  reader: label_schemes.LabelReader,
  label_names: Sequence[str],
) -> list[Sentence]:
  sentences: list = []
  document, last, faults = 0, None, errors.Faults()
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
        labelled = _has_labels(values)
      # The first sentence always begins document 0.
      document += bool(sentences) and values.get("document") != last
      last = values.get("document")
      sentences.append(
        _sentence_of(
          values,
          number,
          place,
          labelled=labelled,
          reader=reader,
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
  columns.require_sentences(sentences, path)
  return sentences


def _with_labels(values: dict, predicted: list[str], scheme: str) -> str:
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
  lines = _text_lines(path) if is_text else file_io.read_lines(path)
  return columns.with_predictions(
    (line for _, line in lines), predicted, scheme
  )


# Labels.


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
