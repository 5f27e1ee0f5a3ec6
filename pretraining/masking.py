"""Which tokens of an instance the model must predict, and what it sees there.

A masker gets the segment pairs of a corpus one by one (`add`) and takes the
random numbers that it needs from a RandomWordStream; `flush` returns the
masked tokens of all pairs since the last call.

  PieceMasker   single pieces or whole words: as the original masks them
  SpanMasker    runs of words: SpanBERT's spans or ALBERT's n-grams
  NoMasker      nothing: the training pipeline masks anew in every epoch

PieceMasker is fast because it works in two phases. The random numbers of one
instance start where the previous instance's end, so `add` has to find out
how many words of the stream each instance uses, and does only that. `flush`
interprets the numbers of hundreds of instances together: its arrays [P, B]
have an instance in each column. tests/plain_instances.py has the same rule in
plain code.
"""

import array
import functools
import math
import re
from typing import Any, NamedTuple

import numpy as np

from pretraining import data, masking_rule, random_stream

_MASKS, _KEEPS, _IS_ID = 1, 2, 4  # See `draws`.

_WORD = re.compile(rb"[\x00\x01]\x01*")  # As data.STARTS_WORD.
_WORDS = re.compile(rb"[\x00\x01]+")  # Up to a NO_WORD.


class Masked(NamedTuple):
  """The masked tokens of B instances.

  Attributes:
    pairs: int64 array [B, 5], the instances: instance_maker.SegmentPair.
    num_masked: uint16 array [B].
    positions: uint16 array [B, P], the masked positions in the instance,
      ascending, then zeros.
    replacements: array [B, P], the ids in the input at these positions, of the
      vocabulary's dtype.
  """

  pairs: np.ndarray
  num_masked: np.ndarray
  positions: np.ndarray
  replacements: np.ndarray


def draws(
  words: np.ndarray, num_ids: int, shares: masking_rule.Shares
) -> bytes:
  """Returns the codes of random words that a PieceMasker reads.

  Each word gets a byte, the sum of the flags that hold for a number starting
  there: _MASKS, random() is below shares.mask; _KEEPS, it is below shares.keep;
  _IS_ID, a randint among `num_ids` ids accepts the word.
  """
  is_mask, is_kept = (_is_below(words, share) for share in shares)
  is_id = words >> np.uint32(32 - num_ids.bit_length()) < num_ids
  codes = is_mask * np.uint8(_MASKS) + is_kept * np.uint8(_KEEPS)
  return (codes + is_id * np.uint8(_IS_ID)).tobytes()


def _is_below(words, share):
  """Whether the random() that begins at each word is below a share."""
  # random() is a multiple of 2**-53; the share may not be one.
  limit = math.ceil(share * (1 << 53))
  # random() uses 27 bits of one word and 26 of the next.
  top, rest = divmod(limit, 1 << 26)
  high = words >> 5
  is_below = high < top
  if rest:  # For 0.5 the first word decides.
    low = np.append(words[1:], np.uint32(0)) >> 6
    is_below |= (high == top) & (low < rest)
  return is_below


# A token that becomes [MASK] takes one random(), which is two words. Others
# take a second random(), and if they are not kept a randint of some words.
_MASKED_TOKEN = rb"[\1\3\5\7]."
_OTHER_TOKEN = rb"[\0\2\4\6].(?:[\2\3\6\7].|[\0\1\4\5].[\0-\3]*[\4-\7])"
_TOKENS = rb"(?:%s|%s){%%d}" % (_MASKED_TOKEN, _OTHER_TOKEN)


@functools.cache
def _replacement_pattern(count):
  """Returns `match` of a pattern for the draws of `count` replacements."""
  return re.compile(_TOKENS % count, re.DOTALL).match


