"""Runs the requests of many clients together, a batch at a time.

A model computes 16 texts in far less than 16 times the time of one. So a
request waits a few milliseconds for others, and while the model computes one
batch the next one gathers. No TensorFlow.
"""

import asyncio
import collections
import concurrent.futures
import dataclasses
import itertools
from typing import Callable

from common import errors


class QueueFull(Exception):
  """More instances are waiting than may wait."""


class Closed(Exception):
  """The server is shutting down."""


@dataclasses.dataclass(eq=False)
class _Waiting:
  """A request: what to run, and the future of its outputs."""

  key: tuple
  rows: list
  arrived: float
  outputs: asyncio.Future

  @property
  def count(self):
    return len(self.rows)


class Batcher:
  """Gathers requests and hands them to a function, one batch at a time.

  Attributes:
    num_batches, num_instances: what has been computed so far.
  """

  def __init__(
    self,
    run: Callable,
    *,
    max_batch_size: int = 32,
    max_delay: float = 0.002,
    max_queue: int = 512,
    join: bool = True,
  ):
    """Makes a batcher; `start` it inside an event loop.

    Args:
      run: function of (key, list of instances) that returns the list of their
        answers; called in a thread of its own.
      max_batch_size: a larger request is computed in several batches.
      max_delay: seconds that a request waits for others to join it; 0: only
        those that wait already join it.
      max_queue: most instances that may wait, and most in one request.
      join: False: each request is a batch by itself.
    """
    self._run = run
    self._join = join
    self._max_batch_size = max_batch_size
    self._max_delay = max_delay
    self._max_queue = max_queue
    self._waiting = collections.deque()
    self._changed = asyncio.Event()
    # One thread: a batch has all cores to itself.
    self._thread = concurrent.futures.ThreadPoolExecutor(1)
    self._worker = None
    self._closing = False
    self.num_batches = self.num_instances = 0

  def start(self):
    """Begins to work, in the event loop that is running."""
    self._worker = asyncio.create_task(self._work())

  async def close(self):
    """Finishes what waits, then stops; nothing new is taken."""
    self._closing = True
    self._changed.set()
    # It ends when nothing waits any more.
    await self._worker
    self._thread.shutdown()

  async def submit(self, key: tuple, rows: list) -> list:
    """Returns the answers to the instances of a request.

    Those of one key may be computed together.

    Raises:
      InputError: it has more instances than may ever wait.
      QueueFull, Closed: it was not taken.
      Whatever the function raises for these inputs alone.
    """
    if self._closing:
      raise Closed
    count = len(rows)
    if count > self._max_queue:
      raise errors.InputError(
        f"{count} instances in one request; at most {self._max_queue} are "
        "taken: send them in several requests"
      )
    # Refused at once, so that a client can go elsewhere, and memory is bounded.
    if self._num_waiting() + count > self._max_queue:
      raise QueueFull
    size = self._max_batch_size
    # All of them wait from now on: no other request comes between.
    outputs = [
      self._enqueue(key, rows[first : first + size])
      for first in range(0, count, size)
    ]
    return list(itertools.chain(*await asyncio.gather(*outputs)))

  def _enqueue(self, key, rows):
    """Returns the future of the answers to rows that fit into a batch."""
    loop = asyncio.get_running_loop()
    request = _Waiting(key, rows, loop.time(), loop.create_future())
    self._waiting.append(request)
    self._changed.set()
    return request.outputs

  def _num_waiting(self, key=None):
    return sum(
      request.count
      for request in self._waiting
      if key is None or request.key == key
    )

  async def _work(self):
    while batch := await self._next_batch():
      await self._compute(batch)

  async def _next_batch(self):
    """Returns requests to run together; an empty list at the end."""
    batch = []
    while not batch:
      while not self._drop_abandoned():
        if self._closing:
          return []
        self._changed.clear()
        await self._changed.wait()
      await self._wait_for_others(self._waiting[0])
      self._drop_abandoned()
      batch = self._take_batch()
    return batch

  def _drop_abandoned(self):
    """Forgets requests whose client has gone; returns whether any are left."""
    self._waiting = collections.deque(
      request for request in self._waiting if not request.outputs.done()
    )
    return bool(self._waiting)

  async def _wait_for_others(self, first):
    loop = asyncio.get_running_loop()
    # Counted from its arrival: what waited during a batch need not wait again.
    until = first.arrived + self._max_delay
    while self._join and self._num_waiting(first.key) < self._max_batch_size:
      remaining = until - loop.time()
      if remaining <= 0 or self._closing:
        return
      self._changed.clear()
      try:
        await asyncio.wait_for(self._changed.wait(), remaining)
      except asyncio.TimeoutError:
        return

  def _take_batch(self):
    """Takes the oldest request and those that can be joined to it."""
    batch, rest, count = [], collections.deque(), 0
    for request in self._waiting:
      # A smaller request further back may still fit.
      joins = not batch or (
        self._join
        and request.key == batch[0].key
        and count + request.count <= self._max_batch_size
      )
      (batch if joins else rest).append(request)
      count += request.count if joins else 0
    self._waiting = rest
    return batch

  async def _compute(self, batch):
    try:
      outputs = iter(await self._outputs_of(batch))
    except Exception as error:  # It belongs to whoever sent the request.
      if len(batch) == 1:
        _finish(batch[0], error=error)
        return
      # One bad request must not spoil the others: each by itself.
      for request in batch:
        await self._compute([request])
      return
    for request in batch:
      _finish(request, list(itertools.islice(outputs, request.count)))

  async def _outputs_of(self, batch):
    rows = [row for request in batch for row in request.rows]
    self.num_batches += 1
    self.num_instances += len(rows)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(
      self._thread, self._run, batch[0].key, rows
    )


def _finish(request, outputs=None, error=None):
  # Its client may have gone in the meantime.
  if request.outputs.done():
    return
  if error is None:
    request.outputs.set_result(outputs)
  else:
    request.outputs.set_exception(error)
