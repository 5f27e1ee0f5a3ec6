"""A run that continues on another number of devices or processes.

The order of the data does not depend on the number of devices. Without dropout,
weights and moments are those of a run on one device, but for rounding.
"""

import numpy as np
import pytest

import script_runner
from test_resilience import (
  no_dropout_config,
  start_workers,
  training_flags,
  weights_at,
)

ONE = {"distribution_strategy": "one_device"}
TWO = {"distribution_strategy": "mirrored", "num_logical_cpus": 2}
STEPS = 12


def flags_of(tmp_path):
  config = no_dropout_config(tmp_path)
  return {"num_train_steps": STEPS, "bert_config_file": config}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
  """The values of a run on one device."""
  folder = tmp_path_factory.mktemp("whole")
  flags = training_flags(folder / "run", **flags_of(folder), **ONE)
  script_runner.succeed("run_pretraining.py", **flags)
  return weights_at(folder / "run", STEPS)


def assert_close(actual, expected):
  assert actual.keys() == expected.keys()
  assert any("adam_m" in name for name in expected)
  for name, value in expected.items():
    # The gradient of a key bias is only rounding noise.
    if "/self/key/bias" not in name:
      np.testing.assert_allclose(
        actual[name], value, rtol=0, atol=1e-6, err_msg=name
      )


@pytest.mark.slow
def test_one_device_then_two_then_one(tmp_path, expected):
  folder = tmp_path / "elastic"
  for stop, devices in ((4, ONE), (8, TWO), (STEPS, ONE)):
    script_runner.succeed(
      "run_pretraining.py",
      **training_flags(folder, stop_step=stop, **flags_of(tmp_path), **devices),
    )
  assert_close(weights_at(folder, STEPS), expected)


@pytest.mark.slow
def test_two_processes_then_one(tmp_path, expected):
  folder = tmp_path / "elastic"
  flags = flags_of(tmp_path)
  workers = start_workers(folder, stop_step=6, **flags)
  messages = [worker.communicate(timeout=240)[1] for worker in workers]
  assert [worker.returncode for worker in workers] == [0, 0], messages
  script_runner.succeed(
    "run_pretraining.py", **training_flags(folder, **flags, **ONE)
  )
  assert_close(weights_at(folder, STEPS), expected)


@pytest.mark.slow
def test_slurm_starts_two_processes(tmp_path, expected):
  """The variables of srun, for two tasks on this machine."""
  folder = tmp_path / "slurm"
  processes = []
  for rank in range(2):
    processes.append(
      script_runner.Forked(
        "run_pretraining.py",
        environment={
          "SLURM_JOB_ID": "4711",
          "SLURM_STEP_NODELIST": "localhost",
          "SLURM_STEP_TASKS_PER_NODE": "2",
          "SLURM_PROCID": str(rank),
        },
        **training_flags(
          folder,
          distribution_strategy="multi_worker_mirrored",
          **flags_of(tmp_path),
        ),
      )
    )
  messages = [process.communicate(timeout=240)[1] for process in processes]
  assert [process.returncode for process in processes] == [0, 0], messages
  assert_close(weights_at(folder, STEPS), expected)
