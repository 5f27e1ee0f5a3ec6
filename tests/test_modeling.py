"""Compares the network's outputs with the original's; tests its properties."""

import gzip
import json
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

import configuration
import heads
import modeling
import named_weights
import two_replicas
from common import errors
from message_facts import says
from tiny_model import Pretraining, assert_close, batch, tiny

GOLDEN = pathlib.Path("tests/golden")
MODELS = ("gelu_L3_H48", "linear_L1_H32", "relu_nodrop_L2_H64")
CASES = ("b1", "full_length", "len1", "no_mask_no_types", "static")


def golden_model(name, **options):
  """Returns a tiny_model.Pretraining with the original's weights."""
  folder = GOLDEN / "models" / name
  config = modeling.BertConfig.from_json_file(folder / "bert_config.json")
  model = Pretraining(config, **options)
  values = np.load(folder / "vars.npz")
  assert [v.name for v in model.variables] == [f"{n}:0" for n in values]
  for variable, value in zip(model.variables, values.values()):
    variable.assign(value)
  return model


def inputs_of(data, case):
  if case == "no_mask_no_types":
    return (data["input_ids"],)
  return data["input_ids"], data["input_mask"], data["segment_ids"]


def check_golden(name, case, **options):
  """Runs a golden case; returns its data, the model and the gradients."""
  data = np.load(GOLDEN / "models" / name / f"forward_{case}.npz")
  model = golden_model(name, **options)
  with tf.GradientTape() as tape:
    output = model.bert(*inputs_of(data, case))
    outputs = model.losses(output, data)
  hidden = {
    "embedding_output": output.embedding_output,
    "pooled_output": output.pooled_output,
  }
  for number, layer in enumerate(output.all_encoder_layers):
    hidden[f"encoder_layer_{number}"] = layer
  for key, value in hidden.items():
    # The last row of `static` has an all-zero mask, so its tolerance is 1e-3.
    rows = 5 if case == "static" else None
    assert_close(value[:rows], data[key][:rows])
    assert_close(value, data[key], 1e-3)
  tolerance = 1e-4 if case == "static" else 1e-5
  for key, value in outputs.items():
    assert_close(value, data[key], tolerance)
  gradients = tape.gradient(outputs["total_loss"], model.variables)
  return data, model, gradients


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", MODELS)
def test_forward_and_losses_equal_the_original(name, case):
  data, _, gradients = check_golden(name, case)
  norm = float(tf.linalg.global_norm(gradients))
  assert norm == pytest.approx(data["grad_global_norm_reference"], rel=1e-5)


@pytest.mark.parametrize(
  "option", [{}, {"recompute_activations": True}, {"is_for_tpu": True}]
)
@pytest.mark.parametrize("name", MODELS)
def test_gradients_equal_the_original(name, option):
  data, model, gradients = check_golden(name, "static", **option)
  for variable, gradient in zip(model.variables, gradients):
    assert_close(gradient, data[f"grad/{variable.name[:-2]}"])


@pytest.mark.parametrize("name", MODELS)
def test_one_hot_embeddings_equal_the_gather(name):
  check_golden(name, "static", use_one_hot_embeddings=True)


# Names and sizes


def released(checkpoint):
  with gzip.open(GOLDEN / "variables" / "released.json.gz") as stream:
    return json.load(stream)[checkpoint]


def head_shapes(config, task):
  if task == "pretraining":
    return {
      **heads.masked_lm_shapes(config),
      **heads.output_shapes(config, "cls/seq_relationship/", 2),
    }
  prefix = "cls/squad/" if task == "squad" else ""
  return heads.output_shapes(config, prefix, 2)


