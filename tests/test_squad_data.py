"""Tests how SQuAD files are read and refused."""

import json
import pathlib

import pytest

from common import errors
from message_facts import says
from squad import data

GOLDEN = pathlib.Path(__file__).parent / "golden" / "squad" / "windows"
CONTEXT = "Anna  lives\tin Bern\u202f(since 1904), not\u00a0far."


def entry(question="Where?", answer="Bern", start=15, **fields):
  answers = [{"text": answer, "answer_start": start}]
  return {"id": "q1", "question": question, "answers": answers, **fields}


def unanswered(**fields):
  return {"id": "q2", "question": "Why?", "answers": [], **fields}


@pytest.fixture
def write(tmp_path):
  def write_file(*entries, context=CONTEXT):
    path = tmp_path / "squad.json"
    paragraph = {"context": context, "qas": list(entries)}
    path.write_text(
      json.dumps({"data": [{"title": "t", "paragraphs": [paragraph]}]})
    )
    return str(path)

  return write_file


def test_only_the_originals_white_space_separates_words(write):
  (question,) = data.read(write(entry())).questions
  assert question.doc_tokens == [
    "Anna",
    "lives",
    "in",
    "Bern",
    "(since",
    "1904),",
    "not\u00a0far.",
  ]
  assert question.answers == ("Bern",)
  assert question[3:6] == ("", -1, -1)


@pytest.mark.parametrize(
  "answer, start, words",
  [
    ("Bern", 15, (3, 3)),
    ("895), not\u00a0far", 28, None),  # str.split also splits at U+00A0.
    ("lives\tin", 6, (1, 2)),
    ("1904", 27, (5, 5)),
    ("Anna", 0, (0, 0)),
    ("far.", len(CONTEXT) - 4, (6, 6)),
    ("Basel", 15, None),
    (" \t", 3, None),
    ("", 3, None),
  ],
)
def test_an_answer_is_found_or_listed_as_skipped(write, answer, start, words):
  path = write(entry(answer=answer, start=start), entry())
  file = data.read(path, training=True)
  if words:
    assert not file.skipped
    question = file.questions[0]
    assert (question.start_position, question.end_position) == words
    assert question.answer_text == answer
  else:
    (skipped,) = file.skipped
    assert skipped.reason.startswith(
      f"its answer {answer!r} is not at answer_start {start}; the context has '"
      if answer.strip()
      else "its answer is blank"
    )
    assert len(file.questions) == 1


@pytest.mark.parametrize(
  "answer, start, words",
  [
    # The words at the offset lack the answer, but the next ones have it.
    ("b c", 0, None),
    ("a b", 0, (0, 1)),
    ("b c", 2, (1, 2)),
    ("c dd", 4, (2, 3)),
    ("b", 2, (1, 1)),
  ],
)
def test_an_answer_has_the_words_that_it_touches(write, answer, start, words):
  path = write(
    entry(answer=answer, start=start),
    {**entry(answer="a", start=0), "id": "q2"},
    context="a b c dd",
  )
  file = data.read(path, training=True)
  assert len(file.skipped) == (words is None)
  first = file.questions[0]
  found = first.start_position, first.end_position
  assert found == (words or (0, 0))


def test_a_file_for_evaluation_needs_answers_and_is_read_once(write):
  path = write(entry())
  files = data.read_all({"eval": path, "predict": path}, version_2=False)
  assert files["eval"] is files["predict"]
  path = write(UNLABELLED)
  (read,) = data.read_all({"predict": path}, version_2=False).values()
  assert not read.is_labelled
  with pytest.raises(errors.InputError, match="squad.json.* has an answer"):
    data.read_all({"eval": path}, version_2=False)


def test_the_golden_odd_file_has_one_misplaced_answer():
  file = data.read(str(GOLDEN / "odd.json"), training=True)
  assert [skipped.qas_id for skipped in file.skipped] == ["o5"]
  assert file.skipped[0].reason.endswith("the context has 'e Japane' there")
  assert len(file.questions) == 6


