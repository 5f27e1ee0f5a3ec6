"""Tests the report page and the model card of a fine-tuned model."""

import hashlib
import html
import json
import re

import numpy as np
import pytest

from common import extensions, run_settings
from running import reports
from running.reports import model_card

MISTAKES = [
  reports.Mistake(n / 30, f"text {n} <b>", "<b>", "no", n / 40)
  for n in range(30)
]


@pytest.fixture
def written(tmp_path, monkeypatch):
  """The folder of a report whose texts contain HTML."""
  path = tmp_path / "train.csv"
  monkeypatch.setattr(
    "sys.argv", ["run_classifier.py", "<b>", f"--train_file={path},{path}"]
  )
  (tmp_path / "train_log.jsonl").write_text(
    "".join(
      json.dumps({"step": step, **values}) + "\n"
      for step, values in [
        (1, {"loss": 2.0, "learning_rate": 0.1}),
        (2, {"loss": None}),
        (3, {"loss": 0.5}),
        (3, {"eval/f1": 0.25}),
      ]
    )
  )
  (tmp_path / "train.csv").write_text("text,label\n")
  (tmp_path / "final_model").mkdir()
  (tmp_path / "data" / "folder.d").mkdir(parents=True)
  reports.write_all(
    run_settings.Settings(
      {
        "output_dir": str(tmp_path),
        "do_train": True,
        "eval_file": None,
        "train_file": str(tmp_path / "train.csv"),
        "task_name": None,
        "data_dir": str(tmp_path / "data"),
      }
    ),
    reports.Report(
      "text-classification",
      {"loss": 1.25, "eval_f1": np.float32(0.5), "eval_auc": 0.75},
      "f1 of <b>",
      ["no", "<b>"],
      np.array([[3, 1], [0, 4]]),
      MISTAKES,
      text_pairs=True,
      probabilities=np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.7, 0.3]]),
      gold=np.array([0, 0, 1, 1]),
    ),
  )
  return tmp_path


SENTENCE = "the mean recall is 0.65 after too few steps (0): try "
ENOUGH = {"task_name": "sst-2"}
WEIGHTED = {"class_weights": "balanced"}


@pytest.mark.parametrize(
  "confusions, flags, advice",
  [
    ([[9, 1], [2, 8]], {}, []),
    (
      [[9, 1], [6, 4]],
      {},
      [
        SENTENCE + "--optimizer=adamw --learning_rate=1e-4, and more "
        "--num_train_epochs, for at least 100 steps"
      ],
    ),
    ([[8, 2], [2, 8]], {}, []),  # A mean recall of 0.8 is enough.
    *(
      ([[9, 1], [6, 4]], {name: value}, [])
      for name, value in (
        ("task_name", "sst-2"),
        ("freeze_encoder", True),
        ("max_train_steps", 5),
        ("stop_step", 5),
      )
    ),
    ([[9, 1], [6, 4]], {"do_train": False}, []),
    ([[20, 0], [1, 4]], ENOUGH, []),
    # A class of one example counts.
    ([[4, 0], [0, 1]], {}, []),
    (
      [[4, 0], [1, 0]],
      {},
      ["the mean recall is 0.50", "the recall of '<b>' is 0/1"],
    ),
    (
      [[9, 1], [6, 4]],
      {"optimizer": "lamb", "learning_rate": 0.1},
      [SENTENCE + "more --num_train_epochs, for at least 100 steps"],
    ),
    (
      [[9, 1], [6, 4]],
      {"learning_rate": 0.1, "num_train_epochs": 2.0},
      [SENTENCE + "--optimizer=adamw, and longer training, for at least 100"],
    ),
    ([[8, 0], [1, 1]], ENOUGH, ["the recall of '<b>' is 1/2"]),
    ([[7, 0], [1, 1]], ENOUGH, []),
    ([[8, 0], [1, 1]], {**ENOUGH, **WEIGHTED}, []),
    ([[8, 0], [0, 0]], {}, []),
    (
      [[8, 0], [2, 0]],
      {},
      ["the mean recall is 0.50", "the recall of '<b>' is 0/2"],
    ),
  ],
)
def test_poor_classes_get_advice(tmp_path, caplog, confusions, flags, advice):
  settings = {"output_dir": str(tmp_path), "do_train": True, **flags}
  (tmp_path / "final_model").mkdir()
  reports.write_all(
    run_settings.Settings({"class_weights": None, **settings}, given=flags),
    reports.Report(
      "text-classification", {}, "", ["a", "<b>"], np.array(confusions)
    ),
  )
  page = (tmp_path / "report.html").read_text("utf-8")
  assert (
    page.count('<p class="advice">Advice: ')
    == len(caplog.messages)
    == len(advice)
  )
  for sentence, start in zip(caplog.messages, advice):
    assert sentence.startswith(start) and "--" in sentence
    assert f">Advice: {html.escape(sentence)}.</p>" in page


