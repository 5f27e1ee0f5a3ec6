"""Networks to pre-train; each file has one, and --network names the file.

Without the flag, the encoder's class names it (`pretraining_network`, see
variants/registry.py). A file defines:

  IGNORED   (flags without effect, separated by spaces; the reason)
  MASKS     whether records without masks are masked while they are read
  def labels(settings): returns {name: (values per record, their exclusive upper
            bound; None for floats)} of further features of the records
  def check(config, settings): raises InputError before anything is written if
            the network cannot be made
  def fixed(settings): returns {name: value} of the settings that must not
            change in a run
  def make(config, settings, **model_options): returns a Network and creates its
            variables; model_options go to modeling.BertModel

and may define OPTIONS, see common/extension_points.py.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf

import configuration
from checkpoints import weight_files
from training import training_step


class Part(NamedTuple):
  """A model folder to write: its name below the folder of the run's model."""

  folder: str  # "" for the main model.
  variables: dict[str, tf.Variable]
  config: configuration.BertConfig


class Network(tf.Module):
  """A network as training uses it; files derive from it.

  Attributes:
    config: the configuration of the main model.
  """

  config: configuration.BertConfig

  def objective(self) -> training_step.Objective:
    """Returns the loss."""
    raise NotImplementedError

  def result_names(self) -> list[str]:
    """Returns the names of the evaluation metrics of `objective`."""
    raise NotImplementedError

  def unused_variables(self) -> tuple[str, ...]:
    """Returns regular expressions for the variables that the loss ignores."""
    return ()

  def new_variables(self) -> list[str]:
    """Returns patterns of variables that --init_checkpoint may lack."""
    # The start weights may be an encoder without pre-training heads.
    return ["^cls/", "^bert/head/", *self.unused_variables()]

  def trained_variables(self) -> list[tf.Variable]:
    """Returns the variables that the loss reaches."""
    # As in the original: variables without a gradient are not trained.
    unused = self.unused_variables()
    return [
      variable
      for variable in self.variables
      if variable.trainable
      and not any(re.search(pattern, variable.name) for pattern in unused)
    ]

  def parts(self) -> Iterator[Part]:
    """Yields the models to write."""
    yield Part("", weight_files.by_name(self.variables), self.config)

  def token_labels(self) -> tuple[str, Callable[[dict], Any]] | None:
    """Returns the name of a loss of tokens and the function of its labels."""
    return None


def with_words(batch: dict, words: tf.Tensor) -> tf.Tensor:
  """Returns input_ids [B, T] with words [B, P] at the masked positions."""
  ids, columns = batch["input_ids"], batch["masked_lm_positions"]
  # Unused entries point to position 0, where [CLS] must stay.
  present = tf.gather(ids, columns, batch_dims=1)
  is_masked = batch["masked_lm_weights"] > 0
  words = tf.where(is_masked, tf.cast(words, ids.dtype), present)  # [B, P]
  count = tf.shape(ids, columns.dtype)[0]
  rows = tf.zeros_like(columns) + tf.range(count)[:, tf.newaxis]
  return tf.tensor_scatter_nd_update(ids, tf.stack([rows, columns], 2), words)
