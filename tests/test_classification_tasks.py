"""Kinds, classes, metrics and examples from files and configurations."""

import json

import pytest

import modeling
import tiny_model
from classification import tasks
from common import errors, run_settings

NLI = ("contradiction", "entailment", "neutral")


def config(**changes):
  return modeling.BertConfig.from_dict({**tiny_model.TINY, **changes})


def write(path, *lines):
  path.write_text("".join(f"{line}\n" for line in lines))
  return str(path)


def read_task(model=None, purposes=(), **given):
  defaults = {
    "task_name": None, "task_module": None, "data_dir": None, "language": None,
    "glue_submission_dir": None, "metrics": (), "task_kind": None,
    "text_column": "text", "text_b_column": None, "label_column": "label",
    "id_column": None, "labels": (), "label_separator": ",",
    "file_format": None, "quoted_tsv": False, "separator": None,
    "encoding": None, "on_bad_row": "error", "eval_fraction": 0.0, "seed": 0,
    "eval_steps": 0,
  }
  for name in ("train", "eval", "predict"):
    defaults |= {
      f"do_{name}": name in purposes, f"{name}_file": None,
      f"max_{name}_examples": 0,
    }
  return tasks.read_task(
    run_settings.Settings({**defaults, **given}), model or config()
  )


def read_mnli(folder, model=None, purposes=("eval",)):
  return read_task(
    model, purposes, task_name="MNLI", data_dir=str(folder)
  )


def write_mnli(folder, *splits):
  for split in splits:
    write(
      folder / f"{split}.tsv",
      "index\tsentence1\tsentence2\tgold_label", "0\ta\tb\tneutral"
    )


def test_all_sets_that_are_scored_are_read_where_they_are(tmp_path):
  write_mnli(tmp_path, "train", "dev_matched")
  assert list(read_mnli(tmp_path).splits) == ["eval"]
  write_mnli(tmp_path, "dev_mismatched")
  task = read_mnli(tmp_path, purposes=["train", "eval"])
  assert list(task.splits) == ["train", "eval", "eval_mismatched"]
  assert task.labels == NLI and task.metrics == ("accuracy",)
  with pytest.raises(errors.InputError, match="no such file.*test_matched"):
    read_mnli(tmp_path, purposes=["predict"])
  with pytest.raises(errors.InputError, match="needs --data_dir"):
    read_task(purposes=["eval"], task_name="mnli")


def test_a_trained_model_keeps_the_order_of_its_classes(tmp_path):
  write_mnli(tmp_path, "train", "dev_matched")
  order = ("entailment", "neutral", "contradiction")
  theirs = config(id2label={str(n): name for n, name in enumerate(order)})
  assert read_mnli(tmp_path, theirs).labels == order
  # Not if it learns them anew.
  task = read_mnli(tmp_path, theirs, purposes=["train", "eval"])
  assert task.labels == NLI


def named(*names):
  return config(id2label={str(n): name for n, name in enumerate(names)})


@pytest.mark.parametrize(
  "task, learned, labels",
  [
    ("mnli", ["CONTRADICTION", "NEUTRAL", "ENTAILMENT"],
     ("contradiction", "neutral", "entailment")),
    ("mnli", ["LABEL_0", "LABEL_1", "LABEL_2"], NLI),
    ("mnli", [], NLI),
    ("mrpc", ["not_equivalent", "equivalent"], ("0", "1")),
    ("sst-2", ["POSITIVE", "NEGATIVE"], ("1", "0")),
    ("imdb", ["positive", "negative"], ("pos", "neg")),
  ],
)
def test_other_names_of_a_tasks_classes_are_known(
  caplog, task, learned, labels
):
  read = read_task(named(*learned), task_name=task)
  assert read.labels == labels and not caplog.records
  # F1 is of the official positive class, whatever its place.
  assert len(labels) > 2 or labels[read.positive] in ("1", "pos")


@pytest.mark.parametrize(
  "task, learned",
  [("mnli", ["a", "b", "c"]), ("rte", ["negative", "positive"]),
   ("mnli", ["entailment", "Entailment", "neutral"])],
)
def test_names_that_nobody_knows_are_said(caplog, task, learned):
  read = read_task(named(*learned), task_name=task)
  assert read.labels == read.official.labels
  (record,) = caplog.records
  assert record.levelname == "WARNING"
  for names in (learned, read.labels):
    assert ", ".join(names) in record.getMessage()


