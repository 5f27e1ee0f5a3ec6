"""Tests the limit of connections: idle ones are closed, new ones refused."""

import asyncio
import logging
import resource

import aiohttp.web
import pytest

import served
from web import application, connections, work_queue


async def listen(handler, most):
  """Starts a server; returns its runner, its listener and its port."""
  site = served.site({}, work_queue.Limits())
  site.get("/work", handler, "Works.")
  runner = aiohttp.web.AppRunner(site.application)
  await runner.setup()
  listener = await connections.listen(
    runner.server, site.application[application.BUSY], "127.0.0.1", 0, most
  )
  return runner, listener, listener.sockets[0].getsockname()[1]


async def ask(port):
  """Returns the status line of an answer, and the open connection."""
  reader, writer = await asyncio.open_connection("127.0.0.1", port)
  writer.write(b"GET /work HTTP/1.1\r\nHost: x\r\n\r\n")
  return await reader.readline(), writer


def test_the_oldest_idle_connection_makes_room_and_busy_ones_do_not(caplog):
  async def main():
    may_end = asyncio.Event()

    async def slow(request):
      await may_end.wait()
      return aiohttp.web.Response(text="here")

    runner, listener, port = await listen(slow, most=2)
    # One client sends nothing, the other sends half of its headers.
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
  assert caplog.text.count("too many connections are open") == 1


def test_a_client_that_does_not_read_its_answer_makes_room():
  async def main():
    async def long(request):
      return aiohttp.web.Response(body=bytes(1 << 24))

    runner, listener, port = await listen(long, most=1)
    line, writer = await ask(port)
    assert line == b"HTTP/1.1 200 OK\r\n"
    (first,) = runner.server.connections
    line, second_writer = await ask(port)
    assert line == b"HTTP/1.1 200 OK\r\n"
    assert first not in runner.server.connections
    listener.close()
    for connection in (writer, second_writer):
      connection.transport.abort()
    await runner.cleanup()

  asyncio.run(main())


@pytest.mark.parametrize(
  "limit, most",
  [(1024, 512), (7, 3), (1, 1), (resource.RLIM_INFINITY, 1 << 20)],
)
def test_the_limit_leaves_descriptors_for_refusals(monkeypatch, limit, most):
  monkeypatch.setattr(
    resource, "getrlimit", {resource.RLIMIT_NOFILE: (limit, 9)}.get
  )
  assert connections.most_by_default() == most
