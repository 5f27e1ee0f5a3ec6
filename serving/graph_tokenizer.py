"""The tokenizer as TensorFlow operations: raw strings in, ids and offsets out.

Equal to tokenization.py for every string of UTF-8, since its rules are not
written again here: they are read off it, code point by code point, into a
table that goes into the graph. So no other Unicode version (that of
TensorFlow, ICU or RE2) has a say, and the graph keeps the version of the
Python that made it. Letters in shapes: B texts, C code points, O code points
after the rules, W words, P word pieces; all of the last four in one flat row.
"""

import functools
import itertools
import random
import sys
import unicodedata
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text
from absl import logging

import tokenization
from common import errors
from serving import models
from variants import vocabularies

# Of `_Table`: a page has 256 code points.
_PAGE_BITS = 8
_ITSELF = -1  # In a replacement: the code point that is replaced.
# str.lower alone depends on neighbours for this letter.
_SIGMA, _FINAL_SIGMA = 0x3A3, 0x3C2
# What a code point is to its neighbours, in bits.
_CASED, _TRANSPARENT, _STARTER, _ACCENT = 1, 2, 4, 8
_SURROGATES = range(0xD800, 0xE000)  # Not in UTF-8.
_EMPTY_PLANES = 0x40000  # From here on, but for some control characters.

# Of `first_difference`.
_TEXTS_AT_ONCE = 256
_ALPHABETS = (
  "\u03a3\u03c3\u0391a. '\u0301\u00ad\u1d2c\u2019:",
  # Marks that are no accents, with combining classes.
  "a\u302e\u302f\u1b44\ua953\U0001d165\U0001d16e\U0001d15e\u0301\u093e ",
  "\t\n\r\x0b\x1c\x85\xa0\u2028\u3000\u200b\ufeff\ufffd\x00ab,",
  "\u4e00\uf900\u3042\uac01\u1112\u0130\u00df\ufb01\u212bAB\u0323\u0307 ",
  "the [MASK] ##ing CamelCase 1,000.5 ",
)


class Tokens(NamedTuple):
  """Word pieces of texts; all ragged [B, (P)].

  Attributes:
    ids: int32.
    starts, ends: int32, the code points of the text that a piece covers;
      an accent that was stripped belongs to its letter.
    words: int32, number of the piece's word: the same for all its pieces.
    chunks: int32, number of the piece's part of the text between white space.
  """

  ids: tf.RaggedTensor
  starts: tf.RaggedTensor
  ends: tf.RaggedTensor
  words: tf.RaggedTensor
  chunks: tf.RaggedTensor


