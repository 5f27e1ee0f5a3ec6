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

import os
from typing import NamedTuple, Optional

import tensorflow as tf
from absl import app, flags, logging

import checkpoints
import common_flags
import data_files
import distribution
import errors
import evaluation_loop
import input_features
import input_pipeline
import model_folder
import modeling
import ner_data
import tagging_model
import task_metrics
import tokenization
import training_loop

FLAGS = flags.FLAGS

# What the checkpoint of an encoder need not have.
NEW_VARIABLES = ("^output_(weights|bias)$", "^tagging/", "^bert/pooler/")

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
  "scheme", "iob2", ner_data.SCHEMES,
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
  f"BERT: {', '.join(tagging_model.FEATURES)}. Several are trained one after "
  "another and compared in a table.",
)
flags.DEFINE_integer(
  "bilstm_size", 768, "Units of each direction of the BiLSTM.", lower_bound=1
)


class TaggingModel(tf.Module):
  """The encoder and a classifier of tokens, or the BiLSTM on features."""

  def __init__(self, config, num_labels, features=None, **model_options):
    super().__init__()
    self.config = config
    seed = model_options["seed"]
    self.bert = modeling.BertModel(config, **model_options)
    self.is_frozen = bool(features)
    if features:
      self.head = tagging_model.FeatureTagger(
        config, num_labels, features=features, size=FLAGS.bilstm_size,
        seed=seed,
      )
    else:
      self.head = modeling.TokenClassificationHead(
        config, num_labels, seed=seed
      )

  def __call__(self, batch, dropout_seed=None):
    """Returns float32 logits [B, T, L]."""
    is_training = dropout_seed is not None
    output = self.bert(
      batch["input_ids"],
      batch["input_mask"],
      batch["segment_ids"],
      training=is_training and not self.is_frozen,
      dropout_seed=None if self.is_frozen else dropout_seed,
    )
    if self.is_frozen:
      return self.head(output, batch["input_mask"], dropout_seed=dropout_seed)
    return self.head(
      output.sequence_output, is_training, dropout_seed=dropout_seed
    )

  @property
  def reached(self):
    """The variables that the loss depends on: all but the pooler's."""
    bert = [] if self.is_frozen else self.bert.variables
    encoder = [v for v in bert if "/pooler/" not in v.name]
    return [*encoder, *self.head.variables]


class TaggingData(NamedTuple):
  """A file of columns, ready for the model.

  Attributes:
    path: the file.
    sentences, windows: lists of ner_data.Sentence and ner_data.Window.
    records: the TFRecord file of the windows.
    is_labelled: whether the sentences have labels.
  """

  path: str
  sentences: list
  windows: list
  records: str
  is_labelled: bool


class Run(NamedTuple):
  """What all the models of one command share.

  Attributes:
    config: modeling.BertConfig.
    labels: list of str.
    strategy: tf.distribute.Strategy.
    train, eval, predict: TaggingData, or None.
  """

  config: modeling.BertConfig
  labels: list
  strategy: tf.distribute.Strategy
  train: Optional[TaggingData]
  eval: Optional[TaggingData]
  predict: Optional[TaggingData]


def record_features():
  """Returns the features of a record of `write_records`."""
  integers = tf.io.FixedLenFeature([FLAGS.max_seq_length], tf.int64)
  names = ("input_ids", "input_mask", "segment_ids", "label_ids")
  return {name: integers for name in names}


def write_records(path, windows, ids):
  """Writes windows with the labels `ids` (None: without) as TFRecords."""
  length = FLAGS.max_seq_length
  with data_files.RecordWriter(path) as writer:
    for window in windows:
      size = len(window.input_ids)
      labels = [ner_data.NO_LABEL] * size
      if ids is not None:
        labels = ner_data.window_label_ids(window, ids)
      features = {
        "input_ids": input_features.pad(window.input_ids, length),
        "input_mask": input_features.pad([1] * size, length),
        "segment_ids": [0] * length,
        "label_ids": input_features.pad(labels, length, ner_data.NO_LABEL),
      }
      writer.write(data_files.serialize_example(features))


def read(path, *, labelled=True):
  """Returns the sentences of a file, read as the flags say."""
  return ner_data.read_sentences(
    path,
    word_column=FLAGS.word_column,
    label_column=FLAGS.label_column,
    scheme=FLAGS.scheme,
    labelled=labelled,
  )


