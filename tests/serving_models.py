"""A small trained encoder with heads of every kind, and how Python runs it.

`in_python` is the pipeline that a graph with strings at its input must equal:
tokenization.py, input_sequences.py, padding to the full length, modeling.py.
"""

import pathlib

import numpy as np
import tensorflow as tf

import modeling
import tokenization
from checkpoints import weight_files
from serving import models
from training import input_sequences

FOLDER = pathlib.Path(__file__).parent / "golden" / "pretraining_run" / "model"
LABELS = ["O", "B-PER", "I-PER"]
LENGTH = 64


def tokenizer():
  return tokenization.FullTokenizer(str(FOLDER / "vocab.txt"))


def config():
  return modeling.BertConfig.from_json_file(str(FOLDER / "bert_config.json"))


def make(kind, **options):
  """Returns a models.ServedModel of one of its KINDS."""
  labels = LABELS if kind in ("classification", "tagging") else []
  options = models.Options(**{"max_seq_length": LENGTH, **options})
  if options.activation == "linear":
    labels = []
  model = models.KINDS[kind](config(), tokenizer(), options, labels)
  weight_files.load(
    model.variables, str(FOLDER), allowed_missing=["^output_", "^cls/squad/"]
  )
  # A new head is nearly blind: make it tell its inputs apart.
  for variable in model.variables:
    if "output_weights" in variable.name:
      variable.assign(tf.random.stateless_normal(variable.shape, [1, 2]))
  return model


def inputs_in_python(ids_a, ids_b=None, length=LENGTH):
  """Returns {name: int32 [1, length]} for a text or a pair, given as ids."""
  cls_id, sep_id = tokenizer().convert_tokens_to_ids(["[CLS]", "[SEP]"])
  if ids_b is None:
    ids_a = ids_a[: length - 2]
  else:
    input_sequences.truncate_pair(ids_a, ids_b, length - 3)
  ids, segments = input_sequences.build_inputs(
    ids_a, ids_b, cls_id=cls_id, sep_id=sep_id
  )
  rows = {
    "input_ids": ids, "input_mask": [1] * len(ids), "segment_ids": segments,
  }
  return {
    name: tf.constant([input_sequences.pad(row, length)])
    for name, row in rows.items()
  }


def in_python(model, *texts):
  """Returns the model's `outputs` for one text or pair, padded in full."""
  ids = [tokenizer().encode(text) for text in texts]
  return model.outputs(inputs_in_python(*ids, length=LENGTH))


def softmax(logits):
  return tf.nn.softmax(logits).numpy()


def close(values, expected):
  np.testing.assert_allclose(values, expected, rtol=0, atol=1e-5)
