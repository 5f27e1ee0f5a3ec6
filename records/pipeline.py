"""Turns TFRecords into batches, in an order that can be resumed at any step.

Shuffling is stateless: it depends only on the seed, the epoch and the position.
So a resumed run needs no saved shuffle buffer: it opens the stream at record
`step * batch size` and gets the same examples as an uninterrupted run.

An *epoch* is one pass over all records. A *window* is a group of consecutive
records that are shuffled together; one window of all records gives a perfect
shuffle.
"""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

import unpadding
from common import errors
from records import interleaving, tfrecord
from text import input_sequences

DEFAULT_SHUFFLE_WINDOW = 1 << 16  # records held in memory while shuffling
_SORTED_WINDOW = 1 << 14  # records held in memory while sorting
# Sorting more batches together saves padding, but makes batches less random.
_BATCHES_SORTED_TOGETHER = 50
# Interleaving puts records of many files into each shuffle window.
_FILES_READ_TOGETHER = 16
# The masks of this many records fit into memory, even with many sequences each.
_PARSED_TOGETHER = 1 << 10


def first_record(path: str) -> dict[str, np.ndarray]:
  """Returns the first record of a TFRecord file.

  Raises InputError: the file is missing, damaged or empty.
  """
  record = next(iter(tfrecord.read_records(path)), None)
  if record is None:
    raise errors.InputError(f"{path} holds no records")
  return record


def sequential_records(files: list[str]) -> tf.data.Dataset:
  """Returns a dataset of serialized records, file after file, in order."""
  return tf.data.Dataset.from_tensor_slices(_openable(files)).flat_map(_open)


def token_counts(records: tf.data.Dataset, features: dict) -> np.ndarray:
  """Returns the number of tokens of each serialized record, int64 [records].

  It sums each record's `input_mask`, which must be among the features.
  """
  counts = records.batch(_PARSED_TOGETHER).map(
    lambda strings: _token_counts(strings, features)
  )
  counts = tfrecord.without_autotune(counts)
  return np.concatenate(list(counts.as_numpy_iterator()))


