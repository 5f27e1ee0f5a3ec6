"""process_pool.py: order of results, errors and killed workers."""

import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import script_runner
from common import errors, process_pool

LEAN = pathlib.Path(__file__).with_name("lean_modules.py")


def square_and_pid(number):
  return number * number, os.getpid()


def refuse_three(number):
  if number == 3:
    raise errors.InputError("three came")
  return number


def die(number):
  os.kill(os.getpid(), signal.SIGKILL)


def test_one_process_is_the_caller_and_reads_only_what_it_needs():
  blocks_read = []

  def blocks():
    for number in range(10):
      blocks_read.append(number)
      yield number

  results = process_pool.in_order(square_and_pid, blocks(), processes=1)
  assert next(results) == (0, os.getpid())
  assert len(blocks_read) <= 2
  assert [value for value, _ in results] == [n * n for n in range(1, 10)]


def test_fewer_than_two_blocks_start_no_process():
  results = process_pool.in_order(square_and_pid, [5], processes=4)
  assert list(results) == [(25, os.getpid())]
  assert not list(process_pool.in_order(die, [], processes=2))


def test_processes_give_results_in_order_of_blocks():
  results = list(process_pool.in_order(square_and_pid, range(9), processes=2))
  assert [value for value, _ in results] == [n * n for n in range(9)]
  assert os.getpid() not in {pid for _, pid in results}


@pytest.mark.parametrize("processes", [1, 2])
def test_an_input_error_comes_through(processes):
  with pytest.raises(errors.InputError, match="three came"):
    list(process_pool.in_order(refuse_three, range(5), processes=processes))


def test_workers_import_what_their_function_needs():
  """A worker that makes records does not hold TensorFlow in memory."""
  program = """if __name__ == "__main__":
  import functools, lean_modules
  from common import process_pool
  find = functools.partial(lean_modules.loaded, "tensorflow", "numpy")
  print(list(process_pool.in_order(find, range(3), processes=2)))"""
  # In a new process: this one's server for workers may have TensorFlow already.
  path = os.pathsep.join(map(str, (script_runner.ROOT, LEAN.parent)))
  printed = subprocess.run(
    [sys.executable, "-c", program],
    env={**os.environ, "PYTHONPATH": path},
    capture_output=True,
    text=True,
    check=True,
  ).stdout
  assert printed == "[['numpy'], ['numpy'], ['numpy']]\n"


def test_a_killed_worker_is_an_input_error():
  with pytest.raises(errors.InputError, match="a process was killed"):
    list(process_pool.in_order(die, range(3), processes=2))


def test_workers_have_ended_after_close():
  before = set(multiprocessing.active_children())
  naps = process_pool.in_order(time.sleep, [0, 0.3, 0.3], processes=2)
  next(naps)
  naps.close()
  assert set(multiprocessing.active_children()) == before


def test_default_is_the_number_of_available_cpus():
  assert process_pool.default_processes() == len(os.sched_getaffinity(0))
