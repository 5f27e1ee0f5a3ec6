"""A BiLSTM on top of an encoder: the last row of the paper's table 5.

As in arXiv 1810.04805, section 5.1, it starts untrained and learns a task with
the encoder. It reads the last layer's states, and every head reads its states.
With H / 2 units in each direction the width stays H, so heads and pooler do not
change. The paper gives neither layers nor units; here it has one layer.
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
  """The BiLSTM, which computes sequence_output and pooled_output.

  The encoder computes the other outputs. Variables: bilstm/..., float32.
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
    """Encodes sequences; see modeling.BertModel for the arguments."""
    output = super().__call__(input_ids, input_mask, *others, **options)
    if input_mask is None:
      input_mask = tf.ones_like(input_ids)
    # `encode` unpacks several texts in a row before the BiLSTM reads them.
    if len(input_mask.shape) == 3:
      return output
    return self._read(output, input_mask, positions)

  def encode(self, batch, dropout_seed=None, *, positions=None):
    """Encodes a batch; see modeling.BertModel for the arguments."""
    if unpadding.PLAN not in batch:
      return super().encode(batch, dropout_seed, positions=positions)
    output = super().encode(batch, dropout_seed)
    return self._read(output, batch["input_mask"], positions)

  def _read(self, output, input_mask, positions):
    # [B, T, H]; in float32, as all recurrence.
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
