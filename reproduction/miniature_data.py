"""Data of the miniature: text, and two versions of each task's files.

  OUT/text/train.txt, held.txt     sentences; blank lines between documents
  OUT/final/STS-B/train.tsv ...    what the numbers of the page are from
  OUT/tune/STS-B/train.tsv ...     every eighth training row to score, half of
                                   them to train on: rates are chosen here
  OUT/final/SST-2/unlabelled.tsv   texts whose labels are left out; in tune, too

Nothing of a task's dev files is in `tune` or in the text.
"""

import os
import pathlib
import re
from collections.abc import Iterable, Iterator

from common import errors, file_io, json_files

_HELD_OUT = 20  # Every 20th document of the text measures the pre-training.
# Every 8th training row chooses learning rates; being even, it leaves the odd
# ones to train on.
_TUNE = 8
# Where a sentence ends: what follows may be quoted.
_END = re.compile(r"(?<=[.!?]) +(?=[\"'(]*[A-Z0-9])")
_WORD = re.compile(r"\w+(?:['\u2019.-]\w+)*|[^\w\s]")
_HOW = "download it: python download.py --dir=downloads --data="


def _find(folder, name, files):
  """Returns the path of the folder that has a task's files; or InputError."""
  for path in sorted(pathlib.Path(folder).rglob(files[0])):
    inside = path.parent
    # A set of GLUE is a folder of its name; those of SQuAD have theirs.
    is_named = name in ("squad1", inside.name, inside.name.upper())
    if is_named and all(any(inside.glob(file)) for file in files):
      return inside
  raise errors.InputError(
    f"--data_dir={folder} has no folder of {name} with {', '.join(files)}; "
    f"{_HOW}{name.lower()}"
  )


def write_glue(source: str, name: str, out: str, most: int | None) -> None:
  """Writes a task's tables below `out`, at most `most` rows of each.

  Raises InputError: they are not there.
  """
  folder = _find(source, name, ("train.tsv", "dev.tsv"))
  train, dev = (
    (folder / file).read_text(encoding="utf-8").rstrip("\n").split("\n")
    for file in ("train.tsv", "dev.tsv")
  )
  _write_parts(
    out, f"{name}/.tsv", train[1:][:most], dev[1:][:most],
    lambda part: "\n".join([train[0], *part, ""]),
  )


def _write_parts(out, name, train, dev, text_of):
  """Writes a task's train and dev files, as `text_of` says, in both versions.

  `name` is the folder of both and how their names end, such as RTE/.tsv.
  """
  chosen, rest = train[::_TUNE], train[1::2]
  for kind, parts in (("final", (train, dev)), ("tune", (rest, chosen))):
    for file, part in zip(("train", "dev"), parts):
      path = os.path.join(out, kind, name.replace("/", f"/{file}"))
      file_io.write_text(path, text_of(part))


def write_unlabelled(out: str, labelled: int) -> None:
  """Writes the texts of SST-2's training rows behind the first `labelled`.

  Of a short table the second half. Its labels are the last column.
  """
  for kind in ("final", "tune"):
    folder = os.path.join(out, kind, "SST-2")
    lines = file_io.read_lines(os.path.join(folder, "train.tsv"))
    rows = [line.rpartition("\t")[0] for _, line in lines][1:]
    rows = rows[min(labelled, len(rows) // 2) :]
    path = os.path.join(folder, "unlabelled.tsv")
    file_io.write_text(path, "\n".join(["text", *rows, ""]))


def _paragraphs(path):
  """Returns the paragraphs of a file of SQuAD, dicts of its format."""
  articles = json_files.read(str(path))["data"]
  return [part for article in articles for part in article["paragraphs"]]


def read_squad(source: str) -> tuple[list[dict], list[dict]]:
  """Returns the paragraphs to train on, and those of the dev set."""
  files = ("dev-v1.1.json", "train*v1.1.json")
  folder = _find(source, "squad1", files)
  return tuple(  # type: ignore[return-value]
    _paragraphs(next(iter(sorted(folder.glob(file))))) for file in files[::-1]
  )


def write_squad(
  train: list[dict], dev: list[dict], out: str, most_dev: int
) -> None:
  """Writes questions below `out`, at most about `most_dev` of the dev set.

  Those are of paragraphs at equal distances, so of all articles.
  """
  count = sum(len(part["qas"]) for part in dev)
  _write_parts(
    out, "squad/.json", train, dev[:: max(1, -(-count // most_dev))],
    lambda part: json_files.line(
      {"version": "1.1", "data": [{"title": "", "paragraphs": part}]}
    ),
  )


def sentences(paragraphs: Iterable[dict]) -> Iterator[str]:
  """Yields the sentences of paragraphs of SQuAD."""
  for paragraph in paragraphs:
    yield from _END.split(" ".join(paragraph["context"].split()))


def tagged(sentence: str) -> str:
  """Returns columns of words in small letters, and which of them are names.

  A name is what has a capital, but for a sentence's first word: "Then Mary
  Ann came" -> "then O", "mary B-NAME", "ann I-NAME", "came O".
  """
  lines, before = [], False
  for place, word in enumerate(_WORD.findall(sentence)):
    is_name = place > 0 and word[0].isupper()
    label = ("I-NAME" if before else "B-NAME") if is_name else "O"
    lines.append(f"{word.lower()} {label}")
    before = is_name
  return "\n".join(lines)


def write_tags(
  train: list[dict], dev: list[dict], out: str, most: int
) -> None:
  """Writes columns of names: `most` sentences to train on, half to score.

  The sentences are taken at equal distances from all paragraphs.
  """
  parts = []
  for paragraphs, count in ((train, most), (dev, most // 2)):
    found = [text for text in sentences(paragraphs) if " " in text]
    step = max(1, -(-len(found) // count))
    parts.append([tagged(text) for text in found[::step]])
  _write_parts(
    out, "names/.txt", *parts, lambda part: "\n\n".join(part) + "\n"
  )


def question_texts(paragraphs: Iterable[dict]) -> Iterator[str]:
  """Yields the documents of each paragraph of SQuAD, separated by blank lines.

  A question before the paragraph is a document: no answer is told.
  """
  for paragraph in paragraphs:
    body = "\n".join(sentences([paragraph]))
    questions = [" ".join(qa["question"].split()) for qa in paragraph["qas"]]
    yield "\n".join(f"{question}\n{body}\n" for question in questions)


def write_text(
  paths: list[str], paragraphs: list[dict], out: str, most: int | None
) -> None:
  """Writes the text to pre-train on, and what is held out of it.

  Args:
    paths: files with a sentence on each line and blank lines between documents.
    paragraphs: of SQuAD's training file; each is held out with all its
      questions or not at all.
    most: how many documents are read; None: all.
  """
  documents: list[list[str]] = [[]]
  for path in paths:
    for _, line in file_io.read_lines(path):
      if line.strip():
        documents[-1].append(line.strip())
      elif documents[-1]:
        documents.append([])
    documents.append([])
  texts = ["\n".join(lines) + "\n" for lines in documents if lines]
  texts = [*texts, *question_texts(paragraphs)][:most]
  rest = [text for n, text in enumerate(texts) if n % _HELD_OUT]
  for name, chosen in (("held.txt", texts[::_HELD_OUT]), ("train.txt", rest)):
    file_io.write_text(os.path.join(out, "text", name), "\n".join(chosen))
