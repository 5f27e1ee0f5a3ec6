"""Tests ALBERT: shared layers, names of released checkpoints, conversions."""

import gzip
import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

import heads
import modeling
import named_weights
import tiny_model
import transformers_goldens
from common import errors, json_files, run_settings
from tiny_model import TINY, batch
from training import layer_rates
from variants import registry, vocabularies, vocabulary_files

GOLDEN = pathlib.Path("tests/golden/albert")


def config_of(**changes):
  return modeling.BertConfig.from_dict(
    {
      **TINY,
      "variant": "albert",
      "embedding_size": 6,
      "num_hidden_groups": 1,
      **changes,
    }
  )


def test_groups_share_their_weights_and_layers_are_divided_among_them():
  model = registry.make_encoder(
    config_of(num_hidden_layers=5, num_hidden_groups=2)
  )
  names = [named_weights.variable_name(v) for v in model.variables]
  assert names == list(registry.shapes(model.config))
  assert sum("/query/kernel" in name for name in names) == 2
  # A change of a group's kernel affects the outputs of its layers.
  first, second = (
    v for v in model.variables if "attention_1/self/value/kernel" in v.name
  )
  for kernel, first_changed in ((second, 3), (first, 0)):
    before = model(*batch()).all_encoder_layers
    kernel.assign_add(tf.ones_like(kernel))
    after = model(*batch()).all_encoder_layers
    equal = [bool(np.array_equal(old, new)) for old, new in zip(before, after)]
    assert equal == [True] * first_changed + [False] * (5 - first_changed)


def test_names_equal_those_in_the_released_checkpoints():
  names = registry.shapes(config_of())
  inner = "bert/encoder/transformer/group_0/inner_group_0"
  assert names["bert/embeddings/word_embeddings"] == (30, 6)
  assert names["bert/encoder/embedding_hidden_mapping_in/kernel"] == (6, 16)
  layer_names = {n.removeprefix(f"{inner}/") for n in names if inner in n}
  assert layer_names == {
    *(
      f"attention_1/self/{part}/{end}"
      for part in ("query", "key", "value")
      for end in ("kernel", "bias")
    ),
    *(
      f"{dense}/{end}"
      for dense in (
        "attention_1/output/dense",
        "ffn_1/intermediate/dense",
        "ffn_1/intermediate/output/dense",
      )
      for end in ("kernel", "bias")
    ),
    *(
      f"{norm}/{end}"
      for norm in ("LayerNorm", "LayerNorm_1")
      for end in ("beta", "gamma")
    ),
  }


def test_all_pretraining_heads_equal_transformers():
  model = transformers_goldens.Loaded(GOLDEN / "AlbertForPreTraining")
  head = model.head(
    heads.MaskedLMHead(model.config, model.bert.word_embeddings)
  )
  model.check("prediction_logits", head(model.output.sequence_output))
  head = model.head(heads.NextSentenceHead(model.config))
  model.check("sop_logits", head(model.output.pooled_output))
  model = transformers_goldens.Loaded(GOLDEN / "AlbertModel")
  model.check("pooler_output", model.output.pooled_output)


def test_training_reaches_every_weight():
  model = registry.make_encoder(config_of(), recompute_activations=True)
  with tf.GradientTape() as tape:
    output = model(*batch(), training=True, dropout_seed=[1, 2])
    loss = tf.reduce_sum(output.pooled_output)
  gradients = tape.gradient(loss, model.trainable_variables)
  assert all(gradient is not None for gradient in gradients)
  assert len(gradients) == len(registry.shapes(model.config))


def test_the_encoder_can_only_be_frozen_as_a_whole():
  config = config_of()
  names = [*registry.shapes(config), "output_weights"]
  assert layer_rates.trainable_names(names, 2, freeze_layers=2) == [
    "bert/pooler/dense/kernel",
    "bert/pooler/dense/bias",
    "output_weights",
  ]
  registry.check_layer_rates(config, 0, 1.0)
  for flags, flag in (((1, 1.0), "freeze_layers"), ((0, 0.9), "layerwise_lr")):
    with pytest.raises(errors.InputError, match=f"--{flag}.*share their we"):
      registry.check_layer_rates(config, *flags)


def test_a_folder_without_a_vocabulary_is_refused_where_text_is_read(tmp_path):
  shutil.copy(GOLDEN / "AlbertForMaskedLM" / "config.json", tmp_path)
  values = {"model_dir": str(tmp_path), "vocab_file": None}
  values.update(bert_config_file=None, init_checkpoint=None)
  flags = {"model_dir": str(tmp_path)}
  settings = run_settings.Settings({**values, "do_lower_case": True}, flags)
  with pytest.raises(errors.InputError, match="lacks vocab.txt or tokeni"):
    tiny_model.completed(settings)
  # run_pretraining.py needs no vocabulary. A given --vocab_file is used.
  resolved = tiny_model.completed(run_settings.Settings(values, flags))
  assert resolved.init_checkpoint == str(tmp_path)
  vocab_file = tmp_path / "own.txt"
  vocab_file.write_text("[PAD]\n")
  text_values = {**values, "vocab_file": str(vocab_file), "do_lower_case": True}
  flags = {**flags, "vocab_file": str(vocab_file)}
  resolved = tiny_model.completed(run_settings.Settings(text_values, flags))
  assert resolved.vocab_file == str(vocab_file)
  (tmp_path / "spiece.model").touch()
  with pytest.raises(errors.InputError, match="spiece.model has 0 pieces"):
    tiny_model.completed(settings)


def test_ids_from_tokenizer_json_equal_transformers(tmp_path):
  data = gzip.decompress((GOLDEN / "tokenizer.json.gz").read_bytes())
  (tmp_path / "tokenizer.json").write_bytes(data)
  json_files.write(
    str(tmp_path / "tokenizer_config.json"),
    {"do_lower_case": True, "tokenizer_class": "AlbertTokenizer"},
  )
  files = vocabulary_files.of_folder(str(tmp_path), "albert")
  files.check()
  tokenizer = vocabularies.make_tokenizer(files)
  texts = json.loads((GOLDEN / "tokenizer_ids.json").read_text())
  assert len(texts) > 30
  for text, ids in texts:
    assert tokenizer.encode(text) == ids
