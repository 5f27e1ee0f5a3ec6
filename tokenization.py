"""Converts text to the same WordPiece tokens and ids as the original, faster.

FullTokenizer is BasicTokenizer (clean the text, optionally lower-case it and
strip its accents, split at white space and punctuation) followed by
WordpieceTokenizer (longest match first). Needs no TensorFlow.

Words recur in any text, so a cache holds the result of each chunk between two
spaces. The cache is bounded (see `_Cache`). It changes no result, because
U+0020 separates words at every stage, whatever its neighbours are.
"""

import bisect
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from common import errors, file_io
from text import input_sequences

# A released folder's name says whether its model lower-cases, as in
# "/data/wwm_cased_L-24_H-1024_A-16/bert_model.ckpt".
# Unlike the original: patterns replace its two lists of names. They also match
# the whole-word-masking releases and the 24 small models.
_RELEASED_FOLDER = re.compile(r"([\w-]+)/bert_model\.ckpt", re.ASCII)
_SIZE = r"_L-\d+_H-\d+_A-\d+"
_LOWER_CASED_RELEASE = re.compile(
  f"(wwm_uncased|uncased|multilingual|chinese){_SIZE}"
)
_CASED_RELEASE = re.compile(f"(wwm_cased|cased|multi_cased){_SIZE}")

# Han characters, by block. Each becomes a word, because Chinese has no spaces.
# As in the original: a list of ranges, not a property of Unicode. The list
# lacks U+3007, extension F (U+2CEB0) and later extensions, Hangul and kana.
_HAN_RANGES = (
  (0x3400, 0x4DBF),  # Extension A.
  (0x4E00, 0x9FFF),  # Unified Ideographs.
  (0xF900, 0xFAFF),  # Compatibility Ideographs.
  (0x20000, 0x2A6DF),  # Extension B.
  (0x2A700, 0x2CEAF),  # Extensions C, D and E.
  (0x2F800, 0x2FA1F),  # Compatibility Supplement.
)
# Code points at which "is Han" changes, for a binary search.
_HAN_EDGES = [edge for first, last in _HAN_RANGES for edge in (first, last + 1)]

_ASCII_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
# Printable ASCII has only letters, digits, the space and _ASCII_PUNCTUATION.
_ASCII_WORDS = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9 ]")

# Each cache has these limits. Even a large English text has fewer frequent
# chunks than this, and longer chunks (links, numbers) rarely recur.
_CACHED_ENTRIES = 1 << 17
_CACHED_CHARS = 32


class UnknownTokenError(errors.InputError, KeyError):
  """Raised for a token or an id that is not in the vocabulary.

  As in the original: it is a KeyError. Unlike the original: its message has a
  remedy, and it is also an InputError, which scripts report.
  """

  __str__ = Exception.__str__  # KeyError.__str__ adds quotes.


def validate_case_matches_checkpoint(
  do_lower_case: bool, init_checkpoint: str | None
) -> None:
  """Refuses a released model with the wrong `do_lower_case`.

  As in the original: checks only paths "<released folder>/bert_model.ckpt...".

  Raises:
    InputError: the text would be lower-cased for a cased model, or vice versa.
  """
  folder = _RELEASED_FOLDER.search(init_checkpoint or "")
  if not folder:
    return
  name = folder.group(1)
  if do_lower_case and _CASED_RELEASE.fullmatch(name):
    case, text = "cased", "lower-cased text"
  elif not do_lower_case and _LOWER_CASED_RELEASE.fullmatch(name):
    case, text = "lower-cased", "text with its capitals"
  else:
    return  # The case is right, or the folder is not a released one.
  raise errors.InputError(
    f"--do_lower_case={bool(do_lower_case)} gives {text} to {name}, whose "
    f"vocabulary and weights are {case} (--init_checkpoint={init_checkpoint}):"
    f" pass --do_lower_case={not do_lower_case}, or rename the folder if it "
    "does not hold the released model"
  )


def convert_to_unicode(text: str | bytes) -> str:
  """Returns `text` as str; decodes bytes as UTF-8 and drops invalid bytes.

  Raises:
    ValueError: `text` is neither str nor bytes.
  """
  if isinstance(text, str):
    return text
  if isinstance(text, bytes):
    return text.decode("utf-8", "ignore")
  raise ValueError(f"text must be str or bytes, not {type(text).__name__}")


def printable_text(text: str | bytes) -> str:
  """Returns `text` as str for printing, like `convert_to_unicode`.

  As in the original: the two differ only in Python 2, where print takes bytes.
  """
  return convert_to_unicode(text)


