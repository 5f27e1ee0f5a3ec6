"""Trains on the pre-training objective, compiled and in low precision.

Dropout is off to make runs comparable.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

import optimization
import optimizers
import tiny_model
import two_replicas
from pretraining.networks.encoder import PretrainingModel
from training import loop

CONFIG = tiny_model.tiny(
  hidden_dropout_prob=0.0,
  attention_probs_dropout_prob=0.0,
  initializer_range=0.1,
  num_hidden_layers=1,
)
ROWS, LENGTH, PREDICTIONS = 8, 8, 2


def batch(rows=ROWS):
  """Returns random tokens; every other row has a second masked token."""
  weights = [[1.0, i % 2] for i in range(rows)]
  data = tiny_model.pretraining_batch([[1, 3]] * rows, weights, rows)
  return {**data, "input_mask": tf.ones_like(data["input_mask"])}


def make_trainer(folder, *, strategy, dtype=tf.float32, jit=True, **options):
  """Returns a trainer; `jit`: whether XLA compiles the optimizer's updates."""
  with strategy.scope():
    model = PretrainingModel(CONFIG, seed=1, compute_dtype=dtype)
  return loop.Trainer(
    strategy=strategy,
    variables=model.variables,
    trained=model.trained_variables(),
    objective=model.objective(),
    optimizer=optimizers.make_optimizer("bertadam", jit_compile=jit),
    learning_rate=functools.partial(
      optimization.learning_rate,
      init_lr=1e-3,
      num_train_steps=100,
      num_warmup_steps=0,
      schedule="constant",
    ),
    options=loop.TrainOptions(
      output_dir=str(folder),
      num_train_steps=20,
      batch_size=ROWS,
      loss_scaling=dtype == tf.float16,
      **options,
    ),
  )


def batches(strategy):
  share = ROWS // strategy.num_replicas_in_sync
  rows = tf.data.Dataset.from_tensor_slices(batch()).repeat()
  return strategy.distribute_datasets_from_function(
    lambda context: rows.batch(share, drop_remainder=True)
  )


class Run:
  """Twenty updates and their results.

  Attributes:
    trainer: loop.Trainer.
    losses: losses of the steps that were not skipped.
    start, end: the weights [N] before and after.
  """

  def __init__(self, trainer, strategy, *, num_steps=20):
    self.trainer, self._strategy = trainer, strategy
    self.start = self._weights()
    iterator = iter(batches(strategy))
    losses = [
      trainer.training_step.step(next(iterator))[0] for _ in range(num_steps)
    ]
    self.losses = np.array([loss for loss in losses if np.isfinite(loss)])
    self.end = self._weights()
    assert trainer.applied_updates.numpy() == len(self.losses) == 20

  def _weights(self):
    return np.concatenate(
      [v.numpy().ravel() for v in self.trainer.training_step._trained]
    )

  def distance_from(self, other):
    """Returns relative errors: the largest of the losses, and the update's."""
    distance = np.linalg.norm(other.end - other.start)
    return (
      np.max(np.abs(self.losses / other.losses - 1.0)),
      np.linalg.norm(self.end - other.end) / distance,
    )


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
  strategy = tf.distribute.get_strategy()
  folder = tmp_path_factory.mktemp("plain")
  return Run(make_trainer(folder, strategy=strategy, jit=False), strategy)


def test_losses_fall(plain):
  assert plain.losses[-1] < 0.5 * plain.losses[0]


@pytest.mark.slow
def test_a_step_that_xla_compiles_gives_the_same_weights(tmp_path, plain):
  """As on a GPU by default: the optimizer is part of the compiled step."""
  strategy = tf.distribute.OneDeviceStrategy("CPU:0")
  trainer = make_trainer(tmp_path, strategy=strategy, jit_compile=True)
  losses, weights = Run(trainer, strategy).distance_from(plain)
  assert losses < 1e-5 and weights < 1e-4


# The allowed differences from float32: of the losses and of the update.
BANDS = {tf.bfloat16: (0.01, 0.03), tf.float16: (0.001, 0.01)}


def test_training_in_bfloat16_follows_float32(tmp_path, plain):
  strategy = tf.distribute.get_strategy()
  trainer = make_trainer(
    tmp_path, strategy=strategy, dtype=tf.bfloat16, jit=False
  )
  run = Run(trainer, strategy)
  losses, weights = run.distance_from(plain)
  assert losses < BANDS[tf.bfloat16][0] and weights < BANDS[tf.bfloat16][1]


def test_training_in_float16_follows_float32_over_an_overflow(tmp_path, plain):
  strategy = tf.distribute.get_strategy()
  trainer = make_trainer(
    tmp_path,
    strategy=strategy,
    dtype=tf.float16,
    jit=False,
    gradient_accumulation_steps=2,
  )
  # Twice the largest scale that does not overflow here.
  trainer.training_step.loss_scale.scale.assign(2.0**18)
  run = Run(trainer, strategy, num_steps=21)
  assert trainer.training_step.loss_scale.scale == 2.0**17
  losses, weights = run.distance_from(plain)
  assert losses < BANDS[tf.float16][0] and weights < BANDS[tf.float16][1]


def test_the_names_of_evaluation_results(plain):
  model = PretrainingModel(CONFIG, ["masked_lm"], seed=1)
  goal = model.objective()
  losses, metrics = goal.sums(batch(), None)
  assert losses.keys() == goal.denominators(batch()).keys() == {"masked_lm"}
  assert {"loss", *metrics} == set(model.result_names())
  assert not [v for v in model.trained_variables() if "/pooler/" in v.name]
  _, metrics = goal.sums(batch(), [1, 2])
  assert metrics["tokens_per_example"] == (ROWS * LENGTH, ROWS)
  assert metrics["fill_rate"] == (ROWS * LENGTH, ROWS * LENGTH)


@pytest.mark.parametrize(
  "replicas, dtype",
  [
    (1, tf.float32),
    pytest.param(1, tf.float16, marks=pytest.mark.slow),
    pytest.param(1, tf.bfloat16, marks=pytest.mark.slow),
    pytest.param(2, tf.float32, marks=pytest.mark.slow),
  ],
)
def test_accumulation_ignores_the_length_of_blocks(tmp_path, replicas, dtype):
  strategy = (
    tf.distribute.get_strategy() if replicas == 1 else two_replicas.strategy()
  )
  trainer = make_trainer(
    tmp_path,
    strategy=strategy,
    dtype=dtype,
    jit=False,
    gradient_accumulation_steps=2,
  )
  state = trainer.state()
  start = {name: value.numpy() for name, value in state.items()}

  def state_after(*block_lengths):
    # Reusing the trainer avoids compiling the loop again.
    for name, value in start.items():
      state[name].assign(value)
    iterator = iter(batches(strategy))
    for length in block_lengths:
      trainer.training_step.block(iterator, tf.constant(length))
    return {name: value.numpy() for name, value in state.items()}

  expected = state_after(1, 1, 1)
  assert expected["global_step"] == 3
  for other in (state_after(2, 1), state_after(3)):
    for name, value in expected.items():
      np.testing.assert_array_equal(other[name], value, err_msg=name)
