"""Runs that are interrupted must end as if they had not been."""

import shutil

import numpy as np

import stored_weights


def assert_same_weights(run_steps, folder):
  """Takes steps 4 to 6 of a run a second time and compares the weights.

  Args:
    run_steps: function of an output folder; it trains six steps, saves after
      every third, and returns script_runner.Finished.
    folder: pathlib.Path to work in.
  """
  run_steps(folder / "whole")
  shutil.copytree(folder / "whole", folder / "resumed")
  for path in (folder / "resumed").glob("model.ckpt-6.*"):
    path.unlink()
  done = run_steps(folder / "resumed")
  assert "model.ckpt-3" in done.err
  assert_same_checkpoints(
    folder / "whole" / "model.ckpt-6", folder / "resumed" / "model.ckpt-6"
  )


def assert_same_checkpoints(expected, found):
  """Compares two checkpoints, pathlib.Paths, name by name and bit by bit."""
  expected, found = (
    stored_weights.read(str(path)) for path in (expected, found)
  )
  assert expected.keys() == found.keys()
  for name, value in expected.items():
    np.testing.assert_array_equal(found[name], value, err_msg=name)