@pytest.mark.parametrize(
  "step, flags, advised", [(99, {}, True), (100, {}, False)]
)
def test_a_training_of_enough_steps_gets_no_advice(
  tmp_path, caplog, step, flags, advised
):
  """Nor does a class, where the script has no --class_weights."""
  (tmp_path / "train_log.jsonl").write_text(
    f'{{"step": 1, "loss": 2}}\n{{"step": {step}, "loss": 1}}\n'
  )
  (tmp_path / "final_model").mkdir()
  reports.write_all(
    run_settings.Settings({"output_dir": str(tmp_path), "do_train": True}),
    reports.Report(
      "text-classification", {}, "", ["a", "b"], np.array([[8, 0], [2, 0]])
    ),
  )
  facts = [f"0.50 after too few steps ({step})"] if advised else []
  assert len(caplog.messages) == len(facts)
  assert all(fact in caplog.text for fact in facts)


@pytest.mark.parametrize("has_probabilities", [True, False])
def test_the_columns_of_mistakes(tmp_path, has_probabilities):
  """A model may compute probabilities of none, or of some predictions."""
  mistakes = [
    reports.Mistake(1.0, "less", "a", "b"),
    reports.Mistake(2.0, "more", "b", "a", 0.5 if has_probabilities else None),
  ]
  reports.write_all(
    run_settings.Settings({"output_dir": str(tmp_path), "do_train": False}),
    reports.Report(
      "text-classification",
      {},
      labels=["a", "b"],
      confusions=np.array([[1, 0], [0, 0]]),
      mistakes=mistakes,
      # The correct classes are unknown.
      probabilities=np.array([[0.75, 0.25]]),
    ),
  )
  page = (tmp_path / "report.html").read_text("utf-8")
  names = ["text", "correct", "predicted"]
  rows = [["more", "b", "a"], ["less", "a", "b"]]
  if has_probabilities:
    names, rows = [*names, "probability"], [[*rows[0], "0.500"], [*rows[1], ""]]
  head = "".join(f"<th>{name}</th>" for name in names)
  cells = ["".join(f"<td>{each}</td>" for each in row) for row in rows]
  assert f"<table><tr>{head}</tr><tr>{cells[0]}</tr><tr>{cells[1]}</tr>" in page
  assert "--share:1.00" in page and "<figure>" not in page
  assert "<h2>Classes" not in page and "nan" not in page.partition("<h2>")[2]
  # The settings are a table without names of columns.
  assert "<table><tr><td>do_train</td><td>false</td></tr><tr><td>out" in page


def test_the_page_shows_scores_curves_and_confusions(written):
  page = (written / "report.html").read_text("utf-8")
  scores = r'<td>(\w+)</td><td class="number">([\d.]+)</td>'
  assert re.findall(scores, page.partition("<h2>Classes")[0])[:3] == [
    ("eval_auc", "0.75"),
    ("eval_f1", "0.5"),
    ("loss", "1.25"),
  ]
  assert "<pre>f1 of &lt;b&gt;</pre>" in page
  assert ">python run_classifier.py &#x27;&lt;b&gt;&#x27; --train" in page
  assert re.findall(r"<figcaption>(.*?)</figcaption>", page) == [
    "loss",
    "eval/f1",
    "precision and recall of &lt;b&gt; (average precision 0.833)",
    "ROC of &lt;b&gt; (area 0.750)",
    "calibration (expected error 0.350)",
  ]
  # The first of two losses is above the second, which is at the right edge.
  assert 'points="162.0,10.0 390.0,156.0"' in page
  assert "<title>step 3: 0.5</title>" in page
  cells = r'class="number (\w+)" style="--share:(.*?)">(\d+)<'
  assert re.findall(cells, page) == [
    ("right", "0.75", "3"),
    ("wrong", "0.25", "1"),
    ("wrong", "0.00", "0"),
    ("right", "1.00", "4"),
  ]
  assert "prefers-color-scheme: dark" in page


