"""Tests the network that drops tokens against a plain loop over layers."""

import numpy as np
import pytest
import tensorflow as tf

import modeling
import tiny_model
from common import errors, run_settings
from pretraining.networks import encoder, token_dropping

CONFIG = tiny_model.tiny(
  num_hidden_layers=4, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
)
BATCH = tiny_model.pretraining_batch(
  [[1, 3], [2, 0], [1, 4]], [[1, 1], [1, 0], [1, 1]]
)
SEED = tf.constant([1, 2])


def make_model(kept=0.5, skip_padding=False):
  names = ["masked_lm", "next_sentence"]
  model = token_dropping.TokenDroppingModel(
    CONFIG, names, seed=1, skip_padding=skip_padding
  )
  model.kept_tokens = kept
  return model


def test_all_tokens_give_the_plain_encoder():
  model = make_model(kept=1.0)
  plain = encoder.PretrainingModel(CONFIG, seed=1)
  expected = plain(BATCH, SEED)
  for name, logits in model(BATCH, SEED).items():
    tiny_model.assert_close(logits, expected[name])
  # An evaluation drops nothing.
  model.kept_tokens = 0.25
  evaluated, expected = model(BATCH), plain(BATCH)
  for name, logits in evaluated.items():
    np.testing.assert_array_equal(logits, expected[name])
  assert [v.name for v in model.variables] == [v.name for v in plain.variables]


def run_layers(bert, states, mask, numbers):
  """Returns the states after some layers, of a whole sequence."""
  for number in numbers:
    (states,) = bert._run_layer(
      tf.reshape(states, [-1, CONFIG.hidden_size]),
      bert._layer_weights(number),
      rows=modeling.unpadding.PaddedRows(1, states.shape[1]),
      bias=bert._attention_bias(mask, mask),
      positions=None,
      dropout={s: modeling.layers.Dropout() for s in modeling.LAYER_SITES},
      return_attention=False,
    )
    states = states[tf.newaxis]
  return states


@pytest.mark.parametrize("skip_padding", [False, True])
def test_middle_layers_see_only_kept_tokens(skip_padding):
  model = make_model(skip_padding=skip_padding)
  bert = model.bert
  kept = tf.constant([[0, 1, 3, 6], [0, 2, 4, 5], [0, 1, 4, 5]])
  positions = tf.constant([[0, 2, 3], [0, 1, 2], [0, 3, 4]])
  output = bert.encode(
    {**BATCH, "kept_positions": kept}, SEED, positions=positions
  )
  plain = modeling.BertModel(CONFIG, seed=1)
  whole = plain.encode(BATCH, None)
  for row in range(3):
    mask = BATCH["input_mask"][row : row + 1]
    embedded = whole.embedding_output[row : row + 1]
    states = run_layers(plain, embedded, mask, [0])
    chosen = kept[row]
    middle = run_layers(
      plain,
      tf.gather(states, chosen, axis=1),
      tf.gather(mask, chosen, axis=1),
      [1, 2],
    )
    merged = states.numpy()
    merged[:, chosen.numpy()] = middle.numpy()
    last = run_layers(plain, tf.constant(merged), mask, [3]).numpy()[0]
    # States of padding have no meaning.
    real = [n for n, p in enumerate(positions[row]) if mask[0, p]]
    tiny_model.assert_close(
      output.sequence_output.numpy()[row, real],
      last[positions.numpy()[row, real]],
    )


def test_rare_and_masked_tokens_are_kept():
  model = make_model()
  (bias,) = model.objectives[0].weights_below("cls/predictions/o").values()
  bias.assign(tf.range(30, dtype=tf.float32))  # Large ids are frequent.
  importance = model._importance(BATCH, SEED)
  kept = token_dropping.kept_positions(importance, BATCH["input_mask"], 0.5)
  for row in range(3):
    ids = BATCH["input_ids"].numpy()[row]
    used = int(BATCH["input_mask"].numpy()[row].sum())
    always = {0, *BATCH["masked_lm_positions"].numpy()[row].tolist()}
    others = sorted(set(range(used)) - always, key=lambda p: ids[p])
    expected = sorted([*always, *others][:4])
    assert kept.numpy()[row].tolist() == expected


@pytest.mark.parametrize(
  "changes, reason",
  [
    ({"kept_tokens": 0.0}, "kept_tokens=0.0: expected"),
    ({"kept_tokens": 1.5}, "kept_tokens=1.5: expected"),
    ({"objectives": ("next_sentence",)}, "needs masked_lm"),
    ({}, "has 2 layers"),
    ({"variant": "distilbert"}, "no next-sentence head"),
    ({"variant": "modernbert"}, "attend only to near tokens"),
  ],
)
def test_a_run_that_cannot_work_is_refused(changes, reason):
  config = CONFIG if changes else tiny_model.tiny()
  settings = {**changes}
  if variant := settings.pop("variant", None):
    config = tiny_model.tiny(num_hidden_layers=4)
    config.variant = variant
    settings["use_next_sentence_loss"] = variant == "distilbert"
  with pytest.raises(errors.InputError, match=reason):
    token_dropping.check(config, settings_of(**settings))


def settings_of(**changes):
  return run_settings.Settings(
    {
      "network": "token_dropping",
      "objectives": None,
      "use_next_sentence_loss": True,
      "kept_tokens": 0.5,
      **changes,
    }
  )


@pytest.mark.parametrize("layers, kept", [(3, 0.5), (4, 1.0), (12, 0.01)])
def test_the_limits_themselves_are_accepted(layers, kept):
  config = tiny_model.tiny(num_hidden_layers=layers)
  token_dropping.check(config, settings_of(kept_tokens=kept))


def test_the_first_half_of_the_layers_but_one_compute_all_tokens():
  first = [token_dropping._first_dropping(n) for n in (3, 4, 5, 6, 12, 24)]
  assert first == [1, 1, 1, 2, 5, 11]


@pytest.mark.parametrize("is_fixed", [True, False])
def test_the_number_of_kept_tokens_is_rounded_up(is_fixed):
  """Also where the length is known only while the graph runs."""

  def kept(importance, mask):
    return token_dropping.kept_positions(importance, mask, 0.5)

  shape = [1, 5] if is_fixed else [1, None]
  spec = [tf.TensorSpec(shape, dtype) for dtype in (tf.float32, tf.int32)]
  importance = tf.constant([[1.0, 5.0, 2.0, 4.0, 9.0]])
  mask = tf.constant([[1, 1, 1, 1, 0]])
  found = tf.function(kept, input_signature=spec)(importance, mask)
  # Padding comes last, however important.
  assert found.numpy().tolist() == [[1, 2, 3]]


def test_the_networks_options_reach_the_model():
  model = token_dropping.make(CONFIG, settings_of(kept_tokens=0.25), seed=1)
  assert model.kept_tokens == 0.25
  assert [each.name for each in model.objectives] == list(encoder._DEFAULT)
