"""Which tokenizer a vocabulary is for.

A file called *.model is a SentencePiece model of ALBERT, *.json is a
tokenizer.json, and any other is a list of BERT's word pieces.
"""

from collections.abc import Callable, Container, Sequence

import tokenization
from common import errors
from variants import sentencepiece, tokenizer_file

LIST, SENTENCEPIECE = "vocab.txt", "spiece.model"
TOKENIZER_FILE = "tokenizer.json"
# In a folder the first counts that is there.
NAMES = (LIST, SENTENCEPIECE, TOKENIZER_FILE)
# Variants whose vocab.txt, if they have one, is no list of word pieces.
_WITH_TOKENIZER_FILE = ("camembert", "roberta", "xlm-roberta")


def is_sentencepiece(vocab_file: str) -> bool:
  """Whether a file is a SentencePiece model, by its name."""
  return vocab_file.endswith(".model")


def is_tokenizer_file(vocab_file: str) -> bool:
  """Whether a file is a tokenizer.json, by its name."""
  return vocab_file.endswith(".json")


def name_of(vocab_file: str) -> str:
  """Returns which of NAMES a vocabulary has in the folder of a model."""
  if is_tokenizer_file(vocab_file):
    return TOKENIZER_FILE
  return SENTENCEPIECE if is_sentencepiece(vocab_file) else LIST


def first_of(names: Container[str], variant: str = "bert") -> str | None:
  """Returns which of NAMES counts of the names of a folder's files."""
  known = (TOKENIZER_FILE,) if variant in _WITH_TOKENIZER_FILE else NAMES
  return next((name for name in known if name in names), None)


def make_tokenizer(
  vocab_file: str, *, do_lower_case: bool = True,
  never_split: Sequence[str] = (),
) -> tokenization.FullTokenizer:
  """Returns the tokenization.FullTokenizer of a vocabulary, or its relative.

  Raises InputError: the file is missing or damaged, or cannot keep
  `never_split`.
  """
  name = name_of(vocab_file)
  if never_split and name != LIST:
    raise errors.InputError(
      f"{vocab_file} is no list of BERT's word pieces, whose rules "
      "--never_split is for: leave it out"
    )
  if name == TOKENIZER_FILE:
    return tokenizer_file.FileTokenizer(vocab_file)
  if name == SENTENCEPIECE:
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
