"""Lines of text -> inputs of the model, in batches of nearly equal length.

A line is one text, or two with " ||| " between them. Lines are read when
they are needed: memory holds one *block* of several thousand tokens, whose
lines are sorted by length so that batches have little padding.
"""

from typing import NamedTuple

from common import errors, file_io
from training import input_sequences


class Example(NamedTuple):
  """One input of the model.

  Attributes:
    index: number of its line, from 0.
    input_ids, segment_ids: lists of T integers, without padding.
  """

  index: int
  input_ids: list
  segment_ids: list


def split_pair(line):
  """Returns (text, None), or both texts of a line that holds two.

  As in the original: white space at both ends is dropped, and if the separator
  occurs several times, the last one separates the texts.
  """
  # Without a separator rpartition puts the whole line last.
  text_a, separator, text_b = line.strip().rpartition(
    input_sequences.TEXT_SEPARATOR
  )
  return (text_a, text_b) if separator else (text_b, None)


def read_examples(path, tokenizer, max_seq_length):
  """Yields the Example of each line of a file.

  Args:
    path: UTF-8 text.
    tokenizer: tokenization.FullTokenizer.
    max_seq_length: longer texts are cut, pairs by `truncate_pair`.

  Raises:
    InputError: no such file, bad UTF-8, or no room for a token next to
      [CLS] and two [SEP].
  """
  encode = make_encoder(tokenizer, max_seq_length)
  for number, line in file_io.read_lines(path):
    yield from encode_line(encode, number, line)


def count_lines(path):
  """Returns how many lines a file has, all of which are UTF-8.

  Raises:
    InputError: one is not UTF-8: found before the work begins.
  """
  return sum(1 for _ in file_io.read_lines(path))


def chosen_examples(examples, wanted, path):
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


def read_pairs(path, tokenizer, max_seq_length):
  """Yields the two Examples of each line, one for each of its texts.

  Raises:
    InputError: a line is no pair (it is named); or as `read_examples`.
  """
  encode = make_encoder(tokenizer, max_seq_length)
  for number, line in file_io.read_lines(path):
    try:
      yield from encode_pair(encode, number, line)
    except errors.InputError as error:
      raise errors.InputError(f"{path}:{number}: {error}") from error


def encode_line(encode, number, line):
  """Returns a list of the one Example of a line.

  Args:
    encode: of `make_encoder`.
    number: of the line, from 1.
    line: str.
  """
  return [Example(number - 1, *encode(*split_pair(line)))]


def encode_pair(encode, number, line):
  """Returns a list of two Examples, one for each text of a line.

  Args:
    encode, number, line: as of `encode_line`.

  Raises:
    InputError: the line is no pair.
  """
  pair = split_pair(line)
  if pair[1] is None:
    raise errors.InputError(
      f"no pair in {line!r}; write two texts with "
      f"{input_sequences.TEXT_SEPARATOR!r} between them"
    )
  return [Example(number - 1, *encode(text, None)) for text in pair]


def make_encoder(tokenizer, max_seq_length):
  """Returns a function of two texts that gives (input_ids, segment_ids).

  The second text may be None. As in the original: one without any word piece
  counts as none.
  """
  if max_seq_length < 3:
    raise errors.InputError(
      f"--max_seq_length={max_seq_length} leaves no room next to [CLS] "
      "and two [SEP]; pass 4 or more"
    )
  cls_id, sep_id = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])

  def encode(text_a, text_b):
    ids_a, ids_b = tokenizer.encode(text_a), tokenizer.encode(text_b or "")
    if ids_b:
      input_sequences.truncate_pair(ids_a, ids_b, max_seq_length - 3)
    else:
      # One [SEP] less, so one piece more.
      ids_a, ids_b = ids_a[: max_seq_length - 2], None
    return input_sequences.build_inputs(
      ids_a, ids_b, cls_id=cls_id, sep_id=sep_id
    )

  return encode


def blocks(examples, max_tokens, *, group=1):
  """Cuts a stream of examples into lists of about `max_tokens` tokens.

  Args:
    examples: iterable of Example.
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
