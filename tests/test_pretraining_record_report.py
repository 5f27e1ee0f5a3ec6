"""record_report: sound records, and each fault that can be."""

import numpy as np
import pytest
import tensorflow as tf

from common import errors
from pretraining import record_report, text_corpus
from records import tfrecord

TOKENS = "[PAD] [CLS] [SEP] [MASK] a b".split()
VOCABULARY = text_corpus.Vocabulary(
  {token: index for index, token in enumerate(TOKENS)}
)
RECORD = {
  "input_ids": [1, 3, 2, 4, 5, 2, 0, 0],
  "input_mask": [1, 1, 1, 1, 1, 1, 0, 0],
  "segment_ids": [0, 0, 0, 1, 1, 1, 0, 0],
  "masked_lm_positions": [1, 4, 0],
  "masked_lm_ids": [4, 5, 0],
  "masked_lm_weights": [1.0, 1.0, 0.0],
  "next_sentence_labels": [1],
}


def write(path, records):
  with tfrecord.RecordWriter(str(path)) as writer:
    writer.write_all(map(tfrecord.serialize_example, records))
  return str(path)


def test_report_of_sound_records(tmp_path):
  other = {**RECORD, "next_sentence_labels": [0]}
  paths = [
    write(tmp_path / "a", [RECORD, other]), write(tmp_path / "b.gz", [RECORD])
  ]
  report = record_report.examine(paths, VOCABULARY)
  assert report.faults == []
  assert list(report.records.values()) == [2, 1]
  assert report.lengths.tolist() == [0, 0, 0, 0, 0, 0, 3, 0, 0]
  assert (report.masked, report.as_mask, report.random_next) == (6, 3, 2)
  text = report.text()
  for part in (
    "2 file(s), 3 records, 18 tokens",
    "input_ids 8",
    "padding: 25.0 % of all places",
    "6-    6 tokens: 100.0 %",
    "to be predicted: 33.3 % of the tokens, of these 50.0 % as [MASK]",
    "next sentence: 66.7 % of the records have a random one, or swapped "
    "segments",
    "faults: 0",
  ):
    assert part in text


def test_records_without_masks_and_next_sentences(tmp_path):
  record = {name: RECORD[name] for name in ("input_ids", "input_mask")}
  record["segment_ids"] = [0] * 8
  record["word_starts"] = [0, 1, 0, 1, 1, 0, 0, 0]
  report = record_report.examine([write(tmp_path / "a", [record])], VOCABULARY)
  assert report.faults == []
  assert "predicted" not in report.text()
  assert "next sentence" not in report.text()


@pytest.mark.parametrize(
  "name, values, fault",
  [
    ("input_mask", [1, 1, 0, 1, 1, 1, 1, 0], "input_mask is not ones"),
    ("input_mask", [2, 1, 1, 1, 1, 0, 0, 0], "input_mask is not ones"),
    ("input_ids", [1, 3, 2, 4, 5, 2, 7, 0], "not 0 in the padding"),
    ("input_ids", [1, 3, 2, 4, 9, 2, 0, 0], "an id is not in the vocabulary"),
    ("input_ids", [4, 3, 2, 4, 5, 2, 0, 0], "does not start with [CLS]"),
    ("input_ids", [1, 3, 2, 4, 5, 4, 0, 0], "does not end with [SEP]"),
    ("segment_ids", [0, 0, 1, 0, 1, 1, 0, 0], "segment_ids is not zeros"),
    ("segment_ids", [0, 0, 0, 1, 1, 1, 1, 0], "segment_ids is not zeros"),
    ("segment_ids", [0, 0, 0, 1, 1, 2, 0, 0], "segment_ids is not zeros"),
    ("masked_lm_weights", [1.0, 0.5, 0.0], "weights is not ones"),
    ("masked_lm_weights", [1.0, 0.0, 1.0], "weights is not ones"),
    ("masked_lm_positions", [0, 4, 0], "not between [CLS] and the last"),
    ("masked_lm_positions", [1, 5, 0], "not between [CLS] and the last"),
    ("masked_lm_positions", [4, 4, 0], "masked_lm_positions are not ascending"),
    ("masked_lm_ids", [4, 2, 0], "a masked token is [CLS], [SEP] or not"),
    ("masked_lm_ids", [4, 6, 0], "a masked token is [CLS], [SEP] or not"),
    ("next_sentence_labels", [2], "next_sentence_labels is not 0 or 1"),
    ("input_ids", [1, 3, 2], "the sizes of its features are not"),
    ("word_starts", [1], "the sizes of its features are not"),
  ],
)
def test_the_second_record_is_at_fault(tmp_path, name, values, fault):
  records = [RECORD, {**RECORD, name: values}, RECORD]
  path = write(tmp_path / "a", records)
  report = record_report.examine([path], VOCABULARY)
  assert len(report.faults) >= 1
  assert all(found.startswith(f"{path}: record 2: ") for found in report.faults)
  assert any(fault in found for found in report.faults)
  assert report.faults[0] in report.text()


