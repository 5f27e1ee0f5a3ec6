"""Training in Python runs the scripts: the same files, weights and errors."""

import json
import logging
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from absl import flags as absl_flags

import script_runner
import serving_models
from common import console, errors
from message_facts import says
from serving import text_models, train

TEXTS = ["the gold star", "he was in it", "a gold street", "it was his"] * 4
LABELS = ["star", "he", "star", "he"] * 4
FAST = {
  "max_seq_length": 16,
  "train_batch_size": 4,
  "num_train_epochs": 1,
  # The tests' process has two devices, the scripts' have one.
  "distribution_strategy": "one_device",
}


@pytest.fixture(scope="module")
def fast(tmp_path_factory):
  """FAST with a model of one layer."""
  folder = tmp_path_factory.mktemp("model")
  return {**FAST, "model_dir": serving_models.trained(folder, None, stored={})}


@pytest.fixture
def eager():
  """Computes without graphs: a few steps then take a third of the time."""
  tf.config.run_functions_eagerly(True)
  yield
  tf.config.run_functions_eagerly(False)


def weights(folder):
  return pathlib.Path(
    folder, "final_model", "bert_model.ckpt.data-00000-of-00001"
  ).read_bytes()


def test_a_classifier_is_the_one_that_the_script_trains(fast, tmp_path):
  handlers = [*logging.getLogger().handlers]
  names = set(absl_flags.FLAGS)
  folder = tmp_path / "python"
  trained = train.classifier(
    TEXTS, LABELS, evaluation=(TEXTS, LABELS), output_dir=folder, **fast
  )
  assert trained.output_dir == str(folder)
  assert trained.results["global_step"] == 4
  assert 0 <= trained.results["eval_accuracy"] <= 1
  script_runner.succeed(
    "run_classifier.py",
    do_train=True,
    do_eval=True,
    train_file=folder / "data" / "train.jsonl",
    eval_file=folder / "data" / "eval.jsonl",
    output_dir=tmp_path / "script",
    **fast,
  )
  assert weights(folder) == weights(tmp_path / "script")
  results = json.loads((tmp_path / "script/eval_results.json").read_text())
  assert trained.results == pytest.approx(results)
  model = text_models.load(trained.model_dir)
  assert model.classify("the gold star")["label"] in LABELS
  # The program's own log and flags are as before.
  assert logging.getLogger().handlers == handlers and not console.when_kept
  assert set(absl_flags.FLAGS) == names
  log = (folder / "log.txt").read_text()
  assert "eval_accuracy = " in log and "--num_train_epochs=1" in (
    (folder / "flags.txt").read_text()
  )


@pytest.mark.usefixtures("eager")
def test_pairs_tags_answers_and_vectors(fast):
  """Four tasks in one process, each in a temporary folder of its own."""
  pairs = [(text, "gold") for text in TEXTS]
  trained = train.classifier(pairs, np.arange(16) % 2, **fast)
  assert trained.results == {}
  answer = text_models.load(trained.model_dir).classify(pairs[0])
  assert answer["labels"] == ["0", "1"]
  words = [text.split() for text in TEXTS]
  tags = [["B-X"] + ["O"] * (len(sentence) - 1) for sentence in words]
  trained = train.tagger(words, tags, evaluation=(words, tags), **fast)
  assert "f1" in trained.results
  assert len(text_models.load(trained.model_dir).tag("the star")["tags"]) == 2
  answers = [text.split()[0] for text in TEXTS]
  trained = train.question_answerer(
    ["who?"] * 16, TEXTS, answers, doc_stride=4, max_query_length=4, **fast
  )
  model = text_models.load(trained.model_dir)
  assert model.answer("who?", "he was")["answer"] in "he was"
  trained = train.sentence_vectors(pairs, **fast)
  assert text_models.load(trained.model_dir).embed("gold").ndim == 1
  assert (
    "retrieval" in pathlib.Path(trained.output_dir, "flags.txt").read_text()
  )
  scores = [0.5, 1.0] * 8
  trained = train.sentence_vectors(
    pairs, scores, evaluation=(pairs, scores), **fast
  )
  assert "eval_spearman" in trained.results


@pytest.mark.parametrize(
  "call, message",
  [
    (lambda: train.classifier(["a"], ["b", "c"]), "1 and 2 values"),
    (lambda: train.classifier(["a"], ["b"], learning_rte=1), "learning_rte"),
    (lambda: train.classifier(["a"], ["b"], seed="x"), "--seed=x|seed"),
    (lambda: train.classifier(["a", ("b", "c")], [1, 2]), "number 0 is 'a'"),
    (
      lambda: train.question_answerer(["who?"], ["he was"], ["she"]),
      says("0", "'she'", "not"),
    ),
  ],
)
def test_mistakes_are_named(call, message, monkeypatch):
  with pytest.raises(errors.InputError, match=message):
    call()


@pytest.fixture
def called(monkeypatch):
  """The scripts and the flags that are called, instead of their runs."""
  calls = []

  def call(script, flags):
    calls.append((script, flags))
    path = pathlib.Path(flags["output_dir"], "eval_results.json")
    path.write_text('{"f1": 0.5}')

  monkeypatch.setattr(train.command, "call", call)
  return calls


def rows_of(flags, name):
  lines = pathlib.Path(flags[f"{name}_file"]).read_text().splitlines()
  return [json.loads(line) for line in lines]


