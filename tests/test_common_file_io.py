"""file_io.py and tfrecord.py: reading, atomic writing and TFRecords."""

import errno
import gzip
import hashlib
import os
import pathlib
import stat
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from common import errors, file_io
from message_facts import says
from records import tfrecord


def write_records(path, values):
  with tfrecord.RecordWriter(str(path)) as writer:
    for value in values:
      writer.write(tfrecord.serialize_example({"a": [value]}))
  return str(path)


def test_matches_are_sorted_but_patterns_keep_their_order(tmp_path):
  for name in ["b.txt", "a.txt", "z"]:
    (tmp_path / name).touch()
  patterns = f"{tmp_path}/z, {tmp_path}/*.txt"
  names = map(os.path.basename, file_io.expand_file_patterns(patterns))
  assert list(names) == ["z", "a.txt", "b.txt"]


def test_an_existing_path_is_not_taken_for_a_pattern(tmp_path):
  (tmp_path / "run[1]").mkdir()
  for name in ["a[1].txt", "a1.txt", "a,b", "run[1]/c1", "run[1]/c[1]"]:
    (tmp_path / name).touch()
  for pattern, names in {
    "a[1].txt": ["a[1].txt"],
    "a[12].txt": ["a1.txt"],
    "a,b": ["a,b"],
    "run[1]/c?": ["run[1]/c1"],
    "run[1]": ["run[1]"],
  }.items():
    paths = file_io.expand_file_patterns(f"{tmp_path}/{pattern}")
    assert paths == [f"{tmp_path}/{name}" for name in names]


def test_many_names_are_abridged():
  assert file_io.listed([*"abcd"]) == "a, b, c, d"
  assert file_io.listed([*"abcde"]) == "a, b, ..., e"


@pytest.mark.parametrize(
  "numbers, total, are_all", [((0, 1), 2, True), ((0,), 2, False), ((), 1, 0)]
)
@pytest.mark.parametrize("end", ["", ".gz"])
def test_a_set_of_shards_is_complete(numbers, total, are_all, end):
  names = [f"a-{number:05}-of-{total:05}{end}" for number in numbers]
  assert file_io.are_all_shards(names) == are_all
  assert not file_io.are_all_shards([*names, f"a-00000-of-00009{end}"])


def test_a_name_that_is_no_pattern_leads_to_the_files(tmp_path):
  folder = tmp_path / "run[1]"
  folder.mkdir()
  for name in ("model.index", "model.data", "other.index"):
    (folder / name).write_text(name)
  plain = str(tmp_path / "model")
  assert file_io.literal_name(plain) == plain
  prefix = file_io.literal_name(str(folder / "model"))
  assert "[" not in prefix
  for end in (".index", ".data"):
    assert pathlib.Path(prefix + end).read_text() == f"model{end}"
  assert len(os.listdir(os.path.dirname(prefix))) == 2


def test_the_links_to_a_file_are_removed_at_the_end(tmp_path, monkeypatch):
  registered = []
  monkeypatch.setattr(
    file_io.atexit,
    "register",
    lambda *function, **options: registered.append((function, options)),
  )
  (tmp_path / "a[1]").write_text("a")
  link = file_io.literal_name(str(tmp_path / "a[1]"))
  assert pathlib.Path(link).read_text() == "a"
  (((function, *arguments), options),) = registered
  function(*arguments, **options)
  assert not os.path.exists(os.path.dirname(link))
  assert (tmp_path / "a[1]").exists()


def test_pattern_without_a_match(tmp_path):
  with pytest.raises(errors.InputError, match="no file matches .*none"):
    file_io.expand_file_patterns(f"{tmp_path}/none*")


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_lines_end_at_line_feeds_only(tmp_path, scheme):
  """Carriage returns are kept, locally and through TensorFlow."""
  path = tmp_path / "text"
  path.write_bytes("a\rb\u2028c\n\n é\r\n".encode())
  lines = list(file_io.read_lines(f"{scheme}{path}"))
  assert lines == [(1, "a\rb\u2028c"), (2, ""), (3, " é\r")]


def test_remote_bytes_are_those_of_the_file(tmp_path):
  path = tmp_path / "text"
  path.write_bytes(b"one\r\ntwo\r\nthree")
  with file_io.open_for_reading(f"file://{path}") as stream:
    assert stream.readline() == b"one\r\n"
    stream.seek(4)
    assert stream.read(3) == b"\ntw"
    stream.seek(0)
    assert stream.readlines() == [b"one\r\n", b"two\r\n", b"three"]


