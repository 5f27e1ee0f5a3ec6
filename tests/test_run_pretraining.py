"""Runs run_pretraining.py without next sentences, and on next words."""

import json
import pathlib
import re

import pytest

import resumed_runs
import script_runner
import tiny_model
from checkpoints import weight_files
from message_facts import says
from script_runner import results_in, succeed

VOCAB = pathlib.Path("tests/golden/pretraining_run/model/vocab.txt")
LENGTHS = {"max_seq_length": 32, "max_predictions_per_seq": 5}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
  folder = tmp_path_factory.mktemp("data")
  vocab_size = len(VOCAB.read_text(encoding="utf-8").splitlines())
  config = tiny_model.tiny(
    vocab_size=vocab_size, max_position_embeddings=32, initializer_range=0.02
  )
  (folder / "bert_config.json").write_text(config.to_json_string())
  for name, flags in (
    ("dynamic", {"dynamic_masking": True}),
    ("masked", {**LENGTHS, "dupe_factor": 1}),
  ):
    succeed(
      "create_pretraining_data.py",
      input_file="sample_text.txt",
      output_file=folder / f"{name}.tfrecord",
      vocab_file=VOCAB,
      packing="full_sentences",
      **{**flags, "max_seq_length": 32},
    )
  return folder


def pretrain(files, name, output_dir, **flags):
  return succeed(
    "run_pretraining.py",
    **{
      **LENGTHS,
      "do_train": True,
      "input_file": files / f"{name}.tfrecord",
      "bert_config_file": files / "bert_config.json",
      "vocab_file": VOCAB,
      "output_dir": output_dir,
      "use_next_sentence_loss": False,
      "train_batch_size": 4,
      "num_warmup_steps": 1,
      "num_train_steps": 4,
      "learning_rate": 1e-3,
      **flags,
    },
  )


@pytest.mark.slow
def test_full_sentences_train_a_model_that_fills_masks(files, tmp_path):
  pretrain(files, "masked", tmp_path, do_eval=True, max_eval_steps=1)
  results = results_in(tmp_path)
  assert set(results) == {
    "global_step",
    "loss",
    "masked_lm_loss",
    "masked_lm_accuracy",
  }
  assert results["loss"] == pytest.approx(results["masked_lm_loss"], rel=1e-5)
  model = tmp_path / "final_model"
  config = json.loads((model / "bert_config.json").read_text())
  assert config["input_settings"] == {"max_seq_length": 32}
  names = weight_files.open_reader(str(model)).shapes
  filled = succeed("fill_mask.py", model_dir=model, text="a [MASK] here")
  assert "[MASK] 1:" in filled.out
  succeed(
    "convert_checkpoint.py",
    input=model,
    output=tmp_path / "hf",
    to="huggingface",
  )
  converted = weight_files.open_reader(str(tmp_path / "hf")).shapes
  assert set(converted) == set(names) - {"global_step"}


def rates(output_dir):
  lines = script_runner.logged(output_dir)
  return {values["step"]: values["learning_rate"] for values in lines}


@pytest.mark.slow
def test_stop_step_does_not_change_the_schedule(files, tmp_path):
  flags = {"num_train_steps": 6, "log_steps": 1}
  evaluation = {"do_eval": True, "max_eval_steps": 1}
  pretrain(files, "dynamic", tmp_path / "whole", **flags)
  stopped = tmp_path / "stopped"
  done = pretrain(files, "dynamic", stopped, **flags, **evaluation, stop_step=4)
  assert re.search(says("4", "6", "stopped"), done.err)
  assert results_in(stopped)["global_step"] == 4
  assert not (stopped / "model.ckpt-6.index").exists()
  # The same command again trains nothing.
  done = pretrain(files, "dynamic", stopped, **flags, stop_step=4)
  assert "is at step 4, and this command ends at step 4; to" in done.err
  pretrain(files, "dynamic", stopped, **flags)
  resumed_runs.assert_same_checkpoints(
    tmp_path / "whole" / "model.ckpt-6", stopped / "model.ckpt-6"
  )
  # A start with short sequences and other data does not change the schedule.
  short = {"max_seq_length": 16, "max_predictions_per_seq": 3}
  succeed(
    "create_pretraining_data.py",
    input_file="sample_text.txt",
    dupe_factor=1,
    output_file=tmp_path / "short.tfrecord",
    vocab_file=VOCAB,
    **short,
  )
  data = {"input_file": tmp_path / "short.tfrecord"}
  grown = tmp_path / "grown"
  pretrain(files, "", grown, **{**flags, **short, **data}, stop_step=4)
  done = pretrain(files, "dynamic", grown, **flags, **evaluation)
  assert "and continues with " in done.err
  assert rates(grown) == rates(tmp_path / "whole")
  assert results_in(grown)["global_step"] == 6
  model = json.loads((grown / "final_model/bert_config.json").read_text())
  assert model["input_settings"] == {"max_seq_length": 32}


@pytest.fixture(scope="module")
def left_to_right(files):
  config = json.loads((files / "bert_config.json").read_text())
  path = files / "left_to_right.json"
  path.write_text(json.dumps({**config, "variant": "left_to_right"}))
  return {"bert_config_file": path}


@pytest.mark.slow
def test_next_words_are_learned_from_both_formats_of_records(
  files, left_to_right, tmp_path
):
  # No vocabulary: nothing is masked.
  evaluation = {"do_eval": True, "max_eval_steps": 1}
  flags = {**left_to_right, **evaluation, "vocab_file": None}
  for name in ("dynamic", "masked"):
    pretrain(files, name, tmp_path / name, **flags)
    results = results_in(tmp_path / name)
    assert set(results) == {
      "global_step",
      "loss",
      "next_word_loss",
      "next_word_accuracy",
    }
    assert results["loss"] == pytest.approx(results["next_word_loss"], rel=1e-5)
  # XLA needs fixed shapes, so padding is not skipped.
  pretrain(files, "dynamic", tmp_path / "xla", **flags, jit_compile="true")
  model = tmp_path / "masked" / "final_model"
  done = script_runner.run(
    "fill_mask.py", model_dir=model, vocab_file=VOCAB, text="a [MASK] here"
  )
  assert done.code == 1 and "cannot fill [MASK]" in done.last_line


@pytest.mark.slow
def test_next_words_resume_to_the_same_weights(files, left_to_right, tmp_path):
  resumed_runs.assert_same_weights(
    lambda folder: pretrain(
      files,
      "masked",
      folder,
      **left_to_right,
      num_train_steps=6,
      save_checkpoints_steps=3,
    ),
    tmp_path,
  )


def test_flags_of_masked_words_are_refused_for_next_words(tmp_path):
  path = tmp_path / "bert_config.json"
  path.write_text(json.dumps({**tiny_model.TINY, "variant": "left_to_right"}))
  done = script_runner.run(
    "run_pretraining.py",
    do_train=True,
    use_next_sentence_loss=False,
    input_file=path,
    output_dir=tmp_path / "run",
    bert_config_file=path,
    max_seq_length=8,
    do_whole_word_mask=True,
  )
  assert done.code == 1
  reason = "has no effect: this model predicts the next word"
  assert f"--do_whole_word_mask {reason}" in done.err
