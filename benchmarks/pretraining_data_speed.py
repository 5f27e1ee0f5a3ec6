"""Words per second and memory of create_pretraining_data.py.

  python benchmarks/pretraining_data_speed.py --text=TEXT --vocab=VOCAB_TXT \
    --original=CHECKOUT_OF_GOOGLE_RESEARCH_BERT

Runs the script as a user does, on the whole text and in shards over one and
two processes, and the original's where a checkout is given: on this Python,
where TensorFlow 2 plays TensorFlow 1, and on --original_python if that is
given, one with TensorFlow 1.15. What each needs for a text of two lines, which
is mostly importing TensorFlow, is shown separately from what the text adds.
"""

import os
import sys
import tempfile

from absl import app, flags

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import data_commands
import measured_runs

from common import errors

FLAGS = flags.FLAGS

flags.DEFINE_string("text", None, "UTF-8 text, one sentence a line.")
flags.DEFINE_string("vocab", None, "Vocabulary file.")
flags.DEFINE_string("original", None, "Checkout of google-research/bert.")
flags.DEFINE_string(
  "original_python", None, "A Python with TensorFlow 1.15 for the original."
)
flags.DEFINE_integer("dupe_factor", 5, "Passes through the text.")
flags.DEFINE_list(
  "extra", [], "More flags for every run, without --: do_lower_case=False."
)
flags.DEFINE_integer("shards", 8, "Shards of the runs in shards.")
flags.mark_flags_as_required(["text", "vocab"])

# All of it is work of the processor: starting a GPU would only add noise.
_ENVIRONMENT = measured_runs.environment(CUDA_VISIBLE_DEVICES="-1")


def commands(text, folder):
  """Yields (name, command) of all runs on a text."""
  flags_for_all = [
    f"--input_file={text}",
    f"--vocab_file={FLAGS.vocab}",
    f"--dupe_factor={FLAGS.dupe_factor}",
    *(f"--{flag}" for flag in FLAGS.extra),
  ]
  yield "ours", data_commands.ours(
    [*flags_for_all, f"--output_file={folder}/whole"]
  )
  size = os.path.getsize(text) / 1e6 / FLAGS.shards
  for processes in (1, 2):
    yield f"ours, shards, {processes} process(es)", data_commands.ours(
      [
        *flags_for_all,
        f"--output_file={folder}/{processes}",
        # A little more, so that rounding makes no shard of the last few bytes.
        f"--shard_size_mb={size * 1.001}",
        f"--num_processes={processes}",
      ]
    )
  pythons = {"original, this Python": sys.executable}
  if FLAGS.original_python:
    pythons["original, its Python"] = FLAGS.original_python
  for name, python in pythons.items() if FLAGS.original else ():
    flags_of_original = [*flags_for_all, f"--output_file={folder}/original"]
    yield name, data_commands.original(
      FLAGS.original, flags_of_original, python
    )


def main(_):
  with open(FLAGS.text, encoding="utf-8") as stream:
    num_words = sum(len(line.split()) for line in stream)
  print(f"{FLAGS.text}: {num_words:,} words, dupe_factor {FLAGS.dupe_factor}")
  print(
    f"{'':26}{'seconds':>9}{'start':>9}{'words/s':>11}{'CPU s':>9}"
    f"{'start':>9}{'words/s':>11}{'peak MB':>9}{'start':>9}{'added':>9}"
  )
  with tempfile.TemporaryDirectory() as folder:
    tiny = os.path.join(folder, "tiny.txt")
    with open(tiny, "w") as stream:
      stream.write(data_commands.TINY_TEXT)
    os.mkdir(os.path.join(folder, "tiny"))
    # The same commands, so that each one's own start is taken off.
    starts = dict(commands(tiny, os.path.join(folder, "tiny")))
    for name, command in commands(FLAGS.text, folder):
      start, cost = (
        measured_runs.measure(each, env=_ENVIRONMENT)
        for each in (starts[name], command)
      )
      print(table_row(name, num_words, start, cost), flush=True)


def table_row(name, num_words, start, cost):
  """Returns a contender's row; `start` is what the start of it alone costs."""
  cells = [f"{name:26}"]
  for before, all_of_it in zip(start[:2], cost[:2], strict=True):
    # Of what the text adds to the start.
    rate = num_words / max(all_of_it - before, 1e-3)
    cells += [f"{all_of_it:9.1f}{before:9.1f}{rate:11,.0f}"]
  added = cost.megabytes - start.megabytes
  cells += [f"{cost.megabytes:9.0f}{start.megabytes:9.0f}{added:9.0f}"]
  return "".join(cells)


if __name__ == "__main__":
  app.run(errors.report_input_errors(main))
