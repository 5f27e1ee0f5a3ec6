"""Counts the words of a text and learns a WordPiece vocabulary.

Hugging Face's `tokenizers` learns the pieces: it repeatedly merges the most
frequent pair of neighbouring pieces. Characters are chosen first, so that no
frequent character is missing and words rarely become [UNK].

tokenization.BasicTokenizer splits the words, as it does in training.
"""

import collections

import tokenizers
from absl import logging

import tokenization
from common import errors

# The released vocabularies have 99 [unused] rows before [UNK], so that [UNK],
# [CLS], [SEP] and [MASK] are 100 to 103, and the others after [MASK].
_UNUSED_BEFORE_UNK = 99

# The maximum number of repetitions of a word in one text of the learner.
_REPEATED_TOGETHER = 10_000


class WordCounts:
  """The count of each word of a text, in bounded memory.

  Beyond `max_words` different words the rarest are dropped: words with count
  one, then words with count two, and so on, until half are left (after Manku &
  Motwani 2002, "lossy counting"). So the count of a word may be too small, by
  `max_undercount` at most. Characters are counted exactly.

  Attributes:
    words: Counter of words.
    num_words: how many words were read.
    max_undercount: see above; 0 if nothing was dropped.
  """

  def __init__(self, do_lower_case: bool, max_words: int):
    self.words: collections.Counter[str] = collections.Counter()
    self.num_words = self.max_undercount = self._floor = 0
    self._dropped_characters: collections.Counter[str] = collections.Counter()
    self._max_words = max_words
    self._tokenize = tokenization.BasicTokenizer(do_lower_case).tokenize

  def add(self, line: str) -> None:
    """Counts the words of a line of text."""
    words = self._tokenize(line)
    self.num_words += len(words)
    self.words.update(words)
    if len(self.words) > self._max_words:
      self._drop_rare()

  def _drop_rare(self):
    while len(self.words) > self._max_words // 2:
      # A dropped word that occurs again starts at 0, so its count may be too
      # small by the floor.
      self._floor += 1
      self.max_undercount += self._floor
      rare = {w: n for w, n in self.words.items() if n <= self._floor}
      self._dropped_characters += _characters(rare)
      for word in rare:
        del self.words[word]

  def characters(self) -> collections.Counter:
    """Returns the counts of the characters of all words that were read."""
    return self._dropped_characters + _characters(self.words)


def _characters(words):
  characters = collections.Counter()
  for word, count in words.items():
    for character in word:
      characters[character] += count
  return characters


def special_tokens(num_unused_tokens: int) -> list[str]:
  """Returns the special tokens in the order of the released vocabularies."""
  unused = [f"[unused{index}]" for index in range(1, num_unused_tokens + 1)]
  return [
    "[PAD]", *unused[:_UNUSED_BEFORE_UNK], "[UNK]", "[CLS]", "[SEP]", "[MASK]",
    *unused[_UNUSED_BEFORE_UNK:],
  ]


def choose_alphabet(characters: dict[str, int], count: int) -> list[str]:
  """Returns the `count` most frequent characters, sorted.

  Equally frequent characters are taken in the order of their code points.
  """
  by_frequency = sorted(characters, key=lambda c: (-characters[c], c))
  return sorted(by_frequency[:count])


def character_pieces(alphabet: list[str], do_lower_case: bool) -> list[str]:
  """Returns the one-character pieces that start or continue a word.

  "a" gives "a" and "##a", but "," only itself: punctuation and Han characters
  are separate words and never continue one.
  """
  tokenize = tokenization.BasicTokenizer(do_lower_case).tokenize
  # The tokenizer does not split these characters from the letter before.
  following = [f"##{c}" for c in alphabet if len(tokenize(f"a{c}")) == 1]
  return [*alphabet, *following]


def learn(
  words: dict[str, int], alphabet: list[str], *, num_pieces: int,
  min_frequency: int, max_words: int,
) -> list[str]:
  """Learns pieces of several characters, the most frequent first.

  Args:
    words: how often each word occurs.
    alphabet: the characters that have a piece each; words with other characters
      are left out, because they become [UNK] with any pieces.
    num_pieces: number of pieces to find; fewer if the words give no more.
    min_frequency: minimum count of a piece.
    max_words: learn from the N most frequent words.

  Returns:
    Pieces, which depend only on the counts, not on their order.
  """
  known = set(alphabet)
  counts = [item for item in words.items() if known.issuperset(item[0])]
  # Ties sort by word, so the words left out depend on the counts alone.
  counts.sort(key=lambda item: (-item[1], item[0]))
  # This fixes the order of characters, which the learner would not: it breaks
  # ties between equally frequent pairs by the order of pieces.
  characters = [*alphabet, *(f"##{c}" for c in alphabet)]
  trainer = tokenizers.trainers.WordPieceTrainer(
    vocab_size=len(characters) + num_pieces, min_frequency=min_frequency,
    special_tokens=characters, show_progress=False,
  )
  learner = tokenizers.Tokenizer(tokenizers.models.WordPiece())
  learner.pre_tokenizer = tokenizers.pre_tokenizers.CharDelimiterSplit(" ")
  learner.train_from_iterator(_repeated(counts[:max_words]), trainer)
  number_of = learner.get_vocab()
  return sorted(number_of, key=number_of.__getitem__)[len(characters) :]


def _repeated(counts):
  """Yields texts that repeat each word as often as it was counted."""
  for word, count in counts:
    for start in range(0, count, _REPEATED_TOGETHER):
      yield f"{word} " * min(_REPEATED_TOGETHER, count - start)


def make_vocabulary(
  counts: WordCounts, *, do_lower_case: bool, vocab_size: int,
  num_unused_tokens: int, min_frequency: int, max_characters: int,
  max_learned_words: int,
) -> list[str]:
  """Returns a vocabulary: special tokens, characters, then longer pieces.

  The arguments are the flags of create_vocabulary.py. Raises InputError:
  `vocab_size` is too small for special tokens and characters.
  """
  characters = counts.characters()
  alphabet = choose_alphabet(characters, max_characters)
  known = sum(characters[character] for character in alphabet)
  logging.info(
    "Alphabet: %d of %d characters, %.4f %% of the text", len(alphabet),
    len(characters), 100 * known / max(1, characters.total()),
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
  return tokens + learn(
    counts.words, alphabet,
    num_pieces=vocab_size - len(tokens),
    min_frequency=min_frequency, max_words=max_learned_words,
  )