def prepare(name, path, sentences, labels, tokenizer):
  """Cuts sentences into windows and writes their records.

  Args:
    name: "train", "eval" or "predict".
    path: the file that the sentences are from.
    sentences: list of ner_data.Sentence.
    labels: list of str, those of the model.
    tokenizer: tokenization.FullTokenizer.

  Returns:
    TaggingData.
  """
  is_labelled = sentences[0].labels is not None
  ids = None
  if is_labelled:
    ids = ner_data.label_ids(sentences, labels, path)
  windows = ner_data.make_windows(
    sentences,
    tokenizer,
    FLAGS.max_seq_length,
    document_context=FLAGS.document_context,
    path=path,
  )
  logging.info(
    "%s: %d sentences, %d words, %d windows", path, len(sentences),
    sum(len(sentence.words) for sentence in sentences), len(windows),
  )
  records = os.path.join(FLAGS.output_dir, f"{name}.tf_record")
  write_records(records, windows, ids)
  return TaggingData(path, sentences, windows, records, is_labelled)


def tagging_objective(model):
  """Cross-entropy, the mean over all words of the batch."""

  def has_label(batch):
    return tf.cast(batch["label_ids"] != ner_data.NO_LABEL, tf.float32)

  def weights(batch):
    return {"tagging": tf.reduce_sum(has_label(batch))}

  def sums(batch, dropout_seed):
    logits = model(batch, dropout_seed)
    mask, labels = has_label(batch), tf.maximum(batch["label_ids"], 0)
    losses = word_losses(logits, batch["label_ids"])
    predicted = tf.argmax(logits, axis=-1, output_type=labels.dtype)
    right = tf.cast(tf.equal(predicted, labels), tf.float32)
    loss, words = tf.reduce_sum(losses), tf.reduce_sum(mask)
    metrics = {
      "tagging_loss": (loss, words),
      "tagging_accuracy": (tf.reduce_sum(right * mask), words),
    }
    return {"tagging": loss}, metrics

  return training_loop.Objective(weights=weights, sums=sums)


def word_losses(logits, label_ids):
  """Returns cross-entropies [B, T], 0 where there is no label."""
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
    tf.maximum(label_ids, 0), logits
  )
  return losses * tf.cast(label_ids != ner_data.NO_LABEL, tf.float32)


def predict(model, data, run, batch_size):
  """Labels every word of a file.

  Returns:
    list of lists of str, the labels of each sentence; mean loss of a word.
  """

  def of_batch(batch):
    length = batch["input_ids"].shape[1]
    if common_flags.shapes_may_vary(run.strategy):
      batch = input_pipeline.trim_to_longest(batch)
    logits = model(batch)
    predicted = tf.argmax(logits, axis=-1, output_type=tf.int32)
    rest = length - tf.shape(predicted)[1]
    losses = word_losses(logits, batch["label_ids"])
    return {
      "predicted": tf.pad(predicted, [[0, 0], [0, rest]]),
      "loss": tf.reduce_sum(losses, axis=1),
    }

  outputs = evaluation_loop.predict(
    run.strategy,
    of_batch,
    input_pipeline.sequential_records([data.records]),
    record_features(),
    num_records=len(data.windows),
    batch_size=batch_size,
  )
  predicted = ner_data.predicted_labels(
    data.sentences, data.windows, outputs["predicted"], run.labels
  )
  num_words = sum(len(sentence) for sentence in predicted)
  return predicted, outputs["loss"].sum() / num_words


def scores(data, predicted, loss):
  """Returns the results of labelled data: dict from name to number."""
  gold = [sentence.labels for sentence in data.sentences]
  if FLAGS.scheme == "none":
    return {"loss": loss, "accuracy": task_metrics.accuracy(gold, predicted)}
  return {"loss": loss, **task_metrics.entity_scores(gold, predicted)}


