"""Reads damaged files with every reader, in a process of its own.

  python tests/fuzzed_files.py SEED COUNT FOLDER

Each file is a small valid file with seeded damage. A reader may return a value
or raise InputError; any other exception, and more than `_SECONDS`, is a fault.
The process prints a line for each fault, and at the end the counts. If native
code ends the process, the last line names the file.
"""

import contextlib
import json
import os
import pathlib
import random
import signal
import sys
import time
import traceback

import numpy as np
import tensorflow as tf

import configuration
import tokenization
from checkpoints import model_files, weight_files
from classification import tables
from common import errors, json_files
from engines import networks
from features import vector_search
from records import tfrecord
from running.trackers import json_lines
from squad import data as squad_data
from tagging import data as tagging_data
from training import run_folder
from variants import vocabularies

GOLDEN = pathlib.Path(__file__).parent / "golden"
_SECONDS = 20
_PARAGRAPH = {
  "context": "The keeper of the lamp.",
  "qas": [
    {
      "id": "1",
      "question": "Who?",
      "answers": [{"text": "The keeper", "answer_start": 0}],
    }
  ],
}
_PIECES = (
  b"\x00",
  b"\xff\xfe",
  b"\r",
  b'"',
  b"{",
  b"[" * 200,
  b"1e999",
  b"9" * 400,
  b"NaN",
  b"null",
  b"-1",
  b"\xed\xa0\x80",
  b"\xff" * 8,
  b"../../../etc/passwd",
)


def damaged(data: bytes, rng: random.Random) -> bytes:
  """Returns the bytes with one to three kinds of damage."""
  content = bytearray(data)
  for _ in range(rng.randint(1, 3)):
    at = rng.randrange(len(content) + 1)
    kind = rng.choice(["cut", "flip", "insert", "remove", "repeat", "swap"])
    if kind == "cut":
      del content[at:]
    elif kind == "flip":
      for _ in range(rng.choice([1, 1, 8])):
        if content:
          content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif kind == "insert":
      content[at:at] = rng.choice(_PIECES)
    elif kind == "remove":
      del content[at : at + rng.choice([1, 4, 40])]
    elif kind == "repeat":
      content[at:at] = content[at : at + rng.choice([1, 30])] * rng.choice(
        [1, 9]
      )
    else:
      end = at + rng.choice([2, 16])
      content[at:end] = content[at:end][::-1]
  return bytes(content)


def _table(file_format):
  def read(path):
    table = tables.open_table(path, file_format, names=("text",))
    return sum(1 for _ in table.rows)

  return read


def _log(path):
  os.replace(path, os.path.join(os.path.dirname(path), "train_log.jsonl"))
  return json_lines.read(os.path.dirname(path))


def _commit(path):
  folder = os.path.dirname(path)
  os.replace(path, os.path.join(folder, "model.ckpt-1.commit"))
  return run_folder.newest_checkpoint(folder)


def _state(path):
  folder = os.path.dirname(path)
  os.replace(path, os.path.join(folder, "checkpoint"))
  return run_folder.newest_checkpoint(folder)


def _weights(suffix):
  """Returns a reader of a checkpoint whose file with this suffix is damaged."""

  def read(path):
    folder = pathlib.Path(path).parent / "weights"
    folder.mkdir(exist_ok=True)
    model = GOLDEN / "pretraining_run" / "model"
    for source in model.glob("bert_model.ckpt.*"):
      (folder / source.name).write_bytes(source.read_bytes())
    os.replace(path, folder / f"bert_model.ckpt{suffix}")
    reader = weight_files.open_reader(str(folder))
    return [reader.read(name) for name in list(reader.shapes)[:5]]

  return read


def _tensors(path):
  target = os.path.join(os.path.dirname(path), "model.safetensors")
  os.replace(path, target)
  reader = weight_files.open_reader(target)
  return [reader.read(name) for name in reader.shapes]


def _tokenizer(path):
  target = os.path.join(os.path.dirname(path), "tokenizer.json")
  os.replace(path, target)
  return vocabularies.make_tokenizer(target).tokenize("Anna lives in Bern.")


def _folder(path):
  target = os.path.join(os.path.dirname(path), "config.json")
  os.replace(path, target)
  files = model_files.ModelFiles(os.path.dirname(path))
  return configuration.BertConfig.from_json_file(target), files.paths


def _attacker(name):
  """Returns a reader of a folder whose weights have this foreign name."""

  def read(path):
    folder = pathlib.Path(path).parent
    os.replace(path, folder / name)
    model = GOLDEN / "pretraining_run" / "model" / "bert_config.json"
    (folder / "bert_config.json").write_bytes(model.read_bytes())
    return weight_files.open_reader(str(folder))

  return read


def _network(engine, name):
  """Returns a reader of an exported network."""

  def read(path):
    target = os.path.join(os.path.dirname(path), name)
    os.replace(path, target)
    return networks.load(engine, target)

  return read


