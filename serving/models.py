"""Models that take raw strings: tokenizer, encoder and a head in one graph.

One class for each kind of head. Each has two functions for signatures: one of
strings, which answers as the head's script does, long texts in windows; and
one of ids, for sequences as they are. All outputs are dense and start with
the batch, as TensorFlow Serving wants them; shorter rows are filled with ""
and 0. Letters: B texts, T sequence, H width, L labels, P masks, K fillings,
W words or windows.
"""

import dataclasses

import numpy as np
import tensorflow as tf

import modeling
from common import choices, errors
from serving import graph_inputs, graph_tokenizer
from variants import registry

MASK = "[MASK]"
POOLINGS = choices.EMBEDDING_POOLINGS
# Finite, so that sums and differences with it stay numbers.
_NO_ANSWER = -1e9
_SPAN_LOGITS = ("start_logits", "end_logits")
# What separates words for the original's reader of SQuAD.
_WHITE_SPACE = "[ \\t\\r\\n\u202f]+"


@dataclasses.dataclass(frozen=True)
class ServingOptions:
  """How texts are treated; each kind of head reads what concerns it.

  Attributes:
    max_seq_length: longest sequence, in pieces with [CLS] and [SEP].
    text_pairs: (classification, embedding) two texts, not one.
    activation: (classification) "softmax": one label. "sigmoid": any number
      of labels. "linear": a number, for regression.
    max_windows, window_pooling: (classification with doc_stride) at most this
      many windows of a text, 0: all; "mean" or "max" of their logits.
    pooling: (embedding) one of POOLINGS: the pooler's output, the mean over
      all tokens, or the state of [CLS].
    normalize: (embedding) whether to scale embeddings to length 1.
    top_k: (masked LM) fillings of each mask.
    doc_stride: (classification, span) from one window of a long text to the
      next, in pieces; 0, for classification alone: cut long texts off.
    max_query_length, max_answer_length: (span) in pieces.
    n_best_size: (span) how many starts and ends of a window are tried.
    null_threshold: (span) None where every question has an answer; else there
      is none if its score is more than this above the best answer's.
    split_at_punctuation: (tagging) whether punctuation is a word of its own.
    bfloat16: whether matrices are stored, and multiplied, in bfloat16.
  """

  max_seq_length: int = 128
  text_pairs: bool = False
  activation: str = "softmax"
  max_windows: int = 0
  window_pooling: str = "mean"
  pooling: str = "pooled"
  normalize: bool = False
  top_k: int = 5
  doc_stride: int = 0
  max_query_length: int = 64
  max_answer_length: int = 30
  n_best_size: int = 20
  null_threshold: float | None = None
  split_at_punctuation: bool = True
  bfloat16: bool = False


