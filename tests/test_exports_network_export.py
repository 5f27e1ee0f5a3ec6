"""Compares exports for ONNX Runtime and LiteRT with the model, per head."""

import os
import re
import types

import numpy as np
import pytest
import tensorflow as tf

import engine_models
import message_facts
import tokenization
from answering import export_options, models
from common import errors, run_settings
from engine_models import assert_close
from exports import litert_model, network_export
from message_facts import says
from tiny_model import write_vocabulary

pytest.importorskip("onnxruntime")
pytest.importorskip("ai_edge_litert")

from engines import litert_engine, onnx_engine

ENGINES = {"litert": litert_engine.LiteRTEngine, "onnx": onnx_engine.OnnxEngine}
SETTINGS = {
  "dtype": "float32",
  "labels": ("bad", "good", "fine"),
  "doc_stride": 4,
  "output_activation": "softmax",
  "pooling": "mean",
  "normalize": True,
  "pooling_layer": ("-1",),
  "do_lower_case": True,
  "max_seq_length": 12,
  "max_query_length": 3,
  "text_pairs": False,
  "quantize": "none",
  "lengths": (),
  "max_quantization_difference": 0.5,
  "max_windows": 0,
  "calibration_file": None,
}
NAMES = ("input_ids", "input_mask", "segment_ids")
TEXTS = [("w1 w2 w3",), ("w4",)]


def write(tmp_path, form, head, config, **values):
  """Exports to tmp_path/"out"; returns the model, with random weights."""
  settings = run_settings.Settings(
    {
      **export_options.DEFAULTS,
      **SETTINGS,
      "head": head,
      "vocab_file": write_vocabulary(tmp_path),
      "export_dir": str(tmp_path / "out"),
      "format": form,
      **values,
    }
  )
  if form == "litert":
    settings = network_export.with_lengths(settings, config)
  tokenizer = tokenization.FullTokenizer(settings.vocab_file)
  model = models.KINDS[head](config, settings, tokenizer)
  engine_models.make_random(model.variables)
  texts = [row * len(model.text_inputs) for row in TEXTS]
  network_export.write(model, texts)
  return model


def check_equal(tmp_path, form, model):
  """Compares all outputs on batches of several sizes, with padding."""
  engine = ENGINES[form](str(tmp_path / "out"), threads=1)
  for inputs in engine_models.BATCHES:
    expected, outputs = model.exported(*inputs), engine.run(*inputs)
    assert set(outputs) == set(expected) == set(engine.outputs)
    for name, value in expected.items():
      assert outputs[name].dtype == np.float32
      assert_close(outputs[name], value)
  (name,) = engine.run(*inputs, outputs=[engine.outputs[-1]])
  assert name == engine.outputs[-1]


def grid(rows, *in_default):
  """Returns parameters; rows that are not `in_default` are slow tests.

  A conversion for LiteRT takes seconds.
  """
  return [
    pytest.param(*row, marks=[pytest.mark.slow] * (row not in in_default))
    for row in rows
  ]


# These variants have no head for pairs.
WITHOUT_PAIRS = ("distilbert", "electra", "modernbert", "roberta")
# LiteRT runs special cases by default: ELECTRA's classifier, which has an
# activation, DistilBERT, without segments, and ModernBERT, with local layers.
GRID = grid(
  [
    (form, variant, head)
    for form in ENGINES
    for variant in engine_models.VARIANTS
    for head in engine_models.HEADS
    if head != "next_sentence" or variant not in WITHOUT_PAIRS
  ],
  *[("onnx", variant, "masked_lm") for variant in engine_models.VARIANTS],
  *[(form, "electra", "classification") for form in ENGINES],
  ("litert", "distilbert", "masked_lm"),
  ("litert", "modernbert", "tagging"),
)


@pytest.mark.parametrize("form, variant, head", GRID)
def test_every_head_of_every_variant(form, variant, head, tmp_path):
  changes = {
    "albert": {"num_hidden_groups": 1},
    "modernbert": {"layer_types": ["sliding_attention"]},
  }.get(variant, {})
  config = engine_models.config_of(
    variant, num_hidden_layers=1, hidden_act="gelu_erf", **changes
  )
  check_equal(tmp_path, form, write(tmp_path, form, head, config))


