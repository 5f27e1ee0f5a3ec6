"""One table: name and layout of each weight in three programs.

  TF1            the released checkpoints, the original, and this project
  Hugging Face   BertModel, BertForPreTraining, ... in PyTorch
  Model Garden   BertEncoder and BertPretrainerV2 of tf-models-official

H is the width, N the heads, D = H / N. TF1 keeps the matrix of a dense layer
as [inputs, outputs]; PyTorch as [outputs, inputs]; Model Garden cuts the heads
out of the attention's matrices. No number changes on the way.
"""

import re
from typing import NamedTuple, Optional

import numpy as np


class Row(NamedTuple):
  """Names of one weight, and how to lay out the TF1 value for the others.

  Attributes:
    tf1: name of the variable.
    huggingface: name of the tensor, with the "bert." of models with a head;
      None for the BiLSTM of run_ner.py, which no class there has.
    model_garden: path of the variable from the encoder ("encoder/"), the
      masked-LM head ("masked_lm/") or the next-sentence head
      ("next_sentence/"); None for heads of other tasks.
    huggingface_layout, model_garden_layout: keys of LAYOUTS.
  """

  tf1: str
  huggingface: Optional[str]
  model_garden: Optional[str]
  huggingface_layout: str = "same"
  model_garden_layout: str = "same"


# name -> (from TF1's value and N, back to TF1's value)
LAYOUTS = {
  "same": (lambda x, n: x, lambda x: x),
  "transposed": (lambda x, n: x.T, lambda x: x.T),
  # [H, H] -> [H, N, D]: the heads are in the outputs.
  "heads_out": (
    lambda x, n: x.reshape(x.shape[0], n, -1),
    lambda x: x.reshape(x.shape[0], -1),
  ),
  # [H, H] -> [N, D, H]: the heads are in the inputs.
  "heads_in": (
    lambda x, n: x.reshape(n, -1, x.shape[1]),
    lambda x: x.reshape(-1, x.shape[2]),
  ),
  # [H] -> [N, D]
  "heads": (lambda x, n: x.reshape(n, -1), lambda x: x.reshape(-1)),
}


def from_tf1(value, layout, num_heads):
  """Lays a TF1 value out for another world (a contiguous array)."""
  return np.ascontiguousarray(LAYOUTS[layout][0](value, num_heads))


def to_tf1(value, layout):
  """Lays a value of another world out as TF1 has it (a contiguous array)."""
  return np.ascontiguousarray(LAYOUTS[layout][1](value))


def table(num_layers):
  """Returns the rows of a model with all heads, in the order of TF1 files."""
  rows = [
    Row(
      f"bert/embeddings/{name}",
      f"bert.embeddings.{name}.weight",
      f"encoder/{layer}/embeddings",
    )
    for name, layer in (
      ("word_embeddings", "_embedding_layer"),
      ("token_type_embeddings", "_type_embedding_layer"),
      ("position_embeddings", "_position_embedding_layer"),
    )
  ]
  rows += _norm(
    "bert/embeddings/LayerNorm",
    "bert.embeddings.LayerNorm",
    "encoder/_embedding_norm_layer",
  )
  for number in range(num_layers):
    rows += _layer(number)
  rows += _dense(
    "bert/pooler/dense", "bert.pooler.dense", "encoder/_pooler_layer"
  )
  return [*rows, *_pretraining_heads(), *_task_heads(), *_tagging_head()]


def count_layers(names):
  """Number of encoder layers with weights of their own, from TF1 names."""
  layer = re.compile(r"/encoder/(?:layer|transformer/group)_(\d+)/")
  found = (layer.search(name) for name in names)
  return max((int(match.group(1)) + 1 for match in found if match), default=0)


def _layer(number):
  tf1 = f"bert/encoder/layer_{number}"
  huggingface = f"bert.encoder.layer.{number}"
  garden = f"encoder/_transformer_layers/{number}"
  rows = []
  for part in ("query", "key", "value"):
    rows += _dense(
      f"{tf1}/attention/self/{part}",
      f"{huggingface}.attention.self.{part}",
      f"{garden}/_attention_layer/_{part}_dense",
      garden_layouts=("heads_out", "heads"),
    )
  rows += _dense(
    f"{tf1}/attention/output/dense",
    f"{huggingface}.attention.output.dense",
    f"{garden}/_attention_layer/_output_dense",
    # Its bias is added after the heads are joined.
    garden_layouts=("heads_in", "same"),
  )
  rows += _norm(
    f"{tf1}/attention/output/LayerNorm",
    f"{huggingface}.attention.output.LayerNorm",
    f"{garden}/_attention_layer_norm",
  )
  for part in ("intermediate", "output"):
    rows += _dense(
      f"{tf1}/{part}/dense",
      f"{huggingface}.{part}.dense",
      f"{garden}/_{part}_dense",
    )
  return rows + _norm(
    f"{tf1}/output/LayerNorm",
    f"{huggingface}.output.LayerNorm",
    f"{garden}/_output_layer_norm",
  )


def _pretraining_heads():
  transform = "cls/predictions/transform"
  return [
    *_dense(
      f"{transform}/dense",
      "cls.predictions.transform.dense",
      "masked_lm/dense",
    ),
    *_norm(
      f"{transform}/LayerNorm",
      "cls.predictions.transform.LayerNorm",
      "masked_lm/layer_norm",
    ),
    Row(
      "cls/predictions/output_bias", "cls.predictions.bias", "masked_lm/bias"
    ),
    Row(
      "cls/seq_relationship/output_weights",
      "cls.seq_relationship.weight",
      # TF1 keeps this one as [outputs, H], unlike its dense layers.
      "next_sentence/out_proj/kernel",
      model_garden_layout="transposed",
    ),
    Row(
      "cls/seq_relationship/output_bias",
      "cls.seq_relationship.bias",
      "next_sentence/out_proj/bias",
    ),
  ]


def _task_heads():
  return [
    Row(f"{tf1}output_{ours}", f"{huggingface}.{theirs}", None)
    for tf1, huggingface in (("", "classifier"), ("cls/squad/", "qa_outputs"))
    for ours, theirs in (("weights", "weight"), ("bias", "bias"))
  ]


# The BiLSTM of run_ner.py on features of a frozen encoder.
LAYER_MIX = "tagging/layer_mix"
BILSTM_LAYERS = 2


def bilstm_names(number):
  """Returns the names of a layer's kernel, recurrent kernel and bias."""
  parts = ("kernel", "recurrent_kernel", "bias")
  return tuple(f"tagging/bilstm_{number}/{part}" for part in parts)


def _tagging_head():
  names = [name for n in range(BILSTM_LAYERS) for name in bilstm_names(n)]
  return [Row(name, None, None) for name in (LAYER_MIX, *names)]


def _dense(tf1, huggingface, garden, *, garden_layouts=("same", "same")):
  return [
    Row(
      f"{tf1}/kernel",
      f"{huggingface}.weight",
      f"{garden}/kernel",
      "transposed",
      garden_layouts[0],
    ),
    Row(
      f"{tf1}/bias",
      f"{huggingface}.bias",
      f"{garden}/bias",
      "same",
      garden_layouts[1],
    ),
  ]


def _norm(tf1, huggingface, garden):
  # PyTorch calls gamma the weight, and beta the bias.
  return [
    Row(f"{tf1}/beta", f"{huggingface}.bias", f"{garden}/beta"),
    Row(f"{tf1}/gamma", f"{huggingface}.weight", f"{garden}/gamma"),
  ]
