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
import dataclasses
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pretraining import bulk_masks, data, masks, packings, points
from text import input_sequences


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordOptions:
  """The settings that determine the records of a shard's text.

  Attributes:
    masking: a name for points.MASKINGS, or "none": records then have the starts
      of words instead of masks.
    packing: a name for points.PACKINGS.
    units: a name for points.MASKINGS, whose `prepare` says what a word is; or
      None: white space does.
    unit_options: (name, value) of each option of `units`.

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
  units: str | None = None
  unit_options: tuple[tuple[str, Any], ...] = ()
  sentence_splitter: str | None = None
  language_smoothing: float = 1.0


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
  text = packings.Text(corpus, documents, options, vocabulary.frame)
  packing: Any = points.PACKINGS.load(options.packing)
  if hasattr(packing, "arrange"):
    text = packing.arrange(text)

  masker = bulk_masks.make_masker(text.corpus, vocabulary, options, rng)

  def all_passes() -> Iterator[packings.SegmentPair]:
    for _ in range(options.dupe_factor):
      yield from packing.one_pass(text, masker.rng)
      after_pass()

  masked = masker.mask_all(all_passes())
  # As in the original: instances of all passes are shuffled together. Shuffling
  # their indices draws the same random numbers as shuffling the instances.
  order = array.array("q", range(len(masked.pairs)))
  rng.shuffle(order)
  masked = masks.Masked(*(column[order] for column in masked))
  return Instances(text.corpus, vocabulary, options, masked)


@dataclasses.dataclass
class Instances:
  """The instances of a corpus, 122 bytes each (20 predictions, 16-bit ids)."""

  corpus: data.Corpus
  vocabulary: data.Vocabulary
  options: RecordOptions
  masked: masks.Masked

  def __len__(self) -> int:
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
    if points.PACKINGS.load(self.options.packing).HAS_LABEL:
      features["next_sentence_labels"] = is_random_next[:, None]
    if self.options.masking == "none":
      features["word_starts"] = _word_starts(self.corpus, spans, length, frame)
    else:
      features.update(_masked_features(features["input_ids"], masked))
    return features


def _word_starts(
  corpus: data.Corpus, spans: input_sequences.Spans, length: int, frame: Any
) -> np.ndarray:
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


def _masked_features(
  input_ids: np.ndarray, masked: masks.Masked
) -> dict[str, np.ndarray]:
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
