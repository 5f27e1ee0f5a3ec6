"""json_files.py reads and writes JSON, and reports faulty files."""

import json
import os

import pytest

import configuration
from common import errors, json_files
from message_facts import says


def test_what_is_written_is_read(tmp_path):
  path = f"{tmp_path}/new/a.json"
  json_files.write(path, {"b": [1, "é"], "a": None})
  assert json_files.read(path) == {"a": None, "b": [1, "é"]}
  with open(path, encoding="utf-8") as stream:
    text = stream.read()
  assert text.startswith('{\n  "a": null,\n  "b"') and '"é"\n' in text


@pytest.mark.parametrize(
  "data, fault",
  [
    (b"{", "not JSON: Expecting"),
    (b'{"a": "\xff"}', "not JSON: 'utf-8' codec"),
    (b"[1]", r"expected an object in JSON, got \[1\]"),
    (b"[" * 100000, "JSON that is nested too deeply"),
    (b"[" * 31 + b"]" * 31, "JSON that is nested too deeply"),
  ],
)
def test_faults_name_the_file(tmp_path, data, fault):
  path = tmp_path / "a.json"
  path.write_bytes(data)
  with pytest.raises(errors.InputError, match=f"{path}: {fault}"):
    json_files.read(str(path))


def test_what_is_at_its_limit_is_read(tmp_path):
  path = tmp_path / "a.json"
  path.write_bytes(b"[" * 30 + b"]" * 30)
  assert json_files.read(str(path), list, most_bytes=60)
  with pytest.raises(errors.InputError, match="more than 59 bytes"):
    json_files.read(str(path), list, most_bytes=59)


def test_a_type_that_allows_null_is_named():
  with pytest.raises(
    errors.InputError, match="is 5; expected a string or null"
  ):
    json_files.field({"a": 5}, "a", str | None, "a.json")
  assert json_files.field({"a": None}, "a", str | None, "a.json") is None


def test_settings_are_small_regular_files(tmp_path, monkeypatch):
  path = tmp_path / "config.json"
  with open(path, "wb") as stream:
    stream.truncate(3 << 30)  # Sparse: it takes no room.
  message = f"{path} has more than 67,108,864 bytes"
  for read in (
    lambda: json_files.read_settings(str(path)),
    lambda: json_files.read_optional(str(tmp_path), "config.json"),
    lambda: configuration.read(str(path)),
  ):
    with pytest.raises(errors.InputError, match=message):
      read()
  if not hasattr(os, "mkfifo"):
    return
  path.unlink()
  os.mkfifo(path)  # Nobody writes to it.
  with pytest.raises(errors.InputError, match="is not a regular file"):
    configuration.read(str(path))


def test_a_folder_knows_its_names_and_its_parent(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / "a.json").write_text("[1]")
  here = json_files.Folder("")
  assert here.names == {"a.json"} and here.read("a.json", list) == [1]
  assert json_files.Folder.at(here) is here
  assert json_files.Folder.at("a/b").path == "a/b"
  assert json_files.folder_of("a/b.json").path == "a"
  assert json_files.Folder("a/b").parent.path == str(tmp_path / "a")
  assert json_files.Folder("gs://a/b").parent.path == "gs://a"


def test_a_file_of_a_folder_is_read_once_and_may_be_missing(tmp_path):
  folder = json_files.Folder(str(tmp_path))
  assert folder.read("a.json") == {} and folder.read("b.json", list) == []
  (tmp_path / "a.json").write_text('{"a": 1}')
  assert folder.read("a.json") == {}
  with pytest.raises(errors.InputError, match="no such file"):
    folder.read("c.json", required=True)


def test_missing_file(tmp_path):
  with pytest.raises(errors.InputError, match="no such file"):
    json_files.read(f"{tmp_path}/none")


def test_the_outermost_type_is_checked(tmp_path):
  path = tmp_path / "a.json"
  path.write_text("[1]")
  assert json_files.read(str(path), list) == [1]
  path.write_text("{}")
  with pytest.raises(errors.InputError, match=says("JSON", "expected")):
    json_files.read(str(path), list)


def test_plain_returns_what_would_be_read_back(tmp_path):
  values = {"a": (1, 2), 3: None}
  path = str(tmp_path / "a.json")
  json_files.write(path, {"a": (1, 2), "3": None})
  assert json_files.plain(values) == json_files.read(path)


def test_a_line_of_json_is_utf_8_whatever_is_in_it():
  values = {"\udfff": ["\u00e9", "\U0001f600", 1]}
  line = json_files.line(values)
  assert line.encode("utf-8") == (
    '{"\\udfff": ["\u00e9", "\U0001f600", 1]}\n'.encode()
  )
  assert json.loads(line) == values


@pytest.mark.parametrize(
  "field_type, good, bad",
  [
    (str, "a", 1),
    (bool, True, 1),
    (int, 1, True),
    (float, 1, "1"),
    (str | int, 1, 1.5),
    (list[dict], [{}], [{}, []]),
    (dict[str, str], {"a": "b"}, {"a": ["b"]}),
  ],
)
def test_a_field_has_its_type(field_type, good, bad):
  assert json_files.field({"a": good}, "a", field_type, "f.json") == good
  with pytest.raises(errors.InputError, match="^f.json: a is .*; expected "):
    json_files.field({"a": bad}, "a", field_type, "f.json", good)
  with pytest.raises(errors.InputError, match="^f.json: a is missing; exp"):
    json_files.field({}, "a", field_type, "f.json")
  assert json_files.field({"a": None}, "a", field_type, "f.json", None) is None