class GraphTokenizer(tf.Module):
  """A tokenization.FullTokenizer for use inside a tf.function."""

  def __init__(self, tokenizer: tokenization.FullTokenizer):
    """Reads the rules off a tokenizer; takes a few seconds.

    Raises:
      InputError: its vocabulary has no [UNK], or is of SentencePiece.
    """
    super().__init__()
    if vocabularies.is_sentencepiece(tokenizer.vocab_file):
      raise errors.InputError(
        f"{tokenizer.vocab_file} is a SentencePiece model, whose text cannot "
        "be read inside an exported graph yet; predict with the scripts, "
        "such as run_classifier.py --predict_file=-"
      )
    wordpiece = tokenizer.wordpiece_tokenizer
    if wordpiece.unk_token not in tokenizer.vocab:
      raise errors.InputError(
        f"{tokenizer.vocab_file}: no {wordpiece.unk_token}, the token of "
        "unknown words; add it"
      )
    self._lower = tokenizer.basic_tokenizer.do_lower_case
    # Read once for each kind of case in a process: it takes seconds.
    self._rules = _rules(self._lower)
    self._longest_word = wordpiece.max_input_chars_per_word
    # UTF-8 has at most 4 bytes for a code point. What is longer is unknown.
    max_bytes = 4 * self._longest_word
    self._too_long = "x" * (max_bytes + 1)
    self._wordpiece = tf_text.FastWordpieceTokenizer(
      vocab=_matchable(models.vocabulary_lines(tokenizer)),
      suffix_indicator="##",
      max_bytes_per_word=max_bytes,
      unknown_token=wordpiece.unk_token,
      # The words are cut already; its own rules must not act again.
      no_pretokenization=True,
      token_out_type=tf.int32,
    )

  def tokenize(self, texts) -> Tokens:
    """Cuts strings [B] into word pieces; bytes that are no UTF-8 are dropped.

    Offsets count the code points that are left.
    """
    source = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
    # All texts are one flat row from here on, so that every rule is a few
    # operations whatever B is; `rows` says which text a code point is of.
    chars, origins = self._replaced(source)  # [O]
    rows = tf.gather(source.value_rowids(), origins)  # [O]
    is_space = tf.equal(chars, ord(" "))  # [O]
    before = tf.concat([[True], is_space[:-1]], 0)  # [O]
    # A word also begins where the next text does: no space is between texts.
    first = ~is_space & (before | _changes(rows))
    # [W]; spaces are dropped here, and the words' own numbers keep them apart.
    word_rows = tf.boolean_mask(rows, first)
    words = tf.RaggedTensor.from_value_rowids(
      tf.boolean_mask(chars, ~is_space),
      tf.boolean_mask(tf.cumsum(tf.cast(first, tf.int64)) - 1, ~is_space),
      nrows=tf.size(word_rows, tf.int64),
    )
    origins = tf.boolean_mask(origins, ~is_space)  # [O]
    return self._pieces(source, words, word_rows, origins)

  def _replaced(self, source):
    """Applies the rules of BasicTokenizer: spaces then separate words.

    Args:
      source: ragged int32 [B, (C)], code points.

    Returns:
      int32 [O], and int64 [O]: indices in [C] of what each comes from.
    """
    rules, chars = self._rules, source.flat_values
    # The one rule that depends on neighbours; all others are of a code point
    # alone, and a table can hold them.
    if self._lower:
      chars = _final_sigmas(chars, rules.kinds(chars), source.value_rowids())
    replacement = rules.replacements(chars)  # [C]
    # Replacements have 0 (an accent) to about 20 code points: repeat each
    # origin that many times, and number the copies within their origin.
    # "É," becomes "e" and " , ": lengths are 1 3, origins 0 1 1 1, and `within`
    # is 0 0 1 2.
    lengths = tf.gather(rules.lengths, replacement)  # [C]
    origins = tf.repeat(tf.range(tf.size(chars, tf.int64)), lengths)  # [O]
    ends = tf.cumsum(tf.cast(lengths, tf.int64))  # [C]
    within = tf.range(tf.size(origins, tf.int64)) - tf.gather(
      ends - tf.cast(lengths, tf.int64), origins
    )
    starts = tf.gather(rules.starts, tf.gather(replacement, origins))
    targets = tf.gather(rules.targets, starts + within)
    replaced = tf.where(
      tf.equal(targets, _ITSELF), tf.gather(chars, origins), targets
    )
    return self._reordered(replaced, origins, source)

  def _reordered(self, replaced, origins, source):
    """Puts combining marks into their canonical order, as NFD does.

    Few are left to order: accents are gone. Between two starters (most
    characters are starters) marks are sorted by their combining class.
    """
    if not self._lower:
      return replaced, origins
    rules = self._rules
    combining = rules.combining_classes(replaced)  # [O]

    def sort():
      starter = rules.kinds(source.flat_values) & _STARTER > 0
      starter |= _changes(source.value_rowids())
      # One sort for all runs: the run is the high part of the key, the class
      # (below 256) the low one, and a stable sort keeps equal classes in order.
      run = tf.gather(tf.cumsum(tf.cast(starter, tf.int64)), origins)
      keys = run * 256 + tf.cast(combining, tf.int64)
      order = tf.argsort(keys, stable=True)
      return tf.gather(replaced, order), tf.gather(origins, order)

    # Sorting costs more than all else here, and few texts have such marks.
    return tf.cond(
      tf.reduce_any(combining > 0), sort, lambda: (replaced, origins)
    )

  def _pieces(self, source, words, word_rows, origins):
    """Cuts words into pieces.

    Args:
      source: ragged [B, (C)], code points of the texts.
      words: ragged [W, (O)], code points of the words.
      word_rows: [W], the text of each word.
      origins: [O], indices in [C].
    """
    strings = tf.strings.unicode_encode(words, "UTF-8")  # [W]
    # As in the original: a word of more than 200 characters is [UNK]. The
    # operation counts bytes, so such a word is replaced by one that is too
    # long in bytes, too.
    strings = tf.where(
      words.row_lengths() > self._longest_word, self._too_long, strings
    )
    ids, starts, ends = self._wordpiece.tokenize_with_offsets(strings)
    piece_words = ids.value_rowids()  # [P]
    rows = tf.gather(word_rows, piece_words)  # [P]
    first, last = _characters_of(
      words, piece_words, starts.flat_values, ends.flat_values
    )
    # From the text after the rules to the text as it was given.
    first, last = tf.gather(origins, first), tf.gather(origins, last)
    offset = tf.gather(source.row_starts(), rows)  # [P]
    limit = tf.gather(source.row_limits(), rows)  # [P]
    # A text that begins with an accent must not lend it to the one before.
    end = tf.minimum(self._end_with_accents(source.flat_values, last), limit)
    values = Tokens(
      ids=ids.flat_values,
      starts=tf.cast(first - offset, tf.int32),
      ends=tf.cast(end - offset, tf.int32),
      words=tf.cast(piece_words, tf.int32),
      chunks=tf.gather(self._chunk_numbers(source.flat_values), first),
    )
    return Tokens(
      *(
        tf.RaggedTensor.from_value_rowids(value, rows, nrows=source.nrows())
        for value in values
      )
    )

  def _end_with_accents(self, chars, last):
    """Returns the indices after `last` and after the accents that follow."""
    count = tf.size(chars, tf.int64)
    if not self._lower:
      return last + 1
    # The next code point that is no accent ends the piece; after the last one
    # the end of the text does.
    other = tf.where(self._rules.kinds(chars) & _ACCENT == 0)[:, 0]
    other = tf.concat([other, count[tf.newaxis]], 0)
    return tf.gather(other, tf.searchsorted(other, last, side="right"))

  def _chunk_numbers(self, chars):
    """Returns int32 [C]: how much white space is before each code point."""
    replacement = self._rules.replacements(chars)
    is_white = tf.equal(replacement, self._rules.space)
    return tf.cumsum(tf.cast(is_white, tf.int32))