@pytest.mark.parametrize(
  "checkpoint, task, sizes",
  [
    ("base_uncased_pretraining_model", "pretraining", {}),
    ("base_uncased_classifier_model", "classifier", {}),
    ("base_uncased_squad_model", "squad", {}),
    (
      "multi_cased_base_pretraining_model",
      "pretraining",
      {"vocab_size": 119547},
    ),
    (
      "L8_H512_pretraining_model",
      "pretraining",
      dict(
        num_hidden_layers=8,
        hidden_size=512,
        num_attention_heads=8,
        intermediate_size=2048,
      ),
    ),
  ],
)
def test_names_and_shapes_equal_the_released_ones(checkpoint, task, sizes):
  config = modeling.BertConfig(
    **{"vocab_size": 30522, "type_vocab_size": 2, **sizes}
  )
  shapes = {**configuration.bert_shapes(config), **head_shapes(config, task)}
  expected = {k: tuple(v) for k, v in released(checkpoint).items()}
  assert list(shapes.items()) == list(expected.items())


def make_everything(config):
  bert = modeling.BertModel(config)
  return [
    bert,
    heads.MaskedLMHead(config, bert.word_embeddings),
    heads.NextSentenceHead(config),
    heads.ClassificationHead(config, 3),
    heads.SpanHead(config),
  ]


def test_every_variable_is_in_the_table_and_trainable():
  config = tiny()
  modules = make_everything(config)
  tables = [
    configuration.bert_shapes(config),
    heads.masked_lm_shapes(config),
    heads.output_shapes(config, "cls/seq_relationship/", 2),
    heads.output_shapes(config, "", 3),
    heads.output_shapes(config, "cls/squad/", 2),
  ]
  for module, table in zip(modules, tables):
    shapes = [(v.name, tuple(v.shape)) for v in module.trainable_variables]
    assert shapes == [(f"{name}:0", shape) for name, shape in table.items()]
    assert module.variables == module.trainable_variables
    assert {v.dtype for v in module.variables} == {tf.float32}


def test_names_stay_the_same_in_a_strategy_and_in_a_name_scope():
  strategy = two_replicas.strategy()
  plain = [v.name for m in make_everything(tiny()) for v in m.variables]
  with tf.name_scope("outer"), strategy.scope():
    mirrored = [v.name for m in make_everything(tiny()) for v in m.variables]
  assert mirrored == plain


def test_scope_renames_the_encoder():
  names = [v.name for v in modeling.BertModel(tiny(), scope="foo").variables]
  assert names[0] == "foo/embeddings/word_embeddings:0"
  assert all(name.startswith("foo/") for name in names)


# Initial weights


def test_initial_weights_are_a_function_of_seed_and_name():
  first, second = (modeling.BertModel(tiny(), seed=7) for _ in range(2))
  other = modeling.BertModel(tiny(), seed=8)
  modeling.BertModel(tiny(), seed=2**40)
  deeper = modeling.BertModel(tiny(num_hidden_layers=3), seed=7)
  shared = {v.name: v.numpy() for v in deeper.variables}
  for a, b, c in zip(first.variables, second.variables, other.variables):
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(a, shared[a.name])
    constant = a.name.endswith(("bias:0", "beta:0", "gamma:0"))
    assert np.array_equal(a, c) == constant
  kernels = [v.numpy() for v in first.variables if "/self/" in v.name]
  assert not np.array_equal(kernels[0], kernels[2])


def test_weights_that_will_be_loaded_are_not_drawn():
  config, name = tiny(), "bert/embeddings/word_embeddings"
  drawn = modeling.BertModel(config)
  other = "bert/embeddings/position_embeddings"
  awaited = {name: drawn.word_embeddings.shape, other: (1, 1)}
  with named_weights.without_random_init(awaited):
    model = modeling.BertModel(config)
  after = modeling.BertModel(config)
  for before, variable, later in zip(
    drawn.variables, model.variables, after.variables
  ):
    np.testing.assert_array_equal(before, later)
    # With another shape, the weight is drawn: `load` reports the mismatch.
    is_awaited = named_weights.variable_name(variable) == name
    assert is_awaited == (not np.array_equal(before, variable))
  assert not np.any(model.word_embeddings)


def test_initial_weights_are_a_truncated_normal():
  config = tiny(vocab_size=2000, hidden_size=64, initializer_range=0.02)
  table = modeling.BertModel(config).word_embeddings.numpy()
  assert np.abs(table).max() <= 0.04
  # As in the original: truncated at two sigma, 0.02 becomes a std of 0.0176.
  assert table.std() == pytest.approx(0.01759, rel=0.01)


