"""The formulas of training: learning rates, clipping, BERT's Adam and LAMB.

They are pure functions of tensors; optimizers.py stores the moments and applies
the updates.

As in the original: one step scales all gradients to a global norm of at most 1,
updates the moments with the scaled gradients, adds weight decay to Adam's
direction and multiplies the sum by the learning rate.
"""

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from common import errors

# {name: function of the peak rate (init_lr) and the completed share of the run
# (0 to 1) that returns the rate after the warm-up}
SCHEDULES: dict[str, Callable] = {
  "linear": lambda peak, done: peak * (1.0 - done),
  "constant": lambda peak, done: peak * tf.ones_like(done),
  "cosine": lambda peak, done: peak * 0.5 * (1.0 + tf.cos(math.pi * done)),
  # NVIDIA's pre-training with LAMB uses this exponent.
  "polynomial": lambda peak, done: peak * tf.pow(1.0 - done, 0.5),
}


def learning_rate(
  step: int | tf.Tensor,
  *,
  init_lr: float,
  num_train_steps: int | tf.Tensor,
  num_warmup_steps: int,
  schedule: str = "linear",
) -> tf.Tensor:
  """Returns the learning rate for the update that follows `step` updates.

  The rate rises linearly from 0 at step 0 towards `init_lr`. From step
  `num_warmup_steps` on, it decays to 0 at `num_train_steps`, or is constant.
  As in the original: the decay counts from step 0, not from the end of the
  warm-up, so the rate can drop when the warm-up ends. 20 steps, 5 of them
  warm-up, and init_lr 1e-3 give 0, 2e-4, 4e-4, 6e-4, 8e-4, 7.5e-4, ... 5e-5.

  Unlike the original: an update always gets its step's rate. In the
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

  These gradients of embedding tables have a row for each looked-up token.
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

  It is for a user's own loop; a TrainingStep adds up parts and replicas. A word
  embedding table shared with the masked-LM output layer has a dense gradient:
  as in version 1.15, TensorFlow adds both gradients as dense tensors.
  """
  dense = [g for g in grads if not isinstance(g, tf.IndexedSlices)]
  return tf.sqrt(rows_squared_norm(grads) + squared_norm(dense))


def clip_scale(norm: tf.Tensor) -> tf.Tensor:
  """Returns the factor that clips gradients with norm `norm` to norm 1.

  It is 1 for smaller gradients. If the norm is not finite, the factor is
  meaningless, and the caller should skip the step.
  """
  # The factor has no epsilon, like TF1's clip_by_global_norm: at norm 0, the
  # first term is infinite, so the minimum is 1.
  return tf.minimum(1.0 / norm, 1.0)


def adam_direction(
  grad: tf.Tensor,
  m: tf.Tensor,
  v: tf.Tensor,
  *,
  beta_1: float,
  beta_2: float,
  epsilon: float,
  corrections: list | None = None,
) -> tuple:
  """Computes Adam's direction (Kingma & Ba, arXiv 1412.6980, algorithm 1).

  As in the original: epsilon is outside the root, and without `corrections`
  the moments have no bias correction. They start at 0, so m is too small for
  some tens of updates, and v for a few thousand. Returns the direction, the new
  m and the new v.

  Args:
    grad, m, v: gradient, first and second moment, which share a shape.
    corrections: `bias_corrections` for the number of this update, from 1, which
      divide m and v. None: the original's form, without correction.
  """
  m = beta_1 * m + (1.0 - beta_1) * grad
  v = beta_2 * v + (1.0 - beta_2) * tf.square(grad)
  if corrections is None:
    return m / (tf.sqrt(v) + epsilon), m, v
  c1, c2 = corrections
  return (m / c1) / (tf.sqrt(v / c2) + epsilon), m, v


def bias_corrections(count: tf.Tensor, *, beta_1: float, beta_2: float) -> list:
  """Returns 1 - beta^count for both betas, scalar tensors."""
  # -expm1(t log b) = 1 - b^t, without the rounding of a difference.
  return [-tf.math.expm1(count * math.log(b)) for b in (beta_1, beta_2)]


def adam_weight_decay_update(
  param: tf.Tensor,
  grad: tf.Tensor,
  m: tf.Tensor,
  v: tf.Tensor,
  *,
  learning_rate: tf.Tensor,
  weight_decay_rate: float,
  layer_adaptation: bool,
  **adam: Any,
) -> tuple:
  """Computes one update of BERT's Adam, AdamW (`corrections`) or LAMB.

  LAMB and updates compiled by XLA run this function. Otherwise, Adam runs a
  kernel with the same result; see optimizers.AdamWeightDecay.

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
