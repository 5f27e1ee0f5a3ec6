"""Tests that every head gives the same answers through every interface.

  TensorFlow   text_models.load of the model folder: the reference
  ONNX, LiteRT the same function with another engine
  export       text_models.load of an ONNX model by export_saved_model.py
  served       a SavedModel: in Python, over HTTP, and its graph for strings
  scripts      the predictions that the task's script writes

For the models in ROWS, the tests pass no length or stride: the scripts and
exports load the input settings from the model folder.
"""

import asyncio
import csv
import functools
import json
import math
import pathlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

import script_runner
import served
import serving_models
import tokenization
from answering import export_settings, models
from checkpoints import model_files
from exports import raw_text, saved_model
from serving import text_models
from serving_models import label_names

pytest.importorskip("onnxruntime")
pytest.importorskip("ai_edge_litert")


# Optimizing a graph takes longer than running it a few times.
@pytest.fixture(autouse=True, scope="module")
def _unoptimized_graphs():
  tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
  yield
  tf.config.optimizer.set_experimental_options(
    {"disable_meta_optimizer": False}
  )


LABELS = label_names("bad", "fair", "good")
LONG = "the gold star had to light up the street, and he was with him. " * 3
TEXTS = [
  "the street is up",
  "It's gold!",
  LONG,
  "he \u00c9mile Stra\u00dfe, 1999!",
  "x y",
]
SECOND = ["and a star", LONG, "in the gold", "to", "which"]
# Single texts that contain the separators of text pairs.
SEPARATED = ["the street\tis up", "in ||| the gold"]
PAIRS = {"text_a": TEXTS, "text_b": SECOND}
SENTENCES = [LONG * 2, "gold", "abcdefghijk" * 4 + " it's is"]
CONTEXTS = [LONG, "Gold  Street\nwas up.", LONG.upper(), "he was in it"]
QUESTIONS = ["who was it?", "which street is it on", "what", "is he in"]
MASKS = ["the [MASK] is on [MASK]", "[MASK]", "he was in it [MASK]"]
# The model folder stores no threshold, since its weights were not evaluated.
THRESHOLD = {"null_score_diff_threshold": -28.0}


class Row(NamedTuple):
  """A trained head, the texts that it answers, and its script.

  Attributes:
    head: the head, as export_saved_model.py names it.
    make: function of (config, encoder) that returns the head; None: no head.
    texts: {name of the input: texts}.
    method: function of (TextModel, texts or pairs); returns the answers.
    stored: the input settings that the folder stores, besides the length.
    task: further keys of the configuration.
    flags: flags of the export and of the script.
    check_scripts: function of (model folder, Row, answers, folder to write
      to, flags) that compares the scripts with the answers.
    has_pooler: whether the checkpoint has a pooler.
  """

  head: str
  make: Callable | None
  texts: dict
  method: Callable
  check_scripts: Callable
  stored: dict = {}
  task: dict = {}
  flags: dict = {}
  has_pooler: bool = True

  def instances(self):
    """{"text": ["a", "b"]} -> [{"text": "a"}, {"text": "b"}]"""
    return [dict(zip(self.texts, row)) for row in zip(*self.texts.values())]

  def rows(self):
    """Returns the texts or pairs as text_models takes them."""
    columns = list(self.texts.values())
    return columns[0] if len(columns) == 1 else list(zip(*columns))

  def ask(self, bert):
    """Returns the answers of a text_models.TextModel in the served form."""
    answers = self.method(bert, self.rows())
    return [
      next(iter(row.values()))
      if isinstance(row, dict) and len(row) == 1
      else row
      for row in answers
    ]


def assert_same(value, expected):
  """Compares floats within 1e-5 (relative above 1), other values exactly."""
  if isinstance(value, dict):
    assert value.keys() == expected.keys()
    for key in value:
      assert_same(value[key], expected[key])
  elif isinstance(value, (list, tuple)):
    assert len(value) == len(expected)
    for pair in zip(value, expected):
      assert_same(*pair)
  elif isinstance(value, float):
    assert abs(value - expected) <= 1e-5 * max(1, abs(expected))
  else:
    assert value == expected


