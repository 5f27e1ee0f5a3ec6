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

import os
import sys
from typing import NamedTuple

import tensorflow as tf
from absl import app, flags, logging

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
  labelled_examples,
  own_data,
  seed_results,
  tasks,
)
from common import errors, file_io
from training import common_flags, distribution

FLAGS = flags.FLAGS

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
  "file_format", None, own_data.FORMATS,
  "Of your own files; by default their names tell.",
)
flags.DEFINE_bool(
  "quoted_tsv", False, "Whether your own .tsv files have quotes as CSV has."
)
flags.DEFINE_enum(
  "task_kind", None,
  (labelled_examples.SINGLE, labelled_examples.REGRESSION,
   labelled_examples.MULTI_LABEL),
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
  "window_pooling", "mean", classifier.POOLINGS,
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
  "answer_format", "tsv", interactive.FORMATS,
  "What --interactive and --predict_file=- write for a line: the label and "
  "the score of each class between tabs, or JSON.",
)

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


def evaluate(model, run, data, report_dir=None):
  """Scores all evaluation data, see evaluation.evaluate."""
  return evaluation.evaluate(
    model, run.task, data, strategy=run.strategy,
    batch_size=FLAGS.eval_batch_size, report_dir=report_dir,
  )


def train(model, run, start, output_dir):
  """Trains from `start`; returns the last step and the data used."""
  num_train_steps, num_warmup_steps = common_flags.training_length(
    run.data["train"].num_records
  )
  trainer = common_flags.make_trainer(
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
  if FLAGS.freeze_encoder:
    data = {**data, **cached_features(model, run)}

  given = {name: FLAGS[name].value for name in tasks.INPUT_FLAGS}
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
      run.strategy, data["train"], batch_size=FLAGS.train_batch_size,
      seed=FLAGS.seed, first_step=step, trim=run.trim,
      bucketing=common_flags.bucketing(data["train"].features, run.strategy),
    )

  trainer.train(
    batches_from,
    common_flags.periodic_evaluation(
      lambda: evaluate(model, run, data),
      keep_best=lambda step: keep("best_model"),
      names=evaluation.result_names(run.task, data),
    ),
  )
  keep("final_model")
  return int(trainer.global_step.numpy()), data


def cached_features(model, run):
  """Returns the data to train and evaluate on with a frozen encoder.

  What it makes of them is the same in every epoch, and for every seed.
  """
  return {
    name: frozen_features.ensure(
      os.path.join(FLAGS.output_dir, f"{name}.features.tf_record"),
      model,
      data,
      strategy=run.strategy,
      batch_size=FLAGS.eval_batch_size,
    )
    for name, data in run.data.items()
    if not name.startswith("predict")
  }


def write_predictions(model, run, name, output_dir):
  """Writes what is predicted for run.data[name]."""
  outputs = evaluation.predict(
    model, run.data[name], strategy=run.strategy,
    batch_size=FLAGS.predict_batch_size,
  )
  if not distribution.is_chief(run.strategy):
    return
  labels = evaluation.write_scores(
    output_dir, name, run.task, outputs["scores"]
  )
  if FLAGS.glue_submission_dir:
    glue_submission.write(
      FLAGS.glue_submission_dir, run.task.official,
      run.task.splits[name].name, labels,
    )


def kind_of_run(task):
  """Returns what a run's folder says of its task."""
  return f"classification, {task.name}"


def run_model(run, output_dir):
  """Trains, evaluates and predicts with one model, whatever is asked for.

  Returns:
    The results of the evaluation, {} where there is none.
  """
  start = common_flags.open_run(
    kind_of_run(run.task), run.config, run.strategy, output_dir
  )
  if start.kind == "random" and not FLAGS.do_train:
    raise errors.InputError(
      f"no weights: there is no checkpoint in {output_dir}; pass "
      "--init_checkpoint, or --do_train"
    )
  with run.strategy.scope():
    model = make_model(run)
  step, data = start.commit.step if start.commit else 0, run.data
  if FLAGS.do_train:
    step, data = train(model, run, start, output_dir)
  else:
    weight_files.load(model.variables, start.path)
  results = {}
  if FLAGS.do_eval:
    results = evaluate(model, run, data, output_dir)
    if distribution.is_chief(run.strategy):
      path = os.path.join(output_dir, "eval_results.txt")
      evaluation.write_results(
        path, {"global_step": step, **results}, run.task
      )
  for name in run.data:
    if name.startswith("predict"):
      write_predictions(model, run, name, output_dir)
  if FLAGS.interactive or FLAGS.predict_file == STANDARD_INPUT:
    answer_texts(model, run)
  return results


def make_model(run):
  """Returns the classifier.ClassifierModel of the flags."""
  return classifier.ClassifierModel(
    run.config,
    run.task.kind,
    classifier.num_outputs(run.task.kind, run.task.labels),
    pooling=FLAGS.window_pooling,
    is_frozen=FLAGS.freeze_encoder,
    **common_flags.model_options(run.strategy),
  )


def answer_texts(model, run):
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
    output_format=FLAGS.answer_format,
    batch_size=FLAGS.predict_batch_size,
  )
  if bad and not FLAGS.interactive:
    raise errors.InputError(
      f"{bad} line{'s' * (bad > 1)} of the standard input could not be read: "
      "what is wrong stands in the place of each answer; mend and send those "
      "again"
    )


def run_seeds(run):
  """Runs a model for each of --seeds and tells how they differ."""
  results = {}
  for seed in seed_results.parse_seeds(FLAGS.seeds):
    logging.info("seed %d", seed)
    FLAGS.seed = seed
    folder = os.path.join(FLAGS.output_dir, f"seed_{seed}")
    results[seed] = run_model(run, folder)
  if FLAGS.do_eval and distribution.is_chief(run.strategy):
    text = seed_results.summary(results)
    path = os.path.join(FLAGS.output_dir, "seeds_results.txt")
    file_io.write_text(path, text)
    print(text, end="")


