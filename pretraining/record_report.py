"""Pre-training records: whether they are valid, and what they contain.

Reads files of the records that record_maker describes, whoever wrote them.
Checks the framing, that each record has the features of the first one with as
many values, and that these are possible (see `_checks`).
"""

import numpy as np
import tensorflow as tf
from absl import logging

import tokenization
from common import errors
from pretraining import text_corpus
from records import tfrecord

_BATCH = 1024
_ALWAYS = {"input_ids", "input_mask", "segment_ids"}
_MASKED = {"masked_lm_positions", "masked_lm_ids", "masked_lm_weights"}
_FEATURES = (*_ALWAYS, *_MASKED, "next_sentence_labels", "word_starts")
_LENGTH_BINS = 8
_FAULTS_PER_FILE = 5


def examine(
  paths: list[str], vocabulary: text_corpus.Vocabulary | None = None
) -> "Report":
  """Reports on TFRecord files, which were made with `vocabulary`."""
  report = Report(vocabulary)
  for path in paths:
    report.add(path)
  return report


class Report:
  """What the records of some files contain.

  Attributes:
    records: dict of file -> number of records that were read from it.
    faults: list of sentences; empty if all files are valid.
    widths: dict of feature -> number of its values, of the first record.
    lengths: int array [T + 1]: how many records have how many tokens.
    masked, as_mask: how many tokens are to be predicted, and how many of
      these are [MASK] in the input (with a vocabulary only).
    unmasked: how many records have no token to be predicted. Where whole words
      or spans are masked, that is what becomes of a text whose every word has
      more pieces than may be predicted.
    text_tokens, unknown: how many tokens are not [CLS] or [SEP], and how many
      of these are [UNK]; None without a vocabulary that has one.
    random_next: how many records say that segment B is a random one.
  """

  def __init__(self, vocabulary=None):
    self._vocabulary = vocabulary
    self.records, self.faults = {}, []
    self.widths, self.lengths = {}, np.zeros(1, np.int64)
    self.masked = self.as_mask = self.unmasked = self.random_next = 0
    has_unknown = vocabulary is not None and vocabulary.unk_id is not None
    self.text_tokens = self.unknown = 0 if has_unknown else None

  def add(self, path: str) -> None:
    """Examines one more file."""
    self.records[path] = 0
    faults, masked_before = [], self.masked
    try:
      for batch in _batches(path):
        number = self.records[path]
        self.records[path] += len(batch["input_ids"].row_lengths())
        for row, sentence in self._add_batch(path, batch):
          faults.append(f"{path}: record {number + row + 1}: {sentence}")
      if not self.records[path]:
        faults.append(f"{path}: holds no record")
      if self._lacks_masks(path, masked_before):
        faults.append(f"{path}: no token of any record is to be predicted")
    except errors.InputError as error:
      faults.append(str(error))
    if len(faults) > _FAULTS_PER_FILE:
      rest = len(faults) - _FAULTS_PER_FILE
      faults[_FAULTS_PER_FILE:] = [f"{path}: and {rest} more such records"]
    self.faults += faults

  def _lacks_masks(self, path, masked_before):
    """Whether a file has records for masked tokens, and none in them."""
    return bool(
      self.records[path]
      and "masked_lm_weights" in self.widths
      and self.masked == masked_before
    )

  def _add_batch(self, path, batch):
    """Counts what is valid in a batch; returns a list of (row, fault).

    Args:
      path: the batch's file.
      batch: dict of feature -> RaggedTensor [B, None].
    """
    widths = {
      name: values.row_lengths().numpy() for name, values in batch.items()
    }
    if not self.widths:
      first = {name: int(row[0]) for name, row in widths.items() if row[0]}
      _check_names(path, first)
      self.widths = first
      self.lengths = np.zeros(first["input_ids"] + 1, np.int64)
    # The others cannot be put into arrays; they are reported as they are.
    fits = np.all(
      [row == self.widths.get(name, 0) for name, row in widths.items()], axis=0
    )
    rows = np.flatnonzero(fits)
    arrays = {
      name: tf.gather(batch[name], rows).values.numpy().reshape(-1, width)
      for name, width in self.widths.items()
    }
    self._count(arrays)
    faults = [
      (row, f"the sizes of its features are not the first one's: {self.widths}")
      for row in np.flatnonzero(~fits)
    ]
    for sentence, holds in _checks(arrays, self._vocabulary):
      faults += [(row, sentence) for row in rows[~holds]]
    return sorted(faults)

  def _count(self, arrays):
    if self.unknown is not None:
      ids = _original_ids(arrays)
      special = (self._vocabulary.cls_id, self._vocabulary.sep_id)
      is_text = (arrays["input_mask"] > 0) & ~np.isin(ids, special)
      self.text_tokens += int(is_text.sum())
      self.unknown += int((is_text & (ids == self._vocabulary.unk_id)).sum())
    # Clipped, so that a damaged mask is a fault and not an error.
    tokens = arrays["input_mask"].sum(1).clip(0, len(self.lengths) - 1)
    self.lengths += np.bincount(tokens, minlength=len(self.lengths))
    if "masked_lm_weights" in arrays:
      is_masked = arrays["masked_lm_weights"] > 0
      self.masked += int(is_masked.sum())
      self.unmasked += int((~is_masked.any(1)).sum())
      if self._vocabulary:
        is_mask = _at_positions(arrays) == self._vocabulary.mask_id
        self.as_mask += int((is_masked & is_mask).sum())
    if "next_sentence_labels" in arrays:
      self.random_next += int((arrays["next_sentence_labels"] == 1).sum())

  def text(self) -> str:
    """Returns the report, some lines for a reader."""
    # Records whose sizes fit; the others are among the faults.
    count = int(self.lengths.sum())
    tokens = int(self.lengths @ np.arange(len(self.lengths)))
    # T for each record.
    places = count * (len(self.lengths) - 1)
    lines = [
      f"{len(self.records)} file(s), {sum(self.records.values()):,} records, "
      f"{tokens:,} tokens",
      "features: " + ", ".join(f"{n} {w}" for n, w in self.widths.items()),
      f"padding: {_percent(places - tokens, places)} of all places",
      *self._length_lines(count),
    ]
    if self.unknown is not None:
      share = _percent(self.unknown, self.text_tokens)
      lines.append(f"[UNK]: {share} of the tokens of text")
    if "masked_lm_weights" in self.widths:
      line = f"to be predicted: {_percent(self.masked, tokens)} of the tokens"
      if self._vocabulary:
        line += f", of these {_percent(self.as_mask, self.masked)} as [MASK]"
      lines.append(line)
      if self.unmasked:
        share = _percent(self.unmasked, count)
        lines.append(f"nothing to be predicted: in {share} of the records")
    if "next_sentence_labels" in self.widths:
      share = _percent(self.random_next, count)
      lines.append(
        f"next sentence: {share} of the records have a random one, or swapped "
        "segments"
      )
    lines.append(f"faults: {len(self.faults)}")
    return "\n".join([*lines, *self.faults])

  def _length_lines(self, count):
    edges = np.linspace(0, len(self.lengths) - 1, _LENGTH_BINS + 1).astype(int)
    for low, high in zip(edges, edges[1:]):
      share = self.lengths[low + 1 : high + 1].sum()
      yield f"  {low + 1:5}-{high:5} tokens: {_percent(share, count):>6}"


