"""Task kinds, classes, metrics and examples from files and configurations."""

import pytest

import modeling
import tiny_model
from checkpoints import model_files, sentence_folder
from classification import data, task
from common import errors, run_settings
from message_facts import says
from test_classification_data import SETTINGS

NLI = ("contradiction", "entailment", "neutral")


def config(**changes):
  return modeling.BertConfig.from_dict({**tiny_model.TINY, **changes})


def named(*names):
  return config(id2label={str(n): name for n, name in enumerate(names)})


def write(path, *lines):
  path.write_text("".join(f"{line}\n" for line in lines))
  return str(path)


def read_task(model=None, purposes=(), **flags):
  defaults = {
    **SETTINGS,
    "task_name": None,
    "data_dir": None,
    "language": None,
    "glue_submission_dir": None,
    "metrics": (),
    "task_kind": None,
    "labels": (),
    "eval_fraction": 0.0,
    "seed": 0,
    "eval_steps": 0,
  }
  for name in ("train", "eval", "predict"):
    defaults |= {
      f"do_{name}": name in purposes,
      f"{name}_file": None,
      f"max_{name}_examples": 0,
    }
  return task.read_task(
    run_settings.Settings({**defaults, **flags}), model or config()
  )


def read_mnli(folder, model=None, purposes=("eval",)):
  return read_task(model, purposes, task_name="MNLI", data_dir=str(folder))


def write_mnli(folder, *splits):
  for split in splits:
    write(
      folder / f"{split}.tsv",
      "index\tsentence1\tsentence2\tgold_label",
      "0\ta\tb\tneutral",
    )


def test_all_evaluation_sets_that_exist_are_read(tmp_path):
  write_mnli(tmp_path, "train", "dev_matched")
  assert list(read_mnli(tmp_path).splits) == ["eval"]
  write_mnli(tmp_path, "dev_mismatched")
  mnli = read_mnli(tmp_path, purposes=["train", "eval"])
  assert list(mnli.splits) == ["train", "eval", "eval_mismatched"]
  assert mnli.labels == NLI and mnli.metrics == ("accuracy",)
  with pytest.raises(errors.InputError, match=says("test_matched", "no")):
    read_mnli(tmp_path, purposes=["predict"])
  with pytest.raises(errors.InputError, match="needs --data_dir"):
    read_task(purposes=["eval"], task_name="mnli")


def test_a_trained_model_keeps_the_order_of_its_classes(tmp_path):
  write_mnli(tmp_path, "train", "dev_matched")
  order = ("entailment", "neutral", "contradiction")
  trained = named(*order)
  assert read_mnli(tmp_path, trained).labels == order
  # Training uses the official order.
  mnli = read_mnli(tmp_path, trained, purposes=["train", "eval"])
  assert mnli.labels == NLI


@pytest.mark.parametrize(
  "name, learned, labels",
  [
    (
      "mnli",
      ["CONTRADICTION", "NEUTRAL", "ENTAILMENT"],
      ("contradiction", "neutral", "entailment"),
    ),
    ("mnli", ["LABEL_0", "LABEL_1", "LABEL_2"], NLI),
    ("mnli", [], NLI),
    ("mrpc", ["not_equivalent", "equivalent"], ("0", "1")),
    ("sst-2", ["POSITIVE", "NEGATIVE"], ("1", "0")),
    ("imdb", ["positive", "negative"], ("pos", "neg")),
  ],
)
def test_other_names_of_classes_are_known(caplog, name, learned, labels):
  loaded = read_task(named(*learned), task_name=name)
  assert loaded.labels == labels and not caplog.records
  # F1 is that of the official positive class, whatever its index.
  assert len(labels) > 2 or labels[loaded.positive] in ("1", "pos")


@pytest.mark.parametrize(
  "name, learned",
  [
    ("mnli", ["a", "b", "c"]),
    ("rte", ["negative", "positive"]),
    ("mnli", ["entailment", "Entailment", "neutral"]),
  ],
)
def test_unknown_class_names_are_reported(caplog, name, learned):
  loaded = read_task(named(*learned), task_name=name)
  assert loaded.labels == loaded.official.labels
  (record,) = caplog.records
  assert record.levelname == "WARNING"
  for names in (learned, loaded.labels):
    assert ", ".join(names) in record.getMessage()


