"""Tests serve.py from the command line."""

import contextlib
import json
import re
import resource
import shutil
import signal
import socket
import threading
import time
import urllib.error
import urllib.request

import pytest
import tensorflow as tf

import heads
import script_flags
import script_runner
import served
import serving_models
from answering import answers
from common import errors, run_settings
from message_facts import says
from serving import text_models
from test_head_answers import assert_same
from text import input_sequences


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
  """A model that writes a file `started` and waits for a file `may_end`."""
  folder = tmp_path_factory.mktemp("models") / "worker"

  @tf.function(autograph=False)
  def work(input_ids, input_mask, segment_ids):
    del input_mask, segment_ids
    tf.io.write_file(str(folder / "started"), "")
    (rounds,) = tf.while_loop(
      lambda _: tf.size(tf.io.matching_files(str(folder / "may_end"))) < 1,
      lambda rounds: [rounds + 1],
      [tf.constant(0)],
    )
    count = tf.shape(input_ids)[0]
    return {"embedding": tf.fill([count, 1], tf.sign(rounds + 1))}

  signature = work.get_concrete_function(
    *(tf.TensorSpec([None, None], tf.int32, n) for n in input_sequences.NAMES)
  )
  (folder / "2").mkdir(parents=True)
  (folder / "2" / "saved_model.pb").write_bytes(b"older")
  tf.saved_model.save(
    tf.Module(), str(folder / "10"), signatures={"ids": signature}
  )
  write_answers(folder / "10")
  return folder


@pytest.fixture(scope="module")
def serve():
  return script_flags.functions("serve")


@pytest.mark.parametrize(
  "folder, name",
  [
    ("a/mrpc", "mrpc"),
    ("a/mrpc/", "mrpc"),
    ("a/mrpc/12", "mrpc"),
    ("a/mrpc/final_model", "mrpc"),
    ("a/mrpc/best_model/", "mrpc"),
    ("a/mrpc/model", "model"),
    ("a/mrpc/v2", "v2"),
  ],
)
def test_a_model_has_the_name_of_its_folder(serve, folder, name):
  assert serve.default_name(folder) == name


@pytest.mark.parametrize(
  "saved, folders, given, expected",
  [
    (None, "x/a", None, "a"),
    ("x/a", None, None, "a"),
    ("x/a,x/b", "c/1", None, "a b c"),
    ("x/a,x/b", "c/1", "p,q,r", "p q r"),
    ("x/a", "y/a", None, "2 'a'"),
    ("x/a", "y/b", "p,q,r", "3 2"),
    ("x/a", None, "p/q", "'p/q'"),
    ("x/a", None, "p:q", "'p:q'"),
    ("x/a", "y/b", "p,", "''"),
    (None, None, "p", "--model_dir"),
  ],
)
def test_each_model_has_a_name(serve, saved, folders, given, expected):
  settings = run_settings.Settings(
    {"saved_model_dir": saved, "model_dir": folders, "model_name": given}
  )
  if expected.replace(" ", "").isalpha():
    assert serve.model_names(settings) == expected.split()
    return
  with pytest.raises(errors.InputError, match=says(*expected.split())):
    serve.model_names(settings)


def test_a_comma_separates_folders_unless_a_folder_has_it(serve, tmp_path):
  assert serve.folders(f"{tmp_path},{tmp_path}/b") == [
    str(tmp_path),
    f"{tmp_path}/b",
  ]
  (tmp_path / "a,b").mkdir()
  assert serve.folders(f"{tmp_path}/a,b") == [f"{tmp_path}/a,b"]
  assert serve.folders(None) == serve.folders("") == []


@pytest.mark.parametrize(
  "message, added",
  [
    ("no such head", ""),
    ("odd; pass --port", ""),
    ("odd; pass --pooling, or pass --head", "no --pooling:"),
    ("odd; pass --pooling, or pass --dtype", "no --dtype or --pooling:"),
  ],
)
def test_advice_that_only_an_export_can_follow(serve, message, added):
  settings = run_settings.Settings({"port": 1, "head": None})
  with pytest.raises(errors.InputError) as raised:  # noqa: SIM117
    with serve._flags_of_exports(settings):
      raise errors.InputError(message)
  assert str(raised.value).startswith(message)
  assert ("serve.py has " + added in str(raised.value)) == bool(added)


def write_answers(folder):
  """Writes the files of an export that serve.py reads."""
  vocab_file = serving_models.FOLDER / "vocab.txt"
  (folder / "assets.extra").mkdir(parents=True)
  shutil.copy(vocab_file, folder / "assets.extra")
  answers.write_settings(
    str(folder / "assets.extra" / "answers.json"),
    serving_models.export_settings_of(
      {"head": "embedding", "vocab_file": str(vocab_file)}
    ),
    ["text"],
  )


def ask(url, **headers):
  body = json.dumps({"instances": ["a"]}).encode()
  request = urllib.request.Request(f"{url}:predict", body, headers)
  try:
    with urllib.request.urlopen(request, timeout=120) as answer:
      return answer.status, json.load(answer)
  except urllib.error.HTTPError as error:
    return error.code, json.load(error)


