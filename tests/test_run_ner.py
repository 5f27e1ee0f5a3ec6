"""Runs run_ner.py with the flags that a user passes."""

import json

import pytest

import script_runner
import stored_weights
import tiny_model
from checkpoints import weight_files
from script_runner import results_in
from tagging import scores

DATA = script_runner.ROOT / "tests" / "data"
TRAIN, EVAL = DATA / "ner_sample_train.conll", DATA / "ner_sample_eval.conll"
TRAINING = {
  "do_train": True,
  "train_file": TRAIN,
  "train_batch_size": 16,
  "learning_rate": 2e-3,
  "num_train_epochs": 15,
}


@pytest.fixture(scope="module")
def config_file(tmp_path_factory):
  path = tmp_path_factory.mktemp("config") / "bert_config.json"
  path.write_text(
    tiny_model.tiny(
      vocab_size=169,
      hidden_size=64,
      intermediate_size=128,
      max_position_embeddings=64,
      initializer_range=0.02,
    ).to_json_string()
  )
  return path


def ner(config_file, folder, code=0, **flags):
  defaults = {
    "bert_config_file": config_file,
    "vocab_file": DATA / "ner_sample_vocab.txt",
    "do_lower_case": False,
    "max_seq_length": 32,
    "output_dir": folder,
  }
  return script_runner.run("run_ner.py", code=code, **{**defaults, **flags})


@pytest.fixture(scope="module")
def trained(config_file, tmp_path_factory):
  folder = tmp_path_factory.mktemp("ner") / "run"
  ner(
    config_file,
    folder,
    **TRAINING,
    document_context=True,
    do_eval=True,
    eval_file=EVAL,
    do_predict=True,
    predict_file=EVAL,
  )
  return folder


def test_the_files_of_flags_and_results_repeat_the_run(trained):
  path, results = trained / "flags.txt", results_in(trained)
  text = path.read_text(encoding="utf-8")
  assert "\n--document_context\n" in text and "\n--nodo_lower_case\n" in text
  stored = json.loads((trained / "eval_results.json").read_text())
  assert stored == pytest.approx(results)
  # The run is finished, so it is only evaluated again.
  script_runner.succeed("run_ner.py", flagfile=path, word_column=0)
  assert results_in(trained) == results
  # This command read the file, so it did not write it.
  assert path.read_text(encoding="utf-8") == text


def test_two_hundred_sentences_train_to_f1_above_95_percent(trained):
  results = results_in(trained)
  assert results["f1"] > 0.95
  assert results["global_step"] == 187
  del results["global_step"]
  assert results_in(trained / "test_results.txt") == pytest.approx(results)
  for name in ("eval", "test"):
    heading, _ = (trained / f"{name}_report.txt").read_text().split("\n", 1)
    assert heading.split() == ["precision", "recall", "f1-score", "support"]
  page = (trained / "report.html").read_text(encoding="utf-8")
  assert (trained / "eval_report.txt").read_text() in page
  card = (trained / "final_model" / "README.md").read_text(encoding="utf-8")
  assert "`B-PER`" in card and "pipeline_tag: token-classification" in card


def test_predictions_are_the_file_with_one_more_column(trained):
  lines = EVAL.read_text(encoding="utf-8").splitlines()
  output = (trained / "test_predictions.conll").read_text(encoding="utf-8")
  gold, predicted = [[]], [[]]
  for line, output_line in zip(lines, output.splitlines(), strict=True):
    if line:
      assert output_line.rpartition(" ")[0] == line
      gold[-1].append(line.split()[-1])
      predicted[-1].append(output_line.split()[-1])
    else:
      gold.append([])
      predicted.append([])
  results = scores.evaluate(gold, predicted, 0.0, "iob2").results
  f1 = results_in(trained)["f1"]
  assert results["f1"] == pytest.approx(f1)


WORDS = "Anna\nLang\nwon\n\n" + "Bern\n" * 40


def test_the_model_folder_knows_its_labels_and_input(trained, tmp_path):
  (tmp_path / "words.txt").write_text(WORDS)
  script_runner.succeed(
    "run_ner.py",
    model_dir=trained / "final_model",
    do_predict=True,
    predict_file=tmp_path / "words.txt",
    output_dir=tmp_path / "run",
    eager=True,
  )
  assert not (tmp_path / "run" / "test_results.txt").exists()
  tagged = (tmp_path / "run" / "test_predictions.conll").read_text()
  lines = tagged.split("\n")
  assert lines[:3] == ["Anna B-PER", "Lang I-PER", "won O"]
  assert [line.split()[0] for line in lines[4:-1]] == ["Bern"] * 40
  config = json.loads((trained / "final_model/bert_config.json").read_text())
  assert config["input_settings"] == {
    "max_seq_length": 32,
    "document_context": True,
    "scheme": "iob2",
    "do_lower_case": False,
  }


def test_json_lines_are_labelled(trained, tmp_path):
  lines = [{"words": WORDS.split()[:3], "id": 7}, {"words": ["Bern"] * 40}]
  path = tmp_path / "new.jsonl"
  path.write_text("\n".join(map(json.dumps, lines)))
  done = script_runner.succeed(
    "run_ner.py",
    model_dir=trained / "final_model",
    do_predict=True,
    predict_file=path,
    output_dir=tmp_path / "run",
    max_seq_length=33,
    eager=True,
  )
  assert "--max_seq_length=33 (trained with 32)" in done.err
  output = (tmp_path / "run" / "test_predictions.jsonl").read_text()
  first, second = map(json.loads, output.splitlines())
  assert first == {**lines[0], "predicted": ["B-PER", "I-PER", "O"]}
  assert second["words"] == ["Bern"] * 40 and len(second["predicted"]) == 40