# Properties


def test_attention_probabilities_on_request():
  model = modeling.BertModel(tiny())
  ids, mask, segments = batch()
  output = model(ids, mask, segments, return_attention=True)
  assert len(output.attention_probs) == 2
  for probs in output.attention_probs:
    assert probs.shape == [3, 4, 8, 8]
    assert_close(tf.reduce_sum(probs, -1), np.ones([3, 4, 8]))
    assert not np.any(probs.numpy()[1, :, :, 7:])
  plain = model(ids, mask, segments)
  assert plain.attention_probs is None
  assert_close(plain.sequence_output, output.sequence_output, 1e-6)


# Dropout


def hidden(model, seed, **options):
  data = batch()
  options = {"training": True, "dropout_seed": seed, **options}
  return model(*data, **options).sequence_output.numpy()


def test_dropout_is_a_function_of_the_seed():
  model = modeling.BertModel(tiny())
  first = hidden(model, [1, 2])
  np.testing.assert_array_equal(first, hidden(model, [1, 2]))
  off = hidden(model, [1, 2], training=False)
  records = dict(zip(["input_ids", "input_mask", "segment_ids"], batch()))
  for seed, expected in (([1, 2], first), (None, off)):
    states = model.encode(records, seed).sequence_output
    np.testing.assert_array_equal(states, expected)
  drawn = [hidden(model, None) for _ in range(2)]
  different = [first, hidden(model, [1, 3]), hidden(model, [2, 2]), off, *drawn]
  for i, later in enumerate(different):
    for earlier in different[:i]:
      assert np.abs(later - earlier).max() > 1e-2


def test_with_dropout_probabilities_of_0_training_drops_nothing():
  config = tiny(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
  model = modeling.BertModel(config)
  # Inference uses TensorFlow's GELU. Training uses a GELU whose gradient needs
  # fewer passes, so the states are equal only up to rounding.
  np.testing.assert_allclose(
    hidden(model, [1, 2]), hidden(model, [1, 2], training=False), atol=5e-6
  )


@pytest.mark.parametrize(
  "hidden_rate, attention_rate", [(0.5, 0.0), (0.0, 0.5)]
)
def test_each_dropout_probability_matters(hidden_rate, attention_rate):
  config = tiny(
    hidden_dropout_prob=hidden_rate, attention_probs_dropout_prob=attention_rate
  )
  model = modeling.BertModel(config)
  off = hidden(model, [1, 2], training=False)
  assert np.abs(hidden(model, [1, 2]) - off).max() > 1e-2


# What a user can get wrong


def test_shapes_that_cannot_be_used():
  model = modeling.BertModel(tiny())
  with pytest.raises(errors.InputError, match="length 13 .*embeddings 12"):
    model(np.zeros([2, 13], np.int32))
  for shape in ([4], [2, 4, 1]):
    with pytest.raises(errors.InputError, match="expected .batch, sequence"):
      model(np.zeros(shape, np.int32))


def test_a_vocabulary_is_compared_with_the_model(caplog):
  config = tiny()
  config.check_vocabulary(30)
  assert not caplog.messages
  config.check_vocabulary(29, "vocab.txt")
  assert re.search(
    says("vocab.txt", "29", "vocab_size", "30", "fewer"), caplog.text
  )
  message = "vocab.txt has 31 tokens .*vocab_size 30"
  with pytest.raises(errors.InputError, match=message):
    config.check_vocabulary(31, "vocab.txt")


def test_a_summary_lists_all_variables_and_their_sum(capsys):
  model = modeling.BertModel(tiny())
  model.summary()
  *rows, total = capsys.readouterr().out.splitlines()
  assert [row.split()[0] for row in rows] == [
    named_weights.variable_name(weight) for weight in model.variables
  ]
  assert rows[0].split()[1:] == ["(30,", "16)", "480"]
  count = model.config.num_parameters()
  assert total.split() == ["parameters", f"{count:,}"]
