"""A table with bad rows to a served model, by pasting what is printed."""

import json
import re
import shlex
import shutil
import signal
import socket
import subprocess

import pytest

import script_runner
import tiny_model


def printed(pattern, text):
  """Returns the script and the flags of a command that was printed."""
  (command,) = re.findall(pattern, text)
  _, script, *flags = shlex.split(command)
  return script, dict(flag.removeprefix("--").split("=", 1) for flag in flags)


def free_port():
  with socket.socket() as one:
    one.bind(("127.0.0.1", 0))
    return one.getsockname()[1]


def first_line_with(stream, text):
  """Returns the first line that has a text; fails where there is none."""
  for line in stream:
    if text in line:
      return line
  raise AssertionError(f"the stream ended without {text!r}")


def answer_of(server_command):
  """Starts the server, asks as its log says, and stops it."""
  script, flags = server_command
  server = script_runner.start(script, **flags, port=free_port())
  try:
    asked = first_line_with(server.stderr, "example request: ")
    command = shlex.split(asked.partition("example request: ")[2])
    assert command[0] == "curl"
    done = subprocess.run(
      [*command, "--silent", "--retry", "60", "--retry-connrefused"],
      stdout=subprocess.PIPE,
      check=True,
      timeout=300,
    )
  finally:
    server.send_signal(signal.SIGTERM)
    server.communicate()
  return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_five_commands(tmp_path):
  shape = tiny_model.write_shape(
    tmp_path, "a good schon film".split(), max_position_embeddings=32
  )
  rows = [f"a {x} film,{x}" for x in ("good", "schön") * 20]
  rows[3], rows[7], rows[11] = "no label", ",good", "one,two,three"
  table = tmp_path / "films.csv"
  text = "\n".join(["text,opinion", *rows]) + "\n"
  table.write_text(text, encoding="latin-1")

  # 1: what is wrong with the table, and how to go on.
  flags = {
    "do_train": True,
    "do_eval": True,
    "train_file": table,
    "eval_fraction": 0.2,
    "label_column": "opinion",
    "train_batch_size": 8,
    "max_seq_length": 16,
    "num_train_epochs": 1,
    **shape,
    "output_dir": tmp_path / "out",
  }
  done = script_runner.run("run_classifier.py", **flags)
  assert done.code == 1 and "films.csv:3: not UTF-8: the byte 0xf6" in done.err
  flags["encoding"] = re.search(r"--encoding, such as ([\w-]+)", done.err)[1]
  done = script_runner.run("run_classifier.py", **flags)
  assert done.code == 1 and "3 of 40 rows are bad" in done.err
  (advice,) = re.findall(r"pass --(\w+=\w+)", done.err)
  assert all(f"films.csv:{line}: " in done.err for line in (5, 9, 13))
  # 2: the same, with that.
  flags.update([advice.split("=")])
  done = script_runner.succeed("run_classifier.py", **flags)
  # 3, 4, 5: what each one printed.
  script, flags = printed(r"(python export_saved_model\.py .*)", done.err)
  done = script_runner.succeed(script, **flags)
  answer = answer_of(printed(r"(python serve\.py .*)", done.out))
  (prediction,) = answer["predictions"]
  assert prediction["label"] in ("good", "schön")