def test_a_run_continues_only_with_its_own_labels(trained, config_file):
  done = ner(config_file, trained, **TRAINING)
  assert "nothing to train" in done.err
  done = ner(
    config_file, trained, code=1, **TRAINING, label_column=2, scheme="iob2"
  )
  assert "belongs to another run: bert_config.id2label.1 is" in done.last_line


def test_a_label_outside_the_set_is_named(trained, config_file, tmp_path):
  path = tmp_path / "new.conll"
  path.write_text("Bern NNP B-NP B-LOC\nruns VB B-VP B-TIME\n")
  flags = {"do_predict": True, "predict_file": path, "eager": True}
  done = ner(config_file, trained, code=1, **flags)
  assert (
    "new.conll:2: 'B-TIME' is not among the labels with which the model was "
    "trained (O, B-LOC, B-MISC, B-ORG, B-PER, I-LOC, I-MISC, I-ORG, I-PER)"
  ) in done.last_line
  done = ner(config_file, trained, **flags, predict_labels=False)


@pytest.mark.slow
def test_parts_of_speech_are_another_column(config_file, tmp_path):
  ner(
    config_file,
    tmp_path / "run",
    **{**TRAINING, "num_train_epochs": 0.2},
    label_column=1,
    scheme="none",
    do_eval=True,
    eval_file=EVAL,
    eval_steps=1,
    save_best="accuracy",
    num_logical_cpus=2,
    distribution_strategy="mirrored",
  )
  results = results_in(tmp_path / "run")
  assert sorted(results) == ["accuracy", "global_step", "loss"]
  best = tmp_path / "run" / "best_model" / "bert_config.json"
  labels = json.loads(best.read_text())["id2label"]
  assert {"NNP", "VBZ", "."} <= set(labels.values())


@pytest.mark.slow
def test_a_search_reads_its_sentences_once(config_file, tmp_path):
  done = ner(
    config_file,
    tmp_path,
    **{**TRAINING, "num_train_epochs": None},
    do_eval=True,
    eval_file=EVAL,
    search="num_train_epochs=0.5,4",
  )
  header, best, worst = [line.split("\t") for line in done.out.splitlines()]
  assert header[:3] == ["num_train_epochs", "f1", "accuracy"]
  assert best[0] == "4.0" and float(best[1]) > float(worst[1])
  assert not list(tmp_path.glob("*/*.tf_record"))
  assert (tmp_path / "final_model" / "bert_config.json").exists()


def test_frozen_features(trained, config_file, tmp_path):
  start = trained / "final_model" / "bert_model.ckpt"
  weights = stored_weights.read(str(start))
  encoder = tmp_path / "encoder.ckpt"
  weight_files.write_tf1(
    str(encoder), {k: v for k, v in weights.items() if k.startswith("bert/")}
  )
  done = ner(
    config_file,
    tmp_path / "run",
    **{**TRAINING, "num_train_epochs": 0.2},
    freeze_encoder=True,
    feature_layers="second_to_last",
    bilstm_size=8,
    init_checkpoint=encoder,
    do_eval=True,
    eval_file=EVAL,
  )
  # A frozen encoder computes the states of each file once.
  assert done.err.count("computing the encoder's states of") == 2
  model = tmp_path / "run" / "final_model"
  after = stored_weights.read(str(model / "bert_model.ckpt"))
  for name, value in weights.items():
    if name.startswith("bert/"):
      assert after[name].tobytes() == value.tobytes(), name
  assert after["output_bias"].any()
  # The folder stores the feature flags; evaluation computes the states again.
  ner(
    config_file,
    tmp_path / "again",
    bert_config_file=None,
    vocab_file=None,
    do_lower_case=None,
    max_seq_length=None,
    model_dir=model,
    do_eval=True,
    eval_file=EVAL,
  )
  results, again = results_in(tmp_path / "run"), results_in(tmp_path / "again")
  assert again["loss"] == pytest.approx(results["loss"], abs=1e-5)


@pytest.mark.parametrize(
  "flags, message",
  [
    ({}, "pass at least one of --do_train, --do_eval, --do_predict"),
    (
      {**TRAINING, "feature_layers": "middle", "freeze_encoder": True},
      "flag --feature_layers=middle: value should be one of <embeddings|second",
    ),
    (
      {
        **TRAINING,
        "feature_layers": "concat_last_four",
        "freeze_encoder": True,
      },
      "needs 4 layers, but the model has 2",
    ),
    (
      {**TRAINING, "scheme": "iob1"},
      "ner_sample_train.conll:10: B-PER follows O, which iob1 does not allow",
    ),
    ({"do_eval": True, "eval_file": EVAL}, "no labels known"),
    ({**TRAINING, "num_train_epochs": 0.01}, "too few examples"),
    ({"do_eval": True, "eval_file": EVAL, "seed": 1}, "--seed needs --do_tr"),
  ],
)
def test_errors_are_one_sentence(config_file, tmp_path, flags, message):
  done = ner(config_file, tmp_path / "run", code=1, **flags)
  _, mark, error = done.err.partition("run_ner.py: error: ")
  assert mark and message in error
  assert "Traceback" not in done.err
