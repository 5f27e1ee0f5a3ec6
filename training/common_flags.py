"""Flags that several scripts share, in groups, each defined once.

A script calls the groups it uses when it is loaded; a default that differs
from script to script is an argument. Names and defaults are the original's
where it has the flag. Nothing here needs TensorFlow: --help answers at once.
"""

from common import choices, command, errors, file_io, flags
from training import repeated_runs


def _check_model_dir():
  # Imported here: --help needs none of it.
  from checkpoints import model_folder

  folder = flags.FLAGS.model_dir
  if folder and not file_io.is_remote(folder):
    model_folder.find(folder)


def define_model_flags(*, max_seq_length=128, required=True):
  """Flags that say which model, and where its weights come from."""
  flags.DEFINE_string(
    "bert_config_file", None,
    "The model's shape: bert_config.json, or config.json of Hugging Face.",
  )
  define_model_dir_flag(
    "--bert_config_file, --vocab_file and --init_checkpoint"
  )
  if required:
    require_or_model_dir("bert_config_file")
  flags.DEFINE_string(
    "init_checkpoint", None,
    "Weights to start from: a TF1 checkpoint or one of this project (prefix, "
    ".index file or folder), a Hugging Face folder or .safetensors file, or a "
    "Model Garden checkpoint.",
  )
  flags.DEFINE_integer(
    "max_seq_length", max_seq_length,
    "Longest sequence in word pieces, [CLS] and [SEP] included; by default at "
    "most the model's positions. As data files were made.", lower_bound=1,
  )


def define_model_dir_flag(replaced):
  """--model_dir; `replaced` names the flags that it sets."""
  flags.DEFINE_string(
    "model_dir", None,
    f"Folder with a model: sets {replaced}, each unless it is given itself.",
  )
  command.check_early(_check_model_dir)


def define_text_flag():
  """--input_file of scripts that read whole texts."""
  flags.DEFINE_string(
    "input_file", None,
    "Text files to read: names or glob patterns, separated by commas.",
    required=True,
  )


def define_masking_flags(note=""):
  """Flags that say which tokens are masked; `note` says in which records."""
  flags.DEFINE_integer(
    # As in the original: there may be more predictions than tokens, or none.
    "max_predictions_per_seq", 20,
    "Most masked tokens of a record: the same for create_pretraining_data.py "
    "and run_pretraining.py. 0: next sentences alone.", lower_bound=0,
    upper_bound=1 << 16,
  )
  flags.DEFINE_float(
    "masked_lm_prob", 0.15, f"Fraction of the tokens that are masked{note}.",
    lower_bound=0.0, upper_bound=1.0,
  )
  flags.DEFINE_bool(
    "do_whole_word_mask", False,
    f"Mask all pieces of a word together instead of single pieces{note}.",
    not_with="mask_runs", why=", whose runs are of whole words",
  )
  flags.DEFINE_enum(
    "mask_runs", None, choices.MASKED_RUNS,
    f"Mask runs of whole words{note}: spans as in SpanBERT (1 to 10 words, "
    "replaced together), ngrams as in ALBERT (1 to 3 words).",
  )
  flags.DEFINE_list(
    "mask_shares", ["80", "10", "10"],
    "Per cent of the masked tokens that become [MASK], stay as they are, and "
    "become random tokens.",
  )


def require_or_model_dir(name):
  """Refuses a script without a flag, unless --model_dir replaces it."""
  flags.register_multi_flags_validator(
    [name, "model_dir"], lambda values: values[name] or values["model_dir"],
    f"Flag --{name} must have a value, or --model_dir.",
  )


