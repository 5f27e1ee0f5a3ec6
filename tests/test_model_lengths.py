"""Folders of other programs answer long texts as far as they say they can.

The grid is head x way x what tokenizer_config.json says as model_max_length.
The right answers are those of transformers and sentence-transformers.
"""

import functools
import json
import shutil

import numpy as np
import pytest

import script_runner
import tiny_model
from checkpoints import model_files, model_folder
from common import flag_values, run_settings
from exports import saved_model
from script_runner import ROOT
from serving import text_models
from text import cut_texts

GOLDEN = ROOT / "tests" / "golden" / "model_lengths"
STORED = json.loads((GOLDEN / "answers.json").read_text("utf-8"))
TEXT = STORED["text"]
POSITIONS = 160
LENGTHS = {"64": 64, "144": 144, "huge": int(1e30), "none": None}
LIMITS = {"64": 64, "144": 144, "huge": POSITIONS, "none": POSITIONS}
HEADS = list(STORED["answers"])
# What is longer than a sequence; windows have all words and all of a context.
CUT = "1 of 1 texts are longer than {} tokens and were cut"


def texts_of(head, limit):
  """Returns the texts of STORED, for the script and for Python."""
  if head == "masked_lm":
    return f"{TEXT[: 3 * (limit - 4)]}[MASK] {TEXT}"
  if head == "span":
    return "w1 w2", TEXT[: 3 * (limit - 6)].strip()
  return (TEXT, "w1 w2") if head in ("next_sentence", "reranker") else TEXT


@pytest.fixture
def folder_of(tmp_path):
  """A function of a head and a key of LENGTHS that writes a folder."""

  def write(head, name):
    folder = tmp_path / f"{head}_{name}"
    shutil.copytree(GOLDEN / head, folder)
    path = folder / "tokenizer_config.json"
    values = json.loads(path.read_text())
    if LENGTHS[name]:
      path.write_text(json.dumps({**values, "model_max_length": LENGTHS[name]}))
    return folder

  return write


def in_python(folder, head, limit, **options):
  """Returns the answer of text_models in the form of STORED."""
  bert = text_models.load(folder, **options)
  texts = texts_of(head, limit)
  if head == "classification":
    return bert.classify(texts)["probabilities"]
  if head == "reranker":
    return [bert.classify(texts)["score"]]
  if head == "tagging":
    # Windows also tag the words beyond the first one.
    return bert.tag(texts)["probabilities"][: limit - 2]
  if head == "span":
    return bert.answer(*texts)["score"]
  if head == "masked_lm":
    return bert.fill_mask(texts)["probabilities"][0]
  if head == "next_sentence":
    probability = bert.next_sentence(texts)["probability"]
    return [probability, 1 - probability]
  return bert.embed(texts, pooling="mean").tolist()


def by_export(folder, head, limit, export_format, **options):
  export = folder.parent / "export"
  name = "classification" if head == "reranker" else head
  flags = {"pooling": "mean"} if head == "embedding" else {}
  script_runner.succeed(
    "export_saved_model.py",
    model_dir=folder,
    head=name,
    export_dir=export,
    format=export_format,
    **flags,
  )
  return export


def in_onnx_export(folder, head, limit):
  return in_python(by_export(folder, head, limit, "onnx"), head, limit)


def served(folder, head, limit):
  """Returns the answer of serve.py --model_dir."""
  options = {"pooling": "mean"} if head == "embedding" else {}
  name = "classification" if head == "reranker" else head
  model = text_models.load(folder, **options).servable(name)
  return answer_of(model, head, limit)


def in_saved_model(folder, head, limit):
  """Returns the answer of serve.py --saved_model_dir."""
  # A SavedModel needs a list of word pieces, which transformers 4 writes.
  path = folder / "tokenizer.json"
  vocab = json.loads(path.read_text())["model"]["vocab"]
  path.unlink()
  lines = "\n".join(sorted(vocab, key=vocab.get))
  (folder / "vocab.txt").write_text(lines + "\n")
  export = by_export(folder, head, limit, "saved_model")
  return answer_of(saved_model.load(str(export)), head, limit)


def answer_of(model, head, limit):
  """Returns the answer of an answers.Served in the form of STORED."""
  texts = texts_of(head, limit)
  (answer,) = model.answerer()(
    [texts if isinstance(texts, tuple) else (texts,)]
  )
  if head == "tagging":
    return answer["probabilities"][: limit - 2]
  if head == "masked_lm":
    return answer["probabilities"][0]
  if head == "next_sentence":
    return [answer["probability"], 1 - answer["probability"]]
  key = {"classification": "probabilities", "embedding": "embedding"}
  value = answer[key.get(head, "score")]
  return [value] if head == "reranker" else value


