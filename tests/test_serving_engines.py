"""Other engines answer as TensorFlow does, from Python, scripts and serve.py.

The scripts read how the input is made from the model folder, as in
test_serving_parity.py; the same texts go to each engine.
"""

import asyncio
import json
import sys
import urllib.request

import aiohttp
import numpy as np
import pytest

import heads
import script_runner
import served
import serving_models
from common import errors
from serving import batching, exported_network, text_models
from test_serving_parity import (
  LABELS,
  LONG,
  SECOND,
  TEXTS,
  assert_same,
  classified,
)

pytest.importorskip("onnxruntime")
pytest.importorskip("ai_edge_litert")

# Texts that do not fit are read in windows.
WINDOWS = {"max_seq_length": 16, "doc_stride": 6}
PAIRS = list(zip(TEXTS, SECOND))
QUESTIONS = ["who was it?", "which street is it on", "is he in"]
CONTEXTS = [LONG, "Gold  Street\nwas up.", "he was in it"]
MASKS = ["the [MASK] is on [MASK]", "[MASK]", "he was in it [MASK]"]


def names(*labels):
  return {str(number): label for number, label in enumerate(labels)}


def classifier(count):
  return lambda config, _: heads.ClassificationHead(config, count)


def tagger(config, _):
  return heads.TokenClassificationHead(config, 3)


def span(config, _):
  return heads.SpanHead(config)


def pair_scorer(config, _):
  return heads.NextSentenceHead(config)


def mask_filler(config, bert):
  return heads.MaskedLMHead(config, bert.word_embeddings)


