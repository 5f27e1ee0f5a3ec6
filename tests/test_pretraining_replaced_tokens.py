"""Tests ELECTRA's pre-training against its authors' program and NumPy."""

import copy
import json
import re

import numpy as np
import pytest
import tensorflow as tf

import modeling
import named_weights
import test_variants_electra
import tiny_model
from checkpoints import weight_files
from common import errors, run_settings
from pretraining.networks import replaced_tokens
from test_pretraining_objectives import mean_losses, softmax
from test_variants_electra import DISCRIMINATOR, ORIGINAL, sigmoid
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
  reader = weight_files.open_reader(str(ORIGINAL))
  generator = test_variants_electra.config_of(
    hidden_size=4,
    num_attention_heads=1,
    intermediate_size=reader.shapes[
      "generator/encoder/layer_0/intermediate/dense/bias"
    ][0],
    hidden_act="gelu_erf",
  )
  model = replaced_tokens.ReplacedTokensModel(DISCRIMINATOR, generator, seed=1)
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
  tiny_model.assert_close(found.masked_lm, expected["mlm_logits"])
  np.testing.assert_array_equal(found.is_replaced, expected["is_fake"])
  tiny_model.assert_close(
    sigmoid(found.logits.numpy())[is_token], expected["disc_probs"][is_token]
  )
  losses, means = mean_losses(model, batch)
  total = sum(losses.values())
  assert total == pytest.approx(expected["total_loss"], rel=1e-5)
  assert {"loss", *means} == set(model.result_names())
  for name, value in means.items():
    # The authors' disc_loss is a mean of the sequences' means.
    key = "disc_loss" if name == "disc_loss" else f"metric/{name}"
    assert value == pytest.approx(float(expected[key]), rel=1e-5), name
  assert 0 < means["disc_recall"] < means["disc_precision"] < 1


def test_both_losses_are_numpys():
  model = make_model()
  found = model.run(BATCH, [1, 2])
  words, tokens = [], []
  for row in range(3):
    changed = set()
    for number in range(2):
      if BATCH["masked_lm_weights"][row, number]:
        label = int(BATCH["masked_lm_ids"][row, number])
        logits = found.masked_lm[row, number].numpy()
        words.append(-np.log(softmax(logits)[label]))
        if int(found.drawn[row, number]) != label:
          changed.add(int(BATCH["masked_lm_positions"][row, number]))
    for position in range(8):
      if BATCH["input_mask"][row, position]:
        p = sigmoid(float(found.logits[row, position]))
        tokens.append(-np.log(p if position in changed else 1 - p))
  losses, _ = mean_losses(model, BATCH, [1, 2])
  assert losses == {
    "masked_lm": pytest.approx(np.mean(words), rel=1e-5),
    "replaced_tokens": pytest.approx(50 * np.mean(tokens), rel=1e-5),
  }


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
  seeds = (None, None, [1, 2], [1, 2], [1, 3], [1, 4])
  draws = [model.run(BATCH, seed).drawn.numpy() for seed in seeds]
  assert (draws[0] == draws[1]).all() and (draws[2] == draws[3]).all()
  assert len({row.tobytes() for row in draws}) == 4


def test_the_generator_learns_from_its_own_loss_alone():
  model = make_model()
  trained = model.trained_variables()
  names = [named_weights.variable_name(v) for v in trained]
  with tf.GradientTape(persistent=True) as tape:
    losses, _ = model.objective().sums(BATCH, [1, 2])
  reached = {
    name: {
      n for n, g in zip(names, tape.gradient(loss, trained)) if g is not None
    }
    for name, loss in losses.items()
  }
  shared = {n for n in names if n.startswith("bert/embeddings/")}
  generator = {n for n in names if n.startswith("generator")}
  assert len(shared) == 5
  assert "generator/encoder/layer_1/output/dense/bias" in generator
  assert "generator_predictions/output_bias" in generator
  assert reached["masked_lm"] == shared | generator
  assert reached["replaced_tokens"] == set(names) - generator
  assert not [n for n in names if "pooler" in n]


def test_both_models_are_parts():
  model = make_model()
  (_, own, config), (folder, generator, smaller) = model.parts()
  assert folder == "generator" and config is CONFIG
  assert {*registry.shapes(config)} < {*own}
  missing = {*registry.shapes(smaller)} - {*generator}
  assert missing == {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}
  table = "bert/embeddings/word_embeddings"
  assert own[table] is generator[table]
  assert "cls/predictions/transform/dense/kernel" in generator
  assert "cls/predictions/output_bias" in generator
  for name, shape in registry.shapes(smaller).items():
    assert name in missing or tuple(generator[name].shape) == shape


