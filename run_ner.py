r"""Tags words, for example with named entities, chunks or parts of speech.

  python run_ner.py --do_train --do_eval --do_predict --document_context \
      --train_file=eng.train --eval_file=eng.testa --predict_file=eng.testb \
      --scheme=iob1 --do_lower_case=False --vocab_file=vocab.txt \
      --bert_config_file=bert_config.json --init_checkpoint=bert_model.ckpt \
      --output_dir=ner_output

The script fine-tunes as the paper does (arXiv 1810.04805, section 5.3), with a
classifier on each word's first piece. For the paper's feature-based approach:

  python run_ner.py --do_train --do_eval --freeze_encoder \
      --feature_layers=weighted_sum_last_four --learning_rate=1e-3 ...

A trained model tags sentences in columns, JSON lines or plain text:

  python run_ner.py --do_predict --predict_file=new.txt --file_format=text \
      --model_dir=ner_output/final_model --output_dir=new_output
  python run_ner.py --text="Anna lives in Bern." \
      --model_dir=ner_output/final_model
"""

from common import command, flag_values, flags, run_settings
from running import repetitions
from serving import text_flags
from training import common_flags

common_flags.define_fine_tuning_flags()
flags.DEFINE_string(
  "train_file",
  None,
  "CoNLL columns or JSON lines to train on.",
  needs="do_train",
)
flags.DEFINE_string(
  "eval_file",
  None,
  "CoNLL columns or JSON lines to evaluate on.",
  needs="do_eval|eval_steps",
)
flags.DEFINE_string(
  "predict_file",
  None,
  "CoNLL columns, JSON lines or plain text to tag; if the file has labels, the "
  "predictions are scored.",
  needs="do_predict",
)
flags.DEFINE_enum(
  "file_format",
  None,
  flag_values.TAGGING_FORMATS,
  "Format of all files and of the predictions. By default, jsonl for names "
  "that end in .jsonl or .json, and conll (columns) for all others. text: one "
  "sentence per line to tag; the predictions are in columns.",
)
flags.DEFINE_integer("word_column", 0, "Column of the words, from 0.")
flags.DEFINE_integer(
  "label_column",
  -1,
  "Column of the labels; negative numbers count from the end.",
  needs="do_train|do_eval|predict_labels",
)
flags.DEFINE_enum(
  # The official files of CoNLL-2003 use iob1; many copies use iob2.
  "scheme",
  "iob2",
  flag_values.TAGGING_SCHEMES,
  "How labels mark the start of an entity. plain: labels are types only (PER); "
  "adjacent words with the same type form an entity. none: labels of single "
  "words, such as parts of speech.",
)
flags.DEFINE_bool(
  "lenient",
  False,
  "Accepts label sequences that the scheme forbids (I-PER after O in iob2) and "
  "scores them as conlleval does.",
  not_with="scheme=none",
)
flags.DEFINE_string(
  "outside_label",
  "O",
  "The label of words outside of entities in your files, such as 0 or OTHER. "
  "The model and its predictions have O.",
  needs="do_train|do_eval|predict_labels",
  not_with="scheme=none",
)
flags.DEFINE_list(
  "label_names",
  [],
  "Names of the numeric labels in JSON lines (ner_tags), in order from 0.",
  needs="do_train|do_eval|predict_labels",
)
flags.DEFINE_bool(
  "predict_labels",
  True,
  "Whether to check and score the labels of --predict_file, if it has any.",
  needs="do_predict",
)
flags.DEFINE_bool(
  "document_context",
  False,
  "Fills each sequence with the words around the "
  "sentence in its document, as the paper does.",
)
flags.DEFINE_enum(
  "feature_layers",
  None,
  flag_values.TAGGING_FEATURES,
  "With --freeze_encoder: BERT's features on which to train a two-layer "
  "BiLSTM.",
  needs="freeze_encoder|!do_train",
)
flags.DEFINE_integer(
  # As in the paper.
  "bilstm_size",
  768,
  "Units of the BiLSTM per direction.",
  lower_bound=1,
  needs="feature_layers",
)
repetitions.define(
  repetitions.Script(
    "tagging", "f1 (--scheme=none: accuracy)", "feature_layers"
  )
)
flags.rule(
  "train_batch_size learning_rate num_train_epochs warmup_proportion "
  "save_checkpoints_steps iterations_per_loop seed",
  needs="do_train",
)
flags.rule("do_train", needs="train_file")
flags.rule("do_eval eval_steps", needs="eval_file")
flags.rule("do_predict", needs="predict_file")
flags.rule("freeze_encoder", needs="do_train|feature_layers")
flags.rule(
  "train_file eval_file word_column label_column predict_labels",
  not_with="file_format=text",
  why=", which has neither columns nor labels",
)
flags.rule("eval_batch_size", needs="do_eval|eval_steps")
flags.rule("predict_batch_size", needs="do_predict")

