r"""Pre-trains BERT with masked words and next sentences, and evaluates it.

  python run_pretraining.py --do_train --do_eval \
      --input_file=pretraining.tfrecord --bert_config_file=bert_config.json \
      --output_dir=pretraining_output

The records are those of create_pretraining_data.py. `make quickstart` runs
this on a sample, and ends after about two minutes of training on 2 CPU cores
with a masked-LM accuracy above 0.9.
"""

import os

import numpy as np
import tensorflow as tf
from absl import app, flags, logging

import checkpoints
import common_flags
import data_files
import distribution
import errors
import evaluation_loop
import input_pipeline
import model_folder
import modeling
import training_loop

FLAGS = flags.FLAGS

common_flags.define_model_flags()
common_flags.define_output_flags()
common_flags.define_training_flags()
common_flags.define_evaluation_flags()
common_flags.define_device_flags()
flags.DEFINE_string(
  "input_file", None,
  "TFRecord files, comma-separated, or glob patterns of them.", required=True,
)
flags.DEFINE_string(
  "eval_input_file", None,
  "TFRecord files to evaluate on; --input_file if not given.",
)
flags.DEFINE_string(
  "vocab_file", None,
  "Vocabulary of the records: copied beside the final weights, so that they "
  "can be used without it.",
)
flags.DEFINE_integer(
  "max_predictions_per_seq", 20,
  "Masked positions in a sequence; as the data files were written.",
  lower_bound=1,
)
flags.DEFINE_integer(
  "num_train_steps", 100000, "Optimizer steps of the whole run.",
  lower_bound=1,
)
flags.DEFINE_integer(
  "num_warmup_steps", 10000,
  "Steps in which the learning rate climbs from 0 to its peak.", lower_bound=0,
)
flags.DEFINE_integer(
  "max_eval_steps", 100,
  "Evaluation batches; the data are repeated if they hold fewer.",
  lower_bound=1,
)


class PretrainingModel(tf.Module):
  """The encoder with both of its pre-training heads."""

  def __init__(self, config, **model_options):
    super().__init__()
    self.config = config
    seed = model_options["seed"]
    self.bert = modeling.BertModel(config, **model_options)
    self.masked_lm = modeling.MaskedLMHead(
      config, self.bert.word_embeddings, seed=seed
    )
    self.next_sentence = modeling.NextSentenceHead(config, seed=seed)

  def __call__(self, batch, dropout_seed=None):
    """Returns masked-LM logits [B, P, V] and next-sentence logits [B, 2]."""
    output = self.bert(
      batch["input_ids"],
      batch["input_mask"],
      batch["segment_ids"],
      training=dropout_seed is not None,
      dropout_seed=dropout_seed,
    )
    masked_lm = self.masked_lm(
      output.sequence_output, batch["masked_lm_positions"]
    )
    return masked_lm, self.next_sentence(output.pooled_output)


def record_features(max_seq_length, max_predictions):
  """Returns the features of a record of create_pretraining_data.py."""
  def integers(length):
    return tf.io.FixedLenFeature([length], tf.int64)

  return {
    "input_ids": integers(max_seq_length),
    "input_mask": integers(max_seq_length),
    "segment_ids": integers(max_seq_length),
    "masked_lm_positions": integers(max_predictions),
    "masked_lm_ids": integers(max_predictions),
    "masked_lm_weights": tf.io.FixedLenFeature([max_predictions], tf.float32),
    "next_sentence_labels": integers(1),
  }


def pretraining_objective(model):
  """Masked-LM loss plus next-sentence loss, both means over the batch."""

  def weights(batch):
    context = tf.distribute.get_replica_context()
    # As in the original: 1e-5 keeps a batch without a masked word from
    # dividing by zero. The replicas' shares of it add up to that.
    epsilon = 1e-5 / context.num_replicas_in_sync
    masked_words = tf.reduce_sum(batch["masked_lm_weights"])
    sequences = tf.shape(batch["input_ids"])[0]
    return {
      "masked_lm": masked_words + epsilon,
      "next_sentence": tf.cast(sequences, tf.float32),
    }

  def sums(batch, dropout_seed):
    masked_lm_logits, next_sentence_logits = model(batch, dropout_seed)
    labels = batch["next_sentence_labels"][:, 0]
    masked_lm = _loss_and_accuracy(
      masked_lm_logits, batch["masked_lm_ids"], batch["masked_lm_weights"]
    )
    next_sentence = _loss_and_accuracy(
      next_sentence_logits, labels, tf.ones_like(labels, tf.float32)
    )
    losses = {"masked_lm": masked_lm[0], "next_sentence": next_sentence[0]}
    metrics = {}
    for name, values in (
      ("masked_lm", masked_lm), ("next_sentence", next_sentence)
    ):
      loss, correct, weight = values
      metrics[f"{name}_loss"] = (loss, weight)
      metrics[f"{name}_accuracy"] = (correct, weight)
    return losses, metrics

  return training_loop.Objective(weights=weights, sums=sums)


