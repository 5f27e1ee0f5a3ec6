"""Trains a model; every script that trains uses this module.

A script passes a `TrainingSpec`: its model, loss, data, evaluation, and a
function that writes a model folder. `train` loads the initial weights, runs the
training steps, evaluates in between, and writes best_model and final_model.
"""

import functools
import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

import tensorflow as tf
from absl import logging

import configuration
import named_weights
import optimization
import optimizers
from checkpoints import weight_files
from common import errors, run_settings
from records import pipeline
from training import (
  distribution,
  evaluation_loop,
  layer_rates,
  loop,
  run_folder,
  run_setup,
  training_step,
)
from variants import registry


class TrainingData(NamedTuple):
  """Records to train on."""

  files: list[str]  # TFRecord files.
  features: dict  # {name: tf.io.FixedLenFeature} of a record.
  num_records: int  # The number of records in all files.
  trim: bool = False  # Whether batches are cut to their longest sequence.
  transform: Callable | None = None  # See pipeline.distributed_batches.


class TrainingSpec(NamedTuple):
  """The parts of training that differ between scripts.

  Attributes:
    model: an object with `variables` and `trained_variables()`, the variables
      that the loss reaches (flags may freeze some of them).
    config: the model's configuration.
    strategy: the strategy in whose scope the model was built.
    objective: the model's loss.
    output_dir: folder of the run.
    length: (number of training steps, number of warm-up steps).
    new_variables: regular expressions for the names of variables that
      --init_checkpoint may lack.
    data: function without arguments, called after the weights are loaded.
    evaluate: function without arguments; returns {name: number}.
    result_names: names of the evaluation results, if known in advance.
    write: function of a folder and a step; writes the current weights.
    begins: function without arguments, called before the first step.
  """

  model: tf.Module
  config: configuration.BertConfig
  strategy: tf.distribute.Strategy
  objective: training_step.Objective
  output_dir: str
  length: tuple[int, int]
  new_variables: Iterable[str]
  data: Callable[[], TrainingData]
  evaluate: Callable[[], dict]
  result_names: list[str] | None
  write: Callable[[str, int], None]
  begins: Callable[[], None] = lambda: None


def train(
  settings: run_settings.Settings,
  spec: TrainingSpec,
  start: run_folder.StartingPoint,
) -> int:
  """Trains from `start`; returns the step of the final weights."""
  trainer = make_trainer(settings, spec)
  missing = [*spec.new_variables, *registry.new_variables(spec.config)]
  trainer.start_from(start, allowed_missing=missing)
  data = spec.data()

  def batches_from(step: int):
    spec.begins()
    return pipeline.training_batches(
      spec.strategy,
      **data._asdict(),
      batch_size=settings.train_batch_size,
      seed=settings.seed,
      first_step=step,
      bucketing=is_bucketed(settings, spec.strategy),
    )

  def keep(name: str, step) -> None:
    if distribution.is_chief(spec.strategy):
      spec.write(os.path.join(spec.output_dir, name), step)

  keep_best = functools.partial(keep, "best_model")
  evaluation = periodic_evaluation(settings, spec, keep_best)
  trainer.train(batches_from, evaluation)
  step = int(trainer.global_step.numpy())
  if step == settings.stop_step < spec.length[0]:
    logging.info(
      "stopped at step %d of %d and saved a checkpoint: to continue, repeat "
      "the command (it may read other data) with a larger --stop_step or none",
      step,
      spec.length[0],
    )
  if evaluation and settings.save_best:
    step = choose_weights(settings, spec, evaluation.best_step, step)
  keep("final_model", step)
  return step


def choose_weights(
  settings: run_settings.Settings,
  spec: TrainingSpec,
  best_step: int | None,
  last_step: int,
) -> int:
  """Loads the best weights if --use_best is set; returns the weights' step."""
  path = os.path.join(spec.output_dir, "best_model")
  prefix = "final_model, evaluation and predictions use the weights of"
  if best_step is not None and settings.get("use_best"):
    weight_files.load(spec.model.variables, path)
    logging.info("%s step %d, the best", prefix, best_step)
    return best_step
  if best_step is None:
    logging.warning(
      "%s the last step, %d: --save_best=%s was never a finite number",
      prefix,
      last_step,
      settings.save_best,
    )
    return last_step
  logging.info(
    "%s the last step, %d; the best weights, of step %d, are in %s: %s",
    prefix,
    last_step,
    best_step,
    path,
    "pass --use_best to use those"
    if "use_best" in settings
    else f"pass --model_dir={path} and another --output_dir to use those",
  )
  return last_step


def training_length(
  settings: run_settings.Settings, num_examples: int
) -> tuple[int, int]:
  """Returns (training steps, warm-up steps) for the epoch flags.

  As in the original: both are rounded down. Raises InputError: there are no
  training steps.
  """
  # MRPC's 3,668 examples in batches of 32 give 343 steps in 3 epochs, with 34
  # steps of warm-up.
  batches = num_examples / settings.train_batch_size
  num_train_steps = int(batches * settings.num_train_epochs)
  if not num_train_steps:
    raise errors.InputError(
      f"too few examples for a step: {num_examples} in batches of "
      f"{settings.train_batch_size} for {settings.num_train_epochs} epochs; "
      "lower --train_batch_size or raise --num_train_epochs"
    )
  # --max_train_steps also shortens the learning rate schedule.
  if settings.max_train_steps:
    num_train_steps = min(num_train_steps, settings.max_train_steps)
  return num_train_steps, int(num_train_steps * settings.warmup_proportion)


