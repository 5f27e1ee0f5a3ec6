"""A BiLSTM on top of an encoder: the last row of the paper's table 5.

As in arXiv 1810.04805, section 5.1, the BiLSTM starts untrained and learns a
task together with the encoder. It reads the last layer's hidden states, and all
heads read its states. It has one layer with H / 2 units in each direction, so
that heads and pooler do not change; the paper does not give these numbers.
"""

import functools

import tensorflow as tf

import layers
import modeling
import unpadding
from common import errors

_NAME = "bilstm"


@functools.cache
def on(encoder_class: type[modeling.BertModel]) -> type[modeling.BertModel]:
  """Returns a subclass of an encoder with a BiLSTM on top."""
  return type("BilstmOnTop", (_BilstmOnTop, encoder_class), {})


class _BilstmOnTop:
  """Adds a BiLSTM, which computes sequence_output and pooled_output.

  The encoder computes the other outputs. The variables are bilstm/..., float32.
  """

  @classmethod
  def shapes(cls, config, scope="bert"):
    """Returns {name: shape} of the encoder and of the BiLSTM.

    Raises InputError: hidden_size is odd.
    """
    width = config.hidden_size
    if width % 2:
      raise errors.InputError(
        f"hidden_size is {width}: a BiLSTM has half of it in each direction; "
        "pass an even one, or leave bilstm_on_top out"
      )
    bilstm = layers.bilstm_shapes(_NAME, width, width // 2)
    return {**super().shapes(config, scope), **bilstm}

  def __call__(
    self, input_ids, input_mask=None, *others, positions=None, **options
  ):
    """Encodes sequences; modeling.BertModel describes the arguments."""
    output = super().__call__(input_ids, input_mask, *others, **options)
    if input_mask is None:
      input_mask = tf.ones_like(input_ids)
    # [B, T, H]; recurrent layers always compute in float32.
    states = layers.bilstm(
      tf.cast(output.sequence_output, tf.float32),
      unpadding.token_ends(tf.convert_to_tensor(input_mask)),
      self.weights_below(f"{_NAME}/"),
    )
    states = tf.cast(states, self.compute_dtype)
    if positions is None:
      pooled = self.pooled_states(states, input_mask)
    else:
      states = tf.gather(states, positions, batch_dims=1)  # [B, P, H]
      pooled = states[:, 0]
    return output._replace(
      sequence_output=states, pooled_output=self.pool(pooled)
    )
