"""Runs run_classifier.py with the flags that a user passes."""

import json
import re
import shutil
import types

import numpy as np
import pytest

import script_flags
import script_runner
import serving_models
import stored_weights
import tiny_model
from checkpoints import weight_files
from classification import inputs, sequences
from common import run_settings
from message_facts import says
from records import tfrecord
from script_runner import results_in
from test_classification_task import read_task

GOLDEN = script_runner.ROOT / "tests" / "golden" / "classifier"
DATA = script_runner.ROOT / "tests" / "data" / "glue"
GOOD, BAD = "warm clever lovely bright", "dull cold empty slow"
OTHERS = "the film was and a story with music that ended here"
TAB = "\t"
LETTERS = "##" + " ##".join("abcdefghijklmnopqrstuvwxyz")


@pytest.mark.parametrize(
  "name, purpose, length",
  [
    ("mrpc", "predict", 128),
    ("cola", "train", 32),
    ("mnli", "eval", 64),
    ("mnli", "predict", 64),
    ("xnli", "eval", 64),
  ],
)
def test_features_are_the_originals(tmp_path, name, purpose, length):
  task = read_task(
    purposes=[purpose], task_name=name, data_dir=str(GOLDEN / name)
  )
  vocab = "chinese" if name == "xnli" else "uncased"
  options = sequences.InputOptions(
    task_kind=task.task_kind,
    labels=task.labels,
    max_seq_length=length,
    vocab_file=str(GOLDEN / f"vocab_{vocab}.txt"),
  )
  split = inputs.prepare_all(str(tmp_path), task.splits, options)[purpose]
  records = list(tfrecord.read_records(split.records))
  with np.load(GOLDEN / "features.npz") as golden:
    prefix = f"{name}_{purpose}/"
    names = [name for name in golden.files if name.startswith(prefix)]
    assert {name.removeprefix(prefix) for name in names} == set(records[0])
    for name in names:
      feature = name.removeprefix(prefix)
      values = np.stack([record[feature] for record in records])
      assert len(values) >= 8 and (values == golden[name]).all(), name


@pytest.fixture(scope="module")
def original_model(tmp_path_factory):
  prefix = tmp_path_factory.mktemp("model") / "bert_model.ckpt"
  config = json.loads((GOLDEN / "bert_config.json").read_text())
  with np.load(GOLDEN / "mrpc_model.npz") as stored:
    weights = dict(stored)
  words = np.zeros([config["vocab_size"], config["hidden_size"]], np.float32)
  positions = np.zeros(
    [config["max_position_embeddings"], config["hidden_size"]], np.float32
  )
  words[weights.pop("word_rows")] = weights["bert/embeddings/word_embeddings"]
  first = weights["bert/embeddings/position_embeddings"]
  positions[: len(first)] = first
  weights["bert/embeddings/word_embeddings"] = words
  weights["bert/embeddings/position_embeddings"] = positions
  weight_files.write_tf1(str(prefix), weights)
  return prefix


