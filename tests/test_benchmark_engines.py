"""engine_speed.py's texts and processes, and table.py's tables of engines."""

import re
import runpy

import pytest

import engine_speed
import measured_runs
import serving_models
from script_runner import ROOT

TABLE = runpy.run_path(str(ROOT / "benchmarks" / "table.py"))


def test_texts_have_the_requested_number_of_pieces():
  tokenizer = serving_models.tokenizer()
  for text in engine_speed.make_texts(serving_models.FOLDER, 3, 16):
    assert len(tokenizer.tokenize(text)) == 14


def made_up_results(threads, speed):
  results = {
    "milliseconds, p50": 1.25,
    "milliseconds, p99": 2.0,
    "megabytes": 300.0,
    "megabytes, disk": 90.0,
  }
  for size, length in engine_speed.BATCHES:
    results[f"texts_per_second, {length} × {size}"] = speed
    results[f"texts_per_processor_second, {length} × {size}"] = 4.0
  return {f"{name}, {threads}": value for name, value in results.items()}


def test_tables_of_engines_and_scores():
  int8, peer = "here, int8, `onnx`", "ONNX Runtime, int8"
  # The first contender failed.
  speeds = [
    {
      "here, float32, TensorFlow": {},
      int8: made_up_results("one thread", speed),
      peer: made_up_results("one thread", 7),
    }
    for speed in (10, 30, 20)
  ]
  scores = [{int8: {"score": 0.8}}]
  works = {
    "engines/minilm": speeds,
    "engines/scores/sts-b": scores,
    "engines/scores/mrpc": scores,
  }
  runs = {
    name: {
      "machine": f"machine {len(name)}",
      "date": "2026-01-02",
      "code": "1a2b",
      "command": "table.py",
      "turns": turns,
    }
    for name, turns in works.items()
  }
  old = {"engines/minilm": {**runs["engines/minilm"], "turns": speeds[:1]}}
  tables = dict(TABLE["engine_tables"]({"new": runs, "old": old}))
  # Benchmarks without results have no table.
  assert [*tables] == ["engines, MiniLM-L6", "engines, scores"]
  text = "\n".join(tables.values())
  # The median of three turns. Without runs on all threads, there is no table.
  assert (
    f"| {int8} | 20 / 4 | 20 / 4 | 20 / 4 | 1.2 ms | 2.0 ms | 300 MB | "
    "90 MB |\n| ONNX Runtime, int8 | 7 / 4 |" in text
  )
  assert text.count("float32, TensorFlow") == 1  # Only in the table of scores.
  assert "MiniLM-L6, new, one thread:" in text and "all threads" not in text
  # Another processor has a table of its own, below the first.
  _, _, below = tables["engines, MiniLM-L6"].partition("\n\nMiniLM-L6, old, ")
  assert (
    below.startswith("one thread:\n\n|") and f"| {int8} | 10 / 4 |" in below
  )
  assert f"| {int8} | 0.8000 | 0.8000 |\n" in text
  # Each table has its notes below it, and different works have different notes.
  notes = re.findall(r"^machine (\d+); 2026-01-02; .*`\.$", text, re.M)
  lengths = [*map(len, ["engines/minilm"] * 2 + [*works][1:])]
  assert notes == [*map(str, lengths)]


@pytest.mark.slow
def test_each_contender_runs_in_its_own_process(tmp_path):
  model, engine_folder = tmp_path / "model", tmp_path / "engine"
  engine_folder.mkdir()
  serving_models.trained(model, None, stored={})
  for name in ("here, float32, TensorFlow", "here, int8, `onnx`"):
    job = engine_speed.Job(name, model, engine_folder, "one thread", 0.1)
    measures = measured_runs.answer(engine_speed.command(job, None))
    of = {n.removesuffix(", one thread"): v for n, v in measures.items()}
    assert 0 < of["milliseconds, p50"] <= of["milliseconds, p99"]
    assert of["megabytes"] > 10 > of["megabytes, disk"]
