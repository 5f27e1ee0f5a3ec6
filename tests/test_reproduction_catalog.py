"""Checks the catalog of downloads."""

import re

from classification import glue
from reproduction import catalog


def test_names_files_and_checksums():
  known = {**catalog.MODELS, **catalog.DATA}
  for name, entry in known.items():
    assert entry.name == name and entry.files and entry.licence and entry.about
    names = [file.name for file in entry.files]
    assert len(set(names)) == len(names) and all(names)
    for file in entry.files:
      assert file.url.startswith(("https://", "http://ai.stanford.edu/"))
      assert not file.sha256 or len(file.sha256) == 64
  urls = [file.url for entry in known.values() for file in entry.files]
  assert len(set(urls)) == len(urls)


def test_checksums_of_members_belong_to_models():
  for lines in catalog.read_groups("checksums.csv"):
    entry = catalog.MODELS[lines[0]["name"]]
    assert len(entry.sums) == len(lines)
    assert {"vocab.txt", "bert_config.json"} <= set(entry.sums)
    assert all(re.fullmatch("[0-9a-f]{64}", s) for s in entry.sums.values())
  checked = [name for name, e in catalog.MODELS.items() if e.is_checked]
  assert len(checked) == 8 and "all-MiniLM-L6-v2" in checked


def test_all_released_models_are_listed():
  miniatures = [name for name in catalog.MODELS if "uncased_L-" in name]
  assert len([n for n in miniatures if not n.startswith("wwm")]) == 24 + 2
  assert "cased_L-24_H-1024_A-16" in catalog.MODELS


def test_every_official_task_can_be_downloaded():
  titles = {task.title for task in glue.TASKS.values()}
  flags = " ".join(entry.flags for entry in catalog.DATA.values())
  assert titles == {*re.findall(r"--task_name=(\S+)", flags)}


def test_every_download_has_flags_for_its_files():
  for entry in (*catalog.MODELS.values(), *catalog.DATA.values()):
    assert "={folder}" in entry.flags
    for name in re.findall(r"{folder}/(\S+\.json)", entry.flags):
      assert name in [file.name for file in entry.files]
  for name, entry in catalog.MODELS.items():
    is_cased = "-cased" in f"-{name}".replace("_", "-")
    assert is_cased <= ("--do_lower_case=false" in entry.flags), name