def load_vocab(vocab_file: str) -> dict[str, int]:
  r"""Reads {token: id} from a file with one token per line, ids from 0.

  As in the original: lines end only at "\n" and are stripped of white space,
  an empty line uses up an id, and a repeated token gets the id of its last
  line. Unlike the original: a "\r" inside a line stays, see file_io.read_lines.

  Raises:
    InputError: see file_io.read_lines.
  """
  return {
    line.strip(): number - 1 for number, line in file_io.read_lines(vocab_file)
  }


def convert_by_vocab(vocab: Mapping, items: Iterable) -> list:
  """Returns the entries of `vocab` for tokens or ids.

  Raises:
    UnknownTokenError: an item is not in `vocab`; the message names it.
  """
  try:
    return list(map(vocab.__getitem__, items))
  except KeyError as error:
    raise UnknownTokenError(
      f"{error.args[0]!r} is not among the {len(vocab)} entries of the "
      "vocabulary; use the vocabulary that belongs to these data"
    ) from error


def convert_tokens_to_ids(
  vocab: Mapping[str, int], tokens: Iterable[str]
) -> list[int]:
  """Returns the ids of `tokens`, as `convert_by_vocab` does."""
  return convert_by_vocab(vocab, tokens)


def convert_ids_to_tokens(
  inv_vocab: Mapping[int, str], ids: Iterable[int]
) -> list[str]:
  """Returns the tokens of `ids`, as `convert_by_vocab` does."""
  return convert_by_vocab(inv_vocab, ids)


def whitespace_tokenize(text: str) -> list[str]:
  """Splits at white space like `str.split` (also at U+2028 and U+2029)."""
  return text.split()


class Specials(NamedTuple):
  """The special tokens around texts, for BERT: [CLS] A [SEP] B [SEP].

  Attributes:
    cls, sep, mask: tokens.
    mask_strips: whether the mask includes white space before and after it.
    between: the number of `sep` tokens between two texts.
    segment_b: the segment of the second text and its `sep`.
    odd_to_longer: whether, if both texts are truncated to an odd number of
      pieces, the longer text (of equally long ones the second) keeps one more,
      as in transformers. Otherwise it is the first, like the original's.
  """

  cls: str = "[CLS]"
  sep: str = "[SEP]"
  mask: str = "[MASK]"
  between: int = 1
  segment_b: int = 1
  odd_to_longer: bool = False
  mask_strips: tuple[bool, bool] = (True, False)


BERTS = Specials()


