"""Computes scores from strings in one graph, for TensorFlow Serving and TF Hub.

The graph contains the tokenizer. Each text or pair becomes one sequence, and
the graph truncates long ones. For letters see `models`; (N) is a length that
differs between rows.
"""

from collections.abc import Callable

import tensorflow as tf

from answering import models
from exports import graph_tokenizer
from text import input_sequences
from variants import vocabularies


class RawText(tf.Module):
  """A model with its tokenizer in the graph."""

  def __init__(self, model: models.ServedModel):
    """Creates the tokenizer's operations, which takes seconds.

    Raises InputError: see GraphTokenizer; or a special token is missing.
    """
    super().__init__()
    self.model = model
    self.tokenizer = graph_tokenizer.GraphTokenizer(model.tokenizer)
    self._frame = model.tokenizer.frame
    is_filled = model.settings.head == "masked_lm"
    self._mask_id = [model.tokenizer.mask_id] if is_filled else []

  def make_inputs(self, *texts: tf.Tensor) -> dict:
    """Returns the model's `id_inputs` for one or two tensors of strings [B]."""
    if self._mask_id:
      return self._with_masks(*texts)
    if prompt := self.model.settings.get("prompt"):
      texts = (prompt + texts[0], *texts[1:])
    ids = [self.tokenizer.tokenize(text).ids for text in texts]
    if self.model.settings.head == "span":
      settings = self.model.settings
      question = first_of(ids[0], settings.max_query_length)
      # Truncate the context to the room that the question leaves.
      room = settings.max_seq_length - 3 - question.row_lengths()
      ids = [question, first_of(ids[1], room)]
    return self._joined(*ids)

  def _joined(
    self, first: tf.RaggedTensor, second: tf.RaggedTensor | None = None
  ) -> dict:
    # Treat a missing second text as a text without word pieces.
    second = first_of(first, 0) if second is None else second
    length = self.model.settings.max_seq_length
    return pair_inputs(first, second, length, self._frame)

  def _with_masks(self, text: tf.Tensor) -> dict:
    # As in the original: the tokenizer splits "[MASK]" into "[", "mask", "]".
    # So tokenize the texts between the masks separately.
    parts = tf.strings.split(text, self.model.tokenizer.specials.mask)
    ids = parts.with_flat_values(self.tokenizer.tokenize(parts.flat_values).ids)
    mask = tf.fill([tf.size(parts.flat_values), 1], self._mask_id[0])
    mask = parts.with_flat_values(tf.RaggedTensor.from_tensor(mask))
    ids = tf.concat([ids, mask], 2).merge_dims(1, 2)  # [B, (N)]
    # No mask follows the last part, so remove the last id.
    inputs = self._joined(first_of(ids, ids.row_lengths() - 1))
    is_mask = tf.equal(inputs["input_ids"], self._mask_id[0])  # [B, T]
    shape = tf.shape(is_mask)
    columns = tf.broadcast_to(tf.range(shape[1]), shape)
    positions = tf.ragged.boolean_mask(columns, is_mask)
    # Unused positions are 0.
    return {**inputs, "masked_lm_positions": positions.to_tensor()}

  def _with_all_masks(self, inputs: dict, text: tf.Tensor) -> dict:
    """Returns the inputs, after the graph has checked the masks of each text.

    Without the check, a text without masks would have no fillings.
    """
    mask = self.model.tokenizer.specials.mask
    written = tf.strings.split(text, mask).row_lengths() - 1  # [B]
    positions = inputs["masked_lm_positions"]
    read = tf.math.count_nonzero(positions, 1)
    limit = self.model.settings.max_seq_length
    checks = [
      tf.debugging.Assert(tf.reduce_all(is_right), [sentence])
      for is_right, sentence in (
        (written > 0, f"a text has no {mask}; write one"),
        (
          read >= written,
          f"a text has a {mask} beyond the {limit} tokens that the model "
          "reads; shorten the text before it",
        ),
      )
    ]
    with tf.control_dependencies(checks):
      return {name: tf.identity(values) for name, values in inputs.items()}

  @property
  def filler(self) -> str:
    """A text that the graph answers, for `of_any_batch`."""
    return self.model.tokenizer.specials.mask if self._mask_id else ""

  def from_text(self, *texts: tf.Tensor) -> dict:
    """Returns the model's outputs for one or two tensors of strings [B].

    The heads span and tagging add `starts` and `ends` [B, T], each piece's
    offsets in the last text, in characters; both are 0 for [CLS], [SEP],
    padding and a question. Tagging also adds `words`, the number of each
    piece's word, counted over all texts, or -1 without a word. Fillings are ""
    at positions without a mask; a text without a mask, or with a mask that
    truncation removes, ends in an InvalidArgumentError. A sparse vector becomes
    `words` and `weights` [B, K], by descending weight; shorter rows have "" and
    0 at the end.
    """
    inputs = self.make_inputs(*texts)
    if self._mask_id:
      inputs = self._with_all_masks(inputs, *texts)
    outputs = self.model.named(self.model.from_ids(**inputs))
    if self._mask_id:
      # Position 0 is never a mask, because [CLS] is there.
      real = inputs["masked_lm_positions"][..., tf.newaxis] > 0  # [B, P, 1]
      return {
        "fillings": tf.where(real, outputs["fillings"], ""),
        "probabilities": tf.where(real, outputs["probabilities"], 0.0),
      }
    if self.model.settings.head == "sparse":
      return self._weighed_words(outputs["embedding"])
    if self.model.settings.head in ("span", "tagging"):
      return {**outputs, **self._offsets(inputs, texts)}
    return outputs

  def _weighed_words(self, vectors: tf.Tensor) -> dict:
    words = vocabularies.lines(self.model.tokenizer)
    vectors = vectors[:, : len(words)]
    counts = tf.math.count_nonzero(vectors, 1, dtype=tf.int32)
    top = tf.math.top_k(vectors, tf.reduce_max(counts))  # [B, K]
    pieces = tf.where(top.values > 0, tf.gather(words, top.indices), "")
    return {"words": pieces, "weights": top.values}

  def _offsets(self, inputs: dict, texts: tuple) -> dict:
    """Returns `starts`, `ends` and, for tagging, `words`, int32 [B, T]."""
    tokens = self.tokenizer.tokenize(texts[-1])
    column = tf.range(tf.shape(inputs["input_ids"])[1])  # [T]
    length = tf.reduce_sum(inputs["input_mask"], 1, keepdims=True)  # [B, 1]
    # Positions between [CLS] and the last [SEP].
    inside = (column > 0) & (column < length - 1)  # [B, T]
    if len(texts) == 2:
      inside &= inputs["segment_ids"] > 0
    counts = tf.reduce_sum(tf.cast(inside, tf.int64), 1)

    def placed(values: tf.RaggedTensor, other: int) -> tf.Tensor:
      others = tf.fill(tf.shape(inside), other)
      return tf.tensor_scatter_nd_update(
        others, tf.where(inside), first_of(values, counts).flat_values
      )

    starts, ends = placed(tokens.starts, 0), placed(tokens.ends, 0)
    offsets = {"starts": starts, "ends": ends}
    if len(texts) == 2:
      return offsets
    by_punctuation = self.model.settings.tag_words == "punctuation"
    words = tokens.words if by_punctuation else tokens.chunks
    return {**offsets, "words": placed(words, -1)}


