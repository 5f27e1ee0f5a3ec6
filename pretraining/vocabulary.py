"""Lines of text -> word counts -> a WordPiece vocabulary.

tensorflow_text's learner finds all pieces whose count reaches a threshold.
Here the threshold that fills the vocabulary is searched for (with two or three
calls, where the learner's own search took 17), and characters are chosen
first, so that no frequent one is missing and words rarely become [UNK].

Why this learner: on 18 MB of novels and 8,000 tokens its vocabulary cuts the
other 2 MB into 1.121 pieces per word, that of Hugging Face's `tokenizers`, by
merging pairs, into 1.111 (30,522 tokens: 1.027 and 1.025; on a few thousand
sentences 3 % apart): too little for another dependency.

tokenization.BasicTokenizer splits the words, because the words of training are
split by it too.
"""

import collections
import functools
import math

from absl import logging
from tensorflow_text.tools.wordpiece_vocab import (
  wordpiece_tokenizer_learner_lib as learner,
)

import tokenization
from common import errors

# Longer words (links, text without spaces) give no pieces, only characters:
# the learner counts each of a word's n * n / 2 substrings.
MAX_WORD_CHARS = 50

# The released vocabularies have 99 [unused] rows before [UNK], so that [UNK],
# [CLS], [SEP] and [MASK] are 100 to 103, and the others after [MASK].
_UNUSED_BEFORE_UNK = 99

# The learner's defaults; None for those of its own search, which is not used.
_LEARNER_PARAMS = learner.Params(
  upper_thresh=None,
  lower_thresh=None,
  num_iterations=4,
  max_input_tokens=None,
  max_token_length=MAX_WORD_CHARS,
  max_unique_chars=None,
  vocab_size=None,
  slack_ratio=None,
  include_joiner_token=True,
  joiner="##",
  reserved_tokens=[],
)

# A threshold is good enough if it gives at most this multiple of the wanted
# number of pieces; the rarest are left out.
_SLACK = 1.05
# Measured on 20 MB of novels, thresholds 1 to 100: the number of pieces falls
# with this power of the threshold. Only the search's next guess depends on it.
_FALL = 0.6
_GUESSES = 4


class WordCounts:
  """The count of each word of a text, in bounded memory.

  Beyond `max_words` different words the rarest are dropped: those with count
  one, then those with count two, and so on, until half are left (after Manku &
  Motwani 2002, "lossy counting"). So the count of a word may be too small, by
  `max_undercount` at most. Characters are counted exactly.

  Attributes:
    words: Counter of words of at most MAX_WORD_CHARS characters.
    num_words: how many words were read.
    max_undercount: see above; 0 if nothing was dropped.
  """

  def __init__(self, do_lower_case=True, max_words=2_000_000):
    self.words = collections.Counter()
    self.num_words = 0
    self.max_undercount = 0
    self._dropped_characters = collections.Counter()
    self._floor = 0
    self._max_words = max_words
    self._tokenize = tokenization.BasicTokenizer(do_lower_case).tokenize

  def add(self, line):
    """Counts the words of a line of text."""
    words = self._tokenize(line)
    self.num_words += len(words)
    # Of the longer ones the characters count, or they would all be [UNK].
    short = [word for word in words if len(word) <= MAX_WORD_CHARS]
    if len(short) < len(words):
      for word in words:
        if len(word) > MAX_WORD_CHARS:
          self._dropped_characters.update(word)
    self.words.update(short)
    if len(self.words) > self._max_words:
      self._drop_rare()

  def _drop_rare(self):
    while len(self.words) > self._max_words // 2:
      # A word that is dropped and comes again starts at 0: its count may then
      # lack as many as the floor.
      self._floor += 1
      self.max_undercount += self._floor
      rare = [w for w, count in self.words.items() if count <= self._floor]
      for word in rare:
        self._count_characters(
          self._dropped_characters, word, self.words.pop(word)
        )

  def characters(self):
    """Returns a Counter of the characters of all words that were read."""
    characters = self._dropped_characters.copy()
    for word, count in self.words.items():
      self._count_characters(characters, word, count)
    return characters

  @staticmethod
  def _count_characters(characters, word, count):
    for character in word:
      characters[character] += count


