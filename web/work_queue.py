"""Answers requests in threads, and bounds the requests that wait.

Each request has a thread, so a long text delays no other request: only the
network is shared (see shared_network.py). No TensorFlow.
"""

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from common import errors

# Requests that are computed at the same time. Most of these threads wait for
# the network, which joins their sequences to batches.
_THREADS = 64


class Limits(NamedTuple):
  """A server's limits, which are flags of serve.py; see also `connections`.

  Attributes:
    max_batch_size: maximum sequences in a batch of the network.
    max_batch_tokens: maximum tokens in a batch, with padding.
    max_batch_delay_ms: how long a request waits for others to join its batch;
      with 0, only requests that are already waiting join it.
    max_queue: maximum texts without an answer, and texts in one request.
    max_body_bytes: maximum size of the body of a request.
    timeout_s: seconds within which the server must read and answer a request.
  """

  max_batch_size: int = 32
  max_batch_tokens: int = 4096
  max_batch_delay_ms: float = 2.0
  max_queue: int = 512
  max_body_bytes: int = 1 << 20
  timeout_s: float = 30.0


class QueueFull(Exception):
  """The queue has no room for more texts."""


class Closed(Exception):
  """The server is shutting down."""


class Fault(Exception):
  """The model failed; the cause says how."""


class _Work:
  """A request that a thread computes.

  Attributes:
    began: time at which a thread began.
    is_abandoned: whether nobody waits for the answers any more.
  """

  def __init__(self) -> None:
    self.began = time.monotonic()
    self.is_abandoned = False


_current = threading.local()  # `work` is the _Work of this thread.


def current_work() -> _Work | None:
  """Returns the request that this thread computes; None outside a queue."""
  return getattr(_current, "work", None)


class WorkQueue:
  """Hands requests to threads.

  Attributes:
    answer: the function of the queue.
    num_requests, num_texts: accepted so far.
    queue_length: number of texts that wait for their answers.
    num_running: number of requests that wait for their answers.
  """

  def __init__(
    self,
    answer: Callable[..., list],
    limits: Limits,
    fault: Callable[[], str] = str,
  ):
    """Creates a queue.

    Args:
      answer: maps the instances of a request to their answers; it is called in
        several threads at the same time.
      fault: returns why `answer` cannot work at present, or "".
    """
    self.answer, self._limits, self._answer_fault = answer, limits, fault
    self._pool = concurrent.futures.ThreadPoolExecutor(_THREADS)
    self._running: set[_Work] = set()
    self._idle = asyncio.Event()
    self._closing = False
    self.num_requests = self.num_texts = 0
    self.queue_length = self.num_running = 0

  async def close(self, *_: Any) -> None:
    """Rejects new requests, and waits until the accepted ones are computed."""
    self._closing = True
    while self.queue_length:
      self._idle.clear()
      await self._idle.wait()
    # Abandoned requests end at their next batch.
    await asyncio.to_thread(self._pool.shutdown)

  def require_room(self, count: int = 1) -> None:
    """Raises QueueFull or Closed if `count` instances would be rejected."""
    if self._closing:
      raise Closed
    if self.queue_length + count > self._limits.max_queue:
      raise QueueFull

  def fault(self) -> str:
    """Returns why requests cannot be answered at present, or ""."""
    if self._closing:
      return "the server is shutting down"
    now, running = time.monotonic(), list(self._running)
    stuck = [w for w in running if now - w.began > self._limits.timeout_s]
    if len(stuck) >= _THREADS:
      return f"all {_THREADS} threads compute texts that take too long"
    return self._answer_fault()

  async def submit(
    self,
    rows: list,
    answer: Callable[[list], list] | None = None,
    cost: int = 1,
  ) -> list:
    """Returns the answers to the instances of a request.

    Args:
      answer: answers this request, instead of the queue's own function.
      cost: number of texts that an instance counts for.

    Raises:
      InputError: the request has too many instances, or an instance is invalid.
      QueueFull, Closed: the request was rejected.
      Fault: the model raised anything else.
    """
    count = len(rows) * cost
    if count > self._limits.max_queue:
      raise errors.InputError(
        f"{count} instances in one request; at most "
        f"{self._limits.max_queue} fit: send them in several requests"
      )
    # An immediate refusal bounds the queue and lets a client try elsewhere.
    self.require_room(count)
    self.num_requests += 1
    self.num_texts += count
    self.queue_length += count
    self.num_running += 1
    work = _Work()
    try:
      return await asyncio.get_running_loop().run_in_executor(
        self._pool, self._compute, work, answer or self.answer, rows
      )
    finally:
      # If the client left or its time is over, its other batches are dropped.
      work.is_abandoned = True
      self.queue_length -= count
      self.num_running -= 1
      self._idle.set()

  def _compute(self, work: _Work, answer: Callable, rows: list) -> list:
    """Runs in a thread. Whatever is raised below it, the thread goes on."""
    work.began, _current.work = time.monotonic(), work
    self._running.add(work)
    try:
      answers = answer(rows)
      if len(answers) != len(rows):
        raise ValueError(f"{len(answers)} answers to {len(rows)} texts")
      return answers
    except errors.InputError:
      raise
    # Some libraries raise a BaseException. And asyncio gives a meaning of its
    # own to TimeoutError, CancelledError and StopIteration.
    except BaseException as error:
      raise Fault(f"{type(error).__name__}: {error}") from error
    finally:
      self._running.discard(work)
      _current.work = None
