"""Tests run folders: resuming, damage, kills, full disks, other runs."""

import errno
import json
import logging
import os
import pathlib
import re
import resource
import shutil

import numpy as np
import pytest
import tensorflow as tf

import stored_weights
import test_common_folder_lock
from checkpoints import weight_files
from common import errors, file_io
from message_facts import says
from training import run_folder

TRAINS = run_folder.TrainedWith({}, {})
RUN = {"kind": "classifier", "task": "mrpc", "model": {"hidden_size": 8}}


def values_of(step):
  return {"bias": np.full(3, step, "f"), "global_step": np.int64(step)}


def save(folder, *steps, **options):
  for step in steps:
    run_folder.save(str(folder), step, values_of(step), **options)


def check_whole(checkpoint, step):
  assert checkpoint.step == step
  stored = stored_weights.read(checkpoint.path)
  np.testing.assert_array_equal(stored["bias"], values_of(step)["bias"])


def newest(folder):
  return run_folder.newest_checkpoint(str(folder))


def claim(folder, run, trained_with=None):
  run_folder.check_output_dir(str(folder), run, trained_with)


def names(folder):
  return sorted(path.name for path in pathlib.Path(folder).iterdir())


def test_the_newest_checkpoint_is_found_with_its_extra_values(tmp_path):
  save(tmp_path, 9)
  extra = {"best": 0.5, "epoch": 1}
  prefix = run_folder.save(str(tmp_path), 10, values_of(10), extra=extra)
  assert prefix == f"{tmp_path}/model.ckpt-10"
  assert newest(tmp_path) == ("resume", prefix, 10, extra)
  check_whole(newest(tmp_path), 10)
  assert tf.train.latest_checkpoint(str(tmp_path)) == prefix


def test_only_the_newest_are_kept(tmp_path):
  save(tmp_path, 5, 10, 15, 20, max_to_keep=2)
  kept = {name.split(".")[1] for name in names(tmp_path) if "." in name}
  assert kept == {"ckpt-15", "ckpt-20"}
  state = tf.train.get_checkpoint_state(str(tmp_path))
  listed = [os.path.basename(path) for path in state.all_model_checkpoint_paths]
  assert listed == ["model.ckpt-15", "model.ckpt-20"]
  save(tmp_path, *range(21, 27), max_to_keep=0)
  assert sum(name.endswith(".commit") for name in names(tmp_path)) == 8


def failing(monkeypatch, end):
  """Lets the writing or removal of files whose name has `end` fail."""

  def wrapped(function):
    def call(path, *rest):
      if end in os.path.basename(path):
        raise OSError(errno.EIO, "Input/output error", path)
      return function(path, *rest)

    return call

  for name in ("write_text", "remove"):
    monkeypatch.setattr(file_io, name, wrapped(getattr(file_io, name)))


@pytest.mark.parametrize(
  "end, fault",
  [
    ("checkpoint", "the file `checkpoint` does not name it"),
    ("ckpt-5.commit", "older checkpoints stay"),
    ("ckpt-5.index", "older checkpoints stay"),
    ("ckpt-5.data", "older checkpoints stay"),
  ],
)
def test_a_fault_after_the_commit_is_a_warning_and_repaired(
  tmp_path, monkeypatch, caplog, end, fault
):
  claim(tmp_path, RUN, TRAINS)
  save(tmp_path, 5)
  with monkeypatch.context() as patch:
    failing(patch, end)
    save(tmp_path, 10, max_to_keep=1)
  (message,) = caplog.messages
  assert message.startswith(f"step 10 is saved in {tmp_path}, but {fault} (")
  assert "Input/output error" in message
  check_whole(newest(tmp_path), 10)
  claim(tmp_path, RUN, TRAINS)
  assert tf.train.latest_checkpoint(str(tmp_path)).endswith("-10")
  steps = {name.split(".")[1] for name in names(tmp_path) if "ckpt" in name}
  # A checkpoint that is still complete is removed with the next save.
  is_whole = end == "ckpt-5.commit"
  assert steps == ({"ckpt-5", "ckpt-10"} if is_whole else {"ckpt-10"})
  save(tmp_path, 15, max_to_keep=1)
  steps = {name.split(".")[1] for name in names(tmp_path) if "ckpt" in name}
  assert steps == {"ckpt-15"}