def define_tokenizer_flags(*, required=True):
  """Flags that say how text becomes word pieces."""
  flags.DEFINE_string(
    "vocab_file", None,
    "One word piece per line, or ALBERT's SentencePiece model (*.model).",
  )
  if required:
    require_or_model_dir("vocab_file")
  flags.DEFINE_bool(
    "do_lower_case", True,
    "Whether to lower-case the text and strip accents: true for uncased "
    "models, false for cased ones. If not given: as the tokenizer_config.json "
    "next to --vocab_file says, if there is one.",
  )
  flags.DEFINE_list(
    "never_split", [],
    "Tokens of the vocabulary, such as C++, that stay whole between white "
    "space: as they stand, or as the text is lower-cased. If neither flag is "
    "given: as the tokenizer_config.json next to --vocab_file says.",
  )
  flags.DEFINE_string(
    "never_split_file", None, "More of them, in a file with one a line."
  )


def define_output_flags(*, required=True):
  """The folder of a run."""
  flags.DEFINE_string(
    "output_dir", None,
    "Folder of this run's checkpoints, logs and results. A run continues from "
    "the newest complete checkpoint that it finds here.", required=required,
  )


def define_training_flags():
  """Flags of every training run, except for its length."""
  flags.DEFINE_bool("do_train", False, "Whether to train.")
  flags.DEFINE_bool("do_eval", False, "Whether to evaluate.")
  flags.DEFINE_integer(
    "train_batch_size", 32,
    "Examples in one optimizer step, over all devices together.", lower_bound=1,
  )
  flags.DEFINE_integer(
    "eval_batch_size", 8, "Examples in one evaluation batch.", lower_bound=1
  )
  _define_optimizer_flags()
  flags.DEFINE_integer(
    "gradient_accumulation_steps", 1,
    "Number of parts in which each device computes its share of a batch, one "
    "after another, to need less memory. Results do not depend on it.",
    lower_bound=1, needs="do_train",
  )
  flags.DEFINE_bool(
    "recompute_activations", False,
    "Keep only each layer's input for the gradient and recompute the rest: "
    "less memory, a third more time.", needs="do_train",
    not_with="freeze_encoder", why=", which trains no layer",
  )
  flags.DEFINE_bool(
    "pack_sequences", False,
    "Where XLA compiles the step, or on a TPU: compute several short sequences "
    "in one row of --max_seq_length. Losses and gradients stay those of the "
    "same examples; dropout drops other units.", needs="do_train",
  )
  flags.DEFINE_integer(
    # Unlike the original: on every device; there it is for TPUs alone.
    "iterations_per_loop", 1000,
    "Largest number of steps that run on the devices without the host.",
    lower_bound=1,
  )
  flags.DEFINE_integer(
    "save_checkpoints_steps", 1000, "Save a checkpoint every N steps.",
    lower_bound=1,
  )
  flags.DEFINE_integer(
    # As in the original: it keeps what TensorFlow keeps by default.
    "max_to_keep", 5, "Number of checkpoints to keep.", lower_bound=1,
    needs="do_train",
  )
  flags.DEFINE_integer(
    "log_steps", 100,
    "Log the values of training every N steps; if not given, every hundredth "
    "part of a run that is shorter than 10,000 steps.",
    lower_bound=1, needs="do_train",
  )
  flags.DEFINE_integer(
    "stop_step", 0,
    "Save and end at this step of the schedule; the same command with a larger "
    "one, or none, goes on. 0: at the end.", lower_bound=0, needs="do_train",
  )
  flags.DEFINE_integer(
    "max_bad_steps", 10,
    "End the run after N consecutive steps without a finite loss and "
    "gradient; fewer are skipped and named.", lower_bound=1, needs="do_train",
  )
  flags.DEFINE_list(
    "profile_steps", [],
    "first,last: steps to record for TensorBoard's profiler.", needs="do_train",
  )
  flags.DEFINE_integer(
    # Unlike the original: there a training has no seed, and no two are alike.
    "seed", 12345,
    "Of initial weights, order and dropout: the same seed, the same run.",
  )