def test_a_model_of_another_kind_is_refused(files):
  regressor = config(problem_type="regression")
  with pytest.raises(errors.InputError, match="kind is single, .*regression"):
    read_task(regressor, task_name="mrpc")
  evaluated = {"eval": files["eval"]}
  with pytest.raises(errors.InputError, match="kind is single, .*regression"):
    read_own(evaluated, regressor, task_kind="single", labels=["good", "bad"])
  # Training may change the model's kind, but only if --task_kind says so.
  trained = read_own(files, task_kind="single", model=regressor)
  assert trained.task_kind == "single"
  with pytest.raises(errors.InputError, match=says("'good'", "not")):
    read_own(files, model=regressor)


def test_the_name_of_a_multilingual_task_has_the_language():
  for language, name in ((None, "zh"), ("de", "de")):
    assert read_task(task_name="XNLI", language=language).name == (
      f"classification, xnli, {name}"
    )


@pytest.mark.parametrize(
  "purpose, message",
  [("train", "AX has no train data"), ("eval", "AX has no eval data, only")],
)
def test_a_diagnostic_set_has_only_test_data(tmp_path, purpose, message):
  with pytest.raises(errors.InputError, match=message):
    read_task(purposes=[purpose], task_name="ax", data_dir=str(tmp_path))


def read_own(paths, model=None, **flags):
  files = {f"{name}_file": path for name, path in paths.items()}
  return read_task(model, paths, **files, **flags)


@pytest.fixture
def files(tmp_path):
  lines = ["text,label", "fine,good", "poor,bad", "so so,fair"]
  return {
    "train": write(tmp_path / "train.csv", *lines),
    "eval": write(tmp_path / "eval.csv", *lines[:2]),
    "predict": write(tmp_path / "new.csv", "text", "well"),
  }


def test_classes_come_from_the_flag_the_data_or_the_model(files):
  loaded = read_own(files)
  assert loaded.labels == ("bad", "fair", "good")
  assert loaded.metrics == ("accuracy", "f1_macro")
  assert [e.label for e in loaded.splits["predict"]] == [None]
  with_labels = read_own(files, labels=["good", "bad", "fair"])
  assert with_labels.labels == ("good", "bad", "fair")
  evaluated = {"eval": files["eval"]}
  with pytest.raises(errors.InputError, match=says("config_file", "twice")):
    read_task(named("a", "b", "a"), ("predict",))
  with pytest.raises(errors.InputError, match="unknown classes: "):
    read_own(evaluated)
  known = named("good", "bad")
  assert read_own(evaluated, model=known).labels == ("good", "bad")
  assert read_own(
    evaluated, model=named("LABEL_0", "LABEL_1"), labels=["bad", "good"]
  ).labels == ("bad", "good")


@pytest.mark.parametrize(
  "learned, labels, fault",
  [
    (["good", "bad"], ["bad", "good"], "was trained for good,bad"),
    (["good", "bad"], ["good", "bad", "fair"], "was trained for good,bad"),
    (["LABEL_0", "LABEL_1"], ["a", "b", "c"], "for LABEL_0,LABEL_1"),
    ([], ["good", "bad", "good"], "good,bad,good: duplicate class"),
    ([], ["good"], "with one class there is nothing to learn"),
  ],
)
def test_classes_that_a_model_lacks_are_refused(files, learned, labels, fault):
  with pytest.raises(errors.InputError, match=fault):
    read_own({"eval": files["eval"]}, model=named(*learned), labels=labels)


