"""Checks that interrupted runs end with the weights of uninterrupted ones."""

import shutil

import numpy as np

import stored_weights


def assert_same_weights(run_steps, folder):
  """Repeats steps 4 to 6 of a run and compares the weights.

  Args:
    run_steps: function that trains six steps in an output folder, saves after
      every third step, and returns script_runner.Finished.
    folder: pathlib.Path to work in.
  """
  run_steps(folder / "whole")
  shutil.copytree(folder / "whole", folder / "resumed")
  for path in (folder / "resumed").glob("model.ckpt-6.*"):
    path.unlink()
  resumed = run_steps(folder / "resumed")
  assert "model.ckpt-3" in resumed.err
  assert_same_checkpoints(
    folder / "whole" / "model.ckpt-6", folder / "resumed" / "model.ckpt-6"
  )


def assert_same_checkpoints(expected, actual):
  """Compares all tensors of two checkpoints bit by bit."""
  expected, actual = (
    stored_weights.read(str(path)) for path in (expected, actual)
  )
  assert expected.keys() == actual.keys()
  for name, value in expected.items():
    np.testing.assert_array_equal(actual[name], value, err_msg=name)
