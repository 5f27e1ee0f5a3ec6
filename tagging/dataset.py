"""CoNLL columns -> words -> windows of word pieces with labels, and back.

  -DOCSTART- -X- O O        begins a document

  U.N. NNP I-NP I-ORG       a word and its labels, a column each
  official NN I-NP O
                            an empty line ends a sentence

A word's label is that of its first word piece, as in the paper (arXiv
1810.04805, section 5.3); its other pieces, [CLS], [SEP] and context have none.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from absl import logging

import tokenization
from common import choices, errors, file_io
from tagging import scoring
from text import input_sequences

SCHEMES = choices.TAGGING_SCHEMES
# The label id of positions without a label to learn or to predict.
NO_LABEL = -1

_DOCUMENT = "-DOCSTART-"
_TAGS = {"iob1": "IOB", "iob2": "IOB", "iobes": "IOBES"}
_SPACE = " \t\r"


class Sentence(NamedTuple):
  """The words of a sentence, as in its file.

  Attributes:
    document: number of the document, from 0; the lines before the first
      -DOCSTART- line are a document, too.
    lines: the number of each word's line, from 1.
    words: in their order.
    labels: one for each word, or None where the file has no column of them.
  """

  document: int
  lines: list[int]
  words: list[str]
  labels: list[str] | None


def columns(line: str) -> list[str]:
  """Returns the columns of a line: between tabs if it has one, else spaces.

  No-break spaces are parts of words.
  """
  # Not str.strip, which takes off no-break spaces too.
  line = line.strip(_SPACE)
  if "\t" in line:
    return [column.strip(_SPACE) for column in line.split("\t")]
  return [column for column in line.split(" ") if column]


def starts_document(line: str) -> bool:
  """Whether a line is a -DOCSTART- line."""
  return columns(line)[:1] == [_DOCUMENT]


def count_columns(path: str) -> int:
  """Returns the columns of the first word of a file, 0 if it has none."""
  for _, line in file_io.read_lines(path):
    row = columns(line)
    if row and row[0] != _DOCUMENT:
      return len(row)
  return 0


def read_sentences(path: str, **options) -> list[Sentence]:
  """Reads a file of columns in UTF-8, see `parse_sentences`."""
  return parse_sentences(file_io.read_lines(path), path, **options)


def text_rows(line: str, place: str) -> list[str]:
  """Returns the rows of columns of a raw sentence, the empty one included.

  Each mark of punctuation and each Han character is a word of its own.

  Raises:
    InputError: the line is empty.
  """
  errors.require_text(line, place)
  return [*tokenization.BasicTokenizer(do_lower_case=False).tokenize(line), ""]


def text_lines(path: str) -> list[tuple[int, str]]:
  """Returns (line number, row) of the `text_rows` of a file's lines."""
  rows, faults = [], errors.Faults()
  for number, line in file_io.read_lines(path):
    with faults.collected():
      rows += ((number, r) for r in text_rows(line, f"{path}:{number}"))
  faults.refuse(path)
  return rows


def parse_sentences(
  lines: Iterable[tuple[int, str]], path: str, *, word_column: int = 0,
  label_column: int = -1, scheme: str = "iob2", labelled: bool = True
) -> list[Sentence]:
  """Makes sentences of columns.

  Args:
    lines: (number from 1, line) each.
    path: the file that they are from, for the errors.
    word_column, label_column: which ones, from 0; negative from the end.
    scheme: one of SCHEMES; labels are checked to follow it. "none" takes any
      labels: parts of speech, say.
    labelled: False to read words alone.

  Raises:
    InputError: no such column, lines with more or fewer columns than the
      others, labels that are not of the scheme, or no sentence at all. File
      and line are named, of the first fault in each sentence.
  """
  blocks, empty_at, width = _blocks(lines)
  if not blocks:
    raise errors.InputError(f"{path} holds no sentence, only empty lines")
  if empty_at:
    logging.warning(
      "%s: %d empty sentences skipped, the first at line %d",
      path, len(empty_at), empty_at[0],
    )
  _check_column(path, "--word_column", word_column, width)
  if labelled:
    _check_column(path, "--label_column", label_column, width)
  sentences, faults = [], errors.Faults()
  for document, rows in blocks:
    with faults.collected():
      _check_widths(path, rows, width)
      sentences.append(
        _sentence(path, document, rows, word_column=word_column,
                  label_column=label_column if labelled else None,
                  scheme=scheme)
      )
  faults.refuse(path)
  return sentences


