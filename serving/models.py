"""Models that take raw strings: tokenizer, encoder and a head in one graph.

One class for each kind of head. Each has two functions for signatures: one of
strings, one of ids. All outputs are dense and start with the batch, as
TensorFlow Serving wants them; rows with less are filled up with "" and 0.
Letters: B texts, T sequence, H width, L labels, P masks, K fillings, W words.
"""

import dataclasses

import numpy as np
import tensorflow as tf

import modeling
from common import choices, errors
from serving import graph_inputs, graph_tokenizer

MASK = "[MASK]"
POOLINGS = choices.EMBEDDING_POOLINGS
_NO_ANSWER = -1e9


@dataclasses.dataclass(frozen=True)
class Options:
  """How texts are treated; each kind of head reads what concerns it.

  Attributes:
    max_seq_length: longest sequence, in pieces with [CLS] and [SEP].
    text_pairs: (classification, embedding) two texts, not one.
    activation: (classification) "softmax": one label. "sigmoid": any number
      of labels. "linear": a number, for regression.
    pooling: (embedding) one of POOLINGS: the pooler's output, the mean over
      all tokens, or the state of [CLS].
    normalize: (embedding) whether to scale embeddings to length 1.
    top_k: (masked LM) fillings of each mask.
    doc_stride, max_query_length, max_answer_length: (span) in pieces.
    null_threshold: (span) None where every question has an answer; else there
      is none if its score is more than this above the best answer's.
    split_at_punctuation: (tagging) whether punctuation is a word of its own.
    bfloat16: whether matrices are stored, and multiplied, in bfloat16.
  """

  max_seq_length: int = 128
  text_pairs: bool = False
  activation: str = "softmax"
  pooling: str = "pooled"
  normalize: bool = False
  top_k: int = 5
  doc_stride: int = 128
  max_query_length: int = 64
  max_answer_length: int = 30
  null_threshold: float | None = None
  split_at_punctuation: bool = True
  bfloat16: bool = False


class ServedModel(tf.Module):
  """What all kinds have in common.

  Attributes:
    tokenizer: graph_tokenizer.GraphTokenizer.
    options: Options.
    labels: list of str; empty where the head has none.
    variables_may_be_missing: patterns of names that no output depends on.
    text_inputs: names of the inputs of `from_text`.
    id_inputs: names of the inputs of `from_ids`.
  """

  text_inputs = ("text",)
  id_inputs = ("input_ids", "input_mask", "segment_ids")
  variables_may_be_missing = ()

  def __init__(self, config, tokenizer, options, labels=()):
    """Makes the variables.

    Args:
      config: modeling.BertConfig.
      tokenizer: tokenization.FullTokenizer.
      options: Options.
      labels: names of the head's labels.

    Raises:
      InputError: the vocabulary lacks a special token or does not fit the
        model, or sequences are longer than it can take.
    """
    super().__init__()
    config.check_sequence_length(options.max_seq_length)
    config.check_vocabulary(len(tokenizer.vocab), tokenizer.vocab_file)
    self.options = options
    self.labels = list(labels)
    self.num_tokens = len(graph_tokenizer.vocabulary_lines(tokenizer))
    self.tokenizer = graph_tokenizer.GraphTokenizer(tokenizer)
    self._special = dict(
      zip(("cls_id", "sep_id"), _ids_of(tokenizer, "[CLS]", "[SEP]"))
    )
    dtype = tf.bfloat16 if options.bfloat16 else tf.float32
    self.bert = modeling.BertModel(
      config, compute_dtype=dtype, storage_dtype=dtype
    )

  def encode(self, inputs, training=False):
    """Returns modeling.BertOutput of a dict with `id_inputs`."""
    return self.bert(
      inputs["input_ids"],
      inputs["input_mask"],
      inputs["segment_ids"],
      training=training,
    )

  def outputs(self, inputs, training=False):
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

  def _logits(self, output, training):
    """Returns the head's own outputs, a dict."""
    del output, training
    return {}

  def make_inputs(self, *texts):
    """Returns the dict of `id_inputs` of strings [B], one tensor or two."""
    ids = [self.tokenizer.tokenize(text).ids for text in texts]
    join = graph_inputs.single_inputs
    if len(ids) == 2:
      join = graph_inputs.pair_inputs
    length = self.options.max_seq_length
    return join(*ids, max_seq_length=length, **self._special)._asdict()


