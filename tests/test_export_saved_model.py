"""export_saved_model.py as a user runs it."""

import json
import os
import shutil

import pytest
import tensorflow as tf

import script_runner
from serving_models import FOLDER
from squad import null_threshold

MODEL = {
  "bert_config_file": FOLDER / "bert_config.json",
  "vocab_file": FOLDER / "vocab.txt",
  "init_checkpoint": FOLDER,
  "max_seq_length": 64,
}


def run(tmp_path, **flags):
  return script_runner.run(
    "export_saved_model.py",
    **{**MODEL, "export_dir": tmp_path / "model", **flags},
  )


def test_export(tmp_path):
  warmup = tmp_path / "warmup.txt"
  warmup.write_text("a [MASK]\n[MASK] b\n")
  finished = run(
    tmp_path, head="masked_lm", version=7, top_k=2, warmup_file=warmup
  )
  assert finished.code == 0, finished.err
  assert finished.out == (
    f"The model is in {tmp_path}/model/7.\n"
    f"Serve it: python serve.py --saved_model_dir={tmp_path}/model\n"
  )
  assert "equals tokenization.py" in finished.err
  assert os.listdir(tmp_path / "model") == ["7"]
  signature = tf.saved_model.load(
    str(tmp_path / "model" / "7")
  ).signatures["serving_default"]
  outputs = signature(text=tf.constant(["the [MASK] is"]))
  assert outputs["fillings"].shape == (1, 1, 2)
  finished = run(tmp_path, head="masked_lm", version=7)
  assert finished.code == 1 and "another --version" in finished.last_line


def test_the_null_threshold_is_that_of_the_weights(tmp_path):
  """It is read where it is stored with them, unless a number is given."""
  model = tmp_path / "squad"
  shutil.copytree(FOLDER.parents[1] / "squad" / "run" / "model", model)
  weights = null_threshold.digest_of_checkpoint(str(model))
  (model / "null_threshold.json").write_text(
    json.dumps({"null_score_diff_threshold": "x", "weights": weights})
  )
  flags = {
    "head": "span", "version_2_with_negative": True, "max_seq_length": 16,
    "bert_config_file": model / "bert_config.json",
    "vocab_file": model / "vocab.txt",
    "init_checkpoint": model / "bert_model.ckpt",
  }
  finished = run(tmp_path, **flags)
  assert finished.code == 1
  assert "is 'x'; expected a number" in finished.last_line
  finished = run(tmp_path, **flags, null_score_diff_threshold=1.5)
  assert "leaves no room for the passage" in finished.last_line


@pytest.mark.parametrize("flags, sentence", [
  ({"head": "tagging"}, "pass --labels or --label_file"),
  ({"head": "span", "labels": "a,b"}, "--labels needs --head=classification"),
  ({"head": "span"}, "--max_query_length=64 and 3"),
  ({"head": "masked_lm", "init_checkpoint": None}, "pass --init_checkpoint"),
  (
    {"head": "classification", "labels": "a,b"},
    "has no output_bias, output_weights",
  ),
  (  # Its labels are known: what is missing is the head.
    {"head": "classification", "bert_config_file": "{tmp}/named.json"},
    "has no output_bias, output_weights",
  ),
  (
    {
      "head": "masked_lm",
      "init_checkpoint": "cased_L-2_H-8_A-2/bert_model.ckpt",
    },
    "pass --do_lower_case=False",
  ),
  ({"head": "masked_lm", "warmup_file": "{tmp}/w"}, "w:1: 2 texts with tabs"),
])
def test_errors(flags, sentence, tmp_path):
  (tmp_path / "w").write_text("a\tb\n")
  config = json.loads(MODEL["bert_config_file"].read_text())
  config["id2label"] = {"0": "bad", "1": "good"}
  (tmp_path / "named.json").write_text(json.dumps(config))
  flags = {
    name: value.format(tmp=tmp_path) if isinstance(value, str) else value
    for name, value in flags.items()
  }
  finished = run(tmp_path, **flags)
  assert finished.code == 1
  assert finished.last_line.startswith("export_saved_model.py: error: ")
  assert sentence in finished.last_line
  assert not (tmp_path / "model").exists()
