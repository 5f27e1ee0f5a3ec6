"""How many connections a server takes, and what becomes of the others.

Each connection needs a file descriptor. A process that has none left cannot
even refuse a connection: so the limit is below that of the system, and the
connections above it are answered 503 and closed.
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
_SECONDS_BETWEEN_LINES = 30.0
_SENTENCE = b'{"error": "too many connections are open; try again later"}'
_REFUSAL = (
  b"HTTP/1.1 503 Service Unavailable\r\n"
  b"Content-Type: application/json\r\n"
  b"Content-Length: %d\r\n"
  b"Connection: close\r\n\r\n%s" % (len(_SENTENCE), _SENTENCE)
)


def limits():
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

  def __init__(self, server, most):
    """Takes note of the limit.

    Args:
      server: aiohttp.web.Server.
      most: connections that may be open at once.
    """
    self._server = server
    self._most = most
    self._line_logged = None

  def __call__(self):
    return _Entrance(self)

  def handler(self):
    """Returns the protocol that serves a connection; None to refuse it."""
    if len(self._server.connections) < self._most:
      return self._server()
    self.log(f"{self._most} connections are open: refusing more with 503")
    return None

  def log(self, line):
    """Logs a line, but none of them twice within half a minute."""
    now = time.monotonic()
    if (
      self._line_logged is None
      or now - self._line_logged > _SECONDS_BETWEEN_LINES
    ):
      self._line_logged = now
      logging.warning("%s", line)

  def loop_failed(self, loop, context):
    """Exception handler of the event loop: no traceback for no descriptors."""
    error = context.get("exception")
    if isinstance(error, OSError) and error.errno in (
      errno.EMFILE, errno.ENFILE
    ):
      # asyncio accepts again after a second.
      self.log(f"cannot accept connections for now: {error.strerror}")
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


async def listen(server, host, port, *, most=None):
  """Starts to accept connections; returns an asyncio.Server.

  Args:
    server: aiohttp.web.Server.
    host, port: where to listen.
    most: connections that may be open at once; None: as many as the limit of
      file descriptors (`ulimit -n`) allows.
  """
  loop = asyncio.get_running_loop()
  allowed, backlog = limits()
  gate = Gate(server, most or allowed)
  loop.set_exception_handler(gate.loop_failed)
  return await loop.create_server(gate, host, port, backlog=backlog)
