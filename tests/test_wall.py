"""Tests that modules for texts and numbers do not import TensorFlow or Keras.

Each check runs in a new process in which one of them cannot be imported.
"""

import json
import os
import subprocess
import sys
import urllib.request

import pytest

import script_runner
import serving_models
import small_corpus
import test_layout
from common import errors, lean_tensorflow
from serving import text_models
from test_head_answers import TEXTS, assert_same

pytest.importorskip("onnxruntime")

# Modules whose docstring says "No TensorFlow", and more modules.
MODULES = sorted(
  path
  for path in test_layout.SOURCES
  if "No TensorFlow"
  in (test_layout.ast.get_docstring(test_layout.tree_of(path)) or "")
)
MORE_MODULES = [
  "classification.answers",
  "classification.data",
  "classification.scores",
  "checkpoints.model_files",
  "configuration",
  "features.text_batches",
  "exports.exported_network",
  "web.server",
  "serving.text_models",
  "squad.answers",
  "squad.data",
  "squad.scores",
  "tagging.answers",
  "tagging.data",
  "tagging.scores",
  "tokenization",
  "variants.vocabularies",
]
HEADS = {
  "classification": (serving_models.classifier(3), "classify"),
  "embedding": (None, "embed"),
  "tagging": (serving_models.tagger, "tag"),
}


def without(package, lines, *arguments):
  """Runs Python without a package; returns its output, parsed as JSON."""
  code = [f"import sys; sys.modules[{package!r}] = None", *lines]
  done = subprocess.run(
    [sys.executable, "-c", "\n".join(code), *map(str, arguments)],
    capture_output=True,
    text=True,
    cwd=test_layout.ROOT,
  )
  assert done.returncode == 0, done.stderr
  return json.loads(done.stdout.splitlines()[-1])


def test_texts_and_answers_import_no_tensorflow():
  names = [
    ".".join(path.relative_to(test_layout.ROOT).with_suffix("").parts)
    for path in MODULES
  ]
  assert len(names) > 7
  imports = [f"import {name}" for name in sorted({*names, *MORE_MODULES})]
  assert without("tensorflow", [*imports, "print(0)"]) == 0


def test_records_are_made_without_tensorflow(tmp_path):
  flags = {
    "input_file": small_corpus.write_text(tmp_path),
    "vocab_file": small_corpus.write_vocab(tmp_path),
    "output_file": tmp_path / "a.tfrecord",
    "max_seq_length": 16,
    "max_predictions_per_seq": 2,
  }
  assert (
    without(
      "tensorflow",
      [
        "import json, runpy",
        "sys.argv = sys.argv[1:]",
        "try: runpy.run_path(sys.argv[0], run_name='__main__')",
        "except SystemExit as end: print(json.dumps(end.code))",
      ],
      "create_pretraining_data.py",
      *(f"--{name}={value}" for name, value in flags.items()),
    )
    is None
  )
  assert (tmp_path / "a.tfrecord").exists()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
  """A function of a head that returns its model folder and its export."""
  models_and_exports = {}

  def of_head(head):
    if head not in models_and_exports:
      folder = tmp_path_factory.mktemp(head)
      model = serving_models.trained(
        folder / "model",
        HEADS[head][0],
        stored={"max_seq_length": 16},
        id2label=serving_models.label_names("O", "B-X", "I-X"),
      )
      script_runner.succeed(
        "export_saved_model.py",
        model_dir=model,
        head=head,
        format="onnx",
        export_dir=folder / "out",
      )
      models_and_exports[head] = model, folder / "out"
    return models_and_exports[head]

  return of_head


ASK = [
  "import json",
  "from serving import text_models",
  "answers = [",
  "  getattr(text_models.load(folder), method)(texts)",
  "  for folder, method, texts in json.loads(sys.argv[1])",
  "]",
  "print(json.dumps(answers, default=lambda array: array.tolist()))",
]


def answers_without(package, folders):
  """Returns the answers of a process without `package`, for {head: folder}."""
  return without(
    package,
    ASK,
    json.dumps(
      [(str(folder), HEADS[head][1], TEXTS) for head, folder in folders.items()]
    ),
  )


def test_exports_answer_without_tensorflow(exported):
  models, exports = (
    {head: exported(head)[number] for head in HEADS} for number in range(2)
  )
  # TensorFlow computes the expected answers, without Keras.
  assert_same(
    answers_without("keras", models), answers_without("tensorflow", exports)
  )


def test_an_export_without_vectors_cannot_be_searched(exported):
  _, export = exported("tagging")
  with pytest.raises(errors.InputError, match="head='tagging'; for head='emb"):
    text_models.load(str(export)).search("he", ["he was"])


@pytest.fixture
def no_tensorflow(tmp_path):
  """The environment of a process in which TensorFlow cannot be loaded."""
  package = tmp_path / "without" / "tensorflow"
  package.mkdir(parents=True)
  (package / "__init__.py").write_text("raise ImportError")
  return {**os.environ, "PYTHONPATH": str(package.parent)}


