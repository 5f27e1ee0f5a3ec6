"""Learning-rate schedules and optimizers: BERT's Adam, AdamW and LAMB.

The formulas are pure functions of tensors (`learning_rate`,
`adam_weight_decay_update`, `clip_scale`); the classes store the moments and
apply the updates. The training loop sums gradients over replicas before it
calls `update_all`.

As in the original: one step scales all gradients to a global norm of at most 1,
updates the moments with the scaled gradients, adds weight decay to Adam's
direction and multiplies the sum by the learning rate.
"""

import functools
import math
import re
from collections.abc import Callable, Iterable

import numpy as np
import tensorflow as tf

import named_weights
from common import errors

# Variables whose names contain one of these get no weight decay, including the
# `output_bias` of a head.
NOT_DECAYED = ("LayerNorm", "layer_norm", "bias")


# {name: function that returns the rate after the warm-up, from init_lr and the
# completed share of the run (0 to 1)}
SCHEDULES: dict[str, Callable] = {
  "linear": lambda rate, done: rate * (1.0 - done),
  "constant": lambda rate, done: rate * tf.ones_like(done),
  "cosine": lambda rate, done: rate * 0.5 * (1.0 + tf.cos(math.pi * done)),
  # NVIDIA's pre-training with LAMB uses this exponent.
  "polynomial": lambda rate, done: rate * tf.pow(1.0 - done, 0.5),
}


def learning_rate(
  step: int | tf.Tensor,
  *,
  init_lr: float,
  num_train_steps: int,
  num_warmup_steps: int,
  schedule: str = "linear",
) -> tf.Tensor:
  """Returns the learning rate for the update that follows `step` updates.

  The rate rises linearly from 0 at step 0 towards `init_lr`. From step
  `num_warmup_steps` on, it decays to 0 at `num_train_steps`, or is constant.
  As in the original: the decay counts from step 0, not from the end of the
  warm-up, so the rate can drop when the warm-up ends. 20 steps, 5 of them
  warm-up, and init_lr 1e-3 give 0, 2e-4, 4e-4, 6e-4, 8e-4, 7.5e-4, ... 5e-5.

  Unlike the original: an update always gets the rate of its own step. In the
  original, reading the step raced with its increment.

  Raises InputError: the schedule is unknown, or there are no steps to train.
  """
  if schedule not in SCHEDULES:
    raise errors.InputError(
      f"unknown learning-rate schedule {schedule!r}; "
      f"choose one of {', '.join(sorted(SCHEDULES))}"
    )
  if not tf.is_tensor(num_train_steps) and num_train_steps < 1:
    raise errors.InputError(
      f"num_train_steps is {num_train_steps}; at least 1 step is needed"
    )
  step = tf.cast(step, tf.float32)
  total = tf.cast(num_train_steps, tf.float32)
  warmup = tf.cast(num_warmup_steps, tf.float32)
  init_lr = tf.cast(init_lr, tf.float32)
  # In a graph, TensorFlow turns a division into a product with the reciprocal.
  # With an explicit product, eager mode also gives the original's bits.
  progress = tf.minimum(step, total) * (1.0 / total)
  decayed = SCHEDULES[schedule](init_lr, progress)
  # The maximum only avoids 0 / 0 in the branch that is not taken.
  climbing = init_lr * (step / tf.maximum(warmup, 1.0))
  return tf.where(step < warmup, climbing, decayed)


def rows_squared_norm(grads: list) -> tf.Tensor:
  """Returns the squared norm of the rows of all tf.IndexedSlices in `grads`.

  As in the original: the rows of a repeated token count separately; they are
  not summed first. Replicas and parts of a batch have separate rows, so their
  results add up to the whole batch's squared norm.
  """
  return squared_norm(
    [g.values for g in grads if isinstance(g, tf.IndexedSlices)]
  )


