"""Folders with an ONNX model: read back by ONNX Runtime, float32 or 8 bits."""

import json
import os

import numpy as np
import pytest

import engine_models
from common import choices, errors, run_settings
from tiny_model import assert_close, write_vocabulary

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from engines import onnx_engine, onnx_folder, quantization

SETTINGS = {
  "labels": ("bad", "good", "fine"), "output_activation": "softmax",
  "do_lower_case": True, "max_seq_length": 12,
}


def write(tmp_path, head, config=None, change=None, pooling=None, **values):
  """Writes tmp_path/"out"; returns what our own network computes."""
  config = config or engine_models.config_of()
  vocab_file = write_vocabulary(tmp_path)
  settings = run_settings.Settings(
    {**SETTINGS, "vocab_file": vocab_file, "head": head, **values}
  )
  network = engine_models.network(config, head, len(settings.labels) or 1)
  onnx_folder.write(
    str(tmp_path / "out"), network[-1], config, settings, change,
    pooling=pooling,
  )
  return lambda inputs, **options: engine_models.outputs(
    *network[:2], head, inputs, **options
  )


def read_json(tmp_path, name):
  return json.loads((tmp_path / "out" / name).read_text())


@pytest.mark.parametrize("variant", engine_models.VARIANTS)
def test_an_engine_gives_what_our_network_gives(variant, tmp_path):
  expected = write(tmp_path, "span", engine_models.config_of(variant))
  engine = onnx_engine.OnnxEngine(str(tmp_path / "out"), threads=1)
  assert engine.outputs == ["start_logits", "end_logits"]
  for inputs in engine_models.BATCHES:
    found = engine.run(*inputs)
    for name, value in expected(inputs).items():
      assert_close(found[name], value)
  assert list(engine.run(*inputs, outputs=["end_logits"])) == ["end_logits"]


def test_a_file_that_is_no_model_is_named(tmp_path):
  (tmp_path / "model.onnx").write_bytes(b"no model")
  for path in (tmp_path, tmp_path / "nothing.onnx"):
    with pytest.raises(errors.InputError, match="cannot be read by ONNX"):
      onnx_engine.OnnxEngine(str(path))


def test_a_folder_has_what_transformers_reads(tmp_path):
  write(tmp_path, "classification")
  assert sorted(os.listdir(tmp_path / "out")) == [
    "config.json", "model.onnx", "special_tokens_map.json", "tokenizer.json",
    "tokenizer_config.json", "vocab.txt",
  ]
  values = read_json(tmp_path, "config.json")
  assert values["architectures"] == ["BertForSequenceClassification"]
  assert values["problem_type"] == "single_label_classification"
  assert values["id2label"] == {"0": "bad", "1": "good", "2": "fine"}
  assert values["hidden_act"] == "gelu_new"
  values = read_json(tmp_path, "tokenizer_config.json")
  assert (values["model_max_length"], values["pad_token"]) == (12, "[PAD]")


@pytest.mark.parametrize("head, values, name, problem", [
  ("classification", {"labels": (), "output_activation": "linear"},
   "ForSequenceClassification", "regression"),
  ("classification", {"output_activation": "sigmoid"},
   "ForSequenceClassification", "multi_label_classification"),
  ("tagging", {}, "ForTokenClassification", None),
  ("span", {}, "ForQuestionAnswering", None),
  ("masked_lm", {}, "ForMaskedLM", None),
])
def test_the_configuration_says_the_task(tmp_path, head, values, name, problem):
  write(tmp_path, head, engine_models.config_of("distilbert"), **values)
  found = read_json(tmp_path, "config.json")
  assert found["architectures"] == [f"DistilBert{name}"]
  assert found.get("problem_type") == problem
  count = {"regression": 1, "multi_label_classification": 3}.get(problem)
  assert len(found.get("id2label", ())) == (count or 3 * (head == "tagging"))


def test_vectors_have_the_files_of_sentence_transformers(tmp_path):
  write(tmp_path, "embedding", pooling=("mean", ((-2,),), True))
  modules = read_json(tmp_path, "modules.json")
  assert [(m["path"], m["type"].split(".")[-1]) for m in modules] == [
    ("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"),
  ]
  assert (tmp_path / "out" / "2_Normalize").is_dir()
  assert read_json(tmp_path, "1_Pooling/config.json") == {
    "word_embedding_dimension": 16, "pooling_mode_cls_token": False,
    "pooling_mode_max_tokens": False, "pooling_mode_mean_tokens": True,
  }
  values = read_json(tmp_path, "sentence_bert_config.json")
  assert values["max_seq_length"] == 12


@pytest.mark.parametrize("pooling", [
  ("pooled", ((-1,),), False), ("mean", ((-1,), (-2,)), False),
  ("mean", ((-1, -2),), False),
])
def test_a_pooling_that_sentence_transformers_lacks_has_none(pooling, tmp_path):
  write(tmp_path, "embedding", pooling=pooling)
  assert not (tmp_path / "out" / "modules.json").exists()


def test_nothing_half_written_stays(tmp_path):
  def fail(path):
    assert os.path.exists(path)
    raise errors.InputError("too different")

  with pytest.raises(errors.InputError, match="too different"):
    write(tmp_path, "span", change=fail)
  assert os.listdir(tmp_path) == ["vocab.txt"]


def test_a_folder_with_files_is_refused(tmp_path):
  (tmp_path / "out").mkdir()
  write(tmp_path, "span")  # An empty one is not.
  with pytest.raises(errors.InputError, match="there already; give a new"):
    write(tmp_path, "span")


@pytest.mark.parametrize("kind", choices.SERVING_HEADS)
def test_a_quantized_model_is_small_and_near(kind, tmp_path):
  config = engine_models.config_of(
    vocab_size=400, hidden_size=64, intermediate_size=256
  )
  batches = [
    [value.numpy()[:1] for value in inputs] for inputs in engine_models.BATCHES
  ]
  sizes, differences = [], []

  def quantize(path):
    sizes.append(os.path.getsize(path))
    differences.append(quantization.quantize(path, batches))
    sizes.append(os.path.getsize(path))

  expected = write(tmp_path, kind, config, quantize)
  # Each product's node takes as much as some of these narrow matrices.
  assert sizes[1] < 0.5 * sizes[0]
  (found,) = differences
  assert 0 < found.mean <= found.largest < 0.5
  onnx.checker.check_model(str(tmp_path / "out" / "model.onnx"))
  engine = onnx_engine.OnnxEngine(str(tmp_path / "out"))
  name = engine.outputs[-1]
  errors_found, lengths = [], []
  for inputs in batches:
    value = expected(inputs)[name]
    rows = value.reshape(-1, value.shape[-1])
    others = engine.run(*inputs)[name].reshape(rows.shape)
    lengths.append(np.linalg.norm(rows, axis=1))
    errors_found.append(np.linalg.norm(others - rows, axis=1))
  if kind != "span":  # It has another output, too.
    typical = np.sqrt(np.mean(np.concatenate(lengths) ** 2))
    shares = np.concatenate(errors_found) / typical
    np.testing.assert_allclose(
      found, (shares.max(), shares.mean()), rtol=1e-3, atol=1e-5
    )


def test_equal_models_have_no_difference(tmp_path):
  write(tmp_path, "tagging")
  path = str(tmp_path / "out" / "model.onnx")
  batches = [[value.numpy()[:1] for value in engine_models.BATCHES[0]]]
  assert quantization.difference(path, path, batches) == (0, 0)
