"""xla_counts.py counts a step's operations, and small ones stay few."""

import subprocess
import sys

import pytest

from script_runner import ROOT

PROGRAM = """
module @tiny {
  func.func public @main(%arg0: tensor<4x8xbf16>) -> tensor<f32> {
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.convert %arg0 : (tensor<4x8xbf16>) -> tensor<4x8xf32>
    %same = stablehlo.convert %0 : tensor<4x8xf32>
    %kept = stablehlo.transpose %0, dims = [0, 1] : \
(tensor<4x8xf32>) -> tensor<4x8xf32>
    %turned = stablehlo.transpose %0, dims = [1, 0] : \
(tensor<4x8xf32>) -> tensor<8x4xf32>
    %1 = call @twice(%0) : (tensor<4x8xf32>) -> tensor<f32>
    %2 = "stablehlo.dot_general"(%3, %0) : (tensor<1x4xf32>) -> tensor<1x8xf32>
    return %1 : tensor<f32>
  }
  func.func private @twice(%arg0: tensor<4x8xf32>) -> tensor<f32> {
    %0 = stablehlo.reduce(%arg0 init: %c) : (tensor<4x8xf32>) -> tensor<f32>
    %1 = stablehlo.add %0, %0 : tensor<f32>
    return %1 : tensor<f32>
  }
}
"""


def test_calls_are_counted_as_their_operations(monkeypatch):
  monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
  import xla_counts

  counts = xla_counts.count(PROGRAM)
  assert (counts["all"], counts["scalar"], counts["one row"]) == (5, 2, 1)
  assert counts["convert"] == counts["reduce"] == counts["add"] == 1
  # A convert to the same type and a transpose to the same order do nothing.
  assert (counts["transpose"], counts["no change"]) == (1, 2)


def test_plain_jax_counts_each_call(monkeypatch):
  pytest.importorskip("jax")
  monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
  import jax_bert
  import xla_counts
  import xla_program

  options = xla_counts.parse_arguments(["--network=tiny"])
  work = xla_program.work_of("train", options, 8)
  counts = xla_counts.count(jax_bert.lowered(work).as_text())
  # Dropout: one site after the embeddings, and three in each layer.
  assert counts["rng_bit_generator"] == 7


@pytest.mark.slow
def test_small_operations_of_a_step_stay_few():
  command = [sys.executable, str(ROOT / "benchmarks" / "xla_counts.py")]
  printed = subprocess.run(
    [*command, "--methods", "train", "pretrain", "--network=tiny"],
    capture_output=True,
    text=True,
    check=True,
  ).stdout
  names, _, *rows = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in printed.splitlines()
  ]
  assert len(rows) == 2
  for row in rows:
    numbers = dict(zip(names[1:], (int(x.replace(",", "")) for x in row[1:])))
    # Gradients of biases are sums, and rates are computed once for all
    # variables; before, a step of two layers had 14 products and 600 scalars.
    assert numbers["products with one row"] == 0
    assert numbers["on scalars"] < 300
    # Four axes of heads a layer, in both directions.
    assert numbers["transposes"] == 16
