"""Texts -> answers, for every head: what Python and serve.py give.

The task's folder makes ids of texts and answers of scores, the same code that
its script runs; the network between them comes from a model in Python or from
a SavedModel. Letters: L labels, P masks, K fillings.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

import tokenization
from classification import answers as classification_answers
from classification import data as classification_data
from classification import inputs as classification_inputs
from common import errors, run_settings
from features import text_batches
from pretraining import mask_filling
from squad import alignment
from squad import answers as squad_answers
from squad import inputs as squad_inputs
from tagging import answers as tagging_answers
from text import input_sequences

_KINDS = {
  "softmax": classification_data.SINGLE,
  "sigmoid": classification_data.MULTI_LABEL,
  "linear": classification_data.REGRESSION,
}
# The score of an answer where there is none: finite, for JSON.
_NO_ANSWER = -1e9


class Parts(NamedTuple):
  """What answers are made of.

  Attributes:
    settings: run_settings.Settings, as export_settings.resolve returns them.
    tokenizer: tokenization.FullTokenizer.
    labels: list of str.
    network: function of int32 [B, T] by the names of models.ServedModel's
      id_inputs; returns the tensors of its `from_ids`.
    batch_size: sequences that are computed together; of short ones more.
  """

  settings: run_settings.Settings
  tokenizer: tokenization.FullTokenizer
  labels: list
  network: Callable
  batch_size: int


def make(parts: Parts) -> Callable:
  """Returns a function of a list of tuples of str, texts or pairs of them.

  It returns a dict for each, of what JSON can hold.
  """
  return _HEADS[parts.settings.head](parts)


def check(head: str, rows: list) -> None:
  """Raises InputError for an empty text; the embedding of one exists."""
  for number, row in enumerate(rows if head != "embedding" else ()):
    for text in row:
      errors.require_text(text, f"text number {number}")


def compiled(function: Callable, names: tuple) -> Callable:
  """Compiles a function of int32 [B, T] by names, for all B and T."""
  ids = {name: tf.TensorSpec([None, None], tf.int32, name) for name in names}
  return tf.function(
    lambda **inputs: function(**inputs), autograph=False
  ).get_concrete_function(**ids)


def in_batches(sequences: list, compute: Callable, batch_size: int) -> list:
  """Computes sequences of like length together.

  Args:
    sequences: list of (ids, segment ids).
    compute: function of a batch, dict of int32 arrays [B, T], and of the
      numbers of its sequences; returns B values.
    batch_size: B; of short sequences more.

  Returns:
    A value for each sequence, in order.
  """
  found = [None] * len(sequences)
  lengths = [len(ids) for ids, _ in sequences]
  for places in input_sequences.batches_by_length(
    lengths, batch_size, max(lengths, default=0)
  ):
    batch = input_sequences.pad_batch(
      [sequences[n][0] for n in places], [sequences[n][1] for n in places]
    )
    for place, value in zip(places, compute(batch, places)):
      found[place] = value
  return found


def _on_tensors(network, **batch):
  """Returns a dict of arrays."""
  outputs = network(**{n: tf.constant(v, tf.int32) for n, v in batch.items()})
  return {name: value.numpy() for name, value in outputs.items()}


def _classification(parts):
  settings = parts.settings
  kind = _KINDS[settings.output_activation]
  options = classification_inputs.options_of(settings, kind, parts.labels)

  def logits(batch):
    return _on_tensors(parts.network, **batch)["logits"]

  def described(found):
    if not found.scores:
      return {"score": found.label}
    labels, values = list(found.scores), list(found.scores.values())
    result = {"labels": labels, "probabilities": values}
    if kind == classification_data.MULTI_LABEL:
      return result
    return {**result, "label": found.label, "probability": max(values)}

  return lambda rows: [
    described(found)
    for found in classification_answers.predict_texts(
      logits, options, rows, parts.batch_size
    )
  ]


def _embedding(parts):
  encode = text_batches.make_encoder(
    parts.tokenizer, parts.settings.max_seq_length
  )

  def compute(batch, _):
    return _on_tensors(parts.network, **batch)["embedding"].tolist()

  return lambda rows: [
    {"embedding": vector}
    for vector in in_batches(
      [encode(*row, *[None] * (2 - len(row))) for row in rows],
      compute,
      parts.batch_size,
    )
  ]


def _masked_lm(parts):
  length = parts.settings.max_seq_length

  def answer(rows):
    found = [mask_filling.encode(parts.tokenizer, text) for text, in rows]
    # A mask behind the end is cut off with the text.
    found = [
      (ids if len(ids) <= length else [*ids[: length - 1], ids[-1]],
       [place for place in positions if place < length - 1])
      for ids, positions in found
    ]

    def compute(batch, places):
      positions = [found[n][1] for n in places]
      width = max(1, *map(len, positions))
      padded = [input_sequences.pad(row, width) for row in positions]
      outputs = _on_tensors(
        parts.network, **batch, masked_lm_positions=padded
      )  # [B, P, K]
      for row, tokens, values in zip(
        positions, outputs["fillings"], outputs["probabilities"]
      ):
        yield {
          "fillings": [[t.decode() for t in ts] for ts in tokens[: len(row)]],
          "probabilities": values[: len(row)].tolist(),
        }

    return in_batches(
      [(ids, [0] * len(ids)) for ids, _ in found], compute, parts.batch_size
    )

  return answer


def _span(parts):
  settings = parts.settings
  lengths = squad_inputs.lengths_of(settings)
  options = squad_answers.options_of(settings, parts.tokenizer)._replace(
    null_score_diff_threshold=settings.null_score_diff_threshold or 0.0
  )

  def logits_of(batch):
    inputs = {
      n: batch[n] for n in ("input_ids", "input_mask", "segment_ids")
    }
    outputs = _on_tensors(parts.network, **inputs)
    is_token = batch["input_mask"] > 0
    return {
      name: np.where(is_token, outputs[f"{name}_logits"], -np.inf)
      for name in ("start", "end")
    }

  def answer(rows):
    answers = squad_answers.answer_texts(
      rows, logits_of, parts.tokenizer, lengths, options,
      batch_size=parts.batch_size,
    )
    return [
      _described_span(found, context)
      for found, (_, context) in zip(answers, rows)
    ]

  return answer


def _described_span(found, context):
  is_null = found.null_odds is not None and not found.text
  text = "" if is_null else found.best_text
  start, end = alignment.in_context(context, found.place) if text else (0, 0)
  score = _NO_ANSWER if found.score is None else found.score
  return {
    "answer": text, "score": score, "start": start, "end": end,
    "null_score": found.null_score,
  }


def _tagging(parts):
  settings = parts.settings
  tagger = tagging_answers.SentenceTagger(
    lambda batch: _on_tensors(parts.network, **batch)["probabilities"],
    parts.tokenizer,
    parts.labels,
    batch_size=parts.batch_size,
    max_seq_length=settings.max_seq_length,
  )
  return lambda rows: tagger.tag_texts(
    [text for text, in rows],
    at_punctuation=settings.tag_words == "punctuation",
  )


_HEADS = {
  "classification": _classification,
  "embedding": _embedding,
  "masked_lm": _masked_lm,
  "span": _span,
  "tagging": _tagging,
}
