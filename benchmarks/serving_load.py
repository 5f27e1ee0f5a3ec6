r"""Measures requests/s and latencies of serve.py, with and without batching.

  python benchmarks/serving_load.py --saved_model_dir=models/sentiment

It starts the server twice on this machine, and sends requests with one text
each over 1, 4, 16 ... parallel connections. A connection sends its next request
after the response to the previous request. --seconds and --requests limit the
measurement for a line of the table. The whole table takes about two minutes.
"""

import argparse
import asyncio
import os
import pathlib
import subprocess
import sys
import time

import aiohttp
import numpy as np

ROOT = pathlib.Path(__file__).parents[1]


async def measure(url, texts, clients, arguments):
  """Returns latencies [n] of requests in ms, and the total seconds."""
  latencies = []
  # With as many connections as clients, no client waits for a connection.
  connector = aiohttp.TCPConnector(limit=clients)
  async with aiohttp.ClientSession(connector=connector) as session:
    async with session.get(f"{url}/metadata") as response:
      metadata = (await response.json())["metadata"]["signature_def"]
    names = metadata["signature_def"]["serving_default"]["inputs"]

    async def ask(number):
      instance = dict.fromkeys(names, texts[number % len(texts)])
      start = time.perf_counter()
      async with session.post(
        f"{url}:predict", json={"instances": [instance]}
      ) as response:
        assert response.status == 200, await response.text()
        await response.read()
      return 1e3 * (time.perf_counter() - start)

    async def client(number):
      while (
        time.perf_counter() < begin + arguments.seconds
        and len(latencies) < arguments.requests
      ):
        latencies.append(await ask(number))
        # Skip the texts that the other clients send.
        number += clients

    # Do not count the first requests, whose shapes are new to the server.
    await asyncio.gather(*map(ask, range(clients)))
    begin = time.perf_counter()
    await asyncio.gather(*map(client, range(clients)))
    return np.array(latencies), time.perf_counter() - begin


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  add = parser.add_argument
  add("--saved_model_dir", required=True, help="as for serve.py")
  add("--clients", default="1,4,16,64", help="numbers of parallel connections")
  add("--seconds", type=float, default=10, help="time limit per line")
  add("--requests", type=int, default=5000, help="request limit per line")
  add(
    "--input_file",
    type=pathlib.Path,
    default=ROOT / "sample_text.txt",
    help="texts to send, one per line",
  )
  arguments = parser.parse_args()
  lines = arguments.input_file.read_text(encoding="utf-8").split("\n")
  texts = [line for line in lines if line.strip()]
  print("| batching | clients | requests/s | p50 ms | p90 ms | p99 ms |")
  print("|---|---|---|---|---|---|")
  for batching in (False, True):
    command = [
      sys.executable,
      ROOT / "serve.py",
      "--port=0",
      f"--saved_model_dir={arguments.saved_model_dir}",
      *([] if batching else ["--max_batch_size=1"]),
    ]
    process = subprocess.Popen(
      command,
      stdout=subprocess.PIPE,
      stderr=subprocess.DEVNULL,
      text=True,
      env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
    )
    try:
      url = process.stdout.readline().strip()
      if not url:
        sys.exit("serve.py did not start; run it by hand to see why")
      for clients in map(int, arguments.clients.split(",")):
        latencies, seconds = asyncio.run(
          measure(url, texts, clients, arguments)
        )
        p50, p90, p99 = np.percentile(latencies, (50, 90, 99))
        print(
          f"| {'yes' if batching else 'no'} | {clients} "
          f"| {len(latencies) / seconds:.0f} | {p50:.1f} | {p90:.1f} "
          f"| {p99:.1f} |",
          flush=True,
        )
    finally:
      process.terminate()
      process.wait()


if __name__ == "__main__":
  main()