class _Masker:
  """The base of maskers: the corpus, the stream, the masking budgets."""

  def __init__(
    self, corpus: data.Corpus, vocabulary: data.Vocabulary,
    options, stream: random_stream.RandomWordStream,
  ):
    """Takes the instance_maker.RecordOptions, and a stream with `draws`."""
    self._corpus, self._vocabulary = corpus, vocabulary
    self._options, self._stream = options, stream
    self._max_predictions = options.max_predictions_per_seq
    prob, most = options.masked_lm_prob, self._max_predictions
    lengths = range(options.max_seq_length + 1)
    self._budgets = [masking_rule.budget(n, prob, most) for n in lengths]

  def _tokens_and_budget(self, pair):
    """Returns how many tokens a SegmentPair has, and how many to mask."""
    a_start, a_end, b_start, b_end, _ = pair
    tokens = a_end - a_start + b_end - b_start
    frame = self._vocabulary.frame
    budget = self._budgets[tokens - frame.room(0, b_end > b_start)]
    return tokens, min(tokens, budget)


class PieceMasker(_Masker):
  """Masks the pieces, or whole words, that come first in a shuffled list."""

  def __init__(self, corpus, vocabulary, options, stream):
    super().__init__(corpus, vocabulary, options, stream)
    # None means that every token is a separate word.
    self._flags = corpus.continues
    if options.masking == "pieces" and self._flags:
      # Pieces are masked one by one, but a [SEP] between documents never is.
      has_separator = data.NO_WORD in self._flags
      pieces = self._flags.replace(b"\x01", b"\x00")
      self._flags = pieces if has_separator else None
    self._pending = array.array("q")

  def add(self, pair):
    """Takes the random numbers for an instance_maker.SegmentPair."""
    num_words, budget = self._tokens_and_budget(pair)
    if self._flags is not None:
      num_words, budget = self._count_words(pair, budget)
    stream = self._stream
    shuffle_start = stream.position
    stream.skip_shuffle(num_words)
    masks_start = stream.position
    # The match restarts with more words: a failed match has consumed none.
    match = _replacement_pattern(budget)
    while not (drawn := match(stream.draws, masks_start)):
      stream.extend()
    stream.position = drawn.end()
    self._pending.extend((*pair, num_words, shuffle_start, budget, masks_start))

  def _count_words(self, pair, budget):
    """Returns the number of words, and of tokens that will be masked.

    As in the original: a "##" piece at the start of segment B (whose front was
    removed) belongs to the last word of segment A. At the start of the
    sequence it is a word.
    """
    flags = self._flags[pair.a_start : pair.a_end]
    flags += self._flags[pair.b_start : pair.b_end]
    # Segment A may begin with the rest of a word whose front was removed.
    cut_first = flags[0] == data.CONTINUES_WORD
    # 0 1 0 2 0 has 3 words: one of two pieces, one of one, [SEP], one of one.
    num_words = flags.count(b"\x00") + cut_first
    # Words of two pieces or more.
    longer = flags.count(b"\x00\x01") + (flags[:2] == b"\x01\x01")
    # With enough words of one piece the budget is used up in any order of the
    # words. Only otherwise does their number depend on the shuffle.
    if num_words - longer < budget:
      budget = self._used_budget(flags, budget)
    return num_words, budget

  def _used_budget(self, flags, budget):
    """Returns how much of `budget` the words use in their shuffled order."""
    start = self._stream.position
    sizes = [len(word) for word in _WORD.findall(flags)]
    self._stream.shuffle(sizes)
    # `add` takes these numbers again.
    self._stream.position = start
    used = 0
    for size in sizes:
      if used + size <= budget:
        used += size
    return used

  def flush(self):
    """Returns the Masked of the pairs since the last call."""
    # [B, 9]: a SegmentPair, then the four numbers that `add` appends.
    rows = np.array(self._pending, np.int64).reshape(-1, 9)
    del self._pending[:]
    pairs = rows[:, :5]
    num_words, shuffle_starts, budgets, masks_starts = rows[:, 5:].T
    order = self._stream.shuffled(shuffle_starts, num_words)  # [words, B]
    if self._flags is None:
      tokens = self._first_tokens(order)
    else:
      tokens = self._tokens_within(pairs, num_words, order, budgets)
    replacements = self._replacements(pairs, tokens, masks_starts, budgets)
    return _sort_masks(
      pairs, tokens, replacements, budgets, self._vocabulary
    )

  def _first_tokens(self, order):
    tokens = np.zeros((self._max_predictions, order.shape[1]), np.int64)
    first = order[: self._max_predictions]
    tokens[: len(first)] = first
    return tokens

  def _tokens_within(self, pairs, num_words, order, budgets):
    """Returns the tokens [P, B] of the first words that fit into the budgets.

    As in the original: a word that is too long for the rest of the budget is
    skipped, and a shorter one after it may still be taken.
    """
    starts, sizes = self._words(pairs)  # [words of all pairs]
    words_before = np.cumsum(num_words) - num_words
    tokens = np.zeros((self._max_predictions, len(pairs)), np.int64)
    used = np.zeros(len(pairs), np.int64)  # [B]
    # Each step takes one word of all instances: whether a word fits depends
    # on all words before it, so only instances are independent.
    for rank, chosen in enumerate(order):
      if (used == budgets).all():
        break
      word = words_before + np.where(rank < num_words, chosen, 0)  # [B]
      fits = (rank < num_words) & (used + sizes[word] <= budgets)
      column = np.flatnonzero(fits)
      word = word[column]
      for piece in range(sizes[word].max(initial=0)):
        longer = sizes[word] > piece
        place = used[column[longer]] + piece
        tokens[place, column[longer]] = starts[word[longer]] + piece
      used[column] += sizes[word]
    return tokens

  def _words(self, pairs):
    """Returns the first tokens and the sizes of all words of all pairs."""
    a_start, a_end, b_start, b_end = pairs.T[:4]
    length_a = a_end - a_start
    lengths = length_a + b_end - b_start
    # The tokens of all pairs form one flat row, A + B after A + B.
    row = np.repeat(np.arange(len(pairs)), lengths)
    token = np.arange(len(row)) - (np.cumsum(lengths) - lengths)[row]
    in_a = token < length_a[row]
    source = token + np.where(in_a, a_start[row], (b_start - length_a)[row])
    flags = np.frombuffer(self._flags, np.uint8)[source]
    in_word = flags != data.NO_WORD
    is_first = in_word & ((flags == data.STARTS_WORD) | (token == 0))
    number = np.cumsum(is_first) - 1
    return token[is_first], np.bincount(number[in_word])

  def _replacements(self, pairs, tokens, starts, budgets):
    """Returns the ids [P, B] that replace tokens [P, B].

    As in the original: a random token is any token of the vocabulary, [PAD],
    [unused0] and "##" pieces included.
    """
    draws = np.frombuffer(self._stream.draws, np.uint8)
    # Original ids are looked up by the tokens' numbers in A + B.
    a_start, a_end, b_start = pairs.T[:3]
    length_a = a_end - a_start
    first = np.where(tokens < length_a, a_start, b_start - length_a)
    replacements = self._corpus.ids.take(tokens + first, mode="clip")
    replacements = replacements.astype(np.int64)  # [P, B]
    position = starts.copy()  # [B]
    ids = self._vocabulary.ids
    # Row n holds the n-th masked token of every instance. Rows past the budget
    # read random words that belong to something else; their result is unused.
    for number, row in enumerate(replacements):
      as_mask = draws.take(position, mode="clip") & _MASKS > 0
      is_kept = draws.take(position + 2, mode="clip") & _KEEPS > 0
      row[as_mask] = self._vocabulary.mask_id
      # Each random() takes two words; a token other than [MASK] takes two.
      position += np.where(as_mask, 2, 4)
      other = np.flatnonzero(~as_mask & ~is_kept & (number < budgets))
      index, after = self._stream.numbers_below_at(len(ids), position[other])
      position[other] = after
      row[other] = ids[index]
    return replacements


