"""Reads pre-training records and makes batches of them.

All records that create_pretraining_data.py writes can be read: with masks or to
be masked while they are read, with or without next-sentence labels, compressed
or not.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

import configuration
from common import errors
from pretraining import data, dynamic_masking, record_checks
from records import pipeline, tfrecord
from training import harness
from variants import vocabularies

_CHECKED_FIRST = 1 << 7  # Records per file; the rest is checked when read.
_COUNTED_RECORDS = 1 << 10  # Records that give the token frequencies.
_PLATEAU = 0.95  # As a fraction of the loss of guessing by token frequency.
_OUT_OF_RANGE = "a number of a record is out of its range"


def _check_labels(path: str, record: dict, labels: dict) -> None:
  """Raises InputError: a file's first record lacks one of the labels."""
  if "next_sentence_labels" in labels and "next_sentence_labels" not in record:
    raise errors.InputError(
      f"{path} has no next-sentence labels; pass --use_next_sentence_loss=false"
    )
  missing = sorted(labels.keys() - record.keys())
  if missing:
    raise errors.InputError(
      f"{path} has no {', '.join(missing)}, which --objectives needs; write "
      "records that have it, or choose other objectives"
    )


class PretrainingInput:
  """Reads files of records and makes batches of them.

  Attributes:
    files: the TFRecord files that are not empty.
    is_masked: whether the records have masks.
    features: {name: tf.io.FixedLenFeature} of a record.
  """

  def __init__(
    self,
    files: list[str],
    config: configuration.BertConfig,
    *,
    max_seq_length: int,
    max_predictions: int,
    labels: dict[str, tuple[int, int | None]],
    vocab_file: str | None,
    masks: bool = True,
    **masking: Any,
  ):
    """Checks the first records of every file.

    Raises InputError: a file is damaged or does not fit these options.

    Args:
      files: TFRecord files; empty files are skipped.
      config: the configuration of the model that reads them.
      max_seq_length, max_predictions: the sizes of the records' features.
      labels: {name: (values per record, their exclusive upper bound; None for
        floats)} of further features, such as next_sentence_labels.
      vocab_file: the records' vocabulary, needed only to mask them.
      masks: whether records without masks are masked while they are read.
      **masking: options of dynamic_masking.Masking for records without masks.
    """
    self.files = files = record_checks.without_empty(files)
    # The first record determines the format; all files are checked below.
    first = pipeline.first_record(files[0])
    self.is_masked = "word_starts" not in first
    _check_labels(files[0], first, labels)
    shapes: dict[str, tuple[int, int | None]] = {
      "input_ids": (max_seq_length, config.vocab_size),
      "input_mask": (max_seq_length, 2),
      "segment_ids": (max_seq_length, config.type_vocab_size),
    }
    if self.is_masked:
      shapes["masked_lm_positions"] = max_predictions, max_seq_length
      shapes["masked_lm_ids"] = max_predictions, config.vocab_size
      shapes["masked_lm_weights"] = max_predictions, None
    else:
      shapes["word_starts"] = max_seq_length, 2
    # Labels are read only if needed: some records have none.
    shapes.update(labels)
    self.features = {
      # As in the original: the weights are the only floats.
      name: tf.io.FixedLenFeature([size], tf.int64 if limit else tf.float32)
      for name, (size, limit) in shapes.items()
    }
    self._limits = {name: limit for name, (_, limit) in shapes.items() if limit}
    self._num_records = record_checks.check_records(files, self.features)
    self._check_ranges(_CHECKED_FIRST)
    self._mask = None
    if self.is_masked or not masks:
      return
    if not vocab_file:
      raise errors.InputError(
        f"{files[0]} has no masks, so masks are made while it is read; pass "
        "the --vocab_file that it was written with"
      )
    tokenizer = vocabularies.make_tokenizer(vocab_file)
    vocabulary = data.Vocabulary(tokenizer.vocab, tokenizer.specials)
    self._mask = dynamic_masking.Masking(
      vocabulary, max_predictions, **masking
    ).apply

  def _check_ranges(self, count: int | None = None) -> None:
    """Checks the first `count` records of each file, or all records.

    Unlike the original: a number out of range raises InputError. In the
    original, a wrong segment id gets a zero embedding. So does a wrong token id
    on a GPU or TPU; on a CPU, TensorFlow fails.
    """
    for path in self.files:
      records = itertools.islice(tfrecord.read_records(path), count)
      for number, record in enumerate(records, 1):
        for name, limit in self._limits.items():
          values = record.get(name, np.zeros(0))
          wrong = values[(values < 0) | (values >= limit)]
          if wrong.size:
            raise errors.InputError(
              f"{path}: record {number}: {name} holds {wrong[0]}, which must "
              f"be from 0 to {limit - 1}: pass the --bert_config_file of the "
              "model that the records were made for, or make them again"
            )

  @contextlib.contextmanager
  def faults_named(self) -> Iterator[None]:
    """Raises InputError if the `with` block reads a bad record."""
    with record_checks.damage_named(self.files):
      try:
        yield
      except tf.errors.InvalidArgumentError as error:
        if _OUT_OF_RANGE in error.message:
          self._check_ranges()
        raise

  def _prepare(self, batch: dict, step: tf.Tensor, **share: Any) -> dict:
    """Checks a parsed batch, and masks it if the records have no masks."""
    is_good = [
      tf.reduce_all((batch[name] >= 0) & (batch[name] < limit))
      for name, limit in self._limits.items()
    ]
    with tf.control_dependencies(
      [tf.debugging.Assert(tf.reduce_all(is_good), [_OUT_OF_RANGE])]
    ):
      batch = {name: tf.identity(value) for name, value in batch.items()}
    return self._mask(batch, step, **share) if self._mask else batch

  def warn_of_plateau(self, name: str, loss: float, labels: Callable) -> None:
    """Warns if a trained model has learned little more than token frequencies.

    Args:
      name: name of the head that predicts tokens.
      loss: the head's loss.
      labels: function of a batch; returns the labels and their weights.
    """
    count = min(self._num_records, _COUNTED_RECORDS)
    batches = self.repeated_batches(
      tf.distribute.get_strategy(), batch_size=count, trim=False
    )
    ids, weights = labels(next(iter(batches)))
    ids = ids.numpy()[weights > 0]
    _, counts = np.unique(ids, return_counts=True)
    # The entropy of the token frequencies, in nats like the loss.
    entropy = -np.sum(counts / len(ids) * np.log(counts / len(ids)))
    if loss > _PLATEAU * entropy:
      logging.warning(
        "%s_loss %.2f is on the plateau where pre-training begins: "
        "guessing tokens by their frequency gives %.2f. Try more "
        "--num_train_steps, or a higher --learning_rate and --num_warmup_steps",
        name,
        loss,
        entropy,
      )

  def training_data(self, trim: bool) -> harness.TrainingData:
    """Returns the training data; `trim` is as in harness.TrainingData."""
    return harness.TrainingData(
      self.files, self.features, self._num_records, trim, self._prepare
    )

  def repeated_batches(
    self, strategy: tf.distribute.Strategy, **batching: Any
  ) -> Any:
    """Returns endless distributed batches, file after file, in order.

    As in the original: batches continue across the end of the data.
    """
    return pipeline.distributed_batches(
      strategy,
      pipeline.sequential_records(self.files).repeat(),
      self.features,
      transform=self._prepare,
      **batching,
    )
