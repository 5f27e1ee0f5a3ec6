"""Stored states of a frozen encoder are computed anew if they would differ."""

import json
import pathlib
import types

import numpy as np
import pytest
import tensorflow as tf

from records import cached_records, tfrecord
from training import frozen_states

FEATURES = {
  name: tf.io.FixedLenFeature([3], tf.int64)
  for name in ("input_ids", "input_mask")
}


def write_records(path, first=0):
  """Writes five records, whose ids start at `first`."""
  with tfrecord.RecordWriter(str(path)) as writer:
    for number in range(first, first + 5):
      writer.write(
        tfrecord.serialize_example(
          {"input_ids": [number, 0, 0], "input_mask": [1, 1, 0]}
        )
      )


class Store:
  """Stores the states of five records; calls count the windows computed."""

  def __init__(self, folder):
    self.path, self.records = str(folder / "states"), folder / "records"
    write_records(self.records)
    self.kernel = tf.Variable([2.0], name="bert/encoder/kernel")
    self.pooler = tf.Variable([1.0], name="bert/pooler/dense/kernel")
    self.encoder = types.SimpleNamespace(
      variables=[self.kernel, self.pooler], compute_dtype=tf.float32
    )

  def __call__(self, **settings):
    """Returns the numbers of records in the windows that were computed."""
    windows = []

    def serialize(outputs):
      windows.append(len(outputs["state"]))
      return [tfrecord.serialize_example(dict(x=x)) for x in outputs["state"]]

    frozen_states.store(
      self.path,
      self.encoder,
      types.SimpleNamespace(records=str(self.records), features=FEATURES),
      lambda batch: {
        "state": tf.cast(batch["input_ids"][:, :1], tf.float32) * self.kernel
      },
      serialize,
      strategy=tf.distribute.get_strategy(),
      batch_size=2,
      window=2,
      **settings,
    )
    return windows


@pytest.fixture
def store(tmp_path):
  return Store(tmp_path)


def test_states_are_computed_once_and_in_order(store, caplog):
  caplog.set_level("INFO", logger="absl")
  assert store(layers=1) == [2, 2, 1]
  message = f"computing the encoder's states of {store.records}"
  assert message in caplog.messages
  # With other keys, the states of earlier versions would be computed again.
  note = json.loads(pathlib.Path(f"{store.path}.json").read_text())
  assert note["fingerprint"] == {
    "format": 1,
    "encoder": cached_records.weights_sha256([store.kernel]),
    "compute_dtype": "float32",
    "records": cached_records.file_sha256(str(store.records)),
    "layers": 1,
  }
  states = [record["x"] for record in tfrecord.read_records(store.path)]
  np.testing.assert_array_equal(states, [[0], [2], [4], [6], [8]])
  caplog.clear()
  assert store(layers=1) == [] and message not in caplog.messages
  # The pooler may be trained with the head, and changes no state.
  store.pooler.assign([3.0])
  assert store(layers=1) == []


@pytest.mark.parametrize(
  "change",
  [
    lambda store: store.kernel.assign([3.0]),
    lambda store: write_records(store.records, first=1),
    lambda store: setattr(store.encoder, "compute_dtype", tf.bfloat16),
    lambda store: {"layers": 2},
  ],
  ids=["weights", "records", "dtype", "setting"],
)
def test_states_are_computed_anew_after_a_change(store, change):
  store(layers=1)
  changed = change(store)
  settings = changed if isinstance(changed, dict) else {}
  assert store(**{"layers": 1, **settings}) == [2, 2, 1]
