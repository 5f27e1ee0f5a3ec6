"""Tests the network compiled, with recomputation and in half precision."""

import pytest
import tensorflow as tf

import heads
import modeling
from tiny_model import assert_close, batch, classifier, classifier_step, tiny


def check_same_step(first, second, tolerance=1e-5):
  assert_close(first[0], second[0], tolerance)
  for gradient, expected in zip(first[1], second[1]):
    assert_close(
      tf.convert_to_tensor(gradient), tf.convert_to_tensor(expected), tolerance
    )


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_graph_xla_and_recomputation_equal_eager(recompute, jit_compile):
  model, head = classifier()
  expected = classifier_step(model, head, *batch())
  model, head = classifier(recompute_activations=recompute)

  @tf.function(jit_compile=jit_compile)
  def step(*data):
    loss, gradients = classifier_step(model, head, *data)
    return loss, [tf.convert_to_tensor(g) for g in gradients]

  check_same_step(step(*batch()), expected)


@pytest.fixture
def layer_calls(monkeypatch):
  """A list that grows with each call of a layer's function."""
  calls, function = [], modeling.transformer_layer

  def counted(*arguments, **options):
    calls.append(1)
    return function(*arguments, **options)

  monkeypatch.setattr(modeling.BertModel, "layer", staticmethod(counted))
  return calls


@pytest.mark.parametrize(
  "options, traces",
  [({}, 1), ({"positions": [[0]] * 3}, 2), ({"return_attention": True}, 1)],
)
def test_all_layers_of_a_graph_share_one_trace(layer_calls, options, traces):
  model = modeling.BertModel(tiny(num_hidden_layers=5))
  encode = tf.function(lambda *data: model(*data, **options).pooled_output)
  pooled = encode(*batch())
  assert len(layer_calls) == traces
  # Eagerly, each layer is a call.
  assert_close(pooled, model(*batch(), **options).pooled_output)
  assert len(layer_calls) == traces + 5


@pytest.mark.parametrize("skip_padding, traces", [(True, 1), (False, 5)])
def test_layers_that_xla_trains_are_inlined(layer_calls, skip_padding, traces):
  """XLA would treat all inputs of such calls as constants, even the batch."""
  model = modeling.BertModel(
    tiny(num_hidden_layers=5), skip_padding=skip_padding
  )
  tf.function(lambda *data: model(*data, training=True).pooled_output)(*batch())
  assert len(layer_calls) == traces


def count_products(recompute):
  model, head = classifier(recompute_activations=recompute)

  @tf.function(jit_compile=True)
  def step(*data):
    return classifier_step(model, head, *data)[1][5:]

  compiled = step.experimental_get_compiler_ir(*batch())
  return compiled(stage="optimized_hlo").count(" dot(")


def test_recomputation_is_not_optimized_away():
  # Of 8 products in each of 2 layers, all but the last are recomputed.
  assert count_products(True) >= count_products(False) + 14


def test_word_gradients_are_rows_until_words_are_predicted():
  # Clipping depends on this: if a token occurs twice in the batch, the norm of
  # the rows differs from the norm of the table.
  model, head = classifier()
  gradients = classifier_step(model, head, *batch())[1]
  assert isinstance(gradients[0], tf.IndexedSlices)
  assert gradients[0].values.shape == [3 * 8, 16]
  assert not any(isinstance(g, tf.IndexedSlices) for g in gradients[1:])
  masked_lm = heads.MaskedLMHead(model.config, model.word_embeddings)
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(masked_lm(model(*batch()).sequence_output, [[0]] * 3))
  assert isinstance(tape.gradient(loss, model.word_embeddings), tf.Tensor)


