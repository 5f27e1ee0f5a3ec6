"""Continues fine-tuning runs of the original in their own folders.

The original itself is not run. A step-2 checkpoint of this project, reduced to
the variables that the original stores, replaces the original's checkpoint.
"""

import gzip
import json

import pytest

import resumed_runs
import script_runner
import stored_weights
import tiny_model
from checkpoints import weight_files

GOLDEN = script_runner.ROOT / "tests" / "golden"
TRAINING = {
  "do_train": True,
  "train_batch_size": 8,
  "learning_rate": 1e-3,
  "max_train_steps": 4,
  "save_checkpoints_steps": 2,
}


def classifier(folder):
  """Returns the script and its flags, except those in TRAINING."""
  rows = ["text,label"] + [
    f"{'a good' if n % 2 else 'no'} film number {n},{n % 2}" for n in range(32)
  ]
  (folder / "texts.csv").write_text("\n".join(rows) + "\n")
  return "run_classifier.py", {
    **tiny_model.write_shape(
      folder, "a good no film number".split(), max_position_embeddings=64
    ),
    "max_seq_length": 16,
    "train_file": folder / "texts.csv",
    "eval_file": folder / "texts.csv",
    "labels": "0,1",
  }


def squad(folder):
  """Returns the script and its flags, except those in TRAINING."""
  data = GOLDEN / "squad" / "run"
  train = json.loads(gzip.decompress((data / "train.json.gz").read_bytes()))
  for paragraphs in (article["paragraphs"] for article in train["data"]):
    del paragraphs[4:]
  (folder / "train.json").write_text(json.dumps(train))
  words = (data / "model" / "vocab.txt").read_text().split()
  return "run_squad.py", {
    **tiny_model.write_shape(folder, words[5:], max_position_embeddings=64),
    "max_seq_length": 64,
    "doc_stride": 20,
    "max_query_length": 16,
    "version_2_with_negative": True,
    "train_file": folder / "train.json",
    "eval_file": folder / "train.json",
  }


def names_of_the_original(task):
  """Returns the original's variable names for a model of two layers."""
  path = GOLDEN / "variables" / "released.json.gz"
  released = json.loads(gzip.decompress(path.read_bytes()))
  return {
    name
    for name in released[f"base_uncased_{task}_training"]
    if not any(f"/layer_{number}/" in name for number in range(2, 12))
  }


def write_original(folder, weights):
  """Writes a folder as the original leaves it after two steps."""
  folder.mkdir()
  weight_files.write_tf1(str(folder / "model.ckpt-2"), weights)
  (folder / "checkpoint").write_text(
    'model_checkpoint_path: "gs://bucket/run/model.ckpt-2"\n'
    'all_model_checkpoint_paths: "gs://bucket/run/model.ckpt-2"\n'
  )


def run(script, output_dir, **flags):
  flags = {"output_dir": output_dir, "do_eval": True, **flags}
  done = script_runner.succeed(script, **flags)
  results = (output_dir / "eval_results.txt").read_text()
  return done.err, results


@pytest.mark.slow
@pytest.mark.parametrize(
  "task, make", [("classifier", classifier), ("squad", squad)]
)
def test_a_folder_is_continued_and_evaluated(tmp_path, task, make):
  script, flags = make(tmp_path)
  _, expected = run(script, tmp_path / "whole", **flags, **TRAINING)
  weights = stored_weights.read(str(tmp_path / "whole" / "model.ckpt-2"))
  names = names_of_the_original(task)
  assert {name for name in weights if name not in names} == {"applied_updates"}
  original = {name: weights[name] for name in names}
  assert original["global_step"] == 2
  for name in ("evaluated", "continued"):
    write_original(tmp_path / name, original)

  train_file = flags.pop("train_file")
  log, results = run(script, tmp_path / "evaluated", **flags)
  assert "another program, such as google-research/bert, wrote this" in log
  assert "global_step = 2\n" in results

  log, results = run(
    script, tmp_path / "continued", train_file=train_file, **flags, **TRAINING
  )
  assert "then the run continues at step 2" in log
  assert results == expected
  resumed_runs.assert_same_checkpoints(
    tmp_path / "whole" / "model.ckpt-4", tmp_path / "continued" / "model.ckpt-4"
  )