def define_epoch_flags():
  """Flags that measure the length of a run in passes over the data."""
  flags.DEFINE_float(
    "num_train_epochs", 3.0, "Passes over the training data.",
    lower_bound=0.0, upper_bound=1e6,
  )
  flags.DEFINE_integer(
    "max_train_steps", 0,
    "End after this many steps, with a schedule of that length; 0: after "
    "--num_train_epochs.", lower_bound=0,
  )
  flags.DEFINE_float(
    "warmup_proportion", 0.1,
    # As in the original: above 1 the rate rises until the end of the run.
    "Share of the steps in which the learning rate rises from 0 to its peak.",
    lower_bound=0.0, upper_bound=1e6,
  )
  flags.DEFINE_bool(
    "bucket_by_length", False,
    "Whether training batches are made of sequences of similar length: less "
    "padding to compute, but another order of the examples.", needs="do_train",
  )


def define_prediction_flags():
  """Flags of scripts that write predictions."""
  flags.DEFINE_bool("do_predict", False, "Whether to write predictions.")
  flags.DEFINE_integer(
    "predict_batch_size", 8,
    "Examples in one prediction batch; of short ones more, where shapes vary.",
    lower_bound=1,
  )


def _define_optimizer_flags():
  """Learning rate, optimizer and frozen weights."""
  flags.DEFINE_float(
    "learning_rate", 5e-5,
    "Peak learning rate: after the warm-up it falls as "
    "--learning_rate_schedule says.", lower_bound=0.0,
  )
  flags.DEFINE_enum(
    "learning_rate_schedule", "linear", choices.LEARNING_RATE_SCHEDULES,
    "How the rate falls after the warm-up. As in the original: linear.",
    needs="do_train",
  )
  flags.DEFINE_enum(
    "optimizer", "bertadam", choices.OPTIMIZERS,
    "bertadam: the original's, Adam without bias correction. adamw: with it. "
    "lamb: for very large batches.", needs="do_train",
  )
  flags.DEFINE_float(
    # As in the original: there these three values are constants.
    "adam_beta2", 0.999,
    "How much of the second moment each step keeps; 0.98 for large batches.",
    lower_bound=0.0, upper_bound=0.999999, needs="do_train",
  )
  flags.DEFINE_float(
    "adam_epsilon", 1e-6, "What is added to the root of the second moment.",
    lower_bound=1e-12, needs="do_train",
  )
  flags.DEFINE_float(
    "weight_decay_rate", 0.01,
    "Decay of all weights except biases and layer norms.", lower_bound=0.0,
    needs="do_train",
  )
  flags.DEFINE_float(
    "layerwise_lr_decay", 1.0,
    "Learning rate of each encoder layer, as a factor of that of the layer "
    "above.", lower_bound=0.0, upper_bound=1.0, needs="do_train",
    not_with="freeze_encoder", why=", which trains no layer",
  )
  flags.DEFINE_integer(
    "freeze_layers", 0,
    "Freeze the embeddings and the N lowest encoder layers. 0: freeze nothing.",
    lower_bound=0, needs="do_train", not_with="freeze_encoder",
    why=", which trains no layer",
  )
  flags.DEFINE_bool(
    "freeze_encoder", False,
    "Train only the pooler and the heads: freeze every encoder layer. In "
    "run_classifier.py the frozen encoder has no dropout, and its features are "
    "computed once and stored.",
  )


def define_evaluation_flags():
  """Flags of evaluation during training."""
  flags.DEFINE_integer(
    "eval_steps", 0,
    "Evaluate every N steps of training, and after the last; 0: only at the "
    "end.", lower_bound=0, needs="do_train",
  )
  flags.DEFINE_string(
    "save_best", None,
    "Name of an evaluation result: the weights with its best value so far (the "
    "smallest, if the name ends in loss) are kept in output_dir/best_model.",
    needs="do_train eval_steps",
  )
  flags.DEFINE_integer(
    "early_stopping_patience", 0,
    "Stop after N consecutive evaluations without a better --save_best; 0: "
    "never.", lower_bound=0, needs="do_train eval_steps save_best",
  )