class FullTokenizer:
  """Tokenizes text into word pieces and their ids.

  Attributes:
    vocab_file: path of the vocabulary.
    vocab: dict of token -> id; do not change it.
    inv_vocab: dict of id -> token.
    do_lower_case: whether to lower-case text and strip its accents.
    never_split: words of the vocabulary that stay whole, see BasicTokenizer.
    unk_token: the token for an unknown word.
    specials: the tokens around texts.
    basic_tokenizer, wordpiece_tokenizer: the two stages.
  """

  unk_token = "[UNK]"

  def __init__(
    self,
    vocab_file: str,
    do_lower_case: bool = True,
    never_split: Iterable[str] = (),
    *,
    vocab: dict[str, int] | None = None,
    like_transformers: bool = False,
    **text_rules: bool,
  ):
    """Reads the vocabulary.

    Args:
      vocab: the content of `vocab_file`; None: it is read.
      like_transformers: whether to follow transformers where the original
        differs: a capital sigma at the end of a word becomes a small one like
        any other, a word of more than 100 characters is unknown, and truncation
        as in Specials.odd_to_longer.
      **text_rules: options of BasicTokenizer.

    Raises:
      InputError: see `load_vocab`; or the vocabulary is empty, or some of
        `never_split` cannot stay whole.
    """
    self.vocab_file = vocab_file
    self.do_lower_case = do_lower_case
    self.never_split = tuple(never_split)
    self.vocab = load_vocab(vocab_file) if vocab is None else vocab
    if not any(self.vocab):
      raise errors.InputError(
        f"{vocab_file}: no token in it; a vocabulary has one token per line"
      )
    self.inv_vocab = {index: token for token, index in self.vocab.items()}
    self.basic_tokenizer = BasicTokenizer(
      do_lower_case,
      self.never_split,
      final_sigma=not like_transformers,
      **text_rules,
    )
    self.wordpiece_tokenizer = WordpieceTokenizer(
      vocab=self.vocab,
      max_input_chars_per_word=100 if like_transformers else 200,
    )
    self.specials = BERTS._replace(odd_to_longer=like_transformers)
    # There are three caches, because callers need tokens or ids, and one word
    # occurs in many chunks ("the," "(the").
    self._chunk_tokens = _Cache(self._tokens_of_chunk)
    self._chunk_ids = _Cache(self._ids_of_chunk)
    self._word_ids = _Cache(self._ids_of_word)
    # Here, Hugging Face's tokenizer silently gives [UNK] or other pieces.
    if cut := [w for w in self.never_split if self.tokenize(w) != [w]]:
      raise errors.InputError(
        f"never_split: {', '.join(map(repr, cut))} cannot stay whole; each "
        f"must be a token of {vocab_file}, without white space or control "
        "characters, and without a Han character next to other characters"
      )

  def tokenize(self, text: str | bytes) -> list[str]:
    """Returns the word pieces of `text`; bytes are UTF-8.

    As in the original: special tokens get no special treatment, so "[MASK]"
    gives "[", "mask", "]".
    """
    return _for_each_chunk(self._chunk_tokens, text)

  def encode(self, text: str | bytes) -> list[int]:
    """Returns `convert_tokens_to_ids(tokenize(text))`, but faster.

    Raises:
      UnknownTokenError: a word is unknown and the vocabulary has no [UNK].
    """
    return _for_each_chunk(self._chunk_ids, text)

  def batch(
    self, texts: Sequence, max_seq_length: int, *, pad: bool = True
  ) -> dict[str, np.ndarray]:
    """Returns a network's inputs for N texts or pairs of texts.

    Args:
      texts: list of str, or of pairs (str, str).
      max_seq_length: the length T in word pieces; longer texts are truncated.
      pad: False reduces T to the longest sequence.

    Returns:
      int32 [N, T] each: input_ids, input_mask (1 for a piece, 0 for padding)
      and segment_ids.

    Raises:
      InputError: max_seq_length is too short for the special tokens.
    """
    frame, sequences = self.frame, []
    if frame.room(max_seq_length) < 0:
      raise errors.InputError(
        f"max_seq_length={max_seq_length} is too short for the special tokens"
      )
    for text in texts:
      first, second = (text, "") if isinstance(text, str) else text
      ids_a, ids_b = self.encode(first), self.encode(second)
      room = frame.room(max_seq_length, bool(ids_b))
      input_sequences.truncate_pair(
        ids_a, ids_b, room, odd_to_longer=frame.odd_to_longer
      )
      sequences.append(
        input_sequences.build_inputs(ids_a, ids_b or None, frame=frame)
      )
    ids, segments = zip(*sequences) if sequences else ((), ())
    length = max_seq_length if pad else max(map(len, ids), default=0)
    return input_sequences.pad_batch(ids, segments, length=length)

  def encode_lines(self, lines: list[str | bytes]) -> tuple:
    """Encodes many lines, for pretraining.data.read_corpus.

    Returns the concatenated ids of all lines, the number of ids of each line,
    and None. Other tokenizers return flags for the pieces that continue a word;
    WordPiece needs none, because "##" marks these pieces.
    """
    rows = list(map(self.encode, lines))
    return list(itertools.chain.from_iterable(rows)), list(map(len, rows)), None

  def encode_words(self, words: Sequence[str]) -> list[list[int]]:
    """Returns the ids of each word of a text, as a list per word."""
    return [self.encode(word) for word in words]

  def joined_pieces(self, pieces: Iterable[str]) -> str:
    """Returns the text of pieces: ["sm", "##ith", "'"] -> "smith '"."""
    text = " ".join(pieces).replace(" ##", "").replace("##", "")
    return " ".join(text.split())

  def word_text(self, word: str) -> str:
    """Returns a word as its pieces spell it: "Lang's" -> "lang ' s"."""
    return " ".join(self.basic_tokenizer.tokenize(word))

  @property
  def frame(self) -> input_sequences.Frame:
    """The ids of `specials`; raises UnknownTokenError if one is missing."""
    cls, sep, _, between, segment_b, odd_to_longer, _ = self.specials
    cls_id, sep_id = self.convert_tokens_to_ids([cls, sep])
    return input_sequences.Frame(
      cls_id, sep_id, between, segment_b, odd_to_longer
    )

  @property
  def mask_id(self) -> int:
    """The id of the mask; raises UnknownTokenError if it is missing."""
    return self.convert_tokens_to_ids([self.specials.mask])[0]

  def convert_tokens_to_ids(self, tokens: Iterable[str]) -> list[int]:
    """Returns the ids; raises UnknownTokenError for an unknown token."""
    return self._convert(self.vocab, tokens)

  def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
    """Returns the tokens; raises UnknownTokenError for an unknown id."""
    return self._convert(self.inv_vocab, ids)

  def _convert(self, vocab: Mapping, items: Iterable) -> list:
    try:
      return convert_by_vocab(vocab, items)
    except UnknownTokenError as error:
      raise UnknownTokenError(f"{self.vocab_file}: {error}") from error

  def _tokens_of_chunk(self, chunk) -> tuple:
    words = self.basic_tokenizer.tokenize(chunk)
    return tuple(self.wordpiece_tokenizer.tokenize_words(words))

  def _ids_of_chunk(self, chunk) -> tuple:
    words = self.basic_tokenizer.tokenize(chunk)
    return tuple(_chain(self._word_ids, words))

  def _ids_of_word(self, word: str) -> tuple:
    pieces = self.wordpiece_tokenizer.longest_matches(word)
    return tuple(self.convert_tokens_to_ids(pieces))