def train(model, run, start, output_dir):
  """Trains from `start`; returns the last step."""
  num_train_steps, num_warmup_steps = common_flags.training_length(
    len(run.train.windows)
  )
  trainer = common_flags.make_trainer(
    model.variables,
    trained=model.reached,
    config=run.config,
    strategy=run.strategy,
    objective=tagging_objective(model),
    num_train_steps=num_train_steps,
    num_warmup_steps=num_warmup_steps,
    output_dir=output_dir,
  )
  trainer.start_from(start, may_be_missing=NEW_VARIABLES)

  def batches_from(step):
    records = input_pipeline.shuffled_records(
      [run.train.records],
      num_records=len(run.train.windows),
      seed=FLAGS.seed,
      first_record=step * FLAGS.train_batch_size,
    )
    return input_pipeline.distributed_batches(
      run.strategy,
      records,
      record_features(),
      batch_size=FLAGS.train_batch_size,
      trim=common_flags.shapes_may_vary(run.strategy),
    )

  def keep(folder):
    if distribution.is_chief(run.strategy):
      model_folder.write(
        os.path.join(output_dir, folder),
        model.variables,
        run.config,
        FLAGS.vocab_file,
      )

  trainer.train(
    batches_from,
    common_flags.periodic_evaluation(
      lambda: evaluate(model, run), keep_best=lambda step: keep("best_model")
    ),
  )
  keep("final_model")
  return int(trainer.global_step.numpy())


def evaluate(model, run):
  """Returns the scores of --eval_file."""
  predicted, loss = predict(model, run.eval, run, FLAGS.eval_batch_size)
  return scores(run.eval, predicted, loss)


def write_predictions(model, run, output_dir):
  """Writes --predict_file with one more column, and scores if it has labels."""
  data = run.predict
  predicted, loss = predict(model, data, run, FLAGS.predict_batch_size)
  if not distribution.is_chief(run.strategy):
    return
  path = os.path.join(output_dir, "test_predictions.conll")
  lines = ner_data.with_column(data.path, predicted)
  data_files.write_text(path, "".join(lines))
  logging.info("predictions are in %s", path)
  if data.is_labelled:
    write_results(
      os.path.join(output_dir, "test_results.txt"),
      scores(data, predicted, loss),
    )


def write_results(path, results):
  """Writes `name = value` lines in the order of names."""
  lines = [f"{name} = {results[name]!s}\n" for name in sorted(results)]
  for line in lines:
    logging.info("  %s", line.rstrip())
  data_files.write_text(path, "".join(lines))


def open_run(config, strategy, features, output_dir=None):
  """Claims a folder; returns run_folder.StartingPoint."""
  task = f"tagging on {features}" if features else "tagging"
  return common_flags.open_run(task, config, strategy, output_dir)


def run_model(run, features, output_dir):
  """Trains, evaluates and predicts with one model, as the flags say.

  Args:
    run: Run.
    features: one of tagging_model.FEATURES, or None to fine-tune.
    output_dir: folder of this model.

  Returns:
    The scores of --eval_file, {} without --do_eval.
  """
  start = open_run(run.config, run.strategy, features, output_dir)
  with run.strategy.scope():
    model = TaggingModel(
      run.config,
      len(run.labels),
      features,
      **common_flags.model_options(run.strategy),
    )
  step = start.commit.step if start.commit else 0
  if FLAGS.do_train:
    step = train(model, run, start, output_dir)
  elif start.path:
    checkpoints.load(
      model.variables, start.path, allowed_missing=["^bert/pooler/"]
    )
  results = {}
  if FLAGS.do_eval:
    results = evaluate(model, run)
    if distribution.is_chief(run.strategy):
      write_results(
        os.path.join(output_dir, "eval_results.txt"),
        {"global_step": step, **results},
      )
  if FLAGS.do_predict:
    write_predictions(model, run, output_dir)
  return results


def compare_features(run):
  """Runs a model for each of --feature_layers, and prints a table of them."""
  rows = []
  for features in FLAGS.feature_layers:
    logging.info("features: %s", features)
    folder = os.path.join(FLAGS.output_dir, features)
    rows.append((features, run_model(run, features, folder)))
  names = [
    name
    for name in ("precision", "recall", "f1", "accuracy", "loss")
    if name in rows[0][1]
  ]
  table = [f"{'features':24}" + "".join(f"{name:>11}" for name in names)]
  for features, results in rows:
    values = "".join(f"{results[name]:11.4f}" for name in names)
    table.append(f"{features:24}{values}")
  print("\n".join(table))


