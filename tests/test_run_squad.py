"""Runs run_squad.py with the flags that a user passes."""

import gzip
import json
import pathlib
import re
import shutil
import types

import pytest

import script_flags
import script_runner
import stored_weights
from checkpoints import weight_files
from common import errors, run_settings
from script_runner import results_in

GOLDEN = pathlib.Path(__file__).parent / "golden" / "squad" / "run"
MODEL = GOLDEN / "model"
LENGTHS = {"max_seq_length": 64, "doc_stride": 20, "max_query_length": 16}
WEIGHTS = {
  "bert_config_file": MODEL / "bert_config.json",
  "vocab_file": MODEL / "vocab.txt",
  "init_checkpoint": MODEL / "bert_model.ckpt",
}
V2 = {"version_2_with_negative": True}


def squad(code=0, **flags):
  return script_runner.run("run_squad.py", code=code, **{**LENGTHS, **flags})


def unpacked(name):
  return json.loads(gzip.decompress((GOLDEN / f"{name}.json.gz").read_bytes()))


def without_impossible(squad_json):
  (article,) = squad_json["data"]
  for paragraph in article["paragraphs"]:
    paragraph["qas"] = [
      {key: value for key, value in qa.items() if key != "is_impossible"}
      for qa in paragraph["qas"]
      if not qa["is_impossible"]
    ]
  return squad_json


@pytest.fixture(scope="module")
def files(tmp_path_factory):
  folder = tmp_path_factory.mktemp("data")
  train = unpacked("train")
  # One answer's text does not match its offset.
  train["data"][0]["paragraphs"][1]["qas"][0]["answers"][0]["text"] = "Basel"
  contents = {
    "train": train,
    "dev": unpacked("dev"),
    "dev_v1": without_impossible(unpacked("dev")),
  }
  for name, values in contents.items():
    (folder / f"{name}.json").write_text(json.dumps(values))
  return folder


def assert_like_golden(folder, name):
  for file, expected in unpacked(name).items():
    actual = json.loads((folder / f"{file}.json").read_text())
    assert list(actual) == list(expected)
    for qas_id, value in expected.items():
      if file == "predictions":
        assert actual[qas_id] == value
      elif file == "null_odds":
        assert actual[qas_id] == pytest.approx(value, abs=2e-5)
      else:
        for candidate, golden in zip(actual[qas_id], value, strict=True):
          assert candidate.pop("text") == golden.pop("text")
          assert candidate == pytest.approx(golden, abs=1e-5)


@pytest.fixture(scope="module")
def predicted(files, tmp_path_factory):
  folder = tmp_path_factory.mktemp("squad") / "run"
  done = squad(
    **WEIGHTS,
    **V2,
    do_predict=True,
    predict_file=files / "dev.json",
    output_dir=folder,
    n_best_size=10,
    null_score_diff_threshold=0.756,
  )
  return folder, done.out


def test_answers_are_the_originals_with_version_2(predicted):
  folder, out = predicted
  assert_like_golden(folder, "v2")
  results = results_in(out)
  assert results_in(folder) == results and list(results) == sorted(results)
  assert results["total"] == 93 and results["HasAns_total"] == 70
  assert results["null_score_diff_threshold"] == 0.756
  assert (folder / "eval.tf_record").exists()


def test_answers_are_the_originals_with_version_1(files, tmp_path):
  done = squad(
    **WEIGHTS,
    do_predict=True,
    predict_file=files / "dev_v1.json",
    output_dir=tmp_path,
    pad_to_max_length=True,
    predict_batch_size=7,
  )
  assert_like_golden(tmp_path, "v1")
  assert not (tmp_path / "null_odds.json").exists()
  results = results_in(done.out)
  assert results["exact_match"] == pytest.approx(27.142857)


def scored(**flags):
  done = script_runner.succeed("run_squad.py", evaluate_only=True, **flags)
  return results_in(done.out)


def test_predictions_are_scored_without_a_model(predicted, files, tmp_path):
  """The null odds come from a file next to the predictions, if it exists."""
  folder, out = predicted
  expected = results_in(out)
  del expected["global_step"], expected["null_score_diff_threshold"]
  flags = {**V2, "predict_file": files / "dev.json"}
  with_odds = folder / "predictions.json"
  assert scored(**flags, predictions_file=with_odds) == expected
  without_odds = shutil.copy(with_odds, tmp_path)
  basic = {k: v for k, v in expected.items() if not k.startswith("best_")}
  assert len(basic) < len(expected)
  assert scored(**flags, predictions_file=without_odds) == basic
  path = tmp_path / "v1.json"
  path.write_text(json.dumps(unpacked("v1")["predictions"]))
  v1 = scored(predict_file=files / "dev_v1.json", predictions_file=path)
  assert v1 == {"exact_match": pytest.approx(27.142857), "f1": v1["f1"]}


