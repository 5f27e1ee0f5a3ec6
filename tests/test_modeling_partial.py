"""Tests that what the encoder skips does not change what it computes."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import modeling
from encoder_cases import SHAPES, Case, check_same, check_same_step
from tiny_model import tiny


@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_the_last_layer_at_some_positions_equals_the_full_one(number):
  case = Case(number)
  partial, full = case.step(True), case.step(False)
  check_same(partial[0], full[0], 5e-6)
  check_same(partial[1], full[1], 5e-6)
  check_same_step(partial, full)


def rows_of_products(monkeypatch, *data, skip_padding=False, **options):
  """Returns how many rows each matrix product of a one-layer model has."""
  # Inline the layers: get_operations() omits operations of inner functions.
  monkeypatch.setattr(tf, "inside_function", lambda: False)
  config = tiny(num_hidden_layers=1)
  model = modeling.BertModel(config, skip_padding=skip_padding)

  @tf.function
  def rows(*data):
    model(*data, **options)
    graph = tf.compat.v1.get_default_graph()
    return [
      tf.shape(op.outputs[0])[0]
      for op in graph.get_operations()
      if op.type == "MatMul"
    ]

  return sorted(int(number) for number in rows(*data))


def test_products_run_only_for_the_needed_rows(monkeypatch):
  rows = functools.partial(rows_of_products, monkeypatch)
  ids, needed = tf.zeros([3, 8], tf.int32), tf.zeros([3, 1], tf.int32)
  assert rows(ids) == [3] + [24] * 7
  # 24 rows: segments, keys and values. 3 rows: queries, attention output, both
  # feed-forward products and the pooler.
  assert rows(ids, positions=needed) == [3] * 5 + [24] * 3
  # 15 of the 24 tokens are padding.
  mask = tf.constant(np.arange(8) < [[2], [1], [6]], tf.int32)
  counts = rows(ids, mask, skip_padding=True, positions=needed)
  assert counts == [3] * 5 + [9] * 3