def order_by_length(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
  """Returns the indices [N] of records, sorted by length within each window.

  A window is a group of consecutive records, which `reordered` holds in memory.
  In each window, the longest record comes first, so a batch that is too large
  for the device's memory fails early.
  """
  # lexsort is stable, and its last key, the window, is the primary one.
  windows = np.arange(len(lengths)) // _SORTED_WINDOW
  return np.lexsort((-np.asarray(lengths), windows))


def reordered(records: tf.data.Dataset, order: np.ndarray) -> tf.data.Dataset:
  """Returns records in the `order` that `order_by_length` gave."""
  # A record never leaves its window, so `order % window` is its index there.
  # A dataset of indices, unlike a constant, can be read window by window.
  window = _SORTED_WINDOW
  indices = tf.data.Dataset.from_tensor_slices(order % window).batch(window)
  pairs = tf.data.Dataset.zip(records.batch(window), indices)
  return pairs.map(tf.gather).unbatch()


def _openable(files: list[str]) -> tf.Tensor:
  """Returns strings [files, 2]: the path and the compression of each file."""
  return tf.constant(
    [[path, "GZIP" if tfrecord.is_gzip(path) else ""] for path in files]
  )


@tf.autograph.experimental.do_not_convert
def _open(path_and_compression) -> tf.data.Dataset:
  return tf.data.TFRecordDataset(*tf.unstack(path_and_compression))


@tf.autograph.experimental.do_not_convert
def _open_after(path_and_compression: tf.Tensor, records_read: tf.Tensor):
  return _open(path_and_compression).skip(records_read)


def shuffled_records(
  files: list[str],
  *,
  num_records: int,
  seed: int,
  first_record: int = 0,
  window: int = DEFAULT_SHUFFLE_WINDOW,
) -> tf.data.Dataset:
  """Returns an endless dataset of serialized records, reshuffled in each epoch.

  Args:
    files: TFRecord files.
    num_records: the number of records in all files.
    seed: determines the order.
    first_record: index in the stream of the first record to return; 0 for a
      new run, the number of consumed records for a resumed run.
    window: the number of records that are held in memory and shuffled together.
  """
  # The order of records must not depend on the order in which files are listed.
  files = sorted(files)
  openable = _openable(files)
  first_epoch, skipped = divmod(first_record, num_records)
  # Skip whole windows before shuffling, and single records after it, because
  # the order within a window must not depend on where the run resumes.
  # Resuming at record 250 with windows of 100 skips two windows, shuffles
  # the third, and drops its first 50 records.
  whole = skipped // window

  @tf.autograph.experimental.do_not_convert
  def shuffled(
    records: tf.data.Dataset, epoch: tf.Tensor, first_window
  ) -> tf.data.Dataset:
    @tf.autograph.experimental.do_not_convert
    def shuffle(index: tf.Tensor, strings: tf.Tensor):
      # The order depends on the seed, the epoch and the window's index.
      salt = tf.random.experimental.stateless_fold_in(
        tf.stack([tf.cast(seed, tf.int64), epoch]), index
      )
      return tf.random.experimental.stateless_shuffle(strings, seed=salt)

    windows = records.batch(window).enumerate(start=first_window)
    return windows.map(shuffle).unbatch()

  @tf.autograph.experimental.do_not_convert
  def whole_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
    return shuffled(_epoch_in_file_order(openable, seed, epoch), epoch, 0)

  # Shuffling before repeating puts every record into every epoch exactly once.
  epochs = tf.data.Dataset.range(first_epoch, tf.int64.max)
  if not skipped:
    return epochs.flat_map(whole_epoch)
  rest = _rest_of_epoch(files, seed, first_epoch, whole * window)
  epoch = tf.constant(first_epoch, tf.int64)
  resumed = shuffled(rest, epoch, whole).skip(skipped - whole * window)
  return resumed.concatenate(epochs.skip(1).flat_map(whole_epoch))


def bucketed_records(
  files: list[str],
  features: dict[str, tf.io.FixedLenFeature],
  *,
  batch_size: int,
  seed: int,
  first_record: int = 0,
  **shuffling,
) -> tf.data.Dataset:
  """Returns shuffled records whose batches have sequences of similar length.

  It cuts the stream into stretches of `_BATCHES_SORTED_TOGETHER` batches, sorts
  the records of a stretch by length, and then shuffles its batches. For the
  other arguments see `shuffled_records`.

  Args:
    features: features of the records, including `input_mask`.
    batch_size: number of examples in a batch over all replicas.
  """
  stretch = batch_size * _BATCHES_SORTED_TOGETHER
  # Sorting needs all records of a stretch, so start at its beginning.
  first, offset = divmod(first_record, stretch)

  @tf.autograph.experimental.do_not_convert
  def arrange(number: tf.Tensor, strings) -> tf.Tensor:
    lengths = _token_counts(strings, features)  # [stretch]
    # [batches of the stretch, batch_size]; stateless_shuffle shuffles the rows.
    order = tf.reshape(tf.argsort(lengths, stable=True), [-1, batch_size])
    salt = tf.stack([tf.cast(seed, tf.int64), number])
    order = tf.random.experimental.stateless_shuffle(order, seed=salt)
    return tf.gather(strings, tf.reshape(order, [-1]))

  # The stream is endless, so dropping a remainder loses nothing.
  stretches = shuffled_records(
    files, seed=seed, first_record=first * stretch, **shuffling
  ).batch(stretch, drop_remainder=True)
  return stretches.enumerate(first).map(arrange).unbatch().skip(offset)


def _in_random_order(files: tf.Tensor, seed: int, epoch) -> tf.Tensor:
  """Returns the rows of `files` in the order of an epoch."""
  return tf.random.experimental.stateless_shuffle(
    files, seed=tf.stack([tf.cast(seed, tf.int64), epoch])
  )


_INTERLEAVING = dict(
  cycle_length=_FILES_READ_TOGETHER, num_parallel_calls=4, deterministic=True
)


def _epoch_in_file_order(files: tf.Tensor, seed: int, epoch):
  """Returns the records of an epoch, interleaved from files in random order.

  `files` is the result of `_openable`.
  """
  order = _in_random_order(files, seed, epoch)
  paths = tf.data.Dataset.from_tensor_slices(order)
  return paths.interleave(_open, **_INTERLEAVING)


def _rest_of_epoch(
  files: list[str], seed: int, epoch: int, skipped: int
) -> tf.data.Dataset:
  """Returns `_epoch_in_file_order` without its first records.

  Files that were read are not opened again; of the at most
  _FILES_READ_TOGETHER files that were read in part, the start is read.
  """
  numbers = tf.range(len(files))
  order = _in_random_order(numbers, seed, tf.constant(epoch, tf.int64)).numpy()
  counts = [tfrecord.num_records(files[number]) for number in order]
  rest = interleaving.after(counts, skipped, _FILES_READ_TOGETHER)
  rows = tf.gather(_openable(files), [order[opened.file] for opened in rest])
  records_read = tf.constant([opened.records_read for opened in rest], tf.int64)
  places = tf.data.Dataset.from_tensor_slices((rows, records_read))
  return places.interleave(_open_after, **_INTERLEAVING)


def check_shares(batch_size: int, replicas: int, name: str) -> None:
  """Raises InputError if replicas cannot share batches equally.

  `name` is the name of the batch size in the message, such as a flag's name.
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
  """Cuts a stream of records into global batches with a share for each replica.

  Replica r of R gets the examples [r * B / R, (r + 1) * B / R) of each global
  batch of B, for any number of processes. So R replicas together see the same
  examples as one replica. An incomplete last batch is dropped. Batches are
  dicts from name to int32 or float32 tensor. Raises InputError: the replicas
  cannot share a batch equally.

  Args:
    strategy: its replicas share the batches.
    records: serialized records, the same in every process.
    features: features of the records.
    batch_size: B, the number of examples in a global batch.
    trim: whether to trim batches to their longest sequence. Results stay the
      same, because padding does not affect them; batches then differ in shape.
    transform: function of (parsed batch of a replica, step, rows=batch_size,
      first_row=index of the replica's first example in the global batch);
      returns the batch to use.
    first_step: number of the first batch, for `transform`.
    joined: ints; batch i has joined[i] * B examples. None: each batch has B.
  """
  replicas = strategy.num_replicas_in_sync
  check_shares(batch_size, replicas, "batch size")

  @tf.autograph.experimental.do_not_convert
  def finish(
    strings: tf.Tensor, step: tf.Tensor, first_row: tf.Tensor
  ) -> dict[str, tf.Tensor]:
    batch = _parse(strings, features)
    if transform:
      batch = transform(batch, step, rows=batch_size, first_row=first_row)
    return trim_to_longest(batch) if trim else batch

  def make_input(context: tf.distribute.InputContext) -> tf.data.Dataset:
    # The number of replicas in this process, which has one input pipeline.
    local = replicas // context.num_input_pipelines

    @tf.autograph.experimental.do_not_convert
    def shares_of_this_process(step, strings) -> tuple:
      share = (strings.shape[0] or tf.shape(strings)[0]) // replicas
      first = context.input_pipeline_id * local * share
      # Parse only this process's records.
      mine = tf.reshape(strings[first : first + local * share], [local, share])
      return mine, tf.repeat(step, local), first + share * tf.range(local)

    # experimental_distribute_dataset would shard the files, so that a batch's
    # records would depend on the number of processes.
    batches = _in_batches(records, batch_size, joined).enumerate(first_step)
    parsed = (
      batches.map(shares_of_this_process)
      .unbatch()
      .map(finish, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    )
    return tfrecord.without_autotune(parsed.prefetch(tf.data.AUTOTUNE))

  if _is_one_cpu(strategy):
    # Avoid the strategy's iterators, which would turn autotuning on again.
    return make_input(tf.distribute.InputContext())
  return strategy.distribute_datasets_from_function(make_input)


def _in_batches(records, batch_size: int, counts):
  """Returns batches of B strings, or of counts[i] * B strings for batch i."""
  batches = records.batch(batch_size, drop_remainder=True)
  if counts is None or np.all(np.equal(counts, 1)):
    return batches
  numbers = np.repeat(np.arange(len(counts)), counts)
  pairs = tf.data.Dataset.zip(
    tf.data.Dataset.from_tensor_slices(numbers), batches
  )
  largest = max(counts) * batch_size
  return pairs.group_by_window(
    lambda number, strings: number,
    lambda number, group: group.map(lambda _, s: s).unbatch().batch(largest),
    window_size_func=lambda number: tf.gather(counts, number),
  )


def _is_one_cpu(strategy: tf.distribute.Strategy):
  return isinstance(strategy, tf.distribute.OneDeviceStrategy) and (
    "CPU" in strategy.extended.worker_devices[0]
  )


def token_metrics(batch: dict) -> dict[str, tuple[tf.Tensor, tf.Tensor]]:
  """Returns metrics about a batch's tokens as (numerator, denominator) pairs.

  They are "tokens_per_example": (tokens, examples), and "fill_rate": (tokens,
  positions), all float32 scalars. The batch needs `input_mask` [B, ..., T].
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

  Unlike the original: all records are reshuffled in each epoch, reproducibly;
  the original has a shuffle buffer of 100 records. With `bucketing`, batches
  have sequences of similar length. For the other arguments see
  `shuffled_records` and `distributed_batches`.
  """
  order = dict(
    num_records=num_records, seed=seed, first_record=first_step * batch_size
  )
  records = (
    bucketed_records(files, features, batch_size=batch_size, **order)
    if bucketing
    else shuffled_records(files, **order)
  )
  batching |= {"batch_size": batch_size, "first_step": first_step}
  return distributed_batches(strategy, records, features, **batching)


def _token_counts(strings, features) -> tf.Tensor:
  """Returns the number of tokens of each of N serialized records, int64 [N]."""
  mask = {"input_mask": features["input_mask"]}  # [T], or [W, T]
  mask = tf.io.parse_example(strings, mask)["input_mask"]
  return tf.reduce_sum(tf.reshape(mask, [tf.size(strings), -1]), axis=1)


def _parse(serialized, features) -> dict:
  """Parses a whole batch at once, 4× faster than record by record."""
  batch = tf.io.parse_example(serialized, features)
  # The integers of a tf.train.Example are int64, but TPUs need int32.
  return {
    name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
    for name, value in batch.items()
  }


def trim_to_longest(batch: dict) -> dict:
  """Trims the per-token features of a batch to its longest sequence.

  The batch has an `input_mask` [B, T], or [B, W, T] for W sequences of an
  example; without one, it is returned unchanged. The new length is a multiple
  of input_sequences.LENGTH_MULTIPLE, rounded up, but at most T.
  """
  if "input_mask" not in batch:
    return batch
  mask, multiple = batch["input_mask"], input_sequences.LENGTH_MULTIPLE
  longest = tf.reduce_max(unpadding.token_ends(mask))
  rounded = -(-longest // multiple) * multiple
  # Keep position 0, because heads read it even if it is masked.
  length = tf.minimum(tf.maximum(rounded, 1), tf.shape(mask)[-1])
  per_token = (*input_sequences.NAMES, "label_ids")
  return {
    name: value[..., :length]
    # Labels of tokens have the mask's rank. Labels [B, L] of examples do not:
    # their mask is [B, W, T].
    if name in per_token and value.shape.rank == mask.shape.rank
    else value
    for name, value in batch.items()
  }
