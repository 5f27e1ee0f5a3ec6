"""Learns a WordPiece vocabulary with Hugging Face's `tokenizers`.

The library repeatedly merges the most frequent pair of neighbouring pieces.
tokenization.BasicTokenizer splits text into words, as in training. No
TensorFlow.
"""

import collections
from collections.abc import Iterable, Iterator, Mapping

import tokenizers
from absl import logging

import tokenization
from common import errors

# Maximum number of different words to count (200 bytes each), see count_words.
_MAX_WORDS = 2_000_000
# Maximum number of words (the most frequent) to learn from, at 1 kB each.
_MAX_LEARNED_WORDS = 200_000

# The released vocabularies have 99 [unused] tokens before [UNK] (English ones
# also some after [MASK]), so [UNK], [CLS], [SEP], [MASK] have ids 100 to 103.
_UNUSED_BEFORE_UNK = 99

# Maximum number of repetitions of a word in one text for the library.
_REPEATED_TOGETHER = 10_000


def count_words(
  lines: Iterable[str], do_lower_case: bool, max_words: int = _MAX_WORDS
) -> tuple[collections.Counter[str], collections.Counter[str]]:
  """Counts words and characters in bounded memory.

  Beyond `max_words` different words, the rarer half is dropped, so the count of
  a rare word may be too small. Characters are counted exactly.

  Returns:
    Counts of words, counts of characters.
  """
  tokenize = tokenization.BasicTokenizer(do_lower_case).tokenize
  words: collections.Counter[str] = collections.Counter()
  characters: collections.Counter[str] = collections.Counter()
  for line in lines:
    words.update(tokenize(line))
    if len(words) > max_words:
      logging.info(
        "More than %d different words: the rarer half is dropped", max_words
      )
      kept = collections.Counter(dict(words.most_common(max_words // 2)))
      _count_characters(words - kept, characters)
      words = kept
  _count_characters(words, characters)
  return words, characters


def _count_characters(
  words: dict[str, int], characters: collections.Counter
) -> None:
  for word, count in words.items():
    for character in word:
      characters[character] += count


def special_tokens(num_unused_tokens: int) -> list[str]:
  """Returns the special tokens in the order of the released vocabularies."""
  unused = [f"[unused{index}]" for index in range(1, num_unused_tokens + 1)]
  before, after = unused[:_UNUSED_BEFORE_UNK], unused[_UNUSED_BEFORE_UNK:]
  return ["[PAD]", *before, "[UNK]", "[CLS]", "[SEP]", "[MASK]", *after]


def learn(
  words: Mapping[str, int],
  characters: collections.Counter[str],
  *,
  do_lower_case: bool,
  vocab_size: int,
  num_unused_tokens: int,
  min_frequency: int,
  max_characters: int,
) -> list[str]:
  """Returns a vocabulary: special tokens, characters, then longer pieces.

  It depends only on the counts, not on their order. The other arguments are
  flags of create_vocabulary.py.

  Args:
    words: how often each word occurs.
    characters: how often each character occurs.

  Raises:
    InputError: `vocab_size` is too small for special tokens and characters.
  """
  by_frequency = sorted(characters, key=lambda c: (-characters[c], c))
  alphabet = sorted(by_frequency[:max_characters])
  known = sum(characters[character] for character in alphabet)
  logging.info(
    "Alphabet: %d of %d characters, %.4f %% of the text",
    len(alphabet),
    len(characters),
    100 * known / max(1, characters.total()),
  )
  special = special_tokens(num_unused_tokens)
  # Punctuation and Han characters are separate words, so they need no "##".
  tokenize = tokenization.BasicTokenizer(do_lower_case).tokenize
  following = [f"##{c}" for c in alphabet if len(tokenize(f"a{c}")) == 1]
  first_tokens = [*special, *alphabet, *following]
  if len(first_tokens) > vocab_size:
    raise errors.InputError(
      f"vocab_size {vocab_size} is too small: {len(special)} special tokens, "
      f"{len(alphabet)} characters and {len(following)} of them with ## need "
      f"{len(first_tokens)} entries; pass that, or a smaller --max_characters"
    )
  # The library assigns ids to "##c" in the order of a hash table, which differs
  # between runs. The ids break ties between equally frequent pairs. Special
  # tokens get fixed ids, so the characters are passed as special tokens.
  trainer = tokenizers.trainers.WordPieceTrainer(
    vocab_size=vocab_size,
    min_frequency=min_frequency,
    special_tokens=first_tokens,
    show_progress=False,
  )
  learner = tokenizers.Tokenizer(tokenizers.models.WordPiece())
  learner.pre_tokenizer = tokenizers.pre_tokenizers.CharDelimiterSplit(" ")
  learner.train_from_iterator(_repeated(words, set(alphabet)), trainer)
  vocab = learner.get_vocab()
  return sorted(vocab, key=vocab.__getitem__)


def _repeated(words: Mapping[str, int], alphabet: set[str]) -> Iterator[str]:
  """Yields texts that repeat each frequent word as often as it was counted."""
  # A word with a character outside the alphabet is [UNK] in any case.
  counts = [item for item in words.items() if alphabet.issuperset(item[0])]
  # Ties sort by word, so the selection depends on the counts alone.
  counts.sort(key=lambda item: (-item[1], item[0]))
  for word, count in counts[:_MAX_LEARNED_WORDS]:
    for start in range(0, count, _REPEATED_TOGETHER):
      yield f"{word} " * min(_REPEATED_TOGETHER, count - start)
