"""Tags the words of sentences and of texts, whatever the network runs in."""

import functools
from collections.abc import Callable

import numpy as np

import tokenization
from tagging import dataset
from text import input_sequences

_BASIC = tokenization.BasicTokenizer(do_lower_case=False)


class SentenceTagger:
  """A network that scores the labels of word pieces, for any sentences."""

  def __init__(
    self, scores: Callable, tokenizer: tokenization.FullTokenizer, labels: list,
    *, batch_size: int, **windowing
  ):
    """Takes the network.

    Args:
      scores: function of a dict of input_ids, input_mask, segment_ids, int32
        [B, T]; returns what is highest for the likeliest label, [B, T, L].
      tokenizer, labels: those of the model.
      batch_size: windows in a batch.
      **windowing: keyword arguments of dataset.make_windows.
    """
    self._scores, self._tokenizer, self._labels = scores, tokenizer, labels
    self._batch_size, self._windowing = batch_size, windowing

  def tag(self, sentences: list) -> list:
    """Returns lists of str, a label for each word of each dataset.Sentence."""
    return [self._named(rows) for rows in self.score(sentences)]

  def _named(self, rows):
    return [self._labels[number] for number in rows.argmax(-1)]

  def score(self, sentences: list) -> list:
    """Returns the scores of the words of each sentence, arrays [W, L]."""
    windows = dataset.make_windows(
      sentences, self._tokenizer, **self._windowing
    )
    found = [None] * len(windows)
    lengths = [len(window.input_ids) for window in windows]
    # Windows of like length together: little padding to compute.
    for places in input_sequences.batches_by_length(lengths, self._batch_size):
      batch = input_sequences.pad_batch([windows[n].input_ids for n in places])
      for place, row in zip(places, np.asarray(self._scores(batch))):
        found[place] = row[windows[place].positions]
    # Windows come in the order of words, so their words need only be joined.
    of_sentences = [[] for _ in sentences]
    for window, rows in zip(windows, found):
      of_sentences[window.sentence].append(rows)
    return [np.concatenate(rows) for rows in of_sentences]

  def tag_texts(self, texts: list, *, at_punctuation: bool) -> list:
    """Returns a dict of each text: its words, their tags, where they are.

    Args:
      texts: list of str.
      at_punctuation: whether punctuation is a word of its own; else words are
        what white space separates. What has no word piece is no word.

    Returns:
      Dicts of `words`, `tags`, `probabilities`, `starts` and `ends`
      (characters), lists, and `num_words`. The scores are to be probabilities.
    """
    places = [
      [
        (start, end)
        for start, end in word_places(text, at_punctuation=at_punctuation)
        if self._tokenizer.encode(text[start:end])
      ]
      for text in texts
    ]
    words = [
      [text[start:end] for start, end in spans]
      for text, spans in zip(texts, places)
    ]
    scores = iter(self.score([
      dataset.Sentence(number, [number + 1] * len(found), found, None)
      for number, found in enumerate(words)
      if found
    ]))
    return [
      self._described(found, spans, next(scores) if found else None)
      for found, spans in zip(words, places)
    ]

  def _described(self, words, spans, scores):
    return {
      "words": words,
      "tags": self._named(scores) if words else [],
      "probabilities": scores.max(-1).tolist() if words else [],
      "starts": [start for start, _ in spans],
      "ends": [end for _, end in spans],
      "num_words": len(words),
    }


def word_places(text: str, *, at_punctuation: bool) -> list:
  """Returns (start, end) of the words of a text, as tokenization.py cuts them.

  Args:
    text: str.
    at_punctuation: whether punctuation, and each Han character, is a word.
  """
  found, start, end = [], None, 0
  for place, char in enumerate(text):
    kind = _kind(char)
    is_alone = at_punctuation and kind == "alone"
    if start is not None and (is_alone or kind == "space"):
      found.append((start, end))
      start = None
    if is_alone:
      found.append((place, place + 1))
    elif kind in ("letter", "alone"):
      start = place if start is None else start
      end = place + 1
  return found if start is None else [*found, (start, end)]


@functools.lru_cache(1 << 16)
def _kind(char):
  """Returns what a character is to the words on both sides of it."""
  words = _BASIC.tokenize(f"a{char}b")
  # A control character is removed: neither part nor end of a word.
  kinds = {1: "letter" if words != ["ab"] else "nothing", 2: "space"}
  return kinds.get(len(words), "alone")
