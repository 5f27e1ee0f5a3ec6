r"""Classifies sentences and pairs: GLUE, XNLI, PAWS-X, IMDB, SWAG, your data.

  python run_classifier.py --task_name=MRPC --data_dir=glue/MRPC \
      --do_train --do_eval --do_predict --max_seq_length=128 \
      --train_batch_size=32 --learning_rate=2e-5 --num_train_epochs=3 \
      --vocab_file=vocab.txt --bert_config_file=bert_config.json \
      --init_checkpoint=bert_model.ckpt --output_dir=mrpc_output

Flags, defaults and files are the original's. Your own data need no code:

  python run_classifier.py --do_train --do_eval --do_predict \
      --train_file=train.csv --eval_file=dev.csv --predict_file=new.csv \
      --text_column=review --label_column=stars ...
"""

from absl import flags

from common import choices, command
from training import common_flags

common_flags.define_model_flags()
common_flags.define_tokenizer_flags()
common_flags.define_output_flags()
common_flags.define_training_flags()
common_flags.define_epoch_flags()
common_flags.define_evaluation_flags()
common_flags.define_prediction_flags()
common_flags.define_device_flags()
flags.DEFINE_string(
  "task_name", None,
  "An official task: CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE, WNLI, AX, "
  "XNLI, PAWS-X, IMDB or SWAG. None for your own files.",
)
flags.DEFINE_string(
  "data_dir", None, "Folder of the task's official files."
)
flags.DEFINE_string(
  "language", None, "Of XNLI and PAWS-X; by default zh and en."
)
flags.DEFINE_string(
  "train_file", None, "Your own examples to learn from: .csv, .tsv or .jsonl."
)
flags.DEFINE_string("eval_file", None, "Your own examples to score.")
flags.DEFINE_string(
  "predict_file", None,
  "Your own examples to predict; needs no labels. -: texts on the standard "
  "input, each answered at once on the standard output.",
)
flags.DEFINE_string("text_column", "text", "Name of the column of the texts.")
flags.DEFINE_string(
  "text_b_column", None, "Of the second texts, where there are pairs."
)
flags.DEFINE_string("label_column", "label", "Of the labels.")
flags.DEFINE_string(
  "id_column", None, "Of the rows' names; by default they are numbered."
)
flags.DEFINE_string(
  "label_separator", ",",
  "Between the classes of a text, with --task_kind=multi_label.",
)
flags.DEFINE_enum(
  "file_format", None, choices.TABLE_FORMATS,
  "Of your own files; by default their names tell.",
)
flags.DEFINE_bool(
  "quoted_tsv", False, "Whether your own .tsv files have quotes as CSV has."
)
flags.DEFINE_enum(
  "task_kind", None,
  choices.OWN_TASK_KINDS,
  "What labels of your own data are: one class of several, a number, or any "
  "number of classes. By default what --bert_config_file says that the model "
  "was trained for, or single.",
)
flags.DEFINE_list(
  "labels", [],
  "Classes of your own data, in the order of the model's outputs; by default "
  "those in the training data, sorted, or those of the model.",
)
flags.DEFINE_integer(
  "max_train_examples", 0, "Learn from the first so many examples; 0: all.",
  lower_bound=0,
)
flags.DEFINE_integer(
  "max_eval_examples", 0, "Score the first so many; 0: all.", lower_bound=0
)
flags.DEFINE_integer(
  "max_predict_examples", 0, "Predict the first so many; 0: all.",
  lower_bound=0,
)
flags.DEFINE_list(
  "metrics", [],
  "What is reported beside the loss: accuracy, precision, recall, f1 (each "
  "also with _macro or _micro), matthews, auc, pearson, spearman. By default "
  "the task's official ones. Plain precision, recall and f1 are those of the "
  "second of two classes: --labels gives the order.",
)
flags.DEFINE_string(
  "class_weights", None,
  "How much each class counts in the loss of training: balanced, numbers in "
  "the order of the classes (1,2.5), or name=number for some of them. With "
  "--task_kind=multi_label: how much more being of a class counts than not "
  "being of it.",
)
flags.DEFINE_integer(
  "doc_stride", 0,
  "Long texts: windows of --max_seq_length that start so many pieces apart; "
  "the text's logits are those of its windows, pooled. 0: cut texts off.",
  lower_bound=0,
)
flags.DEFINE_integer(
  "max_windows", 0, "At most so many windows of a text; 0: all.",
  lower_bound=0,
)
flags.DEFINE_enum(
  "window_pooling", "mean", choices.WINDOW_POOLINGS,
  "How the logits of windows become those of the text.",
)
flags.DEFINE_list(
  "seeds", [],
  "Trains and evaluates once with each of these seeds, in output_dir/seed_N; "
  "median, mean and standard deviation are in seeds_results.txt.",
)
flags.DEFINE_string(
  "glue_submission_dir", None,
  "Folder for the predictions in the files that GLUE's server takes.",
)
flags.DEFINE_bool(
  "interactive", False,
  "Answers texts from the terminal, after everything else.",
)
flags.DEFINE_enum(
  "answer_format", "tsv", choices.ANSWER_FORMATS,
  "What --interactive and --predict_file=- write for a line: the label and "
  "the score of each class between tabs, or JSON.",
)

