"""Optimizers: BERT's Adam, AdamW and LAMB, with their state.

An optimizer stores the two moments of each variable and applies the formulas of
optimization.py, or a kernel of TensorFlow that computes the same in one pass
over memory. The training loop sums gradients over replicas before it calls
`update_all`.
"""

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

import named_weights
import optimization
from common import errors

# Variables whose names contain one of these get no weight decay, including the
# `output_bias` of a head.
NOT_DECAYED = ("LayerNorm", "layer_norm", "bias")


def _scaled(grad: tf.Tensor | tf.IndexedSlices, scale):
  """Returns grad * scale as a dense float32 tensor, 0 if the scale is 0."""
  if isinstance(grad, tf.IndexedSlices):
    # Scales the rows before they expand to the whole embedding table.
    values = _scaled(grad.values, scale)
    rows = tf.IndexedSlices(values, grad.indices, grad.dense_shape)
    return tf.convert_to_tensor(rows)
  # 0 times an infinite gradient would be NaN, but a skipped step (scale 0) must
  # not change the moments.
  return tf.math.multiply_no_nan(tf.cast(grad, tf.float32), scale)


class AdamWeightDecay:
  """BERT's Adam: keeps the two moments of each variable and applies updates.

  Attributes:
    slots: dict from "<variable>/adam_m" and "<variable>/adam_v" to the
      tf.Variable with that moment; training checkpoints save them.
  """

  # Layer adaptation (LAMB) needs norms of whole variables, which no kernel
  # computes.
  _adapts_layers = False

  def __init__(
    self,
    *,
    weight_decay_rate: float = 0.01,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-6,
    bias_correction: bool = False,
    rate_multipliers: dict[str, float] | None = None,
    jit_compile: bool = False,
  ):
    """Makes an optimizer; the defaults are the original's fixed values.

    Args:
      bias_correction: whether to correct the bias of the moments (AdamW).
      rate_multipliers: {variable name: factor of the learning rate} (see
        training/layer_rates.py); missing names have 1.
      jit_compile: whether XLA compiles the formula, once per shape. This helps
        if XLA compiles the whole step, and for LAMB, whose dozen passes over
        memory become one. If false, Adam uses TensorFlow's kernel, which is as
        fast without a compiler.
    """
    self.slots: dict[str, tf.Variable] = {}
    self._weight_decay_rate = weight_decay_rate
    self._betas = dict(beta_1=beta_1, beta_2=beta_2)
    self._adam = dict(self._betas, epsilon=epsilon)
    self._corrects_bias = bias_correction
    self._rate_multipliers = dict(rate_multipliers or {})
    self._compiles = jit_compile
    self._compiled_formula: Callable = self._new_values
    self._compiled_corrections: Callable = self._bias_corrections
    if jit_compile:
      compiled = functools.partial(tf.function, jit_compile=True)
      self._compiled_formula = compiled(self._new_values)
      self._compiled_corrections = compiled(self._bias_corrections)

  def create_slots(self, variables: list[tf.Variable]) -> None:
    """Creates zero moments for the variables that will have a gradient.

    Call it inside `strategy.scope()`. As in the original: a variable without a
    gradient (the pooler in SQuAD) is never updated or decayed and has no
    moments, so leave it out.
    """
    strategy = tf.distribute.get_strategy()
    for variable in variables:
      for slot in ("adam_m", "adam_v"):
        name = f"{named_weights.variable_name(variable)}/{slot}"
        # The empty scope keeps the caller's name scope out of the name.
        with tf.name_scope(""), strategy.extended.colocate_vars_with(variable):
          self.slots[name] = tf.Variable(
            tf.zeros(variable.shape), trainable=False, name=name
          )

  def decays(self, name: str) -> bool:
    """Returns whether the variable with this name gets weight decay."""
    return not any(part in name for part in NOT_DECAYED)

  def update_all(
    self,
    variables,
    grads,
    *,
    learning_rate,
    step,
    grad_scale: float | tf.Tensor = 1.0,
    apply: bool | tf.Tensor = True,
  ) -> None:
    """Applies gradients to variables and to their moments.

    By default, Adam and AdamW run TensorFlow's kernel (`_update_in_place`).
    LAMB and updates compiled by XLA run optimization.adam_weight_decay_update.

    Args:
      variables: the tf.Variables passed to `create_slots`, or one replica's
        copies of them.
      grads: one tensor or tf.IndexedSlices per variable, summed over replicas.
      learning_rate: scalar, see optimization.learning_rate.
      step: number of earlier updates; only bias correction uses it.
      grad_scale: scalar that multiplies the gradients (`clip_scale`).
      apply: bool or bool tensor; False leaves all bits of the variables and
        moments unchanged, even if a gradient is not finite.
    """
    # With Python numbers, tf.function would trace the formula once per value.
    options = dict(
      learning_rate=tf.cast(learning_rate, tf.float32),
      step=tf.cast(step, tf.float32),
      grad_scale=tf.cast(grad_scale, tf.float32),
      apply=tf.cast(apply, tf.bool),
    )
    pairs = list(zip(variables, grads))
    if self._compiles or self._adapts_layers:
      self._update_by_formula(pairs, **options)
    else:
      self._update_in_place(pairs, **options)

  def _multiplier(self, variable: tf.Variable) -> float:
    return self._rate_multipliers.get(
      named_weights.variable_name(variable), 1.0
    )

  def _moments(self, variable) -> tuple:
    name = named_weights.variable_name(variable)
    return self.slots[f"{name}/adam_m"], self.slots[f"{name}/adam_v"]

  def _update_by_formula(
    self, pairs, *, learning_rate: tf.Tensor, step: tf.Tensor, **options
  ) -> None:
    """Updates variables and their moments by the formula."""
    # Scalars are computed once, not once per variable.
    corrections = (
      self._compiled_corrections(step) if self._corrects_bias else None
    )
    rates = {
      multiplier: learning_rate * multiplier
      for multiplier in {self._multiplier(v) for v, _ in pairs}
    }
    for variable, grad in pairs:
      state = (variable, *self._moments(variable))
      values = self._compiled_formula(
        tuple(tf.convert_to_tensor(part) for part in state),
        tf.convert_to_tensor(grad),
        learning_rate=rates[self._multiplier(variable)],
        corrections=corrections,
        decays=self.decays(named_weights.variable_name(variable)),
        **options,
      )
      for part, value in zip(state, values):
        # Nothing uses the new value, so it is not read back.
        part.assign(value, read_value=False)

  def _new_values(
    self,
    state,
    grad: tf.Tensor | tf.IndexedSlices,
    *,
    learning_rate,
    corrections: list | None,
    grad_scale: float | tf.Tensor,
    apply: bool | tf.Tensor,
    decays: bool,
  ) -> tuple:
    """Returns the updated (param, m, v), or the old values without `apply`."""
    param, m, v = state
    new = optimization.adam_weight_decay_update(
      param,
      tf.cast(grad, tf.float32) * grad_scale,
      m,
      v,
      learning_rate=learning_rate,
      weight_decay_rate=self._weight_decay_rate if decays else 0.0,
      corrections=corrections,
      layer_adaptation=self._adapts_layers and decays,
      **self._adam,
    )
    # tf.where, unlike a product by 0, keeps the old bits if new values are NaN.
    return tuple(tf.where(apply, n, old) for n, old in zip(new, state))

  def _bias_corrections(self, step: tf.Tensor) -> list:
    """Returns the corrections of the update that follows `step` updates."""
    return optimization.bias_corrections(step + 1.0, **self._betas)

  def _kernel_scales(self, step) -> tuple:
    """Returns factors for gradient, rate and epsilon that make updates exact.

    TensorFlow's kernel weights a gradient g by 1 - float32(beta), which is
    s (1 - beta); s is 0.999987 for beta_2 = 0.999. Given g / sqrt(s2), the
    kernel computes v exactly, and m times s1 / sqrt(s2), which is 7e-6 too
    large. The rate's factor corrects this. (In another program's checkpoint, m
    is exact, so the first ten or so updates are 7e-6 too small.)

    With bias correction by c1 and c2 (see optimization.adam_direction), the
    direction (m / c1) / (sqrt(v / c2) + e) is
    sqrt(c2) / c1 m / (sqrt(v) + sqrt(c2) e).
    """
    s1 = self._kernel_share(self._betas["beta_1"])
    s2 = self._kernel_share(self._betas["beta_2"])
    grad_scale, rate_scale, epsilon_scale = s2**-0.5, s2**0.5 / s1, 1.0
    if self._corrects_bias:
      c1, c2 = self._bias_corrections(step)
      rate_scale, epsilon_scale = rate_scale * tf.sqrt(c2) / c1, tf.sqrt(c2)
    return grad_scale, rate_scale, epsilon_scale

  @staticmethod
  def _kernel_share(beta: float) -> float:
    """Returns s of `_kernel_scales`: (1 - float32(beta)) / (1 - beta)."""
    rounded = float(np.float32(beta))
    return (1.0 - rounded) / (1.0 - beta) if rounded < 1.0 else 1.0

  def _update_in_place(
    self,
    pairs,
    *,
    learning_rate,
    step,
    grad_scale: float | tf.Tensor,
    apply: bool | tf.Tensor,
  ) -> None:
    """Updates variables and their moments in one pass over memory.

    It uses few operations per variable and no branches: each operation costs
    time in every step, and more while the step is traced.
    """
    # Without `apply`, betas of 1 and zero rates and gradients change nothing.
    beta_1, beta_2 = (tf.where(apply, b, 1.0) for b in self._betas.values())
    kernel_grad_scale, rate_scale, epsilon_scale = self._kernel_scales(step)
    grad_scale = tf.where(apply, grad_scale * kernel_grad_scale, 0.0)
    learning_rate = tf.where(apply, learning_rate, 0.0)
    epsilon = tf.constant(self._adam["epsilon"]) * epsilon_scale
    no_correction = tf.zeros([])
    rates = {
      # Computes the rates once per multiplier, not once per variable.
      multiplier: (rate * rate_scale, rate * self._weight_decay_rate)
      for multiplier in {self._multiplier(v) for v, _ in pairs}
      for rate in [learning_rate * multiplier]
    }
    for variable, grad in pairs:
      name = named_weights.variable_name(variable)
      rate, decay = rates[self._multiplier(variable)]
      m, v = self._moments(variable)
      # Unlike the original: the decay, which the kernel lacks, is subtracted
      # first. The result is the same except for one more rounding.
      if self._weight_decay_rate and self.decays(name):
        tf.raw_ops.ResourceApplyGradientDescent(
          var=variable.handle, alpha=decay, delta=variable.read_value()
        )
      # This kernel's bias correction does not scale epsilon as the paper does,
      # so beta powers of 0 turn it off.
      tf.raw_ops.ResourceApplyAdam(
        var=variable.handle,
        m=m.handle,
        v=v.handle,
        beta1_power=no_correction,
        beta2_power=no_correction,
        lr=rate,
        beta1=beta_1,
        beta2=beta_2,
        epsilon=epsilon,
        grad=_scaled(grad, grad_scale),
      )

  def apply_gradients(
    self,
    grads: list,
    variables: list[tf.Variable],
    *,
    learning_rate: float | tf.Tensor,
    step: int | tf.Tensor,
  ) -> tf.Tensor:
    """Clips and applies all gradients of one device, for a user's own loop.

    The scripts call `update_all` (see training/training_step.py). Returns the
    global norm before clipping. Skips gradients that are None.
    """
    norm = optimization.global_norm(grads)
    # As in the original: variables that the loss does not reach are skipped.
    pairs = [(v, g) for v, g in zip(variables, grads) if g is not None]
    scale = optimization.clip_scale(norm)
    self.update_all(
      *zip(*pairs), learning_rate=learning_rate, step=step, grad_scale=scale
    )
    return norm


class Lamb(AdamWeightDecay):
  """LAMB with the paper's bias correction, for very large batches.

  Variables without weight decay (biases, layer norms) get no trust ratio
  either, as in the authors' and NVIDIA's BERT pre-training.
  """

  _adapts_layers = True


# {value of --optimizer: function that takes the options of AdamWeightDecay}
OPTIMIZERS: dict[str, Callable[..., AdamWeightDecay]] = {
  "bertadam": AdamWeightDecay,
  "adamw": functools.partial(AdamWeightDecay, bias_correction=True),
  "lamb": functools.partial(Lamb, bias_correction=True),
}


def make_optimizer(name: str, **options) -> AdamWeightDecay:
  """Returns an optimizer by name.

  Unlike the original: its create_optimizer built the schedule and returned the
  operation of a whole step, so this function has another name. Raises
  InputError: the name is unknown.
  """
  if name not in OPTIMIZERS:
    raise errors.InputError(
      f"unknown optimizer {name!r}; choose one of "
      f"{', '.join(sorted(OPTIMIZERS))}"
    )
  return OPTIMIZERS[name](**options)  # type: ignore[operator]
