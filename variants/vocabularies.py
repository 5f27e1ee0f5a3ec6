"""Which tokenizer a vocabulary is for: BERT's word pieces or SentencePiece's.

A file called *.model is a SentencePiece model, any other a list of tokens.
"""

from collections.abc import Callable, Sequence

import tokenization
from common import errors
from variants import sentencepiece

LIST, SENTENCEPIECE = "vocab.txt", "spiece.model"


def is_sentencepiece(vocab_file: str) -> bool:
  """Whether a file is a SentencePiece model, by its name."""
  return vocab_file.endswith(".model")


def make_tokenizer(
  vocab_file: str, *, do_lower_case: bool = True,
  never_split: Sequence[str] = (),
) -> tokenization.FullTokenizer:
  """Returns the tokenization.FullTokenizer of a vocabulary, or its relative.

  Raises InputError: the file is missing or damaged, or cannot keep
  `never_split`.
  """
  if is_sentencepiece(vocab_file):
    if never_split:
      raise errors.InputError(
        f"{vocab_file} is a SentencePiece model, which splits no text at "
        "punctuation: leave --never_split out"
      )
    return sentencepiece.SentencePieceTokenizer(vocab_file, do_lower_case)
  return tokenization.FullTokenizer(vocab_file, do_lower_case, never_split)


def load_vocab(vocab_file: str) -> dict[str, int]:
  """Returns token -> id; raises InputError as `make_tokenizer`."""
  return make_tokenizer(vocab_file).vocab


def unknown_id(vocab: dict[str, int]) -> int | None:
  """Returns the id of the unknown token."""
  return vocab.get("[UNK]", vocab.get("<unk>"))


def continues_word(vocab: dict[str, int]) -> Callable[[str], bool]:
  """Returns a function: token -> whether it continues a word.

  A vocabulary with "<unk>" is SentencePiece's.
  """
  if "<unk>" in vocab and "[UNK]" not in vocab:
    return lambda token: not sentencepiece.starts_word(token)
  return lambda token: token.startswith("##")
