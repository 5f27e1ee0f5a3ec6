"""The limit of connections: room is made or they are refused, logged once."""

import asyncio
import errno
import logging
import resource

import aiohttp.web

from serving import connections


async def ask(port):
  """Returns the status line of an answer, and the open connection."""
  reader, writer = await asyncio.open_connection("127.0.0.1", port)
  writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
  return await reader.readline(), writer


def test_the_oldest_idle_connection_makes_room_and_busy_ones_do_not(caplog):
  async def main():
    may_end = asyncio.Event()

    async def slow(request):
      await may_end.wait()
      return aiohttp.web.Response(text="here")

    runner = aiohttp.web.ServerRunner(aiohttp.web.Server(slow))
    await runner.setup()
    listener = await connections.listen(runner.server, "127.0.0.1", 0, most=2)
    port = listener.sockets[0].getsockname()[1]
    # Says nothing, or half of its headers.
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in "ab"]
    silent[1][1].write(b"GET / HTTP/1.1\r\n")
    busy = [asyncio.create_task(ask(port)) for _ in "ab"]
    for reader, _ in silent:
      assert await reader.read() == b""
    for _ in range(3):
      line, writer = await ask(port)
      assert line == b"HTTP/1.1 503 Service Unavailable\r\n"
      writer.close()
    may_end.set()
    answers = await asyncio.gather(*busy)
    assert [line for line, _ in answers] == [b"HTTP/1.1 200 OK\r\n"] * 2
    line, writer = await ask(port)
    assert line == b"HTTP/1.1 200 OK\r\n"
    listener.close()
    await runner.cleanup()
    for _, writer in (*silent, *answers):
      writer.close()

  with caplog.at_level(logging.WARNING):
    asyncio.run(main())
  assert caplog.text.count("2 connections are open: refusing more") == 1


def test_who_does_not_read_the_answer_makes_room_too():
  async def main():
    async def long(request):
      return aiohttp.web.Response(body=bytes(1 << 24))

    runner = aiohttp.web.ServerRunner(aiohttp.web.Server(long))
    await runner.setup()
    listener = await connections.listen(runner.server, "127.0.0.1", 0, most=1)
    port = listener.sockets[0].getsockname()[1]
    reader, writer = await ask(port)
    assert reader == b"HTTP/1.1 200 OK\r\n"
    (first,) = runner.server.connections
    line, other = await ask(port)
    assert line == b"HTTP/1.1 200 OK\r\n"
    assert first not in runner.server.connections
    listener.close()
    for connection in (writer, other):
      connection.transport.abort()
    await runner.cleanup()

  asyncio.run(main())


def test_the_limit_leaves_descriptors_for_refusals():
  most, backlog = connections.limits()
  assert most >= 1 and 1 <= backlog <= 64
  assert most + 2 * backlog < resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_no_descriptors_are_one_line_and_other_errors_are_told(caplog):
  async def main():
    server = aiohttp.web.Server(None)
    listener = await connections.listen(server, "127.0.0.1", 0)
    for error in (full, full, KeyError("x")):
      asyncio.get_running_loop().call_exception_handler(
        {"message": "Told", "exception": error}
      )
    listener.close()

  full = OSError(errno.EMFILE, "Too many open files")
  asyncio.run(main())
  assert caplog.text.count("Too many open files") == 1
  assert caplog.text.count("Told") == 1 and "KeyError" in caplog.text
