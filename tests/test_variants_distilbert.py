"""Tests DistilBERT: names, configurations, impossible conversions."""

import json
import pathlib
import shutil

import numpy as np
import pytest
import safetensors.numpy

import configuration
import modeling
import stored_weights
import transformers_goldens
from checkpoints import converter, huggingface, weight_files
from common import errors
from message_facts import says

GOLDEN = pathlib.Path("tests/golden/distilbert")


@pytest.fixture
def model(tmp_path):
  copy = tmp_path / "model"
  shutil.copytree(GOLDEN / "DistilBertForMaskedLM", copy)
  return copy


def test_a_copy_of_tied_weights_is_skipped_if_it_is_equal(model):
  path = model / "model.safetensors"
  tensors = safetensors.numpy.load_file(path)
  table = tensors["distilbert.embeddings.word_embeddings.weight"]
  tied = {**tensors, "vocab_projector.weight": table.copy()}
  safetensors.numpy.save_file(tied, path)
  expected = stored_weights.read(str(GOLDEN / "DistilBertForMaskedLM"))
  reader = weight_files.open_reader(str(model))
  transformers_goldens.check_equal(
    {n: reader.read(n) for n in reader.shapes}, expected
  )
  assert "are not read: vocab_projector.weight" in reader.notes[0]
  # Without a config.json, the names determine the variant.
  (model / "config.json").unlink()
  alone = weight_files.open_reader(str(path))
  assert alone.shapes == reader.shapes
  safetensors.numpy.save_file({**tied, "vocab_projector.weight": -table}, path)
  with pytest.raises(
    errors.InputError, match="vocab_projector.weight differs from distilbert"
  ):
    weight_files.open_reader(str(model))


def test_configurations_are_converted_both_ways():
  huggingface_values = {
    "model_type": "distilbert",
    "dim": 24,
    "n_layers": 3,
    "n_heads": 4,
    "hidden_dim": 20,
    "activation": "gelu",
    "dropout": 0.25,
    "attention_dropout": 0.5,
    "max_position_embeddings": 7,
    "vocab_size": 9,
    "initializer_range": 0.5,
  }
  values = configuration.from_huggingface(huggingface_values)
  expected = {
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 20,
    "hidden_act": "gelu_erf",
    "hidden_dropout_prob": 0.25,
    "attention_probs_dropout_prob": 0.5,
  }
  assert values.items() >= expected.items()
  config = modeling.BertConfig.from_dict(values)
  # A configuration of this project is not read as Hugging Face's.
  again = modeling.BertConfig.from_dict(json.loads(config.to_json_string()))
  assert again.to_dict() == config.to_dict()
  back = configuration.to_huggingface(values, "DistilBertModel")
  assert back.items() >= huggingface_values.items()
  assert back["architectures"] == ["DistilBertModel"]
  assert "type_vocab_size" not in back and "layer_norm_eps" not in back


def test_a_pooler_is_written_only_for_the_classifier(tmp_path):
  reader = weight_files.open_reader(
    str(GOLDEN / "DistilBertForTokenClassification")
  )
  weights = {name: reader.read(name) for name in reader.shapes}
  # A tagger of run_ner.py has an untrained pooler.
  weights["bert/pooler/dense/kernel"] = np.zeros([8, 8], np.float32)
  weights["bert/pooler/dense/bias"] = np.zeros([8], np.float32)
  for suffix, expected in (("Token", False), ("Sequence", True)):
    names = huggingface.write(
      str(tmp_path),
      weights,
      reader.config,
      architecture=f"DistilBertFor{suffix}Classification",
    )
    assert ("bert/pooler/dense/kernel" in names) == expected


@pytest.mark.parametrize(
  "target, options, message",
  [
    ("model_garden", {}, "this model is distilbert"),
    (
      "huggingface",
      {"architecture": "BertModel"},
      says(
        "--architecture=BertModel",
        "DistilBertForQuestionAnswering",
        "not",
        "fit",
      ),
    ),
  ],
)
def test_impossible_conversions(model, tmp_path, target, options, message):
  source = converter.open_source(str(model))
  with pytest.raises(errors.InputError, match=message):
    converter.convert(source, f"{tmp_path}/out", target, **options)
  assert not (tmp_path / "out").exists()