def seeds(folder: pathlib.Path) -> dict:
  """Returns {name: (valid bytes, reader)}."""
  folder.mkdir(parents=True, exist_ok=True)
  rows = [{"text": f"The keeper {n}, a ship", "label": n % 2} for n in range(9)]
  lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
  model = GOLDEN / "pretraining_run" / "model"
  vectors = folder / "vectors.npz"
  np.savez_compressed(vectors, vectors=np.ones((5, 4), "f"))
  run_folder.save(str(folder / "run"), 1, {"a": np.ones(3, "f")})
  csv = b"text,label\n" + b'"a ""b"", c",1\nd,0\n' * 5
  log = b'{"step": 1, "loss": 0.5}\n{"step": 2, "loss": null}\n'
  result = {
    "config": ((model / "bert_config.json").read_bytes(), _folder),
    "vocab": (
      (model / "vocab.txt").read_bytes(),
      lambda p: tokenization.FullTokenizer(p).tokenize("the lamp"),
    ),
    "tokenizer": (
      (GOLDEN / "roberta" / "bpe" / "tokenizer.json").read_bytes(),
      _tokenizer,
    ),
    "csv": (csv, _table("csv")),
    "tsv": (csv.replace(b",", b"\t"), _table("tsv")),
    "jsonl": (lines, _table("jsonl")),
    "json": (json.dumps(rows).encode(), _table("json")),
    "conll": (
      b"Anna B-PER\nlives O\n\nin O\nBern B-LOC\n" * 4,
      lambda path: list(tagging_data.read(path)),
    ),
    "tfrecord": (
      (GOLDEN / "pretraining_run" / "a.tfrecord").read_bytes()[:5000],
      lambda path: list(tfrecord.read_records(path)),
    ),
    "count": (
      (GOLDEN / "pretraining_run" / "a.tfrecord").read_bytes()[:5000],
      tfrecord.count_records,
    ),
    "npz": (vectors.read_bytes(), vector_search.read),
    "log": (log, _log),
    "commit": ((folder / "run" / "model.ckpt-1.commit").read_bytes(), _commit),
    "state": ((folder / "run" / "checkpoint").read_bytes(), _state),
    "index": (
      (model / "bert_model.ckpt.index").read_bytes(),
      _weights(".index"),
    ),
    "values": (
      (model / "bert_model.ckpt.data-00000-of-00001").read_bytes(),
      _weights(".data-00000-of-00001"),
    ),
    "squad": (
      json.dumps({"data": [{"paragraphs": [_PARAGRAPH]}]}).encode(),
      squad_data.read,
    ),
    # Formats that may run code: they are refused by their names.
    **{
      name: (b"\x89HDF\r\n\x1a\n" + bytes(40), _attacker(name))
      for name in ("tf_model.h5", "model.keras", "flax_model.msgpack")
    },
    "settings": (json.dumps({"a": [1, {"b": None}]}).encode(), json_files.read),
  }
  result |= _optional_seeds(folder)
  return result


def _optional_seeds(folder):
  """Returns the seeds of formats whose packages may be missing."""
  result = {}
  try:
    import pyarrow
    from pyarrow import parquet

    path = folder / "a.parquet"
    parquet.write_table(pyarrow.table({"text": ["a", "b"] * 20}), path)
    result["parquet"] = path.read_bytes(), _table("parquet")
  except ImportError:
    pass
  with contextlib.suppress(ImportError):
    import ai_edge_litert  # noqa: F401

    graph = b"\x1c\0\0\0TFL3" + bytes(64)
    result["litert"] = graph, _network("litert", "model.tflite")
  with contextlib.suppress(ImportError):
    import onnx

    text = onnx.helper.make_tensor_value_info("input_ids", 7, ["b", "t"])
    node = onnx.helper.make_node("Identity", ["input_ids"], ["out"])
    out = onnx.helper.make_tensor_value_info("out", 7, ["b", "t"])
    graph = onnx.helper.make_graph([node], "g", [text], [out])
    model = onnx.helper.make_model(graph)
    result["onnx"] = model.SerializeToString(), _network("onnx", "model.onnx")
  from safetensors import numpy as safetensors

  names = ("bert.embeddings.word_embeddings.weight", "bert.pooler.dense.bias")
  tensors = {name: np.ones((4, 2), "f") for name in names}
  result["safetensors"] = safetensors.save(tensors), _tensors
  return result


class _TooSlow(BaseException):
  pass


def _stop(number, frame):
  raise _TooSlow


def fuzz(seed: int, count: int, folder: pathlib.Path) -> int:
  """Reads `count` damaged files; returns the number of faults."""
  rng, faults, refused = random.Random(seed), 0, 0
  kinds = seeds(folder / "seeds")
  signal.signal(signal.SIGALRM, _stop)
  for number in range(count):
    name = list(kinds)[number % len(kinds)]
    data, read = kinds[name]
    place = folder / f"{name}-{number}"
    place.mkdir()
    path = place / "file"
    content = damaged(data, rng)
    path.write_bytes(content)
    (folder / "last").write_text(f"{name} {number}")
    began = time.monotonic()
    signal.alarm(_SECONDS)
    try:
      read(str(path))
    except errors.InputError:
      refused += 1
    except BaseException as error:
      if isinstance(error, KeyboardInterrupt):
        raise
      faults += 1
      (folder / f"fault-{name}-{number}").write_bytes(content)
      text = traceback.format_exc().strip().splitlines()
      seconds = time.monotonic() - began
      print(
        f"{name} {number} ({seconds:.1f} s): {text[-1]} | {text[-3].strip()}"
      )
    finally:
      signal.alarm(0)
  print(
    f"{count} files of {len(kinds)} readers: {refused} refused, {faults} bad"
  )
  return faults


if __name__ == "__main__":
  tf.get_logger().setLevel("ERROR")
  sys.exit(
    min(fuzz(int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])), 1)
  )
