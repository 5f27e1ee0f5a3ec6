"""This project's training steps and inference, for step_speed.py."""

import tensorflow as tf

# This import comes first, because it puts the project's modules on the path.
import measured_runs  # noqa: F401

# isort: split
import heads
import kernels
import modeling
import optimizers
from pretraining.networks import encoder
from variants import registry


class _Steps:
  """A network with its optimizer; a step is one tf.function."""

  def __init__(self, variables, *, compiled=False, optimizer="adamw"):
    self._variables = variables
    # As in training/harness.py: XLA compiles the formula of the update, too.
    self._optimizer = optimizers.make_optimizer(
      optimizer, jit_compile=bool(compiled)
    )
    self._steps, self._last = 0, tf.constant(0.0)
    step = kernels.for_compiler(self._train_step) if compiled else None
    self.train_step = tf.function(
      step or self._train_step, jit_compile=compiled
    )

  def wait(self):
    """Waits until the device has finished its work."""
    self._last.numpy()

  def variables(self):
    """Returns the variables, then the moments, which the first call creates."""
    # A tf.function must not create variables after its first call.
    if not self._optimizer.slots:
      self._optimizer.create_slots(self._variables)
    return [*self._variables, *self._optimizer.slots.values()]

  def _take_step(self, *parts):
    self.variables()
    self._steps += 1
    self._last = self.train_step(tf.constant(self._steps), *parts)

  def _train_step(self, step, *parts):
    with tf.GradientTape() as tape:
      loss = self._loss(tf.stack([1, step]), *parts)
    gradients = tape.gradient(loss, self._variables)
    self._optimizer.apply_gradients(
      gradients, self._variables, learning_rate=1e-5, step=step
    )
    return loss


class Classifier(_Steps):
  """A classifier with two labels."""

  def __init__(self, values, *, dtype, model_options=None, **options):
    config = modeling.BertConfig.from_dict(values)
    self._model = registry.make_encoder(
      config, compute_dtype=tf.as_dtype(dtype), **model_options or {}
    )
    self._head = heads.ClassificationHead(config, 2)
    variables = [*self._model.variables, *self._head.variables]
    super().__init__(variables, **options)
    self.predict_step = tf.function(
      self._logits, jit_compile=options.get("compiled")
    )

  def train(self, batch):
    """Takes a training step on ids, mask, segments [B, T] and labels [B]."""
    # A step includes the copy to the device, as for the peers.
    self._take_step(*map(tf.constant, batch))

  def predict(self, batch):
    """Computes the logits of a batch."""
    self._last = self.predict_step(*map(tf.constant, batch[:3]))

  def _logits(self, ids, mask, segments, **options):
    # As in run_classifier.py, the last layer computes only pooled positions.
    first = self._model.pooled_positions(mask)
    output = self._model(ids, mask, segments, positions=first, **options)
    return self._head(output.pooled_output, **options)

  def _loss(self, seed, ids, mask, segments, labels):
    logits = self._logits(ids, mask, segments, training=True, dropout_seed=seed)
    return tf.reduce_mean(
      tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    )


class Pretraining(_Steps):
  """The pre-training network with both losses."""

  def __init__(self, values, *, dtype, model_options=None, **options):
    model = encoder.PretrainingModel(
      modeling.BertConfig(**values),
      compute_dtype=tf.as_dtype(dtype),
      seed=1,
      **model_options or {},
    )
    self._objective = model.objective()
    super().__init__(model.trained_variables(), **options)

  def pretrain(self, batch):
    """Takes a training step on a step_speed.PretrainingBatch."""
    self._take_step(self.tensors(batch))

  def tensors(self, batch):
    """Returns a step's inputs from a step_speed.PretrainingBatch."""
    tensors = {k: tf.constant(v) for k, v in batch._asdict().items()}
    tensors["masked_lm_weights"] = tf.ones(batch.masked_lm_ids.shape)
    return tensors

  def _loss(self, seed, batch):
    totals = self._objective.denominators(batch)
    sums, _ = self._objective.sums(batch, seed)
    return tf.add_n([sums[name] / totals[name] for name in sums])
