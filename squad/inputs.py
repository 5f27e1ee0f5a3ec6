"""Writes the windows of questions as TFRecords."""

import itertools
import os
import random
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging

import tokenization
from common import errors, unknown_tokens
from records import cached_records, tfrecord
from squad import data, windowing
from text import cut_texts, input_sequences

# Increase this when the same data and flags give different records than before.
_FORMAT = 2
_SHOWN = 5  # Number of windows whose tokens are logged.
_SHUFFLING_SEED = 12345  # As in the original: the seed.


class SquadInput(NamedTuple):
  """A file of questions, with the model's input for these questions.

  Attributes:
    records: the TFRecord file of the windows.
    num_records: number of windows.
    windows: list of Window, in the order of the records; None for training,
      which does not need them.
  """

  file: data.SquadFile
  records: str
  num_records: int
  windows: list | None


def record_features(max_seq_length: int, *, training: bool) -> dict:
  """Returns the features that training or prediction parses from a record.

  As in the original: training records have is_impossible, which is not read.
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
  file: data.SquadFile,
  tokenizer: tokenization.FullTokenizer,
  lengths: windowing.Lengths,
  *,
  records: str,
  training: bool = False,
) -> SquadInput:
  """Makes the windows of a file's questions and writes them as TFRecords.

  It reuses the records of an earlier run with the same data and flags. Raises
  InputError: all passages are empty.

  Args:
    records: the TFRecord file to write.
    training: whether to store the positions of the answers.
      As in the original: questions for training are shuffled once, with a
      fixed seed, before their windows are written.
  """
  # Shuffle a copy, because `file` must keep its order.
  questions = list(file.questions)
  if training:
    random.Random(_SHUFFLING_SEED).shuffle(questions)
  cut = cut_texts.CutTexts(lengths.max_query_length, "questions")
  generator = windowing.make_windows(
    questions, tokenizer, lengths, training=training, cut=cut
  )
  # Prediction needs all windows later. Training needs only the records, so if
  # they exist, the generator stays unused and tokenizes nothing.
  windows = None if training else list(generator)

  def serialize(block: list) -> Any:
    batch = windowing.make_batch(
      block, tokenizer, lengths.max_seq_length, training=training
    )
    counts = unknown_tokens.count(batch, tokenizer)
    return tfrecord.serialize_examples(batch), counts

  def write(writer: Any) -> Any:
    logging.debug("%s: the first examples", file.path)
    rest = iter(generator if windows is None else windows)
    shown = list(itertools.islice(rest, _SHOWN))
    for window in shown:
      _show(window, questions[window.question_index])
    counts = cached_records.write_blocks(
      writer, itertools.chain(shown, rest), serialize
    )
    return cached_records.totals(counts, "num_records", "tokens", "unknown")

  facts = cached_records.ensure(
    records,
    {
      "format": _FORMAT,
      "data": cached_records.file_sha256(file.path),
      "vocabulary": cached_records.file_sha256(tokenizer.vocab_file),
      "do_lower_case": tokenizer.do_lower_case,
      "never_split": tokenizer.never_split,
      "lengths": lengths._asdict(),
      "training": training,
      # This number depends on --version_2_with_negative.
      "impossible": sum(question.is_impossible for question in questions),
      "skipped": len(file.skipped),
    },
    write,
  )
  count = facts["num_records"]
  if not count:
    raise errors.InputError(
      f"{file.path}: no context has a word, so no question can be answered"
    )
  logging.info("%s: %d windows in %s", file.path, count, records)
  unknown_tokens.log_share(file.path, facts["unknown"], facts["tokens"])
  cut.log(file.path)
  return SquadInput(file, records, count, windows)


def _show(window: windowing.Window, question: data.Question) -> None:
  """Logs the tokens of a window, and its answer in training."""
  logging.debug(
    "  question %s, window %d: %s",
    question.qas_id,
    window.doc_span_index,
    " ".join(window.tokens),
  )
  # If this window lacks the answer, both positions are 0, at [CLS].
  first, last = window.start_position, window.end_position
  if first is not None and last is not None:
    logging.debug(
      "    answer %r: tokens %d to %d, %s",
      question.answer_text,
      first,
      last,
      " ".join(window.tokens[first : last + 1]),
    )


def prepare_all(
  files: dict,
  tokenizer: tokenization.FullTokenizer,
  lengths: windowing.Lengths,
  *,
  folder: str,
) -> dict[str, SquadInput]:
  """Returns the SquadInput of each file of a command, see `prepare`.

  A file for both evaluation and prediction becomes one SquadInput.
  """
  # As in the original: eval.tf_record has the records for prediction.
  stems = {"train": "train", "predict": "eval", "eval": "dev"}
  prepared: dict[str, SquadInput] = {}
  for name in sorted(files, key=list(stems).index):
    if name == "eval" and files[name] is files.get("predict"):
      prepared[name] = prepared["predict"]
      continue
    prepared[name] = prepare(
      files[name],
      tokenizer,
      lengths,
      training=name == "train",
      records=os.path.join(folder, f"{stems[name]}.tf_record"),
    )
  return prepared
