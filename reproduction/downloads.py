"""Downloads, unpacks and prepares models and data sets, one folder for each.

A folder is prepared inside .NAME.part and renamed to NAME at the end, so a
folder with the final name is complete. No TensorFlow is imported here.
"""

import os
import re
import secrets
import shutil
import tarfile
import tempfile
import time
import urllib.parse
import zipfile
import zlib
from collections.abc import Iterable, Iterator

import requests
import tqdm

from common import errors, file_io, json_files
from reproduction import catalog

# This file marks a folder that download.py created, and lists its source files.
_RECORD = "download.json"
_ARCHIVES = (".zip", ".tar.gz")
# Errors of shutil.unpack_archive for a damaged archive or a full disk. For a
# password or an unknown compression, zipfile raises the last two.
_FAULTS = (
  zipfile.BadZipFile,
  tarfile.TarError,
  zlib.error,
  EOFError,
  OSError,
  RuntimeError,
  NotImplementedError,
)
# The start of a web page, after white space.
_PAGE = re.compile(rb"\s*(<!doctype html|<html|<\?xml)", re.IGNORECASE)
_ANONYMOUS = f"top-{secrets.token_hex(8)}"  # No archive can know this name.
_WEIGHTS = (".index", ".safetensors", ".bin")
_TIMEOUT = 9, 30  # Seconds to connect, and to wait for the next byte.
_TRIES = 5
_PAUSE = 2.0  # Seconds before the second try; doubled for each later try.
# HTTP statuses after which a retry can succeed.
_BUSY = (408, 425, 429, 500, 502, 503, 504)


def fetch(
  entry: catalog.Entry, folder: str, base_url: str | None = None
) -> tuple[str, bool]:
  """Creates an entry's folder inside `folder`, unless it exists.

  Returns its path, and whether it was created now. Raises InputError: a file
  cannot be downloaded or unpacked, files are missing or differ from the
  published ones, or another file or folder has its name.
  """
  target = os.path.join(folder, entry.name)
  # The record is written before the folder gets its final name.
  if os.path.exists(os.path.join(target, _RECORD)):
    return target, False
  if os.path.exists(target):
    raise errors.InputError(
      f"{target} is not from download.py: remove it or choose another --dir"
    )
  part = os.path.join(folder, f".{entry.name}.part")
  os.makedirs(part, exist_ok=True)
  paths = [download(file, part, base_url) for file in entry.files]
  ready = os.path.join(part, "ready")
  shutil.rmtree(ready, ignore_errors=True)  # From an interrupted run.
  os.makedirs(ready)
  # If there are several archives, each gets a folder with its name.
  several = sum(path.endswith(_ARCHIVES) for path in paths) > 1
  for path in paths:
    name = re.sub(r"(\.tar)?\.\w+$", "", os.path.basename(path))
    if path.endswith(_ARCHIVES):
      unpack(path, os.path.join(ready, name) if several else ready)
    else:
      shutil.copy(path, ready)
  try:
    if entry.name == "mrpc":
      split_mrpc(ready)
    if entry.name.startswith("wikitext-"):
      split_wikitext(ready)
    check_folder(entry, ready)
  except errors.InputError:
    for path in paths:  # The same command downloads them again.
      file_io.remove(path)
    raise
  urls = [file.url for file in entry.files]
  record = {"name": entry.name, "licence": entry.licence, "files": urls}
  json_files.write(os.path.join(ready, _RECORD), record)
  # Delete the archives last, so that an interrupted run can use them again.
  os.rename(ready, target)
  shutil.rmtree(part)
  return target, True


def check_folder(entry: catalog.Entry, folder: str) -> None:
  """Checks the files of a download.

  Raises InputError: a file is missing, is empty, or differs from the published
  file.
  """
  names = [
    os.path.relpath(os.path.join(top, name), folder)
    for top, _, names in os.walk(folder)
    for name in names
  ]
  if not any(os.path.getsize(os.path.join(folder, name)) for name in names):
    raise errors.InputError(_incomplete(entry, "it has no file with content"))
  if entry.bytes_after:
    for content, endings in (("weights", _WEIGHTS), ("configuration", ".json")):
      if not any(name.endswith(endings) for name in names):
        raise errors.InputError(_incomplete(entry, f"it has no {content}"))
  for name in {**entry.rows, **entry.sums}:
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
      raise errors.InputError(_incomplete(entry, f"{name} is missing"))
    expected = entry.sums.get(name)
    if expected and file_io.size_and_sha256(path)[1] != expected:
      reason = f"the SHA-256 of {name} differs from that of the published file"
      raise errors.InputError(_incomplete(entry, reason))


