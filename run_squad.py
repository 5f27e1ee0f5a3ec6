r"""Answers questions by stretches of a text: SQuAD 1.1 and 2.0.

  python run_squad.py --do_train --do_predict --train_file=train-v1.1.json \
      --predict_file=dev-v1.1.json --vocab_file=vocab.txt \
      --bert_config_file=bert_config.json --init_checkpoint=bert_model.ckpt \
      --output_dir=squad_output

Fine-tunes as the paper does (arXiv 1810.04805, sections 4.2 and 4.3), writes
predictions.json, nbest_predictions.json and, for SQuAD 2.0
(--version_2_with_negative), null_odds.json, and scores them if the file has
answers. Later, with the model in squad_output/final_model:

  python run_squad.py --interactive ...             asks you for a paragraph
  python run_squad.py --do_predict --predict_file=- ...    JSON lines in, out
  python run_squad.py --evaluate_only --predict_file=dev-v1.1.json \
      --predictions_file=predictions.json           the official scores
"""

from absl import flags

from common import command
from training import common_flags

# Not every use needs them: `main` asks for what it needs.
common_flags.define_model_flags(max_seq_length=384, required=False)
common_flags.define_tokenizer_flags(required=False)
common_flags.define_output_flags(required=False)
common_flags.define_training_flags()
common_flags.define_epoch_flags()
common_flags.define_evaluation_flags()
common_flags.define_prediction_flags()
common_flags.define_device_flags()
flags.DEFINE_string("train_file", None, "SQuAD JSON to train on.")
flags.DEFINE_string(
  "eval_file", None,
  "SQuAD JSON with answers for --do_eval, --eval_steps and "
  "--null_score_diff_threshold=auto; --predict_file if not given.",
)
flags.DEFINE_string(
  "predict_file", None,
  "SQuAD JSON to answer; it is scored if it has answers. -: one JSON object "
  "with context and question a line on standard input, an answer a line on "
  "standard output.",
)
flags.DEFINE_integer(
  "doc_stride", 128,
  "A long passage is read in windows that begin so many word pieces apart.",
  lower_bound=1,
)
flags.DEFINE_integer(
  "max_query_length", 64, "Questions are cut to so many word pieces.",
  lower_bound=1,
)
flags.DEFINE_bool(
  "pad_to_max_length", False,
  "Compute every window at --max_seq_length and let padding compete in the "
  "soft-max of the training and for the n best positions, as the original.",
)
flags.DEFINE_integer(
  "n_best_size", 20,
  "How many answers to a question are kept in nbest_predictions.json.",
  lower_bound=1,
)
flags.DEFINE_integer(
  "max_answer_length", 30, "The most word pieces of an answer.", lower_bound=1
)
flags.DEFINE_bool(
  "version_2_with_negative", False,
  "Whether there are questions without an answer, as in SQuAD 2.0.",
)
flags.DEFINE_string(
  "null_score_diff_threshold", None,
  "A question has no answer if that scores so much better than the best "
  "answer. auto: the value with the best F1 on --eval_file, sought anew and "
  "stored with the model. Not given: the one stored for these weights, or 0.0.",
)
flags.DEFINE_bool(
  "verbose_logging", False,
  "Whether the log says of every answer if it could not be found again in the "
  "text, and of each skipped question why.",
)
flags.DEFINE_bool(
  "evaluate_only", False,
  "Score --predictions_file against --predict_file; needs no model.",
)
flags.DEFINE_string(
  "predictions_file", None, "A predictions.json, for --evaluate_only."
)
flags.DEFINE_string(
  "null_odds_file", None,
  "The null_odds.json of --predictions_file, to find the best thresholds of "
  "SQuAD 2.0; if not given, the one beside it, if there is one.",
)
flags.DEFINE_bool(
  "interactive", False, "Ask for a paragraph and answer questions about it."
)

# --help and mistakes are answered before TensorFlow is loaded.
command.parse_flags(__name__)

import functools
import os
import sys
from typing import NamedTuple

import tensorflow as tf
from absl import logging

