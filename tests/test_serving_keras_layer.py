"""Compares the Keras layer with the encoder that it wraps."""

import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import modeling
import serving_models
import tiny_model
from checkpoints import weight_files
from common import errors
from serving import keras_layer, text_models


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return str(
    serving_models.trained(
      tmp_path_factory.mktemp("bert"), None, stored={"max_seq_length": 16}
    )
  )


def classifier(layer):
  """Returns a functional model with a head on the pooled output."""
  names = ("input_ids", "input_mask", "segment_ids")
  inputs = [keras.Input([None], dtype="int32", name=name) for name in names]
  pooled = layer(*inputs)["pooled_output"]
  return keras.Model(inputs, keras.layers.Dense(2, name="head")(pooled))


def encoder(folder):
  config = modeling.BertConfig.from_json_file(f"{folder}/bert_config.json")
  bert = modeling.BertModel(config)
  weight_files.load(bert.variables, folder)
  return bert


def test_hidden_states_equal_those_from_encode(folder):
  encoded = text_models.load(folder).encode("the quick fox")
  batch = [
    tf.constant([values])
    for values in (encoded.input_ids, encoded.input_mask, encoded.segment_ids)
  ]
  output = keras_layer.BertLayer(pathlib.Path(folder))(*batch)
  tiny_model.assert_close(
    output["sequence_output"][0], encoded.layers[-1], 1e-6
  )
  tiny_model.assert_close(output["pooled_output"][0], encoded.pooled, 1e-6)


def test_fit_trains_every_variable_and_drops_only_in_training(folder):
  layer = keras_layer.BertLayer(folder)
  model = classifier(layer)
  bert = encoder(folder)
  assert len(layer.trainable_weights) == len(bert.variables)
  data = tiny_model.batch()
  assert np.array_equal(
    layer(*data)["pooled_output"], layer(*data)["pooled_output"]
  )
  dropped = [layer(*data, training=True)["pooled_output"] for _ in range(2)]
  assert not np.allclose(*dropped)
  before = [weight.numpy() for weight in layer.trainable_weights]
  loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
  model.compile(keras.optimizers.AdamW(1e-3), loss)
  model.fit([*data], np.array([0, 1, 1]), epochs=2, verbose=0)
  unchanged = [
    weight.name
    for weight, value in zip(layer.trainable_weights, before)
    if np.array_equal(weight.numpy(), value)
  ]
  assert not unchanged
  layer.trainable = False
  assert [w.name for w in model.trainable_weights] == ["kernel", "bias"]


def step(call, watched, variables):
  """Returns the values of variables after a step of Keras' AdamW."""
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(call(*tiny_model.batch()) ** 2)
  gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, watched)]
  optimizer = keras.optimizers.AdamW(1e-3, weight_decay=0.1)
  optimizer.apply(gradients, variables)
  return [variable.numpy() for variable in variables]


def test_a_step_equals_a_step_on_the_encoders_variables(folder):
  layer, bert = keras_layer.BertLayer(folder), encoder(folder)
  layer_values = step(
    lambda *data: layer(*data)["pooled_output"],
    [weight.value for weight in layer.trainable_weights],
    layer.trainable_weights,
  )
  encoder_values = step(
    lambda *data: bert(*data).pooled_output,
    bert.variables,
    [keras.Variable(v.numpy()) for v in bert.variables],
  )
  names = [weight.name for weight in layer.trainable_weights]
  expected = [v.name.split(":")[0].replace("/", ".") for v in bert.variables]
  by_name = dict(zip(expected, encoder_values, strict=True))
  for name, value in zip(names, layer_values, strict=True):
    tiny_model.assert_close(value, by_name[name], 1e-6)


def test_a_saved_model_is_loaded_without_the_folder(folder, tmp_path):
  model = classifier(keras_layer.BertLayer(folder))
  data = [*tiny_model.batch()]
  model.save(tmp_path / "model.keras")
  loaded = keras.saving.load_model(tmp_path / "model.keras")
  tiny_model.assert_close(loaded(data), model(data), 1e-6)


def test_either_a_folder_or_a_configuration():
  with pytest.raises(errors.InputError, match="either folder="):
    keras_layer.BertLayer()
