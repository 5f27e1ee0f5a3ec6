"""Tests batches of pre-training records, with and without masks and pairs."""

import itertools
import re

import numpy as np
import pytest
import tensorflow as tf

import tiny_model
from common import errors
from message_facts import says
from pretraining import inputs
from pretraining.networks.encoder import PretrainingModel
from pretraining.objectives import next_sentence
from records import pipeline, tfrecord

LENGTH, PREDICTIONS = 8, 2
CONFIG = tiny_model.tiny(
  hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
)
ONE_DEVICE = tf.distribute.get_strategy()


def write(path, count=6, *, masked=True, pairs=True, **changes):
  """Writes records [CLS] 5+i 6+i 7+i [SEP]; `changes` affect only the last."""
  with tfrecord.RecordWriter(str(path)) as writer:
    for i in range(count):
      features = {
        "input_ids": [2, 5 + i, 6 + i, 7 + i, 3, 0, 0, 0],
        "input_mask": [1] * 5 + [0] * 3,
        "segment_ids": [0] * LENGTH,
        **(
          {
            "masked_lm_positions": [1, 0],
            "masked_lm_ids": [5 + i, 0],
            "masked_lm_weights": [1.0, 0.0],
          }
          if masked
          else {"word_starts": [0, 1, 1, 1, 0, 0, 0, 0]}
        ),
        **({"next_sentence_labels": [i % 2]} if pairs else {}),
        **(changes if i == count - 1 else {}),
      }
      writer.write(tfrecord.serialize_example(features))
  return str(path)


def open_input(path, **options):
  options = {
    "vocab_file": None,
    "labels": next_sentence.LABELS,
    "masked_lm_prob": 0.3,
    "masking": "pieces",
    "seed": 3,
    **options,
  }
  return inputs.PretrainingInput(
    [path] if isinstance(path, str) else path,
    CONFIG,
    max_seq_length=LENGTH,
    max_predictions=PREDICTIONS,
    **options,
  )


@pytest.fixture
def vocab_file(tmp_path):
  return tiny_model.write_vocabulary(tmp_path, "abcdefghij")


def test_repeated_batches_keep_the_order_of_the_records(tmp_path):
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


def shuffled_batches(data, first_step, *, trim):
  return pipeline.training_batches(
    ONE_DEVICE,
    **data.training_data(trim)._asdict(),
    batch_size=2,
    seed=1,
    first_step=first_step,
  )


