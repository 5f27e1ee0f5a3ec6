"""Windows of SQuAD -> TFRecords and batches, for training and prediction."""

import itertools
import os
import random
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

import tokenization
from common import errors, process_pool, unknown_tokens
from records import cached_records, tfrecord
from squad import dataset, windowing
from text import input_sequences

# Raised when records of the same data and flags come out otherwise.
_FORMAT = 2
_SHOWN = 5  # Windows whose tokens are logged.
# From this many words in all passages on, several processes tokenize them: one
# process needs about eight seconds for them, and starting others takes some.
# (The training passages of SQuAD have about 2.2 million.)
_MANY_WORDS = 5_000_000
_SHUFFLING_SEED = 12345  # The original's.


class SquadInput(NamedTuple):
  """A file of questions, ready for the model.

  Attributes:
    records: the TFRecord file of the windows.
    num_records: how many windows there are.
    windows: list of dataset.Window, in the order of the records; None for
      training, which does not look at them again.
  """

  file: dataset.SquadFile
  records: str
  num_records: int
  windows: list | None


def record_features(max_seq_length: int, *, training: bool) -> dict:
  """Returns the features of a record, as the original's readers parse them.

  As in the original: is_impossible is written and never read.
  """
  names = ["input_ids", "input_mask", "segment_ids"]
  features = {
    name: tf.io.FixedLenFeature([max_seq_length], tf.int64) for name in names
  }
  numbers = ["unique_ids"]
  if training:
    numbers += ["start_positions", "end_positions"]
  return {
    **features,
    **{name: tf.io.FixedLenFeature([], tf.int64) for name in numbers},
  }


def make_batch(
  windows: list, tokenizer: tokenization.FullTokenizer, max_seq_length: int, *,
  training: bool = False
) -> dict[str, np.ndarray]:
  """Returns the features of B dataset.Windows, int32 by name.

  They are input_ids, input_mask and segment_ids [B, T] and unique_ids [B, 1];
  in training start_positions, end_positions and is_impossible [B, 1] too.
  """
  cls_id, sep_id = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
  inputs = input_sequences.build_batch(
    [window.question_ids for window in windows],
    [window.ids for window in windows], max_seq_length=max_seq_length,
    cls_id=cls_id, sep_id=sep_id
  )
  columns = {"unique_ids": "unique_id"}
  if training:
    columns.update(
      start_positions="start_position",
      end_positions="end_position",
      is_impossible="is_impossible",
    )
  # [B, 1], as records have them.
  numbers = {
    name: np.array([[getattr(w, field)] for w in windows], np.int32)
    for name, field in columns.items()
  }
  return {**inputs, **numbers}


def prepare(
  file: dataset.SquadFile, tokenizer: tokenization.FullTokenizer,
  lengths: windowing.Lengths, *, records: str, training: bool = False
) -> SquadInput:
  """Makes the windows of a file's questions and writes them as TFRecords.

  Records that an earlier run has made of the same data and flags are kept.

  Args:
    records: the TFRecord file to write.
    training: whether to say where the answers are. As in the original: the
      questions to train on are shuffled once, always alike, before they are
      written.

  Raises:
    InputError: no question has a passage, or `lengths` leave no room for it.
  """
  windowing.check_lengths(lengths)
  # A copy: the file's own order is that of the results.
  questions = list(file.questions)
  if training:
    random.Random(_SHUFFLING_SEED).shuffle(questions)
  windows: Iterable = windowing.make_windows(
    questions, tokenizer, lengths, training=training,
    processes=num_processes(questions),
  )
  # A list, because prediction needs the windows again; for training the
  # generator is enough, and nothing is tokenized where records are kept.
  if not training:
    windows = list(windows)

  def write(writer):
    logging.debug("%s: the first examples", file.path)
    rest = iter(windows)
    shown = list(itertools.islice(rest, _SHOWN))
    for window in shown:
      _show(window, questions[window.question_index])
    found = cached_records.write_blocks(
      writer, itertools.chain(shown, rest),
      lambda block: _serialize(block, tokenizer, lengths, training),
    )
    return cached_records.totals(found, "num_records", "tokens", "unknown")

  fingerprint = {
    "format": _FORMAT,
    "data": cached_records.file_sha256(file.path),
    "vocabulary": cached_records.file_sha256(tokenizer.vocab_file),
    "do_lower_case": tokenizer.do_lower_case,
    "lengths": lengths._asdict(),
    "training": training,
    # How the file was read (version_2) shows in these two numbers.
    "impossible": sum(question.is_impossible for question in questions),
    "skipped": len(file.skipped),
  }
  facts = cached_records.ensure(records, fingerprint, write)
  count = facts["num_records"]
  if not count:
    raise errors.InputError(
      f"{file.path}: no context has a word that could hold an answer"
    )
  logging.info("%s: %d windows in %s", file.path, count, records)
  unknown_tokens.log_share(file.path, facts["unknown"], facts["tokens"])
  kept = None if training else list(windows)
  return SquadInput(file, records, count, kept)


def _serialize(windows, tokenizer, lengths, training):
  batch = make_batch(
    windows, tokenizer, lengths.max_seq_length, training=training
  )
  found = unknown_tokens.count(batch, tokenizer)
  return tfrecord.serialize_examples(batch), found


def _show(window, question):
  """Logs what the model reads of a question, as the original shows some."""
  logging.debug("  question %s, window %d: %s", question.qas_id,
                window.doc_span_index, " ".join(window.tokens))
  if window.start_position is None:
    return
  if not window.start_position:
    logging.debug("    no answer in this window: [CLS]")
    return
  first, last = window.start_position, window.end_position
  logging.debug(
    "    answer %r: tokens %d to %d, %s", question.answer_text, first, last,
    " ".join(window.tokens[first : last + 1]),
  )


def prepare_all(
  files: dict, tokenizer: tokenization.FullTokenizer,
  lengths: windowing.Lengths, *, folder: str
) -> dict[str, SquadInput]:
  """Prepares the files of a command, see `prepare`.

  Args:
    files: from some of "train", "eval", "predict" to dataset.SquadFile. One
      both to evaluate and to predict becomes one SquadInput.
    folder: of the TFRecord files.
  """
  data = {}
  # One object for one path: see dataset.read_all.
  same = "eval" in files and files["eval"] is files.get("predict")
  # As in the original: what is predicted is in eval.tf_record.
  names = {
    "train": "train", "predict": "eval", "eval": "eval" if same else "dev"
  }
  for name, file in files.items():
    if name == "predict" and same:
      continue
    data[name] = prepare(
      file, tokenizer, lengths,
      records=os.path.join(folder, f"{names[name]}.tf_record"),
      training=name == "train"
    )
  if same:
    data["predict"] = data["eval"]
  return data


def num_processes(questions: list) -> int:
  """Returns how many processes to tokenize the questions' passages with."""
  passages = {q.passage: q.doc_tokens for q in questions}
  words = sum(map(len, passages.values()))
  return process_pool.default_processes() if words >= _MANY_WORDS else 1
