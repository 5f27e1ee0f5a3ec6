"""A BiLSTM that learns a task with the encoder (last row of BERT's table 5).

As in arXiv 1810.04805, section 5.1, it starts untrained, reads the last hidden
states, and all heads read its states. It has one layer with H / 2 units in each
direction, so that heads and pooler fit; the paper does not give these numbers.
Letters: B batch, T sequence, H width, P positions.
"""

import functools
from typing import Any

import tensorflow as tf

import modeling
import unpadding
from common import errors
from variants import recurrence

NAME = "bilstm"
_NAMES = ("kernel", "recurrent_kernel", "bias")


@functools.cache
def on(encoder_class: type[modeling.BertModel]) -> type[modeling.BertModel]:
  """Returns a subclass of an encoder with a BiLSTM on top."""

  class BilstmOnTop(encoder_class):  # type: ignore[misc, valid-type]
    """Its other outputs are the encoder's; it computes in float32."""

    def __init__(self, config: Any, *, seed: int = 12345, **options: Any):
      super().__init__(config, seed=seed, **options)
      for name in _NAMES[:2]:
        variable = self.weights_below("bilstm/")[name]
        units = config.hidden_size // 2
        values = recurrence.initial(
          f"bilstm/{name}", variable.shape, units, seed
        )
        variable.assign(tf.cast(values, variable.dtype))

    @classmethod
    def shapes(cls, config: Any, scope: str = "bert") -> dict[str, tuple]:
      """Returns {name: shape}; raises InputError for an odd hidden_size."""
      width, units = config.hidden_size, config.hidden_size // 2
      if width % 2:
        raise errors.InputError(
          f"hidden_size is {width}: a BiLSTM has half of it in each direction; "
          "leave the BiLSTM out, or use a model of an even width"
        )
      sizes = ((2, width, 4 * units), (2, units, 4 * units), (2, 4 * units))
      of_bilstm = {f"bilstm/{n}": size for n, size in zip(_NAMES, sizes)}
      return {**encoder_class.shapes(config, scope), **of_bilstm}

    def __call__(
      self,
      input_ids: Any,
      input_mask: Any = None,
      *others: Any,
      positions: Any = None,
      **options: Any,
    ) -> modeling.BertOutput:
      """Encodes sequences; see modeling.BertModel."""
      output = super().__call__(input_ids, input_mask, *others, **options)
      if input_mask is None:
        input_mask = tf.ones_like(input_ids)
      weights = self.weights_below("bilstm/")
      states = recurrence.bilstm(
        tf.cast(output.sequence_output, tf.float32),
        unpadding.token_ends(tf.convert_to_tensor(input_mask)),
        *(tf.cast(weights[name], tf.float32) for name in _NAMES),
      )
      states = tf.cast(states, self.compute_dtype)  # [B, T, H]
      pooled = self.pooled_states(states, input_mask)
      if positions is not None:
        states = tf.gather(states, positions, batch_dims=1)  # [B, P, H]
        pooled = states[:, 0]
      pooled_output = self.pool(pooled)
      return output._replace(
        sequence_output=states, pooled_output=pooled_output
      )

  return BilstmOnTop
