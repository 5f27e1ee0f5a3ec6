"""Labels the words of texts with a network that scores word pieces."""

from collections.abc import Callable

import numpy as np

import tokenization
from tagging import data, text_spans, windowing
from text import cut_texts, input_sequences


def tag_texts(
  texts: list[str],
  scores: Callable,
  labels: list[str],
  tokenizer: tokenization.FullTokenizer,
  *,
  max_seq_length: int,
  batch_size: int,
  at_punctuation: bool,
  cut: cut_texts.CutTexts | None = None,
) -> list[dict]:
  """Returns a dict for each text, with its words, their tags and offsets.

  Words without a word piece are omitted.

  Args:
    scores: function of a dict with input_ids, input_mask and segment_ids, int32
      [B, T]; returns probabilities [B, T, L].
    batch_size: windows in a batch; batches of short windows have more.
    at_punctuation: whether each punctuation mark and each Han character is a
      separate word. If false, only white space separates words.
    cut: see windowing.make_windows.

  Returns:
    Dicts with the lists `words`, `tags`, `probabilities`, `starts` and `ends`
    (in characters), and the number `num_words`.
  """
  answers, sentences = [], []
  for number, text in enumerate(texts):
    spans = [
      span
      for span in text_spans.word_places(text, at_punctuation=at_punctuation)
      if tokenizer.encode(text[slice(*span)])
    ]
    words = [text[slice(*span)] for span in spans]
    sentences.append(
      data.Sentence(number, [number + 1] * len(words), words, None)
    )
    answers.append(
      {
        "words": words,
        "starts": [start for start, _ in spans],
        "ends": [end for _, end in spans],
        "num_words": len(spans),
      }
    )
  windows = windowing.make_windows(
    sentences, tokenizer, max_seq_length=max_seq_length, cut=cut
  )
  rows = input_sequences.in_batches(
    [(window.input_ids, [0] * len(window.input_ids)) for window in windows],
    lambda batch, _: np.asarray(scores(batch)),
    batch_size,
    max_seq_length,
  )
  values = (row[window.positions] for window, row in zip(windows, rows))
  probabilities = windowing.of_sentences(windows, values, len(sentences))
  for answer, word_rows in zip(answers, probabilities):
    answer["tags"] = [labels[row.argmax()] for row in word_rows]
    answer["probabilities"] = [float(row.max()) for row in word_rows]
  return answers