def test_a_start_writes_the_list_of_checkpoints_again(tmp_path):
  claim(tmp_path, RUN, TRAINS)
  save(tmp_path, 5, 10)
  before = (tmp_path / "checkpoint").read_bytes()
  for content in (b"", b"\xff", before.replace(b"10", b"5")):
    # The first line says that this project wrote the file.
    head, _, _ = before.partition(b"\n")
    (tmp_path / "checkpoint").write_bytes(head + b"\n" + content)
    claim(tmp_path, RUN)  # A process that only evaluates writes nothing.
    assert (tmp_path / "checkpoint").read_bytes() != before
    claim(tmp_path, RUN, TRAINS)
    assert (tmp_path / "checkpoint").read_bytes() == before
  (tmp_path / "checkpoint").unlink()
  claim(tmp_path, RUN, TRAINS)
  assert (tmp_path / "checkpoint").read_bytes() == before


@pytest.mark.parametrize("name", ["exp*", "exp[1]", "exp?"])
def test_names_that_look_like_patterns_affect_no_other_run(tmp_path, name):
  save(tmp_path / "exp1", 1, 2, 3)
  before = {p.name: p.read_bytes() for p in (tmp_path / "exp1").iterdir()}
  folder = str(tmp_path / name)
  claim(folder, RUN, TRAINS)
  save(folder, 1, 2, 3, max_to_keep=1)
  assert before == {
    p.name: p.read_bytes() for p in (tmp_path / "exp1").iterdir()
  }
  check_whole(newest(folder), 3)
  assert weight_files.find_prefix(folder) == f"{folder}/model.ckpt-3"
  assert "model.ckpt-2.index" not in names(folder)


def test_other_files_beside_a_checkpoint_stay(tmp_path):
  save(tmp_path, 1)
  for name in ("model.ckpt-1.zip", "model.ckpt-1.index~", "model.ckpt-1"):
    (tmp_path / name).touch()
  save(tmp_path, 2, max_to_keep=1)
  assert [name for name in names(tmp_path) if "ckpt-1" in name] == [
    "model.ckpt-1",
    "model.ckpt-1.index~",
    "model.ckpt-1.zip",
  ]


def test_unfinished_checkpoints_are_not_counted(tmp_path):
  save(tmp_path, 5)
  (tmp_path / "model.ckpt-7.data-00000-of-00001").touch()
  save(tmp_path, 10, max_to_keep=2)
  check_whole(newest(tmp_path), 10)
  assert "model.ckpt-5.commit" in names(tmp_path)


def test_the_index_of_an_unfinished_checkpoint_is_removed_first(
  tmp_path, monkeypatch
):
  claim(tmp_path, RUN, TRAINS)
  save(tmp_path, 5)
  (tmp_path / "model.ckpt-5.commit").unlink()
  removed, remove = [], run_folder.file_io.remove
  monkeypatch.setattr(
    run_folder.file_io,
    "remove",
    lambda path: (removed.append(os.path.basename(path)), remove(path)),
  )
  claim(tmp_path, RUN, TRAINS)
  assert removed[0] == "model.ckpt-5.index" and len(removed) == 2


def test_remote_folders(tmp_path):
  folder = f"ram://{tmp_path.name}"
  claim(folder, RUN, TRAINS)
  save(folder, 1, 2, 3, max_to_keep=2)
  check_whole(newest(folder), 3)
  claim(folder, RUN)
  assert not tf.io.gfile.exists(f"{folder}/model.ckpt-1.index")


def cut(path):
  path.write_bytes(path.read_bytes()[:-1])


def change_last_byte(path):
  data = path.read_bytes()
  path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def change_number(path):
  text = path.read_text()
  path.write_text(text.replace('"best": 1', '"best": 3'))


