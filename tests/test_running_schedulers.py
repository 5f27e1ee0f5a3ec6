"""Clusters from the variables of Slurm and SageMaker."""

import pytest

from common import errors, extensions
from running import schedulers

SLURM = {
  "SLURM_JOB_ID": "40123",
  "SLURM_STEP_NODELIST": "n[2,10]",
  "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
  "SLURM_PROCID": "1",
}
SAGEMAKER = {"SM_HOSTS": '["algo-1", "algo-2"]', "SM_CURRENT_HOST": "algo-2"}


@pytest.mark.parametrize(
  "changes, workers, index",
  [
    # The order is Slurm's, not that of the names.
    ({}, ["n2:20123", "n10:20123"], 1),
    (
      {"SLURM_STEP_TASKS_PER_NODE": "2,1"},
      ["n2:20123", "n2:20124", "n10:20123"],
      1,
    ),
    (
      {"SLURM_STEP_NODELIST": "a[08-10]-ib,b", "SLURM_PROCID": "3",
       "SLURM_STEP_TASKS_PER_NODE": "1(x4)"},
      ["a08-ib:20123", "a09-ib:20123", "a10-ib:20123", "b:20123"],
      3,
    ),
    (
      {"SLURM_STEP_NODELIST": "r[1-2]c[0,3]", "SLURM_PROCID": "0",
       "SLURM_STEP_TASKS_PER_NODE": "1(x4)"},
      ["r1c0:20123", "r1c3:20123", "r2c0:20123", "r2c3:20123"],
      0,
    ),
    (
      {"SLURM_STEP_NODELIST": "host", "SLURM_STEP_TASKS_PER_NODE": "3",
       "SLURM_PROCID": "2", "SLURM_JOB_ID": "7"},
      ["host:20007", "host:20008", "host:20009"],
      2,
    ),
  ],
)  # fmt: skip
def test_slurms_step_is_a_cluster(changes, workers, index):
  config = schedulers.tf_config({**SLURM, **changes})
  assert config == {
    "cluster": {"worker": workers},
    "task": {"type": "worker", "index": index},
  }


def test_sagemakers_hosts_are_a_cluster():
  assert schedulers.tf_config(SAGEMAKER) == {
    "cluster": {"worker": ["algo-1:20000", "algo-2:20000"]},
    "task": {"type": "worker", "index": 1},
  }


def test_elsewhere_there_is_none():
  job_without_step = {"SLURM_JOB_ID": "1", "SLURM_PROCID": "0"}
  step_without_task = {"SLURM_JOB_ID": "1", "SLURM_STEP_NODELIST": "n1"}
  for environment in ({}, job_without_step, step_without_task):
    assert schedulers.tf_config(environment) is None


def test_a_step_without_numbers_has_a_task_per_host_and_the_first_port():
  config = schedulers.tf_config(
    {"SLURM_STEP_NODELIST": "n[1-2]", "SLURM_PROCID": "0"}
  )
  assert config["cluster"]["worker"] == ["n1:20000"]


@pytest.mark.parametrize(
  "environment, fact",
  [
    ({**SLURM, "SLURM_STEP_NODELIST": "n[2"}, "n[2"),
    ({**SLURM, "SLURM_STEP_NODELIST": ""}, "SLURM_STEP_NODELIST="),
    ({**SLURM, "SLURM_STEP_NODELIST": "n[a-b]"}, "n[a-b]"),
    ({**SLURM, "SLURM_STEP_TASKS_PER_NODE": "x"}, "TASKS_PER_NODE=x"),
    ({**SLURM, "SLURM_PROCID": "2"}, "number 2"),
    ({**SLURM, "SLURM_PROCID": "me"}, "SLURM_PROCID=me"),
    ({**SAGEMAKER, "SM_HOSTS": "algo-1"}, "SM_HOSTS=algo-1"),
    ({**SAGEMAKER, "SM_CURRENT_HOST": "algo-3"}, "SM_CURRENT_HOST=algo-3"),
    ({"SM_HOSTS": '{"a": 1}'}, "SM_CURRENT_HOST=None"),
  ],
)
def test_a_variable_of_another_form_is_named(environment, fact):
  with pytest.raises(errors.InputError) as raised:
    schedulers.tf_config(environment)
  assert fact in str(raised.value) and "TF_CONFIG" in str(raised.value)


@pytest.mark.parametrize(
  "file, worker", [("slurm", "n10:20123"), ("sagemaker", "algo-2:20000")]
)
def test_each_scheduler_is_found_alone(monkeypatch, file, worker):
  both = {**SLURM, **SAGEMAKER}
  assert schedulers.tf_config(both)["cluster"]["worker"][1] == "n10:20123"
  monkeypatch.setattr(extensions, "names", lambda _: (file,))
  assert schedulers.tf_config(both)["cluster"]["worker"][1] == worker
