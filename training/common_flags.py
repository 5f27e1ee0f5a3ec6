"""Defines groups of flags that several scripts share.

A script calls one function for each group that it needs. Arguments set what
differs between scripts, such as defaults. Flags of the original keep their
names and defaults. This module needs no TensorFlow, so --help is fast.
"""

import os

from absl import logging

from checkpoints import model_flags
from common import command, errors, extension_flags, flag_values, flags
from variants import points

_DEFAULT_FOLDER = "bert_output"


def define_output_flags(*, required: bool = True) -> None:
  """Defines --output_dir, the folder of a run."""
  flags.DEFINE_string(
    "output_dir",
    None,
    "Folder of this run's checkpoints, logs and results. If it has complete "
    "checkpoints, the run continues from the newest one."
    + (not required)
    * f" By default {_DEFAULT_FOLDER} or, if another command "
    f"used it, {_DEFAULT_FOLDER}_2 and so on.",
    required=required,
  )


def define_training_flags() -> None:
  """Defines the flags of all training runs, except for their length."""
  flags.DEFINE_bool("do_train", False, "Whether to train.")
  flags.DEFINE_bool("do_eval", False, "Whether to evaluate.")
  flags.DEFINE_integer(
    "train_batch_size",
    32,
    "Examples per optimizer step, on all devices together.",
    lower_bound=1,
  )
  flags.DEFINE_integer(
    "eval_batch_size", 8, "Examples per evaluation batch.", lower_bound=1
  )
  _define_optimizer_flags()
  flags.DEFINE_integer(
    "gradient_accumulation_steps",
    1,
    "Split each device's share of a batch into N parts that run one after "
    "another, to save memory. Results change only through dropout.",
    lower_bound=1,
    needs="do_train",
  )
  flags.DEFINE_bool(
    "recompute_activations",
    False,
    "Store only each layer's input for the backward pass, and recompute the "
    "other activations. This saves memory and takes a third more time.",
  )
  flags.rule(
    "recompute_activations layerwise_lr_decay freeze_layers",
    needs="do_train",
    not_with="freeze_encoder",
    why=", which trains no layer",
  )
  _define_step_flags()


def _define_step_flags() -> None:
  flags.DEFINE_integer(
    # Unlike the original: this applies to all devices, not only to TPUs.
    "iterations_per_loop",
    1000,
    "Maximum number of steps that the devices run without the host.",
    lower_bound=1,
  )
  flags.DEFINE_integer(
    "save_checkpoints_steps",
    1000,
    "Save a checkpoint every N steps.",
    lower_bound=1,
  )
  flags.DEFINE_integer(
    # As in the original: this is TensorFlow's default.
    "max_to_keep",
    5,
    "Number of checkpoints to keep.",
    lower_bound=1,
    needs="do_train",
  )
  flags.DEFINE_integer(
    "log_steps",
    100,
    "Log the loss and other metrics of training every N steps. For fewer than "
    "10,000 steps, the default is a hundredth of the steps (at least 1).",
    lower_bound=1,
    needs="do_train",
  )
  flags.DEFINE_integer(
    "stop_step",
    0,
    "Stop at this step of the schedule and save a checkpoint; 0: off. To "
    "continue, repeat the command with a larger value or 0.",
    lower_bound=0,
    needs="do_train",
  )
  flags.DEFINE_integer(
    "max_bad_steps",
    10,
    "End the run after N consecutive steps whose loss or gradient is not "
    "finite. Such steps are skipped and logged.",
    lower_bound=1,
    needs="do_train",
  )
  flags.DEFINE_list(
    "profile_steps",
    [],
    "first,last: steps to record for TensorBoard's profiler.",
    needs="do_train",
  )
  flags.DEFINE_integer(
    # Unlike the original: there, training has no seed, and all runs differ.
    "seed",
    12345,
    "Seed of all random choices, such as initial weights, the order of the "
    "examples and dropout. Equal seeds give equal runs.",
  )


def define_epoch_flags() -> None:
  """Defines the flags for the length of a run in passes over the data."""
  flags.DEFINE_float(
    "num_train_epochs",
    3.0,
    "Passes over the training data.",
    lower_bound=0.0,
    upper_bound=1e6,
  )
  flags.DEFINE_integer(
    "max_train_steps",
    0,
    "Train for at most this many steps, and end the learning rate schedule "
    "there. 0: train for --num_train_epochs.",
    lower_bound=0,
  )
  flags.DEFINE_float(
    "warmup_proportion",
    0.1,
    # As in the original: above 1 the rate rises until the end of the run.
    "Fraction of the steps during which the learning rate rises to its peak.",
    lower_bound=0.0,
    upper_bound=1e6,
  )
  flags.DEFINE_bool(
    "bucket_by_length",
    False,
    "Whether to group sequences of similar length into training batches. This "
    "saves padding, but changes the order of the examples.",
    needs="do_train",
  )


def define_prediction_flags() -> None:
  """Defines the flags of scripts that write predictions."""
  flags.DEFINE_bool("do_predict", False, "Whether to write predictions.")
  flags.DEFINE_integer(
    "predict_batch_size",
    8,
    "Examples per prediction batch. Batches of short examples may be larger.",
    lower_bound=1,
  )