text_flags.define("text")
# --help and flag errors need no TensorFlow, which takes seconds to import.
command.parse_flags(__name__, imports_tensorflow=text_flags.need_tensorflow)
if __name__ == "__main__" and text_flags.are_given():
  text_flags.run("tagging")

import os
from typing import NamedTuple

import tensorflow as tf

import configuration
import heads
from checkpoints import model_files, weight_files
from common import file_io
from running import reports, trackers
from tagging import bilstm, inputs, predictions, scores
from tagging import model as tagging_model
from training import distribution, harness, run_setup


class TaggingRun(NamedTuple):
  """The data and names that all models of one command share.

  Attributes:
    task: the task's name, which is stored in the run's folder.
    config: the model configuration, including the labels.
    trim: whether batches may be cut to their longest sequence.
    files: {name: inputs.TaggingData} for the used files among "train", "eval"
      and "predict".
  """

  task: str
  config: configuration.BertConfig
  labels: list
  strategy: tf.distribute.Strategy
  trim: bool
  files: dict


def score(
  settings: run_settings.Settings, predictor, file, batch_size: int
) -> tuple:
  """Returns a file's predicted labels and, if the file has labels, scores."""
  predicted, loss = predictor.predict(file, batch_size)
  if not file.is_labelled:
    return predicted, None
  gold = [sentence.labels for sentence in file.sentences]
  return predicted, scores.evaluate(gold, predicted, loss, settings.scheme)


def train(settings: run_settings.Settings, model, run, start, predictor):
  """Trains from `start`; returns the last step.

  With --feature_layers, stored hidden states replace the records in run.files.
  """
  count, names = len(run.files["train"].windows), None

  def training_data() -> harness.TrainingData:
    # The hidden states depend on the weights, which have been loaded by now.
    if settings.feature_layers:
      for name, file in run.files.items():
        run.files[name] = tagging_model.store_states(
          os.path.join(settings.output_dir, f"{name}.states.tf_record"),
          model,
          file,
          strategy=run.strategy,
          batch_size=settings.eval_batch_size,
          trim=run.trim,
        )
    file = run.files["train"]
    return harness.TrainingData([file.records], file.features, count, run.trim)

  def evaluate() -> dict[str, float]:
    file = run.files["eval"]
    return score(settings, predictor, file, settings.eval_batch_size)[1].results

  if "eval" in run.files:
    gold = [sentence.labels for sentence in run.files["eval"].sentences]
    # Gold labels stand in for predictions, to get the names of the results.
    # This omits types that are only predicted, whose scores are 0.
    names = list(scores.evaluate(gold, gold, 0.0, settings.scheme).results)
  return harness.train(
    settings,
    harness.TrainingSpec(
      model,
      run.config,
      run.strategy,
      tagging_model.objective(model),
      settings.output_dir,
      length=harness.training_length(settings, count),
      new_variables=tagging_model.NEW_VARIABLES,
      data=training_data,
      evaluate=evaluate,
      result_names=names,
      write=lambda folder, step: inputs.write_model(
        folder, model, settings, step
      ),
    ),
    start,
  )


