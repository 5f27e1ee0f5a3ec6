"""Compares BERT and its variants with transformers."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

import configuration
import transformers_goldens
from checkpoints import comparison, converter, weight_files, weight_names
from common import json_files
from variants import registry

VARIANTS = {
  "huggingface": "bert",
  "albert": "albert",
  "distilbert": "distilbert",
  "electra": "electra",
  "roberta_models": "roberta",
}
TITLES = {"XLMR": "xlm-roberta", "Came": "camembert"}
FOLDERS = sorted(
  path
  for area in VARIANTS
  for path in pathlib.Path("tests/golden", area).iterdir()
  if (path / "config.json").exists()
)
HEADS = [
  path
  for path in FOLDERS
  if "For" in path.name
  and path.name not in ("BertForPreTraining", "AlbertForPreTraining")
]


def for_each_folder(folders):
  return pytest.mark.parametrize("folder", folders, ids=lambda path: path.name)


def variant_of(folder):
  return TITLES.get(folder.name[:4], VARIANTS[folder.parent.name])


@for_each_folder(FOLDERS)
def test_names_determine_the_variant_and_the_class(folder):
  names = transformers_goldens.tensors_of(folder)
  variant = weight_names.variant_of(names)
  family = VARIANTS[folder.parent.name]
  # RoBERTa's encoder without a head has BERT's names.
  assert variant == ("bert" if folder.name == "RobertaModel" else family)
  reader = weight_files.open_reader(str(folder))
  architecture = weight_names.architecture_of(reader.shapes, variant_of(folder))
  expected = folder.name
  if family in ("bert", "albert"):
    # Token and sequence classifiers have the same names.
    expected = expected.replace("ForTokenC", "ForSequenceC")
  assert architecture == expected


@for_each_folder(FOLDERS)
def test_hidden_states_equal_transformers(folder):
  transformers_goldens.Loaded(folder).check_hidden_states()


@for_each_folder(HEADS)
def test_heads_equal_transformers(folder):
  transformers_goldens.Loaded(folder).check_head()


@for_each_folder([path for path in FOLDERS if path.name.endswith("MaskedLM")])
def test_padding_and_unread_positions_can_be_left_out(folder):
  whole = transformers_goldens.Loaded(folder)
  model = registry.make_encoder(whole.config, skip_padding=True)
  for variable, value in zip(model.variables, whole.bert.variables):
    variable.assign(value)
  mask = whole.inputs[1]
  output = model(*whole.inputs)
  expected = whole.output.sequence_output * tf.cast(mask, tf.float32)[..., None]
  np.testing.assert_allclose(output.sequence_output, expected, atol=1e-5)
  positions = tf.constant([[0, 6], [0, 3], [0, 0]])
  partial = model(*whole.inputs, positions=positions)
  np.testing.assert_allclose(
    partial.sequence_output,
    tf.gather(whole.output.sequence_output, positions, batch_dims=1),
    atol=1e-5,
  )
  np.testing.assert_allclose(
    partial.pooled_output, whole.output.pooled_output, atol=1e-5
  )


@for_each_folder(FOLDERS)
def test_conversions_are_bit_for_bit(folder, tmp_path):
  source = converter.open_source(str(folder))
  converter.convert(source, f"{tmp_path}/tf1", "tf1")
  back = converter.open_source(f"{tmp_path}/tf1")
  assert registry.name_of(back.config) == variant_of(folder)
  conversion = converter.convert(
    back, f"{tmp_path}/again", "huggingface", architecture=folder.name
  )
  assert not conversion.left_out
  transformers_goldens.check_equal(
    transformers_goldens.tensors_of(tmp_path / "again"),
    transformers_goldens.tensors_of(folder),
  )
  written = json_files.read(f"{tmp_path}/again/config.json")
  original = json_files.read(f"{folder}/config.json")
  assert {key: original[key] for key in written} == written
  reader = weight_files.open_reader(str(folder))
  assert configuration.from_huggingface(written) == reader.config
  differences = comparison.compare(source, f"{tmp_path}/again")
  assert set(differences.values()) == {0.0}
