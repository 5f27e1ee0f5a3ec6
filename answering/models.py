"""The served networks: an encoder with a head, which maps ids to scores.

Each head has a class. The task's own code converts texts to ids, and scores to
answers (see `answers`). For TensorFlow Serving, `raw_text` computes the ids in
the graph. Letters: B texts, T tokens, L labels, P masks, K fillings,
V vocabulary, D embedding size.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

import configuration
import heads
import modeling
import tokenization
from answering import answers
from checkpoints import (
  model_files,
  sentence_pooling,
  sentence_prompts,
  weight_files,
)
from common import errors, run_settings
from squad import windowing as squad_windowing
from text import input_sequences
from variants import registry, sparse_vectors, vocabularies

TEXTS = tf.TensorSpec([None], tf.string)
IDS = tf.TensorSpec([None, None], tf.int32)


class ServedModel(tf.Module):
  """The base class of all served networks.

  Attributes:
    config: configuration.BertConfig.
    settings: run_settings.Settings that export_settings.resolve returned.
    tokenizer: tokenization.FullTokenizer.
    allowed_missing: name patterns of the variables that no output depends on.
    text_inputs: names of an example's texts.
    id_inputs: names of the inputs of `from_ids`.
    pooling: sentence_pooling.Pooling for embeddings.
    prompts: the prompts of the model's folder.
  """

  text_inputs: tuple[str, ...] = ("text",)
  id_inputs: tuple[str, ...] = input_sequences.NAMES
  allowed_missing: tuple[str, ...] = ()
  pooling: sentence_pooling.Pooling | None = None
  prompts = sentence_prompts.Prompts()

  def __init__(
    self,
    config: configuration.BertConfig,
    settings: run_settings.Settings,
    tokenizer: tokenization.FullTokenizer,
    weights: weight_files.Reader | None = None,
  ):
    """Creates the variables; `load` loads their values.

    `weights` is the settings' init_checkpoint, if it is already open.
    Raises InputError: the configuration does not support max_seq_length or
    pairs, or the checkpoint cannot be opened.
    """
    super().__init__()
    config.check_sequence_length(settings.max_seq_length)
    self.config, self.settings, self.tokenizer = config, settings, tokenizer
    if settings.text_pairs:
      self.text_inputs = ("text_a", "text_b")
    if len(self.text_inputs) > 1:
      config.check_pairs(tokenizer.specials.segment_b)
    dtype = tf.bfloat16 if settings.dtype == "bfloat16" else tf.float32
    self._weights = weights or settings.init_checkpoint
    with weight_files.without_random_init(self._weights):
      self.bert = registry.make_encoder(
        config, compute_dtype=dtype, storage_dtype=dtype
      )
      self.head = self._make_head()

  def load(self) -> weight_files.Report:
    """Loads the weights of the settings' init_checkpoint; returns a report.

    Raises InputError: a variable that outputs depend on is missing.
    """
    return weight_files.load(
      self.variables, self._weights, allowed_missing=self.allowed_missing
    )

  def encode(
    self, inputs: dict, training: bool = False, **options: Any
  ) -> modeling.BertOutput:
    """Returns the modeling.BertOutput for a dict with input_sequences.NAMES."""
    ids, mask, segments = (inputs[name] for name in input_sequences.NAMES)
    return self.bert(ids, mask, segments, training, **options)

  def outputs(self, inputs: dict, training: bool = False) -> dict:
    """Returns the float32 outputs that other programs use for fine-tuning.

    Args:
      inputs: dict with `input_ids`, `input_mask` and `segment_ids` [B, T].
      training: whether to apply dropout.
    """
    output = self.encode(inputs, training)
    return {
      "pooled_output": tf.cast(output.pooled_output, tf.float32),
      "sequence_output": tf.cast(output.sequence_output, tf.float32),
      **self._logits(output, training),
    }

  def from_ids(self, **inputs: Any) -> dict:
    """Returns the scores for sequences as {name: tensor [B, ...]}."""
    return self._logits(self.encode(inputs), False)

  def exported(
    self, input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: Any = None
  ) -> dict:
    """Returns an exported network's float32 outputs, with Hugging Face's names.

    See exports/onnx_graph.py for the names.
    """
    return self._logits(self.bert(input_ids, input_mask, segment_ids), False)

  def named(self, outputs: dict) -> dict:
    """Adds labels, tokens and answers to `from_ids`'s outputs (SavedModel)."""
    return outputs

  def _head_states(self, output: modeling.BertOutput) -> tf.Tensor:
    """Returns the states that heads of tokens read, [B, T or P, H]."""
    return self.bert.head_states(output.sequence_output, fused=True)

  def _make_head(self) -> Any:
    return None

  def _logits(self, output: modeling.BertOutput, training: bool) -> dict:
    del output, training
    return {}