def test_shuffled_batches_can_be_entered_at_any_step(tmp_path):
  data = open_input(write(tmp_path / "a.tfrecord"))

  def input_ids(first_step, count):
    batches = shuffled_batches(data, first_step, trim=True)
    batches = itertools.islice(batches, count)
    return [batch["input_ids"].numpy() for batch in batches]

  whole = input_ids(0, 7)
  for step in (1, 3, 5):
    for expected, entered in zip(whole[step:], input_ids(step, 7 - step)):
      np.testing.assert_array_equal(entered, expected)
  epoch = np.concatenate(whole[:3])[:, 1]
  assert sorted(epoch) == [5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("masked", [True, False])
def test_untrimmed_batches_have_one_shape(tmp_path, vocab_file, masked):
  """Fixed shapes let XLA compile a step only once."""
  path = write(tmp_path / "a.tfrecord", masked=masked)
  data = open_input(path, vocab_file=vocab_file)
  batches = shuffled_batches(data, 0, trim=False)
  shapes = [spec.shape for spec in batches.element_spec.values()]
  assert len(shapes) == 7
  assert all(shape.is_fully_defined() for shape in shapes), shapes


def test_unmasked_records_are_masked_anew_every_epoch(tmp_path, vocab_file):
  path = write(tmp_path / "a.tfrecord", masked=False, pairs=False)
  data = open_input(path, vocab_file=vocab_file, labels={})
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


def test_unsuitable_records_are_refused(tmp_path):
  pairs = write(tmp_path / "pairs.tfrecord")
  packed = write(tmp_path / "packed.tfrecord", pairs=False)
  unmasked = write(tmp_path / "unmasked.tfrecord", masked=False)
  for files, message in (
    (packed, "use_next_sentence_loss=false"),
    (unmasked, "pass the --vocab_file"),
    ([pairs, unmasked], "no feature 'masked_lm_posi"),
  ):
    with pytest.raises(errors.InputError, match=message):
      open_input(files)


def test_files_without_a_record_are_skipped(tmp_path, caplog):
  empty, full = write(tmp_path / "empty.gz", 0), write(tmp_path / "full.gz")
  data = open_input([empty, full, empty])
  assert data.files == [full]
  assert caplog.text.count(f"skipping {empty}: it holds no records") == 2
  empty = write(tmp_path / "empty", 0)
  with pytest.raises(errors.InputError, match="no records in .*empty"):
    open_input(empty)


@pytest.mark.parametrize(
  "name, values, fault",
  [
    ("input_ids", [2, 5, 30, 7, 3, 0, 0, 0], "30, which must be from 0 to 29"),
    ("input_ids", [2, 5, -1, 7, 3, 0, 0, 0], "-1, which must be from 0 to 29"),
    ("masked_lm_ids", [30, 0], "30, which must be from 0 to 29"),
    ("masked_lm_positions", [8, 0], "8, which must be from 0 to 7"),
    ("segment_ids", [0, 0, 0, 2, 0, 0, 0, 0], "2, which must be from 0 to 1"),
    ("next_sentence_labels", [2], "2, which must be from 0 to 1"),
    ("input_mask", [1, 2, 0, 0, 0, 0, 0, 0], "2, which must be from 0 to 1"),
  ],
)
def test_bad_values_are_named(tmp_path, monkeypatch, name, values, fault):
  good = write(tmp_path / "good")
  bad = write(tmp_path / "bad", **{name: values})
  expected = f"bad: record 6: {name} holds {fault}"
  with pytest.raises(errors.InputError, match=expected):
    open_input([good, bad, bad])
  # The fault is after the first records, the only ones checked at the start.
  monkeypatch.setattr(inputs, "_CHECKED_FIRST", 5)
  data = open_input([good, bad, bad])
  batches = data.repeated_batches(ONE_DEVICE, batch_size=4, trim=True)
  with pytest.raises(errors.InputError, match=expected):
    with data.faults_named():
      list(itertools.islice(batches, 3))


def test_records_to_be_masked_are_checked_and_may_stay_unmasked(
  tmp_path, vocab_file
):
  """A network of next words masks nothing, and needs no vocabulary."""
  path = write(tmp_path / "good", masked=False)
  data = open_input(path, masks=False)
  batch = next(
    iter(data.repeated_batches(ONE_DEVICE, batch_size=2, trim=False))
  )
  assert not data.is_masked and batch["word_starts"][0, 1] == 1
  assert "masked_lm_ids" not in batch
  starts = [0, 2, 1, 1, 0, 0, 0, 0]
  bad = write(tmp_path / "bad", masked=False, word_starts=starts)
  with pytest.raises(errors.InputError, match="word_starts holds 2, .* 0 to 1"):
    open_input(bad, vocab_file=vocab_file)


def test_labels_of_an_objective_are_read_and_checked(tmp_path):
  path = write(tmp_path / "a", 1, extra=[2], share=[0.5])
  labels = {"extra": (1, 3), "share": (1, None)}
  data = open_input(path, labels=labels)
  batch = next(
    iter(data.repeated_batches(ONE_DEVICE, batch_size=1, trim=False))
  )
  assert (batch["extra"].numpy(), batch["share"].numpy()) == ([[2]], [[0.5]])
  assert "next_sentence_labels" not in batch
  for more, reason in (
    ({"other": (1, 2), "extra": (1, 3)}, "has no other, which --objectives"),
    ({"extra": (1, 2)}, "extra holds 2, which must be from 0 to 1"),
  ):
    with pytest.raises(errors.InputError, match=reason):
      open_input(path, labels=more)


def test_masks_with_holes_give_the_loss_of_padded_batches(
  tmp_path, monkeypatch
):
  monkeypatch.setattr(pipeline.input_sequences, "LENGTH_MULTIPLE", 1)
  path = write(
    tmp_path / "a",
    1,
    input_mask=[1, 1, 0, 0, 1, 0, 0, 0],
    masked_lm_positions=[1, 4],
    masked_lm_weights=[1.0, 1.0],
  )
  model = PretrainingModel(CONFIG, seed=1, skip_padding=True)
  padded = PretrainingModel(CONFIG, seed=1, skip_padding=False)
  batch = next(
    iter(
      open_input(path).repeated_batches(ONE_DEVICE, batch_size=1, trim=False)
    )
  )
  trimmed = pipeline.trim_to_longest(batch)
  assert trimmed["input_ids"].shape == [1, 5]
  expected, _ = padded.objective().sums(batch, None)
  losses, _ = model.objective().sums(trimmed, None)
  for name, loss in expected.items():
    tiny_model.assert_close(losses[name], loss)


def test_a_plateau_is_named_with_flags_to_try(tmp_path, caplog, monkeypatch):
  """Six masked words, all different: guessing one costs log(6)."""
  data = open_input(write(tmp_path / "a"))

  def labels(batch):
    return batch["masked_lm_ids"], batch["masked_lm_weights"]

  data.warn_of_plateau("any", 0.9 * np.log(6), labels)
  assert not caplog.text
  data.warn_of_plateau("any", np.log(6), labels)
  assert re.search(says("any_loss", "1.79", "plateau"), caplog.text)
  assert re.search(says("1.79", "--num_train_steps", "more"), caplog.text)
  # Half of the records cost log(3).
  caplog.clear()
  monkeypatch.setattr(inputs, "_COUNTED_RECORDS", 3)
  data.warn_of_plateau("any", np.log(3), labels)
  assert "1.10" in caplog.text
