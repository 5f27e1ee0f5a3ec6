"""run_pretraining.py with the objectives of BERT's relatives."""

import pathlib
import re
import shutil

import numpy as np
import pytest

import script_runner
import tiny_model
from checkpoints import weight_files

VOCAB = pathlib.Path("tests/golden/pretraining_run/model/vocab.txt")
LENGTHS = {"max_seq_length": 32, "max_predictions_per_seq": 5}


def run(script, **flags):
  done = script_runner.run(script, **flags)
  assert done.code == 0, done.err
  return done


@pytest.fixture(scope="module")
def files(tmp_path_factory):
  """A small configuration, and records of each kind of masking."""
  folder = tmp_path_factory.mktemp("data")
  vocab_size = len(VOCAB.read_text(encoding="utf-8").splitlines())
  config = tiny_model.tiny(
    vocab_size=vocab_size, max_position_embeddings=32, initializer_range=0.02
  )
  (folder / "bert_config.json").write_text(config.to_json_string())
  for name, flags in (
    ("dynamic", {"dynamic_masking": True}),
    ("spans", {"mask_runs": "spans", **LENGTHS, "dupe_factor": 1}),
  ):
    run(
      "create_pretraining_data.py",
      input_file="sample_text.txt",
      output_file=folder / f"{name}.tfrecord",
      vocab_file=VOCAB,
      packing="doc_sentences",
      **{**flags, "max_seq_length": 32},
    )
  return folder


def pretrain(files, kind, output_dir, **flags):
  return run(
    "run_pretraining.py",
    **{
      **LENGTHS,
      "do_train": True,
      "input_file": files / f"{kind}.tfrecord",
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


def results(output_dir):
  text = (output_dir / "eval_results.txt").read_text()
  return {n: float(v) for n, v in re.findall(r"^(\w+) = (\S+)$", text, re.M)}


SPANBERT = {"span_boundary_objective": True}


def test_spanbert_is_trained_on_records_and_its_model_fills_masks(
  files, tmp_path
):
  pretrain(
    files, "spans", tmp_path, **SPANBERT, do_eval=True, max_eval_steps=1
  )
  found = results(tmp_path)
  assert set(found) == {
    "global_step", "loss", "masked_lm_loss", "masked_lm_accuracy",
    "span_boundary_loss", "span_boundary_accuracy",
  }
  total = found["masked_lm_loss"] + found["span_boundary_loss"]
  assert found["loss"] == pytest.approx(total, rel=1e-5)
  model = tmp_path / "final_model"
  names = weight_files.open_reader(str(model)).shapes
  assert "cls/span_boundary/layer_1/LayerNorm/gamma" in names
  filled = run(
    "fill_mask.py", model_dir=model, text="a [MASK] here", max_seq_length=32
  )
  assert "[MASK] 1:" in filled.out
  run(
    "convert_checkpoint.py", input=model, output=tmp_path / "hf",
    to="huggingface",
  )
  converted = weight_files.open_reader(str(tmp_path / "hf")).shapes
  assert set(converted) == {n for n in names if "/span_boundary/" not in n}


def assert_resumes_to_the_same_weights(run_steps, folder):
  """`run_steps`: function of a folder; six steps, saved after every third."""
  run_steps(folder / "whole")
  shutil.copytree(folder / "whole", folder / "resumed")
  for path in (folder / "resumed").glob("model.ckpt-6.*"):
    path.unlink()
  done = run_steps(folder / "resumed")
  assert "model.ckpt-3" in done.err
  whole, resumed = (
    weight_files.read_weights(str(folder / name / "model.ckpt-6"))
    for name in ("whole", "resumed")
  )
  assert whole.keys() == resumed.keys()
  for name, value in whole.items():
    np.testing.assert_array_equal(resumed[name], value, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
  "kind, flags", [("spans", {}), ("dynamic", {"mask_runs": "spans"})]
)
def test_spanbert_resumes_to_the_same_weights(files, tmp_path, kind, flags):
  def six_steps(output_dir):
    return pretrain(
      files, kind, output_dir, **SPANBERT, **flags,
      num_train_steps=6, save_checkpoints_steps=3,
    )

  assert_resumes_to_the_same_weights(six_steps, tmp_path)
