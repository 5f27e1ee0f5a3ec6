"""Checkpoints are found, read, written and loaded; faults are reported."""

import errno
import os
import pathlib
import resource
import shutil

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

import named_weights
import stored_weights
import two_replicas
from checkpoints import weight_files
from common import errors, file_io
from message_facts import says
from transformers_goldens import check_equal

ORIGINAL = "tests/golden/checkpoints/model.ckpt-12"
VALUES = {
  "bert/embeddings/word_embeddings": np.arange(6, dtype="f").reshape(3, 2),
  "bert/embeddings/word_embeddings/adam_m": np.full((3, 2), 0.5, "f"),
  "bert/pooler/dense/bias": np.array([-1.5, 2.5], "f"),
  "global_step": np.array(7, np.int64),
}


@pytest.fixture
def prefix(tmp_path):
  path = f"{tmp_path}/bert_model.ckpt"
  weight_files.write_tf1(path, VALUES)
  return path


def test_every_tensor_of_the_originals_checkpoint_is_read():
  run = "tests/golden/optimizer/pre_linear_warm_longer_than_total.npz"
  with np.load(run) as arrays:
    expected = {
      name.removeprefix("final/"): arrays[name]
      for name in arrays.files
      if name.startswith("final/")
    }
  expected["global_step"] = np.array(12, np.int64)
  check_equal(stored_weights.read(ORIGINAL), expected)


def test_weights_of_a_training_checkpoint_are_loaded_without_its_moments():
  shapes = weight_files.open_reader(ORIGINAL).shapes
  names = [n for n in shapes if n.startswith("bert/") and "/adam_" not in n]
  variables = [tf.Variable(tf.zeros(shapes[n]), name=n) for n in names]
  report = weight_files.load(variables, ORIGINAL)
  assert report.loaded == names
  assert report.missing == []
  assert len(report.unused) == 7
  assert all(name.startswith("cls/") for name in report.unused)


def test_every_way_to_name_a_checkpoint(prefix, tmp_path):
  for path in (
    prefix,
    f"{prefix}.index",
    f"{prefix}.data-00000-of-00001",
    f"{prefix}.meta",
    str(tmp_path),
  ):
    assert weight_files.find_prefix(path) == prefix


def test_the_checkpoint_that_is_found_in_a_folder(tmp_path):
  def found_after_writing(name):
    weight_files.write_tf1(f"{tmp_path}/{name}", {"a": np.zeros(1)})
    return pathlib.Path(weight_files.find_prefix(str(tmp_path))).name

  assert found_after_writing("model.ckpt-9") == "model.ckpt-9"
  assert found_after_writing("model.ckpt-10") == "model.ckpt-10"
  tf.compat.v1.train.update_checkpoint_state(
    str(tmp_path), f"{tmp_path}/model.ckpt-9"
  )
  assert found_after_writing("model.ckpt-11") == "model.ckpt-9"
  # In a copy, the checkpoint of the same name counts, not the original's.
  copy = shutil.copytree(tmp_path, tmp_path / "copy")
  assert weight_files.find_prefix(str(copy)) == str(copy / "model.ckpt-9")
  assert found_after_writing("bert_model.ckpt") == "bert_model.ckpt"


def test_a_missing_checkpoint_is_reported(tmp_path, prefix):
  for name in ("empty", "adapter"):
    (tmp_path / name).mkdir()
  (tmp_path / "adapter" / "adapter_config.json").write_text("{}")
  for name in ("one.ckpt", "two.ckpt"):
    weight_files.write_tf1(f"{tmp_path}/two/{name}", {"a": np.zeros(1)})
  for path, message in (
    ("two", "one.ckpt, two.ckpt; pass one"),
    ("none", r"none: there is no .*none\.index; .* has bert_model\.ckpt"),
    ("empty", r"empty: it has no \*\.index, model\.safetensors or"),
    ("adapter", "adapter has only a PEFT adapter, .*merge both"),
    ("empty/model.ckpt-3", r"empty/model\.ckpt-3: there is no .*3\.index$"),
    ("no/folder", r"no checkpoint at .*: there is no .*no/folder\.index$"),
  ):
    with pytest.raises(errors.InputError, match=message):
      weight_files.open_reader(f"{tmp_path}/{path}")


