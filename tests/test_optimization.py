"""Compares schedules, updates and clipping with the original and float64."""

import functools
import json
import math
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import optimization
import optimizers
from common import errors
from training import layer_rates

GOLDEN = pathlib.Path("tests/golden")
RUNS = json.loads((GOLDEN / "optimizer/runs.json").read_text())
RATE = functools.partial(
  optimization.learning_rate,
  init_lr=1e-3,
  num_train_steps=20,
  num_warmup_steps=5,
)


@functools.cache
def golden(run):
  """Returns {part: {key: array}} of one run of the original."""
  parts = {}
  with np.load(GOLDEN / f"optimizer/{run}.npz") as arrays:
    for key in arrays.files:
      part, name = key.split("/", 1)
      parts.setdefault(part, {})[name] = arrays[key]
  return parts


def variables_of(values):
  return [tf.Variable(value, name=name) for name, value in values.items()]


def assert_close(value, expected, tolerance):
  """Compares with a tolerance relative to the tensor's largest value."""
  scale = np.max(np.abs(expected), initial=0.0)
  np.testing.assert_allclose(value, expected, rtol=0, atol=tolerance * scale)


# Learning rates.


@pytest.mark.parametrize("run", RUNS)
def test_rates_are_the_originals(run):
  options = {key: v for key, v in RUNS[run].items() if key != "config"}
  expected = golden(run)["steps"]["lr"]
  rate = functools.partial(optimization.learning_rate, **options)
  in_graph = tf.function(rate)
  for step, value in enumerate(expected):
    assert rate(step).numpy() == value
    assert in_graph(tf.constant(step, tf.int64)).numpy() == value


@pytest.mark.parametrize(
  "schedule, after_warmup",
  [
    ("linear", lambda done: 1.0 - done),  # It drops when warm-up ends.
    ("constant", lambda done: 1.0),
    ("cosine", lambda done: 0.5 + 0.5 * math.cos(math.pi * done)),
    ("polynomial", lambda done: (1.0 - done) ** 0.5),
  ],
)
def test_schedules_by_hand(schedule, after_warmup):
  rates = RATE(np.arange(30), schedule=schedule).numpy()
  expected = [
    step / 5 if step < 5 else after_warmup(min(step / 20, 1.0))
    for step in range(30)
  ]
  np.testing.assert_allclose(rates, 1e-3 * np.array(expected), atol=1e-10)


def test_unknown_names_are_refused_with_the_known_ones():
  with pytest.raises(errors.InputError, match="'step'.*cosine, linear, poly"):
    RATE(0, schedule="step")
  with pytest.raises(errors.InputError, match="'sgd'.*adamw, bertadam, lamb"):
    optimizers.make_optimizer("sgd")
  with pytest.raises(errors.InputError, match="num_train_steps is 0"):
    RATE(0, num_train_steps=0)


def test_create_optimizer_is_not_redefined():
  """The original's create_optimizer takes a loss and returns a training op."""
  assert not hasattr(optimization, "create_optimizer")


# Update rules, against float64.


def reference_update(
  rule, state, grad, *, step, rate, decayed, betas=(0.9, 0.999)
):
  """Returns (param, m, v) after an update in float64, as in the papers.

  Args:
    rule: "bertadam", "adamw" or "lamb".
    state: (param, m, v).
    step: number of the update, from 1.
    decayed: whether the weights decay and LAMB adapts their rate.
    betas: decay rates of the moments.
  """
  param, m, v = state
  m = betas[0] * m + 0.1 * grad
  v = betas[1] * v + 0.001 * grad**2
  first, second = m, v
  if rule != "bertadam":
    first, second = m / (1 - 0.9**step), v / (1 - 0.999**step)
  change = first / (second**0.5 + 1e-6) + (0.01 * param if decayed else 0)
  if rule == "lamb" and decayed:
    change *= np.linalg.norm(param) / np.linalg.norm(change)
  return param - rate * change, m, v


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("rule", ["bertadam", "adamw", "lamb"])
def test_updates_equal_float64_over_many_random_steps(rule, jit_compile):
  rng = np.random.RandomState(0)
  values = {"layer/kernel": rng.randn(6, 5), "layer/bias": rng.randn(5)}
  variables = variables_of({k: v.astype("f") for k, v in values.items()})
  optimizer = optimizers.make_optimizer(rule, jit_compile=jit_compile)
  optimizer.create_slots(variables)
  state = {name: (v, 0 * v, 0 * v) for name, v in values.items()}
  for step in range(100):
    rate = 0.1 * rng.rand()
    for variable, (name, value) in zip(variables, values.items()):
      grad = rng.randn(*value.shape) * 10.0 ** rng.randint(-3, 2)
      optimizer.update_all(
        [variable],
        [tf.constant(grad, tf.float32)],
        learning_rate=rate,
        step=step,
      )
      state[name] = reference_update(
        rule,
        state[name],
        grad,
        step=step + 1,
        rate=rate,
        decayed=name.endswith("kernel"),
      )
      moments = [optimizer.slots[f"{name}/adam_{moment}"] for moment in "mv"]
      for tensor, expected in zip([variable, *moments], state[name]):
        assert_close(tensor, expected, 2e-5)


