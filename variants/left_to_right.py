"""BERT with left-to-right attention (table 5 and figure 5 of BERT's paper).

As in section 5.1 of arXiv 1810.04805, the network, its input and its variables
are BERT's. But a token attends only to itself and earlier tokens, in
fine-tuning too. pretraining/networks/next_word.py trains it on next words.
"""

import tensorflow as tf

import layers
import modeling
import unpadding


class LeftToRightModel(modeling.BertModel):
  """The encoder; its hidden state i depends only on the tokens 0 to i.

  The paper does not say which token the model pools. Here, as in GPT, it pools
  the last token, which is the final [SEP]: only this token attends to the whole
  sequence. [CLS] attends only to itself.
  """

  predicts_next_sentence = False
  predicts_next_word = True
  pretraining_network = "next_word"

  def _attention_bias(
    self, input_ids: tf.Tensor, input_mask: tf.Tensor
  ) -> tf.Tensor:
    if input_mask is None:
      input_mask = tf.ones_like(input_ids)
    later = _later_tokens_bias(layers.sizes(input_ids)[1])
    return super()._attention_bias(input_ids, input_mask) + later

  def pooled_positions(self, input_mask: tf.Tensor) -> tf.Tensor:
    """Returns int32 [B, 1], the last token's position; 0 if all is padding."""
    ends = unpadding.token_ends(tf.convert_to_tensor(input_mask))
    return tf.maximum(ends - 1, 0)[:, tf.newaxis]

  def pooled_states(
    self, states: tf.Tensor, input_mask: tf.Tensor | None
  ) -> tf.Tensor:
    """Returns the hidden states [B, H] of the last tokens."""
    if input_mask is None:
      return states[:, -1]
    last = self.pooled_positions(input_mask)
    return tf.gather(states, last, batch_dims=1)[:, 0]


def _later_tokens_bias(length: int | tf.Tensor) -> tf.Tensor:
  """Returns a float32 bias [T, T] that hides later tokens from each token."""
  position = tf.range(length)
  is_later = tf.cast(position > position[:, tf.newaxis], tf.float32)
  # This is more negative than padding's bias, so padding at the start of a
  # sequence attends to this padding, not to later tokens.
  return is_later * (2 * layers.MASKED_SCORE)
