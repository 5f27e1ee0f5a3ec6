"""Serves a model to tests, in this process or with serve.py."""

import contextlib
import os
import subprocess
import sys

import aiohttp

import script_runner
import tokenization
from answering import answers, export_options
from common import run_settings
from web import application, connections, forms, server, work_queue

VOCABULARY = script_runner.ROOT / "tests/golden/pretraining_run/model/vocab.txt"


def model(answer, head="classification", texts=("text",), version=1, **values):
  """Returns an answers.Served whose answers are those of a function."""
  settings = run_settings.Settings(
    {**export_options.DEFAULTS, "head": head, **values}
  )
  tokenizer = tokenization.FullTokenizer(str(VOCABULARY))
  return Fake("", settings, texts, tokenizer, answer, 32, version)


class Fake(answers.Served):
  """A model without a network; `network` is the function of its answers."""

  __slots__ = ()

  def answerer(self, network=None):
    """Returns the function."""
    del network
    return self.network


def site(models, limits, *hosts, **options):
  """Returns the application.Site of {name: model}, with all forms.

  `options` are values of the forms' flags.
  """
  hosted = [application.host(n, each, limits) for n, each in models.items()]
  made = application.Site(hosted, limits, frozenset(hosts))
  forms.add_all(made, options)
  return made


@contextlib.asynccontextmanager
async def listening(served_site, most=1000, keepalive=75.0):
  """Yields the port of a site; `keepalive` seconds end an idle connection."""
  runner = server.runner_of(served_site, keepalive)
  await runner.setup()
  busy = served_site.application[application.BUSY]
  listener = await connections.listen(runner.server, busy, "127.0.0.1", 0, most)
  try:
    yield listener.sockets[0].getsockname()[1]
  finally:
    listener.close()
    await runner.cleanup()


@contextlib.asynccontextmanager
async def asking(models, limits=None, *hosts, **options):
  """Yields ask(path, body=None) -> (status, JSON); `ask.port` is the port.

  `models` is {name: model}, or one model, whose name is then m. A path without
  a slash at its beginning is below /v1/models.
  """
  models = models if isinstance(models, dict) else {"m": models}
  limits = limits or work_queue.Limits()
  async with (
    listening(site(models, limits, *hosts, **options)) as port,
    aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
  ):

    async def ask(path, body=None, **headers):
      method = "GET" if body is None else "POST"
      path = path if path[0] == "/" else f"/v1/models/{path}"
      if isinstance(body, (dict, list)):
        body = aiohttp.JsonPayload(body)
      async with session.request(
        method, path, data=body, headers=headers
      ) as response:
        assert response.content_type == "application/json"
        return response.status, await response.json()

    ask.port = port
    yield ask


def start_script(folder, flag="saved_model_dir", port=0, **options):
  """Starts serve.py with Popen's `options`; returns its process and URL."""
  process = subprocess.Popen(
    [
      sys.executable,
      str(script_runner.ROOT / "serve.py"),
      f"--port={port}",
      f"--{flag}={folder}",
    ],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
    **options,
  )
  return process, process.stdout.readline().strip()
