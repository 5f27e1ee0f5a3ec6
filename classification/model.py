"""The classifier (encoder, head, mean over windows) and its training objective.

Letters: B batch, W sequences of an example, T tokens, H width, L labels, D
width of a text's vector. The shape of the logits depends on the kind of task:
usually [B, L]; [B, 1] for regression; [B, W] for W endings or passages; and
[B, W, D], the text vectors, for a bi-encoder (see bi_encoder.py).
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import configuration
import heads
import layers
from checkpoints import model_folder, model_writer
from classification import data, scores
from common import run_settings
from records import pipeline
from text import input_sequences
from training import training_step
from variants import registry

# Name patterns of variables that the initial checkpoint may lack.
# Unlike the original: if it lacks other variables, loading fails.
NEW_VARIABLES = ("^output_(weights|bias)$", *registry.OPTIONAL)


def num_outputs(task_kind: str, labels: tuple) -> int:
  """Returns the number of the head's outputs per sequence."""
  is_single = task_kind in (data.CHOICE, *data.OF_ONE_LOGIT)
  return 1 if is_single else len(labels)


class Network(tf.Module):
  """An encoder for a task; subclasses define `__call__` and the losses."""

  # Name patterns of variables that a checkpoint may lack: no output needs them.
  allowed_missing: tuple[str, ...] = ()
  # Whether an example's loss depends on the other examples of its batch.
  compares_examples = False

  def __init__(
    self, config: configuration.BertConfig, task_kind: str, **model_options: Any
  ):
    super().__init__()
    self.config = config
    self.task_kind = task_kind
    self.bert = registry.make_encoder(config, **model_options)
    # The losses that training minimizes; --losses replaces the task's own.
    self.training_losses: Callable = self.example_losses

  def train_with(self, losses: Iterable[tuple[Any, dict]]) -> None:
    """Sets `training_losses` to files of classification/losses."""
    for file, options in losses:
      self.training_losses = file.make(
        self.training_losses, self.task_kind, **options
      )
      self.compares_examples = self.compares_examples or file.COMPARES

  def trained_variables(self) -> Sequence[tf.Variable]:
    """Returns all variables; the caller excludes frozen variables."""
    return self.variables

  def example_losses(
    self, logits: tf.Tensor, label_ids: tf.Tensor
  ) -> tf.Tensor:
    """Returns the loss of each example, float32 [B]."""
    raise NotImplementedError

  def evaluated(
    self, logits: np.ndarray, label_ids: np.ndarray
  ) -> dict[str, np.ndarray]:
    """Returns a batch's scores, losses and labels, arrays [B, ...]."""
    return {
      "scores": scores.of_logits(self.task_kind, logits),
      "loss": self.example_losses(logits, label_ids).numpy(),
      "label_ids": label_ids,
    }

  def evaluation_losses(self, outputs: dict, batch_size: int) -> np.ndarray:
    """Returns the losses [N]; `outputs` joins the results of `evaluated`."""
    del batch_size
    return outputs["loss"]

  def write(
    self,
    folder: str,
    settings: run_settings.Settings,
    config: configuration.BertConfig,
    inputs: dict,
    step: int,
  ) -> None:
    """Writes a model folder.

    Args:
      inputs: the model's input settings, {flag name: value}.
      step: the number of steps that the weights were trained for.
    """
    model_writer.write(
      folder,
      self.variables,
      model_folder.with_input_settings(config, inputs),
      settings.vocab_file,
      settings.do_lower_case,
      never_split=settings.never_split,
      step=step,
    )


