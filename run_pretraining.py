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
import dynamic_masking
import errors
import evaluation_loop
import input_pipeline
import model_folder
import modeling
import record_repair
import tokenization
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
  "Vocabulary of the records, copied beside the final weights. Needed for "
  "records of --dynamic_masking, which are masked while they are read.",
)
flags.DEFINE_bool(
  "use_next_sentence_loss", True,
  "Whether to learn which sentence follows; needs records of pairs.",
)
flags.DEFINE_float(
  "masked_lm_prob", 0.15,
  "Share of the tokens that is masked; read for --dynamic_masking records.",
  lower_bound=0.0, upper_bound=1.0,
)
flags.DEFINE_bool(
  "do_whole_word_mask", False,
  "Mask all pieces of a word together; read for --dynamic_masking records.",
)
flags.DEFINE_enum(
  "on_corrupt_record", "fail", ("fail", "skip"),
  "skip: search all files for damaged records first, and read copies without "
  "them, which are made in output_dir/repaired.",
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
  """The encoder with its pre-training heads."""

  def __init__(self, config, *, with_next_sentence=True, **model_options):
    super().__init__()
    self.config = config
    seed = model_options["seed"]
    self.bert = modeling.BertModel(config, **model_options)
    self.masked_lm = modeling.MaskedLMHead(
      config, self.bert.word_embeddings, seed=seed
    )
    self.next_sentence = None
    if with_next_sentence:
      self.next_sentence = modeling.NextSentenceHead(config, seed=seed)

  def __call__(self, batch, dropout_seed=None):
    """Returns logits by name: masked_lm [B, P, V], next_sentence [B, 2]."""
    output = self.bert(
      batch["input_ids"],
      batch["input_mask"],
      batch["segment_ids"],
      training=dropout_seed is not None,
      dropout_seed=dropout_seed,
    )
    logits = {
      "masked_lm": self.masked_lm(
        output.sequence_output, batch["masked_lm_positions"]
      )
    }
    if self.next_sentence:
      logits["next_sentence"] = self.next_sentence(output.pooled_output)
    return logits

  def trained_variables(self):
    """Returns the variables that the loss reaches."""
    if self.next_sentence:
      return self.variables
    # As in the original: what has no gradient is not trained. Only the
    # next-sentence head reads the pooled output.
    return [v for v in self.variables if "/pooler/" not in v.name]


def record_features(max_seq_length, max_predictions, *, masked, pairs):
  """Returns the features of a record of create_pretraining_data.py.

  Args:
    max_seq_length, max_predictions: lengths of the features.
    masked: whether the masks are in the records.
    pairs: whether next-sentence labels are wanted.
  """

  def integers(length):
    return tf.io.FixedLenFeature([length], tf.int64)

  features = {
    name: integers(max_seq_length)
    for name in ("input_ids", "input_mask", "segment_ids")
  }
  if masked:
    features["masked_lm_positions"] = integers(max_predictions)
    features["masked_lm_ids"] = integers(max_predictions)
    features["masked_lm_weights"] = tf.io.FixedLenFeature(
      [max_predictions], tf.float32
    )
  else:
    features["word_starts"] = integers(max_seq_length)
  if pairs:
    features["next_sentence_labels"] = integers(1)
  return features


def pretraining_objective(model):
  """Masked-LM loss plus next-sentence loss, both means over the batch."""

  def weights(batch):
    context = tf.distribute.get_replica_context()
    # As in the original: 1e-5 keeps a batch without a masked word from
    # dividing by zero. The replicas' shares of it add up to that.
    epsilon = 1e-5 / context.num_replicas_in_sync
    masked_words = tf.reduce_sum(batch["masked_lm_weights"])
    totals = {"masked_lm": masked_words + epsilon}
    if model.next_sentence:
      sequences = tf.shape(batch["input_ids"])[0]
      totals["next_sentence"] = tf.cast(sequences, tf.float32)
    return totals

  def sums(batch, dropout_seed):
    losses, metrics = {}, {}
    for name, logits in model(batch, dropout_seed).items():
      if name == "masked_lm":
        labels, counts = batch["masked_lm_ids"], batch["masked_lm_weights"]
      else:
        labels = batch["next_sentence_labels"][:, 0]
        counts = tf.ones_like(labels, tf.float32)
      loss, correct, weight = _loss_and_accuracy(logits, labels, counts)
      losses[name] = loss
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


class Records:
  """The files to learn or evaluate from, and how they become batches."""

  def __init__(self, patterns, folder):
    """Looks at every file's first record.

    Args:
      patterns: file names or glob patterns, comma-separated.
      folder: where to put copies without damaged records, if asked for.

    Raises:
      InputError: no file, or one that does not fit the flags.
    """
    self.files = data_files.expand_file_patterns(patterns)
    if FLAGS.on_corrupt_record == "skip":
      self.files = record_repair.without_damage(self.files, folder)
    first = input_pipeline.first_record(self.files[0])
    self.features = record_features(
      FLAGS.max_seq_length,
      FLAGS.max_predictions_per_seq,
      masked="word_starts" not in first,
      pairs=FLAGS.use_next_sentence_loss,
    )
    if FLAGS.use_next_sentence_loss and "next_sentence_labels" not in first:
      raise errors.InputError(
        f"{self.files[0]} has no next-sentence labels; pass "
        "--use_next_sentence_loss=false"
      )
    input_pipeline.check_records(self.files, self.features)
    self._mask = self._masking() if "word_starts" in first else None

  def _masking(self):
    if not FLAGS.vocab_file:
      raise errors.InputError(
        f"{self.files[0]} is to be masked while it is read; pass the "
        "--vocab_file that it was written with"
      )
    masking = dynamic_masking.Masking.of_vocabulary(
      tokenization.load_vocab(FLAGS.vocab_file),
      max_predictions=FLAGS.max_predictions_per_seq,
      masked_lm_prob=FLAGS.masked_lm_prob,
      whole_words=FLAGS.do_whole_word_mask,
      seed=FLAGS.seed,
    )
    return masking.apply

  def batches(self, strategy, records, *, batch_size, first_step=0):
    """Returns the distributed batches of a dataset of these records."""
    return input_pipeline.distributed_batches(
      strategy,
      records,
      self.features,
      batch_size=batch_size,
      trim=common_flags.shapes_may_vary(strategy),
      transform=self._mask,
      first_step=first_step,
    )


def train(model, strategy, start, records):
  """Trains up to --num_train_steps, from `start`; returns the last step."""
  trainer = common_flags.make_trainer(
    model.variables,
    trained=model.trained_variables(),
    config=model.config,
    strategy=strategy,
    objective=pretraining_objective(model),
    num_train_steps=FLAGS.num_train_steps,
    num_warmup_steps=FLAGS.num_warmup_steps,
  )
  # An encoder without pre-training heads can be trained further.
  trainer.start_from(start, may_be_missing=["^cls/"])
  num_records = input_pipeline.count_records(records.files)
  logging.info("%d records in %d files", num_records, len(records.files))

  def batches_from(step):
    stream = input_pipeline.shuffled_records(
      records.files,
      num_records=num_records,
      seed=FLAGS.seed,
      first_record=step * FLAGS.train_batch_size,
    )
    return records.batches(
      strategy, stream, batch_size=FLAGS.train_batch_size, first_step=step
    )

  def keep(folder):
    if distribution.is_chief(strategy):
      model_folder.write(
        os.path.join(FLAGS.output_dir, folder),
        model.variables,
        model.config,
        FLAGS.vocab_file,
      )

  evaluation = common_flags.periodic_evaluation(
    make_evaluation(model, strategy, records),
    keep_best=lambda step: keep("best_model"),
  )
  with input_pipeline.damage_named(records.files):
    trainer.train(batches_from, evaluation)
  keep("final_model")
  return int(trainer.global_step.numpy())


def make_evaluation(model, strategy, records):
  """Returns a function that evaluates on --max_eval_steps batches.

  As in the original: files are read one after another, and the data are
  repeated if they hold less.
  """
  if FLAGS.eval_input_file:
    records = Records(FLAGS.eval_input_file, FLAGS.output_dir)
  evaluator = evaluation_loop.make_evaluator(
    strategy, pretraining_objective(model)
  )

  def evaluate():
    stream = input_pipeline.sequential_records(records.files).repeat()
    batches = records.batches(
      strategy, stream, batch_size=FLAGS.eval_batch_size
    )
    with input_pipeline.damage_named(records.files):
      return evaluator(batches, FLAGS.max_eval_steps)

  return evaluate


def main(argv):
  del argv
  common_flags.require_one_of("do_train", "do_eval")
  config = common_flags.model_config()
  # Before anything else computes: devices cannot be arranged afterwards.
  strategy = common_flags.make_strategy()
  records = Records(FLAGS.input_file, FLAGS.output_dir)
  start = common_flags.open_run("pretraining", config, strategy)
  with strategy.scope():
    model = PretrainingModel(
      config,
      with_next_sentence=FLAGS.use_next_sentence_loss,
      **common_flags.model_options(strategy),
    )

  step = start.commit.step if start.commit else 0
  if FLAGS.do_train:
    step = train(model, strategy, start, records)
  elif start.path:
    checkpoints.load(model.variables, start.path)
  if FLAGS.do_eval:
    results = make_evaluation(model, strategy, records)()
    results = {name: np.float32(value) for name, value in results.items()}
    if distribution.is_chief(strategy):
      write_eval_results(FLAGS.output_dir, {"global_step": step, **results})


if __name__ == "__main__":
  app.run(errors.report_input_errors(main))
