"""A folder for each model and data set: downloaded, unpacked, made ready.

Everything happens in .NAME.part next to the folder, which gets its name at
the very end: a folder called NAME is complete.
"""

import os
import re
import shutil

from common import errors, file_io, json_files
from reproduction import archives, catalog, transfer

# Says that a folder is one of ours, and of which files it was made.
_RECORD = "download.json"


def fetch(
  entry: catalog.Entry, folder: str, *, base_url: str | None = None, **options
) -> tuple[str, bool]:
  """Makes the folder of an entry, unless it is there already.

  Args:
    entry: model or data set.
    folder: where its folder is to be; made if need be.
    base_url: see transfer.mirrored.
    **options: of transfer.download.

  Returns:
    (path of its folder, whether anything was done).

  Raises:
    InputError: it cannot be had, or something else has its name.
  """
  target = os.path.join(folder, entry.name)
  # The record is in the folder before the folder has its name.
  if os.path.exists(os.path.join(target, _RECORD)):
    return target, False
  if os.path.exists(target):
    raise errors.InputError(
      f"{target} is there, but download.py did not make it: remove it or "
      "choose another --dir"
    )
  part = os.path.join(folder, f".{entry.name}.part")
  os.makedirs(part, exist_ok=True)
  paths = [
    transfer.download(file, part, base_url=base_url, **options)
    for file in entry.files
  ]
  ready = os.path.join(part, "ready")
  shutil.rmtree(ready, ignore_errors=True)  # Of an interrupted run.
  os.makedirs(ready)
  _make_ready(entry, paths, ready)
  # The archives go only after it: an interrupted run does not load them again.
  os.rename(ready, target)
  shutil.rmtree(part)
  return target, True


def _make_ready(entry, paths, folder):
  """Fills a new folder with the files of an entry, as the scripts read them."""
  # Several archives of one data set stay separate, in folders of their names.
  several = sum(archives.is_archive(path) for path in paths) > 1
  for path in paths:
    name = os.path.basename(path)
    if not archives.is_archive(path):
      shutil.copyfile(path, os.path.join(folder, name))
      continue
    inside = folder
    if several:
      inside = os.path.join(folder, re.sub(r"(\.tar)?\.\w+$", "", name))
      os.makedirs(inside)
    archives.unpack(path, inside)
  if entry.prepare:
    PREPARATIONS[entry.prepare](folder)
  record = {
    "name": entry.name,
    "licence": entry.licence,
    "files": [file.url for file in entry.files],
  }
  json_files.write(os.path.join(folder, _RECORD), record)


def _split_mrpc(folder):
  """Makes train.tsv, dev.tsv and test.tsv of the official MRPC files.

  GLUE's dev set is those pairs of the official training set whose two ids
  mrpc_dev_ids.tsv lists; its test set has the official test pairs numbered.
  """
  dev_ids = _lines(folder, "mrpc_dev_ids.tsv")
  header, *rows = _lines(folder, "msr_paraphrase_train.txt")
  test_header, *test = _lines(folder, "msr_paraphrase_test.txt")
  parts = {"train.tsv": [header], "dev.tsv": [header]}
  for row in rows:
    # The second and the third column are the ids of the pair.
    is_dev = "\t".join(row.split("\t")[1:3]) in dev_ids
    parts["dev.tsv" if is_dev else "train.tsv"].append(row)
  # The published files begin with a byte order mark.
  parts["test.tsv"] = [test_header.replace("Quality", "index").lstrip("\ufeff")]
  for number, row in enumerate(test):
    parts["test.tsv"].append(f"{number}\t" + row.partition("\t")[2])
  for name, lines in parts.items():
    text = "".join(f"{line}\n" for line in lines)
    file_io.write_text(os.path.join(folder, name), text)


def _lines(folder, name):
  with open(os.path.join(folder, name), encoding="utf-8", newline="") as stream:
    # Not splitlines, which ends lines at other separators of Unicode, too.
    return stream.read().replace("\r\n", "\n").rstrip("\n").split("\n")


# What is made of the files once they are there.
PREPARATIONS = {"mrpc": _split_mrpc}


def flags_to_paste(entry: catalog.Entry, folder: str) -> list[str]:
  """Returns the flags that make the scripts use an entry's folder."""
  if entry.program:
    names = os.listdir(folder)
    configs = ("bert_config.json", "config.json")
    config = next(name for name in configs if name in names)
    # A TF1 checkpoint is named by its prefix, Hugging Face's by its folder.
    prefixes = [name for name in names if name.endswith(".index")]
    weights = folder
    if prefixes:
      weights = os.path.join(folder, prefixes[0].removesuffix(".index"))
    flags = [
      f"--vocab_file={os.path.join(folder, 'vocab.txt')}",
      f"--bert_config_file={os.path.join(folder, config)}",
      f"--init_checkpoint={weights}",
    ]
    return flags + ["--do_lower_case=false"] * entry.cased
  if entry.task:
    return [f"--task_name={entry.task}", f"--data_dir={folder}"]
  train, dev = (os.path.join(folder, file.name) for file in entry.files)
  flags = [f"--train_file={train}", f"--predict_file={dev}"]
  return flags + ["--version_2_with_negative"] * (entry.name == "squad2")


def total_size(entry: catalog.Entry) -> tuple[int | None, bool]:
  """Returns (bytes, whether they are exact) of an entry; (None, False)."""
  sizes = [file.size for file in entry.files if file.size is not None]
  if len(sizes) == len(entry.files):
    return sum(sizes), True
  return entry.bytes_after, False