def squared_norm(tensors: list) -> tf.Tensor:
  """Returns the sum of all squared values in float32; None counts as 0."""
  # l2_loss is half the sum, in one pass over the data.
  parts = [
    tf.nn.l2_loss(tf.cast(t, tf.float32)) for t in tensors if t is not None
  ]
  return 2.0 * tf.add_n(parts) if parts else tf.zeros([])


def global_norm(grads: list) -> tf.Tensor:
  """Returns the norm of one device's gradients; repeated rows stay separate.

  A word embedding table shared with the masked-LM output layer has a dense
  gradient: as in version 1.15, TensorFlow adds both gradients as dense tensors.
  """
  dense = [g for g in grads if not isinstance(g, tf.IndexedSlices)]
  return tf.sqrt(rows_squared_norm(grads) + squared_norm(dense))


def clip_scale(norm: tf.Tensor) -> tf.Tensor:
  """Returns the factor that clips gradients with norm `norm` to norm 1.

  It is 1 for smaller gradients. If the norm is not finite, the factor is
  meaningless, and the caller should skip the step.
  """
  # TF1's clip_by_global_norm does the same. At norm 0, the first term is
  # infinite and the minimum is 1.
  return tf.minimum(1.0 / norm, 1.0)


def adam_direction(
  grad, m, v, *, beta_1, beta_2, epsilon, correction_step=None
):
  """Computes Adam's direction (Kingma & Ba, arXiv 1412.6980, algorithm 1).

  As in the original: epsilon is outside the root, and without
  `correction_step` the moments have no bias correction. They start at 0, so m
  is too small for some tens of updates, and v for a few thousand. Returns the
  direction, the new m and the new v.

  Args:
    grad, m, v: gradient, first and second moment, which share a shape.
    correction_step: number of this update, from 1; divides the moments by
      1 - beta^step. None: the original's form, without correction.
  """
  m = beta_1 * m + (1.0 - beta_1) * grad
  v = beta_2 * v + (1.0 - beta_2) * tf.square(grad)
  if correction_step is None:
    return m / (tf.sqrt(v) + epsilon), m, v
  c1, c2 = _bias_corrections(
    tf.cast(correction_step, m.dtype), beta_1=beta_1, beta_2=beta_2
  )
  return (m / c1) / (tf.sqrt(v / c2) + epsilon), m, v


def _bias_corrections(count, *, beta_1, beta_2):
  """Returns 1 - beta^count for both betas, scalar tensors."""
  # -expm1(t log b) = 1 - b^t, without the rounding of a difference.
  return [-tf.math.expm1(count * math.log(b)) for b in (beta_1, beta_2)]


def adam_weight_decay_update(
  param,
  grad,
  m,
  v,
  *,
  learning_rate,
  weight_decay_rate,
  layer_adaptation,
  **adam,
):
  """Computes one update of BERT's Adam, AdamW (`correction_step`) or LAMB.

  Weight decay is added to the direction, not to the gradient, so it does not
  enter the moments (Loshchilov & Hutter, arXiv 1711.05101). It is scaled by the
  learning rate.

  With `layer_adaptation`, the direction is multiplied by the trust ratio (You
  et al., arXiv 1904.00962, algorithm 2): the variable's norm divided by the
  direction's norm, or 1 if either is 0 (a variable that starts at zero).
  Returns the new param, m and v; see `adam_direction` for other options.
  """
  direction, m, v = adam_direction(grad, m, v, **adam)
  if weight_decay_rate:
    direction += weight_decay_rate * param
  if layer_adaptation:
    param_norm, norm = tf.norm(param), tf.norm(direction)
    # `where` computes both branches: the divisor is 1 where it is not used.
    usable = tf.logical_and(param_norm > 0.0, norm > 0.0)
    ratio = param_norm / tf.where(usable, norm, 1.0)
    direction *= tf.where(usable, ratio, tf.ones_like(norm))
  return param - learning_rate * direction, m, v


