"""run_ner.py as a user types it."""

import json
import pathlib
import re

import pytest

import script_runner
from checkpoints import weight_files
from tagging import data, scores

DATA = script_runner.ROOT / "tests" / "data"
TRAIN, EVAL = DATA / "ner_sample_train.conll", DATA / "ner_sample_eval.conll"
CONFIG = {
  "vocab_size": 169, "hidden_size": 64, "num_hidden_layers": 2,
  "num_attention_heads": 4, "intermediate_size": 128,
  "max_position_embeddings": 64, "type_vocab_size": 2,
}
TRAINING = {
  "do_train": True, "train_file": TRAIN, "train_batch_size": 16,
  "learning_rate": 2e-3, "num_train_epochs": 15,
}


@pytest.fixture(scope="module")
def config_file(tmp_path_factory):
  path = tmp_path_factory.mktemp("config") / "bert_config.json"
  path.write_text(json.dumps(CONFIG))
  return path


def ner(config_file, folder, **flags):
  defaults = {
    "bert_config_file": config_file,
    "vocab_file": DATA / "ner_sample_vocab.txt", "do_lower_case": False,
    "max_seq_length": 32, "output_dir": folder,
  }
  return script_runner.run("run_ner.py", **{**defaults, **flags})


def results_in(path):
  pairs = re.findall(r"^(\S+) = (\S+)$", path.read_text(), re.M)
  return {name: float(value) for name, value in pairs}


@pytest.fixture(scope="module")
def trained(config_file, tmp_path_factory):
  """A folder after training on 200 sentences, and what was said."""
  folder = tmp_path_factory.mktemp("ner") / "run"
  done = ner(
    config_file, folder, **TRAINING, document_context=True,
    do_eval=True, eval_file=EVAL, do_predict=True, predict_file=EVAL,
  )
  assert done.code == 0, done.err
  return folder


def test_two_hundred_sentences_train_to_f1_above_95_percent(trained):
  results = results_in(trained / "eval_results.txt")
  assert results["f1"] > 0.95
  assert results["global_step"] == 187
  # Evaluated in batches, predicted in batches: the same words and labels.
  del results["global_step"]
  assert results_in(trained / "test_results.txt") == pytest.approx(results)


def test_predictions_are_the_file_with_one_more_column(trained):
  wanted = EVAL.read_text(encoding="utf-8").splitlines()
  found = (trained / "test_predictions.conll").read_text(encoding="utf-8")
  gold, predicted = [[]], [[]]
  for line, ours in zip(wanted, found.splitlines(), strict=True):
    if line:
      assert ours.rpartition(" ")[0] == line
      gold[-1].append(line.split()[-1])
      predicted[-1].append(ours.split()[-1])
    else:
      gold.append([])
      predicted.append([])
  found = scores.entity_scores(gold, predicted)
  f1 = results_in(trained / "eval_results.txt")["f1"]
  assert found["f1"] == pytest.approx(f1)


WORDS = "Anna\nLang\nwon\n\n" + "Bern\n" * 40


@pytest.fixture(scope="module")
def tagged(trained, tmp_path_factory):
  """Words that the trained folder has labelled, and what was logged."""
  folder = tmp_path_factory.mktemp("words")
  (folder / "words.txt").write_text(WORDS)
  done = script_runner.run(
    "run_ner.py", model_dir=trained / "final_model", do_predict=True,
    predict_file=folder / "words.txt", output_dir=folder / "run",
  )
  assert done.code == 0, done.err
  assert not (folder / "run" / "test_results.txt").exists()
  return (folder / "run" / "test_predictions.conll").read_text()


def test_the_model_folder_knows_its_labels(tagged):
  """Words alone are labelled by it, longer ones than the window too."""
  lines = tagged.split("\n")
  assert lines[:3] == ["Anna B-PER", "Lang I-PER", "won O"]
  assert [line.split()[0] for line in lines[4:-1]] == ["Bern"] * 40


def test_the_model_folder_knows_how_its_input_was_made(trained):
  config = json.loads((trained / "final_model/bert_config.json").read_text())
  assert config["input_settings"] == {
    "max_seq_length": 32, "document_context": True, "scheme": "iob2",
    "do_lower_case": False,
  }


