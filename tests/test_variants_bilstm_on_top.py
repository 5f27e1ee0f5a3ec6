"""A BiLSTM on top of an encoder: what the heads read, and how it is trained."""

import numpy as np
import pytest
import tensorflow as tf

import layers
import modeling
import tiny_model
from checkpoints import converter, model_writer
from common import errors
from engines import onnx_graph
from squad import model as squad_model
from tiny_model import unequal_batch
from variants import registry

RNG = np.random.RandomState(0)


def config_of(variant="bert", **changes):
  return modeling.BertConfig.from_dict({
    **tiny_model.TINY, "variant": variant, "bilstm_on_top": True, **changes
  })


@pytest.mark.parametrize("variant, last", [
  ("bert", [0, 0, 0]), ("left_to_right", [7, 6, 2]),
])
@pytest.mark.parametrize("options", [{}, {"skip_padding": True}])
def test_it_reads_the_encoders_states(variant, last, options):
  batch, config = unequal_batch(), config_of(variant)
  encoder = registry.make_encoder(config, seed=4, **options)
  plain = registry.make_encoder(config_of(variant, bilstm_on_top=False), seed=4)
  weights = {
    v.name.split("/")[1].split(":")[0]: v for v in encoder.variables
    if v.name.startswith("bilstm/")
  }
  states = layers.bilstm(
    plain.encode(unequal_batch()).sequence_output, [8, 7, 3], weights
  ).numpy()
  found = encoder.encode(batch)
  is_token = batch["input_mask"].numpy() > 0
  tiny_model.assert_close(
    found.sequence_output.numpy()[is_token], states[is_token]
  )
  pooled = plain.pool(states[range(3), last])
  tiny_model.assert_close(found.pooled_output, pooled)
  # Only some positions are read, and all others take part in them.
  positions = np.array([last, [2, 1, 0]], np.int32).T
  some = encoder.encode(batch, positions=positions)
  tiny_model.assert_close(some.pooled_output, pooled)
  tiny_model.assert_close(
    some.sequence_output, np.take_along_axis(states, positions[..., None], 1)
  )


def test_gradients_equal_differences():
  values = [
    RNG.randn(*shape)
    for shape in ([2, 4, 3], [2, 3, 8], [2, 2, 8], [2, 8], [2, 4, 4])
  ]
  *inputs, counts = values

  def loss(x, kernel, recurrent_kernel, bias):
    weights = {
      "kernel": kernel, "recurrent_kernel": recurrent_kernel, "bias": bias
    }
    return tf.reduce_sum(layers.bilstm(x, [4, 2], weights) * counts)

  found, expected = tf.test.compute_gradient(loss, inputs, delta=1e-5)
  for ours, numeric in zip(found, expected):
    tiny_model.assert_close(ours, numeric, 1e-8)
    assert abs(numeric).max() > 0.01


def test_it_is_trained_with_the_task():
  model = squad_model.SpanModel(config_of(), seed=1)
  zeros = tf.zeros([3], tf.int32)
  batch = unequal_batch(start_positions=zeros, end_positions=zeros)
  with tf.GradientTape() as tape:
    sums, _ = squad_model.objective(model).sums(batch, None)
  trained = model.trained_variables()
  names = [layers.variable_name(v) for v in trained]
  assert {n for n in names if n.startswith("bilstm/")} == set(
    layers.bilstm_shapes("bilstm", 16, 8)
  )
  for name, gradient in zip(names, tape.gradient(sums["span"], trained)):
    assert abs(tf.convert_to_tensor(gradient).numpy()).max() > 0, name


def test_initial_weights_are_those_of_an_lstm():
  encoder = registry.make_encoder(config_of(), seed=4)
  values = {v.name: v.numpy() for v in encoder.variables}
  assert not values["bilstm/bias:0"].any()
  for name in ("kernel", "recurrent_kernel"):
    largest = abs(values[f"bilstm/{name}:0"]).max()
    assert 0.95 / np.sqrt(8) < largest <= 1 / np.sqrt(8)


def test_an_odd_width_is_refused():
  config = config_of(hidden_size=15, num_attention_heads=3)
  with pytest.raises(errors.InputError, match="hidden_size is 15: a BiLSTM"):
    registry.make_encoder(config)


def test_where_it_cannot_go_is_named(tmp_path):
  config = config_of("albert", embedding_size=8, num_hidden_groups=1)
  encoder = registry.make_encoder(config)
  folder = str(tmp_path / "model")
  model_writer.write(folder, encoder.variables, config, None, None)
  source = converter.open_source(folder)
  for kind in ("huggingface", "model_garden"):
    with pytest.raises(errors.InputError, match="for a BiLSTM on top"):
      converter.convert(source, f"{tmp_path}/{kind}", kind)
  found = converter.convert(source, f"{tmp_path}/tf1", "tf1")
  assert set(found.names) >= set(layers.bilstm_shapes("bilstm", 16, 8))
  with pytest.raises(errors.InputError, match="BiLSTM on top cannot .* ONNX"):
    onnx_graph.make("embedding", {}, config)


def test_states_have_the_type_that_the_encoder_computes_in():
  config = modeling.BertConfig.from_dict(
    {**tiny_model.TINY, "bilstm_on_top": True}
  )
  for dtype in (tf.bfloat16, tf.float32):
    bert = registry.make_encoder(config, compute_dtype=dtype)
    output = bert(tf.constant([[1, 2, 3]]), tf.constant([[1, 1, 0]]))
    assert output.sequence_output.dtype == dtype
