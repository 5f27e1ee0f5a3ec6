"""Finds models by their names in the hub's cache on this machine.

  models--ORG--NAME/refs/main                a commit
  models--ORG--NAME/snapshots/COMMIT/...     the files of that commit

This is the layout of the package huggingface_hub, which programs such as
transformers use to download. It is not needed here, and nothing is downloaded
unless the user says so.
"""

import glob
import os
import re

from common import file_io

# "bert-base-uncased" or "sentence-transformers/all-MiniLM-L6-v2".
_NAME = re.compile(r"([\w.-]+/)?[\w.-]+")
_WEIGHTS = re.compile(r"model.*\.(safetensors|bin|index|pb)\b")


def folder() -> str:
  """Returns the cache's folder; the variables are huggingface_hub's."""
  environment = os.environ
  home = environment.get("XDG_CACHE_HOME", os.path.join("~", ".cache"))
  home = environment.get("HF_HOME", os.path.join(home, "huggingface"))
  return os.path.expanduser(
    environment.get("HF_HUB_CACHE", os.path.join(home, "hub"))
  )


def find(name: str) -> str | None:
  """Returns the folder of a model's newest cached commit, or None.

  The models of a single-word name, such as bert-base-uncased, moved to
  organizations. So such a name also finds the only cached model that has it.
  """
  if not _NAME.fullmatch(name):
    return None
  cached = name.replace("/", "--")
  paths = [os.path.join(folder(), f"models--{cached}")]
  if "/" not in name:
    pattern = os.path.join(glob.escape(folder()), f"models--*--{cached}")
    others = glob.glob(pattern)
    paths += others if len(others) == 1 else []
  for path in paths:
    reference = os.path.join(path, "refs", "main")
    if os.path.isfile(reference):
      with open(reference, encoding="utf-8") as stream:
        snapshot = os.path.join(path, "snapshots", stream.read().strip())
      if os.path.isdir(snapshot):
        return snapshot
  return None


def resolve(path: str, download: bool = False) -> str:
  """Returns the cached folder for a model's name, or else the path itself.

  A local file or folder takes precedence over a model of the same name. With
  `download`, a model that is not in the cache is downloaded to it. Raises
  InputError if that fails.
  """
  if file_io.is_remote(path) or os.path.exists(path):
    return path
  found = find(path)
  if not (download and _NAME.fullmatch(path)) or _is_whole(found):
    return found or path
  # Imported here, because few commands download.
  from reproduction import hub

  return hub.fetch_to_cache(path, folder())


def _is_whole(snapshot: str | None) -> bool:
  """Whether a snapshot has weights, not only the files of a tokenizer."""
  names = os.listdir(snapshot) if snapshot else ()
  return any(map(_WEIGHTS.search, names))
