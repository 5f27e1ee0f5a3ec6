"""A model that scores tokens as answers -> answers and their scores."""

import functools
from typing import Callable

import numpy as np
import tensorflow as tf

import tokenization
from squad import answering, dataset, input_data, scoring, windowing
from training import evaluation_loop, input_sequences, pipeline


def window_logits(model, batch, *, trim, mask_padding=True):
  """Returns the logits of a batch, those of padding -inf if it is masked.

  Args:
    model: function of a batch; returns start and end logits [B, T'].
    batch: dict of input_ids, input_mask and segment_ids [B, T].
    trim: whether T' may be less than T, the longest sequence of the batch;
      what is cut off is padding, and -inf.
    mask_padding: whether padding is no candidate.
      Unlike the original: there it takes places among the n best positions of
      a window; the answers would depend on how far a batch is cut.

  Returns:
    dict of "start" and "end", float32 [B, T].
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
) -> list:
  """Returns the answering.Answer to each (question, context).

  Args:
    pairs: list of tuples of str.
    logits_of: function of input_data.make_batch's dict; returns the `start`
      and `end` logits [B, T], -inf where there is no candidate.
    tokenizer, lengths, options: those of the model.
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
  return [
    answer._replace(null_score=float(score))
    for answer, score in zip(
      answering.find_answers(questions, windows, *logits, options), null_scores
    )
  ]


class Answerer:
  """Answers questions with the weights that a model has at that moment."""

  def __init__(
    self,
    model,
    *,
    strategy,
    tokenizer,
    lengths,
    options,
    threshold,
    trim,
    mask_padding=True,
  ):
    """Says how.

    Args:
      model: see `window_logits`.
      strategy: the tf.distribute.Strategy in whose scope it was made.
      tokenizer: tokenization.FullTokenizer.
      lengths: windowing.Lengths.
      options: answering.AnswerOptions; the threshold in it is not used.
      threshold: null_threshold.NullThreshold.
      trim: whether batches may be cut to their longest sequence.
      mask_padding: see `window_logits`.
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

  def answers(self, data, batch_size, *, find_threshold=False):
    """Returns the answering.Answer to every question of a file.

    Args:
      data: input_data.SquadInput.
      batch_size: windows in a batch; of short ones more.
      find_threshold: whether to set the threshold by these answers.
    """
    length = self._lengths.max_seq_length
    sizes = np.array([window.num_tokens for window in data.windows])
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
    found = self._find(file.questions, data.windows, logits)
    if not self._options.version_2_with_negative:
      return found
    if find_threshold:
      self.threshold.find(file, found)
    return list(answering.with_threshold(found, self.threshold.value))

  def scores(self, file, answers):
    """Returns what the official script says, a dict from name to number."""
    return self._scores(
      file.questions,
      {answer.qas_id: answer.text for answer in answers},
      {answer.qas_id: answer.null_odds for answer in answers},
    )

  def result_names(self, file):
    """Returns the names of the scores of a file, before it is answered."""
    ids = [question.qas_id for question in file.questions]
    nothing, odds = dict.fromkeys(ids, ""), dict.fromkeys(ids, 0.0)
    return list(self._scores(file.questions, nothing, odds))

  def _scores(self, questions, texts, odds):
    if not self._options.version_2_with_negative:
      return scoring.score_v1(questions, texts)
    results = scoring.score_v2(questions, texts, odds)
    return {**results, "null_score_diff_threshold": self.threshold.value}

  def answer(self, question, context, batch_size):
    """Returns the answering.Answer to one question, at once."""
    (found,) = answer_texts(
      [(question, context)], self._compiled_logits, self._tokenizer,
      self._lengths, self._options, batch_size=batch_size, pads=not self._trim,
    )
    if not self._options.version_2_with_negative:
      return found
    (found,) = answering.with_threshold([found], self.threshold.value)
    return found

  def _find(self, questions, windows, logits):
    return list(
      answering.find_answers(
        questions, windows, logits["start"], logits["end"], self._options
      )
    )
