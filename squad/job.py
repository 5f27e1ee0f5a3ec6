"""The steps of run_squad.py: train, evaluate, predict."""

import os
from collections.abc import Callable

import tensorflow as tf
from absl import logging

import configuration
import heads
import tokenization
from checkpoints import model_folder, model_writer, weight_files
from common import result_lines, run_settings
from running import reports, trackers
from squad import answerer, data, inputs, null_threshold
from squad import answers as squad_answers
from squad import model as squad_model
from training import distribution, harness, run_folder, run_setup

# The flags about inputs and answers that a model folder stores. The folder also
# stores do_lower_case and never_split, in tokenizer_config.json, and a
# threshold found with --null_score_diff_threshold=auto, in null_threshold.json.
INPUT_FLAGS = (
  "max_seq_length doc_stride max_query_length max_answer_length n_best_size "
  "pad_to_max_length version_2_with_negative"
).split()


def write_results(results: dict, folder: str | None = None) -> None:
  """Prints `name = value` lines, and writes them to `folder`, if given."""
  text = result_lines.as_text(results)
  print(text, end="", flush=True)
  if folder:
    path = os.path.join(folder, "eval_results.txt")
    result_lines.write_files(path, results)


def report_of(
  file: data.SquadFile,
  answers: list[squad_answers.Answer],
  results: dict[str, float],
  points: dict[str, tuple[float, float]],
) -> reports.Report:
  """Returns the report of a file's answers; `points` has (exact, F1) by id."""
  mistakes = []
  for question, answer in zip(file.questions, answers):
    _, f1 = points[question.qas_id]
    if f1 < 1:
      probability = answer.candidates[0].probability
      mistakes.append(
        reports.Mistake(
          # The most confident of equally wrong answers comes first.
          1 - f1 + 0.01 * probability,
          question.question_text,
          " | ".join(question.answers) or "(no answer)",
          answer.text or "(no answer)",
          probability,
        )
      )
  return reports.Report("question-answering", results, mistakes=mistakes)