def test_bad_utf8_names_file_and_line(tmp_path):
  path = tmp_path / "text"
  path.write_bytes(b"fine\nb\xe9d\n")
  with pytest.raises(errors.InputError, match=says("2", "UTF-8", "1", "not")):
    list(file_io.read_lines(str(path)))


@pytest.mark.parametrize(
  "content, name",
  # The time of compression would be in the test's name.
  [(gzip.compress(b"a\n", mtime=0), "gzip"), (b"PK\3\4\xff\n", "zip")],
)
def test_a_compressed_text_is_named(tmp_path, content, name):
  path = tmp_path / "text.gz"
  path.write_bytes(content)
  with pytest.raises(errors.InputError, match=f"gz is compressed .{name}"):
    list(file_io.read_lines(str(path)))
  # Only the start of a file shows its format.
  path.write_bytes(b"one\n" + content)
  with pytest.raises(errors.InputError, match="text.gz:2: not UTF-8"):
    list(file_io.read_lines(str(path)))


def test_missing_file(tmp_path):
  for path in [f"{tmp_path}/none", "ram://none"]:
    with pytest.raises(errors.InputError, match="no such file: .*none"):
      list(file_io.read_lines(path))


@pytest.mark.parametrize("remote", [False, True])
def test_a_failing_writer_leaves_the_old_file(tmp_path, remote):
  folder = "ram://" + tmp_path.name if remote else str(tmp_path)
  path = f"{folder}/new/file"
  file_io.write_text(path, "old é\n")
  with pytest.raises(KeyError), file_io.atomic_write(path) as temporary:
    with tf.io.gfile.GFile(temporary, "w") as stream:
      stream.write("half")
    raise KeyError
  assert list(file_io.read_lines(path)) == [(1, "old é")]
  file_io.write_text(path, "new")
  assert list(file_io.read_lines(path)) == [(1, "new")]
  write_records(path, [1])
  with pytest.raises(KeyError), tfrecord.RecordWriter(path) as writer:
    writer.write(b"half")
    raise KeyError
  assert tfrecord.count_records(path) == 1
  tf.io.gfile.makedirs(f"{folder}/new")  # ram:// makes files without folders.
  assert file_io.names_in(f"{folder}/new") == ["file"]
  assert file_io.names_in(f"{folder}/old") == []


def test_links_are_followed_and_stay(tmp_path):
  (tmp_path / "away").mkdir()
  link, target = tmp_path / "link", tmp_path / "away/target"
  link.symlink_to("away/target")
  for text in ("new", "newer"):
    file_io.write_text(str(link), text)
    assert link.is_symlink() and target.read_text() == text
  assert os.listdir(tmp_path / "away") == ["target"]


def test_only_a_regular_file_has_a_size(tmp_path):
  path = tmp_path / "a.txt"
  path.write_bytes(b"12345")
  assert file_io.size(str(path)) == file_io.size(f"file://{path}") == 5
  os.mkfifo(tmp_path / "fifo")
  for name in ("fifo", ""):
    with pytest.raises(errors.InputError, match="is not a regular file"):
      file_io.size(str(tmp_path / name))


def test_a_pointer_of_git_lfs_is_refused_and_closed(tmp_path, monkeypatch):
  path, opened, kept = tmp_path / "a.txt", [], []

  class Stream(file_io._LocalFile):
    def __init__(self, path):
      super().__init__(path)
      opened.append(self)

  monkeypatch.setattr(file_io, "_LocalFile", Stream)
  path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
  for read in (file_io.open_for_reading, file_io.refuse_pointer):
    with pytest.raises(errors.InputError, match="is a Git LFS poin") as raised:
      read(str(path))
    kept.append(raised)  # Its frames keep the streams.
  assert [stream.closed for stream in opened] == [True, True]
  # A large file is none, whatever its start is.
  path.write_bytes(path.read_bytes() + bytes(1024))
  file_io.refuse_pointer(str(path))
  file_io.open_for_reading(str(path)).close()


def test_a_remote_stream_is_closed(tmp_path, monkeypatch):
  (tmp_path / "a.txt").write_text("a")
  stream = file_io.open_for_reading(f"file://{tmp_path}/a.txt")
  inner, closed = stream.raw._file, []
  monkeypatch.setattr(inner, "close", lambda: closed.append(True))
  stream.close()
  assert stream.closed and closed


