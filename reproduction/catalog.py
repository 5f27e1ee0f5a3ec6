"""Reads catalog.csv: the released models and data sets, one line per file.

Sizes and SHA-256 sums of data are from tensorflow-datasets, which publishes
them for the same files (url_checksums, Apache-2.0). WikiText's sums are from
other projects that use it, all-MiniLM-L6-v2's from its Hub repository at the
revision in the URL.

checksums.csv has sums of the files inside archives. The sums of the seven
models of 2018 are from NVIDIA's DeepLearningExamples
(GooglePretrainedWeightDownloader.py), which checks what it unpacks. Publishers
state no sums for the other models (`sums` is empty): for them, only the length
that the server reports and the archive's own checksums are checked.

A model's `bytes` are 4 per parameter.
"""

import csv
import itertools
import pathlib
from collections.abc import Iterator
from typing import NamedTuple


class File(NamedTuple):
  """A file to download."""

  url: str
  size: int = 0  # In bytes; 0: not published.
  sha256: str = ""  # In hexadecimal; "": not published.

  @property
  def name(self) -> str:
    """The last part of the URL."""
    return self.url.partition("?")[0].rpartition("/")[2]


class Entry(NamedTuple):
  """A model or a data set."""

  name: str  # Value of --model or --data, and the name of its folder.
  files: tuple[File, ...]  # Archives are unpacked into the folder.
  licence: str
  about: str  # One line of description.
  program: str  # For models: the program that wrote the checkpoint.
  bytes_after: int  # For models: approximate size of the weights.
  flags: str  # Flags for scripts; {folder} stands for the folder.
  group: str  # For data: a value of --data that selects a group of data sets.
  # {published file: number of lines, including a header, or of questions}
  rows: dict[str, int]
  sums: dict[str, str] = {}  # {file of the folder: SHA-256}, if it is known.

  @property
  def is_checked(self) -> bool:
    """Whether checksums of all files, or of their contents, are known."""
    return bool(self.sums) or all(file.sha256 for file in self.files)


def read_groups(name: str) -> Iterator[list[dict]]:
  """Yields the list of each name's lines in a CSV file of this folder."""
  path = pathlib.Path(__file__).with_name(name)
  with open(path, encoding="utf-8", newline="") as stream:
    lines = csv.DictReader(stream)
    for _, group in itertools.groupby(lines, lambda line: line["name"]):
      yield list(group)


def _read(kind: str) -> dict[str, Entry]:
  """Returns {name: Entry} for a kind; a name's first line has the fields."""
  sums = {
    lines[0]["name"]: {line["file"]: line["sha256"] for line in lines}
    for lines in read_groups("checksums.csv")
  }
  entries = {}
  for lines in read_groups("catalog.csv"):
    first = lines[0]
    rows = (item.split("=") for item in first["rows"].split())
    text_fields = "name licence about program flags group"
    if first["kind"] == kind:
      entries[first["name"]] = Entry(
        files=tuple(
          File(line["url"], int(line["size"] or 0), line["sha256"])
          for line in lines
        ),
        bytes_after=int(first["bytes"] or 0),
        rows={name: int(count) for name, count in rows},
        sums=sums.get(first["name"], {}),
        **{name: first[name] for name in text_fields.split()},
      )
  return entries


MODELS, DATA = _read("model"), _read("data")
# Data that may not be redistributed: `about` says where its owners offer it.
ELSEWHERE = _read("elsewhere")