def test_a_model_knows_its_kind(tmp_path):
  path = write(tmp_path / "a.jsonl", '{"text": "a", "label": ["x", "y"]}')
  known = config(
    id2label={"0": "x", "1": "y"}, problem_type="multi_label_classification"
  )
  loaded = read_own({"eval": path}, model=known)
  assert loaded.task_kind == "multi_label"
  assert loaded.splits["eval"][0].label == ("x", "y")
  # In training, --task_kind may change the kind.
  numbers = write(tmp_path / "b.csv", "text,label", "a,1.5", "b,2")
  loaded = read_own({"train": numbers}, model=known, task_kind="regression")
  assert loaded.labels == () and loaded.metrics == ("pearson", "spearman")
  with pytest.raises(errors.InputError, match="problem_type"):
    task.model_kind(config(problem_type="other"))
  with pytest.raises(errors.InputError, match="--task_name=swag"):
    read_own({"eval": path}, model=config(problem_type="multiple_choice"))
  with pytest.raises(errors.InputError, match="regression has no classes"):
    read_own({"train": numbers}, task_kind="regression", labels=["a"])


def test_the_configuration_tells_what_was_trained(files):
  loaded = read_own(files)
  trained = task.trained_config(config(), loaded)
  assert tuple(trained.label_names()) == loaded.labels
  assert task.model_kind(trained) == "single"
  # The classes of the previous task are removed.
  numbers = loaded._replace(task_kind="regression", labels=())
  after = task.trained_config(trained, numbers).to_dict()
  assert "id2label" not in after and after["problem_type"] == "regression"


@pytest.mark.parametrize("do_train", [False, True])
@pytest.mark.parametrize("learned", [False, True, None])
@pytest.mark.parametrize("text_b", ["more", None])
def test_pairs_for_a_model_of_single_texts_are_reported(
  tmp_path, caplog, do_train, learned, text_b
):
  path = write(tmp_path / "a.csv", "text,label,more", "a,x,b", "c,y,d")
  stored = {} if learned is None else {"text_pairs": learned}
  model = config(id2label={"0": "x", "1": "y"}, input_settings=stored)
  name = "train" if do_train else "eval"
  loaded = read_own({name: path}, model=model, text_b_column=text_b)
  assert loaded.text_pairs == bool(text_b)
  is_odd = bool(text_b) and learned is False and not do_train
  assert ("--text_b_column=more" in caplog.text) == is_odd


def test_a_part_of_the_training_data_may_be_the_evaluation_data(tmp_path):
  rows = [f"t{n},{'xy'[n % 2]}" for n in range(20)]
  path = write(tmp_path / "a.csv", "text,label", *rows)
  flags = {"eval_fraction": 0.2, "train_file": path, "seed": 3}
  both = read_task(purposes=["train", "eval"], **flags).splits
  assert [len(examples) for examples in both.values()] == [16, 4]
  assert list(both) == ["train", "eval"]
  assert len({e.text_a for part in both.values() for e in part}) == 20
  only = read_task(named("x", "y"), purposes=["eval"], **flags).splits
  assert only == {"eval": both["eval"]}


def test_accuracy_is_always_reported_for_classes(files):
  loaded = read_own(files, metrics=["matthews"])
  assert loaded.metrics == ("matthews", "accuracy")
  with pytest.raises(
    errors.InputError,
    match="--metrics=bleu: the metrics of this task .single, 3 classes",
  ):
    read_own(files, metrics=["bleu"])


def test_examples_are_cut_to_their_limits(files, tmp_path):
  limits = {"max_train_examples": 2, "max_predict_examples": 5}
  cut = read_own(files, **limits).splits
  assert [len(examples) for examples in cut.values()] == [2, 1, 1]
  assert isinstance(cut["predict"], data.ExampleStream)
  # In prediction, the labels of an official set are ignored.
  write(tmp_path / "test.tsv", "sentence\tlabel", "a\t1", "b\t0", "c\t1")
  cut = read_task(
    purposes=["predict"],
    task_name="sst-2",
    data_dir=str(tmp_path),
    max_predict_examples=2,
  )
  examples = [(e.text_a, e.label) for e in cut.splits["predict"]]
  assert examples == [("a", None), ("b", None)]


