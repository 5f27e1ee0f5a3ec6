"""Lines of text -> inputs of the model, in batches of nearly equal length.

A line is one text, or two with " ||| " between them. Lines are read when
they are needed: memory holds one *block* of several thousand tokens, whose
lines are sorted by length so that batches have little padding.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import tokenization
from common import errors, file_io
from text import input_sequences


class Example(NamedTuple):
  """One input of the model; `index` is the number of its line, from 0."""

  index: int
  input_ids: list[int]
  segment_ids: list[int]


def split_pair(line: str) -> tuple[str, str | None]:
  """Returns (text, None), or both texts of a line that holds two.

  As in the original: white space at both ends is dropped, and if the separator
  occurs several times, the last one separates the texts.
  """
  # Without a separator rpartition puts the whole line last.
  text_a, separator, text_b = line.strip().rpartition(
    input_sequences.TEXT_SEPARATOR
  )
  return (text_a, text_b) if separator else (text_b, None)


def make_encoder(
  tokenizer: tokenization.FullTokenizer, max_seq_length: int
) -> Callable[[str, str | None], tuple[list[int], list[int]]]:
  """Returns a function of two texts that gives (input_ids, segment_ids).

  The second may be None. Long texts are cut, pairs by `truncate_pair`.

  Raises:
    InputError: no room for a token next to [CLS] and two [SEP].
  """
  if max_seq_length < 3:
    raise errors.InputError(
      f"--max_seq_length={max_seq_length} leaves no room next to [CLS] "
      "and two [SEP]; pass 4 or more"
    )
  cls_id, sep_id = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])

  def encode(text_a, text_b):
    ids_a, ids_b = tokenizer.encode(text_a), tokenizer.encode(text_b or "")
    # As in the original: a second text without any word piece counts as none.
    if ids_b:
      input_sequences.truncate_pair(ids_a, ids_b, max_seq_length - 3)
    else:
      # One [SEP] less, so one piece more.
      ids_a, ids_b = ids_a[: max_seq_length - 2], None
    return input_sequences.build_inputs(
      ids_a, ids_b, cls_id=cls_id, sep_id=sep_id
    )

  return encode


def make_line_encoder(
  tokenizer: tokenization.FullTokenizer,
  max_seq_length: int,
  *,
  as_pair: bool = False,
) -> Callable[[int, str], list[Example]]:
  """Returns a function of a line's number, from 1, and the line.

  It returns one Example, of one text or two; or where a line is taken
  `as_pair`, one for each of its texts: it raises InputError for no pair.

  Raises:
    InputError: as of `make_encoder`.
  """
  inputs = make_encoder(tokenizer, max_seq_length)

  def encode(number, line):
    texts = split_pair(line)
    if as_pair and texts[1] is None:
      raise errors.InputError(
        f"no pair in {line!r}; write two texts with "
        f"{input_sequences.TEXT_SEPARATOR!r} between them"
      )
    parts = [(text, None) for text in texts] if as_pair else [texts]
    return [Example(number - 1, *inputs(*part)) for part in parts]

  return encode


def read_examples(
  path: str, encode: Callable[[int, str], list[Example]]
) -> Iterator[Example]:
  """Yields the Examples of each line of a UTF-8 file; see
  `make_line_encoder`.

  Raises:
    InputError: no such file, bad UTF-8, or no pair; the line is named.
  """
  for number, line in file_io.read_lines(path):
    try:
      yield from encode(number, line)
    except errors.InputError as error:
      raise errors.InputError(f"{path}:{number}: {error}") from error


def count_lines(path: str) -> int:
  """Returns how many lines a file has, all of which are UTF-8.

  Raises:
    InputError: one is not UTF-8: found before the work begins.
  """
  return sum(1 for _ in file_io.read_lines(path))


def chosen_examples(
  examples: Iterable[Example], wanted: list[int], path: str
) -> list[Example]:
  """Returns the Examples of some lines, in the order of `wanted`.

  Raises:
    InputError: the file has no such line.
  """
  found = {}
  for example in examples:
    if example.index in wanted:
      found[example.index] = example
    # All are there: the rest of the file is not read.
    if len(found) == len(set(wanted)):
      return [found[index] for index in wanted]
  missing = min(set(wanted) - found.keys())
  raise errors.InputError(
    f"--picture_lines: {path} has no line {missing}, counted from 0"
  )


def blocks(
  examples: Iterable[Example], max_tokens: int, *, group: int = 1
) -> Iterator[list[Example]]:
  """Cuts a stream of examples into lists of about `max_tokens` tokens.

  Args:
    max_tokens: a list is full when its tokens are as many or more.
    group: number of consecutive examples that stay in one list.

  Yields:
    Lists of Example, none of them empty, in order.
  """
  block, tokens = [], 0
  for example in examples:
    block.append(example)
    tokens += len(example.input_ids)
    # A pair is not cut in two.
    if tokens >= max_tokens and len(block) % group == 0:
      yield block
      block, tokens = [], 0
  if block:
    yield block
