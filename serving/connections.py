"""Limits a server's connections and refuses the others.

Each connection needs a file descriptor. A process without free descriptors
cannot even refuse a connection, so the limit is below the system's. At the
limit, the oldest connection without a request in progress is closed; if all are
busy, a new connection gets the answer 503 and is closed.
"""

import asyncio
import contextlib
import errno
import os
import time

from absl import logging

# The most connections that are accepted at once. They, and as many that are
# being closed, need descriptors beyond the limit.
_BACKLOG = 64
# The number of descriptors that files, pipes and threads may still need.
_SPARE = 32
_UNLIMITED = 1 << 20  # Memory is exhausted before.
_LOG_INTERVAL = 30.0  # Seconds.
_SENTENCE = b'{"error": "too many connections are open; try again later"}'
_REFUSAL = (
  b"HTTP/1.1 503 Service Unavailable\r\n"
  b"Content-Type: application/json\r\n"
  b"Content-Length: %d\r\n"
  b"Connection: close\r\n\r\n%s" % (len(_SENTENCE), _SENTENCE)
)


class LimitedLog:
  """Logs at most `most` warnings in half a minute and counts the rest."""

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

  # aiohttp calls this for requests that are not HTTP.

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
    # The model's files, the threads and the log already use descriptors.
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
    most: how many may be open at once; None means as many as the limit of
      file descriptors (`ulimit -n`) allows.
  """
  loop, log = asyncio.get_running_loop(), LimitedLog(1)
  allowed, backlog = limits()
  _limit(server, most or allowed, log)

  def failed(loop, context):
    error = context.get("exception")
    # Without descriptors asyncio retries after a second; no traceback needed.
    if getattr(error, "errno", 0) in (errno.EMFILE, errno.ENFILE):
      log.warning("cannot accept connections for now: %s", error.strerror)
    else:
      loop.default_exception_handler(context)

  loop.set_exception_handler(failed)
  return await loop.create_server(server, host, port, backlog=backlog)


def _limit(server, most, log):
  """Makes a server refuse connections beyond the limit and log that."""
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
  # Connections that are being closed have no transport.
  opened = [c for c in server.connections if c.transport is not None]
  if len(opened) < most:
    return True
  # server.connections has the oldest first.
  idle = next((c for c in opened if c not in busy), None)
  if idle is None:
    return False
  transport = idle.transport
  idle.force_close()
  # Otherwise it would wait for a client that does not read its answer.
  if transport.get_write_buffer_size():
    transport.abort()
  return True