class ClassifierModel(Network):
  """An encoder with a classification head, which a bi-encoder lacks."""

  def __init__(
    self,
    config: configuration.BertConfig,
    task_kind: str,
    outputs: int,
    *,
    is_frozen: bool = False,
    **model_options: Any,
  ):
    """Creates the variables; `outputs` is the result of `num_outputs`.

    A frozen encoder is not trained, and has no dropout.
    """
    super().__init__(config, task_kind, **model_options)
    self.head = heads.ClassificationHead(
      config, outputs, seed=model_options["seed"]
    )
    self._is_frozen = is_frozen
    # Like skipping padding, skipping empty sequences makes the shapes vary.
    self._skips_empty = model_options.get("skip_padding", False)

  def __call__(
    self, batch: dict, dropout_seed: tf.Tensor | None = None
  ) -> tf.Tensor:
    """Returns the float32 logits of a batch.

    Args:
      batch: dict of input_ids, input_mask, segment_ids, int32 [B, W, T]; or of
        first_states [B, W, H] and sequence_mask, int32 [B, W]: the stored
        results of `first_states`.
      dropout_seed: int32 [2] in training, else None.
    """
    if "first_states" in batch:
      states, mask = batch["first_states"], batch["sequence_mask"]
    else:
      # A frozen encoder has no dropout, so that its states can be stored. The
      # head still has dropout.
      seed = None if self._is_frozen else dropout_seed
      states, mask = self.first_states(batch, seed)
    batch_size, sequences = tf.unstack(tf.shape(mask))
    pooled = self.bert.pool(tf.reshape(states, [-1, states.shape[-1]]))
    logits = self.head(
      pooled, dropout_seed is not None, dropout_seed=dropout_seed
    )
    logits = tf.reshape(logits, [batch_size, sequences, logits.shape[-1]])
    if self.task_kind in (data.CHOICE, *data.OF_RANKS):
      return logits[..., 0]  # [B, W]
    if mask.shape[1] == 1:
      return logits[:, 0]  # [B, L]
    # Compute the mean over the windows, without the empty sequences.
    present = tf.cast(mask, logits.dtype)[..., tf.newaxis]  # [B, W, 1]
    return tf.reduce_sum(logits * present, axis=1) / tf.reduce_sum(
      present, axis=1
    )

  def example_losses(
    self, logits: tf.Tensor, label_ids: tf.Tensor, class_weights: Any = None
  ) -> tf.Tensor:
    """Returns the loss of each example, float32 [B].

    It is the softmax cross-entropy for one of several classes or endings, the
    squared error for a number, and for multi_label the mean over the classes of
    the sigmoid cross-entropy.

    Args:
      logits: float32; see the module's docstring for the shape.
      label_ids: the result of inputs.label_ids.
      class_weights: only for multi_label: float32 [L], the weight of a class's
        positive examples; negative examples have weight 1. None: all are 1. For
        other tasks, `objective` weights the examples.
    """
    if self.task_kind == data.REGRESSION:
      return tf.square(logits[:, 0] - label_ids)
    if self.task_kind == data.MULTI_LABEL:
      losses = tf.nn.weighted_cross_entropy_with_logits(
        tf.cast(label_ids, logits.dtype),
        logits,
        1.0 if class_weights is None else class_weights,
      )
      return tf.reduce_mean(losses, axis=-1)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(label_ids, logits)

  def first_states(
    self, batch: dict, dropout_seed: tf.Tensor | None = None
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the pooler's inputs, [B, W, H], and a mask of the sequences.

    The inputs are the last layer's hidden states at one position per sequence,
    usually [CLS]. The mask, int32 [B, W], is 1 for sequences with tokens. For
    the arguments see `__call__`.
    """
    mask = tf.reduce_max(batch["input_mask"], axis=-1)  # [B, W]
    # If examples have only one sequence, it is never empty.
    skips = self._skips_empty and mask.shape[1] != 1
    if skips:
      positions = tf.where(mask > 0)  # [n, 2]
      flat = functools.partial(tf.gather_nd, indices=positions)
    else:
      length = layers.sizes(batch["input_ids"])[-1]
      flat = functools.partial(tf.reshape, shape=[-1, length])
    # [n, T] or [B W, T] each
    sequences = {name: flat(batch[name]) for name in input_sequences.NAMES}
    input_mask = sequences["input_mask"]
    pooled = self.bert.pooled_positions(input_mask)
    states = self.bert.encode(
      sequences, dropout_seed, positions=pooled
    ).sequence_output
    if pooled is None:
      states = self.bert.pooled_states(states, input_mask)  # [B W or n, H]
    else:
      states = states[:, 0]
    shape = tf.concat([tf.shape(mask), [self.config.hidden_size]], 0)
    if skips:
      # Restore the shape [B, W, H], with zeros for skipped sequences.
      states = tf.scatter_nd(tf.cast(positions, tf.int32), states, shape)
    else:
      states = tf.reshape(states, shape)  # [B, W, H]
    # scatter_nd loses the static shape, which the pooler needs.
    states.set_shape([None, mask.shape[1], self.config.hidden_size])
    return states, mask


def objective(
  model: ClassifierModel, class_weights: list | None = None
) -> training_step.Objective:
  """Returns the objective: the weighted mean of the examples' losses.

  Its metrics are this loss; the accuracy, if examples have one correct label;
  and, unless hidden states are stored, pipeline.token_metrics.
  `class_weights` weight the examples; for multi_label see `example_losses`.
  """
  task_kind = model.task_kind
  if class_weights is not None:
    class_weights = tf.constant(class_weights, tf.float32)

  # For multi_label, example_losses applies the weights.
  loss_options = [class_weights] if task_kind == data.MULTI_LABEL else []

  def example_weights(batch: dict) -> tf.Tensor:
    real = tf.cast(batch["is_real_example"], tf.float32)  # [B]
    if class_weights is None or loss_options:
      return real
    return real * tf.gather(class_weights, batch["label_ids"])

  def denominators(batch: dict) -> dict:
    total = tf.reduce_sum(example_weights(batch))
    # If all classes in a batch have weight 0, the loss is 0, not nan.
    return {"classifier": tf.maximum(total, 1e-20)}

  def sums(batch: dict, dropout_seed: tf.Tensor) -> tuple[dict, dict]:
    logits = model(batch, dropout_seed)  # [B, ...]
    labels = batch["label_ids"]
    losses = batch.get("whole_losses")  # [B]
    if losses is None:
      losses = model.training_losses(logits, labels, *loss_options)
    metrics = {"classifier_loss": _mean_of(losses, example_weights(batch))}
    # The loop divides this sum by the whole batch's denominator.
    loss = metrics["classifier_loss"][0]
    if "logits_gradient" in batch:
      # `losses` are constants here. This term is 0, but it gives the logits the
      # gradient of the whole batch's loss.
      product = tf.reduce_sum(logits * batch["logits_gradient"])
      loss += product - tf.stop_gradient(product)
    if task_kind in (data.SINGLE, data.CHOICE):
      if labels.dtype.is_floating:  # Soft labels [B, L].
        labels = tf.argmax(labels, axis=-1, output_type=tf.int32)
      predicted = tf.argmax(logits, axis=-1, output_type=labels.dtype)
      right = tf.cast(tf.equal(predicted, labels), tf.float32)
      real = tf.cast(batch["is_real_example"], tf.float32)
      metrics["classifier_accuracy"] = _mean_of(right, real)
    if "input_mask" in batch:
      metrics.update(pipeline.token_metrics(batch))
    return {"classifier": loss}, metrics

  if not model.compares_examples:
    return training_step.Objective(denominators=denominators, sums=sums)
  return training_step.Objective(
    denominators,
    sums,
    model,
    lambda batch, logits: with_whole_losses(
      model, batch, logits, example_weights(batch)
    ),
  )


def _mean_of(
  values: tf.Tensor, weights: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  return tf.reduce_sum(values * weights), tf.reduce_sum(weights)


def with_whole_losses(
  model: Network, batch: dict, logits: tf.Tensor, weights: tf.Tensor
) -> dict:
  """Adds to a replica's share of a batch the losses that need the whole batch.

  Returns the share with whole_losses, float32 [B], and logits_gradient, in the
  shape of `logits`: the gradient of the weighted sum of all replicas' losses.
  Call it in a replica context; every replica's share must have B examples.
  """
  replica = tf.distribute.get_replica_context()
  whole, first = [logits, batch["label_ids"], weights], 0
  if replica.num_replicas_in_sync > 1:
    # all_gather loses the static sizes of the other axes.
    whole = [
      tf.ensure_shape(gathered, [None, *share.shape[1:]])
      for gathered, share in zip(replica.all_gather(whole, axis=0), whole)
    ]
    first = replica.replica_id_in_sync_group * layers.sizes(logits)[0]
  with tf.GradientTape() as tape:
    tape.watch(whole[0])
    losses = model.training_losses(*whole[:2])
    loss = tf.reduce_sum(losses * whole[2])
  rows = slice(first, first + layers.sizes(logits)[0])
  return {
    **batch,
    "whole_losses": losses[rows],
    "logits_gradient": tape.gradient(loss, whole[0])[rows],
  }
