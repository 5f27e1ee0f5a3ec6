"""Runs the requests of many clients together, a batch at a time.

A model computes 16 texts in far less than 16 times the time of one. So a
request waits a few milliseconds for others, and while the model computes one
batch the next one gathers. No TensorFlow.
"""

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Any, NamedTuple

from common import errors


class Limits(NamedTuple):
  """What a server takes: flags of serve.py. Connections: see `connections`.

  Attributes:
    batch_requests: False: the instances of a request are computed by
      themselves.
    max_batch_size: a larger request is computed in several batches.
    max_batch_delay_ms: how long a request waits for others to join it; 0: only
      those that wait already join it.
    max_queue: most instances that may wait, and most in one request.
    max_body_bytes: a longer request is refused.
    timeout_s: within which a request must have been read and answered.
  """

  batch_requests: bool = True
  max_batch_size: int = 32
  max_batch_delay_ms: float = 2.0
  max_queue: int = 512
  max_body_bytes: int = 1 << 20
  timeout_s: float = 30.0


class QueueFull(Exception):
  """More instances are waiting than may wait."""


class Closed(Exception):
  """The server is shutting down."""


class _Waiting(NamedTuple):
  """An instance, and the future of its answer."""

  key: tuple
  row: Any
  arrived: float
  answer: asyncio.Future


class Batcher:
  """Gathers instances and hands them to a function, one batch at a time.

  Attributes:
    num_batches, num_instances: what has been computed so far.
  """

  def __init__(self, run: Callable, limits: Limits):
    """Makes a batcher; `start` it inside an event loop.

    `run` is a function of (key, list of instances) that returns their answers;
    called in a thread of its own.
    """
    self._run, self._limits = run, limits
    self._waiting: list[_Waiting] = []
    self._changed = asyncio.Event()
    # One thread: a batch has all cores to itself.
    self._thread = concurrent.futures.ThreadPoolExecutor(1)
    self._worker: asyncio.Task | None = None
    self._closing = False
    self.num_batches = self.num_instances = 0

  async def start(self, *_) -> None:
    """Begins to work, in the event loop that is running."""
    self._worker = asyncio.create_task(self._work())

  async def close(self, *_) -> None:
    """Finishes what waits, then stops; nothing new is taken."""
    self._closing = True
    self._changed.set()
    if self._worker:
      # It ends when nothing waits any more.
      await self._worker
    self._thread.shutdown()

  def require_room(self, count: int = 1) -> None:
    """Raises QueueFull or Closed if `count` instances would not be taken."""
    if self._closing:
      raise Closed
    if len(self._left()) + count > self._limits.max_queue:
      raise QueueFull

  async def submit(self, key: tuple, rows: list) -> list:
    """Returns the answers to the instances of a request.

    Those of one key may be computed together.

    Raises:
      InputError: it has more instances than may ever wait.
      QueueFull, Closed: it was not taken.
      Whatever the function raises for one of them alone.
    """
    if len(rows) > self._limits.max_queue:
      raise errors.InputError(
        f"{len(rows)} instances in one request; at most "
        f"{self._limits.max_queue} are taken: send them in several requests"
      )
    # Refused at once: a client can go elsewhere, and what waits is bounded.
    self.require_room(len(rows))
    loop = asyncio.get_running_loop()
    # No other request has this key.
    key = key if self._limits.batch_requests else (*key, object())
    now = loop.time()
    ours = [_Waiting(key, row, now, loop.create_future()) for row in rows]
    # All of them wait from now on: no other request comes between.
    self._waiting += ours
    self._changed.set()
    answers = asyncio.gather(*(one.answer for one in ours))
    try:
      return await answers
    finally:
      # The client has gone, or one cannot be answered: nor need be the others.
      answers.cancel()
      for one in ours:
        one.answer.cancel()

  async def _work(self):
    while self._left() or not self._closing:
      if self._waiting:
        await self._wait_for_others(self._waiting[0])
      else:
        self._changed.clear()
        await self._changed.wait()
      if batch := self._next_batch():
        await self._compute(batch)

  def _next_batch(self):
    """Returns instances to run together, which wait no more."""
    left = self._left()
    batch = [one for one in left if one.key == left[0].key]
    batch = batch[: self._limits.max_batch_size]
    taken = {one.answer for one in batch}
    self._waiting = [one for one in left if one.answer not in taken]
    return batch

  def _left(self):
    """Forgets instances whose client has gone; returns the others."""
    self._waiting = [one for one in self._waiting if not one.answer.done()]
    return self._waiting

  async def _wait_for_others(self, first):
    limits, loop = self._limits, asyncio.get_running_loop()
    # Counted from its arrival: what waited during a batch need not wait again.
    until = first.arrived + limits.max_batch_delay_ms / 1000
    while limits.batch_requests and not self._closing and until > loop.time():
      found = sum(one.key == first.key for one in self._waiting)
      if found >= limits.max_batch_size:
        return
      self._changed.clear()
      try:
        await asyncio.wait_for(self._changed.wait(), until - loop.time())
      except asyncio.TimeoutError:
        return

  async def _compute(self, batch):
    self.num_batches += 1
    self.num_instances += len(batch)
    try:
      answers = await asyncio.get_running_loop().run_in_executor(
        self._thread, self._run, batch[0].key, [one.row for one in batch]
      )
    except Exception as error:  # It belongs to whoever sent the instance.
      if len(batch) > 1:
        # A bad one must not spoil the others: halves, down to the one.
        middle = len(batch) // 2
        await self._compute(batch[:middle])
        await self._compute(batch[middle:])
      elif not batch[0].answer.done():
        batch[0].answer.set_exception(error)
      return
    for one, answer in zip(batch, answers, strict=True):
      # Its client may have gone in the meantime.
      if not one.answer.done():
        one.answer.set_result(answer)
