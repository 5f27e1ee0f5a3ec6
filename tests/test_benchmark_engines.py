"""engine_speed.py and engine_works.py: texts, a contender's process, tables."""

import os

import pytest

import engine_speed
import engine_works
import serving_models


def test_texts_have_as_many_pieces_as_asked_for():
  tokenizer = serving_models.tokenizer()
  for text in engine_speed.make_texts(serving_models.FOLDER, 3, 16):
    assert len(tokenizer.tokenize(text)) == 14


def measures(threads, speed):
  found = {"milliseconds, p50": 1.25, "milliseconds, p99": 2.0,
           "megabytes": 300.0, "megabytes, disk": 90.0}
  for size, length in engine_speed.BATCHES:
    name = engine_speed.texts_per_second(size, length)
    found[name], found[name.replace("second", "processor_second")] = speed, 4.0
  return {f"{name}, {threads}": value for name, value in found.items()}


def test_tables_of_engines_and_scores(tmp_path):
  page = tmp_path / "page.md"
  names = "MiniLM-L6", "BERT-base", "scores"
  page.write_text("\n".join(
    f"<!-- engines, {name}: {place} -->"
    for name in names for place in ("begin", "end")
  ))
  ours, peer = "here, int8, `onnx`", "ONNX Runtime, int8"
  # The first contender failed.
  speeds = [
    {"here, float32, TensorFlow": {}, ours: measures("one thread", speed),
     peer: measures("one thread", 7)}
    for speed in (10, 30, 20)
  ]
  scores = [{ours: {"score": 0.8}}]
  works = {"engines/minilm": speeds, "engines/scores/sts-b": scores,
           "engines/scores/mrpc": scores}
  runs = {name: {"turns": turns} for name, turns in works.items()}
  notes = {**dict.fromkeys(works, "a machine"), "engines/scores/mrpc": "other"}
  engine_works.write_tables(page, runs, notes)
  text = page.read_text()
  # The median of three turns; both threads' table only where it was measured.
  assert f"| {ours} | 20 / 4 | 20 / 4 | 20 / 4 | 1.2 ms | 2.0 ms | 300 MB | " \
         "90 MB |\n| ONNX Runtime, int8 | 7 / 4 |" in text
  assert text.count("float32, TensorFlow") == 1  # In the scores.
  assert "MiniLM-L6, one thread:" in text and "all threads" not in text
  assert f"| {ours} | 0.8000 | 0.8000 |\n" in text
  # One below each table; what was not measured is left as it is.
  assert text.count("a machine.") == 2 and "a machine.\nother." in text


@pytest.mark.slow
def test_contenders_in_processes_of_their_own(tmp_path):
  model, made = tmp_path / "model", tmp_path / "made"
  made.mkdir()
  serving_models.trained(model, None, stored={})
  flags = [f"--model={model}", f"--made={made}", "--seconds=0.1"]
  for name in ("here, float32, TensorFlow", "here, int8, `onnx`"):
    found = engine_speed.run_contender(name, 1, None, *flags, env=os.environ)
    assert 0 < found["milliseconds, p50"] <= found["milliseconds, p99"]
    assert found["megabytes"] > 10 > found["megabytes, disk"]
