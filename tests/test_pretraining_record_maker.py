"""Tests that record_maker.py writes the records of a text to files."""

import contextlib

import numpy as np
import pytest

import sharded_runs
import small_corpus
from common import errors
from pretraining import data, record_maker
from records import tfrecord


def make_record_options(folder, **changes):
  return sharded_runs.make_record_options(folder, dupe_factor=2, **changes)


def write(record_options, path, outputs, show=lambda features: None):
  maker = record_maker.RecordMaker(record_options)
  corpus = maker.read(data.whole_files([path]), joined=True)
  with contextlib.ExitStack() as stack:
    writers = [
      stack.enter_context(tfrecord.RecordWriter(str(path))) for path in outputs
    ]
    count = maker.write(corpus, writers, seed=1, show=show)
  return count, corpus


@pytest.mark.parametrize("num_outputs", [1, 3])
def test_record_i_goes_to_file_i_modulo_n(tmp_path, num_outputs, monkeypatch):
  # The block size is not a multiple of the number of files.
  monkeypatch.setattr(record_maker, "_RECORDS_PER_BLOCK", 10)
  record_options = make_record_options(tmp_path)
  text = small_corpus.write_text(tmp_path)
  shown = []
  outputs = [tmp_path / f"out{number}" for number in range(num_outputs)]
  count, _ = write(record_options, text, outputs, shown.append)
  write(record_options, text, [tmp_path / "whole"])
  whole = list(tfrecord.read_serialized(str(tmp_path / "whole")))
  assert len(whole) == count > 50
  for number, output in enumerate(outputs):
    records = list(tfrecord.read_serialized(str(output)))
    assert records == whole[number::num_outputs]
  first = next(tfrecord.read_records(str(tmp_path / "whole")))
  np.testing.assert_array_equal(shown[0]["input_ids"][0], first["input_ids"])
  assert len(shown) == 1
  assert {name: len(values) for name, values in first.items()} == {
    "input_ids": 32,
    "input_mask": 32,
    "segment_ids": 32,
    "masked_lm_positions": 5,
    "masked_lm_ids": 5,
    "masked_lm_weights": 5,
    "next_sentence_labels": 1,
  }


def test_segmented_text_has_the_words_of_the_segmenter(tmp_path):
  (tmp_path / "text").write_text("cats 猫狗\n")
  record_options = make_record_options(tmp_path, segmented_text=True)
  _, corpus = write(record_options, str(tmp_path / "text"), [tmp_path / "a"])
  assert list(corpus.continues) == [0, 1, 0, 1]


@pytest.mark.parametrize(
  "num_outputs, is_right", [(1, True), (2, True), (3, False)]
)
def test_every_one_of_several_files_gets_a_record(
  tmp_path, num_outputs, is_right
):
  (tmp_path / "text").write_text("the cat\n\nthe dog\n")
  record_options = sharded_runs.make_record_options(tmp_path, dupe_factor=1)
  outputs = [tmp_path / f"out{number}" for number in range(num_outputs)]
  if is_right:
    assert write(record_options, str(tmp_path / "text"), outputs)[0] == 2
    return
  with pytest.raises(errors.InputError, match=r"records \(2\).* fill 3 files"):
    write(record_options, str(tmp_path / "text"), outputs)
  assert not any(output.exists() for output in outputs)


@pytest.mark.parametrize(
  "text, packing, warning",
  [
    ("the cat\nthe dog\n", "sentence_pairs", "out: its text is a single doc"),
    ("the cat\nthe dog\n\nthe dog\nthe cat\n", "sentence_pairs", ""),
    ("the cat\n\nthe dog\n", "sentence_pairs", "documents have one sentence"),
    ("the cat\n", "full_sentences", ""),
  ],
)
def test_text_that_makes_poor_pairs_gives_a_warning(
  tmp_path, caplog, text, packing, warning
):
  (tmp_path / "text").write_text(text)
  record_options = make_record_options(tmp_path, packing=packing)
  write(record_options, str(tmp_path / "text"), [tmp_path / "out"])
  assert (warning in caplog.text) if warning else not caplog.text
