"""How many connections a server takes, and what becomes of the others.

Each connection needs a file descriptor. A process that has none left cannot
even refuse a connection: so the limit is below that of the system. At the
limit the oldest connection without a request in progress makes room; where all
are busy, a new one is answered 503 and closed.
"""

import asyncio
import contextlib
import errno
import os
import time

from absl import logging

# The most connections that are accepted at once; all of them, and as many that
# are being closed, must have descriptors beyond the limit.
_BACKLOG = 64
# Descriptors that files, pipes and threads may still need.
_SPARE = 32
_UNLIMITED = 1 << 20  # Memory ends before.
_LOG_INTERVAL = 30.0  # Seconds.
_SENTENCE = b'{"error": "too many connections are open; try again later"}'
_REFUSAL = (
  b"HTTP/1.1 503 Service Unavailable\r\n"
  b"Content-Type: application/json\r\n"
  b"Content-Length: %d\r\n"
  b"Connection: close\r\n\r\n%s" % (len(_SENTENCE), _SENTENCE)
)


class LimitedLog:
  """Warnings, at most `most` of them in half a minute; the rest is counted."""

  def __init__(self, most: int):
    self._most, self._count = most, 0
    self._began = -_LOG_INTERVAL

  def warning(self, line: str, *values) -> None:
    now = time.monotonic()
    if now - self._began > _LOG_INTERVAL:
      if self._count > self._most:
        logging.warning("%d more warnings left out", self._count - self._most)
      self._began, self._count = now, 0
    self._count += 1
    if self._count <= self._most:
      logging.warning(line, *values)

  # What aiohttp calls its logger for: requests that are not HTTP.

  def exception(self, line: str, *values, exc_info=None) -> None:
    self.warning(f"{line}: %.200a", *values, str(exc_info))

  def debug(self, *_, **__) -> None:
    pass


def limits() -> tuple[int, int]:
  """Returns (most connections, backlog) for this process as it is now."""
  allowed, opened = _UNLIMITED, 64
  with contextlib.suppress(ImportError):  # Windows has no such limit.
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = allowed if limit == resource.RLIM_INFINITY else limit
  with contextlib.suppress(OSError):  # Only Linux has this folder.
    # The model's files, the threads and the log have descriptors already.
    opened = len(os.listdir("/proc/self/fd"))
  free = max(0, allowed - opened - _SPARE)
  backlog = max(1, min(_BACKLOG, free // 4))
  return max(1, free - 2 * backlog), backlog


async def listen(
  server, host: str, port: int, *, most: int | None = None
) -> asyncio.Server:
  """Starts to accept connections.

  Args:
    server: aiohttp.web.Server.
    host, port: where to listen.
    most: how many may be open at once; None: as many as the limit of file
      descriptors (`ulimit -n`) allows.
  """
  loop, log = asyncio.get_running_loop(), LimitedLog(1)
  allowed, backlog = limits()
  _limit(server, most or allowed, log)

  def failed(loop, context):
    error = context.get("exception")
    # No traceback for no descriptors: asyncio accepts again after a second.
    if getattr(error, "errno", 0) in (errno.EMFILE, errno.ENFILE):
      log.warning("cannot accept connections for now: %s", error.strerror)
    else:
      loop.default_exception_handler(context)

  loop.set_exception_handler(failed)
  return await loop.create_server(server, host, port, backlog=backlog)


def _limit(server, most, log):
  """Lets a server refuse connections; `log` says so."""
  busy: set = set()
  handle, take = server.request_handler, server.connection_made

  async def noted(request):
    # A connection is not idle while its request is in progress.
    busy.add(request.protocol)
    try:
      return await handle(request)
    finally:
      busy.discard(request.protocol)

  def connection_made(handler, transport):
    if len(server.connections) < most or _made_room(server, most, busy):
      take(handler, transport)
      return
    log.warning("%d connections are open: refusing more with 503", most)
    transport.write(_REFUSAL)
    transport.close()

  server.request_handler, server.connection_made = noted, connection_made


def _made_room(server, most, busy):
  # Those that are being closed have no transport any more.
  opened = [c for c in server.connections if c.transport is not None]
  if len(opened) < most:
    return True
  # In the order in which they came.
  idle = next((c for c in opened if c not in busy), None)
  if idle is None:
    return False
  transport = idle.transport
  idle.force_close()
  # It would wait for a client that does not read its answer.
  if transport.get_write_buffer_size():
    transport.abort()
  return True
