r"""Tags words: names, chunks, parts of speech; any labels in CoNLL columns.

  python run_ner.py --do_train --do_eval --do_predict --document_context \
      --train_file=eng.train --eval_file=eng.testa --predict_file=eng.testb \
      --scheme=iob1 --do_lower_case=False --vocab_file=vocab.txt \
      --bert_config_file=bert_config.json --init_checkpoint=bert_model.ckpt \
      --output_dir=ner_output

Fine-tunes as the paper does (arXiv 1810.04805, section 5.3): a classifier on
each word's first word piece. The paper's table of frozen features is

  python run_ner.py --do_train --do_eval --freeze_encoder \
      --feature_layers=embeddings,second_to_last,last,weighted_sum_last_four \
      --learning_rate=1e-3 ...

A trained model tags sentences as they come, columns or JSON lines:

  echo '{"words": ["Anna", "Lang", "lives", "in", "Bern"]}' | \
      python run_ner.py --do_predict --predict_file=- --file_format=jsonl \
      --model_dir=ner_output/final_model
"""

from common import choices, command, flags
from training import common_flags

common_flags.define_fine_tuning_flags()
flags.DEFINE_string(
  "train_file", None, "CoNLL columns or JSON lines to train on.",
  needs="do_train",
)
flags.DEFINE_string(
  "eval_file", None, "CoNLL columns or JSON lines to evaluate on.",
  needs="do_eval|eval_steps",
)
flags.DEFINE_string(
  "predict_file", None,
  "CoNLL columns or JSON lines to label: words alone, or with labels that are "
  "scored. -: the standard input; answers go to the standard output, and "
  "--output_dir is not needed.", needs="do_predict",
)
flags.DEFINE_enum(
  "file_format", None, choices.TAGGING_FORMATS,
  "Format of all files, and of the predictions. If not given: jsonl for names "
  "that end in .jsonl or .json, else conll, the format of columns. text: raw "
  "sentences to label, a line each; their words are answered in columns.",
)
flags.DEFINE_integer("word_column", 0, "The column of the words, from 0.")
flags.DEFINE_integer(
  "label_column", -1, "The column of the labels; negative from the end.",
  needs="do_train|do_eval|predict_labels do_train|do_eval|!predict_file=-",
  why="",
)
flags.DEFINE_enum(
  # The official files of CoNLL-2003 are in iob1, many copies of them in iob2.
  "scheme", "iob2", choices.TAGGING_SCHEMES,
  "How labels mark where an entity begins; none: labels of single words, such "
  "as parts of speech.",
)
flags.DEFINE_bool(
  "predict_labels", True,
  "Whether to check and score the labels of --predict_file, if it has any.",
  needs="do_predict", not_with="predict_file=-",
)
flags.DEFINE_bool(
  "document_context", False,
  "Fills each sequence with the words around the sentence in its document, as "
  "the paper does.",
)
flags.DEFINE_list(
  "feature_layers", [],
  "With --freeze_encoder: trains a two-layer BiLSTM on these features of "
  f"BERT: {', '.join(choices.TAGGING_FEATURES)}. Several are trained one after "
  "another and compared in a table.", needs="freeze_encoder|!do_train",
  why=", which trains no layer",
)
flags.DEFINE_integer(
  # As in the paper.
  "bilstm_size", 768, "Units of each direction of the BiLSTM.", lower_bound=1,
  needs="feature_layers",
)
flags.rule(
  "train_batch_size learning_rate num_train_epochs warmup_proportion "
  "save_checkpoints_steps iterations_per_loop seed", needs="do_train",
)
flags.rule("do_train", needs="train_file")
flags.rule("do_eval eval_steps", needs="eval_file")
flags.rule("do_predict", needs="predict_file")
flags.rule("freeze_encoder", needs="do_train|feature_layers")
flags.rule(
  "pack_sequences", not_with="feature_layers",
  why=", which are computed once and kept",
)
flags.rule(
  "train_file eval_file word_column label_column predict_labels",
  not_with="file_format=text", why=", which has neither columns nor labels",
)
flags.rule("eval_batch_size", needs="do_eval|eval_steps")
flags.rule("predict_batch_size", needs="do_predict")

# --help and mistakes are answered before TensorFlow is loaded.
command.parse_flags(__name__)

import os
from typing import NamedTuple

import tensorflow as tf

import modeling
from checkpoints import model_settings, weight_files
from common import file_io, line_answers
from tagging import (
  bilstm,
  encoder_states,
  evaluation,
  input_data,
  interactive,
  taggers,
)
from training import components, distribution, harness, train_log


class TaggingRun(NamedTuple):
  """What all the models of one command share.

  Attributes:
    config: modeling.BertConfig, with the labels.
    labels: list of str.
    strategy: tf.distribute.Strategy.
    trim: whether batches may be cut to their longest sequence.
    data: dict from "train", "eval", "predict" to input_data.TaggingData,
      where asked for.
  """

  config: modeling.BertConfig
  labels: list
  strategy: tf.distribute.Strategy
  trim: bool
  data: dict


def task_on(features):
  """Returns the task of a run's folder."""
  return f"tagging on {features}" if features else "tagging"


def make_model(settings, run, features):
  """Returns the taggers.TaggingModel of the flags."""
  return taggers.TaggingModel(
    run.config, len(run.labels), features=features,
    bilstm_size=settings.bilstm_size, stored_features=settings.feature_layers,
    **components.model_options(settings, run.strategy)
  )