@pytest.mark.parametrize("rule", ["bertadam", "adamw"])
def test_kernel_and_formula_stay_exact_for_a_thousand_steps(rule):
  rng = np.random.RandomState(0)
  grads, values = 1.0 + rng.randn(1000, 40), []
  state = (0.1 * rng.randn(40), np.zeros(40), np.zeros(40))
  for jit_compile in (False, True):
    (variable,) = variables_of({"bias": state[0].astype("f")})
    optimizer = optimizers.make_optimizer(rule, jit_compile=jit_compile)
    optimizer.create_slots([variable])
    update = tf.function(
      functools.partial(optimizer.update_all, [variable], learning_rate=1e-3)
    )
    for step, grad in enumerate(grads.astype("f")):
      update([tf.constant(grad)], step=tf.constant(step, tf.float32))
    values.append([variable, optimizer.slots["bias/adam_v"]])
  for step, grad in enumerate(grads):
    state = reference_update(
      rule,
      state,
      grad,
      step=step + 1,
      rate=1e-3,
      decayed=False,
      # float32's 0.999 is larger: in 1,000 steps, v decays by 1.3e-5 less.
      betas=np.float32([0.9, 0.999]).astype(float),
    )
  for kernel, formula, exact in zip(*values, (state[0], state[2])):
    assert_close(kernel, exact, 2e-6)
    assert_close(kernel, formula.numpy(), 1e-6)


def test_lamb_takes_the_plain_direction_of_a_zero_variable():
  zero, grad = tf.zeros([3]), tf.constant([1.0, -2.0, 4.0])
  adam = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-6}
  direction, _, _ = optimization.adam_direction(grad, zero, zero, **adam)
  new, _, _ = optimization.adam_weight_decay_update(
    zero,
    grad,
    zero,
    zero,
    learning_rate=1.0,
    weight_decay_rate=0.0,
    layer_adaptation=True,
    **adam,
  )
  np.testing.assert_array_equal(new, -direction)


def test_weight_decay_is_the_originals_for_every_variable():
  decays = json.loads((GOLDEN / "api/api.json").read_text())["weight_decay"]
  optimizer = optimizers.AdamWeightDecay()
  assert {name: optimizer.decays(name) for name in decays} == decays
  assert set(decays.values()) == {True, False}
  assert not optimizer.decays("encoder/layer_norm/gamma")


# Norm and clipping.


def test_norm_counts_rows_of_a_repeated_token_separately():
  rows = tf.IndexedSlices(
    tf.constant([[3.0], [4.0]]), tf.constant([1, 1]), tf.constant([2, 1])
  )
  dense = tf.constant([12.0])
  assert optimization.rows_squared_norm([rows, dense, None]) == 25.0
  assert optimization.global_norm([rows, dense, None]) == 13.0
  table = tf.convert_to_tensor(rows)
  np.testing.assert_array_equal(table, [[0.0], [7.0]])
  assert optimization.squared_norm([table, dense, None]) == 49.0 + 144.0


def test_small_gradients_are_not_scaled():
  assert optimization.clip_scale(tf.constant(0.0)) == 1.0
  assert optimization.clip_scale(tf.constant(0.7)) == 1.0
  assert optimization.clip_scale(tf.constant(4.0)) == 0.25


# The optimizer's state.


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("rule", ["bertadam", "lamb"])
def test_a_skipped_step_changes_no_bit(rule, jit_compile):
  optimizer = optimizers.make_optimizer(rule, jit_compile=jit_compile)
  variable = tf.Variable([-0.0, 1e-42, 3.0], name="kernel")
  optimizer.create_slots([variable])

  @tf.function
  def update(grad, apply):
    optimizer.update_all(
      [variable], [grad], learning_rate=1.0, step=0, apply=apply
    )

  update(tf.constant([1.0, 0.0, -1.0]), apply=tf.constant(True))
  state = [variable, *optimizer.slots.values()]
  before = [part.numpy().tobytes() for part in state]
  bad = tf.constant([math.nan, math.inf, 1.0])
  update(bad, apply=tf.constant(False))
  assert [part.numpy().tobytes() for part in state] == before
  update(bad, apply=tf.constant(True))
  assert [part.numpy().tobytes() for part in state] != before


