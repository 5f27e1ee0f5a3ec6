"""Creates the tokenizer for a vocabulary.

A file named *.json is read as a tokenizer.json, any other file as a list of
BERT's word pieces.
"""

import os
from collections.abc import Sequence

import tokenization
from common import errors, json_files
from variants import tokenizer_file

LIST, TOKENIZER_FILE = "vocab.txt", "tokenizer.json"
CONFIG = "tokenizer_config.json"  # An optional file next to a vocabulary.
# File names of vocabularies, in order of precedence.
NAMES = (LIST, TOKENIZER_FILE)


def is_tokenizer_file(vocab_file: str) -> bool:
  """Returns whether a file, by its name, is a tokenizer.json."""
  return vocab_file.endswith(".json")


def refuse_sentencepiece(vocab_file: str) -> None:
  """Raises InputError if a file is, by its name, a SentencePiece model."""
  if vocab_file.endswith(".model"):
    raise errors.InputError(
      f"{vocab_file}: SentencePiece is not supported; have transformers write "
      "tokenizer.json (pip install transformers sentencepiece): "
      + tokenizer_file.COMMAND
    )


def make_tokenizer(
  vocab_file: str,
  *,
  do_lower_case: bool = True,
  never_split: Sequence[str] = (),
) -> tokenization.FullTokenizer:
  """Returns the FullTokenizer, or its subclass, for a vocabulary.

  Raises InputError: the file is missing, empty or unsupported, it or one of the
  tokenizer files next to it is damaged, or `never_split` does not fit it.
  """
  refuse_sentencepiece(vocab_file)
  if is_tokenizer_file(vocab_file):
    if never_split:
      raise errors.InputError(
        "--never_split works only with a list of BERT's word pieces, and "
        f"{vocab_file} is a tokenizer.json: leave the flag out"
      )
    return tokenizer_file.FileTokenizer(vocab_file)
  return tokenization.FullTokenizer(
    vocab_file, do_lower_case, never_split, **text_rules(vocab_file)
  )


def read_config(vocab_file: str) -> tuple[str, dict]:
  """Returns the path and the entries of a vocabulary's tokenizer_config.json.

  The entries are {} if the file is missing. Raises InputError: the file is
  damaged.
  """
  return json_files.read_optional(os.path.dirname(vocab_file), CONFIG)


def normalizer(vocab_file: str) -> dict:
  """Returns BertNormalizer's rules from tokenizer.json next to `vocab_file`.

  Keys are as in tokenizer_config.json. Without such rules, it returns {}.
  """
  path, values = json_files.read_optional(
    os.path.dirname(vocab_file), TOKENIZER_FILE
  )
  rules = values.get("normalizer")
  if not isinstance(rules, dict) or rules.get("type") != "BertNormalizer":
    return {}
  return {
    name: json_files.field(rules, normalizer_name, bool, path, None)
    for name, normalizer_name in tokenizer_file.RULES.items()
  }


def text_rules(vocab_file: str) -> dict[str, bool]:
  """Returns `strip_accents` and `tokenize_chinese_chars` for a vocab.txt.

  As in transformers, they come from the tokenizer_config.json in its folder.
  Unlike in transformers, missing entries come from tokenizer.json.

  Raises InputError: a file is damaged.
  """
  path, values = read_config(vocab_file)
  defaults = normalizer(vocab_file)
  rules = {}
  for name in ("strip_accents", "tokenize_chinese_chars"):
    value = json_files.field(values, name, bool, path, defaults.get(name))
    # Omit tokenize_chinese_chars=True, the default.
    if value is not None and (name, value) != ("tokenize_chinese_chars", True):
      rules[name] = value
  return rules


def load_vocab(vocab_file: str) -> dict[str, int]:
  """Returns {token: id}; raises InputError like `make_tokenizer`."""
  return make_tokenizer(vocab_file).vocab


def lines(tokenizer: tokenization.FullTokenizer) -> list[str]:
  """Returns the tokens in the order of their ids.

  A repeated token keeps only its highest id; the entry of each lower id is "".
  """
  inverse = tokenizer.inv_vocab
  return [inverse.get(index, "") for index in range(max(inverse) + 1)]
