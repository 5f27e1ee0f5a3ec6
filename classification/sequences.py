"""Encodes a classifier's examples as sequences of token ids, arrays [rows, T].

A row is one sequence of T tokens. An example has W rows: usually one; or one
per window of a long text, per ending or passage, or per text of a bi-encoder.
No TensorFlow.
"""

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import tokenization
from classification import data
from common import errors, flag_values, run_settings
from text import input_sequences
from variants import vocabularies


@dataclasses.dataclass(frozen=True)
class InputOptions:
  """The options that determine an example's record in a TFRecord file.

  Attributes:
    task_kind, labels: see task.ClassifierTask.
    max_seq_length: T.
    doc_stride: word pieces between the starts of two successive windows; 0:
      there are no windows, and long texts are truncated.
    max_windows: maximum number of windows per text; 0: no limit.
  """

  task_kind: str
  labels: tuple
  vocab_file: str
  do_lower_case: bool = True
  max_seq_length: int = flag_values.default_length()
  doc_stride: int = 0
  max_windows: int = 0
  never_split: tuple = ()

  def __post_init__(self) -> None:
    if self.doc_stride and self.task_kind in (data.CHOICE, *data.OF_PAIRS):
      raise errors.InputError(
        f"--doc_stride has no effect on tasks of the kind {self.task_kind}, "
        "which truncate long texts; leave it out"
      )
    room = self.max_seq_length - 2  # [CLS] and [SEP] take 2 tokens.
    if 0 < room < self.doc_stride:
      raise errors.InputError(
        f"--doc_stride={self.doc_stride} would leave out text between windows "
        f"of {room} word pieces; pass at most {room}"
      )


def options_of(
  settings: run_settings.Settings, task_kind: str, labels: tuple
) -> InputOptions:
  """Returns the InputOptions for run_settings.Settings and a task.

  Raises InputError: the vocabulary, max_seq_length or doc_stride is invalid.
  """
  options = InputOptions(
    task_kind,
    tuple(labels),
    **settings.pick(
      "vocab_file do_lower_case max_seq_length doc_stride max_windows"
    ),
    never_split=settings.get("never_split", ()),
  )
  tokenizer_of(options)  # Raise its errors now, before a file is written.
  return options


class Encoded(NamedTuple):
  """The inputs of n examples.

  Attributes:
    arrays: input_ids, input_mask and segment_ids, int32 [rows, T].
    num_rows: int [n], the number of rows of each example.
    is_cut: bool [n], whether the rows lack a part of an example.
  """

  arrays: dict[str, np.ndarray]
  num_rows: np.ndarray
  is_cut: np.ndarray