def test_the_page_has_the_largest_mistakes_and_needs_no_network(written):
  page = (written / "report.html").read_text("utf-8")
  assert re.findall(r"<td>text (\d+) &lt;b&gt;</td>", page) == [
    str(n) for n in range(29, 9, -1)
  ]
  assert re.findall(r"<td>(0\.\d{3})</td>", page)[:2] == ["0.725", "0.700"]
  assert not re.search(r"https?://|src=|<script|@import|url\(|<b>", page)
  # Long words wrap, so the table fits into the window.
  assert "td { overflow-wrap: anywhere;" in page


def test_the_card_names_scores_data_and_use(written):
  card = (written / "final_model" / "README.md").read_text("utf-8")
  _, head, text = card.split("---\n", 2)
  assert "pipeline_tag: text-classification\n" in head
  (metrics,) = re.findall(r"metrics: (.*)", head)
  assert json.loads(metrics) == [
    {"type": "roc_auc", "name": "eval_auc", "value": 0.75},
    {"type": "f1", "name": "eval_f1", "value": 0.5},
    {"type": "loss", "name": "loss", "value": 1.25},
  ]
  digest = hashlib.sha256(b"text,label\n").hexdigest()
  assert f"| `train.csv` | 11 | `{digest}` |" in text
  assert "`no`, `<b>`" in text and "folder.d" not in text
  assert 'text_models.load(".")' in text and "--model_dir=. " in text
  typed = "python run_classifier.py '<b>' --train_file=train.csv,train.csv"
  assert f"{typed}\n" in text
  assert str(written) not in card  # No path of this machine.
  assert "model.classify([(" in text
  assert "$" not in card


@pytest.mark.parametrize(
  "use, head, call",
  [
    ("text-classification", "classification", 'classify(["a text"])'),
    ("text-ranking", "classification", 'classify(["a text"])'),
    ("sentence-similarity", "embedding", 'embed(["a text", "another"])'),
    ("question-answering", "span", 'answer("a question", "its context")'),
    ("token-classification", "tagging", 'tag(["a text"])'),
  ],
)
@pytest.mark.parametrize("text_pairs", [False, True])
def test_the_card_says_how_each_model_is_used(
  tmp_path, use, head, call, text_pairs
):
  (tmp_path / "final_model").mkdir()
  reports.write_all(
    run_settings.Settings({"output_dir": str(tmp_path), "do_train": True}),
    reports.Report(
      use, {"eval_f1": float("nan"), "eval_auc": 0.5}, text_pairs=text_pairs
    ),
  )
  card = (tmp_path / "final_model" / "README.md").read_text("utf-8")
  if text_pairs and head == "classification":
    call = 'classify([("a text", "another")])'
  assert f"model.{call}" in card and f" --head={head} " in card
  # The Hub's metadata are JSON, which has no NaN.
  (metrics,) = re.findall(r"metrics: (.*)", card)
  assert [each["name"] for each in json.loads(metrics)] == ["eval_auc"]
  assert "| eval_f1 | nan |" in card and "Labels: none." in card


@pytest.mark.parametrize(
  "flags, name",
  [
    ({"task_name": "sst-2", "eval_file": "/a/dev.csv"}, "sst-2"),
    ({"eval_file": "/a/dev.csv", "predict_file": "/a/test.csv"}, "dev.csv"),
    ({"predict_file": "/a/test.json"}, "test.json"),
    ({}, "data"),
  ],
)
def test_the_card_names_its_data(tmp_path, flags, name):
  (tmp_path / "dev.csv").write_text("a")
  settings = {"output_dir": str(tmp_path), "eval_file": None, **flags}
  if settings["eval_file"]:
    settings["eval_file"] = str(tmp_path / "dev.csv")
  card = model_card._card(
    run_settings.Settings(settings), reports.Report("question-answering", {})
  )
  assert f'dataset: {{name: "{name}", type: "{name}"}}' in card
  assert "| not evaluated | |" in card


