"""Tests RoBERTa: positions, layer norms, configurations, files."""

import json
import shutil

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

import configuration
import modeling
import tiny_model
import transformers_goldens
from checkpoints import converter, growth, model_files, weight_files
from common import errors
from script_runner import ROOT
from variants import registry

GOLDEN = ROOT / "tests" / "golden" / "roberta_models"
TOKENIZERS = ROOT / "tests" / "golden" / "roberta"
POSITIONS = "bert/embeddings/position_embeddings"
VALUES = {
  **tiny_model.TINY,
  "variant": "roberta",
  "pad_token_id": 1,
  "layer_norm_eps": 0.5,
}


def config_of(**changes):
  return modeling.BertConfig.from_dict({**VALUES, **changes})


def test_positions_begin_after_the_padding_position():
  config = config_of()
  assert registry.shapes(config)[POSITIONS] == (14, 16)
  model = registry.make_encoder(config)
  ids, mask, segments = tiny_model.batch()
  expected = model(ids, mask, segments).sequence_output
  # BERT gets the same weights, without the first two positions.
  bert = modeling.BertModel(config_of())
  for variable, source in zip(bert.variables, model.variables):
    variable.assign(source[2:] if POSITIONS in source.name else source)
  np.testing.assert_array_equal(
    bert(ids, mask, segments).sequence_output, expected
  )
  config.check_sequence_length(12)
  with pytest.raises(errors.InputError, match="max_position_embeddings 12"):
    model(tf.zeros([1, 13], tf.int32))


def test_layer_norms_take_the_models_epsilon():
  outputs = [
    registry.make_encoder(config_of(layer_norm_eps=value))(
      *tiny_model.batch()
    ).sequence_output
    for value in (0.5, 1e-12)
  ]
  assert np.abs(outputs[0] - outputs[1]).max() > 0.1
  values = {k: v for k, v in VALUES.items() if k != "layer_norm_eps"}
  bare = registry.make_encoder(modeling.BertConfig.from_dict(values))
  np.testing.assert_array_equal(
    bare(*tiny_model.batch()).sequence_output, outputs[1]
  )


@pytest.mark.parametrize("model_type", ["roberta", "xlm-roberta", "camembert"])
def test_configurations_are_converted_both_ways(model_type):
  huggingface_values = {
    "model_type": model_type,
    "vocab_size": 9,
    "max_position_embeddings": 514,
    "hidden_size": 24,
    "pad_token_id": 1,
    "layer_norm_eps": 1e-5,
    "hidden_act": "gelu",
    "type_vocab_size": 1,
  }
  values = configuration.from_huggingface(huggingface_values)
  assert values["max_position_embeddings"] == 512
  config = modeling.BertConfig.from_dict(values)
  again = modeling.BertConfig.from_dict(json.loads(config.to_json_string()))
  assert again.to_dict() == config.to_dict()
  back = configuration.to_huggingface(again.to_dict(), "RobertaModel")
  assert back.items() >= huggingface_values.items()
  # The default of transformers is 512 rows.
  bare = configuration.from_huggingface({"model_type": model_type})
  assert bare["max_position_embeddings"] == 510
  with pytest.raises(errors.InputError, match="pad_token_id is None"):
    registry.shapes(config_of(pad_token_id=None))
  for name in ("pad_token_id", "max_position_embeddings"):
    with pytest.raises(errors.InputError, match=f"{name} is '512'"):
      configuration.from_huggingface({**huggingface_values, name: "512"})


def test_a_pooler_is_not_confused_with_a_classifiers_dense_layer(tmp_path):
  folder = tmp_path / "model"
  shutil.copytree(GOLDEN / "RobertaForSequenceClassification", folder)
  tensors = transformers_goldens.tensors_of(folder)
  more = {
    "roberta.pooler.dense.weight": np.ones([8, 8], np.float32),
    "roberta.pooler.dense.bias": np.ones([8], np.float32),
    "roberta.embeddings.position_ids": np.arange(14)[np.newaxis],
  }
  safetensors.numpy.save_file({**tensors, **more}, folder / "model.safetensors")
  source = converter.open_source(str(folder))
  np.testing.assert_array_equal(
    source.reader.read("bert/pooler/dense/kernel"),
    tensors["classifier.dense.weight"].T,
  )
  converted = converter.convert(source, f"{tmp_path}/out", "tf1")
  assert sorted(converted.left_out) == sorted(more)[1:]


def test_a_masked_lm_has_no_pooler(tmp_path):
  reader = weight_files.open_reader(str(GOLDEN / "RobertaForMaskedLM"))
  assert "bert/pooler/dense/kernel" not in reader.shapes
  assert "cls/predictions/transform/dense/kernel" in reader.shapes
  with pytest.raises(errors.InputError, match="roberta has no next-sentence"):
    registry.check_next_sentence(config_of(), True)
  registry.check_next_sentence(config_of(), False)


def test_other_vocabulary_files_are_not_read(tmp_path):
  shutil.copy(GOLDEN / "RobertaModel" / "config.json", tmp_path)
  (tmp_path / "vocab.txt").write_text("the 7\n")
  assert "vocab_file" not in model_files.ModelFiles(str(tmp_path)).paths
  path = tmp_path / "tokenizer.json"
  shutil.copy(TOKENIZERS / "bpe" / "tokenizer.json", path)
  assert model_files.ModelFiles(str(tmp_path)).paths["vocab_file"] == str(path)


def test_new_positions_repeat_all_positions_but_the_first(tmp_path):
  source = converter.open_source(str(GOLDEN / "RobertaModel"))
  old_table = source.reader.read(POSITIONS)
  grown, _ = growth.grow(source, str(tmp_path), max_position_embeddings=30)
  assert grown.config.max_position_embeddings == 30
  new_table = grown.reader.read(POSITIONS)
  assert new_table.shape == (32, 8) == tuple(grown.reader.shapes[POSITIONS])
  # New positions 12 and 23 are copies of position 1, which is in row 3.
  np.testing.assert_array_equal(new_table[:14], old_table)
  np.testing.assert_array_equal(new_table[14:25], old_table[3:])
  np.testing.assert_array_equal(new_table[25:], old_table[3:10])
