"""Flags that several scripts share, in groups, each defined once.

A script calls the groups it uses when it is loaded; a default that differs
from script to script is an argument. Names and defaults are the original's
where it has the flag. Only a script's `main` reads FLAGS.
"""

import functools

from absl import flags, logging

import modeling
import optimization
import tokenization
from checkpoints import huggingface, weight_files
from common import errors, file_io
from training import distribution, evaluation_loop, loop, pipeline, run_folder

# Show these flags in a script's own --help, beside the flags it defines.
flags.disclaim_key_flags()

FLAGS = flags.FLAGS


def define_model_flags(*, max_seq_length=128):
  """Flags that say which model, and where its weights come from."""
  flags.DEFINE_string(
    "bert_config_file", None,
    "JSON file with the model's shape: bert_config.json, or config.json of "
    "Hugging Face.", required=True,
  )
  flags.DEFINE_string(
    "init_checkpoint", None,
    "Weights to start from: a TF1 checkpoint or one of this project (prefix, "
    ".index file or folder), a Hugging Face folder or .safetensors file, or a "
    "Model Garden checkpoint.",
  )
  flags.DEFINE_integer(
    "max_seq_length", max_seq_length,
    "Longest sequence, in word pieces with [CLS] and [SEP]. Data files must "
    "have been written with the same value.", lower_bound=1,
  )


def define_tokenizer_flags():
  """Flags that say how text becomes word pieces."""
  flags.DEFINE_string(
    "vocab_file", None, "Vocabulary, one word piece a line.", required=True
  )
  flags.DEFINE_bool(
    "do_lower_case", True,
    "Whether to lower-case the text and strip accents: true for uncased "
    "models, false for cased ones. If not given, what a tokenizer_config.json "
    "beside --vocab_file says goes before the default.",
  )


def define_output_flags():
  """The folder that a run lives in."""
  flags.DEFINE_string(
    "output_dir", None,
    "Folder of this run's checkpoints, logs and results. A run continues "
    "from the newest complete checkpoint that it finds here.", required=True,
  )


def define_training_flags(*, train_batch_size=32, learning_rate=5e-5):
  """Flags of every training run, whatever its length is measured in."""
  flags.DEFINE_bool("do_train", False, "Whether to train.")
  flags.DEFINE_bool("do_eval", False, "Whether to evaluate.")
  flags.DEFINE_integer(
    "train_batch_size", train_batch_size,
    "Examples in one optimizer step, over all devices together.",
    lower_bound=1,
  )
  flags.DEFINE_integer(
    "eval_batch_size", 8, "Examples in one evaluation batch.", lower_bound=1
  )
  _define_optimizer_flags(learning_rate)
  flags.DEFINE_integer(
    "gradient_accumulation_steps", 1,
    "Each device computes its share of a batch in so many parts, one after "
    "another, to need less memory. Results do not depend on it.",
    lower_bound=1,
  )
  flags.DEFINE_bool(
    "recompute_activations", False,
    "Keep only each layer's input for the gradient and compute the rest "
    "again: less memory, a third more time.",
  )
  flags.DEFINE_integer(
    "iterations_per_loop", 1000,
    "At most so many steps run on the devices before the host is asked.",
    lower_bound=1,
  )
  flags.DEFINE_integer(
    "save_checkpoints_steps", 1000, "A checkpoint every so many steps.",
    lower_bound=1,
  )
  flags.DEFINE_integer(
    "max_to_keep", 5, "How many checkpoints are kept.", lower_bound=1
  )
  flags.DEFINE_integer(
    "log_steps", 100, "Values are logged every so many steps.", lower_bound=1
  )
  flags.DEFINE_integer(
    "max_bad_steps", 10,
    "So many steps in a row without a finite loss and gradient end the run; "
    "single ones are skipped and named.", lower_bound=1,
  )
  flags.DEFINE_list(
    "profile_steps", [],
    "first,last: record these steps for TensorBoard's profiler.",
  )
  flags.DEFINE_integer(
    "seed", 12345,
    "Governs initial weights, order of the examples and dropout: the same "
    "seed gives the same run.",
  )


