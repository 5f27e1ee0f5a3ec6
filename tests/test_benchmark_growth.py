"""Tests benchmarks/growth.py."""

import argparse
import json

import growth
import measured_runs
import step_speed


def test_lines_are_the_same_for_the_same_count(tmp_path):
  texts = []
  for _ in range(2):
    growth.write_lines(tmp_path / "lines.txt", 50)
    texts.append((tmp_path / "lines.txt").read_text())
  lines = texts[0].splitlines()
  assert texts[0] == texts[1] and len(lines) == 50
  assert all(2 <= len(line.split()) <= 20 for line in lines)


def test_a_row_for_each_number_of_texts(monkeypatch):
  counts = []

  def run(command, **options):
    options = dict(
      word.lstrip("-").split("=") for word in command[2:] if "=" in word
    )
    with open(options["input_file"], encoding="utf-8") as stream:
      counts.append(len(stream.readlines()))
    assert options["model_dir"] == "a" and options["engine"] == "b"
    return "", measured_runs.Cost(1.0, 2.0, 30.0 * len(counts))

  monkeypatch.setattr(measured_runs, "run", run)
  arguments = argparse.Namespace(model_dir="a", engine="b", lines="3,2000")
  _, *rows = growth.texts(arguments)
  assert counts == [3, 2000]
  assert rows == ["| 3 | 2.0 | 1.0 | 30 |", "| 2,000 | 2.0 | 1.0 | 60 |"]


def test_a_row_for_each_shape(monkeypatch):
  pythons = {}

  def answer(command):
    python, script, job = command
    name, work, rounds, _ = json.loads(job)
    pythons.setdefault(name, python)
    work = step_speed.Work(*work)
    assert script == step_speed.__file__ and rounds == 5
    assert work.values["num_hidden_layers"] == 2
    rate = {"examples_per_second": 1e4 / work.length}
    return rate if name == "here" else None

  monkeypatch.setattr(measured_runs, "answer", answer)
  arguments = growth.parse_arguments(["shapes", "--peer_python=peer"])
  _, *rows = growth.speeds(arguments)
  assert len(rows) == len(growth.SHAPES) == len(set(growth.SHAPES)) == 7
  assert rows[0] == "| 16 × 64 | 10,000 | – | – |"
  assert pythons["here"] != "peer"
  assert {pythons[name] for name in pythons if name != "here"} == {"peer"}