def _windows(
  starts: tuple[np.ndarray, np.ndarray],
  lengths: tuple[np.ndarray, np.ndarray],
  options: InputOptions,
  frame: input_sequences.Frame,
) -> tuple[np.ndarray, input_sequences.Spans, np.ndarray]:
  """Divides the longer text of each example into windows.

  Every window also has the shorter text, truncated to half a window. Returns
  the index of each window's example, ascending; the Spans of the windows; and
  which examples lose a part of the shorter text or, with max_windows, of the
  longer one, bool [examples].
  """
  rows, is_cut = [], np.zeros(len(lengths[0]), bool)
  for example, (length_a, length_b, start_a, start_b) in enumerate(
    zip(*lengths, *starts)
  ):
    room = frame.room(options.max_seq_length, length_b > 0)
    shorter = min(length_a, length_b, room // 2) if length_b else 0
    room -= shorter
    longest = max(length_a, length_b)
    offsets = input_sequences.window_starts(
      longest, room, options.doc_stride, options.max_windows
    )
    is_whole = offsets[-1] + room >= longest
    is_cut[example] = not is_whole or shorter < min(length_a, length_b)
    for offset in offsets:
      length = min(room, longest - offset)
      if length_b > length_a:
        rows.append((example, start_a, shorter, start_b + offset, length))
      else:
        rows.append((example, start_a + offset, length, start_b, shorter))
  owner, *spans = np.array(rows, np.int64).T  # [windows] each
  return owner, input_sequences.Spans(*spans), is_cut


def _sequences(
  examples: Sequence,
  tokenizer: tokenization.FullTokenizer,
  options: InputOptions,
) -> tuple[np.ndarray, np.ndarray, input_sequences.Spans, np.ndarray]:
  """Tokenizes the texts, and selects the word pieces of each row.

  Returns the concatenated ids of all texts; the index of each row's example,
  ascending; the input_sequences.Spans of the rows; and which examples are cut,
  bool [examples].
  """
  firsts = [example.text_a for example in examples]
  seconds = [each.endings or (each.text_b or "",) for each in examples]
  owner = np.repeat(np.arange(len(examples)), list(map(len, seconds)))
  seconds = list(itertools.chain.from_iterable(seconds))
  # A single call for all texts is faster. The order is a0 a1 b0 b1; with
  # endings it is a0 a1, all endings of example 0, all endings of example 1.
  ids, lengths, _ = tokenizer.encode_lines(firsts + seconds)
  lengths = np.array(lengths, np.int64)
  starts = np.cumsum(lengths) - lengths
  # The rows of an example share the first text, and differ in the second text.
  starts = starts[owner], starts[len(firsts) :]
  lengths = lengths[owner], lengths[len(firsts) :]
  if options.doc_stride:
    owner, spans, is_cut = _windows(starts, lengths, options, tokenizer.frame)
  else:
    # A single text needs only one [SEP], so one more word piece fits.
    room = tokenizer.frame.room(options.max_seq_length, lengths[1] > 0)
    cut_a, cut_b = input_sequences.truncated_lengths(
      *lengths, room, odd_to_longer=tokenizer.frame.odd_to_longer
    )
    spans = input_sequences.Spans(starts[0], cut_a, starts[1], cut_b)
    is_shorter = cut_a + cut_b < lengths[0] + lengths[1]  # [rows]
    is_cut = np.bincount(owner, is_shorter, len(examples)) > 0
  return np.asarray(ids, np.int32), owner, spans, is_cut


@functools.lru_cache(maxsize=4)
def tokenizer_of(options: InputOptions) -> tokenization.FullTokenizer:
  """Returns the tokenizer, from a cache.

  Raises InputError: the vocabulary is invalid, or --max_seq_length is too low.
  """
  tokenizer = vocabularies.make_tokenizer(
    options.vocab_file,
    do_lower_case=options.do_lower_case,
    never_split=options.never_split,
  )
  if (room := tokenizer.frame.room(options.max_seq_length)) < 1:
    raise errors.InputError(
      f"--max_seq_length={options.max_seq_length} leaves no room for text next "
      "to the special tokens of a pair; pass "
      f"{options.max_seq_length + 1 - room} or more"
    )
  return tokenizer


def encode(examples: list[data.Example], options: InputOptions) -> Encoded:
  """Returns the inputs of examples."""
  if options.task_kind in data.OF_VECTORS:
    # Encode each text as a separate sequence, as in extract_features.py.
    texts = [(each.text_a, each.text_b, *each.endings) for each in examples]
    arrays, _, is_cut = encode(
      [data.Example("", text) for each in texts for text in each],
      dataclasses.replace(options, task_kind=data.REGRESSION),
    )
    counts = np.array(list(map(len, texts)))
    starts = np.cumsum(counts) - counts
    return Encoded(arrays, counts, np.logical_or.reduceat(is_cut, starts))
  tokenizer = tokenizer_of(options)
  ids, owner, spans, is_cut = _sequences(examples, tokenizer, options)
  arrays = input_sequences.fill_batch(
    ids, spans, options.max_seq_length, tokenizer.frame
  )
  num_rows = np.bincount(owner, minlength=len(examples))
  return Encoded(arrays, num_rows, is_cut)
