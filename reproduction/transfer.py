"""Files from the web: resumed where they broke off, checked, never half there.

The bytes of an unfinished file are in NAME.part, and what identifies that
version on the server (its ETag or date) in NAME.part.tag, so that a resumed
transfer never joins the halves of two versions.
"""

import functools
import os
import queue
import threading
import time
import urllib.parse

import requests
import tqdm
from requests import adapters
from urllib3.util import retry

from common import errors, file_io

# Bytes. What was received of a block is lost when the connection ends in it.
_BLOCK = 1 << 16
_TIMEOUT = 30  # Seconds without a byte.
_NETWORK_TIMEOUT = 9  # Seconds until a host must have said anything at all.
_TRIES = 5
# A server that is busy may answer later; one that refuses will not.
_WORTH_ANOTHER_TRY = (408, 425, 429, 500, 502, 503, 504)


def mirrored(url: str, base_url: str | None) -> str:
  """Returns where a mirror has a file: https://a.b/c is BASE_URL/a.b/c."""
  if not base_url:
    return url
  parts = urllib.parse.urlsplit(url)
  return f"{base_url.rstrip('/')}/{parts.netloc}{parts.path}"


def download(file, folder, *, base_url=None, seconds_between_tries=2.0):
  """Brings a file into a folder; one that is there and right is left alone.

  A cut connection is continued up to five times; after that, the next call
  continues.

  Args:
    file: catalog.File.
    folder: existing folder.
    base_url: see `mirrored`.
    seconds_between_tries: before the second try; doubled before each other.

  Returns:
    The path of the file.

  Raises:
    InputError: the server does not give it, or it is not the expected file.
  """
  path = os.path.join(folder, file.name)
  url = mirrored(file.url, base_url)
  if os.path.exists(path):
    _check(path, file, url)
    return path
  _require_network(url, file.url, path)
  session = _session(seconds_between_tries)
  for number in range(1, _TRIES + 1):
    try:
      _transfer(session, url, path, file)
      break
    except requests.RequestException as error:
      # Answers of a server are final, cut connections are not.
      is_final = isinstance(
        error, (requests.HTTPError, requests.exceptions.RetryError)
      )
      if number == _TRIES or is_final:
        raise errors.InputError(_reason(url, path, error)) from error
    time.sleep(seconds_between_tries * 2 ** (number - 1))
  # Before the rename: a file of this name is always the published one.
  _check(path + ".part", file, url)
  os.replace(path + ".part", path)
  file_io.remove(path + ".part.tag")
  return path


def _session(seconds_between_tries):
  """Returns a requests.Session that asks a busy server again."""
  session = requests.Session()
  again = retry.Retry(
    _TRIES - 1, connect=0, read=0, backoff_factor=seconds_between_tries,
    status_forcelist=_WORTH_ANOTHER_TRY,
  )
  for scheme in ("http://", "https://"):
    session.mount(scheme, adapters.HTTPAdapter(max_retries=again))
  return session


def _require_network(url, official, path):
  """Raises InputError within ten seconds if the host of a URL is silent."""
  host = urllib.parse.urljoin(url, "/")
  reason = _unreachable(host)
  if reason:
    raise errors.InputError(
      f"{host} cannot be reached ({reason}). Check the network and "
      "HTTPS_PROXY; or pass --base_url=MIRROR, which has this file as "
      f"{mirrored(official, 'MIRROR')}; or bring {official} by hand to "
      f"{path} and run the same command again"
    )


@functools.cache
def _unreachable(host):
  """Returns why nothing answers at a host, or None if something does."""
  answers = queue.SimpleQueue()

  def ask():
    try:
      # Any answer will do, also a refusal.
      requests.head(host, timeout=_NETWORK_TIMEOUT)
      answers.put(None)
    except requests.ConnectionError:
      answers.put("no connection")
    except requests.RequestException as error:
      answers.put(str(error))

  # Looking up a name has no time-out, and each address of a host one of its
  # own: a thread that may be left behind bounds all of it.
  threading.Thread(target=ask, daemon=True).start()
  try:
    return answers.get(timeout=_NETWORK_TIMEOUT)
  except queue.Empty:
    return f"no answer within {_NETWORK_TIMEOUT} seconds"