@pytest.fixture(scope="module")
def script():
  return script_flags.functions("run_squad")


@pytest.mark.parametrize(
  "units, f1", [("words", 50), ("characters", 80), ("auto", 50)]
)
def test_scores_of_predictions_are_printed_and_written(
  script, tmp_path, capsys, units, f1
):
  qa = {"id": "q", "question": "?", "answers": [{"text": "ab cde"}]}
  articles = [{"paragraphs": [{"context": "ab cde", "qas": [qa]}]}]
  (tmp_path / "dev.json").write_text(json.dumps({"data": articles}))
  (tmp_path / "p.json").write_text('{"q": "ab cdx"}')
  script.score_predictions(
    run_settings.Settings(
      {
        "version_2_with_negative": False,
        "f1_units": units,
        "predict_file": str(tmp_path / "dev.json"),
        "predictions_file": str(tmp_path / "p.json"),
        "output_dir": str(tmp_path),
      }
    )
  )
  expected = {"exact_match": 0, "f1": pytest.approx(f1)}
  assert results_in(capsys.readouterr().out) == expected
  assert results_in(tmp_path) == expected


@pytest.mark.parametrize(
  "mode, takes",
  [
    ("do_train", False),
    ("do_eval", True),
    ("do_predict", True),
    ("evaluate_only", False),
  ],
)
def test_only_answers_take_the_lengths_of_a_trained_model(script, mode, takes):
  taken = []

  def complete(settings, stored, head):
    taken.extend([*stored, head])
    raise errors.InputError("enough")

  modes = ("do_train", "do_eval", "do_predict", "evaluate_only")
  settings = run_settings.Settings({name: name == mode for name in modes})
  with pytest.raises(errors.InputError, match="enough"):
    script.complete_settings(settings, types.SimpleNamespace(complete=complete))
  assert ("max_seq_length" in taken) == takes and taken[-1] == "span"


@pytest.mark.parametrize(
  "steps, threshold, read",
  [
    ("predict", None, "predict"),
    ("train", "auto", "train eval"),
    ("predict", "auto", "predict eval"),
    ("eval", None, "eval"),
    ("train", "1.5", "train"),
  ],
)
def test_the_files_that_a_run_reads(script, steps, threshold, read):
  files = {f"{name}_file": name for name in ("train", "eval", "predict")}
  settings = run_settings.Settings(
    {
      **{f"do_{name}": name == steps for name in ("train", "eval", "predict")},
      **files,
      "eval_steps": 0,
      "null_score_diff_threshold": threshold,
    }
  )
  expected = {name: name for name in read.split()}
  assert script.files_to_read(settings) == expected
  if "eval" in read and threshold:
    with pytest.raises(errors.InputError, match="--eval_file"):
      script.files_to_read(settings.replace(eval_file=None))


class Steps(list):
  """The steps that a SquadRun takes."""

  def __init__(self, is_auto):
    self.threshold = types.SimpleNamespace(is_auto=is_auto)

  def evaluate(self):
    self.append("evaluate")
    return "answers", {"f1": 2.0}

  def predict(self, answers):
    self.append(f"predict {answers}")

  def __getattr__(self, name):
    return lambda: self.append(name)


@pytest.mark.parametrize(
  "flags, is_auto, steps",
  [
    ("do_train", False, "train"),
    ("do_train do_eval do_predict", False, "train evaluate predict answers"),
    ("do_predict", False, "load predict None"),
    ("do_predict", True, "load evaluate predict answers"),
    (
      "do_eval version_2_with_negative",
      False,
      "load look_up_threshold evaluate",
    ),
  ],
)
def test_the_steps_of_a_run(script, flags, is_auto, steps):
  names = "do_train do_eval do_predict version_2_with_negative".split()
  settings = {name: name in flags.split() for name in names}
  taken = Steps(is_auto)
  results = script.run_model(run_settings.Settings(settings), taken)
  assert " ".join(taken) == f"{steps} write_report"
  assert results == ({"f1": 2.0} if "evaluate" in steps else {})


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
  """The golden model's lower layer; like SpanBERT, without head and pooler."""
  folder = tmp_path_factory.mktemp("encoder")
  config = json.loads(WEIGHTS["bert_config_file"].read_text())
  config["num_hidden_layers"] = 1
  (folder / "bert_config.json").write_text(json.dumps(config))
  weights = stored_weights.read(str(WEIGHTS["init_checkpoint"]))
  weight_files.write_tf1(
    str(folder / "bert_model.ckpt"),
    {
      name: value
      for name, value in weights.items()
      if name.startswith("bert/") and not re.search("/layer_1/|/pooler/", name)
    },
  )
  return folder


