"""Tests the folders of saved_model.py in this and in another program."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from common import errors
from exports import raw_text, saved_model
from message_facts import says
from records import tfrecord
from serving_models import (
  FOLDER,
  LABELS,
  assert_close,
  in_python,
  make,
  softmax,
)

ROOT = pathlib.Path(__file__).parent.parent

# A program without this project's modules. It reads a folder and requests as
# JSON, and prints outputs as JSON.
OTHER_PROGRAM = """
import json, sys
import tensorflow as tf
import tensorflow_text

IDS = ("input_ids", "input_mask", "segment_ids")

def tensors(inputs):
  return {
    key: tf.constant(value, tf.int32 if key in IDS else tf.string)
    for key, value in inputs.items()
  }

def listed(value):
  if isinstance(value, list):
    return [listed(item) for item in value]
  return value.decode() if isinstance(value, bytes) else value

folder, requests = json.load(sys.stdin)
model = tf.saved_model.load(folder)
outputs = [
  {
    key: listed(value.numpy().tolist())
    for key, value in model.signatures[name](**tensors(inputs)).items()
  }
  for name, inputs in requests
]
ids = model.make_inputs(*[tf.constant(["the cat"])] * 2)
encoder = {key: ids[key] for key in IDS}
with tf.GradientTape() as tape:
  states = model(encoder, training=False)["sequence_output"]
  loss = tf.reduce_sum(states ** 2)
gradients = tape.gradient(loss, model.trainable_variables)
dropped = model(encoder, training=True)["sequence_output"]
modules = {"modeling", "layers", "tokenization", "graph_tokenizer", "errors"}
print(json.dumps({
  "outputs": outputs,
  "loss": float(loss),
  "gradient": float(tf.norm(tf.convert_to_tensor(gradients[0]))),
  "variables": [len(model.variables), len(model.trainable_variables)],
  "regularization_losses": len(model.regularization_losses),
  "dropout": float(tf.reduce_max(tf.abs(dropped - states))),
  "imported": sorted(modules & set(sys.modules)),
}))
"""


def other_program(folder, requests):
  finished = subprocess.run(
    [sys.executable, "-c", OTHER_PROGRAM],
    input=json.dumps([folder, requests]),
    env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "PYTHONPATH": ""},
    cwd="/",
    capture_output=True,
    text=True,
  )
  assert finished.returncode == 0, finished.stderr
  return json.loads(finished.stdout)


@pytest.fixture(scope="module")
def pair_model():
  return make("classification", text_pairs=True)


@pytest.fixture(scope="module")
def folder(pair_model, tmp_path_factory):
  path = str(tmp_path_factory.mktemp("models") / "pairs" / "3")
  saved_model.write(
    path,
    pair_model,
    warmup_texts=[("a", "\u00e9"), ("x" * 300, "")],
    name="pairs",
  )
  return path


def encoder_loss(raw, text):
  """Returns the loss and the first gradient's norm, as OTHER_PROGRAM does."""
  inputs = raw.make_inputs(*[tf.constant([text])] * len(raw.model.text_inputs))
  model = raw.model
  with tf.GradientTape() as tape:
    states = model.outputs(inputs)["sequence_output"]
    loss = tf.reduce_sum(states**2)
  gradients = tape.gradient(loss, model.trainable_variables)
  return float(loss), float(tf.norm(tf.convert_to_tensor(gradients[0])))


def test_files_of_the_folder(folder):
  files = {
    str(path.relative_to(folder))
    for path in pathlib.Path(folder).rglob("*")
    if path.is_file()
  }
  assert files == {
    "saved_model.pb",
    "fingerprint.pb",
    "variables/variables.index",
    "variables/variables.data-00000-of-00001",
    "assets.extra/answers.json",
    "assets.extra/tf_serving_warmup_requests",
    "assets.extra/tokenizer_config.json",
    "assets.extra/vocab.txt",
  }
  assets = pathlib.Path(folder, "assets.extra")
  stored = json.loads((assets / "answers.json").read_text())
  assert stored["labels"] == LABELS
  vocabulary = FOLDER / "vocab.txt"
  assert (assets / "vocab.txt").read_bytes() == vocabulary.read_bytes()
  assert os.listdir(os.path.dirname(folder)) == ["3"]


