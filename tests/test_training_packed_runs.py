"""Every task trains on packed rows as on padded ones, without dropout."""

import dataclasses
import functools
import re

import numpy as np
import pytest
import tensorflow as tf

import modeling
import optimization
import tiny_model
import two_replicas
import unpadding
import vector_models
from classification import bi_encoder as classification_bi_encoder
from classification import model as classification_model
from pretraining import model as pretraining_model
from pretraining import next_word
from records import packing
from squad import model as squad_model
from tagging import model as tagging_model
from test_training_loop_runs import NO_GRADIENT
from training import loop

LENGTH, COUNT = 12, 8
CONFIG = tiny_model.tiny(
  hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
)


def sequences(rng, *shape):
  """Random sequences [..., T] of 2 to 8 tokens; some masks have holes."""
  lengths = rng.randint(2, 9, shape)[..., None]
  mask = np.arange(LENGTH) < lengths
  holes = rng.rand(*shape, LENGTH) < 0.2
  # The first and the last token are never holes: they are read.
  holes[..., 0] = False
  holes &= np.arange(LENGTH) < lengths - 1
  return {
    "input_ids": rng.randint(0, 30, [*shape, LENGTH]),
    "input_mask": (mask & ~holes).astype(int),
    "segment_ids": rng.randint(0, 2, [*shape, LENGTH]),
  }


def inside(rng, batch, *shape):
  """Random positions [B, ...] within the sequences of a batch."""
  extents = unpadding.extents(tf.constant(batch["input_mask"])).numpy()
  extents = extents.reshape([-1] + [1] * len(shape))
  return rng.randint(0, 1000, [COUNT, *shape]) % extents


def pretraining(rng, strategy, make=None):
  batch = sequences(rng, COUNT)
  positions = np.sort(inside(rng, batch, 3), axis=1)
  batch.update(
    masked_lm_positions=positions, masked_lm_ids=rng.randint(0, 30, [COUNT, 3]),
    masked_lm_weights=rng.randint(0, 2, [COUNT, 3]).astype(np.float32),
    next_sentence_labels=rng.randint(0, 2, [COUNT, 1]),
  )
  if make:
    batch["input_mask"][:, :5] = 1
    batch["masked_lm_positions"] = np.array([[1, 2, 4]] * COUNT)
    # Nothing is predicted from holes; no record has one.
    batch["input_mask"] = np.sort(batch["input_mask"])[:, ::-1]
  with strategy.scope():
    model = make() if make else pretraining_model.PretrainingModel(
      CONFIG, seed=1
    )
  return model, pretraining_model.objective(model), batch


def left_to_right():
  return next_word.NextWordModel(
    variant_of("left_to_right"), seed=1, skip_padding=True
  )


def variant_of(name, **changes):
  return modeling.BertConfig.from_dict(
    {**CONFIG.to_dict(), "variant": name, **changes}
  )


def classification(rng, strategy, kind="single", windows=1):
  batch = sequences(rng, COUNT, windows)
  if windows > 1 and kind != "choice":
    # Texts with fewer windows.
    batch["input_mask"][::2, 1:] = 0
  labels = {
    "single": rng.randint(0, 3, COUNT),
    "regression": rng.rand(COUNT).astype(np.float32),
    "multi_label": rng.randint(0, 2, [COUNT, 3]),
    "choice": rng.randint(0, windows, COUNT),
  }
  batch["label_ids"] = labels[kind]
  batch["is_real_example"] = np.ones([COUNT], int)
  with strategy.scope():
    model = classification_model.ClassifierModel(
      CONFIG, kind, classification_model.num_outputs(kind, "abc"), seed=1
    )
  return model, classification_model.objective(model), batch


def bi_encoder(rng, strategy, kind, **options):
  """Pairs of which two have the same first text."""
  batch = sequences(rng, COUNT, 2)
  ids = rng.randint(0, 99, [COUNT, 2])
  ids[0, 0] = ids[1, 0]
  batch["label_ids"] = ids if kind == "retrieval" else ids[:, 1] / 99
  batch["is_real_example"] = np.ones([COUNT], int)
  settings, asked = vector_models.settings_and_task(kind, **options)
  with strategy.scope():
    model = classification_bi_encoder.make(settings, CONFIG, asked, seed=1)
  return model, classification_model.objective(model), batch


def squad(rng, strategy):
  batch = sequences(rng, COUNT)
  for name in ("start_positions", "end_positions"):
    places = inside(rng, batch)
    # An answer does not begin or end in a hole.
    is_token = np.take_along_axis(batch["input_mask"], places[:, None], 1)
    batch[name] = places * is_token[:, 0]
  with strategy.scope():
    model = squad_model.SpanModel(CONFIG, seed=1)
  return model, squad_model.objective(model), batch


def tagging(rng, strategy):
  batch = sequences(rng, COUNT)
  labels = rng.randint(0, 4, [COUNT, LENGTH])
  batch["label_ids"] = np.where(batch["input_mask"] > 0, labels, -1)
  with strategy.scope():
    model = tagging_model.TaggingModel(CONFIG, 4, seed=1)
  return model, tagging_model.objective(model), batch


