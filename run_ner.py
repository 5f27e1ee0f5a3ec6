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

The 200 sentences in tests/data train to F1 0.98 on 40 others in 15 seconds.
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
flags.DEFINE_string("train_file", None, "CoNLL columns to train on.")
flags.DEFINE_string("eval_file", None, "CoNLL columns to evaluate on.")
flags.DEFINE_string(
  "predict_file", None,
  "CoNLL columns to label: words alone, or with labels that are scored.",
)
flags.DEFINE_integer("word_column", 0, "The column of the words, from 0.")
flags.DEFINE_integer(
  "label_column", -1, "The column of the labels; negative from the end."
)
flags.DEFINE_enum(
  "scheme", "iob2", choices.TAGGING_SCHEMES,
  "How labels mark where an entity begins; none: labels of single words, such "
  "as parts of speech.",
)
flags.DEFINE_bool(
  "predict_labels", True,
  "Whether to check and score the labels of --predict_file, if it has more "
  "than one column.",
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
  "another and compared in a table.",
)
flags.DEFINE_integer(
  "bilstm_size", 768, "Units of each direction of the BiLSTM.", lower_bound=1
)

# --help and mistakes are answered before TensorFlow is loaded.
command.parse_flags(__name__)

import functools
import os
from typing import NamedTuple

import tensorflow as tf
from absl import logging

import modeling
from checkpoints import model_folder, weight_files
from common import errors, file_io
from tagging import dataset, input_data, scoring, taggers
from training import (
  distribution,
  evaluation_loop,
  pipeline,
  setup,
  train_log,
)

# What the checkpoint of an encoder need not have.
NEW_VARIABLES = ("^output_(weights|bias)$", "^tagging/", "^bert/pooler/")


class TaggingModel(tf.Module):
  """The encoder and a classifier of tokens, or the BiLSTM on features."""

  def __init__(
    self, config, num_labels, *, features=None, bilstm_size=768,
    **model_options,
  ):
    super().__init__()
    self.config = config
    seed = model_options["seed"]
    self.bert = modeling.BertModel(config, **model_options)
    self.is_frozen = bool(features)
    if features:
      self.head = taggers.FeatureTagger(
        config, num_labels, features=features, size=bilstm_size, seed=seed
      )
    else:
      self.head = modeling.TokenClassificationHead(
        config, num_labels, seed=seed
      )

  def __call__(self, batch, dropout_seed=None):
    """Returns float32 logits [B, T, L]."""
    output = self.bert.encode(batch, None if self.is_frozen else dropout_seed)
    if self.is_frozen:
      return self.head(output, batch["input_mask"], dropout_seed=dropout_seed)
    return self.head(
      output.sequence_output,
      dropout_seed is not None,
      dropout_seed=dropout_seed,
    )

  def trained_variables(self):
    """Returns the variables that the loss reaches: not the pooler's."""
    bert = [] if self.is_frozen else self.bert.variables
    encoder = [v for v in bert if "/pooler/" not in v.name]
    return [*encoder, *self.head.variables]


class Run(NamedTuple):
  """What all the models of one command share.

  Attributes:
    config: modeling.BertConfig.
    labels: list of str.
    scheme: one of dataset.SCHEMES.
    strategy: tf.distribute.Strategy.
    data: dict from "train", "eval", "predict" to input_data.TaggingData,
      where asked for.
    batch_sizes: dict from the same names to examples in a batch.
    features: dict from name to tf.io.FixedLenFeature, of a record.
    trim: whether batches may be cut to their longest sequence.
    seed: of the order of the training data.
    vocab_file, do_lower_case: kept beside the trained weights.
  """

  config: modeling.BertConfig
  labels: list
  scheme: str
  strategy: tf.distribute.Strategy
  data: dict
  batch_sizes: dict
  features: dict
  trim: bool
  seed: int
  vocab_file: str
  do_lower_case: bool


