"""Windows of questions -> TFRecords."""

import itertools
import os
import random
from typing import NamedTuple

import tensorflow as tf
from absl import logging

import tokenization
from common import errors, unknown_tokens
from records import cached_records, tfrecord
from squad import data, windowing
from text import input_sequences

# Increase this when the same data and flags give other records.
_FORMAT = 2
_SHOWN = 5  # Windows whose tokens are logged.


_SHUFFLING_SEED = 12345  # The original's.


class SquadInput(NamedTuple):
  """A file of questions, ready for the model.

  Attributes:
    records: the TFRecord file of the windows.
    num_records: how many windows there are.
    windows: list of Window, in the order of the records; None for training,
      which does not look at them again.
  """

  file: data.SquadFile
  records: str
  num_records: int
  windows: list | None


def record_features(max_seq_length: int, *, training: bool) -> dict:
  """Returns the features of a record, as the original's readers parse them.

  As in the original: is_impossible is written and never read.
  """
  shapes = dict.fromkeys(input_sequences.NAMES, [max_seq_length])
  shapes["unique_ids"] = []
  if training:
    shapes.update(start_positions=[], end_positions=[])
  return {
    name: tf.io.FixedLenFeature(shape, tf.int64)
    for name, shape in shapes.items()
  }


def prepare(
  file: data.SquadFile, tokenizer: tokenization.FullTokenizer,
  lengths: windowing.Lengths, *, records: str, training: bool = False,
) -> SquadInput:
  """Makes the windows of a file's questions and writes them as TFRecords.

  Records that an earlier run made from the same data and flags are kept.
  Raises InputError: no question has a passage.

  Args:
    records: the TFRecord file to write.
    training: whether to say where the answers are. As in the original: the
      questions to train on are shuffled once, always alike, before they are
      written.
  """
  # The copy keeps the file's order, which the results follow.
  questions = list(file.questions)
  if training:
    random.Random(_SHUFFLING_SEED).shuffle(questions)
  made = windowing.make_windows(
    questions, tokenizer, lengths, training=training
  )
  # Prediction needs the windows again; for training the generator is enough,
  # and nothing is tokenized where records are kept.
  windows = None if training else list(made)

  def serialize(block):
    batch = windowing.make_batch(
      block, tokenizer, lengths.max_seq_length, training=training
    )
    counts = unknown_tokens.count(batch, tokenizer)
    return tfrecord.serialize_examples(batch), counts

  def write(writer):
    logging.debug("%s: the first examples", file.path)
    rest = iter(made if windows is None else windows)
    shown = list(itertools.islice(rest, _SHOWN))
    for window in shown:
      _show(window, questions[window.question_index])
    counts = cached_records.write_blocks(
      writer, itertools.chain(shown, rest), serialize
    )
    return cached_records.totals(counts, "num_records", "tokens", "unknown")

  facts = cached_records.ensure(records, {
    "format": _FORMAT,
    "data": cached_records.file_sha256(file.path),
    "vocabulary": cached_records.file_sha256(tokenizer.vocab_file),
    "do_lower_case": tokenizer.do_lower_case,
    "never_split": tokenizer.never_split,
    "lengths": lengths._asdict(),
    "training": training,
    # How the file was read (version_2) shows in these two numbers.
    "impossible": sum(question.is_impossible for question in questions),
    "skipped": len(file.skipped),
  }, write)
  count = facts["num_records"]
  if not count:
    raise errors.InputError(
      f"{file.path}: no context has a word that could hold an answer"
    )
  logging.info("%s: %d windows in %s", file.path, count, records)
  unknown_tokens.log_share(file.path, facts["unknown"], facts["tokens"])
  return SquadInput(file, records, count, windows)


def _show(window, question):
  """Logs the tokens of a window, as the original does for some."""
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
  lengths: windowing.Lengths, *, folder: str,
) -> dict[str, SquadInput]:
  """Prepares the files of a command, see `prepare`.

  A file both to evaluate and to predict becomes one SquadInput.
  """
  # As in the original: eval.tf_record holds the data to predict.
  stems = {"train": "train", "predict": "eval", "eval": "dev"}
  prepared: dict[str, SquadInput] = {}
  for name in sorted(files, key=list(stems).index):
    if name == "eval" and files[name] is files.get("predict"):
      prepared[name] = prepared["predict"]
      continue
    prepared[name] = prepare(
      files[name], tokenizer, lengths, training=name == "train",
      records=os.path.join(folder, f"{stems[name]}.tf_record"),
    )
  return prepared