def _matchable(lines):
  """Replaces lines that no word can match by some that differ.

  A word has no space in it, so " 7" is as good as nothing.
  """
  return [
    line if line not in ("", "##") else f" {index}"
    for index, line in enumerate(lines)
  ]


def _changes(values):
  """Returns bool [n]: whether a value differs from the one before."""
  first = tf.ones_like(values[:1], bool)
  return tf.concat([first, values[1:] != values[:-1]], 0)


def _final_sigmas(chars, kinds, rows):
  """Replaces a capital sigma that ends its word, as str.lower does.

  It ends one if the next thing before it is cased and the next after it is
  not; characters such as accents and apostrophes are looked through.

  Args:
    chars, kinds: int32 [C].
    rows: int64 [C], the text of each.
  """

  def replace():
    # Without what is looked through, "the next thing" is the neighbour.
    seen = tf.where(kinds & _TRANSPARENT == 0)[:, 0]
    cased = tf.gather(kinds, seen) & _CASED > 0
    new_row = _changes(tf.gather(rows, seen))  # [seen]
    after_cased = tf.concat([[False], cased[:-1]], 0) & ~new_row
    before_cased = (
      tf.concat([cased[1:], [False]], 0) & ~tf.concat([new_row[1:], [True]], 0)
    )
    final = (
      tf.equal(tf.gather(chars, seen), _SIGMA) & after_cased & ~before_cased
    )
    where = tf.boolean_mask(seen, final)[:, tf.newaxis]
    replaced = tf.fill([tf.size(where)], _FINAL_SIGMA)
    return tf.tensor_scatter_nd_update(chars, where, replaced)

  return tf.cond(
    tf.reduce_any(tf.equal(chars, _SIGMA)), replace, lambda: chars
  )


