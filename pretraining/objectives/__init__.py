"""The objectives of pre-training; each file has one, and a flag names the file.

A file defines `make(config, encoder, *, seed, **options)`, which returns an
Objective or a list of them, and creates their variables; `encoder` is the
modeling.BertModel. The network runs the encoder once for all objectives and
adds their losses. A file may also define:

  LABELS    {name: (values per record, their exclusive upper bound; None for
            floats)} of further features of the records
  OPTIONS   the options of `make`, see common/extension_points.py
  def check(config, **options): raises InputError before anything is written if
            a model cannot have this objective

Letters: B sequences in a batch, K states that an objective reads.
"""

import tensorflow as tf


class Objective:
  """A head, the states that it reads, and its labels; files derive from it.

  Attributes:
    name: begins the names of the metrics, as in <name>_loss.
    metric_names: the names of the results of `metrics`.
    minimized: the metric that training minimizes.
    weight: the factor of the loss.
    reads_pooled: whether the loss reaches the pooler.
    may_lack_labels: whether a batch may have no label; its loss is then 0.
    predicts_tokens: whether the labels are ids of tokens.
  """

  name: str
  metric_names: tuple[str, ...] = ("loss", "accuracy")
  minimized: str = "loss"
  weight: float = 1.0
  reads_pooled: bool = False
  may_lack_labels: bool = True
  predicts_tokens: bool = False

  def positions(self, batch: dict) -> tf.Tensor | None:
    """Returns integers [B, K]: the tokens whose last states `logits` gets.

    None means that it reads no states.
    """
    del batch
    return None

  def logits(
    self, states: tf.Tensor, pooled: tf.Tensor, batch: dict
  ) -> tf.Tensor:
    """Returns float32 [B, ...] from states [B, K, H] and pooled [B, H]."""
    raise NotImplementedError

  def labels(self, batch: dict) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the labels [B, ...] and their float32 weights."""
    raise NotImplementedError

  def metrics(
    self, logits: tf.Tensor, labels: tf.Tensor, batch: dict
  ) -> dict[str, tf.Tensor]:
    """Returns {metric: float32 of the labels' shape}; see `minimized`.

    By default, there are logits of classes, [B, ..., C].
    """
    del batch
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    predicted = tf.argmax(logits, axis=-1, output_type=labels.dtype)
    is_correct = tf.cast(tf.equal(predicted, labels), tf.float32)
    return {"loss": losses, "accuracy": is_correct}
