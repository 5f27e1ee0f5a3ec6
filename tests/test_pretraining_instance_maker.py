"""Compares instances with the original's and with plain loops."""

import hashlib
import pathlib
import random

import numpy as np
import pytest

import small_corpus
import tiny_model
import tokenization
from pretraining import data, instance_maker, masks

GOLDEN = pathlib.Path(__file__).parent / "golden"
INPUTS = GOLDEN / "pretraining_data" / "inputs"

# Name: input files, vocabulary, options other than the README's.
RUNS = {
  "readme": (["sample_text"], "uncased", {}),
  "wwm": (["sample_text"], "uncased", {"masking": "whole_words"}),
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
  # In the order in which the original's unsorted glob listed them.
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
  for index, token in enumerate([*tiny_model.SPECIAL, *"abcd", "##e", "##f"])
}


def read_inputs(names):
  for name in names:
    with open(INPUTS / f"{name}.txt", encoding="utf-8", newline="\n") as text:
      yield from text


def small_features(text, vocab=WORDS, rng=None, **options):
  return small_corpus.features_of(
    text.split("\n"),
    lambda line: [vocab[word] for word in line.split()],
    vocab,
    small_corpus.record_options(**options),
    rng,
  )


@pytest.mark.parametrize("name", RUNS)
def test_every_field_of_every_record_in_order(name, tmp_path):
  inputs, vocabulary, changed = RUNS[name]
  tokenizer = tokenization.FullTokenizer(
    small_corpus.released_vocab(tmp_path, vocabulary),
    do_lower_case=name not in CASED,
  )
  features = small_corpus.features_of(
    read_inputs(inputs),
    tokenizer.encode,
    tokenizer.vocab,
    small_corpus.record_options(**{"dupe_factor": 5, **changed}),
  )
  golden = np.load(GOLDEN / "pretraining_data" / f"{name}.npz")
  num_files = 3 if name == "multi_io" else 1
  assert set(features) == set(golden)
  for feature, expected in golden.items():
    files = [features[feature][first::num_files] for first in range(num_files)]
    np.testing.assert_array_equal(np.concatenate(files), expected, feature)


def update(digest, features):
  for name in sorted(features):
    digest.update(features[name].astype("<i4").tobytes())


@pytest.mark.parametrize(
  "masking, expected",
  [
    (
      "whole_words",
      "c5c0d26ebdec31ad5e40649b7f56cc88473aad417cfaef085bcfce34586b4387",
    ),
    (
      "pieces",
      "25d9aab68ce2cb2caab341ded5ea977bd15546fef42c0336ca672e9474ace850",
    ),
  ],
)
def test_a_longer_text_with_many_random_draws(masking, expected):
  """Expects the SHA-256 of the original's records of 257 sentences."""
  rng = random.Random(5)
  words = [word for word in WORDS if not word.startswith("[")]
  sentences = [
    " ".join(rng.choices(words, k=rng.randint(1, 40))) for _ in range(300)
  ]
  sentences[::7] = [""] * len(sentences[::7])
  digest = hashlib.sha256()
  update(
    digest,
    small_features("\n".join(sentences), masking=masking, dupe_factor=20),
  )
  assert digest.hexdigest() == expected


# The default four times, the rest of the paper's table 8, and shares that need
# rounding.
MASK_SHARES = (
  *["80,10,10"] * 4,
  "100,0,0",
  "80,0,20",
  "80,20,0",
  "0,20,80",
  "0,0,100",
  "10,27,63",
)


def random_text(rng):
  """Returns documents, in which no sentence starts inside a word."""
  return "\n\n".join(
    "\n".join(
      " ".join(["a", *rng.choices([*WORDS][5:], k=rng.choice([0, 1, 8, 70]))])
      for _ in range(rng.randint(1, 6))
    )
    for _ in range(rng.randint(1, 6))
  )


@pytest.mark.parametrize(
  "masking, packing, expected",
  [
    ("pieces", "sentence_pairs", "d80ae3fa07c05098"),
    ("whole_words", "sentence_pairs", "c92c94f93c90f009"),
    ("none", "sentence_pairs", "6c30330eba2b12d2"),
    ("pieces", "full_sentences", "e66858537336f094"),
    ("whole_words", "full_sentences", "1091fa9f625eef59"),
    ("none", "full_sentences", "67e1bab22cfda617"),
  ],
)
def test_random_options(masking, packing, expected, monkeypatch):
  """Expects the SHA-256 of records that plain loops over token lists made."""
  # So small that masks become arrays in several parts.
  monkeypatch.setattr(masks, "_TOGETHER", 7)
  rng, digest = random.Random(f"{masking} {packing}"), hashlib.sha256()
  for _ in range(25):
    options = {
      "max_seq_length": rng.choice([5, 6, 16, 40, 128]),
      "max_predictions_per_seq": rng.choice([0, 1, 5, 20, 200]),
      "dupe_factor": rng.randint(1, 3),
      "masked_lm_prob": rng.choice([0, 0.15, 0.15, 0.5, 1]),
      "short_seq_prob": rng.choice([0, 0.1, 0.5, 1]),
      "mask_shares": masks.parse_shares(rng.choice(MASK_SHARES).split(",")),
    }
    update(
      digest,
      small_features(
        random_text(rng), masking=masking, packing=packing, rng=rng, **options
      ),
    )
  assert digest.hexdigest()[:16] == expected


def test_a_single_document_is_its_own_random_next():
  features = small_features("a b\nc d\na c", dupe_factor=2)
  assert features["next_sentence_labels"].any()


def test_ids_beyond_16_bits():
  features = small_features(
    "z a\nz b", {**WORDS, "z": 70000}, masked_lm_prob=0.01, dupe_factor=1
  )
  assert 70000 in features["input_ids"]


def test_empty_text_gives_no_instances():
  assert small_features("\n")["input_ids"].shape == (0, 128)


def test_words_of_a_segmenter_are_masked_together():
  lines = ["a b c d"] * 8 + [""] + ["a b c d"] * 8
  vocabulary = data.Vocabulary(WORDS)
  corpus = data.read_corpus(
    lines,
    lambda block: (
      [WORDS[word] for line in block for word in line.split()],
      [len(line.split()) for line in block],
      # a and "b c d" are the words.
      bytes([0, 0, 1, 1]) * sum(map(bool, block)),
    ),
    vocabulary,
  )
  options = small_corpus.record_options(
    masking="whole_words", masked_lm_prob=0.4, dupe_factor=3, max_seq_length=35
  )
  instances = instance_maker.create_instances(
    corpus, vocabulary, options, random.Random(1)
  )
  features = instances.features(0, len(instances))
  num_c = 0
  for labels, count in zip(
    features["masked_lm_ids"], features["masked_lm_weights"].sum(1)
  ):
    labels = labels[: int(count)].tolist()
    num_c += labels.count(WORDS["c"])
    # Segments are truncated at their ends, where words may lose tokens.
    assert abs(labels.count(WORDS["c"]) - labels.count(WORDS["b"])) <= 4
  assert num_c
