"""Writes a classifier's examples as TFRecords for training and evaluation.

An example has W sequences of T tokens: usually one (its record then equals the
original's); or one per window of a long text, per ending of a multiple choice,
per passage of a query, or per text of a bi-encoder. Letters: B batch, W
sequences, T tokens, H width, L labels.
"""

import dataclasses
import functools
import hashlib
import itertools
import os
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from classification import data, sequences, soft_labels
from common import errors, process_pool, unknown_tokens
from records import cached_records, pipeline, tfrecord
from text import cut_texts, input_sequences
from training import frozen_states, harness

_FORMAT = 4  # Increment it when the records or the statistics change.
# Number of examples per block; a worker process handles one block at a time.
BLOCK_EXAMPLES = 4096
STATES_TOGETHER = 1 << 14  # Number of examples whose states are in memory.
# With less text than this, starting worker processes does not save time.
_BYTES_WORTH_PROCESSES = 40_000_000


class ClassifierData(NamedTuple):
  """A file with the records of examples.

  Attributes:
    records: path of the TFRecord file.
    num_records: number of examples in the file.
    max_sequences: W of the example with the most sequences.
    features: dict for tf.io.parse_example, which returns sequences [B, W, T];
      examples with fewer sequences are padded with empty sequences.
  """

  records: str
  num_records: int
  max_sequences: int
  features: dict


def label_ids(
  examples: list[data.Example], task_kind: str, labels: tuple
) -> np.ndarray:
  """Returns the labels of B examples as an array.

  For one of several classes it is the class indices, int64 [B]; for multi_label
  0 or 1, int64 [B, L]; for regression and similarity the scores, float32 [B];
  for ranking the relevances, float32 [B] or [B, W]; for retrieval the texts'
  checksums, int64 [B, W].
  As in the original: a missing label has index 0, like the first class.
  Soft labels are float32 [B, L].
  """
  soft = soft_labels.array([example.label for example in examples])
  if soft is not None:
    return soft
  if task_kind == data.RETRIEVAL:
    # Checksums identify equal texts. They have 32 bits, because batches are
    # int32. With a probability of 1 %, two of 10,000 texts have the same
    # checksum, and are then not used as negatives of each other.
    return np.array(
      [
        [
          zlib.crc32(text.encode("utf-8", "surrogatepass")) - 2**31
          for text in (each.text_a, each.text_b, *each.endings)
        ]
        for each in examples
      ],
      np.int64,
    )
  if task_kind in data.OF_NUMBERS:
    return np.array([example.label or 0.0 for example in examples], np.float32)
  # Reading the data has already checked that all classes are known.
  if task_kind == data.MULTI_LABEL:
    return np.array(
      [
        [label in data.classes_of(each.label) for label in labels]
        for each in examples
      ],
      np.int64,
    )
  indices = {None: 0, **{label: n for n, label in enumerate(labels)}}
  return np.array([indices[each.label] for each in examples], np.int64)


def _serialize_block(
  examples: list[data.Example], options: sequences.InputOptions
) -> tuple[list, dict]:
  """Returns the records of examples, and statistics (see `write_records`)."""
  # [B], [B, L] or [B, W]
  labels = label_ids(examples, options.task_kind, options.labels)
  arrays, num_rows, is_cut = sequences.encode(examples, options)
  starts = np.cumsum(num_rows) - num_rows
  records = np.empty(len(examples), object)
  # Serialize all examples with the same number of rows together.
  for count in np.unique(num_rows):
    chosen = np.flatnonzero(num_rows == count)
    # [examples, count]: row indices in `arrays`.
    rows = starts[chosen, None] + np.arange(count)
    features = {
      name: array[rows].reshape(len(chosen), -1)
      for name, array in arrays.items()
    }
    features["label_ids"] = labels[chosen].reshape(len(chosen), -1)
    # As in the original: 1 marks a real example, 0 a padding example.
    features["is_real_example"] = np.ones([len(chosen), 1], np.int64)
    records[chosen] = tfrecord.serialize_examples(features)
  tokenizer = sequences.tokenizer_of(options)
  # A first sequence of two tokens, [CLS] [SEP], means an empty text.
  empty = np.flatnonzero(arrays["input_mask"][starts].sum(axis=1) == 2)
  return records.tolist(), {
    "min_sequences": int(num_rows.min()),
    "max_sequences": int(num_rows.max()),
    "num_empty": len(empty),
    "num_cut": int(is_cut.sum()),
    **unknown_tokens.count(arrays, tokenizer),
    "empty": [examples[n].place or examples[n].guid for n in empty[:5]],
  }


