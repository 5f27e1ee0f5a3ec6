"""Answers while somebody waits: pasted passages, or JSON line by line.

Nothing here knows a model: `answer` is a function of (question, context) that
returns a dict with "answer", "probability" and whatever else it can tell.
"""

from collections.abc import Callable, Iterable
from typing import TextIO

from common import errors, json_files, line_answers
from squad import answering

_GREETING = (
  "Paste a paragraph, then an empty line. Then ask, a question a line; an "
  "empty line\nbegins another paragraph, and the end of the input ends."
)


def described(answer: answering.Answer) -> dict:
  """Returns the dict of an answer, see above."""
  probabilities = {c.text: c.probability for c in answer.candidates}
  result = {
    "answer": answer.text,
    "probability": probabilities.get(answer.text, 0.0),
  }
  if answer.null_odds is not None:
    result["null_odds"] = answer.null_odds
  return result


def answer_lines(
  source: Iterable[bytes], target: TextIO, answer: Callable
) -> int:
  """Answers JSON lines: one line out for each line in, as soon as it came.

  Args:
    source: {"context": ..., "question": ...} each; "id" and whatever else is
      there comes back with the answer.
    target: a line that cannot be answered gets {"error": one sentence}, with
      its number: the next ones may be right.
    answer: see above.

  Returns:
    How many lines were answered by an error.
  """
  return line_answers.answer_lines(
    source, target, lambda lines: [_line(answer, text) for _, text in lines],
    format_error=lambda number, error: json_files.line(
      {"error": f"line {number}: {error}"}
    ).rstrip("\n"),
  )


def _line(answer, text):
  """Returns the line of JSON that answers one."""
  values = _request(text)
  context = values.pop("context")
  result = {**values, **answer(values["question"], context)}
  return json_files.line(result).rstrip("\n")


def _request(text):
  """Returns the dict in a line of JSON."""
  values = json_files.parse(text)
  for name in ("context", "question"):
    if not isinstance(values, dict) or not isinstance(values.get(name), str):
      raise errors.InputError(
        f'no text "{name}"; expected {{"context": "...", "question": "..."}}'
      )
    errors.require_text(values[name], f'"{name}"')
  return values


def converse(
  lines: Iterable[bytes], answer: Callable, target: TextIO
) -> None:
  """Answers questions typed at a terminal; `answer` as above."""

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
      write(f"{_said(answer(line.strip(), context))}\nquestion> ")
  write("\n")


def _pasted(lines, write):
  """Returns the lines up to an empty one, as one text; "" at the end."""
  write("\nparagraph> ")
  found = []
  for line in lines:
    if line.strip():
      found.append(line)
    elif found:
      break
  return "".join(found)


def _said(result):
  text = result["answer"] or "(no answer)"
  return f"{text}  [{result['probability']:.3f}]"