def define_epoch_flags():
  """Flags that measure the length of a run in passes over the data."""
  flags.DEFINE_float(
    "num_train_epochs", 3.0, "Passes over the training data.",
    lower_bound=0.0,
  )
  flags.DEFINE_float(
    "warmup_proportion", 0.1,
    "Share of the steps in which the learning rate climbs from 0 to its peak.",
    lower_bound=0.0, upper_bound=1.0,
  )
  flags.DEFINE_bool(
    "bucket_by_length", False,
    "Whether a training batch is made of sequences of like length: less "
    "padding to compute, and another order of the examples.",
  )


def define_prediction_flags():
  """Flags of scripts that write predictions."""
  flags.DEFINE_bool("do_predict", False, "Whether to write predictions.")
  flags.DEFINE_integer(
    "predict_batch_size", 8, "Examples in one prediction batch.",
    lower_bound=1,
  )


def _define_optimizer_flags(learning_rate):
  """How far, how and which weights a step moves."""
  flags.DEFINE_float(
    "learning_rate", learning_rate,
    "Peak learning rate: after the warm-up it falls as "
    "--learning_rate_schedule says.",
    lower_bound=0.0,
  )
  flags.DEFINE_enum(
    "learning_rate_schedule", "linear", tuple(optimization.SCHEDULES),
    "How the rate falls after the warm-up. As in the original: linear.",
  )
  flags.DEFINE_enum(
    "optimizer", "bertadam", tuple(optimization.OPTIMIZERS),
    "bertadam: the original's, Adam without bias correction. adamw: with it. "
    "lamb: for very large batches.",
  )
  flags.DEFINE_float(
    "weight_decay_rate", 0.01,
    "Decay of all weights but biases and layer norms.", lower_bound=0.0,
  )
  flags.DEFINE_float(
    "layerwise_lr_decay", 1.0,
    "Each encoder layer learns at this factor of the rate of the one above.",
    lower_bound=0.0, upper_bound=1.0,
  )
  flags.DEFINE_integer(
    "freeze_layers", 0,
    "Keep the embeddings and so many encoder layers, from the lowest, as they "
    "are.", lower_bound=0,
  )
  flags.DEFINE_bool(
    "freeze_encoder", False,
    "Train only the pooler and the heads: freeze every encoder layer. In "
    "run_classifier.py it then drops no units, and its features are kept.",
  )


def define_evaluation_flags():
  """Flags of evaluation during training."""
  flags.DEFINE_integer(
    "eval_steps", 0,
    "Evaluate every so many steps of training, and after the last; 0: only "
    "at the end.",
    lower_bound=0,
  )
  flags.DEFINE_string(
    "save_best", None,
    "Name of an evaluation result: the weights with the best one so far (the "
    "smallest, if the name ends in loss) are kept in output_dir/best_model.",
  )
  flags.DEFINE_integer(
    "early_stopping_patience", 0,
    "Stop after so many evaluations in a row that were not better by "
    "--save_best; 0: never.", lower_bound=0,
  )