def test_its_own_folder_says_how_the_input_is_made(trained, config_file):
  path = trained / "test_results.txt"
  before = path.read_text()
  flags = {"do_predict": True, "predict_file": EVAL}
  done = ner(config_file, trained, **flags, document_context=False)
  assert done.code == 0, done.err
  assert "--document_context=False (trained with True)" in done.err
  assert path.read_text() != before
  done = ner(config_file, trained, **flags, max_seq_length=None)
  assert done.code == 0, done.err
  assert path.read_text() == before


def test_the_standard_input_is_answered_as_a_file_is(trained, tagged):
  """With the folder alone; a flag that differs from training is named."""
  flags = {"model_dir": trained / "final_model", "do_predict": True}
  done = script_runner.run(
    "run_ner.py", stdin=WORDS.encode(), predict_file="-", **flags
  )
  assert done.code == 0, done.err
  assert done.out == tagged
  lines = [{"words": WORDS.split()[:3], "id": 7}, {"words": ["Bern"] * 40}]
  done = script_runner.run(
    "run_ner.py", stdin=b"Anna Lang won\n" + b"Bern " * 40, predict_file="-",
    file_format="text", **flags,
  )
  assert done.out == tagged + "\n", done.err
  text = "\n".join(map(json.dumps, lines)) + "\nAnna\n"
  done = script_runner.run(
    "run_ner.py", stdin=text.encode(), predict_file="-", file_format="jsonl",
    max_seq_length=33, **flags,
  )
  assert "--max_seq_length=33 (trained with 32)" in done.err
  first, second, bad = map(json.loads, done.out.splitlines())
  assert first == {**lines[0], "predicted": ["B-PER", "I-PER", "O"]}
  assert second["words"] == ["Bern"] * 40 and len(second["predicted"]) == 40
  assert "line 3: not JSON" in bad["error"]
  assert done.code == 1 and "1 line of the standard input" in done.last_line


def test_without_weights_nothing_is_tagged(trained, tmp_path):
  model = trained / "final_model"
  done = ner(
    model / "bert_config.json", tmp_path / "run", do_predict=True,
    predict_file=EVAL,
  )
  assert done.code == 1
  assert "no weights: there is no checkpoint in" in done.last_line
  assert not (tmp_path / "run" / "test_predictions.conll").exists()


def test_the_scores_of_each_type_are_a_table(trained):
  for name in ("eval", "test"):
    heading, *rows = (
      (trained / f"{name}_report.txt").read_text().split("\n\n")[0].split("\n")
    )
    assert heading.split() == ["precision", "recall", "f1-score", "support"]
    results = results_in(trained / f"{name}_results.txt")
    for row in rows:
      kind, _, _, f1, support = row.split()
      assert float(f1) == pytest.approx(results[f"f1_{kind}"], abs=1e-4)
      assert int(support) > 0


def test_a_run_goes_on_only_with_its_own_labels(trained, config_file):
  done = ner(config_file, trained, **TRAINING)
  assert done.code == 0 and "nothing to train" in done.err
  done = ner(config_file, trained, **TRAINING, label_column=2, scheme="iob2")
  assert done.code == 1
  assert "belongs to another run: bert_config.id2label.1 is" in done.last_line


def test_a_label_outside_the_set_is_named(trained, config_file, tmp_path):
  path = tmp_path / "new.conll"
  path.write_text("Bern NNP B-NP B-LOC\nruns VB B-VP B-TIME\n")
  flags = {"do_predict": True, "predict_file": path}
  done = ner(config_file, trained, **flags)
  assert done.code == 1
  assert (
    "new.conll:2: 'B-TIME' is none of the labels that the model was trained "
    "with (O, B-LOC, B-MISC, B-ORG, B-PER, I-LOC, I-MISC, I-ORG, I-PER)"
  ) in done.last_line
  done = ner(config_file, trained, **flags, predict_labels=False)
  assert done.code == 0, done.err