class Classifier(ServedModel):
  """Texts -> a label with its probability, several labels, or a number."""

  def __init__(self, config, tokenizer, options, labels=()):
    super().__init__(config, tokenizer, options, labels)
    if options.text_pairs:
      self.text_inputs = ("text_a", "text_b")
    count = 1 if options.activation == "linear" else len(self.labels)
    self.head = modeling.ClassificationHead(config, count)

  def from_text(self, *texts):
    """Returns the outputs for strings [B], one tensor or two.

    softmax: `label` [B], `probability` [B], and all `labels` and
    `probabilities` [B, L]. sigmoid: the last two. linear: `score` [B].
    """
    return self.from_ids(**self.make_inputs(*texts))

  def from_ids(self, **inputs):
    logits = self.outputs(inputs)["logits"]
    if self.options.activation == "linear":
      return {"score": logits[:, 0]}
    names = tf.constant(self.labels)
    outputs = {"labels": tf.tile(names[tf.newaxis], [tf.shape(logits)[0], 1])}
    if self.options.activation == "sigmoid":
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
  """Texts -> `embedding` [B, H]."""

  def __init__(self, config, tokenizer, options, labels=()):
    super().__init__(config, tokenizer, options, labels)
    if options.text_pairs:
      self.text_inputs = ("text_a", "text_b")
    if options.pooling != "pooled":
      self.variables_may_be_missing = ("^bert/pooler/",)

  def from_text(self, *texts):
    """Returns the outputs for strings [B], one tensor or two."""
    return self.from_ids(**self.make_inputs(*texts))

  def from_ids(self, **inputs):
    output = self.encode(inputs)
    embedding = self._pool(output, inputs["input_mask"])
    if self.options.normalize:
      embedding = tf.math.l2_normalize(embedding, 1)
    return {"embedding": embedding}

  def _pool(self, output, mask):
    if self.options.pooling == "pooled":
      return tf.cast(output.pooled_output, tf.float32)
    states = tf.cast(output.sequence_output, tf.float32)
    if self.options.pooling == "cls":
      return states[:, 0]
    weights = tf.cast(mask, tf.float32)[..., tf.newaxis]
    return tf.reduce_sum(states * weights, 1) / tf.reduce_sum(weights, 1)


