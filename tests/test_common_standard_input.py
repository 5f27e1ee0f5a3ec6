"""Items are handed on as they arrive, in order, and errors after them."""

import threading

import pytest

from common import standard_input


def test_all_items_arrive_in_order_in_small_lists():
  blocks = [*standard_input.as_they_arrive(range(1000), 7)]
  assert [item for block in blocks for item in block] == [*range(1000)]
  assert {len(block) for block in blocks} <= {*range(1, 8)}
  assert [*standard_input.as_they_arrive([], 7)] == []


def test_an_item_does_not_wait_for_the_next():
  is_answered = threading.Event()

  def typed():
    yield "first"
    assert is_answered.wait(30)
    yield "second"

  blocks = standard_input.as_they_arrive(typed(), 9)
  assert next(blocks) == ["first"]
  is_answered.set()
  assert next(blocks) == ["second"]


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("y")])
def test_an_error_follows_the_items_before_it(error):
  def broken():
    yield 1
    yield None  # Items may be of any type.
    raise error

  found = []
  with pytest.raises(type(error)):
    for block in standard_input.as_they_arrive(broken(), 1):
      found += block
  assert found == [1, None]