def _sort_masks(pairs, tokens, replacements, num_masked, vocabulary):
  """Sorts tokens [P, B] by position in the instance; returns a Masked.

  The arrays use small integers: all instances of a text are in memory together.
  """
  length_a = pairs[:, 1] - pairs[:, 0]
  # Positions count [CLS], and the [SEP] between A and B.
  positions = tokens + 1 + vocabulary.frame.between * (tokens >= length_a)
  unused = np.arange(len(positions))[:, None] >= num_masked
  positions[unused] = np.iinfo(positions.dtype).max
  # Unused places sort last, and are zeros in the records.
  order = np.argsort(positions, axis=0)  # [P, B]
  positions[unused] = 0
  replacements[unused] = 0
  return Masked(
    pairs, num_masked.astype(np.uint16),
    np.take_along_axis(positions, order, 0).T.astype(np.uint16),
    np.take_along_axis(replacements, order, 0).T.astype(vocabulary.dtype),
  )


class SpanMasker(_Masker):
  """Masks runs of whole words, by masking_rule itself."""

  def __init__(self, corpus, vocabulary, options, stream):
    super().__init__(corpus, vocabulary, options, stream)
    self._pairs, self._masked = [], []

  def add(self, pair):
    """Masks an instance_maker.SegmentPair."""
    ids, random_ids = self._corpus.ids, self._vocabulary.ids
    a, b = ids[pair.a_start : pair.a_end], ids[pair.b_start : pair.b_end]
    tokens = np.concatenate([a, b]).tolist()
    _, budget = self._tokens_and_budget(pair)
    words, ends = self._words(pair)

    def replace(replacement, place):
      if replacement == "mask":
        return self._vocabulary.mask_id
      if replacement == "keep":
        return tokens[place]
      return int(random_ids[self._stream.randint(0, len(random_ids) - 1)])

    self._pairs.append(pair)
    self._masked.append(masking_rule.mask_runs(
      words, ends, budget, replace, self._stream, masking=self._options.masking,
      shares=self._options.mask_shares,
    ))

  def flush(self):
    """Returns the Masked of the pairs since the last call."""
    masks = np.zeros((2, self._max_predictions, len(self._pairs)), np.int64)
    for number, masked in enumerate(self._masked):
      masks[:, : len(masked), number] = list(masked), list(masked.values())
    num_masked = np.array(list(map(len, self._masked)), np.int64)
    pairs = np.array(self._pairs, np.int64).reshape(-1, 5)
    self._pairs, self._masked = [], []
    return _sort_masks(pairs, *masks, num_masked, self._vocabulary)

  def _words(self, pair):
    """Returns the words, and for each the end of the run it may start.

    Runs end with their segment, or at a [SEP] in it. Words are ranges of token
    numbers in A + B.
    """
    words, ends = [], []
    length_a = pair.a_end - pair.a_start
    for start, end, shift in (
      (pair.a_start, pair.a_end, 0), (pair.b_start, pair.b_end, length_a)
    ):
      flags = self._corpus.continues[start:end]
      for part in _WORDS.finditer(flags):
        for word in _WORD.finditer(flags, *part.span()):
          words.append(range(word.start() + shift, word.end() + shift))
        ends += [len(words)] * (len(words) - len(ends))
    return words, ends


class NoMasker(_Masker):
  """Masks nothing."""

  def __init__(self, corpus, vocabulary, options, stream):
    super().__init__(corpus, vocabulary, options, stream)
    self._pairs = array.array("q")
    # Stores an instance_maker.SegmentPair.
    self.add = self._pairs.extend

  def flush(self):
    """Returns the Masked of the pairs since the last call."""
    pairs = np.array(self._pairs, np.int64).reshape(-1, 5)
    del self._pairs[:]
    nothing = np.zeros((len(pairs), 0), np.uint16)
    return Masked(pairs, np.zeros(len(pairs), np.uint16), nothing, nothing)


MASKERS: dict[str, Any] = {
  "pieces": PieceMasker, "whole_words": PieceMasker, "spans": SpanMasker,
  "ngrams": SpanMasker, "none": NoMasker,
}
