"""Reads text into a corpus of documents, which are sentences of token ids.

One array holds all ids, two more the starts of sentences and documents, so a
corpus needs about three bytes per token. No TensorFlow.

A text of any size is cut into shards, which consist of pieces of files. Files
are cut at blank lines, between documents. A document that continues for the
size of another shard is cut at the end of a line, which bounds the memory.
"""

import array
import itertools
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

import tokenization
from common import errors, file_io

_LINES_PER_BLOCK = 4096

_LARGE_SHARE, _LARGE_CUT = 0.5, 0.1  # Thresholds of warn_of_shape.
# Values of Corpus.continues.
STARTS_WORD, CONTINUES_WORD, NO_WORD = 0, 1, 2


class Piece(NamedTuple):
  """The bytes `start` to `end` - 1 of a file, which are whole lines."""

  path: str
  start: int
  end: int


def whole_files(files: list[str]) -> list[Piece]:
  """Returns all of each file."""
  return [Piece(path, 0, file_io.size(path)) for path in files]


def plan_shards(files: list[str], shard_bytes: int) -> list[list[Piece]]:
  """Cuts files into shards of about `shard_bytes` of text.

  Small files share a shard; large files are cut between documents, so a shard
  also holds the rest of its last document. A rest as large as `shard_bytes` is
  cut, so no shard is larger than twice that size.
  """
  shards: list = []
  room = 0
  for path, start, size in whole_files(files):
    while start < size:
      if room <= 0:
        shards.append([])
        room = shard_bytes
      end = size
      if start + room < size:
        end = _find_cut(path, start + room, shard_bytes)
      shards[-1].append(Piece(path, start, end))
      room -= end - start
      start = end
  return shards


def _find_cut(path, near, furthest):
  """Returns the offset of the first blank line from `near` on, or the end.

  Without a blank line within `furthest` bytes, returns the first line's end.
  """
  with file_io.open_for_reading(path) as stream:
    # Reading starts one byte earlier, to keep a line that starts at `near`.
    stream.seek(near - 1)
    first = offset = near - 1 + len(stream.readline())
    for line in stream:
      # str.strip decides: a line of NBSP alone is blank.
      if not line.decode("utf-8", "replace").strip():
        return offset
      offset += len(line)
      if offset - near >= furthest:
        return first
  return offset


