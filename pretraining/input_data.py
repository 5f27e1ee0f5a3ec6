"""Pre-training records as a run reads them: files, features, batches.

Reads every kind of record that create_pretraining_data.py writes: with masks
or to be masked while they are read, with next-sentence labels or without,
compressed or not.
"""

import contextlib

import numpy as np
import tensorflow as tf
from absl import logging

from common import errors, tfrecord
from pretraining import dynamic_masking
from training import pipeline
from variants import vocabularies

_CHECKED_FIRST = 1 << 10  # Records of a file; the others while they are read.
_PLATEAU = 0.95  # Of the loss of guessing words by their frequency.
_OUT_OF_RANGE = "a number of a record is out of its range"


def record_features(max_seq_length, max_predictions, *, masked, pairs):
  """Returns the features of a record of create_pretraining_data.py.

  Args:
    max_seq_length, max_predictions: lengths of the features.
    masked: whether the records have masks.
    pairs: whether next-sentence labels are needed.
  """

  def integers(length):
    return tf.io.FixedLenFeature([length], tf.int64)

  features = {
    name: integers(max_seq_length)
    for name in ("input_ids", "input_mask", "segment_ids")
  }
  if masked:
    features["masked_lm_positions"] = integers(max_predictions)
    features["masked_lm_ids"] = integers(max_predictions)
    # As in the original: the only feature of floats.
    features["masked_lm_weights"] = tf.io.FixedLenFeature(
      [max_predictions], tf.float32
    )
  else:
    features["word_starts"] = integers(max_seq_length)
  if pairs:
    # Not asked for where they are not used: packed records have none.
    features["next_sentence_labels"] = integers(1)
  return features


