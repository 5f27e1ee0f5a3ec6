"""Masks sequences anew each time they are read (RoBERTa, arXiv 1907.11692).

This implements the rule of masks.py on tensors.
The masks depend only on (seed, step, row in the batch): they change from epoch
to epoch, and are equal in a resumed run and for any number of replicas.
tensorflow_text's masking ops depend on a generator's state and so cannot
guarantee that.

Letters: B sequences in a batch, T their length, P predictions per sequence.
"""

import dataclasses

import tensorflow as tf

from pretraining import data, masks


@dataclasses.dataclass(frozen=True)
class Masking:
  """The settings of masking.

  Attributes:
    vocabulary: the vocabulary. [CLS] and [SEP] are never masked, but random
      words are drawn from all tokens, including these.
    max_predictions: P.
    masked_lm_prob: masked share of the tokens, including special tokens.
    whole_words: whether all pieces of a word are masked together.
    seed: integer.
    shares: the shares of masked tokens replaced in each way.
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
      rows: rows of the whole batch; B of them are in this share.
      first_row: the first of these B rows, an integer tensor.

    Returns:
      The dict with masks in `input_ids`, without `word_starts`, and with
      `masked_lm_positions`, `masked_lm_ids` (int32 [B, P]) and
      `masked_lm_weights` (float32 [B, P]), as create_pretraining_data.py
      writes them.
    """
    ids, used = batch["input_ids"], batch["input_mask"]
    length, count = ids.shape[1], tf.shape(ids)[0]
    # One seed for each step draws the numbers of all its rows.
    seed = tf.stack([self.seed, tf.cast(step, tf.int32)])
    # Numbers are generated for the whole batch, then cut to the replica's rows:
    # a row has the same masks whichever replica reads it.
    numbers = tf.random.stateless_uniform([rows, 3, length], seed=seed)
    keys, kinds, words = tf.unstack(
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
    others = {k: v for k, v in batch.items() if k != "word_starts"}
    replacements = self._replacements(ids, kinds, words)
    return {
      **others,
      "input_ids": tf.where(chosen, replacements, ids),
      **self._predictions(ids, chosen),
    }

  def _budget(self, used):
    """Returns int32 [B]: how many tokens to predict at most."""
    tokens = tf.cast(tf.reduce_sum(used, axis=1), tf.float32)
    budget = tf.cast(tf.round(tokens * self.masked_lm_prob), tf.int32)
    # As in the original: at least one token, unless there is no place for it.
    return tf.minimum(tf.maximum(budget, 1), self.max_predictions)

  def _replacements(self, ids, kinds, words):
    """Returns the id that replaces each token if it is chosen."""
    mask_below = self.shares.mask
    random_below = 1 - (1 - mask_below) * self.shares.keep
    # The index stays in range: the words are multiples of 2^-23 below 1.
    random_ids = tf.cast(words * len(self.vocabulary.ids), ids.dtype)  # [B, T]
    rest = tf.where(kinds < random_below, random_ids, ids)
    return tf.where(kinds < mask_below, self.vocabulary.mask_id, rest)

  def _predictions(self, ids, chosen):
    """Returns the masked_lm features, chosen tokens first, in order."""
    length = ids.shape[1]
    width = min(self.max_predictions, length)
    # Chosen positions sort first, each group in its own order.
    order = tf.range(length) + tf.where(chosen, 0, length)
    positions = tf.argsort(order, axis=1)[:, :width]  # [B, P or T]
    # Unused places are 0 in every feature.
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
  # Numbers below 1 shuffle the candidates; 2 puts all others after them.
  keys = tf.where(candidates, keys, 2.0)
  # Sorting the order gives each position its rank.
  ranks = tf.argsort(tf.argsort(keys, axis=1), axis=1)
  return tf.logical_and(candidates, ranks < budget[:, None])


def _choose_words(candidates, word_starts, keys, budget):
  """Chooses words in random order, skipping words that no longer fit.

  Args:
    candidates: bool [B, T], the tokens that may be predicted.
    word_starts: int32 [B, T].
    keys: float32 [B, T] below 1; words are tried in the order of their starts'
      keys.
    budget: int32 [B], the maximum number of tokens to choose.

  Returns:
    Bool [B, T], the chosen tokens.
  """
  # [CLS] the sea ##shell [SEP]: starts 0 1 1 0 0 give 0 1 2 2 2, and without
  # the special tokens 0 1 2 2 0.
  words = tf.cumsum(word_starts, axis=1) * tf.cast(candidates, tf.int32)
  is_start = tf.logical_and(candidates, word_starts > 0)
  # Starts of words sort first, in random order, before all other positions.
  order = tf.argsort(tf.where(is_start, keys, 2.0), axis=1)
  num_starts = tf.reduce_sum(tf.cast(is_start, tf.int32), axis=1)  # [B]

  def needs_more(number, left, _):
    return tf.reduce_any((left > 0) & (number < num_starts))

  # Each step tries one word in every row.
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
