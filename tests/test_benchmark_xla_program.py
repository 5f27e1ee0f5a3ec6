"""xla_program.py: JAX computes steps that TensorFlow has lowered."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

SCRIPT = pathlib.Path(__file__).parents[1] / "benchmarks" / "xla_program.py"


def call(*arguments):
  """Returns what the benchmark prints."""
  finished = subprocess.run(
    [sys.executable, str(SCRIPT), *map(str, arguments)],
    capture_output=True,
    text=True,
    check=True,
  )
  return finished.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
  "method, options",
  [
    ("train", ()),
    ("predict", ()),
    ("pretrain", ("--optimizer=lamb", "--predictions=4")),
  ],
)
def test_jax_computes_what_tensorflow_does(method, options, tmp_path):
  pytest.importorskip("jax")
  call(
    "lower",
    tmp_path,
    "--network=tiny",
    "--methods",
    method,
    "--length=32",
    "--batch_sizes",
    "4",
    "--dtype=float32",
    *options,
  )
  table = call("run", tmp_path, "--steps=2", "--rounds=1", "--plain_jax")
  _, _, row, plain, *_ = table.splitlines()
  # Plain JAX has no LAMB.
  assert plain.startswith(f"| tiny, {method}, plain JAX | 4") != bool(options)
  cells = [cell.strip() for cell in row.split("|")[1:-1]]
  assert cells[0].startswith(f"tiny, {method}") and cells[1] == "4 × 32"
  first, median, _ = map(float, cells[-1].split(", "))
  # `first` is the difference of the loss. It is tiny because the dropout masks
  # are equal. The maximum is not checked, since gradients that are 0 except for
  # rounding have large relative differences.
  assert first < 1e-6 and median < 1e-5
  with np.load(next(tmp_path.glob("*.npz"))) as saved:
    note = json.loads(str(saved["note"]))
  # A training step returns every variable's next value.
  assert bool(note["replaces"]) == (method != "predict")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["train", "pretrain"])
def test_the_tpu_compiler_compiles_our_step(method):
  pytest.importorskip("libtpu", reason="no compiler for a TPU: no libtpu")
  table = call(
    "compile",
    "--target=v5e",
    "--network=tiny",
    "--methods",
    method,
    "--length=32",
    "--batch_sizes",
    "4",
    "--predictions=4",
  )
  rows = [row.split(" | ") for row in table.splitlines()[2:]]
  assert [cells[2] for cells in rows] == ["here", "plain JAX"]
  # If the compiler failed, the cells would have its error.
  assert all(float(cell) > 0 for cells in rows for cell in cells[3:6])