# The answers of the scripts. Other tests run them with graphs, as users do.


def script(name, **flags):
  return script_runner.succeed(name, eager=True, **flags).out


def lines_in(path):
  return path.read_text(encoding="utf-8").splitlines()


def write_lines(folder, lines):
  path = folder / "texts.txt"
  path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
  return path


def check_classifier(folder, row, answers, tmp_path, **flags):
  """Compares the rows of predictions.tsv with `answers`."""
  is_pairs = len(row.texts) == 2
  with open(tmp_path / "new.csv", "w", encoding="utf-8", newline="") as stream:
    csv.writer(stream).writerows(
      [["text", "b"][: 1 + is_pairs], *zip(*row.texts.values())]
    )
  script(
    "run_classifier.py",
    model_dir=folder,
    output_dir=tmp_path / "out",
    do_predict=True,
    predict_file=tmp_path / "new.csv",
    text_b_column="b" if is_pairs else None,
    **flags,
  )
  _, *lines = lines_in(tmp_path / "out" / "predictions.tsv")
  for answer, line in zip(answers, lines, strict=True):
    label, *numbers = next(csv.reader([line], dialect="excel-tab"))[1:]
    if isinstance(answer, float):
      assert_same(answer, float(label))
      continue
    if "label" in answer:
      assert answer["label"] == label
      assert_same(answer["probability"], float(numbers.pop(0)))
    else:
      scores = zip(answer["labels"], answer["probabilities"])
      assert ",".join(name for name, score in scores if score >= 0.5) == label
    assert_same(answer["probabilities"], list(map(float, numbers[:3])))


def check_squad(folder, row, answers, tmp_path, **flags):
  paragraphs = [
    {"context": context, "qas": [{"id": str(number), "question": question}]}
    for number, (question, context) in enumerate(row.rows())
  ]
  data = {"version": "2.0", "data": [{"title": "", "paragraphs": paragraphs}]}
  path = tmp_path / "dev.json"
  path.write_text(json.dumps(data))
  flags = {"model_dir": folder, "do_predict": True, **flags}
  script("run_squad.py", output_dir=tmp_path, predict_file=path, **flags)
  best = text_models.load(str(folder)).answer(
    QUESTIONS, CONTEXTS, version_2_with_negative=True, top_k=3, **THRESHOLD
  )
  texts = json.loads((tmp_path / "predictions.json").read_text())
  odds = json.loads((tmp_path / "null_odds.json").read_text())
  for number, answer in enumerate(answers):
    if answer["answer"]:
      (first, *_) = [c for c in best[number]["candidates"] if c["answer"]]
      names = ("score", "start", "end")
      assert_same([first[n] for n in names], [answer[n] for n in names])
    assert answer["answer"] == texts[str(number)]
    assert_same(answer["null_score"] - answer["score"], odds[str(number)])
  assert "" in texts.values() and any(texts.values())


def check_tagger(folder, row, answers, tmp_path):
  path = tmp_path / "words.conll"
  path.write_text(
    "\n".join("\n".join([*text.split(), ""]) for text in row.rows())
  )
  flags = {"model_dir": folder, "do_predict": True}
  script("run_ner.py", output_dir=tmp_path, predict_file=path, **flags)
  words = [word for text in row.rows() for word in text.split()]
  tags = [tag for answer in answers for tag in answer["tags"]]
  assert [word for answer in answers for word in answer["words"]] == words
  assert len(set(tags)) > 1
  lines = lines_in(tmp_path / "test_predictions.conll")
  assert tags == [line.split()[-1] for line in lines if line.strip()]


def check_vectors(folder, row, answers, tmp_path, name="vector", **flags):
  flags = {"pooling": "mean"} | flags if name == "vector" else flags
  script(
    "extract_features.py",
    input_file=write_lines(tmp_path, row.rows()),
    output_file=tmp_path / "out.jsonl",
    model_dir=folder,
    **flags,
  )
  lines = lines_in(tmp_path / "out.jsonl")
  assert_same(answers, [json.loads(line)[name] for line in lines])


