"""Turns exceptions into refusals: a status, and a sentence in JSON.

Everything that a client can send wrong is refused with 4xx, in one line of the
log. Only a fault of this program is a 500.
"""

import asyncio
import json
import re
import time
from collections.abc import Callable
from typing import Any

from absl import logging

from common import errors
from web import work_queue

with errors.needs_extra("serve"):
  from aiohttp import web

# At most _LOG_LINES lines about refused requests in _LOG_INTERVAL seconds.
_LOG_LINES, _LOG_INTERVAL = 10, 30.0
# Whether a request has reached this program's own code.
HANDLED = web.RequestKey("handled", bool)
_CLIENT_LEFT = 499  # As nginx calls it; HTTP has no status for this.


class Malformed(Exception):
  """A request that is not valid HTTP."""


class ClientLeft(Exception):
  """The client closed its connection within a request."""


class LimitedLog:
  """Logs at most _LOG_LINES warnings per _LOG_INTERVAL, including aiohttp's."""

  def __init__(self) -> None:
    self._began, self._count = 0.0, 0

  def warning(self, line: str, *values: Any, exc_info: Any = None) -> None:
    """Logs a line, unless there were too many."""
    now = time.monotonic()
    if now - self._began > _LOG_INTERVAL:
      self._began, self._count = now, 0
    self._count += 1
    if self._count <= _LOG_LINES:
      logging.warning(line, *values, exc_info=exc_info)

  def exception(self, line: str, *values: Any, exc_info: Any = None) -> None:
    """Logs an exception in a line; aiohttp calls this."""
    self.warning(f"{line}: %.200a", *values, str(exc_info))

  def debug(self, *_: Any, **__: Any) -> None:
    """Logs nothing; aiohttp calls this for some malformed requests."""


def json_response(
  values: Any, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
  """Returns a response with values as JSON."""
  text = json.dumps(values, ensure_ascii=False)
  return web.Response(
    # Only a refusal that quotes a header can have a lone surrogate; a backslash
    # and its number are JSON for it.
    body=text.encode("utf-8", "backslashreplace"),
    status=status,
    headers=headers,
    content_type="application/json",
    charset="utf-8",
  )


def of(error: BaseException) -> tuple[int, str]:
  """Returns the status and the sentence for an exception of a handler."""
  match error:
    case errors.InputError() | Malformed():
      return 400, str(error)
    case ClientLeft():
      return _CLIENT_LEFT, "the client left"
    case web.HTTPRequestEntityTooLarge():
      return 413, f"the body is too large: {error.text}"
    case web.HTTPException():
      return error.status, _line(error.text)
    case work_queue.QueueFull():
      return 503, "too many requests are waiting; try again later"
    case work_queue.Closed():
      return 503, "the server is shutting down"
    case asyncio.TimeoutError():
      return 504, "the request took too long; send less or try again later"
  # The client may be anybody, so the response reveals nothing about the code.
  return 500, "the server failed; its log has the details"


def response(
  error: BaseException,
  request: web.BaseRequest,
  log: Any,
  form: Callable[[str, int], Any] = lambda sentence, _: sentence,
) -> web.Response:
  """Logs a refusal in one line, a fault with its traceback, and returns it.

  `form` maps the sentence and the status to the value of "error".
  """
  status, sentence = of(error)
  log.warning(
    "%s %.100a from %s: %d %.200a",
    request.method,
    request.path,
    request.remote,
    status,
    sentence,
    exc_info=error if status == 500 else None,
  )
  headers = {}
  if isinstance(error, web.HTTPException):
    for name in ("Allow", "WWW-Authenticate"):
      if name in error.headers:
        headers[name] = error.headers[name]
  return json_response({"error": form(sentence, status)}, status, headers)


async def read_body(request: web.BaseRequest) -> bytes:
  """Returns the body; raises Malformed, ClientLeft or web.HTTPException."""
  try:
    return await request.read()
  except web.HTTPException:
    raise
  # aiohttp has a dozen exceptions for the ways in which a body can be wrong.
  except Exception as error:
    if request.transport is None or isinstance(error, ConnectionError):
      raise ClientLeft from error
    raise Malformed(f"the body cannot be read: {_line(error)}") from error


def host_name(header: str) -> str:
  """Returns the name in a Host header, without the port, in lower case.

  Raises Malformed: it is neither a name nor an address, with or without a port.
  """
  match = re.fullmatch(
    r"(\[[\da-f:.]+\]|[\w.-]*)(?::(\d{0,5}))?", header, re.ASCII | re.IGNORECASE
  )
  if not match or int(match[2] or 0) > 65535:
    raise Malformed(f"the Host {header!a:.60} is malformed")
  return match[1].strip("[]").lower()


class Protocol(web.RequestHandler):
  """A connection, on which malformed HTTP too gets a refusal in JSON."""

  __slots__ = ()

  def handle_error(
    self,
    request: web.BaseRequest,
    status: int = 500,
    exc: BaseException | None = None,
    message: str | None = None,
  ) -> web.StreamResponse:
    """Returns the refusal of a request that no handler got."""
    error = exc or Malformed("the request is malformed")
    # aiohttp itself fails on some headers, such as an Expect that is not ASCII.
    if status < 500 or not request.get(HANDLED):
      error = Malformed(f"malformed HTTP: {_line(message or error)}")
    refused = response(error, request, self.logger)
    if request.writer.output_size > 0:
      raise ConnectionError("a part of another response is sent already")
    refused.force_close()
    return refused

  async def finish_response(
    self,
    request: web.BaseRequest,
    resp: web.StreamResponse,
    start_time: float | None,
  ) -> tuple[web.StreamResponse, bool]:
    """Sends a response; aiohttp refuses an unknown Expect in plain text."""
    if isinstance(resp, web.HTTPException):
      resp = response(resp, request, self.logger)
    return await super().finish_response(request, resp, start_time)


def _line(error: object) -> str:
  """Returns the text of aiohttp's error in one short line."""
  return " ".join(str(error).split())[:300]
