"""What a run is made of, from its settings: model, strategy, folder.

Every function takes the run_settings.Settings of the command; none
reads a flag.
"""

import modeling
from common import console, errors, file_io
from records import pipeline, tfrecord
from training import distribution, run_folder
from variants import registry


def model_config(settings):
  """Returns the modeling.BertConfig of --bert_config_file.

  Raises:
    InputError: it cannot be used, --max_seq_length does not fit it, or this
      machine cannot hold the model.
  """
  config = modeling.BertConfig.from_json_file(settings.bert_config_file)
  config.check_sequence_length(settings.max_seq_length)
  config.check_memory(registry.shapes)
  return config


def make_strategy(settings):
  """Returns the tf.distribute.Strategy that the device flags describe.

  Raises:
    InputError: there is none, or its replicas cannot share a batch of a size
      that the flags ask for.
  """
  strategy = distribution.make_strategy(
    settings.distribution_strategy,
    **settings.pick(
      "use_tpu tpu_name tpu_zone gcp_project master num_tpu_cores "
      "num_logical_cpus"
    ),
  )
  for name in _batch_sizes_used(settings):
    pipeline.check_shares(
      settings.get(name), strategy.num_replicas_in_sync, f"--{name}"
    )
  return strategy


def _batch_sizes_used(settings):
  """Returns the names of the flags of batches that there will be."""
  do_train, do_eval, do_predict, eval_steps = (
    name in settings and settings.get(name)
    for name in ("do_train", "do_eval", "do_predict", "eval_steps")
  )
  # Only these are checked: a default that nothing uses must not be refused.
  used = {
    "train_batch_size": do_train,
    "eval_batch_size": do_eval or (do_train and eval_steps),
    "predict_batch_size": do_predict,
  }
  return [name for name in used if used[name]]


def jit_compile(settings) -> bool | None:
  """Returns --jit_compile as True, False, or None for "auto"."""
  return {"auto": None, "true": True, "false": False}[settings.jit_compile]


def shapes_may_vary(settings, strategy) -> bool:
  """Whether batches may be cut to their longest sequence.

  Not where XLA compiles the step: it would compile each length anew.
  """
  jit = jit_compile(settings)
  if jit is None:
    jit = distribution.default_jit_compile(strategy)
  return not jit and not distribution.is_tpu(strategy)


def model_options(settings, strategy):
  """Returns the keyword arguments of modeling.BertModel but its config."""
  return {
    "seed": settings.seed,
    "compute_dtype": distribution.COMPUTE_DTYPES[settings.dtype],
    # As in the original: a TPU looks words up by a matrix product.
    "use_one_hot_embeddings": distribution.is_tpu(strategy),
    "recompute_activations": settings.recompute_activations,
    "skip_padding": shapes_may_vary(settings, strategy),
  }


def check_output_dir(
  settings, task, config, strategy, output_dir=None, **fixed
):
  """Claims the run's folder, as `open_run` does, before anything is written.

  Args:
    task, config, strategy, output_dir, **fixed: see `open_run`.

  Returns:
    The folder (None where there is none to write to), and
    run_folder.TrainedWith or None.
  """
  folder = output_dir or settings.output_dir
  trained_with = _trained_with(settings, fixed)
  if folder and distribution.is_chief(strategy):
    fingerprint = {"task": task, "bert_config": config.to_dict()}
    run_folder.check_output_dir(folder, fingerprint, trained_with)
    console.keep_in(folder)
  return folder, trained_with


def open_run(settings, task, config, strategy, output_dir=None, **fixed):
  """Claims the run's folder and finds out where the run starts.

  Args:
    task: what kind of run this is; another kind's folder is refused.
    config: modeling.BertConfig; another model's folder is refused.
    strategy: only the chief of its processes writes.
    output_dir: the folder; --output_dir if None.
    **fixed: what else must not change while the run trains.

  Returns:
    run_folder.StartingPoint.

  Raises:
    InputError: there are no weights, and the run does not train.
  """
  folder, trained_with = check_output_dir(
    settings, task, config, strategy, output_dir, **fixed
  )
  return starting_point(settings, folder, trained_with)


def starting_point(settings, folder, trained_with=None):
  """Finds out where a run starts, without claiming its folder.

  Args:
    settings: run_settings.Settings.
    folder: of the run, None where nothing is written.
    trained_with: run_folder.TrainedWith, or None.

  Returns:
    run_folder.StartingPoint.

  Raises:
    InputError: there are no weights, and the run does not train.
  """
  start = run_folder.starting_point(
    folder, settings.init_checkpoint, trained_with
  )
  # Unlike the original: it evaluates and predicts with random weights.
  if start.kind == "random" and not settings.do_train:
    where = f"there is no checkpoint in {folder}; " if folder else ""
    raise errors.InputError(
      f"no weights: {where}pass --model_dir or --init_checkpoint, or --do_train"
    )
  return start


def _trained_with(settings, fixed):
  """Returns run_folder.TrainedWith, None where the run does not train."""
  if not settings.do_train:
    return None
  watched = {}
  # By their names; data files by their sizes too.
  for name in ("init_checkpoint", "teacher_checkpoint"):
    if settings.get(name):
      watched[name] = settings.get(name)
  for name in ("input_file", "train_file", "data_dir"):
    if name in settings and settings.get(name):
      value = settings.get(name)
      # Its files are looked up, so that one more shard is noticed.
      is_pattern = name == "input_file"
      paths = tfrecord.find_files(value) if is_pattern else [value]
      watched[name] = f"{value} ({file_io.names_and_sizes(paths)})"
  fixed = {"optimizer": settings.optimizer, **fixed}
  return run_folder.TrainedWith(fixed, watched)


def answers_stream(settings) -> bool:
  """Whether the lines of the standard input are to be answered."""
  return settings.do_predict and settings.predict_file == "-"


def files_to_read(settings) -> dict[str, str | None]:
  """Returns the paths of "train", "eval" and "predict", where asked for."""
  asked = {
    "train": settings.do_train,
    # Evaluations during training need the data, too.
    "eval": settings.do_eval or (settings.do_train and settings.eval_steps),
    # Lines are answered as they come; there is no file to read.
    "predict": settings.do_predict and not answers_stream(settings),
  }
  return {name: settings.get(f"{name}_file") for name in asked if asked[name]}


def require_one_of(settings, *names):
  """Refuses a command that asks for nothing.

  Raises:
    InputError: none of the named boolean flags is true.
  """
  if not any(settings.get(name) for name in names):
    listed = ", ".join(f"--{name}" for name in names)
    raise errors.InputError(f"nothing to do: pass at least one of {listed}")
