"""Combines the requests of many clients into batches.

A model computes a batch of 16 texts much faster than 16 single texts. So a
request waits a few milliseconds for other requests, and the queue collects the
next batch while the model computes. No TensorFlow.
"""

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Any, NamedTuple

from common import errors


class Limits(NamedTuple):
  """A server's limits, which are flags of serve.py; see also `connections`.

  Attributes:
    max_batch_size: maximum instances in a batch; larger requests are split.
    max_batch_delay_ms: how long a request waits for others to join its batch;
      with 0, only requests that are already in the queue join it.
    max_queue: maximum instances in the queue, and in one request.
    max_body_bytes: maximum size of the body of a request.
    timeout_s: seconds within which the server must read and answer a request.
  """

  max_batch_size: int = 32
  max_batch_delay_ms: float = 2.0
  max_queue: int = 512
  max_body_bytes: int = 1 << 20
  timeout_s: float = 30.0


class QueueFull(Exception):
  """The queue has no room for more instances."""


class Closed(Exception):
  """The server is shutting down."""


class _Waiting(NamedTuple):
  """An instance, and the future of its answer."""

  row: Any
  arrived: float
  answer: asyncio.Future


class Batcher:
  """Gathers instances and hands them to a function, one batch at a time.

  Attributes:
    num_batches, num_instances: computed so far, including retries.
  """

  def __init__(self, run: Callable, limits: Limits):
    """Creates a batcher; `start` must then be called in an event loop.

    In a separate thread, `run` maps a list of instances to their answers.
    """
    self._run, self._limits = run, limits
    self._waiting: list[_Waiting] = []
    self._changed = asyncio.Event()
    # With a single thread, only one batch runs at a time and can use all cores.
    self._thread = concurrent.futures.ThreadPoolExecutor(1)
    self._worker: asyncio.Task | None = None
    self._closing = False
    self.num_batches = self.num_instances = 0

  async def start(self, *_) -> None:
    """Starts computing batches in the running event loop."""
    self._worker = asyncio.create_task(self._work())

  async def close(self, *_) -> None:
    """Rejects new instances, computes the instances in the queue, and stops."""
    self._closing = True
    self._changed.set()
    if self._worker:
      # The worker ends when the queue is empty.
      await self._worker
    self._thread.shutdown()

  def require_room(self, count: int = 1) -> None:
    """Raises QueueFull or Closed if `count` instances would be rejected."""
    if self._closing:
      raise Closed
    if self.queue_length + count > self._limits.max_queue:
      raise QueueFull

  @property
  def queue_length(self) -> int:
    """The number of instances in the queue."""
    return len(self._pending())

  async def submit(self, rows: list) -> list:
    """Returns the answers to the instances of a request.

    Raises:
      InputError: the request has more instances than the queue can hold.
      QueueFull, Closed: the request was rejected.
      Any exception that `run` raises for a single instance.
    """
    if len(rows) > self._limits.max_queue:
      raise errors.InputError(
        f"{len(rows)} instances in one request; at most "
        f"{self._limits.max_queue} fit: send them in several requests"
      )
    # An immediate refusal bounds the queue and lets a client try elsewhere.
    self.require_room(len(rows))
    loop = asyncio.get_running_loop()
    now = loop.time()
    instances = [_Waiting(row, now, loop.create_future()) for row in rows]
    # All instances join the queue at once, without other requests in between.
    self._waiting += instances
    self._changed.set()
    answers = asyncio.gather(*(instance.answer for instance in instances))
    try:
      return await answers
    finally:
      # If the client left or an instance failed, drop the rest of the request.
      answers.cancel()
      for instance in instances:
        instance.answer.cancel()

  async def _work(self):
    while self._pending() or not self._closing:
      if self._waiting:
        await self._wait_for_others()
      else:
        self._changed.clear()
        await self._changed.wait()
      pending, size = self._pending(), self._limits.max_batch_size
      self._waiting = pending[size:]
      if pending:
        await self._compute(pending[:size])

  def _pending(self):
    """Drops instances whose request has ended; returns all others."""
    self._waiting = [each for each in self._waiting if not each.answer.done()]
    return self._waiting

  async def _wait_for_others(self):
    limits, loop = self._limits, asyncio.get_running_loop()
    # The delay starts when an instance arrives, even during another batch.
    until = self._waiting[0].arrived + limits.max_batch_delay_ms / 1000
    while not self._closing and until > loop.time():
      if len(self._waiting) >= limits.max_batch_size:
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
        self._thread, self._run, [instance.row for instance in batch]
      )
    except Exception as error:
      if len(batch) > 1:
        # Halving isolates the bad instance: only its client gets the error.
        middle = len(batch) // 2
        await self._compute(batch[:middle])
        await self._compute(batch[middle:])
      elif not batch[0].answer.done():
        batch[0].answer.set_exception(error)
      return
    for instance, answer in zip(batch, answers, strict=True):
      # The client may have left in the meantime.
      if not instance.answer.done():
        instance.answer.set_result(answer)