@pytest.fixture(scope="module")
def trained(files, encoder, tmp_path_factory):
  folder = tmp_path_factory.mktemp("squad") / "run"
  done = squad(
    **V2,
    vocab_file=WEIGHTS["vocab_file"],
    init_checkpoint=encoder,
    bert_config_file=encoder / "bert_config.json",
    output_dir=folder,
    do_train=True,
    train_file=files / "train.json",
    train_batch_size=16,
    learning_rate=2e-3,
    num_train_epochs=1,
    log_steps=5,
    do_predict=True,
    predict_file=files / "dev.json",
    predict_batch_size=32,
    eval_steps=20,
    save_best="f1",
    eval_batch_size=32,
    null_score_diff_threshold="auto",
    num_logical_cpus=2,
    distribution_strategy="mirrored",
    verbose_logging=True,
  )
  return folder, done


def test_training_learns_and_writes_its_files(trained):
  folder, done = trained
  # A detail of the log, for which --verbose_logging asks.
  assert "'Basel' is not at answer_start" in done.err
  losses = [
    row["loss"] for row in script_runner.logged(folder) if "loss" in row
  ]
  assert len(losses) == 5 and losses[-1] < losses[0]
  names = {path.name for path in folder.iterdir()}
  assert names >= {
    "best_model",
    "final_model",
    "eval_results.txt",
    "predictions.json",
    "nbest_predictions.json",
    "null_odds.json",
    "null_threshold.json",
    "train.tf_record",
    "eval.tf_record",
    "model.ckpt-25.index",
    "report.html",
  }
  page = (folder / "report.html").read_text(encoding="utf-8")
  card = (folder / "final_model" / "README.md").read_text(encoding="utf-8")
  for name, value in results_in(folder).items():
    if name in ("exact", "f1"):
      assert f">{name}</td>" in page and f"| {name} | {value:.6g} |" in card
  assert "model.answer(" in card and page.count("<td>(no answer)</td>")
  assert "dev.tf_record" not in names  # eval.tf_record has its records.


