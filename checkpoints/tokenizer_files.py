"""Reads, checks and writes the tokenizer's files next to a vocabulary.

This module does not import TensorFlow, which data preparation does not need.
"""

import os
import re
from collections.abc import Sequence

from absl import logging

import tokenization
from common import errors, file_io, json_files, run_settings
from variants import tokenizer_file, vocabularies

_SPECIAL_TOKENS = "special_tokens_map.json"
# BERT's special tokens, by their keys in JSON files.
_SPECIALS = {
  "unk_token": "[UNK]",
  "sep_token": "[SEP]",
  "pad_token": "[PAD]",
  "cls_token": "[CLS]",
  "mask_token": "[MASK]",
}
# Keys of further special tokens; each value is a list or {name: token}.
_ADDED = ("additional_special_tokens", "extra_special_tokens")
# Variants whose vocab.txt, if any, is not a list of word pieces.
_WITH_TOKENIZER_FILE = ("camembert", "roberta", "xlm-roberta")
# Keys of tokenizer_config.json that this project reads, or that affect no ids.
_KNOWN_KEYS = {
  *_SPECIALS,
  *(
    "do_lower_case strip_accents tokenize_chinese_chars never_split "
    "do_basic_tokenize added_tokens_decoder keep_accents remove_space "
    "word_tokenizer_type tokenizer_class truncation_side "
    "additional_special_tokens extra_special_tokens auto_map backend "
    "bos_token chat_template clean_up_tokenization_spaces eos_token from_slow "
    "full_tokenizer_file init_inputs is_local local_files_only max_len "
    "max_length model_input_names model_max_length "
    "model_specific_special_tokens name_or_path pad_to_multiple_of "
    "pad_token_type_id padding_side processor_class return_token_type_ids "
    "sp_model_kwargs special_tokens_map_file stride tokenizer_file "
    "trim_offsets truncation_strategy use_fast verbose vocab_file"
  ).split(),
}


def with_known_case(settings: run_settings.Settings) -> run_settings.Settings:
  """Returns settings with the do_lower_case and never_split of --vocab_file.

  Unlike the original: without these flags, the files next to the vocabulary
  decide. Raises InputError: a file is damaged or belongs to another tokenizer,
  or --do_lower_case is given for a tokenizer.json.
  """
  path, is_given = settings.vocab_file, "do_lower_case" in settings.given
  if not path:
    return settings
  is_file = vocabularies.is_tokenizer_file(path)
  if is_file and is_given:
    raise errors.InputError(
      f"{path} itself says whether text is lower-cased: leave out "
      "--do_lower_case"
    )
  check(path)
  if is_file:
    return settings.replace(do_lower_case=False)
  if "never_split" in settings and "never_split" not in settings.given:
    settings = settings.replace(never_split=tuple(read_never_split(path)))
  known = read_do_lower_case(path)
  source = f"{vocabularies.CONFIG} or {vocabularies.TOKENIZER_FILE}"
  if known is None:
    # No file says whether the model is cased, so look for capitals. A missing
    # vocabulary is reported later, when it is loaded.
    is_lowered = settings.do_lower_case and not is_given
    if is_lowered and file_io.exists(path) and has_capitals(path):
      logging.warning(
        "%s has tokens with capital letters, which lower-cased text never "
        "matches: pass --do_lower_case=false if the model is cased",
        path,
      )
  elif known != settings.do_lower_case and is_given:
    logging.warning(
      "--do_lower_case=%s was given, but the %s next to --vocab_file says %s",
      settings.do_lower_case,
      source,
      known,
    )
  elif known != settings.do_lower_case:
    logging.info(
      "do_lower_case is %s, from the %s next to --vocab_file", known, source
    )
    return settings.replace(do_lower_case=known)
  return settings


