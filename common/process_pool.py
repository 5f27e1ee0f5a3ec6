"""Shares work among processes, even after TensorFlow has computed something.

A process cannot be forked after TensorFlow has computed something in it.
Therefore, workers are forked from a server process that has only imported the
module of their function, with TensorFlow if that module needs it. If the system
cannot fork, workers are new interpreters. Starting workers that need TensorFlow
takes some seconds, which pays off for ten or more seconds of work.
"""

import functools
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from common import errors

# The modules of Python's pools are imported where a pool starts: most scripts
# only ask for `default_processes`.
if TYPE_CHECKING:
  import concurrent.futures

_AHEAD = 2  # Submitted or running blocks per process.


def default_processes() -> int:
  """Returns the number of processors that this process may use."""
  if hasattr(os, "sched_getaffinity"):
    # A container or taskset may allow fewer than the machine has.
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1


def in_order(
  function: Callable, blocks: Iterable, *, processes: int
) -> Iterator:
  """Yields function(block) for each block, in the order of `blocks`.

  Raises InputError: `function` raises it, or a process was killed.

  Args:
    function: function of one block. With several processes, the function, block
      and result must be picklable.
    blocks: iterable; it is read a few blocks ahead of the results.
    processes: number of workers; they end if this process is killed. With 1, or
      fewer than two blocks, this process does the work.
  """
  blocks = iter(blocks)
  first = list(itertools.islice(blocks, _AHEAD * processes))
  if processes <= 1 or len(first) < 2:
    yield from map(function, itertools.chain(first, blocks))
    return
  import concurrent.futures.process

  pool = _start(processes, function)
  submit = functools.partial(pool.submit, function)
  try:
    waiting = list(map(submit, first))
    while waiting:
      result = waiting.pop(0).result()
      waiting.extend(map(submit, itertools.islice(blocks, 1)))
      yield result
  except concurrent.futures.process.BrokenProcessPool as error:
    raise errors.InputError(
      "a process was killed, perhaps because memory ran out: run the same "
      "command again when more memory is free, or with fewer processes"
    ) from error
  finally:
    # Without wait=True, the pool would lose its manager thread, and a worker
    # might never end.
    pool.shutdown(wait=True, cancel_futures=True)


def _start(
  processes: int, function: Callable
) -> "concurrent.futures.ProcessPoolExecutor":
  import concurrent.futures
  import multiprocessing

  methods = multiprocessing.get_all_start_methods()
  context = multiprocessing.get_context(
    "forkserver" if "forkserver" in methods else "spawn"
  )
  # A method belongs to the module of its class, a partial to its function's.
  function = getattr(function, "func", function)
  context.set_forkserver_preload([function.__module__])
  return concurrent.futures.ProcessPoolExecutor(
    processes, mp_context=context, initializer=_watch_parent
  )


def _watch_parent() -> None:
  threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
  """Ends this process when its parent process is killed."""
  import multiprocessing

  parent = multiprocessing.parent_process()
  assert parent  # This is a worker.
  parent.join()
  # Skips the clean-up, which could wait for the parent forever.
  os._exit(1)