def store_states(settings, model, run):
  """Returns data whose records hold what the frozen encoder gives."""
  return {
    name: encoder_states.ensure(
      os.path.join(settings.output_dir, f"{name}.states.tf_record"), model,
      data, settings.feature_layers, strategy=run.strategy,
      batch_size=settings.eval_batch_size, trim=run.trim
    )
    for name, data in run.data.items()
  }


def train(settings, model, run, start, *, features, output_dir):
  """Trains from `start`; returns the step and the data that it read."""
  data, train_data = dict(run.data), run.data["train"]

  def training_data():
    # The weights are loaded by now: the states are a function of them.
    if features:
      data.update(store_states(settings, model, run))
    records = data["train"]
    return harness.TrainingData(
      [records.records], records.features, len(train_data.windows), run.trim
    )

  predictor = evaluation.FilePredictor(model, run)
  names = None
  if "eval" in data:
    names = evaluation.result_names(data["eval"], settings.scheme)
  task = harness.Task(
    model,
    run.config,
    run.strategy,
    taggers.objective(model),
    output_dir,
    length=harness.training_length(settings, len(train_data.windows)),
    new_variables=taggers.NEW_VARIABLES,
    data=training_data,
    evaluate=lambda: evaluate(settings, predictor, data["eval"]).results,
    result_names=names,
    write=lambda folder, step: input_data.write_model(
      folder, model, settings, features, step=step
    ),
  )
  return harness.train(settings, task, start), data


def evaluate(settings, predictor, data):
  """Returns the evaluation.Evaluation of the evaluation data."""
  predicted, loss = predictor.predict(data, settings.eval_batch_size)
  return evaluation.evaluate(data, predicted, loss, settings.scheme)


def predict(settings, predictor, run, output_dir):
  """Writes the file to predict with its labels; scores those it has."""
  data = run.data["predict"]
  predicted, loss = predictor.predict(data, settings.predict_batch_size)
  # All processes compute, one writes.
  if not distribution.is_chief(run.strategy):
    return
  evaluation.write_predictions(output_dir, data, predicted)
  if data.is_labelled:
    found = evaluation.evaluate(data, predicted, loss, settings.scheme)
    evaluation.write_scores(output_dir, "test", found)


def run_model(settings, run, features, output_dir):
  """Trains, evaluates and predicts with one model; returns its scores.

  features are one of bilstm.FEATURES, or None to fine-tune; without an
  output_dir a stream is answered.
  """
  start = components.open_run(
    settings, task_on(features), run.config, run.strategy, output_dir
  )
  with run.strategy.scope():
    model = make_model(settings, run, features)
  step = start.step
  if settings.do_train:
    step, data = train(
      settings, model, run, start, features=features, output_dir=output_dir
    )
    # Of a frozen encoder: its stored states.
    run = run._replace(data=data)
  else:
    weight_files.load(
      # Nothing reads it, and token classifiers of Hugging Face have none.
      model.variables, start.path, allowed_missing=["^bert/pooler/"]
    )
  predictor, results = evaluation.FilePredictor(model, run), {}
  if settings.do_eval:
    found = evaluate(settings, predictor, run.data["eval"])
    results = found.results
    if distribution.is_chief(run.strategy):
      evaluation.write_scores(output_dir, "eval", found, global_step=step)
      if settings.do_train:
        train_log.write_last_evaluation(output_dir, step, results)
  if "predict" in run.data:
    predict(settings, predictor, run, output_dir)
  if components.answers_stream(settings):
    tokenizer = model_settings.make_tokenizer(settings, run.config)
    interactive.answer_stream(
      settings, model, tokenizer, run.labels, line_answers.standard_streams()
    )
  return results


def read_settings():
  """Returns the settings of the flags and of a trained model's folder."""
  settings = model_settings.resolve(flags.read_settings())
  if settings.do_train:
    return settings
  return model_settings.restore_trained(
    settings, (*input_data.INPUT_FLAGS, *input_data.HEAD_FLAGS)
  )


def main(_):
  settings = read_settings()
  paths = input_data.files_to_read(settings)
  config = components.model_config(settings)
  bilstm.check_features(settings.feature_layers, config.num_hidden_layers)
  tokenizer = model_settings.make_tokenizer(settings, config)
  sentences = input_data.read_all(settings, paths)
  folder = settings.output_dir
  labels_file = folder and os.path.join(folder, "labels.txt")
  labels = input_data.model_labels(sentences.get("train"), labels_file, config)
  config = input_data.trained_config(config, labels)

  # Before anything else computes: devices cannot be arranged afterwards.
  strategy = components.make_strategy(settings)
  # Claimed before the first file is written.
  task = task_on(",".join(settings.feature_layers))
  components.claim_folder(settings, task, config, strategy)
  run = TaggingRun(
    config, labels, strategy, components.shapes_may_vary(settings, strategy),
    input_data.prepare_all(
      settings, paths, sentences, tokenizer=tokenizer, labels=labels
    ),
  )
  if settings.do_train and distribution.is_chief(strategy):
    file_io.write_text(labels_file, "".join(f"{name}\n" for name in labels))
  # One model is in --output_dir itself, several in a folder each.
  if len(settings.feature_layers) < 2:
    features = next(iter(settings.feature_layers), None)
    run_model(settings, run, features, folder)
    return
  rows = [
    (name, run_model(settings, run, name, os.path.join(folder, name)))
    for name in settings.feature_layers
  ]
  if settings.do_eval:
    print(evaluation.comparison_table(rows))


if __name__ == "__main__":
  command.run(main)
