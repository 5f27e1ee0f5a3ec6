"""Models that transformers saved, with its outputs; see tests/golden."""

import pathlib

import numpy as np
import safetensors.numpy
import tensorflow as tf

import heads
import modeling
from checkpoints import weight_files
from variants import electra, registry

NO_POOLER = ["^bert/pooler/"]


def tensors_of(folder):
  tensors = {}
  for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
    tensors.update(safetensors.numpy.load_file(path))
  return tensors


def check_equal(actual, expected):
  assert actual.keys() == expected.keys()
  for name, value in expected.items():
    assert actual[name].dtype == value.dtype
    np.testing.assert_array_equal(actual[name], value)


class Loaded:
  """This project's encoder with the weights and configuration of a folder."""

  def __init__(self, folder):
    self.expected = dict(np.load(folder.parent / "outputs.npz"))
    self.reader = weight_files.open_reader(str(folder))
    self.name = folder.name
    self.config = modeling.BertConfig.from_dict(self.reader.config)
    self.bert = registry.make_encoder(self.config)
    weight_files.load(
      self.bert.variables, self.reader, allowed_missing=NO_POOLER
    )
    names = "input_ids", "attention_mask", "token_type_ids"
    self.inputs = [
      tf.constant(self.expected[name], tf.int32)
      for name in names
      if name in self.expected
    ]
    self.output = self.bert(*self.inputs)

  def head(self, head):
    weight_files.load(head.variables, self.reader)
    return head

  def check(self, key, value):
    expected, value = self.expected[f"{self.name}/{key}"], np.asarray(value)
    mask = self.expected["attention_mask"]
    # In transformers, RoBERTa's padding has its own position: skip padding.
    if hasattr(self.config, "pad_token_id") and (
      value.ndim > 2 or value.shape == mask.shape
    ):
      mask = mask.reshape(mask.shape + (1,) * (value.ndim > 2))
      value, expected = value * mask, expected * mask
    np.testing.assert_allclose(value, expected, rtol=0, atol=1e-5)

  def check_hidden_states(self):
    output = self.output
    states = [output.embedding_output, *output.all_encoder_layers]
    self.check("hidden_states", states)

  def check_head(self):
    """Compares the output of the head of the class in the folder's name."""
    states, pooled = self.output.sequence_output, self.output.pooled_output
    task = self.name.partition("For")[2]
    if task == "MaskedLM":
      head = heads.MaskedLMHead(self.config, self.bert.word_embeddings)
      self.check("logits", self.head(head)(states))
    elif task == "QuestionAnswering":
      start, end = self.head(heads.SpanHead(self.config))(states)
      self.check("start_logits", start)
      self.check("end_logits", end)
    elif task == "PreTraining":  # Only ELECTRA.
      head = electra.ReplacedTokenHead(self.config)
      self.check("logits", self.head(head)(states))
    else:
      count = self.reader.shapes["output_bias"][0]
      is_tagger = task == "TokenClassification"
      classes = heads.ClassificationHead, heads.TokenClassificationHead
      head = self.head(classes[is_tagger](self.config, count))
      self.check("logits", head(states if is_tagger else pooled))
