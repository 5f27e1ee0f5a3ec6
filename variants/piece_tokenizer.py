"""The base class of tokenizers whose pieces contain the space before a word.

"▁sm" "ith" or "Ġsm" "ith" is " smith": the mark is part of the piece, whereas
BERT marks pieces that continue a word.
"""

import re
from collections.abc import Iterable

import numpy as np

import tokenization

WORD_START = "▁"  # U+2581, SentencePiece's.
_MARKS = (WORD_START, "Ġ")  # The second is a space of byte-level BPE.


class PieceTokenizer(tokenization.FullTokenizer):
  """Tokenizes text into such pieces; used like a FullTokenizer.

  A subclass has `encode_lines`, which all other methods use, and the text of
  pieces and words.

  Attributes:
    vocab_file: path of the vocabulary.
    vocab: dict of piece -> id; do not change it.
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

    Text without a piece is "<unk>". Special tokens get no special treatment,
    as in BERT's tokenizer.
    """
    return self.convert_ids_to_tokens(self.encode(text))

  def encode(self, text: str | bytes) -> list[int]:
    """Returns `convert_tokens_to_ids(tokenize(text))`, faster."""
    return self.encode_lines([text])[0]

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

    "(1907-1988)." is ▁( 1907 - 1988 ) . but the answer "1907" alone is ▁1907:
    so characters are compared, and the result includes each piece with any of
    them. `tokens` are the pieces of the words that contain the answer, `before`
    is the text of these words before it: the match nearest to its end wins.
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
    # The end of each piece, in characters of all pieces joined.
    ends = np.cumsum([len(token) for token in tokens])
    return tuple(
      int(np.searchsorted(ends, place, side="right"))
      for place in (start, start + len(answer) - 1)
    )