@functools.lru_cache(maxsize=1)  # One function of a model: compiled once.
def batch_outputs(model, trim):
  """Returns a function of a batch: its labels and losses."""

  def of_batch(batch):
    length = batch["input_ids"].shape[1]
    if trim:
      batch = pipeline.trim_to_longest(batch)
    logits = model(batch)
    predicted = tf.argmax(logits, axis=-1, output_type=tf.int32)
    rest = length - tf.shape(predicted)[1]
    losses = taggers.word_losses(logits, batch["label_ids"])
    return {
      "predicted": tf.pad(predicted, [[0, 0], [0, rest]]),
      "loss": tf.reduce_sum(losses, axis=1),
    }

  return of_batch


def predict(model, run, name):
  """Labels every word of run.data[name].

  Returns:
    list of lists of str, the labels of each sentence; mean loss of a word.
  """
  data = run.data[name]
  lengths = [len(window.input_ids) for window in data.windows]
  outputs = evaluation_loop.predict(
    run.strategy,
    batch_outputs(model, run.trim),
    pipeline.sequential_records([data.records]),
    run.features,
    num_records=len(data.windows),
    batch_size=run.batch_sizes[name],
    lengths=lengths if run.trim else None,
  )
  predicted = dataset.predicted_labels(
    data.sentences, data.windows, outputs["predicted"], run.labels
  )
  num_words = sum(len(sentence) for sentence in predicted)
  return predicted, outputs["loss"].sum() / num_words


def scores(data, predicted, loss, scheme):
  """Returns the results of labelled data: dict from name to number."""
  gold = [sentence.labels for sentence in data.sentences]
  if scheme == "none":
    return {"loss": loss, "accuracy": scoring.accuracy(gold, predicted)}
  return {"loss": loss, **scoring.entity_scores(gold, predicted)}


def train(settings, model, run, start, output_dir):
  """Trains from `start`; returns the last step."""
  data = run.data["train"]
  num_train_steps, num_warmup_steps = setup.training_length(
    settings,
    len(data.windows)
  )
  trainer = setup.make_trainer(
    settings,
    model.variables,
    trained=model.trained_variables(),
    config=run.config,
    strategy=run.strategy,
    objective=taggers.objective(model),
    num_train_steps=num_train_steps,
    num_warmup_steps=num_warmup_steps,
    output_dir=output_dir,
  )
  trainer.start_from(start, may_be_missing=NEW_VARIABLES)

  def batches_from(step):
    return pipeline.training_batches(
      run.strategy,
      [data.records],
      run.features,
      num_records=len(data.windows),
      batch_size=run.batch_sizes["train"],
      seed=run.seed,
      first_step=step,
      bucketing=setup.bucketing(settings, run.features, run.strategy),
      trim=run.trim,
    )

  def keep(folder):
    if distribution.is_chief(run.strategy):
      path = os.path.join(output_dir, folder)
      model_folder.write(
        path, model.variables, run.config, run.vocab_file, run.do_lower_case
      )

  trainer.train(
    batches_from,
    setup.periodic_evaluation(
      settings,
      lambda: evaluate(model, run),
      keep_best=lambda step: keep("best_model"),
      names=result_names(run),
    ),
  )
  keep("final_model")
  return int(trainer.global_step.numpy())


def evaluate(model, run):
  """Returns the scores of the evaluation data."""
  predicted, loss = predict(model, run, "eval")
  return scores(run.data["eval"], predicted, loss, run.scheme)


def result_names(run):
  """Returns the names of the scores, None without data to evaluate."""
  if "eval" not in run.data:
    return None
  data = run.data["eval"]
  gold = [sentence.labels for sentence in data.sentences]
  return list(scores(data, gold, 0.0, run.scheme))


def write_predictions(model, run, output_dir):
  """Writes the file to predict with one more column; scores its labels."""
  data = run.data["predict"]
  predicted, loss = predict(model, run, "predict")
  if not distribution.is_chief(run.strategy):
    return
  path = os.path.join(output_dir, "test_predictions.conll")
  lines = dataset.with_column(data.path, predicted)
  file_io.write_text(path, "".join(lines))
  logging.info("predictions are in %s", path)
  if data.is_labelled:
    results = scores(data, predicted, loss, run.scheme)
    write_results(os.path.join(output_dir, "test_results.txt"), results)


