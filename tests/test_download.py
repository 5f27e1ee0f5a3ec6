"""download.py with a local mirror, a faulty server and bad archives."""

import contextlib
import hashlib
import io
import json
import os
import pathlib
import socket
import tarfile
import zipfile

import pytest

import local_server
import script_runner
from checkpoints import model_files, weight_files
from classification import glue
from common import errors
from reproduction import catalog, downloads, hub

GOLDEN = script_runner.ROOT / "tests" / "golden" / "pretraining_run" / "model"
MODEL = "uncased_L-2_H-128_A-2"
MODEL_PATH = f"/storage.googleapis.com/bert_models/2020_02_20/{MODEL}.zip"
DATA = bytes(range(256)) * 2000
SHA256 = hashlib.sha256(DATA).hexdigest()
URL = "https://data.example/some/file.zip"
FILE = catalog.File(f"{URL}?alt=media", len(DATA), SHA256)
PATH = "/data.example/some/file.zip"


def zipped(files):
  data = io.BytesIO()
  with zipfile.ZipFile(data, "w") as archive:
    for name, content in files.items():
      archive.writestr(name, content)
  return data.getvalue()


def test_a_model_is_downloaded_once(tmp_path):
  # As in the original's zip: one folder of weights, configuration, vocabulary.
  release = zipped(
    {f"{MODEL}/{path.name}": path.read_bytes() for path in GOLDEN.iterdir()}
  )
  with local_server.serve({MODEL_PATH: release}) as server:
    server.cuts, server.cut_after = 1, 1000
    flags = {"dir": tmp_path / "d", "model": MODEL, "base_url": server.url}
    finished = script_runner.succeed("download.py", **flags)
    assert f"{MODEL}: downloaded. Flags for the scripts:" in finished.out
    folder = tmp_path / "d" / MODEL
    assert f"  --model_dir={folder}\n" in finished.out
    paths = model_files.ModelFiles(str(folder)).paths
    assert paths["vocab_file"] == f"{folder}/vocab.txt"
    assert weight_files.find_prefix(paths["init_checkpoint"])
    num_requests = len(server.requests)
    finished = script_runner.succeed("download.py", **flags)
    assert f"{MODEL}: already there" in finished.out
    assert len(server.requests) == num_requests
  assert [path.name for path in (tmp_path / "d").iterdir()] == [MODEL]


def test_list_and_mistakes(tmp_path):
  finished = script_runner.succeed("download.py", list=True)
  for name in (*catalog.MODELS, *catalog.DATA, *catalog.ELSEWHERE):
    assert f"  {name}" in finished.out
  rows = {line.split()[0]: line.split() for line in finished.out.splitlines()}
  for name, *facts in [
    # The size after unpacking, the sum of all files, or neither is known.
    ("uncased_L-12_H-768_A-12", "~440.4", "MB", "sha256", "original"),
    ("wwm_cased_L-24_H-1024_A-16", "~1,338.6", "MB", "original"),
    ("mrpc", "1.5", "MB", "sha256"),
    ("xnli", "size", "unknown"),
  ]:
    assert rows[name][1 : 1 + len(facts)] == facts
  for flags, message in [
    ({}, "nothing to do: pass --model, --data or --list"),
    ({"model": "bert"}, "--model=bert is unknown; --list prints all names"),
    ({"data": "conll2003"}, "need an agreement with NIST"),
  ]:
    script_runner.refuse("download.py", message, dir=tmp_path / "d", **flags)
  assert not (tmp_path / "d").exists()


def test_the_name_of_a_group_stands_for_its_data_sets(tmp_path):
  with local_server.serve({}) as server:
    flags = {"dir": tmp_path, "data": "squad", "base_url": server.url}
    script_runner.refuse("download.py", "train-v1.1.json", **flags)


@pytest.fixture
def server(monkeypatch):
  monkeypatch.setattr(downloads, "_PAUSE", 0.0)
  with local_server.serve({PATH: DATA, "/data.example/table": DATA}) as running:
    yield running


def download(server, folder, file=FILE):
  return pathlib.Path(
    downloads.download(file, str(folder), server.url)
  ).read_bytes()


