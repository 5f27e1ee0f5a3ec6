"""Pre-training records of every kind, as batches."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from common import errors, tfrecord
from pretraining import input_data

LENGTH, PREDICTIONS = 8, 2
ONE_DEVICE = tf.distribute.get_strategy()


def write(path, count=6, *, masked=True, pairs=True):
  """Record i: [CLS] 5+i 6+i 7+i [SEP]."""
  with tfrecord.RecordWriter(str(path)) as writer:
    for i in range(count):
      features = {
        "input_ids": [2, 5 + i, 6 + i, 7 + i, 3, 0, 0, 0],
        "input_mask": [1] * 5 + [0] * 3,
        "segment_ids": [0] * LENGTH,
      }
      if masked:
        features["masked_lm_positions"] = [1, 0]
        features["masked_lm_ids"] = [5 + i, 0]
        features["masked_lm_weights"] = [1.0, 0.0]
      else:
        features["word_starts"] = [0, 1, 1, 1, 0, 0, 0, 0]
      if pairs:
        features["next_sentence_labels"] = [i % 2]
      writer.write(tfrecord.serialize_example(features))
  return str(path)


def open_input(path, **options):
  options = {"vocab_file": None, "use_next_sentence_loss": True, **options}
  return input_data.PretrainingInput(
    [path],
    max_seq_length=LENGTH,
    max_predictions=PREDICTIONS,
    **options,
  )


@pytest.fixture
def vocab_file(tmp_path):
  path = tmp_path / "vocab.txt"
  words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij"]
  path.write_text("\n".join(words) + "\n")
  return str(path)


def test_records_come_back_in_order_and_again(tmp_path):
  data = open_input(write(tmp_path / "a.tfrecord"))
  batches = data.repeated_batches(ONE_DEVICE, batch_size=4, trim=False)
  batches = list(itertools.islice(batches, 3))
  first = np.concatenate([batch["input_ids"][:, 1] for batch in batches])
  assert first.tolist() == [5, 6, 7, 8, 9, 10] * 2
  assert {k: v.shape.as_list() for k, v in batches[0].items()} == {
    "input_ids": [4, LENGTH],
    "input_mask": [4, LENGTH],
    "segment_ids": [4, LENGTH],
    "masked_lm_positions": [4, PREDICTIONS],
    "masked_lm_ids": [4, PREDICTIONS],
    "masked_lm_weights": [4, PREDICTIONS],
    "next_sentence_labels": [4, 1],
  }


def test_shuffled_batches_can_be_entered_at_any_step(tmp_path):
  data = open_input(write(tmp_path / "a.tfrecord"))

  def firsts(first_step, count):
    batches = data.shuffled_batches(
      ONE_DEVICE, batch_size=2, seed=1, first_step=first_step, trim=True
    )
    return [b["input_ids"].numpy() for b in itertools.islice(batches, count)]

  whole = firsts(0, 7)
  for step in (1, 3, 5):
    for expected, got in zip(whole[step:], firsts(step, 7 - step)):
      np.testing.assert_array_equal(got, expected)
  epoch = np.concatenate(whole[:3])[:, 1]
  assert sorted(epoch) == [5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("masked", [True, False])
def test_batches_that_are_not_cut_have_one_shape(tmp_path, vocab_file, masked):
  """So that XLA compiles a step once."""
  path = write(tmp_path / "a.tfrecord", masked=masked)
  data = open_input(
    path, vocab_file=vocab_file, masked_lm_prob=0.3, whole_words=False, seed=3
  )
  batches = data.shuffled_batches(
    ONE_DEVICE, batch_size=2, seed=1, first_step=0, trim=False
  )
  shapes = [spec.shape for spec in batches.element_spec.values()]
  assert len(shapes) == 7
  assert all(shape.is_fully_defined() for shape in shapes), shapes


def test_unmasked_records_are_masked_otherwise_every_epoch(
  tmp_path, vocab_file
):
  path = write(tmp_path / "a.tfrecord", masked=False, pairs=False)
  data = open_input(
    path,
    vocab_file=vocab_file,
    use_next_sentence_loss=False,
    masked_lm_prob=0.3,
    whole_words=False,
    seed=3,
  )
  batches = data.repeated_batches(ONE_DEVICE, batch_size=6, trim=False)
  epochs = list(itertools.islice(batches, 8))
  chosen = {tuple(b["masked_lm_positions"].numpy().ravel()) for b in epochs}
  assert len(chosen) == 8
  for batch in epochs:
    assert "next_sentence_labels" not in batch
    for row in range(6):
      positions = batch["masked_lm_positions"][row].numpy()
      assert batch["masked_lm_weights"][row].numpy().tolist() == [1.0, 1.0]
      assert set(positions) < {1, 2, 3}
      expected = [4 + row + position for position in positions]
      assert batch["masked_lm_ids"][row].numpy().tolist() == expected


def test_what_does_not_fit_is_refused(tmp_path, vocab_file):
  pairs = write(tmp_path / "pairs.tfrecord")
  packed = write(tmp_path / "packed.tfrecord", pairs=False)
  unmasked = write(tmp_path / "unmasked.tfrecord", masked=False)
  with pytest.raises(errors.InputError, match="use_next_sentence_loss=false"):
    open_input(packed)
  with pytest.raises(errors.InputError, match="pass the --vocab_file"):
    open_input(unmasked)
  with pytest.raises(errors.InputError, match="no feature 'masked_lm_posi"):
    input_data.PretrainingInput(
      [pairs, unmasked],
      max_seq_length=LENGTH,
      use_next_sentence_loss=True,
      max_predictions=PREDICTIONS,
      vocab_file=None,
    )