class Classifier(ServedModel):
  """Computes `logits` [B, L]; a SavedModel adds the answer for each text.

  softmax: `label` [B], `probability` [B], and all `labels` and `probabilities`
  [B, L]. sigmoid: only the last two. linear and relevance: `score` [B].
  """

  def _make_head(self) -> Any:
    # A regression has one output and no labels.
    return heads.ClassificationHead(self.config, len(self.settings.labels) or 1)

  def _logits(self, output: modeling.BertOutput, training: bool) -> dict:
    return {"logits": self.head(output.pooled_output, training)}

  def named(self, outputs: dict) -> dict:
    """Adds the score of a regression, or the probabilities and the label."""
    logits = outputs["logits"]
    if self.settings.output_activation == "linear":
      return {"logits": logits, "score": logits[:, 0]}
    if self.settings.output_activation == "relevance":
      return {"logits": logits, "score": tf.sigmoid(logits[:, 0])}
    # The graph contains the labels, so an answer needs no other file.
    names = tf.constant(self.settings.labels)
    labels = tf.tile(names[tf.newaxis], [tf.shape(logits)[0], 1])
    if self.settings.output_activation == "sigmoid":
      return {**outputs, "labels": labels, "probabilities": tf.sigmoid(logits)}
    probabilities = tf.nn.softmax(logits)
    return {
      **outputs,
      "labels": labels,
      "probabilities": probabilities,
      "label": tf.gather(names, tf.argmax(logits, 1)),
      "probability": tf.reduce_max(probabilities, 1),
    }


class Embedder(ServedModel):
  """Computes `embedding` [B, D]."""

  def _make_head(self) -> Any:
    depth = self.config.num_hidden_layers
    self.pooling = sentence_pooling.Pooling.of(self.settings, depth)
    if self.pooling.mode != "pooled":
      self.allowed_missing = registry.OPTIONAL

  def from_ids(self, **inputs: tf.Tensor) -> dict:
    """Returns {"embedding": [B, D]}."""
    output = self.encode(inputs)
    return {"embedding": heads.pool(output, inputs["input_mask"], self.pooling)}

  def exported(
    self, input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: Any = None
  ) -> dict:
    """Returns the embedding, and hidden states of the highest pooled layer."""
    output = self.bert(input_ids, input_mask, segment_ids)
    states = output.all_encoder_layers
    assert self.pooling  # `_make_head` set it.
    # As in onnx_graph.make, layers above the highest pooled layer are left out.
    numbers = [n % len(states) for each in self.pooling.layers for n in each]
    return {
      "last_hidden_state": states[max(numbers)],
      "sentence_embedding": heads.pool(output, input_mask, self.pooling),
    }


class MaskFiller(ServedModel):
  """Computes `fillings`, which are token ids, and `probabilities` [B, P, K]."""

  id_inputs = (*ServedModel.id_inputs, "masked_lm_positions")
  allowed_missing = heads.POOLER

  def _make_head(self) -> Any:
    registry.check_masked_words(self.config)
    return heads.MaskedLMHead(
      self.config, self.bert.word_embeddings, fused=True
    )

  def from_ids(self, **inputs: tf.Tensor) -> dict:
    """Returns the `top_k` likeliest tokens at each masked position."""
    logits = self._word_logits(inputs.pop("masked_lm_positions"), inputs)
    count = min(self.settings.top_k, logits.shape[-1])
    top = tf.math.top_k(tf.nn.softmax(logits), count)
    return {"fillings": top.indices, "probabilities": top.values}

  def log_probabilities(
    self,
    masked_lm_positions: tf.Tensor,
    masked_lm_ids: tf.Tensor,
    **inputs: tf.Tensor,
  ) -> dict:
    """Returns {"log_probabilities": [B, P]} of given tokens [B, P] at masks."""
    logits = self._word_logits(masked_lm_positions, inputs)
    scores = tf.gather(tf.nn.log_softmax(logits), masked_lm_ids, batch_dims=2)
    return {"log_probabilities": scores}

  def _word_logits(self, positions: tf.Tensor, inputs: dict) -> tf.Tensor:
    output = self.encode(inputs, positions=positions)
    # The word embeddings may be padded to a round number of rows. Rows beyond
    # the vocabulary have no token.
    count = len(vocabularies.lines(self.tokenizer))
    states = self._head_states(output)
    return self.head(states)[..., :count]  # [B, P, V]

  def exported(
    self, input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: Any = None
  ) -> dict:
    """Returns {"logits": [B, T, V]}."""
    output = self.bert(input_ids, input_mask, segment_ids)
    return {"logits": self.head(self._head_states(output))}

  def named(self, outputs: dict) -> dict:
    """Replaces token ids with tokens."""
    lines = np.array(vocabularies.lines(self.tokenizer))
    return {**outputs, "fillings": tf.gather(lines, outputs["fillings"])}


