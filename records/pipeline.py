"""TFRecords -> batches of tensors, in an order that can resume anywhere.

The order of training examples is a function of (seed, epoch, position) alone.
So a resumed run needs no saved shuffle buffer: it opens the stream at record
`step * batch size` and sees what an uninterrupted run would have seen.

Terms: a *file* holds records one after another; an *epoch* passes over every
record once; a *window* is a run of consecutive records that is shuffled as a
whole (a window as large as the data is a perfect shuffle).
"""

import contextlib
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

import unpadding
from common import errors, file_io
from records import tfrecord
from text import input_sequences

DEFAULT_SHUFFLE_WINDOW = 1 << 16  # records held in memory while shuffling
DEFAULT_SORTED_WINDOW = 1 << 14  # the same for sorting by length
# A larger value needs less padding, and mixes the lengths of the data less.
_BATCHES_SORTED_TOGETHER = 50
# Files are interleaved, so that a shuffle window holds parts of many files.
_FILES_READ_TOGETHER = 16
# The masks of this many records fit into memory, even with many windows each.
_PARSED_TOGETHER = 1 << 10


def first_record(path: str) -> dict[str, np.ndarray]:
  """Returns the first record of a TFRecord file.

  Raises InputError: the file is missing, damaged or empty.
  """
  record = next(iter(tfrecord.read_records(path)), None)
  if record is None:
    raise errors.InputError(f"{path}: holds no record")
  return record


def without_empty(files: list[str]) -> list[str]:
  """Returns the files that hold records, and warns of the others.

  Raises InputError: no file holds any.
  """
  filled = []
  for path in files:
    # Only compressed files have to be read.
    if file_io.size(path) and not (
      tfrecord.is_gzip(path) and not any(tfrecord.read_serialized(path))
    ):
      filled.append(path)
    else:
      logging.warning("%s holds no record: it is skipped", path)
  if not filled:
    raise errors.InputError(f"no record in {file_io.listed(files)}")
  return filled


def check_records(
  files: list[str], features: dict[str, tf.io.FixedLenFeature]
) -> int:
  """Returns the number of records, and checks them against a script's features.

  It reads the length of every record, but parses only the first of each file.
  Raises InputError: a file is empty or truncated, lacks a feature, or holds one
  of another length; the error names the file, both lengths and the flags.
  """
  total = 0
  for path in files:
    record = first_record(path)
    # TensorFlow accepts a file that ends within a header as complete.
    total += tfrecord.count_records(path)
    # A record may have more features than the script reads.
    for name, feature in features.items():
      expected = feature.shape[0] if feature.shape else 1
      if name not in record:
        raise errors.InputError(
          f"{path}: its records have no feature {name!r}; they have "
          f"{', '.join(sorted(record))}"
        )
      if len(record[name]) != expected:
        raise errors.InputError(
          f"{path}: {name} has {len(record[name])} values a record, but the "
          f"flags ask for {expected}; pass the --max_seq_length and "
          "--max_predictions_per_seq that the file was written with"
        )
  return total


@contextlib.contextmanager
def damage_named(files: list[str]):
  """Wraps a block to name the file in which TensorFlow finds a damaged record.

  TensorFlow only says "corrupted record at 52". If it does, this searches the
  files one after another. Raises InputError: a record is damaged; its file and
  number are named.
  """
  try:
    yield
  except tf.errors.DataLossError:
    for path in files:
      # Raises an InputError that names file and record.
      for _ in tfrecord.read_serialized(path):
        pass
    raise


def sequential_records(files: list[str]) -> tf.data.Dataset:
  """Returns a dataset of serialized records, file after file, in order."""
  return tf.data.Dataset.from_tensor_slices(_openable(files)).flat_map(_open)


def token_counts(records: tf.data.Dataset, features: dict) -> np.ndarray:
  """Returns how many tokens each serialized record has, int64 [records].

  It counts `input_mask`, which must be among the features.
  """
  counts = records.batch(_PARSED_TOGETHER).map(
    lambda strings: _token_counts(strings, features)
  )
  counts = tfrecord.without_autotune(counts)
  return np.concatenate(list(counts.as_numpy_iterator()))


