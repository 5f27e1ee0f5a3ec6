"""Seconds from logits to the files of answers, for a whole SQuAD file.

  python benchmarks/squad_answers_speed.py --squad_file=dev-v1.1.json \
    --vocab=VOCAB_TXT --original=CHECKOUT_OF_GOOGLE_RESEARCH_BERT

The logits are drawn: like those of a trained model they are high around one
place of each window, so that every question has its 20 candidates. The
original, where a checkout is given, gets the same windows and logits on the
same Python, and its files are compared with ours byte for byte.
"""

import os
import resource
import sys
import tempfile
import time
import types

import numpy as np
from absl import app, flags

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import original_squad

import tokenization
from common import errors
from squad import answering, dataset, windowing

FLAGS = flags.FLAGS

# The original's module defines flags, too; none of these is called as there.
flags.DEFINE_string("squad_file", None, "SQuAD file.")
flags.DEFINE_string("vocab", None, "Vocabulary file of an uncased model.")
flags.DEFINE_bool("version_2", False, "Whether it is of SQuAD 2.0.")
flags.DEFINE_string("original", None, "Checkout of google-research/bert.")
flags.DEFINE_integer("repeats", 3, "Runs of ours.")
flags.mark_flags_as_required(["squad_file", "vocab"])

_LENGTHS = windowing.Lengths(384, 128, 64)
_FILES = (
  answering.PREDICTIONS_FILE,
  answering.N_BEST_FILE,
  answering.NULL_ODDS_FILE,
)


def draw_logits(windows, length, seed=1):
  """Returns start and end logits, float32 [N, length] each.

  High ones lie around a place of the passage, the same for start and end, one
  that counts in this window: else the original may find no answer, and ends.
  """
  random = np.random.default_rng(seed)
  centers = [
    window.first_position + random.choice(np.flatnonzero(window.is_max_context))
    for window in windows
  ]
  places = np.arange(length, dtype=np.float32)
  distances = np.abs(places - np.array(centers, np.float32)[:, None])
  shape = (2, *distances.shape)
  logits = random.standard_normal(shape, np.float32)
  # [2, N, length]
  logits += 10 * np.exp(-distances / 8) - 6
  return logits


def measure(questions, windows, logits, settings, folder):
  """Returns (wall, processor) seconds of making the answers and their files."""
  start, processor = time.perf_counter(), time.process_time()
  answers = list(
    answering.find_answers(questions, windows, *logits, settings)
  )
  answering.write(folder, answers)
  return time.perf_counter() - start, time.process_time() - processor


def measure_original(checkout, questions, windows, logits, settings, folder):
  """As `measure`, of the original; what it needs is made before."""
  original = original_squad.load(checkout)
  # Its function reads this flag, besides its arguments.
  original.FLAGS.version_2_with_negative = settings.version_2_with_negative
  # What its code reads of its own class, from our windows.
  features = [
    types.SimpleNamespace(
      unique_id=window.unique_id,
      example_index=window.question_index,
      tokens=window.tokens,
      token_to_orig_map=window.token_to_orig_map,
      token_is_max_context=window.token_is_max_context,
    )
    for window in windows
  ]
  results = [
    original.RawResult(window.unique_id, starts.tolist(), ends.tolist())
    for window, starts, ends in zip(windows, *logits)
  ]
  paths = [os.path.join(folder, name) for name in _FILES]
  start, processor = time.perf_counter(), time.process_time()
  original.write_predictions(
    questions,
    features,
    results,
    settings.n_best_size,
    settings.max_answer_length,
    settings.do_lower_case,
    *paths,
  )
  return time.perf_counter() - start, time.process_time() - processor


def equal_files(folder, other):
  """Returns "equal" or "different" for each file that `folder` has."""
  result = {}
  for name in sorted(os.listdir(folder)):
    contents = []
    for path in (folder, other):
      with open(os.path.join(path, name), "rb") as stream:
        contents.append(stream.read())
    result[name] = "equal" if contents[0] == contents[1] else "different"
  return result


def main(_):
  questions = dataset.read(
    FLAGS.squad_file, version_2=FLAGS.version_2
  ).questions
  tokenizer = tokenization.FullTokenizer(FLAGS.vocab, do_lower_case=True)
  windows = list(windowing.make_windows(questions, tokenizer, _LENGTHS))
  logits = draw_logits(windows, _LENGTHS.max_seq_length)
  settings = answering.AnswerOptions(version_2_with_negative=FLAGS.version_2)
  print(f"{len(questions)} questions, {len(windows)} windows")
  with tempfile.TemporaryDirectory() as ours, \
      tempfile.TemporaryDirectory() as theirs:  # fmt: skip
    costs = [
      measure(questions, windows, logits, settings, ours)
      for _ in range(FLAGS.repeats)
    ]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, processor = min(costs)
    print(f"ours          {wall:7.2f} s wall {processor:7.2f} s processor")
    print(f"peak memory of the process {peak >> 10} MB")
    if FLAGS.original:
      wall, processor = measure_original(
        FLAGS.original, questions, windows, logits, settings, theirs
      )
      print(f"the original  {wall:7.2f} s wall {processor:7.2f} s processor")
      print(equal_files(ours, theirs))


if __name__ == "__main__":
  app.run(errors.report_input_errors(main))