class ServedModel(tf.Module):
  """What all kinds have in common.

  Attributes:
    config: modeling.BertConfig.
    tokenizer: graph_tokenizer.GraphTokenizer.
    options: ServingOptions.
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
      options: ServingOptions.
      labels: names of the head's labels.

    Raises:
      InputError: the vocabulary lacks a special token or does not fit the
        model, or sequences are longer than it can take.
    """
    super().__init__()
    # Before the tokenizer's rules are read, which takes seconds.
    config.check_sequence_length(options.max_seq_length)
    config.check_vocabulary(len(tokenizer.vocab), tokenizer.vocab_file)
    self.config = config
    self.options = options
    self.labels = list(labels)
    self.num_tokens = len(graph_tokenizer.vocabulary_lines(tokenizer))
    self.tokenizer = graph_tokenizer.GraphTokenizer(tokenizer)
    self._special = dict(
      zip(("cls_id", "sep_id"), _ids_of(tokenizer, "[CLS]", "[SEP]"))
    )
    dtype = tf.bfloat16 if options.bfloat16 else tf.float32
    self.bert = registry.make_encoder(
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
    # A regression has one output and no name for it.
    count = 1 if options.activation == "linear" else len(self.labels)
    self.head = modeling.ClassificationHead(config, count)

  def from_text(self, *texts):
    """Returns the outputs for strings [B], one tensor or two.

    softmax: `label` [B], `probability` [B], and all `labels` and
    `probabilities` [B, L]. sigmoid: the last two. linear: `score` [B].
    """
    if not self.options.doc_stride:
      return self.from_ids(**self.make_inputs(*texts))
    ids = [self.tokenizer.tokenize(text).ids for text in texts]
    # No second text is one without pieces.
    second = ids[1] if len(ids) == 2 else graph_inputs.first_of(ids[0], 0)
    inputs, examples = graph_inputs.text_windows(
      ids[0],
      second,
      max_seq_length=self.options.max_seq_length,
      doc_stride=self.options.doc_stride,
      max_windows=self.options.max_windows,
      **self._special,
    )
    logits = self.outputs(inputs._asdict())["logits"]
    # Over windows of one example, which are neighbours: segment_* need that.
    pool = {"mean": tf.math.segment_mean, "max": tf.math.segment_max}
    return self._answers(pool[self.options.window_pooling](logits, examples))

  def from_ids(self, **inputs):
    """Returns the outputs of `from_text` for sequences, one window each."""
    return self._answers(self.outputs(inputs)["logits"])

  def _answers(self, logits):
    """Returns the outputs of `from_text` for logits [B, L]."""
    if self.options.activation == "linear":
      return {"score": logits[:, 0]}
    # In the graph: an answer needs no other file.
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
    states = tf.cast(output.sequence_output, tf.float32)  # [B, T, H]
    if self.options.pooling == "cls":
      return states[:, 0]
    weights = tf.cast(mask, tf.float32)[..., tf.newaxis]  # [B, T, 1]
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
    mask = tf.fill([tf.size(parts.flat_values), 1], self._mask_id)  # [parts, 1]
    mask = parts.with_flat_values(tf.RaggedTensor.from_tensor(mask))
    ids = tf.concat([ids, mask], 2).merge_dims(1, 2)  # [B, (N)]
    # The last part has no mask after it.
    ids = graph_inputs.first_of(ids, ids.row_lengths() - 1)
    length = self.options.max_seq_length
    inputs = graph_inputs.single_inputs(
      ids, max_seq_length=length, **self._special
    )._asdict()
    return {**inputs, "masked_lm_positions": self._positions(**inputs)}

  def _positions(self, input_ids, **_):
    row, column = tf.unstack(tf.where(input_ids == self._mask_id), axis=1)
    rows = tf.shape(input_ids, tf.int64)[0]  # B
    positions = tf.RaggedTensor.from_value_rowids(column, row, nrows=rows)
    return tf.cast(positions.to_tensor(), tf.int32)

  def from_text(self, text):
    """Returns the outputs for strings [B]."""
    inputs = self.make_inputs(text)
    outputs = self.from_ids(**inputs)
    # A position is never 0, which is that of [CLS].
    real = inputs["masked_lm_positions"][..., tf.newaxis] > 0  # [B, P, 1]
    return {
      "fillings": tf.where(real, outputs["fillings"], ""),
      "probabilities": tf.where(real, outputs["probabilities"], 0.0),
    }

  def from_ids(self, masked_lm_positions, **inputs):
    output = self.encode(inputs)
    logits = self.head(output.sequence_output, masked_lm_positions)  # [B, P, V]
    num_tokens = len(self._tokens)
    # A table may have more rows than the vocabulary has tokens, up to a round
    # number; they stand for nothing.
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
  A text longer than a sequence is cut into windows between words, as
  run_ner.py does; of a word longer than a window the first pieces count.
  """

  def __init__(self, config, tokenizer, options, labels=()):
    super().__init__(config, tokenizer, options, labels)
    if options.max_seq_length < 3:
      raise errors.InputError(
        f"--max_seq_length={options.max_seq_length} leaves no room for a word "
        "next to [CLS] and [SEP]; pass 3 or more"
      )
    self.head = modeling.TokenClassificationHead(config, len(self.labels))

  def from_text(self, text):
    """Returns the outputs for strings [B]."""
    tokens = self.tokenizer.tokenize(text)
    by_punctuation = self.options.split_at_punctuation
    words = _Words(tokens.words if by_punctuation else tokens.chunks)
    starts, ends = words.firsts(tokens.starts), words.lasts(tokens.ends)
    probabilities = tf.nn.softmax(self._word_logits(tokens.ids, words))
    real = tf.sequence_mask(starts.row_lengths())  # [B, W]
    tags = tf.gather(self.labels, tf.argmax(probabilities, 1))
    best = tf.reduce_max(probabilities, 1)
    return {
      "words": _substrings(text, starts, ends).to_tensor(),
      "tags": tf.where(real, starts.with_flat_values(tags).to_tensor(), ""),
      "probabilities": starts.with_flat_values(best).to_tensor(),
      "starts": starts.to_tensor(),
      "ends": ends.to_tensor(),
      "num_words": tf.cast(starts.row_lengths(), tf.int32),
    }

  def _word_logits(self, ids, words):
    """Returns the logits [words of all texts, L] of each word's first piece.

    Args:
      ids: ragged int32 [B, (N)], pieces.
      words: _Words of the same pieces.
    """
    # [CLS] and [SEP].
    room = self.options.max_seq_length - 2
    offsets = words.offsets()  # [N], of all pieces of all texts.
    # A word longer than a window: its first pieces stand for it.
    kept = offsets < room
    pieces = tf.boolean_mask(ids.flat_values, kept)
    is_first = tf.equal(tf.boolean_mask(offsets, kept), 0)
    lengths = tf.minimum(words.lengths(), room)
    windows = graph_inputs.windows_of_words(lengths, room)
    # The window of each word, then of each piece, counted over all texts. A
    # text without a word has a window, too, with nothing in it.
    counts = tf.reduce_max(
      tf.pad(windows.to_tensor(), [[0, 0], [1, 0]]), axis=1
    ) + 1
    before = tf.gather(
      tf.cumsum(counts, exclusive=True), windows.value_rowids()
    )
    of_pieces = tf.repeat(
      windows.flat_values + before, lengths.flat_values
    )
    sequences = tf.RaggedTensor.from_value_rowids(
      pieces, of_pieces, nrows=tf.reduce_sum(counts)
    )
    inputs = graph_inputs.single_inputs(
      sequences, max_seq_length=room + 2, **self._special
    )
    logits = self.outputs(inputs._asdict())["logits"]
    # [CLS] is before the first piece of a window.
    columns = 1 + tf.ragged.range(sequences.row_lengths()).flat_values
    places = tf.stack([of_pieces, tf.cast(columns, tf.int64)], axis=1)
    return tf.gather_nd(logits, tf.boolean_mask(places, is_first))

  def from_ids(self, **inputs):
    logits = self.outputs(inputs)["logits"]
    return {"probabilities": tf.nn.softmax(logits)}

  def _logits(self, output, training):
    return {"logits": self.head(output.sequence_output, training)}


class _Words:
  """The pieces of words, given the number of each piece's word [B, (N)]."""

  def __init__(self, numbers):
    rows, values = numbers.value_rowids(), numbers.flat_values
    # Between two pieces: whether another word begins there.
    # Words 0 0 1 of a text and 0 of the next: first is 1 0 1 1, last 0 1 1 1.
    other = (rows[1:] != rows[:-1]) | (values[1:] != values[:-1])
    # The outer end, of length 0 where there is no piece at all.
    edge = tf.ones([tf.minimum(tf.size(rows), 1)], tf.bool)
    self._first = tf.concat([edge, other], 0)
    self._last = tf.concat([other, edge], 0)
    self._positions = numbers.with_flat_values(
      tf.range(tf.size(rows, tf.int64))
    )

  def firsts(self, ragged):
    """Returns the value of each word's first piece, ragged [B, (W)]."""
    return tf.ragged.boolean_mask(ragged, ragged.with_flat_values(self._first))

  def lasts(self, ragged):
    """Returns the value of each word's last piece, ragged [B, (W)]."""
    return tf.ragged.boolean_mask(ragged, ragged.with_flat_values(self._last))

  def lengths(self):
    """Returns how many pieces each word has, int64 ragged [B, (W)]."""
    return self.lasts(self._positions) - self.firsts(self._positions) + 1

  def offsets(self):
    """Returns the number of each piece in its word, from 0, int64 [N]."""
    first = self.firsts(self._positions).flat_values
    word = tf.cumsum(tf.cast(self._first, tf.int64)) - 1
    return self._positions.flat_values - tf.gather(first, word)


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
  # Each text once for each of its words.
  texts = tf.gather(texts, starts.value_rowids())
  return starts.with_flat_values(
    _substrings(texts, starts.flat_values, ends.flat_values)
  )


class QuestionAnswerer(ServedModel):
  """Question and context -> the answer that the context holds.

  The same answer as run_squad.py gives: the windows, the candidates and the
  order among them are those of squad/span_search.py.
  Outputs [B]: `answer`, `score` (sum of both logits), `start` and `end`
  (characters of the context), `null_score` (that of "no answer").

  Unlike the original: the answer is cut out by its characters, so that it
  never takes in the rest of a word; and it is "" where there is none to give.
  """

  text_inputs = ("question", "context")
  variables_may_be_missing = ("^bert/pooler/",)

  def __init__(self, config, tokenizer, options, labels=()):
    super().__init__(config, tokenizer, options, labels)
    if not options.doc_stride:
      raise errors.InputError(
        "--doc_stride=0: contexts are read in windows; pass 1 or more"
      )
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
    lengths = tokens.ids.row_lengths()  # [B]
    may_start = graph_inputs.is_max_context(windows, lengths)
    scores, starts, ends = self._best_of_windows(windows, may_start, logits)
    by_example = tf.RaggedTensor.from_value_rowids(
      tf.range(tf.size(scores, tf.int64)),
      windows.examples,
      nrows=tf.size(lengths, tf.int64),
    )
    best = _argmax_of_rows(by_example, scores)
    score = tf.gather(scores, best)
    null_scores = tf.add(
      *(tf.cast(logits[name][:, 0], tf.float64) for name in _SPAN_LOGITS)
    )
    null_score = tf.reduce_min(by_example.with_flat_values(null_scores), 1)
    start, end = _characters(
      tokens, tf.gather(starts, best), tf.gather(ends, best),
      self._is_found(score, null_score),
    )
    # As in the original: words of an answer are joined by single spaces.
    answer = tf.strings.regex_replace(
      _substrings(context, start, end), _WHITE_SPACE, " "
    )
    return {
      "answer": answer,
      "score": tf.cast(score, tf.float32),
      "start": start,
      "end": end,
      "null_score": tf.cast(null_score, tf.float32),
    }

  def _is_found(self, score, null_score):
    """Returns bool [B]: whether the best answer goes before "no answer"."""
    options = self.options
    found = score > _NO_ANSWER
    if options.null_threshold is None:
      return found
    if options.n_best_size == 1:
      # As in the original: one answer is kept, and "no answer" is it.
      found &= null_score <= score
    return found & (null_score - score <= options.null_threshold)

  def _best_of_windows(self, windows, may_start, logits):
    """Finds the best span of each window.

    Starts are the `n_best_size` tokens with the highest start logits, ends
    those with the highest end logits; of equal ones the first. Question and
    special tokens take places among them, although no answer can be there.

    Args:
      windows: graph_inputs.Windows.
      may_start: bool ragged [W, (N)], pieces at which an answer may start.
      logits: dict of `start_logits` and `end_logits` [W, T].

    Returns:
      Scores, float64 [W] (_NO_ANSWER if there is no span), and int64 [W], [W]:
      the first and the last piece, counted from the start of the context.
    """
    (start_scores, starts), (end_scores, ends) = (
      self._best_positions(logits[name], windows) for name in _SPAN_LOGITS
    )
    inside = (starts >= 0) & (starts < windows.lengths[:, tf.newaxis])
    # One more column: a window may have nothing in it.
    may_start = tf.pad(may_start.to_tensor(), [[0, 0], [0, 1]])
    inside &= tf.gather(may_start, tf.where(inside, starts, 0), batch_dims=1)
    ends_inside = ends < windows.lengths[:, tf.newaxis]
    lengths = ends[:, tf.newaxis, :] - starts[:, :, tf.newaxis] + 1  # [W, K, K]
    is_valid = (lengths > 0) & (lengths <= self.options.max_answer_length)
    is_valid &= inside[:, :, tf.newaxis] & ends_inside[:, tf.newaxis, :]
    scores = start_scores[:, :, tf.newaxis] + end_scores[:, tf.newaxis, :]
    scores = tf.where(is_valid, scores, tf.constant(_NO_ANSWER, tf.float64))
    # As in the original: of equal scores that of the better start is taken,
    # then that of the better end, which is the order of the flat array.
    count = tf.shape(ends, tf.int64)[1]
    flat = tf.reshape(scores, [tf.shape(scores)[0], -1])  # [W, K K]
    best = tf.argmax(flat, 1)  # [W]
    return (
      tf.reduce_max(flat, 1),
      windows.starts + tf.gather(starts, best // count, batch_dims=1),
      windows.starts + tf.gather(ends, best % count, batch_dims=1),
    )

  def _best_positions(self, logits, windows):
    """Returns the highest of logits [W, T], float64 [W, K], and where.

    Places are int64 [W, K], pieces counted from the window's first one of the
    context; padding is never among them unless nothing else is left.
    """
    # [W, T]
    is_token = tf.cast(windows.inputs.input_mask, tf.bool)
    logits = tf.where(is_token, logits, _NO_ANSWER)
    count = tf.minimum(self.options.n_best_size, tf.shape(logits)[1])
    # Of equal logits top_k takes the first, as the stable sort of span_search.
    best = tf.math.top_k(logits, count)
    places = tf.cast(best.indices, tf.int64) - windows.offsets[:, tf.newaxis]
    return tf.cast(best.values, tf.float64), places

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


def _argmax_of_rows(rows, values):
  """Returns int64 [B]: the member of each row with the highest value.

  Args:
    rows: ragged int64 [B, (N)], indices into `values`, none of them empty.
    values: floats [M].
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
