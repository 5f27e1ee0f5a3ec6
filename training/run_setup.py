"""Builds the components of a run from its run_settings.Settings."""

import tensorflow as tf

import configuration
from checkpoints import model_files
from common import console, errors, file_io, run_settings
from records import pipeline, tfrecord
from training import distribution, run_folder
from variants import registry


def model_config(
  settings: run_settings.Settings,
  files: model_files.ModelFiles,
  head: str | None = None,
) -> configuration.BertConfig:
  """Returns the configuration of the command's model.

  Raises InputError: the configuration is invalid, --max_seq_length exceeds its
  positions, the model exceeds this machine's memory, or the run does not train
  and its weights lack the head `head`.
  """
  if head and not settings.do_train:
    files.require(head)
  config = files.config
  if top := settings.get("on_top"):
    values = {**config.to_dict(), f"{top}_on_top": True}
    config = configuration.BertConfig.from_dict(values)
  config.check_sequence_length(settings.max_seq_length)
  config.check_memory(registry.shapes)
  return config


def make_strategy(settings: run_settings.Settings):
  """Returns the tf.distribute.Strategy that the device flags describe.

  Raises InputError: the flags describe no strategy, or its replicas cannot
  share a batch equally.
  """
  strategy = distribution.make_strategy(
    settings.distribution_strategy,
    **settings.pick(
      "use_tpu tpu_name tpu_zone gcp_project master num_tpu_cores "
      "num_logical_cpus"
    ),
  )
  # Other phases are not checked, because their batch sizes have no effect.
  for name in _phases(settings):
    pipeline.check_shares(
      settings.get(f"{name}_batch_size"),
      strategy.num_replicas_in_sync,
      f"--{name}_batch_size",
    )
  return strategy


def _phases(settings: run_settings.Settings) -> list:
  """Returns which of the phases "train", "eval" and "predict" the run has."""
  do_train, do_eval, do_predict, eval_steps = map(
    settings.get, ("do_train", "do_eval", "do_predict", "eval_steps")
  )
  is_used = {
    "train": do_train,
    # Evaluations during training also need the evaluation data.
    "eval": do_eval or (do_train and eval_steps),
    "predict": do_predict,
  }
  return [name for name in is_used if is_used[name]]


def jit_compile(
  settings: run_settings.Settings, strategy: tf.distribute.Strategy
) -> bool:
  """Returns whether XLA compiles the step, according to --jit_compile."""
  if settings.jit_compile == "auto":
    return distribution.default_jit_compile(strategy)
  return settings.jit_compile == "true"


def shapes_may_vary(
  settings: run_settings.Settings, strategy: tf.distribute.Strategy
) -> bool:
  """Returns whether batches may be trimmed to their longest sequence.

  They may not if XLA compiles the step, because it would compile each length.
  """
  compiles = jit_compile(settings, strategy)
  return not compiles and not distribution.is_tpu(strategy)


def model_options(
  settings: run_settings.Settings, strategy: tf.distribute.Strategy
) -> dict:
  """Returns the keyword arguments of modeling.BertModel, without the config."""
  return {
    "seed": settings.seed,
    "compute_dtype": distribution.COMPUTE_DTYPES[settings.dtype],
    # As in the original: a TPU looks up embeddings with a matrix product.
    "use_one_hot_embeddings": distribution.is_tpu(strategy),
    "is_for_tpu": distribution.is_tpu(strategy),
    "recompute_activations": settings.recompute_activations,
    "skip_padding": shapes_may_vary(settings, strategy),
  }


def claim_folder(
  settings: run_settings.Settings,
  task,
  config: configuration.BertConfig,
  strategy: tf.distribute.Strategy,
  **fixed,
) -> run_folder.TrainedWith | None:
  """Claims --output_dir for this run, before anything is written.

  Args:
    task: name of the run's task; the folder must not belong to another task.
    config: configuration.BertConfig; the folder must not record another one.
    strategy: only the chief among its processes claims the folder.
    **fixed: further settings that must not change in a run.

  Returns:
    The settings of the training; None if the run does not train.
  """
  trained_with = _trained_with(settings, fixed)
  if distribution.is_chief(strategy):
    fingerprint = {"task": task, "bert_config": config.to_dict()}
    run_folder.check_output_dir(settings.output_dir, fingerprint, trained_with)
    console.keep_in(settings.output_dir)
  return trained_with


def open_run(
  settings: run_settings.Settings, *claim, **fixed
) -> run_folder.StartingPoint:
  """Calls `claim_folder`, and returns where the run starts.

  Raises InputError: there are no weights, and the run does not train.
  """
  trained_with = claim_folder(settings, *claim, **fixed)
  start = run_folder.starting_point(
    settings.output_dir, settings.init_checkpoint, trained_with
  )
  # Unlike the original: without training, random weights are refused.
  if start.origin == "random" and not settings.do_train:
    raise errors.InputError(
      f"no weights: there is no checkpoint in {settings.output_dir}; pass "
      "--model_dir or --init_checkpoint, or --do_train"
    )
  return start


def _trained_with(settings: run_settings.Settings, fixed):
  """Returns run_folder.TrainedWith, or None if the run does not train."""
  if not settings.do_train:
    return None
  watched = {}
  for name in ("init_checkpoint", "input_file", "train_file", "data_dir"):
    if value := settings.get(name):
      watched[name] = value
      if name != "init_checkpoint":
        # The patterns in --input_file are expanded, to detect an added shard.
        paths = tfrecord.find_files(value) if name == "input_file" else [value]
        watched[name] = f"{value} ({file_io.names_and_sizes(paths)})"
  fixed = {"optimizer": settings.optimizer, **fixed}
  return run_folder.TrainedWith(fixed, watched)


def files_to_read(settings: run_settings.Settings) -> dict[str, str]:
  """Returns {phase: path} of the data files that the run reads."""
  return {name: settings.get(f"{name}_file") for name in _phases(settings)}


def require_one_of(settings: run_settings.Settings, *names) -> None:
  """Refuses a command that would do nothing.

  Raises InputError: none of the named boolean flags is true.
  """
  if not any(settings.get(name) for name in names):
    listed = ", ".join(f"--{name}" for name in names)
    raise errors.InputError(f"nothing to do: pass at least one of {listed}")