@pytest.mark.parametrize(
  "form, head",
  grid(
    [(form, head) for form in ENGINES for head in engine_models.HEADS],
    *[("onnx", head) for head in engine_models.HEADS],
    ("litert", "embedding"),
    ("litert", "masked_lm"),
  ),
)
def test_8_bit_exports_are_small_and_close(form, head, tmp_path, capsys):
  config = engine_models.config_of(
    vocab_size=400, hidden_size=64, intermediate_size=256, num_hidden_layers=1
  )
  model = write(tmp_path, form, head, config, quantize="int8")
  printed = capsys.readouterr().out
  assert printed.startswith("8 bits: the outputs of 2 texts differ from those")
  assert printed.endswith("one per line: --calibration_file=texts.txt\n")
  engine = ENGINES[form](str(tmp_path / "out"))
  batches = [
    {name: value.numpy()[:1] for name, value in zip(NAMES, inputs)}
    for inputs in engine_models.BATCHES
  ]
  measured = network_export.differences(
    lambda **batch: {n: v.numpy() for n, v in model.exported(**batch).items()},
    engine.run,
    batches,
  )
  assert 0 < measured.mean() <= measured.max() < 0.3
  file = {"litert": "model.tflite", "onnx": "model.onnx"}[form]
  weights = sum(v.numpy().nbytes for v in model.variables)
  # Not 0.25: the nodes are as large as some of these narrow matrices.
  assert os.path.getsize(tmp_path / "out" / file) < 0.6 * weights


def test_too_far_from_float32_is_refused(tmp_path):
  config = engine_models.config_of(num_hidden_layers=1)
  with pytest.raises(errors.InputError, match="pass a larger --max_quantiz"):
    write(
      tmp_path,
      "onnx",
      "embedding",
      config,
      quantize="int8",
      max_quantization_difference=1e-9,
    )
  assert os.listdir(tmp_path) == ["vocab.txt"]


@pytest.mark.parametrize("form", ENGINES)
def test_a_file_that_is_no_model_is_named(form, tmp_path):
  for name in ("model.onnx", "model.tflite"):
    (tmp_path / name).write_bytes(b"no model")
  for path in (tmp_path, tmp_path / "nothing"):
    with pytest.raises(errors.InputError, match="cannot be read by .*; exp"):
      ENGINES[form](str(path))


# LiteRT's lengths.


def test_lengths_share_one_set_of_weights(tmp_path):
  config = engine_models.config_of(vocab_size=9000, num_hidden_layers=1)
  # The network uses the word embedding table twice.
  model = write(
    tmp_path, "litert", "masked_lm", config, lengths=["4", "8", "12"]
  )
  check_equal(tmp_path, "litert", model)
  weights = sum(v.numpy().nbytes for v in model.variables)
  size = os.path.getsize(tmp_path / "out" / "model.tflite")
  assert size < 1.3 * weights
  engine = litert_engine.LiteRTEngine(str(tmp_path / "out"))
  assert engine.lengths == [4, 8, 12]
  # Several threads share the texts of a batch, which stay in order.
  alone, shared = (
    litert_engine.LiteRTEngine(str(tmp_path / "out"), threads)
    for threads in (1, 2)
  )
  for inputs in engine_models.BATCHES:
    np.testing.assert_array_equal(
      shared.run(*inputs)["logits"], alone.run(*inputs)["logits"]
    )
  with pytest.raises(errors.InputError, match=says("13", "12", "most")):
    engine.run(*[np.ones([1, 13], int)] * 3)


def lengths_of(values, longest=12, positions=12):
  settings = run_settings.Settings(
    {"format": "litert", "lengths": values, "max_seq_length": longest}
  )
  config = engine_models.config_of(max_position_embeddings=positions)
  settings = network_export.with_lengths(settings, config)
  assert settings.max_seq_length == settings.lengths[-1]
  return settings.lengths


def test_default_lengths_end_with_the_longest_text():
  assert lengths_of((), 128, 512) == (16, 32, 64, 128)
  assert lengths_of((), 100, 512) == (16, 32, 64, 100)
  assert lengths_of((), 7) == (7,)
  assert lengths_of(("3", "9")) == (3, 9)


@pytest.mark.parametrize(
  "values", [("8", "4"), ("4", "4"), ("0", "4"), ("4", "x"), ("-4",), ("",)]
)
def test_lengths_that_do_not_ascend_are_refused(values):
  with pytest.raises(errors.InputError, match="integers in ascending order"):
    lengths_of(values)


def test_lengths_that_the_model_does_not_have_are_refused():
  with pytest.raises(errors.InputError, match="=4,13: .* 12 positions"):
    lengths_of(("4", "13"))


def test_weights_too_large_for_the_lengths_are_refused():
  variables = [tf.TensorSpec([2**28])]
  litert_model.check_size([16], variables)
  with pytest.raises(
    errors.InputError, match=says("1.1", "1", "needs", "most")
  ):
    litert_model.check_size([16, 32], variables)
  with pytest.raises(errors.InputError, match="1 --len.*; pass --format=onnx"):
    litert_model.check_size([16], 2 * variables)