def _scaled(grad, scale):
  """Returns grad * scale as a dense float32 tensor, 0 if the scale is 0."""
  if isinstance(grad, tf.IndexedSlices):
    # Scales the rows before they expand to the whole embedding table.
    values = _scaled(grad.values, scale)
    rows = tf.IndexedSlices(values, grad.indices, grad.dense_shape)
    return tf.convert_to_tensor(rows)
  # 0 times an infinite gradient would be NaN, but a skipped step (scale 0) must
  # not change the moments.
  return tf.math.multiply_no_nan(tf.cast(grad, tf.float32), scale)


def _kernel_share(beta):
  """Returns 1 - float32(beta), as in the kernel, divided by 1 - beta."""
  rounded = float(np.float32(beta))
  return (1.0 - rounded) / (1.0 - beta) if rounded < 1.0 else 1.0


class AdamWeightDecay:
  """BERT's Adam: keeps the two moments of each variable and applies updates.

  Attributes:
    slots: dict from "<variable>/adam_m" and "<variable>/adam_v" to the
      tf.Variable with that moment; training checkpoints save them.
  """

  # LAMB's layer adaptation needs norms of whole variables, which no kernel
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
        `learning_rate_multipliers`); missing names have 1.
      jit_compile: whether XLA compiles the formula, once per shape. This helps
        if XLA compiles the whole step, and for LAMB, whose dozen passes over
        memory become one. If false, Adam uses TensorFlow's kernel, which is as
        fast without a compiler.
    """
    self.slots: dict[str, tf.Variable] = {}
    self._weight_decay_rate = weight_decay_rate
    self._betas = dict(beta_1=beta_1, beta_2=beta_2)
    self._adam = dict(self._betas, epsilon=epsilon)
    self._bias_correction = bias_correction
    self._rate_multipliers = dict(rate_multipliers or {})
    self._compiles = jit_compile
    self._formula = self._new_values
    if jit_compile:
      self._formula = tf.function(self._new_values, jit_compile=True)

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
    self, variables, grads, *, learning_rate, step, grad_scale=1.0, apply=True
  ):
    """Applies gradients to variables and to their moments.

    Args:
      variables: the tf.Variables passed to `create_slots`, or one replica's
        copies of them.
      grads: one tensor or tf.IndexedSlices per variable, summed over replicas.
      learning_rate: scalar, see `learning_rate`.
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
      for pair in pairs:
        self._update_by_formula(*pair, **options)
    else:
      self._update_in_place(pairs, **options)

  def _multiplier(self, variable):
    return self._rate_multipliers.get(
      named_weights.variable_name(variable), 1.0
    )

  def _moments(self, variable):
    name = named_weights.variable_name(variable)
    return self.slots[f"{name}/adam_m"], self.slots[f"{name}/adam_v"]

  def _update_by_formula(self, variable, grad, *, learning_rate, **options):
    state = (variable, *self._moments(variable))
    values = self._formula(
      tuple(tf.convert_to_tensor(part) for part in state),
      tf.convert_to_tensor(grad),
      learning_rate=learning_rate * self._multiplier(variable),
      decay=self.decays(named_weights.variable_name(variable)),
      **options,
    )
    for part, value in zip(state, values):
      # Nothing uses the new value, so it is not read back.
      part.assign(value, read_value=False)

  def _kernel_scales(self, step):
    """Returns factors for gradient, rate and epsilon that make updates exact.

    TensorFlow's kernel weights a gradient g by 1 - float32(beta), which is
    s (1 - beta); s is 0.999987 for beta_2 = 0.999. Given g / sqrt(s2), the
    kernel computes v exactly, and m times s1 / sqrt(s2), which is 7e-6 too
    large. The rate's factor corrects this. (In another program's checkpoint, m
    is exact, so the first ten or so updates are 7e-6 too small.)

    With bias correction by c1 and c2 (see `adam_direction`), the direction
    (m / c1) / (sqrt(v / c2) + e) is sqrt(c2) / c1 m / (sqrt(v) + sqrt(c2) e).
    """
    s1, s2 = map(_kernel_share, self._betas.values())
    grad_scale, rate_scale, epsilon_scale = s2**-0.5, s2**0.5 / s1, 1.0
    if self._bias_correction:
      c1, c2 = _bias_corrections(step + 1.0, **self._betas)
      rate_scale, epsilon_scale = rate_scale * tf.sqrt(c2) / c1, tf.sqrt(c2)
    return grad_scale, rate_scale, epsilon_scale

  def _update_in_place(self, pairs, *, learning_rate, step, grad_scale, apply):
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

  def apply_gradients(self, grads, variables, *, learning_rate, step):
    """Clips and applies all gradients of one device.

    Returns the global norm before clipping. Skips gradients that are None.
    """
    norm = global_norm(grads)
    # As in the original: variables that the loss does not reach are skipped.
    pairs = [(v, g) for v, g in zip(variables, grads) if g is not None]
    scale = clip_scale(norm)
    self.update_all(
      *zip(*pairs), learning_rate=learning_rate, step=step, grad_scale=scale
    )
    return norm

  def _new_values(
    self, state, grad, *, learning_rate, step, grad_scale, apply, decay
  ):
    """Returns the updated (param, m, v), or the old values without `apply`."""
    param, m, v = state
    new = adam_weight_decay_update(
      param,
      tf.cast(grad, tf.float32) * grad_scale,
      m,
      v,
      learning_rate=learning_rate,
      weight_decay_rate=self._weight_decay_rate if decay else 0.0,
      correction_step=step + 1.0 if self._bias_correction else None,
      layer_adaptation=self._adapts_layers and decay,
      **self._adam,
    )
    # tf.where, unlike a product by 0, keeps the old bits if new values are NaN.
    return tuple(tf.where(apply, n, old) for n, old in zip(new, state))


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


