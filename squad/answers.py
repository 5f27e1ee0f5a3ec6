"""Turns the logits of windows into ranked answers, and writes them to files.

  options = answers.AnswerOptions(version_2_with_negative=True)
  answered = answers.find_answers(
    questions, windows, logits, options, tokenizer
  )
  answers.write(output_dir, answered)

Both `Answerer.answers`, for files, and `answer_texts` call `find_answers`.
`with_threshold` applies a different threshold to existing answers.
"""

import functools
import json
import math
import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

import tokenization
from common import errors, file_io, run_settings
from squad import alignment, data, spans, windowing
from text import cut_texts, input_sequences

PREDICTIONS_FILE = "predictions.json"
N_BEST_FILE = "nbest_predictions.json"
NULL_ODDS_FILE = "null_odds.json"

# As in the original: in SQuAD 1.1, the answer to a question without candidates.
_NOTHING_FOUND = "empty"
# The null odds of a question whose only candidate is "no answer".
# As in the original: the initial score_null, above all usual thresholds.
_NO_OTHER_ANSWER = 1e6


class AnswerOptions(NamedTuple):
  """The options that determine the answers, named like the flags.

  Attributes:
    n_best_size: number of start positions and of end positions to try in each
      window, and of candidates for each question, to which "" may be added.
    max_answer_length: maximum length in word pieces.
    version_2_with_negative: whether a question may have no answer.
    null_score_diff_threshold: the answer is "no answer" if the question's null
      odds (see Answer) exceed this.
  """

  n_best_size: int = 20
  max_answer_length: int = 30
  version_2_with_negative: bool = False
  null_score_diff_threshold: float = 0.0


def options_of(settings: run_settings.Settings) -> AnswerOptions:
  """Returns the AnswerOptions in a script's settings; the threshold is 0.0."""
  return AnswerOptions(
    **settings.pick("n_best_size max_answer_length version_2_with_negative")
  )


class Candidate(NamedTuple):
  """One of a question's best answers.

  The text is spelled as in the passage; "" means "no answer". "empty" may be a
  placeholder (see _NOTHING_FOUND). A question's probabilities sum to 1.
  """

  text: str
  probability: float
  start_logit: float
  end_logit: float


class Answer(NamedTuple):
  """The answer to one question.

  Attributes:
    text: the answer; "" means "no answer".
    candidates: list of Candidate, the best first.
    best_text: the best answer other than "no answer", whatever the threshold;
      "" if there is none.
    null_odds: `null_score` minus `score`, in logits; 1e6 if `best_text` is "";
      None without version_2_with_negative.
    score: the start logit plus the end logit of `best_text`; None if it is "".
    places: {text of a candidate: its span, see alignment.PassageText.find}.
    null_score: the start logit plus the end logit of "no answer"; 0.0 for a
      question without windows.
  """

  qas_id: str
  text: str
  candidates: list
  best_text: str
  null_odds: float | None = None
  score: float | None = None
  places: dict[str, tuple[int, int] | None] = {}
  null_score: float = 0.0


# From logits to answers.

# A function from a span's pieces (first, last) to its text and its place.
FindText = Callable[[int, int], tuple[str, tuple[int, int] | None]]


def find_answers(
  questions: list,
  windows: list,
  logits: dict,
  options: AnswerOptions,
  tokenizer: tokenization.FullTokenizer,
  *,
  by_pieces: bool = False,
) -> list[Answer]:
  """Returns the Answer to every question, in order.

  With `by_pieces`, an answer is the text of its pieces if PieceFinder finds it.
  Unlike the original: there, the answer is the first match of the pieces' text
  in the words of the pieces or, if there is no match, all of these words. In
  text without spaces, this may be the wrong match, or the whole passage.

  As in the original: padding with finite logits competes for the `n_best_size`
  best positions of a window, although no answer can contain it.
  `logits` has `start` and `end`, float32 [N, T], for N windows in the order of
  their questions; logits of padding may be -inf. Raises InputError: any other
  logit is nan or infinite; the message names the question.
  """
  for values in logits.values():
    _check_finite(questions, windows, values)
  best = spans.best_spans(windows, logits, len(questions), options)
  passages = {window.question_index: window.passage for window in windows}
  # A cache, because most words of a passage also occur in other passages.
  word_text = functools.lru_cache(1 << 16)(tokenizer.word_text)
  passage, find, answers = None, None, []
  for index, (question, ranked) in enumerate(zip(questions, best)):
    # Questions about the same passage are consecutive.
    if index in passages and passages[index] is not passage:
      passage = passages[index]
      words = question.doc_tokens
      whole = alignment.PassageText(words, word_text)
      pieces = None
      if by_pieces:
        pieces = alignment.PieceFinder(words, passage.words.tolist(), tokenizer)
      find = _text_finder(passage, whole, pieces, tokenizer)
    answers.append(_answer(question.qas_id, ranked, find, options))
  return answers