def _reason(url, path, error):
  """Returns the sentence for a transfer that failed."""
  there = 0
  if os.path.exists(path + ".part"):
    there = os.path.getsize(path + ".part")
  kept = f"; {there:,} bytes are kept, run the same command again" * (there > 0)
  return f"{url} could not be downloaded: {error}{kept}"


def _transfer(session, url, path, file):
  """Writes what is missing of a file to `path`.part.

  Raises:
    requests.RequestException: it is not complete.
  """
  part, tag_path = path + ".part", path + ".part.tag"
  start = os.path.getsize(part) if os.path.exists(part) else 0
  # Bytes as they are: positions in a compressed answer would mean nothing.
  headers = {"Accept-Encoding": "identity"}
  if start:
    headers["Range"] = f"bytes={start}-"
    if os.path.exists(tag_path):
      with open(tag_path, encoding="utf-8") as stream:
        # The server sends the whole file if it has another version by now.
        headers["If-Range"] = stream.read()
  with session.get(
    url, headers=headers, stream=True, timeout=_TIMEOUT
  ) as response:
    if response.status_code == 416:  # Nothing is missing, or it has shrunk.
      _restart_if_longer(part, response)
      return
    response.raise_for_status()
    if response.status_code != 206:  # The whole file, whatever was asked for.
      start = 0
    length = response.headers.get("Content-Length")
    # Of what is sent now: the rest of the file from `start` on.
    total = None if length is None else start + int(length)
    _write_tag(tag_path, response)
    with open(part, "r+b" if start else "wb") as stream:
      # Over what may be left of a longer answer of before.
      stream.seek(start)
      _copy(response, stream, file.name, start=start, total=total)
  if total is not None and os.path.getsize(part) < total:
    raise requests.ConnectionError(
      f"the connection ended after {os.path.getsize(part):,} of {total:,} bytes"
    )


def _restart_if_longer(part, response):
  """Removes a part that does not fit what the server has now."""
  # Of such a refusal it is "bytes */SIZE".
  total = response.headers.get("Content-Range", "").rpartition("/")[2]
  if total != str(os.path.getsize(part)):
    os.remove(part)
    raise requests.ConnectionError("the file on the server has changed")


def _write_tag(path, response):
  """Keeps what tells this version of the file from others, if anything."""
  # A weak ETag (W/...) may be that of other bytes: it is no use here.
  tag = response.headers.get("ETag", "")
  if not tag or tag.startswith("W/"):
    tag = response.headers.get("Last-Modified", "")
  file_io.remove(path)
  if tag:
    with open(path, "w", encoding="utf-8") as stream:
      stream.write(tag)


def _copy(response, stream, name, *, start, total):
  with tqdm.tqdm(
    desc=name, initial=start, total=total, unit="B", unit_scale=True,
    mininterval=1.0,
  ) as progress:
    for block in response.iter_content(_BLOCK):
      stream.write(block)
      progress.update(len(block))
  # A file of before may have been longer.
  stream.truncate()


def _check(path, file, url):
  """Raises InputError, and removes the file, if it is not the expected one."""
  size, sha256 = file_io.size_and_sha256(path)
  found, expected = None, None
  if file.size is not None and size != file.size:
    found, expected = f"{size:,} bytes", f"{file.size:,}"
  # Not of every file a checksum is published.
  elif file.sha256 and sha256 != file.sha256:
    found, expected = f"SHA-256 {sha256}", file.sha256
  if found:
    os.remove(path)
    file_io.remove(path + ".tag")
    raise errors.InputError(
      f"{url}: got {found}, expected {expected}: another file than the "
      "published one, removed; try again, or another --base_url"
    )
