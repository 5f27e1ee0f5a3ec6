"""Shares a network among threads: their calls are computed in common batches.

A network computes a batch of 16 sequences much faster than 16 batches of one.
So a call waits a few milliseconds for others. Calls are served in the order of
their arrival. But if several wait, none gets more than its share of a batch, so
the hundred windows of a long text do not delay a short text. No TensorFlow.

Letters: B sequences, T tokens, P masks.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from answering import answers
from web import work_queue

# Outputs with an axis of positions, whose padding is removed: [B, T or P, ...].
_PER_POSITION = ("end_logits", "fillings", "probabilities", "start_logits")
_MASKS = "masked_lm_positions"


class _Abandoned(Exception):
  """Nobody waits for the result of a call."""


class _Call:
  """A thread's call of the network.

  Attributes:
    batch: {input: int array [B, T or P]}.
    taken: number of its sequences that are computed, or are being computed.
    parts: outputs so far, {name: array} for some sequences each.
    error: what the network raised.
    leads: whether the thread is to compute batches, for all calls.
    wake: set when the call is done, or when the thread is to lead.
  """

  def __init__(self, batch: dict[str, np.ndarray]):
    self.batch = batch
    self.rows, self.width = batch["input_ids"].shape
    self.arrived = time.monotonic()
    self.work = work_queue.current_work()
    self.taken = 0
    self.parts: list[dict[str, np.ndarray]] = []
    self.error: BaseException | None = None
    self.leads, self.wake = False, threading.Event()

  @property
  def is_done(self) -> bool:
    """Whether all sequences are computed, or the call failed."""
    computed = sum(len(next(iter(part.values()))) for part in self.parts)
    return self.error is not None or computed == self.rows


_Part = tuple[_Call, int, int]  # A call, its first row and its end.


class SharedNetwork:
  """An answers.Network for several threads.

  Attributes:
    num_batches, num_sequences: computed so far, including retries.
    num_requests: returns how many requests are in progress. A call does not
      wait if all of them already wait with it. None: it is not known.
  """

  def __init__(self, network: answers.Network, limits: work_queue.Limits):
    """Shares `network`, which one thread at a time then calls."""
    self._network, self._limits = network, limits
    self._changed = threading.Condition()  # Guards the next two attributes.
    self._waiting: list[_Call] = []
    self._has_leader = False
    self._taken: list[_Call] = []  # The calls of the batch in progress.
    self._batch_began: float | None = None
    self.num_requests: Callable[[], int] | None = None
    self.num_batches = self.num_sequences = 0

  def fault(self) -> str:
    """Returns why the network gives no answers at present, or ""."""
    began = self._batch_began
    seconds = time.monotonic() - began if began else 0
    if seconds > self._limits.timeout_s:
      return f"the network has been computing a batch for {seconds:.0f} seconds"
    return ""

  def __call__(self, **batch: Any) -> dict[str, np.ndarray]:
    """Returns the network's outputs for int arrays [B, T]."""
    call = _Call({name: np.asarray(ids) for name, ids in batch.items()})
    with self._changed:
      self._waiting.append(call)
      call.leads, self._has_leader = not self._has_leader, True
      self._changed.notify()
    if not call.leads:
      call.wake.wait()
    if call.leads:
      self._lead(call)
    if call.error is not None:
      raise call.error
    names = call.parts[0]
    return {n: np.concatenate([part[n] for part in call.parts]) for n in names}

  def _lead(self, call: _Call) -> None:
    """Computes batches until the call is done; another thread then leads."""
    try:
      while not call.is_done:
        self._compute(self._take())
    except BaseException as error:
      # A fault of this file fails the calls of the batch, and no other.
      for other in {call, *self._taken}:
        if not other.is_done:
          self._fail(other, error)
    finally:
      with self._changed:
        self._has_leader = bool(self._waiting)
        if self._waiting:
          self._waiting[0].leads = True
          self._waiting[0].wake.set()

  def _take(self) -> list[_Part]:
    """Returns the parts of the next batch: (call, first row, end) each."""
    with self._changed:
      self._wait_for_others()
      self._drop_abandoned()
      if not self._waiting:
        return []
      first = self._waiting[0]
      # Padding makes a short sequence as expensive as the longest of its batch.
      similar = [
        call
        for call in self._waiting
        if first.width <= 2 * call.width and call.width <= 2 * first.width
      ]
      room = self._room(max(call.width for call in similar))
      share = max(1, room // len(similar))
      counts = []
      for call in similar:
        counts.append(min(share, call.rows - call.taken, room))
        room -= counts[-1]
      parts: list[_Part] = []
      self._taken.clear()
      for call, count in zip(similar, counts):
        more = min(call.rows - call.taken - count, room)
        room -= more
        if count + more:
          parts.append((call, call.taken, call.taken + count + more))
          call.taken += count + more
          self._taken.append(call)
          self._waiting.remove(call)
          if call.taken < call.rows:
            self._waiting.append(call)  # The rest comes after the others.
      return parts

  def _room(self, width: int) -> int:
    """Returns how many sequences of a number of tokens a batch may have."""
    limits = self._limits
    fitting = limits.max_batch_tokens // max(1, width)
    return max(1, min(limits.max_batch_size, fitting))

  def _wait_for_others(self) -> None:
    # The delay starts when a call arrives, even during another batch.
    delay = self._limits.max_batch_delay_ms / 1000
    while self._waiting:
      widest = max(call.width for call in self._waiting)
      rows = sum(call.rows - call.taken for call in self._waiting)
      left = self._waiting[0].arrived + delay - time.monotonic()
      if left <= 0 or rows >= self._room(widest):
        return
      if self.num_requests and self.num_requests() <= len(self._waiting):
        return
      self._changed.wait(left)

  def _drop_abandoned(self) -> None:
    for call in [c for c in self._waiting if c.work and c.work.is_abandoned]:
      self._waiting.remove(call)
      call.error = _Abandoned()
      call.wake.set()

  def _compute(self, parts: list[_Part]) -> None:
    if not parts:
      return
    try:
      outputs = self._outputs(parts)
    except BaseException as error:
      if len(parts) > 1:  # Only the call with the bad sequence gets the error.
        for part in parts:
          self._compute([part])
        return
      self._fail(parts[0][0], error)
    else:
      for (call, _, _), output in zip(parts, outputs):
        call.parts.append(output)
    for call, _, _ in parts:
      if call.is_done:
        call.wake.set()

  def _fail(self, call: _Call, error: BaseException) -> None:
    with self._changed:
      if call in self._waiting:
        self._waiting.remove(call)
    call.error = error
    call.wake.set()

  def _outputs(self, parts: list[_Part]) -> list[dict[str, np.ndarray]]:
    """Computes a batch; returns the outputs of each of its parts."""
    joined = {}
    for name in parts[0][0].batch:
      arrays = [call.batch[name][start:end] for call, start, end in parts]
      width = max(array.shape[1] for array in arrays)
      joined[name] = np.concatenate(
        [np.pad(a, [(0, 0), (0, width - a.shape[1])]) for a in arrays]
      )
    self.num_batches += 1
    self.num_sequences += len(joined["input_ids"])
    self._batch_began = time.monotonic()
    try:
      outputs = self._network(**joined)
    finally:
      self._batch_began = None
    results, row = [], 0
    for call, start, end in parts:
      own = slice(row, row + end - start)
      row = own.stop
      length = call.batch.get(_MASKS, call.batch["input_ids"]).shape[1]
      results.append(
        {
          name: values[own, :length] if name in _PER_POSITION else values[own]
          for name, values in outputs.items()
        }
      )
    return results
