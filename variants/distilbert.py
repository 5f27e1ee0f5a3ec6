"""DistilBERT (arXiv 1910.01108): BERT without segments, with half the layers.

Its variables carry BERT's names. What is not there: the table of segments, and
the pooler of pre-training; its classifier has a dense layer with ReLU in the
place of BERT's pooler, under the pooler's name here.
"""

import tensorflow as tf

import layers
import modeling

# Part of BERT's name at Hugging Face -> of DistilBERT's, replaced in this
# order; None where it has no such weight.
HUGGINGFACE_NAMES = (
  ("bert.embeddings.token_type_embeddings.", None),
  ("cls.seq_relationship.", None),
  ("bert.embeddings.", "distilbert.embeddings."),
  ("bert.encoder.layer.", "distilbert.transformer.layer."),
  (".attention.self.query.", ".attention.q_lin."),
  (".attention.self.key.", ".attention.k_lin."),
  (".attention.self.value.", ".attention.v_lin."),
  (".attention.output.dense.", ".attention.out_lin."),
  (".attention.output.LayerNorm.", ".sa_layer_norm."),
  (".intermediate.dense.", ".ffn.lin1."),
  (".output.dense.", ".ffn.lin2."),
  (".output.LayerNorm.", ".output_layer_norm."),
  ("bert.pooler.dense.", "pre_classifier."),
  ("cls.predictions.transform.dense.", "vocab_transform."),
  ("cls.predictions.transform.LayerNorm.", "vocab_layer_norm."),
  ("cls.predictions.bias", "vocab_projector.bias"),
)


class DistilBertModel(modeling.BertModel):
  """The encoder; token_type_ids are accepted and have no effect."""

  predicts_next_sentence = False

  @staticmethod
  def shapes(config, scope="bert"):
    """Returns {name: shape}: BERT's without the table of segments."""
    shapes = modeling.bert_shapes(config, scope)
    # The pooler stays: a classifier's dense layer has its name.
    del shapes[f"{scope}/embeddings/token_type_embeddings"]
    return shapes

  def _add_segments(self, summed, segments):
    del segments
    return summed

  def pool(self, first_states):
    """Returns [B, H] of [B, H]: the classifier's dense layer with ReLU."""
    weights = self._under(f"{self._scope}/pooler/")
    first_states = tf.cast(first_states, self.compute_dtype)
    return layers.dense(first_states, weights, "dense", tf.nn.relu)
