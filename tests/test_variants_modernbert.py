"""Compares ModernBERT with transformers: outputs, gradients, names, keys."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import configuration
import heads
import modeling
import tiny_model
import transformers_goldens
from checkpoints import (
  converter,
  growth,
  layer_choice,
  weight_files,
  weight_names,
)
from classification import model as classification_model
from common import errors, run_settings
from engine_models import assert_close, make_random
from pretraining.networks import token_dropping
from variants import modernbert, registry

GOLDEN = pathlib.Path("tests/golden/modernbert")
OUTPUTS = dict(np.load(GOLDEN / "outputs.npz"))
NAMES = ["biases", "equal_bases", "every_third", "local_first", "only_itself"]
BATCHES = ["odd", "window", "one"]
HEADS = {
  "MaskedLM": None,
  "MultipleChoice": heads.ClassificationHead,
  "QuestionAnswering": heads.SpanHead,
  "SequenceClassification": heads.ClassificationHead,
  "TokenClassification": heads.TokenClassificationHead,
}


class Model:
  """The encoder of a golden folder with one of the HEADS."""

  def __init__(self, name, head="MaskedLM", **options):
    self.name, self.head_name = name, head
    self.reader = weight_files.open_reader(str(GOLDEN / name))
    self.config = modeling.BertConfig.from_dict(self.reader.config)
    self.bert = registry.make_encoder(self.config, **options)
    weight_files.load(self.bert.variables, self.reader)
    if head == "MaskedLM":
      self.head = heads.MaskedLMHead(self.config, self.bert.word_embeddings)
      weight_files.load(self.head.variables, self.reader)
      return
    values = [OUTPUTS[f"{name}/{head}/{end}"] for end in ("weight", "bias")]
    counts = [] if head == "QuestionAnswering" else [len(values[1])]
    self.head = HEADS[head](self.config, *counts)
    for variable, value in zip(self.head.variables, values, strict=True):
      variable.assign(value)

  def batch(self, batch):
    return [
      tf.constant(OUTPUTS[f"{self.name}/{batch}/{key}"])
      for key in ("ids", "mask")
    ]

  def logits(self, ids, mask):
    output = self.bert(ids, mask)
    if self.head_name in ("SequenceClassification", "MultipleChoice"):
      return self.head(output.pooled_output)
    logits = self.head(self.bert.head_states(output.sequence_output))
    if self.head_name == "QuestionAnswering":
      return tf.stack(logits, -1)
    return logits


def tokens_of(values, mask):
  """Sets the values of padding to 0; of a sequence, if it starts with it."""
  if len(values.shape) == 2:
    return values * mask[:, :1]
  return values * mask[:, :, np.newaxis]


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", NAMES)
def test_logits_equal_transformers(name, head):
  model = Model(name, head)
  for batch in BATCHES:
    ids, mask = model.batch(batch)
    expected = OUTPUTS[f"{name}/{batch}/{head}"]
    logits = model.logits(ids, mask).numpy()
    if head == "MultipleChoice":
      expected = expected.reshape(logits.shape)
    assert_close(
      tokens_of(logits, mask.numpy()), tokens_of(expected, mask.numpy())
    )


@pytest.mark.parametrize("name", NAMES)
def test_hidden_states_equal_transformers(name):
  model = Model(name)
  ids, mask = model.batch("odd")
  output = model.bert(ids, mask)
  states = [output.embedding_output, *output.all_encoder_layers]
  expected = OUTPUTS[f"{name}/odd/hidden_states"]
  for number, (value, wanted) in enumerate(zip(states, expected, strict=True)):
    assert_close(
      tokens_of(value.numpy(), mask.numpy()), tokens_of(wanted, mask.numpy())
    )
    assert number <= model.config.num_hidden_layers


def in_our_names(model, head):
  """Returns {our name: golden gradient} of a head."""
  prefix = f"{model.name}/gradient/{head}/"
  gradients = {
    key.removeprefix(prefix): value
    for key, value in OUTPUTS.items()
    if key.startswith(prefix)
  }
  names, _ = weight_names.find(
    "modernbert", gradients, is_span=head == "QuestionAnswering"
  )
  found = {
    tf1: (gradients[name], layout) for tf1, (name, layout) in names.items()
  }
  # The tied table's gradient is the encoder's and the decoder's.
  return found


@pytest.mark.parametrize("head", sorted(HEADS.keys() - {"MultipleChoice"}))
@pytest.mark.parametrize("name", NAMES)
def test_gradients_equal_transformers(name, head):
  model = Model(name, head)
  ids, mask = model.batch("odd")
  with tf.GradientTape() as tape:
    logits = model.logits(ids, mask)
    factor = np.random.RandomState(7).uniform(-1, 1, logits.shape)
    factor = tokens_of(factor.astype(np.float32), mask.numpy())
    loss = tf.reduce_sum(logits * factor)
  variables = [*model.bert.variables, *model.head.variables]
  gradients = dict(
    zip(
      (variable.name.partition(":")[0] for variable in variables),
      map(tf.convert_to_tensor, tape.gradient(loss, variables)),
    )
  )
  expected = in_our_names(model, head)
  assert gradients.keys() == expected.keys()
  largest = max(np.abs(value).max() for value, _ in expected.values())
  for key, (wanted, layout) in expected.items():
    computed = gradients[key].numpy()
    if not wanted.shape:  # The sum of its products with random numbers.
      there = weight_names.from_tf1(computed, layout)
      random = np.random.RandomState(11).uniform(-1, 1, there.shape)
      computed = np.sum(there * random)
    else:
      wanted = weight_names.to_tf1(wanted, layout)
    np.testing.assert_allclose(
      computed, wanted, rtol=1e-5, atol=1e-5 * largest, err_msg=key
    )


# Blocks, padding and positions: our own ways of computing the same.


def config_of(**changes):
  values = {
    **tiny_model.TINY,
    "variant": "modernbert",
    "num_hidden_layers": 4,
    "max_position_embeddings": 64,
    "local_attention": 6,
    **changes,
  }
  return modeling.BertConfig.from_dict(values)


def random_model(config, **options):
  bert = registry.make_encoder(config, **options)
  make_random(bert.variables)
  return bert


@pytest.mark.parametrize("window", [1, 5, 40])
def test_blocks_equal_one_block(window):
  bert = random_model(config_of(local_attention=window))

  @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2)
  def of_any_length(ids, mask):
    return bert(ids, mask).sequence_output

  for length in (1, 7, 31):
    ids, mask, _ = tiny_model.batch(2, length, seed=length)
    # Attention's probabilities are computed in one block.
    whole = bert(ids, mask, return_attention=True)
    expected = whole.sequence_output
    for states in (bert(ids, mask).sequence_output, of_any_length(ids, mask)):
      is_token = tf.cast(mask, tf.float32)[..., tf.newaxis]
      assert_close((states * is_token).numpy(), (expected * is_token).numpy())
    probs = whole.attention_probs[1].numpy()
    distance = abs(np.subtract.outer(range(length), range(length)))
    assert not probs[:1, :, distance > window // 2].any()


@pytest.mark.parametrize("last", [modernbert.GLOBAL, modernbert.LOCAL])
def test_partial_layers_and_skipped_padding_equal_the_whole(last):
  kinds = [modernbert.LOCAL, last]
  config = config_of(num_hidden_layers=2, layer_types=kinds)
  ids, mask, _ = tiny_model.batch(3, 20)
  positions = tf.constant([[0, 5], [16, 2], [3, 0]])

  def step(**options):
    bert = random_model(config, **options)

    # As in training, layers of one kind share a trace.
    @tf.function(autograph=False)
    def outputs():
      states = bert(ids, mask).sequence_output
      with tf.GradientTape() as tape:
        picked = bert(ids, mask, positions=positions).sequence_output
        loss = tf.reduce_sum(tf.square(picked))
      gradients = tape.gradient(loss, bert.variables[:-2])
      return [states, picked, *map(tf.convert_to_tensor, gradients)]

    return outputs()

  states, picked, *gradients = step()
  expected = tf.gather(states, positions, batch_dims=1)
  assert_close(picked.numpy(), expected.numpy())
  tokens = states * tf.cast(mask, tf.float32)[..., tf.newaxis]
  for option in ("skip_padding", "recompute_activations", "is_for_tpu"):
    values = step(**{option: True})
    values[0] *= tf.cast(mask, tf.float32)[..., tf.newaxis]
    for value, wanted in zip(values, [tokens, picked, *gradients], strict=True):
      assert_close(value.numpy(), wanted.numpy())


def test_local_layers_have_no_square_tensor():
  length = 8192
  config = config_of(
    num_hidden_layers=2,
    layer_types=[modernbert.LOCAL] * 2,
    max_position_embeddings=length,
    local_attention=128,
  )
  bert = registry.make_encoder(config)

  @tf.function(autograph=False)
  def gradients(ids, mask):
    with tf.GradientTape() as tape:
      loss = tf.reduce_sum(bert(ids, mask, training=True).sequence_output)
    return [
      tf.convert_to_tensor(each)
      for each in tape.gradient(loss, bert.trainable_variables[:-2])
    ]

  spec = tf.TensorSpec([1, length], tf.int32)
  graph = gradients.get_concrete_function(spec, spec).graph
  sizes = [
    output.shape.num_elements() or 0
    for operation in graph.get_operations()
    for output in operation.outputs
    if output.shape.rank
  ]
  # Scores: 4 heads, and 192 keys for each query.
  assert max(sizes) == 4 * length * 192


@pytest.mark.slow
@pytest.mark.parametrize("name", ["every_third", "local_first"])
def test_8192_tokens_equal_transformers(name):
  model = Model(name)
  ids = np.random.RandomState(1).randint(3, 40, [1, 8192])
  states = model.bert(tf.constant(ids)).sequence_output
  assert_close(states[0, ::511].numpy(), OUTPUTS[f"{name}/long/states"])


_PEAK = """
import resource, sys
sys.path[:0] = [".", "tests"]
import tensorflow as tf
import test_variants_modernbert as tests
config = tests.config_of(
  hidden_size=64, num_attention_heads=8, max_position_embeddings=8192,
  layer_types=["sliding_attention"] * 4, local_attention=128)