class MaskFiller(ServedModel):
  """Texts with [MASK] -> the most likely pieces for each, as fill_mask.py.

  Outputs `fillings` [B, P, K] and `probabilities` [B, P, K]. A mask behind
  the piece number max_seq_length is cut off with the text.
  """

  id_inputs = (*ServedModel.id_inputs, "masked_lm_positions")
  variables_may_be_missing = ("^bert/pooler/",)

  def __init__(self, config, tokenizer, options, labels=()):
    super().__init__(config, tokenizer, options, labels)
    (self._mask_id,) = _ids_of(tokenizer, MASK)
    self._tokens = np.array(self.tokenizer.lines)
    self.head = modeling.MaskedLMHead(config, self.bert.word_embeddings)

  def make_inputs(self, *texts):
    """As of all kinds, and `masked_lm_positions` [B, P], 0 where none is."""
    (text,) = texts
    # The tokenizer cuts "[MASK]" to "[", "mask", "]", as the original's does,
    # so the text between the masks is tokenized separately.
    parts = tf.strings.split(text, MASK)
    ids = parts.with_flat_values(self.tokenizer.tokenize(parts.flat_values).ids)
    mask = tf.fill([tf.size(parts.flat_values), 1], self._mask_id)
    mask = parts.with_flat_values(tf.RaggedTensor.from_tensor(mask))
    ids = tf.concat([ids, mask], 2).merge_dims(1, 2)
    # The last part has no mask after it.
    ids = graph_inputs.first_of(ids, ids.row_lengths() - 1)
    length = self.options.max_seq_length
    inputs = graph_inputs.single_inputs(
      ids, max_seq_length=length, **self._special
    )._asdict()
    return {**inputs, "masked_lm_positions": self._positions(**inputs)}

  def _positions(self, input_ids, **_):
    row, column = tf.unstack(tf.where(input_ids == self._mask_id), axis=1)
    rows = tf.shape(input_ids, tf.int64)[0]
    positions = tf.RaggedTensor.from_value_rowids(column, row, nrows=rows)
    return tf.cast(positions.to_tensor(), tf.int32)

  def from_text(self, text):
    """Returns the outputs for strings [B]."""
    inputs = self.make_inputs(text)
    outputs = self.from_ids(**inputs)
    # A position is never 0, which is that of [CLS].
    real = inputs["masked_lm_positions"][..., tf.newaxis] > 0
    return {
      "fillings": tf.where(real, outputs["fillings"], ""),
      "probabilities": tf.where(real, outputs["probabilities"], 0.0),
    }

  def from_ids(self, masked_lm_positions, **inputs):
    output = self.encode(inputs)
    logits = self.head(output.sequence_output, masked_lm_positions)
    num_tokens = len(self._tokens)
    probabilities = tf.nn.softmax(logits[..., :num_tokens])
    top = tf.math.top_k(probabilities, min(self.options.top_k, num_tokens))
    return {
      "fillings": tf.gather(self._tokens, top.indices),
      "probabilities": top.values,
    }


class Tagger(ServedModel):
  """Texts -> their words, each with a tag and its place.

  Outputs [B, W]: `words`, `tags`, `probabilities`, `starts` and `ends`
  (characters), and `num_words` [B]. A word's tag is that of its first piece.
  Words behind piece number max_seq_length have none.
  """

  def __init__(self, config, tokenizer, options, labels=()):
    super().__init__(config, tokenizer, options, labels)
    self.head = modeling.TokenClassificationHead(config, len(self.labels))

  def from_text(self, text):
    """Returns the outputs for strings [B]."""
    tokens = self.tokenizer.tokenize(text)
    room = self.options.max_seq_length - 2
    tokens = type(tokens)(*(graph_inputs.first_of(t, room) for t in tokens))
    inputs = graph_inputs.single_inputs(
      tokens.ids, max_seq_length=room + 2, **self._special
    )
    logits = self.outputs(inputs._asdict())["logits"]
    by_punctuation = self.options.split_at_punctuation
    numbers = tokens.words if by_punctuation else tokens.chunks
    words = _Words(numbers)
    starts = words.firsts(tokens.starts)
    ends = words.lasts(tokens.ends)
    first_pieces = 1 + words.firsts(tf.ragged.range(numbers.row_lengths()))
    probabilities = tf.nn.softmax(
      tf.gather(logits, first_pieces.to_tensor(), batch_dims=1)
    )
    real = tf.sequence_mask(starts.row_lengths())
    tags = tf.gather(self.labels, tf.argmax(probabilities, 2))
    return {
      "words": _substrings(text, starts, ends).to_tensor(),
      "tags": tf.where(real, tags, ""),
      "probabilities": tf.where(real, tf.reduce_max(probabilities, 2), 0.0),
      "starts": starts.to_tensor(),
      "ends": ends.to_tensor(),
      "num_words": tf.cast(starts.row_lengths(), tf.int32),
    }

  def from_ids(self, **inputs):
    logits = self.outputs(inputs)["logits"]
    return {"probabilities": tf.nn.softmax(logits)}

  def _logits(self, output, training):
    return {"logits": self.head(output.sequence_output, training)}


