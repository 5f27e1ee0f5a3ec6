"""Tokenizes text like ALBERT, with SentencePiece's vocabularies.

A vocabulary has 30,000 pieces with scores. tensorflow_text splits a word into
the pieces with the highest sum of scores (a unigram model, arXiv 1804.10959).
This module does the steps before and after that, as in ALBERT:

  "Café, 1990,"  ->  "cafe,"  "1990,"            words, lower-cased, accents off
                 ->  ▁cafe ,  ▁1990,             pieces; ▁ begins a word
                 ->  ▁cafe ,  ▁1990 ,            a comma after a digit is split

No piece contains a space between words, so each word is split separately, and
only once. (Splitting a whole line gives the same pieces, except in lines of
many thousands of characters, because SentencePiece's 32-bit sums round.)
"""

import functools
import itertools
import unicodedata
from collections.abc import Iterable

import numpy as np

import tokenization
from common import errors, file_io
from variants import piece_tokenizer

WORD_START = piece_tokenizer.WORD_START
_REMEMBERED_WORDS = 1 << 17


class SentencePieceTokenizer(piece_tokenizer.PieceTokenizer):
  """Tokenizes text into SentencePiece's pieces, like a FullTokenizer.

  Attributes:
    do_lower_case: whether to lower-case text. Accents are always removed.
  """

  def __init__(self, vocab_file: str, do_lower_case: bool = True):
    """Reads the model.

    Raises InputError: the file is missing, not a SentencePiece model, or has
    pieces that span several words.
    """
    self.do_lower_case = do_lower_case
    self._cut = _open(vocab_file)
    pieces = _pieces(vocab_file, self._cut)
    _check(vocab_file, pieces)
    super().__init__(vocab_file, {p: index for index, p in enumerate(pieces)})
    self._known: dict[str, tuple[int, ...]] = {}  # Word -> its ids.
    self._without_comma = self._make_without_comma()

  def __reduce__(self):
    # For pickling: each worker process reads the model from its file.
    return SentencePieceTokenizer, (self.vocab_file, self.do_lower_case)

  def encode_lines(
    self, lines: list[str | bytes]
  ) -> tuple[list[int], list[int], None]:
    """Encodes many lines; see FullTokenizer.encode_lines.

    One call of tensorflow_text splits all new words.
    """
    words = [tokenization.convert_to_unicode(line).split() for line in lines]
    every = list(itertools.chain.from_iterable(words))
    new = set(every).difference(self._known)
    # Clear the cache if it is full, as in tokenization.py.
    if len(self._known) + len(new) > _REMEMBERED_WORDS:
      self._known.clear()
      new = set(every)
    # One call for all new words, because a call takes longer than a word.
    self._known.update(zip(new, self._ids_of_words(list(new))))
    ids = list(itertools.chain.from_iterable(self._known[w] for w in every))
    lengths = [sum(len(self._known[word]) for word in line) for line in words]
    return ids, lengths, None

  def word_text(self, word: str) -> str:
    """Returns the text of a word's pieces, including unknown characters."""
    pieces = self._spelling.tokenize(_encoded(self._clean(word))).numpy()
    return self.joined_pieces([piece.decode("utf-8") for piece in pieces])

  def joined_pieces(self, pieces: Iterable[str]) -> str:
    """Returns the text of pieces: ["▁sm", "ith", "'"] -> "smith'"."""
    return " ".join("".join(pieces).replace(WORD_START, " ").split())

  @functools.cached_property
  def _spelling(self):
    return _open(self.vocab_file, strings=True)

  def _clean(self, word):
    """Returns a word with ALBERT's text rules (NFKD, no accents)."""
    word = word.replace("``", '"').replace("''", '"')
    # NFKD does not change ASCII.
    if not word.isascii():
      word = "".join(
        char
        for char in unicodedata.normalize("NFKD", word)
        if not unicodedata.combining(char)
      )
    return word.lower() if self.do_lower_case else word

  def _ids_of_words(self, words):
    """Yields a tuple with the ids of each word."""
    if not words:
      return
    pieces = self._cut.tokenize([_encoded(self._clean(word)) for word in words])
    ids = pieces.values.numpy().tolist()
    ends = pieces.row_splits.numpy().tolist()
    for start, end in zip(ends, ends[1:]):
      yield tuple(itertools.chain.from_iterable(
        self._without_comma.get(index, (index,)) for index in ids[start:end]
      ))

  def _make_without_comma(self):
    """Returns {id of a piece that ends in a digit and a comma: its new ids}.

    As in the code of ALBERT's authors, the number is split again, and the comma
    becomes a separate piece. "▁" begins the number only if it begins the piece.
    """
    replaced = {}
    for piece, index in self.vocab.items():
      if piece.endswith(",") and piece[-2:-1].isdigit():
        number = piece[:-1].removeprefix(WORD_START)
        ids = self._cut.tokenize(_encoded(number)).numpy().tolist()
        first = self.inv_vocab[ids[0]] if ids else ""
        if first.startswith(WORD_START) and not piece.startswith(WORD_START):
          rest = first.removeprefix(WORD_START)
          ids[:1] = [self._id(rest)] if rest else []
        replaced[index] = (*ids, self._id(","))
    return replaced

  def _id(self, piece):
    return self.vocab.get(piece, self.vocab[self.unk_token])