# From flags to what is to be done.


def restore_input_settings():
  """Sets flags that are not given to what a trained model was trained with.

  Raises:
    InputError: what its configuration says cannot be their value.
  """
  if FLAGS.do_train:
    return
  learned = tasks.learned_input(
    weight_files.read_config(FLAGS.bert_config_file)
  )
  others = []
  for name, value in learned.items():
    flag = FLAGS[name]
    if flag.present and flag.value != value:
      others.append(f"--{name}={flag.value} (trained with {value})")
    elif not flag.present:
      try:
        flag.value = flag.parser.parse(value)
      except (TypeError, ValueError) as error:
        raise errors.InputError(
          f"{FLAGS.bert_config_file}: {name} is {value!r:.40}, which "
          f"--{name} cannot be: {error}"
        ) from error
    if name == "doc_stride" and not flag.value:
      break  # There are no windows to say more about.
  if others:
    logging.warning("other input than in training: %s", ", ".join(others))


def check_flags():
  """Refuses flags that contradict each other or would be ignored.

  Raises:
    InputError: so, or nothing is asked for.
  """
  common_flags.require_one_of(
    "do_train", "do_eval", "do_predict", "interactive"
  )
  flag_conflicts.check(
    FLAGS.flag_values_dict(), {name for name in FLAGS if FLAGS[name].present}
  )
  seed_results.parse_seeds(FLAGS.seeds)


def purposes():
  """Returns for what examples are needed: train, eval, predict."""
  wanted = {
    "train": FLAGS.do_train,
    "eval": FLAGS.do_eval or (FLAGS.do_train and FLAGS.eval_steps),
    "predict": FLAGS.do_predict and FLAGS.predict_file != STANDARD_INPUT,
  }
  return [purpose for purpose in wanted if wanted[purpose]]


def own_files():
  """Returns dict from the flags of your own files to their values."""
  names = ("train_file", "eval_file", "predict_file")
  files = {name: FLAGS[name].value for name in names}
  if files["predict_file"] == STANDARD_INPUT:
    files["predict_file"] = None
  return files


def read_task(config):
  """Returns the tasks.ClassifierTask of the flags."""
  if FLAGS.task_name:
    task = tasks.read_official(
      FLAGS.task_name,
      FLAGS.data_dir,
      purposes=purposes(),
      language=FLAGS.language,
      config=config,
      metrics=FLAGS.metrics,
    )
    if FLAGS.glue_submission_dir:
      glue_submission.check_task(task.official)
  else:
    task = tasks.read_own(
      own_paths(),
      own_data.Columns(
        FLAGS.text_column, FLAGS.text_b_column, FLAGS.label_column,
        FLAGS.id_column,
      ),
      kind=FLAGS.task_kind,
      labels=FLAGS.labels,
      config=config,
      metrics=FLAGS.metrics,
      separator=FLAGS.label_separator,
      file_format=FLAGS.file_format,
      quoted=FLAGS.quoted_tsv or None,
    )
  limits = {
    purpose: FLAGS[f"max_{purpose}_examples"].value
    for purpose in ("train", "eval", "predict")
  }
  return task._replace(splits=tasks.used(task.splits, limits))


def own_paths():
  """Returns dict from what is asked for to your own file for it.

  Raises:
    InputError: a file is missing.
  """
  paths = {}
  for purpose in purposes():
    paths[purpose] = FLAGS[f"{purpose}_file"].value
    if not paths[purpose]:
      asks = f"do_{purpose}"
      if purpose == "eval" and not FLAGS.do_eval:
        asks = "eval_steps"
      raise errors.InputError(
        f"--{asks} needs --{purpose}_file, or --task_name and --data_dir"
      )
  return paths


def arrange_devices():
  """Returns the tf.distribute.Strategy; settles whether XLA compiles."""
  strategy = common_flags.make_strategy()
  if FLAGS.doc_stride and FLAGS.jit_compile == "auto":
    if distribution.default_jit_compile(strategy):
      logging.info(
        "--doc_stride: XLA does not compile the step, so that batches hold no "
        "more windows than their texts have; --jit_compile=true: it does"
      )
    FLAGS.jit_compile = "false"
  return strategy


def main(argv):
  del argv
  restore_input_settings()
  check_flags()
  config = common_flags.model_config()
  common_flags.make_tokenizer(config)
  # Before anything else computes: devices cannot be arranged afterwards.
  strategy = arrange_devices()
  task = read_task(config)
  weights = None
  if FLAGS.class_weights and FLAGS.do_train:
    weights = tasks.class_weights(FLAGS.class_weights, task)
  run = Run(
    config=tasks.trained_config(config, task),
    task=task,
    options=input_data.Options(
      kind=task.kind,
      labels=task.labels,
      vocab_file=FLAGS.vocab_file,
      do_lower_case=FLAGS.do_lower_case,
      max_seq_length=FLAGS.max_seq_length,
      doc_stride=FLAGS.doc_stride,
      max_windows=FLAGS.max_windows,
    ),
    class_weights=weights,
    strategy=strategy,
    data={},
    trim=common_flags.shapes_may_vary(strategy),
  )
  # Claimed before the first file is written.
  common_flags.check_output_dir(kind_of_run(task), run.config, strategy)
  data = input_data.prepare_all(
    FLAGS.output_dir, task.splits, run.options
  )
  run = run._replace(data=data)
  if FLAGS.seeds:
    run_seeds(run)
  else:
    run_model(run, FLAGS.output_dir)


if __name__ == "__main__":
  app.run(errors.report_input_errors(main))
