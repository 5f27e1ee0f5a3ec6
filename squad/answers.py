"""A model -> logits of windows -> answers, best first, and their files.

  options = answers.AnswerOptions(version_2_with_negative=True)
  answered = list(
    answers.find_answers(questions, windows, logits, options, tokenizer)
  )
  answers.write(output_dir, answered)

Files of questions (`Answerer.answers`) and texts (`answer_texts`) are answered
alike. Another threshold needs no second look at the logits: `with_threshold`.
"""

import functools
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TextIO

import numpy as np

import tokenization
from common import errors, file_io, json_files, line_answers
from squad import alignment, data, spans, windowing
from text import input_sequences

PREDICTIONS_FILE = "predictions.json"
N_BEST_FILE = "nbest_predictions.json"
NULL_ODDS_FILE = "null_odds.json"

# As in the original: the answer without any candidate, without
# version_2_with_negative.
_NOTHING_FOUND = "empty"
# Null odds without another answer, above every threshold.
# As in the original: the null score before a window was seen.
_NO_OTHER_ANSWER = 1e6
_GREETING = (
  "Paste a paragraph, then an empty line. Then ask, a question a line; an "
  "empty line\nbegins another paragraph, and the end of the input ends."
)


class AnswerOptions(NamedTuple):
  """The options that determine the answers, named like the flags.

  Attributes:
    n_best_size: how many start and end positions of a window are tried, and
      how many answers to a question are kept.
    max_answer_length: maximum length in word pieces.
    version_2_with_negative: whether a question may have no answer.
    null_score_diff_threshold: "no answer" is given where it is better than
      the best answer by more than this, in logits.
  """

  n_best_size: int = 20
  max_answer_length: int = 30
  version_2_with_negative: bool = False
  null_score_diff_threshold: float = 0.0


def options_of(settings) -> AnswerOptions:
  """Returns the AnswerOptions of a command, whose threshold is not known."""
  return AnswerOptions(
    **settings.pick("n_best_size max_answer_length version_2_with_negative")
  )


class Candidate(NamedTuple):
  """One of the best answers to a question, whose probabilities sum to 1.

  Its text is spelled as in the passage; "" is "no answer".
  """

  text: str
  probability: float
  start_logit: float
  end_logit: float


class Answer(NamedTuple):
  """The answer to one question.

  Attributes:
    text: "" is "no answer".
    candidates: list of Candidate, the best first.
    best_text: the best answer other than "", whatever the threshold; "" if
    there is no other.
    null_odds: by how many logits "no answer" is better than `best_text`; None
      without version_2_with_negative.
    score: the sum of the logits of `best_text`.
    places: {text of a candidate: where it is, see alignment.PassageText.find}.
    null_score: the sum of the "no answer" logits, 0.0 without a window.
  """

  qas_id: str
  text: str
  candidates: list
  best_text: str
  null_odds: float | None = None
  score: float | None = None
  places: dict[str, tuple[int, int] | None] = {}
  null_score: float = 0.0


# Spans -> answers.


def find_answers(
  questions: list, windows: list, logits: dict, options: AnswerOptions,
  tokenizer: tokenization.FullTokenizer, *, by_pieces: bool = False,
) -> Iterator[Answer]:
  """Yields the Answer to every question, in order.

  With `by_pieces` an answer is the text where its pieces stand.
  Unlike the original: it looks for their text among the words, and takes the
  first place, or all of the words where it finds none: of a passage without
  spaces another place, or all of it.

  As in the original: padding has logits and takes places among the
  `n_best_size` best positions of a window, although no answer can be there.
  Logits that were not computed must be -inf. Logits `start` and `end` are
  float32 [N, T], a row for each of N windows in the order of their questions.
  Raises InputError: a logit is not finite (the question is named).
  """
  for values in logits.values():
    _check_finite(questions, windows, values)
  best = spans.best_spans(windows, logits, len(questions), options)
  passages = {window.question_index: window.passage for window in windows}
  # Most words of a passage occur in other passages, too.
  word_text = functools.lru_cache(1 << 16)(tokenizer.word_text)
  passage, find = None, None
  for index, (question, of_question) in enumerate(zip(questions, best)):
    # Questions about one passage follow one another.
    if index in passages and passages[index] is not passage:
      passage = passages[index]
      words = question.doc_tokens
      whole = alignment.PassageText(words, word_text)
      pieces = by_pieces and alignment.PieceFinder(
        words, passage.words.tolist(), tokenizer
      )
      find = _text_finder(passage, whole, pieces, tokenizer)
    yield _answer(question.qas_id, of_question, find, options)


