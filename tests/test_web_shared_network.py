"""Tests which calls shared_network.py joins, divides, delays and drops."""

import threading
import time
import types

import numpy as np
import pytest

from web import shared_network, work_queue

AN_HOUR = 3.6e6  # In ms.


class Network:
  """Returns sums of ids, and waits for `may_finish`; ids below 0 fail."""

  def __init__(self):
    self.batches = []
    self.may_finish = threading.Event()
    self.may_finish.set()

  def __call__(self, input_ids, **batch):
    self.batches.append(input_ids.tolist())
    assert self.may_finish.wait(60)
    if input_ids.min() < 0:
      raise SystemExit("negative")
    outputs = {"logits": input_ids.sum(1, keepdims=True)}
    if "masked_lm_positions" in batch:
      positions = np.asarray(batch["masked_lm_positions"])
      return {"fillings": np.take_along_axis(input_ids, positions, 1)}
    labels = input_ids[..., np.newaxis] / [1, 2]
    return {
      **outputs,
      "start_logits": input_ids * 10,
      "end_logits": input_ids * 20,
      "probabilities": labels,
    }


class Calls:
  """Calls of a shared network in threads, in an order that is known."""

  def __init__(self, max_batch_delay_ms=0.0, **limits):
    self.network = Network()
    self.shared = shared_network.SharedNetwork(
      self.network,
      work_queue.Limits(max_batch_delay_ms=max_batch_delay_ms, **limits),
    )
    self.results, self.threads = {}, []

  def start(self, name, ids, work=None, **batch):
    """Starts a call, and waits until it is in the queue or computed."""

    def call():
      work_queue._current.work = work
      try:
        self.results[name] = self.shared(input_ids=np.array(ids), **batch)
      except BaseException as error:
        self.results[name] = error

    waiting = len(self.shared._waiting) + len(self.network.batches)
    thread = threading.Thread(target=call, daemon=True)
    self.threads.append(thread)
    thread.start()
    until = time.monotonic() + 30
    while (
      len(self.shared._waiting) + len(self.network.batches) <= waiting
      and thread.is_alive()
    ):
      assert time.monotonic() < until
      time.sleep(0.001)

  def finish(self):
    self.network.may_finish.set()
    for thread in self.threads:
      thread.join(30)
      assert not thread.is_alive()


def test_calls_that_wait_are_computed_together():
  calls = Calls()
  calls.network.may_finish.clear()
  calls.start("first", [[9, 9]])
  calls.start("a", [[1, 2]])
  calls.start("b", [[3, 4, 5], [6, 7, 8]])
  calls.finish()
  assert calls.network.batches == [[[9, 9]], [[1, 2, 0], [3, 4, 5], [6, 7, 8]]]
  assert calls.results["a"]["logits"].tolist() == [[3]]
  # Without the padding that the other call needed.
  assert calls.results["a"]["start_logits"].tolist() == [[10, 20]]
  assert calls.results["a"]["end_logits"].tolist() == [[20, 40]]
  assert calls.results["a"]["probabilities"].tolist() == [[[1, 0.5], [2, 1]]]
  assert calls.results["b"]["start_logits"].shape == (2, 3)
  assert (calls.shared.num_batches, calls.shared.num_sequences) == (2, 4)
  # Those of the last batch, which a fault would end.
  assert len(calls.shared._taken) == 2


def test_masked_positions_are_padded_and_cut():
  calls = Calls()
  calls.network.may_finish.clear()
  calls.start("first", [[9, 9]], masked_lm_positions=[[0]])
  calls.start("a", [[1, 2]], masked_lm_positions=[[1]])
  calls.start("b", [[3, 4]], masked_lm_positions=[[1, 0]])
  calls.finish()
  assert len(calls.network.batches) == 2
  assert calls.results["a"]["fillings"].tolist() == [[2]]
  assert calls.results["b"]["fillings"].tolist() == [[4, 3]]