@pytest.mark.parametrize(
  "suffix, change, reason",
  [
    (".data-00000-of-00001", cut, "has 19 bytes instead of 20"),
    (".data-00000-of-00001", change_last_byte, "checksum of .*data.* is wrong"),
    (".data-00000-of-00001", pathlib.Path.unlink, "no such file: .*data-"),
    (".index", cut, "bytes instead of"),
    (".index", pathlib.Path.unlink, "no such file: .*index"),
    (".commit", pathlib.Path.unlink, "never finished: no .commit"),
    (".commit", lambda path: path.write_text("{}"), "files is missing"),
    (".commit", lambda path: path.write_text("[1"), "not JSON"),
    (".commit", lambda path: path.write_text("[1]"), "an object in JSON"),
    (".commit", lambda path: path.write_bytes(b"\xff"), "not JSON"),
    (".commit", change_number, "its checksum is wrong"),
  ],
)
def test_damaged_newest_is_skipped(tmp_path, caplog, suffix, change, reason):
  claim(tmp_path, RUN, TRAINS)
  save(tmp_path, 5, 10, extra={"best": 1})
  change(tmp_path / f"model.ckpt-10{suffix}")
  claim(tmp_path, RUN)
  with caplog.at_level(logging.WARNING):
    checkpoint = newest(tmp_path)
  check_whole(checkpoint, 5)
  (message,) = [record.getMessage() for record in caplog.records]
  assert message.startswith(f"skipping {tmp_path}/model.ckpt-10: ")
  assert re.search(reason, message)
  save(tmp_path, 10)
  check_whole(newest(tmp_path), 10)


class Camera:
  """Copies a folder before and after each call that changes files.

  Each copy shows the files after a kill at that moment.
  """

  CALLS = (
    (tf.io.gfile, "rename"),
    (tf.io.gfile, "remove"),
    (tf.raw_ops, "SaveV2"),
    (os, "replace"),
    (os, "remove"),
    (file_io, "sync"),
  )

  def __init__(self, folder, copies, monkeypatch):
    self._folder, self._copies = folder, copies
    self.pictures = []
    for module, name in self.CALLS:
      monkeypatch.setattr(module, name, self._watched(getattr(module, name)))

  def _watched(self, call):
    def wrapped(*args, **kwargs):
      self._take()
      result = call(*args, **kwargs)
      self._take()
      return result

    return wrapped

  def _take(self):
    copy = self._copies / str(len(self.pictures))
    shutil.copytree(self._folder, copy)
    self.pictures.append(copy)


@pytest.mark.parametrize("step", [10, 15])
def test_a_kill_leaves_a_whole_checkpoint(tmp_path, monkeypatch, step):
  folder = tmp_path / "run"
  claim(folder, RUN, TRAINS)
  save(folder, 5, 10)
  with monkeypatch.context() as patch:
    camera = Camera(folder, tmp_path, patch)
    save(folder, step, max_to_keep=2)
  steps = []
  for copy in camera.pictures:
    claim(copy, RUN, TRAINS)
    files = names(copy)
    assert not [name for name in files if "tmp" in name]
    indices = [name for name in files if name.endswith(".index")]
    assert {f"{name[:-6]}.data-00000-of-00001" for name in indices} <= {*files}
    checkpoint = newest(copy)
    check_whole(checkpoint, checkpoint.step)
    steps.append(checkpoint.step)
    save(copy, step, max_to_keep=2)
    check_whole(newest(copy), step)
    assert sum(name.endswith(".commit") for name in names(copy)) == 2
  assert len(steps) > 15 and steps[-1] == step
  assert set(steps) == ({5, 10} if step == 10 else {10, 15})


def test_a_full_disk_keeps_the_earlier_checkpoints(tmp_path):
  save(tmp_path, 5)
  before = names(tmp_path)
  soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
  for limit in (10, 300):  # Too small for the data, then for .commit.
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    message = "step 10 could not be saved in .*too large.*make room and run"
    try:
      with pytest.raises(errors.InputError, match=message):
        save(tmp_path, 10)
    finally:
      resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    check_whole(newest(tmp_path), 5)
    assert set(before) <= set(names(tmp_path))
    assert not [name for name in names(tmp_path) if "tmp" in name]


@pytest.mark.parametrize(
  "changes, difference",
  [
    ({"task": "cola"}, 'task is "mrpc" there and "cola" now'),
    ({"model": {"hidden_size": 16}}, "model.hidden_size is 8 there and 16 now"),
    ({"labels": 3}, r'labels is "\(absent\)" there and 3 now'),
  ],
)
def test_a_folder_of_another_run_is_refused(tmp_path, changes, difference):
  claim(tmp_path, RUN, TRAINS)
  save(str(tmp_path), 5)
  with pytest.raises(errors.InputError, match=f"{difference}; pass another"):
    claim(tmp_path, {**RUN, **changes})


