"""Answers line by line."""

import io
import json

from common import errors
from squad import answering, interactive


def answer(question, context):
  if question == "fail":
    raise errors.InputError("it failed")
  return {"answer": context.split()[0] if context else "", "probability": 0.5}


def test_each_line_has_its_answer_or_what_is_wrong():
  lines = [
    '{"id": 3, "context": "\u00e9t\u00e9 1", "question": "?"}',
    '{"context": " ", "question": "?"}', "{",
    "[1]", '{"context": 5, "question": "?"}',
    '{"context": "a", "question": "fail"}',
    '{"context": "b", "question": "?"}',
  ]
  source = [f"{line}\n".encode() for line in lines]
  source.append(b'{"context": "\xe9"\n')
  target = io.StringIO()
  assert interactive.answer_lines(source, target, answer) == 6
  results = [json.loads(line) for line in target.getvalue().splitlines()]
  assert 'line 2: "context": an empty text' in results.pop(1)["error"]
  assert results[0] == {
    "id": 3, "question": "?", "answer": "\u00e9t\u00e9", "probability": 0.5
  }
  assert "line 3: not JSON" in results[1]["error"]
  assert 'line 4: no text "context"' in results[2]["error"]
  assert 'line 5: no text "context"' in results[3]["error"]
  assert results[4] == {"error": "line 6: it failed"}
  assert results[5]["answer"] == "b"
  assert "line 8: not UTF-8 (byte 13 of the line)" in results[6]["error"]


def test_no_line_ends_the_stream():
  """Not half a surrogate pair, nor what is nested too deeply."""
  deep = "[" * 20000 + "]" * 20000
  ask = '"context": "a", "question": "?"'
  source = [
    f'{{"id": "\\ud800\u00e9", {ask}}}'.encode(),
    f'{{"id": {deep}, {ask}}}'.encode(),
    f"{{{ask}}}".encode(),
  ]
  target = io.StringIO()
  assert interactive.answer_lines(source, target, answer) == 1
  written = target.getvalue()
  first, second, third = map(json.loads, written.splitlines())
  assert first["id"] == "\ud800\u00e9" and first["answer"] == "a"
  assert "\u00e9".encode() in written.encode("utf-8")
  assert second["error"].startswith("line 2: ") and "deep" in second["error"]
  assert third["answer"] == "a"


def test_a_paragraph_is_pasted_and_asked_about():
  target = io.StringIO()
  typed = b"\nOne two\nthree\n\nWho?\nWhy?\n\nFour\n\nWhat?\n"
  asked = []

  def recorded(question, context):
    asked.append((question, context))
    return answer(question, context)

  interactive.converse(typed.splitlines(True), recorded, target)
  assert asked == [
    ("Who?", "One two\nthree\n"), ("Why?", "One two\nthree\n"),
    ("What?", "Four\n"),
  ]
  assert "question> One  [0.500]\nquestion> " in target.getvalue()
  assert target.getvalue().endswith("\n")


def test_no_answer_is_said_in_words():
  target = io.StringIO()
  interactive.converse(
    [b"a\n", b"\n", b"b\n"], lambda *_: {"answer": "", "probability": 1.0},
    target,
  )
  assert "(no answer)  [1.000]\nquestion> " in target.getvalue()


def test_an_answer_is_told_with_its_own_probability():
  candidates = [
    answering.Candidate("a", 0.75, 1.0, 1.0),
    answering.Candidate("", 0.25, 0.5, 0.5),
  ]
  found = answering.Answer("0", "", candidates, "a", null_odds=-1.0)
  assert interactive.described(found) == {
    "answer": "", "probability": 0.25, "null_odds": -1.0
  }
  found = answering.Answer("0", "a", candidates[:1], "a")
  assert interactive.described(found) == {"answer": "a", "probability": 0.75}