class PretrainingInput:
  """Files of records, and how they become batches.

  Attributes:
    files: the TFRecord files that hold records.
    is_masked: whether the records have masks.
    features: dict from name to tf.io.FixedLenFeature, of a record.
  """

  def __init__(
    self, files, config, *, max_seq_length, use_next_sentence_loss, **masking
  ):
    """Checks the first records of every file.

    Args:
      files: TFRecord files; those without a record are skipped.
      config: modeling.BertConfig of the model that reads them.
      max_seq_length: length of the records, T.
      use_next_sentence_loss: whether next-sentence labels are needed.
      **masking: vocab_file, and the options max_predictions, masked_lm_prob,
        whole_words, runs and seed of dynamic_masking.Masking. Records with
        masks need only max_predictions.

    Raises:
      InputError: the files do not fit these options.
    """
    self.files = files = pipeline.without_empty(files)
    # The first record says of which kind they are; all files are checked below.
    first = pipeline.first_record(files[0])
    self.is_masked = "word_starts" not in first
    if use_next_sentence_loss and "next_sentence_labels" not in first:
      raise errors.InputError(
        f"{files[0]} has no next-sentence labels; pass "
        "--use_next_sentence_loss=false"
      )
    self.features = record_features(
      max_seq_length,
      masking["max_predictions"],
      masked=self.is_masked,
      pairs=use_next_sentence_loss,
    )
    pipeline.check_records(files, self.features)
    self._mask = None if self.is_masked else _masking(files[0], **masking)
    limits = {
      "input_ids": config.vocab_size,
      "masked_lm_ids": config.vocab_size,
      "segment_ids": config.type_vocab_size,
      "masked_lm_positions": max_seq_length,
      "next_sentence_labels": 2,
    }
    self._limits = {n: limits[n] for n in limits if n in self.features}
    with pipeline.damage_named(files):
      self._check_ranges(_CHECKED_FIRST)

  def _check_ranges(self, count=-1):
    """Refuses files whose first `count` records (-1: all) hold wrong numbers.

    Unlike the original: a segment without a row in its table counts as none,
    and a wrong id is TensorFlow's error or, on a GPU, a word without a vector.
    """
    first, faults = None, 0
    for path in self.files:
      number = 1
      for strings in tfrecord.stored_records(path).take(count).batch(1024):
        batch = tf.io.parse_example(strings, self.features)
        is_bad = {
          name: (batch[name].numpy() < 0) | (batch[name].numpy() >= limit)
          for name, limit in self._limits.items()
        }
        rows = np.any([bad.any(1) for bad in is_bad.values()], axis=0)
        faults += rows.sum()
        if rows.any() and not first:
          row = rows.argmax()
          name = next(name for name, bad in is_bad.items() if bad[row].any())
          value = batch[name][row].numpy()[is_bad[name][row]][0]
          first = f"{path}: record {number + row}: {name} holds {value}"
          first += f", which must be from 0 to {self._limits[name] - 1}"
        number += len(rows)
    if first:
      raise errors.InputError(
        f"{first}; {faults} of the records that were read have such a fault: "
        "pass the --bert_config_file of the model that they were made for, or "
        "make them again"
      )

  @contextlib.contextmanager
  def faults_named(self):
    """Names file and record of what is found damaged or wrong in this block.

    Raises:
      InputError: so.
    """
    with pipeline.damage_named(self.files):
      try:
        yield
      except tf.errors.InvalidArgumentError as error:
        if _OUT_OF_RANGE in error.message:
          self._check_ranges()
        raise

  def _prepare(self, batch, step, **share):
    """Checks what was parsed, and masks what has no masks."""
    is_good = [
      tf.reduce_all((batch[name] >= 0) & (batch[name] < limit))
      for name, limit in self._limits.items()
    ]
    with tf.control_dependencies(
      [tf.debugging.Assert(tf.reduce_all(is_good), [_OUT_OF_RANGE])]
    ):
      batch = {name: tf.identity(value) for name, value in batch.items()}
    return self._mask(batch, step, **share) if self._mask else batch

  def count_records(self):
    """Returns how many records the files hold."""
    return pipeline.count_records(self.files)

  def warn_of_plateau(self, masked_lm_loss: float) -> None:
    """Warns if a trained model knows little more than words' frequencies."""
    count = min(self.count_records(), _CHECKED_FIRST)
    batches = self.repeated_batches(
      tf.distribute.get_strategy(), batch_size=count, trim=False
    )
    batch = next(iter(batches))
    words = batch["masked_lm_ids"].numpy()[batch["masked_lm_weights"] > 0]
    _, counts = np.unique(words, return_counts=True)
    # In nats, as the loss: what frequencies alone leave to be guessed.
    entropy = -np.sum(counts / len(words) * np.log(counts / len(words)))
    if masked_lm_loss > _PLATEAU * entropy:
      logging.warning(
        "masked_lm_loss %.2f is on the plateau where pre-training begins: "
        "guessing words by their frequency gives %.2f. Try more "
        "--num_train_steps, or a higher --learning_rate with a longer "
        "--num_warmup_steps",
        masked_lm_loss, entropy,
      )

  def shuffled_batches(
    self, strategy, *, batch_size, seed, first_step, trim, packed=None
  ):
    """Returns endless distributed batches, each epoch in another order.

    Unlike the original: see pipeline.training_batches.
    """
    return pipeline.training_batches(
      strategy,
      self.files,
      self.features,
      num_records=self.count_records(),
      batch_size=batch_size,
      seed=seed,
      first_step=first_step,
      trim=trim,
      packed=packed,
      transform=self._prepare,
    )

  def repeated_batches(self, strategy, *, batch_size, trim):
    """Returns endless distributed batches, file after file, in order.

    As in the original: batches continue across the end of the data.
    """
    records = pipeline.sequential_records(self.files).repeat()
    return pipeline.distributed_batches(
      strategy,
      records,
      self.features,
      batch_size=batch_size,
      trim=trim,
      transform=self._prepare,
    )


def _masking(path, *, vocab_file, **options):
  """Returns the function that masks batches of records without masks."""
  if not vocab_file:
    raise errors.InputError(
      f"{path} has no masks, they are made while it is read; pass the "
      "--vocab_file that it was written with"
    )
  vocab = vocabularies.load_vocab(vocab_file)
  return dynamic_masking.Masking.of_vocabulary(vocab, **options).apply