def _blocks(lines):
  """Cuts lines at the empty ones and at -DOCSTART-.

  Returns:
    List of (document, [(line number, columns), ...]); the numbers of the
    lines where a sentence is empty; the first word's line and how many columns
    it has, which all others must have too.
  """
  blocks, empty_at = [], []
  rows, document, width = [], 0, None
  is_separated = True
  for number, line in lines:
    row = columns(line)
    if row and row[0] != _DOCUMENT:
      # The first word's: what all others must have.
      width = width or (number, len(row))
      rows.append((number, row))
      continue
    if rows:
      blocks.append((document, rows))
    # Two empty lines in a row; one ends a sentence, or follows -DOCSTART-.
    elif not row and not is_separated:
      empty_at.append(number)
    is_separated = bool(row)
    document += bool(row)
    rows = []
  if rows:
    blocks.append((document, rows))
  return blocks, empty_at, width


def _check_widths(path, rows, width):
  first, expected = width
  for number, row in rows:
    if len(row) != expected:
      raise errors.InputError(
        f"{path}:{number}: {len(row)} columns, but line {first} has "
        f"{expected}; every word needs all columns, and an empty line ends a "
        "sentence"
      )


def _check_column(path, flag, column, width):
  first, count = width
  if not -count <= column < count:
    raise errors.InputError(
      f"{path}:{first}: {flag}={column}, but there are {count} columns; pass "
      f"a number from {-count} to {count - 1}"
    )


def _sentence(path, document, rows, *, word_column, label_column, scheme):
  lines = [number for number, _ in rows]
  labels = None
  if label_column is not None:
    labels = [row[label_column] for _, row in rows]
    check_labels(labels, scheme, [f"{path}:{number}" for number in lines])
  words = [row[word_column] for _, row in rows]
  return Sentence(document, lines, words, labels)


def check_labels(labels: list[str], scheme: str, places: list[str]) -> None:
  """Refuses the labels of a sentence that a scheme does not allow.

  Args:
    labels: of its words.
    scheme: one of SCHEMES.
    places: file and line of each label, for the error.

  Raises:
    InputError: a label is none of the scheme, or must not follow the one
      before it: the file is in another scheme.
  """
  if scheme == "none":
    return
  before = "O"
  for label, place in zip(labels, places):
    tag, kind = scoring.split_label(label)
    # A string of tags, as a tuple of them: "" is in every string.
    if tag not in tuple(_TAGS[scheme]) or (label != "O") != bool(kind):
      known = ", ".join(f"{tag}-TYPE" for tag in _TAGS[scheme] if tag != "O")
      raise errors.InputError(
        f"{place}: {label!r} is no label of {scheme}, which has O, {known}; "
        "check --label_column, or pass another --scheme (none for labels of "
        "single words, such as parts of speech)"
      )
    _check_follows(before, label, scheme, place)
    before = label
  # Only there an entity can be left open: it needs its E.
  if scheme == "iobes":
    _check_follows(before, "O", scheme, f"{places[-1]} (end of the sentence)")


def _check_follows(before, label, scheme, place):
  if may_follow(before, label, scheme):
    return
  raise errors.InputError(
    f"{place}: {label} follows {before}, which {scheme} does not have; fix "
    f"the labels, or pass another --scheme: {', '.join(SCHEMES)}"
  )


def may_follow(before: str, label: str, scheme: str) -> bool:
  """Whether a scheme allows `label` after `before`.

  IOB1 has B only between two neighbours of one kind, IOB2 at each beginning;
  IOBES ends an entity of several words with E and marks a single word with S.
  """
  tag, kind = scoring.split_label(label)
  tag_before, kind_before = scoring.split_label(before)
  inside = tag_before in ("B", "I") and kind == kind_before
  if scheme == "iob1":
    return tag != "B" or inside
  if scheme == "iob2":
    return tag != "I" or inside
  if tag_before in ("B", "I"):
    return inside and tag in ("I", "E")
  return tag in ("O", "B", "S")


