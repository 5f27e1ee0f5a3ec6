"""Tests the training loop on a toy task."""

import functools
import logging
import os
import signal
import threading
import types

import numpy as np
import pytest
import tensorflow as tf

import optimization
import optimizers
import two_replicas
from common import errors
from message_facts import says
from script_runner import logged
from training import (
  distribution,
  evaluation_loop,
  loop,
  run_folder,
  training_step,
)

ONE, TWO = "one", "two"


def strategy_of(devices):
  if devices == ONE:
    return tf.distribute.get_strategy()
  return two_replicas.strategy()


class Toy(tf.Module):
  """A tiny model: an embedding table, a matrix product and dropout."""

  def __init__(self):
    super().__init__()
    start = np.random.RandomState(0).normal(size=(10, 4)).astype(np.float32)
    self.table = tf.Variable(start, name="embeddings/table")
    self.kernel = tf.Variable(start[:4, :1], name="output/kernel")
    self.bias = tf.Variable([0.0], name="output/bias")

  def sums(self, batch, dropout_seed, rate=0.3):
    hidden = tf.reduce_sum(tf.gather(self.table, batch["ids"]), axis=1)
    if dropout_seed is not None and rate:
      hidden = tf.nn.experimental.stateless_dropout(hidden, rate, dropout_seed)
    error = (tf.matmul(hidden, self.kernel) + self.bias)[:, 0] - batch["y"]
    loss = tf.reduce_sum(batch["weight"] * error**2)
    return {"squares": loss}, {"rmse": (loss, tf.reduce_sum(batch["weight"]))}


def toy_batches(strategy, first_step, batch_size=8, poison=None):
  """Returns batches that depend on the step; `poison` has the bad steps."""

  def batch(step):
    seed = tf.stack([7, tf.cast(step, tf.int32)])
    uniform = functools.partial(tf.random.stateless_uniform, seed=seed)
    y = uniform([batch_size], minval=-1.0, maxval=1.0)
    if poison is not None:
      bad = tf.reduce_any(step == tf.constant(poison, tf.int64))
      y = tf.where(bad, np.inf, y)
    return {
      "ids": uniform([batch_size, 3], maxval=10, dtype=tf.int32),
      "y": y,
      "weight": uniform([batch_size]) + 0.1,
    }

  share = batch_size // strategy.num_replicas_in_sync
  steps = tf.data.Dataset.range(first_step, 1000).map(batch)
  return strategy.distribute_datasets_from_function(
    lambda context: steps.unbatch().batch(share)
  )


def make_trainer(
  folder, *, devices=ONE, rate=0.3, model=None, init_lr=0.1, **options
):
  strategy = strategy_of(devices)
  with strategy.scope():
    model = model or Toy()
  options = {
    "num_train_steps": 12,
    "save_checkpoints_steps": 5,
    "log_steps": 4,
    "batch_size": 8,
    **options,
  }
  return loop.Trainer(
    strategy=strategy,
    variables=model.variables,
    trained=model.variables,
    objective=training_step.Objective(
      denominators=lambda batch: {"squares": tf.reduce_sum(batch["weight"])},
      sums=functools.partial(model.sums, rate=rate),
    ),
    optimizer=optimizers.make_optimizer("bertadam", jit_compile=False),
    learning_rate=functools.partial(
      optimization.learning_rate,
      init_lr=init_lr,
      num_train_steps=12,
      num_warmup_steps=2,
    ),
    options=loop.TrainOptions(output_dir=str(folder), **options),
  )


def train(trainer, folder, poison=None, evaluation=None):
  trainer.start_from(run_folder.starting_point(str(folder), None))
  strategy = trainer._strategy
  trainer.train(
    lambda step: toy_batches(strategy, step, poison=poison), evaluation
  )
  return state_of(trainer)


def run(folder, poison=None, evaluation=None, **options):
  """Trains as a new process would; returns the final state."""
  return train(make_trainer(folder, **options), folder, poison, evaluation)


def state_of(trainer):
  return {name: value.numpy() for name, value in trainer.state().items()}


