"""Tests text_models: answers to texts, and folders of every format."""

import re
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf

import heads
import modeling
import script_runner
import serving_models
from checkpoints import huggingface, weight_files
from common import errors
from message_facts import says
from serving import text_models
from text import input_sequences

TEXTS = ["the street is up", "gold", "the gold star had to light up"]
MODEL = str(serving_models.FOLDER)


@pytest.fixture(scope="module")
def bert():
  return text_models.load(MODEL, max_seq_length=16, batch_size=2)


def expected_output(*texts):
  tokenizer, config = serving_models.tokenizer(), serving_models.config()
  model = modeling.BertModel(config)
  weight_files.load(model.variables, MODEL)
  ids_a, ids_b = [*map(tokenizer.encode, texts), None][:2]
  ids, segments = input_sequences.build_inputs(
    ids_a, ids_b, frame=tokenizer.frame
  )
  output = model(
    tf.constant([ids]), None, tf.constant([segments]), return_attention=True
  )
  return (ids, segments), output


def check_encoded(encoded, inputs, output):
  ids, segments = inputs
  assert encoded.tokens == serving_models.tokenizer().convert_ids_to_tokens(ids)
  np.testing.assert_array_equal(encoded.input_ids, ids)
  np.testing.assert_array_equal(encoded.input_mask, np.ones(len(ids)))
  np.testing.assert_array_equal(encoded.segment_ids, segments)
  serving_models.assert_close(encoded.pooled, output.pooled_output[0])
  serving_models.assert_close(
    encoded.layers, tf.stack(output.all_encoder_layers, 1)[0]
  )
  serving_models.assert_close(
    encoded.attention, tf.stack(output.attention_probs, 1)[0]
  )


def test_hidden_states_come_from_the_encoder_in_the_order_of_texts(bert):
  for encoded, text in zip(
    bert.encode(TEXTS, attention=True), TEXTS, strict=True
  ):
    check_encoded(encoded, *expected_output(text))
  pairs = [("gold star", "up the street"), ("the", "star")]
  for encoded, pair in zip(bert.encode(pairs, attention=True), pairs):
    check_encoded(encoded, *expected_output(*pair))
  check_encoded(bert.encode(pair, attention=True), *expected_output(*pair))
  assert bert.encode("gold").attention is None
  assert bert.encode([]) == []
  assert bert.encoder is bert.encoder


def test_embeddings_are_computed_from_the_hidden_states(bert):
  means = [encoded.layers[-1].mean(0) for encoded in bert.encode(TEXTS)]
  serving_models.assert_close(bert.embed(TEXTS, pooling="mean"), means)
  unit = bert.embed(TEXTS, pooling="mean", normalize=True)
  serving_models.assert_close(np.linalg.norm(unit, axis=1), np.ones(3))
  pooled = bert.embed("gold")  # The default is the pooled output.
  serving_models.assert_close(pooled, bert.encode("gold").pooled)
  layers = {"pooling": "mean", "pooling_layer": [-2, "-1+0"]}
  vectors = bert.embed(TEXTS, **layers)
  assert bert.embed([], **layers).shape == (0, vectors.shape[1])
  expected = [
    np.concatenate([e.layers[-2].mean(0), (e.layers[-1] + e.layers[0]).mean(0)])
    for e in bert.encode(TEXTS)
  ]
  serving_models.assert_close(vectors, expected)
  summed = bert.embed(TEXTS, pooling="mean", pooling_layer="-1+0")
  serving_models.assert_close(summed, vectors[:, summed.shape[1] :])
  assert bert.embed([]).shape == (0, serving_models.config().hidden_size)


