"""Masks sequences anew each time they are read (RoBERTa, arXiv 1907.11692).

This implements the rule of masks.py on tensors. The masks depend only on (seed,
step, row in the batch): they differ between epochs, but do not depend on
restarts or the number of replicas. tensorflow_text's masking ops cannot
guarantee this, because they depend on a generator's state.

Letters: B sequences in a batch, T their length, P predictions per sequence.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from common import errors, extension_points
from pretraining import data, masks, points


class Choice(NamedTuple):
  """The tokens to mask.

  Attributes:
    chosen: bool [B, T].
    kinds: float32 [B, T] below 1, which decide how each token is replaced:
      equal numbers are replaced in the same way.
  """

  chosen: tf.Tensor
  kinds: tf.Tensor


@dataclasses.dataclass(frozen=True)
class Tokens:
  """Sequences whose tokens a file of maskings chooses, and random numbers.

  Attributes:
    candidates: bool [B, T], the tokens that may be predicted.
    word_starts: int32 [B, T], 1 at the first piece of each word.
    keys, kinds: float32 [B, T], random numbers below 1, for the order of the
      tokens and for their replacements.
    budget: int32 [B], the maximum number of tokens to choose.
    draw: function without arguments; returns more random numbers [B, T].
  """

  candidates: tf.Tensor
  word_starts: tf.Tensor
  keys: tf.Tensor
  kinds: tf.Tensor
  budget: tf.Tensor
  draw: Callable[[], tf.Tensor]

  def choose_pieces(self) -> Choice:
    """Chooses the candidates with the smallest keys."""
    # The keys are random and below 1; 2 sorts all other positions last.
    keys = tf.where(self.candidates, self.keys, 2.0)
    # The argsort of an argsort is the rank of each position.
    ranks = tf.argsort(tf.argsort(keys, axis=1), axis=1)
    chosen = tf.logical_and(self.candidates, ranks < self.budget[:, None])
    return Choice(chosen, self.kinds)

  def choose_words(self) -> Choice:
    """Chooses words in random order, and skips words that no longer fit."""
    words = (self.candidates, self.word_starts, self.keys, self.budget)
    return Choice(_choose_words(*words), self.kinds)

  def choose_runs(self, limits: Sequence[float], *, together: bool) -> Choice:
    """Chooses runs of words, which start at words in random order.

    Args:
      limits: running sums of the weights of the lengths 1, 2, ... in words.
      together: whether all tokens of a run are replaced in the same way.
    """
    # float32 numbers * limits[-1] may round up to that limit itself.
    scaled = self.draw()[..., tf.newaxis] * limits[-1]
    longer = tf.cast(scaled >= limits[:-1], tf.int32)
    lengths = 1 + tf.reduce_sum(longer, axis=-1)  # [B, T]
    words = (self.candidates, self.word_starts, self.keys, self.budget)
    chosen, first = _choose_runs(*words, lengths)
    kinds = self.kinds
    if together:
      kinds = tf.gather(kinds, first, batch_dims=1)
    return Choice(chosen, kinds)


@dataclasses.dataclass(frozen=True)
class Masking:
  """Masks batches; the attributes are the settings.

  Attributes:
    vocabulary: a data.Vocabulary. [CLS] and [SEP] are never masked, but random
      replacements are drawn from all tokens, including these two.
    max_predictions: P.
    masked_lm_prob: share of the tokens to mask; [CLS] and [SEP] are counted.
    masking: a name for points.MASKINGS.
    seed: integer.
    shares: the shares of [MASK] and of unchanged tokens, see masks.Shares.
  """

  vocabulary: data.Vocabulary
  max_predictions: int
  masked_lm_prob: float
  masking: str
  seed: int
  shares: masks.Shares = masks.SHARES

  def apply(
    self, batch: dict, step: tf.Tensor, *, rows: int, first_row: tf.Tensor
  ) -> dict:
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

    def uniform(channels: int, seed: tf.Tensor) -> tf.Tensor:
      # Random numbers are generated for the whole batch, then cut to this
      # share, so the masks of an example do not depend on the replica that
      # reads it.
      shape = [rows, channels, length]
      numbers = tf.random.stateless_uniform(shape, seed=seed)
      return numbers[first_row : first_row + count]

    more = tf.random.experimental.stateless_fold_in(seed, 1)
    keys, kinds, draws = tf.unstack(uniform(3, seed), axis=1)  # [B, T] each
    special = self.vocabulary.frame[:2]
    is_special = tf.reduce_any(
      tf.equal(ids[..., None], tf.constant(special)), axis=-1
    )
    candidates = tf.logical_and(used > 0, tf.logical_not(is_special))  # [B, T]
    tokens = Tokens(
      candidates,
      batch["word_starts"],
      keys,
      kinds,
      self._budget(used),
      lambda: uniform(1, more)[:, 0],
    )
    chosen, kinds = self._choose()(tokens)
    unchanged = {k: v for k, v in batch.items() if k != "word_starts"}
    replacements = self._replacements(ids, kinds, draws)
    return {
      **unchanged,
      "input_ids": tf.where(chosen, replacements, ids),
      **self._predictions(ids, chosen),
    }

  def _choose(self) -> Callable[[Tokens], Choice]:
    """Returns the function that chooses tokens.

    Raises InputError: the masking has none.
    """
    module: Any = points.MASKINGS.load(self.masking)
    if not hasattr(module, "choose"):
      raise errors.InputError(
        f"--masking={self.masking} does not define choose, which masks records "
        f"of --dynamic_masking; see {extension_points.DOCS}"
      )
    return module.choose

  def _budget(self, used: tf.Tensor) -> tf.Tensor:
    """Returns the maximum number of tokens to mask, int32 [B]."""
    tokens = tf.cast(tf.reduce_sum(used, axis=1), tf.float32)
    budget = tf.cast(tf.round(tokens * self.masked_lm_prob), tf.int32)
    # As in the original: at least one token, unless max_predictions is 0.
    return tf.minimum(tf.maximum(budget, 1), self.max_predictions)

  def _replacements(
    self, ids: tf.Tensor, kinds: tf.Tensor, draws: tf.Tensor
  ) -> tf.Tensor:
    """Returns the ids that replace chosen tokens, from random numbers < 1."""
    mask_below = self.shares.mask
    random_below = 1 - (1 - mask_below) * self.shares.keep
    # The index stays in range: the draws are multiples of 2^-23 below 1.
    index = tf.cast(draws * len(self.vocabulary.ids), tf.int32)  # [B, T]
    random_ids = tf.gather(tf.constant(self.vocabulary.ids, ids.dtype), index)
    rest = tf.where(kinds < random_below, random_ids, ids)
    return tf.where(kinds < mask_below, self.vocabulary.mask_id, rest)

  def _predictions(self, ids: tf.Tensor, chosen: tf.Tensor) -> dict:
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


def _choose_words(
  candidates: tf.Tensor,
  word_starts: tf.Tensor,
  keys: tf.Tensor,
  budget: tf.Tensor,
) -> tf.Tensor:
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

  def needs_more(number: tf.Tensor, left: tf.Tensor, _: Any) -> tf.Tensor:
    return tf.reduce_any((left > 0) & (number < num_starts))

  # Each iteration tries one word in every row.
  def take(number: tf.Tensor, left: tf.Tensor, taken: tf.Tensor) -> tuple:
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


def _choose_runs(
  candidates: tf.Tensor,
  word_starts: tf.Tensor,
  keys: tf.Tensor,
  budget: tf.Tensor,
  lengths: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
  """Chooses runs of words, which start at words in random order.

  As in maskings.runs: a run ends earlier at the end of its segment, at a chosen
  word, and where the next word would exceed the budget.

  Args:
    candidates, word_starts, keys, budget: as in `_choose_words`.
    lengths: int32 [B, T], the number of words of a run that starts there.

  Returns:
    Bool [B, T], the chosen tokens, and int32 [B, T], where their run starts.
  """
  words = tf.cumsum(word_starts, axis=1) * tf.cast(candidates, tf.int32)
  rows, length = tf.shape(words)[0], words.shape[1]
  positions = tf.range(length)
  # Words get numbers that differ between rows, to find their last pieces.
  numbers = words + (length + 1) * tf.range(rows)[:, tf.newaxis]
  last_of_number = tf.math.unsorted_segment_max(
    tf.zeros_like(words) + positions, numbers, rows * (length + 1)
  )
  last_piece = tf.gather(last_of_number, numbers)  # [B, T]
  is_start = tf.logical_and(candidates, word_starts > 0)
  # The starts of words sort before all other positions, in random order.
  order = tf.argsort(tf.where(is_start, keys, 2.0), axis=1)
  num_starts = tf.reduce_sum(tf.cast(is_start, tf.int32), axis=1)  # [B]

  def needs_more(number: tf.Tensor, left: tf.Tensor, *_: Any) -> tf.Tensor:
    return tf.reduce_any((left > 0) & (number < num_starts))

  # Each iteration takes one run in every row.
  def take(
    number: tf.Tensor, left: tf.Tensor, taken: tf.Tensor, first: tf.Tensor
  ) -> tuple:
    start = order[:, number, tf.newaxis]  # [B, 1]
    after = positions >= start  # [B, T]
    is_blocked = tf.cast(after & (taken | ~candidates), tf.int32)
    # A run ends before the first position that is taken or not a candidate.
    is_free = after & (tf.cumsum(is_blocked, axis=1) == 0)
    end = tf.gather(words + lengths, start, batch_dims=1)  # [B, 1]
    # The last piece decides, because words are chosen wholly or not at all.
    fits = last_piece - start < left[:, tf.newaxis]
    run = is_free & (words < end) & fits & (number < num_starts)[:, tf.newaxis]
    left -= tf.reduce_sum(tf.cast(run, tf.int32), axis=1)
    return number + 1, left, taken | run, tf.where(run, start, first)

  start = 0, budget, tf.zeros_like(candidates), tf.zeros_like(words)
  _, _, taken, first = tf.while_loop(needs_more, take, start)
  return taken, first
