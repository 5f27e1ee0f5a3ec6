"""The evaluation of a classifier, compared with numpy."""

import types

import numpy as np
import pytest
import tensorflow as tf

import tiny_model
from classification import inputs, job, model, scores, sequences
from classification.data import Example
from classification.task import ClassifierTask
from common import run_settings
from running import reports

LABELS = ("bad", "good")


@pytest.fixture(scope="module")
def task():
  """Seven texts of one to three windows."""
  examples = [
    Example(
      f"x{n}", " ".join(tiny_model.WORDS[: 2 * n + 1]), None, LABELS[n % 3 // 2]
    )
    for n in range(7)
  ]
  return ClassifierTask(
    name="own data",
    task_kind="single",
    labels=LABELS,
    metrics=("f1", "accuracy"),
    splits={"eval": examples},
  )


@pytest.fixture(scope="module")
def data(task, tmp_path_factory):
  folder = tmp_path_factory.mktemp("data")
  options = sequences.InputOptions(
    task_kind="single",
    labels=LABELS,
    max_seq_length=8,
    doc_stride=4,
    vocab_file=tiny_model.write_vocabulary(folder),
  )
  return inputs.prepare_all(str(folder), task.splits, options)


def make(**options):
  return model.ClassifierModel(
    tiny_model.tiny(), "single", 2, seed=5, **options
  )


@pytest.fixture(scope="module")
def network():
  return make()


def one_by_one(network, data):
  """Yields the logits of each example, computed alone."""
  for record in tf.data.TFRecordDataset(data.records):
    example = tf.io.parse_example(record[None], data.features)
    yield network({k: tf.cast(v, tf.int32) for k, v in example.items()})[0]


def test_scores_are_those_of_each_example(network, task, data, tmp_path):
  strategy = tf.distribute.get_strategy()
  logits = np.array(list(one_by_one(network, data["eval"])))
  gold = np.array([0, 0, 1, 0, 0, 1, 0])
  norms = np.log(np.exp(logits).sum(axis=1))
  losses = norms - logits[np.arange(7), gold]
  evaluator = job.Evaluator(network, strategy)
  results = evaluator.evaluate(
    task, data, batch_size=3, report_dir=str(tmp_path)
  )
  # As the last batch is short, means over batches and over examples differ.
  tiny_model.assert_close(
    results["loss"], (losses[:3].mean() + losses[3:6].mean() + losses[6]) / 3
  )
  tiny_model.assert_close(results["eval_loss"], losses.mean())
  assert abs(results["loss"] - results["eval_loss"]) > 1e-3
  assert results["eval_accuracy"] == np.mean(logits.argmax(axis=1) == gold)
  assert set(results) == {"loss", "eval_loss", "eval_accuracy", "eval_f1"}
  assert set(results) == set(job.result_names(task, data))
  assert "macro avg" in (tmp_path / "eval_report.txt").read_text()
  rows = (tmp_path / "eval_predictions.tsv").read_text().splitlines()
  named = [dict(zip(rows[0].split("\t"), row.split("\t"))) for row in rows[1:]]
  assert [LABELS.index(row["gold"]) for row in named] == gold.tolist()
  assert [LABELS.index(row["predicted"]) for row in named] == (
    logits.argmax(axis=1).tolist()
  )
  # The page shows the classes in numbers, the matrix in colors.
  reported = evaluator.reported
  whole = (tmp_path / "eval_report.txt").read_text()
  assert whole.startswith(reported["details"]) and "\n\n" in whole
  assert "macro avg" in reported["details"]
  assert "\n\n" not in reported["details"]
  assert reported["gold"].tolist() == gold.tolist()
  assert reported["confusions"].sum() == 7
  assert reported["probabilities"].shape == (7, 2)
  assert len(reported["mistakes"]) == np.sum(logits.argmax(axis=1) != gold)
  (outputs,) = evaluator.outputs(data["eval"], 2)
  tiny_model.assert_close(outputs["scores"], np.exp(logits - norms[:, None]))
  assert outputs["label_ids"].tolist() == gold.tolist()


@pytest.mark.parametrize("skip_padding, computed", [(True, 13), (False, 21)])
def test_skip_padding_skips_windows_without_tokens(
  data, monkeypatch, skip_padding, computed
):
  """The texts have 1, 1, 1, 2, 2, 3 and 3 windows."""
  network = make(skip_padding=skip_padding)
  encode, batch_sizes = network.bert.encode, []

  def counted(batch, *arguments, **options):
    batch_sizes.append(len(batch["input_ids"]))
    return encode(batch, *arguments, **options)

  monkeypatch.setattr(network.bert, "encode", counted)
  records = list(tf.data.TFRecordDataset(data["eval"].records))
  batch = tf.io.parse_example(tf.stack(records), data["eval"].features)
  batch = {name: tf.cast(value, tf.int32) for name, value in batch.items()}
  assert network(batch).shape == (7, 2) and batch_sizes == [computed]


EXAMPLES = [
  Example("a", "one", "two", "bad"),
  Example("b", "three", None, "good", ("four", "five")),
  Example("c", "six", None, "bad"),
]


def test_mistakes_are_the_worst_first_with_all_texts_and_labels():
  results = scores.Results(
    "single",
    LABELS,
    np.array([0, 1, 0]),
    np.array([[0.375, 0.625], [0.75, 0.25], [0.5, 0.5]], np.float32),
  )
  assert job._mistakes(results, EXAMPLES) == [
    reports.Mistake(0.75, "three \u2016 four \u2016 five", "good", "bad", 0.75),
    reports.Mistake(0.625, "one \u2016 two", "bad", "good", 0.625),
  ]
  numbers = scores.Results(
    "regression", [], np.array([1.0, 2.5, 3.0]), np.array([[1.0], [2.0], [4.0]])
  )
  found = job._mistakes(
    numbers, [e._replace(label=float(n)) for n, e in enumerate(EXAMPLES)]
  )
  assert [each[0] for each in found] == [1.0, 0.5]
  assert found[0] == reports.Mistake(1.0, "six", "2.0", "4.0", None)


def test_at_most_twenty_mistakes_are_kept():
  results = scores.Results(
    "regression", [], np.arange(30.0), np.zeros([30, 1], np.float32)
  )
  examples = [Example(f"{n}", f"t{n}", label=float(n)) for n in range(30)]
  found = job._mistakes(results, examples)
  assert [each.text for each in found] == [f"t{n}" for n in range(29, 9, -1)]


@pytest.mark.parametrize(
  "names, expected",
  [
    (
      ["train", "eval", "eval_mismatched"],
      "eval_f1 eval_loss eval_mismatched_f1 eval_mismatched_loss loss",
    ),
    (["eval_mismatched"], "eval_mismatched_f1 eval_mismatched_loss"),
    (["train", "predict"], ""),
  ],
)
def test_the_names_of_results(task, names, expected):
  task = task._replace(metrics=("f1",))
  assert job.result_names(task, names) == expected.split()


def test_results_are_float32_and_only_the_log_has_the_class(
  task, tmp_path, caplog
):
  caplog.set_level("INFO", "absl")
  path = tmp_path / "eval_results.txt"
  results = {"global_step": 2**25 + 1, "eval_f1": 0.1 + 0.2, "eval_f1_macro": 1}
  job.write_results(str(path), results, task)
  assert path.read_text() == (
    "eval_f1 = 0.3\neval_f1_macro = 1.0\nglobal_step = 33554433\n"
  )
  notes = [text for text in caplog.messages if "of class" in text]
  assert notes == ["  eval_f1 = 0.3 (of class 'good')"]


@pytest.mark.parametrize(
  "kind, labels, expected",
  [
    (
      "sparse",
      (),
      {"head": "sparse", "sparse_pooling": "sum", "sparse_activation": "relu"},
    ),
    ("single", LABELS, {"head": "classification", "labels": LABELS}),
    ("regression", (), {"head": "classification", "labels": ()}),
    # An ending's score has no name, but the task's classes are the endings.
    ("choice", ("0", "1"), {"head": "classification", "labels": ()}),
    ("ranking", (), {"head": "classification", "labels": ()}),
    (
      "retrieval",
      (),
      {
        "head": "embedding",
        "pooling": "mean",
        "pooling_layer": "-1",
        "normalize": True,
      },
    ),
  ],
)
def test_a_model_is_exported_with_its_classes_or_its_pooling(
  task, kind, labels, expected
):
  values = {"pooling": "mean", "pooling_layer": "-1", "normalize": True}
  values |= {"sparse_pooling": "sum", "sparse_activation": "relu"}
  losses = ("splade",) if kind == "sparse" else ()
  settings = run_settings.Settings({**values, "losses": losses})
  kind = "retrieval" if kind == "sparse" else kind
  trained = task._replace(task_kind=kind, labels=labels)
  run = types.SimpleNamespace(
    _settings=settings, _run=types.SimpleNamespace(task=trained)
  )
  assert job.ModelRun.export_head.fget(run) == expected
