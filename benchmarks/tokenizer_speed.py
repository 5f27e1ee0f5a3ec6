"""Words per second of the tokenizers, side by side in one process.

  python benchmarks/tokenizer_speed.py --text=TEXT --vocab=VOCAB_TXT \
    --original=CHECKOUT_OF_GOOGLE_RESEARCH_BERT

Every tokenizer turns each line of the text into ids, `--repeats` times from a
fresh start (so with nothing remembered); the fastest time counts. The original
runs on the same Python: of TensorFlow it needs `gfile` alone, given here by a
stand-in. Results that are not this project's are counted.
"""

import collections
import functools
import importlib.util
import operator
import os
import sys
import time
import types

from absl import app, flags

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import peer_imports

import tokenization
from common import errors

FLAGS = flags.FLAGS

flags.DEFINE_string("text", None, "UTF-8 text file, a line a call.")
flags.DEFINE_string("vocab", None, "Vocabulary file.")
flags.DEFINE_bool("do_lower_case", True, "Whether the model is uncased.")
flags.DEFINE_float("megabytes", 5, "How much of the text is used.")
flags.DEFINE_integer("repeats", 3, "Runs of each tokenizer.")
flags.DEFINE_string("original", None, "Checkout of google-research/bert.")
flags.DEFINE_bool(
  "peers",
  False,
  "Also measure transformers, tokenizers and tensorflow_text, those of them "
  "that can be imported.",
)
flags.mark_flags_as_required(["text", "vocab"])


def read_lines(path, megabytes):
  """Returns the whole lines of the first `megabytes` * 10^6 bytes."""
  try:
    with open(path, "rb") as stream:
      data = stream.read(int(megabytes * 1e6))
  except FileNotFoundError as error:
    raise errors.InputError(f"no such file: {path}") from error
  # No half line, which may be half a character.
  lines = data[: data.rfind(b"\n") + 1].decode("utf-8").splitlines()
  if not lines:
    raise errors.InputError(f"{path}: no whole line in {megabytes} MB")
  return lines


def load_original(checkout):
  """Imports the original's tokenization.py without its TensorFlow 1."""
  stand_in = types.ModuleType("tensorflow")
  stand_in.gfile = types.SimpleNamespace(
    GFile=lambda path, mode: open(path, mode, encoding="utf-8")
  )
  path = os.path.join(checkout, "tokenization.py")
  spec = importlib.util.spec_from_file_location("original_tokenization", path)
  module = importlib.util.module_from_spec(spec)
  # Ours may be loaded, and is needed again.
  before = sys.modules.get("tensorflow")
  sys.modules["tensorflow"] = stand_in
  try:
    spec.loader.exec_module(module)
  finally:
    del sys.modules["tensorflow"]
    if before:
      sys.modules["tensorflow"] = before
  return module


def each(encode):
  """Makes a function of a list of lines from one of a line."""
  return lambda lines: [encode(line) for line in lines]


def two_steps(module, vocab, do_lower_case):
  """`tokenize` and the conversion to ids, the original's only way."""
  full = module.FullTokenizer(vocab, do_lower_case)
  return each(lambda line: full.convert_tokens_to_ids(full.tokenize(line)))


def transformers_slow(vocab, do_lower_case):
  """Hugging Face's tokenizer in Python."""
  peer_imports.hide_triton()
  import transformers

  tokenizer = transformers.BertTokenizer(vocab, do_lower_case=do_lower_case)
  return each(lambda line: tokenizer.encode(line, add_special_tokens=False))


def tokenizers_batches(vocab, do_lower_case):
  """Hugging Face's tokenizer in Rust, which takes all cores for a batch."""
  import tokenizers

  tokenizer = tokenizers.BertWordPieceTokenizer(vocab, lowercase=do_lower_case)

  def encode(lines):
    batch = tokenizer.encode_batch_fast(lines, add_special_tokens=False)
    return [encoding.ids for encoding in batch]

  return encode


def tensorflow_text_batches(vocab, do_lower_case):
  """TensorFlow's tokenizer in C++, which needs batches to be quick."""
  import tensorflow_text

  tokenizer = tensorflow_text.BertTokenizer(vocab, lower_case=do_lower_case)

  def encode(lines):
    batches = [lines[i : i + 1024] for i in range(0, len(lines), 1024)]
    return [
      ids
      for batch in batches
      for ids in tokenizer.tokenize(batch).merge_dims(1, 2).to_list()
    ]

  return encode


PEERS = {
  "transformers BertTokenizer": transformers_slow,
  "tokenizers, in batches": tokenizers_batches,
  "tensorflow_text, in batches": tensorflow_text_batches,
}


def makers(original, peers):
  """Returns (name, function of vocabulary and case -> encode(lines))s."""
  result = [
    ("encode", lambda *args: each(tokenization.FullTokenizer(*args).encode)),
    ("tokenize + ids", functools.partial(two_steps, tokenization)),
  ]
  if original:
    module = load_original(original)
    result.append(("the original", functools.partial(two_steps, module)))
  return [*result, *(PEERS.items() if peers else ())]


def measure(make, lines, vocab, do_lower_case):
  """Returns (seconds that a fresh tokenizer takes for all lines, the ids)."""
  encode = make(vocab, do_lower_case)
  start = time.perf_counter()
  ids = encode(lines)
  return time.perf_counter() - start, ids


def main(_):
  lines = read_lines(FLAGS.text, FLAGS.megabytes)
  words = sum(len(line.split()) for line in lines)
  print(f"{words} words in {len(lines)} lines, Python {sys.version.split()[0]}")
  expected = None
  seconds, notes = collections.defaultdict(list), {}
  # In turn, so that a busy minute of the machine meets all of them.
  for name, make in FLAGS.repeats * makers(FLAGS.original, FLAGS.peers):
    try:
      duration, ids = measure(make, lines, FLAGS.vocab, FLAGS.do_lower_case)
    except ImportError:
      notes[name] = "not installed"
      continue
    seconds[name].append(duration)
    # Ours are the first.
    expected = expected or ids
    others = sum(map(operator.ne, ids, expected))
    notes[name] = f"other ids in {others} lines" if others else ""
  for name, note in notes.items():
    if name in seconds:
      best = min(seconds[name])
      note = f"{best:8.2f} s{words / best:12,.0f} words/s  {note}"
    print(f"{name:28}{note}".rstrip())


if __name__ == "__main__":
  app.run(errors.report_input_errors(main))