def write(
  folder: str,
  vocab_file: str | None,
  do_lower_case: bool | None,
  max_length: int,
  tokenizer: str = "BertTokenizer",
  *,
  fast: bool = False,
  never_split: Sequence[str] | None = None,
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
    never_split: words that stay whole; None: see `read_never_split`.
  """
  if never_split is None:
    never_split = read_never_split(vocab_file) if vocab_file else ()
  values: dict = {}
  special: dict[str, str] = {}
  if vocab_file:
    if vocabularies.is_tokenizer_file(vocab_file):
      content = tokenizer_file.content_of(vocab_file)
      path = os.path.join(folder, vocabularies.TOKENIZER_FILE)
      file_io.write_text(path, content)
      for name in (vocabularies.CONFIG, _SPECIAL_TOKENS):
        path = os.path.join(os.path.dirname(vocab_file), name)
        if file_io.exists(path):
          _copy(path, folder, name)
      return
    _copy(vocab_file, folder, vocabularies.LIST)
    values |= vocabularies.text_rules(vocab_file)
    if fast and do_lower_case is not None:
      special = _write_fast(folder, vocab_file, do_lower_case, never_split)
  if do_lower_case is not None:
    values["do_lower_case"] = bool(do_lower_case)
  if never_split:
    values["never_split"] = list(never_split)
  if values:
    json_files.write(
      os.path.join(folder, vocabularies.CONFIG),
      {
        "tokenizer_class": tokenizer,
        **values,
        "model_max_length": max_length,
        **special,
      },
    )


def _copy(path, folder, name):
  with file_io.open_for_reading(path) as stream:
    file_io.write_bytes(os.path.join(folder, name), stream.read())


def _write_fast(folder, vocab_file, do_lower_case, never_split):
  """Writes the files of a fast tokenizer; returns {key: special token}."""
  # Imported here because data preparation does not need the library.
  from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers
  from tokenizers.pre_tokenizers import BertPreTokenizer
  from tokenizers.processors import TemplateProcessing

  vocab = vocabularies.load_vocab(vocab_file)
  if not {"[UNK]", "[CLS]", "[SEP]"} <= vocab.keys():
    logging.warning(
      "%s lacks [UNK], [CLS] or [SEP], so no tokenizer.json is written",
      vocab_file,
    )
    return {}
  special = {key: name for key, name in _SPECIALS.items() if name in vocab}
  # As in tokenization.py, words of more than 200 characters become [UNK].
  fast = Tokenizer(
    models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=200)
  )
  rules = vocabularies.text_rules(vocab_file)
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
  file_io.write_text(os.path.join(folder, "tokenizer.json"), fast.to_str())
  json_files.write(os.path.join(folder, _SPECIAL_TOKENS), special)
  return special


def _keeping(words):
  """Returns a pre-tokenizer like BERT's that never splits `words`."""
  from tokenizers import Regex, pre_tokenizers

  whole = "|".join(map(re.escape, words))
  # BERT treats these ASCII characters as punctuation, unlike Unicode.
  pattern = Regex(rf"\A(?:{whole})\z|[\p{{P}}$+<=>^`|~]")
  split = pre_tokenizers.Split(pattern, "isolated")
  return pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), split])


def check(vocab_file: str) -> None:
  """Raises InputError for a vocabulary that is incomplete or not supported.

  For example, its tokenizer may first split text into words with MeCab. BERT's
  rules would silently give different ids.
  """
  vocabularies.refuse_sentencepiece(vocab_file)
  path, values = vocabularies.read_config(vocab_file)
  _warn_of_ignored(vocab_file, values, path)
  name = json_files.field(values, "tokenizer_class", str, path, None)
  # Only Japanese vocabularies have this entry.
  analyser = json_files.field(values, "word_tokenizer_type", str, path, "basic")
  if name == "BertJapaneseTokenizer" or analyser != "basic":
    raise errors.InputError(
      f"{path}: this vocabulary is for {name or 'a tokenizer'} with word "
      f"analyser {values.get('word_tokenizer_type', 'mecab')!r}, but this "
      "project has only BERT's rules, which give different ids than in "
      "training; convert_checkpoint.py can still convert the weights"
    )
  folder = os.path.dirname(vocab_file)
  _, tokenizer = json_files.read_optional(folder, vocabularies.TOKENIZER_FILE)
  is_file = vocabularies.is_tokenizer_file(vocab_file)
  if is_file and file_io.exists(vocab_file):
    added = _added_tokens(folder, values, tokenizer)
    if added := added - tokenizer_file.tokens_of(vocab_file):
      raise errors.InputError(
        f"{vocab_file} lacks the added tokens {file_io.listed(sorted(added))} "
        "that the files next to it list; recreate it with transformers: "
        + tokenizer_file.COMMAND
      )
  if not is_file and (reasons := _more_than_a_list(folder, tokenizer)):
    raise errors.InputError(
      f"{vocab_file}: {'; '.join(reasons)}, which a list of word pieces cannot "
      "express: pass the folder's tokenizer.json as --vocab_file, which "
      f"transformers can create: {tokenizer_file.COMMAND}"
    )


