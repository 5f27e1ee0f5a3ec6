"""Reads JSON files and names the fault of an invalid one; writes atomically."""

import functools
import hashlib
import itertools
import json
import os
import reprlib
import types
import typing

from common import errors, file_io

# The maximum nesting of lists and objects. Readers recurse through values,
# NumPy 1 stops at 32 axes, and no file of this project has more than 10 levels.
_MAX_DEPTH = 30
_MOST_BYTES = 1 << 26  # A file of settings has at most 64 MiB.


def parse(text: str | bytes) -> typing.Any:
  """Returns the value of a JSON text.

  Raises InputError: it is not JSON, or nested too deeply.
  """
  try:
    value = json.loads(text)
    if _is_shallow(value, _MAX_DEPTH):
      return value
  except RecursionError:
    pass
  except ValueError as error:  # Or its subclass UnicodeDecodeError.
    raise errors.InputError(f"not JSON: {error}") from error
  raise errors.InputError("JSON that is nested too deeply")


def _is_shallow(value: typing.Any, levels: int) -> bool:
  """Whether lists and objects are nested at most `levels` deep."""
  outer = [value]
  for _ in range(levels + 1):
    nested = [each for each in outer if isinstance(each, (dict, list))]
    if not nested:
      return True
    members = (n.values() if isinstance(n, dict) else n for n in nested)
    outer = [*itertools.chain.from_iterable(members)]
  return False


def read(
  path: str,
  json_type: type | tuple[type, ...] = dict,
  most_bytes: int | None = None,
) -> typing.Any:
  """Returns the value in a JSON file, a dict or a list.

  Raises InputError: the file is missing, is an LFS pointer or not JSON, is
  nested too deeply, has more than `most_bytes`, or its value is not of the type
  `json_type`.
  """
  with file_io.open_for_reading(path) as stream:
    data = stream.read(-1 if most_bytes is None else most_bytes + 1)
  if most_bytes is not None and len(data) > most_bytes:
    raise errors.InputError(
      f"{path} has more than {most_bytes:,} bytes, the most that a file of "
      "settings has: pass the model's own file"
    )
  with errors.placed(path):
    values = parse(data)
  if not isinstance(values, json_type):
    expected = "an object" if json_type is dict else "a list"
    raise errors.InputError(
      f"{path}: expected {expected} in JSON, got {values!r:.40}"
    )
  return values


def read_settings(path: str, json_type: type = dict) -> typing.Any:
  """Returns the value of a file with settings, such as a config.json.

  Raises InputError: see `read`, or the file is not regular, or is larger than
  64 MiB, which only a damaged or malicious file is. The largest file of a
  released model, a tokenizer.json, has 33 MB.
  """
  file_io.check_regular(path)
  return read(path, json_type, _MOST_BYTES)


def read_optional(folder: str, name: str) -> tuple[str, dict]:
  """Returns (path, JSON object) of a folder's file; {} if there is none.

  Raises InputError: see `read_settings`.
  """
  path = os.path.join(folder, name)
  return path, read_settings(path) if file_io.exists(path) else {}


class Folder:
  """The JSON files of a folder; each is read at most once, when first needed.

  Callers must not change what `read` returns.

  Attributes:
    path: the folder.
  """

  def __init__(self, path: str):
    self.path = path
    self._read: dict[str, typing.Any] = {}

  @classmethod
  def at(cls, folder: "Folder | str") -> "Folder":
    """Returns a Folder as it is, or makes one for a path."""
    return folder if isinstance(folder, Folder) else cls(folder)

  @functools.cached_property
  def names(self) -> frozenset[str]:
    """The names of the folder's entries."""
    return frozenset(file_io.names_in(self.path or "."))

  @functools.cached_property
  def parent(self) -> "Folder":
    """The folder that contains this one."""
    is_remote = file_io.is_remote(self.path)
    path = self.path if is_remote else os.path.abspath(self.path)
    return Folder(os.path.dirname(path))

  def path_of(self, name: str) -> str:
    """Returns the path of a file in the folder."""
    return os.path.join(self.path, name)

  def read(
    self, name: str, json_type: type = dict, *, required: bool = False
  ) -> typing.Any:
    """Returns the value in a file; an empty one if it is missing.

    Raises InputError: see `read_settings`; a missing file is an error only
    if it is `required`.
    """
    if name not in self._read:
      path = self.path_of(name)
      is_there = required or file_io.exists(path)
      value = read_settings(path, json_type) if is_there else json_type()
      self._read[name] = value
    return self._read[name]


