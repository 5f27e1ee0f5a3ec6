"""engine_speed.py: texts of known sizes, a contender's process, the table."""

import argparse

import pytest

import engine_speed
import serving_models


def test_texts_have_as_many_pieces_as_asked_for():
  tokenizer = serving_models.tokenizer()
  for text in engine_speed.make_texts(serving_models.FOLDER, 3, 16):
    assert len(tokenizer.tokenize(text)) == 14


def test_pairs_and_scores_of_a_file(tmp_path):
  path = tmp_path / "dev.tsv"
  path.write_text("index\tsentence1\tsentence2\tscore\n0\ta \"b\tc\t2.5\n")
  assert engine_speed.read_pairs(path) == ([('a "b', "c")], [2.5])


def test_a_line_for_each_contender():
  values = {"16 × 64": [100.4, 50], "64 × 32": [20, 10], "128 × 32": [9, 5],
            "single": [1.25, 2.0], "megabytes": 300.0}
  scored = {**values, "cosines": [1], "scores": [2]}
  lines = engine_speed.table(
    {"a": values, "b": scored}, lambda cosines, scores: cosines[0] / scores[0]
  )
  assert lines[2:] == [
    "| a | 100 | 20 | 9 | 1.2 ms | 2.0 ms | 300 MB | – |",
    "| b | 100 | 20 | 9 | 1.2 ms | 2.0 ms | 300 MB | 0.5000 |",
  ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["here, float32", "here, `--engine=onnx`"])
def test_a_contender_in_a_process_of_its_own(tmp_path, name):
  model = tmp_path / "model"
  serving_models.trained(model, None, stored={})
  arguments = argparse.Namespace(
    model=model, seconds=0.1, sts=None, peer_python=None
  )
  found = engine_speed.run_contender(name, 1, tmp_path, arguments)
  p50, p99 = found["single"]
  assert 0 < p50 <= p99 and found["megabytes"] > 10