def test_another_network_is_refused(tmp_path):
  import onnx

  pixels = onnx.helper.make_tensor_value_info("pixels", 1, [1])
  classes = onnx.helper.make_tensor_value_info("classes", 1, [1])
  node = onnx.helper.make_node("Identity", ["pixels"], ["classes"])
  model = onnx.helper.make_model(
    onnx.helper.make_graph([node], "other", [pixels], [classes]),
    ir_version=10,
    opset_imports=[onnx.helper.make_opsetid("", 20)],
  )
  onnx.save(model, str(tmp_path / "model.onnx"))
  with pytest.raises(errors.InputError, match="inputs are pixels, expected"):
    onnx_engine.OnnxEngine(str(tmp_path / "model.onnx"))


@pytest.mark.parametrize(
  "form, name", [("litert", "model.tflite"), ("onnx", "model.onnx")]
)
def test_files_that_are_damaged_anywhere_are_refused(form, name, tmp_path):
  write(tmp_path, form, "span", engine_models.config_of(num_hidden_layers=1))
  content = (tmp_path / "out" / name).read_bytes()
  for damaged in (content[:40], b"\0" * 64, content[: len(content) // 2]):
    (tmp_path / "out" / name).write_bytes(damaged)
    with pytest.raises(errors.InputError):
      ENGINES[form](str(tmp_path / "out"))


def test_a_difference_is_a_share_of_the_typical_norm():
  batches = [{"number": 0}, {"number": 1}]
  rows = [
    {"logits": np.array([[[3.0, 4.0], [0.0, 0.0]]])},  # Norms 5 and 0.
    {"logits": np.array([[0.0, 5.0]])},
  ]
  other_rows = [
    {"logits": np.array([[[3.0, 4.0], [0.0, 1.0]]])},
    {"logits": np.array([[3.0, 5.0]])},
  ]
  shares = network_export.differences(
    lambda number: rows[number], lambda number: other_rows[number], batches
  )
  typical = np.sqrt(50 / 3)
  assert shares == pytest.approx([0 / typical, 1 / typical, 3 / typical])


def test_hidden_states_are_not_compared_if_there_is_a_vector():
  rows = {"last_hidden_state": np.ones([1, 2, 2]), "x": np.ones([1, 2])}
  other_rows = {"last_hidden_state": np.zeros([1, 2, 2]), "x": np.ones([1, 2])}
  shares = network_export.differences(lambda: rows, lambda: other_rows, [{}])
  assert shares.tolist() == [0.0]


@pytest.mark.parametrize(
  "shares, limit, is_refused",
  [
    ([0.25, 0.5], 0.5, False),
    ([0.25, 0.5], 0.499, True),
    ([0.1, np.nan], 9.0, True),
  ],
)
def test_the_largest_difference_decides(
  shares, limit, is_refused, tmp_path, monkeypatch
):
  compared = []

  def differences(_, run, batches):
    compared.extend(batch["input_ids"].shape for batch in batches)
    return run()

  monkeypatch.setattr(network_export, "differences", differences)
  monkeypatch.setattr(models, "network_of", lambda *_: None)
  tokenizer = tokenization.FullTokenizer(write_vocabulary(tmp_path))
  model = types.SimpleNamespace(tokenizer=tokenizer, exported=None)
  engine = types.SimpleNamespace(run=lambda: np.array(shares))
  settings = run_settings.Settings(
    {"max_seq_length": 5, "max_quantization_difference": limit}
  )
  texts = [("w1",), ("w1 w2 w3 w4",)]
  if is_refused:
    with pytest.raises(errors.InputError, match="--max_quantization_diff"):
      network_export.compare(model, engine, settings, texts)
  else:
    summary = network_export.compare(model, engine, settings, texts)
    assert re.search(message_facts.says("2", "0.500", "0.375"), summary)
  # Each text is a batch without padding, cut to the length.
  assert compared == [(1, 3), (1, 5)]


def test_weights_too_large_for_litert_are_refused_by_the_export(
  tmp_path, monkeypatch
):
  monkeypatch.setattr(litert_model, "_MAX_BYTES", 1000)
  config = engine_models.config_of(num_hidden_layers=1)
  with pytest.raises(errors.InputError, match="--format=onnx"):
    write(tmp_path, "litert", "embedding", config)
  assert os.listdir(tmp_path) == ["vocab.txt"]