def test_the_card_lists_every_file_of_data_in_order(tmp_path):
  for name in ("b.csv", "a.csv", "dev.csv"):
    (tmp_path / name).write_text(name * 500)
  (tmp_path / "data").mkdir()
  for name in ("z.tsv", "y.tsv", "x.b", "w.b", "a.b", "c.b", "unread"):
    (tmp_path / "data" / name).write_text("x")
  settings = run_settings.Settings(
    {
      "train_file": [str(tmp_path / "b.csv"), str(tmp_path / "a.csv")],
      "eval_file": str(tmp_path / "dev.csv"),
      "data_dir": str(tmp_path / "data"),
    }
  )
  rows = list(model_card._data_rows(settings))
  assert [row.split(" | ")[:2] for row in rows] == [
    ["| `b.csv`", "2,500"],
    ["| `a.csv`", "2,500"],
    ["| `dev.csv`", "3,500"],
    *(
      [f"| `{name}`", "1"]
      for name in ("a.b", "c.b", "w.b", "x.b", "y.tsv", "z.tsv")
    ),
  ]


@pytest.mark.parametrize(
  "program, command",
  [
    ("run_ner.py", "python run_ner.py 'a b' c"),
    ("bert-run-ner", "bert-run-ner 'a b' c"),
  ],
)
def test_the_command_is_the_one_that_was_typed(monkeypatch, program, command):
  monkeypatch.setattr("sys.argv", [f"/usr/bin/{program}"])
  assert reports.command(["a b", "c"]) == command


def test_a_run_without_room_for_its_report_goes_on(tmp_path, caplog):
  (tmp_path / "report.html").mkdir()  # It cannot be written.
  reports.write_all(
    run_settings.Settings({"output_dir": str(tmp_path), "do_train": False}),
    reports.Report("question-answering", {"f1": 80.0}),
  )
  (message,) = caplog.messages
  assert f"cannot write {tmp_path}/report.html" in message


def test_a_model_that_was_not_trained_gets_no_card(tmp_path):
  reports.write_all(
    run_settings.Settings({"output_dir": str(tmp_path), "do_train": False}),
    reports.Report("question-answering", {"f1": 80.0}),
  )
  page = (tmp_path / "report.html").read_text("utf-8")
  assert "Nothing was trained." in page and "None." in page
  assert not (tmp_path / "final_model").exists()


@pytest.mark.parametrize(
  "name, metric",
  [
    ("eval_accuracy", "accuracy"),
    ("eval_mismatched_accuracy", "accuracy"),
    ("eval_matthews", "matthews_correlation"),
    ("eval_spearman", "spearmanr"),
    ("eval_auc", "roc_auc"),
    ("exact_match", "exact_match"),
    ("eval_ndcg@10", "ndcg_at_10"),
    ("eval_pearson", "pearsonr"),
    ("exact", "exact_match"),
  ],
)
def test_metrics_have_the_names_of_the_hub(name, metric):
  assert model_card._hub_metric(name) == metric


def test_a_matrix_is_shown_once_and_for_three_classes_no_threshold(tmp_path):
  probabilities = np.eye(3)[[0, 1, 2, 2]] * 0.4 + 0.2
  reports.write_all(
    run_settings.Settings({"output_dir": str(tmp_path), "do_train": False}),
    reports.Report(
      "text-classification",
      {},
      labels=list("abc"),
      confusions=np.diag([1, 1, 2]),
      probabilities=probabilities,
      gold=np.array([0, 1, 2, 2]),
    ),
  )
  page = (tmp_path / "report.html").read_text("utf-8")
  assert re.findall(r"<figcaption>(.*?)</figcaption>", page) == [
    "calibration (expected error 0.400)"
  ]
  assert page.count("<h2>Confusions") == 1


@pytest.mark.parametrize("file", ["html_page", "model_card"])
def test_each_report_is_written_alone(tmp_path, monkeypatch, file):
  monkeypatch.setattr(
    extensions,
    "names",
    lambda package: (file,) if package.endswith("reports") else (),
  )
  (tmp_path / "final_model").mkdir()
  reports.write_all(
    run_settings.Settings({"output_dir": str(tmp_path), "do_train": True}),
    reports.Report("question-answering", {"f1": 80.0}),
  )
  card = (tmp_path / "final_model" / "README.md").exists()
  assert ((tmp_path / "report.html").exists(), card) == (
    file == "html_page",
    file == "model_card",
  )
