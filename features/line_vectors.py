"""Vectors of texts as they come: a line of JSON for each line of a stream."""

from common import json_files, line_answers


def answer_lines(source, target, encode, vectors_of, *, batch_size):
  """Answers each line by the JSON that the same line of a file would give.

  A line of white space is a text without words, as it is in a file.

  Args:
    source: iterable of bytes, a line each.
    target: stream of text.
    encode: function of (number of the line from 1, its text); returns a list
      of text_batches.Example.
    vectors_of: function of such lists joined to one; returns a line of JSON,
      without its end, for each of the lists.
    batch_size: at most N lines are answered together.

  Returns:
    How many lines were answered by an error.
  """

  def answer(lines):
    return vectors_of(
      [example for line in lines for example in encode(*line)]
    )

  def format_error(number, error):
    # As in the original: counted from 0, and spelled so.
    values = {"linex_index": number - 1, "error": str(error)}
    return json_files.line(values).rstrip("\n")

  return line_answers.answer_lines(
    source, target, answer, batch_size=batch_size,
    takes_empty=True, format_error=format_error,
  )
