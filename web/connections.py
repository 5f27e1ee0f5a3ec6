"""Limits the number of a server's open connections.

A process without free file descriptors cannot even refuse a connection. So when
connections use half of the descriptors, the server closes the oldest idle
connection for each new one. If none is idle, the new one gets status 503.
"""

import asyncio
import contextlib
from typing import Any, cast

from absl import logging

from web import refusals

_SENTENCE = b'{"error": "too many connections are open; try again later"}'
_REFUSAL = (
  b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
  b"Content-Length: %d\r\nConnection: close\r\n\r\n%s"
) % (len(_SENTENCE), _SENTENCE)


class _Refusal(asyncio.Protocol):
  def connection_made(self, transport: asyncio.BaseTransport) -> None:
    transport = cast(asyncio.Transport, transport)
    logging.log_every_n_seconds(
      logging.WARNING, "too many connections are open: refusing more", 30
    )
    transport.write(_REFUSAL)
    transport.close()


def most_by_default() -> int:
  """Returns half of `ulimit -n`; the model's files need descriptors too."""
  with contextlib.suppress(ImportError):  # Windows has no such limit.
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY:
      return max(1, limit // 2)
  return 1 << 20  # In effect, no limit.


async def listen(
  server: Any, busy: set, host: str, port: int, most: int
) -> asyncio.Server:
  """Starts to accept connections, at most `most` at the same time.

  `server` is an aiohttp.web.Server. `busy` contains the protocol of each
  connection with a request in progress.
  """

  def accept() -> asyncio.Protocol:
    # A closing connection has no transport. The oldest connection comes first.
    opened = [c for c in server.connections if c.transport is not None]
    idle = [c for c in opened if c not in busy]
    too_many = len(opened) + 1 - most
    for connection in idle[: max(0, too_many)]:
      transport = connection.transport
      connection.force_close()
      # Without `abort`, it would stay open until the client reads the response.
      if transport.get_write_buffer_size():
        transport.abort()
    if len(idle) < too_many:
      return _Refusal()
    connection = server()
    # aiohttp has no other way to change how malformed HTTP is refused.
    connection.__class__ = refusals.Protocol
    return connection

  # asyncio may accept the whole backlog before `server` counts a connection.
  return await asyncio.get_running_loop().create_server(
    accept, host, port, backlog=max(1, min(64, most // 4))
  )