def _incomplete(entry: catalog.Entry, reason: str) -> str:
  urls = ", ".join(file.url for file in entry.files)
  return (
    f"{entry.name} is not what was published: {reason}; its files were removed "
    f"({urls}); try again, or pass another --base_url"
  )


# Files.


def mirrored(url: str, base_url: str | None) -> str:
  """Returns a file's URL on a mirror: BASE_URL/a.b/c for https://a.b/c."""
  if not base_url:
    return url
  parts = urllib.parse.urlsplit(url)
  return f"{base_url.rstrip('/')}/{parts.netloc}{parts.path}"


def download(
  file: catalog.File,
  folder: str,
  base_url: str | None = None,
  other_source: str = "",
) -> str:
  """Downloads a file to a folder, unless it exists; returns its path.

  `other_source` advises on mirrors, for commands without --base_url.

  If the connection breaks or the server is busy, this function tries up to five
  times, and resumes archives. Raises InputError: the server cannot be reached,
  lacks the file, or sends a different file.
  """
  path, url = os.path.join(folder, file.name), mirrored(file.url, base_url)
  other = other_source or (
    "pass --base_url=MIRROR for a mirror that has the file as "
    f"{mirrored(file.url, 'MIRROR')}"
  )
  if os.path.exists(path):
    _check(path, file, url, other)
    return path
  part = path + ".part"
  for number in range(_TRIES):
    try:
      _transfer(url, part)
      break
    # requests raises a ValueError for a redirect to something that is no URL.
    except (requests.RequestException, ValueError) as error:
      # Retry if the server is busy, or if it has sent part of the file.
      response = getattr(error, "response", None)
      status = response is not None and response.status_code
      can_succeed = status in _BUSY if status else os.path.exists(part)
      if number == _TRIES - 1 or not can_succeed:
        is_offline = type(error) is requests.ConnectionError
        raise errors.InputError(
          f"{url} could not be downloaded "
          f"({'no connection' if is_offline else error}). Check the network "
          f"and HTTPS_PROXY, and run the same command again; or {other}; or "
          f"copy {file.url} by hand to {path}"
        ) from error
    time.sleep(_PAUSE * 2**number)
  # Check before the rename: only a checked file gets the final name.
  _check(part, file, url, other)
  os.replace(part, path)
  return path


def _transfer(url: str, part):
  """Downloads a file, or the rest of it; raises RequestException."""
  headers, start = {"Accept-Encoding": "identity"}, 0
  # Resume only archives: unpacking them reveals a file that changed meanwhile.
  if part.removesuffix(".part").endswith(_ARCHIVES) and os.path.exists(part):
    start = os.path.getsize(part)
    headers["Range"] = f"bytes={start}-"
  with requests.get(
    url, headers=headers, stream=True, timeout=_TIMEOUT
  ) as response:
    # The part is not shorter than the file.
    if response.status_code == 416 and start:
      os.remove(part)
      _transfer(url, part)
      return
    response.raise_for_status()
    start *= response.status_code == 206  # 200: the whole file.
    length = response.headers.get("Content-Length", "")
    total = start + (int(length) if re.fullmatch(r"[0-9]{1,18}", length) else 0)
    with (
      file_io.named(part),
      open(part, "ab" if start else "wb") as stream,
      tqdm.tqdm(
        desc=os.path.basename(part).removesuffix(".part"),
        initial=start,
        total=total or None,
        unit="B",
        unit_scale=True,
        mininterval=1.0,
      ) as progress,
    ):
      for block in response.iter_content(1 << 16):
        stream.write(block)
        progress.update(len(block))


def _check(path: str, file: catalog.File, url: str, other: str) -> None:
  """Removes the file and raises InputError if it is not the expected file."""
  with open(path, "rb") as stream:
    is_page = _PAGE.match(stream.read(200))
  if is_page:
    os.remove(path)
    raise errors.InputError(
      f"{url}: got a web page instead of the file, as networks that need a "
      "login send it; open the address in a browser, then run the same command "
      "again"
    )
  size, sha256 = file_io.size_and_sha256(path)
  # Some files have no published size or checksum.
  if file.size not in (0, size):
    got, expected = f"{size:,} bytes", f"{file.size:,}"
  elif file.sha256 not in ("", sha256):
    got, expected = f"SHA-256 {sha256}", file.sha256
  else:
    return
  os.remove(path)
  raise errors.InputError(
    f"{url}: got {got}, expected {expected}; the file differs from the "
    f"published file and was removed; try again, or {other}"
  )


# Folders.