def test_predictions_and_losses_are_the_originals(original_model, tmp_path):
  """The expected losses are computed from the original's probabilities."""
  data = tmp_path / "mrpc"
  shutil.copytree(GOLDEN / "mrpc", data)
  gold = [0, 1, 1, 0, 1, 0, 0, 1]
  _, *rows = (data / "test.tsv").read_text().splitlines()
  lines = ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"]
  for label, row in zip(gold, rows, strict=True):
    lines.append(f"{label}\t{row.partition(TAB)[2]}")
  (data / "dev.tsv").write_text("\n".join(lines) + "\n")
  done = script_runner.succeed(
    "run_classifier.py",
    task_name="MRPC",
    do_eval=True,
    do_predict=True,
    data_dir=data,
    vocab_file=GOLDEN / "vocab_uncased.txt",
    bert_config_file=GOLDEN / "bert_config.json",
    eval_batch_size=3,
    predict_batch_size=3,
    init_checkpoint=original_model,
    output_dir=tmp_path / "run",
    glue_submission_dir=tmp_path / "glue",
  )
  numbers, *_ = written = tsv(tmp_path / "run" / "test_results.tsv")
  computed = np.array(written, float)
  golden = np.array(tsv(GOLDEN / "test_results.tsv"), float)
  np.testing.assert_allclose(computed, golden, rtol=0, atol=1e-5)
  losses = -np.log([row[label] for label, row in zip(gold, golden)])
  results = results_in(tmp_path / "run")
  right = [label == np.argmax(row) for label, row in zip(gold, golden)]
  assert results["eval_accuracy"] == np.mean(right)
  batches = losses[:3], losses[3:6], losses[6:]
  assert results["loss"] == pytest.approx(
    np.mean([batch.mean() for batch in batches]), abs=1e-5
  )
  assert results["eval_loss"] == pytest.approx(losses.mean(), abs=1e-5)
  assert abs(results["loss"] - results["eval_loss"]) > 1e-3
  assert re.search(r"eval_f1 = \S+ \(of class '1'\)", done.err)
  assert numbers == [str(np.float32(number)) for number in computed[0]]
  header, first, *_ = tsv(tmp_path / "run" / "predictions.tsv")
  assert header == ["id", "label", "probability", "0", "1", "text", "text_b"]
  assert first[:5] == [
    "test-1",
    str(np.argmax(computed[0])),
    max(numbers),
    *numbers,
  ]
  assert len((tmp_path / "glue" / "MRPC.tsv").read_text().splitlines()) == 9


