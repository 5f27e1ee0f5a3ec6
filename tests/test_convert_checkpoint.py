"""Runs convert_checkpoint.py as a user does."""

import re
import shutil

import script_runner

GOLDEN = script_runner.ROOT / "tests" / "golden"
MODEL = GOLDEN / "huggingface" / "BertForSequenceClassification"
TRAINING_CHECKPOINT = GOLDEN / "checkpoints" / "model.ckpt-12"
LINEAR_CONFIG = GOLDEN / "models" / "linear_L1_H32" / "bert_config.json"


def convert(**flags):
  return script_runner.succeed("convert_checkpoint.py", **flags)


def test_every_weight_is_reported_and_both_models_are_compared(tmp_path):
  flags = dict(input=MODEL, to="tf1", verify=True)
  finished = convert(**flags, output=tmp_path / "o", verbose=True)
  lines = finished.out.strip().split("\n")
  assert "output_weights [3, 8] -> output_weights" in lines
  assert f"wrote 41 tensors of {MODEL} (Hugging Face) to " in finished.out
  assert lines[-1] == (
    "outputs: the same (largest difference 0 of labels, pooled_output, "
    "sequence_output; up to 0.001 is rounding)"
  )
  # The input has no vocabulary.
  assert "pass --vocab_file" in finished.out
  # Without --verbose, there is no line for each weight.
  quiet = convert(**flags, output=tmp_path / "quiet")
  expected = finished.out.replace(str(tmp_path / "o"), str(tmp_path / "quiet"))
  assert quiet.out.split("\n") == [
    line for line in expected.split("\n") if " -> " not in line
  ]
  assert "loaded from" not in quiet.err
  names = sorted(path.name for path in (tmp_path / "o").iterdir())
  assert names == [
    "bert_config.json",
    "bert_model.ckpt.data-00000-of-00001",
    "bert_model.ckpt.index",
  ]


def test_optimizer_state_is_left_out_of_a_huggingface_folder(tmp_path):
  finished = convert(
    input=TRAINING_CHECKPOINT,
    output=tmp_path / "o",
    to="huggingface",
    bert_config_file=LINEAR_CONFIG,
    architecture="BertForPreTraining",
  )
  assert re.search("left out: .*, [.]{3}, .* [(]optimizer state", finished.out)
  assert "wrote 30 tensors of " in finished.out
  assert "left out 61\n" in finished.out
  assert (tmp_path / "o" / "model.safetensors").exists()


def test_faults_are_one_sentence(tmp_path):
  for flags, message in (
    (dict(input=tmp_path / "none"), "no checkpoint at "),
    (dict(input=TRAINING_CHECKPOINT), "pass --bert_config_file"),
    (dict(input=MODEL, architecture="BertModel"), "--architecture needs --to="),
  ):
    script_runner.refuse(
      "convert_checkpoint.py", message, output=tmp_path / "o", to="tf1", **flags
    )
  assert not list(tmp_path.iterdir())


def test_a_model_folder_grows(tmp_path):
  folder = tmp_path / "model"
  shutil.copytree(GOLDEN / "pretraining_run" / "model", folder)
  pieces = (folder / "vocab.txt").read_text().splitlines()
  # New words replace such tokens only if --use_unused_tokens is given.
  (folder / "vocab.txt").write_text("\n".join([*pieces[:-1], "[unused0]", ""]))
  (tmp_path / "words.txt").write_text("glim++\nlamp\n")
  finished = convert(
    model_dir=folder,
    output=tmp_path / "o",
    to="huggingface",
    verify=True,
    add_tokens=tmp_path / "words.txt",
    max_position_embeddings=80,
    verbose=True,
  )
  assert re.search(r"^glim\+\+ is token 100, .* of \[\d+, ", finished.out, re.M)
  assert re.search(r"^lamp is token 101, .* of \[\d+", finished.out, re.M)
  vocabulary = (tmp_path / "o" / "vocab.txt").read_text()
  assert vocabulary.endswith("\nglim++\nlamp\n")
  assert "pass --vocab_file" not in finished.out
  assert "new words: 2; the word embedding table has 102 rows" in finished.out
  assert "added to never_split due to punctuation: glim++" in finished.out
  assert "outputs: the same" in finished.out
