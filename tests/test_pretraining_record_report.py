"""record_report: sound records, and each fault that can be."""

import pytest
import tensorflow as tf

import tokenization
from common import errors
from pretraining import record_report
from records import tfrecord

RECORD = {
  "input_ids": [1, 3, 2, 4, 6, 2, 0, 0], "input_mask": [1, 1, 1, 1, 1, 1, 0, 0],
  "segment_ids": [0, 0, 0, 1, 1, 1, 0, 0], "masked_lm_positions": [1, 4, 0],
  "masked_lm_ids": [4, 5, 0], "masked_lm_weights": [1.0, 1.0, 0.0],
  "next_sentence_labels": [1],
}
PLAIN = {
  **{name: RECORD[name] for name in ("input_ids", "input_mask")},
  "segment_ids": [0] * 8, "word_starts": [0, 1, 0, 1, 1, 0, 0, 0],
}


@pytest.fixture
def tokenizer(tmp_path):
  path = tmp_path / "vocab.txt"
  path.write_text("[PAD]\n[CLS]\n[SEP]\n[MASK]\na\nb\n[UNK]\n")
  return tokenization.FullTokenizer(str(path))


def write(path, records):
  with tfrecord.RecordWriter(str(path)) as writer:
    writer.write_all(map(tfrecord.serialize_example, records))
  return str(path)


def test_report_of_sound_records(tmp_path, tokenizer, caplog):
  bare = {
    **RECORD, "masked_lm_positions": [0] * 3, "masked_lm_ids": [0] * 3,
    "masked_lm_weights": [0.0] * 3,
  }
  a = write(tmp_path / "a", [RECORD, bare])
  b = write(tmp_path / "b.gz", [RECORD])
  assert record_report.examine([a, b], tokenizer) == [
    f"{a}: 2 records", f"{b}: 1 records",
    "3 records, 18 tokens, of which 22.2% are to be predicted",
    "[CLS] [MASK] [SEP] a [UNK] [SEP] | to predict at [1, 4]: a b | "
    "next sentence: random or swapped",
  ]
  # Behind a mask there may be a word that is known: 1 of 9 is none.
  assert f"{a}, {b}: 11.1 % of the tokens are [UNK]" in caplog.text


def test_records_without_masks_and_next_sentences(tmp_path, tokenizer):
  path = write(tmp_path / "a", [PLAIN])
  assert record_report.examine([path], tokenizer)[1:] == [
    "1 records, 6 tokens, of which 0.0% are to be predicted",
    "[CLS] [MASK] [SEP] a [UNK] [SEP]",
  ]


@pytest.mark.parametrize("name, values, fault", [
  ("input_mask", [1, 1, 0, 1, 1, 1, 1, 0], "input_mask is not"),
  ("input_mask", [2, 1, 1, 1, 1, 0, 0, 0], "input_mask is not"),
  ("input_mask", [1, 1, 0, 0, 0, 0, 0, 0], "input_mask is not three ones"),
  ("input_ids", [1, 3, 2, 4, 5, 2, 7, 0], "input_ids is not"),
  ("input_ids", [1, 3, 2, 4, 9, 2, 0, 0], "input_ids is not"),
  ("input_ids", [4, 3, 2, 4, 5, 2, 0, 0], "input_ids is not"),
  ("input_ids", [1, 3, 2, 4, 5, 4, 0, 0], "input_ids is not"),
  ("segment_ids", [0, 0, 1, 0, 1, 1, 0, 0], "segment_ids is not zeros"),
  ("segment_ids", [0, 0, 0, 1, 1, 1, 1, 0], "segment_ids is not zeros"),
  ("segment_ids", [0, 0, 0, 1, 1, 2, 0, 0], "segment_ids is not zeros"),
  ("masked_lm_weights", [1.0, 0.5, 0.0], "weights is not ones"),
  ("masked_lm_weights", [1.0, 0.0, 1.0], "weights is not ones"),
  ("masked_lm_positions", [0, 4, 0], "do not ascend from [CLS] to the last"),
  ("masked_lm_positions", [1, 5, 0], "do not ascend from [CLS] to the last"),
  ("masked_lm_positions", [4, 4, 0], "do not ascend from [CLS] to the last"),
  ("masked_lm_ids", [4, 2, 0], "a masked token is [CLS], [SEP] or not"),
  ("masked_lm_ids", [4, 7, 0], "a masked token is [CLS], [SEP] or not"),
  ("next_sentence_labels", [2], "next_sentence_labels is not 0 or 1"),
  ("input_ids", [1, 3, 2], "its features have {'input_ids': 3, 'input_mask'"),
  ("word_starts", [1], "its features have {"),
])
def test_the_second_record_is_wrong(tmp_path, tokenizer, name, values, fault):
  path = write(tmp_path / "a", [RECORD, {**RECORD, name: values}, RECORD])
  with pytest.raises(errors.InputError) as raised:
    record_report.examine([path], tokenizer)
  assert str(raised.value).startswith(f"{path}: record 2: ")
  assert fault in str(raised.value)


def damage(path):
  size = path.stat().st_size // 3
  with open(path, "r+b") as stream:
    stream.seek(size + 50)
    stream.write(b"\xff\xff")


def cut(path):
  with open(path, "r+b") as stream:
    stream.truncate(2 * (path.stat().st_size // 3) + 5)


def no_example(path):
  with tf.io.TFRecordWriter(str(path)) as writer:
    writer.write(b"\xff")


@pytest.mark.parametrize("records, change, fault", [
  ([RECORD] * 3, damage, "record 2 is damaged"),
  ([RECORD] * 3, cut, "record 3"),
  ([], no_example, "record 1 is not a tf.train.Example"),
  ([], None, "holds no record"),
  ([{"input_ids": [1]}], None, "record 1: no input_mask, segment_ids: this"),
  ([{**PLAIN, "masked_lm_weights": [0.0]}], None, "no masked_lm_ids, masked"),
])
def test_files_of_something_else(tmp_path, tokenizer, records, change, fault):
  path = write(tmp_path / "a", records)
  if change:
    change(tmp_path / "a")
  with pytest.raises(errors.InputError) as raised:
    record_report.examine([path], tokenizer)
  assert str(raised.value).startswith(path) and fault in str(raised.value)
