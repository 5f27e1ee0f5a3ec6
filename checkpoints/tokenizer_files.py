"""The files next to a vocabulary: the case of its text, and its tokenizer.

Without TensorFlow, so that data can be made without it.
"""

import json
import os
import re
from collections.abc import Sequence

from absl import logging

from common import errors, file_io, json_files, run_settings
from variants import tokenizer_file, vocabularies

_SPECIAL_TOKENS = "special_tokens_map.json"
_ROLES = ("unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# Keys of tokenizer_config.json that are read here or that change no ids.
_KNOWN_KEYS = {
  *_ROLES, "do_lower_case", "strip_accents", "tokenize_chinese_chars",
  "never_split", "do_basic_tokenize", "added_tokens_decoder", "keep_accents",
  "remove_space", "word_tokenizer_type", "tokenizer_class", "truncation_side",
  "additional_special_tokens", "extra_special_tokens", "auto_map", "backend",
  "bos_token", "chat_template", "clean_up_tokenization_spaces", "eos_token",
  "from_slow", "full_tokenizer_file", "init_inputs", "is_local",
  "local_files_only", "max_len", "max_length", "model_input_names",
  "model_max_length", "model_specific_special_tokens", "name_or_path",
  "pad_to_multiple_of", "pad_token_type_id", "padding_side", "processor_class",
  "return_token_type_ids", "sp_model_kwargs", "special_tokens_map_file",
  "stride", "tokenizer_file", "trim_offsets", "truncation_strategy",
  "use_fast", "verbose", "vocab_file",
}


def with_known_case(settings: run_settings.Settings) -> run_settings.Settings:
  """Returns settings with the --do_lower_case that --vocab_file comes with.

  Unlike the original: a tokenizer_config.json next to the vocabulary decides
  where the flag is not given. Raises InputError: that file is damaged, or asks
  for another tokenizer.
  """
  path, is_given = settings.vocab_file, "do_lower_case" in settings.given
  if not path:
    return settings
  is_file = vocabularies.is_tokenizer_file(path)
  if is_file and is_given:
    raise errors.InputError(
      f"{path} itself says whether text is lower-cased: leave --do_lower_case "
      "out"
    )
  check(path)
  if is_file:
    return settings.replace(do_lower_case=False)
  settings = _with_never_split(settings)
  known, source = read_do_lower_case(path), vocabularies.CONFIG
  if known is None:
    # Nobody says the case: a vocabulary with capitals is a sign. (A file that
    # is missing is named when the vocabulary is read.)
    is_lowered = settings.do_lower_case and not is_given
    if is_lowered and file_io.exists(path) and has_capitals(path):
      logging.warning(
        "%s has words with capital letters, which lower-cased text never "
        "finds: pass --do_lower_case=false if the model is a cased one", path,
      )
  elif known != settings.do_lower_case and is_given:
    logging.warning(
      "--do_lower_case=%s was given, but the %s next to --vocab_file says %s",
      settings.do_lower_case, source, known,
    )
  elif known != settings.do_lower_case:
    logging.info(
      "do_lower_case is %s, by the %s next to --vocab_file", known, source
    )
    return settings.replace(do_lower_case=known)
  return settings


def _with_never_split(settings):
  """Returns settings whose `never_split` has the words of all sources."""
  words = list(settings.get("never_split", ()))
  if path := settings.get("never_split_file"):
    lines = (line.strip() for _, line in file_io.read_lines(path))
    words += filter(None, lines)
  # A file that is empty says that there are none.
  if not settings.given & {"never_split", "never_split_file"}:
    words = read_never_split(settings.vocab_file)
  if "never_split" not in settings:
    return settings
  return settings.replace(never_split=tuple(dict.fromkeys(words)))


def write(
  folder: str, vocab_file: str | None, do_lower_case: bool | None,
  max_length: int, tokenizer: str = "BertTokenizer", *, fast: bool = False,
  never_split: Sequence[str] | None = None,
) -> None:
  """Writes what text is read by: the vocabulary and tokenizer_config.json.

  Args:
    vocab_file: copied, under the name of its kind.
    do_lower_case: None: not known; then there is no tokenizer_config.json.
    max_length: the most tokens of a text.
    tokenizer: class of transformers for a list of word pieces.
    fast: whether to write tokenizer.json and special_tokens_map.json too, of
      a list of word pieces whose case is known.
    never_split: words that stay whole; None: those next to `vocab_file`.
  """
  if never_split is None:
    never_split = read_never_split(vocab_file) if vocab_file else ()
  values: dict = {}
  special: dict[str, str] = {}
  if vocab_file:
    name = vocabularies.name_of(vocab_file)
    if name != vocabularies.TOKENIZER_FILE:
      _copy(vocab_file, folder, name)
    else:
      content = tokenizer_file.content_of(vocab_file)
      file_io.write_text(os.path.join(folder, name), content)
      for name in (vocabularies.CONFIG, _SPECIAL_TOKENS):
        path = os.path.join(os.path.dirname(vocab_file), name)
        if file_io.exists(path):
          _copy(path, folder, name)
      return
    if name == vocabularies.SENTENCEPIECE:
      tokenizer = "AlbertTokenizer"
    else:
      values |= vocabularies.text_rules(vocab_file)
      if fast and do_lower_case is not None:
        special = _write_fast(folder, vocab_file, do_lower_case, never_split)
  if do_lower_case is not None:
    values["do_lower_case"] = bool(do_lower_case)
  if never_split:
    values["never_split"] = list(never_split)
  if values:
    json_files.write(os.path.join(folder, vocabularies.CONFIG), {
      "tokenizer_class": tokenizer, **values, "model_max_length": max_length,
      **special,
    })


def _copy(path, folder, name):
  with file_io.open_for_reading(path) as stream:
    file_io.write_bytes(os.path.join(folder, name), stream.read())


def _write_fast(folder, vocab_file, do_lower_case, never_split):
  """Writes what the library tokenizers reads; returns the special tokens."""
  # Imported here: making data needs none of it.
  from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers
  from tokenizers.pre_tokenizers import BertPreTokenizer
  from tokenizers.processors import TemplateProcessing

  vocab = vocabularies.load_vocab(vocab_file)
  if not {"[UNK]", "[CLS]", "[SEP]"} <= vocab.keys():
    logging.warning(
      "%s has no [UNK], [CLS] or [SEP], so there is no tokenizer.json",
      vocab_file,
    )
    return {}
  special = {
    f"{name}_token": f"[{name.upper()}]"
    for name in ("unk", "sep", "pad", "cls", "mask")
    if f"[{name.upper()}]" in vocab
  }
  # A longer word is unknown, as in tokenization.py.
  fast = Tokenizer(models.WordPiece(
    vocab, unk_token="[UNK]", max_input_chars_per_word=200
  ))
  rules = vocabularies.text_rules(vocab_file)
  fast.normalizer = normalizers.BertNormalizer(
    lowercase=do_lower_case, strip_accents=rules.get("strip_accents"),
    handle_chinese_chars=rules.get("tokenize_chinese_chars", True),
  )
  lowered = [w for w in never_split if fast.normalizer.normalize_str(w) == w]
  fast.pre_tokenizer = _but(lowered) if lowered else BertPreTokenizer()
  fast.post_processor = TemplateProcessing(
    single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
    special_tokens=[(name, vocab[name]) for name in ("[CLS]", "[SEP]")],
  )
  fast.decoder = decoders.WordPiece()
  fast.add_special_tokens(list(special.values()))
  # Found before the case is lost, next to punctuation too.
  written = sorted({*never_split} - {*lowered, *special.values()})
  fast.add_tokens([
    AddedToken(w, single_word=True, normalized=False) for w in written
  ])
  if written:
    logging.warning(
      "tokenizer.json keeps %s whole next to punctuation too, which scripts "
      "here do not: they are found before text is lower-cased",
      ", ".join(written),
    )
  file_io.write_text(os.path.join(folder, "tokenizer.json"), fast.to_str())
  json_files.write(os.path.join(folder, _SPECIAL_TOKENS), special)
  return special


def _but(words):
  """Returns a BertPreTokenizer that leaves words whole."""
  from tokenizers import Regex, pre_tokenizers

  whole = "|".join(map(re.escape, words))
  # The signs of ASCII that Unicode does not call punctuation are, too.
  pattern = Regex(rf"\A(?:{whole})\z|[\p{{P}}$+<=>^`|~]")
  return pre_tokenizers.Sequence([
    pre_tokenizers.WhitespaceSplit(),
    pre_tokenizers.Split(pattern, "isolated"),
  ])


def check(vocab_file: str) -> None:
  """Refuses a vocabulary whose words another tokenizer must find.

  Raises InputError: a file next to it says that an analyser such as MeCab
  divides the text into words first. BERT's rules give other ids, and no error.
  """
  path, values = vocabularies.read_config(vocab_file)
  _warn_of_ignored(vocab_file, values, path)
  name = json_files.field(values, "tokenizer_class", str, path, None)
  # Only Japanese vocabularies have it.
  analyser = json_files.field(values, "word_tokenizer_type", str, path, "basic")
  if name == "BertJapaneseTokenizer" or analyser != "basic":
    raise errors.InputError(
      f"{path}: this vocabulary is for {name or 'a tokenizer'} with word "
      f"analyser {values.get('word_tokenizer_type', 'mecab')!r}, and only "
      "BERT's own rules are here: they would give other ids than the model "
      "was trained with. Its weights can be converted, with "
      "convert_checkpoint.py"
    )
  folder = os.path.dirname(vocab_file)
  if vocabularies.is_tokenizer_file(vocab_file) and file_io.exists(vocab_file):
    added = _added_tokens(folder, values) - tokenizer_file.tokens_of(vocab_file)
    if added:
      raise errors.InputError(
        f"{vocab_file} lacks the added tokens {file_io.listed(sorted(added))} "
        "of the files next to it; have transformers write it anew: "
        "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
      )
  name_in_folder = vocabularies.name_of(vocab_file)
  is_list = name_in_folder == vocabularies.LIST
  if is_list and (more := _more_than_a_list(folder)):
    raise errors.InputError(
      f"{folder}: {'; '.join(more)}, which a list of word pieces cannot "
      "express: read the text by the folder's tokenizer.json (--vocab_file), "
      "which transformers writes: "
      "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
    )
  if name_in_folder == vocabularies.SENTENCEPIECE:
    for key, expected in (("keep_accents", False), ("remove_space", True)):
      if values.get(key, expected) != expected:
        raise errors.InputError(
          f"{path}: {key} is {values[key]}, and text is read here as by the "
          f"released ALBERT models, with {key}={json.dumps(expected)}; the "
          "model would get other ids than it was trained with"
        )


def vocabulary_of(folder: str, variant: str = "bert") -> str | None:
  """Returns the path of a folder's tokenizer or vocabulary, or None.

  A tokenizer.json goes before a list of word pieces where the folder says what
  such a list cannot express. `variant` is the model's. Raises InputError: a
  file is damaged.
  """
  names = file_io.names_in(folder or ".")
  name = vocabularies.first_of(names, variant)
  has_both = name == vocabularies.LIST and vocabularies.TOKENIZER_FILE in names
  if has_both and (more := _more_than_a_list(folder)):
    name = vocabularies.TOKENIZER_FILE
    logging.info("text is read by %s: %s", name, "; ".join(more))
  return name and os.path.join(folder, name)


def _more_than_a_list(folder):
  """Returns a folder's tokenizer settings that a list of pieces cannot express.

  These are added tokens and other names of special tokens.
  """
  vocab_file = os.path.join(folder, vocabularies.LIST)
  path, values = vocabularies.read_config(vocab_file)
  faults = [
    f"{key} is {name}" for key, name in _special_names(folder, values).items()
    if name != f"[{key.removesuffix('_token').upper()}]"
  ]
  if values.get("do_basic_tokenize") is False:
    faults.append("do_basic_tokenize is false")
  kept = {*_SPECIALS, *json_files.field(
    values, "never_split", list[str], path, []
  )}
  added = sorted(_added_tokens(folder, values) - kept)
  if added:
    faults.append(f"added tokens are {file_io.listed(added)}")
  return faults


def _special_names(folder, values):
  """Returns {"cls_token": its name, ...} of a folder's files."""
  _, both = json_files.read_optional(folder, _SPECIAL_TOKENS)
  special = {}
  for key in _ROLES:
    # A string, or an object with the token's content.
    value = values.get(key) or both.get(key)
    name = value.get("content") if isinstance(value, dict) else value
    if name:
      special[key] = str(name)
  return special


def _added_tokens(folder, values):
  """Returns the tokens that a folder's files add to its vocabulary."""
  _, listed = json_files.read_optional(folder, "added_tokens.json")
  path, whole = json_files.read_optional(folder, vocabularies.TOKENIZER_FILE)
  entries = [
    *json_files.field(
      values, "added_tokens_decoder", dict[str, dict], vocabularies.CONFIG, {}
    ).values(),
    *json_files.field(whole, "added_tokens", list[dict], path, []),
  ]
  return {*listed, *(str(e["content"]) for e in entries if "content" in e)}


def _warn_of_ignored(vocab_file, values, path):
  """Names once what a folder says of its text and nothing here reads."""
  is_file = vocabularies.is_tokenizer_file(vocab_file)
  # A tokenizer.json has all of its rules within.
  unknown = [] if is_file else sorted(values.keys() - _KNOWN_KEYS)
  if values.get("truncation_side", "right") != "right":
    unknown.append("truncation_side")
  if unknown:
    errors.warn_once(
      f"{path}: nothing here reads {', '.join(unknown)}; the ids may differ "
      "from another program's if this changes its text"
    )
  decided = {
    name: values[name]
    for name, other in vocabularies.normalizer(vocab_file).items()
    if None not in (other, values.get(name)) and values[name] != other
  }
  if decided:
    used = vocabularies.TOKENIZER_FILE if is_file else path
    errors.warn_once(
      f"{path} says {decided}, and tokenizer.json next to it something else; "
      f"{used} counts"
    )


def require_vocabulary(folder: str) -> None:
  """Raises InputError for a folder that has no vocabulary that is read here."""
  raise errors.InputError(
    f"{folder} has none of {', '.join(vocabularies.NAMES)}; pass --vocab_file "
    "(in Python vocab_file=). transformers makes a tokenizer.json of other "
    "files: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
  )


def read_do_lower_case(vocab_file: str) -> bool | None:
  """Returns the case that a file next to a vocabulary gives, or None.

  Raises InputError: the tokenizer_config.json there is damaged.
  """
  # A tokenizer.json has the case within.
  if vocabularies.is_tokenizer_file(vocab_file):
    return None
  path, values = vocabularies.read_config(vocab_file)
  known = json_files.field(values, "do_lower_case", bool, path, None)
  if known is None:
    known = vocabularies.normalizer(vocab_file).get("do_lower_case")
  return known


def read_never_split(vocab_file: str) -> list[str]:
  """Returns the words that a file next to a vocabulary leaves whole.

  Raises:
    InputError: the tokenizer_config.json there is damaged.
  """
  path, values = vocabularies.read_config(vocab_file)
  return json_files.field(values, "never_split", list[str], path, [])


def likely_case(vocab_file: str) -> bool:
  """Returns the known case, or else whether there are no capitals."""
  known = read_do_lower_case(vocab_file)
  return not has_capitals(vocab_file) if known is None else known


def has_capitals(vocab_file: str) -> bool:
  """Whether a vocabulary is a cased one: [CLS] does not count."""
  if vocabularies.name_of(vocab_file) != vocabularies.LIST:
    # ALBERT's are of lower-cased text; others have their own rules.
    return False
  return any(
    re.match(r"(?!\[.*\]$).*[A-Z]", line)
    for _, line in file_io.read_lines(vocab_file)
  )
