"""ALBERT's, XLM-R's and CamemBERT's vocabularies: files of SentencePiece.

  spiece.model, 30k-clean.model   ALBERT
  sentencepiece.bpe.model         XLM-R and CamemBERT

The file is a protocol buffer. Its fields that are read here, by number:

  1 a piece       1 text, 2 score (float), 3 kind
  2 the trainer   3 algorithm: 1 is unigram
  3 normalizer    2 a map of character strings, in the format of `Precompiled`

https://github.com/google/sentencepiece, src/sentencepiece_model.proto.
"""

import base64
import struct
from collections.abc import Iterator
from typing import Any

from common import errors, file_io, json_files

FILES = ("spiece.model",)
OTHER_NAMES = ("30k-clean.model", "sentencepiece.bpe.model")
_UNIGRAM = 1
_NORMAL, _USER_DEFINED = 1, 4  # Kinds of pieces.
_SPACE = "\u2581"  # Stands for a space in pieces.
# XLM-R's ids 0 to 3; the file's first three pieces are replaced by them.
_XLM: tuple[str, ...] = ("<s>", "<pad>", "</s>", "<unk>")
_CAMEMBERT = ("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED")


def content(folder: json_files.Folder, name: str, config: dict) -> dict:
  """Returns the entries of the equivalent tokenizer.json; see byte_pair_files.

  The rules equal transformers'. Raises InputError: the file is missing or
  damaged, or its algorithm is not unigram.
  """
  path = folder.path_of(name)
  pieces, algorithm, characters = _read(path)
  if algorithm != _UNIGRAM:
    raise errors.InputError(
      f"{path}: SentencePiece's algorithm {algorithm} is not supported; "
      f"expected {_UNIGRAM} (unigram)"
    )
  variant = str(folder.read("config.json").get("model_type", ""))
  texts = [text for text, _, _ in pieces]
  is_albert = "[CLS]" in texts
  vocab: list[tuple[str, float]] = [(text, n) for text, n, _ in pieces]
  normalizers: list[dict[str, Any]] = []
  if is_albert:
    cls, sep, mask, between, unknown = "[CLS]", "[SEP]", "[MASK]", 1, 1
    normalizers = _albert_rules(config)
  else:
    # The file begins with <unk>, <s> and </s>; CamemBERT uses the last two.
    start, used = (_XLM, vocab[3:])
    if variant == "camembert":
      start, used = _CAMEMBERT, vocab[1:]
    vocab = [*((text, 0.0) for text in start), *used, ("<mask>", 0.0)]
    cls, sep, mask, between, unknown = "<s>", "</s>", "<mask>", 2, 3
  if characters:
    normalizers.append(
      {
        "type": "Precompiled",
        "precompiled_charsmap": base64.b64encode(characters).decode("ascii"),
      }
    )
  ids = {text: number for number, (text, _) in enumerate(vocab)}
  special = [cls, sep, mask, "<pad>", "<unk>"]
  user_defined = [text for text, _, kind in pieces if kind == _USER_DEFINED]
  joined: dict[str, Any] = {"type": "Metaspace", "replacement": _SPACE}
  joined |= {"prepend_scheme": "always", "split": True}
  return {
    "version": "1.0",
    "added_tokens": [
      _added(text, ids[text], text in special)
      for text in sorted(
        {*special, *user_defined} & ids.keys(), key=ids.__getitem__
      )
    ],
    "normalizer": {"type": "Sequence", "normalizers": normalizers},
    "pre_tokenizer": {
      "type": "Sequence",
      "pretokenizers": [{"type": "WhitespaceSplit"}, joined],
    },
    "decoder": joined,
    "post_processor": _template(cls, sep, between, ids),
    "model": {"type": "Unigram", "unk_id": unknown, "vocab": vocab},
  }


def _albert_rules(config: dict) -> list[dict[str, Any]]:
  """Returns the normalizers before the file's own."""
  rules: list[dict[str, Any]] = [
    {"type": "Replace", "pattern": {"String": quotes}, "content": '"'}
    for quotes in ("``", "''")
  ]
  if not config.get("keep_accents", False):
    rules += [{"type": "NFKD"}, {"type": "StripAccents"}]
  if config.get("do_lower_case", True):
    rules.append({"type": "Lowercase"})
  return rules


def _added(text: str, token_id: int, is_special: bool) -> dict[str, Any]:
  flags = ("single_word", "lstrip", "rstrip", "normalized")
  entry = {"id": token_id, "content": text, **dict.fromkeys(flags, False)}
  return {**entry, "special": is_special}


def _template(
  cls: str, sep: str, between: int, ids: dict[str, int]
) -> dict[str, Any]:
  """Returns the rules for the special tokens around one or two texts."""
  segment = int(between == 1)  # XLM-R has one segment.

  def token(text: str, type_id: int = 0) -> dict[str, Any]:
    return {"SpecialToken": {"id": text, "type_id": type_id}}

  def sequence(text: str, type_id: int = 0) -> dict[str, Any]:
    return {"Sequence": {"id": text, "type_id": type_id}}

  single = [token(cls), sequence("A"), token(sep)]
  pair = [*single, *[token(sep)] * (between - 1)]
  return {
    "type": "TemplateProcessing",
    "single": single,
    "pair": [*pair, sequence("B", segment), token(sep, segment)],
    "special_tokens": {
      text: {"id": text, "ids": [ids[text]], "tokens": [text]}
      for text in (cls, sep)
    },
  }


def _read(path: str) -> tuple[list[tuple[str, float, int]], int, bytes]:
  """Returns [(text, score, kind)], the algorithm and the map of characters."""
  with file_io.open_for_reading(path) as stream:
    data = stream.read()
  pieces, algorithm, characters = [], _UNIGRAM, b""
  try:
    for number, value in _fields(data):
      if number == 1:
        piece = dict(_fields(value))
        (score,) = struct.unpack("<f", piece.get(2, bytes(4)))
        text = piece[1].decode("utf-8")
        pieces.append((text, score, piece.get(3, _NORMAL)))
      elif number == 2:
        algorithm = dict(_fields(value)).get(3, _UNIGRAM)
      elif number == 3:
        characters = dict(_fields(value)).get(2, b"")
  except (IndexError, KeyError, TypeError, ValueError, struct.error) as error:
    raise errors.InputError(
      f"{path} is not a readable SentencePiece model ({error}); copy it again"
    ) from error
  if len(pieces) < len(_XLM):
    raise errors.InputError(
      f"{path} has {len(pieces)} pieces; expected a SentencePiece model"
    )
  return pieces, algorithm, characters


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
  """Yields (number, value) of a protocol buffer's fields.

  A value is an int, or the bytes of a number or of an embedded message.
  """
  position = 0
  while position < len(data):
    key, position = _varint(data, position)
    kind = key & 7
    if kind == 0:
      value, position = _varint(data, position)
      yield key >> 3, value
      continue
    if kind == 2:
      size, position = _varint(data, position)
    elif kind in (1, 5):
      size = 8 if kind == 1 else 4
    else:
      raise ValueError(f"field type {kind} at byte {position}")
    if position + size > len(data):
      raise ValueError(f"it ends within the field at byte {position}")
    yield key >> 3, data[position : position + size]
    position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
  """Returns the integer at a position, in groups of 7 bits, and its end."""
  value = shift = 0
  while True:
    byte = data[position]
    value |= (byte & 0x7F) << shift
    position, shift = position + 1, shift + 7
    if byte < 0x80:
      return value, position
    if shift > 63:
      raise ValueError(f"a number at byte {position} is too long")
