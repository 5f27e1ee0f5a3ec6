"""Hugging Face folders are read, written or refused.

test_variants_checkpoints.py tests all classes of models.
"""

import copy
import json
import pathlib
import shutil
import struct

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

import heads
import modeling
import stored_weights
import transformers_goldens
from checkpoints import huggingface, sentence_folder, weight_files
from common import errors
from variants import vocabulary_files

GOLDEN = pathlib.Path("tests/golden/huggingface")


@pytest.fixture
def model(tmp_path):
  """A copy of a model folder that a test may change."""
  return shutil.copytree(GOLDEN / "BertForPreTraining", tmp_path / "model")


def rewrite(model, change):
  """Replaces a folder's weights, {name: array}, by `change(weights)`."""
  path = model / "model.safetensors"
  tensors = change(safetensors.numpy.load_file(path))
  safetensors.numpy.save_file(tensors, path)


def test_files_do_not_depend_on_the_order_of_the_weights(tmp_path):
  reader = weight_files.open_reader(str(GOLDEN / "BertModel"))
  weights = stored_weights.read(str(GOLDEN / "BertModel"))
  for folder, order in (("a", weights), ("b", dict(reversed(weights.items())))):
    (tmp_path / folder).mkdir()
    huggingface.write(
      f"{tmp_path}/{folder}", order, reader.config, do_lower_case=True
    )
  for name in ("model.safetensors", "config.json", "tokenizer_config.json"):
    pair = [(tmp_path / folder / name).read_bytes() for folder in "ab"]
    assert pair[0] == pair[1]


@pytest.mark.parametrize("keeps_rule", [None, True, False])
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_folder_says_whose_rules_its_text_follows(
  tmp_path, keeps_rule, is_whole
):
  """An export does by default, and a converted folder does not."""
  (tmp_path / "words.txt").write_text("[UNK]\n[CLS]\n[SEP]\na\n")
  path, source = str(tmp_path), str(GOLDEN / "BertModel")
  options = {} if keeps_rule is None else {"keeps_rule": keeps_rule}
  options |= {"do_lower_case": True, "vocab_file": f"{path}/words.txt"}
  config = weight_files.open_reader(source).config
  if is_whole:
    huggingface.write(path, stored_weights.read(source), config, **options)
  else:
    huggingface.write_settings(
      path, config, "BertModel", max_length=9, **options
    )
  stored = json.loads((tmp_path / "tokenizer_config.json").read_text())
  is_said = vocabulary_files.LIKE_TRANSFORMERS in stored
  assert is_said == (not is_whole if keeps_rule is None else keeps_rule)
  length = config["max_position_embeddings"] if is_whole else 9
  assert stored["model_max_length"] == length


def test_outputs_are_those_of_transformers():
  """Compares the encoder and the pre-training heads."""
  encoder = transformers_goldens.Loaded(GOLDEN / "BertModel")
  encoder.check("pooler_output", encoder.output.pooled_output)
  for name, key in (
    ("BertForMaskedLM", "logits"),
    ("BertForPreTraining", "prediction_logits"),
  ):
    model = transformers_goldens.Loaded(GOLDEN / name)
    head = heads.MaskedLMHead(model.config, model.bert.word_embeddings)
    positions = tf.tile([tf.range(7)], [3, 1])
    logits = model.head(head)(model.output.sequence_output, positions)
    model.check(key, logits)
  head = model.head(heads.NextSentenceHead(model.config))
  model.check("seq_relationship_logits", head(model.output.pooled_output))


