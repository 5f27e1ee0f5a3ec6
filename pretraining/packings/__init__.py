"""The ways to make sequences of documents; --packing names a file.

A file defines:

  HAS_LABEL   whether records have next_sentence_labels
  FILLS       whether every record is full, so that --short_seq_prob is 0 unless
              it is given
  def one_pass(text: Text, rng: random.Random):
    '''Yields the SegmentPairs of one pass through the documents.

    It draws each pair on demand: the caller draws the masks of a pair from
    `rng` before it asks for the next pair, as the original does.
    '''

and may define `arrange(text)`, which returns another Text, made once before all
passes. No TensorFlow.
"""

import bisect
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pretraining import data


class SegmentPair(NamedTuple):
  """Two ranges of a corpus's ids; ends are exclusive, and B may be empty."""

  a_start: int
  a_end: int
  b_start: int
  b_end: int
  is_random_next: bool  # Label 1 of next_sentence_labels.


class Text(NamedTuple):
  """The text that a packing packs.

  Attributes:
    corpus: the data.Corpus whose ranges the pairs are.
    documents: numbers of the documents, in the order in which to read them.
    options: instance_maker.RecordOptions.
    frame: the vocabulary's input_sequences.Frame.
  """

  corpus: data.Corpus
  documents: list[int]
  options: Any
  frame: Any

  @property
  def room(self) -> int:
    """The number of tokens of two segments that fit between special tokens."""
    return self.frame.room(self.options.max_seq_length)


def draw_target(max_tokens: int, options: Any, rng: random.Random) -> int:
  """Draws the number of tokens that a sequence should have."""
  # Some sequences are short, because sequences in fine-tuning may be short.
  if rng.random() < options.short_seq_prob:
    return rng.randint(2, max_tokens)
  return max_tokens


def chunk_end(
  starts: Sequence[int], sentence: int, last: int, target: int
) -> int:
  """Returns the end of a chunk with `target` or more tokens, at most `last`."""
  enough = starts[sentence] + target
  return bisect.bisect_left(starts, enough, sentence + 1, last)


def truncated(
  a: tuple[int, int], b: tuple[int, int], max_tokens: int, rng: random.Random
) -> tuple[tuple[int, int], tuple[int, int]]:
  """Removes tokens from the longer range until both ranges fit.

  As in the original: B loses a token if both are equally long, and each time a
  random number decides whether the first or the last token is removed.
  """
  length_a, length_b = a[1] - a[0], b[1] - b[0]
  surplus = length_a + length_b - max_tokens
  if surplus <= 0:
    return a, b
  from_front: Any = coin_flips(rng, surplus)
  # The longer range loses tokens until both are equally long, then B, A, B, ...
  # For example, with lengths 6 and 2 and room for 5, A loses three tokens.
  uneven = min(abs(length_a - length_b), surplus)
  # The draws are used in the order in which the original removes tokens.
  cuts_a, cuts_b = from_front[uneven + 1 :: 2], from_front[uneven::2]
  if length_a > length_b:
    cuts_a += from_front[:uneven]
  else:
    cuts_b += from_front[:uneven]
  return _cut(a, cuts_a), _cut(b, cuts_b)


def coin_flips(rng: random.Random, count: int) -> Any:
  """Returns whether each of `count` random() is below 0.5, as a sequence.

  A generator may have a faster method of this name.
  """
  flip = getattr(rng, "coin_flips", None)
  return flip(count) if flip else [rng.random() < 0.5 for _ in range(count)]


def _cut(token_range: tuple[int, int], cuts: Sequence[bool]) -> tuple[int, int]:
  """Removes one token per cut: the first if the cut is true, else the last."""
  front = sum(cuts)
  return token_range[0] + front, token_range[1] - (len(cuts) - front)


def packed(
  text: Text, start: int, end: int, rng: random.Random
) -> Iterator[SegmentPair]:
  """Yields as many whole sentences of a range as fit in A, and an empty B.

  A sentence that is longer than a sequence is split over several sequences.
  """
  corpus, options = text.corpus, text.options
  while start < end:
    if corpus.continues[start] == data.NO_WORD:
      start += 1  # A [SEP] directly after [CLS] is dropped.
    # [CLS] and [SEP] need two positions.
    target = draw_target(options.max_seq_length - 2, options, rng)
    last = bisect.bisect_right(corpus.sentence_starts, start + target) - 1
    stop = min(corpus.sentence_starts[last], end)
    if stop <= start:
      stop = min(start + target, end)
    yield SegmentPair(start, stop, 0, 0, False)
    start = stop
