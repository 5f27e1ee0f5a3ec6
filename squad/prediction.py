"""A model that scores tokens as answers -> answers and their scores."""

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

import tokenization
from records import pipeline
from squad import (
  answering,
  dataset,
  input_data,
  null_threshold,
  scoring,
  windowing,
)
from text import input_sequences
from training import evaluation_loop


def window_logits(
  model: Callable, batch: dict, *, trim: bool, mask_padding: bool = True
) -> dict:
  """Returns the logits "start" and "end" of a batch, float32 [B, T].

  Args:
    model: function of a batch; returns start and end logits [B, T'].
    batch: input_ids, input_mask and segment_ids [B, T].
    trim: whether T' may be less than T, the longest sequence of the batch;
      what is cut off is padding, and -inf.
    mask_padding: whether padding is no candidate, but -inf.
      Unlike the original: there it takes places among the n best positions of
      a window; the answers would depend on how far a batch is cut.
  """
  length = tf.shape(batch["input_ids"])[1]
  if trim:
    batch = pipeline.trim_to_longest(batch)
  is_token = tf.cast(batch["input_mask"], tf.bool)
  outputs = {}
  for name, logits in zip(("start", "end"), model(batch)):
    if mask_padding:
      logits = tf.where(is_token, logits, -np.inf)
    # Back to one width, so that the rows of all batches stack.
    rest = length - tf.shape(logits)[1]
    outputs[name] = tf.pad(logits, [[0, 0], [0, rest]], constant_values=-np.inf)
  return outputs


def answer_texts(
  pairs: list,
  logits_of: Callable,
  tokenizer: tokenization.FullTokenizer,
  lengths: windowing.Lengths,
  options: answering.AnswerOptions,
  *,
  batch_size: int,
  pads: bool = False,
) -> list[answering.Answer]:
  """Answers each (question, context).

  Args:
    logits_of: function of input_data.make_batch's dict; returns the `start`
      and `end` logits [B, T], -inf where there is no candidate.
    batch_size: B; of short windows more.
    pads: whether every window has `lengths.max_seq_length` tokens.
  """
  questions = dataset.from_texts(pairs)
  windows = list(windowing.make_windows(questions, tokenizer, lengths))
  most = lengths.max_seq_length
  sizes = [most if pads else window.num_tokens for window in windows]
  shape = 2, len(windows), max(sizes, default=1)
  logits = np.full(shape, -np.inf, np.float32)
  for places in input_sequences.batches_by_length(sizes, batch_size, most):
    longest = sizes[places[0]]
    batch = input_data.make_batch(
      [windows[place] for place in places], tokenizer, longest
    )
    found = logits_of(batch)
    logits[:, places, :longest] = found["start"], found["end"]
  null_scores = np.full(len(questions), np.inf)
  np.minimum.at(
    null_scores,
    [window.question_index for window in windows],
    logits[:, :, 0].astype(np.float64).sum(0),
  )
  # A passage without a word piece has no window.
  null_scores[np.isinf(null_scores)] = 0.0
  answers = answering.find_answers(
    questions, windows, logits[0], logits[1], options
  )
  return [
    answer._replace(null_score=float(score))
    for answer, score in zip(answers, null_scores)
  ]


class Answerer:
  """Answers questions with the weights that a model has at that moment."""

  def __init__(
    self,
    model: Callable,
    *,
    strategy: tf.distribute.Strategy,
    tokenizer: tokenization.FullTokenizer,
    lengths: windowing.Lengths,
    options: answering.AnswerOptions,
    threshold: null_threshold.NullThreshold,
    trim: bool,
    mask_padding: bool = True,
  ):
    """Takes how to answer; `threshold` counts, not that of the options.

    Args:
      model, mask_padding: see `window_logits`.
      strategy: the one in whose scope the model was made.
      trim: whether batches may be cut to their longest sequence.
    """
    self._tokenizer = tokenizer
    self._lengths = lengths
    self._options = options
    self._trim = trim
    self._logits = functools.partial(
      window_logits, model, trim=trim, mask_padding=mask_padding
    )
    # A single question is answered without the strategy: one window or a few,
    # whose number differs, so one trace must do for many shapes.
    self._compiled_logits = tf.function(
      self._logits, reduce_retracing=True, autograph=False
    )
    self._predictor = evaluation_loop.Predictor(strategy, self._logits)
    self.threshold = threshold

  def answers(
    self,
    data: input_data.SquadInput,
    batch_size: int,
    *,
    find_threshold: bool = False,
  ) -> list[answering.Answer]:
    """Answers every question of a file.

    Args:
      batch_size: windows in a batch; of short ones more.
      find_threshold: whether to set the threshold by these answers.
    """
    length = self._lengths.max_seq_length
    windows = data.windows or []
    sizes = [window.num_tokens for window in windows]
    logits = self._predictor.predict(
      pipeline.sequential_records([data.records]),
      input_data.record_features(length, training=False),
      num_records=data.num_records,
      batch_size=batch_size,
      # Windows of like length share a batch; the logits come in their order.
      lengths=sizes if self._trim else None,
    )
    file = data.file
    # The threshold is applied afterwards, so that it can be found by the same
    # answers without a second pass over the logits.
    found = list(answering.find_answers(
      file.questions, windows, logits["start"], logits["end"], self._options
    ))
    if not self._options.version_2_with_negative:
      return found
    if find_threshold:
      self.threshold.find(file, found)
    return list(answering.with_threshold(found, self.threshold.value))

  def scores(self, file: dataset.SquadFile, answers: list) -> dict:
    """Returns what the official script says, a dict from name to number."""
    return self._scores(
      file.questions,
      {answer.qas_id: answer.text for answer in answers},
      {answer.qas_id: answer.null_odds for answer in answers},
    )

  def result_names(self, file: dataset.SquadFile) -> list[str]:
    """Returns the names of the scores of a file, before it is answered."""
    ids = [question.qas_id for question in file.questions]
    nothing, odds = dict.fromkeys(ids, ""), dict.fromkeys(ids, 0.0)
    return list(self._scores(file.questions, nothing, odds))

  def _scores(self, questions, texts, odds):
    if not self._options.version_2_with_negative:
      return scoring.score_v1(questions, texts)
    results = scoring.score_v2(questions, texts, odds)
    return {**results, "null_score_diff_threshold": self.threshold.value}

  def answer(
    self, question: str, context: str, batch_size: int
  ) -> answering.Answer:
    """Returns the answering.Answer to one question, at once."""
    (found,) = answer_texts(
      [(question, context)], self._compiled_logits, self._tokenizer,
      self._lengths, self._options, batch_size=batch_size, pads=not self._trim,
    )
    if not self._options.version_2_with_negative:
      return found
    (found,) = answering.with_threshold([found], self.threshold.value)
    return found
