"""Runs export_saved_model.py with the flags that a user passes."""

import contextlib
import json
import os
import shutil

import pytest
import tensorflow as tf

import script_runner
from exports import saved_model
from records import tfrecord
from serving_models import FOLDER
from squad import null_threshold

with contextlib.suppress(ModuleNotFoundError):
  import tensorflow_text  # noqa: F401  (the exported tokenizer's operations)

SCRIPT = "export_saved_model.py"
MODEL = {
  "bert_config_file": FOLDER / "bert_config.json",
  "vocab_file": FOLDER / "vocab.txt",
  "init_checkpoint": FOLDER,
  "max_seq_length": 64,
}


def run(tmp_path, **flags):
  return script_runner.succeed(
    SCRIPT, **{**MODEL, "export_dir": tmp_path / "model", **flags}
  )


def refuse(tmp_path, message, **flags):
  before = os.listdir(tmp_path)
  script_runner.refuse(
    SCRIPT, message, **{**MODEL, "export_dir": tmp_path / "model", **flags}
  )
  assert os.listdir(tmp_path) == before


def test_export(tmp_path):
  finished = run(tmp_path, head="masked_lm", version=7, top_k=2)
  assert finished.out == (
    f"The model is in {tmp_path}/model/7.\n"
    f"Serve it: python serve.py --saved_model_dir={tmp_path}/model\n"
  )
  assert "gives tokenization.py's ids" in finished.err
  assert os.listdir(tmp_path / "model") == ["7"]
  signature = tf.saved_model.load(str(tmp_path / "model" / "7")).signatures[
    "serving_default"
  ]
  outputs = signature(text=tf.constant(["the [MASK] is"]))
  assert outputs["fillings"].shape == (1, 1, 2)
  # The name that TensorFlow Serving gives to the folder, and a text.
  (request,) = tfrecord.read_serialized(
    str(tmp_path / "model" / "7" / saved_model.WARMUP_FILE)
  )
  assert b"\x05model" in request and b"[MASK]" in request


def test_onnx_in_8_bits(tmp_path):
  pytest.importorskip("onnxruntime")
  texts = tmp_path / "texts.txt"
  texts.write_text("a tall mast\nthe lamp and the keeper\n")
  finished = run(
    tmp_path,
    head="masked_lm",
    format="onnx",
    quantize="int8",
    calibration_file=texts,
  )
  difference, location = finished.out.splitlines()
  assert difference.startswith("8 bits: the outputs of 2 texts differ from th")
  assert location == f"The model is in {tmp_path}/model."
  assert (tmp_path / "model" / "model.onnx").exists()
  refuse(tmp_path, "model has an export for onnx, which", head="masked_lm")


def test_litert(tmp_path):
  pytest.importorskip("ai_edge_litert")
  from engines import litert_engine

  finished = run(
    tmp_path,
    head="embedding",
    format="litert",
    pooling="mean",
    max_seq_length=None,
    lengths="8,16",
    quantize="int8",
  )
  difference, advice, location = finished.out.splitlines()
  assert advice.endswith("one per line: --calibration_file=texts.txt")
  assert difference.startswith("8 bits: the outputs of 4 texts differ from th")
  assert location == f"The model is in {tmp_path}/model."
  engine = litert_engine.LiteRTEngine(str(tmp_path / "model"))
  assert engine.lengths == [8, 16]
  values = json.loads((tmp_path / "model/tokenizer_config.json").read_text())
  assert values["model_max_length"] == 16


def test_the_stored_null_threshold_is_loaded_unless_a_flag_gives_one(tmp_path):
  """The bad stored value is an error only if it is loaded."""
  model = tmp_path / "squad"
  shutil.copytree(FOLDER.parents[1] / "squad" / "run" / "model", model)
  weights = null_threshold.digest_of_checkpoint(str(model))
  (model / "null_threshold.json").write_text(
    json.dumps({"null_score_diff_threshold": "x", "weights": weights})
  )
  flags = {
    "head": "span",
    "version_2_with_negative": True,
    "max_seq_length": 16,
    "bert_config_file": model / "bert_config.json",
    "vocab_file": model / "vocab.txt",
    "init_checkpoint": model / "bert_model.ckpt",
  }
  refuse(tmp_path, "is 'x'; expected a number", **flags)
  message = "leaves no room for the passage"
  refuse(tmp_path, message, **flags, null_score_diff_threshold=1.5)


@pytest.mark.parametrize(
  "flags, message",
  [
    ({"head": "tagging"}, "[MASK] and tell whether a text follows, not to tag"),
    ({"head": "masked_lm", "init_checkpoint": None}, "pass --init_checkpoint"),
    # The configuration has labels, but the checkpoint has no head.
    (
      {"head": "classification", "bert_config_file": "{tmp}/named.json"},
      "tell whether a text follows (bad, good), not to classify",
    ),
    (
      {
        "head": "masked_lm",
        "init_checkpoint": "{tmp}/cased_L-2_H-8_A-2/bert_model.ckpt",
      },
      "pass --do_lower_case=False",
    ),
    (
      {
        "head": "masked_lm",
        "format": "onnx",
        "quantize": "int8",
        "calibration_file": "{tmp}/w",
      },
      "w:1: the number of tab-separated texts is 2",
    ),
    (
      {
        "head": "masked_lm",
        "format": "onnx",
        "dtype": "bfloat16",
        "version": 2,
      },
      "--dtype needs --format=saved_model (other formats are float32 or int8)",
    ),
  ],
)
def test_errors(flags, message, tmp_path):
  (tmp_path / "w").write_text("a\tb\n")
  config = json.loads(MODEL["bert_config_file"].read_text())
  config["id2label"] = {"0": "bad", "1": "good"}
  (tmp_path / "named.json").write_text(json.dumps(config))
  (tmp_path / "cased_L-2_H-8_A-2").symlink_to(FOLDER)
  flags = {
    name: value.format(tmp=tmp_path) if isinstance(value, str) else value
    for name, value in flags.items()
  }
  refuse(tmp_path, message, **flags)
