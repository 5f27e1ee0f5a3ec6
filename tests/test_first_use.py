"""From a table with bad rows to a served model, by pasting printed commands."""

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
from message_facts import says


def printed(pattern, text):
  """Returns the script and the flags of the command that a pattern finds."""
  (command,) = re.findall(pattern, text)
  _, script, *flags = shlex.split(command)
  return script, dict(flag.removeprefix("--").split("=", 1) for flag in flags)


def free_port():
  with socket.socket() as listener:
    listener.bind(("127.0.0.1", 0))
    return listener.getsockname()[1]


def first_line_with(stream, text):
  """Returns the first line that contains a text; fails if none does."""
  for line in stream:
    if text in line:
      return line
  raise AssertionError(f"the stream ended without {text!r}")


def answer_of(server_command):
  """Returns the server's answer to the curl command that its log prints."""
  script, flags = server_command
  server = script_runner.start(script, **flags, port=free_port())
  try:
    log_line = first_line_with(server.stderr, "example request: ")
    command = shlex.split(log_line.partition("example request: ")[2])
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
def test_five_pasted_commands_lead_to_a_served_model(tmp_path):
  model_flags = tiny_model.write_shape(
    tmp_path, "a good schon film".split(), max_position_embeddings=32
  )
  rows = [f"a {word} film,{word}" for word in ("good", "schön") * 20]
  rows[3], rows[7], rows[11] = "no label", ",good", "one,two,three"
  table = tmp_path / "films.csv"
  text = "\n".join(["text,opinion", *rows]) + "\n"
  table.write_text(text, encoding="latin-1")

  # 1: the errors name the faults of the table and the flags to pass.
  flags = {
    "do_train": True,
    "do_eval": True,
    "train_file": table,
    "eval_fraction": 0.2,
    "label_column": "opinion",
    "train_batch_size": 8,
    "max_seq_length": 16,
    "num_train_epochs": 1,
    **model_flags,
    "output_dir": tmp_path / "out",
  }
  done = script_runner.run("run_classifier.py", **flags)
  assert done.code == 1 and re.search(
    says("films.csv:3", "UTF-8", "not", "byte"), done.err
  )
  flags["encoding"] = re.search(r"--encoding, such as ([\w-]+)", done.err)[1]
  done = script_runner.run("run_classifier.py", **flags)
  assert done.code == 1 and "bad rows (3 of 40)" in done.err
  (advice,) = re.findall(r"pass --(\w+=\w+)", done.err)
  assert all(f"films.csv:{line}: " in done.err for line in (5, 9, 13))
  # 2: the same command with the suggested flag.
  flags.update([advice.split("=")])
  done = script_runner.succeed("run_classifier.py", **flags)
  # 3, 4, 5: each command is printed by the one before it.
  script, flags = printed(r"(python export_saved_model\.py .*)", done.err)
  done = script_runner.succeed(script, **flags)
  answer = answer_of(printed(r"(python serve\.py .*)", done.out))
  (prediction,) = answer["predictions"]
  assert prediction["label"] in ("good", "schön")
