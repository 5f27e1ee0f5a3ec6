"""The tokenizer as TensorFlow operations: raw strings in, ids and offsets out.

For every UTF-8 string, the ids equal tokenization.py's ids, because the graph
has a table with tokenization.py's output for each code point. So the Unicode
versions of TensorFlow, ICU and RE2 have no effect; the graph keeps the Unicode
version of the Python that built it. Letters in shapes: B texts; over all texts,
C code points, O code points after replacement, W words, P word pieces.
"""

import functools
import itertools
import random
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

import tokenization
from common import errors, lean_tensorflow
from variants import tokenizer_file, vocabularies

_PAGE = 256  # Code points per page, see `_Rules`.
_ITSELF = -1  # In a replacement: the code point that it replaces.
# The only letter whose lower case depends on its neighbours.
_SIGMA, _FINAL_SIGMA = "\u03a3", "\u03c2"
# The roles of a code point, one bit each.
_CASED, _TRANSPARENT, _STARTER, _ACCENT, _SPACE = 1, 2, 4, 8, 16
_EMPTY_PLANES = 0x40000  # Planes from here on are empty or almost empty.

# Inputs of `check_same`.
_TEXTS_AT_ONCE = 256
_ALPHABETS = (
  "\u03a3\u03c3\u0391a. '\u0301\u00ad\u1d2c\u2019:",
  # Mostly combining marks that the tokenizer does not strip as accents.
  "a\u302e\u302f\u1b44\ua953\U0001d165\U0001d16e\U0001d15e\u0301\u093e ",
  "\t\n\r\x0b\x1c\x85\xa0\u2028\u3000\u200b\ufeff\ufffd\x00ab,",
  "\u4e00\uf900\u3042\uac01\u1112\u0130\u00df\ufb01\u212bAB\u0323\u0307 ",
  "the [MASK] ##ing CamelCase 1,000.5 ",
)


class Tokens(NamedTuple):
  """Word pieces of texts; all fields are ragged int32 [B, (P)].

  Attributes:
    starts, ends: the range of the text's code points that a piece covers; a
      stripped accent belongs to its letter.
    words: number of the piece's word, counted over all texts.
    chunks: number of the piece's chunk (a string without white space), counted
      over all texts, with gaps.
  """

  ids: tf.RaggedTensor
  starts: tf.RaggedTensor
  ends: tf.RaggedTensor
  words: tf.RaggedTensor
  chunks: tf.RaggedTensor


