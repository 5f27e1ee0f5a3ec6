"""Reads the files of a vocabulary: how its tokenizer splits text.

  vocab.txt or tokenizer.json   the vocabulary
  tokenizer_config.json         the tokenizer's settings, optional
  special_tokens_map.json       names of the special tokens, optional
  added_tokens.json             tokens beyond the vocabulary, optional

The last three have Hugging Face's format. `of_folder` chooses the vocabulary of
a model folder. No TensorFlow, which data preparation does not need.
"""

import functools
import os
import re
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, NoReturn, TypeGuard

from absl import logging

import tokenization
from common import errors, file_io, json_files
from variants import byte_pair_files, sentencepiece_model, word_end_pairs

LIST, TOKENIZER_FILE = "vocab.txt", "tokenizer.json"
CONFIG, SPECIAL_TOKENS = "tokenizer_config.json", "special_tokens_map.json"
# File names of vocabularies, in order of precedence.
NAMES = (LIST, TOKENIZER_FILE)
# BERT's special tokens, by their keys in JSON files.
SPECIALS = {
  "unk_token": "[UNK]",
  "sep_token": "[SEP]",
  "pad_token": "[PAD]",
  "cls_token": "[CLS]",
  "mask_token": "[MASK]",
}
# The key of tokenizer_config.json that only this project writes.
LIKE_TRANSFORMERS = "like_transformers"
# Tokenizer classes of transformers that use tokenizer.json without changes.
GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")
# {rule in tokenizer_config.json: its name in tokenizer.json}
RULES = {
  "do_lower_case": "lowercase",
  "strip_accents": "strip_accents",
  "tokenize_chinese_chars": "handle_chinese_chars",
}
COMMAND = "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
REMEDY = f"have transformers write tokenizer.json: {COMMAND}"
_NO_LIMIT = 10**9  # Tokens, more than any model has positions.
# BERT's default rules in transformers.
_NORMALIZER = {"type": "BertNormalizer", "clean_text": True, "lowercase": True}
_NORMALIZER |= {"strip_accents": None, "handle_chinese_chars": True}
# Keys of further special tokens; each value is a list or {name: token}.
_ADDED = ("additional_special_tokens", "extra_special_tokens")
# Variants whose vocab.txt, if any, is not a list of word pieces.
_WITH_TOKENIZER_FILE = ("camembert", "roberta", "xlm-roberta")
# Keys of tokenizer_config.json that this project reads, or that affect no ids.
_KNOWN_KEYS = {
  *SPECIALS,
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
    "trim_offsets truncation_strategy use_fast verbose vocab_file "
    "like_transformers"
  ).split(),
}


class _Format(NamedTuple):
  """A format before tokenizer.json.

  Attributes:
    files: the names of its files, the vocabulary first.
    content: function of a Folder, the vocabulary's name and the entries of
      tokenizer_config.json; returns the entries of the equivalent
      tokenizer.json.
    other_names: further names of the vocabulary.
  """

  files: tuple[str, ...]
  content: Callable[[json_files.Folder, str, dict], dict]
  other_names: tuple[str, ...] = ()


# A SentencePiece model may also have any name that ends in .model.
_SENTENCEPIECE = _Format(
  sentencepiece_model.FILES,
  sentencepiece_model.content,
  sentencepiece_model.OTHER_NAMES,
)
_FORMATS = (
  _Format(byte_pair_files.FILES, byte_pair_files.content),
  _SENTENCEPIECE,
  _Format(word_end_pairs.FILES, word_end_pairs.content),
)


