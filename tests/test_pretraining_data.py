"""pretraining_data: the original's instances, draw by draw."""

import gzip
import hashlib
import pathlib
import random

import numpy as np
import pytest

import errors
import pretraining_data
import tokenization

GOLDEN = pathlib.Path(__file__).parent / "golden"
INPUTS = GOLDEN / "pretraining_data" / "inputs"

# Name: input files, vocabulary, options that are not the README's.
RUNS = {
  "readme": (["sample_text"], "uncased", {}),
  "wwm": (["sample_text"], "uncased", {"do_whole_word_mask": True}),
  "cased": (["sample_text"], "cased", {}),
  "multi_cased": (["sample_text"], "multi_cased", {}),
  "lower_with_cased_vocab": (["sample_text"], "cased", {}),
  "defaults": (["sample_text"], "uncased", {"dupe_factor": 10}),
  "short05": (["sample_text"], "uncased", {"short_seq_prob": 0.5}),
  "seq512": (
    ["sample_text"],
    "uncased",
    {"max_seq_length": 512, "max_predictions_per_seq": 77},
  ),
  "pred5": (["sample_text"], "uncased", {"max_predictions_per_seq": 5}),
  "multi_io": (["sample_text", "second_corpus"], "uncased", {}),
  # As the original read them there: its glob was not sorted.
  "glob_in": (["nofinalblank_b", "nofinalblank_a"], "uncased", {}),
  "single_doc": (
    ["single_doc"],
    "uncased",
    {"max_seq_length": 32, "max_predictions_per_seq": 5},
  ),
  "odd": (["odd_corpus"], "uncased", {}),
}
CASED = ("cased", "multi_cased")

WORDS = {
  token: index
  for index, token in enumerate(
    "[PAD] [UNK] [CLS] [SEP] [MASK] a b c d ##e ##f".split()
  )
}


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory):
  """Gives a function: name of a released vocabulary -> its file."""
  folder = tmp_path_factory.mktemp("vocab")

  def unpacked(name):
    path = folder / f"{name}.txt"
    if not path.exists():
      packed = GOLDEN / "tokenization" / f"{name}_vocab.txt.gz"
      path.write_bytes(gzip.decompress(packed.read_bytes()))
    return str(path)

  return unpacked


def read_inputs(names):
  for name in names:
    with open(INPUTS / f"{name}.txt", encoding="utf-8", newline="\n") as text:
      yield from text


def make_features(lines, encode, vocab, options):
  vocabulary = pretraining_data.Vocabulary(vocab)
  corpus = pretraining_data.read_corpus(lines, encode, vocabulary.dtype)
  rng = random.Random(options.random_seed)
  instances, order = pretraining_data.create_instances(
    corpus, vocabulary, options, rng
  )
  return pretraining_data.instance_features(
    corpus, instances, order, vocabulary, options
  )


def small_features(text, **options):
  """Instances of space-separated words of WORDS, a line a sentence."""
  return make_features(
    text.split("\n"),
    lambda line: [WORDS[word] for word in line.split()],
    WORDS,
    pretraining_data.Options(**options),
  )


@pytest.mark.parametrize("name", RUNS)
def test_every_field_of_every_record_in_order(name, vocab_file):
  inputs, vocabulary, changed = RUNS[name]
  tokenizer = tokenization.FullTokenizer(
    vocab_file(vocabulary), do_lower_case=name not in CASED
  )
  options = pretraining_data.Options(**{"dupe_factor": 5, **changed})
  features = make_features(
    read_inputs(inputs), tokenizer.encode, tokenizer.vocab, options
  )
  golden = np.load(GOLDEN / "pretraining_data" / f"{name}.npz")
  num_files = 3 if name == "multi_io" else 1
  assert set(features) == set(golden)
  for feature, expected in golden.items():
    files = [features[feature][first::num_files] for first in range(num_files)]
    np.testing.assert_array_equal(np.concatenate(files), expected, feature)