def is_bucketed(
  settings: run_settings.Settings, strategy: tf.distribute.Strategy
) -> bool:
  """Returns whether --bucket_by_length is set.

  Raises InputError: it is set, but XLA keeps batches at a single length.
  """
  if not settings.get("bucket_by_length"):
    return False
  if not run_setup.shapes_may_vary(settings, strategy):
    # On a TPU, XLA compiles the step in any case.
    is_tpu = distribution.is_tpu(strategy)
    remedy = "" if is_tpu else ", or pass --jit_compile=false"
    raise errors.InputError(
      "--bucket_by_length saves nothing if XLA compiles the step for a single "
      f"length: leave it out{remedy}"
    )
  return True


def _train_options(settings: run_settings.Settings, spec):
  num_train_steps, _ = spec.length
  if settings.stop_step > num_train_steps:
    raise errors.InputError(
      f"--stop_step={settings.stop_step} is beyond the last step, "
      f"{num_train_steps}; pass a smaller step, or leave the flag out"
    )
  return loop.TrainOptions(
    output_dir=spec.output_dir,
    num_train_steps=settings.stop_step or num_train_steps,
    **settings.pick(
      "save_checkpoints_steps iterations_per_loop seed max_to_keep "
      "max_bad_steps gradient_accumulation_steps"
    ),
    log_steps=_log_steps(settings, num_train_steps),
    batch_size=settings.train_batch_size,
    jit_compile=run_setup.jit_compile(settings, spec.strategy),
    # bfloat16 has float32's range: its gradients do not underflow.
    loss_scaling=settings.dtype == "float16",
    profile_steps=_profile_steps(settings),
  )


def _log_steps(settings: run_settings.Settings, num_train_steps: int):
  """Returns --log_steps, by default at most a hundredth of the steps."""
  if "log_steps" in settings.given:
    return settings.log_steps
  return max(1, min(settings.log_steps, num_train_steps // 100))


def _profile_steps(settings: run_settings.Settings) -> tuple:
  """Returns --profile_steps as () or (first, last)."""
  texts = settings.profile_steps
  if not texts:
    return ()
  are_numbers = len(texts) == 2 and all(text.isdecimal() for text in texts)
  if not are_numbers or int(texts[0]) >= int(texts[1]):
    raise errors.InputError(
      f"--profile_steps={','.join(texts)}: expected a first and a larger last "
      "step, such as 10,20"
    )
  return int(texts[0]), int(texts[1])


def make_trainer(
  settings: run_settings.Settings, spec: TrainingSpec
) -> loop.Trainer:
  """Returns the trainer that the flags describe."""
  num_train_steps, num_warmup_steps = spec.length
  logging.debug(
    "--seed=%d: seed of initial weights, order, dropout, masks", settings.seed
  )
  # variable_name removes replica suffixes, which freezing rules do not expect.
  by_name = {
    named_weights.variable_name(v): v for v in spec.model.trained_variables()
  }
  names = _trained_names(settings, spec.config, by_name)
  return loop.Trainer(
    strategy=spec.strategy,
    variables=spec.model.variables,
    trained=[by_name[name] for name in names],
    objective=spec.objective,
    optimizer=_make_optimizer(settings, spec, names),
    learning_rate=functools.partial(
      optimization.learning_rate,
      init_lr=settings.learning_rate,
      num_train_steps=num_train_steps,
      num_warmup_steps=num_warmup_steps,
      schedule=settings.learning_rate_schedule,
    ),
    options=_train_options(settings, spec),
  )


def _trained_names(
  settings: run_settings.Settings,
  config: configuration.BertConfig,
  names: Iterable[str],
) -> list:
  """Returns the names of the variables that the flags do not freeze."""
  registry.check_layer_rates(
    config, settings.freeze_layers, settings.layerwise_lr_decay
  )
  depth = config.num_hidden_layers
  # --freeze_encoder freezes all layers.
  frozen = depth if settings.freeze_encoder else settings.freeze_layers
  names = layer_rates.trainable_names(names, depth, freeze_layers=frozen)
  freezes_pooler = settings.get("freeze_pooler")
  return [n for n in names if not (freezes_pooler and "bert/pooler/" in n)]


def _make_optimizer(
  settings: run_settings.Settings, spec, names: Iterable[str]
):
  # XLA makes LAMB's update faster, even on a CPU.
  compiles = settings.jit_compile != "false" and (
    settings.optimizer == "lamb"
    or not run_setup.shapes_may_vary(settings, spec.strategy)
  )
  return optimizers.make_optimizer(
    settings.optimizer,
    weight_decay_rate=settings.weight_decay_rate,
    beta_2=settings.adam_beta2,
    epsilon=settings.adam_epsilon,
    rate_multipliers=layer_rates.learning_rate_multipliers(
      names, spec.config.num_hidden_layers, settings.layerwise_lr_decay
    ),
    jit_compile=compiles,
  )


def periodic_evaluation(
  settings: run_settings.Settings, spec: TrainingSpec, keep_best: Callable
) -> evaluation_loop.PeriodicEvaluation | None:
  """Returns the PeriodicEvaluation for the flags, or None without --eval_steps.

  `keep_best` takes the current step and saves the current weights. Raises
  InputError: --save_best is not among the results.
  """
  if not settings.eval_steps:
    return None
  return evaluation_loop.PeriodicEvaluation(
    spec.evaluate,
    every_steps=settings.eval_steps,
    last_step=spec.length[0],
    metric=settings.save_best,
    patience=settings.early_stopping_patience,
    keep_best=keep_best,
    names=spec.result_names,
  )