def vocabulary_of(folder: str, variant: str = "bert") -> str | None:
  """Returns the path of a folder's tokenizer.json or vocabulary, or None.

  A tokenizer.json takes precedence over a list of word pieces if a list cannot
  express the folder's settings, if the tokenizer's class is generic, or, with a
  warning, if the two files' tokens differ. `variant` is the variant of the
  model. Raises InputError: a file is damaged.
  """
  names = file_io.names_in(folder or ".")
  known: tuple[str, ...] = vocabularies.NAMES
  if variant in _WITH_TOKENIZER_FILE:
    known = (vocabularies.TOKENIZER_FILE,)
  name = next((name for name in known if name in names), None)
  has_both = name == vocabularies.LIST and vocabularies.TOKENIZER_FILE in names
  if has_both and (reasons := _unlike_a_list(folder)):
    name = vocabularies.TOKENIZER_FILE
    logging.info("using %s, because %s", name, "; ".join(reasons))
  return name and os.path.join(folder, name)


def _unlike_a_list(folder):
  """Returns reasons to read tokenizer.json instead of the vocab.txt next to it.

  As in transformers, a generic tokenizer class takes its rules from it.
  """
  path, tokenizer = json_files.read_optional(
    folder, vocabularies.TOKENIZER_FILE
  )
  reasons = _more_than_a_list(folder, tokenizer)
  vocab_file = os.path.join(folder, vocabularies.LIST)
  name = vocabularies.read_config(vocab_file)[1].get("tokenizer_class")
  if name in tokenizer_file.GENERIC:
    reasons.append(f"tokenizer_class is {name}")
  if reasons:
    return reasons
  model = json_files.field(tokenizer, "model", dict, path, {})
  listed = tokenization.load_vocab(vocab_file)
  stored = model.get("vocab", listed)
  # Tokens in tokenizer.json may keep white space that load_vocab removes.
  if isinstance(stored, dict):
    stored = {token.strip(): index for token, index in stored.items()}
  if stored != listed:
    reasons.append(f"its tokens differ from {vocabularies.LIST}")
    errors.warn_once(f"using {path}: {reasons[-1]}; remove the outdated file")
  return reasons


def _more_than_a_list(folder, tokenizer):
  """Describes each setting that a list of word pieces cannot express.

  These are added tokens, renamed special tokens, and do_basic_tokenize=false.
  `tokenizer` has the entries of the folder's tokenizer.json, if it exists.
  """
  vocab_file = os.path.join(folder, vocabularies.LIST)
  path, values = vocabularies.read_config(vocab_file)
  special = _special_tokens(folder, values)
  faults = [
    f"{key} is {name}"
    for key, expected in _SPECIALS.items()
    if (name := _content(special.get(key, expected))) != expected
  ]
  if values.get("do_basic_tokenize") is False:
    faults.append("do_basic_tokenize is false")
  expressible = {
    *_SPECIALS.values(),
    *json_files.field(values, "never_split", list[str], path, []),
  }
  if added := sorted(_added_tokens(folder, values, tokenizer) - expressible):
    faults.append(f"added tokens are {file_io.listed(added)}")
  return faults