def test_each_skipped_question_is_logged(write, caplog):
  caplog.set_level("DEBUG", "absl")
  skipped = (
    entry(answer="Z\u00fcrich"),
    entry("\udc80\u00e9?", answer="\ud800"),
  )
  data.read(write(*skipped, entry()), training=True)
  first, second = (
    message for message in caplog.messages if ": question 'q1': " in message
  )
  assert first.endswith(
    "its answer 'Z\u00fcrich' is not at answer_start 15; the context has "
    "'Bern\\u202f(' there"
  )
  assert "its answer '\\ud800' is not at" in second


def test_questions_without_an_answer_need_version_2(write):
  path = write(entry(is_impossible=False), unanswered(is_impossible=True))
  file = data.read(path, training=True, version_2=True)
  assert [q.is_impossible for q in file.questions] == [False, True]
  assert file.questions[1][3:6] == ("", -1, -1)


UNLABELLED = {"id": "q2", "question": "Who?"}


@pytest.mark.parametrize(
  "entries, version_2, is_labelled",
  [
    ([entry()], False, True),
    ([UNLABELLED], False, False),
    ([UNLABELLED], True, False),
    ([entry(), UNLABELLED], False, False),
    # An empty list is a label if the question is impossible.
    ([entry(is_impossible=False), unanswered(is_impossible=True)], True, True),
    ([entry(is_impossible=False), unanswered()], True, False),
    (
      [entry(is_impossible=False), unanswered(is_impossible=False)],
      True,
      False,
    ),
    ([unanswered()], True, False),
  ],
)
def test_files_to_score_against(write, entries, version_2, is_labelled):
  file = data.read(write(*entries), version_2=version_2)
  assert file.is_labelled == is_labelled
  if is_labelled:
    data.require_answers(file)
  else:
    with pytest.raises(errors.InputError, match="not every question has an a"):
      data.require_answers(file)


def test_ids_may_be_whole_numbers_but_must_differ(write):
  path = write({**entry(), "id": 5}, {**entry(), "id": "q"})
  questions = data.read(path).questions
  assert [question.qas_id for question in questions] == ["5", "q"]
  with pytest.raises(errors.InputError, match="'5' occurs twice"):
    data.read(write({**entry(), "id": 5}, {**entry(), "id": "5"}))


def test_questions_from_texts_share_their_words():
  pairs = [("Who?", "a b"), ("When?", "a b"), ("Why?", "")]
  first, second, third = data.from_texts(pairs)
  assert first.doc_tokens is second.doc_tokens == ["a", "b"]
  assert first.passage == second.passage != third.passage
  assert third.doc_tokens == []


@pytest.mark.parametrize(
  "entries, options, sentence",
  [
    ([entry(), entry()], {}, "'q1' occurs twice"),
    (
      [entry(start=50)],
      {"training": True},
      "'q1': the answer 'Bern' at 50 lies outside its context of 42 char",
    ),
    ([entry(start=-1)], {"training": True}, "lies outside its context"),
    ([entry(start=len(CONTEXT) - 3)], {"training": True}, "lies outside"),
    ([unanswered()], {"training": True}, "'q2' has 0 answers, expected exac"),
    ([unanswered(is_impossible=True)], {}, "pass --version_2_with_negative"),
    ([entry()], {"version_2": True}, "is SQuAD 1.1: no question has"),
    ([{"id": "x"}], {}, "paragraph 1, question 1: question is missing"),
    ([{**entry(), "id": 5.0}], {}, "id is 5.0; expected a string or an int"),
    ([{**entry(), "id": True}], {}, "id is True; expected a string or an"),
    ([entry(answer=None)], {}, "text is None; expected a string"),
    ([entry(start="3")], {"training": True}, "'3'; expected an integer"),
    ([entry(is_impossible=1)], {}, "expected true or false"),
    ([], {}, "has no usable question"),
    (
      [entry(answer="x")],
      {"training": True},
      "its answer 'x' is not at answer_start",
    ),
  ],
)
def test_faults_are_named(write, entries, options, sentence):
  with pytest.raises(errors.InputError) as caught:
    data.read(write(*entries), **options)
  assert sentence in str(caught.value)
  assert "squad.json" in str(caught.value)


