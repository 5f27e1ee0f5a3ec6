"""Answers while somebody waits: pasted passages, or JSON line by line.

Nothing here knows a model: `answer` is a function of (question, context) that
returns a dict with "answer", "probability" and whatever else it can tell.
"""

import json

from common import errors, json_files

_GREETING = (
  "Paste a paragraph, then an empty line. Then ask, a question a line; an "
  "empty line\nbegins another paragraph, and the end of the input ends."
)


def described(answer):
  """Returns the dict of an answering.Answer, see above."""
  probabilities = {c.text: c.probability for c in answer.candidates}
  result = {
    "answer": answer.text,
    "probability": probabilities.get(answer.text, 0.0),
  }
  if answer.null_odds is not None:
    result["null_odds"] = answer.null_odds
  return result


def answer_lines(lines, answer, write):
  """Answers JSON lines: one line out for each line in, as soon as it came.

  Args:
    lines: iterable of bytes, {"context": ..., "question": ...} each; "id"
      and whatever else is there comes back with the answer. Empty lines are
      skipped.
    answer: see above.
    write: function of a str that ends with a newline, which it flushes.
      A line that cannot be answered gets {"error": one sentence}, with its
      number: the next ones may be right.
  """
  for number, line in enumerate(lines, 1):
    if not line.strip():
      continue
    try:
      values = _request(line)
      context = values.pop("context")
      result = {**values, **answer(values["question"], context)}
      text = json_files.line(result)
    except errors.InputError as error:
      text = json_files.line({"error": f"line {number}: {error}"})
    except RecursionError:
      said = f"line {number}: lists or objects are nested too deeply"
      text = json_files.line({"error": said})
    write(text)


def _request(line):
  """Returns the dict in a line of JSON."""
  try:
    values = json.loads(line)
  except ValueError as error:
    raise errors.InputError(f"not JSON: {error}") from error
  for name in ("context", "question"):
    if not isinstance(values, dict) or not isinstance(values.get(name), str):
      raise errors.InputError(
        f'no text "{name}"; expected {{"context": "...", "question": "..."}}'
      )
  return values


def converse(lines, answer, write):
  """Answers questions typed at a terminal.

  Args:
    lines: iterable of bytes, what is typed.
    answer: see above.
    write: function of a str, which it flushes.
  """
  write(f"{_GREETING}\n")
  lines = (line.decode("utf-8", "replace") for line in lines)
  while context := _pasted(lines, write):
    write("question> ")
    for line in lines:
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