# Graph operations on a batch, in part like the functions of input_sequences.py.


def first_of(
  ragged: tf.RaggedTensor, counts: int | tf.Tensor
) -> tf.RaggedTensor:
  """Returns the first `counts` (int or [B]) values, or all, of each row."""
  starts = ragged.row_starts()
  limits = starts + tf.minimum(ragged.row_lengths(), tf.cast(counts, tf.int64))
  return tf.gather(ragged.flat_values, tf.ragged.range(starts, limits))


def pair_inputs(
  ids_a: tf.RaggedTensor,
  ids_b: tf.RaggedTensor,
  max_seq_length: int,
  frame: input_sequences.Frame,
) -> dict:
  """Joins ids [B, (N)] into "[CLS] a [SEP] b [SEP]", truncated if needed.

  As in the original: without word pieces in b, the result is "[CLS] a [SEP]".
  Returns input_ids, input_mask and segment_ids, int32 [B, T]; T is the length
  of the longest sequence.
  """
  lengths_a, lengths_b = ids_a.row_lengths(), ids_b.row_lengths()
  room = max_seq_length - 3
  # As in `input_sequences.truncate_pair`, pieces are removed from the longer
  # text, or from the second if both are equally long. So the limit for the
  # first text is at least its half of the room.
  is_first = lengths_a > lengths_b if frame.odd_to_longer else True
  half_a = (room + tf.cast(is_first, tf.int64)) // 2
  kept_a = tf.where(
    lengths_b > 0, tf.maximum(room - lengths_b, half_a), room + 1
  )
  kept_b = room - tf.minimum(lengths_a, kept_a)
  column = tf.ones([ids_a.nrows(), 1], tf.int32)
  sep = column * frame.sep_id
  first = tf.concat([column * frame.cls_id, first_of(ids_a, kept_a), sep], 1)
  # As in the original: without a second text, there is no second [SEP].
  count = tf.where(lengths_b > 0, lengths_b + 1, 0)
  second = first_of(tf.concat([first_of(ids_b, kept_b), sep], 1), count)
  ids = tf.concat([first, second], 1)
  segments = tf.concat([tf.zeros_like(first), tf.ones_like(second)], 1)
  return {
    "input_ids": ids.to_tensor(),
    "input_mask": tf.ones_like(ids).to_tensor(),
    "segment_ids": segments.to_tensor(),
  }