def test_a_model_of_another_kind_is_refused(files):
  numbers = config(problem_type="regression")
  with pytest.raises(errors.InputError, match="task is single, .*regression"):
    read_task(numbers, task_name="mrpc")
  evaluated = {"eval": files["eval"]}
  with pytest.raises(errors.InputError, match="task is single, .*regression"):
    read_own(evaluated, numbers, task_kind="single", labels=["good", "bad"])
  # What is trained may become another kind; if not told, it stays.
  assert read_own(files, task_kind="single", model=numbers).kind == "single"
  with pytest.raises(errors.InputError, match="'good' is no number"):
    read_own(files, model=numbers)


def test_a_task_of_several_languages_says_which():
  for given, name in ((None, "xnli, zh"), ("de", "xnli, de")):
    task = read_task(task_name="XNLI", language=given)
    assert task.name == name


def test_a_diagnostic_set_has_nothing_to_learn(tmp_path):
  with pytest.raises(errors.InputError, match="AX has no train data"):
    read_task(purposes=["train"], task_name="ax", data_dir=str(tmp_path))


def read_own(paths, model=None, **given):
  files = {f"{name}_file": path for name, path in paths.items()}
  return read_task(model, paths, **files, **given)


@pytest.fixture
def files(tmp_path):
  lines = ["text,label", "fine,good", "poor,bad", "so so,fair"]
  return {
    "train": write(tmp_path / "train.csv", *lines),
    "eval": write(tmp_path / "eval.csv", *lines[:2]),
    "predict": write(tmp_path / "new.csv", "text", "well"),
  }


def test_classes_are_those_given_learned_or_known_to_the_model(files):
  task = read_own(files)
  assert task.labels == ("bad", "fair", "good")
  assert task.metrics == ("accuracy", "f1_macro")
  assert task.splits["predict"].examples[0].label is None
  given = read_own(files, labels=["good", "bad", "fair"])
  assert given.labels == ("good", "bad", "fair")
  evaluated = {"eval": files["eval"]}
  with pytest.raises(errors.InputError, match="no classes known"):
    read_own(evaluated)
  known = named("good", "bad")
  assert read_own(evaluated, model=known).labels == ("good", "bad")
  assert read_own(
    evaluated, model=named("LABEL_0", "LABEL_1"), labels=["bad", "good"]
  ).labels == ("bad", "good")


@pytest.mark.parametrize(
  "learned, given, said",
  [
    (["good", "bad"], ["bad", "good"], "was trained for good,bad"),
    (["good", "bad"], ["good", "bad", "fair"], "was trained for good,bad"),
    (["LABEL_0", "LABEL_1"], ["a", "b", "c"], "for LABEL_0,LABEL_1"),
    ([], ["good", "bad", "good"], "good,bad,good: a class is there twice"),
    ([], ["good"], "one class leaves nothing to learn"),
  ],
)
def test_classes_that_a_model_does_not_have_are_refused(
  files, learned, given, said
):
  with pytest.raises(errors.InputError, match=said):
    read_own({"eval": files["eval"]}, model=named(*learned), labels=given)


def test_a_model_knows_its_kind(tmp_path):
  path = write(tmp_path / "a.jsonl", '{"text": "a", "label": ["x", "y"]}')
  known = config(id2label={"0": "x", "1": "y"},
                 problem_type="multi_label_classification")
  task = read_own({"eval": path}, model=known)
  assert task.kind == "multi_label"
  assert task.splits["eval"].examples[0].label == ("x", "y")
  # What is trained anew may be told its kind.
  numbers = write(tmp_path / "b.csv", "text,label", "a,1.5", "b,2")
  task = read_own({"train": numbers}, model=known, task_kind="regression")
  assert task.labels == () and task.metrics == ("pearson", "spearman")
  with pytest.raises(errors.InputError, match="problem_type"):
    tasks.model_kind(config(problem_type="other"))
  with pytest.raises(errors.InputError, match="--task_name=swag"):
    read_own({"eval": path}, model=config(problem_type="multiple_choice"))
  with pytest.raises(errors.InputError, match="regression has none"):
    read_own({"train": numbers}, task_kind="regression", labels=["a"])