def assert_same(state, expected, tolerance=0.0):
  assert state.keys() == expected.keys()
  for name in state:
    np.testing.assert_allclose(
      state[name], expected[name], rtol=0, atol=tolerance, err_msg=name
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
  """A function of devices and dropout rate that returns the final state."""
  return functools.cache(
    lambda devices=ONE, rate=0.3: run(
      tmp_path_factory.mktemp("whole"), devices=devices, rate=rate
    )
  )


@pytest.mark.parametrize(
  "devices, options",
  [
    (TWO, {}),
    (ONE, {"gradient_accumulation_steps": 4}),
    (TWO, {"gradient_accumulation_steps": 2}),
    (ONE, {"jit_compile": True}),
    (TWO, {"jit_compile": True}),
    (ONE, {"iterations_per_loop": 1}),
    (ONE, {"loss_scaling": True}),
  ],
)
def test_splitting_the_batch_does_not_change_the_result(
  tmp_path, whole, devices, options
):
  state = run(tmp_path, devices=devices, rate=0.0, **options)
  state = {k: v for k, v in state.items() if not k.startswith("loss_scale")}
  assert_same(whole(rate=0.0), state, tolerance=1e-6)


def test_batch_that_cannot_be_split_is_refused(tmp_path):
  with pytest.raises(errors.InputError, match="batch, 8, .*_steps=3; choose"):
    make_trainer(tmp_path, gradient_accumulation_steps=3)


def test_dropout_is_a_function_of_seed_and_step(tmp_path, whole):
  assert_same(whole(), run(tmp_path / "a"))
  kernel = run(tmp_path / "b", seed=1)["output/kernel"]
  assert np.abs(kernel - whole()["output/kernel"]).max() > 1e-4


def test_a_variable_that_the_loss_does_not_reach_is_an_error(tmp_path):
  model = Toy()
  model.unused = tf.Variable([1.0], name="pooler/unused")
  trainer = make_trainer(tmp_path, model=model)
  with pytest.raises(ValueError, match="does not reach pooler/unused"):
    train(trainer, tmp_path)


@pytest.mark.parametrize("devices", [ONE, TWO])
def test_resumed_run_is_bit_identical(tmp_path, whole, devices):
  for end in (3, 7, 12):
    state = run(tmp_path, devices=devices, num_train_steps=end)
  assert_same(whole(devices), state)


def test_finished_run_does_nothing(tmp_path, caplog):
  run(tmp_path, num_train_steps=1)
  trainer = make_trainer(tmp_path, num_train_steps=1)
  trainer.start_from(run_folder.starting_point(str(tmp_path), None))
  with caplog.at_level(logging.INFO, logger="absl"):
    trainer.train(lambda step: pytest.fail("asked for data"))
  assert "nothing to train" in caplog.text
  assert "is at step 1, and this command ends at step 1;" in caplog.text


def stopping_evaluation(number, at_step):
  steps = iter((at_step,))

  def evaluate():
    if next(steps, None):
      os.kill(os.getpid(), number)
    return {}

  return evaluation_loop.PeriodicEvaluation(
    evaluate, every_steps=at_step, last_step=12
  )


@pytest.mark.parametrize(
  "devices, number", [(ONE, signal.SIGTERM), (TWO, signal.SIGINT)]
)
def test_run_resumes_after_a_signal(tmp_path, whole, devices, number, caplog):
  caplog.set_level(logging.INFO, logger="absl")
  before = signal.getsignal(number)
  with pytest.raises(SystemExit) as exit_info:
    run(tmp_path, evaluation=stopping_evaluation(number, 6), devices=devices)
  assert exit_info.value.code == loop.EXIT_INTERRUPTED == 75
  name = signal.Signals(number).name
  assert f"{name}: finishing the current steps" in caplog.text
  assert f"stopped by {name}; step 6 is saved" in caplog.text
  assert signal.getsignal(number) == before
  assert run_folder.newest_checkpoint(str(tmp_path)).step == 6
  assert_same(whole(devices), run(tmp_path, devices=devices))


def test_all_processes_stop_at_the_same_step(tmp_path, monkeypatch):
  trainer = make_trainer(tmp_path)
  monkeypatch.setattr(distribution, "is_multi_worker", lambda strategy: True)
  stop = loop.StopRequest()
  strategy = tf.distribute.get_strategy()
  original_run = strategy.run

  def run_and_be_signalled(function):
    results = original_run(function)
    stop.note(signal.SIGTERM, None)
    return results

  monkeypatch.setattr(strategy, "run", run_and_be_signalled)
  # If a signal arrives during an exchange, the others learn of it at the next.
  assert trainer._agreed(stop, 0.5) == (False, 0.5) and stop.by
  assert trainer._agreed(stop, 0.25) == (True, 0.25)
  other = loop.StopRequest()
  monkeypatch.setattr(
    distribution, "all_gather", lambda *_: np.array([[0.0, 1.0], [1.0, 2.0]])
  )
  assert trainer._agreed(other) == (True, 2.0)
  assert (other.by, stop.by) == ("a signal to another process", "SIGTERM")


def test_all_processes_use_the_time_of_the_slowest(tmp_path, monkeypatch):
  trainer = make_trainer(tmp_path)
  monkeypatch.setattr(distribution, "is_multi_worker", lambda strategy: True)
  sent = []

  def gathered(strategy, values):
    sent.append(values)
    return np.array([values, [0.0, 2.5]])

  monkeypatch.setattr(distribution, "all_gather", gathered)
  stop = loop.StopRequest()
  assert trainer._agreed(stop, 0.25) == (False, 2.5)
  assert sent == [[0.0, 0.25]]
  # A block takes about five seconds, or ends before the host has work to do.
  assert trainer._block_length(0, 0.0) == 1
  assert trainer._block_length(0, 2.5) == 2
  assert trainer._block_length(0, 0.001) == 4
  with pytest.raises(errors.InputError, match=says("0", "3", "--o")):
    monkeypatch.setattr(
      distribution, "all_gather", lambda *_: np.array([[0.0], [3.0]])
    )
    trainer.train(lambda step: pytest.fail("asked for data"))


def test_a_block_ends_where_the_host_has_work_to_do(tmp_path):
  trainer = make_trainer(
    tmp_path,
    num_train_steps=100,
    save_checkpoints_steps=30,
    log_steps=7,
    iterations_per_loop=5,
    profile_steps=(4, 6),
  )
  trainer._evaluation = types.SimpleNamespace(every_steps=8)
  # At the edges of the profile, a log, an evaluation, five steps, a checkpoint
  # and the end.
  ends = {0: 4, 4: 6, 6: 7, 7: 8, 8: 13, 28: 30, 98: 100}
  for step, end in ends.items():
    assert trainer._block_length(step, 1e-9) == end - step, step
  # Two steps of 2.4 s fit into five seconds; a step may take longer.
  lengths = [trainer._block_length(8, seconds) for seconds in (2.4, 9.0, 0.0)]
  assert lengths == [2, 1, 1]


def test_checkpoints_are_kept_at_steps_and_at_the_end(tmp_path):
  run(tmp_path, max_to_keep=2)
  commits = sorted(path.name for path in tmp_path.glob("*.commit"))
  assert commits == ["model.ckpt-10.commit", "model.ckpt-12.commit"]
  reader = tf.train.load_checkpoint(str(tmp_path / "model.ckpt-12"))
  assert sorted(reader.get_variable_to_shape_map()) == sorted(
    ["global_step", "applied_updates"]
    + [
      f"{name}{slot}"
      for name in ("embeddings/table", "output/kernel", "output/bias")
      for slot in ("", "/adam_m", "/adam_v")
    ]
  )
  assert reader.get_tensor("global_step") == 12


@pytest.mark.parametrize("devices", [ONE, TWO])
def test_bad_step_is_skipped_and_logged(tmp_path, devices, caplog):
  with caplog.at_level(logging.WARNING, logger="absl"):
    state = run(tmp_path, poison=[4, 8], devices=devices)
  assert "step 5 skipped" in caplog.text
  assert "step 9 skipped" in caplog.text
  assert "step 6 skipped" not in caplog.text
  assert all(np.isfinite(value).all() for value in state.values())
  assert state["global_step"] == 12


def test_bad_step_changes_nothing(tmp_path):
  trainer = make_trainer(tmp_path, num_train_steps=1)
  before = state_of(trainer)
  with pytest.raises(errors.InputError, match="without a finite loss or"):
    train(trainer, tmp_path, poison=[0])
  after = state_of(trainer)
  assert after.pop("global_step") == before.pop("global_step") + 1
  assert after["applied_updates"] == 0
  assert_same(before, after)


@pytest.mark.parametrize(
  "options",
  [
    {"iterations_per_loop": 1},
    # The bad steps are only known after the last block.
    {"log_steps": 100, "save_checkpoints_steps": 1000},
  ],
)
def test_many_bad_steps_stop_the_run_and_keep_the_weights(tmp_path, options):
  trainer = make_trainer(tmp_path, max_bad_steps=3, **options)
  with pytest.raises(errors.InputError, match="without a finite loss or"):
    train(trainer, tmp_path, poison=list(range(4, 12)))
  good = make_trainer(tmp_path / "good", num_train_steps=4)
  expected = train(good, tmp_path / "good")
  checkpoint = run_folder.newest_checkpoint(str(tmp_path))
  reader = tf.train.load_checkpoint(checkpoint.path)
  for name in ("embeddings/table", "output/kernel", "output/bias/adam_v"):
    np.testing.assert_array_equal(reader.get_tensor(name), expected[name])


@pytest.mark.parametrize("init_lr", [1e20, np.nan])
def test_ruined_weights_are_not_saved(tmp_path, whole, init_lr):
  saved = []
  evaluation = evaluation_loop.PeriodicEvaluation(
    lambda: {"f1": len(saved)},
    every_steps=4,
    last_step=12,
    metric="f1",
    keep_best=saved.append,
  )
  run(tmp_path, num_train_steps=4)
  for saves in ({"save_checkpoints_steps": 20}, {"max_to_keep": 1}):
    with pytest.raises(errors.InputError, match="ruined.* from .*ckpt-4$"):
      ruined = make_trainer(tmp_path, init_lr=init_lr, **saves)
      train(ruined, tmp_path, evaluation=evaluation)
    assert len(list(tmp_path.glob("model.ckpt-*.index"))) == 1
  assert saved == [4]
  assert_same(whole(), run(tmp_path))


@pytest.mark.parametrize("scale, limit", [(0.001, 1000.0), (5.0, 5000.0)])
def test_the_norm_of_weights_may_grow_a_thousandfold(tmp_path, scale, limit):
  """Weights that are nearly 0 count as weights of norm 1."""
  model = Toy()
  for variable in model.variables:
    variable.assign(tf.zeros_like(variable))
  model.bias.assign([scale])
  trainer = make_trainer(tmp_path, model=model)
  trainer._check_start(0)
  assert trainer._norm_limit == pytest.approx(limit)
  model.bias.assign([limit * 0.999])
  trainer._check_weights(3)
  model.bias.assign([limit * 1.001])
  with pytest.raises(errors.InputError, match="step 3 .* from the beginning$"):
    trainer._check_weights(3)


def test_weights_that_were_ruined_before_are_not_trained(tmp_path):
  state = state_of(make_trainer(tmp_path))
  state["output/bias"] = np.float32([np.nan])
  run_folder.save(str(tmp_path), 0, state)
  with pytest.raises(errors.InputError, match="remove the newest checkpoint"):
    run(tmp_path)


def test_loss_scale_halves_at_overflow_and_doubles_after_2000_steps(tmp_path):
  trainer = make_trainer(tmp_path, loss_scaling=True)
  state = train(trainer, tmp_path, poison=[3, 4])
  assert state["loss_scale/scale"] == 2.0**13
  assert state["loss_scale/finite_steps"] == 7
  scale = trainer.training_step.loss_scale
  scale.finite_steps.assign(1999)
  scale.update(tf.constant(True))
  assert (scale.scale.numpy(), scale.finite_steps.numpy()) == (2.0**14, 0)


def test_a_run_of_only_bad_steps_is_an_error(tmp_path, caplog, monkeypatch):
  # The blocks have 1 and 11 steps, even on a slow machine.
  monkeypatch.setattr(loop, "_SECONDS_PER_CALL", 1e6)
  trainer = make_trainer(tmp_path, log_steps=100, save_checkpoints_steps=1000)
  with caplog.at_level(logging.WARNING, logger="absl"):
    with pytest.raises(errors.InputError, match="gradient: 12; the weights"):
      train(trainer, tmp_path, poison=list(range(12)))
  assert "step 12 skipped" in caplog.text
  assert run_folder.newest_checkpoint(str(tmp_path)).step == 12


def test_skipped_steps_are_counted_over_starts_and_not_by_adam(tmp_path):
  bad = [1, 2]
  run(tmp_path, poison=bad, num_train_steps=6)
  state = run(tmp_path, poison=bad)
  assert state["applied_updates"] == 10
  lines = logged(tmp_path)
  skipped = {line["step"]: line["skipped_steps"] for line in lines}
  assert skipped == {4: 2, 6: 2, 8: 2, 12: 2}


def test_bias_correction_counts_updates_not_steps(tmp_path, monkeypatch):
  trainer = make_trainer(tmp_path, num_train_steps=4, iterations_per_loop=1)
  counted = []
  update_all = trainer.training_step.optimizer.update_all

  def count(*args, step, **options):
    tf.py_function(lambda value: counted.append(int(value)), [step], [])
    update_all(*args, step=step, **options)

  monkeypatch.setattr(trainer.training_step.optimizer, "update_all", count)
  train(trainer, tmp_path, poison=[1])
  assert counted == [0, 1, 1, 2]


def resume(folder, without, **options):
  state = {**state_of(make_trainer(folder)), "global_step": np.int64(6)}
  del state[without]
  run_folder.save(str(folder), 6, state)
  trainer = make_trainer(folder, **options)
  trainer.start_from(run_folder.starting_point(str(folder), None))
  return state_of(trainer)


def test_values_that_a_checkpoint_may_lack(tmp_path):
  # Older checkpoints count all steps as updates.
  assert resume(tmp_path, "applied_updates")["applied_updates"] == 6
  # A checkpoint of a float32 run has no loss scale.
  state = resume(tmp_path, "applied_updates", loss_scaling=True)
  assert state["loss_scale/scale"] == 2.0**15
  with pytest.raises(errors.InputError, match=says("adam_m", "no")):
    resume(tmp_path, "output/bias/adam_m")


def overflowing(trainer, scale):
  """Makes gradients overflow while the loss scale is above `scale`."""
  gradients = trainer.training_step._part_gradients

  def part_gradients(*args):
    grads, rows, loss, metrics = gradients(*args)
    too_large = trainer.training_step.loss_scale.scale > scale
    grads = [tf.where(too_large, np.inf, grad) for grad in grads]
    return grads, rows, loss, metrics

  trainer.training_step._part_gradients = part_gradients
  return trainer


def test_ordinary_overflows_do_not_count_as_bad_steps(tmp_path, caplog):
  options = {"loss_scaling": True, "max_bad_steps": 3}
  trainer = overflowing(make_trainer(tmp_path, **options), 2.0**10)
  with caplog.at_level(logging.INFO, logger="absl"):
    state = train(trainer, tmp_path)
  assert state["loss_scale/scale"] == 2.0**10
  assert state["applied_updates"] == 12 - 5
  assert caplog.text.count("overflowed float16") == 5
  assert "not finite" not in caplog.text
  last = logged(tmp_path)[-1]
  assert (last["loss_scale"], last["skipped_steps"]) == (2.0**10, 5)
  # At the lowest scale, an overflow counts as a bad step.
  trainer = overflowing(make_trainer(tmp_path / "b", **options), 0.0)
  trainer.training_step.loss_scale.scale.assign(2.0)
  with pytest.raises(errors.InputError, match="without a finite loss or"):
    train(trainer, tmp_path / "b")


def test_best_weights_are_kept_and_patience_ends_the_run(tmp_path, caplog):
  results = iter([3.0, 1.0, 2.0, 1.5, 0.0])
  saved = []

  def evaluation():
    return evaluation_loop.PeriodicEvaluation(
      lambda: {"dev_loss": next(results)},
      every_steps=2,
      last_step=12,
      metric="dev_loss",
      patience=2,
      keep_best=saved.append,
    )

  run(tmp_path, evaluation=evaluation(), num_train_steps=4)
  state = run(tmp_path, evaluation=evaluation())
  assert saved == [2, 4]
  assert state["global_step"] == 8
  assert "nothing to train" not in caplog.text
  state = run(tmp_path, evaluation=evaluation())
  assert state["global_step"] == 8
  assert "step 8, and --early_stopping_patience ended" in caplog.text


def test_a_first_step_may_be_bad(tmp_path):
  evaluation = evaluation_loop.PeriodicEvaluation(
    lambda: {"dev_loss": 1.0}, every_steps=1, last_step=12
  )
  state = run(tmp_path, [0], evaluation)
  assert (state["global_step"], state["applied_updates"]) == (12, 11)


def test_a_failed_save_ends_the_run_before_the_next_save(tmp_path, monkeypatch):
  def fail(*arguments, **options):
    raise errors.InputError("the disk is full")

  def evaluate():
    for thread in threading.enumerate():
      if thread.name == "checkpoint":
        thread.join()
    return {"dev_loss": 1.0}

  evaluation = evaluation_loop.PeriodicEvaluation(
    evaluate, every_steps=6, last_step=12
  )
  trainer = make_trainer(tmp_path)
  monkeypatch.setattr(loop.run_folder, "save", fail)
  with pytest.raises(errors.InputError, match="the disk is full"):
    train(trainer, tmp_path, evaluation=evaluation)
  assert int(trainer.global_step) in (5, 6)


@pytest.mark.parametrize("parts", [1, 2])
def test_the_gradient_of_a_table_has_rows_unless_a_batch_is_split(
  tmp_path, monkeypatch, parts
):
  kinds, update = set(), optimizers.AdamWeightDecay.update_all

  def note(self, variables, grads, **options):
    kinds.update(map(type, grads))
    return update(self, variables, grads, **options)

  monkeypatch.setattr(optimizers.AdamWeightDecay, "update_all", note)
  run(tmp_path, num_train_steps=1, gradient_accumulation_steps=parts)
  assert (tf.IndexedSlices in kinds) == (parts == 1)


def test_a_signal_precedes_an_evaluation(tmp_path, whole, monkeypatch):
  evaluated, saved = [], []

  def evaluation(trainer):
    def evaluate():
      evaluated.append(int(trainer.global_step))
      return {"dev_loss": 1.0 + abs(4 - evaluated[-1])}

    return evaluation_loop.PeriodicEvaluation(
      evaluate,
      every_steps=4,
      last_step=12,
      metric="dev_loss",
      keep_best=saved.append,
    )

  trainer = make_trainer(tmp_path)
  block = trainer.training_step.block

  def signalled_block(iterator, num_steps):
    os.kill(os.getpid(), signal.SIGTERM)
    return block(iterator, num_steps)

  trainer.training_step.block = signalled_block
  monkeypatch.setattr(trainer, "_block_length", lambda *_: 4)
  with pytest.raises(SystemExit):
    train(trainer, tmp_path, None, evaluation(trainer))
  assert evaluated == []
  assert run_folder.newest_checkpoint(str(tmp_path)).step == 4
  trainer = make_trainer(tmp_path)
  state = train(trainer, tmp_path, None, evaluation(trainer))
  assert (evaluated, saved) == ([4, 8, 12], [4])
  assert_same(whole(), state)


def test_the_last_step_is_evaluated_and_a_wrong_metric_loses_no_step(tmp_path):
  saved = []

  def evaluation(metric):
    return evaluation_loop.PeriodicEvaluation(
      lambda: {"f1": 1.0},
      every_steps=100,
      last_step=12,
      metric=metric,
      keep_best=saved.append,
    )

  with pytest.raises(errors.InputError, match="--save_best=F1 is not among"):
    run(tmp_path, evaluation=evaluation("F1"))
  assert run_folder.newest_checkpoint(str(tmp_path)).step == 12
  run(tmp_path, evaluation=evaluation("f1"))
  assert saved == [12]
  run(tmp_path, evaluation=evaluation("f1"))
  assert saved == [12]


def test_profiler_records_the_requested_steps(tmp_path):
  train(make_trainer(tmp_path, profile_steps=(4, 6)), tmp_path)
  assert list(tmp_path.glob("plugins/profile/*/*.xplane.pb"))


def test_a_second_ctrl_c_interrupts():
  before = signal.getsignal(signal.SIGINT)
  with pytest.raises(KeyboardInterrupt), loop.catch_signals():
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
  assert signal.getsignal(signal.SIGINT) == before
