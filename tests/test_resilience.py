"""Tests training that is killed, and training in several processes."""

import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import time

import numpy as np
import pytest

import script_runner
import stored_weights
from common import errors
from training import run_folder

GOLDEN = pathlib.Path("tests/golden/pretraining_run")
CONFIG = GOLDEN / "model/bert_config.json"

# An idle machine needs 10 seconds. A busy one once needed more than 120.
SECONDS_TO_FIRST_CHECKPOINT = 600


def training_flags(output_dir, **flags):
  return {
    "do_train": True,
    "input_file": f"{GOLDEN}/a.tfrecord,{GOLDEN}/b.tfrecord",
    "output_dir": output_dir,
    "bert_config_file": CONFIG,
    "max_seq_length": 64,
    "max_predictions_per_seq": 10,
    "train_batch_size": 8,
    "learning_rate": 1e-3,
    "num_warmup_steps": 5,
    **flags,
  }


def weights_at(folder, step):
  commit = run_folder.newest_checkpoint(str(folder))
  assert commit.step == step
  return stored_weights.read(commit.path)


def newest_step(folder):
  steps = [
    int(re.search(r"-(\d+)\.", path.name).group(1))
    for path in folder.glob("model.ckpt-*.commit")
  ]
  return max(steps, default=0)


def kill_somewhere(process, folder, rng, *, while_saving):
  """Kills a process at a random moment or close to a save; returns its status.

  It waits for at most 80 steps, so that no run finishes before the tenth kill.
  """
  before = newest_step(folder)
  steps, seconds = 80, rng.uniform(0.0, 12.0)
  if while_saving:
    steps, seconds = 1, SECONDS_TO_FIRST_CHECKPOINT
  until = time.monotonic() + seconds
  try:
    while newest_step(folder) < before + steps and time.monotonic() < until:
      assert process.poll() is None
      time.sleep(0.005)
    if while_saving:
      assert newest_step(folder) > before
      time.sleep(rng.uniform(0.0, 0.3))
  finally:
    process.send_signal(signal.SIGKILL)
    process.communicate()
  return process.returncode


@pytest.mark.slow
@pytest.mark.parametrize(
  "devices",
  [
    {"distribution_strategy": "one_device"},
    {"distribution_strategy": "mirrored", "num_logical_cpus": 2},
  ],
  ids=["one_device", "mirrored"],
)
def test_kills_change_nothing(tmp_path, devices):
  flags = {"num_train_steps": 1200, **devices}
  script_runner.succeed(
    "run_pretraining.py", **training_flags(tmp_path / "whole", **flags)
  )
  flags["save_checkpoints_steps"] = 4
  folder, rng, codes = tmp_path / "killed", random.Random(8), []
  # The nightly job kills ten runs.
  for attempt in range(int(os.environ.get("KILLS", "6"))):
    # A random moment may be in an import.
    while_saving = attempt % 3 != 0
    start = script_runner.Forked if while_saving else script_runner.start
    process = start("run_pretraining.py", **training_flags(folder, **flags))
    codes.append(
      kill_somewhere(process, folder, rng, while_saving=while_saving)
    )
  assert set(codes) == {-signal.SIGKILL}, codes
  script_runner.succeed("run_pretraining.py", **training_flags(folder, **flags))
  expected = weights_at(tmp_path / "whole", 1200)
  np.testing.assert_equal(weights_at(folder, 1200), expected)
  leftovers = [path.name for path in folder.iterdir() if ".tmp-" in path.name]
  assert not leftovers


def free_ports(count):
  sockets = [socket.socket() for _ in range(count)]
  try:
    for sock in sockets:
      sock.bind(("127.0.0.1", 0))
    return [sock.getsockname()[1] for sock in sockets]
  finally:
    for sock in sockets:
      sock.close()


def start_workers(output_dir, **flags):
  addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
  configs = [
    {
      "cluster": {"worker": addresses},
      "task": {"type": "worker", "index": index},
    }
    for index in range(2)
  ]
  return [
    script_runner.Forked(
      "run_pretraining.py",
      environment={"TF_CONFIG": json.dumps(config)},
      **training_flags(output_dir, **flags),
    )
    for config in configs
  ]


def no_dropout_config(folder):
  config = json.loads(CONFIG.read_text())
  config["hidden_dropout_prob"] = 0.0
  config["attention_probs_dropout_prob"] = 0.0
  path = folder / "bert_config.json"
  path.write_text(json.dumps(config))
  return path


@pytest.mark.slow
def test_two_processes_give_the_weights_of_one(tmp_path):
  flags = {
    "num_train_steps": 12,
    "bert_config_file": no_dropout_config(tmp_path),
    "do_eval": True,
    "max_eval_steps": 3,
  }
  script_runner.succeed(
    "run_pretraining.py", **training_flags(tmp_path / "one", **flags)
  )
  workers = start_workers(tmp_path / "two", **flags)
  errors = [worker.communicate(timeout=240)[1] for worker in workers]
  assert [worker.returncode for worker in workers] == [0, 0], errors
  one, two = (weights_at(tmp_path / name, 12) for name in ("one", "two"))
  assert one.keys() == two.keys()
  for name in one:
    # The gradient of a key bias is only rounding noise.
    if "/self/key/bias" not in name:
      np.testing.assert_allclose(
        two[name], one[name], rtol=0, atol=1e-6, err_msg=name
      )
  results = [
    (tmp_path / name / "eval_results.txt").read_text().split()
    for name in ("one", "two")
  ]
  assert results[0][::3] == results[1][::3]
  np.testing.assert_allclose(
    np.array(results[0][2::3], float),
    np.array(results[1][2::3], float),
    rtol=1e-5,
  )