# The scripts' flags are tested, not their graphs.
succeed = functools.partial(script_runner.succeed, eager=True)


def in_script(folder, head, limit):
  """Returns the answer that the head's script writes."""
  texts, out = texts_of(head, limit), folder.parent / "out"
  flags = {"model_dir": folder, "output_dir": out, "do_predict": True}
  data = folder.parent / "data.txt"
  if head in ("classification", "reranker"):
    columns = {"text_column": "text"}
    row = {"text": texts}
    if head == "reranker":
      columns["text_b_column"] = "text_b"
      row = dict(zip(("text", "text_b"), texts))
    data = data.with_suffix(".jsonl")
    data.write_text(json.dumps(row) + "\n")
    done = succeed("run_classifier.py", predict_file=data, **columns, **flags)
    assert CUT.format(limit) in done.err
    path = out / "test_results.tsv"
    return list(map(float, path.read_text().split()))
  if head == "tagging":
    data.write_text("".join(f"{word}\n" for word in texts.split()))
    succeed("run_ner.py", predict_file=data, **flags)
    lines = (out / "test_predictions.conll").read_text().split("\n")
    tags = [line.split()[-1] for line in lines if line]
    assert tags == text_models.load(folder).tag(texts)["tags"]
    return None
  if head == "span":
    question, context = texts
    paragraph = {"context": context, "qas": [{"id": "q", "question": question}]}
    data.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    succeed("run_squad.py", predict_file=data, **flags)
    best = json.loads((out / "nbest_predictions.json").read_text())["q"][0]
    return best["start_logit"] + best["end_logit"]
  if head in ("masked_lm", "next_sentence"):
    flags = {"model_dir": folder}
    if head == "next_sentence":
      flags |= {"text": " ||| ".join(texts), "score": True}
      done = succeed("fill_mask.py", **flags)
      probability = float(done.out.split("\t")[0])
      return [probability, 1 - probability]
    # The script takes a text of this length, and refuses a longer one.
    longest = texts[: texts.index("[MASK]")] + "[MASK] w1"
    succeed("fill_mask.py", text=longest, **flags)
    message = f"exceed --max_seq_length={limit}"
    script_runner.refuse("fill_mask.py", message, text=f"{longest} w1", **flags)
    return None
  data.write_text(f"{texts}\n")
  done = succeed(
    "extract_features.py",
    model_dir=folder,
    input_file=data,
    output_file=out / "v.npz",
    output_format="npz",
    pooling="mean",
  )
  assert CUT.format(limit) in done.err
  return np.load(out / "v.npz")["vectors"][0].tolist()


WAYS = {
  "python": in_python,
  "onnx": lambda *row: in_python(*row, engine="onnx"),
  "export": in_onnx_export,
  "served": served,
  "saved_model": in_saved_model,
  "script": in_script,
}


def cases():
  """Yields (head, way, name of a length); most ways start scripts."""
  for head in HEADS:
    for way in WAYS:
      for name in LENGTHS:
        is_fast = name == "144" and (
          way == "python" or (way, head) == ("script", "classification")
        )
        marks = () if is_fast else pytest.mark.slow
        yield pytest.param(head, way, name, marks=marks)


@pytest.mark.parametrize("head, way, name", list(cases()))
def test_answers_are_those_of_the_program_that_wrote_the_folder(
  head, way, name, folder_of
):
  if way in ("onnx", "export"):
    pytest.importorskip("onnxruntime")
  answer = WAYS[way](folder_of(head, name), head, LIMITS[name])
  if answer is not None:
    expected = STORED["answers"][head][name]
    np.testing.assert_allclose(answer, expected, atol=1e-5)


# Settings.


def completed(folder, head, stored=("max_seq_length",), given=(), **values):
  default = flag_values.default_length(head)
  settings = run_settings.Settings(
    {
      **dict.fromkeys(model_files.PATHS),
      "model_dir": str(folder),
      "do_lower_case": True,
      "max_seq_length": default,
      "max_query_length": 64,
      "output_dir": None,
      **values,
    },
    {"model_dir", *given},
  )
  return tiny_model.completed(settings, stored, head=head).max_seq_length


