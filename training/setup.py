"""What a run is made of, from its settings: tokenizer, strategy, trainer.

Every function takes the run_settings.Settings of the command; none
reads a flag.
"""

import functools

from absl import logging

import layers
import modeling
import optimization
from common import console, errors, file_io, tfrecord
from training import distribution, evaluation_loop, loop, pipeline, run_folder
from variants import registry


def training_length(settings, num_examples):
  """Returns (training steps, warm-up steps) of the epoch flags.

  As in the original: both are rounded down.

  Raises:
    InputError: the data do not make one step.
  """
  # MRPC's 3,668 examples in batches of 32 for 3 epochs: 343 steps, of them 34
  # of warm-up.
  batches = num_examples / settings.train_batch_size
  num_train_steps = int(batches * settings.num_train_epochs)
  if not num_train_steps:
    raise errors.InputError(
      f"{num_examples} examples in batches of {settings.train_batch_size} for "
      f"{settings.num_train_epochs} epochs make no step; lower "
      "--train_batch_size or raise --num_train_epochs"
    )
  # With its own schedule: the rate falls to 0 at that step.
  if settings.max_train_steps:
    num_train_steps = min(num_train_steps, settings.max_train_steps)
  return num_train_steps, int(num_train_steps * settings.warmup_proportion)


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
    use_tpu=settings.use_tpu,
    tpu_name=settings.tpu_name,
    tpu_zone=settings.tpu_zone,
    gcp_project=settings.gcp_project,
    master=settings.master,
    num_tpu_cores=settings.num_tpu_cores,
    num_logical_cpus=settings.num_logical_cpus,
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


def _jit_compile(settings):
  """Returns --jit_compile as True, False, or None for "auto"."""
  return {"auto": None, "true": True, "false": False}[settings.jit_compile]


def shapes_may_vary(settings, strategy):
  """Whether batches may be cut to their longest sequence.

  Not where XLA compiles the step: it would compile each length anew.
  """
  jit = _jit_compile(settings)
  if jit is None:
    jit = distribution.default_jit_compile(strategy)
  return not jit and not distribution.is_tpu(strategy)


def bucketing(settings, features, strategy):
  """Returns the pipeline.Bucketing of --bucket_by_length, or None.

  Args:
    features: dict from name to a feature of tf.io, of the training records.
    strategy: tf.distribute.Strategy.

  Raises:
    InputError: the flag is given where there are no sequences, or batches
      are not cut to their longest one.
  """
  if not settings.bucket_by_length:
    return None
  if "input_mask" not in features:
    raise errors.InputError(
      "--bucket_by_length has no lengths to go by where the encoder is frozen "
      "and its features are kept: leave it out"
    )
  if not shapes_may_vary(settings, strategy):
    raise errors.InputError(
      "--bucket_by_length saves nothing where XLA compiles the step for one "
      "length: pass --jit_compile=false, or leave it out"
    )
  return pipeline.Bucketing(features, settings.train_batch_size)


def packing(
  settings, strategy, files, features, *, num_records, num_train_steps
):
  """Returns the packing.Packing of --pack_sequences, or None.

  Args:
    strategy: tf.distribute.Strategy.
    files: TFRecord files to train on.
    features: dict from name to a feature of tf.io, of their records.
    num_records: how many they hold.
    num_train_steps: length of the whole run.

  Raises:
    InputError: the flag is given where there are no sequences, or padding is
      not computed.
  """
  if not settings.pack_sequences:
    return None
  if "input_mask" not in features:
    raise errors.InputError(
      "--pack_sequences has nothing to pack where the encoder is frozen and "
      "its features are kept: leave it out"
    )
  if shapes_may_vary(settings, strategy):
    raise errors.InputError(
      "--pack_sequences saves nothing where XLA does not compile the step, "
      "since little is computed for padding there: pass --jit_compile=true, or "
      "leave it out"
    )
  measured = pipeline.measure_packing(
    files,
    features,
    num_records=num_records,
    batch_size=settings.train_batch_size,
    seed=settings.seed,
    num_steps=num_train_steps,
    replicas=strategy.num_replicas_in_sync,
    parts=settings.gradient_accumulation_steps,
  )
  if not measured:
    logging.warning(
      "--pack_sequences: there is a batch none of whose sequences fit into one "
      "row of %d; nothing is packed", settings.max_seq_length,
    )
    return None
  logging.info("--pack_sequences: %s", measured)
  return measured.packing


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


