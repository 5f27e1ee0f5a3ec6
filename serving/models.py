"""The networks that are served: encoder and head, ids in, scores out.

One class for each head. How a text becomes ids, and what the scores mean, is
the task's own code (see `answers`); `raw_text` makes the ids in a graph, for
TensorFlow Serving. Letters: B texts, T sequence, H width, L
labels, P masks, K fillings.
"""

import numpy as np
import tensorflow as tf

import heads
import modeling
import tokenization
from common import errors, run_settings
from features import text_vectors
from squad import inputs as squad_inputs
from variants import registry


class ServedModel(tf.Module):
  """What all heads have in common.

  Attributes:
    config: modeling.BertConfig.
    settings: run_settings.Settings, as export_settings.resolve returns them.
    labels: list of str; of the masked LM the tokens of the vocabulary.
    variables_may_be_missing: patterns of names that no output depends on.
    text_inputs: what the texts of an example are called.
    id_inputs: names of the inputs of `from_ids`.
  """

  text_inputs = ("text",)
  id_inputs = ("input_ids", "input_mask", "segment_ids")
  variables_may_be_missing = ()

  def __init__(
    self,
    config: modeling.BertConfig,
    settings: run_settings.Settings,
    labels=(),
  ):
    """Makes the variables.

    Raises:
      InputError: sequences are longer than the model can take.
    """
    super().__init__()
    config.check_sequence_length(settings.max_seq_length)
    self.config, self.settings, self.labels = config, settings, list(labels)
    if settings.text_pairs:
      self.text_inputs = ("text_a", "text_b")
    dtype = tf.bfloat16 if settings.dtype == "bfloat16" else tf.float32
    self.bert = registry.make_encoder(
      config, compute_dtype=dtype, storage_dtype=dtype
    )

  def encode(self, inputs: dict, training=False, **options):
    """Returns modeling.BertOutput of a dict with `id_inputs`."""
    return self.bert(
      inputs["input_ids"], inputs["input_mask"], inputs["segment_ids"],
      training=training, **options,
    )

  def outputs(self, inputs: dict, training=False) -> dict:
    """Returns what another program fine-tunes on: dict of float32 tensors.

    Args:
      inputs: dict with `input_ids`, `input_mask` and `segment_ids` [B, T].
      training: whether to drop units.
    """
    output = self.encode(inputs, training)
    return {
      "pooled_output": tf.cast(output.pooled_output, tf.float32),
      "sequence_output": tf.cast(output.sequence_output, tf.float32),
      **self._logits(output, training),
    }

  def from_ids(self, **inputs) -> dict:
    """Returns the scores for sequences: {name: tensor [B, ...]}."""
    return self._logits(self.encode(inputs), False)

  def _logits(self, output, training):
    del output, training
    return {}


class Classifier(ServedModel):
  """`logits` [B, L], and what they say of each text.

  softmax: `label` [B], `probability` [B], and all `labels` and `probabilities`
  [B, L]. sigmoid: the last two. linear: `score` [B].
  """

  def __init__(self, config, settings, labels=()):
    super().__init__(config, settings, labels)
    # A regression has one output and no name for it.
    count = 1 if settings.output_activation == "linear" else len(self.labels)
    self.head = heads.ClassificationHead(config, count)

  def from_ids(self, **inputs):
    logits = super().from_ids(**inputs)["logits"]
    if self.settings.output_activation == "linear":
      return {"logits": logits, "score": logits[:, 0]}
    # In the graph: an answer needs no other file.
    names = tf.constant(self.labels)
    outputs = {
      "logits": logits,
      "labels": tf.tile(names[tf.newaxis], [tf.shape(logits)[0], 1]),
    }
    if self.settings.output_activation == "sigmoid":
      return {**outputs, "probabilities": tf.sigmoid(logits)}
    probabilities = tf.nn.softmax(logits)
    return {
      **outputs,
      "probabilities": probabilities,
      "label": tf.gather(names, tf.argmax(logits, 1)),
      "probability": tf.reduce_max(probabilities, 1),
    }

  def _logits(self, output, training):
    return {"logits": self.head(output.pooled_output, training)}


class Embedder(ServedModel):
  """`embedding` [B, H]."""

  def __init__(self, config, settings, labels=()):
    super().__init__(config, settings, labels)
    if settings.pooling != "pooled":
      self.variables_may_be_missing = ("^bert/pooler/",)

  def from_ids(self, **inputs):
    embedding = text_vectors.pool(
      self.settings.pooling, self.encode(inputs), inputs["input_mask"]
    )
    if self.settings.normalize:
      embedding = tf.math.l2_normalize(embedding, 1)
    return {"embedding": embedding}


class MaskFiller(ServedModel):
  """`fillings` and `probabilities` [B, P, K] of each place."""

  id_inputs = (*ServedModel.id_inputs, "masked_lm_positions")
  variables_may_be_missing = ("^bert/pooler/",)

  def __init__(self, config, settings, labels=()):
    super().__init__(config, settings, labels)
    self.head = heads.MaskedLMHead(config, self.bert.word_embeddings)

  def from_ids(self, masked_lm_positions, **inputs):
    output = self.encode(inputs, positions=masked_lm_positions)
    logits = self.head(output.sequence_output)  # [B, P, V]
    count = len(self.labels)
    # A table may have more rows than the vocabulary has tokens, up to a round
    # number; they stand for nothing.
    probabilities = tf.nn.softmax(logits[..., :count])
    top = tf.math.top_k(probabilities, min(self.settings.top_k, count))
    return {
      "fillings": tf.gather(np.array(self.labels), top.indices),
      "probabilities": top.values,
    }


class Tagger(ServedModel):
  """`probabilities` [B, T, L] of every word piece."""

  def __init__(self, config, settings, labels=()):
    super().__init__(config, settings, labels)
    self.head = heads.TokenClassificationHead(config, len(self.labels))

  def from_ids(self, **inputs):
    logits = super().from_ids(**inputs)["logits"]
    return {"probabilities": tf.nn.softmax(logits)}

  def _logits(self, output, training):
    return {"logits": self.head(output.sequence_output, training)}


class QuestionAnswerer(ServedModel):
  """`start_logits` and `end_logits` [B, T] of every word piece."""

  text_inputs = ("question", "context")
  variables_may_be_missing = ("^bert/pooler/",)

  def __init__(self, config, settings, labels=()):
    super().__init__(config, settings, labels)
    if not settings.doc_stride:
      raise errors.InputError(
        "--doc_stride=0: contexts are read in windows; pass 1 or more"
      )
    squad_inputs.lengths_of(settings)  # Refuses those without room.
    self.head = heads.SpanHead(config)

  def _logits(self, output, training):
    del training
    start, end = self.head(output.sequence_output)
    return {"start_logits": start, "end_logits": end}


def vocabulary_lines(tokenizer: tokenization.FullTokenizer) -> list[str]:
  """Returns the tokens in the order of their ids.

  A line whose token occurs again further down is "": that id is never used.
  """
  inverse = tokenizer.inv_vocab
  return [inverse.get(index, "") for index in range(max(inverse) + 1)]


KINDS = {
  "classification": Classifier,
  "embedding": Embedder,
  "masked_lm": MaskFiller,
  "span": QuestionAnswerer,
  "tagging": Tagger,
}
