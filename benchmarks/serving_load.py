r"""Requests a second and latencies of serve.py, with and without batching.

  python benchmarks/serving_load.py --saved_model_dir=models/sentiment

Starts the server on this machine, twice, and asks it for predictions of one
text each over 1, 4, 16 ... connections at once, each sending its next request
when it has the answer to the last. Only 127.0.0.1 is asked, for at most
--seconds or --requests a line, two minutes in all.
"""

import asyncio
import os
import pathlib
import subprocess
import sys
import time

import aiohttp
import numpy as np
from absl import app, flags

ROOT = pathlib.Path(__file__).parents[1]
FLAGS = flags.FLAGS

flags.DEFINE_string("saved_model_dir", None, "As for serve.py.", required=True)
flags.DEFINE_list("clients", ["1", "4", "16", "64"], "Connections at once.")
flags.DEFINE_float("seconds", 10.0, "Longest time for a line.")
flags.DEFINE_integer("requests", 5000, "Most requests for a line.")
flags.DEFINE_string(
  "input_file", str(ROOT / "sample_text.txt"), "Texts to send, one a line."
)


def start_server(batching):
  """Returns the process of a server and its URL."""
  process = subprocess.Popen(
    [
      sys.executable, str(ROOT / "serve.py"), "--port=0",
      f"--saved_model_dir={FLAGS.saved_model_dir}",
      f"--batch_requests={batching}",
    ],
    stdout=subprocess.PIPE,
    stderr=subprocess.DEVNULL,
    env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
    text=True,
  )
  url = process.stdout.readline().strip()
  if not url:
    sys.exit("serve.py did not start; run it by hand to see why")
  return process, url


async def input_names(session, url):
  """Returns the names of the inputs of the model's first signature."""
  async with session.get(f"{url}/metadata") as response:
    metadata = await response.json()
  signatures = metadata["metadata"]["signature_def"]["signature_def"]
  return list(signatures["serving_default"]["inputs"])


async def measure(url, texts, clients):
  """Returns latencies [n] in ms of answers, and the seconds they took."""
  latencies = []
  # As many connections as clients: none waits for a free one.
  connector = aiohttp.TCPConnector(limit=clients)
  async with aiohttp.ClientSession(connector=connector) as session:
    names = await input_names(session, url)

    async def ask(text):
      instance = dict.fromkeys(names, text)
      start = time.perf_counter()
      async with session.post(
        f"{url}:predict", json={"instances": [instance]}
      ) as response:
        assert response.status == 200, await response.text()
        await response.read()
      return 1e3 * (time.perf_counter() - start)

    async def client(number):
      while time.perf_counter() < until and len(latencies) < FLAGS.requests:
        latencies.append(await ask(texts[number % len(texts)]))
        # So that no two clients send the same text.
        number += clients

    # The first requests find new shapes, and are not counted.
    await asyncio.gather(*(ask(texts[i % len(texts)]) for i in range(clients)))
    begin = time.perf_counter()
    until = begin + FLAGS.seconds
    await asyncio.gather(*(client(number) for number in range(clients)))
    return np.array(latencies), time.perf_counter() - begin


def main(argv):
  del argv
  lines = pathlib.Path(FLAGS.input_file).read_text(encoding="utf-8").split("\n")
  texts = [line for line in lines if line.strip()]
  print("| batching | clients | requests/s | p50 ms | p90 ms | p99 ms |")
  print("|---|---|---|---|---|---|")
  for batching in (False, True):
    process, url = start_server(batching)
    try:
      for clients in map(int, FLAGS.clients):
        latencies, seconds = asyncio.run(measure(url, texts, clients))
        shown = np.percentile(latencies, [50, 90, 99])
        print(
          f"| {'yes' if batching else 'no'} | {clients} "
          f"| {len(latencies) / seconds:.0f} | "
          + " | ".join(f"{value:.1f}" for value in shown) + " |",
          flush=True,
        )
    finally:
      process.terminate()
      process.wait()


if __name__ == "__main__":
  app.run(main)
