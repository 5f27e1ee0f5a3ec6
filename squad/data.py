"""Reads SQuAD files: questions about passages.

  {"data": [{"title": ..., "paragraphs": [{"context": ..., "qas": [
    {"id": ..., "question": ..., "is_impossible": false,
     "answers": [{"text": ..., "answer_start": 269}]}]}]}]}

Questions may also be flat, one per line or in a list (Hugging Face `datasets`):

  {"id": ..., "context": ..., "question": ...,
   "answers": {"text": [...], "answer_start": [269]}}
"""

import bisect
import functools
import itertools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from absl import logging

from common import errors, file_io, json_files

# As in the original: other Unicode white space does not separate words.
WORD = re.compile("[^ \t\r\n\u202f]+")


class Question(NamedTuple):
  """A question about a passage.

  Attributes:
    qas_id: the question's id in the file ("1" for the number 1).
    doc_tokens: the passage split at white space; all questions about the
      passage share this list.
    answer_text: the answer to train on; "" without an answer or outside
      training.
    start_position, end_position: indices in `doc_tokens` of the first and last
      word that overlap the answer; -1 without an answer or outside training.
    is_impossible: whether the question is unanswerable according to the file.
    answers: tuple of the texts of all its answers, for scoring predictions.
    passage: index of the passage in the file.
    place: file and id of the question, for error messages.
    before_answer: in training, the passage's text between the start of the word
      at `start_position` and the answer.
  """

  qas_id: str
  question_text: str
  doc_tokens: list
  answer_text: str = ""
  start_position: int = -1
  end_position: int = -1
  is_impossible: bool = False
  answers: tuple = ()
  passage: int = 0
  place: str = ""
  before_answer: str = ""


class Skipped(NamedTuple):
  """A question that training skips, and the reason."""

  qas_id: str
  reason: str


class SquadFile(NamedTuple):
  """The result of `read`.

  Attributes:
    questions: list of Question, in the order of the file.
    is_labelled: whether predictions can be scored, because every question has
      answers or is impossible (SQuAD 2.0).
    skipped: list of Skipped; `questions` does not contain these questions.
  """

  path: str
  questions: list
  is_labelled: bool
  skipped: list


def read(
  path: str, *, training: bool = False, version_2: bool = False
) -> SquadFile:
  """Reads a SQuAD file.

  Raises InputError: the file is missing or not JSON (the message has the line),
  lacks a field or has a wrong value, has no usable question, or is of the other
  version of SQuAD; in training, an answerable question has several answers or
  none, or its answer lies outside the passage; outside training, two questions
  have the same id, so one answer would overwrite the other.

  Args:
    path: JSON of SQuAD 1.1 or 2.0, nested or flat. With `version_2`, a flat
      question with empty lists in its `answers` is impossible.
    training: whether to locate each answer in its passage, and skip questions
      whose answer is not at answer_start.
      Unlike the original: questions with blank answers are skipped, too; the
      result lists all skipped questions, and the log has their number.
    version_2: whether questions may have no answer.
  """
  questions: list[Question] = []
  skipped: list[Skipped] = []
  has_impossible_field = False
  for number, (place, paragraph) in enumerate(_paragraphs(path, version_2)):
    text = json_files.field(paragraph, "context", str, place)
    words = list(WORD.finditer(text))
    passage = _Passage(
      number,
      text,
      [word.group() for word in words],
      [word.start() for word in words],
    )
    entries = json_files.field(paragraph, "qas", list[dict], place)
    for index, entry in enumerate(entries, 1):
      question = _question(path, f"{place}, question {index}", entry, passage)
      if question.is_impossible and not version_2:
        raise errors.InputError(
          f"{question.place} has is_impossible: true, as in SQuAD 2.0; pass "
          "--version_2_with_negative, or a file of SQuAD 1.1"
        )
      has_impossible_field |= "is_impossible" in entry
      if training:
        question = _with_answer(question, entry, passage)
      if isinstance(question, Skipped):
        skipped.append(question)
      else:
        questions.append(question)
  # A file without any answers may be of either version.
  has_answers = skipped or any(question.answers for question in questions)
  if version_2 and has_answers and not has_impossible_field:
    raise errors.InputError(
      f"{path} is SQuAD 1.1: no question has is_impossible; pass "
      "--version_2_with_negative=false, or a file of SQuAD 2.0"
    )
  if not training:
    _check_ids(questions)
  if not questions:
    why = skipped and (
      f": all are skipped ({len(skipped)}); for example, question "
      f"{skipped[0].qas_id!r}: {skipped[0].reason}; fix the file"
    )
    raise errors.InputError(f"{path} has no usable question{why or ''}")
  _report(path, questions, skipped)
  # An unlabelled file may have empty lists of answers.
  is_labelled = all(q.answers or q.is_impossible for q in questions)
  return SquadFile(path, questions, is_labelled, skipped)


