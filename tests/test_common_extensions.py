"""Extensions: names from a folder, files and modules of users, errors."""

import pytest

from common import errors, extensions

PACKAGE = "pretraining.text_files"


def test_the_names_are_the_files_of_the_folder():
  assert extensions.names(PACKAGE) == ("compressed", "json_list", "parquet")


def test_an_extension_is_loaded_by_its_name():
  module = extensions.load(PACKAGE, "json_list")
  assert module.__name__ == f"{PACKAGE}.json_list"


def test_a_users_file_is_loaded_once_and_apart_from_its_namesakes(tmp_path):
  modules = []
  for folder in ("a", "b"):
    (tmp_path / folder).mkdir()
    path = tmp_path / folder / "mine.py"
    path.write_text(f"NAME = {folder!r}\n")
    modules.append(extensions.load(PACKAGE, str(path), "--format"))
    assert extensions.load(PACKAGE, str(path), "--format") is modules[-1]
  assert [module.NAME for module in modules] == ["a", "b"]


def test_a_users_module_is_loaded_by_its_full_name():
  module = extensions.load(PACKAGE, "xml.dom", "--format")
  assert module.__name__ == "xml.dom"


@pytest.mark.parametrize(
  "name, facts",
  [
    ("jsn_list", ["json_list", "compressed"]),
    ("missing.py", ["no such file"]),
    ("nowhere.mine", ["nowhere"]),
    ("broken.py", ["NameError", "undefined_name"]),
  ],
)
def test_an_error_names_flag_value_and_cause(
  tmp_path, monkeypatch, name, facts
):
  monkeypatch.chdir(tmp_path)
  (tmp_path / "broken.py").write_text("undefined_name\n")
  with pytest.raises(errors.InputError) as raised:
    extensions.load(PACKAGE, name, "--format")
  for fact in [f"--format={name}", *facts]:
    assert fact in str(raised.value)
