r"""Converts text to TFRecords of masked sentence pairs for run_pretraining.py.

  python create_pretraining_data.py \
    --input_file=sample_text.txt \
    --output_file=/tmp/sample.tfrecord \
    --vocab_file=uncased_L-12_H-768_A-12/vocab.txt \
    --dupe_factor=5

The input has one sentence per line and a blank line between documents. With the
same text, flags and seed, google-research/bert's script makes the same records
in the same order. For a text that does not fit into memory add

    --shard_size_mb=50 --num_processes=8

to write one file for every 50 MB of text: /tmp/sample.tfrecord-00000-of-00012
and so on. If you run the command again, it writes only the missing files.
"""

from checkpoints import model_flags
from common import command, extension_flags, flags, run_settings
from pretraining import cluster_flags, points, text_flags

# The original's flags, with its defaults, and flags that scripts share.

text_flags.define_text_flag()
flags.DEFINE_string(
  "output_file",
  None,
  "TFRecord files to write, separated by commas; record i goes to file i "
  "modulo the number of files. A file whose name ends in .gz is compressed. "
  "With --shard_size_mb: the prefix of all file names.",
)
model_flags.define_model_dir_flag("--vocab_file and its tokenizer's settings")
model_flags.define_tokenizer_flags()
text_flags.define_masking_flags()
# Unlike the original: flags have bounds. In the original, --max_seq_length has
# no upper limit; below 5 (two tokens, [CLS] and two [SEP]) an assertion fails;
# --dupe_factor=0 writes no records; a negative --masked_lm_prob masks one token
# per record; and a --short_seq_prob above 1 acts like 1.
flags.DEFINE_integer(
  "max_seq_length",
  128,
  "Length of every record in tokens, including padding.",
  lower_bound=5,
  upper_bound=1 << 16,
)
flags.DEFINE_integer("random_seed", 12345, "Seed of all random choices.")
flags.DEFINE_integer(
  "dupe_factor",
  10,
  "Number of passes over the text, each with different masks. Default with "
  "--dynamic_masking: 1.",
  lower_bound=1,
)
flags.DEFINE_float(
  "short_seq_prob",
  0.1,
  "Fraction of the documents, chosen anew in each pass, whose records have a "
  "random shorter length. With a --packing that fills records: fraction of the "
  "records, by default 0.",
  lower_bound=0.0,
  upper_bound=1.0,
)

# The text.

flags.DEFINE_bool(
  "segmented_text",
  False,
  "Whether the input is Chinese text in which a segmenter has separated words "
  "by white space, for --do_whole_word_mask. The white space does not change "
  "the token ids.",
  needs="do_whole_word_mask|masking|dynamic_masking",
)

text_flags.define_smoothing_flag()
extension_flags.define(
  points.SPLITTERS,
  "How to split lines into sentences; lines are then paragraphs. Default: a "
  "line is a sentence.",
)

# The records.

extension_flags.define(
  points.PACKINGS, "What a record consists of. Default: sentence_pairs."
)
extension_flags.define(
  points.MASKINGS, "What is masked together. Default: pieces."
)
flags.rule("do_whole_word_mask", not_with="masking")
flags.DEFINE_bool(
  "dynamic_masking",
  False,
  "Store the starts of words instead of masks: run_pretraining.py then chooses "
  "new masks in every epoch.",
)

# Texts of any size.

flags.DEFINE_float(
  "shard_size_mb",
  0,
  "Write a file for every N megabytes (10**6 bytes) of text. Memory use is "
  "bounded, because each file depends only on its part of the text. 0: process "
  "the whole text at once, as google-research/bert does.",
  lower_bound=0,
)
flags.DEFINE_integer(
  "num_processes",
  1,
  "Number of processes on this machine; it does not change the files.",
  lower_bound=1,
  needs="shard_size_mb|num_processes=1",
  not_with="engine beam_options",
)
cluster_flags.define()
flags.rule(
  "do_whole_word_mask mask_shares masked_lm_prob max_predictions_per_seq",
  not_with="dynamic_masking",
  why=", which stores no masks (pass the flag to run_pretraining.py instead)",
)
flags.mark_flag_as_required("output_file")


command.check_early(cluster_flags.check)
# Only remote files and compressed records need TensorFlow.
command.parse_flags(__name__, imports_tensorflow=False)

import contextlib
import dataclasses
import time
from typing import Any

from absl import logging

import tokenization
from checkpoints import model_files
from common import errors, file_io, progress, unknown_tokens
from pretraining import (
  data,
  instance_maker,
  languages,
  masks,
  record_maker,
  sharding,
  vocabulary_notes,
)
from records import tfrecord

_SHOWN_INSTANCES = 3


def main(_: list[str]) -> None:
  """Writes the records, or the shards that are missing."""
  settings = flags.read_settings()
  settings = model_files.ModelFiles.of(settings).complete(settings)
  options = make_record_options(settings)
  inputs = file_io.expand_file_patterns(settings.input_file)
  logging.info("Reading %d file(s): %s", len(inputs), file_io.listed(inputs))
  start = time.monotonic()
  write = write_shards if settings.shard_size_mb else write_files
  count, outputs = write(settings, options, inputs)
  files, seconds = file_io.listed(outputs), time.monotonic() - start
  logging.info("Wrote %d instances to %s in %.1f s", count, files, seconds)


