"""Masks sequences anew each time they are read (RoBERTa, arXiv 1907.11692).

The masks are a function of (seed, step, row in the batch) alone: they change
from epoch to epoch, and a resumed run has the same ones, however many replicas
share a batch. tensorflow_text's masking ops depend on a generator's state and
so cannot guarantee that.

Letters: B sequences in a batch, T their length, P predictions per sequence.
"""

import dataclasses

import tensorflow as tf

from common import errors

_MASK_SHARE, _RANDOM_SHARE = 0.8, 0.1  # The rest is kept.
_SPECIAL_TOKENS = ("[CLS]", "[SEP]")


@dataclasses.dataclass(frozen=True)
class Masking:
  """How to mask.

  Attributes:
    mask_id: id of [MASK].
    special_ids: ids that are never masked, [CLS] and [SEP].
    vocab_size: random words are drawn from all ids below.
    max_predictions: P.
    masked_lm_prob: share of the tokens, special ones counted, that is masked.
    whole_words: whether all pieces of a word are masked together.
    seed: integer.
  """

  mask_id: int
  special_ids: tuple
  vocab_size: int
  max_predictions: int
  masked_lm_prob: float = 0.15
  whole_words: bool = False
  seed: int = 12345

  @classmethod
  def of_vocabulary(cls, vocab, **options):
    """Makes one from a dict of token -> id.

    Raises:
      InputError: the vocabulary lacks a special token.
    """
    missing = [t for t in ("[MASK]", *_SPECIAL_TOKENS) if t not in vocab]
    if missing:
      raise errors.InputError(
        f"the vocabulary has no {', '.join(missing)}; masking needs it"
      )
    return cls(
      mask_id=vocab["[MASK]"],
      special_ids=tuple(vocab[token] for token in _SPECIAL_TOKENS),
      vocab_size=len(vocab),
      **options,
    )

  def apply(self, batch, step, *, rows, first_row):
    """Masks one replica's share of a batch.

    Args:
      batch: dict with `input_ids`, `input_mask`, `word_starts`, int32 [B, T].
      step: number of the batch, an integer tensor.
      rows: rows of the whole batch; B of them are in this share.
      first_row: the first of them, an integer tensor.

    Returns:
      The dict with masks in `input_ids`, without `word_starts`, and with
      `masked_lm_positions`, `masked_lm_ids` (int32 [B, P]) and
      `masked_lm_weights` (float32 [B, P]), as create_pretraining_data.py
      writes them.
    """
    ids, used = batch["input_ids"], batch["input_mask"]
    length, count = ids.shape[1], tf.shape(ids)[0]
    # Generated for the whole batch, then cut to the replica's own rows: a row
    # has the same masks whichever replica reads it.
    noise = tf.random.stateless_uniform(
      [rows, 3, length], seed=tf.stack([self.seed, tf.cast(step, tf.int32)])
    )[first_row : first_row + count]
    is_special = tf.reduce_any(
      tf.equal(ids[..., None], tf.constant(self.special_ids)), axis=-1
    )
    candidates = tf.logical_and(used > 0, tf.logical_not(is_special))
    chosen = self._choose(candidates, batch["word_starts"], used, noise[:, 0])
    others = {k: v for k, v in batch.items() if k != "word_starts"}
    return {
      **others,
      "input_ids": tf.where(chosen, self._replacements(ids, noise), ids),
      **self._predictions(ids, chosen),
    }

  def _choose(self, candidates, word_starts, used, keys):
    """Returns bool [B, T]: the tokens to predict."""
    tokens = tf.cast(tf.reduce_sum(used, axis=1), tf.float32)
    budget = tf.cast(tf.round(tokens * self.masked_lm_prob), tf.int32)
    # As in the original: at least one token, unless there is no place for it.
    budget = tf.minimum(tf.maximum(budget, 1), self.max_predictions)
    # Numbers below 1 shuffle the candidates; 2 puts all others after them.
    keys = tf.where(candidates, keys, 2.0)
    if self.whole_words:
      return _choose_words(candidates, word_starts, keys, budget)
    ranks = tf.argsort(tf.argsort(keys, axis=1), axis=1)
    return tf.logical_and(candidates, ranks < budget[:, None])

  def _replacements(self, ids, noise):
    """Returns the id that replaces each token if it is chosen."""
    kinds, words = noise[:, 1], noise[:, 2]
    random_ids = tf.cast(words * self.vocab_size, ids.dtype)
    # float32 words * vocab_size may round up to vocab_size itself.
    random_ids = tf.minimum(random_ids, self.vocab_size - 1)
    rest = tf.where(kinds < _MASK_SHARE + _RANDOM_SHARE, random_ids, ids)
    return tf.where(kinds < _MASK_SHARE, self.mask_id, rest)

  def _predictions(self, ids, chosen):
    """Returns the masked_lm features, chosen tokens first, in order."""
    length = ids.shape[1]
    width = min(self.max_predictions, length)
    # Chosen positions sort first, each group in its own order.
    order = tf.range(length) + tf.where(chosen, 0, length)
    positions = tf.argsort(order, axis=1)[:, :width]
    weights = tf.cast(tf.gather(chosen, positions, batch_dims=1), tf.int32)
    features = {
      "masked_lm_positions": positions * weights,
      "masked_lm_ids": tf.gather(ids, positions, batch_dims=1) * weights,
      "masked_lm_weights": tf.cast(weights, tf.float32),
    }
    padding = [[0, 0], [0, self.max_predictions - width]]
    return {name: tf.pad(value, padding) for name, value in features.items()}


def _choose_words(candidates, word_starts, keys, budget):
  """Takes words in random order while their pieces fit into the budget.

  As in the original: a word that is too long for the rest of the budget is
  skipped, and a shorter one after it may still be taken.
  """
  rows, places = tf.shape(candidates)[0], candidates.shape[1] + 1
  # The pieces of a word share its number, from 1; 0 is before the first word.
  words = tf.cumsum(word_starts, axis=1) * tf.cast(candidates, tf.int32)
  # Segment sums have one dimension, so rows get disjoint ranges of numbers.
  segments = tf.reshape(words + places * tf.range(rows)[:, None], [-1])

  def per_word(reduce, values):
    reduced = reduce(tf.reshape(values, [-1]), segments, rows * places)
    return tf.reshape(reduced, [rows, places])

  is_start = tf.logical_and(candidates, word_starts > 0)
  sizes = per_word(
    tf.math.unsorted_segment_sum, tf.cast(candidates, tf.int32)
  )
  # A word is sorted by the key of its first piece.
  key_of_word = per_word(
    tf.math.unsorted_segment_min, tf.where(is_start, keys, 3.0)
  )
  order = tf.argsort(key_of_word, axis=1)
  sizes_in_order = tf.transpose(tf.gather(sizes, order, batch_dims=1))
  is_word = tf.transpose(tf.gather(key_of_word, order, batch_dims=1)) < 2.0

  # A scan over the words of all rows at once: whether one is taken depends on
  # the room that those before it have left.
  def take(state, word):
    left, _ = state
    size, real = word
    taken = tf.logical_and(real, size <= left)
    return left - tf.where(taken, size, 0), taken

  _, taken = tf.scan(
    take,
    (sizes_in_order, is_word),
    initializer=(budget, tf.zeros_like(budget, tf.bool)),
  )
  ranks = tf.argsort(order, axis=1)
  taken = tf.gather(tf.transpose(taken), ranks, batch_dims=1)
  return tf.logical_and(candidates, tf.gather(taken, words, batch_dims=1))
