"""Reads catalog.csv: the released models and data sets, a line for each file.

Sizes and SHA-256 sums are from tensorflow-datasets, which publishes them for
the same files (its url_checksums, Apache-2.0); users of WikiText publish its
sums. For a file without published values, only the length that the server
reports is checked. A model's size is the size of its weights, 4 bytes per
parameter; its archive is a little smaller.
"""

import csv
import itertools
import pathlib
from collections.abc import Iterator
from typing import NamedTuple


class File(NamedTuple):
  """A file to download; a field without a published value is None."""

  url: str
  size: int | None = None  # In bytes.
  sha256: str | None = None  # In hexadecimal.

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
  bytes_after: int | None  # For models: approximate size of the weights.
  task: str  # For data: the --task_name that reads it.
  cased: bool  # For models: whether text keeps its case.
  group: str  # For data: a value of --data that selects a group of data sets.
  # Lines of the published files, including headers; for SQuAD the questions.
  rows: dict[str, int]


def read_groups(name: str) -> Iterator[list[dict]]:
  """Yields lists of lines with the same name from a CSV file of this folder."""
  path = pathlib.Path(__file__).with_name(name)
  with open(path, encoding="utf-8", newline="") as stream:
    lines = csv.DictReader(stream)
    for _, group in itertools.groupby(lines, lambda line: line["name"]):
      yield list(group)


def _read(kind):
  """Returns {name: Entry} for a kind; a name's first line has the fields."""
  entries = {}
  for lines in read_groups("catalog.csv"):
    first = lines[0]
    if first["kind"] != kind:
      continue
    files = tuple(
      File(line["url"], _number(line["size"]), line["sha256"] or None)
      for line in lines
    )
    rows = (item.split("=") for item in first["rows"].split())
    texts = "name licence about program task group"
    entries[first["name"]] = Entry(
      files=files, bytes_after=_number(first["bytes"]),
      cased=bool(first["cased"]), rows={name: int(n) for name, n in rows},
      **{name: first[name] for name in texts.split()},
    )
  return entries


def _number(text):
  return int(text) if text else None


MODELS, DATA = _read("model"), _read("data")
# Data that may not be redistributed: `about` says where its owners offer it.
ELSEWHERE = _read("elsewhere")