def unpack(path: str, folder: str) -> None:
  """Unpacks an archive into a folder, without the archive's only top folder.

  Raises InputError: the archive is damaged or too large for the disk, a .tar
  member is a device or would be outside the folder, a link would point out of
  it, or Python is too old.
  """
  if not hasattr(tarfile, "data_filter"):
    raise errors.InputError(
      "unpacking archives safely needs Python 3.10.12, 3.11.4 or later"
    )
  # For a .zip, shutil skips paths outside the folder and writes links as files.
  options: dict = {} if path.endswith(".zip") else {"filter": "data"}
  with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as top:
    try:
      shutil.unpack_archive(path, top, **options)
    except _FAULTS as error:
      reason = " ".join(str(error).split())  # TarErrors can have several lines.
      raise errors.InputError(
        f"{path} cannot be unpacked ({reason}); remove it and download it again"
      ) from error
    # macOS adds these files to archives.
    names = {*os.listdir(top)} - {"__MACOSX", ".DS_Store"}
    # Most archives of the original and of GLUE have one folder at the top.
    if len(names) == 1 and os.path.isdir(os.path.join(top, *names)):
      # Under another name, links to ../NAME/file are links to outside.
      named, top = os.path.join(top, *names), os.path.join(top, _ANONYMOUS)
      os.rename(named, top)
    _refuse_links_out_of(top, path)
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(top):
      shutil.move(os.path.join(top, name), folder)


def _refuse_links_out_of(folder: str, archive: str) -> None:
  """Raises InputError if a link below a folder points out of this folder.

  The filter of tarfile checks the archive's links before its only top folder is
  dropped: a link from a/b to ../c was inside then.
  """
  root = os.path.realpath(folder)
  for top, folders, names in os.walk(folder):
    for name in (*folders, *names):
      path = os.path.join(top, name)
      target = os.path.realpath(path)
      if os.path.islink(path) and os.path.commonpath([root, target]) != root:
        raise errors.InputError(
          f"{archive} cannot be unpacked: its link "
          f"{os.path.relpath(path, folder)} points out of the folder "
          f"({os.readlink(path)}); download it from another --base_url"
        )


def split_mrpc(folder: str) -> None:
  """Writes train.tsv, dev.tsv and test.tsv from the official MRPC files.

  GLUE's dev set has the pairs of the official training set whose ids are in
  mrpc_dev_ids.tsv. In GLUE's test set, an index replaces the official label.
  """
  dev_ids = _lines(folder, "mrpc_dev_ids.tsv")
  header, *rows = _lines(folder, "msr_paraphrase_train.txt")
  test_header, *test = _lines(folder, "msr_paraphrase_test.txt")
  test_header = test_header.replace("Quality", "index")
  # The second and the third column have the ids of the pair.
  is_dev = ["\t".join(row.split("\t")[1:3]) in dev_ids for row in rows]
  for name, lines in {
    "train": [header, *(row for row, dev in zip(rows, is_dev) if not dev)],
    "dev": [header, *(row for row, dev in zip(rows, is_dev) if dev)],
    "test": [test_header]
    + [f"{n}\t" + row.partition("\t")[2] for n, row in enumerate(test)],
  }.items():
    text = "".join(f"{line}\n" for line in lines)
    file_io.write_text(os.path.join(folder, f"{name}.tsv"), text)


def _lines(folder: str, name: str) -> list:
  path = os.path.join(folder, name)
  lines = (line.removesuffix("\r") for _, line in file_io.read_lines(path))
  return [line for line in lines if line]


def split_wikitext(folder: str) -> None:
  """Writes train.txt, valid.txt and test.txt from WikiText's raw files.

  The new files have one sentence per line, and a blank line between articles.
  Titles and headings are omitted. A line of the raw files is a paragraph with
  spaces around punctuation, so a separate `.`, `!` or `?` ends a sentence.
  """
  for part in ("train", "valid", "test"):
    path = os.path.join(folder, f"wiki.{part}.raw")
    target = os.path.join(folder, f"{part}.txt")
    with file_io.open_for_writing(target) as stream:
      for text in _sentences(file_io.read_lines(path)):
        stream.write(text.encode("utf-8"))
    file_io.remove(path)


def _sentences(lines: Iterable[tuple[int, str]]) -> Iterator[str]:
  """Yields paragraphs, one sentence per line, and a blank line per article."""
  for _, line in lines:
    # "= Title =", "= = Heading = =".
    heading = re.fullmatch(r" *(= )+.*?(= *)+", line)
    if heading and not line.lstrip().startswith("= ="):
      yield "\n"
    elif line.strip() and not heading:
      # Punctuation within a word: "well @-@ known", "1 @,@ 000".
      text = re.sub(r" @(\W)@ ", r"\1", line.strip())
      yield re.sub(r"(?<= [.!?]) ", "\n", text) + "\n"
