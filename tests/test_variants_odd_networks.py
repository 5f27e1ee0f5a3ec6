"""Tests that unusual network settings are computed, or refused by name."""

import json
import shutil

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

import configuration
import engine_models
import heads
import modeling
from checkpoints import converter, weight_files
from common import errors, file_io
from exports import onnx_graph
from message_facts import says
from script_runner import ROOT
from variants import registry

GOLDEN = ROOT / "tests" / "golden" / "odd_networks"
LOGITS = dict(np.load(GOLDEN / "logits.npz"))
NAMES = sorted(LOGITS.keys() - {"ids"})


def logits_of(folder):
  """Returns the logits of a folder's masked-LM head."""
  config = modeling.BertConfig.from_dict(
    weight_files.open_reader(str(folder)).config
    or configuration.read(str(folder / "bert_config.json"))
  )
  bert = registry.make_encoder(config)
  head = heads.MaskedLMHead(config, bert.word_embeddings)
  weight_files.load(
    [*bert.variables, *head.variables],
    str(folder),
    allowed_missing=heads.POOLER,
  )
  states = bert(tf.constant(LOGITS["ids"])).sequence_output
  return head(states).numpy()


def assert_same(logits, name):
  engine_models.assert_close(logits, LOGITS[name])


@pytest.mark.parametrize("name", NAMES)
def test_logits_equal_transformers(name):
  assert_same(logits_of(GOLDEN / name), name)


@pytest.mark.parametrize("name", NAMES)
def test_conversions_keep_the_network(name, tmp_path):
  source = converter.open_source(str(GOLDEN / name))
  converter.convert(source, str(tmp_path / "tf1"), "tf1")
  assert_same(logits_of(tmp_path / "tf1"), name)
  back = converter.open_source(str(tmp_path / "tf1"))
  converter.convert(back, str(tmp_path / "hf"), "huggingface")
  assert_same(logits_of(tmp_path / "hf"), name)
  values = json.loads((tmp_path / "hf" / "config.json").read_text())
  expected = json.loads((GOLDEN / name / "config.json").read_text())
  assert values["layer_norm_eps"] == expected["layer_norm_eps"]


@pytest.mark.parametrize("name", NAMES)
def test_onnx_has_the_network(name, tmp_path):
  onnxruntime = pytest.importorskip("onnxruntime")
  reader = weight_files.open_reader(str(GOLDEN / name))
  config = modeling.BertConfig.from_dict(reader.config)
  weights = {key: reader.read(key) for key in reader.shapes}
  graph = onnx_graph.make("masked_lm", weights, config)
  onnx_graph.write(str(tmp_path / "model.onnx"), graph)
  session = onnxruntime.InferenceSession(
    str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"]
  )
  ids = LOGITS["ids"]
  inputs = (ids, np.ones_like(ids), np.zeros_like(ids))
  (logits,) = session.run(None, engine_models.feed(config, inputs))
  assert_same(logits, name)


def copy_with(tmp_path, change):
  """Copies BERT's golden folder with changed tensors; returns the copy."""
  folder = tmp_path / "model"
  shutil.copytree(GOLDEN / "bert", folder)
  path = folder / "model.safetensors"
  tensors = safetensors.numpy.load_file(path)
  safetensors.numpy.save_file(change(tensors), path, {"format": "pt"})
  return folder


@pytest.mark.parametrize("prefix", ["module.", "model.", "module.model."])
def test_a_common_prefix_of_names_is_removed(tmp_path, prefix):
  folder = copy_with(
    tmp_path,
    lambda tensors: {prefix + name: value for name, value in tensors.items()},
  )
  assert_same(logits_of(folder), "bert")


def test_rows_that_pad_a_table_are_left_out(tmp_path, caplog):
  def padded(tensors):
    return {
      name: np.concatenate([value, value[:6]])
      if value.shape[:1] == (20,)
      else value
      for name, value in tensors.items()
    }

  assert_same(logits_of(copy_with(tmp_path, padded)), "bert")
  assert "has 26 rows, but the vocabulary has 20 entries" in caplog.text


@pytest.mark.parametrize(
  "key, value",
  [
    ("ln_type", "preln"),
    ("use_bottleneck", True),
    ("trigram_input", True),
    ("intra_bottleneck_size", 128),
    ("normalization_type", "no_norm"),
    ("inner_group_num", 2),
    ("net_structure_type", 1),
  ],
)
def test_another_network_is_refused_by_name(tmp_path, key, value):
  path = tmp_path / "bert_config.json"
  for values in ({"vocab_size": 9}, {"model_type": "bert"}):
    path.write_text(json.dumps({**values, key: value}))
    with pytest.raises(errors.InputError, match=f"{key} is {value!r}, which"):
      configuration.read(str(path))


def test_albert_config_json_selects_albert(tmp_path):
  path = tmp_path / "albert_config.json"
  values = {"vocab_size": 9, "embedding_size": 6, "num_hidden_groups": 1}
  path.write_text(json.dumps({**values, "inner_group_num": 1}))
  assert configuration.read(str(path))["variant"] == "albert"


def test_ernie_with_tasks_is_refused():
  with pytest.raises(errors.InputError, match=says("model_type", "'ernie'")):
    configuration.from_huggingface({"model_type": "ernie", "use_task_id": True})


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_pointer_of_git_lfs_is_recognized(tmp_path, name):
  folder = tmp_path / "model"
  shutil.copytree(GOLDEN / "bert", folder)
  (folder / name).write_text(
    "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n"
  )
  with pytest.raises(errors.InputError, match=f"{name} is a Git LFS pointer"):
    weight_files.open_reader(str(folder))
  with pytest.raises(errors.InputError, match="git lfs pull"):
    file_io.open_for_reading(str(folder / name))


@pytest.mark.parametrize("name", ["../x.safetensors", "/x", "a/b.safetensors"])
def test_an_index_names_files_next_to_it(tmp_path, name):
  (tmp_path / "config.json").write_text('{"model_type": "bert"}')
  (tmp_path / "model.safetensors.index.json").write_text(
    json.dumps({"weight_map": {"a": name}})
  )
  with pytest.raises(errors.InputError, match="only files next to it are read"):
    weight_files.open_reader(str(tmp_path))