def test_fifos_and_devices_are_written_to_and_stay(tmp_path):
  path = str(tmp_path / "fifo")
  os.mkfifo(path)
  reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
  file_io.write_text(path, "text")
  assert os.read(reader, 10) == b"text"
  write_records(path, [1])
  os.close(reader)
  assert stat.S_ISFIFO(os.stat(path).st_mode)
  (tmp_path / "null").symlink_to("/dev/null")
  with pytest.raises(KeyError), file_io.atomic_write(f"{tmp_path}/null"):
    raise KeyError
  assert sorted(os.listdir(tmp_path)) == ["fifo", "null"]
  with pytest.raises(errors.InputError, match="write .*: it is a folder; give"):
    file_io.write_text(str(tmp_path), "text")


def parse_and_serialize(serialized):
  example = tf.train.Example.FromString(serialized)
  return example, example.SerializeToString(deterministic=True)


def test_serialized_example_is_the_parsers_deterministic_form():
  features = {
    "segment_ids": [0, 1, 1],
    "input_ids": [0, 127, 128, 16383, 16384, 30521, 1 << 40, -1],
    "weights": [1.0, -0.5],
    "nothing": np.zeros(0, np.int64),
    "no_floats": np.zeros(0, np.float32),
    "é" * 70: [7],
  }
  serialized = tfrecord.serialize_example(features)
  example, reserialized = parse_and_serialize(serialized)
  assert serialized == reserialized
  assert set(example.features.feature) == set(features)
  for name, values in features.items():
    feature = example.features.feature[name]
    value_list = getattr(feature, feature.WhichOneof("kind"))
    assert list(value_list.value) == list(values), name


def test_many_examples_equal_single_ones(tmp_path):
  rng = np.random.default_rng(0)
  batch = {
    "input_ids": rng.integers(0, 1 << 17, (50, 130)),
    "input_mask": rng.integers(0, 2, (50, 130), np.uint8),
    "weights": rng.random((50, 20)),
  }
  records = tfrecord.serialize_examples(batch)
  assert len(set(map(len, records))) > 1
  for row, record in enumerate(records):
    single = {name: values[row] for name, values in batch.items()}
    assert record == tfrecord.serialize_example(single)
    assert record == parse_and_serialize(record)[1]


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
def test_records_are_read_back(tmp_path, name):
  path = str(tmp_path / name)
  rows = [{"x": [3, 4], "y": [0.5]}, {"x": [5, 6], "y": [1.5]}]
  with tfrecord.RecordWriter(path) as writer:
    writer.write_all(map(tfrecord.serialize_example, rows))
  assert tfrecord.count_records(path) == 2
  assert tfrecord.is_gzip(path) == name.endswith(".gz")
  records = list(tfrecord.read_records(path))
  assert [{k: v.tolist() for k, v in row.items()} for row in records] == rows
  dtypes = {name: values.dtype for name, values in records[0].items()}
  assert dtypes == {"x": np.int64, "y": np.float32}


def test_records_are_written_as_tensorflow_does(tmp_path):
  # 2 MB in total, more than the writer's buffer holds.
  records = [b"", b"a", *map(bytes, range(100, 2000))]
  with tfrecord.RecordWriter(str(tmp_path / "ours")) as writer:
    writer.write_all(records)
  with tf.io.TFRecordWriter(str(tmp_path / "tensorflow")) as writer:
    for record in records:
      writer.write(record)
  assert (tmp_path / "ours").read_bytes() == (
    tmp_path / "tensorflow"
  ).read_bytes()


@pytest.mark.parametrize("size", [1, 3 << 20])
def test_a_full_disk_is_reported(size):
  """/dev/full fails when the writer's buffer is written."""
  with pytest.raises(errors.InputError, match="write /dev/full: No space left"):
    with tfrecord.RecordWriter("/dev/full") as writer:
      writer.write(bytes(size))


def test_unwritable_output(tmp_path):
  (tmp_path / "file").touch()
  for path in (f"{tmp_path}/file/a", f"{tmp_path}/file/b/a"):
    with pytest.raises(errors.InputError, match="file is not a folder|file/b"):
      with tfrecord.RecordWriter(path):
        pass
  with pytest.raises(errors.InputError, match="cannot write nowhere://a"):
    with tfrecord.RecordWriter("nowhere://a"):
      pass