def _check_finite(questions: list, windows: list, logits: np.ndarray) -> None:
  """Raises InputError if a logit is nan or infinite, except -inf for padding.

  Unlike the original: there, nan makes the order of answers arbitrary.
  """
  num_tokens = np.array([window.num_tokens for window in windows], int)
  is_padding = np.arange(np.shape(logits)[1]) >= num_tokens[:, None]  # [N, T]
  is_good = np.isfinite(logits) | (is_padding & np.isneginf(logits))
  if is_good.all():
    return
  row, position = np.argwhere(~is_good)[0]
  question = questions[windows[row].question_index]
  raise errors.InputError(
    f"{question.place or question.qas_id}: a logit of the model is "
    f"{logits[row, position]}, at position {position} of a window of "
    f"question {question.qas_id!r}: the weights are damaged, or training "
    "diverged; use an earlier checkpoint"
  )


def _text_finder(
  passage: windowing.Passage,
  whole: alignment.PassageText,
  pieces: alignment.PieceFinder | None,
  tokenizer: tokenization.FullTokenizer,
) -> FindText:
  """Returns a function from a span's pieces (first, last) to (text, span)."""

  @functools.cache  # The n best spans of different questions are often equal.
  def find(first: int, last: int) -> tuple[str, tuple[int, int] | None]:
    if first == spans.NULL_PIECE:
      return "", None
    if pieces and (match := pieces.find(first, last)):
      return match
    predicted = tokenizer.joined_pieces(passage.tokens[first : last + 1])
    return whole.find(predicted, *passage.words[[first, last]].tolist())

  return find


def _answer(
  qas_id: str,
  ranked: spans.Spans,
  find: FindText | None,
  options: AnswerOptions,
) -> Answer:
  """Returns the Answer for a question's Spans."""
  version_2 = options.version_2_with_negative
  # A question with windows has exactly one null span.
  is_null = ranked.first_pieces == spans.NULL_PIECE
  pair = ranked.start_logits, ranked.end_logits
  null = tuple(float(values[is_null].sum()) for values in pair)
  kept, places = _distinct(
    ranked if version_2 else ranked.take(~is_null), find, options.n_best_size
  )
  best_text = next(filter(None, kept), "")
  score = sum(kept[best_text]) if best_text else None
  answer = Answer(qas_id, "", [], best_text, None, score, places, sum(null))
  if not version_2:
    # As in the original: every question has a candidate in the n-best file.
    candidates = _candidates(kept or {_NOTHING_FOUND: (0.0, 0.0)})
    return answer._replace(text=candidates[0].text, candidates=candidates)
  # Append "" if the best answers lack it, because the n-best file always has
  # the probability of "no answer".
  null_start, null_end = kept.setdefault("", null)
  # Unlike the original: if "no answer" is the only candidate, it is the answer;
  # the original fails.
  null_odds = _NO_OTHER_ANSWER
  if best_text:
    best_start, best_end = kept[best_text]
    null_odds = null_start + null_end - best_start - best_end
  answer = answer._replace(candidates=_candidates(kept), null_odds=null_odds)
  return with_threshold([answer], options.null_score_diff_threshold)[0]


def _distinct(
  ranked: spans.Spans, find: FindText | None, number: int
) -> tuple[dict[str, tuple], dict[str, tuple | None]]:
  """Returns the `number` best distinct texts of ranked Spans, the best first.

  The results are {text: (start logit, end logit)} and {text: span in the
  passage}; the span of "" is None.
  """
  kept: dict[str, tuple] = {}
  places: dict[str, tuple | None] = {}
  for first, last, *pair in zip(*(values.tolist() for values in ranked[1:])):
    if len(kept) == number:
      break
    assert find  # A question with spans has a passage.
    text, place = find(first, last)
    # "the river" may occur twice in a passage. A text counts once, with the
    # logits of its best span, which comes first.
    kept.setdefault(text, tuple(pair))
    places.setdefault(text, place)
  return kept, places