def write_records(
  writer: tfrecord.RecordWriter,
  examples: Iterable,
  options: sequences.InputOptions,
  *,
  processes: int,
) -> dict:
  """Writes a record for each example; returns statistics.

  They are num_records; min_sequences and max_sequences, the range of W; tokens,
  the number of word pieces; unknown, the number of [UNK] among them; num_cut,
  the number of examples that were cut; num_empty, the number of examples whose
  first sequence has no word pieces; and empty, the files and lines of the first
  five of these.
  """
  statistics = cached_records.write_blocks(
    writer,
    examples,
    functools.partial(_serialize_block, options=options),
    block=BLOCK_EXAMPLES,
    processes=processes,
  )
  return {
    **cached_records.totals(
      statistics, "num_records", "unknown", "tokens", "num_cut", "num_empty"
    ),
    "min_sequences": min(block["min_sequences"] for block in statistics),
    "max_sequences": max(block["max_sequences"] for block in statistics),
    "empty": [place for block in statistics for place in block["empty"]][:5],
  }


def _digest(examples: Iterable) -> tuple[str, int]:
  """Returns a checksum of the examples' contents, and their size in bytes."""
  checksum, size = hashlib.sha256(), 0
  for example in examples:
    # Exclude `place`, because renaming a file does not change its examples.
    content = repr(example[:-1]).encode("utf-8", "surrogatepass")
    checksum.update(content)
    size += len(content)
  return checksum.hexdigest(), size


def prepare(
  path: str, examples: Any, options: sequences.InputOptions
) -> ClassifierData:
  """Writes the records of examples, unless the file is up to date.

  `examples` is a list of data.Example, or a data.ExampleStream. Raises
  InputError: there are no examples.
  """
  if not examples:
    raise errors.InputError(f"no examples for {path}: the data are empty")
  checksum, size = _digest(examples)
  fingerprint = {
    **dataclasses.asdict(options),
    "format": _FORMAT,
    # The content of the vocabulary counts, not its path.
    "vocab_file": cached_records.file_sha256(options.vocab_file),
    "examples": checksum,
  }
  is_large = size > _BYTES_WORTH_PROCESSES
  processes = process_pool.default_processes() if is_large else 1

  def write(writer: tfrecord.RecordWriter) -> dict:
    log_examples(list(itertools.islice(examples, 5)), options)
    return write_records(writer, examples, options, processes=processes)

  statistics = cached_records.ensure(path, fingerprint, write)
  logging.info("examples in %s: %d", path, statistics["num_records"])
  unknown_tokens.log_share(path, statistics["unknown"], statistics["tokens"])
  cut = cut_texts.CutTexts(options.max_seq_length)
  cut.add(statistics["num_cut"], statistics["num_records"])
  cut.log(path)
  if statistics["num_empty"]:
    logging.warning(
      "%s: texts without word pieces (maybe only control characters): %d; the "
      "model sees only [CLS] and [SEP]; the first such texts: %s",
      path,
      statistics["num_empty"],
      ", ".join(statistics["empty"]),
    )
  return ClassifierData(
    path,
    statistics["num_records"],
    statistics["max_sequences"],
    _features(
      options,
      statistics["min_sequences"],
      statistics["max_sequences"],
      is_soft=isinstance(examples, list)
      and soft_labels.is_soft(examples[0].label),
    ),
  )


def prepare_all(
  folder: str, splits: dict, options: sequences.InputOptions
) -> dict[str, ClassifierData]:
  """Writes <name>.tf_record for each {name: examples} in `splits`."""
  return {
    name: prepare(os.path.join(folder, f"{name}.tf_record"), examples, options)
    for name, examples in splits.items()
  }


def log_examples(
  examples: list[data.Example], options: sequences.InputOptions
) -> None:
  """Logs examples and token ids, as the original does for the first five."""
  arrays, num_rows, _ = sequences.encode(examples, options)
  tokenizer = sequences.tokenizer_of(options)
  starts = np.cumsum(num_rows) - num_rows
  for example, count, start in zip(examples, num_rows, starts):
    ids = arrays["input_ids"][start, : arrays["input_mask"][start].sum()]
    tokens = tokenizer.convert_ids_to_tokens(ids.tolist())
    logging.debug(
      "*** Example ***\n  guid: %s\n  label: %s\n  sequences: %d\n  tokens: %s"
      "\n  input_ids: %s",
      example.guid,
      example.label,
      count,
      " ".join(tokens),
      " ".join(map(str, ids)),
    )