def write_results(path, results):
  """Writes `name = value` lines in the order of names."""
  lines = [f"{name} = {results[name]!s}\n" for name in sorted(results)]
  for line in lines:
    logging.info("  %s", line.rstrip())
  file_io.write_text(path, "".join(lines))


def task_on(features):
  """Returns the task of a run's folder."""
  return f"tagging on {features}" if features else "tagging"


def run_model(settings, run, features, output_dir, *, make_model, do_eval):
  """Trains, evaluates and predicts with one model.

  Args:
    run: Run; there is training and prediction if it has the data.
    features: one of taggers.FEATURES, or None to fine-tune.
    output_dir: folder of this model.
    make_model: function of `features`; returns a TaggingModel.
    do_eval: whether to evaluate at the end.

  Returns:
    The scores of the evaluation data, {} without do_eval.
  """
  start = setup.open_run(
    settings,
    task_on(features), run.config, run.strategy, output_dir
  )
  with run.strategy.scope():
    model = make_model(features)
  step = start.commit.step if start.commit else 0
  if "train" in run.data:
    step = train(settings, model, run, start, output_dir)
  elif start.path:
    weight_files.load(
      model.variables, start.path, allowed_missing=["^bert/pooler/"]
    )
  results = {}
  if do_eval:
    results = evaluate(model, run)
    if distribution.is_chief(run.strategy):
      path = os.path.join(output_dir, "eval_results.txt")
      write_results(path, {"global_step": step, **results})
      if "train" in run.data:
        train_log.write_last_evaluation(output_dir, step, results)
  if "predict" in run.data:
    write_predictions(model, run, output_dir)
  return results


def results_table(rows):
  """Returns a table of (features, results) pairs, a str."""
  names = [
    name
    for name in ("precision", "recall", "f1", "accuracy", "loss")
    if name in rows[0][1]
  ]
  table = [f"{'features':24}" + "".join(f"{name:>11}" for name in names)]
  for features, results in rows:
    values = "".join(f"{results[name]:11.4f}" for name in names)
    table.append(f"{features:24}{values}")
  return "\n".join(table)


def check_features(chosen, num_hidden_layers, *, is_frozen):
  """Refuses --feature_layers that are unknown or that the model lacks.

  Raises:
    InputError: so, or the encoder is not frozen.
  """
  for features in chosen:
    if features not in taggers.FEATURES:
      raise errors.InputError(
        f"--feature_layers={features} is unknown; choose of "
        f"{', '.join(taggers.FEATURES)}"
      )
    needed = taggers.layers_needed(features)
    if needed > num_hidden_layers:
      raise errors.InputError(
        f"--feature_layers={features} needs {needed} layers, but the model "
        f"has {num_hidden_layers}"
      )
  if chosen and not is_frozen:
    raise errors.InputError(
      "--feature_layers are those of an encoder that stays as it is: pass "
      "--freeze_encoder too"
    )


def model_labels(train_sentences, labels_file, config):
  """Returns the labels of the model, from the first place that has them.

  1. The training data.
  2. The file that the training has written.
  3. id2label in --bert_config_file, as in output_dir/final_model.

  Raises:
    InputError: no place has any.
  """
  if train_sentences:
    return dataset.label_list(train_sentences)
  if tf.io.gfile.exists(labels_file):
    return [line for _, line in file_io.read_lines(labels_file)]
  if labels := config.label_names():
    return labels
  raise errors.InputError(
    f"no labels known: there is no {labels_file}, and --bert_config_file has "
    "no id2label; pass the bert_config.json in the final_model of a training, "
    "or --do_train"
  )