@pytest.mark.parametrize("num_bytes", [1, 11, 12, 20])
def test_truncated_record_is_named(tmp_path, num_bytes):
  path = write_records(tmp_path / "a", [1, 2])
  size = os.path.getsize(path) // 2
  os.truncate(path, size + num_bytes)
  with pytest.raises(
    errors.InputError, match=f"a: record 2, .* byte {size}, is cut off"
  ):
    tfrecord.count_records(path)
  with pytest.raises(errors.InputError, match="a: record 2.* cut off"):
    list(tfrecord.read_records(path))


def test_truncated_gzip_file(tmp_path):
  path = write_records(tmp_path / "a.gz", [1, 2])
  with gzip.open(path) as stream:
    size = len(stream.read()) // 2
  os.truncate(path, os.path.getsize(path) - 20)
  with pytest.raises(errors.InputError, match="record [12], .* is cut off"):
    tfrecord.count_records(path)
  unpacked = write_records(tmp_path / "b", [1, 2])
  with open(unpacked, "rb") as stream, gzip.open(path, "wb") as compressed:
    compressed.write(stream.read()[: size + 12])
  with pytest.raises(errors.InputError, match=f"record 2, .* byte {size},"):
    tfrecord.count_records(path)


def test_a_damaged_gzip_file_is_named(tmp_path):
  path = write_records(tmp_path / "a.gz", range(9))
  intact = bytearray(pathlib.Path(path).read_bytes())
  for bit in range(3, len(intact) * 8, 5):
    damaged = bytearray(intact)
    damaged[bit // 8] ^= 1 << bit % 8
    pathlib.Path(path).write_bytes(damaged)
    try:
      assert tfrecord.count_records(path) == 9
    except errors.InputError as error:
      assert path in str(error)


def test_damaged_records_are_named(tmp_path):
  path = write_records(tmp_path / "a", [1, 2])
  with open(path, "r+b") as stream:
    stream.seek(20)
    stream.write(b"\xff")
  with pytest.raises(errors.InputError, match="record 1 is damaged"):
    list(tfrecord.read_records(path))
  with tfrecord.RecordWriter(path) as writer:
    writer.write(b"\xff\xff")
  with pytest.raises(errors.InputError, match="record 1 is not a tf.train"):
    list(tfrecord.read_records(path))
  assert list(tfrecord.read_records(write_records(path, []))) == []
  assert tfrecord.count_records(path) == 0


def test_two_writers_of_one_path_do_not_collide(tmp_path, monkeypatch):
  # Processes in two containers may have the same id.
  monkeypatch.setattr(file_io.os, "getpid", lambda: 1)
  path = str(tmp_path / "a")
  with file_io.atomic_write(path) as first:
    with file_io.atomic_write(path) as second:
      pathlib.Path(first).write_text("first")
      pathlib.Path(second).write_text("second")
    assert pathlib.Path(path).read_text() == "second"
  assert pathlib.Path(path).read_text() == "first"
  assert os.listdir(tmp_path) == ["a"]


def test_temporary_files_of_ended_processes_are_removed(tmp_path):
  path = str(tmp_path / "a")
  ended = subprocess.Popen(["true"])
  ended.wait()
  own_path = file_io.temporary_path(path)
  prefix = f"{own_path.rpartition('-')[0]}-"
  ended_path = f"{prefix}{ended.pid}"
  remaining = {
    # Files of this process, of another user's running process (1) and of a
    # process on another machine.
    own_path,
    f"{prefix}1",
    f"{path}.tmp-other-host-0a1b2c3d-{ended.pid}",
    # Temporary files of b, ab and a.a, and a backup copy of a's.
    *(
      ended_path.replace("a.tmp", f"{name}.tmp") for name in ("b", "ab", "a.a")
    ),
    f"{ended_path}~",
  }
  shard_path = f"{ended_path}.data-00000-of-00001.tempstate1"
  for name in (ended_path, f"{prefix}{1 << 80}", shard_path, *remaining):
    pathlib.Path(name).touch()
  os.mkdir(f"{ended_path}.folder")
  pathlib.Path(f"{ended_path}.folder/file").touch()
  # A file of another machine is removed when it is a day old.
  old_path = f"{path}.tmp-other-host-0a1b2c3d-1"
  pathlib.Path(old_path).touch()
  os.utime(old_path, (0, 0))
  file_io.write_text(path, "whole")
  assert {str(entry) for entry in tmp_path.iterdir()} == {path, *remaining}


def test_names_and_sizes_change_with_the_files(tmp_path):
  for name in ("a.txt", "b.txt"):
    (tmp_path / name).write_text("12345")
  paths = [f"{tmp_path}/{name}" for name in ("b.txt", "a.txt")]
  before = file_io.names_and_sizes(paths)
  # Runs record this text and compare it when they continue.
  checksum = hashlib.sha256(b"a.txt 5\nb.txt 5\n").hexdigest()[:16]
  assert before == (
    f"2 files, 10 bytes, checksum of names and sizes {checksum}"
  )
  assert file_io.names_and_sizes(paths[::-1]) == before
  (tmp_path / "a.txt").write_text("1234")
  (tmp_path / "b.txt").write_text("123456")
  # A folder means all of its files.
  (tmp_path / "folder").mkdir()
  after = file_io.names_and_sizes([str(tmp_path)])
  assert after == file_io.names_and_sizes(paths)
  assert "2 files, 10 bytes" in after and after != before


def fill(path):
  with file_io.new_folder(str(path)) as folder:
    (pathlib.Path(folder) / "a").write_text("x")
    os.mkdir(os.path.join(folder, "inner"))


def test_an_empty_folder_that_cannot_be_removed_is_filled(
  tmp_path, monkeypatch
):
  """The folder is a link, the working directory or a mounted volume."""
  (tmp_path / "real").mkdir()
  (tmp_path / "link").symlink_to("real")
  fill(tmp_path / "link")
  assert {path.name for path in (tmp_path / "real").iterdir()} == {"a", "inner"}
  assert (tmp_path / "link").is_symlink()
  (tmp_path / "here").mkdir()
  monkeypatch.chdir(tmp_path / "here")
  fill(".")
  assert sorted(os.listdir()) == ["a", "inner"]
  with pytest.raises(errors.InputError, match="already exists"):
    fill(".")
  (tmp_path / "volume").mkdir()
  monkeypatch.setattr(
    os.path, "ismount", lambda path: str(path).endswith("volume")
  )
  with (
    pytest.raises(ZeroDivisionError),
    file_io.new_folder(str(tmp_path / "volume")),
  ):
    raise ZeroDivisionError
  assert not os.listdir(tmp_path / "volume")
  fill(tmp_path / "volume")
  assert sorted(os.listdir(tmp_path / "volume")) == ["a", "inner"]


@pytest.mark.parametrize("number", [1, 2])
def test_a_failing_renaming_leaves_a_mounted_folder_empty(
  tmp_path, monkeypatch, number
):
  rename, calls = os.rename, []

  def failing(source, target):
    calls.append(target)
    if len(calls) == number:
      raise OSError(errno.EIO, "Input/output error", source)
    rename(source, target)

  (tmp_path / "volume").mkdir()
  monkeypatch.setattr(os.path, "ismount", lambda path: path.endswith("volume"))
  with monkeypatch.context() as patch:
    patch.setattr(os, "rename", failing)
    with pytest.raises(OSError, match="Input/output error"):
      fill(tmp_path / "volume")
  assert not os.listdir(tmp_path / "volume")
  fill(tmp_path / "volume")
  assert sorted(os.listdir(tmp_path / "volume")) == ["a", "inner"]


def disk_events(monkeypatch, name):
  """Returns a list that os.fsync and a renaming function of os then fill.

  Its elements are inodes and "renamed".
  """
  events, rename = [], getattr(os, name)

  def renamed(source, target):
    events.append("renamed")
    rename(source, target)

  monkeypatch.setattr(os, name, renamed)
  monkeypatch.setattr(
    os, "fsync", lambda fd: events.append(os.fstat(fd).st_ino)
  )
  return events


@pytest.mark.skipif(os.name == "nt", reason="Windows cannot sync a folder")
def test_a_file_is_on_the_disk_before_it_replaces_another(
  tmp_path, monkeypatch
):
  """After a power cut, the name leads to the old file or to the whole new."""
  events = disk_events(monkeypatch, "replace")
  path = tmp_path / "a.txt"
  file_io.write_text(str(path), "one")
  assert events == [path.stat().st_ino, "renamed", tmp_path.stat().st_ino]


def test_a_full_disk_names_the_file(tmp_path):
  """The system's errors of write and fsync have no name."""
  path = str(tmp_path / "a.txt")
  fault = OSError(errno.ENOSPC, "No space left on device")
  for write in (file_io.atomic_write, file_io.new_folder):
    with pytest.raises(OSError) as raised, write(path):
      raise fault
    assert raised.value.filename == path and not os.listdir(tmp_path)
    fault.filename = None


def test_a_folder_whose_name_is_not_on_the_disk_is_named(
  tmp_path, monkeypatch, caplog
):
  """It is complete, and only a power cut could lose it."""
  sync = file_io.sync

  def failing(path):
    if path == str(tmp_path):
      raise OSError(errno.EIO, "Input/output error", path)
    sync(path)

  monkeypatch.setattr(file_io, "sync", failing)
  fill(tmp_path / "new")
  assert sorted(os.listdir(tmp_path / "new")) == ["a", "inner"]
  (message,) = caplog.messages
  assert f"{tmp_path}/new is complete" in message and "Input/out" in message


def test_a_new_folder_is_on_the_disk_with_its_files(tmp_path, monkeypatch):
  synced, fsync = [], os.fsync
  monkeypatch.setattr(
    os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_ino), fsync(fd))
  )
  new = tmp_path / "new"
  fill(new)
  places = (new / "a", new / "inner", new, tmp_path)
  assert {*synced} == {place.stat().st_ino for place in places}


