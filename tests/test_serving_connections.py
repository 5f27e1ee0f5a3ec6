"""The limit of connections: refused, logged once, open again."""

import asyncio
import errno
import logging
import resource

import aiohttp.web

from serving import connections


async def answer(request):
  del request
  return aiohttp.web.Response(text="here")


async def ask(port):
  """Returns the status line of an answer, and the open connection."""
  reader, writer = await asyncio.open_connection("127.0.0.1", port)
  writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
  return await reader.readline(), writer


def test_connections_above_the_limit_are_refused_until_one_is_closed(caplog):
  async def main():
    runner = aiohttp.web.ServerRunner(aiohttp.web.Server(answer))
    await runner.setup()
    listener = await connections.listen(runner.server, "127.0.0.1", 0, most=2)
    port = listener.sockets[0].getsockname()[1]
    served = [await ask(port) for _ in range(2)]
    assert [line for line, _ in served] == [b"HTTP/1.1 200 OK\r\n"] * 2
    for _ in range(3):
      line, writer = await ask(port)
      assert line == b"HTTP/1.1 503 Service Unavailable\r\n"
      writer.close()
    served[0][1].close()
    while len(runner.server.connections) > 1:
      await asyncio.sleep(0.01)
    line, writer = await ask(port)
    assert line == b"HTTP/1.1 200 OK\r\n"
    writer.close()
    listener.close()
    await runner.cleanup()

  with caplog.at_level(logging.WARNING):
    asyncio.run(main())
  assert caplog.text.count("2 connections are open: refusing more") == 1


def test_the_limit_leaves_descriptors_for_refusals():
  most, backlog = connections.limits()
  assert most >= 1 and 1 <= backlog <= 64
  assert most + 2 * backlog < resource.getrlimit(
    resource.RLIMIT_NOFILE
  )[0]


def test_no_descriptors_are_one_line_and_other_errors_are_told(caplog):
  told = []

  class Loop:
    default_exception_handler = told.append

  gate = connections.Gate(None, 1)
  full = {"exception": OSError(errno.EMFILE, "Too many open files")}
  gate.loop_failed(Loop, full)
  gate.loop_failed(Loop, full)
  assert not told and caplog.text.count("Too many open files") == 1
  gate.loop_failed(Loop, {"exception": KeyError("x")})
  assert told == [{"exception": told[0]["exception"]}]