def order_by_length(
  lengths: Sequence[int] | np.ndarray, window: int = DEFAULT_SORTED_WINDOW
) -> np.ndarray:
  """Returns the order [N] in which records of similar length are neighbours.

  A window of consecutive records is sorted as a whole, and will be held in
  memory. The longest comes first: a batch that does not fit into a device's
  memory fails at once.
  """
  # The sort is by window, then by length, and stable.
  return np.lexsort((-np.asarray(lengths), np.arange(len(lengths)) // window))


def reordered(
  records: tf.data.Dataset,
  order: np.ndarray,
  window: int = DEFAULT_SORTED_WINDOW,
) -> tf.data.Dataset:
  """Returns records in the order that `order_by_length` returned."""
  # A record never leaves its window, so `order % window` is its place there.
  # A dataset, unlike a constant, is read window by window.
  places = tf.data.Dataset.from_tensor_slices(order % window).batch(window)
  pairs = tf.data.Dataset.zip(records.batch(window), places)
  return pairs.map(tf.gather).unbatch()


def _openable(files):
  """Returns [files, 2] strings: the path and the compression of each file."""
  return tf.constant(
    [[path, "GZIP" if tfrecord.is_gzip(path) else ""] for path in files]
  )


@tf.autograph.experimental.do_not_convert
def _open(path_and_compression):
  return tf.data.TFRecordDataset(*tf.unstack(path_and_compression))


def shuffled_records(
  files: list[str],
  *,
  num_records: int,
  seed: int,
  first_record: int = 0,
  window: int = DEFAULT_SHUFFLE_WINDOW,
) -> tf.data.Dataset:
  """Returns an endless dataset of serialized records, each epoch reshuffled.

  Args:
    files: TFRecord files.
    num_records: how many records they hold together.
    seed: the order is a function of it.
    first_record: where to enter the stream: 0 for a new run, the number of
      records already consumed for a resumed one.
    window: how many records are shuffled together, and held in memory.
  """
  # Files are sorted: the order must not depend on how they were listed.
  files = _openable(sorted(files))
  first_epoch, offset = divmod(first_record, num_records)

  @tf.autograph.experimental.do_not_convert
  def one_epoch(epoch):
    # Records are skipped only in the epoch in which the run resumes.
    skipped = tf.where(
      tf.equal(epoch, first_epoch), tf.constant(offset, tf.int64), 0
    )
    # Whole windows are skipped before they are shuffled, the rest after: the
    # order inside a window must not depend on where the run resumed.
    # Resuming at record 250 with windows of 100 skips two windows, shuffles
    # the third as ever, and drops its first 50 records.
    whole = skipped // window
    records = _epoch_in_file_order(files, seed, epoch)
    windows = records.skip(whole * window).batch(window)

    @tf.autograph.experimental.do_not_convert
    def shuffle(index, strings):
      # The epoch and the window's index seed the order.
      salt = tf.random.experimental.stateless_fold_in(
        tf.stack([tf.cast(seed, tf.int64), epoch]), index
      )
      return tf.random.experimental.stateless_shuffle(strings, seed=salt)

    shuffled = windows.enumerate(start=whole).map(shuffle).unbatch()
    return shuffled.skip(skipped - whole * window)

  # First shuffle, then repeat: every epoch holds every record exactly once.
  epochs = tf.data.Dataset.range(first_epoch, tf.int64.max)
  return epochs.flat_map(one_epoch)


def bucketed_records(
  files: list[str],
  features: dict[str, tf.io.FixedLenFeature],
  *,
  batch_size: int,
  seed: int,
  first_record: int = 0,
  **shuffling,
) -> tf.data.Dataset:
  """Returns shuffled records so that batches have sequences of similar length.

  It sorts stretches of the stream by length and shuffles the batches of each.
  For the other arguments see `shuffled_records`.

  Args:
    features: features of the records, with `input_mask`.
    batch_size: examples in a batch, over all replicas.
  """
  stretch = batch_size * _BATCHES_SORTED_TOGETHER
  # This starts at the beginning of a stretch: sorting needs all its records.
  first, offset = divmod(first_record, stretch)

  @tf.autograph.experimental.do_not_convert
  def arrange(number, strings):
    lengths = _token_counts(strings, features)  # [stretch]
    # [batches of the stretch, batch_size]; only the rows are shuffled below.
    order = tf.reshape(tf.argsort(lengths, stable=True), [-1, batch_size])
    salt = tf.stack([tf.cast(seed, tf.int64), number])
    order = tf.random.experimental.stateless_shuffle(order, seed=salt)
    return tf.gather(strings, tf.reshape(order, [-1]))

  # Nothing is lost by dropping a remainder: the stream has no end.
  stretches = shuffled_records(
    files, seed=seed, first_record=first * stretch, **shuffling
  ).batch(stretch, drop_remainder=True)
  return stretches.enumerate(first).map(arrange).unbatch().skip(offset)


def _epoch_in_file_order(files, seed, epoch):
  """Returns the records of an epoch: files in random order, interleaved.

  `files` comes from `_openable`.
  """
  order = tf.random.experimental.stateless_shuffle(
    files, seed=tf.stack([tf.cast(seed, tf.int64), epoch])
  )
  return tf.data.Dataset.from_tensor_slices(order).interleave(
    _open,
    cycle_length=_FILES_READ_TOGETHER,
    num_parallel_calls=4,
    deterministic=True,
  )


def check_shares(batch_size: int, replicas: int, name: str) -> None:
  """Raises InputError if replicas cannot share batches equally.

  `name` is the user's name for the size of a batch over all replicas.
  """
  if batch_size % replicas:
    raise errors.InputError(
      f"{name}={batch_size}: a batch of this many examples cannot be shared "
      f"equally by {replicas} replicas; pass a multiple of {replicas}"
    )


def distributed_batches(
  strategy: tf.distribute.Strategy,
  records: tf.data.Dataset,
  features: dict[str, tf.io.FixedLenFeature],
  *,
  batch_size: int,
  trim: bool = False,
  transform: Callable | None = None,
  first_step: int = 0,
  joined: np.ndarray | None = None,
):
  """Cuts a stream of records into global batches, a share for each replica.

  Replica r of R gets examples [r * B / R, (r + 1) * B / R) of every global
  batch of B, however many processes the replicas live in: so N devices see
  the same examples as one device. A last incomplete batch is dropped. Batches
  are dicts from name to int32 or float32 tensor. Raises InputError: the batch
  cannot be shared equally.

  Args:
    strategy: its replicas share the batches.
    records: serialized records, the same in every process.
    features: features of the records.
    batch_size: B, the number of examples in a global batch.
    trim: whether to cut batches to their longest sequence; exact, since
      padding changes nothing, but shapes then differ from batch to batch.
    transform: function of (batch of one replica, step, rows=batch_size,
      first_row=...) that is applied to parsed batches.
    first_step: number of the first batch, for `transform`.
    joined: ints; batch i has joined[i] * B examples. None: B in each batch.
  """
  replicas = strategy.num_replicas_in_sync
  check_shares(batch_size, replicas, "batch size")

  @tf.autograph.experimental.do_not_convert
  def finish(strings, step, first_row):
    batch = _parse(strings, features)
    if transform:
      batch = transform(batch, step, rows=batch_size, first_row=first_row)
    return trim_to_longest(batch) if trim else batch

  def make_input(context):
    # Replicas of this process; a process has one input pipeline.
    local = replicas // context.num_input_pipelines

    @tf.autograph.experimental.do_not_convert
    def shares_of_this_process(step, strings):
      share = (strings.shape[0] or tf.shape(strings)[0]) // replicas
      first = context.input_pipeline_id * local * share  # Its first row.
      # Only this process's records are parsed.
      mine = tf.reshape(strings[first : first + local * share], [local, share])
      return mine, tf.repeat(step, local), first + share * tf.range(local)

    # experimental_distribute_dataset would shard files automatically, and the
    # records of a batch would depend on the number of processes.
    batches = _in_batches(records, batch_size, joined).enumerate(first_step)
    parsed = (
      batches.map(shares_of_this_process)
      .unbatch()
      .map(finish, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    )
    return tfrecord.without_autotune(parsed.prefetch(tf.data.AUTOTUNE))

  if _is_one_cpu(strategy):
    # This avoids the strategy's iterators, which would autotune again.
    return make_input(tf.distribute.InputContext())
  return strategy.distribute_datasets_from_function(make_input)


def _in_batches(records, batch_size, counts):
  """Returns batches of B strings; the i-th has counts[i] * B, if given."""
  batches = records.batch(batch_size, drop_remainder=True)
  # Without joined batches there is nothing to regroup.
  if counts is None or np.all(np.equal(counts, 1)):
    return batches
  numbers = np.repeat(np.arange(len(counts)), counts)
  pairs = tf.data.Dataset.zip(
    tf.data.Dataset.from_tensor_slices(numbers), batches
  )
  most = max(counts) * batch_size
  return pairs.group_by_window(
    lambda number, strings: number,
    lambda number, group: group.map(lambda _, s: s).unbatch().batch(most),
    window_size_func=lambda number: tf.gather(counts, number),
  )


def _is_one_cpu(strategy):
  return isinstance(strategy, tf.distribute.OneDeviceStrategy) and (
    "CPU" in strategy.extended.worker_devices[0]
  )


def token_metrics(batch: dict) -> dict[str, tuple[tf.Tensor, tf.Tensor]]:
  """Returns metrics of a batch's content, pairs of float32 scalars.

  They are "tokens_per_example": (tokens, examples), and "fill_rate": (tokens,
  positions), the share of positions that hold tokens. The batch has an
  `input_mask` [B, ..., T].
  """
  mask = batch["input_mask"]
  tokens = tf.cast(tf.reduce_sum(mask), tf.float32)
  return {
    "tokens_per_example": (tokens, tf.cast(tf.shape(mask)[0], tf.float32)),
    "fill_rate": (tokens, tf.cast(tf.size(mask), tf.float32)),
  }


def training_batches(
  strategy: tf.distribute.Strategy,
  files: list[str],
  features: dict[str, tf.io.FixedLenFeature],
  *,
  num_records: int,
  batch_size: int,
  seed: int,
  first_step: int,
  bucketing: bool = False,
  **batching,
):
  """Returns endless distributed batches of shuffled records.

  Unlike the original: it shuffles a window of 100 records, but here each epoch
  is a permutation of all records, which the seed and the epoch determine. With
  `bucketing`, batches have sequences of similar length. For the other arguments
  see `shuffled_records` and `distributed_batches`.
  """
  order = dict(
    num_records=num_records, seed=seed, first_record=first_step * batch_size
  )
  records = (
    bucketed_records(files, features, batch_size=batch_size, **order)
    if bucketing
    else shuffled_records(files, **order)
  )
  return distributed_batches(
    strategy,
    records,
    features,
    batch_size=batch_size,
    first_step=first_step,
    **batching,
  )


def _token_counts(strings, features):
  """Returns how many tokens each of N serialized records has, int64 [N]."""
  mask = {"input_mask": features["input_mask"]}  # [T], or [W, T]
  mask = tf.io.parse_example(strings, mask)["input_mask"]
  return tf.reduce_sum(tf.reshape(mask, [tf.size(strings), -1]), axis=1)


def _parse(serialized, features):
  """Parses a whole batch at once, 4× faster than record by record."""
  batch = tf.io.parse_example(serialized, features)
  # TFRecords hold int64 only; TPUs want int32.
  return {
    name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
    for name, value in batch.items()
  }


def trim_to_longest(
  batch: dict, multiple: int = input_sequences.LENGTH_MULTIPLE
) -> dict:
  """Cuts the padding that all sequences of a batch share.

  Args:
    batch: with `input_mask` [B, T], or [B, W, T] for W sequences of an example;
      every other tensor of that rank whose name is a per-token feature is cut
      too. Without `input_mask` nothing is cut.
    multiple: T is rounded up to a multiple of this.
  """
  if "input_mask" not in batch:
    return batch
  mask = batch["input_mask"]
  longest = tf.reduce_max(unpadding.token_ends(mask))
  rounded = -(-longest // multiple) * multiple
  # Position 0 is kept, because heads read it even if it is masked.
  length = tf.minimum(tf.maximum(rounded, 1), tf.shape(mask)[-1])
  per_token = (*input_sequences.NAMES, "label_ids")
  return {
    name: value[..., :length]
    # The rank tells label_ids of tokens from label_ids [B, L] of L classes.
    if name in per_token and value.shape.rank == mask.shape.rank
    else value
    for name, value in batch.items()
  }