@pytest.mark.slow
def test_another_program_gets_the_same_numbers(folder, pair_model):
  """The other process has only tensorflow and tensorflow_text."""
  rows = [["The \u00c9mile Stra\u00dfe, 1999!", "a b"], ["", "\u4e2d [MASK]"]]
  texts = {"text_a": rows[0], "text_b": rows[1]}
  ids = pair_model.make_inputs(*map(tf.constant, rows))
  ids = {name: value.numpy().tolist() for name, value in ids.items()}
  answer = other_program(folder, [["serving_default", texts], ["ids", ids]])
  assert answer["imported"] == []
  count = len(pair_model.model.variables)
  assert answer["variables"] == [count, count]
  assert answer["regularization_losses"] == 0
  assert answer["dropout"] > 0.01
  loss, gradient = encoder_loss(pair_model, "the cat")
  np.testing.assert_allclose(answer["loss"], loss, rtol=1e-5)
  np.testing.assert_allclose(answer["gradient"], gradient, rtol=1e-4)
  for outputs in answer["outputs"]:
    for number, pair in enumerate(zip(*rows)):
      expected = softmax(in_python(pair_model, *pair)["logits"])[0]
      assert_close(outputs["probabilities"][number], expected)
      assert outputs["label"][number] == LABELS[expected.argmax()]


def test_warmup_requests(folder):
  """tensorflow-serving-api 2.19.1 reads them. A length takes 1 or 2 bytes."""
  first, second = tfrecord.read_serialized(
    os.path.join(folder, saved_model.WARMUP_FILE)
  )
  spec = b"\n\x18\n\x05pairs\x1a\x0fserving_default"
  string = b"\x08\x07\x12\x04\x12\x02\x08\x01B"  # A tensor of shape [1].
  assert first == (
    b"2K\nI"
    + spec
    + b"\x12\x15\n\x06text_a\x12\x0b"
    + string
    + b"\x01a"
    + b"\x12\x16\n\x06text_b\x12\x0c"
    + string
    + b"\x02\xc3\xa9"
  )
  assert second.startswith(
    b"2\xf8\x02\n\xf5\x02"
    + spec
    + b"\x12\xc2\x02\n\x06text_a\x12\xb7\x02"
    + string
    + b"\xac\x02"
    + b"x" * 300
  )


@pytest.mark.parametrize(
  "name, values, sentence",
  [
    ("input_ids", [[1, 10**6]], "input_ids has a value"),
    ("segment_ids", [[0, 99]], "segment_ids has a value"),
    ("input_mask", [[1, -1]], "input_mask has a value"),
    ("input_mask", [[1]], says("input_mask", "not", "fit")),
    ("segment_ids", [[0, 0]] * 2, says("segment_ids", "not", "fit")),
  ],
)
def test_ids_that_do_not_fit_are_refused(name, values, sentence, pair_model):
  inputs = {n: [[1, 1]] for n in pair_model.model.id_inputs}
  inputs = {n: tf.constant(v) for n, v in inputs.items()}
  raw_text.checked(pair_model.model, **inputs)
  inputs[name] = tf.constant(values)
  with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
    raw_text.checked(pair_model.model, **inputs)