def files_to_read(settings):
  """Returns dict from train, eval, predict to the path, where asked for.

  Raises:
    InputError: a path is missing, or nothing is asked for.
  """
  setup.require_one_of(settings, "do_train", "do_eval", "do_predict")
  asked = {
    "train": settings.do_train,
    "eval": settings.do_eval or (settings.do_train and settings.eval_steps),
    "predict": settings.do_predict,
  }
  paths = {
    name: settings.get(f"{name}_file") for name in asked if asked[name]
  }
  for name, path in paths.items():
    if not path:
      flag = "eval_steps" if name == "eval" and not settings.do_eval else None
      raise errors.InputError(
        f"--{flag or f'do_{name}'} needs --{name}_file"
      )
  return paths


def read_sentences(settings, paths):
  """Returns dict from the names of `paths` to lists of dataset.Sentence."""
  sentences = {}
  for name, path in paths.items():
    labelled = name != "predict" or (
      settings.predict_labels and dataset.count_columns(path) > 1
    )
    sentences[name] = dataset.read_sentences(
      path,
      word_column=settings.word_column,
      label_column=settings.label_column,
      scheme=settings.scheme,
      labelled=labelled,
    )
  return sentences


def prepare_all(settings, paths, sentences, tokenizer, labels):
  """Returns dict from the names of `paths` to input_data.TaggingData."""
  data = {}
  for name, path in paths.items():
    windows = dataset.make_windows(
      sentences[name],
      tokenizer,
      settings.max_seq_length,
      document_context=settings.document_context,
      path=path,
    )
    data[name] = input_data.prepare(
      path,
      sentences[name],
      windows,
      labels=labels,
      records=os.path.join(settings.output_dir, f"{name}.tf_record"),
      max_seq_length=settings.max_seq_length,
    )
  return data


def main(_):
  settings = setup.resolve(common_flags.read_settings())
  paths = files_to_read(settings)
  config = setup.model_config(settings)
  choices = settings.feature_layers
  check_features(
    choices, config.num_hidden_layers, is_frozen=settings.freeze_encoder
  )
  tokenizer = setup.make_tokenizer(settings, config)

  # Before anything else computes: devices cannot be arranged afterwards.
  strategy = setup.make_strategy(settings)
  sentences = read_sentences(settings, paths)
  labels_file = os.path.join(settings.output_dir, "labels.txt")
  labels = model_labels(sentences.get("train"), labels_file, config)
  # The labels are a part of the model: a folder with others is refused.
  config = modeling.BertConfig.from_dict(
    {
      **config.to_dict(),
      "id2label": {str(i): label for i, label in enumerate(labels)},
    }
  )
  # Claimed before the first file is written.
  setup.check_output_dir(settings, task_on(",".join(choices)), config, strategy)
  run = Run(
    config=config,
    labels=labels,
    scheme=settings.scheme,
    strategy=strategy,
    data=prepare_all(settings, paths, sentences, tokenizer, labels),
    batch_sizes={
      "train": settings.train_batch_size,
      "eval": settings.eval_batch_size,
      "predict": settings.predict_batch_size,
    },
    features=input_data.record_features(settings.max_seq_length),
    trim=setup.shapes_may_vary(settings, strategy),
    seed=settings.seed,
    vocab_file=settings.vocab_file,
    do_lower_case=settings.do_lower_case,
  )
  if settings.do_train and distribution.is_chief(strategy):
    text = "".join(f"{label}\n" for label in labels)
    file_io.write_text(labels_file, text)

  def make_model(features):
    return TaggingModel(
      config,
      len(labels),
      features=features,
      bilstm_size=settings.bilstm_size,
      **setup.model_options(settings, strategy),
    )

  rows = []
  for features in choices or [None]:
    folder = settings.output_dir
    if len(choices) > 1:
      folder = os.path.join(folder, features)
    results = run_model(
      settings,
      run, features, folder, make_model=make_model, do_eval=settings.do_eval
    )
    rows.append((features, results))
  if len(choices) > 1:
    print(results_table(rows))


if __name__ == "__main__":
  command.run(main)
