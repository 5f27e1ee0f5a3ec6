"""Conversions of whole folders: what they keep, leave out or refuse."""

import json
import pathlib
import shutil

import numpy as np
import pytest
import safetensors.numpy

import configuration
import stored_weights
from checkpoints import converter, weight_files
from common import errors, json_files
from resumed_runs import assert_same_checkpoints
from training import run_folder
from variants import vocabulary_files

HUGGINGFACE = pathlib.Path("tests/golden/huggingface")
TRAINING_CHECKPOINT = "tests/golden/checkpoints/model.ckpt-12"
LINEAR_CONFIG = "tests/golden/models/linear_L1_H32/bert_config.json"
VOCABULARY = "\n".join(["[PAD]", "[UNK]", "word", "##s", "été"]) + "\n"


def convert(path, output, to, **options):
  source = converter.open_source(str(path))
  return converter.convert(source, str(output), to, **options)


@pytest.fixture
def model(tmp_path):
  """A copy of a Hugging Face folder with a vocabulary."""
  copy = shutil.copytree(HUGGINGFACE / "BertForPreTraining", tmp_path / "model")
  (copy / "vocab.txt").write_text(VOCABULARY, encoding="utf-8")
  return copy


def test_a_round_trip_through_all_formats_loses_nothing(model, tmp_path):
  path = model
  for number, to in enumerate(["tf1", "model_garden", "tf2", "huggingface"]):
    output = tmp_path / f"{number}_{to}"
    conversion = convert(path, output, to)
    assert not conversion.left_out
    assert_same_checkpoints(model, output)
    assert (output / "vocab.txt").read_text(encoding="utf-8") == VOCABULARY
    path = output
  name = "model.safetensors"
  assert (path / name).read_bytes() == (model / name).read_bytes()
  written, original = (
    json_files.read(f"{folder}/config.json") for folder in (path, model)
  )
  assert written == {key: original[key] for key in written}


@pytest.mark.parametrize(
  "name, to, fact",
  [
    ("BertForPreTraining", "tf1", None),  # Its activation is gelu_new.
    ("BertModel", "tf1", "google-research/bert does not"),
    ("BertModel", "model_garden", "build the Model Garden encoder with this"),
    ("BertModel", "huggingface", None),
  ],
)
@pytest.mark.parametrize("has_vocabulary", [True, False])
def test_what_is_missing_or_unusual_is_noted(
  tmp_path, name, to, fact, has_vocabulary
):
  folder = shutil.copytree(HUGGINGFACE / name, tmp_path / "model")
  if has_vocabulary:
    (folder / "vocab.txt").write_text(VOCABULARY, encoding="utf-8")
  notes = convert(folder, tmp_path / "out", to).notes
  facts = [] if has_vocabulary else ["pass --vocab_file"]
  facts += [fact] if fact else []
  assert len(notes) == len(facts)
  assert all(part in note for part, note in zip(facts, notes))


def test_optimizer_state_is_carried_from_tf1_to_tf1(tmp_path):
  source = converter.open_source(
    TRAINING_CHECKPOINT, bert_config_file=LINEAR_CONFIG
  )
  converter.convert(source, f"{tmp_path}/all", "tf1")
  assert_same_checkpoints(TRAINING_CHECKPOINT, tmp_path / "all")
  for to in ("huggingface", "model_garden"):
    conversion = converter.convert(source, f"{tmp_path}/{to}", to)
    converted = stored_weights.read(f"{tmp_path}/{to}")
    assert len(converted) == 30
    assert len(conversion.left_out) == 61
    assert set(conversion.names) == set(converted)
    assert "optimizer state" in conversion.left_out["global_step"]


def test_the_folder_of_a_run_needs_no_configuration_file(tmp_path):
  weights = stored_weights.read(TRAINING_CHECKPOINT)
  config = configuration.read(LINEAR_CONFIG)
  run_folder.check_output_dir(
    f"{tmp_path}/run",
    {"task": "x", "bert_config": config},
    run_folder.TrainedWith({}, {}),
  )
  run_folder.save(f"{tmp_path}/run", 12, weights)
  convert(tmp_path / "run", tmp_path / "out", "huggingface")
  converted = weight_files.open_reader(f"{tmp_path}/out")
  assert converted.config["hidden_act"] == "linear"
  assert len(converted.shapes) == 30


def test_weights_that_bert_lacks_are_left_out_or_kept(model, tmp_path):
  path = model / "model.safetensors"
  tensors = safetensors.numpy.load_file(path)
  tensors["adapter.up"] = np.ones(2, np.float32)
  safetensors.numpy.save_file(tensors, path)
  conversion = convert(model, tmp_path / "tf1", "tf1")
  assert list(conversion.left_out) == ["adapter.up"]
  # A TF1 checkpoint may have any names, which a conversion to TF1 keeps.
  weights = stored_weights.read(f"{tmp_path}/tf1")
  weight_files.write_tf1(
    f"{tmp_path}/tf1/bert_model.ckpt", {**weights, "mine": np.ones(2, "f")}
  )
  assert "mine" in convert(tmp_path / "tf1", tmp_path / "again", "tf1").names
  conversion = convert(tmp_path / "tf1", tmp_path / "hf", "huggingface")
  assert conversion.left_out == {"mine": "not part of the huggingface output"}


