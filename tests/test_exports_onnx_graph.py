"""Tests that ONNX Runtime's outputs for an export equal the network's."""

import numpy as np
import pytest

import engine_models
from checkpoints import sentence_pooling
from common import errors
from engine_models import assert_close
from message_facts import says

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from exports import onnx_graph


def check_equal(config, head_name, tmp_path, labels=3, write=(), **options):
  """Compares all outputs on batches of several sizes, with padding."""
  encoder, head, weights = engine_models.network(config, head_name, labels)
  path = str(tmp_path / "model.onnx")
  model = onnx_graph.make(head_name, weights, config, **options)
  onnx_graph.write(path, model, **dict(write))
  runtime = onnxruntime.InferenceSession(path, None, ["CPUExecutionProvider"])
  names = [output.name for output in runtime.get_outputs()]
  for inputs in engine_models.BATCHES:
    expected = engine_models.outputs(
      encoder, head, head_name, inputs, **options
    )
    assert names == list(expected)
    outputs = runtime.run(None, engine_models.feed(config, inputs))
    for name, output in zip(names, outputs):
      assert output.dtype == np.float32
      assert_close(output, expected[name])
  return runtime


@pytest.mark.parametrize("variant", engine_models.VARIANTS)
@pytest.mark.parametrize("head_name", engine_models.HEADS)
def test_heads_of_all_variants_equal_tensorflow(variant, head_name, tmp_path):
  # ALBERT keeps its depth, since its layers are divided among groups.
  depth = {} if variant == "albert" else {"num_hidden_layers": 2}
  check_equal(engine_models.config_of(variant, **depth), head_name, tmp_path)


@pytest.mark.parametrize("head_name", ["classification", "masked_lm"])
@pytest.mark.parametrize(
  "changes",
  [
    {
      "classifier_pooling": "cls",
      "local_attention": 0,
      **dict.fromkeys(
        ("attention_bias", "mlp_bias", "norm_bias", "classifier_bias"), True
      ),
    },
    {
      "local_attention": 9,
      "global_attn_every_n_layers": 2,
      "classifier_activation": "relu",
    },
  ],
)
def test_settings_of_modernbert_equal_tensorflow(changes, head_name, tmp_path):
  config = engine_models.config_of("modernbert", num_hidden_layers=2, **changes)
  check_equal(config, head_name, tmp_path)


def test_a_regression_has_one_output(tmp_path):
  config = engine_models.config_of()
  session = check_equal(config, "classification", tmp_path, labels=1)
  (logits,) = session.get_outputs()
  assert logits.shape == ["batch_size", 1]


# The test of all heads covers the mean of the last layer.
@pytest.mark.parametrize(
  "mode, layers, normalize",
  [
    *((mode, [[-1]], True) for mode in ("cls", "mean", "max", "pooled")),
    *(
      (mode, layers, False)
      for mode in ("cls", "mean", "max")
      for layers in ([[-2]], [[0, -3], [-2], [2]])
    ),
    ("mean", [[0, -3], [-2], [2]], True),
    ("pooled", [[-1]], False),
  ],
)
def test_every_pooling_equals_tensorflow(mode, layers, normalize, tmp_path):
  pooling = sentence_pooling.Pooling(mode, layers, normalize)
  config = engine_models.config_of()
  session = check_equal(config, "embedding", tmp_path, pooling=pooling)
  width = session.get_outputs()[1].shape[1]
  assert width == 16 * len(layers)


def test_layers_that_no_vector_needs_are_left_out():
  config = engine_models.config_of()
  weights = engine_models.network(config, "embedding")[-1]
  pooling = sentence_pooling.Pooling("mean", ((1,), (-4,)))
  graph = onnx_graph.make("embedding", weights, config, pooling=pooling).graph
  layer_names = {
    name.split("/")[2]
    for name in (tensor.name for tensor in graph.initializer)
    if "/layer_" in name
  }
  assert layer_names == {"layer_0", "layer_1"}


@pytest.mark.parametrize(
  "name", ["gelu", "gelu_erf", "relu", "SILU", "swish", "tanh", "linear", None]
)
def test_every_activation_equals_tensorflow(name, tmp_path):
  config = engine_models.config_of(num_hidden_layers=1)
  config.hidden_act = name
  check_equal(config, "masked_lm", tmp_path)


def test_missing_weights_and_unknown_activations_are_refused():
  config = engine_models.config_of()
  weights = engine_models.network(config, "embedding")[-1]
  with pytest.raises(errors.InputError, match=says("output_weights", "no")):
    onnx_graph.make("span", weights, config)
  config.hidden_act = abs
  with pytest.raises(errors.InputError, match="expected one of gelu, "):
    onnx_graph.make("embedding", weights, config)


def test_weights_too_large_for_one_file_are_in_a_second(tmp_path):
  config = engine_models.config_of(vocab_size=300)
  check_equal(config, "masked_lm", tmp_path, write={"most_bytes": 10_000})
  assert (tmp_path / onnx_graph.DATA_FILE).stat().st_size > 300 * 16 * 4


def test_a_missing_package_names_the_extra(monkeypatch):
  with pytest.raises(errors.InputError, match=r'pip install "bert-tf2\[onnx\]'):
    with errors.needs_extra("onnx"):
      import no_such_package  # noqa: F401
