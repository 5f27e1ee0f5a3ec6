"""A small vocabulary and random texts of its words, for the data tests."""

import gzip
import pathlib
import random

import tiny_model
from pretraining import data, instance_maker

GOLDEN = pathlib.Path(__file__).parent / "golden"
WORDS = "the cat dog sat ran on mat ##s . ,".split()
TOKENS = [*tiny_model.SPECIAL, *WORDS]


def write_vocab(folder):
  return tiny_model.write_vocabulary(folder, WORDS)


def text_of(num_documents, seed=0):
  """Returns random documents of 1 to 6 sentences, each of 1 to 12 words."""
  rng = random.Random(seed)
  words = "the cat dog cats dogs sat ran on mat mats . , xyzzy".split()
  documents = [
    "\n".join(
      " ".join(rng.choices(words, k=rng.randint(1, 12)))
      for _ in range(rng.randint(1, 6))
    )
    for _ in range(num_documents)
  ]
  return "\n\n".join(documents) + "\n"


def write_text(folder, name="text.txt", num_documents=40, seed=0):
  path = folder / name
  path.write_text(text_of(num_documents, seed))
  return str(path)


def released_vocab(folder, name="uncased"):
  """Writes a released vocabulary, such as "multi_cased"; returns its path."""
  packed = GOLDEN / "tokenization" / f"{name}_vocab.txt.gz"
  path = folder / "vocab.txt"
  path.write_bytes(gzip.decompress(packed.read_bytes()))
  return str(path)


def record_options(**changed):
  """Returns RecordOptions: the script's default flags with `changed` ones."""
  return instance_maker.RecordOptions(
    **{
      "max_seq_length": 128,
      "max_predictions_per_seq": 20,
      "random_seed": 12345,
      "dupe_factor": 10,
      "masked_lm_prob": 0.15,
      "short_seq_prob": 0.1,
      "masking": "pieces",
      "packing": "sentence_pairs",
      "vocab_file": "",
      "do_lower_case": True,
      "segmented_text": False,
      **changed,
    }
  )


def features_of(lines, encode, vocab, options, rng=None):
  """Returns the features of all instances of a text.

  Args:
    lines: lines of the text.
    encode: function of a line that returns its ids.
    vocab: dict of token -> id.
    options: from `record_options`.
    rng: random.Random; the default has the seed of `options`.
  """
  vocabulary = data.Vocabulary(vocab)

  def encode_lines(lines):
    ids_by_line = [encode(line) for line in lines]
    return sum(ids_by_line, []), list(map(len, ids_by_line)), None

  corpus = data.read_corpus(lines, encode_lines, vocabulary)
  instances = instance_maker.create_instances(
    corpus, vocabulary, options, rng or random.Random(options.random_seed)
  )
  return instances.features(0, len(instances))