def _check_finite(questions, windows, logits):
  """Raises InputError for a logit that is nan or infinite.

  Unlike the original: it sorted nan among the logits, and answered at random.
  """
  num_tokens = np.array([window.num_tokens for window in windows], int)
  # [N, T]; `window_logits` gives -inf to padding.
  is_padding = np.arange(np.shape(logits)[1]) >= num_tokens[:, None]
  is_good = np.isfinite(logits) | (is_padding & np.isneginf(logits))
  if is_good.all():
    return
  row, position = np.argwhere(~is_good)[0]
  question = questions[windows[row].question_index]
  raise errors.InputError(
    f"{question.place or question.qas_id}: the model gave "
    f"{logits[row, position]} for position {position} of a window of "
    f"question {question.qas_id!r}: its weights are damaged or training "
    "diverged, use an earlier checkpoint"
  )


def _text_finder(passage, whole, pieces, tokenizer):
  """Returns a function from a span's pieces (first, last) to (text, place)."""

  @functools.cache  # Questions often share spans.
  def find(first, last):
    if first == spans.NULL_PIECE:
      return "", None
    if pieces and (match := pieces.find(first, last)):
      return match
    predicted = tokenizer.joined_pieces(passage.tokens[first : last + 1])
    return whole.find(predicted, *passage.words[[first, last]].tolist())

  return find


def _answer(qas_id, ranked, find, options):
  """Returns the Answer for a question's Spans."""
  version_2 = options.version_2_with_negative
  # A question with windows has one null span.
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
    # As in the original: the n-best file is never empty for a question.
    candidates = _candidates(kept or {_NOTHING_FOUND: (0.0, 0.0)})
    return answer._replace(text=candidates[0].text, candidates=candidates)
  # "" may be among the best already; else it is added after them, so that
  # its probability is always in the n-best file.
  null_start, null_end = kept.setdefault("", null)
  # Unlike the original: "no answer" may be the only candidate, and then is the
  # answer; the original ended in an error.
  null_odds = _NO_OTHER_ANSWER
  if best_text:
    best_start, best_end = kept[best_text]
    null_odds = null_start + null_end - best_start - best_end
  answer = answer._replace(candidates=_candidates(kept), null_odds=null_odds)
  return with_threshold([answer], options.null_score_diff_threshold)[0]


def _distinct(ranked, find, number):
  """Returns the first `number` texts of Spans, each once, the best first.

  They are a dict of text -> (start logit, end logit), and one of text -> place,
  which is None for "".
  """
  kept, places = {}, {}
  for first, last, *pair in zip(*(values.tolist() for values in ranked[1:])):
    if len(kept) == number:
      break
    text, place = find(first, last)
    # Different spans may have one text ("the river", twice in a passage): it
    # counts once, with the logits of its best span, which comes first.
    kept.setdefault(text, tuple(pair))
    places.setdefault(text, place)
  return kept, places


def _candidates(logits):
  """Returns a Candidate for every text -> (start logit, end logit)."""
  # The highest is subtracted so that no exponential overflows.
  highest = max(map(sum, logits.values()))
  # As in the original: the soft-max is over the kept candidates alone.
  weights = [math.exp(sum(pair) - highest) for pair in logits.values()]
  total = sum(weights)
  return [
    Candidate(text, weight / total, *pair)
    for weight, (text, pair) in zip(weights, logits.items())
  ]


def n_best(answer: Answer, context: str, top_k: int) -> list[dict]:
  """Returns the best answers, at most `top_k`, as dicts for JSON.

  Each has `answer` ("": no answer), `probability`, `score` (the sum of its
  logits), and `start` and `end` (characters of the context).
  """
  results = []
  for candidate in answer.candidates[:top_k]:
    place = answer.places.get(candidate.text)
    start, end = alignment.in_context(context, place) if place else (0, 0)
    results.append({
      "answer": candidate.text if place else "",
      "probability": candidate.probability,
      "score": candidate.start_logit + candidate.end_logit,
      "start": start, "end": end,
    })
  return results