def test_a_limit_holds_for_each_evaluation_set(tmp_path):
  header = "index\tsentence1\tsentence2\tgold_label"
  rows = [f"{n}\ta {n}\tb\tneutral" for n in range(3)]
  for split in ("train", "dev_matched", "dev_mismatched"):
    write(tmp_path / f"{split}.tsv", header, *rows)
  loaded = read_task(
    purposes=["train", "eval"],
    task_name="mnli",
    data_dir=str(tmp_path),
    max_eval_examples=2,
  )
  assert {name: len(examples) for name, examples in loaded.splits.items()} == {
    "train": 3,
    "eval": 2,
    "eval_mismatched": 2,
  }


def make_task(train, evaluated=None):
  """Returns a task; both arguments are dicts of text -> label."""

  def examples(texts):
    return [data.Example(text, text, label=texts[text]) for text in texts]

  labels = tuple(sorted(set(train.values())))
  splits = {"train": examples(train)}
  if evaluated:
    splits["eval"] = examples(evaluated)
  return task.ClassifierTask("own data", "single", labels, (), splits)


def test_the_classes_of_the_training_data_are_logged_with_warnings(caplog):
  caplog.set_level("INFO", logger="absl")
  loaded = make_task({"a": "Good", **dict.fromkeys("bcd", "bad"), "e": "good"})
  loaded = loaded._replace(labels=(*loaded.labels, "odd"))
  task.log_examples(loaded, [1.0, 2.5, 1.0, 1.0])
  table = [
    record.getMessage().split()
    for record in caplog.records
    if record.levelname == "INFO"
  ]
  assert table == [
    ["class", "examples", "weight"],
    ["Good", "1", "1"],
    ["bad", "3", "2.5"],
    ["good", "1", "1"],
    ["odd", "0", "1"],
  ]
  log = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
  assert log[0].startswith("classes that differ only in case: 'Good', 'good'")
  assert log[1].startswith("class 'Good' has only one training example")
  assert log[3] == "class 'odd' has no training example" and len(log) == 4
  caplog.clear()
  task.log_examples(loaded._replace(splits={}))
  both = dict.fromkeys("abc", "x") | dict.fromkeys("de", "y")
  task.log_examples(make_task(both))
  assert {record.levelname for record in caplog.records} == {"INFO"}


def test_classes_that_are_numbers_suggest_regression(caplog):
  task.log_examples(make_task({"a": "1", "b": "0"}))
  assert "are numbers" not in caplog.text
  task.log_examples(make_task({"a": "1", "b": "2.5", "c": "3"}))
  message = "all 3 classes are numbers"
  assert message in caplog.text and "--task_kind=regression" in caplog.text


def test_evaluation_on_training_texts_is_reported(caplog):
  train = dict.fromkeys("abc", "x")
  task.log_examples(make_task(train, dict.fromkeys("ad", "x")))
  assert "evaluation examples are" not in caplog.text
  task.log_examples(make_task(train, dict.fromkeys("ca", "x")))
  assert "all evaluation examples are also training" in caplog.text
  assert "--eval_fraction" in caplog.text


def test_the_pooling_of_a_run_overrides_the_folder_it_started_from(tmp_path):
  for mode, name in (("mean", "start"), ("cls", "run/final_model")):
    folder = tmp_path / name
    folder.mkdir(parents=True)
    (folder / "bert_config.json").write_text("{}")
    sentence_folder.write_modules(str(folder), 4, 8, (mode, (-1,), False))
  settings = run_settings.Settings(
    {
      "do_train": False,
      "task_name": "x",
      "task_kind": "similarity",
      "pooling": "pooled",
      "normalize": True,
      "max_seq_length": 128,
      "output_dir": "",
      "init_checkpoint": str(tmp_path / "start"),
      "bert_config_file": str(tmp_path / "start" / "bert_config.json"),
    }
  )
  for output_dir, pooling in ("run", "cls"), ("another", "mean"):
    trained = settings.replace(output_dir=str(tmp_path / output_dir))
    files = model_files.ModelFiles.of(trained)
    restored = task.complete_settings(trained, files)
    assert (restored.pooling, restored.max_seq_length) == (pooling, 8)
