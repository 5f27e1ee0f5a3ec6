"""Reads text into a corpus: documents, their sentences and their token ids.

Arrays hold ids, flags of word continuations, and the starts of sentences and
documents. A corpus needs about three bytes per token. No TensorFlow.

A large text can be split into shards, which consist of pieces of files. Files
are split at blank lines, between documents. To bound the memory, a document
that would double a shard's size is split at the end of a line.
"""

import array
import io
import itertools
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

import tokenization
from common import errors, file_io
from pretraining import text_files
from text import input_sequences

_LINES_PER_BLOCK = 4096

_LARGE_SHARE, _LARGE_CUT = 0.5, 0.1  # Thresholds of warn_of_shape.
# Values of Corpus.continues.
STARTS_WORD, CONTINUES_WORD, NO_WORD = 0, 1, 2


class Piece(NamedTuple):
  """The bytes `start` to `end` - 1 of a file's text; they form whole lines.

  Text in a format of text_files is counted as its lines of text.
  """

  path: str
  start: int
  end: int


def whole_files(files: list[str]) -> list[Piece]:
  """Returns one Piece per file, which holds the whole file."""
  return [Piece(path, 0, text_files.size(path)) for path in files]


def plan_shards(files: list[Piece], shard_bytes: int) -> list[list[Piece]]:
  """Splits files into shards of about `shard_bytes` of text.

  Small files share a shard. Large files are split between documents, so a shard
  may exceed `shard_bytes` by the rest of its last document. A rest of
  `shard_bytes` or more is split, so a shard has at most about twice that size.
  """
  shards: list = []
  room = 0
  for path, start, size in files:
    with text_files.open_text(path) as stream:
      while start < size:
        if room <= 0:
          shards.append([])
          room = shard_bytes
        end = size
        if start + room < size:
          end = _find_cut(stream, path, start + room, shard_bytes)
        shards[-1].append(Piece(path, start, end))
        room -= end - start
        start = end
  return shards


def _find_cut(
  stream: io.BufferedReader, path: str, near: int, furthest: int
) -> int:
  """Returns the first blank line's start at or after `near`, or the file's end.

  Without a blank line within `furthest` bytes, or if a document of one line
  starts there, returns the next line's start.
  """
  # Reading starts one byte earlier, so a line that starts at `near` counts.
  stream.seek(near - 1)
  first = offset = near - 1 + len(stream.readline())
  for line in stream:
    text = line.decode("utf-8", "replace")
    # As str.strip removes NBSP, a line that has only NBSP is blank.
    if not text.strip():
      return offset
    if offset == first and len(text_lines(path, text)) > 1:
      return first
    offset += len(line)
    if offset - near >= furthest:
      return first
  return offset


def text_lines(path: str, line: str) -> list[str]:
  """Returns the lines of text in a line of a file: usually the line itself.

  A JSON object with a `text` is a document, so a blank line follows its text.
  Unlike the original: JSON is parsed, and a tag of wikiextractor raises
  InputError. The original trains on both as text.
  """
  if not line.startswith(("{", "<", "\ufeff")):
    return [line]
  line = line.removeprefix("\ufeff")
  if re.match(r"</?doc( id=|>)", line):
    raise errors.InputError(
      f"{path}: {line!r:.40} is a tag of wikiextractor, which would be "
      "learned as text; write one sentence per line and blank lines between "
      'documents, or one JSON object with a "text" per line'
    )
  try:
    values = json.loads(line) if line.startswith("{") else None
  except (ValueError, RecursionError):
    values = None
  text = values.get("text") if isinstance(values, dict) else None
  return [*text.split("\n"), ""] if isinstance(text, str) else [line]


def read_lines(pieces: list[Piece], *, joined: bool) -> Iterator[str]:
  r"""Yields the lines of pieces without "\n".

  Args:
    pieces: read in this order.
    joined: whether the last document of a file continues in the next file, if
      no blank line separates them. As in the original: True.

  Raises:
    InputError: a file is missing, a line is not UTF-8 (the error names its
      number), or a line is a tag of wikiextractor.
  """
  for piece in pieces:
    yield from _piece_lines(piece)
    if not joined:
      yield ""


