"""BERT as a layer of Keras 3, for training with `fit`.

  from bert_tf2 import keras_layer

  bert = keras_layer.BertLayer("released/uncased_L-12_H-768_A-12")
  pooled = bert(input_ids, input_mask, segment_ids)["pooled_output"]

Keras trains only variables that it has created, so the layer creates variables
that replace the encoder's. No other module imports Keras.
"""

import os
from typing import Any

import keras
import tensorflow as tf

import configuration
import named_weights
from checkpoints import model_files, weight_files
from common import errors
from variants import registry


@keras.saving.register_keras_serializable("bert_tf2")
class BertLayer(keras.layers.Layer):
  """The encoder of a model folder; all of its variables are trainable.

  Attributes:
    bert: modeling.BertModel, which computes with the layer's variables.
  """

  def __init__(
    self,
    folder: str | os.PathLike | None = None,
    *,
    config: dict | None = None,
    seed: int = 12345,
    **options: Any,
  ):
    """Creates the variables and loads their values.

    Raises InputError: the folder has no model, Keras does not run on
    TensorFlow, or not exactly one of `folder` and `config` is given.

    Args:
      folder: a model folder of this project, google-research/bert or Hugging
        Face. None means random weights for `config`.
      config: the entries of bert_config.json, instead of a folder. Keras passes
        them when it loads a saved model, and then loads the saved weights.
      seed: seed of dropout and of random weights.
      **options: options of keras.layers.Layer: name, trainable, dtype.
    """
    super().__init__(**options)
    if keras.backend.backend() != "tensorflow":
      raise errors.InputError(
        f"Keras runs on {keras.backend.backend()}, but the layer needs "
        "TensorFlow: set KERAS_BACKEND=tensorflow before Keras is imported"
      )
    if (folder is None) == (config is None):
      raise errors.InputError("pass either folder= or config=")
    self._seed = seed
    source = None
    if config is not None:
      self.config = configuration.BertConfig.from_dict(config)
    elif folder is not None:
      files = model_files.ModelFiles(os.fspath(folder))
      self.config, source = files.config, files.reader
    with weight_files.without_random_init(source):
      self.bert = registry.make_encoder(
        self.config, seed=seed, compute_dtype=self.compute_dtype
      )
    if source:
      # Some published encoders lack the pooler, which is then random.
      weight_files.load(
        self.bert.variables, source, allowed_missing=["/(pooler|head)/"]
      )
    self.bert.replace_weights(self._variable)
    self._dropout_seeds = keras.random.SeedGenerator(seed)
    # XLA would compile the layer again for each sequence length.
    self.supports_jit = False
    self.built = True

  def _variable(self, weight: tf.Variable) -> tf.Variable:
    name = named_weights.variable_name(weight).replace("/", ".")
    return self.add_weight(
      shape=weight.shape,
      dtype=weight.dtype.name,
      name=name,
      initializer=lambda shape, dtype: tf.cast(weight, dtype),
    ).value

  def call(
    self,
    input_ids: Any,
    input_mask: Any = None,
    segment_ids: Any = None,
    training: bool | None = None,
  ) -> dict:
    """Returns a dict of sequence_output [B, T, H] and pooled_output [B, H].

    Args:
      input_ids, input_mask, segment_ids: integers [B, T], as modeling.BertModel
        takes them.
      training: whether to apply dropout.
    """
    seed = None
    if training:
      seed = tf.cast(self._dropout_seeds.next(), tf.int32)
    output = self.bert(
      input_ids, input_mask, segment_ids, bool(training), dropout_seed=seed
    )
    return {
      "sequence_output": output.sequence_output,
      "pooled_output": output.pooled_output,
    }

  def compute_output_spec(
    self, input_ids: Any, *masks: Any, **options: Any
  ) -> dict:
    """Returns the outputs of `call` for Keras' symbolic tensors."""
    width = self.config.hidden_size
    shapes = {
      "sequence_output": (*input_ids.shape, width),
      "pooled_output": (input_ids.shape[0], width),
    }
    return {
      name: keras.KerasTensor(shape, dtype=self.compute_dtype)
      for name, shape in shapes.items()
    }

  def get_config(self) -> dict:
    """Returns the arguments that recreate the layer, without its weights."""
    arguments = {"config": self.config.to_dict(), "seed": self._seed}
    return {**super().get_config(), **arguments}