@pytest.mark.parametrize(
  "sizes, expected",
  [
    ((256, 4, 1024), (64, 1, 256)),
    ((768, 12, 3072), (192, 3, 768)),
    ((1024, 16, 4096), (256, 4, 1024)),
    ((16, 2, 24), (8, 1, 12)),
    ((896, 14, 3584), (192, 3, 768)),
  ],
)
def test_a_generator_is_a_quarter(sizes, expected):
  names = "hidden_size", "num_attention_heads", "intermediate_size"
  config = test_variants_electra.config_of(**dict(zip(names, sizes)))
  found = replaced_tokens.generator_config(config)
  assert tuple(getattr(found, name) for name in names) == expected
  assert found.num_hidden_layers == config.num_hidden_layers
  assert found.embedding_size == config.embedding_size
  # The model's own configuration stays.
  assert tuple(getattr(config, name) for name in names) == sizes


def test_a_generator_that_does_not_fit_is_named(tmp_path):
  path = tmp_path / "generator.json"

  def found(**changes):
    path.write_text(json.dumps({**CONFIG.to_dict(), **changes}))
    return replaced_tokens.generator_config(CONFIG, str(path))

  assert found(num_hidden_layers=1).num_hidden_layers == 1
  with pytest.raises(errors.InputError) as caught:
    found(vocab_size=31, embedding_size=7)
  sizes = "vocab_size 31 (not 30), embedding_size 7 (not 6)"
  assert sizes in str(caught.value)
  for name in ("max_position_embeddings", "type_vocab_size"):
    own = getattr(CONFIG, name)
    with pytest.raises(errors.InputError, match=rf"{name} 1 \(not {own}\)"):
      found(**{name: 1})
  with pytest.raises(errors.InputError, match="has variant albert "):
    found(variant="albert", num_hidden_groups=1)


@pytest.mark.parametrize(
  "config, changes, reason",
  [
    (
      modeling.BertConfig.from_dict(tiny_model.TINY),
      {},
      '"variant": "electra"',
    ),
    (CONFIG, {"use_next_sentence_loss": True}, "no next-sentence head"),
    (CONFIG, {"max_predictions_per_seq": 0}, "no word to replace"),
    (CONFIG, {"generator_config_file": "/none.json"}, "no such file"),
  ],
)
def test_a_run_that_cannot_work_is_refused(config, changes, reason):
  given = {"use_next_sentence_loss"}
  settings = run_settings.Settings(
    {
      "network": "replaced_tokens",
      "use_next_sentence_loss": False,
      "max_predictions_per_seq": 5,
      "generator_config_file": None,
      **changes,
    },
    given,
  )
  with pytest.raises(errors.InputError, match=reason):
    replaced_tokens.check(config, settings)


def test_a_configuration_that_is_wrong_has_no_generator():
  config = copy.copy(CONFIG)
  config.num_attention_heads = 3
  with pytest.raises(errors.InputError, match="num_attention_heads 3"):
    replaced_tokens.generator_config(config)


def test_what_must_not_change_in_a_run(tmp_path):
  """A generator's file may move, but its contents count."""
  path = tmp_path / "generator.json"
  path.write_text(CONFIG.to_json_string())
  settings = {"network": "replaced_tokens", "generator_config_file": None}
  fixed = replaced_tokens.fixed(run_settings.Settings(settings))
  assert fixed == {"network": "replaced_tokens"}
  settings["generator_config_file"] = str(path)
  fixed = replaced_tokens.fixed(run_settings.Settings(settings))
  assert fixed == {
    "network": "replaced_tokens",
    "generator_config_file": CONFIG.to_dict(),
  }


def test_the_start_weights_may_be_a_discriminators():
  model = make_model()
  patterns = model.new_variables()
  names = {named_weights.variable_name(v) for v in model.variables}
  new = {n for n in names if any(re.search(p, n) for p in patterns)}
  _, own, _ = next(model.parts())
  assert names - new == {*registry.shapes(CONFIG)} - set(
    n for n in own if "pooler" in n
  )
  assert model.token_labels()[0] == "masked_lm"


def test_a_batch_without_a_masked_word_has_a_loss():
  model = make_model()
  losses, _ = mean_losses(
    model, {**BATCH, "masked_lm_weights": tf.zeros([3, 2])}
  )
  assert losses["masked_lm"] == 0.0 and np.isfinite(list(losses.values())).all()
