"""engine_speed.py: texts, a contender's process, tables of table.py."""

import runpy

import pytest

import engine_speed
import serving_models
from script_runner import ROOT

TABLE = runpy.run_path(str(ROOT / "benchmarks" / "table.py"))


def test_texts_have_as_many_pieces_as_asked_for():
  tokenizer = serving_models.tokenizer()
  for text in engine_speed.make_texts(serving_models.FOLDER, 3, 16):
    assert len(tokenizer.tokenize(text)) == 14


def measures(threads, speed):
  found = {
    "milliseconds, p50": 1.25,
    "milliseconds, p99": 2.0,
    "megabytes": 300.0,
    "megabytes, disk": 90.0,
  }
  for size, length in engine_speed.BATCHES:
    name = engine_speed.texts_per_second(size, length)
    found[name], found[name.replace("second", "processor_second")] = speed, 4.0
  return {f"{name}, {threads}": value for name, value in found.items()}


def test_tables_of_engines_and_scores():
  ours, peer = "here, int8, `onnx`", "ONNX Runtime, int8"
  # The first contender failed.
  speeds = [
    {
      "here, float32, TensorFlow": {},
      ours: measures("one thread", speed),
      peer: measures("one thread", 7),
    }
    for speed in (10, 30, 20)
  ]
  scores = [{ours: {"score": 0.8}}]
  works = {
    "engines/minilm": speeds,
    "engines/scores/sts-b": scores,
    "engines/scores/mrpc": scores,
  }
  runs = {name: {"turns": turns} for name, turns in works.items()}
  notes = {**dict.fromkeys(works, "a machine"), "engines/scores/mrpc": "other"}
  tables = dict(TABLE["engine_tables"](runs, notes))
  # What was not measured is left as it is.
  assert [*tables] == ["engines, MiniLM-L6", "engines, scores"]
  text = "\n".join(tables.values())
  # The median of three turns; both threads' table only where it was measured.
  assert (
    f"| {ours} | 20 / 4 | 20 / 4 | 20 / 4 | 1.2 ms | 2.0 ms | 300 MB | "
    "90 MB |\n| ONNX Runtime, int8 | 7 / 4 |" in text
  )
  assert text.count("float32, TensorFlow") == 1  # In the scores.
  assert "MiniLM-L6, one thread:" in text and "all threads" not in text
  assert f"| {ours} | 0.8000 | 0.8000 |\n" in text
  # One below each table.
  assert text.count("a machine.") == 2 and "a machine.\nother." in text


@pytest.mark.slow
def test_contenders_in_processes_of_their_own(tmp_path):
  model, made = tmp_path / "model", tmp_path / "made"
  made.mkdir()
  serving_models.trained(model, None, stored={})
  for name in ("here, float32, TensorFlow", "here, int8, `onnx`"):
    job = engine_speed.Job(name, model, made, seconds=0.1)
    found = engine_speed.run_contender(job, None, threads=1)
    assert 0 < found["milliseconds, p50"] <= found["milliseconds, p99"]
    assert found["megabytes"] > 10 > found["megabytes, disk"]
