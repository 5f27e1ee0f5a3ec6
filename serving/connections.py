"""Limits a server's connections.

Each needs a file descriptor, and a process without free ones cannot even refuse
a connection. So at half of the system's limit the oldest connections without a
request in progress are closed; if all are busy, a new one gets the answer 503.
"""

import asyncio
import contextlib

from absl import logging

_SENTENCE = b'{"error": "too many connections are open; try again later"}'
_REFUSAL = (
  b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
  b"Content-Length: %d\r\nConnection: close\r\n\r\n%s"
) % (len(_SENTENCE), _SENTENCE)


class _Refusal(asyncio.Protocol):
  def connection_made(self, transport):
    logging.log_every_n_seconds(
      logging.WARNING, "too many connections are open: refusing more", 30
    )
    transport.write(_REFUSAL)
    transport.close()


def most_by_default() -> int:
  """Returns half of `ulimit -n`; the model's files need some of the rest."""
  with contextlib.suppress(ImportError):  # Windows has no such limit.
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY:
      return max(1, limit // 2)
  return 1 << 20  # Memory is exhausted before.


async def listen(server, busy: set, host, port, most: int) -> asyncio.Server:
  """Starts to accept connections, at most `most` at once.

  `server` is an aiohttp.web.Server, and `busy` the protocols of those of its
  connections that have a request in progress.
  """

  def accept():
    # Connections that are being closed have no transport; the oldest is first.
    opened = [c for c in server.connections if c.transport is not None]
    idle = [c for c in opened if c not in busy]
    too_many = len(opened) + 1 - most
    for connection in idle[: max(0, too_many)]:
      transport = connection.transport
      connection.force_close()
      # Else it would wait for a client that does not read its answer.
      if transport.get_write_buffer_size():
        transport.abort()
    return server() if len(idle) >= too_many else _Refusal()

  # As many as the backlog may be accepted before one of them is counted.
  return await asyncio.get_running_loop().create_server(
    accept, host, port, backlog=max(1, min(64, most // 4))
  )
