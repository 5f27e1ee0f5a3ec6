"""Strings -> scores in one graph, for TensorFlow Serving and TF Hub.

The tokenizer is part of the graph; each text, or pair, becomes one sequence,
and what does not fit is cut off. Letters as in `models`.
"""

import tensorflow as tf

import tokenization
from common import errors
from serving import graph_inputs, graph_tokenizer, models

MASK = "[MASK]"


class RawText(tf.Module):
  """A model with its tokenizer in the graph.

  Attributes:
    model: models.ServedModel.
    tokenizer: graph_tokenizer.GraphTokenizer.
    lines: the tokens of the vocabulary.
  """

  def __init__(
    self, model: models.ServedModel, tokenizer: tokenization.FullTokenizer
  ):
    """Reads the tokenizer's rules, which takes seconds.

    Raises:
      InputError: the vocabulary lacks a special token.
    """
    super().__init__()
    self.model, self.lines = model, models.vocabulary_lines(tokenizer)
    self.tokenizer = graph_tokenizer.GraphTokenizer(tokenizer)
    names = ["[CLS]", "[SEP]"]
    if model.settings.head == "masked_lm":
      names.append(MASK)
    try:
      cls_id, sep_id, *self._mask_id = tokenizer.convert_tokens_to_ids(names)
    except errors.InputError as error:
      raise errors.InputError(f"{error}; the head needs it") from error
    self._limits = {
      "max_seq_length": model.settings.max_seq_length,
      "cls_id": cls_id, "sep_id": sep_id,
    }

  def make_inputs(self, *texts) -> dict:
    """Returns the model's `id_inputs` of strings [B], one tensor or two."""
    if self._mask_id:
      return self._with_masks(*texts)
    ids = [self.tokenizer.tokenize(text).ids for text in texts]
    if self.model.settings.head == "span":
      settings = self.model.settings
      question = graph_inputs.first_of(ids[0], settings.max_query_length)
      # The question stays whole.
      room = settings.max_seq_length - 3 - question.row_lengths()
      ids = [question, graph_inputs.first_of(ids[1], room)]
    return self._joined(ids)

  def _joined(self, ids):
    # No second text is one without pieces.
    first, second = [*ids, graph_inputs.first_of(ids[0], 0)][:2]
    inputs = graph_inputs.pair_inputs(first, second, **self._limits)
    return inputs._asdict()

  def _with_masks(self, text):
    # The tokenizer cuts "[MASK]" to "[", "mask", "]", as the original's does,
    # so the text between the masks is tokenized separately.
    parts = tf.strings.split(text, MASK)
    ids = parts.with_flat_values(self.tokenizer.tokenize(parts.flat_values).ids)
    # [parts, 1]
    mask = tf.fill([tf.size(parts.flat_values), 1], self._mask_id[0])
    mask = parts.with_flat_values(tf.RaggedTensor.from_tensor(mask))
    ids = tf.concat([ids, mask], 2).merge_dims(1, 2)  # [B, (N)]
    # The last part has no mask after it.
    ids = graph_inputs.first_of(ids, ids.row_lengths() - 1)
    inputs = self._joined([ids])
    row, column = tf.unstack(
      tf.where(inputs["input_ids"] == self._mask_id[0]), axis=1
    )
    positions = tf.RaggedTensor.from_value_rowids(
      column, row, nrows=tf.shape(inputs["input_ids"], tf.int64)[0]
    )
    positions = tf.cast(positions.to_tensor(), tf.int32)  # 0 where none is.
    return {**inputs, "masked_lm_positions": positions}

  def from_text(self, *texts) -> dict:
    """Returns the model's outputs for strings [B], one tensor or two.

    Of heads whose scores are those of word pieces also `starts` and `ends`
    [B, T], which characters of the (last) text a piece covers: both 0 of
    [CLS], [SEP], padding and a question. Of tags `words` too: the number of
    the piece's word, -1 where it has none. Fillings where there is no mask
    are "".
    """
    inputs = self.make_inputs(*texts)
    outputs = self.model.from_ids(**inputs)
    if self._mask_id:
      # A position is never 0, which is that of [CLS].
      real = inputs["masked_lm_positions"][..., tf.newaxis] > 0  # [B, P, 1]
      return {
        "fillings": tf.where(real, outputs["fillings"], ""),
        "probabilities": tf.where(real, outputs["probabilities"], 0.0),
      }
    if self.model.settings.head in ("span", "tagging"):
      return {**outputs, **self._places(inputs, texts)}
    return outputs

  def _places(self, inputs, texts):
    """Returns `starts`, `ends` and, of tags, `words`, int32 [B, T]."""
    tokens = self.tokenizer.tokenize(texts[-1])
    column = tf.range(tf.shape(inputs["input_ids"])[1])  # [T]
    length = tf.reduce_sum(inputs["input_mask"], 1, keepdims=True)  # [B, 1]
    # Not [CLS], not the last [SEP].
    inside = (column > 0) & (column < length - 1)  # [B, T]
    if len(texts) == 2:
      inside &= inputs["segment_ids"] > 0
    counts = tf.reduce_sum(tf.cast(inside, tf.int64), 1)

    def placed(values, other):
      values = graph_inputs.first_of(values, counts).flat_values
      others = tf.fill(tf.shape(inside), other)
      return tf.tensor_scatter_nd_update(others, tf.where(inside), values)

    starts, ends = placed(tokens.starts, 0), placed(tokens.ends, 0)
    places = {"starts": starts, "ends": ends}
    if len(texts) == 2:
      return places
    by_punctuation = self.model.settings.tag_words == "punctuation"
    words = tokens.words if by_punctuation else tokens.chunks
    return {**places, "words": placed(words, -1)}