def check_flags():
  """Raises InputError where flags contradict each other or say nothing."""
  common_flags.require_one_of("do_train", "do_eval", "do_predict")
  for what in ("train", "eval", "predict"):
    if FLAGS[f"do_{what}"].value and not FLAGS[f"{what}_file"].value:
      raise errors.InputError(f"--do_{what} needs --{what}_file")
  for features in FLAGS.feature_layers:
    if features not in tagging_model.FEATURES:
      raise errors.InputError(
        f"--feature_layers={features} is unknown; choose of "
        f"{', '.join(tagging_model.FEATURES)}"
      )
  if FLAGS.feature_layers and not FLAGS.freeze_encoder:
    raise errors.InputError(
      "--feature_layers are those of an encoder that stays as it is: pass "
      "--freeze_encoder too"
    )
  if FLAGS.eval_steps and not FLAGS.eval_file:
    raise errors.InputError("--eval_steps needs --eval_file")


def check_layers(config):
  """Raises InputError if the model has fewer layers than features need."""
  for features in FLAGS.feature_layers:
    needed = tagging_model.layers_needed(features)
    if needed > config.num_hidden_layers:
      raise errors.InputError(
        f"--feature_layers={features} needs {needed} layers, but the model "
        f"has {config.num_hidden_layers}"
      )


def model_labels(train_sentences, config):
  """Returns the labels of the model, from the first place that has them.

  1. The training data.
  2. labels.txt in --output_dir, of the training.
  3. id2label in --bert_config_file, as in output_dir/final_model.

  Raises:
    InputError: no place has any.
  """
  if train_sentences:
    return ner_data.label_list(train_sentences)
  path = os.path.join(FLAGS.output_dir, "labels.txt")
  if tf.io.gfile.exists(path):
    return [line for _, line in data_files.read_lines(path)]
  by_number = config.to_dict().get("id2label")
  if by_number:
    return [by_number[str(number)] for number in range(len(by_number))]
  raise errors.InputError(
    f"no labels known: there is no {path}, and {FLAGS.bert_config_file} has no "
    "id2label; pass the bert_config.json in the final_model of a training, or "
    "--do_train"
  )


def read_files():
  """Returns dict from train, eval, predict to sentences, where asked for."""
  files = {}
  if FLAGS.do_train:
    files["train"] = read(FLAGS.train_file)
  if FLAGS.do_eval or FLAGS.eval_steps:
    files["eval"] = read(FLAGS.eval_file)
  if FLAGS.do_predict:
    labelled = (
      FLAGS.predict_labels and ner_data.count_columns(FLAGS.predict_file) > 1
    )
    files["predict"] = read(FLAGS.predict_file, labelled=labelled)
  return files


def main(argv):
  del argv
  check_flags()
  config = modeling.BertConfig.from_dict(
    checkpoints.read_config(FLAGS.bert_config_file)
  )
  config.check_sequence_length(FLAGS.max_seq_length)
  check_layers(config)
  tokenization.validate_case_matches_checkpoint(
    FLAGS.do_lower_case, FLAGS.init_checkpoint
  )
  tokenizer = tokenization.FullTokenizer(
    FLAGS.vocab_file, do_lower_case=FLAGS.do_lower_case
  )
  config.check_vocabulary(len(tokenizer.vocab), FLAGS.vocab_file)

  strategy = common_flags.make_strategy()
  files = read_files()
  labels = model_labels(files.get("train"), config)
  # The labels are a part of the model: a folder with others is refused.
  config = modeling.BertConfig.from_dict(
    {
      **config.to_dict(),
      "id2label": {str(i): label for i, label in enumerate(labels)},
    }
  )
  # Claimed before the first file is written.
  open_run(config, strategy, ",".join(FLAGS.feature_layers))
  data = {
    name: prepare(
      name, FLAGS[f"{name}_file"].value, sentences, labels, tokenizer
    )
    for name, sentences in files.items()
  }
  run = Run(
    config, labels, strategy,
    *(data.get(name) for name in ("train", "eval", "predict")),
  )
  if FLAGS.do_train and distribution.is_chief(strategy):
    data_files.write_text(
      os.path.join(FLAGS.output_dir, "labels.txt"),
      "".join(f"{label}\n" for label in labels),
    )
  if len(FLAGS.feature_layers) > 1:
    compare_features(run)
  else:
    features = FLAGS.feature_layers[0] if FLAGS.feature_layers else None
    run_model(run, features, FLAGS.output_dir)


if __name__ == "__main__":
  app.run(errors.report_input_errors(main))