def test_a_script_predicts_with_an_export_without_tensorflow(
  exported, no_tensorflow, tmp_path
):
  model, export = exported("classification")
  new = tmp_path / "new.csv"
  new.write_text(
    "".join(f'"{text}"\n' for text in ["text", *TEXTS]), encoding="utf-8"
  )
  flags = {"do_predict": True, "predict_file": new}
  words = script_runner.command_line(
    {"model_dir": export, "output_dir": tmp_path / "export", **flags}
  )
  done = subprocess.run(
    [sys.executable, "run_classifier.py", *words],
    capture_output=True,
    text=True,
    cwd=test_layout.ROOT,
    env=no_tensorflow,
  )
  assert done.returncode == 0, done.stderr
  script_runner.succeed(
    "run_classifier.py", model_dir=model, output_dir=tmp_path / "model", **flags
  )
  tables = []
  for name in ("export", "model"):
    rows = (tmp_path / name / "test_results.tsv").read_text().splitlines()
    tables.append([list(map(float, row.split())) for row in rows])
    named = (tmp_path / name / "predictions.tsv").read_text()
    assert named.startswith("id\tlabel\tprobability\t")
    log = (tmp_path / name / "log.txt").read_text()
    assert ": 1 of 5 texts are longer than 16 tokens" in log
  assert_same(*tables)


@pytest.mark.parametrize(
  "head, flags, sentence",
  [
    ("tagging", {}, "is an export of --head=tagging; export the classifier"),
    (
      "classification",
      {"do_train": True, "train_file": "README.md"},
      "leave out --do_train, --train_file, which would",
    ),
    ("classification", {"max_seq_length": 8}, "--max_seq_length, which would"),
    ("classification", {"engine": "litert"}, "--engine, which would have no"),
    (
      "classification",
      {"engine": "tensorflow"},
      "--engine, which would have no",
    ),
    ("classification", {"do_predict": False}, "pass --do_predict"),
  ],
)
def test_flags_that_have_no_effect_with_an_export(
  head, flags, sentence, exported, tmp_path
):
  (tmp_path / "new.csv").write_text("text\nhe\n")
  script_runner.refuse(
    "run_classifier.py",
    sentence,
    **{
      "model_dir": exported(head)[1],
      "output_dir": tmp_path / "out",
      "do_predict": True,
      "predict_file": tmp_path / "new.csv",
      **flags,
    },
  )
  assert not (tmp_path / "out").exists()


def test_weights_without_tensorflow_are_refused_in_a_sentence(exported):
  model, _ = exported("classification")
  sentence = without(
    "tensorflow",
    [
      "import json",
      "from common import errors",
      "from serving import text_models",
      "try: text_models.load(sys.argv[1])",
      "except errors.InputError as error: print(json.dumps(str(error)))",
    ],
    model,
  )
  assert sentence.startswith("a model of this format needs tensorflow: install")


def test_a_missing_tensorflow_text_is_named(monkeypatch):
  monkeypatch.setitem(sys.modules, "tensorflow_text", None)
  with pytest.raises(errors.InputError, match="^a SavedModel for raw text n"):
    lean_tensorflow.import_tensorflow_text()


@pytest.mark.parametrize(
  "flags, sentence",
  [
    (
      {"predict_file": "none.json", "model_dir": serving_models.FOLDER},
      "no such file: none.json",
    ),
    (
      {"predict_file": "n?ne.json", "model_dir": serving_models.FOLDER},
      "no file matches 'n?ne.json'",
    ),
    (
      {"predict_file": "README.md", "model_dir": "tests"},
      "--model_dir=tests has no bert_config.json or config.json",
    ),
  ],
)
def test_a_wrong_path_is_reported_before_tensorflow_is_loaded(flags, sentence):
  done = subprocess.run(
    [
      sys.executable,
      "-X",
      "importtime",
      "run_squad.py",
      "--do_predict",
      "--output_dir=out",
      *script_runner.command_line(flags),
    ],
    capture_output=True,
    text=True,
    cwd=test_layout.ROOT,
  )
  assert done.returncode == 1
  assert f"run_squad.py: error: {sentence}" in done.stderr
  assert "| common.command\n" in done.stderr
  assert "| tensorflow" not in done.stderr


def test_an_export_is_served_without_tensorflow(exported, no_tensorflow):
  """A package that cannot be imported replaces TensorFlow."""
  _, export = exported("classification")
  process = subprocess.Popen(
    [sys.executable, "serve.py", f"--saved_model_dir={export}", "--port=0"],
    stdout=subprocess.PIPE,
    text=True,
    cwd=test_layout.ROOT,
    env=no_tensorflow,
  )
  try:
    url = process.stdout.readline().strip()
    body = json.dumps({"instances": TEXTS[:1]}).encode()
    with urllib.request.urlopen(f"{url}:predict", body, timeout=60) as answer:
      (prediction,) = json.load(answer)["predictions"]
  finally:
    process.kill()
    process.wait()
  assert_same(prediction, text_models.load(str(export)).classify(TEXTS[0]))
