"""Tests what networks take from the flags, and which settings are fixed."""

import re

import numpy as np
import pytest
import tensorflow as tf

import modeling
import tiny_model
from common import errors, run_settings
from pretraining import networks
from pretraining.networks import encoder, next_word

SETTINGS = {
  "objectives": None,
  "use_next_sentence_loss": True,
  "teacher_checkpoint": "teacher",
  "distillation_temperature": 2.0,
  "distillation_weights": ["5", "2", "1"],
}
NEXT = {"next_sentence_labels": (1, 2)}


def settings_of(**changes):
  return run_settings.Settings({**SETTINGS, **changes})


@pytest.mark.parametrize(
  "changes, names, labels, fixed",
  [
    ({}, ["masked_lm", "next_sentence"], NEXT, {}),
    ({"use_next_sentence_loss": False}, ["masked_lm"], {}, {}),
    # The other flag says nothing if the objectives are named.
    (
      {"objectives": ["next_sentence", "masked_lm"]},
      ["next_sentence", "masked_lm"],
      NEXT,
      {"objectives": ["next_sentence", "masked_lm"]},
    ),
    (
      {"objectives": ["distillation"]},
      ["distillation"],
      {},
      {
        "objectives": ["distillation"],
        "teacher_checkpoint": "teacher",
        "distillation_temperature": 2.0,
        "distillation_weights": ("5", "2", "1"),
      },
    ),
  ],
)
def test_what_the_encoder_takes_from_flags(changes, names, labels, fixed):
  settings = settings_of(**changes)
  assert list(encoder.names(settings)) == names
  assert encoder.labels(settings) == labels
  if not settings.objectives:
    fixed = {"use_next_sentence_loss": settings.use_next_sentence_loss}
  assert encoder.fixed(settings) == fixed
  if "distillation" not in names:
    model = encoder.make(tiny_model.tiny(), settings, seed=1)
    assert [each.name for each in model.objectives] == names


def test_an_objective_that_a_model_cannot_have_is_refused():
  config = tiny_model.tiny()
  config.variant = "distilbert"
  encoder.check(config, settings_of(use_next_sentence_loss=False))
  with pytest.raises(errors.InputError, match="no next-sentence head"):
    encoder.check(config, settings_of())
  with pytest.raises(errors.InputError, match="distillation_temperature=0.0"):
    encoder.check(
      config,
      settings_of(objectives=["distillation"], distillation_temperature=0.0),
    )


def test_what_the_next_word_takes_from_flags():
  config = tiny_model.tiny()
  config.variant = "left_to_right"
  settings = settings_of(use_next_sentence_loss=False)
  next_word.check(config, settings)
  assert next_word.labels(settings) == {}
  assert next_word.fixed(settings) == {"use_next_sentence_loss": False}
  with pytest.raises(errors.InputError, match="no next-sentence head"):
    next_word.check(config, settings_of())


def test_words_take_the_places_of_masks():
  batch = {
    "input_ids": tf.constant([[2, 4, 6, 3], [2, 7, 4, 3]]),
    "masked_lm_positions": tf.constant([[1, 0], [2, 1]]),
    "masked_lm_weights": tf.constant([[1.0, 0.0], [1.0, 1.0]]),
  }
  words = tf.constant([[8, 9], [5, 9]], tf.int64)
  found = networks.with_words(batch, words)
  # An unused entry does not replace [CLS].
  assert found.numpy().tolist() == [[2, 8, 6, 3], [2, 9, 5, 3]]
  assert found.dtype == tf.int32


@pytest.mark.parametrize("skip_padding", [False, True])
@pytest.mark.parametrize("is_masked", [False, True])
def test_the_labels_of_the_next_word(skip_padding, is_masked):
  config = tiny_model.tiny()
  model = next_word.NextWordModel(config, seed=1, skip_padding=skip_padding)
  batch = {
    "input_ids": tf.constant([[2, 8, 6, 3, 0], [2, 7, 3, 0, 0]]),
    "input_mask": tf.constant([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]]),
    "segment_ids": tf.zeros([2, 5], tf.int32),
  }
  if is_masked:
    batch["input_ids"] = tf.constant([[2, 4, 6, 3, 0], [2, 7, 3, 0, 0]])
    batch["masked_lm_positions"] = tf.constant([[1], [0]])
    batch["masked_lm_ids"] = tf.constant([[8], [0]])
    batch["masked_lm_weights"] = tf.constant([[1.0], [0.0]])
  labels, weights = model.next_word.labels(batch)
  logits = model(batch)["next_word"]
  if skip_padding:
    assert labels.numpy().tolist() == [8, 6, 3, 7, 3]
    assert weights.numpy().tolist() == [1.0] * 5
    assert logits.shape == [5, config.vocab_size]
  else:
    assert labels.numpy().tolist() == [[8, 6, 3, 0], [7, 3, 0, 0]]
    assert weights.numpy().tolist() == [[1, 1, 1, 0], [1, 1, 0, 0]]
    assert logits.shape == [2, 4, config.vocab_size]
  goal = model.objective()
  assert float(goal.denominators(batch)["next_word"]) == np.float32(5.00001)
  assert {"loss", *goal.sums(batch, None)[1]} == set(model.result_names())
  assert model.token_labels()[0] == "next_word"


@pytest.mark.parametrize("variant", [None, "modernbert"])
def test_start_weights_may_lack_the_heads_and_nothing_else(variant):
  config = tiny_model.tiny(num_hidden_layers=1)
  if variant:
    config = modeling.BertConfig.from_dict(
      {**config.to_dict(), "variant": variant, "hidden_act": "gelu_erf"}
    )
  model = encoder.PretrainingModel(config, ["masked_lm"], seed=1)
  missing = {
    variable.name
    for variable in model.variables
    if any(
      re.search(pattern, variable.name) for pattern in model.new_variables()
    )
  }
  heads = ("cls/", "bert/head/", "bert/pooler/")
  names = {variable.name for variable in model.variables}
  assert missing == {name for name in names if name.startswith(heads)}
  assert any(name.startswith("bert/head/") for name in missing) == bool(variant)