def special_tokens(num_unused_tokens=0):
  """Returns the special tokens in the order of the released vocabularies."""
  unused = [f"[unused{index}]" for index in range(1, num_unused_tokens + 1)]
  return [
    "[PAD]",
    *unused[:_UNUSED_BEFORE_UNK],
    *("[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *unused[_UNUSED_BEFORE_UNK:],
  ]


def choose_alphabet(characters, max_characters):
  """Returns the most frequent characters, a sorted list.

  Args:
    characters: Counter of characters; equally frequent ones are taken in the
      order of their code points.
    max_characters: maximum number of characters.
  """
  by_frequency = sorted(characters, key=lambda c: (-characters[c], c))
  return sorted(by_frequency[:max_characters])


def character_pieces(alphabet, do_lower_case=True):
  """Returns the pieces of one character, to start and to continue a word.

  "a" and "##a", but only ",": punctuation and Han characters are words of
  their own and continue nothing.
  """
  tokenize = tokenization.BasicTokenizer(do_lower_case).tokenize
  # Those that the tokenizer does not cut off from the letter before.
  following = [f"##{c}" for c in alphabet if len(tokenize(f"a{c}")) == 1]
  return [*alphabet, *following]


def learn(words, alphabet, *, num_pieces, min_frequency, max_words):
  """Learns pieces of several characters.

  Args:
    words: dict of word -> count.
    alphabet: the characters that have a piece each; words with others are
      left out, because they become [UNK] with any pieces.
    num_pieces: number of pieces to find.
    min_frequency: minimum count of a piece.
    max_words: learn from the N most frequent words. Time and memory grow with
      it: half a millisecond and 1 kB per word.

  Returns:
    At most `num_pieces` pieces, the most frequent first; fewer if the words
    give no more. The same for the same counts, in any order.
  """
  known = set(alphabet)
  counts = [
    (word, count)
    for word, count in words.items()
    if len(word) <= MAX_WORD_CHARS and known.issuperset(word)
  ]
  # Equal counts by the word: the result is a function of the counts alone.
  counts.sort(key=lambda item: (-item[1], item[0]))
  counts = counts[:max_words]
  if not counts or num_pieces < 1:
    return []

  pieces = _search_threshold(
    functools.partial(_pieces_at, counts),
    num_pieces,
    lowest=min_frequency,
    highest=sum(count for _, count in counts),
    # `num_pieces` words are this frequent, and their parts more frequent.
    guess=counts[min(num_pieces, len(counts)) - 1][1],
  )
  return pieces[:num_pieces]


def _pieces_at(counts, threshold):
  """Returns the pieces of several characters with at least this count."""
  tokens = learner.learn_with_thresh(counts, threshold, _LEARNER_PARAMS)
  pieces = [token for token in tokens if len(token.removeprefix("##")) > 1]
  logging.info("%d pieces occur at least %d times", len(pieces), threshold)
  return pieces


def _search_threshold(pieces_at, num_pieces, *, lowest, highest, guess):
  """Returns the pieces of the highest threshold found that gives enough.

  Args:
    pieces_at: function of a threshold -> list of pieces, the fewer the
      higher it is. It is slow, so it is called as rarely as possible.
    num_pieces: number of pieces to find.
    lowest, highest: smallest and largest threshold.
    guess: the first threshold to try.

  Returns:
    The pieces; those of `lowest` if even these are not enough.
  """
  best = None
  threshold = guess
  for step in range(1, 64):
    threshold = max(lowest, min(threshold, highest))
    pieces = pieces_at(threshold)
    if len(pieces) >= num_pieces:
      best = pieces
      # Enough: a higher threshold might do.
      lowest = threshold + 1
      if len(pieces) <= num_pieces * _SLACK:
        break
    else:
      highest = threshold - 1
    if lowest > highest:
      break
    # By the power law at first; where that does not get there, by bisection of
    # the logarithm, which always ends.
    if step < _GUESSES:
      wanted = num_pieces * (1 + _SLACK) / 2
      factor = (max(len(pieces), 1) / wanted) ** (1 / _FALL)
      threshold = round(threshold * factor)
    else:
      threshold = math.isqrt(lowest * highest)
  return best or pieces


def make_vocabulary(
  counts,
  *,
  do_lower_case,
  vocab_size,
  num_unused_tokens=0,
  min_frequency=2,
  max_characters=1000,
  max_learned_words=200_000,
):
  """Returns a vocabulary: special tokens, characters, then longer pieces.

  Args:
    counts: WordCounts of the text.
    do_lower_case: what the counts were made with.
    vocab_size: maximum number of tokens.
    num_unused_tokens: number of "[unused1]", ... among them.
    min_frequency: minimum count of a piece of several characters.
    max_characters: maximum number of different characters.
    max_learned_words: learn pieces from the N most frequent words.

  Returns:
    List of tokens, its length at most `vocab_size`.

  Raises:
    InputError: `vocab_size` is too small for special tokens and characters.
  """
  characters = counts.characters()
  alphabet = choose_alphabet(characters, max_characters)
  known = sum(characters[character] for character in alphabet)
  logging.info(
    "Alphabet: %d of %d characters, %.4f %% of the text",
    len(alphabet),
    len(characters),
    100 * known / max(1, characters.total()),
  )
  tokens = special_tokens(num_unused_tokens)
  num_special = len(tokens)
  tokens += character_pieces(alphabet, do_lower_case)
  if len(tokens) > vocab_size:
    raise errors.InputError(
      f"vocab_size {vocab_size} is too small: {num_special} special tokens "
      f"and {len(alphabet)} characters take {len(tokens)} rows; pass at least "
      "that, or leave rare characters out (--max_characters)"
    )
  tokens += learn(
    counts.words,
    alphabet,
    # What room is left after special tokens and characters.
    num_pieces=vocab_size - len(tokens),
    min_frequency=min_frequency,
    max_words=max_learned_words,
  )
  return tokens