def test_padding_takes_part_in_the_loss_only_if_asked(files, encoder, tmp_path):
  """As in the original, where every sequence is padded."""
  config = json.loads((encoder / "bert_config.json").read_text())
  config.update(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
  (tmp_path / "config.json").write_text(json.dumps(config))
  losses = []
  for pads in (False, True):
    squad(
      **V2,
      vocab_file=WEIGHTS["vocab_file"],
      init_checkpoint=encoder,
      bert_config_file=tmp_path / "config.json",
      output_dir=tmp_path / str(pads),
      do_train=True,
      train_file=files / "train.json",
      train_batch_size=16,
      max_train_steps=1,
      pad_to_max_length=pads,
      eager=True,
    )
    losses.append(script_runner.logged(tmp_path / str(pads))[0]["loss"])
  assert losses[0] < losses[1]


@pytest.mark.slow
def test_a_search_reads_its_passages_once(files, encoder, tmp_path):
  done = squad(
    **V2,
    vocab_file=WEIGHTS["vocab_file"],
    init_checkpoint=encoder,
    bert_config_file=encoder / "bert_config.json",
    output_dir=tmp_path,
    do_train=True,
    train_file=files / "train.json",
    train_batch_size=16,
    num_train_epochs=1,
    do_eval=True,
    eval_file=files / "dev.json",
    search="learning_rate=1e-9,2e-3",
  )
  table = done.out.splitlines()[-3:]
  header, best, worst = [line.split("\t") for line in table]
  assert header[:2] == ["learning_rate", "f1"]
  assert best[0] == "0.002" and float(best[1]) > float(worst[1])
  assert not list(tmp_path.glob("*/*.tf_record"))
  assert (tmp_path / "final_model" / "bert_config.json").exists()


def test_the_pooler_is_not_trained(trained):
  """As in the original: variables that the loss ignores have no moments."""
  folder, done = trained
  assert "newly initialized, as the checkpoint lacks it: the pooler" in done.err
  names = stored_weights.read(str(folder / "model.ckpt-25"))
  slots = [name for name in names if name.endswith(("/adam_m", "/adam_v"))]
  assert len(names) == 25 + len(slots) + 2  # Two counters.
  assert len(slots) == 2 * 23
  assert not [name for name in slots if "pooler" in name]


def test_the_model_folder_knows_its_threshold(trained, files, tmp_path):
  folder, _ = trained
  results = results_in(folder)
  assert results["f1"] == pytest.approx(results["best_f1"])
  done = squad(
    **V2,
    vocab_file=folder / "final_model" / "vocab.txt",
    bert_config_file=folder / "final_model" / "bert_config.json",
    init_checkpoint=folder / "final_model" / "bert_model.ckpt.index",
    output_dir=tmp_path,
    do_eval=True,
    eval_file=files / "dev.json",
    eval_batch_size=32,
  )
  later = results_in(done.out)
  assert later.pop("global_step") == results.pop("global_step") == 25
  assert later == pytest.approx(results)


def predictions_of(files, folder, **flags):
  done = script_runner.succeed(
    "run_squad.py",
    do_predict=True,
    predict_file=files / "dev.json",
    predict_batch_size=32,
    output_dir=folder,
    eager=True,
    **flags,
  )
  return done, json.loads((folder / "predictions.json").read_text())


def test_answers_use_the_stored_settings(trained, files, encoder, tmp_path):
  folder, _ = trained
  expected = json.loads((folder / "predictions.json").read_text())
  model = folder / "final_model"
  done, answers = predictions_of(files, tmp_path / "a", model_dir=model)
  assert (
    answers == expected and "the input differs from training" not in done.err
  )
  assert "--max_seq_length=64 --doc_stride=20" in done.err
  shutil.copytree(folder, tmp_path / "b")
  (tmp_path / "b" / "predictions.json").unlink()
  done, answers = predictions_of(
    files,
    tmp_path / "b",
    vocab_file=WEIGHTS["vocab_file"],
    bert_config_file=encoder / "bert_config.json",
  )
  assert answers == expected
  done, answers = predictions_of(
    files,
    tmp_path / "c",
    model_dir=model,
    max_seq_length=32,
    max_answer_length=2,
  )
  assert answers != expected
  assert "--max_seq_length=32 (trained with 64), --max_ans" in done.err


def test_training_removes_the_threshold(trained, files, encoder, tmp_path):
  folder = tmp_path / "run"
  shutil.copytree(trained[0], folder)
  done = squad(
    **V2,
    vocab_file=WEIGHTS["vocab_file"],
    output_dir=folder,
    do_train=True,
    bert_config_file=encoder / "bert_config.json",
    code=1,
    num_train_epochs=2,
    train_file=files / "train.json",
    train_batch_size=16,
    learning_rate=1e38,
    max_bad_steps=1,
    eager=True,
  )
  assert "weights of step 28 are ruined" in done.last_line
  assert not (folder / "null_threshold.json").exists()


def test_a_folder_belongs_to_one_version_of_squad(trained, files, encoder):
  done = squad(
    code=1,
    vocab_file=WEIGHTS["vocab_file"],
    output_dir=trained[0],
    bert_config_file=encoder / "bert_config.json",
    do_predict=True,
    predict_file=files / "dev_v1.json",
    version_2_with_negative=False,
  )
  assert 'belongs to another run: task is "question answering, SQuAD 2.0"' in (
    done.last_line
  )


@pytest.mark.parametrize(
  "flags, message",
  [
    ({}, "nothing to do: pass at least one of --do_train, --do_eval"),
    (
      {
        "do_predict": True,
        "predict_file": "dev.json",
        **V2,
        "init_checkpoint": None,
      },
      "pass --model_dir or --init_checkpoint, or --do_train",
    ),
    (
      {"evaluate_only": True, "do_train": True, "do_eval": True},
      "--do_train has no effect with --evaluate_only, which scores a file",
    ),
    (
      {
        "do_train": True,
        "train_file": "dev.json",
        **V2,
        "null_score_diff_threshold": "auto",
      },
      "=auto needs --eval_file",
    ),
    (
      {"do_predict": True, "predict_file": "dev_v1.json", "max_seq_length": 65},
      "sequence length 65 is more than the model's max_position_embeddings 64; "
      "shorten the sequences (--max_seq_length)",
    ),
  ],
)
def test_errors_are_one_sentence(files, tmp_path, flags, message):
  (files / "p.json").write_text("{}")
  flags = {
    name: files / value if str(value).endswith(".json") else value
    for name, value in flags.items()
  }
  model = {**LENGTHS, **WEIGHTS, "output_dir": tmp_path / "run"}
  if "evaluate_only" in flags or not flags:
    model = {}  # Flags that would be ignored are refused.
  script_runner.refuse("run_squad.py", message, **{**model, **flags})
