"""BERT that reads from left to right: the paper's table 5 and figure 5.

Of arXiv 1810.04805, section 5.1: the network, its input and its variables are
BERT's, but a token attends to itself and to those before it. It is trained on
the next word (see pretraining/next_word.py), and on tasks as it is.
"""

import tensorflow as tf

import layers
import modeling
import unpadding


class LeftToRightModel(modeling.BertModel):
  """The encoder; state i depends on the tokens 0 to i alone.

  What is pooled is the state of the last token, the final [SEP], as in GPT: it
  alone has read the whole sequence, and [CLS] has read nothing but itself. The
  paper does not say which one it took.
  """

  predicts_next_sentence = False
  predicts_next_word = True

  def _attention_bias(self, input_ids, input_mask):
    if input_mask is None:
      input_mask = tf.ones_like(input_ids)
    # Where several texts share a row, each keeps its order there: what its mask
    # leaves visible before a token is of the token's own text.
    later = layers.later_tokens_bias(layers.sizes(input_ids)[1])
    return super()._attention_bias(input_ids, input_mask) + later

  def pooled_positions(self, input_mask):
    """Returns int32 [B, 1]: the last token, 0 where there is none."""
    ends = unpadding.token_ends(tf.convert_to_tensor(input_mask))
    return tf.maximum(ends - 1, 0)[:, tf.newaxis]

  def pooled_states(self, states, input_mask):
    """Returns [B, H] of [B, T, H]: those of the last tokens."""
    # Of a mask [B, F, T] the texts of a row are pooled by the caller.
    if input_mask is None or len(input_mask.shape) == 3:
      return states[:, -1]
    last = self.pooled_positions(input_mask)
    return tf.gather(states, last, batch_dims=1)[:, 0]