class _Words:
  """The pieces of words, given the number of each piece's word [B, (N)]."""

  def __init__(self, numbers):
    rows, values = numbers.value_rowids(), numbers.flat_values
    other = (rows[1:] != rows[:-1]) | (values[1:] != values[:-1])
    edge = tf.ones([tf.minimum(tf.size(rows), 1)], tf.bool)
    self._first = tf.concat([edge, other], 0)
    self._last = tf.concat([other, edge], 0)

  def firsts(self, ragged):
    """Returns the value of each word's first piece, ragged [B, (W)]."""
    return tf.ragged.boolean_mask(ragged, ragged.with_flat_values(self._first))

  def lasts(self, ragged):
    """Returns the value of each word's last piece, ragged [B, (W)]."""
    return tf.ragged.boolean_mask(ragged, ragged.with_flat_values(self._last))


def _substrings(texts, starts, ends):
  """Returns the parts between characters `starts` and `ends` of strings [B].

  Args:
    texts: strings [B].
    starts, ends: int32, both [B] or ragged [B, (N)].

  Returns:
    Strings, in the shape of `starts`.
  """
  # Offsets count what is left without the bytes that are no UTF-8.
  texts = tf.strings.unicode_transcode(
    texts, "UTF-8", "UTF-8", errors="ignore", replace_control_characters=False
  )
  if not isinstance(starts, tf.RaggedTensor):
    return tf.strings.substr(texts, starts, ends - starts, unit="UTF8_CHAR")
  texts = tf.gather(texts, starts.value_rowids())
  return starts.with_flat_values(
    _substrings(texts, starts.flat_values, ends.flat_values)
  )


class QuestionAnswerer(ServedModel):
  """Question and context -> the answer that the context holds.

  Contexts longer than a sequence are read in windows, as in run_squad.py.
  Outputs [B]: `answer`, `score` (sum of both logits), `start` and `end`
  (characters of the context), `null_score` (that of "no answer").

  Unlike the original: all spans compete, not those alone whose start and end
  are among the n best, and the answer is cut out by its characters, so that
  it never takes in the rest of a word.
  """

  text_inputs = ("question", "context")
  variables_may_be_missing = ("^bert/pooler/",)

  def __init__(self, config, tokenizer, options, labels=()):
    super().__init__(config, tokenizer, options, labels)
    if options.max_query_length + 4 > options.max_seq_length:
      raise errors.InputError(
        f"--max_seq_length={options.max_seq_length} leaves no room for a "
        f"context behind a question of --max_query_length="
        f"{options.max_query_length} pieces; make it at least 4 more"
      )
    self.head = modeling.SpanHead(config)

  def from_text(self, question, context):
    """Returns the outputs for strings [B], [B]."""
    options = self.options
    tokens = self.tokenizer.tokenize(context)
    windows = graph_inputs.windows(
      self.tokenizer.tokenize(question).ids,
      tokens.ids,
      max_seq_length=options.max_seq_length,
      doc_stride=options.doc_stride,
      max_query_length=options.max_query_length,
      **self._special,
    )
    logits = self.from_ids(**windows.inputs._asdict())
    lengths = tokens.ids.row_lengths()
    scores, starts, ends = self._best_of_windows(
      windows, graph_inputs.is_max_context(windows, lengths), logits
    )
    null_scores = logits["start_logits"][:, 0] + logits["end_logits"][:, 0]
    by_example = tf.RaggedTensor.from_value_rowids(
      tf.range(tf.size(scores, tf.int64)),
      windows.examples,
      nrows=tf.size(lengths, tf.int64),
    )
    best = _argmax_of_rows(by_example, scores)
    score = tf.gather(scores, best)
    null_score = tf.reduce_min(by_example.with_flat_values(null_scores), 1)
    found = score > _NO_ANSWER
    if options.null_threshold is not None:
      found &= null_score - score <= options.null_threshold
    start, end = _characters(
      tokens, tf.gather(starts, best), tf.gather(ends, best), found
    )
    return {
      "answer": _substrings(context, start, end),
      "score": score,
      "start": start,
      "end": end,
      "null_score": null_score,
    }

  def _best_of_windows(self, windows, may_start, logits):
    """Finds the best span of each window.

    Args:
      windows: graph_inputs.Windows.
      may_start: bool ragged [W, (N)], pieces at which an answer may start.
      logits: dict of `start_logits` and `end_logits` [W, T].

    Returns:
      Scores [W] (_NO_ANSWER if there is no span), and int64 [W], [W]: the
      first and the last piece, counted from the start of the context.
    """
    indices = _sequence_indices(may_start, windows.offsets)
    start_logits = tf.where(
      may_start.to_tensor(),
      tf.gather(logits["start_logits"], indices, batch_dims=1),
      2 * _NO_ANSWER,
    )
    end_logits = tf.where(
      tf.sequence_mask(windows.lengths),
      tf.gather(logits["end_logits"], indices, batch_dims=1),
      2 * _NO_ANSWER,
    )
    longest = self.options.max_answer_length
    padded = tf.pad(
      end_logits, [[0, 0], [0, longest]], constant_values=2 * _NO_ANSWER
    )
    # [W, N, longest]: the ends that a start may have.
    ends = tf.signal.frame(padded, longest, 1)[:, : tf.shape(end_logits)[1]]
    spans = start_logits[..., tf.newaxis] + ends
    flat = tf.reshape(spans, [tf.shape(spans)[0], -1])
    # A window may have nothing in it.
    flat = tf.pad(flat, [[0, 0], [0, 1]], constant_values=_NO_ANSWER)
    best = tf.argmax(flat, 1)
    start = windows.starts + best // longest
    return tf.reduce_max(flat, 1), start, start + best % longest

  def from_ids(self, **inputs):
    return self._logits(self.encode(inputs), False)

  def _logits(self, output, training):
    del training
    start, end = self.head(output.sequence_output)
    return {"start_logits": start, "end_logits": end}