def _train_options(settings, num_train_steps, output_dir):
  return loop.TrainOptions(
    output_dir=output_dir,
    num_train_steps=num_train_steps,
    save_checkpoints_steps=settings.save_checkpoints_steps,
    iterations_per_loop=settings.iterations_per_loop,
    log_steps=_log_steps(settings, num_train_steps),
    batch_size=settings.train_batch_size,
    seed=settings.seed,
    gradient_accumulation_steps=settings.gradient_accumulation_steps,
    jit_compile=_jit_compile(settings),
    # bfloat16 has float32's range: its gradients do not underflow.
    loss_scaling=settings.dtype == "float16",
    max_to_keep=settings.max_to_keep,
    max_bad_steps=settings.max_bad_steps,
    profile_steps=_profile_steps(settings),
  )


def _log_steps(settings, num_train_steps):
  """Returns --log_steps; the curve of a short run has a hundred points, too."""
  if "log_steps" in settings.given:
    return settings.log_steps
  return max(1, min(settings.log_steps, num_train_steps // 100))


def _profile_steps(settings):
  """Returns --profile_steps as () or (first, last)."""
  texts = settings.profile_steps
  if not texts:
    return ()
  are_numbers = len(texts) == 2 and all(text.isdecimal() for text in texts)
  if not are_numbers or int(texts[0]) >= int(texts[1]):
    raise errors.InputError(
      f"--profile_steps={','.join(texts)}: expected two numbers, the first "
      "one smaller, say 10,20"
    )
  return int(texts[0]), int(texts[1])


def make_trainer(
  settings,
  variables,
  *,
  trained,
  config,
  strategy,
  objective,
  num_train_steps,
  num_warmup_steps,
  output_dir=None,
):
  """Returns the loop.Trainer that the training flags describe.

  Args:
    variables: all of the model's tf.Variables.
    trained: those that the loss reaches; they are trained unless a flag
      freezes them.
    config: modeling.BertConfig.
    strategy: the strategy in whose scope the model was made.
    objective: loop.Objective.
    num_train_steps, num_warmup_steps: length of the run, in optimizer steps.
    output_dir: folder of the run; --output_dir if None.
  """
  logging.debug(
    "--seed=%d: of initial weights, order, dropout and masks", settings.seed
  )
  registry.check_layer_rates(
    config, settings.freeze_layers, settings.layerwise_lr_decay
  )
  depth = config.num_hidden_layers
  # Without the marks of replicas, which the flags' rules do not know.
  by_name = {layers.variable_name(v): v for v in trained}
  names = optimization.trainable_names(
    by_name,
    depth,
    # All layers frozen is what --freeze_encoder means.
    freeze_layers=depth if settings.freeze_encoder else settings.freeze_layers,
  )
  optimizer = optimization.make_optimizer(
    settings.optimizer,
    weight_decay_rate=settings.weight_decay_rate,
    beta_2=settings.adam_beta2,
    epsilon=settings.adam_epsilon,
    rate_multipliers=optimization.learning_rate_multipliers(
      names, depth, settings.layerwise_lr_decay
    ),
    # On a CPU too XLA pays for LAMB's formula alone.
    jit_compile=_jit_compile(settings) is not False
    and (settings.optimizer == "lamb"
         or not shapes_may_vary(settings, strategy)),
  )
  return loop.Trainer(
    strategy=strategy,
    variables=variables,
    trained=[by_name[name] for name in names],
    objective=objective,
    optimizer=optimizer,
    learning_rate=functools.partial(
      optimization.learning_rate,
      init_lr=settings.learning_rate,
      num_train_steps=num_train_steps,
      num_warmup_steps=num_warmup_steps,
      schedule=settings.learning_rate_schedule,
    ),
    options=_train_options(
      settings, num_train_steps, output_dir or settings.output_dir
    ),
  )


def periodic_evaluation(settings, evaluate, keep_best, names=None):
  """Returns the evaluation_loop.PeriodicEvaluation of the flags, or None.

  Args:
    evaluate: function without arguments; returns dict from name to number.
    keep_best: function of the step; keeps the weights of now.
    names: of the results, where they are known beforehand.

  Raises:
    InputError: --save_best or patience without --eval_steps, or --save_best
      is not in names.
  """
  if settings.eval_steps:
    return evaluation_loop.PeriodicEvaluation(
      evaluate,
      every_steps=settings.eval_steps,
      metric=settings.save_best,
      patience=settings.early_stopping_patience,
      keep_best=keep_best,
      names=names,
    )
  if settings.save_best or settings.early_stopping_patience:
    raise errors.InputError(
      "--save_best and --early_stopping_patience go by evaluations during "
      "training: pass --eval_steps too"
    )
  return None


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