def define_device_flags():
  """Flags that say where and in which precision to compute."""
  flags.DEFINE_enum(
    "distribution_strategy", "auto", choices.DISTRIBUTION_STRATEGIES,
    "Where to compute. auto: the TPU with --use_tpu, all workers that "
    "TF_CONFIG names, all GPUs of this machine, or its one device.",
  )
  flags.DEFINE_enum(
    "dtype", "float32", choices.DTYPES,
    "Type of matrix products and activations. Weights, soft-max, layer norm "
    "and loss stay float32; float16 scales the loss.",
  )
  flags.DEFINE_enum(
    "jit_compile", "auto", ("auto", "true", "false"),
    "Whether XLA compiles the step. auto: on a GPU; elsewhere LAMB's formula.",
  )
  flags.DEFINE_integer(
    "num_logical_cpus", 0,
    "Split the CPU into N devices, to try a distributed run on a machine "
    "without accelerators. 0: one device.", lower_bound=0,
  )
  flags.DEFINE_bool("use_tpu", False, "Whether to compute on a TPU.")
  flags.DEFINE_string("tpu_name", None, "Name or grpc:// address of the TPU.")
  flags.DEFINE_string("tpu_zone", None, "Google Cloud zone of the TPU.")
  flags.DEFINE_string("gcp_project", None, "Google Cloud project of the TPU.")
  flags.DEFINE_string(
    "master", None, "Address of the TPU where --tpu_name is not given."
  )
  flags.DEFINE_integer(
    "num_tpu_cores", 8, "Number of TPU cores to use.", lower_bound=1
  )


def define_fine_tuning_flags(*, max_seq_length=128, required=True):
  """Flags of scripts that fine-tune; `required`: every use needs a model."""
  define_model_flags(max_seq_length=max_seq_length, required=required)
  define_tokenizer_flags(required=required)
  define_output_flags(required=False)
  define_training_flags()
  define_epoch_flags()
  define_evaluation_flags()
  define_prediction_flags()
  define_device_flags()
  flags.DEFINE_bool(
    "bilstm_on_top", False,
    "Adds a new BiLSTM to the model: it reads the last layer's states, and the "
    "head reads its own (BERT's paper, table 5). A trained model has it by "
    "itself.",
  )
  flags.rule("do_train do_eval", needs="output_dir")
  # Lines of the standard input write no file.
  flags.rule("do_predict", needs="output_dir|predict_file=-")


def _check_search():
  values = flags.FLAGS
  given_flags = {name for name in values if values[name].present}
  repeated_runs.parse_search(
    values.search, lambda name, text: values[name].parser.parse(text),
    given_flags,
  )
  if values.search and file_io.is_remote(values.output_dir or ""):
    raise errors.InputError(
      f"--output_dir={values.output_dir} is remote, and --search copies the "
      "best model on a local disk; give a local folder"
    )


def define_search_flag(metric, *, not_with):
  """--search; `metric` says which score chooses the best model."""
  flags.DEFINE_spaceseplist(
    "search", None,
    "Trains and evaluates once with each combination of values, such as "
    "'learning_rate=5e-5,3e-5,2e-5 num_train_epochs=2,3,4', in a folder of "
    "output_dir each; the table is in search_results.tsv, the best model by "
    f"{metric} in final_model.", needs="do_train do_eval", not_with=not_with,
  )
  command.check_early(_check_search)


def define_distillation_flags():
  """Flags of a student that learns from a teacher."""
  flags.DEFINE_string(
    "teacher_checkpoint", None,
    "Folder of a trained model, with its own configuration and the same "
    "vocabulary, to learn from.", needs="do_train",
  )
  flags.DEFINE_float(
    "distillation_temperature", 2.0,
    "Divides the logits of teacher and student in the loss of soft targets: "
    "above 1, what the teacher thinks unlikely counts more.",
    lower_bound=0.01, needs="teacher_checkpoint",
  )
  flags.DEFINE_bool(
    "init_from_teacher", False,
    "Start from every second layer of the teacher, and the rest of its weights "
    "as they are.", needs="teacher_checkpoint",
  )
  flags.rule(
    "init_checkpoint model_dir", not_with="init_from_teacher",
    why=", which takes the teacher's weights: give the student's shape as "
    "--bert_config_file",
  )
