"""The base class of tokenizers whose pieces contain the space before a word.

"▁sm" "ith" or "Ġsm" "ith" is " smith": a mark begins a word, whereas BERT marks
the pieces that continue a word.
"""

import re
from collections.abc import Iterable

import numpy as np

import tokenization

WORD_START = "▁"  # U+2581, the mark of SentencePiece.
_MARKS = (WORD_START, "Ġ")  # The second is the mark of byte-level BPE.


class PieceTokenizer(tokenization.FullTokenizer):
  """Tokenizes text into such pieces, with the methods of FullTokenizer.

  A subclass defines `encode_lines`, on which `tokenize` and `encode` depend,
  `joined_pieces` and `word_text`.

  Attributes:
    vocab_file: path of the vocabulary.
    vocab: {piece: id}; do not change it.
    inv_vocab: {id: piece}.
  """

  unk_token = "<unk>"
  never_split = ()

  def __init__(self, vocab_file: str, vocab: dict[str, int]):
    self.vocab_file = vocab_file
    self.vocab = vocab
    self.inv_vocab = {index: piece for piece, index in vocab.items()}

  def tokenize(self, text: str | bytes) -> list[str]:
    """Returns the pieces of `text`; bytes are UTF-8.

    A part of the text without a piece becomes "<unk>". As in BERT's tokenizer,
    the text of a special token is ordinary text.
    """
    return self.convert_ids_to_tokens(self.encode(text))

  def encode(self, text: str | bytes) -> list[int]:
    """Returns the ids of the pieces of `text`."""
    return self.encode_lines([text])[0]

  def joined_pieces(self, pieces: Iterable[str]) -> str:
    """Returns the text of pieces: ["▁sm", "ith", "'"] -> "smith'"."""
    raise NotImplementedError

  def word_text(self, word: str) -> str:
    """Returns the text of a word's pieces."""
    raise NotImplementedError

  def find_answer(
    self, tokens: list[str], answer_text: str, before: str = ""
  ) -> tuple[int, ...] | None:
    """Returns the first and last of the pieces with an answer, or None.

    "(1907-1988)." is ▁( 1907 - 1988 ) . but the answer "1907" alone is ▁1907.
    So this compares characters, and the result includes all pieces with any of
    them. `tokens` are the pieces of the words with the answer; `before` is the
    text of these words before the answer. The match nearest to its end counts.
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
    # The end of each piece, counted in characters of all joined pieces.
    ends = np.cumsum([len(token) for token in tokens])
    return tuple(
      int(np.searchsorted(ends, place, side="right"))
      for place in (start, start + len(answer) - 1)
    )
