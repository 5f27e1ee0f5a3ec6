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

import numpy as np
import tensorflow as tf
from absl import app, flags, logging

import checkpoints
import classification_metrics
import classifier_examples
import classifier_input
import classifier_model
import common_flags
import data_files
import distribution
import errors
import evaluation_loop
import glue_data
import input_pipeline
import model_folder
import modeling
import seed_results
import text_classifier

FLAGS = flags.FLAGS

# What config.json of Hugging Face calls the kinds of task.
PROBLEM_TYPES = {
  classifier_examples.SINGLE: "single_label_classification",
  classifier_examples.REGRESSION: "regression",
  classifier_examples.MULTI_LABEL: "multi_label_classification",
  classifier_examples.CHOICE: "multiple_choice",
}

common_flags.define_model_flags()
common_flags.define_tokenizer_flags()
common_flags.define_output_flags()
common_flags.define_training_flags()
common_flags.define_epoch_flags()
common_flags.define_evaluation_flags()
common_flags.define_prediction_flags()
common_flags.define_device_flags()
flags.DEFINE_string(
  "task_name", None, "A task of GLUE or like it; none for --train_file, ..."
)
flags.DEFINE_string(
  "data_dir", None, "Folder with the task's files, under their usual names."
)
flags.DEFINE_string(
  "language", None, "Of XNLI and PAWS-X; by default zh and en."
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
  "metrics", [], "What is reported beside the loss; by default the task's own."
)
flags.DEFINE_string(
  "class_weights", None,
  "How much each class counts in the loss of training: balanced, numbers in "
  "the order of the classes (1,2.5), or name=number for some of them.",
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
  "window_pooling", "mean", classifier_model.POOLINGS,
  "How the logits of windows become those of the text.",
)
flags.DEFINE_list(
  "seeds", [],
  "Trains and evaluates once with each of these seeds, in output_dir/seed_N; "
  "median, mean and standard deviation are in seeds_results.txt.",
)
flags.DEFINE_bool(
  "interactive", False,
  "Answers texts from the terminal, after everything else.",
)
flags.DEFINE_enum(
  "answer_format", "tsv", text_classifier.FORMATS,
  "What --interactive and --predict_file=- write for a line: the label and "
  "the score of each class between tabs, or JSON.",
)


class Run(NamedTuple):
  """What all the models of one command share.

  Attributes:
    config: modeling.BertConfig, with the labels.
    options: classifier_input.Options.
    metrics: names of classification_metrics.
    class_weights: list of floats, or None.
    strategy: tf.distribute.Strategy.
    data: dict from "train", "eval", "predict" and more, such as
      "eval_mismatched", to classifier_input.ClassifierData.
    splits: dict from the same names to classifier_examples.Split.
    trim: whether batches may be cut to their longest sequence.
    vocab_file: copied beside the trained weights.
  """

  config: modeling.BertConfig
  options: classifier_input.Options
  metrics: tuple
  class_weights: list
  strategy: tf.distribute.Strategy
  data: dict
  splits: dict
  trim: bool
  vocab_file: str


# One model.


def predict(model, run, data, batch_size):
  """Computes the scores, losses and labels of classifier_input.ClassifierData.

  Returns:
    dict of arrays: scores float32 [N, L], loss float32 [N], label_ids.
  """

  def of_batch(batch):
    if not distribution.is_tpu(run.strategy):
      batch = classifier_input.trimmed(batch)
    logits = model(batch)
    return {
      "scores": classifier_model.scores(model.kind, logits),
      "loss": classifier_model.example_losses(
        model.kind, logits, batch["label_ids"]
      ),
      "label_ids": batch["label_ids"],
    }

  return evaluation_loop.predict(
    run.strategy,
    of_batch,
    input_pipeline.sequential_records([data.records]),
    data.features,
    num_records=data.num_records,
    batch_size=batch_size,
    lengths=input_pipeline.record_lengths([data.records], data.features),
  )


def evaluate(model, run, data, name, report_file=None):
  """Returns the results of labelled data, dict from "eval_loss", ...

  Args:
    model: classifier_model.ClassifierModel.
    run: Run.
    data: dict like Run.data.
    name: of the data, "eval" or such.
    report_file: where the scores of each class are written; None: nowhere.
  """
  batch_size = FLAGS.eval_batch_size
  outputs = predict(model, run, data[name], batch_size)
  results = classification_metrics.Results(
    kind=model.kind,
    labels=run.options.labels,
    gold=outputs["label_ids"],
    scores=outputs["scores"],
  )
  values = classification_metrics.compute(results, run.metrics)
  losses = outputs["loss"]
  values = {f"{name}_{key}": value for key, value in values.items()}
  values[f"{name}_loss"] = np.mean(losses, dtype=np.float64)
  if name == "eval":
    # As in the original: the mean over batches, the last one of them short.
    starts = range(0, len(losses), batch_size)
    values["loss"] = np.mean(
      [np.mean(losses[i : i + batch_size], dtype=np.float64) for i in starts]
    )
  if report_file:
    text = classification_metrics.report(results)
    data_files.write_text(report_file, text)
  return values