@pytest.mark.parametrize("stays", [True, False])
def test_the_name_of_a_new_folder_is_on_the_disk(tmp_path, monkeypatch, stays):
  """Also for a relative path, and for a folder that cannot be replaced."""
  monkeypatch.chdir(tmp_path)
  (tmp_path / "new").mkdir()
  monkeypatch.setattr(os.path, "ismount", lambda path: stays and path == "new")
  events = disk_events(monkeypatch, "rename")
  fill("new")
  assert events[-2:] == [
    "renamed",
    (tmp_path / "new" if stays else tmp_path).stat().st_ino,
  ]


def test_an_empty_folder_is_removed_where_its_name_must_be_free(
  tmp_path, monkeypatch
):
  """Windows renames no folder to the name of another."""
  rename = os.rename

  def strict(source, target):
    if os.path.exists(target):
      raise FileExistsError(errno.EEXIST, "File exists", target)
    rename(source, target)

  monkeypatch.setattr(os, "rename", strict)
  (tmp_path / "new").mkdir()
  fill(tmp_path / "new")
  assert sorted(os.listdir(tmp_path / "new")) == ["a", "inner"]


def test_a_relative_path_is_written(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  file_io.write_text("a.txt", "text")
  file_io.make_folder("b/c")
  assert os.listdir() and (tmp_path / "a.txt").read_text() == "text"
  assert (tmp_path / "b" / "c").is_dir()
  assert sorted(os.listdir()) == ["a.txt", "b"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path, monkeypatch):
  def fail(path, mode=0o777):
    raise OSError(errno.ENOSPC, "No space left on device", path)

  monkeypatch.setattr(os, "mkdir", fail)
  path = str(tmp_path / "new")
  with pytest.raises(OSError) as raised, file_io.new_folder(path):
    pass
  assert raised.value.filename == path


def test_an_error_of_another_file_keeps_its_name(tmp_path):
  with pytest.raises(OSError) as raised, file_io.named("a.txt", "a.tmp"):
    raise OSError(errno.ENOENT, "No such file", "b.txt")
  assert raised.value.filename == "b.txt"


@pytest.mark.parametrize("char", ["n", "\u00e9", "\u6771"])
def test_a_name_may_have_the_maximum_length(tmp_path, char):
  name = char * (255 // len(char.encode()))
  for text in ("one", "two"):
    file_io.write_text(str(tmp_path / name), text)
  assert (tmp_path / name).read_text() == "two"
  assert os.listdir(tmp_path) == [name]
  (tmp_path / name).unlink()
  fill(tmp_path / name)
  assert os.listdir(tmp_path) == [name]


def test_a_byte_order_mark_is_skipped_with_one_warning(tmp_path, caplog):
  path = tmp_path / "a.txt"
  path.write_text("\ufeff-DOCSTART- O\nb\ufeff\n", "utf-8")
  for _ in range(2):
    assert list(file_io.read_lines(str(path))) == [
      (1, "-DOCSTART- O"),
      (2, "b\ufeff"),
    ]
  assert caplog.text.count("the byte-order mark at its start is skipped") == 1


def test_carriage_returns_alone_end_no_lines(tmp_path):
  path = tmp_path / "a.txt"
  path.write_bytes(b"a O\rb O\r\rc O\r")
  with pytest.raises(errors.InputError, match=r"old Macs; convert them: tr"):
    list(file_io.read_lines(str(path)))
