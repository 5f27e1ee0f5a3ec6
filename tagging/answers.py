"""Labels the words of texts with a network that scores word pieces."""

from collections.abc import Callable

import numpy as np

import tokenization
from tagging import data, text_spans, windowing
from text import input_sequences


def tag_texts(
  texts: list[str],
  scores: Callable,
  labels: list[str],
  tokenizer: tokenization.FullTokenizer,
  *,
  max_seq_length: int,
  batch_size: int,
  at_punctuation: bool,
) -> list[dict]:
  """Returns a dict for each text, with its words, their tags and offsets.

  Words without a word piece are omitted.

  Args:
    scores: function of a dict of input_ids, input_mask, segment_ids, int32
      [B, T]; returns probabilities [B, T, L].
    batch_size: number of windows in a batch.
    at_punctuation: whether each punctuation mark is a word; otherwise only
      white space separates words.

  Returns:
    Dicts of lists (`words`, `tags`, `probabilities`, `starts` and `ends` in
    characters) and `num_words`.
  """
  answers, sentences = [], []
  for number, text in enumerate(texts):
    places = [
      place
      for place in text_spans.word_places(text, at_punctuation=at_punctuation)
      if tokenizer.encode(text[slice(*place)])
    ]
    words = [text[slice(*place)] for place in places]
    sentences.append(
      data.Sentence(number, [number + 1] * len(words), words, None)
    )
    answers.append(
      {
        "words": words,
        "starts": [start for start, _ in places],
        "ends": [end for _, end in places],
        "num_words": len(places),
      }
    )
  windows = windowing.make_windows(
    sentences, tokenizer, max_seq_length=max_seq_length
  )
  rows = input_sequences.in_batches(
    [(window.input_ids, [0] * len(window.input_ids)) for window in windows],
    lambda batch, _: np.asarray(scores(batch)),
    batch_size,
  )
  values = (row[window.positions] for window, row in zip(windows, rows))
  of_words = windowing.of_sentences(windows, values, len(sentences))
  for answer, rows in zip(answers, of_words):
    answer["tags"] = [labels[row.argmax()] for row in rows]
    answer["probabilities"] = [float(row.max()) for row in rows]
  return answers