class VocabularyFiles:
  """A vocabulary and the files next to it; each is read at most once.

  A file is read when a property first needs it. So a command that does not need
  a file ignores its faults. The properties raise InputError if a file is
  missing or damaged, or an entry has the wrong type.

  Attributes:
    path: the vocabulary, a list of word pieces or a tokenizer.json.
    is_list: whether it is a list of word pieces.
  """

  def __init__(self, path: str, folder: json_files.Folder | None = None):
    """Names the files; reads none.

    `folder` has the JSON files next to the vocabulary.
    """
    self.path = path
    self._folder = folder or json_files.Folder(os.path.dirname(path))
    name = os.path.basename(path)
    self._format = _format_of(name, self._folder.names)
    self.is_list = not (self._format or name.endswith(".json"))
    # A tokenizer.json may have another name.
    self._tokenizer = TOKENIZER_FILE if self.is_list else name

  @property
  def config(self) -> dict:
    """The entries of tokenizer_config.json; {} if it is missing."""
    return self._folder.read(CONFIG)

  @property
  def tokenizer(self) -> dict:
    """The entries of tokenizer.json; {} next to a list that has none.

    An older format is converted to the equivalent tokenizer.json.
    """
    if self._format:
      return self._converted
    return self._folder.read(self._tokenizer, required=not self.is_list)

  @property
  def copied(self) -> tuple[str, ...]:
    """The names of the vocabulary's files in an older format, else ()."""
    if not self._format:
      return ()
    # A SentencePiece model may have another name.
    return (os.path.basename(self.path), *self._format.files[1:])

  @functools.cached_property
  def _converted(self) -> dict:
    assert self._format
    return self._format.content(
      self._folder, os.path.basename(self.path), self.config
    )

  @functools.cached_property
  def tokens(self) -> dict[str, int]:
    """{token: id} of a list of word pieces."""
    return tokenization.load_vocab(self.path)

  @functools.cached_property
  def merged_tokenizer(self) -> dict:
    """The entries of tokenizer.json, with the rules of tokenizer_config.json.

    As in transformers, rules in tokenizer_config.json override the file's
    rules, or add BERT's rules to a file with word pieces and no rules, and only
    a generic class reads the limit of characters per word.
    """
    if self.config.get("tokenizer_class") in GENERIC:
      return self.tokenizer
    values = self.tokenizer
    model = json_files.field(values, "model", dict, self.path, {})
    is_word_piece = model.get("type") == "WordPiece"
    limit = {"max_input_chars_per_word": 100}
    if is_word_piece and self.like_transformers and model | limit != model:
      values = {**values, "model": model | limit}
    rules = {
      name: self.config[key]
      for key, name in RULES.items()
      if isinstance(self.config.get(key), bool)
    }
    normalizer = stored = values.get("normalizer")
    if not rules:
      return values
    if stored is None and is_word_piece:
      normalizer = _NORMALIZER
      errors.warn_once(
        f"{self.path} has no normalizer: {CONFIG} is used instead"
      )
    if not _is_berts(normalizer) or normalizer | rules == stored:
      return values
    return {**values, "normalizer": normalizer | rules}

  @functools.cached_property
  def normalizer(self) -> dict[str, bool | None]:
    """BertNormalizer's rules in tokenizer.json, with `config`'s keys.

    Without such rules it is {}.
    """
    rules = self.tokenizer.get("normalizer")
    if not _is_berts(rules):
      return {}
    path = self._folder.path_of(self._tokenizer)
    return {
      name: json_files.field(rules, normalizer_name, bool, path, None)
      for name, normalizer_name in RULES.items()
    }

  @property
  def do_lower_case(self) -> bool | None:
    """Whether text is lower-cased; None if no file says so."""
    # A tokenizer.json has its own rule for the case.
    return self._rule("do_lower_case") if self.is_list else None

  @property
  def lowers_text(self) -> bool:
    """Whether text is certainly lower-cased if no flag says otherwise."""
    known = self._rule("do_lower_case")
    # transformers' and this project's default for a list is to lower-case.
    return self.is_list if known is None else known

  @property
  def never_split(self) -> tuple[str, ...]:
    """Words that stay whole."""
    return tuple(self._setting("never_split", list[str], ()))

  @property
  def max_length(self) -> int | None:
    """The longest input of the tokenizer in tokens; None: no limit is known."""
    length = self._setting("model_max_length", int | float)
    if length is None:  # The name in old files.
      length = self._setting("max_len", int | float)
    # For a tokenizer without a limit, transformers writes 1e30.
    return int(length) if length and length < _NO_LIMIT else None

  @property
  def like_transformers(self) -> bool:
    """Whether text becomes ids as in transformers where the original differs.

    See FullTokenizer. A folder is another program's if it has a tokenizer.json
    or config.json but no bert_config.json, which the original and this project
    write. A model that this project trained from such a folder says so.
    """
    stored = self._setting(LIKE_TRANSFORMERS, bool)
    if stored is not None:
      return stored
    names = self._folder.names
    if "bert_config.json" in names:
      return False
    files = (self._tokenizer, "config.json")
    return bool(self._format) or any(name in names for name in files)

  @property
  def text_rules(self) -> dict[str, bool]:
    """Options of FullTokenizer, if they are not BERT's.

    As in transformers, `strip_accents` and `tokenize_chinese_chars` come from
    tokenizer_config.json. Unlike in transformers, missing entries come from
    tokenizer.json.
    """
    rules = {
      name: self._rule(name)
      for name in ("strip_accents", "tokenize_chinese_chars")
    }
    # Omit tokenize_chinese_chars=True, the default.
    if rules["tokenize_chinese_chars"]:
      del rules["tokenize_chinese_chars"]
    if self.like_transformers:
      rules["like_transformers"] = True
    return {name: rule for name, rule in rules.items() if rule is not None}

  @property
  def settings(self) -> dict[str, Any]:
    """The values of --do_lower_case and --never_split, if the files say them.

    Raises InputError: see `check`.
    """
    self.check()
    if not self.is_list:
      return {"do_lower_case": False}
    values: dict[str, Any] = {"never_split": self.never_split}
    if self.do_lower_case is not None:
      values["do_lower_case"] = self.do_lower_case
    return values

  @property
  def has_capitals(self) -> bool:
    """Whether any token not in brackets ([CLS]) has a capital A-Z."""
    # A tokenizer.json has its own rule for the case.
    return self.is_list and any(
      re.match(r"(?!\[.*\]$).*[A-Z]", token) for token in self.tokens
    )

  @property
  def likely_case(self) -> bool:
    """`do_lower_case` if known, else whether all tokens are lower case."""
    known = self.do_lower_case
    return not self.has_capitals if known is None else known

  @functools.cached_property
  def beyond_a_list(self) -> list[str]:
    """Descriptions of the settings that a list of word pieces cannot express.

    These are added tokens, renamed special tokens, and do_basic_tokenize=false.
    """
    faults = [
      f"{key} is {name}"
      for key, expected in SPECIALS.items()
      if (name := _content(self._special.get(key, expected))) != expected
    ]
    if self.config.get("do_basic_tokenize") is False:
      faults.append("do_basic_tokenize is false")
    expressible = {*SPECIALS.values(), *self.never_split}
    if added := sorted(self._added_tokens - expressible):
      faults.append(f"added tokens are {file_io.listed(added)}")
    return faults

  def check(self) -> None:
    """Raises InputError for a vocabulary that is incomplete or not supported.

    For example, its tokenizer may first split text into words with MeCab.
    BERT's rules would silently give different ids.
    """
    self._warn_of_ignored()
    name = self._setting("tokenizer_class", str)
    # Only Japanese vocabularies have this entry.
    analyser = self._setting("word_tokenizer_type", str, "basic")
    if name == "BertJapaneseTokenizer" or analyser != "basic":
      raise errors.InputError(
        f"{self._folder.path_of(CONFIG)}: this vocabulary is for "
        f"{name or 'a tokenizer'} with word analyser "
        f"{self.config.get('word_tokenizer_type', 'mecab')!r}, but this "
        "project has only BERT's rules, which give different ids than in "
        "training; convert_checkpoint.py can still convert the weights"
      )
    if lost := self._lost_tokens():
      raise errors.InputError(
        f"{self.path} lacks the added tokens {file_io.listed(sorted(lost))} "
        "that the files next to it list; recreate it with transformers: "
        + COMMAND
      )
    if self.is_list and self.beyond_a_list:
      raise errors.InputError(
        f"{self.path}: {'; '.join(self.beyond_a_list)}, which a list of word "
        "pieces cannot express: pass the folder's tokenizer.json as "
        f"--vocab_file, which transformers can create: {COMMAND}"
      )

  def unlike_tokenizer(self) -> list[str]:
    """Returns reasons to read the tokenizer.json next to this list instead.

    As in transformers, a generic tokenizer class takes its rules from it.
    """
    reasons, name = [*self.beyond_a_list], self.config.get("tokenizer_class")
    if name in GENERIC:
      reasons.append(f"tokenizer_class is {name}")
    if reasons:
      return reasons
    path = self._folder.path_of(TOKENIZER_FILE)
    model = json_files.field(self.tokenizer, "model", dict, path, {})
    stored = model.get("vocab", self.tokens)
    # Tokens in tokenizer.json may keep white space that load_vocab removes.
    if isinstance(stored, dict):
      stored = {token.strip(): index for token, index in stored.items()}
    if stored != self.tokens:
      reasons.append(f"its tokens differ from {LIST}")
      errors.warn_once(f"using {path}: {reasons[-1]}; remove the outdated file")
    return reasons

  def _setting(self, name: str, expected: Any, default: Any = None) -> Any:
    path = self._folder.path_of(CONFIG)
    return json_files.field(self.config, name, expected, path, default)

  def _rule(self, name: str) -> bool | None:
    value = self._setting(name, bool)
    return self.normalizer.get(name) if value is None else value

  @functools.cached_property
  def _special(self) -> dict[str, Any]:
    """{"cls_token": its value, ...}; tokenizer_config.json comes first."""
    entries = self._folder.read(SPECIAL_TOKENS).items(), self.config.items()
    return {key: value for each in entries for key, value in each if value}

  @functools.cached_property
  def _added_tokens(self) -> set[str]:
    """The tokens that the files add to the vocabulary."""
    path = self._folder.path_of(self._tokenizer)
    entries = [
      *self._setting("added_tokens_decoder", dict[str, dict], {}).values(),
      *json_files.field(self.tokenizer, "added_tokens", list[dict], path, []),
    ]
    for key in _ADDED:
      more = json_files.field(
        self._special, key, list | dict, self._folder.path, []
      )
      entries += more.values() if isinstance(more, dict) else more
    listed = self._folder.read("added_tokens.json")
    return {*listed, *map(str, filter(None, map(_content, entries)))}

  def _lost_tokens(self) -> set[str]:
    """Returns the added tokens that a tokenizer.json lacks."""
    path = self.path
    if self.is_list or not file_io.exists(path):
      return set()
    model = json_files.field(self.tokenizer, "model", dict, path, {})
    vocab = json_files.field(model, "vocab", dict | list, path, {})
    if isinstance(vocab, list):  # A unigram model's pairs (token, score).
      pairs = [pair for pair in vocab if isinstance(pair, list) and pair]
      vocab = [str(pair[0]) for pair in pairs]
    added = json_files.field(
      self.tokenizer, "added_tokens", list[dict], path, []
    )
    return self._added_tokens - {*vocab, *map(str, map(_content, added))}

  def _warn_of_ignored(self) -> None:
    """Warns once about settings that have no effect."""
    path = self._folder.path_of(CONFIG)
    # A tokenizer.json contains all of its rules, so other keys do not matter.
    unknown = sorted(self.config.keys() - _KNOWN_KEYS) if self.is_list else []
    if self.config.get("truncation_side", "right") != "right":
      unknown.append("truncation_side")
    if unknown:
      errors.warn_once(
        f"{path}: this project ignores {', '.join(unknown)}; the ids may "
        "differ from the ids of programs that use these settings"
      )
    conflicts = {
      name: self.config[name]
      for name, other in self.normalizer.items()
      if None not in (other, self.config.get(name))
      and self.config[name] != other
    }
    if conflicts:
      is_generic = self.config.get("tokenizer_class") in GENERIC
      used = TOKENIZER_FILE if not self.is_list and is_generic else path
      errors.warn_once(
        f"{path} says {conflicts}, but the tokenizer.json next to it differs; "
        f"{used} takes precedence"
      )


