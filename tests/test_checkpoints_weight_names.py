"""The table of names: complete, one to one, and no number lost."""

import numpy as np
import pytest

import heads
import layers
import modeling
import tiny_model
from checkpoints import weight_names
from tagging import bilstm

CONFIG = tiny_model.tiny()


def test_every_variable_of_the_project_is_in_the_table():
  tagger = bilstm.FeatureTagger(
    CONFIG, 2, features="weighted_sum_all", size=2
  )
  names = {
    *modeling.bert_shapes(CONFIG),
    *heads.masked_lm_shapes(CONFIG),
    *heads.output_shapes(CONFIG, "cls/seq_relationship/", 2),
    *heads.output_shapes(CONFIG, "", 2),
    *heads.output_shapes(CONFIG, "cls/squad/", 2),
    *map(layers.variable_name, tagger.variables),
  }
  assert {row.tf1 for row in weight_names.table(2)} == names
  assert weight_names.count_layers(names) == 2


def test_names_are_one_to_one():
  rows = weight_names.table(3)
  for column in ("tf1", "huggingface", "model_garden"):
    names = [getattr(row, column) for row in rows if getattr(row, column)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("layout", weight_names.LAYOUTS)
def test_layouts_lead_back(layout):
  shape = [8] if layout == "heads" else [8, 8]
  value = np.random.RandomState(0).rand(*shape)
  there = weight_names.from_tf1(value, layout, 2)
  assert there.flags.c_contiguous
  np.testing.assert_array_equal(weight_names.to_tf1(there, layout), value)


def test_layouts_cut_heads_where_they_are():
  value = np.arange(16).reshape(4, 4)
  out = weight_names.from_tf1(value, "heads_out", 2)
  np.testing.assert_array_equal(out[:, 1], value[:, 2:])
  into = weight_names.from_tf1(value, "heads_in", 2)
  np.testing.assert_array_equal(into[1], value[2:])
