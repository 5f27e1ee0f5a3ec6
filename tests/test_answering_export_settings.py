"""Tests which settings an export takes from the model, and the defaults."""

import os
import tempfile

import pytest

import modeling
import serving_models
from answering import export_settings
from checkpoints import model_files
from common import errors

LABELS = {"id2label": {"0": "no", "1": "yes"}}


def config(**values):
  return modeling.BertConfig.from_dict(
    {**serving_models.config().to_dict(), **values}
  )


class Files(model_files.ModelFiles):
  """The files of a model without weights, of which any head is required."""

  def require(self, head):
    del head


def resolved(model_config, **options):
  settings = serving_models.export_settings_of(options)
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "bert_config.json")
    with open(path, "w", encoding="utf-8") as stream:
      stream.write(model_config.to_json_string())
    files = Files(bert_config_file=path)
    return export_settings.resolve(settings, files)


@pytest.mark.parametrize(
  "problem, activation",
  [
    ({}, "softmax"),
    ({"problem_type": "single_label_classification"}, "softmax"),
    ({"problem_type": "multi_label_classification"}, "sigmoid"),
    ({"problem_type": "regression"}, "linear"),
  ],
)
def test_activation_and_labels_come_from_the_training(problem, activation):
  trained = config(**problem, **LABELS)
  settings = resolved(trained, head="classification")
  assert settings.output_activation == activation
  assert settings.labels == (() if activation == "linear" else ("no", "yes"))
  settings = resolved(
    trained, head="classification", output_activation="sigmoid", labels=["a"]
  )
  assert settings.output_activation == "sigmoid" and settings.labels == ("a",)


def test_an_unknown_problem_type_is_refused():
  with pytest.raises(errors.InputError, match="'multiple_choice', which"):
    resolved(config(problem_type="multiple_choice"), head="classification")


def test_input_settings_come_from_the_training(caplog):
  trained = config(
    **LABELS,
    input_settings={
      "max_seq_length": 48,
      "doc_stride": 16,
      "max_windows": 3,
      "window_pooling": "mean",
      "text_pairs": True,
      "scheme": "iob1",
      "null_score_diff_threshold": "auto",
      "n_best_size": None,
    },
  )
  settings = resolved(trained, head="classification")
  assert (settings.max_seq_length, settings.doc_stride) == (48, 16)
  assert settings.max_windows == 3 and settings.text_pairs
  settings = resolved(trained, head="span")
  assert (settings.max_seq_length, settings.doc_stride) == (48, 16)
  assert settings.null_score_diff_threshold is None
  assert settings.n_best_size == 20 and not settings.text_pairs
  settings = resolved(trained, head="tagging", max_seq_length=64)
  assert settings.max_seq_length == 64
  assert "--max_seq_length=64 (trained with 48)" in caplog.text


def test_pairs_are_known_from_the_column_of_the_second_text():
  trained = config(**LABELS, input_settings={"text_b_column": "b"})
  assert resolved(trained, head="classification").text_pairs
  assert resolved(trained, head="embedding").text_pairs
  assert not resolved(trained, head="span").text_pairs


def test_defaults_are_those_of_the_scripts():
  long = config(max_position_embeddings=512, **LABELS)
  settings = resolved(long, head="span")
  assert (settings.max_seq_length, settings.doc_stride) == (384, 128)
  settings = resolved(long, head="classification")
  assert (settings.max_seq_length, settings.doc_stride) == (128, 0)
  settings = resolved(config(**LABELS), head="classification")
  assert settings.max_seq_length == 64


def test_a_model_needs_weights():
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "bert_config.json")
    with open(path, "w", encoding="utf-8") as stream:
      stream.write(config().to_json_string())
    settings = serving_models.export_settings_of({"bert_config_file": path})
    with pytest.raises(errors.InputError, match="pass --init_checkpoint or"):
      export_settings.find_model(settings)
