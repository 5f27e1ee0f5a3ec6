"""Makes instances (inputs and labels) from a corpus. No TensorFlow.

An *instance* is one or two ranges of the corpus's ids (segments A and B), the
masked positions and the ids at these positions. It needs much less memory than
its padded arrays. `Instances.features` converts many instances at a time to the
padded arrays of records.

As in the original: the same text, flags and seed give the same instances in
the same order. So random numbers must be drawn in the original's order, even if
the result of a draw is not used.
"""

import array
import bisect
import dataclasses
import functools
import random
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pretraining import data, masks
from text import input_sequences

_TRIES_FOR_ANOTHER_DOCUMENT = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordOptions:
  """The settings that determine the records of a shard's text.

  Attributes:
    masking: the unit of masking: "pieces", "whole_words", or "none". With
      "none", records have the starts of words instead of masks.
    packing: "sentence_pairs", the original's packing; or "full_sentences",
      RoBERTa's packing (Liu et al. 2019, section 4.2): as many whole sentences
      as fit, without next-sentence prediction. A sequence may span several
      documents, with a [SEP] between them.

  All other attributes are flags of create_pretraining_data.py.
  """

  max_seq_length: int
  max_predictions_per_seq: int
  random_seed: int
  dupe_factor: int
  masked_lm_prob: float
  short_seq_prob: float
  masking: str
  packing: str
  vocab_file: str
  do_lower_case: bool
  segmented_text: bool
  mask_shares: masks.Shares = masks.SHARES
  never_split: tuple[str, ...] = ()


class SegmentPair(NamedTuple):
  """Two ranges of a corpus's ids; ends are exclusive, and B may be empty."""

  a_start: int
  a_end: int
  b_start: int
  b_end: int
  is_random_next: bool


def create_instances(
  corpus: data.Corpus,
  vocabulary: data.Vocabulary,
  options: RecordOptions,
  rng: random.Random,
  *,
  after_pass: Callable[[], None] = lambda: None,
) -> "Instances":
  """Makes all instances of a corpus, in the order of the original.

  `rng` must be newly seeded; `after_pass` is called after each pass through the
  documents.
  """
  documents = list(range(corpus.num_documents))
  rng.shuffle(documents)
  if options.packing == "full_sentences":
    corpus = _joined(corpus, documents, vocabulary.frame.sep_id)
    one_pass = functools.partial(_full_sentences, corpus, options, rng)
  else:
    room = vocabulary.frame.room(options.max_seq_length)
    one_pass = functools.partial(
      _segment_pairs, corpus, documents, options, rng, room=room
    )

  def all_passes():
    for _ in range(options.dupe_factor):
      yield from one_pass()
      after_pass()

  masker = masks.Masker(corpus, vocabulary, options, rng)
  masked = masker.mask_all(all_passes())
  # As in the original: instances of all passes are shuffled together. Shuffling
  # their indices draws the same random numbers as shuffling the instances.
  order = array.array("q", range(len(masked.pairs)))
  rng.shuffle(order)
  masked = masks.Masked(*(column[order] for column in masked))
  return Instances(corpus, vocabulary, options, masked)


def _target(max_tokens, options, rng):
  """Draws the number of tokens that a sequence should have."""
  # Some sequences are short, because sequences in fine-tuning may be short.
  if rng.random() < options.short_seq_prob:
    return rng.randint(2, max_tokens)
  return max_tokens


def _segment_pairs(corpus, documents, options, rng, *, room):
  """Yields the SegmentPairs of one pass through the documents.

  Sentences are collected until they reach a target length, which is at most
  `room` tokens without [CLS] and [SEP]. A random number of the first sentences
  form segment A. B is the other sentences or, half of the time, text of a
  random document.
  """
  starts = corpus.sentence_starts
  for index, document in enumerate(documents):
    target = _target(room, options, rng)
    sentence, document_end = corpus.sentences_of(document)
    while sentence < document_end:
      chunk_end = _chunk_end(starts, sentence, document_end, target)
      # For example, with a target of 8, sentences of 5, 4 and 6 tokens give a
      # chunk of the first two sentences, and A is the first sentence.
      size = chunk_end - sentence
      a_end = sentence + (rng.randint(1, size - 1) if size > 1 else 1)
      a = starts[sentence], starts[a_end]
      # As in the original: a single sentence always gets a random next segment.
      is_random_next = size == 1 or rng.random() < 0.5
      if is_random_next:
        rest = target - (a[1] - a[0])
        b = _random_range(corpus, documents, index, rest, rng)
        sentence = a_end  # The next chunk starts with the rest of this one.
      else:
        b = starts[a_end], starts[chunk_end]
        sentence = chunk_end
      a, b = _truncated(a, b, room, rng)
      yield SegmentPair(*a, *b, is_random_next)


def _chunk_end(starts, sentence, last, target):
  """Returns the end of a chunk with `target` or more tokens, at most `last`."""
  enough = starts[sentence] + target
  return bisect.bisect_left(starts, enough, sentence + 1, last)


