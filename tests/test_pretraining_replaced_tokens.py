"""Replaced-token detection against the authors' code and against NumPy."""

import json

import numpy as np
import pytest
import tensorflow as tf

import layers
import modeling
import test_variants_electra
import tiny_model
from checkpoints import weight_files
from common import errors
from pretraining import replaced_tokens
from test_training_distillation import softmax
from test_variants_electra import DISCRIMINATOR, GENERATOR, ORIGINAL, sigmoid
from variants import registry

CONFIG = test_variants_electra.config_of(
  hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
)
BATCH = tiny_model.pretraining_batch(
  [[1, 3], [2, 0], [1, 4]], [[1, 1], [1, 0], [1, 1]]
)


def make_model(config=CONFIG):
  generator = replaced_tokens.generator_config(config)
  return replaced_tokens.ReplacedTokensModel(config, generator, seed=1)


def test_losses_and_metrics_are_those_of_the_authors(monkeypatch):
  expected = np.load(ORIGINAL / "outputs.npz")
  model = replaced_tokens.ReplacedTokensModel(DISCRIMINATOR, GENERATOR, seed=1)
  report = weight_files.load(
    model.variables, str(ORIGINAL), allowed_missing=model.unused_variables()
  )
  assert not report.unused
  names = "masked_lm_positions", "masked_lm_ids", "masked_lm_weights"
  batch = {
    name: tf.constant(expected[name])
    for name in (*names, "input_mask", "segment_ids")
  }
  batch["input_ids"] = tf.constant(expected["masked_input_ids"])
  drawn = tf.constant(expected["sampled_ids"])
  monkeypatch.setattr(replaced_tokens, "draw", lambda logits, seed: drawn)
  found = model.run(batch)
  is_token = expected["input_mask"] > 0
  np.testing.assert_allclose(
    found.masked_lm, expected["mlm_logits"], atol=1e-5
  )
  np.testing.assert_array_equal(found.is_replaced, expected["is_fake"])
  np.testing.assert_allclose(
    sigmoid(found.logits.numpy())[is_token], expected["disc_probs"][is_token],
    atol=1e-5,
  )
  goal = model.objective()
  weights, (losses, metrics) = goal.weights(batch), goal.sums(batch, None)
  total = sum(float(losses[name] / weights[name]) for name in losses)
  assert total == pytest.approx(expected["total_loss"], rel=1e-5)
  means = {name: float(s / w) for name, (s, w) in metrics.items()}
  assert {"loss", *means} == set(model.result_names())
  for name, value in means.items():
    # Theirs is the mean of the sequences' means.
    key = "disc_loss" if name == "disc_loss" else f"metric/{name}"
    assert value == pytest.approx(float(expected[key]), rel=1e-5), name
  assert 0 < means["disc_recall"] < means["disc_precision"] < 1


def test_both_losses_are_numpys():
  model = make_model()
  found = model.run(BATCH, [1, 2])
  words, tokens = [], []
  for row in range(3):
    text = BATCH["input_ids"].numpy()[row]
    changed = set()
    for place, label, drawn, weight, logits in zip(*(
      np.asarray(values)[row] for values in (
        BATCH["masked_lm_positions"], BATCH["masked_lm_ids"], found.drawn,
        BATCH["masked_lm_weights"], found.masked_lm,
      )
    )):
      if weight:
        words.append(-np.log(softmax(logits)[label]))
        if drawn != label:
          changed.add(place)
    for place in range(len(text)):
      if BATCH["input_mask"][row, place]:
        p = sigmoid(float(found.logits[row, place]))
        tokens.append(-np.log(p if place in changed else 1 - p))
  goal = model.objective()
  weights, (losses, _) = goal.weights(BATCH), goal.sums(BATCH, [1, 2])
  means = {name: float(losses[name] / weights[name]) for name in losses}
  assert means == {
    "masked_lm": pytest.approx(np.mean(words), rel=1e-5),
    "replaced_tokens": pytest.approx(50 * np.mean(tokens), rel=1e-5),
  }


def test_the_discriminator_reads_the_text_with_the_drawn_words(monkeypatch):
  model, read = make_model(), []
  encode = model.bert.encode
  monkeypatch.setattr(
    model.bert, "encode",
    lambda batch, seed: read.append(batch) or encode(batch, seed),
  )
  found = model.run(BATCH, [1, 2])
  expected, labels = BATCH["input_ids"].numpy().copy(), np.zeros([3, 8])
  for row, number in ((0, 0), (0, 1), (1, 0), (2, 0), (2, 1)):
    place = BATCH["masked_lm_positions"][row, number].numpy()
    expected[row, place] = found.drawn[row, number]
    label = int(BATCH["masked_lm_ids"][row, number])
    labels[row, place] = int(found.drawn[row, number]) != label
  np.testing.assert_array_equal(read[0]["input_ids"], expected)
  np.testing.assert_array_equal(found.is_replaced, labels)


def test_words_are_drawn_from_the_softmax_by_the_seed():
  logits = np.random.RandomState(0).normal(0, 1.5, [5]).astype(np.float32)
  many = tf.tile(logits[tf.newaxis, tf.newaxis], [100, 200, 1])
  drawn = replaced_tokens.draw(many, [1, 2]).numpy()
  shares = np.bincount(drawn.ravel(), minlength=5) / drawn.size
  # Four standard deviations.
  np.testing.assert_allclose(shares, softmax(logits), atol=0.014)
  again, other = (replaced_tokens.draw(many, [1, n]).numpy() for n in (2, 3))
  np.testing.assert_array_equal(again, drawn)
  assert (other != drawn).mean() > 0.3