def _piece_lines(piece: Piece) -> Iterator[str]:
  offset = piece.start
  with text_files.open_text(piece.path) as stream:
    stream.seek(offset)
    for line in stream:
      try:
        text = line.decode("utf-8").removesuffix("\n")
      except UnicodeDecodeError as error:
        stream.seek(0)
        # Lines are counted only for the error, since pieces start anywhere.
        number = stream.read(offset).count(b"\n") + 1
        raise file_io.not_utf8(piece.path, number, error) from error
      yield from text_lines(piece.path, text)
      offset += len(line)
      if offset >= piece.end:
        return


class Vocabulary:
  """The part of a vocabulary that instances depend on.

  Attributes:
    frame: ids of the special tokens around texts, a input_sequences.Frame.
    mask_id: id of the mask token.
    unk_id: id of [UNK] or <unk>, or None.
    ids: array [V] of all ids, in the order of the vocabulary's tokens.
    continues: array [largest id + 1] uint8, 1 for a token that continues a
      word ("##s"), else 0.
    dtype: uint16 if every id fits, else uint32.
  """

  def __init__(
    self,
    vocab: dict[str, int],
    specials: tokenization.Specials = tokenization.BERTS,
  ):
    """Raises InputError if a special token is missing."""
    tokens, layout = specials[:3], specials[3:6]
    missing = [token for token in tokens if token not in vocab]
    if missing:
      raise errors.InputError(
        f"pre-training needs {', '.join(missing)}, which the vocabulary lacks: "
        "use a released vocabulary or one that create_vocabulary.py wrote"
      )
    cls_id, sep_id, self.mask_id = (vocab[token] for token in tokens)
    self.frame = input_sequences.Frame(cls_id, sep_id, *layout)
    self.unk_id = vocab.get("[UNK]", vocab.get("<unk>"))
    largest = max(vocab.values())
    self.dtype = np.dtype(np.uint16 if largest < 1 << 16 else np.uint32)
    # As in the original: a random token is drawn by its index in the list of
    # tokens, so the order of the dict determines its id.
    self.ids = np.array(list(vocab.values()), self.dtype)
    self.continues = np.zeros(largest + 1, np.uint8)
    self.continues[self.ids] = [token.startswith("##") for token in vocab]


class Corpus(NamedTuple):
  """All documents as arrays.

  Sentence s is ids[sentence_starts[s]:sentence_starts[s + 1]]; document d is
  the sentences document_starts[d] to document_starts[d + 1] - 1.
  No sentence or document is empty. Memory: 3 bytes per token (5 if ids need
  uint32), and 8 per sentence and document.

  Attributes:
    ids: the ids of all tokens.
    sentence_starts, document_starts: arrays of int64.
    continues: one byte for each token: STARTS_WORD or CONTINUES_WORD, or
      NO_WORD for a [SEP] between documents.
    num_words: the number of words, which white space separates.
  """

  ids: np.ndarray
  sentence_starts: array.array
  document_starts: array.array
  continues: bytes
  num_words: int

  def sentences_of(self, document: int) -> tuple[int, int]:
    """Returns the indices (first, last + 1) of a document's sentences."""
    return self.document_starts[document], self.document_starts[document + 1]

  @property
  def num_documents(self) -> int:
    """Number of documents."""
    return len(self.document_starts) - 1

  @property
  def num_sentences(self) -> int:
    """Number of sentences in all documents."""
    return len(self.sentence_starts) - 1