def _loss_and_accuracy(logits, labels, weights):
  """Returns sums over all labels: weighted loss, correct ones, weights."""
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
  predicted = tf.argmax(logits, axis=-1, output_type=labels.dtype)
  correct = tf.cast(tf.equal(predicted, labels), tf.float32)
  return (
    tf.reduce_sum(losses * weights),
    tf.reduce_sum(correct * weights),
    tf.reduce_sum(weights),
  )


def write_eval_results(output_dir, results):
  """Writes eval_results.txt: `name = value` lines in the order of names."""
  lines = [f"{name} = {results[name]!s}\n" for name in sorted(results)]
  for line in lines:
    logging.info("  %s", line.rstrip())
  data_files.write_text(
    os.path.join(output_dir, "eval_results.txt"), "".join(lines)
  )


def train(model, strategy, start, files, features):
  """Trains up to --num_train_steps, from `start`; returns the last step."""
  objective = pretraining_objective(model)
  trainer = common_flags.make_trainer(
    model.variables,
    config=model.config,
    strategy=strategy,
    objective=objective,
    num_train_steps=FLAGS.num_train_steps,
    num_warmup_steps=FLAGS.num_warmup_steps,
  )
  # An encoder without pre-training heads can be trained further.
  trainer.start_from(start, may_be_missing=["^cls/"])
  num_records = input_pipeline.count_records(files)
  logging.info("%d records in %d files", num_records, len(files))

  def batches_from(step):
    records = input_pipeline.shuffled_records(
      files,
      num_records=num_records,
      seed=FLAGS.seed,
      first_record=step * FLAGS.train_batch_size,
    )
    return input_pipeline.distributed_batches(
      strategy,
      records,
      features,
      batch_size=FLAGS.train_batch_size,
      trim=common_flags.shapes_may_vary(strategy),
    )

  def keep(folder):
    if distribution.is_chief(strategy):
      model_folder.write(
        os.path.join(FLAGS.output_dir, folder),
        model.variables,
        model.config,
        FLAGS.vocab_file,
      )

  trainer.train(
    batches_from,
    common_flags.periodic_evaluation(
      make_evaluation(model, strategy, features),
      keep_best=lambda step: keep("best_model"),
    ),
  )
  keep("final_model")
  return int(trainer.global_step.numpy())


def make_evaluation(model, strategy, features):
  """Returns a function that evaluates on --max_eval_steps batches.

  As in the original: files are read one after another, and the data are
  repeated if they hold less.
  """
  files = data_files.expand_file_patterns(
    FLAGS.eval_input_file or FLAGS.input_file
  )
  input_pipeline.check_records(files, features)
  evaluator = evaluation_loop.make_evaluator(
    strategy, pretraining_objective(model)
  )

  def evaluate():
    batches = input_pipeline.distributed_batches(
      strategy,
      input_pipeline.sequential_records(files).repeat(),
      features,
      batch_size=FLAGS.eval_batch_size,
      trim=common_flags.shapes_may_vary(strategy),
    )
    with input_pipeline.damage_named(files):
      return evaluator(batches, FLAGS.max_eval_steps)

  return evaluate


def main(argv):
  del argv
  common_flags.require_one_of("do_train", "do_eval")
  config = modeling.BertConfig.from_json_file(FLAGS.bert_config_file)
  config.check_sequence_length(FLAGS.max_seq_length)

  # Before anything else computes: devices cannot be arranged afterwards.
  strategy = common_flags.make_strategy()
  files = data_files.expand_file_patterns(FLAGS.input_file)
  features = record_features(
    FLAGS.max_seq_length, FLAGS.max_predictions_per_seq
  )
  input_pipeline.check_records(files, features)
  start = common_flags.open_run("pretraining", config, strategy)
  with strategy.scope():
    model = PretrainingModel(config, **common_flags.model_options(strategy))

  step = start.commit.step if start.commit else 0
  if FLAGS.do_train:
    with input_pipeline.damage_named(files):
      step = train(model, strategy, start, files, features)
  elif start.path:
    checkpoints.load(model.variables, start.path)
  if FLAGS.do_eval:
    results = make_evaluation(model, strategy, features)()
    results = {name: np.float32(value) for name, value in results.items()}
    if distribution.is_chief(strategy):
      write_eval_results(FLAGS.output_dir, {"global_step": step, **results})


if __name__ == "__main__":
  app.run(errors.report_input_errors(main))
