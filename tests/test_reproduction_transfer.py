"""Files from a server that cuts, changes, refuses and lies."""

import hashlib
import os
import pathlib
import socket

import pytest

import local_server
from common import errors
from reproduction import transfer
from reproduction.catalog import File

DATA = bytes(range(256)) * 2000
KEPT = 2 * (1 << 16)  # Of 150,000 bytes, the blocks that were complete.
SHA256 = hashlib.sha256(DATA).hexdigest()
FILE = File("https://data.example/some/file.bin?alt=media", len(DATA), SHA256)
PATH = "/data.example/some/file.bin"


@pytest.fixture
def server():
  with local_server.serve({PATH: DATA}) as running:
    yield running


def download(server, folder, file=FILE):
  path = transfer.download(
    file, str(folder), base_url=server.url, seconds_between_tries=0.0
  )
  return pathlib.Path(path).read_bytes()


def test_addresses_of_a_mirror():
  assert transfer.mirrored("https://a.b/c/d.zip", None) == "https://a.b/c/d.zip"
  assert transfer.mirrored("https://a.b/c?d=e", "http://m/x/") == (
    "http://m/x/a.b/c"
  )
  assert FILE.name == "file.bin"


def test_a_file_is_brought_once(server, tmp_path):
  for _ in range(2):
    assert download(server, tmp_path) == DATA
  assert os.listdir(tmp_path) == ["file.bin"]
  assert len(server.requests) == 1


@pytest.mark.parametrize("ranges", [True, False])
def test_cut_connections_are_continued(server, tmp_path, ranges):
  server.ranges, server.cuts, server.cut_after = ranges, 3, 150_000
  assert download(server, tmp_path) == DATA
  starts = [wanted for _, wanted in server.requests]
  kept = [KEPT, 2 * KEPT, 3 * KEPT] if ranges else [KEPT] * 3
  assert starts == [None, *(f"bytes={start}-" for start in kept)]
  assert os.listdir(tmp_path) == ["file.bin"]


def test_what_is_there_is_kept_for_the_next_call(server, tmp_path):
  server.cuts, server.cut_after = 100, 70_000
  with pytest.raises(errors.InputError, match="327,680 bytes are kept, run"):
    download(server, tmp_path)
  assert (tmp_path / "file.bin.part").read_bytes() == DATA[: 5 * (1 << 16)]
  server.cuts = 0
  assert download(server, tmp_path) == DATA


def test_halves_of_two_versions_are_never_joined(server, tmp_path):
  server.cuts, server.cut_after = 5, 70_000
  with pytest.raises(errors.InputError):
    download(server, tmp_path)
  server.cuts, server.tag = 0, '"2"'
  server.files[PATH] = DATA[::-1]
  assert download(server, tmp_path, File(FILE.url)) == DATA[::-1]


def test_a_complete_part_needs_no_more_bytes(server, tmp_path):
  (tmp_path / "file.bin.part").write_bytes(DATA)
  assert download(server, tmp_path) == DATA
  os.remove(tmp_path / "file.bin")
  # Longer than the file is now: begun again.
  (tmp_path / "file.bin.part").write_bytes(DATA + b"more")
  assert download(server, tmp_path) == DATA


@pytest.mark.parametrize("file, message", [
  (FILE._replace(size=7), "got 512,000 bytes, expected 7"),
  (FILE._replace(sha256="0" * 64), f"got SHA-256 {SHA256}, expected 000"),
])
def test_another_file_than_the_published_one(server, tmp_path, file, message):
  with pytest.raises(errors.InputError, match=message):
    download(server, tmp_path, file)
  assert not os.listdir(tmp_path)
  (tmp_path / "file.bin").write_bytes(b"other")
  with pytest.raises(errors.InputError, match="expected"):
    download(server, tmp_path, file)


def test_a_busy_server_is_asked_again_a_refusal_counts(server, tmp_path):
  server.statuses = [503, 429]
  download(server, tmp_path)
  assert len(server.requests) == 3
  with pytest.raises(errors.InputError, match="404"):
    download(server, tmp_path, File("https://data.example/none"))
  assert len(server.requests) == 4


def test_no_network_is_a_sentence_that_says_where_to_put_the_file(tmp_path):
  path = tmp_path / "file.bin"
  with pytest.raises(errors.InputError) as caught:
    transfer.download(FILE, str(tmp_path), base_url="http://127.0.0.1:9")
  assert str(caught.value) == (
    "http://127.0.0.1:9/ cannot be reached (no connection). Check the network "
    "and HTTPS_PROXY; or pass --base_url=MIRROR, which has this file as MIRROR"
    f"{PATH}; or bring {FILE.url} by hand to {path} and run the same command "
    "again"
  )
  path.write_bytes(DATA)
  assert transfer.download(FILE, str(tmp_path), base_url="http://127.0.0.1:9")


def test_a_network_that_is_silent_is_not_waited_for(tmp_path, monkeypatch):
  monkeypatch.setattr(transfer, "_TIMEOUT", (0.1, 0.1))
  with socket.create_server(("127.0.0.1", 0)) as silent:
    url = f"http://127.0.0.1:{silent.getsockname()[1]}"
    with pytest.raises(errors.InputError, match=r"cannot be reached .*\b0\.1"):
      transfer.download(FILE, str(tmp_path), base_url=url)
