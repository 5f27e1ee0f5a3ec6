"""Makes the tokenizer for a vocabulary.

A file with the name *.json is a tokenizer.json, and any other file is a list of
BERT's word pieces.
"""

import os
from collections.abc import Sequence

import tokenization
from common import errors, json_files
from variants import tokenizer_file

LIST, TOKENIZER_FILE = "vocab.txt", "tokenizer.json"
CONFIG = "tokenizer_config.json"  # A vocabulary may have it in its folder.
# Vocabularies in order of precedence.
NAMES = (LIST, TOKENIZER_FILE)


def is_tokenizer_file(vocab_file: str) -> bool:
  """Returns whether a file, by its name, is a tokenizer.json."""
  return vocab_file.endswith(".json")


def refuse_sentencepiece(vocab_file: str) -> None:
  """Raises InputError for a SentencePiece model, by its name."""
  if vocab_file.endswith(".model"):
    raise errors.InputError(
      f"{vocab_file}: a SentencePiece model is not read; have transformers "
      "write tokenizer.json (pip install transformers sentencepiece): "
      + tokenizer_file.COMMAND
    )


def make_tokenizer(
  vocab_file: str,
  *,
  do_lower_case: bool = True,
  never_split: Sequence[str] = (),
) -> tokenization.FullTokenizer:
  """Returns the FullTokenizer, or its subclass, for a vocabulary.

  Raises InputError: the file is missing or damaged, or its rules do not have
  `never_split`.
  """
  refuse_sentencepiece(vocab_file)
  if is_tokenizer_file(vocab_file):
    if never_split:
      raise errors.InputError(
        f"{vocab_file} is no list of BERT's word pieces, whose rules "
        "--never_split is for: leave it out"
      )
    return tokenizer_file.FileTokenizer(vocab_file)
  return tokenization.FullTokenizer(
    vocab_file, do_lower_case, never_split, **text_rules(vocab_file)
  )


def read_config(vocab_file: str) -> tuple[str, dict]:
  """Reads the tokenizer_config.json next to a vocabulary.

  Returns its path and its entries, {} if it is missing. Raises InputError: the
  file is damaged.
  """
  return json_files.read_optional(os.path.dirname(vocab_file), CONFIG)


def normalizer(vocab_file: str) -> dict:
  """Returns the BertNormalizer in the tokenizer.json next to a vocabulary.

  It has the keys of tokenizer_config.json; {} without the file or normalizer.
  """
  path, values = json_files.read_optional(
    os.path.dirname(vocab_file), TOKENIZER_FILE
  )
  rules = values.get("normalizer")
  if not isinstance(rules, dict) or rules.get("type") != "BertNormalizer":
    return {}
  return {
    name: json_files.field(rules, their_name, bool, path, None)
    for name, their_name in tokenizer_file.RULES.items()
  }


def text_rules(vocab_file: str) -> dict[str, bool]:
  """Returns `strip_accents` and `tokenize_chinese_chars` for a word list.

  They come from the tokenizer_config.json next to it, as in transformers, and
  unlike there from tokenizer.json if entries are missing.

  Raises InputError: a file is damaged.
  """
  path, values = read_config(vocab_file)
  others = normalizer(vocab_file)
  rules = {}
  for name in ("strip_accents", "tokenize_chinese_chars"):
    value = json_files.field(values, name, bool, path, others.get(name))
    # Omit True, which is the default for every list of word pieces.
    if value is not None and (name, value) != ("tokenize_chinese_chars", True):
      rules[name] = value
  return rules


def load_vocab(vocab_file: str) -> dict[str, int]:
  """Returns {token: id}; raises InputError like `make_tokenizer`."""
  return make_tokenizer(vocab_file).vocab


def lines(tokenizer: tokenization.FullTokenizer) -> list[str]:
  """Returns the tokens in the order of their ids.

  An id is never used, and has "", if its token occurs again with a higher id.
  """
  inverse = tokenizer.inv_vocab
  return [inverse.get(index, "") for index in range(max(inverse) + 1)]