def sentences(count, seed):
  rng = np.random.RandomState(seed)
  for number in range(count):
    words = list(rng.choice(OTHERS.split(), 5))
    choices = (BAD, GOOD)[number % 2].split()
    words[rng.randint(5)] = str(rng.choice(choices))
    yield " ".join(words), ("bad", "good")[number % 2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp("data")
  words = list(dict.fromkeys(f"{GOOD} {BAD} {OTHERS} {LETTERS}".split()))
  tiny_model.write_shape(
    path,
    words,
    hidden_size=32,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=32,
    initializer_range=0.2,
  )
  for name, count, seed in (("train", 160, 1), ("eval", 40, 2)):
    rows = [f'"{text}",{label}\n' for text, label in sentences(count, seed)]
    (path / f"{name}.csv").write_text("review,opinion\n" + "".join(rows))
  return path


def classify(folder, output_dir, code=0, **flags):
  defaults = {
    "bert_config_file": folder / "bert_config.json",
    "vocab_file": folder / "vocab.txt",
    "max_seq_length": 16,
    "output_dir": output_dir,
  }
  if "task_name" not in flags:
    defaults.update(text_column="review", label_column="opinion")
  return script_runner.run(
    "run_classifier.py", code=code, **{**defaults, **flags}
  )


def tsv(path):
  return [line.split("\t") for line in path.read_text().splitlines()]


def training(folder):
  return {
    "do_train": True,
    "train_file": folder / "train.csv",
    "train_batch_size": 16,
    "learning_rate": 3e-3,
    "num_train_epochs": 6,
  }


@pytest.fixture(scope="module")
def trained(folder, tmp_path_factory):
  output_dir = tmp_path_factory.mktemp("classifier") / "run"
  done = classify(
    folder,
    output_dir,
    **training(folder),
    do_eval=True,
    seeds="3,4",
    eval_file=folder / "eval.csv",
    eval_steps=60,
    save_best="f1",
    class_weights="balanced",
    do_predict=True,
    predict_file=folder / "eval.csv",
    max_predict_examples=10,
  )
  return output_dir, done


def test_opinions_are_learned_from_one_hundred_and_sixty_rows(trained):
  output_dir, _ = trained
  results = results_in(output_dir / "seed_3")
  assert set(results) == {
    "eval_accuracy",
    "eval_f1",
    "eval_loss",
    "global_step",
    "loss",
  }
  assert results["eval_accuracy"] > 0.9 and results["global_step"] == 60
  fingerprint = (output_dir / "seed_3" / "run_fingerprint.json").read_text()
  assert "input_settings" not in json.loads(fingerprint)["bert_config"]
  report = (output_dir / "seed_3" / "eval_report.txt").read_text()
  assert re.search(r"^good +[01]\.\d{4}", report, re.M)
  page = (output_dir / "seed_3" / "report.html").read_text()
  assert "<figcaption>eval/f1</figcaption>" in page and "--seeds=3,4" in page
  assert page.count("<th>good</th>") == 2


def test_the_example_of_the_card_runs(trained, capsys, monkeypatch):
  monkeypatch.chdir(trained[0] / "seed_3" / "final_model")
  card = (trained[0] / "seed_3" / "final_model" / "README.md").read_text()
  assert '"type": "f1", "name": "eval_f1"' in card and "| `eval.csv` |" in card
  (code,) = re.findall(r"```python\n(.*?)```", card, re.S)
  exec(code, {})
  assert "'labels': ['bad', 'good']" in capsys.readouterr().out


def test_seeds_are_compared_in_a_table(trained):
  output_dir, done = trained
  table = (output_dir / "seeds_results.txt").read_text()
  assert done.out == table
  rows = {line.split()[0]: line.split()[1:] for line in table.splitlines()[1:]}
  for number, seed in enumerate((3, 4)):
    path = output_dir / f"seed_{seed}" / "eval_results.txt"
    for name, value in results_in(path).items():
      if name != "global_step":
        assert float(rows[name][3 + number]) == pytest.approx(value, abs=1e-5)
  weights = [
    stored_weights.read(
      str(output_dir / f"seed_{seed}" / "final_model" / "bert_model.ckpt")
    )["output_weights"]
    for seed in (3, 4)
  ]
  assert not np.array_equal(*weights)


def test_use_best_ends_with_the_best_weights(trained, folder, tmp_path):
  """A high learning rate spoils the last weights; the best ones are used."""
  classify(
    folder,
    tmp_path / "run",
    **{
      **training(folder),
      "max_train_steps": 4,
      "learning_rate": 3.0,
      "warmup_proportion": 0.0,
      "init_checkpoint": trained[0] / "seed_3" / "final_model",
    },
    eval_file=folder / "eval.csv",
    eval_steps=1,
    save_best="eval_loss",
    use_best=True,
    do_eval=True,
    eager=True,
  )
  results = results_in(tmp_path / "run")
  assert results["global_step"] < 4
  best, final = (
    stored_weights.read(str(tmp_path / "run" / name / "bert_model.ckpt"))
    for name in ("best_model", "final_model")
  )
  assert all(best[name].tobytes() == final[name].tobytes() for name in best)


def test_seeds_that_are_done_are_not_trained_again(trained, folder, tmp_path):
  copy = tmp_path / "run"
  shutil.copytree(trained[0], copy)
  (copy / "seeds_results.txt").unlink()
  done = classify(
    folder,
    copy,
    **training(folder),
    do_eval=True,
    seeds="3,4",
    eval_file=folder / "eval.csv",
    class_weights="balanced",
  )
  assert f"resuming from {copy}/seed_3/model.ckpt-60" in done.err
  assert done.out == trained[1].out
  log = (copy / "seed_3" / "train_log.jsonl").read_text()
  assert log == (trained[0] / "seed_3" / "train_log.jsonl").read_text()


@pytest.mark.slow
def test_a_search_keeps_the_best_of_its_runs(folder, tmp_path):
  done = classify(
    folder,
    tmp_path,
    **{**training(folder), "num_train_epochs": None},
    do_eval=True,
    eval_file=folder / "eval.csv",
    metrics="f1",
    search="num_train_epochs=0.2,3",
  )
  header, best, worst = [line.split("\t") for line in done.out.splitlines()]
  assert header[:3] == ["num_train_epochs", "eval_f1", "eval_accuracy"]
  assert (best[0], worst[0]) == ("3.0", "0.2") and best[1] > worst[1]
  copied, searched = (
    stored_weights.read(str(path / "final_model"))["output_weights"]
    for path in (tmp_path, tmp_path / "num_train_epochs=3.0")
  )
  assert np.array_equal(copied, searched)


def test_a_model_folder_stores_the_input_settings(trained, tmp_path):
  """The stored text column applies to tables; plain text needs no column."""
  model = trained[0] / "seed_3" / "final_model"
  (tmp_path / "new.csv").write_text("text,review\nx,the film was lovely\n")
  (tmp_path / "new.txt").write_text("the film was lovely\n")
  for name in ("new.csv", "new.txt"):
    out = tmp_path / name.replace(".", "_")
    script_runner.succeed(
      "run_classifier.py",
      do_predict=True,
      model_dir=model,
      output_dir=out,
      predict_file=tmp_path / name,
      eager=True,
    )
    rows = (out / "predictions.tsv").read_text().splitlines()
    assert len(rows) == 2 and "\tgood\t" in rows[1]
  (tmp_path / "pairs.csv").write_text("a,b\nthe film,was lovely\n")
  done = script_runner.succeed(
    "run_classifier.py",
    do_predict=True,
    model_dir=model,
    text_column="a",
    text_b_column="b",
    predict_file=tmp_path / "pairs.csv",
    output_dir=tmp_path / "pairs",
    max_seq_length=12,
    eager=True,
  )
  assert re.search(says("--text_b_column=b", "trained"), done.err)
  assert "--max_seq_length=12 (trained with 16)" in done.err


def test_a_frozen_encoder_does_not_change(trained, folder, tmp_path):
  model = trained[0] / "seed_3" / "final_model"
  rows = (folder / "train.csv").read_text().replace(",good", ";good")
  dirty = tmp_path / "dirty.csv"
  dirty.write_text(rows.replace(",", ";") + "too few\n")
  flags = {
    **training(folder),
    "init_checkpoint": model,
    "freeze_encoder": True,
    "do_eval": True,
    "eval_fraction": 0.1,
    "train_file": dirty,
    "on_bad_row": "skip",
  }
  done = classify(folder, tmp_path / "run", **flags)
  assert re.search(r"class +examples +weight\n.*\n?.*  bad +72 +1", done.err)
  assert f"] {dirty}:162: " in (tmp_path / "run" / "log.txt").read_text()
  before, after = (
    stored_weights.read(str(path / "bert_model.ckpt"))
    for path in (model, tmp_path / "run" / "final_model")
  )
  changed = {
    name for name in before if before[name].tobytes() != after[name].tobytes()
  }
  assert changed == {
    "bert/pooler/dense/kernel",
    "bert/pooler/dense/bias",
    "output_weights",
    "output_bias",
    "global_step",
  }
  flags["eager"] = True
  classify(
    folder, tmp_path / "head", **flags, freeze_pooler=True, max_train_steps=2
  )
  after = stored_weights.read(
    str(tmp_path / "head" / "final_model" / "bert_model.ckpt")
  )
  assert {"output_weights", "output_bias", "global_step"} == {
    name for name in before if before[name].tobytes() != after[name].tobytes()
  }
  poolerless = tmp_path / "poolerless"
  weight_files.write_tf1(
    f"{poolerless}/bert_model.ckpt",
    {name: v for name, v in before.items() if "bert/pooler/" not in name},
  )
  flags["init_checkpoint"] = f"{poolerless}/bert_model.ckpt"
  refused = classify(
    folder, tmp_path / "no", code=1, **flags, freeze_pooler=True
  )
  assert "leave out --freeze_pooler" in refused.err
  results = results_in(tmp_path / "run")
  assert results["eval_accuracy"] > 0.9
  features = tmp_path / "run" / "train.features.tf_record"
  assert tfrecord.count_records(str(features)) == 144
  _, *rows = tsv(tmp_path / "run" / "eval_predictions.tsv")
  assert len(rows) == 16


def test_long_documents_may_have_several_labels(folder, tmp_path):
  rng = np.random.RandomState(0)
  with open(tmp_path / "long.jsonl", "w") as stream:
    for number in range(24):
      words = list(rng.choice(OTHERS.split(), 8 + 2 * number))
      labels = [name for name, bit in (("a", 1), ("b", 2)) if number & bit]
      stream.write(json.dumps({"text": " ".join(words), "tags": labels}) + "\n")
  classify(
    folder,
    tmp_path / "run",
    **{
      **training(folder),
      "train_file": tmp_path / "long.jsonl",
      "num_train_epochs": 1,
    },
    do_eval=True,
    eval_file=tmp_path / "long.jsonl",
    doc_stride=8,
    text_column="text",
    label_column="tags",
    task_kind="multi_label",
    metrics="f1_macro,auc",
    class_weights="balanced",
    do_predict=True,
    predict_file=tmp_path / "long.jsonl",
    max_predict_examples=5,
    eager=True,
  )
  results = results_in(tmp_path / "run")
  assert set(results) == {
    "eval_f1_macro",
    "eval_auc",
    "eval_loss",
    "global_step",
    "loss",
  }
  config = json.loads(
    (tmp_path / "run" / "final_model" / "bert_config.json").read_text()
  )
  assert config["problem_type"] == "multi_label_classification"
  assert config["id2label"] == {"0": "a", "1": "b"}
  header, *rows = tsv(tmp_path / "run" / "predictions.tsv")
  assert header == ["id", "labels", "a", "b", "text"] and len(rows) == 5
  for _, labels, *numbers, _ in rows:
    chosen = [name for name, p in zip("ab", numbers) if float(p) >= 0.5]
    assert labels == ",".join(chosen)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
  """A model folder with the words of the rows and one layer, no head."""
  folder = tmp_path_factory.mktemp("encoder")
  return serving_models.trained(folder, None, stored={})


@pytest.mark.parametrize(
  "name, metrics, outputs, rows_of_sets",
  [
    ("mnli", ["accuracy"], 3, {"": 2, "_mismatched": 1}),
    ("sts-b", ["pearson", "spearman"], 1, {"": 2}),
    pytest.param("swag", ["accuracy"], 4, {"": 1}, marks=pytest.mark.slow),
  ],
)
def test_official_tasks_are_learned_scored_and_predicted(
  encoder, tmp_path, name, metrics, outputs, rows_of_sets
):
  run, submitted = tmp_path / "run", tmp_path / "glue"
  script_runner.succeed(
    "run_classifier.py",
    task_name=name,
    do_train=True,
    do_eval=True,
    do_predict=True,
    data_dir=DATA / name,
    model_dir=encoder,
    output_dir=run,
    max_seq_length=16,
    train_batch_size=2,
    num_train_epochs=1,
    glue_submission_dir=None if name == "swag" else submitted,
  )
  assert set(results_in(run)) == {"global_step", "loss"} | {
    f"eval{suffix}_{metric}"
    for suffix in rows_of_sets
    for metric in (*metrics, "loss")
  }
  for suffix, count in rows_of_sets.items():
    numbers = np.array(tsv(run / f"test_results{suffix}.tsv"), float)
    assert numbers.shape == (count, outputs)
    header, *rows = tsv(run / f"predictions{suffix}.tsv")
    if outputs == 1:
      assert [[float(row[1])] for row in rows] == numbers.tolist()
    else:
      np.testing.assert_allclose(numbers.sum(axis=1), 1, atol=1e-6)
      labels = [header[3 + column] for column in numbers.argmax(axis=1)]
      assert [row[1] for row in rows] == labels
  if name == "mnli":
    assert len(tsv(submitted / "MNLI-m.tsv")) == 3
    assert len(tsv(submitted / "MNLI-mm.tsv")) == 2


@pytest.mark.parametrize(
  "flags, message",
  [
    ({}, "pass at least one of --do_train, --do_eval, --do_predict"),
    ({"do_train": True, "train_file": "ragged.csv"}, "ragged.csv:3: "),
    (
      {"do_eval": True, "eval_file": "train.csv", "labels": "bad,good"},
      "no weights: there is no checkpoint in",
    ),
    (
      {
        "do_eval": True,
        "eval_file": "train.csv",
        "max_seq_length": None,
        "bert_config_file": "length.json",
      },
      "max_seq_length does not accept the value 'x'",
    ),
    (
      {
        "do_train": True,
        "train_file": "train.csv",
        "bert_config_file": "small.json",
      },
      "says vocab_size 6; use the vocab",
    ),
  ],
)
def test_errors_are_one_sentence(folder, tmp_path, flags, message):
  (folder / "ragged.csv").write_text("review,opinion\na,good\nb\nc,bad\n")
  config = json.loads((folder / "bert_config.json").read_text())
  for name, changes in (
    ("small", {"vocab_size": 6}),
    ("length", {"classifier_input": {"max_seq_length": "x"}}),
  ):
    (folder / f"{name}.json").write_text(json.dumps({**config, **changes}))
  flags = {
    name: folder / value if (folder / str(value)).is_file() else value
    for name, value in flags.items()
  }
  done = classify(folder, tmp_path / "run", code=1, **flags)
  assert message in done.err.rpartition("\nrun_classifier.py: error: ")[2]
  assert "Traceback" not in done.err


@pytest.fixture(scope="module")
def script():
  return script_flags.functions("run_classifier")


@pytest.mark.parametrize(
  "stride, compiled, by_default, expected",
  [
    (0, "auto", True, "auto"),
    (4, "auto", True, "false"),
    (4, "auto", False, "false"),
    (4, "true", True, "true"),
  ],
)
def test_windows_turn_xla_off_unless_asked(
  script, monkeypatch, caplog, stride, compiled, by_default, expected
):
  caplog.set_level("INFO", "absl")
  monkeypatch.setattr(script.run_setup, "make_strategy", lambda _: "strategy")
  monkeypatch.setattr(
    script.distribution, "default_jit_compile", lambda _: by_default
  )
  settings = run_settings.Settings(
    {"doc_stride": stride, "jit_compile": compiled}
  )
  strategy, arranged = script.arrange_devices(settings)
  assert strategy == "strategy" and arranged.jit_compile == expected
  is_changed = by_default and expected != compiled
  assert ("--jit_compile=true" in caplog.text) == is_changed


class Steps(list):
  """The steps that a ModelRun takes."""

  def evaluate(self):
    self.append("evaluate")
    return {"f1": 2.0}

  def write_report(self, results):
    self.append(f"write_report {results}")

  def write_predictions(self, name, network):
    self.append(f"{name} {network}")

  def __getattr__(self, name):
    return lambda: self.append(name)


@pytest.mark.parametrize(
  "flags, steps",
  [
    ("do_train", ["train", "write_report {}"]),
    ("do_eval", ["load_weights", "evaluate", "write_report {'f1': 2.0}"]),
    ("do_predict", ["load_weights", "predict None", "predict_mismatched None"]),
    (
      "do_train do_eval do_predict",
      [
        "train",
        "evaluate",
        "write_report {'f1': 2.0}",
        "predict None",
        "predict_mismatched None",
      ],
    ),
  ],
)
def test_the_steps_of_a_run(script, monkeypatch, flags, steps):
  taken = Steps()
  monkeypatch.setattr(script.job, "ModelRun", lambda *_: taken)
  names = "do_train do_eval do_predict".split()
  settings = run_settings.Settings(
    {**{name: name in flags.split() for name in names}, "engine": "tensorflow"}
  )
  records = ["train", "eval", "eval_mismatched"]
  if "do_predict" in flags:
    records += ["predict", "predict_mismatched"]
  run = types.SimpleNamespace(records=dict.fromkeys(records))
  results = script.run_model(settings, run)
  assert taken == steps
  assert results == ({"f1": 2.0} if "do_eval" in flags else {})