def _characters_of(words, piece_words, starts, ends):
  """Turns bytes within words into indices of code points.

  Args:
    words: ragged [W, (O)], code points.
    piece_words: [P], the word of each piece.
    starts, ends: [P], first byte of a piece in its word, and the one after
      its last. A word that is too long was replaced by something longer still.

  Returns:
    Two int64 [P], indices in [O] of the first and the last code point.
  """
  chars = words.flat_values
  # UTF-8 takes one byte more from each of these code points on.
  sizes = 1 + tf.add_n(
    [tf.cast(chars >= low, tf.int64) for low in (0x80, 0x800, 0x10000)]
  )
  byte_ends = tf.cumsum(sizes)  # [O]
  byte_starts = byte_ends - sizes
  # One more, since the gathered indices of empty input must exist.
  padded = tf.concat([byte_starts, [tf.reduce_sum(sizes)]], 0)
  word_start = tf.gather(tf.gather(padded, words.row_starts()), piece_words)
  word_limit = tf.gather(tf.gather(padded, words.row_limits()), piece_words)
  ends = tf.minimum(word_start + tf.cast(ends, tf.int64), word_limit)
  first = tf.searchsorted(
    byte_starts, word_start + tf.cast(starts, tf.int64), out_type=tf.int64
  )
  return first, tf.searchsorted(byte_starts, ends, out_type=tf.int64) - 1


# The rules, read off tokenization.py.


class _Table:
  """A number for every code point; pages that are alike are kept once."""

  def __init__(self, values):
    # 1.1 million numbers would add 4 MB to every exported graph. Most pages
    # are alike (all "itself"), so an index of few distinct pages is small.
    pages = values.reshape(-1, 1 << _PAGE_BITS)
    pages, self._index = np.unique(pages, axis=0, return_inverse=True)
    self._index = self._index.reshape(-1).astype(np.int32)
    self._pages = pages.reshape(-1).astype(np.int32)

  def __call__(self, chars):
    """Returns int32 [n] of code points [n]."""
    page = tf.gather(self._index, tf.bitwise.right_shift(chars, _PAGE_BITS))
    return tf.gather(
      self._pages, page * (1 << _PAGE_BITS) + (chars & (1 << _PAGE_BITS) - 1)
    )


class _Rules(NamedTuple):
  """What becomes of every code point.

  Attributes:
    replacements: table of the number of a replacement.
    starts, lengths, targets: replacement r is targets[starts[r]:][:lengths[r]].
    space: number of the replacement that is one space.
    kinds: table of bits, what a code point is to its neighbours.
    combining_classes: table of Unicode's classes, 0 for starters.
  """

  replacements: _Table
  starts: np.ndarray
  lengths: np.ndarray
  targets: np.ndarray
  space: int
  kinds: _Table
  combining_classes: _Table


@functools.cache
def _rules(lower):
  """Returns the _Rules of a BasicTokenizer with `do_lower_case` or not."""
  numbers = {}
  replacements = np.full(sys.maxunicode + 1, numbers.setdefault((_ITSELF,), 0))
  for char, text in _replaced_by(lower).items():
    # In terms of "itself", thousands of characters share a replacement, and
    # `targets` stays short.
    target = tuple(map(ord, text))
    # A space must stay a space of the table: `_chunk_numbers` looks for it.
    if text == char != " ":
      target = (_ITSELF,)
    elif text == f" {char} ":
      target = (ord(" "), _ITSELF, ord(" "))
    replacements[ord(char)] = numbers.setdefault(target, len(numbers))
  lengths = np.array([len(target) for target in numbers], np.int32)
  return _Rules(
    replacements=_Table(replacements),
    starts=(np.cumsum(lengths) - lengths).astype(np.int64),
    lengths=lengths,
    targets=np.array([c for target in numbers for c in target], np.int32),
    space=numbers[(ord(" "),)],
    kinds=_Table(_kinds() if lower else np.zeros_like(replacements)),
    combining_classes=_Table(_combining_classes()),
  )


@functools.cache
def _characters():
  """Returns the characters that a rule can be about, in order.

  The other planes are empty (as yet) or private: what is there stays as it
  is. An unassigned code point within a Han block counts as Han.
  """
  return [
    char
    for char in map(chr, range(sys.maxunicode + 1))
    if ord(char) < _EMPTY_PLANES
    or unicodedata.category(char) not in ("Cn", "Co")
  ]