def _is_berts(normalizer: Any) -> TypeGuard[dict]:
  is_object = isinstance(normalizer, dict)
  return is_object and normalizer.get("type") == "BertNormalizer"


def _content(token: Any) -> Any:
  """Returns the text of a token: a string, or an object with its content."""
  return token.get("content") if isinstance(token, dict) else token


def _format_of(name: str, names: Collection[str]) -> _Format | None:
  """Returns the older format of a vocabulary, or None.

  Args:
    name: the name of a vocabulary.
    names: the names of all files in its folder.
  """
  for each in _FORMATS:
    first, *others = each.files
    is_first = name == first or name in each.other_names
    if is_first and {*others} <= {*names}:
      return each
  return _SENTENCEPIECE if name.endswith(".model") else None


def of_folder(
  folder: json_files.Folder | str, variant: str = "bert"
) -> VocabularyFiles | None:
  """Returns a folder's vocabulary, or None.

  A tokenizer.json takes precedence over a list of word pieces if a list cannot
  express the folder's settings, if the tokenizer's class is generic, or, with a
  warning, if the two files' tokens differ. `variant` is the variant of the
  model. Raises InputError: a file is damaged.
  """
  folder = json_files.Folder.at(folder)
  known = (TOKENIZER_FILE,) if variant in _WITH_TOKENIZER_FILE else NAMES
  name = next((name for name in known if name in folder.names), None)
  if not name:
    older = sorted(n for n in folder.names if _format_of(n, folder.names))
    return VocabularyFiles(folder.path_of(older[0]), folder) if older else None
  files = VocabularyFiles(folder.path_of(name), folder)
  has_both = files.is_list and TOKENIZER_FILE in folder.names
  if has_both and (reasons := files.unlike_tokenizer()):
    logging.info("using %s, because %s", TOKENIZER_FILE, "; ".join(reasons))
    return VocabularyFiles(folder.path_of(TOKENIZER_FILE), folder)
  return files


def refuse_missing(folder: str) -> NoReturn:
  """Raises InputError: the folder has no supported vocabulary."""
  raise errors.InputError(
    f"{folder} lacks {' or '.join(NAMES)}, and files of older formats "
    f"({'; '.join(' and '.join(each.files) for each in _FORMATS)}); pass "
    "--vocab_file (in Python vocab_file=)"
  )