@pytest.mark.slow
def test_a_signal_to_one_process_stops_both_at_one_step(tmp_path):
  flags = {"num_train_steps": 100000, "save_checkpoints_steps": 20}
  workers = start_workers(tmp_path, **flags)
  deadline = time.monotonic() + 120
  while not newest_step(tmp_path) and time.monotonic() < deadline:
    time.sleep(0.1)
  workers[1].send_signal(signal.SIGTERM)
  errors = [worker.communicate(timeout=120)[1] for worker in workers]
  assert [worker.returncode for worker in workers] == [75, 75], errors
  saved_steps = [re.findall(r"step (\d+) is saved", text) for text in errors]
  assert saved_steps == [[str(newest_step(tmp_path))]] * 2


@pytest.mark.slow
def test_a_killed_worker_changes_nothing(tmp_path):
  flags = {"num_train_steps": 300, "save_checkpoints_steps": 20}
  whole, killed = tmp_path / "whole", tmp_path / "killed"

  def train(folder):
    workers = start_workers(folder, **flags)
    errors = [worker.communicate(timeout=240)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], errors
    return weights_at(folder, 300)

  # Kill the chief, which saves, and then the other worker.
  for index in (0, 1):
    workers = start_workers(killed, **flags)
    kill_somewhere(
      workers.pop(index), killed, random.Random(index), while_saving=True
    )
    [survivor] = workers
    last_line = survivor.communicate(timeout=240)[1].strip().split("\n")[-1]
    assert survivor.returncode == errors.UNAVAILABLE
    assert "error: another process of this run ended" in last_line
    assert 0 < newest_step(killed) < 300
  np.testing.assert_equal(train(killed), train(whole))


def stopped_by_signals(folder, rng, flags, count):
  """Stops a training `count` times; returns the exit codes of all runs.

  Signals come at random moments, among them the first three seconds of a fresh
  process (imports), building, tracing and the last save.
  """
  codes = []
  for attempt in range(count):
    is_fresh = attempt % 3 == 0
    start = script_runner.start if is_fresh else script_runner.Forked
    process = start("run_pretraining.py", **training_flags(folder, **flags))
    seconds = rng.uniform(0.0, 3.0 if is_fresh else 8.0)
    try:
      process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
      process.send_signal(signal.SIGTERM)
      try:
        process.wait(timeout=SECONDS_TO_FIRST_CHECKPOINT)
      finally:
        process.kill()
    text = process.communicate()[1]
    assert "Traceback" not in text, text
    codes.append(process.returncode)
  return codes


@pytest.mark.slow
def test_terminations_change_nothing(tmp_path):
  # The nightly job terminates 50 runs.
  count = int(os.environ.get("TERMINATIONS", "20"))
  flags = {"num_train_steps": 400, "save_checkpoints_steps": 50}
  script_runner.succeed(
    "run_pretraining.py", **training_flags(tmp_path / "whole", **flags)
  )
  folder = tmp_path / "stopped"
  codes = stopped_by_signals(folder, random.Random(3), flags, count)
  # Before the training begins, SIGTERM ends the process as usual.
  assert set(codes) <= {0, 75, -signal.SIGTERM}, codes
  assert {75, -signal.SIGTERM} <= set(codes), codes
  script_runner.succeed("run_pretraining.py", **training_flags(folder, **flags))
  expected = weights_at(tmp_path / "whole", 400)
  np.testing.assert_equal(weights_at(folder, 400), expected)
  assert not [path.name for path in folder.iterdir() if ".tmp-" in path.name]


@pytest.mark.slow
def test_a_stopped_worker_continues(tmp_path):
  """SIGSTOP of one process delays the others, and changes no weight."""
  flags = {"num_train_steps": 60, "save_checkpoints_steps": 20}
  ends = {}
  for name, is_stopped in (("whole", False), ("stopped", True)):
    workers = start_workers(tmp_path / name, **flags)
    if is_stopped:
      deadline = time.monotonic() + SECONDS_TO_FIRST_CHECKPOINT
      while not newest_step(tmp_path / name) and time.monotonic() < deadline:
        time.sleep(0.05)
      workers[1].send_signal(signal.SIGSTOP)
      time.sleep(5.0)
      workers[1].send_signal(signal.SIGCONT)
    errors = [worker.communicate(timeout=600)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], errors
    ends[name] = weights_at(tmp_path / name, 60)
  np.testing.assert_equal(ends["stopped"], ends["whole"])


@pytest.mark.slow
def test_two_trainings_in_one_folder(tmp_path):
  """The second waits, and is refused; the first ends as if it were alone."""
  flags = {"num_train_steps": 100_000, "save_checkpoints_steps": 50}
  folder = tmp_path / "shared"
  first = script_runner.start(
    "run_pretraining.py", **training_flags(folder, **flags)
  )
  try:
    deadline = time.monotonic() + SECONDS_TO_FIRST_CHECKPOINT
    while not newest_step(folder) and time.monotonic() < deadline:
      time.sleep(0.05)
    # It would start with other weights and save at other steps.
    others = {"learning_rate": 5e-3, "save_checkpoints_steps": 7}
    refused = script_runner.run(
      "run_pretraining.py",
      code=1,
      **training_flags(folder, **{**flags, **others}),
    )
    assert f"is in use by process {first.pid} on " in refused.last_line
  finally:
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=SECONDS_TO_FIRST_CHECKPOINT)
  assert first.returncode == 75
  step = newest_step(folder)
  alone = tmp_path / "alone"
  script_runner.succeed(
    "run_pretraining.py", **training_flags(alone, **flags, stop_step=step)
  )
  expected = weights_at(alone, step)
  for name, value in weights_at(folder, step).items():
    np.testing.assert_array_equal(value, expected[name], err_msg=name)
