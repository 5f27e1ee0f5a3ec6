"""Which tokenizer a vocabulary is for: BERT's word pieces or SentencePiece's.

A file called *.model is a SentencePiece model, any other a list of tokens.
"""

import tokenization
from variants import sentencepiece

LIST, SENTENCEPIECE = "vocab.txt", "spiece.model"


def is_sentencepiece(vocab_file):
  """Whether a file is a SentencePiece model, by its name."""
  return vocab_file.endswith(".model")


def make_tokenizer(vocab_file, *, do_lower_case=True):
  """Returns the tokenization.FullTokenizer of a vocabulary, or its relative.

  Raises:
    InputError: the file is missing or damaged.
  """
  if is_sentencepiece(vocab_file):
    return sentencepiece.SentencePieceTokenizer(vocab_file, do_lower_case)
  return tokenization.FullTokenizer(vocab_file, do_lower_case=do_lower_case)


def load_vocab(vocab_file):
  """Returns a dict of token -> id; raises InputError as `make_tokenizer`."""
  return make_tokenizer(vocab_file).vocab


def unknown_id(vocab):
  """Returns the id of the unknown token in a dict of token -> id, or None."""
  return vocab.get("[UNK]", vocab.get("<unk>"))


def continues_word(vocab):
  """Returns a function: token -> whether it continues a word.

  Args:
    vocab: dict of token -> id; one with "<unk>" is SentencePiece's.
  """
  if "<unk>" in vocab and "[UNK]" not in vocab:
    return lambda token: not sentencepiece.starts_word(token)
  return lambda token: token.startswith("##")