def test_the_configuration_tells_what_was_trained(files):
  task = read_own(files)
  trained = tasks.trained_config(config(), task)
  assert tuple(trained.label_names()) == task.labels
  assert tasks.model_kind(trained) == "single"
  # Classes of a task before are forgotten.
  numbers = task._replace(kind="regression", labels=())
  after = tasks.trained_config(trained, numbers).to_dict()
  assert "id2label" not in after and after["problem_type"] == "regression"


def test_the_configuration_keeps_how_the_input_was_made(files):
  given = {"max_seq_length": 9, "doc_stride": 4, "max_windows": 0}
  kept = tasks.with_input(config(), given)
  again = modeling.BertConfig.from_dict(json.loads(kept.to_json_string()))
  found = tasks.learned_input(again.to_dict())
  assert found == given and list(found)[:2] == ["max_seq_length", "doc_stride"]
  cut = tasks.with_input(config(), {**given, "doc_stride": 0})
  found = tasks.learned_input(cut.to_dict())
  assert found == {"max_seq_length": 9, "doc_stride": 0, "max_windows": 0}
  assert tasks.learned_input(config().to_dict()) == {}
  # It is no part of what a run is known by.
  run = tasks.trained_config(kept, read_own(files))
  assert tasks.learned_input(run.to_dict()) == {}
  old = {"window_pooling": "mean", "max_windows": 3}
  assert tasks.learned_input({"input_settings": old}) == {"max_windows": 3}
  with pytest.raises(errors.InputError, match="only version 0.1 has"):
    tasks.learned_input({"input_settings": {"window_pooling": "max"}})
  with pytest.raises(errors.InputError, match="is 7; expected an object"):
    tasks.learned_input({"classifier_input": 7})


def test_accuracy_is_always_reported_of_classes():
  names = tasks.metric_names
  assert names(["matthews"], "single", ["0", "1"]) == ("matthews", "accuracy")
  assert names(["pearson"], "regression", []) == ("pearson",)
  with pytest.raises(errors.InputError, match="--metrics=bleu"):
    names(["bleu"], "single", ["0", "1"])


def test_examples_are_cut_to_their_limits(files):
  splits = read_own(files).splits
  limits = {"train": 2, "eval": 0, "predict": 5}
  cut = tasks.used(splits, limits)
  assert [len(split.examples) for split in cut.values()] == [2, 1, 1]
  unlabelled = {"eval": splits["predict"]}
  with pytest.raises(errors.InputError, match="new.csv:2: no label"):
    tasks.used(unlabelled, limits)
  predicted = tasks.used({"predict": splits["train"]}, limits)
  assert predicted["predict"].examples[0].label is None


def test_class_weights_are_for_classes(files):
  task = read_own(files)
  weights = tasks.class_weights("good=3", task)
  assert weights == [1, 1, 3]
  several = task._replace(kind="multi_label")
  weights = tasks.class_weights("balanced", several)
  assert weights == [2, 2, 2]
  with pytest.raises(errors.InputError, match="this task is regression"):
    tasks.class_weights("1", task._replace(kind="regression"))


@pytest.mark.parametrize(
  "text, message", [(None, "no such file"), ("x = 1", "adds no task: it must")]
)
def test_a_python_file_that_adds_no_task(tmp_path, text, message):
  path = tmp_path / "mood.py"
  if text:
    path.write_text(text)
  with pytest.raises(errors.InputError, match=message):
    tasks.load_task_module(str(path))


@pytest.mark.parametrize(
  "given, said",
  [
    ({"separator": ";;"}, "--separator=;;: expected one character"),
    ({"encoding": "latin-0"}, "--encoding=latin-0: unknown encoding"),
    ({"metrics": ("bleu",)}, "--metrics=bleu: this task .single, 3 classes"),
  ],
)
def test_flags_of_own_files_that_cannot_be_meant(files, given, said):
  with pytest.raises(errors.InputError, match=said):
    read_own({"train": files["train"]}, **given)