TASKS = {
  "pretraining": pretraining,
  "next_word": functools.partial(pretraining, make=left_to_right),
  "single": classification,
  "regression": functools.partial(classification, kind="regression"),
  "multi_label": functools.partial(classification, kind="multi_label"),
  "windows": functools.partial(classification, windows=3),
  "choice": functools.partial(classification, kind="choice", windows=4),
  "similarity": functools.partial(bi_encoder, kind="similarity"),
  "retrieval": functools.partial(
    bi_encoder, kind="retrieval", pooling_layer=["-1+-2"]
  ),
  "squad": squad, "tagging": tagging,
}


def make(task, seed, strategy=None):
  strategy = strategy or tf.distribute.get_strategy()
  model, objective, batch = TASKS[task](np.random.RandomState(seed), strategy)
  types = {"f": tf.float32, "i": tf.int32}
  tensors = {
    name: tf.constant(value, types[value.dtype.kind])
    for name, value in batch.items()
  }
  return model, objective, tensors


def packing_of(batch, *, replicas=1, parts=1):
  masks = tf.data.Dataset.from_tensors(batch["input_mask"])
  group = COUNT // (replicas * parts)
  return packing.measure(masks, group_size=group, parts=parts)


def loss_gradients_and_metrics(model, objective, batch):
  weights = objective.weights(batch)
  variables = model.trainable_variables
  with tf.GradientTape() as tape:
    sums, metrics = objective.sums(batch, None)
    loss = tf.add_n([sums[name] / weights[name] for name in sums])
  gradients = tape.gradient(loss, variables)
  found = [tf.convert_to_tensor(g) for g in gradients if g is not None]
  assert len(found) > 30
  return [loss, *found], metrics


@pytest.mark.parametrize(
  "seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3))]
)
@pytest.mark.parametrize("task", TASKS)
def test_losses_gradients_and_metrics_are_those_of_padded_rows(task, seed):
  model, objective, batch = make(task, seed)
  fits = packing_of(batch)
  plain = loss_gradients_and_metrics(model, objective, batch)
  found = loss_gradients_and_metrics(model, objective, fits.with_plan(batch))
  for one, other in zip(found[0], plain[0], strict=True):
    scale = max(1.0, np.abs(other).max())
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * scale)
  assert found[1].keys() == plain[1].keys()
  for name, values in plain[1].items():
    if name != "fill_rate":
      np.testing.assert_allclose(found[1][name], values, rtol=1e-5)
  if "fill_rate" in found[1]:
    assert found[1]["fill_rate"][1] < plain[1]["fill_rate"][1]


def trained_weights(folder, task, *, strategy, packed, **options):
  model, objective, batch = make(task, 1, strategy)
  variables = [v for v in model.variables if "/pooler/" not in v.name]
  if task in ("pretraining", "single"):
    variables = model.variables
  trainer = loop.Trainer(
    strategy=strategy,
    variables=model.variables,
    trained=variables,
    objective=without_dropout(objective),
    optimizer=optimization.make_optimizer("adamw", jit_compile=False),
    learning_rate=lambda step: tf.constant(1e-2),
    options=loop.TrainOptions(
      output_dir=str(folder), num_train_steps=3, batch_size=COUNT, **options
    ),
  )
  replicas = strategy.num_replicas_in_sync
  share = COUNT // replicas
  parts = options.get("gradient_accumulation_steps", 1)
  rows = tf.data.Dataset.from_tensor_slices(batch).repeat().batch(
    share, drop_remainder=True
  )
  if packed:
    fits = packing_of(batch, replicas=replicas, parts=parts)
    rows = rows.map(fits.with_plan)
  batches = iter(
    strategy.distribute_datasets_from_function(lambda context: rows)
  )
  losses = [float(trainer.step(next(batches))[0]) for _ in range(3)]
  compared = [v for v in variables if not re.search(NO_GRADIENT, v.name)]
  return np.concatenate([v.numpy().ravel() for v in compared]), losses


def without_dropout(objective):
  outputs = objective.outputs
  return dataclasses.replace(
    objective, sums=lambda batch, seed: objective.sums(batch, None),
    outputs=outputs and (lambda batch, seed: outputs(batch, None)),
  )


@pytest.mark.parametrize(
  "task",
  ["pretraining", *(
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("next_word", "windows", "retrieval", "squad", "tagging")
  )],
)
def test_two_replicas_in_two_parts_train_as_one_padded_batch(tmp_path, task):
  plain, losses = trained_weights(
    tmp_path, task, strategy=tf.distribute.get_strategy(), packed=False
  )
  found, packed_losses = trained_weights(
    tmp_path, task, strategy=two_replicas.strategy(), packed=True,
    gradient_accumulation_steps=2,
  )
  np.testing.assert_allclose(packed_losses, losses, rtol=1e-5)
  assert losses[-1] < losses[0]
  np.testing.assert_allclose(found, plain, rtol=0, atol=1e-4)
