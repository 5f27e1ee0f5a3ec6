"""Text -> TFRecords of masked sentence pairs for run_pretraining.py.

  python create_pretraining_data.py \
    --input_file=sample_text.txt \
    --output_file=/tmp/sample.tfrecord \
    --vocab_file=uncased_L-12_H-768_A-12/vocab.txt \
    --dupe_factor=5

The input has one sentence a line and a blank line between documents. The
same text, flags and seed give the records of the original, in its order.
"""

import contextlib
import itertools
import random
import time

from absl import app, flags, logging

import data_files
import errors
import pretraining_data
import tokenization

_RECORDS_PER_BLOCK = 1024
_SHOWN_INSTANCES = 3

FLAGS = flags.FLAGS

flags.DEFINE_string(
  "input_file",
  None,
  "Text files to read: names or glob patterns, separated by commas.",
)
flags.DEFINE_string(
  "output_file",
  None,
  "TFRecord files to write, separated by commas; record i goes to file i "
  "modulo their number. One that ends in .gz is compressed.",
)
flags.DEFINE_string(
  "vocab_file", None, "Vocabulary of the model: one token a line."
)
flags.DEFINE_bool(
  "do_lower_case",
  True,
  "Lower-case the text and strip its accents: true for uncased models.",
)
flags.DEFINE_bool(
  "do_whole_word_mask",
  False,
  "Mask all pieces of a word together instead of single pieces.",
)
flags.DEFINE_integer(
  "max_seq_length", 128, "Length of every record, padding included."
)
flags.DEFINE_integer(
  "max_predictions_per_seq", 20, "Most tokens that are masked in a record."
)
flags.DEFINE_integer("random_seed", 12345, "Seed of everything random.")
flags.DEFINE_integer(
  "dupe_factor",
  10,
  "How many times the text is gone through, each time with other masks.",
)
flags.DEFINE_float(
  "masked_lm_prob", 0.15, "Fraction of the tokens that are masked."
)
flags.DEFINE_float(
  "short_seq_prob",
  0.1,
  "Fraction of the passes through a document that make shorter records.",
)


def main(_):
  options = pretraining_data.Options(
    max_seq_length=FLAGS.max_seq_length,
    max_predictions_per_seq=FLAGS.max_predictions_per_seq,
    random_seed=FLAGS.random_seed,
    dupe_factor=FLAGS.dupe_factor,
    masked_lm_prob=FLAGS.masked_lm_prob,
    short_seq_prob=FLAGS.short_seq_prob,
    do_whole_word_mask=FLAGS.do_whole_word_mask,
  )
  tokenizer = tokenization.FullTokenizer(
    FLAGS.vocab_file, do_lower_case=FLAGS.do_lower_case
  )
  inputs = data_files.expand_file_patterns(FLAGS.input_file)
  outputs = split_outputs(FLAGS.output_file)
  start = time.monotonic()
  with contextlib.ExitStack() as stack:
    # Opened first: an output that cannot be written stops the run at once.
    writers = [
      stack.enter_context(data_files.RecordWriter(path)) for path in outputs
    ]
    count = write_instances(inputs, writers, tokenizer, options)
  seconds = time.monotonic() - start
  logging.info(
    "Wrote %d instances to %s in %.1f s", count, ", ".join(outputs), seconds
  )


def split_outputs(names):
  """Returns the output files of a comma-separated list, each named once."""
  outputs = [name.strip() for name in names.split(",")]
  if "" in outputs or len(set(outputs)) < len(outputs):
    raise errors.InputError(
      f"--output_file={names}: names an empty or the same file twice; give "
      "different names, separated by commas"
    )
  return outputs


def write_instances(inputs, writers, tokenizer, options):
  """Makes all instances of the text; record i goes to writer i mod n.

  Args:
    inputs: text files.
    writers: data_files.RecordWriters, opened.
    tokenizer: tokenization.FullTokenizer.
    options: pretraining_data.Options.

  Returns:
    The number of instances.
  """
  vocabulary = pretraining_data.Vocabulary(tokenizer.vocab)
  corpus = read_corpus(inputs, tokenizer, vocabulary)
  rng = random.Random(options.random_seed)
  instances, order = pretraining_data.create_instances(
    corpus, vocabulary, options, rng
  )
  turn = itertools.cycle(writers)
  for first in range(0, len(order), _RECORDS_PER_BLOCK):
    rows = order[first : first + _RECORDS_PER_BLOCK]
    features = pretraining_data.instance_features(
      corpus, instances, rows, vocabulary, options
    )
    if first == 0:
      log_examples(features, tokenizer)
    for record in data_files.serialize_examples(features):
      next(turn).write(record)
  return len(order)


def read_corpus(inputs, tokenizer, vocabulary):
  """Returns the Corpus of text files, one after another."""
  logging.info("Reading %d file(s): %s", len(inputs), ", ".join(inputs))
  lines = (line for path in inputs for _, line in data_files.read_lines(path))
  corpus = pretraining_data.read_corpus(
    lines, tokenizer.encode, vocabulary.dtype
  )
  logging.info(
    "Read %d documents, %d sentences, %d tokens",
    corpus.num_documents,
    corpus.num_sentences,
    len(corpus.ids),
  )
  if corpus.num_documents == 1:
    logging.warning(
      "The text is a single document, so segments that are labelled as the "
      "random next ones come from that document, too: put blank lines between "
      "documents, or give more text."
    )
  return corpus


def log_examples(features, tokenizer):
  """Shows the first instances as tokens."""
  for row in range(min(_SHOWN_INSTANCES, len(features["input_ids"]))):
    length = int(features["input_mask"][row].sum())
    masked = int(features["masked_lm_weights"][row].sum())
    ids = features["input_ids"][row, :length].tolist()
    labels = features["masked_lm_ids"][row, :masked].tolist()
    is_random = bool(features["next_sentence_labels"][row, 0])
    logging.info(
      "Instance %d: %s | at %s the model must predict: %s | next sentence: %s",
      row,
      " ".join(tokenizer.convert_ids_to_tokens(ids)),
      features["masked_lm_positions"][row, :masked].tolist(),
      " ".join(tokenizer.convert_ids_to_tokens(labels)),
      "random" if is_random else "actual",
    )


if __name__ == "__main__":
  logging.set_verbosity(logging.INFO)
  flags.mark_flags_as_required(["input_file", "output_file", "vocab_file"])
  app.run(errors.report_input_errors(main))