@pytest.mark.parametrize(
  "name, starts",
  [
    # A zip file, which has checksums, resumes after a block; a table restarts.
    ("some/file.zip", [131_072, 262_144, 393_216]),
    ("table", [None] * 3),
  ],
)
def test_cut_downloads_are_continued(
  server, tmp_path, monkeypatch, name, starts
):
  pauses = []
  monkeypatch.setattr(downloads, "_PAUSE", 3)
  monkeypatch.setattr(downloads.time, "sleep", pauses.append)
  server.cuts, server.cut_after = 3, 150_000
  file = catalog.File(f"https://data.example/{name}")
  assert download(server, tmp_path, file) == DATA
  assert [byte_range for _, byte_range in server.requests] == [
    None,
    *(start and f"bytes={start}-" for start in starts),
  ]
  assert os.listdir(tmp_path) == [file.name] and pauses == [3, 6, 12]


def test_another_command_continues_an_archive(server, tmp_path):
  server.cuts, server.cut_after = 5, 70_000
  with pytest.raises(errors.InputError, match="70000 bytes read, 179856 more"):
    download(server, tmp_path)
  assert (tmp_path / "file.zip.part").read_bytes() == DATA[: 5 * (1 << 16)]
  assert download(server, tmp_path) == DATA
  # If the partial file is as long as the whole, the download starts again.
  os.rename(tmp_path / "file.zip", tmp_path / "file.zip.part")
  assert download(server, tmp_path) == DATA


def test_a_server_that_sends_only_whole_files_is_asked_for_one(
  server, tmp_path
):
  server.has_ranges = False
  server.cuts, server.cut_after = 1, 150_000
  assert download(server, tmp_path) == DATA
  assert [byte_range for _, byte_range in server.requests] == [
    None,
    "bytes=131072-",
  ]


@pytest.mark.parametrize(
  "file, message",
  [
    (FILE._replace(size=7), "got 512,000 bytes, expected 7"),
    (FILE._replace(sha256="0" * 64), f"got SHA-256 {SHA256}, expected 000"),
  ],
)
def test_a_changed_file_is_refused(server, tmp_path, file, message):
  with pytest.raises(errors.InputError, match=message):
    download(server, tmp_path, file)
  assert not os.listdir(tmp_path)
  (tmp_path / "file.zip").write_bytes(b"other")
  with pytest.raises(errors.InputError, match="expected"):
    download(server, tmp_path, file)


def test_a_busy_server_is_asked_again_but_not_after_404(server, tmp_path):
  server.statuses = [503, 429]
  download(server, tmp_path)
  assert len(server.requests) == 3
  with pytest.raises(errors.InputError, match="404"):
    download(server, tmp_path, catalog.File("https://data.example/none"))
  assert len(server.requests) == 4


@pytest.mark.parametrize(
  "status, is_busy",
  [
    *((status, True) for status in (408, 425, 429, 500, 502, 503, 504)),
    *((status, False) for status in (400, 403, 404, 409, 430, 501, 505)),
  ],
)
def test_which_servers_are_asked_again(server, tmp_path, status, is_busy):
  server.statuses = [status]
  if is_busy:
    assert download(server, tmp_path) == DATA
  else:
    with pytest.raises(errors.InputError, match=str(status)):
      download(server, tmp_path)
  assert len(server.requests) == 1 + is_busy


@pytest.mark.parametrize("location", ["http://[::1", "http://", "ftp://x/y"])
def test_a_redirect_to_nowhere_is_refused(server, tmp_path, location):
  server.redirects = {PATH: location}
  with pytest.raises(errors.InputError, match="could not be downloaded"):
    download(server, tmp_path)
  assert not os.listdir(tmp_path)


def test_a_first_request_that_is_out_of_range_is_refused(server, tmp_path):
  server.statuses = [416] * 9
  with pytest.raises(errors.InputError, match="could not be .*416"):
    download(server, tmp_path)
  assert len(server.requests) == 1


@pytest.mark.parametrize(
  "page", [b"<!DOCTYPE html><title>Login</title>", b"\n <HTML><body>"]
)
def test_the_page_of_a_login_is_no_file(server, tmp_path, page):
  server.files[PATH] = page
  file = catalog.File(URL)  # Without a published size and checksum.
  with pytest.raises(errors.InputError, match="got a web page instead of"):
    download(server, tmp_path, file)
  assert not os.listdir(tmp_path)


