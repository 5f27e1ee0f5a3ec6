"""The configuration's variant decides which encoder is made."""

import math

import numpy as np
import pytest

import configuration
import layers
import modeling
from common import errors
from tiny_model import TINY, batch, tiny
from variants import distilbert, registry


def config_of(variant, **changes):
  return modeling.BertConfig.from_dict({**TINY, **changes, "variant": variant})


def test_a_configuration_without_a_variant_is_berts():
  model = registry.make_encoder(tiny(), seed=3)
  assert type(model) is modeling.BertModel
  assert registry.name_of(tiny()) == "bert"
  assert registry.shapes(tiny()) == configuration.bert_shapes(tiny())


def test_the_variant_decides_the_class_and_its_variables():
  config = config_of("distilbert", num_hidden_layers=3)
  model = registry.make_encoder(config, scope="student")
  assert type(model) is distilbert.DistilBertModel
  shapes = registry.shapes(config, "student")
  found = {layers.variable_name(v): tuple(v.shape) for v in model.variables}
  assert found == shapes
  without = configuration.bert_shapes(config, "student").keys() - shapes.keys()
  assert without == {"student/embeddings/token_type_embeddings"}
  assert config.num_parameters(registry.shapes) == sum(
    math.prod(shape) for shape in shapes.values()
  )


def test_an_unknown_variant_is_refused_by_its_name():
  with pytest.raises(
    errors.InputError, match="variant 'gpt'; known are .*bert, distilbert"
  ):
    registry.make_encoder(config_of("gpt"))


def test_distilbert_has_no_segments_and_pools_with_relu():
  model = registry.make_encoder(config_of("distilbert"))
  ids, mask, segments = batch()
  output = model(ids, mask, segments)
  without = model(ids, mask)
  np.testing.assert_array_equal(output.sequence_output, without.sequence_output)
  values = {v.name: v for v in model.variables}
  product = output.sequence_output[:, 0] @ values["bert/pooler/dense/kernel:0"]
  np.testing.assert_allclose(
    output.pooled_output, np.maximum(product, 0), atol=1e-5
  )
