"""Text files -> shards of whole documents, and their lines.

A shard consists of pieces of files, in order. Files are cut where a document
begins; a document that goes on for the size of another shard is cut at a line,
so that memory stays bounded.
"""

import itertools
from typing import NamedTuple

from common import file_io
from pretraining import sentence_splitting

_ARTICLE, _ARTICLE_END = b"<doc ", "</doc>"


class Piece(NamedTuple):
  """The bytes `start` to `end` - 1 of a file, which are whole lines."""

  path: str
  start: int
  end: int


def whole_files(files):
  """Returns Pieces with all of each file."""
  return [Piece(path, 0, file_io.size(path)) for path in files]


def plan_shards(files, shard_bytes, *, split_sentences=False):
  """Cuts files into shards of about `shard_bytes` of text.

  Small files share a shard, large ones are cut between documents. So a shard is
  larger by what its last document has left. Where that is as much as
  `shard_bytes`, the document is cut: no shard is larger than two.

  Args:
    files: names of text files.
    shard_bytes: int.
    split_sentences: see `read_lines`.

  Returns:
    A list of shards, each a list of Pieces.
  """
  shards, room = [], 0
  for path, start, size in whole_files(files):
    is_break = _break_of(path, split_sentences)
    while start < size:
      if room <= 0:
        shards.append([])
        room = shard_bytes
      end = size
      if start + room < size:
        end = _find_cut(path, start + room, shard_bytes, is_break)
      shards[-1].append(Piece(path, start, end))
      room -= end - start
      start = end
  return shards


def _find_cut(path, near, furthest, is_break):
  """Returns the first break at byte `near` or behind it; the end of a file.

  If there is none within `furthest` bytes, the first line there.
  """
  with file_io.open_for_reading(path) as stream:
    # One byte earlier: a line that starts at `near` must not be lost.
    stream.seek(near - 1)
    first = offset = near - 1 + len(stream.readline())
    for line in stream:
      if is_break(line):
        return offset
      offset += len(line)
      if offset - near >= furthest:
        return first
  return offset


def read_lines(pieces, *, split_sentences=False, joined=False):
  """Yields the lines of pieces, str without "\\n".

  Args:
    pieces: Pieces.
    split_sentences: whether lines are paragraphs, to be split into sentences
      with a line each. Then a file that starts with "<doc " is read as
      WikiExtractor's: its articles are the documents, and blank lines do not
      end them.
    joined: whether the last document of a file continues in the next file, if
      no blank line separates them. As in the original: True.

  Raises:
    InputError: a file is missing or a line is not UTF-8 (its number named).
  """
  for piece in pieces:
    lines = _piece_lines(piece)
    if _break_of(piece.path, split_sentences) is _is_article:
      lines = _article_lines(lines)
    if split_sentences:
      lines = map(sentence_splitting.split_sentences, lines)
      lines = itertools.chain.from_iterable(lines)
    yield from lines
    if not joined:
      yield ""


def _break_of(path, split_sentences):
  """Returns the function that tells which lines separate documents."""
  if split_sentences:
    with file_io.open_for_reading(path) as stream:
      if stream.read(len(_ARTICLE)) == _ARTICLE:
        return _is_article
  return _is_blank


def _is_article(line):
  return line.startswith(_ARTICLE)


def _is_blank(line):
  # As str.strip has it: a line of NBSP alone is blank.
  return not line.decode("utf-8", "replace").strip()


def _piece_lines(piece):
  offset = piece.start
  with file_io.open_for_reading(piece.path) as stream:
    stream.seek(offset)
    for line in stream:
      yield _decoded(line, piece.path, offset)
      offset += len(line)
      if offset >= piece.end:
        return


def _decoded(line, path, offset):
  try:
    return line.decode("utf-8").removesuffix("\n")
  except UnicodeDecodeError as error:
    with file_io.open_for_reading(path) as stream:
      # Counted only now: a piece does not know how many lines come before it.
      number = stream.read(offset).count(b"\n") + 1
    raise file_io.not_utf8(path, number, error) from error


def _article_lines(lines):
  """Turns articles' tags into blank lines, and drops the other blank lines."""
  for line in lines:
    if line.startswith(_ARTICLE.decode()) or line.strip() == _ARTICLE_END:
      yield ""
    elif line.strip():
      yield line