def _special_tokens(folder, values):
  """Returns {"cls_token": its value, ...} from a folder's files."""
  _, special_map = json_files.read_optional(folder, _SPECIAL_TOKENS)
  entries = [*special_map.items(), *values.items()]
  return {key: value for key, value in entries if value}


def _content(token):
  """Returns the text of a token: a string, or an object with its content."""
  return token.get("content") if isinstance(token, dict) else token


def _added_tokens(folder, values, tokenizer):
  """Returns the tokens that a folder's files add to its vocabulary."""
  _, listed = json_files.read_optional(folder, "added_tokens.json")
  special = _special_tokens(folder, values)
  path = os.path.join(folder, vocabularies.TOKENIZER_FILE)
  entries = [
    *json_files.field(
      values, "added_tokens_decoder", dict[str, dict], vocabularies.CONFIG, {}
    ).values(),
    *json_files.field(tokenizer, "added_tokens", list[dict], path, []),
  ]
  for key in _ADDED:
    more = json_files.field(special, key, list | dict, folder, [])
    entries += more.values() if isinstance(more, dict) else more
  return {*listed, *map(str, filter(None, map(_content, entries)))}


def _warn_of_ignored(vocab_file, values, path):
  """Warns once about a folder's tokenizer settings that have no effect."""
  is_file = vocabularies.is_tokenizer_file(vocab_file)
  # A tokenizer.json contains all of its rules, so the other keys do not matter.
  unknown = [] if is_file else sorted(values.keys() - _KNOWN_KEYS)
  if values.get("truncation_side", "right") != "right":
    unknown.append("truncation_side")
  if unknown:
    errors.warn_once(
      f"{path}: this project ignores {', '.join(unknown)}; the ids may differ "
      "from the ids of programs that use these settings"
    )
  conflicts = {
    name: values[name]
    for name, other in vocabularies.normalizer(vocab_file).items()
    if None not in (other, values.get(name)) and values[name] != other
  }
  if conflicts:
    is_generic = values.get("tokenizer_class") in tokenizer_file.GENERIC
    used = vocabularies.TOKENIZER_FILE if is_file and is_generic else path
    errors.warn_once(
      f"{path} says {conflicts}, but the tokenizer.json next to it differs; "
      f"{used} takes precedence"
    )


def refuse_missing_vocabulary(folder: str) -> None:
  """Raises InputError: the folder has no supported vocabulary."""
  raise errors.InputError(
    f"{folder} lacks {' or '.join(vocabularies.NAMES)}; pass --vocab_file "
    "(in Python vocab_file=). transformers can create a tokenizer.json from "
    "other files, such as vocab.json or spiece.model (pip install transformers "
    "sentencepiece): " + tokenizer_file.COMMAND
  )


def read_do_lower_case(vocab_file: str) -> bool | None:
  """Returns do_lower_case from the files next to a vocabulary, or None.

  Raises InputError: one of the files is damaged.
  """
  # A tokenizer.json has its own rule for the case.
  if vocabularies.is_tokenizer_file(vocab_file):
    return None
  path, values = vocabularies.read_config(vocab_file)
  known = json_files.field(values, "do_lower_case", bool, path, None)
  if known is None:
    known = vocabularies.normalizer(vocab_file).get("do_lower_case")
  return known


def read_never_split(vocab_file: str) -> list[str]:
  """Returns never_split from the tokenizer_config.json next to a vocabulary.

  Raises InputError: the file is damaged.
  """
  path, values = vocabularies.read_config(vocab_file)
  return json_files.field(values, "never_split", list[str], path, [])


def likely_case(vocab_file: str) -> bool:
  """Returns do_lower_case if known, else whether all tokens are lower case."""
  known = read_do_lower_case(vocab_file)
  return not has_capitals(vocab_file) if known is None else known


def has_capitals(vocab_file: str) -> bool:
  """Returns whether any token not in brackets ([CLS]) has a capital A-Z."""
  if vocabularies.is_tokenizer_file(vocab_file):
    return False  # The file's own rules decide.
  return any(
    re.match(r"(?!\[.*\]$).*[A-Z]", line)
    for _, line in file_io.read_lines(vocab_file)
  )