def starts_word(piece: str) -> bool:
  """Returns whether a piece begins a word for whole-word masking.

  As in the code of ALBERT's authors, a piece continues a word only if it has no
  characters but English letters and ASCII punctuation, and is not a single
  punctuation mark. Pieces with digits or other scripts begin a word.
  """
  is_plain = piece.isascii() and not any(map(str.isdigit, piece))
  is_mark = len(piece) == 1 and not piece.isalpha()
  return not is_plain or is_mark or piece.startswith(("<", "["))


def _encoded(text):
  # "ignore" drops lone surrogates.
  return text.encode("utf-8", "ignore")


def _open(vocab_file, *, strings=False):
  """Returns tensorflow_text's tokenizer; its pieces are ids or strings."""
  # Imported here because BERT does not need them. This order avoids Keras.
  from common import lean_tensorflow

  tensorflow_text = lean_tensorflow.import_tensorflow_text()
  import tensorflow as tf

  with file_io.open_for_reading(vocab_file) as stream:
    model = stream.read()
  try:
    return tensorflow_text.SentencepieceTokenizer(
      model=model, out_type=tf.string if strings else tf.int32
    )
  except tf.errors.OpError as error:
    raise _damaged(vocab_file) from error


def _pieces(vocab_file, cut):
  """Returns all pieces of tensorflow_text's tokenizer."""
  places = np.arange(int(cut.vocab_size()), dtype=np.int32)
  try:
    return [piece.decode("utf-8") for piece in cut.id_to_string(places).numpy()]
  except UnicodeDecodeError as error:
    raise _damaged(vocab_file) from error


def _damaged(vocab_file):
  return errors.InputError(
    f"{vocab_file} is no SentencePiece model, or damaged: copy it again"
  )


def _check(vocab_file, pieces):
  """Raises InputError for a vocabulary that is not ALBERT's."""
  needed = ("<unk>", "[CLS]", "[SEP]", "[MASK]", WORD_START)
  missing = [piece for piece in needed if piece not in pieces]
  if missing:
    raise errors.InputError(
      f"{vocab_file} has no {', '.join(missing)}: it is the vocabulary of "
      "another kind of model than ALBERT; use ALBERT's spiece.model"
    )
  across = [piece for piece in pieces if WORD_START in piece[1:]]
  if across:
    raise errors.InputError(
      f"{vocab_file} has pieces of several words, such as {across[0]!r}, and "
      "words are cut one by one here; train it with "
      "--split_by_whitespace=true"
    )
