"""Splits texts into words, and converts spans of characters to labels and back.

No TensorFlow.
"""

import functools
from typing import Any

import tokenization
from common import errors
from tagging import scores

# Keys under which spaCy, Prodigy, doccano and Label Studio store the spans.
NAMES = ("entities", "spans", "label", "labels")
_BASIC = tokenization.BasicTokenizer(do_lower_case=False)


def word_places(text: str, *, at_punctuation: bool = True) -> list:
  """Returns (start, end) of each word in a text, split as in tokenization.py.

  With `at_punctuation`, each punctuation mark and Han character is a word.
  """
  spans, start, end = [], None, 0
  for index, char in enumerate(text):
    role = _role(char)
    is_alone = at_punctuation and role == "alone"
    if start is not None and (is_alone or role == "space"):
      spans.append((start, end))
      start = None
    if is_alone:
      spans.append((index, index + 1))
    elif role in ("letter", "alone"):
      start = index if start is None else start
      end = index + 1
  return spans if start is None else [*spans, (start, end)]


@functools.lru_cache(1 << 16)
def _role(char: str) -> str:
  """Returns a character's role: "letter", "space", "alone" or "nothing"."""
  words = _BASIC.tokenize(f"a{char}b")
  # The tokenizer removes a character with the role "nothing" from words.
  roles = {1: "letter" if words != ["ab"] else "nothing", 2: "space"}
  return roles.get(len(words), "alone")


def words_of(text: str) -> list[str]:
  """Returns the words of a text, including punctuation marks."""
  return [text[start:end] for start, end in word_places(text)]


def of_label_studio(task: dict) -> dict:
  """Adds `text` and `entities` to a task of Label Studio's JSON export.

  `entities` has the spans of the first annotation that was not cancelled; if
  all were cancelled, the key is missing. Raises InputError: the task has
  another format.
  """
  try:
    if "text" not in (values := task["data"]):
      raise errors.InputError(
        "the data of this Label Studio task have no field 'text'; rename the "
        f"field with the text (fields: {', '.join(values) or 'none'})"
      )
    annotations = [
      [part["value"] for part in annotation["result"] if part.get("value")]
      for annotation in task["annotations"]
      if not annotation.get("was_cancelled")
    ]
    entities = [
      {"entities": [value for value in parts if "labels" in value]}
      for parts in annotations[:1]
    ]
  except (KeyError, TypeError, AttributeError) as error:
    raise errors.InputError(
      "not a task of Label Studio: expected an object 'data' and a list "
      "'annotations' of objects with a 'result'; export it as JSON or JSON-MIN"
    ) from error
  return {**task, "text": values["text"], **(entities[0] if entities else {})}


def labels_of(spans: Any, text: str, place: str) -> list[str]:
  """Returns IOB2 labels for the words of a text.

  Args:
    spans: list of [start, end, label], or of objects with these keys.
    place: file and line, for messages.

  Raises:
    InputError: `spans` is not such a list, or a span does not begin and end at
      word boundaries, or overlaps another span.
  """
  if not isinstance(spans, list):
    raise errors.InputError(
      f"{place}: no list of spans under {', '.join(map(repr, NAMES[:-1]))} or "
      f"{NAMES[-1]!r}; got {spans!r:.40}; annotate the text, or write [] for "
      "no entities"
    )
  places = word_places(text)
  first_of = {start: number for number, (start, _) in enumerate(places)}
  last_of = {end: number for number, (_, end) in enumerate(places)}
  labels = ["O"] * len(places)
  for span in spans:
    if isinstance(span, dict):
      label = span.get("label", span.get("labels"))
      if isinstance(label, list) and len(label) == 1:
        label = label[0]
      # doccano writes start_offset and end_offset.
      ends = (span.get(e, span.get(f"{e}_offset")) for e in ("start", "end"))
      span = [*ends, label]
    if (
      not isinstance(span, list)
      or [*map(type, span)] != [int, int, str]
      or (not span[2].strip())
    ):
      raise errors.InputError(
        f"{place}: {span!r:.60} is not a span; expected a list such as [0, 4, "
        '"ORG"], or an object with start, end and label'
      )
    start, end, label = span
    first, last = first_of.get(start), last_of.get(end)
    if first is None or last is None or last < first:
      raise errors.InputError(
        f"{place}: the span {start} to {end}, {text[start:end]!r:.40}, does "
        "not begin and end at word boundaries (white space and punctuation "
        "separate words); fix its start and end"
      )
    if set(labels[first : last + 1]) != {"O"}:
      raise errors.InputError(
        f"{place}: the span {start} to {end}, {text[start:end]!r:.40}, "
        "overlaps an earlier span; a word can have only one label"
      )
    labels[first] = f"B-{label}"
    labels[first + 1 : last + 1] = [f"I-{label}"] * (last - first)
  return labels


def spans_of(labels: list[str], text: str, scheme: str) -> list[list]:
  """Returns [start, end, type] of each entity in the labels of a text."""
  places = word_places(text)
  return [
    [places[entity.start][0], places[entity.end - 1][1], entity.type]
    for entity in scores.finder(scheme)(labels)
    if entity.type != "O"
  ]
