"""Downloads a model of the hub by its name, for download.py and --download.

The hub's list of a commit's files has their sizes and, for large files, their
SHA-256. The folder appears only when all files are complete.
"""

import os
import re
import shutil
from collections.abc import Iterable

from absl import logging

from common import errors, file_io, json_files
from reproduction import catalog, downloads

_SITE = "https://huggingface.co"
# huggingface_hub has this variable, too.
_ENDPOINT = "HF_ENDPOINT"
_NAME = re.compile(r"[\w.-]+/[\w.-]+")
# Files besides the weights that this project or the hub's readers use.
_FILES = re.compile(
  r"([\w]*config\w*\.json|README\.md|LICENSE[\w.]*|vocab\.(txt|json)|merges\.txt"
  r"|modules\.json|\w*token\w*\.json|\w+\.model|\d+_\w+/[\w.]+)"
)
_WEIGHTS = (
  re.compile(r"model(-\d+-of-\d+)?\.safetensors(\.index\.json)?"),
  re.compile(r"pytorch_model(-\d+-of-\d+)?\.bin(\.index\.json)?"),
)
_RECORD = "download.json"


def is_name(name: str) -> bool:
  """Whether a name is one of the hub, such as google-bert/bert-base-uncased."""
  return bool(_NAME.fullmatch(name))


def fetch(
  name: str, folder: str, base_url: str | None = None
) -> tuple[str, bool]:
  """Downloads a model to `folder`/`name`, unless that folder exists.

  Returns its path, and whether it was downloaded now. Raises InputError: the
  hub cannot be reached or has no such model with weights, or a file differs
  from the hub's list.
  """
  target = os.path.join(folder, *name.split("/"))
  if os.path.exists(os.path.join(target, _RECORD)):
    return target, False
  if os.path.exists(target):
    raise errors.InputError(
      f"{target} is not from download.py: remove it or choose another --dir"
    )
  part = _part_of(name, folder)
  record = _download(
    name, part, lambda file, place: downloads.download(file, place, base_url)
  )
  json_files.write(os.path.join(part, _RECORD), record)
  os.makedirs(os.path.dirname(target), exist_ok=True)
  shutil.move(part, target)
  return target, True


def fetch_to_cache(name: str, cache: str) -> str:
  """Downloads a model to huggingface_hub's cache; returns its new folder.

  Files of the same commit that are there already stay. The environment variable
  HF_ENDPOINT may be the URL of a mirror. For errors see `fetch`.
  """
  site = os.environ.get(_ENDPOINT) or _SITE
  advice = f"set {_ENDPOINT} to the URL of a mirror of the hub"
  part = _part_of(name, cache)
  record = _download(
    name,
    part,
    lambda file, place: downloads.download(file, place, None, advice),
    site.rstrip("/"),
  )
  logging.info("downloaded %s (licence: %s)", name, record["licence"])
  model = os.path.join(cache, f"models--{name.replace('/', '--')}")
  snapshot = os.path.join(model, "snapshots", record["commit"])
  for folder, _, files in os.walk(part):
    target = os.path.join(snapshot, os.path.relpath(folder, part))
    os.makedirs(target, exist_ok=True)
    for file in files:
      if not os.path.exists(os.path.join(target, file)):
        os.replace(os.path.join(folder, file), os.path.join(target, file))
  shutil.rmtree(part)
  os.makedirs(os.path.join(model, "refs"), exist_ok=True)
  file_io.write_text(os.path.join(model, "refs", "main"), record["commit"])
  return snapshot


def _part_of(name: str, folder: str) -> str:
  return os.path.join(folder, f".{name.replace('/', '--')}.part")


def _download(name, part, download, site=_SITE) -> dict:
  """Downloads a model's files to the folder `part`; returns their record.

  `download` is called with a catalog.File and a folder.
  """
  os.makedirs(part, exist_ok=True)
  # A continued download uses the list, and so the commit, of its start.
  listed = catalog.File(f"{site}/api/models/{name}/revision/main?blobs=true")
  path = download(listed, part)
  values = json_files.read(path)
  commit = json_files.field(values, "sha", str, path)
  if not re.fullmatch(r"\w+", commit):  # It becomes the name of a folder.
    raise errors.InputError(f"{path}: sha is {commit!r:.60}, not a commit")
  siblings = json_files.field(values, "siblings", list, path)
  sizes = {each["rfilename"]: each for each in siblings}
  for file in _chosen(sizes, name):
    place = os.path.join(part, os.path.dirname(file))
    os.makedirs(place, exist_ok=True)
    large = sizes[file].get("lfs") or {}
    url = f"{site}/{name}/resolve/{commit}/{file}"
    size = sizes[file].get("size") or 0
    published = catalog.File(url, size, large.get("sha256", ""))
    download(published, place)
  os.remove(path)
  card = values.get("cardData") or {}
  return {"name": name, "licence": card.get("license"), "commit": commit}


def _chosen(names: Iterable[str], model: str) -> list[str]:
  """Returns the files to download; raises InputError without weights."""
  for pattern in _WEIGHTS:
    if weights := [name for name in names if pattern.fullmatch(name)]:
      return [name for name in names if _FILES.fullmatch(name)] + weights
  raise errors.InputError(
    f"{model} has no model.safetensors or pytorch_model.bin (it has "
    f"{', '.join(sorted(names)[:5])}); choose another model"
  )