@pytest.mark.slow
def test_parts_of_speech_are_another_column(config_file, tmp_path):
  done = ner(
    config_file, tmp_path / "run", **{**TRAINING, "num_train_epochs": 0.2},
    label_column=1, scheme="none", do_eval=True, eval_file=EVAL, eval_steps=1,
    save_best="accuracy", num_logical_cpus=2, distribution_strategy="mirrored",
  )
  assert done.code == 0, done.err
  results = results_in(tmp_path / "run" / "eval_results.txt")
  assert sorted(results) == ["accuracy", "global_step", "loss"]
  best = tmp_path / "run" / "best_model" / "bert_config.json"
  labels = json.loads(best.read_text())["id2label"]
  assert {"NNP", "VBZ", "."} <= set(labels.values())


def test_frozen_features_are_compared_in_a_table(
  trained, config_file, tmp_path
):
  start = trained / "final_model" / "bert_model.ckpt"
  weights = weight_files.read_weights(str(start))
  encoder = tmp_path / "encoder.ckpt"
  weight_files.write_tf1(
    str(encoder), {k: v for k, v in weights.items() if k.startswith("bert/")}
  )
  choices = ["embeddings", "second_to_last"]
  done = ner(
    config_file, tmp_path / "run", **{**TRAINING, "num_train_epochs": 1},
    freeze_encoder=True, feature_layers=",".join(choices), bilstm_size=8,
    init_checkpoint=encoder, do_eval=True, eval_file=EVAL,
  )
  assert done.code == 0, done.err
  # The encoder is frozen: it reads each file once for all choices.
  assert done.err.count("computing the encoder's states of") == 2
  header, *rows = done.out.splitlines()
  assert header.split() == [
    "features", "precision", "recall", "f1", "accuracy", "loss"
  ]
  assert [row.split()[0] for row in rows] == choices
  for row in rows:
    results = results_in(tmp_path / "run" / row.split()[0] / "eval_results.txt")
    assert float(row.split()[3]) == pytest.approx(results["f1"], abs=1e-4)
  # The encoder is as it was, the head is not as it began.
  path = tmp_path / "run" / "embeddings" / "final_model" / "bert_model.ckpt"
  after = weight_files.read_weights(str(path))
  for name, value in weights.items():
    if name.startswith("bert/"):
      assert after[name].tobytes() == value.tobytes(), name
  assert after["output_bias"].any()


@pytest.mark.parametrize("flags, sentence", [
  ({}, "pass at least one of --do_train, --do_eval, --do_predict"),
  ({"do_train": True}, "--do_train needs --train_file"),
  ({**TRAINING, "feature_layers": "last"}, "needs --freeze_encoder"),
  ({**TRAINING, "feature_layers": "middle", "freeze_encoder": True},
   "--feature_layers=middle is unknown; choose of embeddings, second"),
  ({**TRAINING, "feature_layers": "concat_last_four",
    "freeze_encoder": True}, "needs 4 layers, but the model has 2"),
  ({**TRAINING, "scheme": "iob1"},
   "ner_sample_train.conll:10: B-PER follows O, which iob1 does not have"),
  ({"do_eval": True, "eval_file": EVAL}, "no labels known"),
  ({**TRAINING, "num_train_epochs": 0.01}, "make no step"),
  ({**TRAINING, "file_format": "text"},
   "--train_file has no effect with --file_format=text, which has neither"),
  ({**TRAINING, "output_dir": None}, "--do_train needs --output_dir"),
  ({"do_eval": True, "eval_file": EVAL, "seed": 1}, "--seed needs --do_tr"),
])
def test_what_is_wrong_is_said_in_one_sentence(
  config_file, tmp_path, flags, sentence
):
  done = ner(config_file, tmp_path / "run", **flags)
  assert done.code == 1
  # The faults of a file have a line each.
  _, mark, error = done.err.partition("run_ner.py: error: ")
  assert mark and sentence in error
  assert "Traceback" not in done.err


def test_the_sample_has_two_hundred_sentences_of_its_own():
  train, held_out = (data.read(str(path)) for path in (TRAIN, EVAL))
  assert (len(train), len(held_out)) == (200, 40)
  assert pathlib.Path(TRAIN).stat().st_size < 40_000