def test_any_batch_and_length_run_in_one_trace():
  model = modeling.BertModel(tiny())
  traces = []

  @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 3)
  def encode(*data):
    traces.append(1)
    return model(*data, training=True, dropout_seed=[1, 2]).pooled_output

  for rows, length in ((3, 8), (1, 12), (5, 1)):
    data = batch(rows, length)
    expected = model(*data, training=True, dropout_seed=[1, 2]).pooled_output
    assert_close(encode(*data), expected)
  assert len(traces) == 1


def test_static_shapes_are_kept():
  model, head = classifier()

  @tf.function
  def encode(*data):
    output = model(*data, return_attention=True)
    assert output.sequence_output.shape == [3, 8, 16]
    assert output.attention_probs[0].shape == [3, 4, 8, 8]
    assert head(output.pooled_output).shape == [3, 3]
    return output.pooled_output

  assert encode(*batch()).shape == [3, 16]


@pytest.mark.parametrize(
  "dtype, tolerance", [(tf.bfloat16, 0.04), (tf.float16, 0.005)]
)
def test_half_precision_follows_float32(dtype, tolerance):
  config = tiny(initializer_range=0.1)
  exact, half = classifier(config), classifier(config, compute_dtype=dtype)
  loss, gradients = classifier_step(*exact, *batch())
  half_loss, half_gradients = classifier_step(*half, *batch())
  assert half_loss.dtype == tf.float32
  assert abs(loss - half_loss) < tolerance * abs(loss)
  for slices, rounded in zip(gradients, half_gradients):
    full, rounded = map(tf.convert_to_tensor, (slices, rounded))
    assert rounded.dtype == tf.float32
    # Key biases have no gradient: they shift all of a query's scores alike.
    allowed = tolerance * tf.norm(full) + 1e-3 * tf.linalg.global_norm(
      gradients
    )
    assert tf.norm(full - rounded) < allowed
  assert {v.dtype for v in half[0].variables} == {tf.float32}


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_products_run_in_the_compute_dtype(monkeypatch, dtype):
  # Inline the layers: get_operations() omits operations of inner functions.
  monkeypatch.setattr(tf, "inside_function", lambda: False)
  model = modeling.BertModel(tiny(), compute_dtype=dtype)
  masked_lm = heads.MaskedLMHead(tiny(), model.word_embeddings)

  @tf.function
  def predict(*data):
    with tf.GradientTape() as tape:
      logits = masked_lm(model(*data).sequence_output, [[0], [1], [2]])
    return logits, tape.gradient(logits, model.variables + masked_lm.variables)

  graph = predict.get_concrete_function(*batch()).graph
  types = {"MatMul": [], "BatchMatMulV2": [], "Softmax": [], "Rsqrt": []}
  for operation in graph.get_operations():
    if operation.type in types:
      types[operation.type].append(operation.outputs[0].dtype)
  # float32: the segment lookup, forward and backward. `dtype`: 14 products, six
  # in each of 2 layers and two in the masked-LM head. The backward pass has two
  # for each product, and one more for each bias (the last product has none).
  # The pooler runs only forward.
  assert sorted(types["MatMul"], key=str) == sorted(
    [tf.float32] * 2 + [dtype] * (3 * 14 + 13 + 1), key=str
  )
  assert types["BatchMatMulV2"] == [dtype] * 3 * 4
  assert types["Softmax"] == [tf.float32] * 2
  assert types["Rsqrt"] == [tf.float32] * 6
  assert predict(*batch())[0].dtype == tf.float32


def test_no_read_or_update_copies_the_word_embeddings():
  # A ResourceGather makes TensorFlow copy the variable at each read or update.
  model = modeling.BertModel(tiny())

  @tf.function
  def gradient_of_words(*data):
    with tf.GradientTape() as tape:
      loss = tf.reduce_sum(model(*data).pooled_output)
    return tape.gradient(loss, model.word_embeddings)

  concrete = gradient_of_words.get_concrete_function(*batch())
  types = {operation.type for operation in concrete.graph.get_operations()}
  assert "ResourceGather" not in types
  assert "GatherV2" in types
