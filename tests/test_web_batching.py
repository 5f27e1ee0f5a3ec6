"""Tests which requests batching.py joins, refuses, drops and finishes."""

import asyncio
import threading

import pytest

from common import errors
from web import batching

AN_HOUR = 3.6e6  # In ms.


class Model:
  """Doubles numbers, records its batches, and waits for `may_finish`."""

  def __init__(self):
    self.batches = []
    self.started = threading.Semaphore(0)
    self.may_finish = threading.Event()
    self.may_finish.set()

  def __call__(self, rows):
    self.batches.append(rows)
    self.started.release()
    assert self.may_finish.wait(60)
    if min(rows) < 0:
      raise ValueError("negative")
    return [2 * row for row in rows]


def run(scenario, max_batch_delay_ms=0, **limits):
  model = Model()

  async def main():
    batcher = batching.Batcher(
      model, batching.Limits(max_batch_delay_ms=max_batch_delay_ms, **limits)
    )
    await batcher.start()
    try:
      await scenario(batcher, model)
    finally:
      model.may_finish.set()
      await batcher.close()

  asyncio.run(main())
  return model


async def submit(batcher, *values):
  return await batcher.submit(list(values))


async def start_one(batcher, model):
  """Submits a 0 that keeps the model busy, so later requests wait."""
  model.may_finish.clear()
  task = asyncio.create_task(submit(batcher, 0))
  await asyncio.get_running_loop().run_in_executor(None, model.started.acquire)
  return task


async def submit_each(batcher, *requests):
  """Submits requests; returns their tasks."""
  tasks = [
    asyncio.create_task(submit(batcher, *request)) for request in requests
  ]
  await asyncio.sleep(0)
  return tasks


@pytest.mark.parametrize(
  "limits, batches",
  [({}, [[1, 2, 3, 4]]), ({"max_batch_size": 3}, [[1, 2, 3], [4]])],
)
def test_requests_that_wait_are_computed_together(limits, batches):
  async def scenario(batcher, model):
    first = await start_one(batcher, model)
    tasks = await submit_each(batcher, [1], [2, 3], [4])
    model.may_finish.set()
    answers = await asyncio.gather(first, *tasks)
    assert answers == [[0], [2], [4, 6], [8]]

  assert run(scenario, **limits).batches == [[0], *batches]


def test_a_full_batch_does_not_wait_for_its_delay():
  async def scenario(batcher, model):
    tasks = await submit_each(batcher, [1], [2])
    assert await asyncio.gather(*tasks) == [[2], [4]]

  model = run(scenario, max_batch_delay_ms=AN_HOUR, max_batch_size=2)
  assert len(model.batches) == 1


def test_a_bad_request_does_not_fail_other_requests():
  async def scenario(batcher, model):
    first = await start_one(batcher, model)
    good, bad = await submit_each(batcher, [1], [-1])
    model.may_finish.set()
    assert await good == [2]
    with pytest.raises(ValueError, match="negative"):
      await bad
    assert await first == [0]

  run(scenario)


def test_the_queue_is_bounded():
  async def scenario(batcher, model):
    first = await start_one(batcher, model)
    tasks = await submit_each(batcher, [1, 2])
    batcher.require_room()
    with pytest.raises(batching.QueueFull):
      await submit(batcher, 3, 4)
    tasks += await submit_each(batcher, [3])
    with pytest.raises(batching.QueueFull):
      batcher.require_room()
    model.may_finish.set()
    await asyncio.gather(first, *tasks)

  run(scenario, max_queue=3)


def test_a_cancelled_request_is_not_computed():
  async def scenario(batcher, model):
    first = await start_one(batcher, model)
    cancelled, remaining = await submit_each(batcher, [1], [2])
    cancelled.cancel()
    await asyncio.sleep(0)
    model.may_finish.set()
    assert await remaining == [4] and await first == [0]

  assert run(scenario).batches == [[0], [2]]


def test_closing_finishes_waiting_requests_and_refuses_new_ones():
  async def scenario(batcher, model):
    first = await start_one(batcher, model)
    tasks = await submit_each(batcher, [1])
    closing = asyncio.create_task(batcher.close())
    await asyncio.sleep(0)
    with pytest.raises(batching.Closed):
      await submit(batcher, 2)
    model.may_finish.set()
    assert await asyncio.gather(first, *tasks) == [[0], [2]]
    await closing

  run(scenario)


def test_closing_does_not_wait_for_a_fuller_batch():
  async def scenario(batcher, model):
    (task,) = await submit_each(batcher, [1])
    await batcher.close()
    assert await task == [2]

  run(scenario, max_batch_delay_ms=AN_HOUR)


def test_a_large_request_is_computed_in_several_batches():
  async def scenario(batcher, model):
    assert await submit(batcher, 1, 2, 3, 4, 5) == [2, 4, 6, 8, 10]
    with pytest.raises(ValueError, match="negative"):
      await submit(batcher, 1, 2, 3, 4, -1)
    assert await submit(batcher, 6) == [12]
    with pytest.raises(
      errors.InputError, match="7 instances in one request; at most 6 fit"
    ):
      await submit(batcher, *range(7))

  model = run(scenario, max_batch_size=2, max_queue=6)
  assert model.batches[:3] == [[1, 2], [3, 4], [5]]


def test_requests_that_waited_during_a_batch_do_not_wait_again():
  """The delay counts from the arrival of a request."""
  delay = 1.0

  async def scenario(batcher, model):
    first = await start_one(batcher, model)
    (second,) = await submit_each(batcher, [1])
    await asyncio.sleep(delay)
    model.may_finish.set()
    await first
    start = asyncio.get_running_loop().time()
    assert await second == [2]
    assert asyncio.get_running_loop().time() - start < delay / 2

  run(scenario, max_batch_delay_ms=1000 * delay)