def define_device_flags():
  """Flags that say where and in which precision to compute."""
  flags.DEFINE_enum(
    "distribution_strategy", "auto", distribution.STRATEGIES,
    "Where to compute. auto: the TPU with --use_tpu, all workers that "
    "TF_CONFIG names, all GPUs of this machine, or its one device.",
  )
  flags.DEFINE_enum(
    "dtype", "float32", tuple(distribution.COMPUTE_DTYPES),
    "Type of matrix products and activations. Weights, soft-max, layer norm "
    "and loss stay float32; float16 scales the loss.",
  )
  flags.DEFINE_enum(
    "jit_compile", "auto", ("auto", "true", "false"),
    "Whether XLA compiles the training step. auto: on a GPU; elsewhere only "
    "the optimizer's formula.",
  )
  flags.DEFINE_integer(
    "num_logical_cpus", 0,
    "Cuts the CPU into so many devices, to try a distributed run on a "
    "machine without accelerators. 0: leave it whole.", lower_bound=0,
  )
  flags.DEFINE_bool("use_tpu", False, "Whether to compute on a TPU.")
  flags.DEFINE_string(
    "tpu_name", None, "Name or grpc:// address of the TPU."
  )
  flags.DEFINE_string("tpu_zone", None, "Google Cloud zone of the TPU.")
  flags.DEFINE_string("gcp_project", None, "Google Cloud project of the TPU.")
  flags.DEFINE_string(
    "master", None, "Address of the TPU where --tpu_name is not given."
  )
  flags.DEFINE_integer(
    "num_tpu_cores", 8, "How many cores of the TPU to use.", lower_bound=1
  )


def training_length(num_examples):
  """Returns (training steps, warm-up steps) of the epoch flags.

  As in the original: both are rounded down.

  Raises:
    InputError: the data do not make one step.
  """
  batches = num_examples / FLAGS.train_batch_size
  num_train_steps = int(batches * FLAGS.num_train_epochs)
  if not num_train_steps:
    raise errors.InputError(
      f"{num_examples} examples in batches of {FLAGS.train_batch_size} for "
      f"{FLAGS.num_train_epochs} epochs make no step; lower "
      "--train_batch_size or raise --num_train_epochs"
    )
  return num_train_steps, int(num_train_steps * FLAGS.warmup_proportion)


def model_config():
  """Returns the modeling.BertConfig of --bert_config_file.

  Raises:
    InputError: it cannot be used, or --max_seq_length does not fit it.
  """
  values = weight_files.read_config(FLAGS.bert_config_file)
  try:
    config = modeling.BertConfig.from_dict(values)
  except errors.InputError as error:
    raise errors.InputError(f"{FLAGS.bert_config_file}: {error}") from error
  config.check_sequence_length(FLAGS.max_seq_length)
  return config


def settle_case():
  """Sets --do_lower_case, if it is not given, to what --vocab_file comes with.

  To be called before the flag is read; `make_tokenizer` does so.

  Raises:
    InputError: the tokenizer_config.json beside --vocab_file is damaged.
  """
  known = huggingface.read_do_lower_case(FLAGS.vocab_file)
  where = "the tokenizer_config.json beside --vocab_file"
  if known is None:
    return
  if not FLAGS["do_lower_case"].present:
    logging.info("do_lower_case is %s, by %s", known, where)
    FLAGS.do_lower_case = known
  elif FLAGS.do_lower_case != known:
    logging.warning(
      "--do_lower_case=%s was given, but %s says %s", FLAGS.do_lower_case,
      where, known,
    )


def make_tokenizer(config):
  """Returns the tokenization.FullTokenizer of the tokenizer flags.

  Raises:
    InputError: the vocabulary does not fit the model, or --do_lower_case not
      the name of --init_checkpoint.
  """
  settle_case()
  tokenization.validate_case_matches_checkpoint(
    FLAGS.do_lower_case, FLAGS.init_checkpoint
  )
  tokenizer = tokenization.FullTokenizer(
    FLAGS.vocab_file, do_lower_case=FLAGS.do_lower_case
  )
  config.check_vocabulary(len(tokenizer.vocab), FLAGS.vocab_file)
  return tokenizer


def make_strategy():
  """Returns the tf.distribute.Strategy that the device flags describe.

  Raises:
    InputError: there is none, or its replicas cannot share a batch of a size
      that the flags ask for.
  """
  strategy = distribution.make_strategy(
    FLAGS.distribution_strategy,
    use_tpu=FLAGS.use_tpu,
    tpu_name=FLAGS.tpu_name,
    tpu_zone=FLAGS.tpu_zone,
    gcp_project=FLAGS.gcp_project,
    master=FLAGS.master,
    num_tpu_cores=FLAGS.num_tpu_cores,
    num_logical_cpus=FLAGS.num_logical_cpus,
  )
  for name in _batch_sizes_used():
    pipeline.check_shares(
      FLAGS[name].value, strategy.num_replicas_in_sync, f"--{name}"
    )
  return strategy