# --help and mistakes are answered before TensorFlow is loaded.
command.parse_flags(__name__)

import os
import sys
from typing import NamedTuple

import tensorflow as tf
from absl import logging

import modeling
from checkpoints import model_folder, weight_files
from classification import (
  classifier,
  evaluation,
  flag_conflicts,
  frozen_features,
  glue_submission,
  input_data,
  interactive,
  own_data,
  seed_results,
  tasks,
)
from common import errors, file_io, run_settings
from training import distribution, setup

STANDARD_INPUT = flag_conflicts.STANDARD_INPUT


class Run(NamedTuple):
  """What all the models of one command share.

  Attributes:
    config: modeling.BertConfig, with the classes.
    task: tasks.ClassifierTask.
    options: input_data.Options.
    class_weights: list of floats, or None.
    strategy: tf.distribute.Strategy.
    data: dict from "train", "eval", "predict" and more, such as
      "eval_mismatched", to input_data.ClassifierData.
    trim: whether batches may be cut to their longest sequence.
  """

  config: modeling.BertConfig
  task: tasks.ClassifierTask
  options: input_data.Options
  class_weights: list
  strategy: tf.distribute.Strategy
  data: dict
  trim: bool


# One model.


def evaluate(settings, model, run, data, report_dir=None):
  """Scores all evaluation data, see evaluation.evaluate."""
  return evaluation.evaluate(
    model, run.task, data, strategy=run.strategy,
    batch_size=settings.eval_batch_size, report_dir=report_dir,
  )


def train(settings, model, run, start, output_dir):
  """Trains from `start`; returns the last step and the data used."""
  num_train_steps, num_warmup_steps = setup.training_length(
    settings,
    run.data["train"].num_records
  )
  trainer = setup.make_trainer(
    settings,
    model.variables,
    trained=model.variables,
    config=run.config,
    strategy=run.strategy,
    objective=classifier.objective(
      model, run.class_weights, skip_empty=run.trim
    ),
    num_train_steps=num_train_steps,
    num_warmup_steps=num_warmup_steps,
    output_dir=output_dir,
  )
  trainer.start_from(start, may_be_missing=classifier.NEW_VARIABLES)
  data = run.data
  if settings.freeze_encoder:
    data = {**data, **cached_features(settings, model, run)}

  given = {name: settings.get(name) for name in tasks.INPUT_FLAGS}
  config = tasks.with_input(run.config, given)

  def keep(folder):
    if distribution.is_chief(run.strategy):
      path = os.path.join(output_dir, folder)
      model_folder.write(
        path, model.variables, config, run.options.vocab_file,
        run.options.do_lower_case,
      )

  def batches_from(step):
    return input_data.training_batches(
      run.strategy, data["train"], batch_size=settings.train_batch_size,
      seed=settings.seed, first_step=step, trim=run.trim,
      bucketing=setup.bucketing(settings, data["train"].features, run.strategy),
    )

  trainer.train(
    batches_from,
    setup.periodic_evaluation(
      settings,
      lambda: evaluate(settings, model, run, data),
      keep_best=lambda step: keep("best_model"),
      names=evaluation.result_names(run.task, data),
    ),
  )
  keep("final_model")
  return int(trainer.global_step.numpy()), data


def cached_features(settings, model, run):
  """Returns the data to train and evaluate on with a frozen encoder.

  What it makes of them is the same in every epoch, and for every seed.
  """
  return {
    name: frozen_features.ensure(
      os.path.join(settings.output_dir, f"{name}.features.tf_record"),
      model,
      data,
      strategy=run.strategy,
      batch_size=settings.eval_batch_size,
    )
    for name, data in run.data.items()
    if not name.startswith("predict")
  }