KINDS = {
  "classification": Classifier,
  "embedding": Embedder,
  "masked_lm": MaskFiller,
  "span": QuestionAnswerer,
  "tagging": Tagger,
}


def _sequence_indices(pieces, first):
  """Returns int64 [W, N]: where the pieces of windows are in the sequence.

  Args:
    pieces: ragged [W, (N)].
    first: int64 [W], where the first one is.
  """
  count = tf.reduce_max(tf.concat([pieces.row_lengths(), [0]], 0))
  inside = tf.sequence_mask(pieces.row_lengths(), count)
  indices = first[:, tf.newaxis] + tf.range(count)[tf.newaxis]
  return tf.where(inside, indices, 0)


def _argmax_of_rows(rows, values):
  """Returns int64 [B]: the member of each row with the highest value.

  Args:
    rows: ragged int64 [B, (N)], indices into `values`, none of them empty.
    values: float32 [M].
  """
  of_rows = tf.ragged.map_flat_values(lambda i: tf.gather(values, i), rows)
  best = tf.argmax(of_rows.to_tensor(default_value=values.dtype.min), 1)
  return rows.row_starts() + best


def _characters(tokens, first, last, found):
  """Returns int32 [B], [B]: characters of spans of pieces, 0 if not found."""
  first = tf.where(found, tokens.ids.row_starts() + first, 0)
  last = tf.where(found, tokens.ids.row_starts() + last, 0)
  # One more value, since a gathered index must exist.
  starts = tf.pad(tokens.starts.flat_values, [[0, 1]])
  ends = tf.pad(tokens.ends.flat_values, [[0, 1]])
  return (
    tf.where(found, tf.gather(starts, first), 0),
    tf.where(found, tf.gather(ends, last), 0),
  )


def _ids_of(tokenizer, *tokens):
  try:
    return tokenizer.convert_tokens_to_ids(tokens)
  except errors.InputError as error:
    raise errors.InputError(f"{error}; the head needs it") from error