def label_list(sentences: list[Sentence]) -> list[str]:
  """Returns the labels of training sentences, O first, the rest sorted."""
  labels = {label for sentence in sentences for label in sentence.labels}
  # A function of the set of labels, so that a resumed run numbers them alike.
  return sorted(labels, key=lambda label: (label != "O", label))


def label_ids(
  sentences: list[Sentence], labels: list[str], path: str
) -> list[list[int]]:
  """Returns the numbers of the labels of each sentence, as `labels` has them.

  Raises:
    InputError: a label is none of the model's `labels` (each is named once,
      with the line of its first place in `path`).
  """
  number_of = {label: number for number, label in enumerate(labels)}
  faults, unknown = errors.Faults(), set()
  for sentence in sentences:
    for line, label in zip(sentence.lines, sentence.labels):
      # Each unknown label once, at its first place.
      if label not in number_of and label not in unknown:
        unknown.add(label)
        faults.found.append(
          f"{path}:{line}: {label!r} is none of the labels that the model was "
          f"trained with ({', '.join(labels)}); check --label_column, or "
          "train on data that have it"
        )
  faults.refuse(path)
  return [[number_of[label] for label in s.labels] for s in sentences]


def warn_of_one_document(sentences: list[Sentence], path: str) -> None:
  """Logs a warning if no -DOCSTART- line separates the documents of a file."""
  if sentences[-1].document == sentences[0].document:
    logging.warning(
      "%s: all of it counts as one document, since no %s line separates "
      "documents", path, _DOCUMENT,
    )


class Window(NamedTuple):
  """One input of the model, and the words whose labels it gives.

  Attributes:
    input_ids: T of them, [CLS] and [SEP] included.
    sentence: number of the sentence in the file.
    first_word: number of the first word in it.
    positions: for each word of the window, the index of its first piece.
  """

  input_ids: list[int]
  sentence: int
  first_word: int
  positions: list[int]


def make_windows(
  sentences: list[Sentence], tokenizer: tokenization.FullTokenizer,
  max_seq_length: int, *, document_context: bool = False, path: str = ""
) -> list[Window]:
  """Cuts sentences into windows; each word belongs to exactly one.

  A sentence that is too long is cut between words. With document_context the
  rest of each window is filled with the words before and after it in the
  document (the paper's "maximal document context"), for the model to read;
  their labels come from other windows.

  Args:
    sentences: of a file, in its order.
    tokenizer: of the model.
    max_seq_length: longest window, in word pieces with [CLS] and [SEP].
    document_context: see above.
    path: the file that they are from, for warnings.

  Returns:
    Windows in the order of the words.

  Raises:
    InputError: a window has no room for a word.
  """
  room = max_seq_length - 2
  if room < 1:
    raise errors.InputError(
      f"--max_seq_length={max_seq_length} leaves no room for a word between "
      "[CLS] and [SEP]; pass 3 or more"
    )
  pieces_of = _make_word_encoder(tokenizer, room, path)
  special = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
  windows = []
  for document in _documents(sentences):
    words = [
      pieces_of(word, line)
      for _, sentence in document
      for word, line in zip(sentence.words, sentence.lines)
    ]
    # A document at a time: context never comes from another one.
    for number, first, start, end in _targets(document, words, room):
      left, right = start, end
      if document_context:
        left, right = widened(words, start, end, room)
      windows.append(
        _window(words[left:right], special, start - left, end - start)
        ._replace(sentence=number, first_word=first)
      )
  return windows


def _documents(sentences):
  """Returns lists of (number, Sentence), one for each document."""
  documents, last = [], None
  for number, sentence in enumerate(sentences):
    if sentence.document != last:
      documents.append([])
      last = sentence.document
    documents[-1].append((number, sentence))
  return documents


