"""profile_table.py: the time of a step's operations, by type."""

import sys

import pytest
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

import profile_table
from common import errors


def write_recording(path, events):
  """Writes a recording of (name, milliseconds), on two threads in turns."""
  space = xplane_pb2.XSpace()
  plane = space.planes.add(name="/host:CPU")
  threads = [plane.lines.add(id=number) for number in range(2)]
  for number, (name, milliseconds) in enumerate(events):
    plane.event_metadata[number].name = name
    threads[number % 2].events.add(
      metadata_id=number, duration_ps=int(milliseconds * 1e9)
    )
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_bytes(space.SerializeToString())


def test_types_are_added_up_for_one_step(tmp_path):
  step = [
    ("while/a/MatMul:_MklMatMul", 4),
    ("while/MatMul_1:BatchMatMulV2", 2),
    ("while/Mul:Mul", 1),
    ("while/a/Mul:Mul", 0.5),
    ("while/Apply:ResourceApplyAdam", 2.5),
    # Not operations, or those of a function's operations once more.
    ("ExecutorState::Process", 100),
    ("EagerExecute: __inference_step_7", 100),
    ("while:While", 100),
    ("call:StatefulPartitionedCall", 100),
  ]
  # The length of the block is read once in two steps.
  write_recording(
    tmp_path / "plugins" / "profile" / "a" / "b.xplane.pb",
    [*step, *step, ("Less:Less", 0.5)],
  )
  types = profile_table.by_type(profile_table.operations(tmp_path))
  assert types == [
    ("matrix products", 2, 6),
    ("the optimizer's updates", 1, 2.5),
    ("`Mul`", 2, 1.5),
    ("`Less`", 0.5, 0.25),
  ]
  assert profile_table.table(types, 2) == [
    "| operations | in a step | ms | share |", "|---|---|---|---|",
    "| matrix products | 2 | 6.0 | 58.5% |",
    "| the optimizer's updates | 1 | 2.5 | 24.4% |",
    "| others | 2 | 1.8 | 17.1% |",
  ]


def test_a_real_recording_is_printed(tmp_path, monkeypatch, capsys):
  @tf.function
  def step(x):
    return tf.reduce_sum(tf.matmul(x, x))

  x = tf.ones([64, 64])
  step(x)
  with tf.profiler.experimental.Profile(str(tmp_path)):
    for _ in range(3):
      step(x)
  monkeypatch.setattr(sys, "argv", ["profile_table", f"--profile={tmp_path}"])
  profile_table.main()
  printed = capsys.readouterr().out
  (row,) = [r for r in printed.splitlines() if r.startswith("| matrix")]
  assert row.split(" | ")[1] == "1"
  assert "`Sum`" in printed


@pytest.mark.parametrize("count", [0, 2])
def test_one_recording_is_expected(tmp_path, count):
  for number in range(count):
    write_recording(tmp_path / f"{number}.xplane.pb", [("a:Mul", 1)])
  with pytest.raises(errors.InputError, match=f"holds {count} recordings"):
    profile_table.operations(tmp_path)


def test_a_recording_without_operations_is_refused(tmp_path):
  path = tmp_path / "empty.xplane.pb"
  write_recording(path, [("ExecutorState::Process", 1)])
  with pytest.raises(errors.InputError, match="no operation"):
    profile_table.operations(path)
