"""JSON lines -> sentences, and back with a label for each word.

  {"words": ["U.N.", "official"], "labels": ["B-ORG", "O"], "id": 7}

`tokens` and `ner_tags`, the names that Hugging Face's data sets use, are read
too. `labels` may be absent, and consecutive lines with the same `document` are
one document. All other keys come back with the prediction.
"""

import contextlib
from collections.abc import Iterator

from common import errors, file_io, json_files
from tagging import dataset

PREDICTED = "predicted"
_WORDS, _LABELS = ("words", "tokens"), ("labels", "ner_tags")
_EXPECTED = 'expected such as {"words": ["U.N.", "official"]}'


def parse(line: str | bytes, place: str) -> dict:
  """Returns the object in a line; `place` is its file and number.

  Raises:
    InputError: no JSON, or no list of words in it.
  """
  try:
    values = json_files.parse(line)
  except errors.InputError as error:
    raise errors.InputError(f"{place}: {error}; {_EXPECTED}") from error
  name = _key(values, _WORDS) if isinstance(values, dict) else None
  if name is None or not _are_words(values[name]):
    raise errors.InputError(
      f"{place}: no list of words, each with a character in it, called "
      f"{' or '.join(_WORDS)}; {_EXPECTED}"
    )
  return values


def _key(values, names):
  return next((name for name in names if name in values), None)


def _are_words(words):
  return (
    isinstance(words, list)
    and bool(words)
    and all(isinstance(word, str) and word.strip() for word in words)
  )


def sentence(
  values: dict, number: int, place: str, *, scheme: str, labelled: bool,
  document: int = 0
) -> dataset.Sentence:
  """Returns the sentence of what `parse` returned.

  Args:
    values: see there.
    number: of its line, from 1.
    place: file and line, for the error.
    scheme: one of dataset.SCHEMES, which the labels are checked to follow.
    labelled: whether to read the labels.
    document: number of its document.

  Raises:
    InputError: no label for each word, or one that the scheme does not allow.
  """
  words = values[_key(values, _WORDS)]
  labels = None
  if labelled:
    name = _key(values, _LABELS)
    labels = values.get(name)
    is_list = isinstance(labels, list) and len(labels) == len(words)
    if not is_list or not all(isinstance(label, str) for label in labels):
      raise errors.InputError(
        f"{place}: {len(words)} words need as many labels, each a text, in a "
        f"list called {' or '.join(_LABELS)}; got {labels!r:.60}"
      )
    dataset.check_labels(
      labels, scheme, [f"{place}, word {n}" for n in range(1, len(words) + 1)]
    )
  # A line holds all words of its sentence.
  return dataset.Sentence(document, [number] * len(words), words, labels)


def read_objects(path: str) -> Iterator[tuple[int, dict]]:
  """Yields (line number, object) of every line that is not empty.

  Raises:
    InputError: see `parse`; the file and the line are named.
  """
  for number, line in file_io.read_lines(path):
    if line.strip():
      yield number, parse(line, f"{path}:{number}")


def has_labels(path: str) -> bool:
  """Whether the first sentence of a file has labels."""
  for _, line in file_io.read_lines(path):
    with contextlib.suppress(errors.InputError):  # `read_sentences` says it.
      return _key(parse(line, path), _LABELS) is not None
  return False


def read_sentences(
  path: str, *, scheme: str = "iob2", labelled: bool = True
) -> list[dataset.Sentence]:
  """Reads a file of JSON lines; options as of `sentence`.

  Raises:
    InputError: lines are not as they should be (each is named), or there is
      none.
  """
  sentences, document, last = [], 0, None
  faults = errors.Faults()
  for number, line in file_io.read_lines(path):
    if not line.strip():
      continue
    place = f"{path}:{number}"
    with faults.collected():
      values = parse(line, place)
      name = values.get("document")
      # The first sentence begins document 0, whatever its name.
      document += bool(sentences) and name != last
      last = name
      sentences.append(
        sentence(
          values, number, place,
          scheme=scheme, labelled=labelled, document=document,
        )
      )
  faults.refuse(path)
  if not sentences:
    raise errors.InputError(f"{path} holds no sentence, only empty lines")
  return sentences


def with_labels(values: dict, predicted: list[str]) -> str:
  """Returns the line of JSON of a sentence with its predicted labels."""
  return json_files.line({**values, PREDICTED: predicted})


def with_predictions(path: str, predicted: list[list[str]]) -> Iterator[str]:
  """Yields the lines of a file, each with its labels as `predicted`."""
  objects = (values for _, values in read_objects(path))
  for values, labels in zip(objects, predicted, strict=True):
    yield with_labels(values, labels)
