"""Writes a vocabulary and its tokenizer's files into a model folder.

variants.vocabulary_files reads them. No TensorFlow.
"""

import json
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from absl import logging

from common import file_io, json_files
from variants import vocabulary_files

if TYPE_CHECKING:
  from tokenizers import pre_tokenizers


def write(
  folder: str,
  vocab_file: str | None,
  do_lower_case: bool | None,
  max_length: int,
  tokenizer: str = "BertTokenizer",
  *,
  fast: bool = False,
  never_split: Sequence[str] | None = None,
  text_rules: dict[str, bool] | None = None,
  keeps_rule: bool = True,
) -> None:
  """Writes the vocabulary and tokenizer_config.json.

  Args:
    vocab_file: copied to vocab.txt; or, if it is a tokenizer.json, copied with
      the other files of its tokenizer, and the arguments below have no effect.
    do_lower_case: whether text is lower-cased; None: unknown, not written.
    max_length: maximum number of tokens per text.
    tokenizer: transformers class that reads a list of word pieces.
    fast: whether to also write tokenizer.json and special_tokens_map.json, if
      the vocabulary is a list of word pieces with a known case.
    never_split: words that stay whole; None: as in the vocabulary's files.
    text_rules: see VocabularyFiles; None: as in the vocabulary's files.
    keeps_rule: whether the folder keeps VocabularyFiles.like_transformers, and
      says so if its other files do not; else these decide.
  """
  values: dict[str, Any] = {}
  special: dict[str, str] = {}
  if vocab_file:
    files = vocabulary_files.VocabularyFiles(vocab_file)
    if not files.is_list:
      _copy_tokenizer_file(folder, files, fast if keeps_rule else None)
      return
    if never_split is None:
      never_split = files.never_split
    _copy(vocab_file, folder, vocabulary_files.LIST)
    rules = files.text_rules if text_rules is None else text_rules
    values |= rules
    values.pop(vocabulary_files.LIKE_TRANSFORMERS, None)
    is_like = rules.get(vocabulary_files.LIKE_TRANSFORMERS, False)
    if keeps_rule and (fast or is_like):
      values[vocabulary_files.LIKE_TRANSFORMERS] = is_like
    if fast and do_lower_case is not None:
      special = _write_fast(folder, files, do_lower_case, never_split, rules)
  if do_lower_case is not None:
    values["do_lower_case"] = bool(do_lower_case)
  if never_split:
    values["never_split"] = list(never_split)
  if values:
    json_files.write(
      os.path.join(folder, vocabulary_files.CONFIG),
      {
        "tokenizer_class": tokenizer,
        **values,
        "model_max_length": max_length,
        **special,
      },
    )


def _copy_tokenizer_file(
  folder: str, files: vocabulary_files.VocabularyFiles, concluded: bool | None
) -> None:
  """Copies a tokenizer.json, with the rules that its tokenizer follows.

  `concluded` is the like_transformers that a reader concludes from the other
  files of the folder; None: the files decide.
  """
  folder_of = os.path.dirname(files.path)
  if files.copied:
    for name in files.copied:
      _copy(os.path.join(folder_of, name), folder, name)
  elif files.merged_tokenizer is files.tokenizer:
    _copy(files.path, folder, vocabulary_files.TOKENIZER_FILE)
  else:
    path = os.path.join(folder, vocabulary_files.TOKENIZER_FILE)
    merged = json.dumps(files.merged_tokenizer, ensure_ascii=False)
    file_io.write_text(path, merged)
  for name in (vocabulary_files.CONFIG, vocabulary_files.SPECIAL_TOKENS):
    path = os.path.join(folder_of, name)
    if file_io.exists(path):
      _copy(path, folder, name)
  if concluded not in (None, files.like_transformers):
    json_files.write(
      os.path.join(folder, vocabulary_files.CONFIG),
      {
        **files.config,
        vocabulary_files.LIKE_TRANSFORMERS: files.like_transformers,
      },
    )


def _copy(path: str, folder: str, name: str) -> None:
  with file_io.open_for_reading(path) as stream:
    file_io.write_bytes(os.path.join(folder, name), stream.read())


def _write_fast(
  folder: str,
  files: vocabulary_files.VocabularyFiles,
  do_lower_case: bool,
  never_split: Sequence[str],
  rules: dict[str, bool],
) -> dict[str, str]:
  """Writes the files of a fast tokenizer; returns {key: special token}."""
  # Imported here because data preparation does not need the library.
  from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers
  from tokenizers.pre_tokenizers import BertPreTokenizer
  from tokenizers.processors import TemplateProcessing

  vocab = files.tokens
  if not {"[UNK]", "[CLS]", "[SEP]"} <= vocab.keys():
    logging.warning(
      "%s lacks [UNK], [CLS] or [SEP], so no tokenizer.json is written",
      files.path,
    )
    return {}
  names = vocabulary_files.SPECIALS.items()
  special = {key: name for key, name in names if name in vocab}
  # As in tokenization.py, a longer word becomes [UNK].
  limit = 100 if rules.get(vocabulary_files.LIKE_TRANSFORMERS) else 200
  fast = Tokenizer(
    models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=limit)
  )
  fast.normalizer = normalizers.BertNormalizer(
    lowercase=do_lower_case,
    strip_accents=rules.get("strip_accents"),
    handle_chinese_chars=rules.get("tokenize_chinese_chars", True),
  )
  whole = [w for w in never_split if fast.normalizer.normalize_str(w) == w]
  fast.pre_tokenizer = _keeping(whole) if whole else BertPreTokenizer()
  fast.post_processor = TemplateProcessing(
    single="[CLS] $A [SEP]",
    pair="[CLS] $A [SEP] $B:1 [SEP]:1",
    special_tokens=[(name, vocab[name]) for name in ("[CLS]", "[SEP]")],
  )
  fast.decoder = decoders.WordPiece()
  fast.add_special_tokens(list(special.values()))
  # The library matches added tokens before lower-casing and splitting.
  added = sorted({*never_split} - {*whole, *special.values()})
  fast.add_tokens(
    [AddedToken(w, single_word=True, normalized=False) for w in added]
  )
  if added:
    logging.warning(
      "tokenizer.json keeps %s whole even next to punctuation, unlike this "
      "project, because added tokens are matched before text is split",
      ", ".join(added),
    )
  path = os.path.join(folder, vocabulary_files.TOKENIZER_FILE)
  file_io.write_text(path, fast.to_str())
  path = os.path.join(folder, vocabulary_files.SPECIAL_TOKENS)
  json_files.write(path, special)
  return special


def _keeping(words: Sequence[str]) -> "pre_tokenizers.PreTokenizer":
  """Returns a pre-tokenizer like BERT's that never splits `words`."""
  from tokenizers import Regex, pre_tokenizers

  whole = "|".join(map(re.escape, words))
  # BERT treats these ASCII characters as punctuation, unlike Unicode.
  pattern = Regex(rf"\A(?:{whole})\z|[\p{{P}}$+<=>^`|~]")
  split = pre_tokenizers.Split(pattern, "isolated")
  return pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), split])