def _features(
  options: sequences.InputOptions,
  min_sequences: int,
  max_sequences: int,
  *,
  is_soft: bool,
) -> dict:
  """Returns the features of the records for tf.io.parse_example."""
  shape = [max_sequences, options.max_seq_length]
  integers = tf.io.FixedLenFeature(shape, tf.int64)
  if min_sequences < max_sequences:
    # If an example has fewer sequences, parse_example pads it with zeros.
    integers = tf.io.FixedLenSequenceFeature(
      shape[1:], tf.int64, allow_missing=True
    )
  is_number = options.task_kind in (data.SIMILARITY, *data.OF_ONE_LOGIT)
  is_number = is_number or is_soft
  counts = dict.fromkeys((data.RETRIEVAL, *data.OF_RANKS), shape[:1])
  counts[data.MULTI_LABEL] = [len(options.labels)]
  if is_soft:
    counts[data.SINGLE] = [len(options.labels)]
  return {
    **dict.fromkeys(input_sequences.NAMES, integers),
    "label_ids": tf.io.FixedLenFeature(
      counts.get(options.task_kind, []), tf.float32 if is_number else tf.int64
    ),
    "is_real_example": tf.io.FixedLenFeature([], tf.int64),
  }


def store_states(
  model: Any,
  examples: ClassifierData,
  *,
  strategy: tf.distribute.Strategy,
  batch_size: int,
) -> ClassifierData:
  """Writes the pooler's inputs, unless the file is up to date.

  The pooler and the head can then be trained without running the encoder. The
  records are in the order of the examples; they contain first_states [W, H] and
  sequence_mask [W], see ClassifierModel.first_states.
  """
  max_sequences, width = examples.max_sequences, model.config.hidden_size
  path = f"{examples.records.removesuffix('.tf_record')}.features.tf_record"

  def compute_states(batch: dict) -> dict:
    states, mask = model.first_states(pipeline.trim_to_longest(batch))
    # Pad to the maximum W, so that all records have the same size.
    missing = max_sequences - tf.shape(mask)[1]
    states = tf.pad(states, [[0, 0], [0, missing], [0, 0]])
    return {
      "first_states": tf.cast(states, tf.float32),
      "sequence_mask": tf.pad(mask, [[0, 0], [0, missing]]),
      "label_ids": batch["label_ids"],
      "is_real_example": batch["is_real_example"],
    }

  def serialize(outputs: dict) -> Any:
    # A feature of a TFRecord is a flat list: [W, H] becomes [W H].
    return tfrecord.serialize_examples(
      {
        name: values.reshape(len(values), -1)
        for name, values in outputs.items()
      }
    )

  frozen_states.store(
    path,
    model.bert,
    examples,
    compute_states,
    serialize,
    strategy=strategy,
    batch_size=batch_size,
    window=STATES_TOGETHER,
  )
  return examples._replace(
    records=path,
    features={
      "first_states": tf.io.FixedLenFeature([max_sequences, width], tf.float32),
      "sequence_mask": tf.io.FixedLenFeature([max_sequences], tf.int64),
      **{n: examples.features[n] for n in ("label_ids", "is_real_example")},
    },
  )


def training_data(examples: ClassifierData, trim: bool) -> harness.TrainingData:
  """Returns the data for the training loop.

  With `trim`, batches are trimmed to their longest sequence and to their
  largest W, so their shapes vary. Otherwise all have the shape [B, W, T].
  """
  return harness.TrainingData(
    [examples.records],
    examples.features,
    examples.num_records,
    trim=trim,
    transform=None
    if trim
    else lambda batch, *_, **__: filled_up(batch, examples.max_sequences),
  )


def filled_up(batch: dict, max_sequences: int) -> dict:
  """Pads each example to `max_sequences` with empty sequences."""
  filled = {}
  for name, value in batch.items():
    # [B, W, T]; labels have fewer axes.
    if value.shape.rank == 3:
      missing = max_sequences - tf.shape(value)[1]
      value = tf.pad(value, [[0, 0], [0, missing], [0, 0]])
      value.set_shape([None, max_sequences, value.shape[2]])
    filled[name] = value
  return filled