def test_training_settings_are_recorded_and_compared(tmp_path, caplog):
  folder = str(tmp_path)

  def start(optimizer, data):
    settings = run_folder.TrainedWith({"optimizer": optimizer}, {"data": data})
    claim(folder, RUN, settings)
    run_folder.starting_point(folder, "model.ckpt", settings)

  claim(folder, RUN)
  start("lamb", "a")
  save(folder, 5)
  with caplog.at_level(logging.WARNING):
    start("lamb", "a")
  unused = f"--init_checkpoint=model.ckpt is not used: .* {folder}/model.ckpt-5"
  (message,) = [record.getMessage() for record in caplog.records]
  assert re.match(unused, message)
  with caplog.at_level(logging.WARNING):
    start("lamb", "b")
  assert "began with data=a, and continues with b" in caplog.text
  with pytest.raises(errors.InputError, match='izer is "lamb" there and "adam'):
    start("adamw", "a")
  claim(folder, RUN)


@pytest.mark.parametrize(
  "content",
  [
    "",
    "{",
    "[]",
    '{"trained_with": []}',
    '{"trained_with": {"fixed": {}}}',
    '{"trained_with": {"fixed": 1, "watched": 2}}',
    '{"task": "cola", "checksum": "0"}',
  ],
)
def test_a_damaged_fingerprint_is_replaced(tmp_path, caplog, content):
  folder = str(tmp_path)
  claim(folder, RUN, TRAINS)
  save(folder, 5)
  path = tmp_path / "run_fingerprint.json"
  path.write_text(content)
  trained_with = run_folder.TrainedWith({"optimizer": "lamb"}, {"data": "a"})
  with caplog.at_level(logging.WARNING):
    claim(folder, RUN, trained_with)
    assert run_folder.starting_point(folder, None, trained_with).step == 5
  assert "owner of this folder is unknown: the run continues if" in caplog.text
  # The file is not replaced before the weights are known to fit.
  assert path.read_text() == content
  save(folder, 6)
  with pytest.raises(errors.InputError, match='is "mrpc" there and "cola"'):
    claim(folder, {**RUN, "task": "cola"})


def test_a_folder_without_a_checkpoint_is_free(tmp_path):
  claim(tmp_path, RUN, TRAINS)
  claim(tmp_path, {**RUN, "task": "cola"}, TRAINS)
  save(str(tmp_path), 5)
  with pytest.raises(errors.InputError, match='"cola" there and "mrpc" now'):
    claim(tmp_path, RUN)


def test_a_folder_that_cannot_be_used(tmp_path):
  (tmp_path / "file").touch()
  with pytest.raises(errors.InputError, match="cannot use .*file as the"):
    claim(f"{tmp_path}/file", RUN)
  weight_files.write_tf1(f"{tmp_path}/model.ckpt-30", values_of(30))
  with pytest.raises(errors.InputError, match=says("model.ckpt", "30", "no")):
    claim(tmp_path, RUN)
  assert "run_fingerprint.json" not in names(tmp_path)


def test_runs_of_version_0_1_continue(tmp_path, caplog):
  """Version 0.1 stored neither checksums nor training settings."""
  claim(tmp_path, RUN, TRAINS)
  save(tmp_path, 5, extra={"best": 1})
  path = tmp_path / "model.ckpt-5.commit"
  values = json.loads(path.read_text())
  path.write_text(json.dumps({n: values[n] for n in ("files", "extra")}))
  (tmp_path / "run_fingerprint.json").write_text(json.dumps(RUN))
  trained_with = run_folder.TrainedWith({"optimizer": "lamb"}, {"data": "a"})
  claim(tmp_path, RUN, trained_with)
  start = run_folder.starting_point(str(tmp_path), None, trained_with)
  assert start.step == 5 and start.extra == {"best": 1}
  assert not caplog.records


def save_as_the_original(folder, *steps):
  for step in steps:
    weight_files.write_tf1(f"{folder}/model.ckpt-{step}", values_of(step))
  lines = [f'model_checkpoint_path: "model.ckpt-{steps[-1]}"']
  lines += [f'all_model_checkpoint_paths: "model.ckpt-{n}"' for n in steps]
  pathlib.Path(folder, "checkpoint").write_text("\n".join(lines) + "\n")