@functools.cache
def _replaced_by(lower):
  """Returns what BasicTokenizer makes of characters, {character: str}.

  "," -> " , ", an accent -> "", a capital -> a small letter. Each is put
  between two letters, and many in one text, with a word between them that no
  character gives: "a,b zz aBb" -> "a", ",", "b", "zz", "abb".
  """
  tokenize = tokenization.BasicTokenizer(lower).tokenize
  text = " zz ".join(f"a{char}b" for char in _characters())
  parts = " ".join(tokenize(text)).split(" zz ")
  return {char: part[1:-1] for char, part in zip(_characters(), parts)}


def _kinds():
  """Returns int32 [code points], sums of the bits, for lower-casing.

  Python does not tell which characters are cased or looked through, but its
  treatment of a sigma at the end does.
  """
  kinds = np.full(sys.maxunicode + 1, _STARTER)
  kept, lowered = _replaced_by(False), _replaced_by(True)
  for char in _characters():
    if not kept[char]:
      # Control characters are removed before anything else happens.
      kinds[ord(char)] = _TRANSPARENT
      continue
    kind = 0
    # After a cased character a sigma at the end becomes the final form; after
    # "A" and one that is looked through it still does.
    if f"{char}\u03a3".lower()[-1] == "\u03c2":
      kind = _CASED
    elif f"A{char}\u03a3".lower()[-1] == "\u03c2":
      kind = _TRANSPARENT
    if not lowered[char]:
      kind |= _ACCENT
    decomposed = unicodedata.normalize("NFD", char.lower())
    if not all(map(unicodedata.combining, decomposed)):
      kind |= _STARTER
    kinds[ord(char)] = kind
  return kinds


def _combining_classes():
  classes = np.zeros(sys.maxunicode + 1, np.int32)
  for char in _characters():
    classes[ord(char)] = unicodedata.combining(char)
  return classes


# A proof by trying.


def check_same(
  graph_tokenizer: GraphTokenizer,
  tokenizer: tokenization.FullTokenizer,
  *,
  may_differ: bool = False,
) -> None:
  """Refuses a graph whose ids could differ from those of training.

  Args:
    tokenizer: the one that it was made from.
    may_differ: whether to say so in the log only.

  Raises:
    InputError: the ids of a text differ, which is named.
  """
  text = first_difference(graph_tokenizer, tokenizer)
  if text is None:
    logging.info("the tokenizer in the graph equals tokenization.py")
    return
  sentence = (
    f"{tokenizer.vocab_file}: the tokenizer in the graph gives other ids than "
    f"tokenization.py, for example for {ascii(text):.200}"
  )
  if not may_differ:
    raise errors.InputError(
      f"{sentence}; pass --allow_tokenizer_differences to use it anyway"
    )
  logging.warning("%s", sentence)


def first_difference(
  graph_tokenizer: GraphTokenizer, tokenizer: tokenization.FullTokenizer
) -> str | None:
  """Returns a text whose ids differ from those of tokenization.py, if any.

  Tried are every character within a word, every token of the vocabulary, and
  random texts, most of them of characters that are hard to get right.
  """

  @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
  def compute(batch):
    return graph_tokenizer.tokenize(batch).ids

  texts = _texts_to_try(tokenizer)
  while batch := list(itertools.islice(texts, _TEXTS_AT_ONCE)):
    for text, ids in zip(batch, compute(tf.constant(batch)).to_list()):
      if ids != tokenizer.encode(text):
        return text
  return None


def _texts_to_try(tokenizer):
  plain = [char for char in _characters() if ord(char) not in _SURROGATES]
  plain += map(chr, range(_EMPTY_PLANES, sys.maxunicode, 99))
  for start in range(0, len(plain), 1000):
    yield " ".join(f"a{char}b" for char in plain[start : start + 1000])
  lines = models.vocabulary_lines(tokenizer)
  for start in range(0, len(lines), 100):
    some = lines[start : start + 100]
    yield " ".join(some) + "".join(some).replace("##", "")
  longest = tokenizer.wordpiece_tokenizer.max_input_chars_per_word
  for char in "a1\u00e9\u0416\u3042\U00010400":
    for length in range(longest - 1, longest + 2):
      yield char * length
  rng = random.Random(0)
  # One alphabet after another: what begins a text must not act on the last.
  for alphabet in _ALPHABETS:
    for _ in range(300):
      yield "".join(rng.choices(alphabet, k=rng.randrange(60)))
  for _ in range(300):
    yield "".join(rng.choices(plain, k=60))