def read_all(paths: dict, *, version_2: bool) -> dict:
  """Returns {name: SquadFile} for {name: path}.

  The names are among "train", "eval" and "predict". A file for both evaluation
  and prediction is read once. Raises InputError: see `read`; or the file for
  evaluation lacks answers.
  """
  read_once = functools.cache(functools.partial(read, version_2=version_2))
  files = {
    name: read_once(path, training=name == "train")
    for name, path in paths.items()
  }
  if "eval" in files:
    require_answers(files["eval"])
  return files


def require_answers(file: SquadFile) -> None:
  """Raises InputError if a file lacks the answers for scoring predictions."""
  if not file.is_labelled:
    raise errors.InputError(
      f"{file.path}: not every question has an answer, so predictions cannot "
      "be scored; pass a file with answers"
    )


def from_texts(pairs: list) -> list[Question]:
  """Returns the Questions of (question, context) pairs, with ids "0", "1", ...

  Consecutive pairs with the same context share one list of words.
  """
  questions, words = [], []
  for number, (question, context) in enumerate(pairs):
    if not number or context != pairs[number - 1][1]:
      # The number of a passage is the number of its first question.
      words, passage = WORD.findall(context), number
    questions.append(Question(str(number), question, words, passage=passage))
  return questions


class _Passage(NamedTuple):
  """A passage's index, text, words, and the offsets of the words."""

  number: int
  text: str
  words: list
  starts: list


def _paragraphs(path: str, version_2: bool) -> Iterator[tuple[str, dict]]:
  """Yields (place, paragraph) for a file's paragraphs, in the nested format."""
  # Consecutive flat questions about one context become one paragraph.
  for context, group in itertools.groupby(
    _entries(path), lambda entry: entry[1].get("context")
  ):
    entries = list(group)
    if context is not None:
      questions = [_nested(entry, place, version_2) for place, entry in entries]
      yield entries[0][0], {"context": context, "qas": questions}
      continue
    for place, article in entries:
      paragraphs = json_files.field(article, "paragraphs", list[dict], place)
      for index, paragraph in enumerate(paragraphs, 1):
        yield f"{place}, paragraph {index}", paragraph


def _entries(path: str) -> Iterator[tuple[str, Any]]:
  """Yields (place, article or flat question) for each entry of a file."""
  with file_io.open_for_reading(path) as stream:
    first = stream.readline()
    if _is_flat(first):
      for number, line in enumerate(itertools.chain([first], stream), 1):
        place = f"{path}:{number}"
        with errors.placed(place):
          entry = json_files.parse(line) if line.strip() else None
        if entry is not None:
          yield place, json_files.field({"line": entry}, "line", dict, place)
      return
  values: Any = json_files.read(path, (dict, list))  # type: ignore[arg-type]
  values = {"data": values} if isinstance(values, list) else values
  articles = json_files.field(values, "data", list[dict], path)
  for number, article in enumerate(articles, 1):
    yield f"{path}: article {number}", article


def _is_flat(line: bytes) -> bool:
  """Returns whether a line is a complete flat question."""
  # Avoid parsing a nested file that is a single long line.
  if b'"context"' not in line or b'"paragraphs"' in line:
    return False
  try:
    values = json_files.parse(line)
  except errors.InputError:
    return False
  return isinstance(values, dict) and "context" in values


