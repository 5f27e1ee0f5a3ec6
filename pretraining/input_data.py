"""Pre-training records as a run reads them: files, features, batches.

Reads every kind of record that create_pretraining_data.py writes: with masks
or to be masked while they are read, with next-sentence labels or without,
compressed or not.
"""

import tensorflow as tf

from common import errors
from pretraining import dynamic_masking
from training import pipeline
from variants import vocabularies


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
    files: the TFRecord files.
    is_masked: whether the records have masks.
    features: dict from name to tf.io.FixedLenFeature, of a record.
  """

  def __init__(
    self, files, *, max_seq_length, use_next_sentence_loss, **masking
  ):
    """Checks the first record of every file.

    Args:
      files: TFRecord files.
      max_seq_length: length of the records, T.
      use_next_sentence_loss: whether next-sentence labels are needed.
      **masking: vocab_file, and the options max_predictions, masked_lm_prob,
        whole_words, runs and seed of dynamic_masking.Masking. Records with
        masks need only max_predictions.

    Raises:
      InputError: the files do not fit these options.
    """
    self.files = files
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

  def count_records(self):
    """Returns how many records the files hold."""
    return pipeline.count_records(self.files)

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
      transform=self._mask,
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
      transform=self._mask,
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