class SquadRun:
  """A run of run_squad.py: its model, its data and its steps."""

  def __init__(
    self,
    settings: run_settings.Settings,
    config: configuration.BertConfig,
    strategy: tf.distribute.Strategy,
    tokenizer: tokenization.FullTokenizer,
    make_inputs: Callable[[], dict],
    *,
    start: run_folder.StartingPoint,
  ):
    """Creates the model, and then its data with `make_inputs`.

    Call `load` or `train` before other methods: both load `start`'s weights.
    """
    self._settings, self._config = settings, config
    self._strategy = strategy
    self._start, self._step = start, start.step
    self._is_chief = distribution.is_chief(strategy)
    self._report = reports.Report("question-answering", {})
    options = run_setup.model_options(settings, strategy)
    # As in the original: with pad_to_max_length, the softmax includes padding.
    options["skip_padding"] &= not settings.pad_to_max_length
    with strategy.scope(), weight_files.without_random_init(start.path):
      self._model = model = squad_model.SpanModel(config, **options)
    self.threshold = null_threshold.NullThreshold(
      settings.null_score_diff_threshold,
      lambda: null_threshold.digest_of_variables(model.variables),
    )
    self._answerer = answerer.Answerer(
      settings, model, tokenizer, strategy, self.threshold
    )
    self._inputs = make_inputs()

  def train(self) -> None:
    """Trains the model from the run's starting point."""
    settings, file = self._settings, self._inputs["train"]
    folder, pads = settings.output_dir, settings.pad_to_max_length
    training_data = harness.TrainingData(
      [file.records],
      inputs.record_features(settings.max_seq_length, training=True),
      file.num_records,
      # With pad_to_max_length, the loss includes all padding.
      trim=run_setup.shapes_may_vary(settings, self._strategy) and not pads,
    )
    names = None
    if "eval" in self._inputs:
      names = self._answerer.result_names(self._inputs["eval"].file)
    self._step = harness.train(
      settings,
      harness.TrainingSpec(
        self._model,
        self._config,
        self._strategy,
        squad_model.objective(self._model, mask_padding=not pads),
        folder,
        # As in the original: an epoch's size counts questions, not windows.
        length=harness.training_length(settings, len(file.file.questions)),
        new_variables=squad_model.NEW_VARIABLES,
        data=lambda: training_data,
        evaluate=lambda: self._evaluate()[1],
        result_names=names,
        write=self._write_model,
        begins=self._forget_threshold,
      ),
      self._start,
    )

  def _forget_threshold(self) -> None:
    # The threshold was chosen for weights that the first step changes.
    if self._is_chief:
      null_threshold.forget(self._settings.output_dir)

  def _write_model(self, folder: str, step: int) -> None:
    """Writes a model folder with the weights and a threshold found for them."""
    settings = self._settings
    config = model_folder.with_input_settings(
      self._config, settings.pick(INPUT_FLAGS)
    )
    model_writer.write(
      folder,
      self._model.variables,
      config,
      **settings.pick("vocab_file do_lower_case never_split"),
      step=step,
    )
    # This also removes a threshold that belongs to other weights.
    self.threshold.write(folder)

  def load(self) -> None:
    """Loads the run's weights without training."""
    assert self._start.path  # `open_run` refuses random weights.
    weight_files.load(
      self._model.variables, self._start.path, allowed_missing=heads.POOLER
    )

  def look_up_threshold(self) -> None:
    """Reads the "no answer" threshold stored for the current weights."""
    folders, start = [self._settings.output_dir], self._start
    # After training, the threshold in the initial folder is for other weights.
    if start.path and start.origin == "init" and not self._settings.do_train:
      folders.append(null_threshold.folder_of(start.path))
    self.threshold.look_up(folders)

  def _evaluate(self) -> tuple[list, dict, dict]:
    """Returns answers, scores, and each question's scores for --eval_file."""
    file, batch_size = self._inputs["eval"], self._settings.eval_batch_size
    answers = self._answerer.answers(
      file, batch_size, find_threshold=self.threshold.is_auto
    )
    return answers, *self._answerer.scores(file.file, answers)

  def evaluate(self) -> tuple[list, dict[str, float]]:
    """Writes eval_results.txt, and returns the answers and their scores."""
    start, step = self._start, self._step
    logging.info("evaluating the weights of step %d", step)
    answers, results, points = self._evaluate()
    folder = self._settings.output_dir
    if self._is_chief:
      write_results({"global_step": step, **results}, folder)
      trackers.write_evaluation(folder, step, results)
      if self.threshold.is_auto:
        # Store the threshold next to each copy of its weights.
        self.threshold.write(folder)
        self.threshold.write_next_to(os.path.join(folder, "final_model"))
        if start.path and start.origin == "init":
          initial_folder = null_threshold.folder_of(start.path)
          self.threshold.write_next_to(initial_folder)
      self._report = report_of(
        self._inputs["eval"].file, answers, results, points
      )
    return answers, results

  def predict(self, evaluated: list | None = None) -> None:
    """Writes the prediction files, and scores the predictions if possible.

    `evaluated` has the answers of a preceding evaluation, if any.
    """
    file, folder = self._inputs["predict"], self._settings.output_dir
    # Reuse the evaluation's answers if both flags name the same file.
    answers = evaluated if file is self._inputs.get("eval") else None
    if answers is None:
      logging.info("answering with the weights of step %d", self._step)
      answers = self._answerer.answers(file, self._settings.predict_batch_size)
      if not file.file.is_labelled:
        logging.info("predictions not scored: some questions lack an answer")
      elif self._is_chief:
        results, points = self._answerer.scores(file.file, answers)
        # Do not overwrite the results of an evaluation in eval_results.txt.
        is_first = evaluated is None
        write_results(
          {"global_step": self._step, **results}, folder if is_first else None
        )
        if is_first:
          self._report = report_of(file.file, answers, results, points)
    if self._is_chief:
      squad_answers.write(folder, answers)
      logging.info(
        "wrote the answers to %s, and candidates with probabilities to %s",
        os.path.join(folder, squad_answers.PREDICTIONS_FILE),
        os.path.join(folder, squad_answers.N_BEST_FILE),
      )

  def write_report(self) -> None:
    """Writes the report page and the model card, see reports."""
    if self._is_chief and (self._settings.do_train or self._report.results):
      reports.write_all(self._settings, self._report)