def evaluate_all(model, run, data, output_dir=None):
  """Evaluates all evaluation data; with a folder, writes reports there."""
  values = {}
  for name in data:
    if name.startswith("eval"):
      path = None
      if output_dir and distribution.is_chief(run.strategy):
        path = os.path.join(output_dir, f"{name}_report.txt")
      values.update(evaluate(model, run, data, name, path))
  return values


def train(model, run, start, output_dir):
  """Trains from `start`; returns the last step."""
  data = run.data["train"]
  num_train_steps, num_warmup_steps = common_flags.training_length(
    data.num_records
  )
  trainer = common_flags.make_trainer(
    model.variables,
    trained=model.variables,
    config=run.config,
    strategy=run.strategy,
    objective=classifier_model.objective(model, run.class_weights),
    num_train_steps=num_train_steps,
    num_warmup_steps=num_warmup_steps,
    output_dir=output_dir,
  )
  trainer.start_from(start, may_be_missing=classifier_model.NEW_VARIABLES)

  def keep(folder):
    if distribution.is_chief(run.strategy):
      path = os.path.join(output_dir, folder)
      model_folder.write(path, model.variables, run.config, run.vocab_file)

  trainer.train(
    lambda step: training_batches(run, data, step),
    common_flags.periodic_evaluation(
      lambda: evaluate_all(model, run, run.data),
      keep_best=lambda step: keep("best_model"),
    ),
  )
  keep("final_model")
  return int(trainer.global_step.numpy())


def training_batches(run, data, step):
  """Returns the endless distributed dataset of training from a step on."""

  def transform(batch, step, *, rows, first_row):
    del step, rows, first_row
    if run.trim:
      return classifier_input.trimmed(batch)
    return classifier_input.filled_up(batch, data.max_sequences)

  records = input_pipeline.shuffled_records(
    [data.records],
    num_records=data.num_records,
    seed=FLAGS.seed,
    first_record=step * FLAGS.train_batch_size,
  )
  return input_pipeline.distributed_batches(
    run.strategy,
    records,
    data.features,
    batch_size=FLAGS.train_batch_size,
    transform=transform,
    first_step=step,
  )


def write_predictions(model, run, name, output_dir):
  """Writes what is predicted for run.data[name]."""
  data = run.data[name]
  scores = predict(model, run, data, FLAGS.predict_batch_size)["scores"]
  if not distribution.is_chief(run.strategy):
    return
  suffix = name.removeprefix("predict")
  path = os.path.join(output_dir, f"test_results{suffix}.tsv")
  # As in the original: no header, numbers as numpy shows a float32.
  lines = ["\t".join(map(str, row)) + "\n" for row in scores]
  data_files.write_text(path, "".join(lines))
  logging.info("predictions are in %s", path)


def write_results(path, results):
  """Writes `name = value` lines in the order of names, as the original does."""
  lines = [
    f"{name} = {value if name == 'global_step' else np.float32(value)!s}\n"
    for name, value in sorted(results.items())
  ]
  for line in lines:
    logging.info("  %s", line.rstrip())
  data_files.write_text(path, "".join(lines))


def open_run(run, output_dir):
  """Claims a folder; returns run_folder.StartingPoint."""
  task = f"classification, {FLAGS.task_name or 'own data'}"
  return common_flags.open_run(
    task.lower(), run.config, run.strategy, output_dir
  )


def run_model(run, output_dir):
  """Trains, evaluates and predicts with one model, whatever is asked for.

  Returns:
    The results of the evaluation, {} where there is none.
  """
  start = open_run(run, output_dir)
  with run.strategy.scope():
    model = make_model(run)
  step = start.commit.step if start.commit else 0
  if "train" in run.data:
    step = train(model, run, start, output_dir)
  elif start.path:
    checkpoints.load(model.variables, start.path)
  else:
    raise errors.InputError(
      "nothing to predict with: pass --init_checkpoint, or --do_train"
    )
  results = {}
  if FLAGS.do_eval:
    results = evaluate_all(model, run, run.data, output_dir)
    if distribution.is_chief(run.strategy):
      path = os.path.join(output_dir, "eval_results.txt")
      write_results(path, {"global_step": step, **results})
  for name in run.data:
    if name.startswith("predict"):
      write_predictions(model, run, name, output_dir)
  if FLAGS.interactive:
    answer(model, run)
  return results


def make_model(run):
  """Returns the classifier_model.ClassifierModel of the flags."""
  return classifier_model.ClassifierModel(
    run.config,
    run.options.kind,
    classifier_model.num_outputs(run.options.kind, run.options.labels),
    pooling=FLAGS.window_pooling,
    is_frozen=FLAGS.freeze_encoder,
    skip_empty=run.trim,
    **common_flags.model_options(run.strategy),
  )


def answer(model, run):
  """Answers the lines of the standard input until it ends."""
  if sys.stdin.isatty():
    print("Type a text, or two with a tab between; end with Ctrl-D.")
  text_classifier.answer_lines(
    text_classifier.TextClassifier(model, run.options).predict_texts,
    sys.stdin.buffer,
    sys.stdout,
    output_format=FLAGS.answer_format,
    batch_size=FLAGS.predict_batch_size,
  )


