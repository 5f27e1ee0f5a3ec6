"""Text files -> shards of whole documents, and their lines.

A shard consists of pieces of files, in order. The first document of a piece
that starts inside a file is the first one after that byte, and the piece
before it reads on until there: every document is in exactly one piece. So
cutting needs only the sizes of the files.
"""

import itertools
from typing import NamedTuple

from common import file_io
from pretraining import sentence_splitting

_ARTICLE, _ARTICLE_END = b"<doc ", "</doc>"


class Piece(NamedTuple):
  """The documents of a file that start at bytes `start` to `end` - 1.

  More exactly: whose preceding break starts there; the break before a file's
  first document is at byte 0.
  """

  path: str
  start: int
  end: int


def whole_files(files):
  """Returns Pieces with all of each file."""
  return [Piece(path, 0, file_io.size(path)) for path in files]


def plan_shards(files, shard_bytes):
  """Cuts files into shards of about `shard_bytes` of text.

  Small files share a shard, large ones are cut. A document is never cut, so a
  shard with a larger document is larger.

  Args:
    files: names of text files.
    shard_bytes: int.

  Returns:
    A list of shards, each a list of Pieces.
  """
  # Files of 30, 30 and 100 bytes in shards of 50: 30 + 20, 10 + 40, 50, 10.
  shards, room = [[]], shard_bytes
  for path, _, size in whole_files(files):
    start = 0
    while start < size:
      if not room:
        shards.append([])
        room = shard_bytes
      # Any byte: where a document begins near it is found when it is read.
      end = min(size, start + room)
      shards[-1].append(Piece(path, start, end))
      room -= end - start
      start = end
  return shards


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
    has_articles = split_sentences and _has_articles(piece.path)
    # The break where shards are cut is the one that separates documents.
    lines = _piece_lines(piece, _is_article if has_articles else _is_blank)
    if has_articles:
      lines = _article_lines(lines)
    if split_sentences:
      lines = map(sentence_splitting.split_sentences, lines)
      lines = itertools.chain.from_iterable(lines)
    yield from lines
    if not joined:
      yield ""


def _has_articles(path):
  with file_io.open_for_reading(path) as stream:
    return stream.read(len(_ARTICLE)) == _ARTICLE


def _is_article(line):
  return line.startswith(_ARTICLE)


def _is_blank(line):
  # As str.strip has it: a line of NBSP alone is blank.
  return not line.decode("utf-8", "replace").strip()


def _piece_lines(piece, is_break):
  """Yields the lines from the first break in a piece to the first behind it.

  Args:
    piece: Piece.
    is_break: function of a line (bytes).
  """
  with file_io.open_for_reading(piece.path) as stream:
    offset = piece.start
    if offset:  # Go to the next start of a line, which may be here.
      # One byte earlier: a line that starts at `offset` must not be lost.
      stream.seek(offset - 1)
      offset += len(stream.readline()) - 1
    # Before the first break is the end of a document of the piece before.
    inside = not piece.start
    for line in stream:
      if offset >= piece.end and is_break(line):
        return
      inside = inside or is_break(line)
      if inside:
        yield _decoded(line, piece.path, offset)
      offset += len(line)


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