def _batch_sizes_used():
  """Returns the names of the flags of batches that there will be."""
  do_train, do_eval, do_predict, eval_steps = (
    name in FLAGS and FLAGS[name].value
    for name in ("do_train", "do_eval", "do_predict", "eval_steps")
  )
  used = {
    "train_batch_size": do_train,
    "eval_batch_size": do_eval or (do_train and eval_steps),
    "predict_batch_size": do_predict,
  }
  return [name for name in used if used[name]]


def _jit_compile():
  """Returns --jit_compile as True, False, or None for "auto"."""
  return {"auto": None, "true": True, "false": False}[FLAGS.jit_compile]


def shapes_may_vary(strategy):
  """Whether batches may be cut to their longest sequence.

  Not where XLA compiles the step: it would compile each length anew.
  """
  jit = _jit_compile()
  if jit is None:
    jit = distribution.default_jit_compile(strategy)
  return not jit and not distribution.is_tpu(strategy)


def bucketing(features, strategy):
  """Returns the pipeline.Bucketing of --bucket_by_length, or None.

  Args:
    features: dict from name to a feature of tf.io, of the training records.
    strategy: tf.distribute.Strategy.

  Raises:
    InputError: the flag is given where there are no sequences, or batches
      are not cut to their longest one.
  """
  if not FLAGS.bucket_by_length:
    return None
  if "input_mask" not in features:
    raise errors.InputError(
      "--bucket_by_length has no lengths to go by where the encoder is frozen "
      "and its features are kept: leave it out"
    )
  if not shapes_may_vary(strategy):
    raise errors.InputError(
      "--bucket_by_length saves nothing where XLA compiles the step for one "
      "length: pass --jit_compile=false, or leave it out"
    )
  return pipeline.Bucketing(features, FLAGS.train_batch_size)


def model_options(strategy):
  """Returns the keyword arguments of modeling.BertModel but its config."""
  return {
    "seed": FLAGS.seed,
    "compute_dtype": distribution.COMPUTE_DTYPES[FLAGS.dtype],
    # As in the original: a TPU looks words up by a matrix product.
    "use_one_hot_embeddings": distribution.is_tpu(strategy),
    "recompute_activations": FLAGS.recompute_activations,
  }


def _train_options(num_train_steps, output_dir):
  return loop.TrainOptions(
    output_dir=output_dir,
    num_train_steps=num_train_steps,
    save_checkpoints_steps=FLAGS.save_checkpoints_steps,
    iterations_per_loop=FLAGS.iterations_per_loop,
    log_steps=FLAGS.log_steps,
    batch_size=FLAGS.train_batch_size,
    seed=FLAGS.seed,
    gradient_accumulation_steps=FLAGS.gradient_accumulation_steps,
    jit_compile=_jit_compile(),
    loss_scaling=FLAGS.dtype == "float16",
    max_to_keep=FLAGS.max_to_keep,
    max_bad_steps=FLAGS.max_bad_steps,
    profile_steps=_profile_steps(),
  )


