"""Models are found by name in the layout that huggingface_hub writes."""

import shutil

import pytest

import local_server
import script_runner
import serving_models
import test_download
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
  with pytest.raises(
    errors.InputError, match="hub's cache .*hub.; pass --down"
  ):
    model_files.ModelFiles("org/none")


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
  """A Hugging Face folder."""
  folder = tmp_path_factory.mktemp("hub") / "model"
  flags = {"model_dir": serving_models.FOLDER, "to": "huggingface"}
  script_runner.succeed("convert_checkpoint.py", output=folder, **flags)
  return folder


@pytest.fixture
def hub(cache, converted, monkeypatch):
  """A server with the model org/tiny, as the variable HF_ENDPOINT names it."""
  files = {path.name: path.read_bytes() for path in converted.iterdir()}
  answers = test_download.hub_files(files, COMMIT)
  answers = {
    path.removeprefix("/huggingface.co"): data for path, data in answers.items()
  }
  # A mirror of download.py has no queries.
  listed = "/api/models/org/tiny/revision/main"
  answers[f"{listed}?blobs=true"] = answers.pop(listed)
  with local_server.serve(answers) as server:
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    yield server


def ask(cache, hub, code=0, **flags):
  """Returns the Finished of a script that embeds a text."""
  variables = {"HF_HOME": str(cache.parent), "HF_ENDPOINT": hub.url}
  return script_runner.run(
    "extract_features.py",
    code=code,
    text="the street",
    environment=variables,
    **{"model_dir": "org/tiny", **flags},
  )


def test_a_model_is_downloaded_once_and_only_if_asked(cache, hub):
  done = ask(cache, hub, code=1)
  assert "org/tiny" in done.err and "--download" in done.err
  with pytest.raises(errors.InputError, match="org/tiny"):
    text_models.load("org/tiny")
  assert not hub.requests and not cache.exists()
  done = ask(cache, hub, download=True)
  snapshot = cache / "models--org--tiny" / "snapshots" / COMMIT
  assert hub_cache.find("org/tiny") == str(snapshot)
  assert [path.name for path in cache.iterdir()] == ["models--org--tiny"]
  by_path = ask(cache, hub, model_dir=snapshot)
  assert done.out == by_path.out != ""
  count = len(hub.requests)
  assert ask(cache, hub).out == ask(cache, hub, download=True).out == done.out
  bert = text_models.load("org/tiny", download=True)
  assert len(hub.requests) == count and bert.embed("the street").any()


def test_a_partly_cached_model_is_completed(cache, hub):
  snapshot = add(cache, "org/tiny")
  (snapshot / "vocab.txt").write_text("kept")
  for path in snapshot.glob("*model*"):
    path.unlink()
  assert hub_cache.resolve("org/tiny") == str(snapshot)
  assert hub_cache.resolve("org/tiny", download=True) == str(snapshot)
  assert (snapshot / "vocab.txt").read_text() == "kept"
  assert any(snapshot.glob("model.safetensors"))


def test_a_download_names_the_licence(cache, hub, caplog):
  caplog.set_level("INFO", logger="absl")
  for _ in range(2):
    hub_cache.resolve("org/tiny", download=True)
  messages = [text for text in caplog.messages if "org/tiny" in text]
  assert messages == ["downloaded org/tiny (licence: mit)"]


def test_the_package_finds_what_was_downloaded(cache, hub):
  package = pytest.importorskip("huggingface_hub")
  folder = hub_cache.resolve("org/tiny", download=True)
  arguments = "org/tiny", "vocab.txt", str(cache)
  assert package.try_to_load_from_cache(*arguments).startswith(folder)
  assert not package.scan_cache_dir(cache).warnings


@pytest.mark.parametrize("flags", [{"download": True}, {}])
def test_a_failed_download_names_what_the_command_has(cache, hub, flags):
  hub.files.clear()
  done = ask(cache, hub, code=1, **flags)
  assert "--base_url" not in done.err
  assert ("HF_ENDPOINT" in done.err) == bool(flags)
  assert not (cache / "models--org--tiny").exists()
  script_runner.refuse("run_ner.py", "--model_dir", download=True)


def test_an_objectives_teacher_is_downloaded(cache, hub, tmp_path):
  """Flags of extensions may name models, too."""
  flags = {
    "bert_config_file": serving_models.FOLDER / "bert_config.json",
    "objectives": "distillation",
    "teacher_checkpoint": "org/tiny",
    "input_file": tmp_path / "empty.tfrecord",
    "output_dir": tmp_path / "run",
    "do_train": True,
    "environment": {"HF_HOME": str(cache.parent), "HF_ENDPOINT": hub.url},
  }
  (tmp_path / "empty.tfrecord").write_bytes(b"")
  script_runner.refuse("run_pretraining.py", "org/tiny", **flags)
  assert not hub.requests
  flags["download"] = True
  script_runner.refuse("run_pretraining.py", "empty.tfrecord", **flags)
  assert any((cache / "models--org--tiny").rglob("model.safetensors"))