def with_threshold(answers: Iterable[Answer], threshold: float) -> list[Answer]:
  """Applies another threshold to answers that have null odds."""
  return [
    a if a.null_odds is None
    else a._replace(text="" if a.null_odds > threshold else a.best_text)
    for a in answers
  ]


def write(folder: str, answers: list) -> None:
  """Writes the answers as the original does.

  predictions.json (id -> text), nbest_predictions.json (id -> candidates)
  and, if answers have odds, null_odds.json (id -> odds); without odds an
  existing file is removed. As in the original: ASCII, four spaces of indent;
  the last of several questions with the same id counts.
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
    # A file of an earlier run would be scored with the answers of this run.
    file_io.remove(os.path.join(folder, NULL_ODDS_FILE))
  for name, values in contents.items():
    text = json.dumps(values, indent=4) + "\n"
    file_io.write_text(os.path.join(folder, name), text)


# A model -> logits -> answers.


def answer_texts(
  pairs: list, logits_of: Callable, tokenizer: tokenization.FullTokenizer,
  lengths: windowing.Lengths, options: AnswerOptions, *, batch_size: int,
  pads: bool = False
) -> list[Answer]:
  """Answers each (question, context).

  Args:
    logits_of: function of windowing.make_batch's dict; returns the `start` and
      `end` logits [B, T], -inf where there is no candidate.
    batch_size: B; batches of short windows are larger.
    pads: whether every window has `lengths.max_seq_length` tokens.
  """
  questions = data.from_texts(pairs)
  windows = list(windowing.make_windows(questions, tokenizer, lengths))
  most = lengths.max_seq_length
  sizes = [most if pads else window.num_tokens for window in windows]
  shape = len(windows), max(sizes, default=1)
  logits = {n: np.full(shape, -np.inf, np.float32) for n in ("start", "end")}
  for places in input_sequences.batches_by_length(sizes, batch_size, most):
    longest = sizes[places[0]]
    batch = windowing.make_batch(
      [windows[n] for n in places], tokenizer, longest
    )
    for name, values in logits_of(batch).items():
      logits[name][places, :longest] = values
  return list(find_answers(
    questions, windows, logits, options, tokenizer, by_pieces=True
  ))


# Interactive use; `answer` is a function like Answerer.answer.


def answer_lines(
  source: Iterable[bytes], target: TextIO, answer: Callable
) -> int:
  """Answers JSON lines: writes one line for each line read, immediately.

  Returns how many lines got an error.

  Args:
    source: lines {"context": ..., "question": ...}; "id" and any other key
    is returned with the answer.
    target: a line that cannot be answered gets {"error": one sentence}, with
    its number, and the next lines are still answered.
  """

  def line_of(text):
    values = json_files.parse(text)
    for name in ("context", "question"):
      if not isinstance(values, dict) or not isinstance(values.get(name), str):
        raise errors.InputError(
          f'no text "{name}"; expected {{"context": "...", "question": "..."}}'
        )
      errors.require_text(values[name], f'"{name}"')
    answered = answer(values["question"], values.pop("context"))
    return json_files.line({**values, **answered}).rstrip("\n")

  return line_answers.answer_lines(
    source, target, lambda lines: [line_of(text) for _, text in lines],
    format_error=lambda number, error: json_files.line(
      {"error": f"line {number}: {error}"}
    ).rstrip("\n"),
  )


def converse(lines: Iterable[bytes], target: TextIO, answer: Callable) -> None:
  """Answers questions typed at a terminal, about texts pasted there."""

  def write(text):
    target.write(text)
    target.flush()

  write(f"{_GREETING}\n")
  typed = (line.decode("utf-8", "replace") for line in lines)
  # `typed` is one iterator: both loops read on where the other stopped.
  while context := _pasted(typed, write):
    write("question> ")
    for line in typed:
      if not line.strip():
        break
      answered = answer(line.strip(), context)
      text = answered["answer"] or "(no answer)"
      write(f"{text}  [{answered['probability']:.3f}]\nquestion> ")
  write("\n")


def _pasted(lines, write):
  """Returns the lines up to an empty one, as one text; "" at the end."""
  write("\nparagraph> ")
  paragraph = []
  for line in lines:
    if line.strip():
      paragraph.append(line)
    elif paragraph:
      break
  return "".join(paragraph)