@pytest.mark.parametrize("head", [*HEADS[:-1], "sparse", ""])
@pytest.mark.parametrize("name", LENGTHS)
def test_the_length_of_a_folder_counts_where_it_answers(head, name, folder_of):
  stored_as = head if head in HEADS else "masked_lm"
  folder, limit = folder_of(stored_as, name), LIMITS[name]
  assert completed(folder, head) == limit
  # Training keeps the original's default, which is at most the positions.
  default = min(flag_values.default_length(head), POSITIONS)
  assert completed(folder, head, stored=()) == default
  flag = {"given": ["max_seq_length"], "max_seq_length": 32}
  assert completed(folder, head, **flag) == 32
  # The checkpoints of a run were trained with the script's default.
  (folder / "model.ckpt-3.index").touch()
  assert completed(folder, head, output_dir=str(folder)) == default


def test_a_length_of_this_projects_training_comes_first(folder_of):
  folder = folder_of("classification", "64")
  config = model_files.ModelFiles(str(folder)).config
  trained = model_folder.with_input_settings(config, {"max_seq_length": 100})
  (folder / "config.json").unlink()
  (folder / "bert_config.json").write_text(trained.to_json_string())
  assert completed(folder, "classification") == 100
  # The original's files state no length.
  plain = model_folder.without_input_settings(config)
  (folder / "bert_config.json").write_text(plain.to_json_string())
  assert completed(folder, "classification") == 64
  (folder / "tokenizer_config.json").unlink()
  assert completed(folder, "classification") == 128


def test_a_short_span_model_has_room_for_the_context(folder_of):
  folder = folder_of("span", "64")
  for options in ({}, {"max_query_length": 7}):
    bert = text_models.load(folder, **options)
    assert bert.answer("w1 w2", TEXT)["answer"] in TEXT


# One line counts the texts that are cut.


@pytest.mark.parametrize(
  "head, ask, line",
  [
    (
      "classification",
      lambda bert: bert.classify([TEXT, "w1", TEXT]),
      "2 of 3 texts are longer than 64 tokens and were cut",
    ),
    (
      "classification",
      lambda bert: bert.classify([TEXT, "w1"], doc_stride=32, max_windows=2),
      "1 of 2 texts are longer than 64 tokens and were cut",
    ),
    (
      "reranker",
      lambda bert: bert.classify([("w1", TEXT), ("w1", "w2")]),
      "1 of 2 texts are longer than 64 tokens and were cut",
    ),
    (
      "embedding",
      lambda bert: bert.embed(["w1", TEXT], pooling="mean"),
      "1 of 2 texts are longer than 64 tokens and were cut",
    ),
    (
      "embedding",
      lambda bert: bert.encode(["w1 " * 62, "w1 " * 63]),
      "1 of 2 texts are longer than 64 tokens and were cut",
    ),
    (
      "next_sentence",
      lambda bert: bert.next_sentence([("w1", "w2 " * 60), ("w1", TEXT)]),
      "1 of 2 texts are longer than 64 tokens and were cut",
    ),
    (
      "masked_lm",
      lambda bert: bert.fill_mask([f"[MASK] {TEXT}", "[MASK]"]),
      "1 of 2 texts are longer than 64 tokens and were cut",
    ),
    (
      "span",
      lambda bert: bert.answer(["w1", "w1 " * 40], [TEXT, TEXT]),
      "1 of 2 questions are longer than 32 tokens and were cut",
    ),
    ("tagging", lambda bert: bert.tag([TEXT, "w1 w2"], max_seq_length=3), None),
  ],
)
def test_texts_that_are_cut_are_counted(head, ask, line, folder_of, caplog):
  bert = text_models.load(folder_of(head, "64"))
  ask(bert)
  lines = [text for text in caplog.messages if "were cut" in text]
  assert lines == [line] * bool(line)


def test_a_whole_text_in_windows_is_not_cut(folder_of, caplog):
  bert = text_models.load(folder_of("classification", "64"))
  bert.classify([TEXT, "w1"], doc_stride=32)
  assert "were cut" not in caplog.text


def test_a_server_counts_now_and_then(monkeypatch, caplog):
  times = iter((100.0, 120.0, 161.0, 300.0))
  monkeypatch.setattr(cut_texts.time, "monotonic", lambda: next(times))
  cut = cut_texts.CutTexts(8)
  for cuts in (1, 2, 0, 0):
    cut.add(cuts, 5)
    cut.log(seconds=60.0)
  assert caplog.messages == [
    "1 of 5 texts are longer than 8 tokens and were cut",
    "2 of 10 texts are longer than 8 tokens and were cut",
  ]