def read_corpus(
  lines: Iterable[str], encode_lines: Callable, vocabulary: Vocabulary
) -> Corpus:
  """Reads text with one sentence per line and blank lines between documents.

  As in the original: a line is blank if str.strip, which also removes NBSP,
  leaves nothing of it. A sentence without tokens is skipped but does not end
  its document.

  Args:
    lines: lines of text.
    encode_lines: function of a list of lines; returns (the concatenated ids
      of all lines, the number of ids of each line, the `continues` of all
      tokens or None).
    vocabulary: determines which tokens continue words if encode_lines does not.
  """
  # array.array grows in place; NumPy would copy the whole array for each block.
  dtype = vocabulary.dtype
  ids, flags = array.array(dtype.char), bytearray()
  sentence_starts, document_starts = array.array("q", [0]), array.array("q")
  num_words = 0
  in_document = False
  stripped = map(str.strip, lines)
  while block := list(itertools.islice(stripped, _LINES_PER_BLOCK)):
    block_ids, lengths, continues = encode_lines(block)
    block_ids = np.asarray(block_ids, dtype)
    ids.frombytes(block_ids.tobytes())
    flags += continues or vocabulary.continues[block_ids].tobytes()
    for line, length in zip(block, lengths):
      if length:
        if not in_document:
          document_starts.append(len(sentence_starts) - 1)
        in_document = True
        sentence_starts.append(sentence_starts[-1] + length)
      # A line without tokens (control characters only) is not blank.
      elif not line:
        in_document = False
      num_words += len(line.split())
  document_starts.append(len(sentence_starts) - 1)
  return Corpus(
    np.frombuffer(ids, dtype),
    sentence_starts,
    document_starts,
    bytes(flags),
    num_words,
  )


def warn_of_shape(corpus: Corpus, max_seq_length: int) -> None:
  """Warns if lines are not sentences, or documents are too short for pairs.

  As in the original: the second segment of a pair is random if its document has
  only one sentence, and only a part of a long sentence is used.
  """
  single = np.count_nonzero(np.diff(corpus.document_starts) == 1)
  if single > _LARGE_SHARE * corpus.num_documents:
    errors.warn_once(
      f"{single / corpus.num_documents:.0%} of the documents have one "
      "sentence, so the second segment of their pairs is always random: write "
      "blank lines only between documents, or pass a --packing without pairs "
      "(see --help)"
    )
  lengths = np.diff(corpus.sentence_starts)
  cut = int(np.maximum(lengths - max_seq_length, 0).sum())
  if cut > _LARGE_CUT * len(corpus.ids):
    errors.warn_once(
      f"{cut / len(corpus.ids):.0%} of the tokens are not used, because their "
      f"lines are longer than a record's {max_seq_length} tokens: write one "
      "sentence per line, or pass a --packing without pairs (see --help)"
    )


def encode_segmented(
  tokenizer: tokenization.FullTokenizer, lines: list[str]
) -> tuple[list[int], list[int], bytes]:
  """Encodes lines whose Chinese words are separated by white space.

  Segmentation does not change the ids, because every Han character is a token
  anyway. It determines which characters form a word, for whole-word masking
  (Cui et al. 2019): in "使用 语言 模型", the second character of each word
  continues the word, as "##" pieces do.
  """
  ids: list[int] = []
  lengths, continues = [], bytearray()
  for line in lines:
    before = len(ids)
    # Words are found here, because the tokenizer splits them at every Han
    # character.
    for word in line.split():
      for index, token in enumerate(tokenizer.basic_tokenizer.tokenize(word)):
        pieces = tokenizer.wordpiece_tokenizer.tokenize(token)
        ids += tokenizer.convert_tokens_to_ids(pieces)
        continues.append(index > 0 and _is_han(token))
        # Only tokens that are not Han characters have "##" pieces.
        continues += bytes([CONTINUES_WORD]) * (len(pieces) - 1)
    lengths.append(len(ids) - before)
  return ids, lengths, bytes(continues)


def _is_han(token: str) -> bool:
  name = unicodedata.name(token, "") if len(token) == 1 else ""
  return name.startswith("CJK ") and unicodedata.category(token) == "Lo"