def _check_names(path, names):
  missing = _ALWAYS - set(names)
  if _MASKED & set(names):
    missing |= _MASKED - set(names)
  if missing:
    raise errors.InputError(
      f"{path}: its first record has no {', '.join(sorted(missing))}: these "
      "are not pre-training records"
    )


def _percent(part, whole):
  return f"{100 * part / max(1, whole):.1f} %"


def _batches(path):
  """Yields dicts of feature -> RaggedTensor [B, None].

  Raises:
    InputError: the file is damaged or cut off, or holds something else.
  """
  features = {
    # Ragged: a record of other sizes is reported, and does not stop the parser.
    name: tf.io.RaggedFeature(tf.float32 if "weights" in name else tf.int64)
    for name in _FEATURES
  }
  try:
    for serialized in tfrecord.stored_records(path).batch(_BATCH):
      yield tf.io.parse_example(serialized, features)
  except (tf.errors.OpError, UnicodeDecodeError):
    # Read one by one to name the record. (TensorFlow's message quotes the
    # record, which may be arbitrary bytes.)
    for _ in tfrecord.read_records(path):
      continue
    raise
  tfrecord.count_records(path)


def _positions(arrays):
  """Returns the masked positions [B, P], in the range of the input."""
  limit = arrays["input_ids"].shape[1] - 1
  return arrays["masked_lm_positions"].clip(0, limit)


def _at_positions(arrays):
  """Returns the ids in the input at the masked positions [B, P]."""
  return np.take_along_axis(arrays["input_ids"], _positions(arrays), 1)


