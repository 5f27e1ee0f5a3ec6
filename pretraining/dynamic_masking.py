"""Masks sequences anew each time they are read (RoBERTa, arXiv 1907.11692).

This implements the rule of masks.py on tensors. The masks depend only on (seed,
step, row in the batch): they differ between epochs, but do not depend on
restarts or the number of replicas. tensorflow_text's masking ops cannot
guarantee this, because they depend on a generator's state.

Letters: B sequences in a batch, T their length, P predictions per sequence.
"""

import dataclasses

import tensorflow as tf

from pretraining import data, masks


@dataclasses.dataclass(frozen=True)
class Masking:
  """Masks batches; the attributes are the settings.

  Attributes:
    vocabulary: a data.Vocabulary. [CLS] and [SEP] are never masked, but random
      replacements are drawn from all tokens, including these two.
    max_predictions: P.
    masked_lm_prob: share of the tokens to mask; [CLS] and [SEP] are counted.
    whole_words: whether all pieces of a word are masked together.
    seed: integer.
    shares: the shares of [MASK] and of unchanged tokens, see masks.Shares.
  """

  vocabulary: data.Vocabulary
  max_predictions: int
  masked_lm_prob: float
  whole_words: bool
  seed: int
  shares: masks.Shares = masks.SHARES

  def apply(self, batch, step, *, rows, first_row):
    """Masks one replica's share of a batch.

    Args:
      batch: dict with `input_ids`, `input_mask`, `word_starts`, int32 [B, T].
      step: number of the batch, an integer tensor.
      rows: the number of examples in the whole batch.
      first_row: index of this share's first example in the whole batch, an
        integer tensor.

    Returns:
      The dict with masks in `input_ids`, without `word_starts`, and with
      `masked_lm_positions`, `masked_lm_ids` (int32 [B, P]) and
      `masked_lm_weights` (float32 [B, P]), as create_pretraining_data.py
      writes them.
    """
    ids, used = batch["input_ids"], batch["input_mask"]
    length, count = ids.shape[1], tf.shape(ids)[0]
    seed = tf.stack([self.seed, tf.cast(step, tf.int32)])
    # Random numbers are generated for the whole batch, then cut to this share,
    # so the masks of an example do not depend on the replica that reads it.
    numbers = tf.random.stateless_uniform([rows, 3, length], seed=seed)
    keys, actions, draws = tf.unstack(
      numbers[first_row : first_row + count], axis=1
    )  # [B, T] each
    special = self.vocabulary.frame[:2]
    is_special = tf.reduce_any(
      tf.equal(ids[..., None], tf.constant(special)), axis=-1
    )
    candidates = tf.logical_and(used > 0, tf.logical_not(is_special))  # [B, T]
    budget = self._budget(used)
    if self.whole_words:
      chosen = _choose_words(candidates, batch["word_starts"], keys, budget)
    else:
      chosen = _choose_pieces(candidates, keys, budget)
    unchanged = {k: v for k, v in batch.items() if k != "word_starts"}
    replacements = self._replacements(ids, actions, draws)
    return {
      **unchanged,
      "input_ids": tf.where(chosen, replacements, ids),
      **self._predictions(ids, chosen),
    }

  def _budget(self, used):
    """Returns the maximum number of tokens to mask, int32 [B]."""
    tokens = tf.cast(tf.reduce_sum(used, axis=1), tf.float32)
    budget = tf.cast(tf.round(tokens * self.masked_lm_prob), tf.int32)
    # As in the original: at least one token, unless max_predictions is 0.
    return tf.minimum(tf.maximum(budget, 1), self.max_predictions)

  def _replacements(self, ids, actions, draws):
    """Returns the ids that replace chosen tokens, from random numbers < 1."""
    mask_below = self.shares.mask
    random_below = 1 - (1 - mask_below) * self.shares.keep
    # The index stays in range: the draws are multiples of 2^-23 below 1.
    index = tf.cast(draws * len(self.vocabulary.ids), tf.int32)  # [B, T]
    random_ids = tf.gather(tf.constant(self.vocabulary.ids, ids.dtype), index)
    rest = tf.where(actions < random_below, random_ids, ids)
    return tf.where(actions < mask_below, self.vocabulary.mask_id, rest)

  def _predictions(self, ids, chosen):
    """Returns the masked_lm features; chosen positions are first, ascending."""
    length = ids.shape[1]
    width = min(self.max_predictions, length)
    # Chosen positions sort before all others.
    order = tf.range(length) + tf.where(chosen, 0, length)
    positions = tf.argsort(order, axis=1)[:, :width]  # [B, P or T]
    # Unused entries are 0 in every feature.
    weights = tf.cast(tf.gather(chosen, positions, batch_dims=1), tf.int32)
    features = {
      "masked_lm_positions": positions * weights,
      "masked_lm_ids": tf.gather(ids, positions, batch_dims=1) * weights,
      "masked_lm_weights": tf.cast(weights, tf.float32),
    }
    padding = [[0, 0], [0, self.max_predictions - width]]
    return {name: tf.pad(value, padding) for name, value in features.items()}


def _choose_pieces(candidates, keys, budget):
  """Returns bool [B, T]: the candidates with the smallest keys."""
  # The keys are random and below 1; 2 sorts all other positions last.
  keys = tf.where(candidates, keys, 2.0)
  # The argsort of an argsort is the rank of each position.
  ranks = tf.argsort(tf.argsort(keys, axis=1), axis=1)
  return tf.logical_and(candidates, ranks < budget[:, None])


def _choose_words(candidates, word_starts, keys, budget):
  """Chooses words in random order, and skips words that no longer fit.

  Args:
    candidates: bool [B, T], the tokens that may be predicted.
    word_starts: int32 [B, T].
    keys: float32 [B, T] below 1. Words are tried in ascending order of the key
      at their first piece.
    budget: int32 [B], the maximum number of tokens to choose.

  Returns:
    Bool [B, T], the chosen tokens.
  """
  # For [CLS] the sea ##shell [SEP], the starts 0 1 1 0 0 have the cumulative
  # sums 0 1 2 2 2. Without special tokens, these are the words 0 1 2 2 0.
  words = tf.cumsum(word_starts, axis=1) * tf.cast(candidates, tf.int32)
  is_start = tf.logical_and(candidates, word_starts > 0)
  # The starts of words sort before all other positions, in random order.
  order = tf.argsort(tf.where(is_start, keys, 2.0), axis=1)
  num_starts = tf.reduce_sum(tf.cast(is_start, tf.int32), axis=1)  # [B]

  def needs_more(number, left, _):
    return tf.reduce_any((left > 0) & (number < num_starts))

  # Each iteration tries one word in every row.
  def take(number, left, taken):
    word = tf.gather(words, order[:, number], batch_dims=1)  # [B]
    in_word = words == word[:, tf.newaxis]  # [B, T]
    size = tf.reduce_sum(tf.cast(in_word, tf.int32), axis=1)  # [B]
    fits = (size <= left) & (number < num_starts)
    taken |= in_word & fits[:, tf.newaxis]
    return number + 1, left - tf.where(fits, size, 0), taken

  _, _, taken = tf.while_loop(
    needs_more, take, (0, budget, tf.zeros_like(candidates))
  )
  return taken