def _make_word_encoder(tokenizer, room, path):
  """Returns a function of (word, line) that gives its pieces, never none."""
  (unknown,) = tokenizer.convert_tokens_to_ids([tokenizer.unk_token])

  def encode(word, line):
    # A word of characters that the tokenizer removes still has a label.
    pieces = tokenizer.encode(word) or [unknown]
    # Without a file there is nobody to tell: clients of a server, say.
    if path and len(pieces) > room:
      logging.warning(
        "%s:%d: the word %.20s... has %d word pieces, of which a window holds "
        "the first %d; its label is kept", path, line, word, len(pieces), room,
      )
    return pieces[:room]

  return encode


def _targets(document, words, room):
  """Yields (sentence, first word in it, start, end) of pieces of sentences.

  start and end count the words of the document. Words are taken greedily
  while their pieces fit into a window.
  """
  start = 0
  for number, sentence in document:
    sentence_start, sentence_end = start, start + len(sentence.words)
    while start < sentence_end:
      # Words of 2, 3, 1 and 4 pieces, room for 5: the first two, then the rest.
      end, used = start, 0
      while end < sentence_end and used + len(words[end]) <= room:
        used += len(words[end])
        end += 1
      yield number, start - sentence_start, start, end
      start = end


def widened(
  words: list[list[int]], start: int, end: int, room: int
) -> tuple[int, int]:
  """Takes words from both sides while they fit, as many pieces from each.

  Args:
    words: the word pieces of each word of a document.
    start, end: the words whose labels a window gives.
    room: how many word pieces it holds.

  Returns:
    (start, end) with the context.
  """
  left, right = start, end
  sizes = {"left": 0, "right": 0}
  room -= sum(len(pieces) for pieces in words[start:end])
  open_sides = {"left", "right"}
  while open_sides:
    # The side with fewer pieces; of equal ones the left, sorted first.
    side = min(sorted(open_sides), key=sizes.get)
    place = left - 1 if side == "left" else right
    is_word = 0 <= place < len(words)
    if not is_word or sum(sizes.values()) + len(words[place]) > room:
      # For good: a shorter word further out would leave a gap in the text.
      open_sides.remove(side)
      continue
    sizes[side] += len(words[place])
    left, right = min(left, place), max(right, place + 1)
  return left, right


def _window(words, special, first, count):
  """Joins words to a Window that gives the labels of `count` from `first`."""
  cls_id, sep_id = special
  starts, pieces = [], []
  for word in words:
    starts.append(len(pieces) + 1)  # After [CLS].
    pieces += word
  input_ids, _ = input_sequences.build_inputs(
    pieces, cls_id=cls_id, sep_id=sep_id
  )
  return Window(input_ids, 0, 0, starts[first : first + count])


def predicted_labels(
  sentences: list[Sentence], windows: list[Window], predicted: Sequence,
  labels: list[str]
) -> list[list[str]]:
  """Puts the predictions of all windows together, word by word.

  Args:
    sentences, windows: as given to and by `make_windows`.
    predicted: integers [windows, T], the number of a label at each position.
    labels: those of the model.

  Returns:
    A label for each word of each sentence.
  """
  found = [[] for _ in sentences]
  # Windows come in the order of words, so their labels need only be joined.
  for window, row in zip(windows, predicted, strict=True):
    found[window.sentence] += [labels[row[p]] for p in window.positions]
  return found


def with_column(
  lines: Iterable[str], predicted: list[list[str]]
) -> Iterator[str]:
  """Yields lines, each word's with its prediction as the last column.

  Args:
    lines: those that `parse_sentences` read.
    predicted: the labels of each sentence.

  Yields:
    Lines with their newline. Empty ones stay as they are; a -DOCSTART- line
    gets an O, so that conlleval finds as many columns there.
  """
  labels = (label for sentence in predicted for label in sentence)
  for line in lines:
    row = columns(line)
    if row:
      label = "O" if row[0] == _DOCUMENT else next(labels)
      separator = "\t" if "\t" in line.strip(_SPACE) else " "
      line = f"{line.rstrip(_SPACE)}{separator}{label}"
    yield f"{line}\n"
