"""Prediction of files of any size: few examples in memory, files all or not."""

import json

import numpy as np
import pytest

import tiny_model
from classification import (
  dataset,
  evaluation,
  input_data,
  labelled_examples,
  tasks,
)
from common import errors

COLUMNS = dataset.Columns("text", label=None)
Example = labelled_examples.Example


def write(tmp_path, text, name="data.csv"):
  path = tmp_path / name
  path.write_text(text, encoding="utf-8")
  return str(path)


# Examples.


FILES = {
  "csv": 'text,key\n"One, \nof two",a\n,b\nThree,c\nFour\nFive,a\n\n',
  "tsv": "text\tkey\nOne\ta\n\tb\nThree\tc\nFour\nFive\ta\n\n",
  "jsonl": "".join(
    json.dumps(row) + "\n"
    for row in (
      {"text": "One", "key": "a"}, {"text": "", "key": "b"},
      {"text": "Three", "key": "c"}, {"text": "Four"},
      {"text": "Five", "key": "a"},
    )
  ),
}


@pytest.mark.parametrize("ids", [None, "key"])
@pytest.mark.parametrize("file_format", FILES)
def test_a_stream_has_the_examples_of_the_list(tmp_path, file_format, ids):
  path = write(tmp_path, FILES[file_format], f"data.{file_format}")
  columns = COLUMNS._replace(id=ids)
  options = {"split": "predict", "skips_bad_rows": True}
  whole = dataset.read(path, columns, **options)
  stream = dataset.ExampleStream(path, columns, **options)
  assert list(stream) == list(stream) == whole and len(stream) == len(whole)
  # Bad: an empty text, a row without a key, and the second "a".
  assert len(whole) == (2 if ids else 3 + (file_format == "jsonl"))
  assert stream[0] == whole[0] and stream[1] == whole[1]
  assert list(stream[:1]) == whole[:1] and len(stream[:1]) == 1
  assert list(stream[:9]) == whole and len(stream[:9]) == len(whole)


def test_a_file_that_is_changed_meanwhile_is_refused(tmp_path):
  path = write(tmp_path, "text\nOne\nTwo\n")
  stream = dataset.ExampleStream(path, COLUMNS, split="predict")
  write(tmp_path, "text\nOne\n")
  with pytest.raises(errors.InputError, match="1 rows and had 2 when"):
    list(stream)


def test_what_is_predicted_is_a_stream_with_a_limit(tmp_path):
  path = write(tmp_path, "text\nOne\nTwo\nThree\n")
  split = labelled_examples.Split(
    "predict",
    dataset.ExampleStream(path, COLUMNS, split="predict"),
  )
  for limit, count in ((0, 3), (2, 2), (9, 3)):
    cut = tasks.used({"predict": split}, {"predict": limit})["predict"]
    assert isinstance(cut.examples, dataset.ExampleStream)
    assert [e.guid for e in cut.examples] == [
      f"predict-{n + 1}" for n in range(count)
    ]


# Memory.


class Counting:
  """Examples that count how many were taken."""

  def __init__(self, count):
    self.taken = 0
    self._count = count

  def __iter__(self):
    for number in range(self._count):
      self.taken += 1
      yield Example(f"x{number}", "a b" + " b" * (number % 5))


@pytest.fixture
def options(tmp_path):
  return input_data.InputOptions(
    kind="single", labels=("x", "y"), max_seq_length=8,
    vocab_file=tiny_model.write_vocabulary(tmp_path, ["a", "b"]),
  )


def test_records_are_written_while_examples_are_read(options, monkeypatch):
  monkeypatch.setattr(input_data, "BLOCK_EXAMPLES", 10)
  examples, written = Counting(1000), []

  class Writer:
    def write_all(self, records):
      written.extend(len(record) for record in records)
      # What was read and is not written yet: two blocks at most.
      assert examples.taken - len(written) <= 20

  facts = input_data.write_records(Writer(), examples, options, processes=1)
  assert len(written) == facts["num_records"] == 1000
  assert (facts["min_sequences"], facts["max_sequences"]) == (1, 1)


@pytest.fixture
def task():
  return tasks.ClassifierTask(
    name="own data", kind="single", labels=("x", "y"), metrics=(),
    splits={
      "predict": labelled_examples.Split("predict", Counting(1000))
    },
  )


def test_scores_are_written_while_they_are_computed(task, tmp_path):
  examples = task.splits["predict"].examples
  rows = np.linspace(0, 1, 1000, dtype=np.float32)
  rows = np.stack([rows, 1 - rows], axis=1)

  def parts():
    for start in range(0, 1000, 50):
      # Whatever was given is written: its names were taken, and no others.
      assert examples.taken == start
      yield rows[start : start + 50]

  evaluation.write_scores(str(tmp_path), "predict", task, parts())
  named = (tmp_path / "predictions.tsv").read_text().splitlines()
  assert len(named) == 1001
  assert named[-1] == "x999\tx\t1.0\t1.0\t0.0\ta b b b b b"
  unnamed = (tmp_path / "test_results.tsv").read_text().splitlines()
  assert np.array_equal(
    np.array([line.split("\t") for line in unnamed], np.float32), rows
  )


def test_what_was_there_stays_until_all_is_written(task, tmp_path):
  names = ("predictions.tsv", "test_results.tsv")
  for name in names:
    (tmp_path / name).write_text("of before\n")

  def parts():
    yield np.ones([600, 2], np.float32)
    assert {path.name for path in tmp_path.iterdir()} > set(names)
    raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):
    evaluation.write_scores(str(tmp_path), "predict", task, parts())
  assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
  for name in names:
    assert (tmp_path / name).read_text() == "of before\n"