def _nested(entry: dict, place: str, version_2: bool) -> dict:
  """Returns a flat question with its answers in SQuAD's nested format."""
  answers = json_files.field(entry, "answers", dict | list, place, [])
  if isinstance(answers, list):
    return entry
  where = f"{place}, answers"
  texts = json_files.field(answers, "text", list[str], where)
  starts = json_files.field(answers, "answer_start", list[int], where)
  if len(texts) != len(starts):
    raise errors.InputError(
      f"{place}: the lists in answers differ in length: text {len(texts)}, "
      f"answer_start {len(starts)}; expected one answer_start for each text"
    )
  pairs = zip(texts, starts)
  nested = [{"text": text, "answer_start": start} for text, start in pairs]
  entry = {**entry, "answers": nested}
  if version_2:
    entry.setdefault("is_impossible", not texts)
  return entry


def _question(path: str, place: str, entry: dict, passage: Any) -> Question:
  """Returns an entry's Question, without the fields for training."""
  # As in the original: ids may be numbers, which become strings in the output.
  qas_id = str(json_files.field(entry, "id", str | int, place))
  answers = json_files.field(entry, "answers", list[dict], place, [])
  return Question(
    qas_id,
    json_files.field(entry, "question", str, place),
    passage.words,
    is_impossible=json_files.field(entry, "is_impossible", bool, place, False),
    answers=tuple(
      json_files.field(a, "text", str, f"{place}, answer") for a in answers
    ),
    passage=passage.number,
    place=f"{path}: question {qas_id!r}",
  )


def _with_answer(question: Question, entry: dict, passage: Any) -> Any:
  """Returns the question with its answer's position, or Skipped."""
  if question.is_impossible:
    return question
  place = question.place
  # As in the original: only questions for evaluation may have several answers.
  if len(question.answers) != 1:
    raise errors.InputError(
      f"{place} has {len(question.answers)} answers, expected exactly 1 in a "
      "file to train on (or is_impossible, with --version_2_with_negative)"
    )
  (text,), (answer,) = question.answers, entry["answers"]
  offset = json_files.field(answer, "answer_start", int, f"{place}, answer")
  if not 0 <= offset <= len(passage.text) - len(text):
    raise errors.InputError(
      f"{place}: the answer {text!r:.60} at {offset} lies outside its context "
      f"of {len(passage.text)} characters; fix answer_start"
    )
  # For both ends of the answer: the index of the last word that starts there or
  # before, or -1. If words start at 0, 4 and 9, characters 4 to 8 give 1.
  start, end = (
    bisect.bisect_right(passage.starts, character) - 1
    for character in (offset, offset + len(text) - 1)
  )
  touched = " ".join(passage.words[start : end + 1]) if start >= 0 else ""
  # As in the original: the words that the answer touches, joined by single
  # spaces, must contain the answer, in which white space is a single space.
  cleaned = " ".join(text.split())
  if cleaned and cleaned in touched:
    return question._replace(
      answer_text=text,
      start_position=start,
      end_position=end,
      before_answer=passage.text[passage.starts[start] : offset],
    )
  if not cleaned:
    return Skipped(question.qas_id, "its answer is blank")
  text_at_offset = passage.text[offset : offset + len(text)]
  return Skipped(
    question.qas_id,
    f"its answer {text!r:.60} is not at answer_start {offset}; the context "
    f"has {text_at_offset!r:.60} there",
  )


def _check_ids(questions: list[Question]) -> None:
  """Refuses repeated ids; in the original, an id's last question counts."""
  seen = set()
  for question in questions:
    if question.qas_id in seen:
      raise errors.InputError(
        f"{question.place} occurs twice; predictions need unique ids"
      )
    seen.add(question.qas_id)


def _report(path: str, questions: list[Question], skipped: list) -> None:
  """Logs the number of questions, and warnings about skipped or empty ones."""
  logging.info("%s: %d questions", path, len(questions))
  if skipped:
    logging.warning(
      "%s: skipping %d questions, the first: %r: %s; the run's log.txt lists "
      "all skipped questions",
      path,
      len(skipped),
      *skipped[0],
    )
    for question in skipped:
      logging.debug("%s: question %r: %s", path, *question)
  for fault, affected in (
    ("blank questions", [q for q in questions if not q.question_text.strip()]),
    (
      "questions with an empty context",
      [q for q in questions if not q.doc_tokens],
    ),
  ):
    if affected:
      count, first = len(affected), affected[0].qas_id
      logging.warning("%s: %s: %d, the first: %r", path, fault, count, first)