def run_model(settings: run_settings.Settings, run):
  """Trains, evaluates and predicts with one model; returns its scores."""
  start = run_setup.open_run(settings, run.task, run.config, run.strategy)
  with run.strategy.scope(), weight_files.without_random_init(start.path):
    model = tagging_model.TaggingModel(
      run.config,
      len(run.labels),
      features=settings.feature_layers,
      bilstm_size=settings.bilstm_size,
      **run_setup.model_options(settings, run.strategy),
    )
  predictor = predictions.FilePredictor(
    model, run.labels, strategy=run.strategy, trim=run.trim
  )
  step, report = start.step, reports.Report("token-classification", {})
  if settings.do_train:
    step = train(settings, model, run, start, predictor)
  else:
    assert start.path  # Without training, a random start is refused.
    weight_files.load(
      # Taggers do not use the pooler, and Hugging Face's taggers have none.
      model.variables,
      start.path,
      allowed_missing=heads.POOLER,
    )
  # All processes compute, but only the chief writes.
  is_chief, folder = distribution.is_chief(run.strategy), settings.output_dir
  if settings.do_eval:
    file = run.files["eval"]
    predicted, evaluation = score(
      settings, predictor, file, settings.eval_batch_size
    )
    report = report._replace(
      results=evaluation.results,
      details=evaluation.report,
      mistakes=predictions.mistakes(file.sentences, predicted),
    )
    if is_chief:
      scores.write(folder, "eval", evaluation, global_step=step)
      trackers.write_evaluation(folder, step, evaluation.results)
  if "predict" in run.files:
    file = run.files["predict"]
    predicted, evaluation = score(
      settings, predictor, file, settings.predict_batch_size
    )
    if is_chief:
      predictions.write(folder, file, predicted, settings.scheme)
      if evaluation:
        scores.write(folder, "test", evaluation)
  if is_chief and (settings.do_train or settings.do_eval):
    reports.write_all(settings, report._replace(labels=run.labels))
  return report.results


def main(_: list[str]) -> None:
  """Prepares the data; trains, evaluates and predicts with each model."""
  settings = flags.read_settings()
  files = model_files.ModelFiles.of(settings)
  stored = (*inputs.INPUT_FLAGS, *inputs.HEAD_FLAGS)
  settings = files.complete(
    settings, () if settings.do_train else stored, head="tagging"
  )
  paths = inputs.files_to_read(settings)
  config = run_setup.model_config(settings, files, "tagging")
  features = settings.feature_layers
  if features:
    bilstm.check_features(features, config.num_hidden_layers)
  tokenizer = files.make_tokenizer(settings)
  sentences = inputs.read_all(settings, paths)
  labels_file = os.path.join(settings.output_dir, "labels.txt")
  labels = inputs.model_labels(sentences.get("train"), labels_file, config)
  config = inputs.trained_config(config, labels)

  # TensorFlow cannot rearrange its devices after the first computation.
  strategy = run_setup.make_strategy(settings)
  # Claims the folder before the first file is written.
  task = f"tagging on {features}" if features else "tagging"
  run_setup.claim_folder(settings, task, config, strategy)
  prepared = inputs.prepare_all(
    settings, paths, sentences, tokenizer=tokenizer, labels=labels
  )
  run = TaggingRun(
    task,
    config,
    labels,
    strategy,
    run_setup.shapes_may_vary(settings, strategy),
    prepared,
  )
  if settings.do_train and distribution.is_chief(strategy):
    file_io.write_text(labels_file, "".join(f"{name}\n" for name in labels))
  repetitions.run(
    settings,
    lambda new_settings: run_model(new_settings, run),
    "accuracy" if settings.scheme == "none" else "f1",
    is_chief=distribution.is_chief(strategy),
  )


if __name__ == "__main__":
  command.run(main)
