"""training_draw.py: the order and the head that a training begins with."""

import pathlib
import sys

import numpy as np

import modeling
import serving_models
from common import tfrecord
from training import pipeline

# Benchmarks are run from their folder and import each other.
sys.path.append(str(pathlib.Path(__file__).parents[1] / "benchmarks"))

import training_draw


def test_the_order_is_that_of_the_first_epoch(tmp_path):
  path = str(tmp_path / "train.tf_record")
  with tfrecord.RecordWriter(path) as writer:
    writer.write_all(bytes([number]) for number in [*range(50), 3])
  order = training_draw.order_of(path, seed=2)
  # Two records are equal, and have the first one's number.
  assert sorted(order) == sorted([*range(50), 3])
  stream = pipeline.shuffled_records([path], num_records=51, seed=2)
  records = stream.take(51).as_numpy_iterator()
  assert [record[0] for record in records] == order
  assert order != training_draw.order_of(path, seed=3)


def test_the_head_is_that_of_a_new_classifier(tmp_path):
  labels = {"id2label": {0: "a", 1: "b", 2: "c"}}
  serving_models.trained(tmp_path, None, stored={}, **labels)
  config = modeling.BertConfig.from_json_file(tmp_path / "bert_config.json")
  expected = modeling.ClassificationHead(config, 3, seed=5)
  np.testing.assert_array_equal(
    training_draw.head_of(tmp_path, seed=5), expected.trainable_variables[0]
  )