def test_a_run_of_the_original_continues(tmp_path, caplog):
  folder = str(tmp_path)
  save_as_the_original(folder, 10, 20)
  claim(folder, RUN)  # As for an evaluation.
  with caplog.at_level(logging.INFO, logger="absl"):
    start = run_folder.starting_point(folder, None)
  assert "another program, such as" in caplog.text
  assert start == ("resume", f"{folder}/model.ckpt-20", 20, {})
  check_whole(start, 20)
  claim(folder, RUN, TRAINS)
  # No file changes before the weights are known to fit.
  assert not {*names(folder)} & {"run_fingerprint.json", "model.ckpt-20.commit"}
  save(folder, 21, max_to_keep=2)
  check_whole(newest(folder), 21)
  assert "run_fingerprint.json" in names(folder)
  # The original's checkpoint stays valid, like one of this project.
  (tmp_path / "model.ckpt-21.commit").unlink()
  check_whole(newest(folder), 20)
  assert "model.ckpt-10.index" not in names(folder)
  with pytest.raises(errors.InputError, match='is "mrpc" there and "cola"'):
    claim(folder, {**RUN, "task": "cola"})


def test_the_newest_whole_checkpoint_counts_whoever_wrote_it(tmp_path, caplog):
  claim(tmp_path, RUN, TRAINS)
  save(tmp_path, 11, 12)
  save_as_the_original(tmp_path, 12, 13)
  claim(tmp_path, RUN, TRAINS)
  check_whole(newest(tmp_path), 13)
  save(tmp_path, 14)
  assert {"model.ckpt-13.commit", "model.ckpt-12.commit"} < {*names(tmp_path)}
  save_as_the_original(tmp_path, 14, 15)
  cut(tmp_path / "model.ckpt-15.data-00000-of-00001")
  with caplog.at_level(logging.WARNING):
    check_whole(newest(tmp_path), 14)
  assert "skipping" in caplog.text and "model.ckpt-15" in caplog.text
  # A missing checkpoint that `checkpoint` names is skipped with a warning.
  save_as_the_original(tmp_path, 14, 16)
  for path in tmp_path.glob("model.ckpt-16.*"):
    path.unlink()
  caplog.clear()
  with caplog.at_level(logging.WARNING):
    check_whole(newest(tmp_path), 14)
  assert "model.ckpt-16: no checkpoint" in caplog.text


@pytest.mark.parametrize(
  "values, reason",
  [
    ({"bias": np.ones(3, "f")}, "no global_step"),
    ({**values_of(5), "bias": np.ones(3, "f")}, "its global_step is 5"),
  ],
)
def test_files_that_are_not_checkpoints(tmp_path, caplog, values, reason):
  save_as_the_original(tmp_path, 30)
  weight_files.write_tf1(f"{tmp_path}/model.ckpt-30", values)
  assert newest(tmp_path) is None
  assert reason in caplog.text


def test_a_second_training_is_refused_and_removes_nothing(tmp_path):
  folder = str(tmp_path)
  (tmp_path / "model.ckpt-3.tmp-host-0a1b2c3d-1.index").touch()
  with test_common_folder_lock.start_holder(folder) as holder:
    before = names(folder)
    refusal = rf"in use by process {holder.pid} on \S+, since"
    with pytest.raises(errors.InputError, match=refusal):
      claim(folder, RUN, TRAINS)
    claim(folder, RUN)  # Prediction needs no lock.
    assert names(folder) == before
    holder.kill()
  claim(folder, RUN, TRAINS)
  assert names(folder) == ["run.lock", "run_fingerprint.json"]


def test_where_a_run_starts_from(tmp_path):
  folder = str(tmp_path / "run")
  assert newest(tmp_path) is None
  random = run_folder.starting_point(folder, None)
  assert random == ("random", None, 0, {})
  assert run_folder.starting_point(folder, "x") == ("init", "x", 0, {})
  save(folder, 5)
  resumed = run_folder.starting_point(folder, "x")
  assert resumed == ("resume", f"{folder}/model.ckpt-5", 5, {})
  (tmp_path / "run/model.ckpt-5.commit").unlink()
  assert run_folder.starting_point(folder, "x").origin == "init"