@pytest.mark.parametrize(
  "whole, expected",
  [
    (True, "c5c0d26ebdec31ad5e40649b7f56cc88473aad417cfaef085bcfce34586b4387"),
    (False, "25d9aab68ce2cb2caab341ded5ea977bd15546fef42c0336ca672e9474ace850"),
  ],
)
def test_a_longer_text_with_many_random_draws(whole, expected):
  """Sha256 of the original's records of some 280 random sentences."""
  rng = random.Random(5)
  words = [word for word in WORDS if not word.startswith("[")]
  sentences = [
    " ".join(rng.choices(words, k=rng.randint(1, 40))) for _ in range(300)
  ]
  sentences[::7] = [""] * len(sentences[::7])
  features = small_features(
    "\n".join(sentences), do_whole_word_mask=whole, dupe_factor=20
  )
  digest = hashlib.sha256()
  for name in sorted(features):
    digest.update(features[name].astype("<i4").tobytes())
  assert digest.hexdigest() == expected


def test_whole_words_are_masked_wholly():
  line = "a ##e ##f b ##e c d ##f ##f ##f a b"
  features = small_features(
    f"{line}\n{line}\n\n{line}\n{line}",
    do_whole_word_mask=True,
    max_seq_length=64,
    masked_lm_prob=0.4,
    dupe_factor=5,
  )
  for ids, positions, labels, weights in zip(
    features["input_ids"],
    features["masked_lm_positions"],
    features["masked_lm_ids"],
    features["masked_lm_weights"],
  ):
    original = ids.copy()
    count = int(weights.sum())
    masked = positions[:count].tolist()
    original[masked] = labels[:count]
    continues = (original >= WORDS["##e"]).tolist()
    for position in range(1, len(ids)):
      if continues[position]:
        assert (position in masked) == (position - 1 in masked)


def test_a_single_document_is_its_own_random_next():
  features = small_features("a b\nc d\na c", dupe_factor=2)
  assert features["next_sentence_labels"].any()


def test_blank_lines_end_documents_and_wordless_lines_do_not():
  lines = ["", "a", "\u200b", "b \n", "\u00a0\n", "\x1c", "c", "d"]
  corpus = pretraining_data.read_corpus(
    lines, lambda line: [7] if line.isascii() and line else [], np.dtype("H")
  )
  assert list(corpus.document_starts) == [0, 2, 4]
  assert list(corpus.sentence_starts) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("lines", [[], ["", " \n"], ["\u200b"]])
def test_no_sentence(lines):
  with pytest.raises(errors.InputError, match="holds no sentence"):
    pretraining_data.read_corpus(lines, lambda _: [], np.dtype("H"))


@pytest.mark.parametrize("token", ["[CLS]", "[SEP]", "[MASK]"])
def test_vocabulary_without_a_special_token(token):
  vocab = {name: index for name, index in WORDS.items() if name != token}
  with pytest.raises(errors.InputError) as error:
    pretraining_data.Vocabulary(vocab)
  assert f"has no {token};" in str(error.value)


@pytest.mark.parametrize(
  "option, value",
  [
    ("max_seq_length", 4),
    ("max_predictions_per_seq", 129),
    ("max_predictions_per_seq", 0),
    ("dupe_factor", 0),
    ("masked_lm_prob", 0.0),
    ("masked_lm_prob", 1.5),
    ("short_seq_prob", -0.1),
    ("short_seq_prob", 1.1),
  ],
)
def test_impossible_options(option, value):
  with pytest.raises(errors.InputError, match=f"--{option}={value}: must be"):
    pretraining_data.Options(**{option: value})


def test_ids_beyond_16_bits():
  vocab = {**WORDS, "z": 70000}
  features = make_features(
    ["z a", "z b"],
    lambda line: [vocab[word] for word in line.split()],
    vocab,
    pretraining_data.Options(masked_lm_prob=0.01, dupe_factor=1),
  )
  assert 70000 in features["input_ids"]
