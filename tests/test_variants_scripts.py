"""Every script with a variant of BERT, from a folder of Hugging Face."""

import gzip
import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  (the exported tokenizer's operations)

import modeling
import resumed_runs
import script_runner
import tiny_model
import tokenization
from checkpoints import weight_files
from variants import registry

GOLDEN = script_runner.ROOT / "tests" / "golden"
DATA = script_runner.ROOT / "tests" / "data"
RECORDS = GOLDEN / "pretraining_run"
SQUAD = GOLDEN / "squad" / "run"
# What each adds to the configuration.
VARIANTS = {
  "albert": {"embedding_size": 16, "num_hidden_groups": 1}, "distilbert": {}
}
CONFIG = {
  "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
  "intermediate_size": 48, "max_position_embeddings": 128,
  "type_vocab_size": 2, "initializer_range": 0.1,
}
TRAINING = {"do_train": True, "train_batch_size": 8, "learning_rate": 3e-3}


def run(script, code=0, **flags):
  done = script_runner.run(script, **flags)
  assert done.code == code, done.err
  return done


def config_of(variant, vocab_file):
  count = len(vocab_file.read_text(encoding="utf-8").splitlines())
  return modeling.BertConfig.from_dict({
    **CONFIG, "vocab_size": count, "variant": variant, **VARIANTS[variant]
  })


def make_model(folder, variant, vocab_file):
  """Writes random weights as Hugging Face's class of masked words."""
  folder.mkdir()
  config = config_of(variant, vocab_file)
  tiny_model.write_masked_lm(folder, config, do_lower_case=True)
  shutil.copyfile(vocab_file, folder / "vocab.txt")
  return folder


@pytest.fixture(scope="module", params=VARIANTS)
def model(request, tmp_path_factory):
  folder = tmp_path_factory.mktemp("model") / request.param
  return make_model(folder, request.param, RECORDS / "model" / "vocab.txt")


def results_in(path):
  pairs = re.findall(r"^(\S+) = (\S+)$", path.read_text(), re.M)
  return {name: float(value) for name, value in pairs}


def losses_in(folder):
  log = (folder / "train_log.jsonl").read_text().splitlines()
  return [row["loss"] for row in map(json.loads, log) if "loss" in row]


def check_resumed(script, folder, step, copy, **flags):
  """Trains again from a checkpoint in the middle, to the same weights."""
  shutil.copytree(folder, copy)
  steps = {
    int(path.name.split("-")[1].split(".")[0])
    for path in copy.glob("model.ckpt-*.commit")
  }
  assert step in steps and max(steps) > step
  shutil.rmtree(copy / "final_model")
  for path in copy.glob(f"model.ckpt-{max(steps)}.*"):
    path.unlink()
  done = run(script, **{**flags, "output_dir": copy})
  assert f"resuming from {copy}/model.ckpt-{step}\n" in done.err
  resumed_runs.assert_same_checkpoints(
    copy / f"model.ckpt-{max(steps)}", folder / f"model.ckpt-{max(steps)}"
  )


def test_fill_mask_from_a_folder_of_huggingface(model):
  done = run("fill_mask.py", model_dir=model, text=["the [MASK] is"], top_k=3)
  _, line = done.out.splitlines()
  words = re.fullmatch(r"  \[MASK\] 1: (\S+) 0\.\d+  \S+ 0.*", line)
  assert words[1] in (model / "vocab.txt").read_text().splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_pretraining_learns_and_resumes_bit_for_bit(variant, tmp_path):
  vocab_file = RECORDS / "model" / "vocab.txt"
  config = tmp_path / "bert_config.json"
  config.write_text(config_of(variant, vocab_file).to_json_string())
  flags = {
    **TRAINING, "bert_config_file": config, "vocab_file": vocab_file,
    "input_file": RECORDS / "a.tfrecord", "max_seq_length": 64,
    "max_predictions_per_seq": 10, "num_train_steps": 40,
    "num_warmup_steps": 4, "save_checkpoints_steps": 20, "log_steps": 5,
    "use_next_sentence_loss": False, "output_dir": tmp_path / "run",
  }
  run("run_pretraining.py", **flags, do_eval=True)
  losses = losses_in(tmp_path / "run")
  assert losses[-1] < losses[0] - 0.3
  results = results_in(tmp_path / "run" / "eval_results.txt")
  assert results["masked_lm_loss"] == pytest.approx(results["loss"])
  check_resumed(
    "run_pretraining.py", tmp_path / "run", 20, tmp_path / "again", **flags
  )
  filled = run(
    "fill_mask.py", model_dir=tmp_path / "run" / "final_model",
    text=["a [MASK]"],
  )
  assert "[MASK] 1: " in filled.out


def test_distilbert_is_not_trained_on_pairs(tmp_path):
  vocab_file = RECORDS / "model" / "vocab.txt"
  config = tmp_path / "bert_config.json"
  config.write_text(config_of("distilbert", vocab_file).to_json_string())
  done = run(
    "run_pretraining.py", code=1, do_train=True, bert_config_file=config,
    input_file=RECORDS / "a.tfrecord", max_seq_length=64,
    output_dir=tmp_path / "run",
  )
  assert "distilbert is trained on masked words alone; pass" in done.last_line
  assert "--use_next_sentence_loss=false" in done.last_line


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
  """A file of texts whose class is one word in them."""
  path = tmp_path_factory.mktemp("texts") / "train.csv"
  rows = [
    f"the {word} of a {'and ' * (number % 5)}is,{label}"
    for number in range(16)
    for word, label in (("first", "yes"), ("other", "no"))
  ]
  path.write_text("text,label\n" + "\n".join(rows) + "\n")
  return path


@pytest.mark.slow
def test_classifier_trains_resumes_converts_and_is_served(
  model, texts, tmp_path
):
  flags = {
    **TRAINING, "train_file": texts, "text_column": "text",
    "label_column": "label", "max_seq_length": 16, "model_dir": model,
    "num_train_epochs": 8, "save_checkpoints_steps": 16,
    "output_dir": tmp_path / "run",
  }
  run("run_classifier.py", **flags, do_eval=True, eval_file=texts)
  results = results_in(tmp_path / "run" / "eval_results.txt")
  assert results["eval_accuracy"] == 1.0
  check_resumed(
    "run_classifier.py", tmp_path / "run", 16, tmp_path / "again", **flags
  )
  final = tmp_path / "run" / "final_model"
  said = run(
    "convert_checkpoint.py", input=final, to="huggingface",
    output=tmp_path / "huggingface", verify=True,
  ).out
  assert "outputs: the same" in said
  answers = []
  for folder in (final, tmp_path / "huggingface"):
    done = run(
      "run_classifier.py", model_dir=folder, do_predict=True,
      predict_file="-", max_seq_length=16, stdin=b"the first of a\n",
      output_dir=tmp_path / "answers",
    )
    answers.append(done.out)
  assert "yes" in answers[0] and answers[0] == answers[1]
  run(
    "export_saved_model.py", head="classification", model_dir=final,
    export_dir=tmp_path / "export", max_seq_length=16, version=1,
  )
  exported = tf.saved_model.load(str(tmp_path / "export" / "1"))
  outputs = exported.signatures["serving_default"](
    text=tf.constant(["the first of a", "the other of a"])
  )
  assert outputs["label"].numpy().tolist() == [b"yes", b"no"]


@pytest.mark.slow
def test_squad_trains_resumes_and_predicts(model, tmp_path):
  for name in ("train", "dev"):
    packed = (SQUAD / f"{name}.json.gz").read_bytes()
    (tmp_path / f"{name}.json").write_bytes(gzip.decompress(packed))
  flags = {
    **TRAINING, "model_dir": model, "train_file": tmp_path / "train.json",
    "version_2_with_negative": True, "max_seq_length": 64, "doc_stride": 20,
    "max_query_length": 16, "max_train_steps": 8, "save_checkpoints_steps": 4,
    "output_dir": tmp_path / "run",
  }
  run(
    "run_squad.py", **flags, do_predict=True, predict_file=tmp_path / "dev.json"
  )
  answers = json.loads((tmp_path / "run" / "predictions.json").read_text())
  assert answers and all(isinstance(text, str) for text in answers.values())
  check_resumed(
    "run_squad.py", tmp_path / "run", 4, tmp_path / "again", **flags
  )
  said = run(
    "convert_checkpoint.py", input=tmp_path / "run" / "final_model",
    output=tmp_path / "huggingface", to="huggingface", verify=True,
  ).out
  assert "outputs: the same" in said


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_tagging_learns_resumes_and_predicts(variant, tmp_path):
  vocab_file = DATA / "ner_sample_vocab.txt"
  model = make_model(tmp_path / "model", variant, vocab_file)
  flags = {
    **TRAINING, "model_dir": model, "do_lower_case": False,
    "train_file": DATA / "ner_sample_train.conll", "max_seq_length": 32,
    "num_train_epochs": 3, "save_checkpoints_steps": 50,
    "output_dir": tmp_path / "run",
  }
  evaluated = DATA / "ner_sample_eval.conll"
  run(
    "run_ner.py", **flags, do_eval=True, eval_file=evaluated,
    do_predict=True, predict_file=evaluated,
  )
  losses = losses_in(tmp_path / "run")
  assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
  assert (tmp_path / "run" / "test_predictions.conll").exists()
  check_resumed("run_ner.py", tmp_path / "run", 50, tmp_path / "again", **flags)


@pytest.mark.slow
def test_features_are_the_encoders(model, tmp_path):
  (tmp_path / "lines.txt").write_text("the a of\nis and\n")
  flags = {
    "model_dir": model, "input_file": tmp_path / "lines.txt",
    "max_seq_length": 8, "output_file": tmp_path / "vectors.npz",
    "output_format": "npz",
  }
  run("extract_features.py", **flags, pooling="cls")
  with np.load(tmp_path / "vectors.npz") as stored:
    (name,) = [key for key in stored if stored[key].shape == (2, 32)]
    vectors = stored[name]
  reader = weight_files.open_reader(str(model))
  encoder = registry.make_encoder(modeling.BertConfig.from_dict(reader.config))
  weight_files.load(
    encoder.variables, reader, allowed_missing=["^bert/pooler/"]
  )
  tokenizer = tokenization.FullTokenizer(str(model / "vocab.txt"))
  for text, vector in zip(("the a of", "is and"), vectors):
    ids = tokenizer.convert_tokens_to_ids(
      ["[CLS]", *tokenizer.tokenize(text), "[SEP]"]
    )
    output = encoder(tf.constant([ids]))
    np.testing.assert_allclose(
      output.sequence_output[0, 0], vector, rtol=0, atol=1e-5
    )
  is_pooled = model.name != "distilbert"
  done = run(
    "extract_features.py", code=1 - is_pooled, **flags, pooling="pooled"
  )
  assert is_pooled or "has no bert/pooler/dense/bias" in done.last_line