@pytest.mark.parametrize(
  "change",
  [
    lambda data: bytes([data[0] ^ 1]) + data[1:],
    lambda data: data[:-5],
    lambda data: b"",
    lambda data: b"not an index",
  ],
)
@pytest.mark.parametrize(
  "read, part, message",
  [
    # An index is checked on opening, tensors when they are read.
    (weight_files.open_reader, "index", says("ckpt.index", "not", "readable")),
    (
      stored_weights.read,
      "data-00000-of-00001",
      says("bert_model.ckpt", "cannot"),
    ),
  ],
)
def test_damaged_files_are_named(prefix, read, part, message, change):
  path = pathlib.Path(f"{prefix}.{part}")
  path.write_bytes(change(path.read_bytes()))
  with pytest.raises(errors.InputError, match=message):
    read(prefix)


def test_missing_data_files_are_named(prefix, tmp_path):
  data = tmp_path / "bert_model.ckpt.data-00000-of-00001"
  data.rename(tmp_path / "bert_model.ckpt.data-00001-of-00002")
  with pytest.raises(errors.InputError, match="00000-of-00002 is missing"):
    weight_files.open_reader(prefix)
  (tmp_path / "bert_model.ckpt.data-00001-of-00002").unlink()
  with pytest.raises(errors.InputError, match="00000-of-00001 is missing"):
    weight_files.open_reader(prefix)


def test_same_values_give_the_same_bytes(tmp_path):
  variables = {name: tf.Variable(value) for name, value in VALUES.items()}
  backwards = dict(reversed(VALUES.items()))
  for folder, values in (("a", VALUES), ("b", variables), ("c", backwards)):
    weight_files.write_tf1(f"{tmp_path}/{folder}/x", values)
  files = ["x.data-00000-of-00001", "x.index"]
  for folder in "abc":
    assert sorted(p.name for p in (tmp_path / folder).iterdir()) == files
  for file in files:
    assert len({(tmp_path / f / file).read_bytes() for f in "abc"}) == 1


def test_tensorflow_1_code_restores_what_is_written(prefix):
  name = "bert/embeddings/word_embeddings"
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    restored, initialised = (
      tf.compat.v1.get_variable(name_, [3, 2], use_resource=False)
      for name_ in (name, "other")
    )
    tf.compat.v1.train.init_from_checkpoint(prefix, {name: "other"})
    session.run(tf.compat.v1.global_variables_initializer())
    tf.compat.v1.train.Saver([restored]).restore(session, prefix)
    for value in session.run([restored, initialised]):
      np.testing.assert_array_equal(value, VALUES[name])


def test_a_failure_leaves_the_old_checkpoint(prefix, tmp_path):
  with pytest.raises(KeyError), weight_files.temporary_prefix(prefix) as path:
    pathlib.Path(f"{path}.index").touch()
    raise KeyError
  check_equal(stored_weights.read(prefix), VALUES)
  assert len(list(tmp_path.iterdir())) == 2


def test_a_full_disk_leaves_the_old_checkpoint(prefix, tmp_path):
  soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
  resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
  try:
    # The message ends before {{function_node ...}} and [Op:SaveV2].
    message = r"cannot write the checkpoint .*ckpt: /[^{]*too large$"
    with pytest.raises(errors.InputError, match=message):
      weight_files.write_tf1(prefix, {"large": np.zeros(100_000)})
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
  check_equal(stored_weights.read(prefix), VALUES)
  assert len(list(tmp_path.iterdir())) == 2


def failing(number, function):
  """Returns a function whose NUMBERth call raises, as on a failing disk."""
  calls = []

  def wrapped(*arguments, **options):
    calls.append(arguments)
    if len(calls) == number:
      raise OSError(errno.EIO, "Input/output error", arguments[0])
    return function(*arguments, **options)

  return wrapped


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("number", [1, 2])
def test_a_failing_replacement_keeps_the_old_weights(
  tmp_path, monkeypatch, number, links
):
  prefix = str(tmp_path / "bert_model.ckpt")
  weight_files.write_tf1(prefix, {"a": np.zeros(3, "f")})
  before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
  if not links:
    monkeypatch.setattr(os, "link", failing(1, os.link))
  rename = failing(number, tf.io.gfile.rename)
  with monkeypatch.context() as patch:
    patch.setattr(tf.io.gfile, "rename", rename)
    with pytest.raises(errors.InputError, match="Input/output error"):
      weight_files.write_tf1(prefix, {"a": np.ones(3, "f")})
  assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
  weight_files.write_tf1(prefix, {"a": np.ones(3, "f")})
  assert sorted(before) == sorted(os.listdir(tmp_path))
  assert weight_files.open_reader(prefix).read("a").tolist() == [1, 1, 1]