def test_an_evaluation_repeats_itself_and_a_step_does_not():
  model = make_model()
  model.masked_lm.variables[0].assign_add(tf.ones([4, 6]))
  draws = [model.run(BATCH, seed).drawn.numpy() for seed in (
    None, None, [1, 2], [1, 2], [1, 3], [1, 4]
  )]
  assert (draws[0] == draws[1]).all() and (draws[2] == draws[3]).all()
  assert len({row.tobytes() for row in draws}) == 4


def test_the_generator_learns_from_its_own_loss_alone():
  model = make_model()
  trained = model.trained_variables()
  names = [layers.variable_name(v) for v in trained]
  with tf.GradientTape(persistent=True) as tape:
    losses, _ = model.objective().sums(BATCH, [1, 2])
  reached = {
    name: {n for n, g in zip(names, tape.gradient(loss, trained)) if
           g is not None}
    for name, loss in losses.items()
  }
  shared = {n for n in names if n.startswith("bert/embeddings/")}
  of_generator = {n for n in names if n.startswith("generator/")}
  assert len(shared) == 5 and "generator/encoder/layer_1/output/dense/bias" in (
    of_generator
  )
  assert reached["masked_lm"] == shared | of_generator
  assert reached["replaced_tokens"] == set(names) - of_generator
  assert not [n for n in names if "pooler" in n]


def test_both_models_are_written_as_ones_of_their_own():
  model = make_model()
  (_, own, config), (folder, of_generator, generator) = model.parts()
  assert folder == "generator" and config is CONFIG
  assert {*registry.shapes(config)} < {*own}
  missing = {*registry.shapes(generator)} - {*of_generator}
  assert missing == {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}
  table = "bert/embeddings/word_embeddings"
  assert own[table] is of_generator[table]
  for name, shape in registry.shapes(generator).items():
    assert name in missing or tuple(of_generator[name].shape) == shape


@pytest.mark.parametrize("sizes, expected", [
  ((256, 4, 1024), (64, 1, 256)), ((768, 12, 3072), (192, 3, 768)),
  ((1024, 16, 4096), (256, 4, 1024)), ((16, 2, 24), (8, 1, 12)),
  ((896, 14, 3584), (192, 3, 768)),
])
def test_a_generator_is_a_quarter(sizes, expected):
  names = "hidden_size", "num_attention_heads", "intermediate_size"
  config = test_variants_electra.config_of(**dict(zip(names, sizes)))
  found = replaced_tokens.generator_config(config)
  assert tuple(getattr(found, name) for name in names) == expected
  assert found.num_hidden_layers == config.num_hidden_layers
  assert found.embedding_size == config.embedding_size


def test_a_generator_that_does_not_fit_is_named(tmp_path):
  path = tmp_path / "generator.json"

  def found(**changes):
    path.write_text(json.dumps({**CONFIG.to_dict(), **changes}))
    return replaced_tokens.generator_config(CONFIG, str(path))

  assert found(num_hidden_layers=1).num_hidden_layers == 1
  with pytest.raises(errors.InputError) as caught:
    found(vocab_size=31, embedding_size=7)
  assert "vocab_size 31 (and not 30), embedding_size 7 (and not 6)" in str(
    caught.value
  )
  with pytest.raises(errors.InputError, match="has variant albert: a gener"):
    found(variant="albert", num_hidden_groups=1)
  with pytest.raises(errors.InputError, match='is of bert: add "variant": "e'):
    replaced_tokens.generator_config(modeling.BertConfig.from_dict(
      tiny_model.TINY
    ))


def batch_of(ids):
  ids = tf.constant(ids)
  places = tf.constant([[1]] * ids.shape[0])
  return {
    "input_ids": ids, "input_mask": tf.ones_like(ids),
    "segment_ids": tf.zeros_like(ids), "masked_lm_positions": places,
    "masked_lm_ids": tf.ones_like(places),
    "masked_lm_weights": tf.ones(places.shape),
  }


def test_the_two_encoders_drop_units_of_their_own(monkeypatch):
  model, seeds = make_model(), {}
  for name in ("generator", "bert"):
    encoder = getattr(model, name)

    def encode(batch, seed, *, encoder=encoder, name=name, **options):
      seeds[name] = None if seed is None else tuple(seed.numpy())
      return type(encoder).encode(encoder, batch, seed, **options)

    monkeypatch.setattr(encoder, "encode", encode)
  draw = replaced_tokens.draw

  def draw_with(logits, seed):
    seeds["draw"] = tuple(seed.numpy())
    return draw(logits, seed)

  monkeypatch.setattr(replaced_tokens, "draw", draw_with)
  model.run(batch_of([[2, 4, 6, 3]]), tf.constant([5, 7]))
  assert len(set(seeds.values())) == 3
  # An evaluation drops nothing and draws by the batch.
  drawn = []
  for ids in ([[2, 4, 6, 3]], [[2, 4, 7, 3]], [[2, 4, 6, 3]]):
    model.run(batch_of(ids), None)
    drawn.append(seeds["draw"])
    assert seeds["generator"] is seeds["bert"] is None
  assert drawn[0] == drawn[2] != drawn[1]


def test_a_batch_without_a_masked_word_has_a_loss():
  model = make_model()
  batch = batch_of([[2, 4, 6, 3]])
  batch["masked_lm_weights"] = tf.zeros([1, 1])
  goal = model.objective()
  weights, (losses, _) = goal.weights(batch), goal.sums(batch, None)
  values = {name: float(losses[name] / weights[name]) for name in losses}
  assert values["masked_lm"] == 0.0 and np.isfinite(list(values.values())).all()