def test_answers_become_places_in_their_contexts(called, tmp_path):
  trained = train.question_answerer(
    ["who?", "where?"],
    ["a b a", "so"],
    ["a", ""],
    evaluation=(["when?"], ["at one"], ["one"]),
    output_dir=tmp_path,
    doc_stride=4,
  )
  ((script, flags),) = called
  assert script == "run_squad" and flags["doc_stride"] == 4
  assert flags["do_train"] and flags["do_eval"]
  assert rows_of(flags, "train") == [
    {
      "id": "train-0",
      "question": "who?",
      "context": "a b a",
      "answers": {"text": ["a"], "answer_start": [0]},
    },
    {
      "id": "train-1",
      "question": "where?",
      "context": "so",
      "answers": {"text": [], "answer_start": []},
    },
  ]
  (row,) = rows_of(flags, "eval")
  assert row["id"] == "eval-0"
  assert row["answers"] == {"text": ["one"], "answer_start": [3]}
  assert trained == (str(tmp_path / "final_model"), {"f1": 0.5}, str(tmp_path))


def test_a_run_continues_in_its_folder(called, tmp_path):
  for _ in range(2):
    train.tagger([["a"]], [["O"]], output_dir=tmp_path, scheme="none")
  (script, first), (_, second) = called
  assert script == "run_ner" and first == second and first["scheme"] == "none"
  assert rows_of(first, "train") == [{"words": ["a"], "labels": ["O"]}]


@pytest.mark.parametrize(
  "flags, evaluates, results",
  [
    ({}, False, {}),
    ({"eval_fraction": 0.5}, True, {"f1": 0.5}),
    ({"evaluation": (["c"], ["x"])}, True, {"f1": 0.5}),
    ({"evaluation": (["c"], ["x"]), "do_eval": False}, False, {}),
  ],
)
def test_only_an_evaluation_has_results(called, flags, evaluates, results):
  trained = train.classifier(["a", "b"], ["x", "y"], **flags)
  ((script, given),) = called
  assert script == "run_classifier" and given["do_eval"] == evaluates
  assert ("eval_file" in given) == ("evaluation" in flags)
  assert trained.results == results and "text_b_column" not in given
  assert rows_of(given, "train") == [
    {"text": "a", "label": "x"},
    {"text": "b", "label": "y"},
  ]


@pytest.mark.parametrize(
  "scores, kind, labels",
  [
    (None, "retrieval", [{}, {}]),
    (np.float32([0.5, 1]), "similarity", [{"label": 0.5}, {"label": 1.0}]),
  ],
)
def test_pairs_are_compared_with_or_without_scores(
  called, scores, kind, labels
):
  evaluation = ([("e", "f")], scores[:1] if scores is not None else None)
  train.sentence_vectors(
    [("a", "b"), ["c", "d"]], scores, evaluation=evaluation
  )
  train.sentence_vectors([("a", "b")], task_kind="ranking", text_b_column="x")
  (script, flags), (_, other) = called
  assert script == "run_classifier" and flags["task_kind"] == kind
  assert flags["text_b_column"] == "text_b"
  texts = [{"text": "a", "text_b": "b"}, {"text": "c", "text_b": "d"}]
  assert rows_of(flags, "train") == [t | n for t, n in zip(texts, labels)]
  assert rows_of(flags, "eval") == [{"text": "e", "text_b": "f", **labels[0]}]
  assert other["task_kind"] == "ranking" and other["text_b_column"] == "x"


def test_values_of_numpy_become_values_of_json():
  values = [np.int64(3), np.bool_(True), np.arange(2), ("a", [np.float32(2)])]
  plain = [train._plain(value) for value in values]
  assert plain == [3, True, [0, 1], ["a", [2.0]]]
  assert [type(value) for value in plain[:2]] == [int, bool]


@pytest.mark.parametrize("pair", ["ab", ("a",), ("a", "b", "c")])
def test_what_is_no_pair_is_named(pair):
  with pytest.raises(errors.InputError, match=says("1", "pair", "expected")):
    train.classifier([("a", "b"), pair], ["x", "y"])


@pytest.mark.usefixtures("eager")
def test_a_scikit_learn_pipeline_is_validated(fast):
  pytest.importorskip("sklearn")
  from sklearn import base, model_selection, pipeline, preprocessing

  from serving import estimator

  classifier = estimator.TextClassifier(str(fast["model_dir"]), FAST)
  assert base.clone(classifier).get_params() == classifier.get_params()
  lower = preprocessing.FunctionTransformer(lambda X: [x.lower() for x in X])
  steps = pipeline.Pipeline([("lower", lower), ("bert", classifier)])
  labels = np.array([7, 3, 7, 3] * 4)
  scores = model_selection.cross_val_score(steps, TEXTS, labels, cv=2)
  assert scores.shape == (2,) and np.isfinite(scores).all()
  steps.fit(TEXTS, labels)
  shares = steps.predict_proba(TEXTS)
  assert shares.shape == (16, 2)
  np.testing.assert_allclose(shares.sum(1), 1, atol=1e-6)
  assert [*steps.classes_] == [3, 7]
  expected = np.array([3, 7])[shares.argmax(1)]
  assert (steps.predict(TEXTS) == expected).all()


def test_an_estimator_trains_with_its_flags_or_without(called, monkeypatch):
  pytest.importorskip("sklearn")
  from serving import estimator

  loaded = []
  monkeypatch.setattr(text_models, "load", loaded.append)
  for flags in ({"seed": 3}, None):
    estimator.TextClassifier("m", flags).fit(np.array([["a", "b"]]), [7])
  (_, first), (_, second) = called
  assert first["seed"] == 3 and "seed" not in second
  assert first["model_dir"] == second["model_dir"] == "m"
  assert loaded == [f"{flags['output_dir']}/final_model" for _, flags in called]