def _original_ids(arrays):
  """Returns input_ids [B, T] without the masks."""
  ids = arrays["input_ids"].copy()
  if "masked_lm_ids" in arrays:
    row, place = np.nonzero(arrays["masked_lm_weights"] > 0)
    positions = _positions(arrays)[row, place]
    ids[row, positions] = arrays["masked_lm_ids"][row, place]
  return ids


def log_examples(
  features: dict[str, np.ndarray],
  tokenizer: tokenization.FullTokenizer,
  count: int,
) -> None:
  """Logs the first records as tokens; see instance_maker.Instances.features."""
  for row in range(min(count, len(features["input_ids"]))):
    record = {name: values[row] for name, values in features.items()}
    logging.debug("Instance %d: %s", row, example_line(record, tokenizer))


def example_line(
  record: dict[str, np.ndarray], tokenizer: tokenization.FullTokenizer
) -> str:
  """Returns a record (dict of arrays) as a line of tokens."""
  length = int(record["input_mask"].sum())
  ids = record["input_ids"][:length].tolist()
  parts = [" ".join(tokenizer.convert_ids_to_tokens(ids))]
  if "masked_lm_ids" in record:
    count = int(record["masked_lm_weights"].sum())
    labels = tokenizer.convert_ids_to_tokens(
      record["masked_lm_ids"][:count].tolist()
    )
    positions = record["masked_lm_positions"][:count].tolist()
    parts.append(f"to predict at {positions}: {' '.join(labels)}")
  if "next_sentence_labels" in record:
    is_other = record["next_sentence_labels"][0]
    said = "random or swapped" if is_other else "actual"
    parts.append(f"next sentence: {said}")
  return " | ".join(parts)


def _checks(arrays, vocabulary):
  """Yields (fault, bool array [B] of the records without it)."""
  ids, mask = arrays["input_ids"], arrays["input_mask"]
  segments = arrays["segment_ids"]
  length = mask.sum(1)  # [B]
  is_token = np.arange(mask.shape[1]) < length[:, None]
  yield "input_mask is not ones and then zeros", (mask == is_token).all(1)
  # [CLS], a token and [SEP].
  yield "it has less than three tokens", length >= 3
  yield "input_ids is not 0 in the padding", (is_token | (ids == 0)).all(1)
  yield (
    "segment_ids is not zeros and then ones, up to the padding",
    ((segments == 0) | (segments == 1)).all(1)
    & (is_token | (segments == 0)).all(1)
    # Between tokens alone: padding is 0 again.
    & ((np.diff(segments) >= 0) | ~is_token[:, 1:]).all(1),
  )
  if vocabulary:
    limit = len(vocabulary.continues)
    yield "an id is not in the vocabulary", ((ids >= 0) & (ids < limit)).all(1)
    # Clipped, so that a wrong mask is reported and is no IndexError here.
    last = ids[np.arange(len(ids)), (length - 1).clip(0, ids.shape[1] - 1)]
    yield "it does not start with [CLS]", ids[:, 0] == vocabulary.cls_id
    yield "it does not end with [SEP]", last == vocabulary.sep_id
  if "masked_lm_weights" in arrays:
    yield from _mask_checks(arrays, length, vocabulary)
  for name in ("next_sentence_labels", "word_starts"):
    if name in arrays:
      yield f"{name} is not 0 or 1", np.isin(arrays[name], (0, 1)).all(1)


def _mask_checks(arrays, length, vocabulary):
  positions, labels = arrays["masked_lm_positions"], arrays["masked_lm_ids"]
  weights = arrays["masked_lm_weights"]
  count = (weights > 0).sum(1)
  is_used = np.arange(weights.shape[1]) < count[:, None]  # [B, P]
  yield (
    "masked_lm_weights is not ones and then zeros", (weights == is_used).all(1)
  )
  inside = (positions > 0) & (positions < length[:, None] - 1)
  yield "a masked position is not between [CLS] and the last [SEP]", (
    (inside | ~is_used).all(1)
  )
  yield "masked_lm_positions are not ascending", (
    ((np.diff(positions) > 0) | ~is_used[:, 1:]).all(1)
  )
  if vocabulary:
    special = np.isin(labels, (vocabulary.cls_id, vocabulary.sep_id))
    unknown = (labels < 0) | (labels >= len(vocabulary.continues))
    yield "a masked token is [CLS], [SEP] or not in the vocabulary", (
      ~(is_used & (special | unknown)).any(1)
    )
