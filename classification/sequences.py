"""Encodes a classifier's examples as sequences of ids, arrays [rows, T].

An example has W sequences of T tokens: usually one; one for each window of a
long text; one for each ending to choose from; or, for a bi-encoder, one for
each text. No TensorFlow.
"""

import dataclasses
import functools
import itertools

import numpy as np

import tokenization
from classification import data
from common import errors
from text import input_sequences
from variants import vocabularies


@dataclasses.dataclass(frozen=True)
class InputOptions:
  """The options that determine an example's record.

  Attributes:
    task_kind, labels: see task.ClassifierTask.
    max_seq_length: T.
    doc_stride: pieces between the starts of windows of a long text; with 0, a
      text has one sequence and is truncated.
    max_windows: maximum number of windows of a text; 0: no limit.
  """

  task_kind: str
  labels: tuple
  vocab_file: str
  do_lower_case: bool = True
  max_seq_length: int = 128
  doc_stride: int = 0
  max_windows: int = 0
  never_split: tuple = ()

  def __post_init__(self):
    if self.doc_stride and self.task_kind in (data.CHOICE, *data.OF_PAIRS):
      raise errors.InputError(
        f"--doc_stride is not for {self.task_kind}, where an example is one "
        "sequence for each of its texts; leave it out"
      )
    # The 2 are [CLS] and [SEP] of a single text.
    if self.doc_stride > self.max_seq_length - 2:
      raise errors.InputError(
        f"--doc_stride={self.doc_stride} would leave out text between windows "
        f"of {self.max_seq_length - 2} pieces; pass at most that"
      )


def options_of(settings, task_kind: str, labels: tuple) -> InputOptions:
  """Returns the InputOptions for run_settings.Settings and a task.

  Raises InputError: the vocabulary is invalid, or a sequence is too short.
  """
  options = InputOptions(
    task_kind,
    tuple(labels),
    **settings.pick(
      "vocab_file do_lower_case max_seq_length doc_stride max_windows"
    ),
    never_split=settings.get("never_split", ()),
  )
  tokenizer_of(options)  # Raise its errors before a file is written.
  return options


def _windows(starts, lengths, options, frame):
  """Returns windows over the longer text of each example.

  Every window has the shorter text, truncated to half the room. The result
  equals the result of `_sequences`, without the ids.
  """
  rows = []
  for example, (length_a, length_b, start_a, start_b) in enumerate(
    zip(*lengths, *starts)
  ):
    room = frame.room(options.max_seq_length, length_b > 0)
    whole = min(length_a, length_b, room // 2) if length_b else 0
    room -= whole
    longest = max(length_a, length_b)
    for offset in input_sequences.window_starts(
      longest, room, options.doc_stride, options.max_windows
    ):
      part = min(room, longest - offset)
      if length_b > length_a:
        rows.append((example, start_a, whole, start_b + offset, part))
      else:
        rows.append((example, start_a + offset, part, start_b, whole))
  owner, *spans = np.array(rows, np.int64).T  # [windows] each
  return owner, input_sequences.Spans(*spans)


def _sequences(examples, tokenizer, options):
  """Returns the pieces of all texts, and the pieces in each row.

  The result is the concatenated ids of all texts; the number of each row's
  example, ascending; and the input_sequences.Spans of the rows.
  """
  firsts = [example.text_a for example in examples]
  seconds = [each.endings or (each.text_b or "",) for each in examples]
  owner = np.repeat(np.arange(len(examples)), list(map(len, seconds)))
  seconds = list(itertools.chain.from_iterable(seconds))
  # A single call for all texts of a block is fast. The order is a0 a1 b0 b1, or
  # for choices a0 a1, then all endings of 0, then all endings of 1.
  ids, lengths, _ = tokenizer.encode_lines(firsts + seconds)
  lengths = np.array(lengths, np.int64)
  starts = np.cumsum(lengths) - lengths
  # All rows of endings share the first text, but each has its second text.
  starts = starts[owner], starts[len(firsts) :]
  lengths = lengths[owner], lengths[len(firsts) :]
  if options.doc_stride:
    owner, spans = _windows(starts, lengths, options, tokenizer.frame)
  else:
    # A single text needs only one [SEP], so it has room for another piece.
    room = tokenizer.frame.room(options.max_seq_length, lengths[1] > 0)
    cut_a, cut_b = input_sequences.truncated_lengths(*lengths, room)
    spans = input_sequences.Spans(starts[0], cut_a, starts[1], cut_b)
  return np.asarray(ids, np.int32), owner, spans


@functools.lru_cache(maxsize=4)
def tokenizer_of(options: InputOptions) -> tokenization.FullTokenizer:
  """Returns the tokenizer, which is cached.

  Raises InputError: --max_seq_length leaves no room for a text.
  """
  tokenizer = vocabularies.make_tokenizer(
    options.vocab_file,
    do_lower_case=options.do_lower_case,
    never_split=options.never_split,
  )
  if (room := tokenizer.frame.room(options.max_seq_length)) < 1:
    raise errors.InputError(
      f"--max_seq_length={options.max_seq_length} leaves no room for a piece "
      "between the special tokens of two texts; pass "
      f"{options.max_seq_length + 1 - room} or more"
    )
  return tokenizer


def encode(
  examples: list[data.Example], options: InputOptions
) -> tuple[dict, np.ndarray]:
  """Returns the inputs of examples, and the number of rows of each example.

  The inputs are a dict of int32 arrays [rows, T]: input_ids, input_mask and
  segment_ids.
  """
  if options.task_kind in data.OF_VECTORS:
    # Each text is a separate sequence, as in extract_features.py.
    texts = [(each.text_a, each.text_b, *each.endings) for each in examples]
    arrays, _ = encode(
      [data.Example("", text) for each in texts for text in each],
      dataclasses.replace(options, task_kind=data.REGRESSION),
    )
    return arrays, np.array(list(map(len, texts)))
  tokenizer = tokenizer_of(options)
  ids, owner, spans = _sequences(examples, tokenizer, options)
  arrays = input_sequences.fill_batch(
    ids, spans, options.max_seq_length, tokenizer.frame
  )
  return arrays, np.bincount(owner, minlength=len(examples))