@pytest.mark.parametrize(
  "limits, sizes",
  [
    ({"max_batch_size": 2}, [2, 2, 1]),
    ({"max_batch_tokens": 6}, [3, 2]),
    ({"max_batch_tokens": 1}, [1] * 5),
    ({}, [5]),
  ],
)
def test_a_large_call_is_divided(limits, sizes):
  calls = Calls(**limits)
  calls.start("a", [[n, n] for n in range(5)])
  calls.finish()
  assert [len(batch) for batch in calls.network.batches] == sizes
  assert calls.results["a"]["logits"].ravel().tolist() == [0, 2, 4, 6, 8]


def test_no_call_gets_more_than_its_share():
  """One long text and two short ones: none waits for the whole long text."""
  calls = Calls(max_batch_size=4)
  calls.network.may_finish.clear()
  calls.start("first", [[9, 9]])
  calls.start("long", [[1, n] for n in range(10)])
  calls.start("a", [[2, 0]])
  calls.start("b", [[3, 0]])
  calls.finish()
  owners = [[row[0] for row in batch] for batch in calls.network.batches]
  # The share of three is one row each; the first one gets what is left.
  assert owners == [[9], [1, 1, 2, 3], [1] * 4, [1] * 4]
  assert len(calls.results["long"]["logits"]) == 10


@pytest.mark.parametrize(
  "size, rows, owners",
  [
    # The first of equals gets what is left.
    (5, (10, 10), [1, 1, 1, 2, 2]),
    (3, (10, 1), [1, 1, 2]),
    (7, (2, 10), [1, 1, 2, 2, 2, 2, 2]),
    # More calls than places: the last one waits.
    (2, (1, 1, 1), [1, 2]),
  ],
)
def test_a_batch_is_full_and_not_more(size, rows, owners):
  calls = Calls(max_batch_size=size)
  calls.network.may_finish.clear()
  calls.start("first", [[9, 9]])
  for number, count in enumerate(rows, 1):
    calls.start(number, [[number, n] for n in range(count)])
  calls.finish()
  assert [row[0] for row in calls.network.batches[1]] == owners
  for number, count in enumerate(rows, 1):
    sums = [number + n for n in range(count)]
    assert calls.results[number]["logits"].ravel().tolist() == sums


def test_short_sequences_do_not_join_long_ones():
  calls = Calls(max_batch_size=4)
  calls.network.may_finish.clear()
  calls.start("first", [[9, 9]])
  calls.start("long", [[1] * 9 for n in range(6)])
  calls.start("short", [[2, 2]])
  calls.finish()
  owners = [[row[0] for row in batch] for batch in calls.network.batches]
  assert owners == [[9], [1] * 4, [2], [1] * 2]


@pytest.mark.parametrize("first, second", [(2, 4), (4, 2), (2, 5), (5, 2)])
def test_sequences_up_to_twice_as_long_share_a_batch(first, second):
  calls = Calls()
  calls.network.may_finish.clear()
  calls.start("running", [[9]])
  calls.start("first", [[1] * first])
  calls.start("second", [[2] * second])
  calls.finish()
  assert len(calls.network.batches) == (2 if 5 not in (first, second) else 3)


@pytest.mark.parametrize("limit, sizes", [(8, [2, 1]), (7, [1, 1, 1])])
def test_a_batch_has_the_most_tokens_that_fit_with_padding(limit, sizes):
  calls = Calls(max_batch_tokens=limit)
  calls.network.may_finish.clear()
  calls.start("running", [[9]])
  calls.start("a", [[1, 2], [1, 3]])
  calls.start("b", [[2] * 4])
  calls.finish()
  assert [len(batch) for batch in calls.network.batches[1:]] == sizes


