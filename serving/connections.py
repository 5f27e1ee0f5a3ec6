"""How many connections a server takes, and what becomes of the others.

Each connection needs a file descriptor. A process that has none left cannot
even refuse a connection: so the limit is below that of the system. At the
limit the oldest connection without a request in progress makes room; where all
are busy, a new one is answered 503 and closed.
"""

import asyncio
import errno
import os
import resource
import time

from absl import logging

# The most connections that are accepted at once; all of them, and as many that
# are being closed, must have descriptors beyond the limit.
_BACKLOG = 64
# Descriptors that files, pipes and threads may still need.
_SPARE = 32
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
  allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
  if allowed == resource.RLIM_INFINITY:
    # A number to compute with; memory ends before.
    allowed = 1 << 20
  # Those of the model's files, of threads and of the log are open already.
  free = max(0, allowed - _open_descriptors() - _SPARE)
  backlog = max(1, min(_BACKLOG, free // 4))
  return max(1, free - 2 * backlog), backlog


def _open_descriptors():
  try:
    return len(os.listdir("/proc/self/fd"))
  except OSError:  # Another system than Linux.
    return 64


class Gate:
  """Makes the protocol of each new connection; to be given to `listen`."""

  def __init__(self, server, most: int):
    """Takes an aiohttp.web.Server and how many connections may be open."""
    self._server = server
    self._most = most
    self._busy = set()
    self._log = LimitedLog(1)
    self._handle = server.request_handler
    server.request_handler = self._noted

  async def _noted(self, request):
    """Handles a request; its connection is not idle for so long."""
    self._busy.add(request.protocol)
    try:
      return await self._handle(request)
    finally:
      self._busy.discard(request.protocol)

  def __call__(self):
    return _Entrance(self)

  def handler(self):
    """Returns the protocol that serves a connection; None to refuse it."""
    if len(self._server.connections) >= self._most and not self._made_room():
      self._log.warning(
        "%d connections are open: refusing more with 503", self._most
      )
      return None
    return self._server()

  def _made_room(self):
    # Those that are being closed have no transport any more.
    opened = [c for c in self._server.connections if c.transport is not None]
    idle = [c for c in opened if c not in self._busy]
    # In the order in which they came.
    if len(opened) >= self._most and idle:
      transport = idle[0].transport
      idle[0].force_close()
      # It would wait for a client that does not read its answer.
      if transport.get_write_buffer_size():
        transport.abort()
    return len(opened) < self._most or bool(idle)

  def loop_failed(self, loop, context):
    """Exception handler of the event loop: no traceback for no descriptors."""
    error = context.get("exception")
    if isinstance(error, OSError) and error.errno in (
      errno.EMFILE, errno.ENFILE
    ):
      # asyncio accepts again after a second.
      self._log.warning("cannot accept connections for now: %s", error.strerror)
    else:
      loop.default_exception_handler(context)


class _Entrance(asyncio.Protocol):
  """Hands a connection to a handler, or refuses it."""

  # Not when the protocol is made: many are, before the first of them counts.

  def __init__(self, gate):
    self._gate = gate

  def connection_made(self, transport):
    handler = self._gate.handler()
    if handler is None:
      transport.write(_REFUSAL)
      transport.close()
      return
    # From here on all events go to the handler; this one must be passed on.
    transport.set_protocol(handler)
    handler.connection_made(transport)


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
  loop = asyncio.get_running_loop()
  allowed, backlog = limits()
  gate = Gate(server, most or allowed)
  loop.set_exception_handler(gate.loop_failed)
  return await loop.create_server(gate, host, port, backlog=backlog)