CONTENT = {"top/bert_config.json": b"{}", "top/bert_model.ckpt.index": b"i"}


@pytest.mark.parametrize(
  "content, message",
  [
    ({}, "it has no file with content"),
    ({"top/bert_config.json": b""}, "it has no file with content"),
    ({"top/bert_config.json": b"{}"}, "it has no weights"),
    ({"top/bert_model.ckpt.index": b"i"}, "it has no configuration"),
    (CONTENT, "vocab.txt is missing"),
    ({**CONTENT, "top/vocab.txt": b"b"}, "SHA-256 of vocab.txt differs"),
    ({**CONTENT, "top/vocab.txt": b"a"}, None),
  ],
)
def test_a_model_is_what_was_published(tmp_path, content, message):
  entry = catalog.MODELS[MODEL]._replace(
    sums={"vocab.txt": hashlib.sha256(b"a").hexdigest()}
  )
  files = {MODEL_PATH: zipped(content)}
  with local_server.serve(files) as server:
    if not message:
      assert downloads.fetch(entry, str(tmp_path), server.url)[1]
      return
    with pytest.raises(errors.InputError, match=message):
      downloads.fetch(entry, str(tmp_path), server.url)
    assert not (tmp_path / MODEL).exists()
    # The same command asks the server again.
    server.files[MODEL_PATH] = zipped({**CONTENT, "top/vocab.txt": b"a"})
    assert downloads.fetch(entry, str(tmp_path), server.url)[1]


def test_without_a_network_the_error_says_where_to_put_the_file(tmp_path):
  path, url = tmp_path / "file.zip", "http://127.0.0.1:9/"
  message = f"no connection.*file as MIRROR{PATH}; or copy .* to {path}$"
  with pytest.raises(errors.InputError, match=message):
    downloads.download(FILE, str(tmp_path), url)
  path.write_bytes(DATA)
  assert downloads.download(FILE, str(tmp_path), url) == str(path)


def test_a_silent_server_is_not_waited_for(tmp_path, monkeypatch):
  monkeypatch.setattr(downloads, "_TIMEOUT", (0.1, 0.1))
  with socket.create_server(("127.0.0.1", 0)) as silent:
    url = f"http://127.0.0.1:{silent.getsockname()[1]}"
    with pytest.raises(errors.InputError, match=r"be downloaded .*\b0\.1"):
      downloads.download(FILE, str(tmp_path), url)


def write_zip(path, names):
  path.write_bytes(zipped({name: f"text of {name}" for name in names}))
  return path


def write_tar(path, names, **attributes):
  with tarfile.open(path, "w:gz") as archive:
    for name in names:
      info = tarfile.TarInfo(name)
      info.size = len(name)
      for key, value in attributes.items():
        setattr(info, key, value)
      archive.addfile(info, io.BytesIO(name.encode()))
  return path


def unpacked(path):
  folder = path.parent / "out"
  downloads.unpack(str(path), str(folder))
  files = [file for file in folder.rglob("*") if file.is_file()]
  return sorted(str(file.relative_to(folder)) for file in files)


@pytest.mark.parametrize(
  "write, name", [(write_zip, "a.zip"), (write_tar, "a.tar.gz")]
)
@pytest.mark.parametrize(
  "names_inside, expected",
  [
    (["top/a.txt", "top/top/b.txt", "__MACOSX/x"], ["a.txt", "top/b.txt"]),
    (["a/b.txt", "c.txt"], ["a/b.txt", "c.txt"]),
    (["a.txt"], ["a.txt"]),
    (["a.txt", "../out.txt"], None),
    (["a.txt", "a/../../../out.txt"], None),
    (["a.txt", "/out.txt"], None),
  ],
)
def test_a_single_top_folder_is_left_out_and_nothing_goes_outside(
  tmp_path, write, name, names_inside, expected
):
  path = write(tmp_path / name, names_inside)
  if expected:
    assert unpacked(path) == expected
    return
  # The archive is refused, or all its files are put into the folder.
  with contextlib.suppress(errors.InputError):
    unpacked(path)
  assert {file.name for file in tmp_path.iterdir()} <= {name, "out"}
  assert not list(tmp_path.parent.glob("out.txt"))
  assert not os.path.exists("/out.txt")