def test_old_names_of_weights_are_read(model):
  expected = stored_weights.read(str(model))

  def as_before_2019(tensors):
    old = {
      name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
        "LayerNorm.bias", "LayerNorm.beta"
      ): value
      for name, value in tensors.items()
    }
    table = tensors["bert.embeddings.word_embeddings.weight"]
    old["cls.predictions.decoder.weight"] = table.copy()
    old["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].copy()
    old["bert.embeddings.position_ids"] = np.arange(10)[None]
    return old

  rewrite(model, as_before_2019)
  actual = stored_weights.read(str(model))
  transformers_goldens.check_equal(actual, expected)
  assert weight_files.open_reader(str(model)).notes == [
    "copies and constants are not read: bert.embeddings.position_ids, "
    "cls.predictions.decoder.bias, cls.predictions.decoder.weight"
  ]


def test_names_in_an_encoders_single_file_may_have_a_prefix(model, tmp_path):
  expected = stored_weights.read(str(GOLDEN / "BertModel"))
  tensors = transformers_goldens.tensors_of(GOLDEN / "BertModel")
  path = f"{tmp_path}/weights.safetensors"
  safetensors.numpy.save_file(
    {f"bert.{name}": value for name, value in tensors.items()}, path
  )
  assert weight_files.open_reader(path).config is None
  actual = stored_weights.read(path)
  transformers_goldens.check_equal(actual, expected)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_is_read_as_float32(model, dtype):
  rewrite(model, lambda t: {name: v.astype(dtype) for name, v in t.items()})
  reader = weight_files.open_reader(str(model))
  value = reader.read("bert/pooler/dense/kernel")
  weights = stored_weights.read(str(GOLDEN / "BertForPreTraining"))
  expected = weights["bert/pooler/dense/kernel"].astype(dtype)
  assert value.dtype == np.float32
  np.testing.assert_array_equal(value, expected.astype(np.float32))
  assert "to float32" in reader.notes[0]


def test_names_of_other_models_are_reported_as_unused(model):
  rewrite(model, lambda t: {**t, "adapter.up": np.zeros(2, np.float32)})
  bias = tf.Variable(tf.zeros([8]), name="bert/pooler/dense/bias")
  assert "adapter.up" in weight_files.load([bias], str(model)).unused


@pytest.mark.parametrize("subfolder", ["", "0_Transformer"])
def test_a_sentence_transformers_folder_is_read(model, subfolder, tmp_path):
  top = tmp_path / "sentence"
  shutil.copytree(model, top / subfolder)
  (top / "1_Pooling").mkdir()
  (top / "1_Pooling/config.json").write_text(
    '{"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false}'
  )
  classes = {subfolder: "Transformer", "1_Pooling": "Pooling", "2": "Normalize"}
  modules = [
    {"path": path, "type": f"sentence_transformers.models.{name}"}
    for path, name in classes.items()
  ]
  (top / "modules.json").write_text(json.dumps(modules))
  reader = weight_files.open_reader(str(top))
  assert reader.shapes and not reader.notes
  # The folder of Normalize, which is empty, is often missing.
  (tmp_path / "copy").mkdir()
  copied = sentence_folder.copy(reader.folder, f"{tmp_path}/copy", 30)
  assert copied == ["Pooling", "Normalize"]


def test_a_head_with_its_own_embedding_table_is_refused(model):
  name = "cls.predictions.decoder.weight"
  rewrite(model, lambda t: {**t, name: np.zeros((30, 8), np.float32)})
  with pytest.raises(errors.InputError, match=f"{name} differs from bert"):
    weight_files.open_reader(str(model))


@pytest.mark.parametrize(
  "change", [lambda data: data[:-9], lambda data: data[9:], lambda data: b""]
)
def test_damaged_files_are_named(model, change):
  path = model / "model.safetensors"
  path.write_bytes(change(path.read_bytes()))
  with pytest.raises(errors.InputError, match=f"{path} is not a readable"):
    weight_files.open_reader(str(model))


def test_missing_shards_are_named(tmp_path):
  model = shutil.copytree(GOLDEN / "BertForMaskedLM", tmp_path / "model")
  second = model / "model-00002-of-00002.safetensors"
  safetensors.numpy.save_file({"other": np.zeros(1)}, second)
  with pytest.raises(errors.InputError, match="00002.* lacks the .*index.json"):
    weight_files.open_reader(str(model))
  second.unlink()
  with pytest.raises(errors.InputError, match=f"no such file: {second}"):
    weight_files.open_reader(str(model))


JSON_VALUES = (
  None,
  True,
  0,
  -1.5,
  "",
  "x",
  "../x",
  [],
  [1],
  [[]],
  {},
  {"x": {}},
)


def wrong_structures(values):
  """Yields copies of a JSON value with one part replaced or left out."""
  yield from JSON_VALUES
  if isinstance(values, (dict, list)):
    keys = values if isinstance(values, dict) else range(len(values))
    for key in keys:
      for part in wrong_structures(values[key]):
        changed = copy.copy(values)
        changed[key] = part
        yield changed
      changed = copy.copy(values)
      del changed[key]
      yield changed


@pytest.mark.parametrize(
  "name, values",
  [
    (
      "model.safetensors.index.json",
      {
        "metadata": {},
        "weight_map": {"bert.pooler.dense.bias": "pooler.safetensors"},
      },
    ),
    ("tokenizer_config.json", {"do_lower_case": True}),
    (
      "config.json",
      {
        "model_type": "bert",
        "hidden_act": "gelu",
        "id2label": {"0": "a"},
        "problem_type": "regression",
        "input_settings": {"max_seq_length": 8},
      },
    ),
  ],
)
def test_json_of_any_structure_is_read_or_refused(tmp_path, name, values):
  bias = {"bert.pooler.dense.bias": np.zeros(2, np.float32)}
  safetensors.numpy.save_file(bias, tmp_path / "pooler.safetensors")
  index = {"weight_map": dict.fromkeys(bias, "pooler.safetensors")}
  (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
  outcomes = set()
  for wrong in (values, *wrong_structures(values)):
    (tmp_path / name).write_text(json.dumps(wrong))
    try:
      reader = weight_files.open_reader(str(tmp_path))
      files = vocabulary_files.VocabularyFiles(str(tmp_path / "vocab.txt"))
      assert files.settings.get("do_lower_case") in (None, True, False)
      modeling.BertConfig.from_dict(reader.config or {"vocab_size": 3})
      outcomes.add("read")
    except errors.InputError as error:
      assert len(str(error)) < 400 and "; " in str(error) or name in str(error)
      outcomes.add("refused")
  assert outcomes == {"read", "refused"}


@pytest.mark.parametrize("dtype", ["F8_E4M3", "I8", "U8"])
def test_types_of_quantized_weights_are_refused(tmp_path, dtype):
  header = (
    b'{"bert.pooler.dense.bias": '
    b'{"dtype": "%s", "shape": [2], "data_offsets": [0, 2]}}' % dtype.encode()
  )
  path = tmp_path / "a.safetensors"
  path.write_bytes(struct.pack("<Q", len(header)) + header + b"12")
  with pytest.raises(errors.InputError, match=f"is of type {dtype}; expected"):
    weight_files.open_reader(str(path))