# head of the export: (makes it, of the input, of the task, what is asked)
KINDS = {
  "classes": (
    "classification", classifier(3), {**WINDOWS, "text_pairs": True},
    {"problem_type": "single_label_classification", "id2label": names(*LABELS)},
    lambda bert: bert.classify(PAIRS),
  ),
  "labels": (
    "classification", classifier(3), {"max_seq_length": 16},
    {"problem_type": "multi_label_classification", "id2label": names(*LABELS)},
    lambda bert: bert.classify(TEXTS),
  ),
  "number": (
    "classification", classifier(1), WINDOWS, {"problem_type": "regression"},
    lambda bert: bert.classify(TEXTS),
  ),
  "span": (
    "span", span, {**WINDOWS, "max_query_length": 6, "max_answer_length": 5},
    {}, lambda bert: bert.answer(
      QUESTIONS, CONTEXTS, version_2_with_negative=True,
      null_score_diff_threshold=-28.0,
    ),
  ),
  "tags": (
    "tagging", tagger, {"max_seq_length": 16},
    {"id2label": names("O", "B-X", "I-X")},
    lambda bert: bert.tag([LONG, *TEXTS], tag_words="white_space"),
  ),
  "vectors": (
    "embedding", None, {"max_seq_length": 16}, {},
    lambda bert: bert.embed(TEXTS, pooling="mean", normalize=True).tolist(),
  ),
  "follows": (
    "next_sentence", pair_scorer, {"max_seq_length": 16}, {},
    lambda bert: bert.next_sentence(PAIRS),
  ),
  "words": (
    "masked_lm", mask_filler, {"max_seq_length": 16}, {},
    lambda bert: bert.fill_mask(MASKS, top_k=3),
  ),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
  """Returns a function: kind -> (its folder, TensorFlow's answers)."""
  made = {}

  def of_kind(kind):
    if kind not in made:
      _, head, stored, task, ask = KINDS[kind]
      folder = serving_models.trained(
        tmp_path_factory.mktemp(kind) / "model", head, stored=stored, **task
      )
      made[kind] = folder, ask(text_models.load(str(folder)))
    return made[kind]

  return of_kind


def export(folder, target, head, **flags):
  """Runs export_saved_model.py; returns the folder that it wrote."""
  script_runner.succeed(
    "export_saved_model.py", model_dir=folder, export_dir=target, head=head,
    **{"format": "onnx", **flags},
  )
  return str(target)


VECTORS = {"pooling": "mean", "normalize": True}


def slow_but(*kinds):
  """Returns all KINDS, others than these for `make test-slow` alone."""
  return [
    pytest.param(kind, marks=[pytest.mark.slow] * (kind not in kinds))
    for kind in KINDS
  ]


@pytest.mark.parametrize("engine, kind", [
  *(("onnx", kind) for kind in KINDS),
  *(pytest.param("litert", *kind.values, marks=kind.marks)
    for kind in slow_but("classes", "words")),
])
def test_every_head_answers_as_tensorflow_does(engine, kind, trained):
  folder, expected = trained(kind)
  bert = text_models.load(str(folder), engine=engine, batch_size=3)
  assert_same(KINDS[kind][-1](bert), expected)


@pytest.mark.parametrize("engine", ["onnx", "litert"])
def test_8_bits_are_other_numbers_and_near(engine, trained):
  folder, expected = trained("vectors")
  bert = text_models.load(str(folder), engine=engine, quantize="int8")
  found = KINDS["vectors"][-1](bert)
  assert found != expected
  assert (np.sum(np.multiply(found, expected), 1) > 0.95).all()


@pytest.mark.parametrize("kind", slow_but("span", "vectors", "words"))
def test_an_export_answers_as_its_model(kind, trained, tmp_path):
  head, *_, ask = KINDS[kind]
  folder, expected = trained(kind)
  options = VECTORS if kind == "vectors" else {}
  path = export(folder, tmp_path / "out", head, **options)
  assert_same(ask(text_models.load(path)), expected)


# Scripts.


@pytest.mark.parametrize("engine", [
  "onnx", pytest.param("litert", marks=pytest.mark.slow)
])
def test_run_classifier_predicts_by_an_engine(engine, trained, tmp_path):
  folder, expected = trained("classes")
  rows, lines = classified(folder, tmp_path, PAIRS, engine=engine)
  for row, line, answer in zip(rows, lines, expected, strict=True):
    assert row[1] == line["label"] == answer["label"]
    assert_same(list(map(float, row[3:6])), answer["probabilities"])
    assert_same(list(line["scores"].values()), answer["probabilities"])


def test_an_engine_runs_what_was_just_trained(tmp_path):
  """Of endings to choose from, which have one output for all classes."""
  found = []
  for flags in ({"do_train": True, "engine": "onnx"}, {}):
    script_runner.succeed(
      "run_classifier.py", task_name="swag", do_predict=True, max_seq_length=16,
      data_dir=script_runner.ROOT / "tests" / "data" / "glue" / "swag",
      model_dir=serving_models.FOLDER, output_dir=tmp_path / "out",
      train_batch_size=2, num_train_epochs=1, learning_rate=1e-3, **flags,
    )
    text = (tmp_path / "out" / "test_results.tsv").read_text()
    found.append([list(map(float, row.split())) for row in text.splitlines()])
  assert_same(*found)
  assert len(found[0][0]) == 4 and len(set(found[0][0])) == 4


@pytest.mark.parametrize("flags", [{"normalize": True}, {"similarity": True}])
def test_extract_features_pools_by_an_engine(flags, trained, tmp_path):
  folder, _ = trained("vectors")
  path = tmp_path / "texts.txt"
  path.write_text(
    "".join(f"{a} ||| {b}\n" for a, b in PAIRS), encoding="utf-8"
  )
  found = []
  for engine in ("tensorflow", "onnx"):
    script_runner.succeed(
      "extract_features.py", model_dir=folder, input_file=path, engine=engine,
      output_file=tmp_path / engine, pooling="max", batch_size=2, **flags,
    )
    lines = (tmp_path / engine).read_text().splitlines()
    found.append([json.loads(line) for line in lines])
  assert_same(*found)


# serve.py.


def asked(model, *paths):
  """Returns what a server of a model in this process answers to paths."""

  async def answered():
    async with served.asking(model, batching.Limits()) as ask:
      found = [await ask(*path) for path in paths]
      url = f"http://127.0.0.1:{ask.port}/"
      async with aiohttp.ClientSession() as session, session.get(url) as page:
        return *found, await page.text()

  return asyncio.run(answered())


def test_a_server_of_a_network(trained, tmp_path):
  folder, expected = trained("classes")
  model = exported_network.load(
    export(folder, tmp_path / "out", "classification"), 2, threads=1
  )
  instances = [{"text_a": a, "text_b": b} for a, b in PAIRS]
  (status, answer), (_, bad), (_, found), page = asked(
    model, ("m:predict", json.dumps({"instances": instances})),
    ("m:predict", json.dumps({"instances": [{"text_a": "a", "text_b": " "}]})),
    ("m/metadata",),
  )
  assert status == 200
  assert_same(answer["predictions"], expected)
  assert "empty" in bad["error"]
  signatures = found["metadata"]["signature_def"]["signature_def"]
  assert list(signatures) == ["serving_default"]
  inputs = signatures["serving_default"]["inputs"]
  assert sorted(inputs) == ["text_a", "text_b"]
  assert "text_a" in page and "classification" in page


@pytest.mark.slow
@pytest.mark.parametrize("form", ["onnx", "litert"])
def test_serve_as_a_user_types_it(form, trained, tmp_path):
  folder, expected = trained("classes")
  path = export(
    folder, tmp_path / "[out]", "classification", format=form, quantize="int8",
    max_quantization_difference=1,
  )
  process, url = served.start_script(path)
  try:
    instances = [{"text_a": a, "text_b": b} for a, b in PAIRS]
    body = json.dumps({"instances": instances}).encode()
    with urllib.request.urlopen(f"{url}:predict", body, timeout=60) as answer:
      answers = json.load(answer)["predictions"]
  finally:
    process.kill()
    process.wait()
  assert_same(text_models.load(path).classify(PAIRS), answers)
  assert [row.keys() for row in answers] == [row.keys() for row in expected]


# What is refused.


@pytest.mark.parametrize("options, said", [
  ({"engine": "torch"}, "expected one of tensorflow, onnx, litert"),
  ({"quantize": "int8"}, "--quantize needs --engine=onnx or --engine=litert"),
  ({"engine": "onnx", "quantize": "int4"}, "expected one of none, int8"),
  ({"engine": "onnx", "dtype": "bfloat16"}, "no effect with --engine=onnx"),
  ({"engine": "litert", "dtype": "bfloat16"}, "no effect with --engine=litert"),
])
def test_options_that_make_no_sense(options, said, trained):
  with pytest.raises(errors.InputError, match=said):
    text_models.load(str(trained("vectors")[0]), **options)


def test_hidden_states_are_tensorflows(trained):
  bert = text_models.load(str(trained("vectors")[0]), engine="onnx")
  with pytest.raises(errors.InputError, match="by TensorFlow alone: load the"):
    bert.encode("it")
  with pytest.raises(errors.InputError, match="TensorFlow alone"):
    _ = bert.encoder
  with pytest.raises(errors.InputError, match="TensorFlow alone"):
    bert.likelihood("it")


def test_states_after_vectors_of_an_engine(trained):
  bert = text_models.load(str(trained("vectors")[0]))
  bert.embed("it", engine="onnx", pooling="mean")
  assert len(bert.encode("it").tokens) == 3


@pytest.mark.parametrize("engine, package", [
  ("onnx", "onnxruntime"), ("litert", "ai_edge_litert")
])
def test_a_missing_extra_is_named(engine, package, trained, monkeypatch):
  for name in [n for n in sys.modules if n.split(".")[0] == package]:
    monkeypatch.setitem(sys.modules, name, None)
  monkeypatch.setitem(sys.modules, package, None)
  for name in (f"{engine}_engine", "quantization"):
    monkeypatch.delitem(sys.modules, f"engines.{name}", raising=False)
    monkeypatch.delattr(f"engines.{name}", raising=False)
  bert = text_models.load(str(trained("vectors")[0]), engine=engine)
  with pytest.raises(errors.InputError, match=rf"bert-tf2\[{engine}\]"):
    bert.embed("it")


def test_what_an_export_is_cannot_change(trained, tmp_path):
  path = export(trained("vectors")[0], tmp_path / "out", "embedding", **VECTORS)
  bert = text_models.load(path, engine="onnx", max_seq_length=8)
  assert bert.max_seq_length == 8
  assert bert.embed([]).shape == (0, bert.config.hidden_size)
  with pytest.raises(errors.InputError, match="head='embedding'; for head='sp"):
    bert.answer("who", "he")
  with pytest.raises(errors.InputError, match="pooling='mean'; for pooling="):
    bert.embed("it", pooling="cls")
  with pytest.raises(errors.InputError, match="needs --head=masked_lm"):
    bert.embed("it", top_k=3)
  with pytest.raises(errors.InputError, match="engine='onnx'; for engine='lit"):
    text_models.load(path, engine="litert")
  with pytest.raises(errors.InputError, match="64"):
    text_models.load(path, max_seq_length=65)
  (tmp_path / "out" / "vocab.txt").rename(tmp_path / "vocab.txt")
  # The other of an export, by which text is read just as well.
  (tmp_path / "out" / "tokenizer.json").unlink()
  with pytest.raises(errors.InputError, match=r"has none of vocab\.txt"):
    text_models.load(path)
  (tmp_path / "vocab.txt").rename(tmp_path / "out" / "vocab.txt")
  (tmp_path / "out" / "answers.json").unlink()
  with pytest.raises(errors.InputError, match=r"answers\.json"):
    text_models.load(path)