def make_record_options(settings: run_settings.Settings):
  """Returns the instance_maker.RecordOptions that the flags select."""
  fields = dataclasses.fields(instance_maker.RecordOptions)
  values = {field.name: settings.get(field.name) for field in fields}
  values["mask_shares"] = masks.parse_shares(settings.mask_shares)
  values["units"], values["unit_options"] = None, ()
  if settings.dynamic_masking:
    values["masking"] = "none"
    # One pass is enough: training makes new masks in each epoch.
    if "dupe_factor" not in settings.given:
      values["dupe_factor"] = 1
  else:
    default = "whole_words" if settings.do_whole_word_mask else "pieces"
    values["masking"] = settings.masking or default
  _choose_units(settings, values)
  values["packing"] = settings.packing or "sentence_pairs"
  packing: Any = points.PACKINGS.load(values["packing"])
  if packing.FILLS and "short_seq_prob" not in settings.given:
    values["short_seq_prob"] = 0.0
  return instance_maker.RecordOptions(**values)


def _choose_units(settings: run_settings.Settings, values) -> None:
  """Sets the options of a masking that says what a word is.

  Raises InputError: another masking is given with --dynamic_masking, whose
  records do not depend on it.
  """
  if not settings.masking:
    return
  masking: Any = points.MASKINGS.load(settings.masking)
  if hasattr(masking, "prepare"):
    options = points.MASKINGS.values(settings.masking, settings)
    values["units"] = settings.masking
    values["unit_options"] = tuple(options.items())
  elif settings.dynamic_masking:
    raise errors.InputError(
      f"--masking={settings.masking} has no effect with --dynamic_masking, "
      "which stores no masks (pass the flag to run_pretraining.py instead); "
      "leave one of them out"
    )


def write_files(settings: run_settings.Settings, options, inputs) -> tuple:
  """Writes the whole text's records; returns their number and the files."""
  outputs = split_outputs(settings.output_file)
  maker = record_maker.RecordMaker(options)
  with contextlib.ExitStack() as stack:
    # Opens the outputs first, to fail at once if one cannot be written.
    writers = [
      stack.enter_context(tfrecord.RecordWriter(path)) for path in outputs
    ]
    whole = data.whole_files(inputs)
    pieces = languages.smoothed(whole, options.language_smoothing)
    corpus = maker.read(pieces, joined=pieces is whole)
    logging.info(
      "documents: %d, sentences: %d, tokens: %d",
      corpus.num_documents,
      corpus.num_sentences,
      len(corpus.ids),
    )
    # Unlike the original: a text without records is an error, not empty files.
    if not corpus.num_documents:
      raise errors.InputError(
        f"--input_file={settings.input_file}: no text in it; give text with "
        "one sentence per line and blank lines between documents"
      )
    unknown_tokens.log_share(
      settings.input_file, maker.count_unknown(corpus), len(corpus.ids)
    )
    passes = options.dupe_factor
    done = progress.Progress(
      passes, parts=passes, part_name="passes", unit="words"
    )
    count = maker.write(
      corpus,
      writers,
      seed=options.random_seed,
      show=lambda features: show_examples(features, maker.tokenizer),
      after_pass=lambda: done.advance(1, corpus.num_words),
    )
  for output in outputs:
    vocabulary_notes.write(output, options.vocab_file)
  return count, outputs


def show_examples(features, tokenizer: tokenization.FullTokenizer) -> None:
  """Logs the first records as tokens."""
  for row in range(min(_SHOWN_INSTANCES, len(features["input_ids"]))):
    record = {name: values[row] for name, values in features.items()}
    logging.debug("Instance %d: %s", row, example_line(record, tokenizer))


def example_line(record, tokenizer: tokenization.FullTokenizer) -> str:
  """Returns one line that shows a record (dict of arrays) as tokens."""
  ids = record["input_ids"][: int(record["input_mask"].sum())]
  parts = [" ".join(tokenizer.convert_ids_to_tokens(ids.tolist()))]
  if "masked_lm_ids" in record:
    count = int(record["masked_lm_weights"].sum())
    positions = record["masked_lm_positions"][:count].tolist()
    labels = record["masked_lm_ids"][:count].tolist()
    tokens = " ".join(tokenizer.convert_ids_to_tokens(labels))
    parts.append(f"to predict at {positions}: {tokens}")
  if "next_sentence_labels" in record:
    is_other = record["next_sentence_labels"][0]
    is_next = "random" if is_other else "actual"
    parts.append(f"next sentence: {is_next}")
  return " | ".join(parts)


def write_shards(settings: run_settings.Settings, options, inputs) -> tuple:
  """Writes one file per shard; returns the number of records and the files."""
  output, *others = split_outputs(settings.output_file)
  if others:
    raise errors.InputError(
      f"--output_file={settings.output_file}: with --shard_size_mb, give one "
      "name, the prefix of all file names"
    )
  size = max(1, int(settings.shard_size_mb * 1e6))
  run = sharding.ShardedRun(options, inputs, output, shard_bytes=size)
  logging.info("%d shard(s), described in %s", len(run.shards), run.manifest)
  results = run.make(cluster_flags.in_order(settings, run.manifest))
  outputs = [
    shard.output for shard, result in zip(run.shards, results) if result.records
  ]
  return sum(result.records for result in results), outputs


def split_outputs(names: str):
  """Returns the names in a comma-separated list."""
  outputs = [name.strip() for name in names.split(",")]
  if "" in outputs:
    raise errors.InputError(
      f"--output_file={names} has an empty name; give names separated by commas"
    )
  return outputs


if __name__ == "__main__":
  command.run(main)
