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
  assert (counts["all"], counts["scalar"], counts["one row"]) == (4, 2, 1)
  assert counts["convert"] == counts["reduce"] == counts["add"] == 1


@pytest.mark.slow
def test_small_operations_of_a_step_stay_few():
  command = [sys.executable, str(ROOT / "benchmarks" / "xla_counts.py")]
  printed = subprocess.run(
    [*command, "--methods", "train", "pretrain", "--layers=2"],
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
    assert numbers["on scalars"] < 400