import modeling
from checkpoints import model_folder, weight_files
from common import errors, file_io
from squad import (
  answering,
  dataset,
  input_data,
  interactive,
  null_threshold,
  prediction,
  scoring,
  span_model,
  windowing,
)
from training import distribution, pipeline, run_folder, setup


class Run(NamedTuple):
  """What training, evaluation and prediction of one command share.

  Attributes:
    strategy: tf.distribute.Strategy.
    config: modeling.BertConfig.
    model: span_model.SpanModel.
    predictor: prediction.Predictor of that model.
    data: dict from "train", "eval", "predict" to input_data.SquadInput,
      where asked for.
    features: dict from name to tf.io.FixedLenFeature, of a training record.
    batch_sizes: dict from the same names to windows in a batch.
    trim: whether training batches may be cut to their longest sequence.
    mask_padding: whether padding is left out of the loss.
    seed: of the order of the training data.
    output_dir: folder.
    vocab_file, do_lower_case: kept beside the trained weights.
  """

  strategy: tf.distribute.Strategy
  config: modeling.BertConfig
  model: span_model.SpanModel
  predictor: prediction.Predictor
  data: dict
  features: dict
  batch_sizes: dict
  trim: bool
  mask_padding: bool
  seed: int
  output_dir: str
  vocab_file: str
  do_lower_case: bool


def write_results(results, folder=None):
  """Prints `name = value` lines; writes them to a folder, too, if given."""
  text = "".join(f"{name} = {results[name]!s}\n" for name in sorted(results))
  print(text, end="", flush=True)
  if folder:
    file_io.write_text(os.path.join(folder, "eval_results.txt"), text)


def train(settings, run, start):
  """Trains from `start` (run_folder.StartingPoint); returns the last step."""
  # As in the original: by questions, although some have several windows.
  num_train_steps, num_warmup_steps = setup.training_length(
    settings,
    len(run.data["train"].file.questions)
  )
  trainer = setup.make_trainer(
    settings,
    run.model.variables,
    trained=run.model.trained_variables(),
    config=run.config,
    strategy=run.strategy,
    objective=span_model.objective(
      run.model, mask_padding=run.mask_padding
    ),
    num_train_steps=num_train_steps,
    num_warmup_steps=num_warmup_steps,
  )
  trainer.start_from(start, may_be_missing=span_model.NEW_VARIABLES)

  def make_batches(step):
    # Only called where there are steps to take.
    if distribution.is_chief(run.strategy):
      null_threshold.forget(run.output_dir)
    return training_batches(settings, run, step)

  names = None
  if "eval" in run.data:
    names = run.predictor.result_names(run.data["eval"].file)
  trainer.train(
    make_batches,
    setup.periodic_evaluation(
      settings,
      lambda: evaluate(run)[1],
      keep_best=lambda step: keep(run, "best_model"),
      names=names,
    ),
  )
  keep(run, "final_model")
  return int(trainer.global_step.numpy())


def training_batches(settings, run, step):
  """Returns an endless distributed dataset that begins at a step."""
  data = run.data["train"]
  return pipeline.training_batches(
    run.strategy,
    [data.records],
    run.features,
    num_records=data.num_records,
    batch_size=run.batch_sizes["train"],
    seed=run.seed,
    first_step=step,
    bucketing=setup.bucketing(settings, run.features, run.strategy),
    trim=run.trim,
  )


def keep(run, folder):
  """Writes the weights of now, with the threshold that belongs to them."""
  if distribution.is_chief(run.strategy):
    path = os.path.join(run.output_dir, folder)
    model_folder.write(
      path, run.model.variables, run.config, run.vocab_file, run.do_lower_case
    )
    run.predictor.threshold.write(path)


def evaluate(run):
  """Returns (answers, scores) of the data to evaluate on."""
  data, threshold = run.data["eval"], run.predictor.threshold
  answers = run.predictor.answers(
    data, run.batch_sizes["eval"], find_threshold=threshold.is_auto
  )
  return answers, run.predictor.scores(data.file, answers)