def _define_optimizer_flags() -> None:
  """Defines the flags for learning rate, optimizer and frozen weights."""
  flags.DEFINE_float(
    "learning_rate",
    5e-5,
    "Peak learning rate, at the end of the warm-up. --learning_rate_schedule "
    "sets the rate after it.",
    lower_bound=0.0,
  )
  flags.DEFINE_enum(
    "learning_rate_schedule",
    "linear",
    flag_values.LEARNING_RATE_SCHEDULES,
    "How the rate changes after the warm-up; google-research/bert uses linear.",
    needs="do_train",
  )
  flags.DEFINE_enum(
    "optimizer",
    "bertadam",
    flag_values.OPTIMIZERS,
    "bertadam: Adam of google-research/bert, without bias correction. adamw: "
    "with bias correction. lamb: for very large batches.",
    needs="do_train",
  )
  flags.DEFINE_float(
    # As in the original: the defaults of this flag and the next two.
    "adam_beta2",
    0.999,
    "Decay rate of the second moment. 0.98 suits large batches.",
    lower_bound=0.0,
    upper_bound=0.999999,
    needs="do_train",
  )
  flags.DEFINE_float(
    "adam_epsilon",
    1e-6,
    "Added to the square root of the second moment.",
    lower_bound=1e-12,
    needs="do_train",
  )
  flags.DEFINE_float(
    "weight_decay_rate",
    0.01,
    "Weight decay, applied to all weights except biases and layer norms.",
    lower_bound=0.0,
    needs="do_train",
  )
  flags.DEFINE_float(
    "layerwise_lr_decay",
    1.0,
    "The learning rate of each encoder layer is this factor times the rate of "
    "the layer above it. 1: no decay.",
    lower_bound=0.0,
    upper_bound=1.0,
  )
  flags.DEFINE_integer(
    "freeze_layers",
    0,
    "Freeze the embeddings and the N lowest encoder layers. 0: freeze nothing.",
    lower_bound=0,
  )
  flags.DEFINE_bool(
    "freeze_encoder",
    False,
    "Train only the pooler and the heads: freeze the embeddings and all "
    "encoder layers. In run_classifier.py the frozen encoder has no dropout, "
    "and its features are computed once and stored.",
  )


def define_evaluation_flags() -> None:
  """Defines the flags of evaluation during training."""
  flags.DEFINE_integer(
    "eval_steps",
    0,
    "Evaluate every N steps of training and after the last step. 0: only after "
    "training.",
    lower_bound=0,
    needs="do_train",
  )
  flags.DEFINE_string(
    "save_best",
    None,
    "Evaluation metric that selects the weights in output_dir/best_model: the "
    'largest value, or the smallest if the name ends in "loss".',
    needs="do_train eval_steps",
  )
  flags.DEFINE_integer(
    "early_stopping_patience",
    0,
    "Stop after N consecutive evaluations without a new best value of the "
    "--save_best metric. 0: never.",
    lower_bound=0,
    needs="do_train eval_steps save_best",
  )


def define_device_flags() -> None:
  """Defines the flags for the devices and the precision."""
  flags.DEFINE_enum(
    "distribution_strategy",
    "auto",
    flag_values.DISTRIBUTION_STRATEGIES,
    "Devices to use. auto: with --use_tpu the TPU; else all workers that "
    "TF_CONFIG names; else all GPUs of this machine; else its CPU.",
  )
  flags.DEFINE_enum(
    "dtype",
    "float32",
    flag_values.DTYPES,
    "dtype of matrix products and activations. Weights, softmax, layer norm "
    "and loss stay float32. With float16, the loss is scaled.",
  )
  flags.DEFINE_enum(
    "jit_compile",
    "auto",
    ("auto", "true", "false"),
    "Whether XLA compiles the training step. auto: on a GPU the whole step, on "
    "a CPU only LAMB's update.",
  )
  flags.DEFINE_integer(
    "num_logical_cpus",
    0,
    "Split the CPU into N devices, to try a distributed run on a machine "
    "without accelerators. 0: one device.",
    lower_bound=0,
  )
  flags.DEFINE_bool("use_tpu", False, "Whether to compute on a TPU.")
  flags.DEFINE_string("tpu_name", None, "Name or grpc:// address of the TPU.")
  flags.DEFINE_string("tpu_zone", None, "Google Cloud zone of the TPU.")
  flags.DEFINE_string("gcp_project", None, "Google Cloud project of the TPU.")
  flags.DEFINE_string(
    "master", None, "Address of the TPU if --tpu_name is not given."
  )
  flags.DEFINE_integer(
    "num_tpu_cores", 8, "Number of TPU cores to use.", lower_bound=1
  )


def define_fine_tuning_flags(*, head: str = "", required: bool = True) -> None:
  """Defines the flags of fine-tuning; `required`: model flags are required."""
  model_flags.define(head=head, required=required)
  extension_flags.define(
    points.TOPS,
    "New network between the encoder and the head, which training adds. A "
    "trained model's configuration has it.",
  )
  flags.rule("on_top", needs="do_train", not_with="freeze_encoder")
  define_output_flags(required=False)
  define_training_flags()
  define_epoch_flags()
  define_evaluation_flags()
  define_prediction_flags()
  define_device_flags()
  command.check_early(_choose_output_dir)


def _choose_output_dir() -> None:
  """Sets --output_dir, if it is not given: see its help."""
  values = flags.FLAGS
  if values.output_dir or not (
    values.do_train or values.do_eval or values.do_predict
  ):
    return
  if "TF_CONFIG" in os.environ:
    raise errors.InputError(
      "pass --output_dir, the same folder for all processes of TF_CONFIG"
    )
  # Imported here, because --help does not need it.
  from common import console

  folder, number = _DEFAULT_FOLDER, 1
  while os.path.exists(folder) and not flags.are_of_run(folder):
    number += 1
    folder = f"{_DEFAULT_FOLDER}_{number}"
  # Assigned like a default, so the flag does not count as given.
  values["output_dir"].value = folder
  console.when_kept.append(
    lambda folder: logging.info("--output_dir is not given: it is %s", folder)
  )