class Killed(BaseException):
  """Ends a function as a kill would, if nothing is done about it."""


@pytest.mark.parametrize("number", [1, 2])
def test_a_kill_during_a_replacement_keeps_the_old_weights(
  tmp_path, monkeypatch, number, caplog
):
  prefix = str(tmp_path / "bert_model.ckpt")
  weight_files.write_tf1(prefix, {"a": np.zeros(3, "f")})
  rename, calls = tf.io.gfile.rename, []

  def killed(*arguments, **options):
    calls.append(arguments)
    if len(calls) >= number:
      raise Killed
    rename(*arguments, **options)

  with monkeypatch.context() as patch:
    patch.setattr(tf.io.gfile, "rename", killed)
    with pytest.raises(Killed):
      weight_files.write_tf1(prefix, {"a": np.ones(3, "f")})
  for path in (prefix, str(tmp_path)):
    assert weight_files.open_reader(path).read("a").tolist() == [0, 0, 0]
  (message,) = caplog.messages
  assert message.startswith(f"{prefix}: a process ended while it replaced")
  assert f"{prefix}.earlier." in message
  weight_files.write_tf1(prefix, {"a": np.ones(3, "f")})
  for path in (prefix, str(tmp_path)):
    assert weight_files.open_reader(path).read("a").tolist() == [1, 1, 1]
  assert len(os.listdir(tmp_path)) == 2


def test_a_kill_next_to_files_of_an_older_kill_keeps_the_old_weights(
  tmp_path, monkeypatch
):
  prefix = str(tmp_path / "bert_model.ckpt")
  weight_files.write_tf1(prefix, {"a": np.zeros(3, "f")})
  for end in ("index", "data-00001-of-00002"):
    pathlib.Path(f"{prefix}.earlier.{end}").write_text("older")

  def killed(*arguments, **options):
    raise Killed

  with monkeypatch.context() as patch:
    patch.setattr(tf.io.gfile, "rename", killed)
    with pytest.raises(Killed):
      weight_files.write_tf1(prefix, {"a": np.ones(3, "f")})
  assert weight_files.open_reader(prefix).read("a").tolist() == [0, 0, 0]


@pytest.mark.parametrize("folder", ["", "new/"])
def test_a_checkpoint_is_on_the_disk_before_its_names(
  tmp_path, monkeypatch, folder
):
  """After a power cut, the names lead to whole files."""
  monkeypatch.chdir(tmp_path)
  events, sync, rename = [], file_io.sync, tf.io.gfile.rename

  def synced(path):
    events.append(("sync", pathlib.Path(path).suffix[:5]))
    sync(path)

  def renamed(source, target, **options):
    events.append(("rename", pathlib.Path(target).suffix[:5]))
    rename(source, target, **options)

  monkeypatch.setattr(file_io, "sync", synced)
  monkeypatch.setattr(tf.io.gfile, "rename", renamed)
  weight_files.write_tf1(f"{folder}x", VALUES)
  assert events == [
    ("sync", ".data"),
    ("sync", ".inde"),
    ("rename", ".data"),
    ("rename", ".inde"),
    ("sync", ""),
  ]


def test_a_checkpoint_may_be_in_a_new_or_the_current_folder(
  tmp_path, monkeypatch
):
  monkeypatch.chdir(tmp_path)
  for prefix in ("x.ckpt", "new/folder/x.ckpt"):
    weight_files.write_tf1(prefix, VALUES)
    check_equal(stored_weights.read(prefix), VALUES)
  assert len(os.listdir(tmp_path)) == 3


def test_the_index_is_the_last_file(prefix):
  """A copy that is cut off then has no index, and is no checkpoint."""
  pathlib.Path(f"{prefix}.meta").touch()
  ends = [path.rpartition(".")[2] for path in weight_files.files_of(prefix)]
  assert ends == ["data-00000-of-00001", "meta", "index"]


