"""Runs every script with a variant of BERT in a Hugging Face folder."""

import contextlib
import shutil

import pytest
import tensorflow as tf

import modeling
import resumed_runs
import script_runner
import tiny_model
from checkpoints import model_files
from script_runner import logged, results_in
from variants import vocabularies

with contextlib.suppress(ModuleNotFoundError):
  import tensorflow_text  # noqa: F401  (the exported tokenizer's operations)

GOLDEN = script_runner.ROOT / "tests" / "golden"
RECORDS = GOLDEN / "pretraining_run"
VARIANTS = {
  "albert": {"embedding_size": 16, "num_hidden_groups": 1},
  "distilbert": {},
  "electra": {"embedding_size": 16},
  "modernbert": {"local_attention": 16, "classifier_pooling": "mean"},
}
CONFIG = {
  "hidden_size": 32,
  "num_hidden_layers": 2,
  "num_attention_heads": 2,
  "intermediate_size": 48,
  "max_position_embeddings": 128,
  "type_vocab_size": 2,
  "initializer_range": 0.1,
}
TRAINING = {"do_train": True, "train_batch_size": 8, "learning_rate": 3e-3}


def run(script, code=0, **flags):
  return script_runner.run(script, code=code, **flags)


def config_of(variant, vocab_file):
  count = len(vocab_file.read_text(encoding="utf-8").splitlines())
  return modeling.BertConfig.from_dict(
    {**CONFIG, "vocab_size": count, "variant": variant, **VARIANTS[variant]}
  )


def make_model(folder, variant, vocab_file):
  folder.mkdir()
  config = config_of(variant, vocab_file)
  tiny_model.write_masked_lm(folder, config, do_lower_case=True)
  shutil.copyfile(vocab_file, folder / "vocab.txt")
  return folder


@pytest.fixture(scope="module", params=VARIANTS)
def model(request, tmp_path_factory):
  folder = tmp_path_factory.mktemp("model") / request.param
  return make_model(folder, request.param, RECORDS / "model" / "vocab.txt")


def losses_in(folder):
  return [row["loss"] for row in logged(folder) if "loss" in row]


def test_fill_mask_with_a_huggingface_folder(model):
  text = "In 1990, [MASK]."
  done = run("fill_mask.py", model_dir=model, text=[text], top_k=3)
  printed_text, line = done.out.splitlines()
  assert printed_text == text
  words = line.removeprefix("  [MASK] 1: ").split()[::2]
  vocab_file = model_files.ModelFiles(str(model)).paths["vocab_file"]
  assert len(words) == 3
  assert set(words) <= vocabularies.load_vocab(vocab_file).keys()


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_pretraining_learns_and_resumes_bit_for_bit(variant, tmp_path):
  vocab_file = RECORDS / "model" / "vocab.txt"
  config = tmp_path / "bert_config.json"
  config.write_text(config_of(variant, vocab_file).to_json_string())
  flags = {
    **TRAINING,
    "bert_config_file": config,
    "vocab_file": vocab_file,
    "input_file": RECORDS / "a.tfrecord",
    "max_seq_length": 64,
    "max_predictions_per_seq": 10,
    "num_train_steps": 40,
    "num_warmup_steps": 4,
    "log_steps": 5,
    "use_next_sentence_loss": False,
    "output_dir": tmp_path / "run",
  }
  run("run_pretraining.py", **flags, do_eval=True)
  losses = losses_in(tmp_path / "run")
  assert losses[-1] < losses[0] - 0.3
  results = results_in(tmp_path / "run")
  assert results["masked_lm_loss"] == pytest.approx(results["loss"])
  six = {**flags, "num_train_steps": 6, "save_checkpoints_steps": 3}
  resumed_runs.assert_same_weights(
    lambda folder: run("run_pretraining.py", **{**six, "output_dir": folder}),
    tmp_path / "six",
  )


def test_distilbert_is_not_trained_on_pairs(tmp_path):
  vocab_file = RECORDS / "model" / "vocab.txt"
  config = tmp_path / "bert_config.json"
  config.write_text(config_of("distilbert", vocab_file).to_json_string())
  done = run(
    "run_pretraining.py",
    code=1,
    do_train=True,
    bert_config_file=config,
    input_file=RECORDS / "a.tfrecord",
    max_seq_length=64,
    output_dir=tmp_path / "run",
  )
  assert "distilbert has no next-sentence head; pass" in done.last_line
  assert "--use_next_sentence_loss=false" in done.last_line


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
  path = tmp_path_factory.mktemp("texts") / "train.csv"
  rows = [
    f"the {word} of a {'and ' * (number % 5)}is,{label}"
    for number in range(16)
    for word, label in (("first", "yes"), ("other", "no"))
  ]
  path.write_text("text,label\n" + "\n".join(rows) + "\n")
  return path


@pytest.mark.slow
def test_classifier_trains_converts_and_is_served(model, texts, tmp_path):
  flags = {
    **TRAINING,
    "train_file": texts,
    "text_column": "text",
    "label_column": "label",
    "max_seq_length": 16,
    "model_dir": model,
    "num_train_epochs": 8,
    "output_dir": tmp_path / "run",
  }
  run("run_classifier.py", **flags, do_eval=True, eval_file=texts)
  assert results_in(tmp_path / "run")["eval_accuracy"] == 1.0
  final = tmp_path / "run" / "final_model"
  output = run(
    "convert_checkpoint.py",
    input=final,
    to="huggingface",
    output=tmp_path / "huggingface",
    verify=True,
  ).out
  assert "outputs: the same" in output
  answers = []
  (tmp_path / "new.csv").write_text("text\nthe FIRST of a\nthe other of a\n")
  for folder in (final, tmp_path / "huggingface"):
    run(
      "run_classifier.py",
      model_dir=folder,
      do_predict=True,
      predict_file=tmp_path / "new.csv",
      text_column="text",
      max_seq_length=16,
      output_dir=tmp_path / "answers",
    )
    answers.append((tmp_path / "answers" / "predictions.tsv").read_text())
  labels = [line.split("\t")[1] for line in answers[0].splitlines()[1:]]
  assert labels == ["yes", "no"] and answers[0] == answers[1]
  run(
    "export_saved_model.py",
    head="classification",
    model_dir=final,
    export_dir=tmp_path / "export",
    max_seq_length=16,
    version=1,
  )
  exported = tf.saved_model.load(str(tmp_path / "export" / "1"))
  outputs = exported.signatures["serving_default"](
    text=tf.constant(["the first of a", "the other of a"])
  )
  assert outputs["label"].numpy().tolist() == [b"yes", b"no"]