def test_an_archive_is_unpacked_on_its_own_disk(tmp_path, monkeypatch):
  monkeypatch.setattr(downloads.tempfile, "tempdir", "/nowhere")
  assert unpacked(write_zip(tmp_path / "a.zip", ["x"])) == ["x"]
  assert {path.name for path in tmp_path.iterdir()} == {"a.zip", "out"}


def test_links_to_outside_and_damage_are_refused(tmp_path):
  target = {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}
  link = write_tar(tmp_path / "link.tar.gz", ["x"], **target)
  truncated = write_tar(tmp_path / "truncated.tar.gz", ["x"])
  truncated.write_bytes(truncated.read_bytes()[:-20])
  changed = write_zip(tmp_path / "changed.zip", ["x"])
  changed.write_bytes(changed.read_bytes().replace(b"text of x", b"text of y"))
  for path in (link, truncated, changed):
    with pytest.raises(errors.InputError, match="be unpacked .*download it"):
      unpacked(path)
  assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
  "link, is_allowed",
  # Inside while the folder `top` is there, outside once it is left out.
  [("../top/a.txt", False), ("../../out/a.txt", False), ("a.txt", True)],
)
def test_a_link_stays_inside_once_the_top_folder_is_left_out(
  tmp_path, link, is_allowed
):
  path = tmp_path / "a.tar.gz"
  with tarfile.open(path, "w:gz") as archive:
    file = tarfile.TarInfo("top/a.txt")
    archive.addfile(file, io.BytesIO())
    info = tarfile.TarInfo("top/link")
    info.type, info.linkname = tarfile.SYMTYPE, link
    archive.addfile(info)
  if is_allowed:
    assert unpacked(path) == ["a.txt", "link"]
    return
  with pytest.raises(errors.InputError, match="cannot be unpacked"):
    unpacked(path)
  assert not (tmp_path / "out").exists()


def mirrored(name, *contents):
  """Returns a catalog.Entry without checksums, and its mirror {path: bytes}."""
  entry = catalog.DATA[name]
  files = [catalog.File(file.url) for file in entry.files]
  paths = [file.url.removeprefix("https:/") for file in files]
  return entry._replace(files=files), dict(zip(paths, contents, strict=True))


TRAIN = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n" + "".join(
  f"{n % 2}\t{n}\t{n + 100}\tleft {n}\tright {n}\r\n" for n in range(5)
)
IDS = "1\t101\n3\t103\n"


def test_mrpc_is_split_as_glue_does(tmp_path, monkeypatch):
  entry, files = mirrored("mrpc", *map(str.encode, (TRAIN, TRAIN, IDS)))
  with local_server.serve(files) as server, monkeypatch.context() as patch:
    # An interrupted run leaves its downloaded files, but no folder.
    patch.delattr(downloads, "split_mrpc")
    with pytest.raises(NameError):
      downloads.fetch(entry, str(tmp_path), server.url)
    assert not (tmp_path / "mrpc").exists() and len(server.requests) == 3
    patch.undo()
    folder, is_new = downloads.fetch(entry, str(tmp_path), server.url)
    assert is_new and len(server.requests) == 3
    assert not downloads.fetch(entry, str(tmp_path), "http://x")[1]
  task = glue.find("MRPC")
  examples = {s: glue.read(task, folder, s) for s in ("train", "dev", "test")}
  assert [e.text_a for e in examples["train"]] == ["left 0", "left 2", "left 4"]
  assert [e.text_b for e in examples["dev"]] == ["right 1", "right 3"]
  assert len(examples["test"]) == 5
  record = json.loads((tmp_path / "mrpc" / "download.json").read_text())
  assert record["files"] == [file.url for file in entry.files]


def test_nothing_of_an_interrupted_run_is_in_the_folder(tmp_path):
  old = tmp_path / ".xnli.part" / "ready" / "old.tsv"
  old.parent.mkdir(parents=True)
  old.write_text("old")
  entry, files = mirrored("xnli", *[zipped({"a/a.tsv": "x"})] * 2)
  with local_server.serve(files) as server:
    folder, _ = downloads.fetch(entry, str(tmp_path), server.url)
  assert "old.tsv" not in os.listdir(folder)