class WordWeigher(MaskFiller):
  """Computes `embedding` [B, V], a SPLADE weight for each vocabulary token."""

  id_inputs = ServedModel.id_inputs
  named = ServedModel.named

  def from_ids(self, **inputs: tf.Tensor) -> dict:
    """Returns {"embedding": [B, V]}; see sparse_vectors."""
    states, mask = self._head_states(self.encode(inputs)), inputs["input_mask"]
    rules = self.settings.sparse_pooling, self.settings.sparse_activation
    weights = sparse_vectors.word_weights(self.head, states, mask, *rules)
    return {"embedding": weights}


class PairScorer(ServedModel):
  """Computes `log_probabilities` [B, 2]: the second text follows, or does not.

  A SavedModel adds `probability` [B], the probability that it follows.
  """

  text_inputs = ("text_a", "text_b")

  def _make_head(self) -> Any:
    return heads.NextSentenceHead(self.config)

  def _logits(self, output: modeling.BertOutput, training: bool) -> dict:
    del training
    return {"logits": self.head(output.pooled_output)}

  def from_ids(self, **inputs: tf.Tensor) -> dict:
    """Returns {"log_probabilities": [B, 2]}."""
    logits = super().from_ids(**inputs)["logits"]
    return {"log_probabilities": tf.nn.log_softmax(logits)}

  def named(self, outputs: dict) -> dict:
    """Adds the probability that the second text follows the first."""
    follows = outputs["log_probabilities"][:, 0]
    return {**outputs, "probability": tf.exp(follows)}


class Tagger(ServedModel):
  """Computes `probabilities` [B, T, L] of the labels of every word piece."""

  allowed_missing = heads.POOLER

  def _make_head(self) -> Any:
    return heads.TokenClassificationHead(self.config, len(self.settings.labels))

  def from_ids(self, **inputs: tf.Tensor) -> dict:
    """Returns {"probabilities": [B, T, L]}."""
    logits = super().from_ids(**inputs)["logits"]
    return {"probabilities": tf.nn.softmax(logits)}

  def _logits(self, output: modeling.BertOutput, training: bool) -> dict:
    return {"logits": self.head(self._head_states(output), training)}


class QuestionAnswerer(ServedModel):
  """Computes `start_logits` and `end_logits` [B, T] of every word piece."""

  text_inputs = ("question", "context")
  allowed_missing = heads.POOLER

  def _make_head(self) -> Any:
    settings = self.settings
    if not settings.doc_stride:
      raise errors.InputError(
        "--doc_stride=0: contexts are split into windows; pass 1 or more"
      )
    # Raises if the lengths leave no room for the context.
    squad_windowing.lengths_of(settings, self.tokenizer.specials)
    return heads.SpanHead(self.config)

  def _logits(self, output: modeling.BertOutput, training: bool) -> dict:
    del training
    start, end = self.head(self._head_states(output))
    return {"start_logits": start, "end_logits": end}


def make(
  settings: run_settings.Settings,
  files: model_files.ModelFiles,
  tokenizer: tokenization.FullTokenizer,
) -> ServedModel:
  """Creates the network of the head that complete settings name."""
  kind = KINDS[settings.head]
  model = kind(files.config, settings, tokenizer, files.reader)
  model.prompts = files.prompts
  return model


def use_threads(count: int) -> None:
  """Makes TensorFlow compute in `count` threads; 0 leaves it as it is.

  Raises InputError: TensorFlow already computes in another number of threads.
  """
  threading = tf.config.threading
  if count and count != threading.get_intra_op_parallelism_threads():
    try:
      threading.set_intra_op_parallelism_threads(count)
    except RuntimeError as error:
      used = threading.get_intra_op_parallelism_threads() or "one per core"
      raise errors.InputError(
        f"num_threads={count}: TensorFlow has already started its threads in "
        f"this process ({used}); leave num_threads out, or pass it for the "
        "model that is loaded first"
      ) from error


def compiled(
  function: Callable, spec: tf.TensorSpec, names: Iterable[str]
) -> Callable:
  """Returns a function of named tensors, traced once for all sizes."""
  # The spec's name becomes the input's name in a signature.
  specs = {name: tf.TensorSpec(spec.shape, spec.dtype, name) for name in names}
  return tf.function(
    lambda **inputs: function(**inputs), autograph=False
  ).get_concrete_function(**specs)


def on_tensors(function: Callable) -> answers.Network:
  """Wraps a function of tensors as a Network, a function of arrays."""

  def network(**batch: Any) -> dict[str, np.ndarray]:
    tensors = {n: tf.constant(v, tf.int32) for n, v in batch.items()}
    return {n: value.numpy() for n, value in function(**tensors).items()}

  return network


def network_of(function: Callable, names: Iterable[str]) -> answers.Network:
  """Compiles a method of a ServedModel that takes ids; returns the Network."""
  return on_tensors(compiled(function, IDS, names))


KINDS = {
  "classification": Classifier,
  "embedding": Embedder,
  "masked_lm": MaskFiller,
  "next_sentence": PairScorer,
  "span": QuestionAnswerer,
  "sparse": WordWeigher,
  "tagging": Tagger,
}
