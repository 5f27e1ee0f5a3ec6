"""Listens for requests until a signal, and ends within 25 seconds."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import Sequence
from typing import Any

from absl import logging

from common import errors
from web import application, connections

with errors.needs_extra("serve"):
  from aiohttp import web

# Seconds from a signal until a busy process is ended; `run` promises 25.
_SECONDS_TO_END = 22.0
# Maximum seconds aiohttp waits for answers, and again for clients to read them.
_SECONDS_TO_FINISH = 8.0


def run(
  site: application.Site, address: str, port: int, timeout: float
) -> None:
  """Serves until SIGTERM or SIGINT, then answers the requests in progress.

  It prints the URL of each model. The process ends within 25 seconds, even if
  clients are slow. Raises InputError: the server cannot listen at the address.

  Args:
    address, port: where to listen; port 0 means any free port.
    timeout: seconds for which a connection may be open without a complete
      request, before the first request and between two requests.
  """
  asyncio.run(_serve(site, address, port, timeout))


async def _serve(
  site: application.Site, address: str, port: int, timeout: float
) -> None:
  busy, runner = site.application[application.BUSY], runner_of(site, timeout)
  stop, loop = asyncio.Event(), asyncio.get_running_loop()
  for number in (signal.SIGTERM, signal.SIGINT):
    # Windows lacks loop.add_signal_handler.
    signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
  await runner.setup()
  listener = None
  # Only the end of the process can stop a batch that a thread computes.
  end = threading.Timer(_SECONDS_TO_END, _end_now)
  end.daemon = True
  try:
    listener = await _listen(runner.server, busy, address, port)
    address, port = listener.sockets[0].getsockname()[:2]
    for name in site.hosted:
      print(model_url(address, port, name), flush=True)
    await stop.wait()
    end.start()
  finally:
    if listener:
      # This refuses only new connections; open ones finish below.
      listener.close()
    # Wait for the requests in progress, then close the queues.
    await runner.cleanup()
    end.cancel()


def runner_of(site: application.Site, timeout: float) -> web.AppRunner:
  """Returns what handles the connections of a site; for `timeout` see `run`."""
  return web.AppRunner(
    site.application,
    handle_signals=False,
    access_log=None,
    logger=site.application[application.LOG],
    keepalive_timeout=timeout,
    shutdown_timeout=_SECONDS_TO_FINISH,
    # aiohttp would fail on a body that does not match its Content-Encoding.
    auto_decompress=False,
  )


async def _listen(
  server: Any, busy: set, address: str, port: int
) -> asyncio.Server:
  most = connections.most_by_default()
  try:
    return await connections.listen(server, busy, address, port, most)
  except OSError as error:
    raise errors.InputError(
      f"cannot listen on {address}:{port} ({error.strerror}); give another "
      "--host or --port"
    ) from error


def model_url(address: str, port: int, name: str) -> str:
  """Returns the URL of a model; an IPv6 address needs brackets."""
  address = f"[{address}]" if ":" in address else address
  return f"http://{address}:{port}/v1/models/{name}"


def example_request(
  names: Sequence[str], address: str, port: int, name: str
) -> str:
  """Returns a curl command that requests a prediction."""
  text = "some text"
  instance = text if len(names) == 1 else dict.fromkeys(names, text)
  body = json.dumps({"instances": [instance]})
  return f"curl -d '{body}' {model_url(address, port, name)}:predict"


def _end_now() -> None:
  logging.warning("the server stopped before the last batch was computed")
  os._exit(1)