def test_each_archive_of_a_data_set_has_its_folder(tmp_path):
  entry, files = mirrored(
    "xnli",
    *(zipped({f"{name}/a.tsv": "x"}) for name in ("XNLI-1.0", "XNLI-MT-1.0")),
  )
  with local_server.serve(files) as server:
    folder, _ = downloads.fetch(entry, str(tmp_path), server.url)
  tables = {str(p.relative_to(folder)) for p in tmp_path.rglob("*.tsv")}
  assert tables == {"XNLI-1.0/a.tsv", "XNLI-MT-1.0/a.tsv"}


# The published lines have a space at both ends.
RAW = "".join(
  f" {line} \n"
  for line in """
= Tamar ( river ) =

The Tamar is a well @-@ known river . It is 98 @.@ 5 km long , isn 't it ? Yes !

= = Course = =

E. Brown wrote " It rises . " in 1 @,@ 000 lines = many .
= Ann =
Ann came .
""".splitlines()
)


def test_wikitext_becomes_lines_of_sentences(tmp_path):
  entry, files = mirrored(
    "wikitext-2",
    zipped(
      {
        f"wikitext-2-raw/wiki.{part}.raw": RAW
        for part in ("train", "valid", "test")
      }
    ),
  )
  with local_server.serve(files) as server:
    downloads.fetch(entry, str(tmp_path), server.url)
  assert {path.name for path in (tmp_path / "wikitext-2").iterdir()} == {
    "train.txt",
    "valid.txt",
    "test.txt",
    "download.json",
  }
  text = (tmp_path / "wikitext-2" / "train.txt").read_text()
  assert (
    text
    == """
The Tamar is a well-known river .
It is 98.5 km long , isn 't it ?
Yes !
E. Brown wrote " It rises .
" in 1,000 lines = many .

Ann came .
"""
  )


def test_a_folder_of_another_origin_is_left_alone(tmp_path):
  (tmp_path / "mrpc").mkdir()
  with pytest.raises(errors.InputError, match="is not from download.py"):
    downloads.fetch(catalog.DATA["mrpc"], str(tmp_path))


def hub_files(files, commit="c" * 40):
  """Returns the hub's answers for a model org/tiny, {path: bytes}."""
  siblings = [
    {"rfilename": name, "size": len(data)}
    | (
      {"lfs": {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}}
      if name.endswith((".safetensors", ".bin", ".h5"))
      else {}
    )
    for name, data in files.items()
  ]
  listed = {"sha": commit, "siblings": siblings, "cardData": {"license": "mit"}}
  site = "/huggingface.co"
  return {
    f"{site}/api/models/org/tiny/revision/main": json.dumps(listed).encode()
  } | {f"{site}/org/tiny/resolve/{commit}/{n}": d for n, d in files.items()}


MODEL_FILES = {
  "config.json": b"{}",
  "vocab.txt": b"a\n",
  "1_Pooling/config.json": b'{"x": 1}',
  "model.safetensors": DATA,
  "pytorch_model.bin": b"other weights",
  "tf_model.h5": b"weights of a third kind",
  "onnx/model.onnx": b"a fourth",
}


def test_a_model_of_the_hub_is_downloaded_by_its_name(tmp_path):
  with local_server.serve(hub_files(MODEL_FILES)) as server:
    server.cuts, server.cut_after = 2, 100  # The list, then a file.
    flags = {"dir": tmp_path, "model": "org/tiny", "base_url": server.url}
    done = script_runner.succeed("download.py", **flags)
    folder = tmp_path / "org" / "tiny"
    assert done.out == (
      f"org/tiny: downloaded. Flags for the scripts:\n  --model_dir={folder}\n"
    )
    found = {
      str(path.relative_to(folder)): path.read_bytes()
      for path in folder.rglob("*")
      if path.is_file() and path.name != "download.json"
    }
    names = ("config.json", "vocab.txt", "1_Pooling/config.json")
    assert found == {
      name: MODEL_FILES[name] for name in (*names, "model.safetensors")
    }
    record = json.loads((folder / "download.json").read_text())
    assert record["commit"] == "c" * 40 and record["licence"] == "mit"
    count = len(server.requests)
    done = script_runner.succeed("download.py", **flags)
    assert "already there" in done.out and len(server.requests) == count
  assert [path.name for path in tmp_path.iterdir()] == ["org"]


