"""Creates the tokenizer for a vocabulary.

A file named *.json is read as a tokenizer.json, any other file as a list of
BERT's word pieces; see vocabulary_files.
"""

from collections.abc import Sequence

import tokenization
from common import errors
from variants import tokenizer_file, vocabulary_files


def make_tokenizer(
  vocabulary: vocabulary_files.VocabularyFiles | str,
  *,
  do_lower_case: bool = True,
  never_split: Sequence[str] = (),
) -> tokenization.FullTokenizer:
  """Returns the FullTokenizer, or its subclass, for a vocabulary or its path.

  Raises InputError: the file is missing, empty or unsupported, it or one of the
  tokenizer files next to it is damaged, or `never_split` does not fit it.
  """
  files = vocabulary
  if isinstance(files, str):
    files = vocabulary_files.VocabularyFiles(files)
  if not files.is_list:
    if never_split:
      raise errors.InputError(
        "--never_split works only with a list of BERT's word pieces, and "
        f"{files.path} is a tokenizer.json: leave the flag out"
      )
    return tokenizer_file.FileTokenizer(files.path, files)
  return tokenization.FullTokenizer(
    files.path,
    do_lower_case,
    never_split,
    vocab=files.tokens,
    **files.text_rules,
  )


def load_vocab(vocab_file: str) -> dict[str, int]:
  """Returns {token: id}; raises InputError like `make_tokenizer`."""
  return make_tokenizer(vocab_file).vocab


def lines(tokenizer: tokenization.FullTokenizer) -> list[str]:
  """Returns the tokens in the order of their ids.

  A repeated token keeps only its highest id; the entry of each lower id is "".
  """
  inverse = tokenizer.inv_vocab
  return [inverse.get(index, "") for index in range(max(inverse) + 1)]
