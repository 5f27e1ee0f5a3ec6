"""Names of weights map one to one, and layouts lose no value."""

import numpy as np
import pytest

import configuration
import heads
import tiny_model
from checkpoints import weight_names

CONFIG = tiny_model.tiny(num_hidden_layers=3)
NAMES = {
  **configuration.bert_shapes(CONFIG),
  **heads.masked_lm_shapes(CONFIG),
  **heads.output_shapes(CONFIG, "cls/seq_relationship/", 2),
  **heads.output_shapes(CONFIG, "", 2),
  **heads.output_shapes(CONFIG, "cls/squad/", 2),
}
# The number of weights without a counterpart: in Model Garden, the heads of
# classifiers and of SQuAD; in DistilBERT, segment embeddings and the
# next-sentence head.
MISSING = {"bert": 0, "model_garden": 4, "distilbert": 3}


@pytest.mark.parametrize("program", MISSING)
def test_names_are_complete_and_one_to_one(program):
  rows = weight_names.rows(program, NAMES)
  assert {row.tf1 for row in rows} <= NAMES.keys()
  assert len(rows) == len(NAMES) - MISSING[program]
  names = {row.name for row in rows}
  assert len(names) == len(rows)
  # `rows` also accepts the program's own names.
  assert weight_names.rows(program, names) == rows


@pytest.mark.parametrize("layout", weight_names.LAYOUTS)
def test_layouts_can_be_reversed(layout):
  shape = (8,) if layout == "heads" else (8, 4)
  value = np.random.RandomState(0).rand(*shape)
  converted = weight_names.from_tf1(value, layout, 2)
  assert converted.flags.c_contiguous
  assert weight_names.LAYOUTS[layout].shape(converted.shape) == shape
  np.testing.assert_array_equal(weight_names.to_tf1(converted, layout), value)


def test_layouts_split_the_axis_of_the_heads():
  value = np.arange(16).reshape(4, 4)
  out = weight_names.from_tf1(value, "heads_out", 2)
  np.testing.assert_array_equal(out[:, 1], value[:, 2:])
  into = weight_names.from_tf1(value, "heads_in", 2)
  np.testing.assert_array_equal(into[1], value[2:])