def of_any_batch(
  function: Callable[..., dict], filler: str = ""
) -> Callable[..., dict]:
  """Returns a function that also takes tensors without rows.

  The network's reshapes need a row: an empty batch gets one, `filler` or the
  number 0, whose outputs are removed.
  """

  def compute(**inputs: tf.Tensor) -> dict:
    counts = [tf.shape(values)[0] for values in inputs.values()]
    checks = [
      tf.debugging.Assert(
        tf.reduce_all(tf.stack(counts) == counts[0]),
        [f"{', '.join(inputs)} have different numbers of rows"],
      )
    ]
    with tf.control_dependencies(checks):
      filled = {
        name: _with_a_row(values, filler) for name, values in inputs.items()
      }
    outputs = function(**filled)
    return {name: values[: counts[0]] for name, values in outputs.items()}

  return compute


def _with_a_row(values: tf.Tensor, filler: str) -> tf.Tensor:
  """Returns [B, ...], or a row of one `filler` or 0 if B is 0."""
  value = filler if values.dtype == tf.string else 0
  row = tf.cast(tf.fill([1] * len(values.shape), value), values.dtype)
  return tf.cond(tf.shape(values)[0] > 0, lambda: values, lambda: row)


def checked(model: models.ServedModel, **inputs: tf.Tensor) -> dict:
  """Returns the inputs, after the graph has checked their shapes and ranges.

  Without the check, some devices return zeros for an id that is too large.
  """
  shape, config = tf.shape(inputs["input_ids"]), model.config  # [B, T]
  sizes = {
    "input_ids": config.vocab_size,
    "input_mask": 2,
    "segment_ids": config.type_vocab_size,
    "masked_lm_positions": shape[1],
  }
  most = config.max_position_embeddings
  too_long = f"input_ids has rows of more than {most} tokens"
  checks = [tf.debugging.Assert(shape[1] <= most, [too_long])]
  for name, values in inputs.items():
    axes = 1 if name == "masked_lm_positions" else 2
    checks += [
      tf.debugging.Assert(
        tf.reduce_all(tf.shape(values)[:axes] == shape[:axes]),
        [f"{name} does not fit the shape of input_ids"],
      ),
      tf.debugging.Assert(
        tf.reduce_all((values >= 0) & (values < sizes[name])),
        [f"{name} has a value that is negative or too large for the model"],
      ),
    ]
  # Without this order, the network could fail first, with an unclear message.
  with tf.control_dependencies(checks):
    return {name: tf.identity(values) for name, values in inputs.items()}
