"""The released models and data sets: catalog.csv, a line for each file.

Sizes and SHA-256 sums are those that tensorflow-datasets publishes for the
same files (its url_checksums, Apache-2.0); where there is none, only what the
server says of the length is checked. Sizes of models are those of their
weights, 4 bytes a parameter: an archive is a little smaller.
"""

import csv
import itertools
import pathlib
from typing import NamedTuple


class File(NamedTuple):
  """A file to download; None where nobody says."""

  url: str
  size: int | None = None  # In bytes.
  sha256: str | None = None  # In hexadecimal.

  @property
  def name(self) -> str:
    """The last part of the address."""
    return self.url.partition("?")[0].rpartition("/")[2]


class Entry(NamedTuple):
  """A model or a data set."""

  name: str  # What --model or --data calls it, and its folder.
  files: tuple[File, ...]  # Archives are unpacked into the folder.
  licence: str
  about: str  # One line for a reader of the list.
  program: str = ""  # Of models: whose checkpoint it is.
  bytes_after: int | None = None  # Of models: size of the weights, roughly.
  task: str = ""  # Of data: the --task_name that reads it.
  cased: bool = False  # Of models: whether text keeps its case.
  prepare: str = ""  # What is made of the files: `assemble.PREPARATIONS`.


def read_table(name: str) -> list[dict]:
  """Returns the lines of a CSV file of this folder, as dicts."""
  path = pathlib.Path(__file__).with_name(name)
  with open(path, encoding="utf-8", newline="") as stream:
    return list(csv.DictReader(stream))


def _read(kind):
  """Returns {name: Entry} of a kind of lines; the first of a name says all."""
  lines = [line for line in read_table("catalog.csv") if line["kind"] == kind]
  entries = {}
  for name, group in itertools.groupby(lines, lambda line: line["name"]):
    first, *others = group
    files = tuple(
      File(
        line["url"], int(line["size"]) if line["size"] else None,
        line["sha256"] or None,
      )
      for line in (first, *others)
    )
    entries[name] = Entry(
      name, files, first["licence"], first["about"], first["program"],
      int(first["bytes"]) if first["bytes"] else None, first["task"],
      bool(first["cased"]), first["prepare"],
    )
  return entries


MODELS, DATA = _read("model"), _read("data")
ENTRIES = {**MODELS, **DATA}

# Data that may not be handed on: where its owners give it.
POINTERS = {
  "conll2003": (
    "CoNLL-2003's annotations are at "
    "https://www.clips.uantwerpen.be/conll2003/ner/, its texts (Reuters RCV1) "
    "need an agreement with NIST: https://trec.nist.gov/data/reuters/"
    "reuters.html. Put eng.train, eng.testa and eng.testb into one folder."
  ),
}
