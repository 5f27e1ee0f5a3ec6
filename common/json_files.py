"""JSON files: read with every fault named, written whole."""

import json

from common import errors, file_io


def read(path, kind=dict):
  """Returns what a JSON file holds.

  Args:
    path: local or remote.
    kind: dict or list.

  Raises:
    InputError: the file is missing, not UTF-8, not JSON, or holds another kind
      of value.
  """
  with file_io.open_for_reading(path) as stream:
    data = stream.read()
  try:
    values = json.loads(data.decode("utf-8"))
  except ValueError as error:
    raise errors.InputError(f"{path}: not JSON: {error}") from error
  if not isinstance(values, kind):
    expected = {dict: "an object", list: "a list"}[kind]
    raise errors.InputError(
      f"{path}: expected {expected} in JSON, got {values!r:.40}"
    )
  return values


def write(path, values):
  """Writes JSON with sorted keys, two spaces of indent and a last newline."""
  text = json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False)
  file_io.write_text(path, text + "\n")


def plain(values):
  """Returns values as they are read back from JSON: tuples become lists."""
  return json.loads(json.dumps(values))


def line(values):
  """Returns values as a line of JSON that UTF-8 can hold, its end included.

  Half a surrogate pair, which JSON can name and UTF-8 cannot hold, stays as
  it is named: "\\ud800".
  """
  text = json.dumps(values, ensure_ascii=False) + "\n"
  return text.encode("utf-8", "backslashreplace").decode("utf-8")