def test_an_adapter_next_to_whole_weights_is_named(tmp_path, caplog):
  weights = {"bert.a": np.ones(2, np.float32)}
  safetensors.numpy.save_file(weights, tmp_path / "model.safetensors")
  weight_files.open_reader(str(tmp_path))
  assert not caplog.text
  (tmp_path / "adapter_config.json").write_text("{}")
  for _ in range(2):
    assert [*weight_files.open_reader(str(tmp_path)).shapes] == ["bert.a"]
  assert caplog.text.count("adapter_config.json") == 1


def test_reports_are_sorted(tmp_path):
  names = [f"{letter}{letter}" for letter in "qwertzuiop"]
  stored = dict.fromkeys(names[:7], np.zeros(1, np.float32))
  weight_files.write_tf1(f"{tmp_path}/x", stored)
  report = weight_files.load(
    model(**dict.fromkeys(names[3:], [1])), f"{tmp_path}/x", allowed_missing="."
  )
  parts = names[3:7], names[7:], names[:3]
  assert report == tuple(map(sorted, parts))


def test_a_folder_that_is_a_file_is_refused(tmp_path):
  (tmp_path / "file").touch()
  with pytest.raises(errors.InputError, match="cannot write the checkpoint"):
    weight_files.write_tf1(f"{tmp_path}/file/model", VALUES)


def test_remote_folders(tmp_path):
  prefix = f"ram://{tmp_path.name}/bert_model.ckpt"
  weight_files.write_tf1(prefix, VALUES)
  weight_files.write_tf1(prefix, VALUES)
  check_equal(stored_weights.read(f"ram://{tmp_path.name}"), VALUES)


def model(**shapes):
  """Returns variables of zeros; `__` in an argument means a slash."""
  return [
    tf.Variable(tf.zeros(shape), name=name.replace("__", "/"))
    for name, shape in shapes.items()
  ]


def test_report_of_loaded_weights(prefix):
  bias, head = model(bert__pooler__dense__bias=[2], output_bias=[3])
  report = weight_files.load([bias, head], prefix, allowed_missing=["^output_"])
  assert report.loaded == ["bert/pooler/dense/bias"]
  assert report.missing == ["output_bias"]
  assert report.unused == ["bert/embeddings/word_embeddings"]
  np.testing.assert_array_equal(bias, VALUES["bert/pooler/dense/bias"])
  np.testing.assert_array_equal(head, [0, 0, 0])


@pytest.mark.parametrize(
  "names, part",
  [
    ("bert__pooler__dense__kernel", "the pooler"),
    ("output_weights output_bias", "the classifier"),
    ("cls__squad__output_bias", "the layer that finds answers"),
    ("cls__predictions__output_bias", "the masked-LM head"),
    ("cls__seq_relationship__output_bias", "the next-sentence head"),
    ("my_cls__squad__output_weights_2", "my_cls/squad/output_weights_2"),
  ],
)
def test_new_and_unused_weights_are_named_once(prefix, caplog, names, part):
  caplog.set_level("INFO", logger="absl")
  variables = model(**{name: [1] for name in names.split()})
  weight_files.load(variables, prefix, allowed_missing=[".*"])
  loaded, new, unused = caplog.messages
  assert loaded.startswith("0 variables ") and prefix in loaded
  assert new.endswith(f": {part}")
  # Moments and the step are no weights.
  assert "(2)" in unused and "adam_m" not in unused
  assert "word_embeddings" in unused and "pooler/dense/bias" in unused


def test_all_names_are_in_the_details_of_the_log(prefix, caplog):
  caplog.set_level("DEBUG", logger="absl")
  names = [f"output_{number}" for number in range(6)]
  weight_files.load(
    model(**dict.fromkeys(names, [1])), prefix, allowed_missing=[".*"]
  )
  details = [r.getMessage() for r in caplog.records if r.levelname == "DEBUG"]
  assert details == [
    f"not in the checkpoint: {', '.join(names)}",
    "not used: bert/embeddings/word_embeddings, bert/pooler/dense/bias",
  ]
  caplog.clear()
  variables = {name: tf.Variable(0 * value) for name, value in VALUES.items()}
  weight_files.load(variables, prefix)
  assert len(caplog.records) == 1


