"""The states of a frozen encoder, computed once."""

import numpy as np
import pytest
import tensorflow as tf

import tiny_model
from classification import classifier, frozen_features, input_data
from classification.labelled_examples import Example
from records import pipeline, tfrecord
from training import evaluation_loop

SEED = tf.constant([1, 2], tf.int32)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  """Records of 9 texts with one to four windows."""
  folder = tmp_path_factory.mktemp("data")
  options = input_data.InputOptions(
    kind="single", labels=("0", "1"), max_seq_length=8, doc_stride=4,
    vocab_file=tiny_model.write_vocabulary(folder),
  )
  examples = [
    Example(str(n), " ".join(tiny_model.WORDS[: 2 * n]), None, str(n % 2))
    for n in range(1, 10)
  ]
  return input_data.prepare(
    str(folder / "train.tf_record"), examples, options
  )


def make(seed=5):
  return classifier.ClassifierModel(
    tiny_model.tiny(), "single", 2, is_frozen=True, seed=seed
  )


def ensure(path, model, data):
  return frozen_features.ensure(
    str(path), model, data, strategy=tf.distribute.get_strategy(), batch_size=4
  )


def logits(model, data, seed=None):
  predictor = evaluation_loop.Predictor(
    tf.distribute.get_strategy(),
    lambda batch: {"logits": model(batch, seed),
                   "label_ids": batch["label_ids"]},
  )
  return predictor.predict(
    pipeline.sequential_records([data.records]),
    data.features,
    num_records=data.num_records,
    batch_size=9,
  )


def test_training_on_kept_states_is_training_on_texts(
  data, tmp_path, monkeypatch
):
  monkeypatch.setattr(frozen_features, "COMPUTED_TOGETHER", 5)
  model = make()
  kept = ensure(tmp_path / "features", model, data)
  assert data.max_sequences == 4
  for seed in (None, SEED):
    texts, states = logits(model, data, seed), logits(model, kept, seed)
    assert texts["label_ids"].tolist() == states["label_ids"].tolist()
    np.testing.assert_allclose(
      states["logits"], texts["logits"], rtol=0, atol=1e-5
    )


def test_states_are_kept_for_the_same_encoder_only(data, tmp_path):
  path = tmp_path / "features"
  model = make()
  ensure(path, model, data)
  written = path.stat().st_mtime_ns
  # Another pooler and head: the encoder is what counts.
  model.head.variables[0].assign_add(tf.ones([2, 16]))
  ensure(path, model, data)
  assert path.stat().st_mtime_ns == written
  ensure(path, make(seed=6), data)
  assert path.stat().st_mtime_ns > written
  assert tfrecord.count_records(str(path)) == 9


def test_records_are_read_once_however_many_parts_there_are(
  data, tmp_path, monkeypatch
):
  reads, plain = [], pipeline.sequential_records

  def counted(files):
    def note(record):
      reads.append(record)
      return record

    return plain(files).map(
      lambda record: tf.ensure_shape(
        tf.numpy_function(note, [record], tf.string), []
      )
    )

  monkeypatch.setattr(frozen_features, "COMPUTED_TOGETHER", 2)
  monkeypatch.setattr(pipeline, "sequential_records", counted)
  ensure(tmp_path / "features", make(), data)
  assert len(reads) == 9
