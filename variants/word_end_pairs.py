"""The vocabulary of PhoBERT and BERTweet: vocab.txt and bpe.codes of fastBPE.

  vocab.txt   "piece count" a line; a piece that ends inside a word ends in "@@"
  bpe.codes   "piece piece count" a line: the pairs that become one piece, the
              first pair first; "</w>" marks the end of a word

The ids 0 to 3 are <s>, <pad>, </s> and <unk>; then come the lines of vocab.txt,
and last <mask>. Some pairs become pieces that vocab.txt lacks; those at the end
are unknown. UNKNOWN_FROM is the first id of such pieces.
"""

from common import errors, file_io, json_files
from variants import byte_pair_files

VOCABULARY, MERGES = "vocab.txt", "bpe.codes"
FILES = (VOCABULARY, MERGES)
# A key of `content` that only FileTokenizer knows.
UNKNOWN_FROM = "unknown_from"
_END, _INSIDE = "</w>", "@@"


def content(folder: json_files.Folder, name: str, config: dict) -> dict:
  """Returns the entries of the equivalent tokenizer.json; see byte_pair_files.

  Raises InputError: a file is missing or damaged, or the tokenizer first
  normalizes tweets.
  """
  if config.get("normalization"):
    raise errors.InputError(
      f"{folder.path_of('tokenizer_config.json')}: normalization is true, "
      "which rewrites tweets in a way that is not supported: normalize the "
      "texts with BERTweet's own program, and set normalization to false"
    )
  pieces = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
  path = folder.path_of(name)
  for number, line in file_io.read_lines(path):
    piece, space, _ = line.strip().rpartition(" ")
    if not space:
      raise errors.InputError(
        f"{path}:{number}: {line.strip()!r:.60} is not a piece and its count; "
        "copy the file again"
      )
    pieces[piece] = len(pieces)
  pieces["<mask>"] = len(pieces)
  special = byte_pair_files.added_tokens(pieces)
  names = {entry["content"] for entry in special}
  vocab = {
    piece if piece in names else _internal(piece): index
    for piece, index in pieces.items()
  }
  unknown_from = len(pieces)
  merges = _read_merges(folder.path_of(MERGES))
  for first, second in merges:
    for piece in (first, second, first + second):
      vocab.setdefault(piece, len(vocab))
  return {
    "version": "1.0",
    "added_tokens": special,
    "pre_tokenizer": {"type": "WhitespaceSplit"},
    "decoder": {"type": "BPEDecoder", "suffix": _END},
    "post_processor": {
      "type": "RobertaProcessing",
      "sep": ["</s>", 2],
      "cls": ["<s>", 0],
      "trim_offsets": True,
      "add_prefix_space": False,
    },
    "model": {
      "type": "BPE",
      "unk_token": "<unk>",
      "end_of_word_suffix": _END,
      "vocab": vocab,
      "merges": merges,
    },
    UNKNOWN_FROM: unknown_from,
  }


def _internal(piece: str) -> str:
  """Turns "ab@@" into "ab", and "ab" into "ab</w>"."""
  if piece.endswith(_INSIDE):
    return piece.removesuffix(_INSIDE)
  return piece + _END


def _read_merges(path: str) -> list[list[str]]:
  """Returns the pairs in the file bpe.codes."""
  merges = []
  for number, line in file_io.read_lines(path):
    pair = line.split()[:2]
    if len(pair) != 2:
      raise errors.InputError(
        f"{path}:{number}: {line.strip()!r:.60} is not a pair of pieces and "
        "its count; copy the file again"
      )
    merges.append(pair)
  return merges