def wait_for(path):
  until = time.monotonic() + 60
  while not path.exists():
    assert time.monotonic() < until
    time.sleep(0.01)


def few_descriptors():
  resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))


def test_many_connections_and_a_request_during_sigterm(saved_model):
  process, url = served.start_script(saved_model, preexec_fn=few_descriptors)
  host, port = url.split("/")[2].split(":")
  crowd = contextlib.ExitStack()
  try:
    opened = [
      crowd.enter_context(socket.create_connection((host, int(port)), 60))
      for _ in range(300)
    ]
    # The server closed the oldest connection to make room for later ones.
    assert opened[0].recv(1000) == b""
    assert url.startswith("http://127.0.0.1:") and url.endswith("/worker")
    started, may_end = saved_model / "started", saved_model / "may_end"
    may_end.write_text("")
    assert ask(url) == (200, {"predictions": [[1]]})
    started.unlink()
    started.mkdir()  # TensorFlow cannot write this file.
    status, refusal = ask(url)
    assert status == 500 and "its log has the details" in refusal["error"]
    started.rmdir()
    status, refusal = ask(url, **{"Content-Encoding": "gzip"})
    assert status == 400 and "uncompressed" in refusal["error"]
    may_end.unlink()
    received = []
    client = threading.Thread(
      target=lambda: received.append(ask(url)), daemon=True
    )
    client.start()
    wait_for(started)
    process.send_signal(signal.SIGTERM)
    may_end.write_text("")
    client.join(120)
    assert received == [(200, {"predictions": [[1]]})]
    _, log = process.communicate(timeout=25)
    assert process.returncode == 0
    assert f"loaded {saved_model}/10" in log
    assert "stopped; texts: 3, batches: 3" in log
    # The port was not known before.
    assert "example request" not in log
    assert "socket.accept" not in log and "Unhandled" not in log
  finally:
    process.kill()
    crowd.close()


def test_a_model_folder_is_served_without_an_export(tmp_path):
  """Its trained head is served, and answers equal the answers in Python."""
  labels = {"0": "bad", "1": "good"}
  folder = serving_models.trained(
    tmp_path / "stars" / "final_model",
    lambda config, _: heads.ClassificationHead(config, 2),
    stored={"max_seq_length": 16},
    id2label=labels,
    problem_type="single_label_classification",
  )
  texts = ["the gold star", "he was up the street"]
  with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
  process, url = served.start_script(folder, "model_dir", port)
  try:
    body = json.dumps({"instances": texts}).encode()
    with urllib.request.urlopen(f"{url}:predict", body, timeout=60) as answer:
      predictions = json.load(answer)["predictions"]
    with urllib.request.urlopen(f"{url.split('/v1')[0]}/metrics") as answer:
      numbers = answer.read().decode()
  finally:
    process.kill()
    _, log = process.communicate()
  assert url == f"http://127.0.0.1:{port}/v1/models/stars"
  assert f"""["some text"]}}' {url}:predict""" in log
  assert_same(text_models.load(str(folder)).classify(texts), predictions)
  assert '\nbert_requests_total{status="200"} 1\n' in numbers


def test_startup_errors(saved_model, tmp_path):
  def error_of(**flags):
    finished = script_runner.run("serve.py", **flags)
    assert finished.code == 1
    assert finished.last_line.startswith("serve.py: error: ")
    return finished.last_line

  assert "pass --model_dir or --saved_model_dir" in error_of()
  assert f"{serving_models.FOLDER} was trained to fill in [MASK] and" in (
    error_of(model_dir=serving_models.FOLDER, head="span")
  )
  assert "no SavedModel in" in error_of(saved_model_dir=tmp_path)
  (tmp_path / "1").mkdir()
  (tmp_path / "1" / "saved_model.pb").write_bytes(b"damaged")
  assert "a SavedModel without assets.extra/answers.json; serve.py" in (
    error_of(saved_model_dir=tmp_path)
  )
  write_answers(tmp_path / "1")
  assert re.search(
    says("SavedModel", "not", "readable"), error_of(saved_model_dir=tmp_path)
  )
  assert re.search(
    says("URL", "cannot"),
    error_of(saved_model_dir=saved_model, model_name="a/b"),
  )
  two = f"{tmp_path}/a/mrpc/final_model,{tmp_path}/b/mrpc/best_model"
  assert "2 models are called 'mrpc'" in error_of(model_dir=two)
  assert "1 names for 2 models" in error_of(model_dir=two, model_name="a")
  with socket.create_server(("127.0.0.1", 0)) as taken:
    port = taken.getsockname()[1]
    assert f"cannot listen on 127.0.0.1:{port}" in error_of(
      saved_model_dir=saved_model, port=port
    )


def test_an_error_names_the_script_that_has_the_advised_flag():
  folder = (
    script_runner.ROOT
    / "tests"
    / "golden"
    / "foreign_folders"
    / "vectors_dense"
  )
  message = "serve.py has no --pooling: pass it to export_saved_model.py"
  script_runner.refuse("serve.py", message, model_dir=folder, port=0)
