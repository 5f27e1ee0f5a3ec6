"""Downloads files: resumes interrupted transfers and checks complete files.

NAME.part has the bytes of an incomplete file, and NAME.part.tag identifies its
version on the server (by ETag or date), so that a resumed transfer never joins
parts of two versions.
"""

import os
import pathlib
import time
import urllib.parse

import requests
import tqdm

from common import errors, file_io
from reproduction import catalog

# Bytes to read at a time. An incomplete block is lost if the connection ends.
_BLOCK = 1 << 16
_TIMEOUT = 9, 30  # Seconds for a connection, and for the next byte.
_TRIES = 5
# HTTP statuses after which a retry can succeed.
_BUSY = (408, 425, 429, 500, 502, 503, 504)


class _Unreachable(requests.RequestException):
  """The host does not answer."""


def mirrored(url: str, base_url: str | None) -> str:
  """Returns a file's URL on a mirror: BASE_URL/a.b/c for https://a.b/c."""
  if not base_url:
    return url
  parts = urllib.parse.urlsplit(url)
  return f"{base_url.rstrip('/')}/{parts.netloc}{parts.path}"


def download(
  file: catalog.File, folder: str, *, base_url: str | None = None,
  seconds_between_tries: float = 2.0,
) -> str:
  """Downloads a file to a folder, unless it exists; returns its path.

  If a connection ends or the server is busy, it tries up to five times, with
  pauses that double; another call then continues. Raises InputError: the server
  does not have the file, or sends another file than expected.
  """
  path = os.path.join(folder, file.name)
  part, url = path + ".part", mirrored(file.url, base_url)
  if os.path.exists(path):
    _check(path, file, url)
    return path
  for number in range(_TRIES):
    try:
      _transfer(url, part)
      break
    except _Unreachable as error:
      raise errors.InputError(
        f"{urllib.parse.urljoin(url, '/')} cannot be reached ({error}). Check "
        "the network and HTTPS_PROXY; or pass --base_url=MIRROR, which has "
        f"this file as {mirrored(file.url, 'MIRROR')}; or bring {file.url} by "
        f"hand to {path} and run the same command again"
      ) from error
    except requests.RequestException as error:
      is_refused = (
        error.response is not None and error.response.status_code not in _BUSY
      )
      if is_refused or number == _TRIES - 1:
        kept = _size(part) and (
          f"; {_size(part):,} bytes are kept, run the same command again"
        )
        raise errors.InputError(
          f"{url} could not be downloaded: {error}{kept or ''}"
        ) from error
    time.sleep(seconds_between_tries * 2**number)
  # Check before the rename: a file with this name is always the published file.
  _check(part, file, url)
  os.replace(part, path)
  file_io.remove(part + ".tag")
  return path


def _size(path):
  return os.path.getsize(path) if os.path.exists(path) else 0


def _transfer(url, part):
  """Downloads the rest of a file; raises RequestException if it ends early."""
  start, tag = _size(part), part + ".tag"
  # Ranges need the bytes of the file, not of a compressed answer.
  headers = {"Accept-Encoding": "identity"}
  if start:
    headers["Range"] = f"bytes={start}-"
    if os.path.exists(tag):
      # The server sends the whole file if its version has changed.
      headers["If-Range"] = pathlib.Path(tag).read_text(encoding="utf-8")
  try:
    response = requests.get(
      url, headers=headers, stream=True, timeout=_TIMEOUT
    )
  except (requests.ConnectionError, requests.Timeout) as error:
    # Retry only for a host that has already sent a part: retries take minutes.
    if start:
      raise
    is_silent = isinstance(error, requests.Timeout)
    raise _Unreachable(error if is_silent else "no connection") from error
  with response:
    if response.status_code == 416:  # The part is complete or too long.
      # Status 416 has the header "bytes */SIZE".
      if response.headers.get("Content-Range", "") != f"bytes */{start}":
        os.remove(part)
        raise requests.ConnectionError("the file on the server has changed")
      return
    response.raise_for_status()
    if response.status_code != 206:  # The server sends the whole file.
      start = 0
    file_io.remove(tag)
    # Ignore a weak ETag (W/...), which does not guarantee equal bytes.
    for version in map(response.headers.get, ("Last-Modified", "ETag")):
      if version and not version.startswith("W/"):
        file_io.write_text(tag, version)
    _copy(response, part, start)


def _copy(response, part, start):
  """Writes a response to a file from offset `start`, with a progress bar."""
  length = response.headers.get("Content-Length")
  # Content-Length is the length of the file after `start`.
  total = None if length is None else start + int(length)
  with open(part, "ab" if start else "wb") as stream, tqdm.tqdm(
    desc=os.path.basename(part).removesuffix(".part"), initial=start,
    total=total, unit="B", unit_scale=True, mininterval=1.0,
  ) as progress:
    for block in response.iter_content(_BLOCK):
      stream.write(block)
      progress.update(len(block))
  if total is not None and _size(part) < total:
    raise requests.ConnectionError(
      f"the connection ended after {_size(part):,} of {total:,} bytes"
    )


def _check(path, file, url):
  """Removes the file and raises InputError if it is not the expected file."""
  size, sha256 = file_io.size_and_sha256(path)
  if file.size not in (None, size):
    found, expected = f"{size:,} bytes", f"{file.size:,}"
  # Some files have no published checksum.
  elif file.sha256 not in (None, sha256):
    found, expected = f"SHA-256 {sha256}", file.sha256
  else:
    return
  os.remove(path)
  file_io.remove(path + ".tag")
  raise errors.InputError(
    f"{url}: got {found}, expected {expected}: another file than the "
    "published one, removed; try again, or another --base_url"
  )