def check_weights(*row, **flags):
  for engine in ("tensorflow", "onnx"):
    check_vectors(*row, "weights", sparse=True, engine=engine, **flags)


def filled(tmp_path, texts, **flags):
  """Returns the lines that fill_mask.py prints."""
  return script(
    "fill_mask.py", input_file=write_lines(tmp_path, texts), **flags
  ).splitlines()


def check_pairs(folder, row, answers, tmp_path):
  texts = list(map(" ||| ".join, row.rows()))
  lines = filled(tmp_path, texts, model_dir=folder, score=True)
  for answer, line, text in zip(answers, lines, texts, strict=True):
    printed, repeated = line.split("\t")
    assert repeated == text
    assert abs(float(printed) - answer["probability"]) < 1e-5
    assert sum(map(math.exp, answer["log_probabilities"])) == pytest.approx(1)
  assert len({answer["probability"] for answer in answers}) == len(TEXTS)


def check_words(folder, row, answers, tmp_path):
  lines = filled(tmp_path, row.rows(), model_dir=folder)
  filled_lines = [line.split(": ")[1] for line in lines if ": " in line]
  masks = [
    mask
    for answer in answers
    for mask in zip(answer["fillings"], answer["probabilities"])
  ]
  assert len(masks) == len(filled_lines) == 4
  for (fillings, probabilities), line in zip(masks, filled_lines):
    words = line.split()
    assert fillings == words[::2]
    for probability, printed in zip(probabilities, words[1::2], strict=True):
      assert abs(probability - float(printed)) < 6e-5


# The table of heads.


def classes(texts, problem="single_label_classification", count=3, **stored):
  return Row(
    "classification",
    serving_models.classifier(count),
    texts,
    text_models.TextModel.classify,
    check_classifier,
    stored,
    {"problem_type": problem, **({"id2label": LABELS} if count > 1 else {})},
  )