class GraphTokenizer(tf.Module):
  """A tokenization.FullTokenizer for use inside a tf.function."""

  def __init__(self, tokenizer: tokenization.FullTokenizer):
    """Builds the table from a tokenizer, which takes a few seconds.

    Raises InputError: the vocabulary has no [UNK] or is not a list of word
    pieces, or the tokenizer has `never_split`.
    """
    super().__init__()
    if isinstance(tokenizer, tokenizer_file.FileTokenizer):
      raise errors.InputError(
        f"{tokenizer.vocab_file} is not a list of BERT's word pieces, the only "
        "vocabulary that a SavedModel's graph supports; export with "
        "--format=onnx or litert, which serve.py serves too"
      )
    if tokenizer.never_split:
      raise errors.InputError(
        f"--never_split={','.join(tokenizer.never_split)}: a SavedModel's "
        "graph cannot keep words whole; export with --format=onnx or litert, "
        "which serve.py serves too"
      )
    wordpiece = tokenizer.wordpiece_tokenizer
    (self._unknown,) = tokenizer.convert_tokens_to_ids([wordpiece.unk_token])
    lines = vocabularies.lines(tokenizer)
    self._sizes = np.array([len(line.removeprefix("##")) for line in lines])
    basic = tokenizer.basic_tokenizer
    self._strips = basic.strip_accents
    self._has_final_sigma = basic.do_lower_case and basic.final_sigma
    self._rules = _rules(
      basic.do_lower_case, basic.strip_accents, basic.tokenize_chinese_chars
    )
    self._longest_word = wordpiece.max_input_chars_per_word
    # UTF-8 has at most 4 bytes per code point. A longer word is [UNK] anyway.
    max_bytes = 4 * self._longest_word
    self._too_long = "x" * (max_bytes + 1)
    tensorflow_text = lean_tensorflow.import_tensorflow_text()
    self._wordpiece = tensorflow_text.FastWordpieceTokenizer(
      # Entries must be unique. So an empty entry with the id 7 becomes " 7",
      # which never matches, because words contain no spaces.
      vocab=[
        line if line not in ("", "##") else f" {index}"
        for index, line in enumerate(lines)
      ],
      suffix_indicator="##",
      max_bytes_per_word=max_bytes,
      unknown_token=wordpiece.unk_token,
      # The words are already split at white space and punctuation.
      no_pretokenization=True,
      token_out_type=tf.int32,
    )

  def tokenize(self, texts: tf.Tensor) -> Tokens:
    """Splits strings [B] into word pieces and drops bytes that are not UTF-8.

    Offsets count the remaining code points.
    """
    # Process all texts as one flat vector, which needs few operations for any
    # B. A text cannot affect the next, because no rule looks beyond a space.
    texts = tf.strings.join([texts, " "])
    source = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
    rules, chars = self._rules, source.flat_values  # [C]
    roles = tf.gather(rules.roles, rules.classes_of(chars))  # [C]
    replaced, origins = self._replaced(chars, roles)  # [O]
    if self._strips:
      replaced, origins = self._reordered(replaced, origins, roles)
    ids, words, sizes = self._pieces(replaced)  # [P]
    # Convert offsets in the replaced text to offsets in the input text.
    origins = tf.boolean_mask(origins, replaced != ord(" "))
    limits = tf.cumsum(sizes)
    first = tf.gather(origins, limits - sizes)  # [P]
    last = tf.gather(origins, limits - 1)
    # A piece ends before the next code point that is not an accent.
    other = tf.where(roles & _ACCENT == 0)[:, 0]
    end = tf.gather(other, tf.searchsorted(other, last, side="right"))
    # A code point's chunk is the number of white-space characters before it.
    chunks = tf.cumsum(tf.cast(roles & _SPACE > 0, tf.int64))  # [C]
    rows = tf.gather(source.value_rowids(), first)
    offset, nrows = tf.gather(source.row_starts(), rows), source.nrows()

    # The others share the row partition, whose checks are many operations.
    ids = tf.RaggedTensor.from_value_rowids(ids, rows, nrows=nrows)
    others = first - offset, end - offset, words, tf.gather(chunks, first)
    return Tokens(
      ids, *(ids.with_flat_values(tf.cast(v, tf.int32)) for v in others)
    )

  def _replaced(
    self, chars: tf.Tensor, roles: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Replaces code points as BasicTokenizer does; spaces then separate words.

    It takes code points [C] and their role bits. It returns new code points,
    int32 [O], and for each the index of its origin in [C].
    """
    # The rule for sigmas depends on neighbours; the table has all other rules.
    if self._has_final_sigma:
      chars = _final_sigmas(chars, roles)
    rules = self._rules
    classes = rules.classes_of(chars)  # [C]
    # A replacement has 0 (for an accent) to 3 code points: repeat the
    # origin for each of them, and number them within the replacement.
    # "É," becomes "e" and " , ": lengths are 1 3, origins 0 1 1 1, and `within`
    # is 0 0 1 2.
    lengths = tf.gather(rules.lengths, classes)  # [C]
    origins = tf.repeat(tf.range(tf.size(chars, tf.int64)), lengths)  # [O]
    within = tf.range(tf.size(origins, tf.int64)) - tf.gather(
      tf.cumsum(lengths, exclusive=True), origins
    )
    starts = tf.gather(rules.starts, tf.gather(classes, origins))
    targets = tf.gather(rules.targets, starts + within)
    is_same = tf.equal(targets, _ITSELF)
    return tf.where(is_same, tf.gather(chars, origins), targets), origins

  def _reordered(
    self, replaced: tf.Tensor, origins: tf.Tensor, roles: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Puts combining marks into their canonical order, as NFD does.

    It sorts the marks between two starters by their combining class. Most
    characters are starters. Marks that are accents are already removed.
    """
    rules = self._rules
    combining = tf.gather(rules.combining, rules.classes_of(replaced))  # [O]

    def sort() -> tuple[tf.Tensor, tf.Tensor]:
      # Sort all runs of marks at once: by run, then by class, which is below
      # 256. A stable sort keeps ties in order.
      run = tf.cumsum(tf.cast(roles & _STARTER > 0, tf.int64))  # [C]
      keys = tf.gather(run, origins) * 256 + combining
      order = tf.argsort(keys, stable=True)
      return tf.gather(replaced, order), tf.gather(origins, order)

    # Sorting is slow, and few texts have such marks.
    return tf.cond(
      tf.reduce_any(combining > 0), sort, lambda: (replaced, origins)
    )

  def _pieces(
    self, replaced: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the pieces' ids, word indices and code point counts, all [P]."""
    words = tf.strings.split(tf.strings.unicode_encode(replaced, "UTF-8"))
    lengths = tf.cast(tf.strings.length(words, "UTF8_CHAR"), tf.int64)  # [W]
    # As in the original: a word of more than 200 characters is [UNK]. The
    # operation limits bytes, not characters, so replace such a word with a
    # string that has too many bytes.
    words = tf.where(lengths > self._longest_word, self._too_long, words)
    pieces = self._wordpiece.tokenize(words)
    ids, numbers = pieces.flat_values, pieces.value_rowids()
    # [UNK] covers a whole word. Other pieces cover their own characters.
    known = tf.gather(self._sizes, ids)
    sizes = tf.where(ids == self._unknown, tf.gather(lengths, numbers), known)
    return ids, numbers, sizes


def _final_sigmas(chars: tf.Tensor, roles: tf.Tensor) -> tf.Tensor:
  """Replaces a capital sigma at the end of a word, as str.lower does.

  A sigma ends a word if the character before it is cased and the character
  after it is not, ignoring transparent characters, such as apostrophes.

  Args:
    chars, roles: int32 [C].
  """

  def replace() -> tf.Tensor:
    # Remove transparent characters, so that neighbours are adjacent.
    seen = tf.where(roles & _TRANSPARENT == 0)[:, 0]
    cased = tf.gather(roles, seen) & _CASED > 0
    after_cased = tf.concat([[False], cased[:-1]], 0)
    before_cased = tf.concat([cased[1:], [False]], 0)
    is_sigma = tf.equal(tf.gather(chars, seen), ord(_SIGMA))
    where = tf.boolean_mask(seen, is_sigma & after_cased & ~before_cased)
    replaced = tf.fill([tf.size(where)], ord(_FINAL_SIGMA))
    return tf.tensor_scatter_nd_update(chars, where[:, tf.newaxis], replaced)

  return tf.cond(
    tf.reduce_any(tf.equal(chars, ord(_SIGMA))), replace, lambda: chars
  )


# The table of rules, derived from tokenization.py's output for each character.


class _Rules:
  """The rule for every code point; code points with equal rules form a class.

  The classes of 1.1 million code points would add 4 MB to every SavedModel.
  So they are split into pages. Most pages are equal (their code points stay
  unchanged), and the graph stores equal pages only once.

  Attributes:
    starts, lengths, targets: targets[starts[c]:][:lengths[c]] replaces class c.
    roles: the role bits of each class's code points.
    combining: the Unicode combining class (0: starter) of each class.
  """

  def __init__(self, lowers: bool, strips: bool, isolates_han: bool):
    """Derives the rules of a BasicTokenizer with these options."""
    classes = np.zeros(sys.maxunicode + 1, np.int32)
    # {rule: its class}
    numbers: dict[tuple, int] = {((_ITSELF,), _STARTER, 0): 0}
    for char, text in _replaced_by(lowers, strips, isolates_han).items():
      # With _ITSELF, thousands of characters share one rule.
      target = tuple(_ITSELF if each == char else ord(each) for each in text)
      # These roles matter only if the tokenizer lower-cases or strips accents.
      bits = _roles(char, text) if lowers or strips else _STARTER
      bits |= _SPACE * (text == " ")
      rule = target, bits, unicodedata.combining(char)
      classes[ord(char)] = numbers.setdefault(rule, len(numbers))
    pages, index = np.unique(
      classes.reshape(-1, _PAGE), axis=0, return_inverse=True
    )
    self._pages = pages.reshape(-1)
    self._index = index.reshape(-1).astype(np.int32)
    targets, roles, combining = zip(*numbers)
    self.lengths = np.array(list(map(len, targets)), np.int64)
    self.starts = np.cumsum(self.lengths) - self.lengths
    self.targets = np.array(list(itertools.chain(*targets)), np.int32)
    self.roles = np.array(roles, np.int32)
    self.combining = np.array(combining, np.int64)

  def classes_of(self, chars: tf.Tensor) -> tf.Tensor:
    """Returns the classes, int32 [n], of code points [n]."""
    page = tf.gather(self._index, chars // _PAGE)
    return tf.gather(self._pages, page * _PAGE + chars % _PAGE)


_rules = functools.cache(_Rules)  # The constructor takes seconds.


@functools.cache
def _characters() -> list[str]:
  """Returns the characters that a rule can affect, in order.

  They include unassigned code points, because those in Han blocks count as Han.
  From _EMPTY_PLANES on, unassigned and private code points do not change.
  """
  # The ranges exclude surrogates, which UTF-8 cannot encode.
  chars = map(chr, (*range(0xD800), *range(0xE000, sys.maxunicode + 1)))
  return [
    char
    for char in chars
    if ord(char) < _EMPTY_PLANES
    or unicodedata.category(char) not in ("Cn", "Co")
  ]


@functools.cache
def _replaced_by(
  lowers: bool = False, strips: bool = False, isolates_han: bool = True
) -> dict[str, str]:
  """Returns {character: how a BasicTokenizer replaces it between letters}.

  "," -> " , ", an accent -> "", a capital -> a small letter.

  It tokenizes one text with all characters, separated by "zz", a word that no
  replacement contains: "a,b zz aBb" -> "a", ",", "b", "zz", "abb".
  """
  tokenizer = tokenization.BasicTokenizer(
    lowers, strip_accents=strips, tokenize_chinese_chars=isolates_han
  )
  text = " zz ".join(f"a{char}b" for char in _characters())
  parts = " ".join(tokenizer.tokenize(text)).split(" zz ")
  return {char: part[1:-1] for char, part in zip(_characters(), parts)}


def _roles(char: str, lowered: str) -> int:
  """Returns the role bits of `char`, which BasicTokenizer turns into `lowered`.

  Python does not expose whether a character is cased or transparent. So this
  function lower-cases a sigma after the character, and checks the sigma's form.
  """
  # The tokenizer removes control characters before it applies other rules.
  if not _replaced_by()[char]:
    return _TRANSPARENT
  roles = 0 if lowered else _ACCENT
  # A sigma gets its final form after a cased character, even if a transparent
  # character is between the two.
  if f"{char}{_SIGMA}".lower()[-1] == _FINAL_SIGMA:
    roles |= _CASED
  elif f"A{char}{_SIGMA}".lower()[-1] == _FINAL_SIGMA:
    roles |= _TRANSPARENT
  decomposed = unicodedata.normalize("NFD", char.lower())
  return roles | _STARTER * (not all(map(unicodedata.combining, decomposed)))


# The check that both tokenizers give the same ids.


def check_same(
  graph_tokenizer: GraphTokenizer, tokenizer: tokenization.FullTokenizer
) -> None:
  """Checks that the graph gives the same ids as the tokenizer.

  It tries every character within a word, every token of the vocabulary, and
  random texts, mostly of difficult characters. Raises InputError: the ids of a
  text differ; the message shows the text.
  """
  compute = tf.function(
    lambda texts: graph_tokenizer.tokenize(texts).ids,
    input_signature=[tf.TensorSpec([None], tf.string)],
    autograph=False,
  )
  differing = (
    text
    for batch in _parts(_texts_to_try(tokenizer), _TEXTS_AT_ONCE)
    for text, ids in zip(batch, compute(tf.constant(batch)).to_list())
    if ids != tokenizer.encode(text)
  )
  if (text := next(differing, None)) is not None:
    raise errors.InputError(
      f"{tokenizer.vocab_file}: the tokenizer in the graph gives different ids "
      f"from tokenization.py, for example for {ascii(text):.200}; export with "
      "--format=onnx or litert, which have no tokenizer in the graph"
    )
  logging.info("the tokenizer in the graph gives tokenization.py's ids")


def _texts_to_try(tokenizer: tokenization.FullTokenizer) -> list[str]:
  plain = [*_characters(), *map(chr, range(_EMPTY_PLANES, sys.maxunicode, 99))]
  longest = tokenizer.wordpiece_tokenizer.max_input_chars_per_word
  rng = random.Random(0)
  return [
    *(" ".join(f"a{char}b" for char in some) for some in _parts(plain, 1000)),
    *(
      " ".join(some) + "".join(some).replace("##", "")
      for some in _parts(vocabularies.lines(tokenizer), 100)
    ),
    *(
      char * length
      for char in "a1\u00e9\u0416\u3042\U00010400"
      for length in range(longest - 1, longest + 2)
    ),
    # Adjacent texts share an alphabet, which would reveal effects across texts.
    *(
      "".join(rng.choices(alphabet, k=rng.randrange(60)))
      for alphabet in _ALPHABETS
      for _ in range(300)
    ),
    *("".join(rng.choices(plain, k=60)) for _ in range(300)),
  ]


def _parts(values: Sequence, size: int) -> Iterator:
  """Yields lists of `size` values; the last may be shorter."""
  for start in range(0, len(values), size):
    yield values[start : start + size]