def test_the_largest_ids_and_the_longest_sequence_fit():
  model = make("masked_lm").model
  config, length = model.config, model.config.max_position_embeddings
  inputs = {
    "input_ids": [0, config.vocab_size - 1],
    "input_mask": [0, 1],
    "segment_ids": [0, config.type_vocab_size - 1],
  }
  inputs = {n: tf.constant([v * (length // 2)]) for n, v in inputs.items()}
  inputs["masked_lm_positions"] = tf.constant([[0, length - 1]])
  raw_text.checked(model, **inputs)
  for name in list(inputs)[:-1]:
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{name} has a v"):
      raw_text.checked(model, **{**inputs, name: inputs[name] + 1})
  inputs["masked_lm_positions"] += 1
  with pytest.raises(tf.errors.InvalidArgumentError, match="positions has a v"):
    raw_text.checked(model, **inputs)
  longer = {n: tf.zeros([1, length + 1], tf.int32) for n in inputs}
  with pytest.raises(tf.errors.InvalidArgumentError, match=f"than {length} "):
    raw_text.checked(model, **longer)


def test_a_prompt_is_before_the_first_of_two_texts():
  raw = make("embedding", text_pairs=True, prompt="the cat ")
  plain = make("embedding", text_pairs=True)
  found = raw.make_inputs(*map(tf.constant, (["is"], ["on"])))
  expected = plain.make_inputs(*map(tf.constant, (["the cat is"], ["on"])))
  for name, values in expected.items():
    np.testing.assert_array_equal(found[name], values)


def test_a_batch_without_texts_has_answers_without_rows():
  for head in ("tagging", "masked_lm"):
    signatures = saved_model._signatures(make(head))
    texts = signatures["serving_default"](text=tf.constant([], tf.string))
    ids = signatures["ids"](
      **{
        name: tf.zeros([0, 0], tf.int32)
        for name in signatures["ids"].structured_input_signature[1]
      }
    )
    assert texts and ids
    for outputs in (texts, ids):
      assert {value.shape[0] for value in outputs.values()} == {0}


def test_inputs_with_different_numbers_of_rows_are_refused(pair_model):
  signature = saved_model._signatures(pair_model)["serving_default"]
  with pytest.raises(tf.errors.InvalidArgumentError, match="numbers of rows"):
    signature(text_a=tf.constant([], tf.string), text_b=tf.constant(["a"]))


def test_an_export_is_not_replaced(folder, pair_model):
  with pytest.raises(errors.InputError, match="another --version"):
    saved_model.write(folder, pair_model)


def test_a_failed_export_leaves_no_files(pair_model, tmp_path, monkeypatch):
  def fail(*_, **__):
    raise OSError("disk full")

  # The graphs take seconds to trace and do not matter here.
  monkeypatch.setattr(saved_model, "_exported", lambda raw: tf.Module())
  monkeypatch.setattr(saved_model, "_signatures", lambda raw: {})
  monkeypatch.setattr(saved_model, "predict_log", fail)
  monkeypatch.setattr(
    tf.saved_model, "save", lambda root, path, **_: os.makedirs(path)
  )
  with pytest.raises(OSError, match="disk full"):
    saved_model.write(
      str(tmp_path / "1"), pair_model, warmup_texts=[("a", "b")]
    )
  assert os.listdir(tmp_path) == []
  # TensorFlow raises its own errors, here because `file` is not a folder.
  (tmp_path / "file").write_text("")
  monkeypatch.setattr(
    tf.saved_model, "save", lambda _, path, **__: tf.io.gfile.makedirs(path)
  )
  with pytest.raises(errors.InputError, match="cannot write .*/file/1: "):
    saved_model.write(str(tmp_path / "file" / "1"), pair_model)


@pytest.mark.parametrize(
  "names, newest",
  [
    (["9", "10", "x", "11.tmp-a"], "10"),
    (["0"], "0"),
    (["1", "saved_model.pb"], ""),
    (["x"], None),
  ],
)
def test_the_highest_version_is_loaded(names, newest, tmp_path):
  for name in names:
    (tmp_path / name).mkdir()
  if newest is None:
    for folder in (tmp_path, tmp_path / "none"):
      with pytest.raises(errors.InputError, match=f"no SavedModel in {folder}"):
        saved_model._newest_version(str(folder))
    return
  found = saved_model._newest_version(str(tmp_path))
  assert pathlib.Path(found) == tmp_path / newest


def test_only_exports_of_this_project_are_loaded(tmp_path):
  (tmp_path / "saved_model.pb").touch()
  message = "serve.py serves only exports"
  with pytest.raises(errors.InputError, match=message):
    saved_model.load(str(tmp_path))


def test_a_loaded_export_has_the_version_and_the_settings(folder):
  served = saved_model.load(os.path.dirname(folder), 5)
  assert (served.folder, served.version, served.batch_size) == (folder, 3, 5)
  assert served.texts == ["text_a", "text_b"]
  copy = pathlib.Path(folder).parents[1] / "other"
  copy.symlink_to(folder)
  assert saved_model.load(str(copy)).version == 1
  with pytest.raises(errors.InputError, match="num_threads=77"):
    saved_model.load(folder, threads=77)
