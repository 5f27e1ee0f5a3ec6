"""Tests which requests the queue accepts, refuses, drops and survives."""

import asyncio
import threading
import time

import pytest

from common import errors
from message_facts import says
from web import work_queue


class Model:
  """Doubles numbers, and waits for `may_finish`."""

  def __init__(self):
    self.requests = []
    self.started = threading.Semaphore(0)
    self.may_finish = threading.Event()
    self.may_finish.set()

  def __call__(self, rows):
    self.requests.append(rows)
    self.started.release()
    assert self.may_finish.wait(60)
    if min(rows) < 0:
      raise FAULTS[-1 - min(rows)]
    return [2 * row for row in rows]


class Panic(BaseException):
  """As a library in Rust raises it."""


# A request with -1 raises the first of these, and so on.
FAULTS = [
  ValueError("negative"),
  Panic("a Rust thread panicked"),
  SystemExit(1),
  KeyboardInterrupt(),
  GeneratorExit(),
  StopIteration(),
  TimeoutError(),
  asyncio.CancelledError(),
  MemoryError(),
]


def run(scenario, **limits):
  model = Model()

  async def main():
    queue = work_queue.WorkQueue(model, work_queue.Limits(**limits))
    try:
      await asyncio.wait_for(scenario(queue, model), 60)
    finally:
      model.may_finish.set()
      await queue.close()

  asyncio.run(main())
  return model


async def start(queue, model, *requests):
  """Submits requests that the model does not finish; returns their tasks."""
  model.may_finish.clear()
  tasks = [
    asyncio.create_task(queue.submit([*request])) for request in requests
  ]
  for _ in requests:
    await asyncio.to_thread(model.started.acquire)
  return tasks


def test_requests_are_computed_at_the_same_time():
  async def scenario(queue, model):
    tasks = await start(queue, model, [1, 2], [3])
    assert queue.queue_length == 3
    model.may_finish.set()
    assert await asyncio.gather(*tasks) == [[2, 4], [6]]
    assert (queue.queue_length, queue.num_texts, queue.num_requests) == (
      0,
      3,
      2,
    )

  run(scenario)


@pytest.mark.parametrize("number", range(len(FAULTS)))
def test_the_queue_survives_whatever_a_request_raises(number):
  async def scenario(queue, model):
    tasks = await start(queue, model, [1], [-1 - number])
    model.may_finish.set()
    with pytest.raises(work_queue.Fault) as raised:
      await tasks[1]
    assert raised.value.__cause__ is FAULTS[number]
    assert await tasks[0] == [2]
    # More often than there are threads: none of them has ended.
    for _ in range(work_queue._THREADS + 1):
      with pytest.raises(work_queue.Fault):
        await queue.submit([-1 - number])
    assert await queue.submit([4]) == [8] and not queue.fault()

  run(scenario)


def test_an_invalid_text_stays_an_input_error():
  def refuse(rows):
    raise errors.InputError("no such word")

  async def scenario(queue, model):
    with pytest.raises(errors.InputError, match="no such word"):
      await queue.submit([1], refuse)
    with pytest.raises(work_queue.Fault, match="1 answers to 2 texts"):
      await queue.submit([1, 2], lambda rows: [1])

  run(scenario)


def test_the_queue_is_bounded():
  async def scenario(queue, model):
    tasks = await start(queue, model, [1, 2])
    queue.require_room()
    with pytest.raises(work_queue.QueueFull):
      await queue.submit([3, 4])
    with pytest.raises(work_queue.QueueFull):
      await queue.submit([3], cost=2)
    tasks += await start(queue, model, [3])
    with pytest.raises(work_queue.QueueFull):
      queue.require_room()
    model.may_finish.set()
    await asyncio.gather(*tasks)
    for rows, cost in (([1] * 4, 1), ([1, 2], 2)):
      with pytest.raises(
        errors.InputError, match=says("4", "3", "most", "fit")
      ):
        await queue.submit(rows, cost=cost)

  run(scenario, max_queue=3)


def test_the_client_of_a_request_may_leave():
  async def scenario(queue, model):
    leaving, staying = await start(queue, model, [1], [2])
    leaving.cancel()
    await asyncio.sleep(0)
    assert queue.queue_length == 1
    model.may_finish.set()
    assert await staying == [4]
    assert await queue.submit([3]) == [6]

  run(scenario)


def test_the_model_learns_that_a_client_left():
  works = []

  def answer(rows):
    works.append(work_queue.current_work())
    until = time.monotonic() + 60
    while not works[0].is_abandoned and time.monotonic() < until:
      time.sleep(0.01)
    return rows

  async def scenario(queue, model):
    with pytest.raises(asyncio.TimeoutError):
      await asyncio.wait_for(queue.submit([1], answer), 0.1)
    assert works[0].is_abandoned

  run(scenario)
  assert work_queue.current_work() is None


def test_closing_finishes_waiting_requests_and_refuses_new_ones():
  async def scenario(queue, model):
    tasks = await start(queue, model, [1], [2])
    closing = asyncio.create_task(queue.close())
    await asyncio.sleep(0)
    assert "shutting down" in queue.fault()
    with pytest.raises(work_queue.Closed):
      await queue.submit([3])
    model.may_finish.set()
    assert await asyncio.gather(*tasks) == [[2], [4]]
    await closing

  run(scenario)


def test_threads_that_all_take_too_long_are_a_fault(monkeypatch):
  monkeypatch.setattr(work_queue, "_THREADS", 2)

  async def scenario(queue, model):
    tasks = await start(queue, model, [1])
    await asyncio.sleep(0.02)
    assert not queue.fault()
    tasks += await start(queue, model, [2])
    await asyncio.sleep(0.02)
    assert "all 2 threads" in queue.fault()
    model.may_finish.set()
    await asyncio.gather(*tasks)
    assert not queue.fault()

  run(scenario, timeout_s=0.01)


def test_threads_that_are_all_busy_are_no_fault(monkeypatch):
  monkeypatch.setattr(work_queue, "_THREADS", 2)

  async def scenario(queue, model):
    tasks = await start(queue, model, [1], [2])
    assert not queue.fault()
    model.may_finish.set()
    await asyncio.gather(*tasks)

  run(scenario, timeout_s=60.0)
