"""What lies next to a vocabulary: the case of its text, and its tokenizer.

Without TensorFlow, so that data can be made without it.
"""

import json
import os
import re
from collections.abc import Sequence

from absl import logging

from common import errors, file_io, json_files, run_settings
from variants import vocabularies

_CONFIG = "tokenizer_config.json"  # Of Hugging Face's folders, and of ours.
_SPECIAL_TOKENS = "special_tokens_map.json"


def with_known_case(settings: run_settings.Settings) -> run_settings.Settings:
  """Returns settings with the --do_lower_case that --vocab_file comes with.

  Unlike the original: a tokenizer_config.json next to the vocabulary decides
  where the flag is not given. Raises InputError: that file is damaged, or asks
  for another tokenizer.
  """
  if not settings.vocab_file:
    return settings
  if vocabularies.is_tokenizer_file(settings.vocab_file):
    if "do_lower_case" in settings.given:
      raise errors.InputError(
        f"{settings.vocab_file} itself says whether text is lower-cased: "
        "leave --do_lower_case out"
      )
    return settings.replace(do_lower_case=False)
  check(settings.vocab_file)
  settings = _with_never_split(settings)
  known = read_do_lower_case(settings.vocab_file)
  is_given = "do_lower_case" in settings.given
  if known is None:
    # Nobody says the case: a vocabulary with capitals is a sign. (A file that
    # is missing is named when the vocabulary is read.)
    if (
      settings.do_lower_case and not is_given
      and file_io.exists(settings.vocab_file)
      and has_capitals(settings.vocab_file)
    ):
      logging.warning(
        "%s has words with capital letters, which lower-cased text never "
        "finds: pass --do_lower_case=false if the model is a cased one",
        settings.vocab_file,
      )
    return settings
  if known == settings.do_lower_case:
    return settings
  where = "the tokenizer_config.json next to --vocab_file"
  if is_given:
    logging.warning(
      "--do_lower_case=%s was given, but %s says %s", settings.do_lower_case,
      where, known,
    )
    return settings
  logging.info("do_lower_case is %s, by %s", known, where)
  return settings.replace(do_lower_case=known)


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
  is_pieces = vocab_file and vocabularies.is_sentencepiece(vocab_file)
  if vocab_file:
    _copy(vocab_file, folder, vocabularies.name_of(vocab_file))
    if vocabularies.is_tokenizer_file(vocab_file):
      for name in (_CONFIG, _SPECIAL_TOKENS):
        path = os.path.join(os.path.dirname(vocab_file), name)
        if file_io.exists(path):
          _copy(path, folder, name)
      return
  special = {}
  if fast and vocab_file and not is_pieces and do_lower_case is not None:
    special = _write_fast(folder, vocab_file, do_lower_case, never_split)
  values = {}
  if do_lower_case is not None:
    values["do_lower_case"] = bool(do_lower_case)
  if never_split:
    values["never_split"] = list(never_split)
  if values:
    name = "AlbertTokenizer" if is_pieces else tokenizer
    json_files.write(os.path.join(folder, _CONFIG), {
      "tokenizer_class": name, **values, "model_max_length": max_length,
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
  fast.normalizer = normalizers.BertNormalizer(lowercase=do_lower_case)
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
  path, values = _read_config(vocab_file)
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
  if vocabularies.is_sentencepiece(vocab_file):
    for key, expected in (("keep_accents", False), ("remove_space", True)):
      if values.get(key, expected) != expected:
        raise errors.InputError(
          f"{path}: {key} is {values[key]}, and text is read here as by the "
          f"released ALBERT models, with {key}={json.dumps(expected)}; the "
          "model would get other ids than it was trained with"
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
  path, values = _read_config(vocab_file)
  return json_files.field(values, "do_lower_case", bool, path, None)


def read_never_split(vocab_file: str) -> list[str]:
  """Returns the words that a file next to a vocabulary leaves whole.

  Raises:
    InputError: the tokenizer_config.json there is damaged.
  """
  path, values = _read_config(vocab_file)
  return json_files.field(values, "never_split", list[str], path, [])


def likely_case(vocab_file: str) -> bool:
  """Returns the known case, or else whether there are no capitals."""
  known = read_do_lower_case(vocab_file)
  return not has_capitals(vocab_file) if known is None else known


def _read_config(vocab_file):
  """Returns the file next to a vocabulary, and what it holds."""
  path = os.path.join(os.path.dirname(vocab_file), _CONFIG)
  return path, json_files.read(path) if file_io.exists(path) else {}


def has_capitals(vocab_file: str) -> bool:
  """Whether a vocabulary is a cased one: [CLS] does not count."""
  if vocabularies.name_of(vocab_file) != vocabularies.LIST:
    # ALBERT's are of lower-cased text; others have their own rules.
    return False
  return any(
    re.match(r"(?!\[.*\]$).*[A-Z]", line)
    for _, line in file_io.read_lines(vocab_file)
  )
