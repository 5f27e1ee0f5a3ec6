"""Answers and scores the questions of a file with a trained model."""

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

import tokenization
from common import run_settings
from records import pipeline
from squad import answers, data, inputs, null_threshold, scores, windowing
from training import distribution, evaluation_loop


def window_logits(
  model: Callable, batch: dict, *, trim: bool, mask_padding: bool = True
) -> dict:
  """Returns {"start": logits, "end": logits} of a batch, float32 [B, T] each.

  Args:
    model: function of a batch; returns start and end logits [B, T'].
    batch: input_ids, input_mask and segment_ids [B, T].
    trim: whether to trim the batch to T' (see pipeline.trim_to_longest). The
      logits from T' to T are then -inf.
    mask_padding: whether to set the logits of padding to -inf.
      Unlike the original: there, padding competes for the n best positions of a
      window. If False, `trim` must be False too, or the answers depend on T'.
  """
  length = tf.shape(batch["input_ids"])[1]
  if trim:
    batch = pipeline.trim_to_longest(batch)
  is_token = tf.cast(batch["input_mask"], tf.bool)
  outputs = {}
  for name, logits in zip(("start", "end"), model(batch)):
    if mask_padding:
      logits = tf.where(is_token, logits, -np.inf)
    # Equal widths allow stacking the rows of all batches.
    missing = [0, length - tf.shape(logits)[1]]
    outputs[name] = tf.pad(logits, [[0, 0], missing], constant_values=-np.inf)
  return outputs


class Answerer:
  """Answers questions with the current weights of a model."""

  def __init__(
    self,
    settings: run_settings.Settings,
    model: Callable,
    tokenizer: tokenization.FullTokenizer,
    strategy: tf.distribute.Strategy,
    threshold: null_threshold.NullThreshold,
  ):
    """Creates an answerer.

    Args:
      settings: settings of run_squad.py.
      model: see `window_logits`.
      tokenizer: the model's tokenizer.
      strategy: the strategy in whose scope the model was created.
      threshold: the threshold for "no answer".
    """
    self._tokenizer = tokenizer
    self._lengths = windowing.lengths_of(settings, tokenizer.specials)
    self._options = answers.options_of(settings)
    pads = settings.pad_to_max_length
    # XLA compiles only the training step, so prediction may use any length.
    self._trim = not pads and not distribution.is_tpu(strategy)
    compute = functools.partial(
      window_logits, model, trim=self._trim, mask_padding=not pads
    )
    self._predictor = evaluation_loop.Predictor(strategy, compute)
    self.threshold, self._units = threshold, settings.f1_units

  def answers(
    self,
    file: inputs.SquadInput,
    batch_size: int,
    *,
    find_threshold: bool = False,
  ) -> list[answers.Answer]:
    """Answers every question of a file.

    With `find_threshold`, sets and applies the threshold with the best F1.
    """
    windows = file.windows or []
    logits = self._predictor.predict(
      pipeline.sequential_records([file.records]),
      inputs.record_features(self._lengths.max_seq_length, training=False),
      num_records=file.num_records,
      batch_size=batch_size,
      # Windows of similar length share a batch; the logits stay in file order.
      lengths=[w.num_tokens for w in windows] if self._trim else None,
    )
    predicted = answers.find_answers(
      file.file.questions, windows, logits, self._options, self._tokenizer
    )
    if find_threshold:
      self.threshold.find(file.file, predicted, self._units)
    return answers.with_threshold(predicted, self.threshold.value)

  def scores(self, file: data.SquadFile, predicted: list) -> tuple[dict, dict]:
    """Returns the scores of a file by name, and the scores of each question.

    Each question's scores are the result of scores.compare_all.
    """
    version_2 = self._options.version_2_with_negative
    texts = {answer.qas_id: answer.text for answer in predicted}
    points = scores.compare_all(
      file.questions, texts, version_2=version_2, units=self._units
    )
    if not version_2:
      return scores.score_v1(file.questions, texts, points), points
    odds = {answer.qas_id: answer.null_odds for answer in predicted}
    results = scores.score_v2(file.questions, texts, odds, points)
    results["null_score_diff_threshold"] = self.threshold.value
    return results, points

  def result_names(self, file: data.SquadFile) -> list[str]:
    """Returns the names of the scores that `scores` returns for a file."""
    blank = [answers.Answer(q.qas_id, "", [], "", 0.0) for q in file.questions]
    return list(self.scores(file, blank)[0])