@pytest.mark.parametrize("way", ["path", "reader", "nothing"])
def test_only_weights_that_are_loaded_start_at_zero(prefix, way):
  source = {
    "path": prefix,
    "reader": weight_files.open_reader(prefix),
    "nothing": None,
  }[way]
  shapes = {"bert/embeddings/word_embeddings": (3, 2), "other": (3, 2)}
  with weight_files.without_random_init(source):
    made = named_weights.Weights(shapes, stddev=0.02, seed=1)
  table, other = made.variables
  assert np.any(other) and np.any(table) == (way == "nothing")


def test_integers_and_moments_are_loaded_where_there_is_a_variable(prefix):
  variables = {name: tf.Variable(0 * value) for name, value in VALUES.items()}
  report = weight_files.load(variables, weight_files.open_reader(prefix))
  assert report.loaded == sorted(VALUES) and report.unused == []
  check_equal({n: v.numpy() for n, v in variables.items()}, VALUES)


@pytest.mark.parametrize("value", [np.nan, -np.inf, 1])
def test_values_that_are_no_weights_are_refused(prefix, value):
  name = "bert/pooler/dense/bias"
  weight_files.write_tf1(prefix, {name: [1, value]})
  with pytest.raises(errors.InputError, match=f"{name} .* has NaN, infinity"):
    weight_files.load(model(bert__pooler__dense__bias=[2]), prefix)


def test_anything_but_the_head_must_be_in_the_file(prefix):
  variables = model(
    bert__pooler__dense__bias=[2], bert__pooler__dense__kernel=[2, 2]
  )
  message = (
    r"bert_model\.ckpt has no bert/pooler/dense/kernel \(it has "
    r"bert/embeddings/word_embeddings, .*pass the checkpoint that belongs"
  )
  with pytest.raises(errors.InputError, match=message):
    weight_files.load(variables, prefix, allowed_missing=["^output_"])
  np.testing.assert_array_equal(variables[0], [0, 0])


def test_shapes_must_agree(prefix):
  (table,) = model(bert__embeddings__word_embeddings=[4, 2])
  message = r"word_embeddings has shape \[3, 2\], but \[4, 2\] is needed; pass"
  with pytest.raises(errors.InputError, match=message):
    weight_files.load([table], prefix)
  (head,) = model(bert__pooler__dense__bias=[5])
  with pytest.raises(
    errors.InputError, match="pass the checkpoint's labels, or"
  ):
    weight_files.load([head], prefix, allowed_missing=["pooler/dense/bias"])


def test_another_number_of_classes_is_another_task(tmp_path):
  prefix = str(tmp_path / "model.ckpt")
  weight_files.write_tf1(prefix, {"output_weights": np.zeros([3, 2])})
  (head,) = model(output_weights=[2, 2])
  with pytest.raises(errors.InputError) as raised:
    weight_files.load([head], prefix)
  facts = ("task with 3 outputs", "this task has 2", "another --output_dir")
  assert all(fact in str(raised.value) for fact in facts)


def test_every_copy_of_a_mirrored_variable_is_loaded(prefix):
  strategy = two_replicas.strategy()
  with strategy.scope():
    (bias,) = model(bert__pooler__dense__bias=[2])
    weight_files.load([bias], prefix)
  for copy in bias.values:
    np.testing.assert_array_equal(copy, VALUES["bert/pooler/dense/bias"])
  weight_files.write_tf1(prefix, {"bias": bias})
  np.testing.assert_array_equal(
    stored_weights.read(prefix)["bias"], [-1.5, 2.5]
  )


def test_special_characters_in_paths_are_literal(tmp_path):
  for folder in ("mod[el]", "back\\slash", "a*"):
    path = f"{tmp_path}/{folder}/bert[1].ckpt"
    weight_files.write_tf1(path, VALUES)
    check_equal(stored_weights.read(f"{tmp_path}/{folder}"), VALUES)
    weight_files.write_tf1(path, {"a": np.zeros(3, "f")})
    check_equal(stored_weights.read(path), {"a": np.zeros(3, "f")})
    assert len(weight_files.files_of(path)) == 2


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"no proto {"])
def test_a_damaged_file_called_checkpoint_is_ignored(tmp_path, content):
  for step in (3, 20):
    weight_files.write_tf1(
      str(tmp_path / f"model.ckpt-{step}"), {"a": np.float32([step])}
    )
  (tmp_path / "checkpoint").write_bytes(content)
  reader = weight_files.open_reader(str(tmp_path))
  assert reader.read("a") == [20.0]
