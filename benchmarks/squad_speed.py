"""Seconds from a SQuAD file to the records of its windows.

  python benchmarks/squad_speed.py --squad_file=dev-v1.1.json \
    --vocab=VOCAB_TXT --original=CHECKOUT_OF_GOOGLE_RESEARCH_BERT

What comes after the model is measured by squad_answers_speed.py. The first run
begins with an empty memory of words, as a user's does; it is the one that
counts. The original, where a checkout is given, is run on the same Python
(without writing records), and its windows are compared with ours.
"""

import os
import resource
import sys
import tempfile
import time

from absl import app, flags

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import original_squad

import tokenization
from common import errors
from squad import dataset, input_data, windowing

FLAGS = flags.FLAGS

# The original's module defines flags, too; none of these is called as there.
flags.DEFINE_string("squad_file", None, "SQuAD file to predict.")
flags.DEFINE_string("vocab", None, "Vocabulary file of an uncased model.")
flags.DEFINE_bool("version_2", False, "Whether it is of SQuAD 2.0.")
flags.DEFINE_string("original", None, "Checkout of google-research/bert.")
flags.mark_flags_as_required(["squad_file", "vocab"])

_LENGTHS = windowing.Lengths(384, 128, 64)


class Clock:
  """Prints how long each part took, and the largest memory so far."""

  def __init__(self):
    self._start = self._now()

  def _now(self):
    return time.perf_counter(), time.process_time()

  def done(self, name):
    wall, processor = (b - a for a, b in zip(self._start, self._now()))
    print(
      f"{name:28} {wall:6.2f} s wall {processor:6.2f} s processor "
      f"{peak_megabytes():6} MB peak"
    )
    self._start = self._now()


def peak_megabytes():
  """Returns the most memory, in MB, that this process has held so far."""
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def measure(folder):
  """Prints the costs of all parts; returns input_data.SquadInput."""
  print(f"{peak_megabytes()} MB before the first line is read")
  clock = Clock()
  whole = Clock()
  tokenizer = tokenization.FullTokenizer(FLAGS.vocab, do_lower_case=True)
  clock.done("vocabulary")
  file = dataset.read(FLAGS.squad_file, version_2=FLAGS.version_2)
  clock.done("questions")
  records = os.path.join(folder, "eval.tf_record")
  data = input_data.prepare(file, tokenizer, _LENGTHS, records=records)
  clock.done("windows and records")
  whole.done("all of it")
  input_data.prepare(file, tokenizer, _LENGTHS, records=records)
  clock.done("again: records are kept")
  print(f"{len(file.questions)} questions, {len(data.windows)} windows")
  return data


def measure_original(windows):
  """Prints the original's costs, and whether its windows are `windows`."""
  original = original_squad.load(FLAGS.original)
  clock, features = Clock(), []
  tokenizer = original.tokenization.FullTokenizer(FLAGS.vocab)
  examples = original.read_squad_examples(FLAGS.squad_file, is_training=False)
  original.convert_examples_to_features(
    examples, tokenizer, *_LENGTHS, False, features.append
  )
  clock.done("the original, no records")
  same = len(features) == len(windows) and all(
    theirs.tokens == ours.tokens
    and theirs.unique_id == ours.unique_id
    and theirs.token_to_orig_map == ours.token_to_orig_map
    and theirs.token_is_max_context == ours.token_is_max_context
    for theirs, ours in zip(features, windows)
  )
  print("its windows are", "equal" if same else "different")


def main(_):
  with tempfile.TemporaryDirectory() as folder:
    data = measure(folder)
  if FLAGS.original:
    measure_original(data.windows)


if __name__ == "__main__":
  app.run(errors.report_input_errors(main))
