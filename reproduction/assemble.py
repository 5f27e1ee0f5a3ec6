"""Makes a folder for each model and data set: download, unpack, prepare.

The folder is made as .NAME.part and renamed to NAME as the last step, so a
folder with the final name is complete.
"""

import os
import re
import shutil

from common import errors, file_io, json_files
from reproduction import archives, catalog, transfer

# This file marks a folder of download.py, and lists its source files.
_RECORD = "download.json"


def fetch(
  entry: catalog.Entry, folder: str, *, base_url: str | None = None
) -> tuple[str, bool]:
  """Makes a folder for an entry inside `folder`, unless it exists.

  Returns its path, and whether it was made now. Raises InputError: the entry is
  not available, or another file or folder has its name.
  """
  target = os.path.join(folder, entry.name)
  # The record is written before the folder gets its final name.
  if os.path.exists(os.path.join(target, _RECORD)):
    return target, False
  if os.path.exists(target):
    raise errors.InputError(
      f"{target} is not made by download.py: remove it or choose another --dir"
    )
  part = os.path.join(folder, f".{entry.name}.part")
  os.makedirs(part, exist_ok=True)
  paths = [
    transfer.download(file, part, base_url=base_url) for file in entry.files
  ]
  ready = os.path.join(part, "ready")
  shutil.rmtree(ready, ignore_errors=True)  # From an interrupted run.
  os.makedirs(ready)
  _make_ready(entry, paths, ready)
  # Delete the archives last: after an interruption they are still there.
  os.rename(ready, target)
  shutil.rmtree(part)
  return target, True


def _make_ready(entry, paths, folder):
  """Fills a new folder with an entry's files in the form that scripts read."""
  # Each of several archives gets a folder with its name.
  several = sum(archives.is_archive(path) for path in paths) > 1
  for path in paths:
    target = os.path.join(folder, os.path.basename(path))
    if not archives.is_archive(path):
      shutil.copyfile(path, target)
      continue
    inside = re.sub(r"(\.tar)?\.\w+$", "", target) if several else folder
    os.makedirs(inside, exist_ok=True)
    archives.unpack(path, inside)
  if entry.name == "mrpc":
    split_mrpc(folder)
  if _is_text(entry):
    split_wikitext(folder)
  json_files.write(os.path.join(folder, _RECORD), {
    "name": entry.name, "licence": entry.licence,
    "files": [file.url for file in entry.files],
  })


def split_mrpc(folder: str) -> None:
  """Makes train.tsv, dev.tsv and test.tsv from the official MRPC files.

  GLUE's dev set has the pairs of the official training set whose ids are in
  mrpc_dev_ids.tsv. Its test set numbers the official test pairs.
  """
  dev_ids = _lines(folder, "mrpc_dev_ids.tsv")
  header, *rows = _lines(folder, "msr_paraphrase_train.txt")
  test_header, *test = _lines(folder, "msr_paraphrase_test.txt")
  # The published files begin with a byte order mark.
  test_header = test_header.replace("Quality", "index").lstrip("\ufeff")
  # The second and the third column have the ids of the pair.
  is_dev = ["\t".join(row.split("\t")[1:3]) in dev_ids for row in rows]
  for name, lines in {
    "train": [header, *(row for row, dev in zip(rows, is_dev) if not dev)],
    "dev": [header, *(row for row, dev in zip(rows, is_dev) if dev)],
    "test": [test_header] + [
      f"{n}\t" + row.partition("\t")[2] for n, row in enumerate(test)
    ],
  }.items():
    text = "".join(f"{line}\n" for line in lines)
    file_io.write_text(os.path.join(folder, f"{name}.tsv"), text)


def _is_text(entry):
  """Returns whether an entry is text for pre-training."""
  return entry.name.startswith("wikitext-")


def split_wikitext(folder: str) -> None:
  """Makes train.txt, valid.txt and test.txt from WikiText's raw files.

  In the result, a line is a sentence, and a blank line separates articles;
  titles and headings are omitted. A published line is a paragraph with spaces
  around all punctuation; a separate `.`, `!` or `?` ends a sentence.
  """
  for part in ("train", "valid", "test"):
    path = os.path.join(folder, f"wiki.{part}.raw")
    target = os.path.join(folder, f"{part}.txt")
    with file_io.open_for_writing(target) as stream:
      for text in _sentences(file_io.read_lines(path)):
        stream.write(text.encode("utf-8"))
    file_io.remove(path)


def _sentences(lines):
  """Yields lines of sentences, and a blank line before each article."""
  for _, line in lines:
    # "= Title =", "= = Heading = =".
    heading = re.fullmatch(r" *(= )+.*?(= *)+", line)
    if heading and not line.lstrip().startswith("= ="):
      yield "\n"
    elif line.strip() and not heading:
      # Punctuation within a word: "well @-@ known", "1 @,@ 000".
      text = re.sub(r" @(\W)@ ", r"\1", line.strip())
      yield re.sub(r"(?<= [.!?]) ", "\n", text) + "\n"


def _lines(folder, name):
  path = os.path.join(folder, name)
  lines = (line.removesuffix("\r") for _, line in file_io.read_lines(path))
  return [line for line in lines if line]


def flags_to_paste(entry: catalog.Entry, folder: str) -> list[str]:
  """Returns the flags with which scripts use an entry's folder."""
  if entry.program:
    case = ["--do_lower_case=false"] if entry.cased else []
    return [f"--model_dir={folder}", *case]
  if entry.task:
    return [f"--task_name={entry.task}", f"--data_dir={folder}"]
  if _is_text(entry):
    return [f"--input_file={os.path.join(folder, 'train.txt')}"]
  train, dev = (os.path.join(folder, file.name) for file in entry.files)
  nulls = ["--version_2_with_negative"] if entry.name == "squad2" else []
  return [f"--train_file={train}", f"--predict_file={dev}", *nulls]
