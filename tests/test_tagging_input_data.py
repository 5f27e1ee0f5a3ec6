"""Tests of the records of labelled windows."""

import numpy as np
import pytest
import tensorflow as tf

import tokenization
from common import errors
from records import pipeline, tfrecord
from tagging import dataset, input_data

SENTENCES = [
  dataset.Sentence(0, [1, 2], ["ab", "c"], ["B-X", "O"]),
  dataset.Sentence(0, [4], ["d"], ["O"]),
]
WINDOWS = [
  dataset.Window([2, 10, 11, 12, 3], 0, 0, [1, 3]),
  dataset.Window([2, 13, 3], 1, 0, [1]),
]


def prepare(tmp_path, sentences, labels=("O", "B-X")):
  return input_data.prepare(
    "f.conll", sentences, WINDOWS, labels=list(labels),
    records=str(tmp_path / "a.tf_record"), max_seq_length=6,
  )


def test_records_hold_labels_at_first_pieces(tmp_path):
  data = prepare(tmp_path, SENTENCES)
  assert data.is_labelled
  first, second = tfrecord.read_records(data.records)
  expected = {
    "input_ids": [2, 10, 11, 12, 3, 0],
    "input_mask": [1, 1, 1, 1, 1, 0],
    "segment_ids": [0] * 6,
    "label_ids": [-1, 1, -1, 0, -1, -1],
  }
  assert {name: list(values) for name, values in first.items()} == expected
  assert list(second["label_ids"]) == [-1, 0, -1, -1, -1, -1]


def test_the_first_windows_and_the_share_of_unknown_pieces_are_logged(
  tmp_path, caplog
):
  path = tmp_path / "vocab.txt"
  path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n")
  tokenizer = tokenization.FullTokenizer(str(path))
  windows = [dataset.Window([2, 4, 1, 4, 3], 0, 0, [1, 2, 3])] * 6
  caplog.set_level("DEBUG", logger="absl")
  input_data.log_windows("f.conll", windows, tokenizer)
  assert caplog.text.count("  [CLS] a [UNK] a [SEP]") == 5
  (warning,) = [r for r in caplog.records if r.levelname == "WARNING"]
  assert "f.conll: 33.3 % of the tokens are [UNK]" in warning.getMessage()


def test_a_file_of_raw_sentences(tmp_path):
  path = tmp_path / "a.txt"
  path.write_text("Anna's in Bern.\nYes\n")
  found = input_data.read(str(path), labelled=None, file_format="text")
  assert [s.words for s in found] == [
    ["Anna", "'", "s", "in", "Bern", "."], ["Yes"]
  ]
  assert [s.labels for s in found] == [None, None]
  assert found[1].lines == [2]
  data = input_data.TaggingData(str(path), found, *[None] * 4, "text")
  lines = input_data.with_predictions(data, [["B-X", *"OOOOO"], ["O"]])
  assert "".join(lines) == "Anna B-X\n' O\ns O\nin O\nBern O\n. O\n\nYes O\n\n"
  path.write_text("Anna\n\n \nYes\n")
  with pytest.raises(errors.InputError, match="(?s)txt:2: an empty.*txt:3: an"):
    input_data.read(str(path), labelled=None, file_format="text")


def test_records_are_what_the_pipeline_is_told(tmp_path):
  data = prepare(tmp_path, SENTENCES)
  features = input_data.record_features(6)
  pipeline.check_records([data.records], features)
  (batch,) = pipeline.distributed_batches(
    tf.distribute.get_strategy(), pipeline.sequential_records([data.records]),
    features, batch_size=2, trim=True
  )
  assert batch["label_ids"].shape == (2, 6)
  np.testing.assert_array_equal(batch["label_ids"][0], [-1, 1, -1, 0, -1, -1])


@pytest.mark.parametrize("trim", [False, True])
def test_training_batches_have_one_shape_unless_they_are_cut(tmp_path, trim):
  batches = pipeline.training_batches(
    tf.distribute.get_strategy(),
    [prepare(tmp_path, SENTENCES).records],
    input_data.record_features(6),
    num_records=2, batch_size=2, seed=1, first_step=0, trim=trim,
  )
  shapes = {n: s.shape.as_list() for n, s in batches.element_spec.items()}
  length = None if trim else 6
  assert shapes == {name: [2, length] for name in shapes}
  batch = next(iter(batches))
  assert sorted(batch["input_ids"].numpy()[:, 1]) == [10, 13]


def test_sentences_without_labels(tmp_path):
  data = prepare(tmp_path, [s._replace(labels=None) for s in SENTENCES])
  assert not data.is_labelled
  for record in tfrecord.read_records(data.records):
    assert set(record["label_ids"]) == {dataset.NO_LABEL}


def test_an_unknown_label_writes_nothing(tmp_path):
  with pytest.raises(errors.InputError, match="f.conll:1: 'B-X' is none of"):
    prepare(tmp_path, SENTENCES, labels=["O"])
  assert not list(tmp_path.iterdir())
