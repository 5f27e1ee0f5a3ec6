"""Tests that the configuration's variant determines the encoder."""

import math

import pytest

import configuration
import modeling
import named_weights
from common import errors
from message_facts import says
from tiny_model import TINY, tiny
from variants import distilbert, registry


def config_of(variant, **changes):
  return modeling.BertConfig.from_dict({**TINY, **changes, "variant": variant})


def test_what_is_on_top_must_be_known():
  config = modeling.BertConfig.from_dict({**TINY, "crf_on_top": True})
  with pytest.raises(errors.InputError, match="--on_top=crf.* of bilstm"):
    registry.make_encoder(config)


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
  variables = {
    named_weights.variable_name(v): tuple(v.shape) for v in model.variables
  }
  assert variables == shapes
  missing = configuration.bert_shapes(config, "student").keys() - shapes.keys()
  assert missing == {"student/embeddings/token_type_embeddings"}
  assert config.num_parameters(registry.shapes) == sum(
    math.prod(shape) for shape in shapes.values()
  )


@pytest.mark.parametrize(
  "variant, changes, message",
  [
    ("gpt", {}, says("'gpt'", "expected")),
    ("electra", {}, says("embedding_size", "1", "least")),
    (
      "albert",
      {"embedding_size": 6, "num_hidden_groups": 3},
      "num_hidden_groups is 3 .* less than 3",
    ),
  ],
)
def test_invalid_variants_are_refused(variant, changes, message):
  with pytest.raises(errors.InputError, match=message):
    registry.make_encoder(config_of(variant, **changes))


def sizes(width, depth, heads, inner):
  return {
    "hidden_size": width,
    "num_hidden_layers": depth,
    "num_attention_heads": heads,
    "intermediate_size": inner,
  }


# transformers gives the same counts; its DistilBERT and ELECTRA lack a pooler.
# In the papers: 66 (DistilBERT), 125 (RoBERTa), 12 to 235 million (ALBERT).
@pytest.mark.parametrize(
  "model_type, values, has_pooler, count",
  [
    ("distilbert", {}, False, 66_362_880),
    (
      "roberta",
      {
        "max_position_embeddings": 514,
        "type_vocab_size": 1,
        "vocab_size": 50265,
        "pad_token_id": 1,
      },
      True,
      124_645_632,
    ),
    ("electra", {}, False, 13_483_008),
    (
      "electra",
      {"embedding_size": 768, **sizes(768, 12, 12, 3072)},
      False,
      108_891_648,
    ),
    ("albert", sizes(768, 12, 12, 3072), True, 11_683_584),
    ("albert", sizes(1024, 24, 16, 4096), True, 17_683_968),
    ("albert", sizes(2048, 24, 16, 8192), True, 58_724_864),
    ("albert", sizes(4096, 12, 64, 16384), True, 222_595_584),
  ],
)
def test_weights_of_the_released_sizes(model_type, values, has_pooler, count):
  config = modeling.BertConfig.from_dict(
    configuration.from_huggingface({"model_type": model_type, **values})
  )
  pooler = config.hidden_size * (config.hidden_size + 1)
  total = config.num_parameters(registry.shapes)
  assert total - (0 if has_pooler else pooler) == count