bert = tests.registry.make_encoder(config)
run = tf.function(lambda ids: bert(ids).sequence_output, autograph=False)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
run(tf.zeros([1, 64], tf.int32))
before = peak()
run(tf.zeros([1, 8192], tf.int32))
print((peak() - before) // 1024)
"""


@pytest.mark.slow
def test_memory_of_local_layers_at_8192_tokens():
  done = subprocess.run(
    [sys.executable, "-c", _PEAK], capture_output=True, text=True, check=True
  )
  # One [N, T, T] matrix of 8 heads would take 2,048 MB.
  assert int(done.stdout.split()[-1]) < 500


# Files.

CLASSES = sorted(path.name for path in GOLDEN.glob("ModernBert*"))


@pytest.mark.parametrize("name", [*NAMES, *CLASSES])
def test_files_are_read_and_written_bit_for_bit(name, tmp_path):
  source = converter.open_source(str(GOLDEN / name))
  converter.convert(source, str(tmp_path / "tf1"), "tf1")
  back = converter.open_source(str(tmp_path / "tf1"))
  architecture = name if name in CLASSES else "ModernBertForMaskedLM"
  if name == "ModernBertForTokenClassification":
    back = source
  converter.convert(
    back, str(tmp_path / "hf"), "huggingface", architecture=architecture
  )
  read = transformers_goldens.tensors_of
  transformers_goldens.check_equal(read(tmp_path / "hf"), read(GOLDEN / name))
  values = json.loads((tmp_path / "hf" / "config.json").read_text())
  expected = json.loads((GOLDEN / name / "config.json").read_text())
  # What these keys say is not stored: transformers' other programs, defaults.
  unread = "dtype transformers_version deterministic_flash_attn".split()
  unread += "sparse_pred_ignore_index sparse_prediction".split()
  unread += "decoder_bias tie_word_embeddings".split()
  if name == "biases":  # Two names of one function.
    expected["hidden_activation"] = "gelu_new"
  assert values == {k: v for k, v in expected.items() if k not in unread}


def test_names_without_a_configuration(tmp_path):
  path = tmp_path / "model.safetensors"
  source = GOLDEN / "every_third" / "model.safetensors"
  path.write_bytes(source.read_bytes())
  shapes = weight_files.open_reader(str(path)).shapes
  assert shapes == Model("every_third").reader.shapes


def test_older_keys_mean_the_same():
  new = {
    "model_type": "modernbert",
    "num_hidden_layers": 3,
    "layer_types": [modernbert.GLOBAL, modernbert.LOCAL, modernbert.GLOBAL],
    "rope_parameters": {
      modernbert.GLOBAL: {"rope_type": "default", "rope_theta": 300.0},
      modernbert.LOCAL: {"rope_type": "default", "rope_theta": 20.0},
    },
  }
  old = {
    "model_type": "modernbert",
    "num_hidden_layers": 3,
    "global_attn_every_n_layers": 2,
    "global_rope_theta": 300.0,
    "local_rope_theta": 20.0,
    # mmBERT has this value; transformers does not read the key.
    "position_embedding_type": "sans_pos",
  }
  configs = [modeling.BertConfig.from_dict(values) for values in (new, old)]
  types = [modernbert.layer_types(config) for config in configs]
  assert types[0] == types[1] == new["layer_types"]
  for kind in (modernbert.GLOBAL, modernbert.LOCAL):
    first, second = (modernbert.inverse_frequencies(c, kind) for c in configs)
    np.testing.assert_array_equal(first, second)
  back = configuration.to_huggingface(configs[1].to_dict(), "ModernBertModel")
  del old["position_embedding_type"]
  assert back.items() >= old.items()


@pytest.mark.parametrize(
  "key, value, message",
  [
    ("decoder_bias", False, "decoder_bias is False, which is not supported"),
    ("rope_scaling", {"factor": 2}, "rope_scaling is .* not supported"),
    ("head_dim", 32, "head_dim is 32, which is not supported"),
    ("is_decoder", True, "is_decoder is True"),
    ("layer_types", ["full_attention"], "layer_types is .* 4 entries"),
    ("layer_types", ["chunked"] * 4, "layer_types is .* 'full_attention'"),
    ("global_attn_every_n_layers", 0, "every_n_layers is 0 .* 1 or more"),
    ("local_attention", -2, "local_attention is -2 .* 0 or more"),
    ("local_attention", True, "local_attention is True"),
    ("global_rope_theta", 0, "global_rope_theta is 0 .* above 0"),
    ("rope_parameters", {"rope_theta": 1.0}, "rope_parameters is .* keys"),
    (
      "rope_parameters",
      {"full_attention": {"rope_type": "yarn", "rope_theta": 9.0}},
      "rope_parameters is .*yarn.* without scaling",
    ),
    ("classifier_pooling", "max", "classifier_pooling is 'max' .* 'mean'"),
    ("classifier_activation", "mish", "unknown activation 'mish'"),
    ("hidden_activation", "mish", "unknown activation 'mish'"),
    ("norm_bias", "yes", "norm_bias is 'yes'"),
    ("norm_bias", 1, "norm_bias is 1"),
    (
      "rope_parameters",
      {"sliding_attention": {"rope_theta": "x"}},
      "local_rope_theta is 'x' .* above 0",
    ),
    (
      "rope_parameters",
      {"full_attention": {"rope_theta": True}},
      "global_rope_theta is True .* above 0",
    ),
    ("mlp_dropout", 1, "mlp_dropout is 1"),
    ("num_attention_heads", 16, "is odd; rotations need an even width"),
  ],
)
def test_keys_are_honoured_or_refused(key, value, message):
  values = {
    "model_type": "modernbert",
    "vocab_size": 9,
    "hidden_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "mlp_dropout": 0.0,
    key: value,
  }
  with pytest.raises(errors.InputError, match=message):
    registry.make_encoder(modeling.BertConfig.from_dict(values))


def test_missing_keys_have_the_defaults_of_transformers():
  config = modeling.BertConfig.from_dict(
    {"variant": "modernbert", "vocab_size": 9}
  )
  assert {
    key: modernbert.value_of(config, key) for key in modernbert._KEYS
  } == {
    "attention_bias": False,
    "mlp_bias": False,
    "norm_bias": False,
    "classifier_bias": False,
    "mlp_dropout": 0.0,
    "classifier_activation": "gelu_erf",
    "classifier_pooling": "cls",
    "local_attention": 128,
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160_000.0,
    "local_rope_theta": 10_000.0,
    "layer_types": None,
    "rope_parameters": None,
  }


def test_the_smallest_values_of_keys_are_allowed():
  config = config_of(
    global_attn_every_n_layers=1,
    local_attention=0,
    rope_parameters={modernbert.GLOBAL: None},
    global_rope_theta=0.5,
  )
  assert modernbert.layer_types(config) == [modernbert.GLOBAL] * 4
  assert modernbert.half_window(config) == 0
  first, second = modernbert.inverse_frequencies(config, modernbert.GLOBAL)
  assert first == 1 and second == pytest.approx(2**0.5)


def test_ends_of_branches_begin_with_smaller_weights():
  """As in transformers, by 1 / sqrt(2 L); L is 4 here."""
  bert = registry.make_encoder(config_of(hidden_size=64, intermediate_size=64))
  ends = {"attention/output/dense", "output/dense", "head/dense"}
  deviations = {
    name: np.std(variable.numpy()) / bert.config.initializer_range
    for variable in bert.variables
    if (name := variable.name.partition(":")[0]).endswith("kernel")
  }
  plain = np.mean(
    [v for n, v in deviations.items() if n.endswith("qkv/kernel")]
  )
  for name, deviation in deviations.items():
    is_end = any(name.endswith(f"{end}/kernel") for end in ends)
    expected = plain / np.sqrt(8) if is_end else plain
    assert deviation == pytest.approx(expected, rel=0.1), name


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_without_a_mask_every_token_counts(pooling):
  bert = random_model(config_of(classifier_pooling=pooling))
  ids, *_ = tiny_model.batch(2, 20)
  found, expected = bert(ids), bert(ids, tf.ones_like(ids))
  assert_close(found.sequence_output.numpy(), expected.sequence_output.numpy())
  assert_close(found.pooled_output.numpy(), expected.pooled_output.numpy())


def test_the_mean_is_over_the_tokens():
  bert = registry.make_encoder(config_of(classifier_pooling="mean"))
  states = tf.reshape(tf.range(3 * 2 * 4, dtype=tf.float32), [3, 2, 4])
  mask = tf.constant([[1, 1], [1, 0], [0, 0]])
  found = bert.pooled_states(states, mask).numpy()
  expected = [[2, 3, 4, 5], [8, 9, 10, 11], [0] * 4]
  np.testing.assert_array_equal(found, expected)


def test_more_positions_need_no_new_weights(tmp_path):
  source = converter.open_source(str(GOLDEN / "every_third"))
  grown, _ = growth.grow(source, str(tmp_path), max_position_embeddings=9000)
  assert grown.config.max_position_embeddings == 9000
  assert grown.reader.shapes == source.reader.shapes


def test_what_does_not_fit_the_network_is_refused():
  source = converter.open_source(str(GOLDEN / "every_third"))
  with pytest.raises(errors.InputError, match="--keep_layers: a layer of mod"):
    layer_choice.keep(source, ["0", "2"])
  settings = run_settings.Settings(
    {
      "network": "token_dropping",
      "kept_tokens": 0.5,
      "objectives": ["masked_lm"],
    }
  )
  with pytest.raises(errors.InputError, match="--network=token_dropping does"):
    token_dropping.check(source.config, settings)
  with pytest.raises(errors.InputError, match="no next-sentence head"):
    registry.check_next_sentence(source.config, True)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_a_classifier_reads_the_pooled_states(pooling):
  config = config_of(classifier_pooling=pooling)
  model = classification_model.ClassifierModel(config, "single", 3, seed=1)
  make_random(model.variables)
  ids, mask, segments = tiny_model.batch(3, 20)
  batch = {"input_ids": ids, "input_mask": mask, "segment_ids": segments}
  expected = model.head(model.bert.encode(batch).pooled_output)
  windows = {name: value[:, tf.newaxis] for name, value in batch.items()}
  assert_close(model(windows).numpy(), expected.numpy())


def test_a_head_has_the_dropout_of_its_configuration():
  x = tf.ones([4, 16])
  for rate, is_equal in ((0.0, True), (0.5, False)):
    head = heads.ClassificationHead(config_of(head_dropout=rate), 3)
    dropped = head(x, True, dropout_seed=[1, 2])
    assert np.array_equal(dropped, head(x)) == is_equal
