"""Serves a model to tests, in this process or with serve.py."""

import contextlib
import os
import subprocess
import sys

import aiohttp

import script_runner
from web import batching, server


def application(model, limits, *hosts):
  """Returns the aiohttp application that serves `model` under the name m."""
  batcher = batching.Batcher(model.answer, limits)
  return server.make_application(model, "m", batcher, limits, frozenset(hosts))


@contextlib.asynccontextmanager
async def asking(model, limits, *hosts):
  """Yields ask(path, body=None) -> (status, JSON); `ask.port` is the port."""
  runner = aiohttp.web.AppRunner(
    application(model, limits, *hosts), auto_decompress=False
  )
  await runner.setup()
  await aiohttp.web.TCPSite(runner, "127.0.0.1", 0).start()
  port = runner.addresses[0][1]
  async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:

    async def ask(path, body=None):
      method = "GET" if body is None else "POST"
      path = f"/v1/models/{path}"
      async with session.request(method, path, data=body) as response:
        assert response.content_type == "application/json"
        return response.status, await response.json()

    ask.port = port
    try:
      yield ask
    finally:
      await runner.cleanup()


def start_script(folder, flag="saved_model_dir", **options):
  """Starts serve.py with Popen's `options`; returns its process and URL."""
  process = subprocess.Popen(
    [
      sys.executable,
      str(script_runner.ROOT / "serve.py"),
      "--port=0",
      f"--{flag}={folder}",
    ],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
    **options,
  )
  return process, process.stdout.readline().strip()
