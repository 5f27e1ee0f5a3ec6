"""Converts lines of text to model inputs, in blocks of thousands of tokens.

A line is one text, or two texts separated by " ||| ". Lines are read on demand,
so memory holds only one block.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import tokenization
from common import errors, file_io
from text import cut_texts, input_sequences


class Example(NamedTuple):
  """One input sequence of the model; `line` is its line number, from 0."""

  line: int
  input_ids: list[int]
  segment_ids: list[int]


# Takes a line number (from 1) and the line.
Encoder = Callable[[int, str], list[Example]]


def split_pair(line: str) -> tuple[str, str | None]:
  """Splits a line into its two texts; a single text gives (text, None).

  As in the original: white space at both ends of the line is removed, and the
  line is split at the last separator.
  """
  # Without a separator, rpartition returns the whole line as the last part.
  text_a, separator, text_b = line.strip().rpartition(
    input_sequences.TEXT_SEPARATOR
  )
  return (text_a, text_b) if separator else (text_b, None)


def make_encoder(
  tokenizer: tokenization.FullTokenizer,
  max_seq_length: int,
  cut: cut_texts.CutTexts | None = None,
  prompt: str = "",
) -> Callable[..., tuple[list[int], list[int]]]:
  """Returns a function that encodes one or two texts.

  It takes a text and an optional second text, truncates them to max_seq_length
  (pairs as `truncate_pair` does), and returns (input_ids, segment_ids). It adds
  the texts to `cut`, and puts `prompt` before the first text.
  Raises InputError: no room for the special tokens of a pair.
  """
  frame = tokenizer.frame
  if frame.room(max_seq_length) < 0:
    raise errors.InputError(
      f"--max_seq_length={max_seq_length} is too short for the special tokens "
      f"of a pair; pass {2 + frame.between} or more"
    )

  def encode(
    text_a: str, text_b: str | None = None
  ) -> tuple[list[int], list[int]]:
    ids_a = tokenizer.encode(prompt + text_a)
    ids_b = tokenizer.encode(text_b or "")
    if cut:
      room = frame.room(max_seq_length, bool(ids_b))
      cut.add(len(ids_a) + len(ids_b) > room)
    # As in the original: a second text without word pieces is ignored.
    if ids_b:
      input_sequences.truncate_pair(
        ids_a,
        ids_b,
        frame.room(max_seq_length),
        odd_to_longer=frame.odd_to_longer,
      )
    else:
      # Without a second [SEP], there is room for one more word piece.
      ids_a = ids_a[: frame.room(max_seq_length, False)]
    return input_sequences.build_inputs(ids_a, ids_b or None, frame=frame)

  return encode


def make_line_encoder(
  tokenizer: tokenization.FullTokenizer,
  max_seq_length: int,
  *,
  as_pair: bool = False,
  cut: cut_texts.CutTexts | None = None,
  prompt: str = "",
) -> Encoder:
  """Returns a function that encodes a line's one or two texts as one Example.

  With `as_pair`, each of the two texts becomes a separate Example, and a line
  with a single text raises InputError. For `cut` and `prompt` see
  `make_encoder`.
  """
  inputs = make_encoder(tokenizer, max_seq_length, cut, prompt)

  def encode(number: int, line: str) -> list[Example]:
    texts = split_pair(line)
    if not as_pair:
      return [Example(number - 1, *inputs(*texts))]
    if texts[1] is None:
      raise errors.InputError(
        f"no pair in {line!r}; write two texts with "
        f"{input_sequences.TEXT_SEPARATOR!r} between them"
      )
    return [Example(number - 1, *inputs(text)) for text in texts]

  return encode


def read_examples(path: str, encode: Encoder) -> Iterator[Example]:
  """Yields the Examples of each line of a UTF-8 file.

  Raises InputError: no such file, or an invalid line (not UTF-8, or no pair).
  """
  for number, line in file_io.read_lines(path):
    with errors.placed(f"{path}:{number}"):
      examples = encode(number, line)
    yield from examples


def chosen_examples(
  path: str, encode: Encoder, numbers: list[int]
) -> list[Example]:
  """Returns the Examples of the lines `numbers` (from 0), in this order.

  Raises InputError: see `read_examples`, or the file has no such line.
  """
  # Each line is one Example, so stop reading after the highest number.
  lines = itertools.islice(read_examples(path, encode), max(numbers) + 1)
  examples = {each.line: each for each in lines if each.line in numbers}
  if missing := set(numbers) - examples.keys():
    raise errors.InputError(
      f"--picture_lines: {path} has no line {min(missing)} (the first is 0)"
    )
  return [examples[number] for number in numbers]


def blocks(
  examples: Iterable[Example], max_tokens: int, *, group: int = 1
) -> Iterator[list[Example]]:
  """Yields lists of examples; a list ends when it has `max_tokens` tokens.

  It never ends within `group` consecutive examples that belong together.
  """
  block, tokens = [], 0
  for example in examples:
    block.append(example)
    tokens += len(example.input_ids)
    if tokens >= max_tokens and len(block) % group == 0:
      yield block
      block, tokens = [], 0
  if block:
    yield block
