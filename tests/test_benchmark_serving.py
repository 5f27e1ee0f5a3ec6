"""Tests benchmarks/serving_load.py with a server of its own."""

import argparse
import asyncio
import sys

import pytest
from aiohttp import web

import serving_load
from common import errors


@pytest.mark.parametrize("clients", [1, 3])
def test_all_requests_after_the_first_are_timed(clients):
  texts = []

  async def embed(request):
    texts.extend((await request.json())["inputs"])
    return web.json_response([[1.0]])

  async def run():
    app = web.Application()
    app.router.add_post("/embed", embed)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    address, port = site._server.sockets[0].getsockname()
    arguments = argparse.Namespace(seconds=60, requests=12)
    try:
      return await serving_load.measure(
        f"http://{address}:{port}", "a text", clients, arguments
      )
    finally:
      await runner.cleanup()

  latencies, seconds = asyncio.run(run())
  # Clients that ask when the last request is sent still end theirs.
  assert 12 <= len(latencies) < 12 + clients
  assert len(texts) == 5 * clients + len(latencies)
  timed = texts[5 * clients :]
  assert len(set(timed)) == len(timed)
  assert 0 < max(latencies) <= 1e3 * seconds


def test_a_server_that_does_not_start_is_an_error():
  with pytest.raises(errors.InputError, match="did not start"):
    with serving_load.running([sys.executable, "-c", ""]):
      pass


def test_a_server_prints_its_address_and_is_stopped(tmp_path):
  script = tmp_path / "server.py"
  script.write_text(
    "import signal, sys, time\n"
    f"signal.signal(signal.SIGTERM, lambda *_: (open({str(tmp_path)!r} + "
    "'/ended', 'w').close(), sys.exit()))\n"
    "print('http://127.0.0.1:1/v1/models/m', flush=True)\n"
    "time.sleep(60)\n"
  )
  with serving_load.running([sys.executable, script]) as url:
    assert url == "http://127.0.0.1:1"
  assert (tmp_path / "ended").exists()
