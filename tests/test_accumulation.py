"""Weights of accumulated gradients, whatever one call of the loop takes.

How many steps one call takes follows the clock: if weights depended on it, a
run that was stopped and went on would end elsewhere than one that was not.
"""


import numpy as np
import pytest

import script_runner
import stored_weights
import tiny_model
from records import tfrecord

GOLDEN = script_runner.ROOT / "tests" / "golden" / "pretraining_run"
DATA = script_runner.ROOT / "tests" / "data"
NUM_STEPS = 6
# Two layers: with one, no gradient flows from layer to layer.
SHAPE = {"max_position_embeddings": 64, "initializer_range": 0.02}
PRETRAINING = {
  "max_seq_length": 64, "max_predictions_per_seq": 10,
  "num_train_steps": NUM_STEPS, "num_warmup_steps": 2,
}
MASKED = {
  **PRETRAINING, "input_file": f"{GOLDEN}/a.tfrecord,{GOLDEN}/b.tfrecord"
}
FINETUNING = {
  "vocab_file": DATA / "ner_sample_vocab.txt", "do_lower_case": False,
  "max_train_steps": NUM_STEPS,
}
CLASSES = {**FINETUNING, "max_seq_length": 32}
TAGS = {
  **FINETUNING, "max_seq_length": 32,
  "train_file": DATA / "ner_sample_train.conll",
}
TWO = {"distribution_strategy": "mirrored", "num_logical_cpus": 2}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
  """A model's shape, and texts of 3 to 40 words with a class each."""
  folder = tmp_path_factory.mktemp("files")
  words = (GOLDEN / "model" / "vocab.txt").read_text().splitlines()
  for name, vocab_size in (
    ("bert_config.json", 169), ("pretraining.json", len(words))
  ):
    config = tiny_model.tiny(vocab_size=vocab_size, **SHAPE)
    (folder / name).write_text(config.to_json_string())
  vocabulary = FINETUNING["vocab_file"].read_text().split()
  words = [word for word in vocabulary if word.isalpha()]
  write_unmasked_records(folder / "unmasked.tfrecord")
  rng = np.random.RandomState(4)
  rows = [
    f"{' '.join(rng.choice(words, rng.randint(3, 41)))},{number % 2}"
    for number in range(64)
  ]
  (folder / "train.csv").write_text("\n".join(["text,label", *rows]) + "\n")
  return folder


def write_unmasked_records(path):
  """Writes what create_pretraining_data.py --dynamic_masking would."""
  with tfrecord.RecordWriter(str(path)) as writer:
    for record in tfrecord.read_records(str(GOLDEN / "a.tfrecord")):
      kept = {
        name: values for name, values in record.items() if "masked_" not in name
      }
      kept["word_starts"] = record["input_mask"]
      writer.write(tfrecord.serialize_example(kept))


def weights_after(files, output_dir, script, flags, iterations_per_loop):
  """All that a checkpoint holds after six steps of two parts each."""
  given = {"bert_config_file": files / "bert_config.json", **flags}
  if script == "run_classifier.py":
    given["train_file"] = files / "train.csv"
  if script == "run_pretraining.py":
    given["bert_config_file"] = files / "pretraining.json"
    given.setdefault("input_file", files / "unmasked.tfrecord")
  script_runner.succeed(
    script, do_train=True, train_batch_size=8, learning_rate=1e-3,
    gradient_accumulation_steps=2, output_dir=output_dir,
    iterations_per_loop=iterations_per_loop, log_steps=1000, **given
  )
  return stored_weights.read(str(output_dir / f"model.ckpt-{NUM_STEPS}"))


@pytest.mark.slow
@pytest.mark.parametrize(
  "script, flags",
  [
    ("run_pretraining.py", MASKED),
    ("run_pretraining.py", {**MASKED, "dtype": "bfloat16"}),
    ("run_pretraining.py", {**MASKED, "dtype": "float16"}),
    ("run_pretraining.py", {**MASKED, **TWO}),
    ("run_pretraining.py", {**MASKED, "freeze_encoder": True}),
    ("run_pretraining.py",
     {**PRETRAINING, "vocab_file": GOLDEN / "model" / "vocab.txt"}),
    ("run_classifier.py", {**CLASSES, "doc_stride": 8, "max_seq_length": 16}),
    ("run_classifier.py", {**CLASSES, "bucket_by_length": True}),
    ("run_classifier.py", {**CLASSES, "freeze_encoder": True}),
    ("run_ner.py", {**TAGS, "bucket_by_length": True}),
    ("run_ner.py", {**TAGS, "freeze_encoder": True, **TWO}),
  ],
  ids=[
    "float32", "bfloat16", "float16", "two_devices", "frozen_pretraining",
    "dynamic_masking", "windows", "classes_in_buckets", "frozen_classes",
    "tags_in_buckets", "frozen_tags_on_two_devices",
  ],
)
def test_the_length_of_a_block_is_all_one(files, tmp_path, script, flags):
  # Blocks of 1, 1, 1, 1, 1, 1 steps, and of 1, 5: the first call is short.
  one, other = [
    weights_after(files, tmp_path / str(length), script, flags, length)
    for length in (1, 1000)
  ]
  assert one["global_step"] == NUM_STEPS and one.keys() == other.keys()
  for name, value in one.items():
    np.testing.assert_array_equal(other[name], value, err_msg=name)