def write_predictions(settings, model, run, name, output_dir):
  """Writes what is predicted for run.data[name]."""
  outputs = evaluation.predict(
    model, run.data[name], strategy=run.strategy,
    batch_size=settings.predict_batch_size,
  )
  if not distribution.is_chief(run.strategy):
    return
  labels = evaluation.write_scores(
    output_dir, name, run.task, outputs["scores"]
  )
  if settings.glue_submission_dir:
    glue_submission.write(
      settings.glue_submission_dir, run.task.official,
      run.task.splits[name].name, labels,
    )


def kind_of_run(task):
  """Returns what a run's folder says of its task."""
  return f"classification, {task.name}"


def run_model(settings, run, output_dir):
  """Trains, evaluates and predicts with one model, whatever is asked for.

  Returns:
    The results of the evaluation, {} where there is none.
  """
  start = setup.open_run(
    settings,
    kind_of_run(run.task), run.config, run.strategy, output_dir
  )
  if start.kind == "random" and not settings.do_train:
    raise errors.InputError(
      f"no weights: there is no checkpoint in {output_dir}; pass "
      "--init_checkpoint, or --do_train"
    )
  with run.strategy.scope():
    model = make_model(settings, run)
  step, data = start.commit.step if start.commit else 0, run.data
  if settings.do_train:
    step, data = train(settings, model, run, start, output_dir)
  else:
    weight_files.load(model.variables, start.path)
  results = {}
  if settings.do_eval:
    results = evaluate(settings, model, run, data, output_dir)
    if distribution.is_chief(run.strategy):
      path = os.path.join(output_dir, "eval_results.txt")
      evaluation.write_results(
        path, {"global_step": step, **results}, run.task
      )
  for name in run.data:
    if name.startswith("predict"):
      write_predictions(settings, model, run, name, output_dir)
  if settings.interactive or settings.predict_file == STANDARD_INPUT:
    answer_texts(settings, model, run)
  return results


def make_model(settings, run):
  """Returns the classifier.ClassifierModel of the flags."""
  return classifier.ClassifierModel(
    run.config,
    run.task.kind,
    classifier.num_outputs(run.task.kind, run.task.labels),
    pooling=settings.window_pooling,
    is_frozen=settings.freeze_encoder,
    **setup.model_options(settings, run.strategy),
  )


def answer_texts(settings, model, run):
  """Answers the lines of the standard input until it ends.

  Raises:
    InputError: lines of --predict_file=- could not be read; all others are
      answered by then.
  """
  if sys.stdin.isatty():
    print("Type a text, or two with a tab between; end with Ctrl-D.")
  bad = interactive.answer_lines(
    interactive.TextClassifier(model, run.options).predict_texts,
    sys.stdin.buffer,
    sys.stdout,
    output_format=settings.answer_format,
    batch_size=settings.predict_batch_size,
  )
  if bad and not settings.interactive:
    raise errors.InputError(
      f"{bad} line{'s' * (bad > 1)} of the standard input could not be read: "
      "what is wrong stands in the place of each answer; mend and send those "
      "again"
    )


def run_seeds(settings, run):
  """Runs a model for each of --seeds and tells how they differ."""
  results = {}
  for seed in seed_results.parse_seeds(settings.seeds):
    logging.info("seed %d", seed)
    folder = os.path.join(settings.output_dir, f"seed_{seed}")
    results[seed] = run_model(settings.replace(seed=seed), run, folder)
  if settings.do_eval and distribution.is_chief(run.strategy):
    text = seed_results.summary(results)
    path = os.path.join(settings.output_dir, "seeds_results.txt")
    file_io.write_text(path, text)
    print(text, end="")


# From flags to what is to be done.


def restore_input_settings(settings):
  """Returns settings that make the input as a trained model's was made."""
  if settings.do_train:
    return settings
  source = settings.bert_config_file
  trained = tasks.learned_input(weight_files.read_config(source))
  windows = {name: trained.pop(name) for name in tasks.WINDOW_FLAGS
             if name in trained}
  settings = setup.restore_input_settings(settings, trained, source)
  if settings.doc_stride:
    settings = setup.restore_input_settings(settings, windows, source)
  return settings