def evaluate_at_end(run, step, start):
  """Writes eval_results.txt; returns the answers."""
  answers, results = evaluate(run)
  if distribution.is_chief(run.strategy):
    write_results({"global_step": step, **results}, run.output_dir)
    if run.predictor.threshold.is_auto:
      store_threshold(run, start)
  return answers


def store_threshold(run, start):
  """Writes a threshold that was found beside the weights it belongs to."""
  run.predictor.threshold.write(run.output_dir)
  models = [os.path.join(run.output_dir, "final_model")]
  if start.kind == "init":
    models.append(null_threshold.folder_of(start.path))
  for folder in models:
    run.predictor.threshold.write_beside(folder)


def predict(run, step, answers=None):
  """Writes the files of predictions, and scores them.

  Args:
    run: Run.
    step: of the weights.
    answers: those of the data to evaluate, if that was done.
  """
  data, predictor = run.data["predict"], run.predictor
  was_evaluated = answers is not None
  if data is not run.data.get("eval") or not was_evaluated:
    answers = predictor.answers(data, run.batch_sizes["predict"])
    if data.file.is_labelled and distribution.is_chief(run.strategy):
      results = {"global_step": step, **predictor.scores(data.file, answers)}
      # Of two files, eval_results.txt tells of the one to evaluate.
      write_results(results, None if was_evaluated else run.output_dir)
    elif not data.file.is_labelled:
      logging.info("not scored: not every question has an answer")
  if distribution.is_chief(run.strategy):
    answering.write(run.output_dir, answers)
    logging.info("predictions are in %s", run.output_dir)


def require(settings, reason, *names):
  """Refuses a command that lacks what it needs.

  Raises:
    InputError: one of the named flags is not given.
  """
  for name in names:
    if not settings.get(name):
      raise errors.InputError(f"--{reason} needs --{name}")


def check_flags(settings):
  """Refuses a command of which a part would be dropped.

  Raises:
    InputError: so.
  """
  setup.require_one_of(
    settings,
    "do_train", "do_eval", "do_predict", "interactive", "evaluate_only"
  )
  scores_only, from_lines = settings.evaluate_only, settings.predict_file == "-"
  threshold = settings.null_score_diff_threshold
  others = [
    f"--{name}"
    for name in (
      "do_train", "do_eval", "do_predict", "interactive",
      "null_score_diff_threshold",
    )
    if settings.get(name)
  ]
  evaluates = settings.do_eval or (settings.do_train and settings.eval_steps)
  refused = {
    "--evaluate_only scores a file of predictions and does nothing else: leave "
    f"out {', '.join(others)}": scores_only and others,
    "--interactive and --predict_file=- both read standard input: pass one of "
    "them": settings.interactive and from_lines,
    "--predict_file=- has questions to answer: pass --do_predict too":
      from_lines and not settings.do_predict,
    "--eval_file is read for --do_eval, --eval_steps and "
    "--null_score_diff_threshold=auto: pass one of them, or leave it out":
      settings.eval_file and not (evaluates or threshold == "auto"),
    "--predictions_file is scored by --evaluate_only: pass that too, or leave "
    "it out": settings.predictions_file and not scores_only,
    "--null_odds_file is read by --evaluate_only with "
    "--version_2_with_negative: pass both, or leave it out":
      settings.null_odds_file
      and not (scores_only and settings.version_2_with_negative),
    f"--null_score_diff_threshold={threshold} is for questions without an "
    "answer: pass --version_2_with_negative too":
      threshold is not None and not settings.version_2_with_negative,
    "--bucket_by_length saves padding, which --pad_to_max_length keeps: leave "
    "one of them out": settings.bucket_by_length and settings.pad_to_max_length,
  }
  for sentence, is_so in refused.items():
    if is_so:
      raise errors.InputError(sentence)