def text_lines(path: str, line: str) -> list[str]:
  """Returns the lines of text in a line of a file: usually the line itself.

  A JSON object with a `text` is a document, so a blank line follows its text.
  Unlike the original: it trains on JSON's syntax and on wikiextractor's tags,
  which are refused here. Raises InputError: a line is such a tag.
  """
  if not line.startswith(("{", "<", "\ufeff")):
    return [line]
  line = line.removeprefix("\ufeff")
  if re.match(r"</?doc( id=|>)", line):
    raise errors.InputError(
      f"{path}: {line!r:.40} is a tag of another program, which would be "
      "learned as text; write one sentence a line and blank lines between "
      'documents, or objects of JSON with a "text"'
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
    pieces: in the order in which they are read.
    joined: whether the last document of a file continues in the next file, if
      no blank line separates them. As in the original: True.

  Raises:
    InputError: a file is missing, or a line, whose number is named, is not
      UTF-8.
  """
  for piece in pieces:
    yield from _piece_lines(piece)
    if not joined:
      yield ""


def _piece_lines(piece):
  offset = piece.start
  with file_io.open_for_reading(piece.path) as stream:
    stream.seek(offset)
    for line in stream:
      try:
        text = line.decode("utf-8").removesuffix("\n")
      except UnicodeDecodeError as error:
        stream.seek(0)
        # Lines are counted only now: a piece does not know its line number.
        number = stream.read(offset).count(b"\n") + 1
        raise file_io.not_utf8(piece.path, number, error) from error
      yield from text_lines(piece.path, text)
      offset += len(line)
      if offset >= piece.end:
        return


class Vocabulary:
  """The part of a vocabulary that instances depend on.

  Attributes:
    frame: ids of the special tokens around texts, a tokenization.Frame.
    mask_id: id of the mask.
    unk_id: id of [UNK] or <unk>, or None.
    ids: array [V] of all ids, in the order of the vocabulary's tokens.
    continues: array [largest id + 1] uint8, 1 for a token that continues a
      word ("##s"), else 0.
    dtype: the smallest unsigned integers that hold every id.
  """

  def __init__(
    self,
    vocab: dict[str, int],
    specials: tokenization.Specials = tokenization.BERTS,
  ):
    """Raises InputError if a special token is missing."""
    tokens, layout = specials[:3], specials[3:]
    missing = [token for token in tokens if token not in vocab]
    if missing:
      raise errors.InputError(
        f"the vocabulary has no {', '.join(missing)}; pre-training needs it: "
        "use a released one or one made by create_vocabulary.py"
      )
    cls_id, sep_id, self.mask_id = (vocab[token] for token in tokens)
    self.frame = tokenization.Frame(cls_id, sep_id, *layout)
    self.unk_id = vocab.get("[UNK]", vocab.get("<unk>"))
    largest = max(vocab.values())
    self.dtype = np.dtype(np.uint16 if largest < 1 << 16 else np.uint32)
    # As in the original: a random number is an index in the list of tokens, so
    # the order of the dict determines its id.
    self.ids = np.array(list(vocab.values()), self.dtype)
    self.continues = np.zeros(largest + 1, np.uint8)
    self.continues[self.ids] = [token.startswith("##") for token in vocab]


class Corpus(NamedTuple):
  """All documents as arrays.

  Sentence s is ids[sentence_starts[s]:sentence_starts[s + 1]]; document d is
  the sentences document_starts[d] to document_starts[d + 1] (not included).
  No sentence or document is empty. Memory: 2 bytes a token (4 if the vocabulary
  has more than 65,536), 8 a sentence and 8 a document.

  Attributes:
    ids: the ids of all tokens.
    sentence_starts, document_starts: arrays of int64.
    continues: one byte for each token: STARTS_WORD or CONTINUES_WORD, or
      NO_WORD for a [SEP] between documents.
    num_words: words of text, separated by white space.
  """

  ids: np.ndarray
  sentence_starts: array.array
  document_starts: array.array
  continues: bytes
  num_words: int

  def sentences_of(self, document: int) -> tuple[int, int]:
    """Returns (first, last + 1) of the numbers of a document's sentences."""
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
  """Reads text with a sentence a line and blank lines between documents.

  As in the original: a line is blank if str.strip leaves nothing (NBSP too),
  a sentence without any token is skipped without ending its document, and a
  file does not end a document, see `read_lines`.

  Args:
    lines: lines of text.
    encode_lines: function of a list of lines that returns (the concatenated ids
      of all lines, the number of ids of each line, the `continues` of all
      tokens or None).
    vocabulary: says which tokens continue words if encode_lines does not.
  """
  # array.array grows in place; numpy would copy everything for each block.
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
  """Warns if lines are not sentences, or documents too short for pairs.

  As in the original: the second part of a pair is random if a document has one
  sentence, and only the start of a long sentence is used.
  """
  alone = np.count_nonzero(np.diff(corpus.document_starts) == 1)
  if alone > _LARGE_SHARE * corpus.num_documents:
    errors.warn_once(
      f"{alone / corpus.num_documents:.0%} of the documents have one sentence, "
      "so that no second part of a pair can follow it: write blank lines "
      "only between documents, or pass --packing=full_sentences"
    )
  lengths = np.diff(corpus.sentence_starts)
  cut = int(np.maximum(lengths - max_seq_length, 0).sum())
  if cut > _LARGE_CUT * len(corpus.ids):
    errors.warn_once(
      f"{cut / len(corpus.ids):.0%} of the tokens are not used, because their "
      f"lines are longer than a record's {max_seq_length} tokens: write one "
      "sentence a line, or pass --packing=full_sentences"
    )


def encode_segmented(
  tokenizer, lines: list[str]
) -> tuple[list[int], list[int], bytes]:
  """Encodes lines whose Chinese words are separated by white space.

  The ids equal the ids of the text without segmentation, since every Han
  character is a token anyway. Segmentation adds which characters form a word,
  for masking whole words (Cui et al. 2019): in "使用 语言 模型" the second
  character of each word continues the word, as "##" pieces do.
  """
  ids: list[int] = []
  lengths, continues = [], bytearray()
  for line in lines:
    before = len(ids)
    # Words are split at white space here, because the tokenizer would split
    # them at every Han character.
    for word in line.split():
      for place, token in enumerate(tokenizer.basic_tokenizer.tokenize(word)):
        pieces = tokenizer.wordpiece_tokenizer.tokenize(token)
        ids += tokenizer.convert_tokens_to_ids(pieces)
        continues.append(place > 0 and _is_han(token))
        # "##" pieces occur only in words that are not Han.
        continues += bytes([CONTINUES_WORD]) * (len(pieces) - 1)
    lengths.append(len(ids) - before)
  return ids, lengths, bytes(continues)


def _is_han(token):
  name = unicodedata.name(token, "") if len(token) == 1 else ""
  return name.startswith("CJK ") and unicodedata.category(token) == "Lo"
