"""The list of what can be downloaded."""

from classification import glue
from reproduction import catalog


def test_names_files_and_sums():
  known = {**catalog.MODELS, **catalog.DATA}
  for name, entry in known.items():
    assert entry.name == name and entry.files and entry.licence and entry.about
    names = [file.name for file in entry.files]
    assert len(set(names)) == len(names) and all(names)
    for file in entry.files:
      assert file.url.startswith(("https://", "http://ai.stanford.edu/"))
      assert file.sha256 is None or len(file.sha256) == 64
  urls = [file.url for entry in known.values() for file in entry.files]
  assert len(set(urls)) == len(urls)


def test_released_models_are_all_there():
  miniatures = [name for name in catalog.MODELS if "uncased_L-" in name]
  assert len([n for n in miniatures if not n.startswith("wwm")]) == 24 + 2
  assert "cased_L-24_H-1024_A-16" in catalog.MODELS


def test_weights_of_base_take_four_bytes_a_parameter():
  base = catalog.MODELS["uncased_L-12_H-768_A-12"]
  assert base.bytes_after == 4 * 110_106_428


def test_every_official_task_can_be_downloaded():
  titles = {task.title for task in glue.TASKS.values()}
  assert titles == {e.task for e in catalog.DATA.values() if e.task}
