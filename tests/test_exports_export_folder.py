"""Tests the files that an export writes next to the network."""

import json
import os

import pytest

import engine_models
from common import errors, run_settings
from exports import export_folder
from tiny_model import write_vocabulary

SETTINGS = {
  "labels": ("bad", "good", "fine"),
  "output_activation": "softmax",
  "do_lower_case": True,
  "max_seq_length": 12,
  "format": "onnx",
}


def write_file(path):
  with open(path, "wb") as file:
    file.write(b"network")


def write(
  tmp_path, head, config=None, write_model=write_file, pooling=None, **values
):
  """Writes an export to tmp_path/"out"."""
  settings = run_settings.Settings(
    {
      **SETTINGS,
      "vocab_file": write_vocabulary(tmp_path),
      "head": head,
      "export_dir": str(tmp_path / "out"),
      **values,
    }
  )
  export_folder.write(
    write_model, config or engine_models.config_of(), settings, pooling=pooling
  )


def read_json(tmp_path, name):
  return json.loads((tmp_path / "out" / name).read_text())


@pytest.mark.parametrize(
  "file_format, network", [("onnx", "model.onnx"), ("litert", "model.tflite")]
)
def test_a_folder_has_what_transformers_reads(file_format, network, tmp_path):
  write(tmp_path, "classification", format=file_format)
  assert sorted(os.listdir(tmp_path / "out")) == [
    "config.json",
    network,
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
  ]
  config = read_json(tmp_path, "config.json")
  assert config["architectures"] == ["BertForSequenceClassification"]
  assert config["problem_type"] == "single_label_classification"
  assert config["id2label"] == {"0": "bad", "1": "good", "2": "fine"}
  assert config["hidden_act"] == "gelu_new"
  config = read_json(tmp_path, "tokenizer_config.json")
  assert (config["model_max_length"], config["pad_token"]) == (12, "[PAD]")


@pytest.mark.parametrize(
  "head, values, suffix, problem",
  [
    (
      "classification",
      {"labels": (), "output_activation": "linear"},
      "ForSequenceClassification",
      "regression",
    ),
    (
      "classification",
      {"output_activation": "sigmoid"},
      "ForSequenceClassification",
      "multi_label_classification",
    ),
    ("tagging", {}, "ForTokenClassification", None),
    ("span", {}, "ForQuestionAnswering", None),
    ("masked_lm", {}, "ForMaskedLM", None),
  ],
)
def test_config_json_names_the_task(tmp_path, head, values, suffix, problem):
  write(tmp_path, head, engine_models.config_of("distilbert"), **values)
  config = read_json(tmp_path, "config.json")
  assert config["architectures"] == [f"DistilBert{suffix}"]
  assert config.get("problem_type") == problem
  count = {"regression": 1, "multi_label_classification": 3}.get(problem)
  assert len(config.get("id2label", ())) == (count or 3 * (head == "tagging"))


@pytest.mark.parametrize(
  "variant, name",
  [
    ("bert", "BertForNextSentencePrediction"),
    ("albert", "AlbertForPreTraining"),
  ],
)
def test_next_sentence_heads_get_a_class(tmp_path, variant, name):
  write(tmp_path, "next_sentence", engine_models.config_of(variant))
  assert read_json(tmp_path, "config.json")["architectures"] == [name]


def test_embeddings_get_the_files_of_sentence_transformers(tmp_path):
  write(tmp_path, "embedding", pooling=("mean", ((-2,),), True))
  modules = read_json(tmp_path, "modules.json")
  assert [(m["path"], m["type"].split(".")[-1]) for m in modules] == [
    ("", "Transformer"),
    ("1_Pooling", "Pooling"),
    ("2_Normalize", "Normalize"),
  ]
  assert (tmp_path / "out" / "2_Normalize").is_dir()
  assert read_json(tmp_path, "1_Pooling/config.json") == {
    "word_embedding_dimension": 16,
    "pooling_mode_cls_token": False,
    "pooling_mode_max_tokens": False,
    "pooling_mode_mean_tokens": True,
  }
  values = read_json(tmp_path, "sentence_bert_config.json")
  assert values["max_seq_length"] == 12


@pytest.mark.parametrize(
  "pooling",
  [
    ("pooled", ((-1,),), False),
    ("mean", ((-1,), (-2,)), False),
    ("mean", ((-1, -2),), False),
  ],
)
def test_no_modules_json_for_poolings_that_only_this_project_has(
  pooling, tmp_path
):
  write(tmp_path, "embedding", pooling=pooling)
  assert not (tmp_path / "out" / "modules.json").exists()


def test_a_folder_with_files_is_refused(tmp_path):
  (tmp_path / "out").mkdir()
  write(tmp_path, "span")  # An empty folder is accepted.
  with pytest.raises(errors.InputError, match="already exists; give a new"):
    write(tmp_path, "span")
