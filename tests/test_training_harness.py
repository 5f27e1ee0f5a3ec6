"""Lengths of trainings, and what a training's loop is told."""

import types

import pytest

from common import errors, run_settings
from training import harness


def length(**changes):
  settings = run_settings.Settings({
    "train_batch_size": 32, "num_train_epochs": 3.0, "max_train_steps": 0,
    "warmup_proportion": 0.1, **changes,
  })
  return harness.training_length(settings, 3668)


def test_the_length_of_mrpc_is_the_originals():
  assert length() == (343, 34)


@pytest.mark.parametrize("most, expected", [
  (100, (100, 10)), (343, (343, 34)), (500, (343, 34))
])
def test_a_training_ends_at_max_train_steps_with_its_own_warm_up(
  most, expected
):
  assert length(max_train_steps=most) == expected


def options(dtype="float32", stop_step=0):
  settings = run_settings.Settings({
    "dtype": dtype, "stop_step": stop_step, "save_checkpoints_steps": 5,
    "iterations_per_loop": 1, "seed": 1, "max_to_keep": 1, "max_bad_steps": 3,
    "gradient_accumulation_steps": 1, "train_batch_size": 2, "log_steps": 100,
    "jit_compile": "false", "profile_steps": (),
  })
  task = types.SimpleNamespace(
    length=(40, 4), output_dir="out", strategy=None, config=None
  )
  return harness._train_options(settings, task)


@pytest.mark.parametrize("dtype, scales", [
  ("float32", False), ("bfloat16", False), ("float16", True)
])
def test_only_float16_needs_a_loss_scale(dtype, scales):
  assert options(dtype).loss_scaling == scales


def test_a_step_to_stop_at_is_one_of_the_run():
  assert options().num_train_steps == 40
  assert options(stop_step=40).num_train_steps == 40
  assert options(stop_step=7).num_train_steps == 7
  with pytest.raises(errors.InputError, match="=41 is beyond .* step, 40"):
    options(stop_step=41)