ROWS = {
  "classes": classes({"text": TEXTS + SEPARATED}, text_pairs=False),
  "pairs": classes(PAIRS, text_pairs=True),
  "windows": classes(PAIRS, text_pairs=True, doc_stride=12),
  "labels": classes({"text": TEXTS}, "multi_label_classification"),
  "number": classes({"text": TEXTS}, "regression", 1, doc_stride=12),
  "span": Row(
    "span",
    serving_models.span,
    {"question": QUESTIONS, "context": CONTEXTS},
    lambda bert, rows: bert.answer(
      *map(list, zip(*rows)), version_2_with_negative=True, **THRESHOLD
    ),
    check_squad,
    {
      "doc_stride": 8,
      "max_query_length": 6,
      "max_answer_length": 5,
      "n_best_size": 7,
      "version_2_with_negative": True,
    },
    flags=THRESHOLD,
  ),
  "tags": Row(
    "tagging",
    serving_models.tagger,
    {"text": SENTENCES},
    lambda bert, texts: bert.tag(texts, tag_words="white_space"),
    check_tagger,
    task={"id2label": label_names("O", "B-X", "I-X", "B-Y")},
  ),
  "vectors": Row(
    "embedding",
    None,
    {"text": TEXTS},
    lambda bert, texts: bert.embed(texts, normalize=True).tolist(),
    check_vectors,
    {"pooling": "mean"},
    flags={"normalize": True},
  ),
  "follows": Row(
    "next_sentence",
    serving_models.pair_scorer,
    PAIRS,
    text_models.TextModel.next_sentence,
    check_pairs,
  ),
  # Hugging Face's BertForMaskedLM has no pooler either.
  "words": Row(
    "masked_lm",
    serving_models.mask_filler,
    {"text": MASKS},
    text_models.TextModel.fill_mask,
    check_words,
    has_pooler=False,
  ),
  "weights": Row(
    "sparse",
    serving_models.mask_filler,
    {"text": [*TEXTS, ""]},
    lambda bert, texts: bert.embed_sparse(texts, sparse_pooling="sum"),
    check_weights,
    flags={"sparse_pooling": "sum"},
    has_pooler=False,
  ),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
  """Returns a function: name of a row -> (its folder, TensorFlow's answers)."""

  @functools.cache
  def train(name):
    row = ROWS[name]
    folder = serving_models.trained(
      tmp_path_factory.mktemp(name) / "model",
      row.make,
      stored={"max_seq_length": 32, **row.stored},
      pooler=row.has_pooler,
      **row.task,
    )
    answers = row.ask(text_models.load(str(folder)))
    # With these weights, the texts have different answers.
    assert any(answer != answers[0] for answer in answers)
    return folder, answers

  return train


def table(*in_default):
  """Parametrizes over ROWS; rows not in `in_default` are slow tests."""
  return pytest.mark.parametrize(
    "name",
    [
      pytest.param(name, marks=[pytest.mark.slow] * (name not in in_default))
      for name in ROWS
    ],
  )


@table(*ROWS)
def test_onnx_answers_as_tensorflow_does(name, trained):
  folder, answers = trained(name)
  bert = text_models.load(str(folder), engine="onnx", batch_size=3)
  assert_same(ROWS[name].ask(bert), answers)


@table("windows")
def test_litert_answers_as_tensorflow_does(name, trained):
  folder, answers = trained(name)
  bert = text_models.load(str(folder), engine="litert", batch_size=3)
  assert_same(ROWS[name].ask(bert), answers)


@table(*(set(ROWS) - {"classes", "pairs"}))
def test_scripts_answer_as_python_does(name, trained, tmp_path):
  row, (folder, answers) = ROWS[name], trained(name)
  row.check_scripts(folder, row, answers, tmp_path, **row.flags)


def test_run_classifier_predicts_with_an_engine(trained, tmp_path):
  folder, answers = trained("windows")
  check_classifier(folder, ROWS["windows"], answers, tmp_path, engine="onnx")


def test_extract_features_pools_pairs_with_an_engine(trained, tmp_path):
  folder, _ = trained("vectors")
  path = write_lines(tmp_path, map(" ||| ".join, zip(TEXTS, SECOND)))
  tables = []
  for engine in ("tensorflow", "onnx"):
    script(
      "extract_features.py",
      model_dir=folder,
      input_file=path,
      engine=engine,
      output_file=tmp_path / engine,
      pooling="max",
      batch_size=2,
      similarity=True,
    )
    tables.append(list(map(json.loads, lines_in(tmp_path / engine))))
  assert_same(*tables)


def test_an_engine_runs_weights_that_were_just_trained(tmp_path):
  """A multiple-choice head has one output, which scores each ending."""
  tables = []
  for flags in ({"do_train": True, "engine": "onnx"}, {}):
    script(
      "run_classifier.py",
      task_name="swag",
      do_predict=True,
      max_seq_length=16,
      data_dir=script_runner.ROOT / "tests" / "data" / "glue" / "swag",
      model_dir=serving_models.FOLDER,
      output_dir=tmp_path / "out",
      train_batch_size=2,
      num_train_epochs=1,
      learning_rate=1e-3,
      **flags,
    )
    tables.append(
      [
        list(map(float, row.split()))
        for row in lines_in(tmp_path / "out" / "test_results.tsv")
      ]
    )
  assert_same(*tables)
  assert len(tables[0][0]) == 4 and len(set(tables[0][0])) == 4


def test_int8_vectors_differ_but_are_close(trained):
  folder, answers = trained("vectors")
  bert = text_models.load(str(folder), engine="onnx", quantize="int8")
  vectors = ROWS["vectors"].ask(bert)
  assert vectors != answers
  assert (np.sum(np.multiply(vectors, answers), 1) > 0.95).all()


# Exports and servers.


def export(folder, target, head, **flags):
  """Runs export_saved_model.py; returns the folder that it wrote."""
  done = script_runner.succeed(
    "export_saved_model.py",
    model_dir=folder,
    export_dir=target,
    head=head,
    **{"format": "onnx", **flags},
  )
  assert done.out.splitlines()[-1] == f"The model is in {target}."
  return str(target)


@table("span", "vectors", "words")
def test_an_export_answers_as_its_model(name, trained, tmp_path):
  row, (folder, answers) = ROWS[name], trained(name)
  flags = {"tag_words": "white_space"} if row.head == "tagging" else row.flags
  path = export(folder, tmp_path / "out", row.head, **flags)
  assert_same(row.ask(text_models.load(path)), answers)


def saved(folder, target, head, **flags):
  """Writes a SavedModel in this process; returns the loaded model."""
  settings = serving_models.export_settings_of({"head": head, **flags})
  files = model_files.ModelFiles(str(folder))
  settings = export_settings.resolve(settings.replace(**files.paths), files)
  tokenizer = tokenization.FullTokenizer(settings.vocab_file)
  model = models.make(settings, files, tokenizer)
  model.load()
  saved_model.write(str(target / "1"), raw_text.RawText(model))
  return saved_model.load(str(target))


def response(model, instances):
  """Returns the status and the answer of a server."""

  async def answered():
    async with served.asking(model) as ask:
      return await ask("m:predict", json.dumps({"instances": instances}))

  return asyncio.run(answered())


@table("windows", "span", "tags", "words", "weights")
def test_a_saved_model_answers_as_python_does(name, trained, tmp_path):
  row, (folder, answers) = ROWS[name], trained(name)
  flags = {"tag_words": "white_space"} if row.head == "tagging" else row.flags
  model = saved(folder, tmp_path / "export", row.head, **flags)
  rows = model.answerer()(list(zip(*row.texts.values())))
  unwrapped = [next(iter(r.values())) if len(r) == 1 else r for r in rows]
  status, answer = response(model, row.instances())
  assert status == 200, answer
  assert_same(answer["predictions"], unwrapped)
  for answer in unwrapped if row.head == "tagging" else ():
    assert answer.pop("num_words") == len(answer["words"])
  assert_same(unwrapped, answers)
  assert_the_graph_answers(model, row, answers)


def graph_outputs(model, row):
  """Returns a dict of the graph's outputs for each row."""
  loaded = tf.saved_model.load(model.folder)
  outputs = loaded.signatures["serving_default"](
    **{name: tf.constant(texts) for name, texts in row.texts.items()}
  )
  columns = {
    name: np.char.decode(value.numpy().astype(bytes), "utf-8").tolist()
    if value.dtype == tf.string
    else value.numpy().tolist()
    for name, value in outputs.items()
  }
  return [dict(zip(columns, values)) for values in zip(*columns.values())]


def assert_the_graph_answers(model, row, answers):
  """Compares the graph's outputs, skipping texts of several windows."""
  page = (script_runner.ROOT / "docs" / "serving.md").read_text("utf-8")
  client = {}
  exec(page.split("```python\n")[1].split("```")[0], client)
  has_windows = "doc_stride" in row.stored or row.head == "tagging"
  compared = 0
  for instance, outputs, answer in zip(
    row.instances(), graph_outputs(model, row), answers
  ):
    if has_windows and max(map(len, instance.values())) > 30:
      continue
    compared += 1
    if "question" in instance:
      text, _ = client["answer"](outputs, instance["context"], longest=5)
      assert answer["answer"] in ("", " ".join(text.split()))
    elif "weights" in outputs:
      pairs = dict(zip(outputs["words"], outputs["weights"]))
      assert_same({word: w for word, w in pairs.items() if word}, answer)
    elif "words" in outputs:
      path = pathlib.Path(model.folder, "assets.extra", "answers.json")
      labels = json.loads(path.read_text())["labels"]
      tags = client["tags"](outputs, instance["text"], labels)
      assert list(tags) == list(zip(answer["words"], answer["tags"]))
    elif "fillings" in outputs:
      count = len(answer["fillings"])
      assert_same({n: v[:count] for n, v in outputs.items()}, answer)
    else:
      outputs.pop("logits", None)
      (value, *more) = outputs.values()
      assert_same(outputs if more else value, answer)
  assert compared


def test_a_served_head_answers_and_refuses_empty_texts(trained):
  folder, answers = trained("windows")
  model = text_models.load(str(folder)).servable()
  status, answer = response(model, ROWS["windows"].instances())
  assert status == 200
  assert_same(answer["predictions"], answers)
  status, answer = response(model, [{"text_a": "a", "text_b": " "}])
  assert status == 400 and "empty" in answer["error"]
