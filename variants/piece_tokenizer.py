"""What tokenizers share whose pieces hold the space before a word.

"▁sm" "ith" or "Ġsm" "ith" is " smith": the mark is a part of the piece, where
BERT marks what continues a word.
"""

import re
from collections.abc import Iterable

import numpy as np

import tokenization

WORD_START = "▁"  # U+2581, SentencePiece's.
_MARKS = (WORD_START, "Ġ")  # The second is a space of byte-level BPE.


class PieceTokenizer(tokenization.FullTokenizer):
  """Tokenizes text into such pieces; used like a FullTokenizer.

  A subclass has `encode_lines`, as bulk_tokenization.BulkEncoder, which all
  else goes by, and what text pieces and words are.

  Attributes:
    vocab_file: path of the vocabulary.
    vocab: dict of piece -> id, not to be changed.
    inv_vocab: dict of id -> piece.
  """

  unk_token = "<unk>"
  never_split = ()

  def __init__(self, vocab_file: str, vocab: dict[str, int]):
    self.vocab_file = vocab_file
    self.vocab = vocab
    self.inv_vocab = {index: piece for piece, index in vocab.items()}

  def tokenize(self, text: str | bytes) -> list[str]:
    """Returns the pieces of `text`; bytes are UTF-8.

    What no piece covers is "<unk>". Special tokens get no special treatment,
    as in BERT's tokenizer.
    """
    return self.convert_ids_to_tokens(self.encode(text))

  def encode(self, text: str | bytes) -> list[int]:
    """Returns `convert_tokens_to_ids(tokenize(text))`, faster."""
    return self.encode_lines([text])[0]

  def encode_lines(self, lines: list[str | bytes]) -> tuple:
    """Returns what bulk_tokenization.BulkEncoder does."""
    raise NotImplementedError

  def joined_pieces(self, pieces: Iterable[str]) -> str:
    """Returns the text of pieces: ["▁sm", "ith", "'"] -> "smith'"."""
    raise NotImplementedError

  def word_text(self, word: str) -> str:
    """Returns a word as its pieces spell it."""
    raise NotImplementedError

  def find_answer(
    self, tokens: list[str], answer_text: str, before: str = ""
  ) -> tuple[int, ...] | None:
    """Returns the first and last of the pieces that an answer is in, or None.

    "(1907-1988)." is ▁( 1907 - 1988 ) . and the answer "1907" alone is ▁1907:
    so the characters are compared, and pieces that hold any of them count.
    `tokens` are the pieces of the words that hold the answer, `before` is the
    text of these words before it: of several places the nearest counts.
    """
    answer = "".join(self.tokenize(answer_text))
    for mark in _MARKS:
      answer = answer.removeprefix(mark)
    whole, near = "".join(tokens), len("".join(self.tokenize(before)))
    places = [
      match.start() for match in re.finditer(f"(?={re.escape(answer)})", whole)
    ] if answer else []
    if not places:
      return None
    start = min(places, key=lambda place: abs(place - near))
    # Where each piece ends, in characters of all pieces joined.
    ends = np.cumsum([len(token) for token in tokens])
    return tuple(
      int(np.searchsorted(ends, place, side="right"))
      for place in (start, start + len(answer) - 1)
    )