def test_only_the_call_with_a_fault_fails():
  calls = Calls()
  calls.network.may_finish.clear()
  calls.start("first", [[9, 9]])
  calls.start("good", [[1, 2]])
  calls.start("bad", [[-1, 2], [1, 1]])
  calls.finish()
  assert calls.results["good"]["logits"].tolist() == [[3]]
  assert isinstance(calls.results["bad"], SystemExit)
  calls.start("later", [[4, 4]])
  calls.finish()
  assert calls.results["later"]["logits"].tolist() == [[8]]
  assert not calls.shared._waiting and not calls.shared._has_leader


def test_a_fault_of_its_own_code_stops_no_other_call(monkeypatch):
  calls = Calls()

  def fail(parts):
    raise MemoryError

  calls.network.may_finish.clear()
  calls.start("first", [[9]])
  calls.start("a", [[1]])
  calls.start("b", [[2]])
  with monkeypatch.context() as patch:
    patch.setattr(calls.shared, "_compute", fail)
    calls.finish()
  for name in ("a", "b"):
    assert isinstance(calls.results[name], MemoryError)
  calls.start("c", [[3]])
  calls.finish()
  assert calls.results["c"]["logits"].tolist() == [[3]]


def test_an_abandoned_call_is_not_computed():
  calls = Calls(max_batch_size=1)
  calls.network.may_finish.clear()
  work = types.SimpleNamespace(is_abandoned=False)
  calls.start("long", [[1], [2], [3]], work)
  other = types.SimpleNamespace(is_abandoned=False)
  calls.start("waiting", [[5]], other)
  calls.start("last", [[6]])
  work.is_abandoned = other.is_abandoned = True
  calls.finish()
  assert calls.network.batches == [[[1]], [[6]]]
  assert calls.results["last"]["logits"].tolist() == [[6]]
  for name in ("long", "waiting"):
    assert isinstance(calls.results[name], shared_network._Abandoned)


def test_a_full_batch_does_not_wait_for_its_delay():
  calls = Calls(AN_HOUR, max_batch_size=2)
  calls.start("a", [[1]])
  calls.start("b", [[2]])
  calls.finish()
  assert calls.network.batches == [[[1], [2]]]


def test_a_batch_is_full_with_the_padding_of_its_longest_sequence():
  calls = Calls(AN_HOUR, max_batch_tokens=8)
  calls.start("a", [[1, 2]])
  calls.start("b", [[2] * 4])
  calls.finish()
  assert calls.network.batches == [[[1, 2, 0, 0], [2] * 4]]


def test_the_rest_of_a_large_call_waits_for_others_too():
  calls = Calls(AN_HOUR, max_batch_size=2)
  calls.start("a", [[1], [2], [3]])
  calls.start("b", [[9]])
  calls.finish()
  assert calls.network.batches == [[[1], [2]], [[3], [9]]]


def test_a_call_does_not_wait_if_no_other_request_is_in_progress():
  calls = Calls(AN_HOUR)
  calls.shared.num_requests = lambda: 2
  calls.start("a", [[1]])
  calls.start("b", [[2]])  # Now all of them wait.
  calls.finish()
  assert calls.network.batches == [[[1], [2]]]


def test_calls_that_waited_during_a_batch_do_not_wait_again():
  """The delay counts from the arrival of a call."""
  calls = Calls(1000.0)
  calls.network.may_finish.clear()
  calls.start("a", [[1]])
  until = time.monotonic() + 30
  while not calls.network.batches and time.monotonic() < until:
    time.sleep(0.01)
  calls.start("b", [[2]])
  time.sleep(1)
  began = time.monotonic()
  calls.finish()
  assert time.monotonic() - began < 0.5


def test_a_batch_that_never_ends_is_a_fault():
  calls = Calls(timeout_s=0.01)
  assert not calls.shared.fault()
  calls.network.may_finish.clear()
  calls.start("a", [[1]])
  until = time.monotonic() + 30
  while not calls.shared.fault() and time.monotonic() < until:
    time.sleep(0.01)
  assert "has been computing a batch" in calls.shared.fault()
  calls.finish()
  assert not calls.shared.fault()