def check_flags(settings):
  """Refuses flags that contradict each other or would be ignored.

  Raises:
    InputError: so, or nothing is asked for.
  """
  setup.require_one_of(
    settings,
    "do_train", "do_eval", "do_predict", "interactive"
  )
  run_settings.refuse_ignored(settings, flag_conflicts.CONFLICTS)
  seed_results.parse_seeds(settings.seeds)


def purposes(settings):
  """Returns for what examples are needed: train, eval, predict."""
  wanted = {
    "train": settings.do_train,
    "eval": settings.do_eval or (settings.do_train and settings.eval_steps),
    "predict": settings.do_predict and settings.predict_file != STANDARD_INPUT,
  }
  return [purpose for purpose in wanted if wanted[purpose]]


def own_files(settings):
  """Returns dict from the flags of your own files to their values."""
  names = ("train_file", "eval_file", "predict_file")
  files = {name: settings.get(name) for name in names}
  if files["predict_file"] == STANDARD_INPUT:
    files["predict_file"] = None
  return files


def read_task(settings, config):
  """Returns the tasks.ClassifierTask of the flags."""
  if settings.task_name:
    task = tasks.read_official(
      settings.task_name,
      settings.data_dir,
      purposes=purposes(settings),
      language=settings.language,
      config=config,
      metrics=settings.metrics,
    )
    if settings.glue_submission_dir:
      glue_submission.check_task(task.official)
  else:
    task = tasks.read_own(
      own_paths(settings),
      own_data.Columns(
        settings.text_column, settings.text_b_column, settings.label_column,
        settings.id_column,
      ),
      kind=settings.task_kind,
      labels=settings.labels,
      config=config,
      metrics=settings.metrics,
      separator=settings.label_separator,
      file_format=settings.file_format,
      quoted=settings.quoted_tsv or None,
    )
  limits = {
    purpose: settings.get(f"max_{purpose}_examples")
    for purpose in ("train", "eval", "predict")
  }
  return task._replace(splits=tasks.used(task.splits, limits))


def own_paths(settings):
  """Returns dict from what is asked for to your own file for it.

  Raises:
    InputError: a file is missing.
  """
  paths = {}
  for purpose in purposes(settings):
    paths[purpose] = settings.get(f"{purpose}_file")
    if not paths[purpose]:
      asks = f"do_{purpose}"
      if purpose == "eval" and not settings.do_eval:
        asks = "eval_steps"
      raise errors.InputError(
        f"--{asks} needs --{purpose}_file, or --task_name and --data_dir"
      )
  return paths


def arrange_devices(settings):
  """Returns the tf.distribute.Strategy, and settings that XLA may depend on."""
  strategy = setup.make_strategy(settings)
  if settings.doc_stride and settings.jit_compile == "auto":
    if distribution.default_jit_compile(strategy):
      logging.info(
        "--doc_stride: XLA does not compile the step, so that batches hold no "
        "more windows than their texts have; --jit_compile=true: it does"
      )
    settings = settings.replace(jit_compile="false")
  return strategy, settings


def main(_):
  settings = setup.resolve(common_flags.read_settings())
  settings = restore_input_settings(settings)
  check_flags(settings)
  config = setup.model_config(settings)
  setup.make_tokenizer(settings, config)
  # Before anything else computes: devices cannot be arranged afterwards.
  strategy, settings = arrange_devices(settings)
  task = read_task(settings, config)
  weights = None
  if settings.class_weights and settings.do_train:
    weights = tasks.class_weights(settings.class_weights, task)
  run = Run(
    config=tasks.trained_config(config, task),
    task=task,
    options=input_data.Options(
      kind=task.kind,
      labels=task.labels,
      vocab_file=settings.vocab_file,
      do_lower_case=settings.do_lower_case,
      max_seq_length=settings.max_seq_length,
      doc_stride=settings.doc_stride,
      max_windows=settings.max_windows,
    ),
    class_weights=weights,
    strategy=strategy,
    data={},
    trim=setup.shapes_may_vary(settings, strategy),
  )
  # Claimed before the first file is written.
  setup.check_output_dir(settings, kind_of_run(task), run.config, strategy)
  data = input_data.prepare_all(
    settings.output_dir, task.splits, run.options
  )
  run = run._replace(data=data)
  if settings.seeds:
    run_seeds(settings, run)
  else:
    run_model(settings, run, settings.output_dir)


if __name__ == "__main__":
  command.run(main)
