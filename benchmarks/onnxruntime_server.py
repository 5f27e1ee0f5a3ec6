"""A plain embedding server on ONNX Runtime, a peer for serving_load.py.

  python benchmarks/onnxruntime_server.py FOLDER MODEL.onnx DTYPE

FastAPI's thread pool computes each request alone, as most tutorials do. The
form of a request is text-embeddings-inference's: POST /embed. DTYPE "float32"
or "int8" only decides how MODEL.onnx is made if it does not exist. The process
prints its address when it accepts requests. It needs torch, transformers,
tokenizers, onnxruntime, fastapi and uvicorn, not TensorFlow.
"""

import os
import pathlib
import socket
import sys
from typing import Annotated

import fastapi
import uvicorn

import engine_peers


def main() -> None:
  folder, path, dtype = sys.argv[1:]
  if not os.path.exists(path):
    source = pathlib.Path(folder)
    engine_peers.make("OnnxRuntime", dtype, source, "embedding", path)
  engine = engine_peers.on_onnx_runtime(path, dtype)
  texts, app = engine_peers.Texts(engine, folder), fastapi.FastAPI()

  @app.post("/embed")
  def embed(
    inputs: Annotated[list[str], fastapi.Body(embed=True)],
  ) -> list[list[float]]:
    return texts.compute(inputs).tolist()

  server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
  # asyncio sends answers without delay (TCP_NODELAY) only for this protocol.
  with socket.socket(proto=socket.IPPROTO_TCP) as listening:
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    server.run(sockets=[listening])


if __name__ == "__main__":
  main()