def test_a_search_finds_the_largest_cosines(bert, monkeypatch):
  monkeypatch.setattr(text_models, "_LINES_AT_ONCE", 2)
  options = {"pooling": "mean", "pooling_layer": [-2]}
  lines = [*TEXTS, "up the street", "gold"]
  vectors = bert.embed(lines, **options)
  unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
  cosines = unit @ unit.T
  expected = np.argsort(-cosines[0])[:3]
  hits = bert.search(lines[0], lines, top_k=3, **options)
  assert [hit["line"] for hit in hits] == expected.tolist()
  assert [hit["text"] for hit in hits] == [lines[n] for n in expected]
  serving_models.assert_close(
    [hit["cosine"] for hit in hits], cosines[0][expected]
  )
  stored = bert.search(lines[:1], lines, top_k=3, vectors=vectors, **options)
  assert [hit["line"] for hit in stored[0]] == expected.tolist()
  # A line is not its own near-duplicate, but an equal line is.
  hits = bert.search(lines, lines, vectors=vectors, **options)
  assert [len(results) for results in hits] == [4] * 5
  assert hits[1][0]["line"] == 4 and hits[4][0]["line"] == 1
  assert hits[1][0]["cosine"] == pytest.approx(1, abs=1e-6)
  assert bert.search([], lines, **options) == []
  assert bert.search(["gold"], ["gold"], **options) == [[]]


def test_heads_are_served_by_name_or_as_trained(bert):
  vectors = bert.servable("embedding").answerer()([(text,) for text in TEXTS])
  serving_models.assert_close(
    [row["embedding"] for row in vectors], bert.embed(TEXTS)
  )
  trained = bert.servable()
  assert trained.settings.head == "masked_lm"
  rows = trained.answerer()([("gold [MASK]",)])
  assert rows == [bert.fill_mask("gold [MASK]")]
  with pytest.raises(errors.InputError, match="not to answer questions"):
    bert.servable("span")


def test_only_real_masks_are_filled(bert):
  once, twice = bert.fill_mask(["gold [MASK]", "[MASK] is [MASK]"], top_k=3)
  assert np.shape(once["fillings"]) == np.shape(once["probabilities"]) == (1, 3)
  assert np.shape(twice["fillings"]) == (2, 3)
  assert bert.fill_mask("gold [MASK]", top_k=3)["fillings"] == once["fillings"]


def test_a_likelihood_predicts_each_piece_from_all_others(bert):
  """The reference masks one piece at a time; NumPy computes its softmax."""
  tokenizer, config = serving_models.tokenizer(), serving_models.config()
  model = modeling.BertModel(config)
  head = heads.MaskedLMHead(config, model.word_embeddings)
  weight_files.load([*model.variables, *head.variables], MODEL)
  cls_id, sep_id, mask_id = tokenizer.convert_tokens_to_ids(
    ["[CLS]", "[SEP]", "[MASK]"]
  )
  texts = [*TEXTS, "gold"]
  for text, row in zip(texts, bert.likelihood(texts), strict=True):
    ids, expected = tokenizer.encode(text), []
    for index, piece in enumerate(ids):
      masked = [cls_id, *ids, sep_id]
      masked[1 + index] = mask_id
      states = model(tf.constant([masked])).sequence_output
      logits = np.asarray(head(states), np.float64)[0, 1 + index]
      expected.append(logits[piece] - np.log(np.exp(logits).sum()))
    assert row["tokens"] == tokenizer.convert_ids_to_tokens(ids)
    serving_models.assert_close(row["log_probabilities"], expected)
    assert row["log_likelihood"] == pytest.approx(np.sum(expected), abs=1e-4)
    perplexity = np.exp(-np.mean(expected))
    assert row["perplexity"] == pytest.approx(perplexity, rel=1e-4)
  assert bert.likelihood("gold")["tokens"] == ["gold"]
  assert bert.likelihood([]) == []


def test_folders_of_other_programs_give_the_same_states(bert, tmp_path):
  config = serving_models.config()
  weights = {v.name.split(":")[0]: v.numpy() for v in bert.encoder.variables}
  (tmp_path / "hf").mkdir()
  huggingface.write(
    str(tmp_path / "hf"), weights, config.to_dict(), do_lower_case=True
  )
  without = {n: v for n, v in weights.items() if "/pooler/" not in n}
  weight_files.write_tf1(str(tmp_path / "tf1" / "bert_model.ckpt"), without)
  for name, file in (
    ("hf", "vocab.txt"),
    ("tf1", "vocab.txt"),
    ("tf1", "bert_config.json"),
  ):
    shutil.copy(f"{MODEL}/{file}", tmp_path / name)
  (expected,) = bert.encode(["the street"])
  for name, has_pooler in (("hf", True), ("tf1", False)):
    loaded = text_models.load(str(tmp_path / name), max_seq_length=16)
    (encoded,) = loaded.encode(["the street"])
    serving_models.assert_close(encoded.layers, expected.layers)
    assert (encoded.pooled is not None) == has_pooler
  with pytest.raises(errors.InputError, match="has no bert/pooler/dense"):
    loaded.embed("the street", pooling="pooled")