class BasicTokenizer:
  """Splits text at white space, punctuation and Han characters."""

  def __init__(
    self,
    do_lower_case: bool = True,
    never_split: Iterable[str] = (),
    *,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool = True,
    final_sigma: bool = True,
  ):
    """Makes a tokenizer.

    Args:
      do_lower_case: whether to lower-case words and strip their accents.
      strip_accents: Hugging Face's option: whether to strip accents; None means
        the value of `do_lower_case`.
      tokenize_chinese_chars: Hugging Face's option; False treats Han characters
        like other letters.
      final_sigma: whether a capital sigma at the end of a word becomes the
        final small sigma; Hugging Face's tokenizers have no such rule.
      never_split: words that stay whole between white space or Han characters.
        As in Hugging Face's BertTokenizer, the entry "C++" keeps its case; if
        words are lower-cased, the entry "c++" matches "c++" and "C++".
    """
    self.do_lower_case = do_lower_case
    self.strip_accents = (
      do_lower_case if strip_accents is None else strip_accents
    )
    self.tokenize_chinese_chars = tokenize_chinese_chars
    self.final_sigma = final_sigma
    self.never_split = frozenset(never_split)

  def tokenize(self, text: str | bytes) -> list[str]:
    """Returns the words of `text`; bytes are UTF-8."""
    text = convert_to_unicode(text)
    if not self.never_split:
      return self._split(text)
    words: list[str] = []
    for word in text.translate(self._cleaning).split():
      parts = [word] if word in self.never_split else self._split(word)
      # The lower-cased word may be in never_split.
      joined = "".join(parts)
      words += [joined] if joined in self.never_split else parts
    return words

  @property
  def _cleaning(self) -> "_CharacterTable":
    return _CLEANING if self.tokenize_chinese_chars else _CLEANING_BUT_HAN

  def _split(self, text: str) -> list[str]:
    # Most text is printable ASCII: it has no accents, control characters or
    # white space other than U+0020, so one regular expression splits it.
    if text.isascii() and text.isprintable():
      return _ASCII_WORDS.findall(text.lower() if self.do_lower_case else text)
    text = text.translate(self._cleaning)
    # The original processes each word. The whole text gives the same result:
    # lower-casing depends on neighbours (a final sigma) and NFD reorders
    # accents, but neither reaches across white space.
    if self.do_lower_case:
      text = text if self.final_sigma else text.replace("\u03a3", "\u03c3")
      text = text.lower()
    if not self.strip_accents:
      return text.translate(_PUNCTUATION).split()
    text = unicodedata.normalize("NFD", text)
    return text.translate(_PUNCTUATION_AND_ACCENTS).split()


