"""The steps of run_squad.py: train, evaluate, predict, answer on request."""

import functools
import os
from typing import NamedTuple

import tensorflow as tf
from absl import logging

import modeling
from checkpoints import model_folder, stored_threshold, weight_files
from common import file_io, line_answers, result_lines, run_settings
from squad import (
  answering,
  dataset,
  interactive,
  prediction,
  span_model,
)
from training import components, distribution, harness, run_folder, train_log

# How the input of a model was made: kept with its weights. The case of the text
# is in the folder's tokenizer_config.json, the threshold of "no answer" in its
# null_threshold.json.
INPUT_FLAGS = (
  "max_seq_length", "doc_stride", "max_query_length", "max_answer_length",
  "n_best_size", "pad_to_max_length", "version_2_with_negative",
)


class Job(NamedTuple):
  """What the steps of one command share.

  Attributes:
    data: from "train", "eval", "predict" to input_data.SquadInput, where asked
      for.
    features: tf.io.FixedLenFeatures of a training record.
  """

  settings: run_settings.Settings
  strategy: tf.distribute.Strategy
  config: modeling.BertConfig
  model: span_model.SpanModel
  answerer: prediction.Answerer
  data: dict
  features: dict

  @property
  def is_chief(self):
    """Whether this process is the one that writes files."""
    return distribution.is_chief(self.strategy)


def write_results(results: dict, folder: str | None = None) -> None:
  """Prints `name = value` lines; writes them to a folder, too, if given."""
  text = result_lines.as_text(results)
  print(text, end="", flush=True)
  if folder:
    file_io.write_text(os.path.join(folder, "eval_results.txt"), text)


# Training.


def train(job: Job, start: run_folder.StartingPoint) -> int:
  """Trains from `start`; returns the last step."""
  settings, model, data = job.settings, job.model, job.data["train"]
  if job.is_chief:
    path = os.path.join(settings.output_dir, "skipped_questions.jsonl")
    dataset.write_skipped(data.file.skipped, path)
  pads = settings.pad_to_max_length
  training_data = harness.TrainingData(
    [data.records],
    job.features,
    data.num_records,
    # With that flag all padding is computed, and competes for answers.
    trim=components.shapes_may_vary(settings, job.strategy) and not pads,
  )
  names = None
  if "eval" in job.data:
    names = job.answerer.result_names(job.data["eval"].file)
  task = harness.Task(
    model,
    job.config,
    job.strategy,
    span_model.objective(model, mask_padding=not pads),
    settings.output_dir,
    # As in the original: by questions, although some have several windows.
    length=harness.training_length(settings, len(data.file.questions)),
    new_variables=span_model.NEW_VARIABLES,
    data=lambda: training_data,
    evaluate=lambda: evaluate(job)[1],
    result_names=names,
    write=functools.partial(_write_model, job),
    begins=functools.partial(_forget_threshold, job),
  )
  return harness.train(settings, task, start)


def _forget_threshold(job):
  # Until the first step changes the weights, the stored one holds.
  if job.is_chief:
    stored_threshold.forget(job.settings.output_dir)


def _write_model(job, folder, step):
  """Writes the weights of now, with all that answering with them needs."""
  settings = job.settings
  model_folder.write(
    folder,
    job.model.variables,
    model_folder.with_input_settings(
      job.config, {name: settings.get(name) for name in INPUT_FLAGS}
    ),
    settings.vocab_file,
    settings.do_lower_case,
    step=step,
  )
  # Or removed: the folder must not keep one of other weights.
  job.answerer.threshold.write(folder)


# With the weights of now.


def load_weights(job: Job, start: run_folder.StartingPoint) -> None:
  """Gives the model the weights of `start` to answer with."""
  weight_files.load(
    job.model.variables,
    start.path,
    allowed_missing=span_model.UNUSED_VARIABLES,
  )


def look_up_threshold(job: Job, start: run_folder.StartingPoint) -> None:
  """Takes the threshold of "no answer" that is stored for the weights."""
  settings = job.settings
  folders = [settings.output_dir] if settings.output_dir else []
  # Weights that were trained on are no longer those of their folder.
  if start.kind == "init" and not settings.do_train:
    folders.append(stored_threshold.folder_of(start.path))
  job.answerer.threshold.look_up(folders)


def evaluate(job: Job) -> tuple[list, dict]:
  """Returns (answers, scores) of the data to evaluate on."""
  data, answerer = job.data["eval"], job.answerer
  answers = answerer.answers(
    data,
    job.settings.eval_batch_size,
    find_threshold=answerer.threshold.is_auto,
  )
  return answers, answerer.scores(data.file, answers)


def evaluate_at_end(
  job: Job, step: int, start: run_folder.StartingPoint
) -> list:
  """Writes eval_results.txt; returns the answers."""
  logging.info("evaluating the weights of step %d", step)
  answers, results = evaluate(job)
  if job.is_chief:
    write_results({"global_step": step, **results}, job.settings.output_dir)
    if job.settings.do_train:
      train_log.write_last_evaluation(
        job.settings.output_dir, step, results
      )
    if job.answerer.threshold.is_auto:
      _store_threshold(job, start)
  return answers


def _store_threshold(job, start):
  """Writes a threshold that was found next to the weights it belongs to."""
  threshold, output_dir = job.answerer.threshold, job.settings.output_dir
  threshold.write(output_dir)
  models = [os.path.join(output_dir, "final_model")]
  if start.kind == "init":
    models.append(stored_threshold.folder_of(start.path))
  for folder in models:
    threshold.write_next_to(folder)


def predict(job: Job, step: int, answers: list | None = None) -> None:
  """Writes the files of predictions, and scores them.

  Args:
    step: of the weights.
    answers: those of the data to evaluate, if that was done.
  """
  data, answerer = job.data["predict"], job.answerer
  output_dir = job.settings.output_dir
  was_evaluated = answers is not None
  # The same file is answered once for both flags.
  if data is not job.data.get("eval") or not was_evaluated:
    logging.info("answering with the weights of step %d", step)
    answers = answerer.answers(data, job.settings.predict_batch_size)
    if data.file.is_labelled and job.is_chief:
      results = {"global_step": step, **answerer.scores(data.file, answers)}
      # Of two files, eval_results.txt tells of the one to evaluate.
      write_results(results, None if was_evaluated else output_dir)
    elif not data.file.is_labelled:
      logging.info("not scored: not every question has an answer")
  if job.is_chief:
    answering.write(output_dir, answers or [])
    _say_where(output_dir, data.file.questions, answers)


def _say_where(folder, questions, answers):
  """Logs where the answers are, the file to read first, and shows some."""
  logging.info(
    "the answers are in %s; candidates with probabilities in %s",
    os.path.join(folder, answering.PREDICTIONS_FILE),
    os.path.join(folder, answering.N_BEST_FILE),
  )
  for question, answer in list(zip(questions, answers))[:3]:
    logging.info(
      "  %.100s -> %.100s", question.question_text, answer.text or "(no answer)"
    )


def serve_input(job: Job) -> None:
  """Answers what comes on standard input, if asked for.

  Raises:
    InputError: lines of --predict_file=- could not be answered; all others
      are by then.
  """
  settings = job.settings
  if not (settings.interactive or components.answers_stream(settings)):
    return
  source, target = line_answers.standard_streams()

  def answer(question, context):
    found = job.answerer.answer(question, context, settings.predict_batch_size)
    return interactive.described(found)

  if settings.interactive:
    interactive.converse(source, answer, target)
  else:
    bad = interactive.answer_lines(source, target, answer)
    line_answers.require_all_answered(bad)