def test_a_whole_step_can_be_compiled():
  variable = tf.Variable([1.0, 2.0], name="kernel")
  optimizer = optimizers.make_optimizer("lamb")
  optimizer.create_slots([variable])

  @tf.function(jit_compile=True)
  def step(number):
    with tf.GradientTape() as tape:
      loss = tf.reduce_sum(variable**2)
    grads = tape.gradient(loss, [variable])
    return optimizer.apply_gradients(
      grads, [variable], learning_rate=RATE(number), step=number
    )

  norms = [step(tf.constant(number, tf.int64)).numpy() for number in (1, 2)]
  assert norms[1] < norms[0] == pytest.approx(math.sqrt(20))


def test_slots_are_named_after_their_variables_wherever_they_are_made():
  variables = variables_of({"bert/a/kernel": [1.0], "output_bias": [1.0]})
  optimizer = optimizers.AdamWeightDecay()
  with tf.name_scope("elsewhere"):
    optimizer.create_slots(variables)
  assert list(optimizer.slots) == [
    "bert/a/kernel/adam_m",
    "bert/a/kernel/adam_v",
    "output_bias/adam_m",
    "output_bias/adam_v",
  ]
  for name, slot in optimizer.slots.items():
    assert slot.name == f"{name}:0"


@pytest.mark.parametrize("rule", ["bertadam", "adamw"])
def test_a_beta_that_rounds_to_1_leaves_finite_numbers(rule):
  """float32 has no number between 1 - 6e-8 and 1."""
  optimizer = optimizers.make_optimizer(rule, beta_2=1 - 1e-9)
  variable = tf.Variable([1.0, 2.0], name="kernel")
  optimizer.create_slots([variable])
  for step in range(3):
    optimizer.update_all(
      [variable], [tf.constant([1.0, -1.0])], learning_rate=1e-3, step=step
    )
  assert (
    np.isfinite(variable).all() and not (variable == [1.0, 2.0]).numpy().all()
  )


def test_a_variable_without_gradient_is_left_alone():
  variables = variables_of({"used": [1.0], "unused": [1.0]})
  optimizer = optimizers.AdamWeightDecay()
  optimizer.create_slots(variables[:1])
  optimizer.apply_gradients(
    [tf.constant([1.0]), None], variables, learning_rate=0.1, step=0
  )
  assert variables[0].numpy() != 1.0
  assert variables[1].numpy() == 1.0


def test_depth_of_a_variable():
  depths = {
    "bert/embeddings/LayerNorm/beta": 0,
    "bert/embeddings_project/kernel": 0,
    "bert/encoder/layer_0/attention/self/query/kernel": 1,
    "bert/encoder/layer_11/output/dense/bias": 12,
    "bert/pooler/dense/kernel": 13,
    "cls/predictions/transform/dense/kernel": 13,
    "output_weights": 13,
  }
  for name, depth in depths.items():
    assert layer_rates.layer_of(name, 12) == depth
  # Weights that layers share have the last layer's depth.
  assert layer_rates.layer_of("bert/encoder/transformer/kernel", 12) == 12
  factors = layer_rates.learning_rate_multipliers(depths, 12, 0.5)
  assert factors == {name: 0.5 ** (13 - d) for name, d in depths.items()}
  assert layer_rates.trainable_names(depths, 12) == list(depths)
  frozen = layer_rates.trainable_names(depths, 12, freeze_layers=1)
  assert frozen == list(depths)[3:]
  frozen = layer_rates.trainable_names(depths, 12, freeze_layers=12)
  assert frozen == list(depths)[4:]
  with pytest.raises(errors.InputError, match="from 0 to 12"):
    layer_rates.trainable_names(depths, 12, freeze_layers=13)


def test_multipliers_scale_the_rate_of_their_variables():
  variables = variables_of({"slow": [1.0], "usual": [1.0]})
  optimizer = optimizers.AdamWeightDecay(
    weight_decay_rate=0.0, rate_multipliers={"slow": 0.25}
  )
  optimizer.create_slots(variables)
  grads = [tf.constant([1.0])] * 2
  optimizer.apply_gradients(grads, variables, learning_rate=0.125, step=0)
  slow, usual = (1.0 - variable.numpy() for variable in variables)
  assert slow == pytest.approx(0.25 * usual, rel=1e-5)