def _random_range(corpus, documents, index, target, rng):
  """Returns (start, end) of about `target` tokens in a random document.

  As in the original: up to ten draws look for a document other than the one at
  `index`. If all draws fail, the segment comes from that same document.
  """
  for _ in range(_TRIES_FOR_ANOTHER_DOCUMENT):
    other = rng.randint(0, len(documents) - 1)
    if other != index:
      break
  first, last = corpus.sentences_of(documents[other])
  sentence = rng.randint(first, last - 1)
  starts = corpus.sentence_starts
  return starts[sentence], starts[_chunk_end(starts, sentence, last, target)]


def _truncated(a, b, max_tokens, rng):
  """Removes tokens from the longer range until both ranges fit.

  As in the original: B loses a token if both are equally long, and each time a
  random number decides whether the first or the last token is removed.
  """
  length_a, length_b = a[1] - a[0], b[1] - b[0]
  surplus = length_a + length_b - max_tokens
  if surplus <= 0:
    return a, b
  from_front = [rng.random() < 0.5 for _ in range(surplus)]
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


def _cut(token_range, cuts):
  """Removes one token per cut: the first if the cut is true, else the last."""
  front = sum(cuts)
  return token_range[0] + front, token_range[1] - (len(cuts) - front)


def _joined(corpus, documents, sep_id):
  """Returns a Corpus of one document: all documents with [SEP] between them.

  Each [SEP] is the first token of the sentence after it.
  """
  ids, continues = array.array(corpus.ids.dtype.char), bytearray()
  starts = array.array("q", [0])
  for document in documents:
    first, last = corpus.sentences_of(document)
    start, end = corpus.sentence_starts[first], corpus.sentence_starts[last]
    if ids:
      ids.append(sep_id)
      continues.append(data.NO_WORD)
    # `shift` maps positions in the old array to positions in the new array.
    shift = len(ids) - start
    ids.frombytes(corpus.ids[start:end].tobytes())
    continues += corpus.continues[start:end]
    ends = corpus.sentence_starts[first + 1 : last + 1]
    starts.extend([sentence_end + shift for sentence_end in ends])
  return data.Corpus(
    np.frombuffer(ids, corpus.ids.dtype),
    starts,
    array.array("q", [0, len(starts) - 1]),
    bytes(continues),
    corpus.num_words,
  )


def _full_sentences(corpus, options, rng):
  """Yields SegmentPairs with as many sentences in A as fit, and an empty B.

  A sentence that is longer than a sequence is split over several sequences.
  """
  start, end = 0, len(corpus.ids)
  while start < end:
    if corpus.continues[start] == data.NO_WORD:
      start += 1  # A [SEP] directly after [CLS] is dropped.
    # [CLS] and [SEP] need two positions.
    target = _target(options.max_seq_length - 2, options, rng)
    last = bisect.bisect_right(corpus.sentence_starts, start + target) - 1
    stop = corpus.sentence_starts[last]
    if stop <= start:
      stop = min(start + target, end)
    yield SegmentPair(start, stop, 0, 0, False)
    start = stop


@dataclasses.dataclass
class Instances:
  """The instances of a corpus, 122 bytes each (20 predictions, 16-bit ids)."""

  corpus: data.Corpus
  vocabulary: data.Vocabulary
  options: RecordOptions
  masked: masks.Masked

  def __len__(self):
    return len(self.masked.pairs)

  def features(self, first: int, end: int) -> dict[str, np.ndarray]:
    """Returns features [B, ...] of a range of instances, see record_maker."""
    masked = masks.Masked(*(column[first:end] for column in self.masked))
    a_start, a_end, b_start, b_end, is_random_next = masked.pairs.T
    spans = input_sequences.Spans(
      a_start, a_end - a_start, b_start, b_end - b_start
    )
    length, frame = self.options.max_seq_length, self.vocabulary.frame
    features = input_sequences.fill_batch(self.corpus.ids, spans, length, frame)
    if self.options.packing == "sentence_pairs":
      features["next_sentence_labels"] = is_random_next[:, None]
    if self.options.masking == "none":
      features["word_starts"] = _word_starts(self.corpus, spans, length, frame)
    else:
      features.update(_masked_features(features["input_ids"], masked))
    return features


def _word_starts(corpus, spans, length, frame):
  """Returns [B, T]: 1 at the first piece of each word, segment by segment."""
  special = data.NO_WORD
  filled = input_sequences.fill_batch(
    np.frombuffer(corpus.continues, np.uint8),
    spans,
    length,
    frame._replace(cls_id=special, sep_id=special),
  )
  flags = filled["input_ids"]  # [B, T]
  # The first piece of a segment counts as a start, even within a word.
  is_first = np.roll(flags, 1, axis=1) == special
  is_first |= flags == data.STARTS_WORD
  return filled["input_mask"] * (is_first & (flags != special))


def _masked_features(input_ids, masked):
  """Writes the replacements into `input_ids`; returns masked_lm features."""
  positions = masked.positions.astype(np.int64)  # [B, P]
  is_masked = np.arange(positions.shape[1]) < masked.num_masked[:, None]
  # Labels are read before the replacements overwrite them.
  labels = np.where(is_masked, np.take_along_axis(input_ids, positions, 1), 0)
  row, _ = np.nonzero(is_masked)
  input_ids[row, positions[is_masked]] = masked.replacements[is_masked]
  return {
    "masked_lm_positions": positions,
    "masked_lm_ids": labels,
    "masked_lm_weights": is_masked.astype(np.float32),
  }
