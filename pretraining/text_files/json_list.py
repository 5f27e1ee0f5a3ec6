"""Reads a JSON list of documents: [{"text": "..."}, ...], or of strings."""

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from common import errors
from pretraining import text_files

_BLOCK_BYTES = 1 << 20
# Bounds the memory that a damaged file takes before it is refused.
_LONGEST_ELEMENT = 1 << 28
_START = re.compile(rb'(\xef\xbb\xbf)?\s*\[\s*(\{\s*"|\{\s*$|"|$)')
_NOT_BLANK = re.compile(r"[^ \t\r\n]")
_END = object()


def matches(head: bytes) -> bool:
  """Whether a file starts as a list of objects or strings.

  A text may start with a bracket, too ("[CLS]"), but hardly with these.
  """
  return bool(_START.match(head)) and head.strip() != b"["


def blocks(path: str, stream: BinaryIO) -> Iterator[bytes]:
  """Yields a line for each element, holding one element at a time.

  Raises InputError: the list is damaged or ends too early (the error names the
  element), an element has no "text", or something follows the list.
  """
  elements = _Elements(path, stream)
  while (element := elements.next()) is not _END:
    text = element.get("text") if isinstance(element, dict) else element
    if not isinstance(text, str):
      keys = f" with {', '.join(element)}" if isinstance(element, dict) else ""
      raise errors.InputError(
        f"{path}: element {elements.count} of its list is a "
        f"{type(element).__name__}{keys}; expected a string, or an object with "
        'a string "text": rename the key'
      )
    yield text_files.document_line(text)


class _Elements:
  """Parses the elements of a list one by one.

  Attributes:
    count: how many elements were returned.
  """

  def __init__(self, path: str, stream: BinaryIO) -> None:
    self.count = 0
    self._path, self._stream = path, stream
    self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
    self._parse = json.JSONDecoder().raw_decode
    self._text, self._position = "", 0
    self._expect("[")

  def next(self) -> Any:
    """Returns the next element, or _END."""
    if self._next_character() == "]":
      self._expect("]")
      if rest := self._next_character():
        raise self._fault(f"{rest!r} follows the end of its JSON list")
      return _END
    if self.count:
      self._expect(",")
    self._next_character()
    while True:
      try:
        element, self._position = self._parse(self._text, self._position)
      except (ValueError, RecursionError) as error:
        # The element may continue in the next block.
        fault = str(error)
      else:
        self.count += 1
        return element
      is_long = len(self._text) - self._position > _LONGEST_ELEMENT
      if is_long or not self._read_more():
        raise self._fault(f"its JSON list is damaged or incomplete ({fault})")

  def _expect(self, character: str) -> None:
    if (actual := self._next_character()) != character:
      raise self._fault(f"expected {character}, got {actual or 'the end'}")
    self._position += 1

  def _next_character(self) -> str:
    """Moves to the next character that is not blank; "" at the end."""
    while True:
      if found := _NOT_BLANK.search(self._text, self._position):
        self._position = found.start()
        return found[0]
      self._position = len(self._text)
      if not self._read_more():
        return ""

  def _read_more(self) -> bool:
    """Appends text, as much as there is, so that the time stays linear."""
    rest = self._text[self._position :]
    block = self._stream.read(max(_BLOCK_BYTES, len(rest)))
    try:
      self._text = rest + self._decode(block, final=not block)
    except UnicodeDecodeError as error:
      raise self._fault(f"not UTF-8 ({error.reason})") from error
    self._position = 0
    return bool(block)

  def _fault(self, fault: str) -> errors.InputError:
    return errors.InputError(
      f"{self._path}: {fault}, behind element {self.count} of the list; write "
      "one JSON list, or one JSON object per line"
    )