@pytest.mark.parametrize(
  "text, sentence",
  [
    ('{"data": [\n  oops]}', "line 2 column 3"),
    ("[]", "has no usable question"),
    ("{}", ": data is missing; expected a list"),
    ('{"data": [{"paragraphs": 3}]}', "article 1: paragraphs is 3"),
    ('{"data": [[]]}', "data is [[]]; expected a list in which"),
  ],
)
def test_other_files_are_refused(tmp_path, text, sentence):
  path = tmp_path / "squad.json"
  path.write_text(text)
  with pytest.raises(errors.InputError) as caught:
    data.read(str(path))
  assert sentence in str(caught.value)


def test_blank_questions_and_contexts_are_logged_not_refused(write, caplog):
  caplog.set_level("WARNING")
  file = data.read(write(entry(question=" "), context=""))
  assert len(file.questions) == 1
  assert "blank questions: 1, the first: 'q1'" in caplog.text
  assert "questions with an empty context: 1" in caplog.text


def flat(**changes):
  (answer,) = entry()["answers"]
  lists = {name: [value] for name, value in answer.items()}
  return {
    **entry(),
    "title": "t",
    "context": CONTEXT,
    "answers": lists,
    **changes,
  }


NO_ANSWER = {"text": [], "answer_start": []}


@pytest.mark.parametrize(
  "write_as",
  [
    lambda entries: "".join(json.dumps(e) + "\n" for e in entries),
    lambda entries: json.dumps(entries, indent=1),
    lambda entries: json.dumps(entries).replace("}, {", "},\n{"),
    lambda entries: json.dumps({"version": "x", "data": entries}),
  ],
)
@pytest.mark.parametrize("version_2", [False, True])
def test_flat_files_equal_nested_files(write, tmp_path, write_as, version_2):
  """The datasets package writes flat files; adjacent rows share a passage."""
  path = tmp_path / "flat.json"
  entries = [flat(), flat(id="q2", question="Why?")]
  nested = [entry(), entry("Why?")]
  nested[1]["id"] = "q2"
  if version_2:
    entries[1]["answers"] = NO_ANSWER
    nested = [entry(is_impossible=False), unanswered(is_impossible=True)]
  path.write_text(write_as(entries))
  expected = data.read(write(*nested), training=True, version_2=version_2)
  file = data.read(str(path), training=True, version_2=version_2)
  assert [q._replace(place="") for q in file.questions] == [
    q._replace(place="") for q in expected.questions
  ]
  path.write_text(write_as([*entries, flat(id="q3", context="Bern")]))
  file = data.read(str(path), version_2=version_2)
  assert [q.passage for q in file.questions] == [0, 0, 1]


@pytest.mark.parametrize(
  "text, sentence",
  [
    (json.dumps(flat()) + "\n{\n", ":2: not JSON"),
    (json.dumps(flat()) + "\n\n7\n", says(":3", "7", "expected")),
    (
      json.dumps(flat(answers={"text": ["a"], "answer_start": []})),
      says("1", "answer_start", "0", "expected"),
    ),
    (
      json.dumps(flat(answers={"text": "a", "answer_start": [1]})),
      says("'a'", "expected"),
    ),
    (json.dumps(flat(answers=NO_ANSWER)), says("'q1'", "0", "expected")),
    (json.dumps(flat(context=5)), r"flat.jsonl:1: context is 5; expected"),
  ],
)
def test_faults_of_a_flat_file_are_named(tmp_path, text, sentence):
  path = tmp_path / "flat.jsonl"
  path.write_text(text)
  with pytest.raises(errors.InputError, match=sentence):
    data.read(str(path), training=True)