class Table(list):
  """A table iterates over the names of its columns, as in pandas."""

  columns = ("text",)


@pytest.mark.parametrize(
  "ask, sentence",
  [
    (lambda b: b.fill_mask(["[MASK]", " "]), "text number 1: an empty text"),
    (lambda b: b.answer("?", ""), "text number 0: an empty text"),
    (lambda b: b.classify("x", labels=["a", "b"]), "not to classify"),
    (lambda b: b.tag("x"), "was trained to fill in .* not to tag words"),
    (lambda b: b.embed("x", poolng="cls"), says("'cls'", "unknown")),
    (lambda b: b.embed("x", pooling="top"), says("'top'", "expected")),
    (
      lambda b: b.embed("x", pooling="max", pooling_layer=9),
      "'9' is not a layer",
    ),
    (lambda b: b.embed("x", normalize=1), "normalize=1: expected True or"),
    (lambda b: b.fill_mask("[MASK]", top_k=0), "an integer of at least 1"),
    (lambda b: b.answer("a", "b", top_k=0), says("top_k", "0", "expected")),
    (lambda b: b.search("a", []), "expected a list of texts"),
    (lambda b: b.search("a", "b"), "expected a list of texts"),
    (lambda b: b.search("a", ["b"], top_k=0), says("top_k", "0", "expected")),
    (lambda b: b.search(["a", 3], ["b"]), says("1", "3", "expected")),
    (
      lambda b: b.search("a", ["b"], vectors=np.zeros([1, 3])),
      says("1", "3", "expected"),
    ),
    (
      lambda b: b.fill_mask(["[MASK]", "a [mask]"]),
      says("1", "[MASK]", "'a [mask]'", "no"),
    ),
    (
      lambda b: b.fill_mask("x " * 14 + "[MASK]", max_seq_length=16),
      says("[MASK]", "16", "max_seq_length"),
    ),
    (
      lambda b: b.fill_mask("[MASK]", doc_stride=8),
      "--doc_stride needs --head=",
    ),
    (lambda b: b.embed(("x", "y")), "takes strings .text., not pairs"),
    (lambda b: b.embed("x", text_pairs=True), "pass pairs of strings"),
    (lambda b: b.encode(["x", 3]), says("1", "3", "expected")),
    (lambda b: b.encode(["x", ("x", "y")]), "number 1 is .*do not mix"),
    (lambda b: b.encode("\ud800"), r"number 0 is .*ud800.*valid in UTF-8"),
    (lambda b: b.encode([("a", "b", "c")]), "number 0 is .*pair of strings"),
    (
      lambda b: b.answer(["a", "b"], ["c"]),
      "questions .2. and contexts .1. differ",
    ),
    (lambda b: b.answer(["a", "b"], "cd"), "2. and contexts .1. differ"),
    (
      lambda b: b.embed({"text": ["x"]}),
      "texts of the type dict; expected a s",
    ),
    (lambda b: b.embed(Table()), says("Table", "expected")),
    (lambda b: b.answer(["a"], None), says("NoneType", "expected")),
    (lambda b: b.classify("x", labels="ab"), says("'ab'", "expected")),
    (lambda b: b.next_sentence(["a", "b"]), "takes pairs of strings .text_a"),
    (lambda b: b.next_sentence(("a", " ")), "text number 0: an empty text"),
    (
      lambda b: b.next_sentence(("a", "b"), top_k=2),
      "--top_k needs --head=mas",
    ),
    (lambda b: b.likelihood(("a", "b")), "takes strings .text., not pairs"),
    (lambda b: b.likelihood(["a", ""]), "text number 1: an empty text"),
    (lambda b: b.likelihood("\x01"), says("0", r"'\x01'", "no", "leave")),
    (lambda b: b.likelihood(["a", "b " * 15]), "number 1: 17 word pieces with"),
  ],
)
def test_invalid_calls_are_refused_in_a_sentence(bert, ask, sentence):
  with pytest.raises(errors.InputError, match=sentence):
    ask(bert)