def stored_do_lower_case(folder):
  path = str(folder / "vocab.txt")
  return vocabulary_files.VocabularyFiles(path).do_lower_case


@pytest.mark.parametrize(
  "words, lower", [(VOCABULARY, True), (VOCABULARY + "Été\nWord\n", False)]
)
def test_the_case_is_inferred_from_the_vocabulary(
  model, tmp_path, words, lower
):
  (model / "vocab.txt").write_text(words, encoding="utf-8")
  convert(model, tmp_path / "out", "huggingface")
  assert stored_do_lower_case(tmp_path / "out") is lower
  convert(model, tmp_path / "told", "huggingface", do_lower_case=not lower)
  assert stored_do_lower_case(tmp_path / "told") is not lower
  # A stored do_lower_case overrides what the words suggest.
  convert(tmp_path / "told", tmp_path / "tf1", "tf1")
  convert(tmp_path / "tf1", tmp_path / "again", "huggingface")
  assert stored_do_lower_case(tmp_path / "again") is not lower


def test_a_tagger_of_run_ner_becomes_a_token_classifier(tmp_path):
  model = HUGGINGFACE / "BertForTokenClassification"
  source = converter.open_source(str(model))
  # A tagger trained from a classifier inherits the classifier's problem_type.
  values = {
    **source.config.to_dict(),
    "problem_type": "single_label_classification",
  }
  for part, settings in (("Token", {"scheme": "iob2"}), ("Sequence", {})):
    config = configuration.BertConfig.from_dict(
      {**values, "input_settings": settings}
    )
    folder = tmp_path / part
    converter.convert(
      source._replace(config=config), str(folder), "huggingface"
    )
    assert f"BertFor{part}Cl" in (folder / "config.json").read_text()


@pytest.mark.parametrize(
  "to, note",
  [
    ("tf1", "google-research/bert does not"),
    ("model_garden", "build the Model Garden encoder with this"),
  ],
)
def test_the_report_says_which_gelu_the_model_has(tmp_path, to, note):
  conversion = convert(HUGGINGFACE / "BertModel", tmp_path / "out", to)
  assert note in " ".join(conversion.notes)


def check_fails(tmp_path, message, call, *args, **options):
  before = sorted(tmp_path.iterdir())
  with pytest.raises(errors.InputError, match=message):
    call(*args, **options)
  assert sorted(tmp_path.iterdir()) == before


def test_existing_files_are_not_overwritten(model, tmp_path):
  message = "model already exists; give a new folder"
  check_fails(tmp_path, message, convert, model, model, "tf1")
  (tmp_path / "empty").mkdir()
  convert(model, tmp_path / "empty", "tf1")
  message = "not on a local disk"
  check_fails(tmp_path, message, convert, model, "gs://x/y", "tf1")


def test_a_damaged_checkpoint_leaves_no_output(model, tmp_path):
  convert(model, tmp_path / "tf1", "tf1")
  data = tmp_path / "tf1/bert_model.ckpt.data-00000-of-00001"
  data.write_bytes(data.read_bytes()[:-50])
  check_fails(
    tmp_path,
    "damaged or truncated",
    convert,
    tmp_path / "tf1",
    tmp_path / "out",
    "huggingface",
  )


@pytest.mark.parametrize(
  "change, message",
  [
    ({"num_hidden_layers": 3}, "has no bert/encoder/layer_2/.*configuration"),
    ({"vocab_size": 31}, r"has shape \[30, 8\], but \[31, 8\] is needed; pass"),
    ({"vocab_size": 4}, "vocab.txt has 5 tokens .* vocab_size 4|has shape"),
  ],
)
def test_a_configuration_of_another_model_is_refused(
  model, tmp_path, change, message
):
  values = {**configuration.read(str(model / "config.json")), **change}
  config_file = tmp_path / "other.json"
  config_file.write_text(json.dumps(values))
  check_fails(
    tmp_path,
    message,
    converter.open_source,
    str(model),
    bert_config_file=str(config_file),
  )


def test_inconsistent_models_are_refused(model, tmp_path):
  convert(model, tmp_path / "garden", "model_garden")
  path = tmp_path / "garden/bert_config.json"
  values = {**json.loads(path.read_text()), "num_attention_heads": 4}
  path.write_text(json.dumps(values))
  with (model / "vocab.txt").open("a") as stream:
    stream.write("a\n" * 26)
  for path, message in (
    (tmp_path / "garden", "has 2 attention heads.* 4;"),
    (TRAINING_CHECKPOINT, "pass --bert_config_file"),
    (model, "31 tokens .*vocab_size 30"),
  ):
    with pytest.raises(errors.InputError, match=message):
      converter.open_source(str(path))