def run_seeds(run):
  """Runs a model for each of --seeds and tells how they differ."""
  results = {}
  for seed in seed_results.parse_seeds(FLAGS.seeds):
    FLAGS.seed = seed
    folder = os.path.join(FLAGS.output_dir, f"seed_{seed}")
    results[seed] = run_model(run, folder)
  if FLAGS.do_eval and distribution.is_chief(run.strategy):
    text = seed_results.summary(results)
    path = os.path.join(FLAGS.output_dir, "seeds_results.txt")
    data_files.write_text(path, text)
    print(text, end="")


# From flags to data.


def asked_for():
  """Returns the names among train, eval and predict that are asked for."""
  wants = {
    "train": FLAGS.do_train,
    "eval": FLAGS.do_eval or (FLAGS.do_train and FLAGS.eval_steps),
    "predict": FLAGS.do_predict,
  }
  return [name for name, wanted in wants.items() if wanted]


def read_task(task):
  """Returns dict from "train", "eval", "eval_mismatched", ... to Split."""
  of_task = {
    "train": ["train"],
    "eval": glue_data.eval_splits(task),
    "predict": glue_data.predict_splits(task),
  }
  splits = {}
  for name in asked_for():
    for number, split in enumerate(of_task[name]):
      try:
        paths = glue_data.paths(
          task, FLAGS.data_dir, split, language=FLAGS.language
        )
      except errors.InputError as error:
        if not number:
          raise
        logging.info("without the %s data: %s", split, error)
        continue
      # As in the original: the first one has the plain name.
      named = f"{name}_{split.split('_')[-1]}" if number else name
      examples = glue_data.read(
        task, FLAGS.data_dir, split, language=FLAGS.language
      )
      splits[named] = classifier_examples.Split(split, examples, paths)
  return splits


def prepared(splits):
  """Returns splits as they are used: cut to the limits, tests unlabelled."""
  result = {}
  for name, split in splits.items():
    purpose = name.split("_")[0]
    examples = split.examples
    limit = FLAGS[f"max_{purpose}_examples"].value
    if limit:
      examples = examples[:limit]
    if purpose == "predict":
      # As in the original: the records of what is predicted have no label.
      examples = [example._replace(label=None) for example in examples]
    else:
      classifier_examples.check_labelled(examples)
    result[name] = split._replace(examples=examples)
  return result


def model_config(config, kind, labels):
  """Returns the modeling.BertConfig with what the classifier is.

  A folder with other classes or another kind is refused, and the model that
  is written tells them: under the names that Hugging Face has for them.
  """
  values = config.to_dict()
  values.pop("id2label", None)
  if labels:
    values["id2label"] = {str(i): label for i, label in enumerate(labels)}
  values["problem_type"] = PROBLEM_TYPES[kind]
  return modeling.BertConfig.from_dict(values)


def prepare_all(splits, options):
  """Returns dict from the names of `splits` to ClassifierData."""
  return {
    name: classifier_input.prepare(
      os.path.join(FLAGS.output_dir, f"{name}.tf_record"),
      split.examples,
      options,
    )
    for name, split in splits.items()
  }


def metric_names(task):
  """Returns the names of the metrics to report."""
  names = list(FLAGS.metrics or task.metrics)
  if task.kind == classifier_examples.SINGLE and "accuracy" not in names:
    names.append("accuracy")  # As in the original: always.
  classification_metrics.check_metrics(names, task.kind, len(task.labels))
  return tuple(names)


def main(argv):
  del argv
  common_flags.require_one_of("do_train", "do_eval", "do_predict")
  config = common_flags.model_config()
  common_flags.make_tokenizer(config)
  # Before anything else computes: devices cannot be arranged afterwards.
  strategy = common_flags.make_strategy()
  task = glue_data.find(FLAGS.task_name)
  splits = prepared(read_task(task))
  options = classifier_input.Options(
    kind=task.kind,
    labels=tuple(task.labels),
    vocab_file=FLAGS.vocab_file,
    do_lower_case=FLAGS.do_lower_case,
    max_seq_length=FLAGS.max_seq_length,
    doc_stride=FLAGS.doc_stride,
    max_windows=FLAGS.max_windows,
  )
  weights = None
  if FLAGS.class_weights and "train" in splits:
    weights = classifier_examples.class_weights(
      FLAGS.class_weights, splits["train"].examples, task.labels
    )
  run = Run(
    config=model_config(config, task.kind, task.labels),
    options=options,
    metrics=metric_names(task),
    class_weights=weights,
    strategy=strategy,
    data={},
    splits=splits,
    trim=common_flags.shapes_may_vary(strategy),
    vocab_file=FLAGS.vocab_file,
  )
  # Claimed before the first file is written.
  open_run(run, FLAGS.output_dir)
  run = run._replace(data=prepare_all(splits, options))
  if FLAGS.seeds:
    run_seeds(run)
  else:
    run_model(run, FLAGS.output_dir)


if __name__ == "__main__":
  app.run(errors.report_input_errors(main))
