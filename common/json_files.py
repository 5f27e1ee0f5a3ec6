"""JSON files: read with every fault named, written whole."""

import hashlib
import json

from common import errors, file_io

# Of lists and objects inside each other. What reads a value walks through it by
# recursion, numpy stops at 32 axes, and no file of ours has more than ten.
_MAX_DEPTH = 30


def parse(text: str | bytes):
  """Returns the value of a JSON text.

  Raises:
    InputError: it is not JSON, or nested too deeply.
  """
  try:
    value = json.loads(text)
    level = [value]
    for _ in range(_MAX_DEPTH + 1):
      level = [inner for outer in level for inner in _containers(outer)]
    if not level:
      return value
  except RecursionError:
    pass
  except ValueError as error:  # UnicodeDecodeError and JSONDecodeError too.
    raise errors.InputError(f"not JSON: {error}") from error
  raise errors.InputError("JSON that is nested too deeply")


def _containers(value):
  values = value.values() if isinstance(value, dict) else value
  if isinstance(value, (dict, list)):
    return [inner for inner in values if isinstance(inner, (dict, list))]
  return []


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
    values = parse(data)
  except errors.InputError as error:
    raise errors.InputError(f"{path}: {error}") from error
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


def write_sealed(path: str, values: dict):
  """Writes JSON with a checksum of it, which `read_sealed` checks."""
  write(path, {**values, "checksum": _checksum(values)})


def read_sealed(path: str) -> dict:
  """Returns what `write_sealed` wrote.

  Raises:
    InputError: as `read`, or the file was changed.
  """
  values = read(path)
  # Files of version 0.1 have none.
  if "checksum" in values and values.pop("checksum") != _checksum(values):
    raise errors.InputError(f"{path}: damaged: its checksum is wrong")
  return values


def _checksum(values):
  text = json.dumps(plain(values), sort_keys=True)
  return hashlib.sha256(text.encode("utf-8")).hexdigest()


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