def files_to_read(settings):
  """Returns dict from train, eval, predict to the path, where asked for.

  Raises:
    InputError: a path is missing.
  """
  paths = {}
  if settings.do_train:
    require(settings, "do_train", "train_file")
    paths["train"] = settings.train_file
  if settings.do_predict:
    require(settings, "do_predict", "predict_file")
    if settings.predict_file != "-":
      paths["predict"] = settings.predict_file
  eval_file = settings.eval_file or settings.predict_file
  evaluates = {
    "do_eval": settings.do_eval,
    "eval_steps": settings.do_train and settings.eval_steps,
    "null_score_diff_threshold=auto":
      settings.null_score_diff_threshold == "auto",
  }
  for name, wanted in evaluates.items():
    if wanted and eval_file in (None, "-"):
      raise errors.InputError(f"--{name} needs --eval_file")
    if wanted:
      paths["eval"] = eval_file
  return paths


def read_files(settings, paths):
  """Returns dict from the names of `paths` to dataset.SquadFile."""

  @functools.cache
  def read(path, training):
    version_2 = settings.version_2_with_negative
    return dataset.read(path, training=training, version_2=version_2)

  files = {name: read(path, name == "train") for name, path in paths.items()}
  if "eval" in files:
    dataset.require_answers(files["eval"])
  return files


def prepare_all(settings, files, tokenizer, lengths):
  """Returns dict from the names of `files` to input_data.SquadInput.

  A file both to evaluate and to predict is one and the same SquadInput.
  """
  data = {}
  same = "eval" in files and files["eval"] is files.get("predict")
  for name, file in files.items():
    if name == "predict" and same:
      continue
    # As in the original: what is predicted stands in eval.tf_record.
    record_name = {
      "train": "train", "predict": "eval", "eval": "eval" if same else "dev"
    }[name]
    data[name] = input_data.prepare(
      file,
      tokenizer,
      lengths,
      records=os.path.join(settings.output_dir, f"{record_name}.tf_record"),
      training=name == "train",
    )
  if same:
    data["predict"] = data["eval"]
  return data


def score_predictions(settings):
  """Scores a file of predictions without a model."""
  require(settings, "evaluate_only", "predict_file", "predictions_file")
  version_2 = settings.version_2_with_negative
  file = dataset.read(settings.predict_file, version_2=version_2)
  dataset.require_answers(file)
  predictions = scoring.read_predictions(settings.predictions_file)
  if version_2:
    path, odds = settings.null_odds_file, None
    if not path:
      folder = os.path.dirname(settings.predictions_file)
      path = os.path.join(folder, answering.NULL_ODDS_FILE)
    if settings.null_odds_file or tf.io.gfile.exists(path):
      odds = scoring.read_null_odds(path)
      logging.info("the best thresholds are those of the odds in %s", path)
    results = scoring.score_v2(file.questions, predictions, odds)
  else:
    results = scoring.score_v1(file.questions, predictions)
  write_results(results, settings.output_dir)


def serve_input(settings, predictor):
  """Answers what comes on standard input, if asked for."""

  # Bytes: how Python decodes and encodes texts here depends on the locale.
  def write(text):
    sys.stdout.buffer.write(text.encode("utf-8"))
    sys.stdout.buffer.flush()

  def answer(question, context):
    found = predictor.answer(question, context, settings.predict_batch_size)
    return interactive.described(found)

  if settings.do_predict and settings.predict_file == "-":
    interactive.answer_lines(sys.stdin.buffer, answer, write)
  if settings.interactive:
    interactive.converse(sys.stdin.buffer, answer, write)


def starting_point(settings, paths, config, strategy):
  """Returns the run_folder.StartingPoint; claims --output_dir if it is used.

  Raises:
    InputError: there are no weights to predict with.
  """
  if paths:
    version = "2.0" if settings.version_2_with_negative else "1.1"
    task = f"question answering, SQuAD {version}"
    start = setup.open_run(settings, task, config, strategy)
  else:
    start = run_folder.starting_point(
      settings.output_dir, settings.init_checkpoint
    )
  if start.kind == "random" and not settings.do_train:
    raise errors.InputError(
      "no weights to answer with: pass --init_checkpoint, or the --output_dir "
      "of a training"
    )
  return start


