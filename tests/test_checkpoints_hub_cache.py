"""Models are found by name in the layout that huggingface_hub writes."""

import shutil

import pytest

import script_runner
import serving_models
from checkpoints import hub_cache, model_files
from common import errors
from serving import text_models

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path, monkeypatch):
  """An empty cache, as environment variables name it."""
  monkeypatch.delenv("HF_HUB_CACHE", raising=False)
  monkeypatch.setenv("HF_HOME", str(tmp_path))
  monkeypatch.chdir(tmp_path)
  return tmp_path / "hub"


def add(cache, name, commit=COMMIT):
  """Adds a model as huggingface_hub does; returns its snapshot."""
  model = cache / f"models--{name.replace('/', '--')}"
  (model / "refs").mkdir(parents=True, exist_ok=True)
  (model / "refs" / "main").write_text(commit)
  snapshot = model / "snapshots" / commit
  (model / "blobs").mkdir(exist_ok=True)
  snapshot.mkdir(parents=True)
  for number, path in enumerate(sorted(serving_models.FOLDER.iterdir())):
    shutil.copy(path, model / "blobs" / str(number))
    (snapshot / path.name).symlink_to(f"../../blobs/{number}")
  return snapshot


@pytest.mark.parametrize(
  "variables, folder",
  [
    ({"HF_HUB_CACHE": "/a"}, "/a"),
    ({"HF_HOME": "/b"}, "/b/hub"),
    ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
    ({"HOME": "/d"}, "/d/.cache/huggingface/hub"),
  ],
)
def test_the_folder_is_huggingface_hubs(monkeypatch, variables, folder):
  for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
    monkeypatch.delenv(name, raising=False)
  for name, value in variables.items():
    monkeypatch.setenv(name, value)
  assert hub_cache.folder() == folder


def test_the_package_finds_the_same_snapshot(cache):
  hub = pytest.importorskip("huggingface_hub")
  snapshot = add(cache, "org/name")
  file = hub.try_to_load_from_cache(
    "org/name", "vocab.txt", cache_dir=str(cache)
  )
  assert file == str(snapshot / "vocab.txt")
  assert hub_cache.find("org/name") == str(snapshot)


def test_names_and_folders(cache, tmp_path):
  assert hub_cache.find("bert-base-uncased") is None
  moved = add(cache, "google-bert/bert-base-uncased")
  assert hub_cache.find("bert-base-uncased") == str(moved)
  add(cache, "someone/bert-base-uncased")
  assert hub_cache.find("bert-base-uncased") is None  # Two have this name.
  own = add(cache, "bert-base-uncased")
  assert hub_cache.find("bert-base-uncased") == str(own)
  newer = add(cache, "bert-base-uncased", COMMIT[::-1])
  assert hub_cache.find("bert-base-uncased") == str(newer)
  assert hub_cache.find("a/b/c") is None and hub_cache.find("../x") is None
  (tmp_path / "bert-base-uncased").mkdir()
  assert hub_cache.resolve("bert-base-uncased") == "bert-base-uncased"
  assert hub_cache.resolve("gs://a/b") == "gs://a/b"


def test_python_and_scripts_take_a_name(cache):
  add(cache, "org/tiny")
  expected = text_models.load(serving_models.FOLDER).embed("the street")
  assert (text_models.load("org/tiny").embed("the street") == expected).all()
  name = "org/tiny"
  flags = {"text": "the [MASK]", "environment": {"HF_HOME": str(cache.parent)}}
  by_name = script_runner.succeed("fill_mask.py", model_dir=name, **flags)
  by_path = script_runner.succeed(
    "fill_mask.py", model_dir=serving_models.FOLDER, **flags
  )
  assert by_name.out == by_path.out != ""
  with pytest.raises(errors.InputError, match="hub's cache .*hub.; download"):
    model_files.ModelFiles("org/none")
