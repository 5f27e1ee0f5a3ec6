"""Names of weights map one to one, and layouts lose no value."""

import numpy as np
import pytest

import configuration
import heads
import tiny_model
from checkpoints import weight_names
from common import flag_values
from variants import spanbert

CONFIG = tiny_model.tiny(num_hidden_layers=3)
NAMES = {
  **configuration.bert_shapes(CONFIG),
  **heads.masked_lm_shapes(CONFIG),
  **heads.output_shapes(CONFIG, "cls/seq_relationship/", 2),
  **heads.output_shapes(CONFIG, "", 2),
  **heads.output_shapes(CONFIG, "cls/squad/", 2),
  **spanbert.pair_target_shapes(CONFIG),
}
# The number of weights without a counterpart: in Model Garden, the heads of
# classifiers and of SQuAD; in DistilBERT, segment embeddings and the
# next-sentence head; in both, the span boundary head.
MISSING = {"bert": 0, "model_garden": 14, "distilbert": 13}


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


# The layer before the output in transformers' classes for multiple choice
# (5.24, which loads the written files without missing or unused weights).
CHOICE_LAYERS = {
  "albert": "albert.pooler",
  "bert": "bert.pooler.dense",
  "camembert": "roberta.pooler.dense",
  "distilbert": "pre_classifier",
  "electra": "sequence_summary.summary",
  "roberta": "roberta.pooler.dense",
  "xlm-roberta": "roberta.pooler.dense",
}


@pytest.mark.parametrize("variant", sorted(CHOICE_LAYERS))
def test_a_model_for_multiple_choice_has_its_own_class(variant):
  title = flag_values.HUGGINGFACE_TITLES[variant]
  tf1 = {
    "bert/pooler/dense/bias": f"{CHOICE_LAYERS[variant]}.bias",
    "output_weights": "classifier.weight",
    "output_bias": "classifier.bias",
  }
  written = weight_names.to_write(tf1, variant, f"{title}ForMultipleChoice")
  assert {row.tf1: row.name for row in written} == tf1
  found, _ = weight_names.find(variant, tf1.values())
  assert {name: found[name][0] for name in found} == tf1


def test_nvidias_fused_layers_are_berts():
  names = {
    "bert/pooler/dense/kernel": "bert.pooler.dense_act.weight",
    "bert/encoder/layer_1/intermediate/dense/bias": (
      "bert.encoder.layer.1.intermediate.dense_act.bias"
    ),
    "cls/predictions/transform/dense/kernel": (
      "cls.predictions.transform.dense_act.weight"
    ),
  }
  found, _ = weight_names.find("bert", names.values())
  assert {tf1: name for tf1, (name, _) in found.items()} == names


def test_the_boundary_head_has_the_shapes_of_spanbert():
  """Its authors' code: 20 places, 200 wide, and two layers with norms."""
  config = tiny_model.tiny()  # H = 16, V = 30.
  for width, last in ((None, 16), (6, 6)):
    found = {
      name.removeprefix("cls/pair_target_predictions/"): shape
      for name, shape in spanbert.pair_target_shapes(config, width).items()
    }
    norm = "mlp_layer_norm/layer_norm"
    assert found == {
      "position_embeddings": (20, 200),
      "mlp_layer_norm/linear1/kernel": (232, 16),
      "mlp_layer_norm/linear1/bias": (16,),
      f"{norm}1/beta": (16,),
      f"{norm}1/gamma": (16,),
      "mlp_layer_norm/linear2/kernel": (16, last),
      "mlp_layer_norm/linear2/bias": (last,),
      f"{norm}2/beta": (last,),
      f"{norm}2/gamma": (last,),
      "output_bias": (30,),
    }