class WordpieceTokenizer:
  """Splits words from the left into the longest pieces of a vocabulary.

  "seashells" -> ["sea", "##shell", "##s"]
  """

  def __init__(
    self,
    vocab: dict[str, int],
    unk_token: str = "[UNK]",
    max_input_chars_per_word: int = 200,
  ):
    """Makes a tokenizer.

    Args:
      vocab: dict of piece -> id; do not change it.
      unk_token: token for a word that cannot be split into pieces.
      max_input_chars_per_word: a longer word becomes unk_token.
        As in the original: counted after cleaning and accent stripping.
    """
    self.vocab = vocab
    self.unk_token = unk_token
    self.max_input_chars_per_word = max_input_chars_per_word
    # As in the original: a token that begins with "##" also matches at the
    # start of a word.
    self._first_pieces = {token: token for token in vocab}
    # The key of "##shell" is "shell", so the search concatenates no strings.
    self._inner_pieces = {
      token[2:]: token for token in vocab if token.startswith("##")
    }
    # A match is never longer than the longest piece.
    self._longest_piece = max(map(len, vocab), default=0)
    self._pieces_of = _Cache(self.longest_matches)

  def tokenize(self, text: str | bytes) -> list[str]:
    """Returns the pieces of a word or of words separated by white space."""
    return self.tokenize_words(whitespace_tokenize(convert_to_unicode(text)))

  def tokenize_words(self, words: Sequence[str]) -> list[str]:
    """Returns the pieces of words; they must not contain white space."""
    return _chain(self._pieces_of, words)

  def longest_matches(self, word: str) -> tuple[str, ...]:
    """Returns the pieces of one word, which must not contain white space."""
    if len(word) > self.max_input_chars_per_word:
      return (self.unk_token,)
    pieces = []
    start = 0
    table = self._first_pieces
    while start < len(word):
      end = min(len(word), start + self._longest_piece)
      # As in the original: the longest match, not the best of all splits.
      while end > start and word[start:end] not in table:
        end -= 1
      # Without a match, the whole word is unknown, despite its first pieces.
      if end == start:
        return (self.unk_token,)
      pieces.append(table[word[start:end]])
      start = end
      table = self._inner_pieces
    return tuple(pieces)


def _for_each_chunk(cache, text: str | bytes):
  """Returns the concatenated results for the chunks of `text` between spaces.

  Only tab, line feed and U+0020 separate chunks. `str.split` would also split
  at U+000B and U+0085, but BasicTokenizer removes these as control characters,
  which joins their neighbours.
  """
  text = convert_to_unicode(text).replace("\n", " ").replace("\t", " ")
  return _chain(cache, text.split(" "))


def _chain(cache, keys) -> list:
  """Returns [*cache[keys[0]], *cache[keys[1]], ...]."""
  return list(itertools.chain.from_iterable(map(cache.__getitem__, keys)))


class _Cache(dict):
  """Caches a function of a string; a lookup computes a missing result.

  Its size is bounded: results of long strings are not stored, and a full cache
  is cleared. Clearing costs less than tracking the use of each entry, because
  frequent words are soon cached again.
  """

  def __init__(self, function: Callable):
    super().__init__()
    self.function = function

  def __missing__(self, key: str):
    # dict calls this only for a missing key; a hit runs no Python code.
    value = self.function(key)
    if len(key) <= _CACHED_CHARS:
      if len(self) >= _CACHED_ENTRIES:
        self.clear()
      self[key] = value
    return value

  def __reduce__(self) -> tuple:
    # Entries are not pickled: workers get the tokenizer with an empty cache.
    return _Cache, (self.function,)


class _CharacterTable(dict):
  """A table for `str.translate` that computes its entries on first use.

  Its size is bounded, because Unicode has a million code points.
  """

  def __init__(self, replacement: Callable[[str], str]):
    super().__init__()
    self.replacement = replacement

  def __missing__(self, code_point: int) -> str:
    # Clearing bounds the memory; every entry can be computed again.
    if len(self) >= _CACHED_ENTRIES:
      self.clear()
    value = self[code_point] = self.replacement(chr(code_point))
    return value


def _clean(char: str) -> str:
  """Removes control characters and U+FFFD; turns white space into " "."""
  if _is_whitespace(char):
    return " "
  return "" if char == "\ufffd" or _is_control(char) else char


def _isolate_han(char: str):
  return f" {char} " if _is_han(char) else _clean(char)


def _is_whitespace(char: str) -> bool:
  return char in "\t\n\r" or unicodedata.category(char) == "Zs"


def _is_control(char: str) -> bool:
  is_control = unicodedata.category(char) in ("Cc", "Cf")
  # Tab, line feed and carriage return have category Cc but are white space.
  return is_control and not _is_whitespace(char)


def _is_han(char: str) -> bool:
  return bisect.bisect(_HAN_EDGES, ord(char)) % 2 == 1


def _is_punctuation(char: str) -> bool:
  # As in the original: all ASCII except letters, digits, space and control
  # characters, even "$" and "^", which are symbols in Unicode.
  return char in _ASCII_PUNCTUATION or unicodedata.category(char)[0] == "P"


def _isolate_punctuation(char: str):
  return f" {char} " if _is_punctuation(char) else char


def _strip_accents(char: str):
  # NFD has made each accent a separate character.
  if unicodedata.category(char) == "Mn":
    return ""
  return _isolate_punctuation(char)


_CLEANING = _CharacterTable(_isolate_han)
_CLEANING_BUT_HAN = _CharacterTable(_clean)
_PUNCTUATION = _CharacterTable(_isolate_punctuation)
_PUNCTUATION_AND_ACCENTS = _CharacterTable(_strip_accents)