def layer_of(name: str, num_layers: int) -> int:
  """Returns the depth of the variable with this name.

  It is 0 for the embeddings, i + 1 for encoder layer i (from 0), and
  num_layers + 1 for the pooler and every head. The encoder's other weights,
  such as shared layers, have the depth of the last layer.
  """
  if re.search(r"(^|/)embeddings(_project)?/", name):
    return 0
  layer = re.search(r"(^|/)encoder/layer_(\d+)/", name)
  if layer:
    return int(layer.group(2)) + 1
  return num_layers + (not re.search(r"(^|/)encoder/", name))


def learning_rate_multipliers(
  names: Iterable[str], num_layers: int, decay: float
) -> dict[str, float]:
  """Returns factors for layer-wise rate decay (ULMFiT, arXiv 1801.06146).

  The heads and the pooler have the factor 1, the last encoder layer `decay`,
  the layer below it `decay` squared, and so on.
  """
  return {
    # 12 layers: heads 1, layer 11 decay, layer 0 decay^12, embeddings decay^13.
    name: decay ** (num_layers + 1 - layer_of(name, num_layers))
    for name in names
  }


def trainable_names(
  names: Iterable[str], num_layers: int, *, freeze_layers: int = 0
) -> list[str]:
  """Returns the names of the variables that stay trainable with frozen layers.

  Freezes the embeddings and the lowest `freeze_layers` encoder layers. 0
  freezes nothing; `num_layers` freezes all but the pooler and the heads. Raises
  InputError: freeze_layers is not from 0 to num_layers.
  """
  if not 0 <= freeze_layers <= num_layers:
    raise errors.InputError(
      f"cannot freeze {freeze_layers} layers of a model that has "
      f"{num_layers}; give a number from 0 to {num_layers}"
    )
  # The embeddings have depth 0 and layer i depth i + 1.
  lowest = freeze_layers + 1 if freeze_layers else 0
  return [name for name in names if layer_of(name, num_layers) >= lowest]