def folder_of(path: str) -> Folder:
  """Returns the folder of a file."""
  return Folder(os.path.dirname(path))


_REQUIRED = object()
_TYPE_NAMES = {
  dict: "an object",
  list: "a list",
  str: "a string",
  bool: "true or false",
  int: "an integer",
  float: "a number",
  types.NoneType: "null",
}


def field(
  values: dict,
  name: str,
  expected_type: typing.Any,
  source: str,
  default: typing.Any = _REQUIRED,
) -> typing.Any:
  """Returns an entry of a JSON object, checked to have the required type.

  Raises InputError: the type is wrong, or the entry is missing and required.

  Args:
    expected_type: such as str, str | int, float (which includes integers),
      dict[str, str] or list[dict]; each value of a dict or list is checked.
    source: the file, or another name for messages.
    default: the value if the entry is missing or null.
  """
  value = values.get(name)
  if value is None and default is not _REQUIRED:
    return default
  if _fits(value, expected_type):
    return value
  state = f"is {reprlib.repr(value)}" if name in values else "is missing"
  raise errors.InputError(
    f"{source}: {name} {state}; expected {_type_name(expected_type)}"
  )


def _type_name(expected_type: typing.Any) -> str:
  if isinstance(expected_type, types.UnionType):
    return " or ".join(map(_type_name, typing.get_args(expected_type)))
  outer = typing.get_origin(expected_type)
  parts = typing.get_args(expected_type)
  inner = outer and f" in which each entry is {_type_name(parts[-1])}"
  return _TYPE_NAMES[outer or expected_type] + (inner or "")


def _fits(value: typing.Any, expected_type: typing.Any) -> bool:
  if isinstance(expected_type, types.UnionType):
    return any(_fits(value, part) for part in typing.get_args(expected_type))
  outer = typing.get_origin(expected_type)
  if outer:
    members = value.values() if isinstance(value, dict) else value
    inner = typing.get_args(expected_type)[-1]
    return isinstance(value, outer) and all(_fits(m, inner) for m in members)
  # A bool is an int in Python, but `true` must not pass as 1.
  if isinstance(value, bool):
    return expected_type is bool
  return isinstance(
    value, (int, float) if expected_type is float else expected_type
  )


def write(path: str, values: dict | list) -> None:
  """Writes JSON with sorted keys, two spaces of indent and a final newline."""
  text = json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False)
  file_io.write_text(path, text + "\n")


def write_sealed(path: str, values: dict) -> None:
  """Writes JSON with a checksum, which `read_sealed` checks."""
  write(path, {**values, "checksum": _checksum(values)})


def read_sealed(path: str) -> dict:
  """Returns the values that `write_sealed` wrote.

  Raises InputError: see `read`, or the file was changed.
  """
  values = read(path)
  # Files of version 0.1 have no checksum.
  if "checksum" in values and values.pop("checksum") != _checksum(values):
    raise errors.InputError(f"{path}: damaged: its checksum is wrong")
  return values


def _checksum(values: dict) -> str:
  text = json.dumps(plain(values), sort_keys=True)
  return hashlib.sha256(text.encode("utf-8")).hexdigest()


def plain(values: typing.Any) -> typing.Any:
  """Returns values after a round trip through JSON: tuples become lists."""
  return json.loads(json.dumps(values))


def line(values) -> str:
  r"""Returns values as a line of JSON in valid UTF-8, with its newline.

  A lone surrogate, which JSON can express but UTF-8 cannot, stays escaped:
  "\ud800".
  """
  text = json.dumps(values, ensure_ascii=False) + "\n"
  return text.encode("utf-8", "backslashreplace").decode("utf-8")
