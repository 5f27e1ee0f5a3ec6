"""The folder of a network for other programs: what is next to the network."""

import json
import os

import pytest

import engine_models
from common import errors, run_settings
from engines import export_folder
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
  """Writes tmp_path/"out"."""
  settings = run_settings.Settings(
    {
      **SETTINGS,
      "vocab_file": write_vocabulary(tmp_path),
      "head": head,
      **values,
    }
  )
  export_folder.write(
    str(tmp_path / "out"),
    write_model,
    config or engine_models.config_of(),
    settings,
    pooling=pooling,
  )


def read_json(tmp_path, name):
  return json.loads((tmp_path / "out" / name).read_text())


@pytest.mark.parametrize(
  "kind, file", [("onnx", "model.onnx"), ("litert", "model.tflite")]
)
def test_a_folder_has_what_transformers_reads(kind, file, tmp_path):
  write(tmp_path, "classification", format=kind)
  assert sorted(os.listdir(tmp_path / "out")) == [
    "config.json",
    file,
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
  ]
  values = read_json(tmp_path, "config.json")
  assert values["architectures"] == ["BertForSequenceClassification"]
  assert values["problem_type"] == "single_label_classification"
  assert values["id2label"] == {"0": "bad", "1": "good", "2": "fine"}
  assert values["hidden_act"] == "gelu_new"
  values = read_json(tmp_path, "tokenizer_config.json")
  assert (values["model_max_length"], values["pad_token"]) == (12, "[PAD]")


@pytest.mark.parametrize(
  "head, values, name, problem",
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
def test_the_configuration_says_the_task(tmp_path, head, values, name, problem):
  write(tmp_path, head, engine_models.config_of("distilbert"), **values)
  found = read_json(tmp_path, "config.json")
  assert found["architectures"] == [f"DistilBert{name}"]
  assert found.get("problem_type") == problem
  count = {"regression": 1, "multi_label_classification": 3}.get(problem)
  assert len(found.get("id2label", ())) == (count or 3 * (head == "tagging"))


@pytest.mark.parametrize(
  "variant, name",
  [
    ("bert", "BertForNextSentencePrediction"),
    ("albert", "AlbertForPreTraining"),
  ],
)
def test_two_texts_have_a_class_of_transformers(tmp_path, variant, name):
  write(tmp_path, "next_sentence", engine_models.config_of(variant))
  assert read_json(tmp_path, "config.json")["architectures"] == [name]


def test_vectors_have_the_files_of_sentence_transformers(tmp_path):
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
def test_a_pooling_that_sentence_transformers_lacks_has_none(pooling, tmp_path):
  write(tmp_path, "embedding", pooling=pooling)
  assert not (tmp_path / "out" / "modules.json").exists()


def test_a_folder_with_files_is_refused(tmp_path):
  (tmp_path / "out").mkdir()
  write(tmp_path, "span")  # An empty one is not.
  with pytest.raises(errors.InputError, match="already exists; give a new"):
    write(tmp_path, "span")