def make_run(settings, config, tokenizer, lengths, *, files, strategy):
  """Returns the Run of the flags; makes the model and writes the records."""
  pads = settings.pad_to_max_length
  options = setup.model_options(settings, strategy)
  with strategy.scope():
    model = span_model.SpanModel(
      config,
      # As in the original: the soft-max reads the states of padding.
      **{**options, "skip_padding": options["skip_padding"] and not pads},
    )
  predictor = prediction.Predictor(
    model,
    strategy=strategy,
    tokenizer=tokenizer,
    lengths=lengths,
    settings=answering.Settings(
      n_best_size=settings.n_best_size,
      max_answer_length=settings.max_answer_length,
      do_lower_case=settings.do_lower_case,
      version_2_with_negative=settings.version_2_with_negative,
    ),
    threshold=null_threshold.NullThreshold(
      settings.null_score_diff_threshold,
      lambda: null_threshold.digest_of_variables(model.variables),
    ),
    # XLA compiles the step of the training alone.
    trim=not pads and not distribution.is_tpu(strategy),
    mask_padding=not pads,
  )
  return Run(
    strategy=strategy,
    config=config,
    model=model,
    predictor=predictor,
    data=prepare_all(settings, files, tokenizer, lengths),
    features=input_data.record_features(lengths.max_seq_length, training=True),
    batch_sizes={
      "train": settings.train_batch_size,
      "eval": settings.eval_batch_size,
      "predict": settings.predict_batch_size,
    },
    trim=not pads and setup.shapes_may_vary(settings, strategy),
    mask_padding=not pads,
    seed=settings.seed,
    output_dir=settings.output_dir,
    vocab_file=settings.vocab_file,
    do_lower_case=settings.do_lower_case,
  )


def load_weights(run, start):
  """Gives the model the weights to answer with."""
  weight_files.load(
    run.model.variables,
    start.path,
    allowed_missing=span_model.UNUSED_VARIABLES,
  )


def folders_of_threshold(settings, start):
  """Returns where the threshold of weights that started so may be stored."""
  folders = [settings.output_dir] if settings.output_dir else []
  if start.kind == "init" and not settings.do_train:
    folders.append(null_threshold.folder_of(start.path))
  return folders


def main(_):
  settings = setup.resolve(common_flags.read_settings())
  if settings.verbose_logging:
    logging.set_verbosity(logging.DEBUG)
  check_flags(settings)
  if settings.evaluate_only:
    score_predictions(settings)
    return
  paths = files_to_read(settings)
  needed = ["bert_config_file", "vocab_file"]
  if paths:
    needed.append("output_dir")
  require(
    settings, "do_train, --do_eval, --do_predict or --interactive", *needed
  )
  config = setup.model_config(settings)
  lengths = windowing.Lengths(
    settings.max_seq_length, settings.doc_stride, settings.max_query_length
  )
  windowing.check_lengths(lengths)
  tokenizer = setup.make_tokenizer(settings, config)

  # Before anything else computes: devices cannot be arranged afterwards.
  strategy = setup.make_strategy(settings)
  files = read_files(settings, paths)
  start = starting_point(settings, paths, config, strategy)
  run = make_run(
    settings, config, tokenizer, lengths, files=files, strategy=strategy
  )
  step = start.commit.step if start.commit else 0
  if settings.do_train:
    if distribution.is_chief(strategy):
      path = os.path.join(settings.output_dir, "skipped_questions.jsonl")
      dataset.write_skipped(files["train"].skipped, path)
    step = train(settings, run, start)
  else:
    load_weights(run, start)
  threshold, answers = run.predictor.threshold, None
  if settings.version_2_with_negative:
    threshold.look_up(folders_of_threshold(settings, start))
  if settings.do_eval or threshold.is_auto:
    answers = evaluate_at_end(run, step, start)
  if "predict" in files:
    predict(run, step, answers)
  serve_input(settings, run.predictor)


if __name__ == "__main__":
  command.run(main)
