"""Tests functions without variables: activations, norm, dense, dropout."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import kernels
import layers
from common import errors
from message_facts import says

TABLES = np.load("tests/golden/api/gelu_layernorm.npz")


def _norm(x, beta=0.0, gamma=1.0):
  width = x.shape[-1]
  weights = {
    "n/beta": tf.fill([width], beta),
    "n/gamma": tf.fill([width], gamma),
  }
  return layers.layer_norm(tf.constant(x), weights, "n")


def _max_relative(value, expected):
  return np.max(np.abs(value - expected) / (1.0 + np.abs(expected)))


def test_gelu_equals_the_original_with_its_gradient():
  x = tf.constant(TABLES["x"])
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = kernels.gelu(x)
  gradient = tape.gradient(y, x).numpy()
  for computed, table in ((y.numpy(), "gelu"), (gradient, "gelu_grad")):
    expected = TABLES[table]
    finite = np.isfinite(expected)
    assert _max_relative(computed[finite], expected[finite]) < 1e-5
  # As in the original: infinity gives infinity, minus infinity NaN.
  np.testing.assert_array_equal(
    kernels.gelu([np.inf, -np.inf]).numpy(), [np.inf, np.nan]
  )


@pytest.mark.parametrize("function", [kernels.gelu, kernels.gelu_erf])
@pytest.mark.parametrize(
  "dtype, tolerance", [("float32", 3e-6), ("bfloat16", 2e-2)]
)
def test_gelus_equal_tensorflows_own(function, dtype, tolerance):
  x = tf.cast(tf.linspace(-6.0, 6.0, 1001), dtype)
  reference = functools.partial(
    tf.nn.gelu, approximate=function is kernels.gelu
  )
  results = []
  for activation, compute_dtype in ((function, dtype), (reference, "float64")):
    wide = tf.cast(x, compute_dtype)
    with tf.GradientTape() as tape:
      tape.watch(wide)
      y = activation(wide)
    results.append((y, tape.gradient(y, wide)))
  for value, expected in zip(*results, strict=True):
    assert value.dtype == dtype
    np.testing.assert_allclose(
      tf.cast(value, "float64"), expected, atol=tolerance
    )


@pytest.mark.parametrize(
  "name, expected",
  [
    ("gelu", 0.8411920),
    ("GELU", 0.8411920),
    ("gelu_erf", 0.8413447),
    ("relu", 1.0),
    ("tanh", 0.7615942),
    ("linear", 1.0),
    ("", 1.0),
    (None, 1.0),
    ("swish", 0.7310586),
    ("silu", 0.7310586),
    (tf.square, 1.0),
  ],
)
def test_activations_by_name(name, expected):
  for fused in (False, True):
    value = layers.get_activation(name, fused=fused)(tf.constant(1.0))
    assert abs(float(value) - expected) < 1e-6


def test_unknown_activation_lists_the_known():
  with pytest.raises(errors.InputError, match=says("'mish'", "gelu_erf")):
    layers.get_activation("mish")


def test_layer_norm_equals_the_original():
  np.testing.assert_allclose(
    _norm(TABLES["ln_in"]), TABLES["ln_out"], atol=1e-5
  )
  np.testing.assert_allclose(
    _norm(TABLES["ln_degenerate_in"]), TABLES["ln_degenerate_out"], atol=1e-5
  )


def test_layer_norm_in_bfloat16_is_float32_inside():
  x = np.random.RandomState(1).normal(300.0, 1.0, [4, 64])
  x = tf.cast(tf.constant(x), tf.bfloat16)
  # At 300, bfloat16 numbers are 2 apart: a rounded mean would be too inexact.
  expected = _norm(tf.cast(x, tf.float32).numpy(), 0.5, 2.0)
  value = _norm(x, 0.5, 2.0)
  assert value.dtype == tf.bfloat16
  np.testing.assert_allclose(
    tf.cast(value, tf.float32), expected, rtol=2**-8, atol=1e-6
  )


def test_layer_norm_gradient_equals_float64():
  rng = np.random.RandomState(2)
  x, dy, gamma, beta = rng.normal(size=[4, 3, 16])[:, :, :]
  gamma, beta = gamma[0], beta[0]
  inputs = [tf.constant(v, tf.float32) for v in (x, gamma, beta)]
  with tf.GradientTape() as tape:
    tape.watch(inputs)
    y = layers.layer_norm(
      inputs[0], {"n/gamma": inputs[1], "n/beta": inputs[2]}, "n"
    )
  dx, dgamma, dbeta = tape.gradient(y, inputs, dy.astype(np.float32))
  std = x.std(-1, keepdims=True)
  normed = (x - x.mean(-1, keepdims=True)) / std
  scaled = dy * gamma
  expected = scaled - scaled.mean(-1, keepdims=True)
  expected -= normed * (scaled * normed).mean(-1, keepdims=True)
  np.testing.assert_allclose(dx, expected / std, atol=1e-5)
  np.testing.assert_allclose(dgamma, (dy * normed).sum(0), atol=1e-5)
  np.testing.assert_allclose(dbeta, dy.sum(0), atol=1e-5)


def test_dense_works_on_any_rank():
  weights = {"d/kernel": tf.constant([[1.0], [10.0]]), "d/bias": [0.5]}
  x = tf.reshape(tf.range(8.0), [2, 2, 2])
  value = layers.dense(x, weights, "d", tf.negative)
  np.testing.assert_array_equal(value, [[[-10.5], [-32.5]], [[-54.5], [-76.5]]])


def test_one_hot_lookup_gives_zeros_out_of_range():
  signature = [tf.TensorSpec([None, 2], tf.int32), tf.TensorSpec([2, 2])]
  lookup = tf.function(layers.one_hot_lookup, input_signature=signature)
  value = lookup([[1, 7]], [[1.0, 2.0], [3.0, 4.0]])
  np.testing.assert_array_equal(value, [[[3.0, 4.0], [0.0, 0.0]]])


def drop(x, rate, seed, site="here", is_for_tpu=False):
  return layers.Dropout(seed, is_for_tpu=is_for_tpu).at(site)(x, rate)


@pytest.mark.parametrize("is_for_tpu", [False, True])
@pytest.mark.parametrize("rate", [0.1, 0.9])
def test_dropout_keeps_the_mean_and_the_share(rate, is_for_tpu):
  x = tf.ones([100, 1000])
  dropped = drop(x, rate, [1, 2], is_for_tpu=is_for_tpu).numpy()
  assert sorted(set(dropped.ravel())) == [0.0, np.float32(1 / (1 - rate))]
  # 0.0047 is five standard deviations of the share in 100,000 units.
  assert abs((dropped == 0).mean() - rate) < 0.0047


@pytest.mark.parametrize("is_for_tpu", [False, True])
def test_dropout_is_a_function_of_seed_and_site(is_for_tpu):
  x = tf.ones([64, 64])
  masks = [
    drop(x, 0.5, seed, site, is_for_tpu).numpy()
    for seed in ([1, 2], [1, 3], [2, 2])
    for site in ("layer_0/output", "layer_1/output")
  ]
  again = drop(x, 0.5, [1, 2], "layer_0/output", is_for_tpu).numpy()
  np.testing.assert_array_equal(masks[0], again)
  for i, first in enumerate(masks):
    for second in masks[:i]:
      # Independent masks agree in half of 4096 positions, within 5 sigma.
      assert abs((first == second).mean() - 0.5) < 0.04


def test_sites_differ_in_the_bits_that_a_tpu_uses():
  sites = layers.Dropout([1, 2], is_for_tpu=True)
  # A TPU's generator uses the key and 64 bits of the counter.
  first, second = (sites.at(name).counter[0].numpy() for name in ("a", "b"))
  # The low word counts the blocks of a site.
  assert first[0] == second[0] == 0 and first[1] != second[1]


def test_dropout_is_the_same_under_xla():
  x = tf.ones([32, 32])
  compiled = tf.function(drop, jit_compile=True)
  np.testing.assert_array_equal(drop(x, 0.1, [3, 4]), compiled(x, 0.1, [3, 4]))


@pytest.mark.parametrize(
  "rate, seed", [(0.0, [1, 2]), (0, [1, 2]), (0.5, None)]
)
def test_dropout_off_is_the_input_itself(rate, seed):
  x = tf.ones([2])
  assert drop(x, rate, seed) is x


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9999999])
@pytest.mark.parametrize("is_for_tpu", [False, True])
def test_a_mask_drops_the_lowest_numbers(rate, is_for_tpu):
  """Of 2^16 equally likely numbers, 2^16 times the rate, but never all."""
  shape, seed = tf.constant([1000, 333]), tf.constant([3, 4])
  counter = tf.constant([[0, 7], [0, 0]])
  mask = kernels.random_mask(shape, rate, seed, counter, is_for_tpu=is_for_tpu)
  if is_for_tpu:
    algorithm = tf.random.Algorithm.AUTO_SELECT
    numbers = kernels._random_int32(shape, seed, counter, algorithm).numpy()
    numbers >>= 16
  else:
    numbers = kernels._random_int16(shape, seed, counter).numpy()
  dropped = min(round(rate * 65536), 65535)
  kept = numbers.astype(np.int64) + 32768 >= dropped
  np.testing.assert_array_equal(mask, kept)
  assert kept.any() and not kept.all()


def test_attention_bias():
  bias = layers.attention_bias(tf.constant([[1, 0]]))
  np.testing.assert_array_equal(bias, [[[[0.0, -10000.0]]]])
  assert layers.attention_bias(None) is None


def test_of_call_uses_or_draws_a_seed():
  of_call = layers.Dropout.of_call
  assert of_call(False, [1, 2]).seed is None
  np.testing.assert_array_equal(of_call(True, [1, 2]).seed, [1, 2])
  first, second = (of_call(True).seed for _ in range(2))
  assert first.shape == [2] and np.any(first != second)


def bias_gradient(rows, compiled):
  """Returns a tf.function: the gradient of a bias that is added to rows.

  The gradient of the sum is `rows`.
  """
  bias = tf.zeros([6])

  def gradient():
    with tf.GradientTape() as tape:
      tape.watch(bias)
      total = tf.reduce_sum(kernels.add_bias(rows, bias) * rows)
    return tape.gradient(total, bias)

  function = kernels.for_compiler(gradient) if compiled else gradient
  return tf.function(function, jit_compile=compiled)


@pytest.mark.parametrize("compiled", [False, True])
def test_the_gradient_of_a_bias_is_a_sum_of_rows(compiled):
  rows = tf.constant(np.random.default_rng(1).normal(size=(50, 6)), tf.float32)
  traced = bias_gradient(rows, compiled)
  np.testing.assert_allclose(traced(), rows.numpy().sum(0), rtol=1e-5)
  operations = traced.get_concrete_function().graph.get_operations()
  assert ("MatMul" in {op.type for op in operations}) != compiled


@pytest.mark.parametrize("compiled", [False, True])
def test_only_xla_sums_the_gradient_of_a_bias_in_float32(compiled):
  values = np.random.default_rng(1).normal(size=(50, 6))
  rows = tf.constant(values, tf.bfloat16)
  found = bias_gradient(rows, compiled)()
  exact = tf.cast(rows, tf.float32).numpy().sum(0)
  rounded = tf.cast(tf.cast(exact, tf.bfloat16), tf.float32).numpy()
  np.testing.assert_allclose(found, exact if compiled else rounded, rtol=1e-5)