def test_a_record_whose_words_are_all_too_long_is_sound(tmp_path):
  bare = {
    **RECORD, "masked_lm_positions": [0] * 3, "masked_lm_ids": [0] * 3,
    "masked_lm_weights": [0.0] * 3,
  }
  path = write(tmp_path / "a", [RECORD, bare, RECORD, RECORD])
  report = record_report.examine([path], VOCABULARY)
  assert report.faults == [] and report.unmasked == 1
  assert "nothing to be predicted: in 25.0 % of the records" in report.text()
  paths = [path, write(tmp_path / "b", [bare] * 2)]
  assert record_report.examine(paths, VOCABULARY).faults == [
    f"{paths[1]}: no token of any record is to be predicted"
  ]


def test_many_faults_are_counted(tmp_path):
  path = write(tmp_path / "a", [{**RECORD, "next_sentence_labels": [3]}] * 1100)
  report = record_report.examine([path])
  assert len(report.faults) == 6
  assert "record 5: " in report.faults[4]
  assert report.faults[5] == f"{path}: and 1095 more such records"


def test_without_a_vocabulary_ids_are_not_judged(tmp_path):
  records = [{**RECORD, "input_ids": [4, 3, 2, 4, 9, 9, 0, 0]}]
  report = record_report.examine([write(tmp_path / "a", records)])
  assert report.faults == []
  assert "as [MASK]" not in report.text()


def test_damaged_files(tmp_path):
  paths = [write(tmp_path / name, [RECORD] * 3) for name in ("a", "b", "c")]
  size = (tmp_path / "a").stat().st_size // 3
  with open(paths[0], "r+b") as stream:
    stream.seek(size + 50)
    stream.write(b"\xff\xff")
  with open(paths[1], "r+b") as stream:
    stream.truncate(2 * size + 5)
  with tf.io.TFRecordWriter(paths[2]) as writer:
    writer.write(b"\xff")
  report = record_report.examine(paths)
  assert [fault.split(" ")[1:3] for fault in report.faults] == [
    ["record", "2"], ["record", "3,"], ["record", "1"]
  ]


def test_records_of_something_else(tmp_path):
  path = write(tmp_path / "a", [{"input_ids": [1]}])
  report = record_report.examine([path])
  assert "has no input_mask, segment_ids" in report.faults[0]
  assert path in report.faults[0]
  path = write(
    tmp_path / "b",
    [{name: RECORD[name] for name in RECORD if name != "masked_lm_ids"}],
  )
  assert "has no masked_lm_ids" in record_report.examine([path]).faults[0]


def test_a_missing_file(tmp_path):
  report = record_report.examine([str(tmp_path / "none")])
  assert "no such file" in report.faults[0]
  assert isinstance(errors.InputError(""), ValueError)


def test_no_record(tmp_path):
  path = write(tmp_path / "a", [])
  report = record_report.examine([path])
  assert report.faults == [f"{path}: holds no record"]
  assert "1 file(s), 0 records, 0 tokens" in report.text()
  assert np.array_equal(report.lengths, [0])