def _profile_steps():
  """Returns --profile_steps as () or (first, last)."""
  texts = FLAGS.profile_steps
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
  logging.info(
    "--seed=%d: of initial weights, order, dropout and masks", FLAGS.seed
  )
  depth = config.num_hidden_layers
  by_name = {optimization.variable_name(v): v for v in trained}
  names = optimization.trainable_names(
    by_name,
    depth,
    freeze_layers=depth if FLAGS.freeze_encoder else FLAGS.freeze_layers,
  )
  optimizer = optimization.make_optimizer(
    FLAGS.optimizer,
    weight_decay_rate=FLAGS.weight_decay_rate,
    rate_multipliers=optimization.learning_rate_multipliers(
      names, depth, FLAGS.layerwise_lr_decay
    ),
    # On a CPU too XLA pays for the formula alone.
    jit_compile=_jit_compile() is not False,
  )
  return loop.Trainer(
    strategy=strategy,
    variables=variables,
    trained=[by_name[name] for name in names],
    objective=objective,
    optimizer=optimizer,
    learning_rate=functools.partial(
      optimization.learning_rate,
      init_lr=FLAGS.learning_rate,
      num_train_steps=num_train_steps,
      num_warmup_steps=num_warmup_steps,
      schedule=FLAGS.learning_rate_schedule,
    ),
    options=_train_options(num_train_steps, output_dir or FLAGS.output_dir),
  )


def periodic_evaluation(evaluate, keep_best, names=None):
  """Returns the evaluation_loop.PeriodicEvaluation of the flags, or None.

  Args:
    evaluate: function without arguments; returns dict from name to number.
    keep_best: function of the step; keeps the weights of now.
    names: of the results, where they are known beforehand.

  Raises:
    InputError: --save_best or patience without --eval_steps, or --save_best
      is not in names.
  """
  if FLAGS.eval_steps:
    return evaluation_loop.PeriodicEvaluation(
      evaluate,
      every_steps=FLAGS.eval_steps,
      metric=FLAGS.save_best,
      patience=FLAGS.early_stopping_patience,
      keep_best=keep_best,
      names=names,
    )
  if FLAGS.save_best or FLAGS.early_stopping_patience:
    raise errors.InputError(
      "--save_best and --early_stopping_patience go by evaluations during "
      "training: pass --eval_steps too"
    )
  return None


def check_output_dir(task, config, strategy, output_dir=None, **fixed):
  """Claims the run's folder, as `open_run` does, before anything is written.

  Args:
    task, config, strategy, output_dir, **fixed: see `open_run`.

  Returns:
    The folder, and run_folder.TrainedWith or None.
  """
  folder, trained_with = output_dir or FLAGS.output_dir, _trained_with(fixed)
  if distribution.is_chief(strategy):
    fingerprint = {"task": task, "bert_config": config.to_dict()}
    run_folder.claim(folder, fingerprint, trained_with)
  return folder, trained_with


def open_run(task, config, strategy, output_dir=None, **fixed):
  """Claims the run's folder and finds out where the run starts.

  Args:
    task: what kind of run this is; another kind's folder is refused.
    config: modeling.BertConfig; another model's folder is refused.
    strategy: only the chief of its processes writes.
    output_dir: the folder; --output_dir if None.
    **fixed: what else must not change while the run trains.

  Returns:
    run_folder.StartingPoint.
  """
  folder, trained_with = check_output_dir(
    task, config, strategy, output_dir, **fixed
  )
  return run_folder.starting_point(folder, FLAGS.init_checkpoint, trained_with)


def _trained_with(fixed):
  """Returns run_folder.TrainedWith, None where the run does not train."""
  if not FLAGS.do_train:
    return None
  watched = {}
  if FLAGS.init_checkpoint:
    watched["init_checkpoint"] = FLAGS.init_checkpoint
  for name in ("input_file", "train_file", "data_dir"):
    if name in FLAGS and FLAGS[name].value:
      value = FLAGS[name].value
      is_pattern = name == "input_file"
      paths = file_io.expand_file_patterns(value) if is_pattern else [value]
      watched[name] = f"{value} ({file_io.names_and_sizes(paths)})"
  fixed = {"optimizer": FLAGS.optimizer, **fixed}
  return run_folder.TrainedWith(fixed, watched)


def require_one_of(*names):
  """Refuses a command that asks for nothing.

  Raises:
    InputError: none of the named boolean flags is true.
  """
  if not any(FLAGS[name].value for name in names):
    listed = ", ".join(f"--{name}" for name in names)
    raise errors.InputError(f"nothing to do: pass at least one of {listed}")