@pytest.mark.parametrize(
  "change, message",
  [
    ({"model.safetensors": b"changed" * 9}, "expected"),
    ({"vocab.txt": b"ab\n"}, "got 3 bytes, expected 2"),
    # Of the right size.
    ({"model.safetensors": DATA[::-1]}, "SHA-256"),
    ({"model.safetensors": None, "pytorch_model.bin": None}, "has no model"),
    ({"config.json": None}, "could not be downloaded"),
  ],
)
def test_a_hub_model_that_differs_from_its_list_is_refused(
  tmp_path, change, message
):
  files = hub_files(MODEL_FILES)
  for name, data in change.items():
    if data is None and name != "config.json":
      kept = {n: d for n, d in MODEL_FILES.items() if n not in change}
      files = hub_files(kept)
    else:
      path = f"/huggingface.co/org/tiny/resolve/{'c' * 40}/{name}"
      files = {n: data if n == path else d for n, d in files.items()}
      files = {n: d for n, d in files.items() if d is not None}
  with local_server.serve(files) as server:
    flags = {"dir": tmp_path, "model": "org/tiny", "base_url": server.url}
    script_runner.refuse("download.py", message, **flags)
  assert not (tmp_path / "org").exists()


def test_a_model_without_a_licence_has_none(tmp_path):
  files = hub_files(MODEL_FILES)
  path = "/huggingface.co/api/models/org/tiny/revision/main"
  listed = json.loads(files[path])
  for card in ({}, None):
    files[path] = json.dumps({**listed, "cardData": card}).encode()
    folder = str(tmp_path / str(card))
    with local_server.serve(files) as server:
      target, _ = hub.fetch("org/tiny", folder, server.url)
    record = pathlib.Path(target, "download.json").read_text()
    assert json.loads(record)["licence"] is None


def test_a_commit_that_is_a_path_is_refused(tmp_path):
  files = hub_files(MODEL_FILES, "../../outside")
  with local_server.serve(files) as server:
    with pytest.raises(errors.InputError, match="outside', not a commit"):
      hub.fetch("org/tiny", str(tmp_path), server.url)


def test_a_folder_of_anothers_model_is_left_alone(tmp_path):
  (tmp_path / "org" / "tiny").mkdir(parents=True)
  with pytest.raises(errors.InputError, match="tiny is not from download.py"):
    hub.fetch("org/tiny", str(tmp_path))


@pytest.mark.parametrize(
  "name, expected",
  [
    ("google-bert/bert-base-uncased", True),
    ("a.b_c/d", True),
    ("bert-base-uncased", False),
    ("a/b/c", False),
    ("a b/c", False),
    ("/c", False),
    ("", False),
  ],
)
def test_which_names_are_those_of_the_hub(name, expected):
  assert hub.is_name(name) == expected


READ = """config.json config_sentence_transformers.json README.md LICENSE
LICENSE.txt vocab.txt vocab.json merges.txt modules.json tokenizer.json
tokenizer_config.json special_tokens_map.json spiece.model 1_Pooling/config.json
2_Dense/model.safetensors""".split()
UNREAD = """tf_model.h5 onnx/model.onnx .gitattributes training.bin notes.md
rust_model.ot model.safetensors.bak flax_model.msgpack
openvino/config.json""".split()


@pytest.mark.parametrize(
  "weights, others",
  [
    ("model.safetensors", "pytorch_model.bin"),
    ("pytorch_model.bin", ""),
    (
      "model-00001-of-00002.safetensors model-00002-of-00002.safetensors "
      "model.safetensors.index.json",
      "pytorch_model.bin",
    ),
    (
      "pytorch_model-00001-of-00001.bin pytorch_model.bin.index.json",
      "tf_model.h5",
    ),
  ],
)
def test_the_files_of_a_model_that_are_downloaded(weights, others):
  names = [*READ, *UNREAD, *weights.split(), *others.split()]
  assert hub._chosen(names, "a/b") == [*READ, *weights.split()]
  with pytest.raises(errors.InputError, match="a/b"):
    hub._chosen([*READ, *UNREAD], "a/b")