def test_folders_without_a_model_are_refused_when_loaded(tmp_path):
  with pytest.raises(errors.InputError, match="no such folder"):
    text_models.load(tmp_path / "nowhere")
  with pytest.raises(errors.InputError, match="no such file: .*none.txt"):
    text_models.load(MODEL, vocab_file=tmp_path / "none.txt")
  shutil.copy(f"{MODEL}/bert_config.json", tmp_path)
  with pytest.raises(errors.InputError, match="in Python vocab_file="):
    text_models.load(str(tmp_path))
  shutil.copy(f"{MODEL}/vocab.txt", tmp_path)
  with pytest.raises(errors.InputError, match=re.escape(str(tmp_path))):
    text_models.load(str(tmp_path))  # No weights.


# Engines and exports.


@pytest.mark.parametrize(
  "options, sentence",
  [
    ({"engine": "torch"}, "expected one of tensorflow, onnx, litert"),
    ({"quantize": "int8"}, "--quantize needs --engine=onnx or --engine=litert"),
    ({"engine": "onnx", "quantize": "int4"}, "expected one of none, int8"),
    ({"batch_size": 0}, says("batch_size", "0", "1", "expected", "least")),
    ({"num_threads": -1}, says("num_threads", "-1", "0", "expected", "least")),
    # TensorFlow has started before.
    ({"num_threads": 77}, says("num_threads=77")),
    ({"engine": "onnx", "dtype": "bfloat16"}, "no effect with --engine=onnx"),
    (
      {"engine": "litert", "dtype": "bfloat16"},
      "no effect with --engine=litert",
    ),
  ],
)
def test_invalid_options_are_refused(options, sentence):
  with pytest.raises(errors.InputError, match=sentence):
    text_models.load(MODEL, **options)


def test_only_tensorflow_computes_hidden_states():
  bert = text_models.load(MODEL)
  bert.embed("it", engine="onnx", pooling="mean")
  assert len(bert.encode("it").tokens) == 3
  bert = text_models.load(MODEL, engine="onnx")
  with pytest.raises(errors.InputError, match=says("TensorFlow", "only")):
    bert.encode("it")
  with pytest.raises(errors.InputError, match="only TensorFlow"):
    _ = bert.encoder
  with pytest.raises(errors.InputError, match="only TensorFlow"):
    bert.likelihood("it")


@pytest.mark.parametrize(
  "engine, package", [("onnx", "onnxruntime"), ("litert", "ai_edge_litert")]
)
def test_a_missing_extra_is_named(engine, package, monkeypatch):
  for name in [n for n in sys.modules if n.split(".")[0] == package]:
    monkeypatch.setitem(sys.modules, name, None)
  monkeypatch.setitem(sys.modules, package, None)
  for name in (f"{engine}_engine", "quantization"):
    monkeypatch.delitem(sys.modules, f"engines.{name}", raising=False)
    monkeypatch.delattr(f"engines.{name}", raising=False)
  # LiteRT converts one network per length; with at most 8 tokens, it is one.
  bert = text_models.load(MODEL, engine=engine, max_seq_length=8)
  with pytest.raises(errors.InputError, match=rf"bert-tf2\[{engine}\]"):
    bert.embed("it")


def test_networks_of_other_programs_are_not_exports(tmp_path):
  folder = tmp_path / "model"
  shutil.copytree(MODEL, folder)
  (folder / "model.onnx").write_bytes(b"from another program")
  vectors = text_models.load(str(folder)).embed(TEXTS, pooling="mean")
  np.testing.assert_array_equal(
    vectors, text_models.load(MODEL).embed(TEXTS, pooling="mean")
  )


def test_settings_of_an_export_cannot_change(tmp_path):
  path = str(tmp_path / "out")
  script_runner.succeed(
    "export_saved_model.py",
    model_dir=MODEL,
    export_dir=path,
    format="onnx",
    head="embedding",
    pooling="mean",
    normalize=True,
  )
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
  # An export could also be read with its other tokenizer file.
  (tmp_path / "out" / "tokenizer.json").unlink()
  with pytest.raises(errors.InputError, match=r"lacks vocab\.txt or"):
    text_models.load(path)
  (tmp_path / "vocab.txt").rename(tmp_path / "out" / "vocab.txt")
  (tmp_path / "out" / "answers.json").unlink()
  with pytest.raises(errors.InputError, match=r"answers\.json"):
    text_models.load(path)