def _candidates(logits: dict[str, tuple[float, float]]) -> list[Candidate]:
  """Returns the Candidates for {text: (start logit, end logit)}."""
  # Subtracting the highest score prevents an overflow of `exp`.
  highest = max(map(sum, logits.values()))
  # As in the original: the softmax is over the kept candidates only.
  weights = [math.exp(sum(pair) - highest) for pair in logits.values()]
  total = sum(weights)
  return [
    Candidate(text, weight / total, *pair)
    for weight, (text, pair) in zip(weights, logits.items())
  ]


def n_best(answer: Answer, context: str, top_k: int) -> list[dict]:
  """Returns the `top_k` best answers as dicts for JSON.

  Each dict has `answer` ("" if there is none), `probability`, `score`, and the
  character offsets `start` and `end` in the context.
  """
  results = []
  for candidate in answer.candidates[:top_k]:
    place = answer.places.get(candidate.text)
    start, end = alignment.in_context(context, place) if place else (0, 0)
    results.append(
      {
        "answer": candidate.text if place else "",
        "probability": candidate.probability,
        "score": candidate.start_logit + candidate.end_logit,
        "start": start,
        "end": end,
      }
    )
  return results


def with_threshold(answers: Iterable[Answer], threshold: float) -> list[Answer]:
  """Returns all answers, after applying a threshold to those with null odds."""
  return [
    a
    if a.null_odds is None
    else a._replace(text="" if a.null_odds > threshold else a.best_text)
    for a in answers
  ]


def write(folder: str, answers: list) -> None:
  """Writes answers to the same files as the original.

  They are predictions.json (id -> text), nbest_predictions.json (id ->
  candidates) and, if answers have null odds, null_odds.json (id -> odds).
  Without null odds, it removes an old null_odds.json. As in the original: ASCII
  with an indent of four spaces; of questions with equal ids, the last counts.
  """
  contents = {
    PREDICTIONS_FILE: {answer.qas_id: answer.text for answer in answers},
    N_BEST_FILE: {
      answer.qas_id: [c._asdict() for c in answer.candidates]
      for answer in answers
    },
  }
  odds = {answer.qas_id: answer.null_odds for answer in answers}
  if any(value is not None for value in odds.values()):
    contents[NULL_ODDS_FILE] = odds
  else:
    # A scoring script would combine the old odds with these answers.
    file_io.remove(os.path.join(folder, NULL_ODDS_FILE))
  for name, values in contents.items():
    text = json.dumps(values, indent=4) + "\n"
    file_io.write_text(os.path.join(folder, name), text)


# From texts to answers.


def answer_texts(
  pairs: list,
  network: Callable,
  tokenizer: tokenization.FullTokenizer,
  lengths: windowing.Lengths,
  options: AnswerOptions,
  *,
  batch_size: int,
  cut: cut_texts.CutTexts | None = None,
) -> list[Answer]:
  """Returns the Answer to each (question, context) pair.

  Args:
    network: function of input_ids, input_mask and segment_ids, int32 [B, T];
      returns a dict with start_logits and end_logits [B, T].
    batch_size: B for the longest windows; batches of short windows are larger.
    cut: see windowing.make_windows.
  """
  questions = data.from_texts(pairs)
  windows = list(windowing.make_windows(questions, tokenizer, lengths, cut=cut))
  sizes = [window.num_tokens for window in windows]
  shape = len(windows), max(sizes, default=1)
  logits = {n: np.full(shape, -np.inf, np.float32) for n in ("start", "end")}
  for indices in input_sequences.batches_by_length(
    sizes, batch_size, lengths.max_seq_length
  ):
    longest = sizes[indices[0]]
    batch = windowing.make_batch(
      [windows[n] for n in indices], tokenizer, longest
    )
    outputs = network(**{n: batch[n] for n in input_sequences.NAMES})
    for name, values in logits.items():
      values[indices, :longest] = np.where(
        batch["input_mask"] > 0, outputs[f"{name}_logits"], -np.inf
      )
  return find_answers(
    questions, windows, logits, options, tokenizer, by_pieces=True
  )
