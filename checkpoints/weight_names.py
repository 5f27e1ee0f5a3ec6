"""One table: name and layout of each weight in three programs.

  TF1            the released checkpoints, the original, and this project
  Hugging Face   BertModel, BertForPreTraining, ... in PyTorch
  Model Garden   BertEncoder and BertPretrainerV2 of tf-models-official

H is the width, N the heads, D = H / N. TF1 keeps the matrix of a dense layer
as [inputs, outputs]; PyTorch as [outputs, inputs]; Model Garden cuts the heads
out of the attention's matrices. No number changes on the way.

The names of a variant of BERT are made from BERT's.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from common import choices, errors
from variants import albert


class Row(NamedTuple):
  """Names of one weight, and how to lay out the TF1 value for the others.

  Attributes:
    tf1: name of the variable.
    huggingface: name of the tensor, with the "bert." of models with a head;
      None where there is none.
    model_garden: path of the variable from the encoder ("encoder/"), the
      masked-LM head ("masked_lm/") or the next-sentence head
      ("next_sentence/"); None for heads of other tasks.
    huggingface_layout, model_garden_layout: keys of LAYOUTS.
  """

  tf1: str
  huggingface: str | None
  model_garden: str | None
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

# What a dense layer or a layer norm has: TF1's word, Hugging Face's, and how
# PyTorch lays it out. Its beta and gamma are a bias and a weight there.
_DENSE = (("kernel", "weight", "transposed"), ("bias", "bias", "same"))
_NORM = (("beta", "bias", "same"), ("gamma", "weight", "same"))
# TF1's name below layer_<n>/, Model Garden's below _transformer_layers/<n>/,
# the layouts of kernel and bias there.
_HEADS_OUT, _AS_HERE = ("heads_out", "heads"), ("same", "same")
_LAYER = (
  ("attention/self/query", "_attention_layer/_query_dense", _HEADS_OUT),
  ("attention/self/key", "_attention_layer/_key_dense", _HEADS_OUT),
  ("attention/self/value", "_attention_layer/_value_dense", _HEADS_OUT),
  # Its bias is added after the heads are joined.
  (
    "attention/output/dense", "_attention_layer/_output_dense",
    ("heads_in", "same"),
  ),
  ("attention/output/LayerNorm", "_attention_layer_norm", _AS_HERE),
  ("intermediate/dense", "_intermediate_dense", _AS_HERE),
  ("output/dense", "_output_dense", _AS_HERE),
  ("output/LayerNorm", "_output_layer_norm", _AS_HERE),
)
# The BiLSTM of run_ner.py on features of a frozen encoder.
LAYER_MIX = "tagging/layer_mix"
BILSTM_LAYERS = 2


def bilstm_names(number: int) -> tuple[str, ...]:
  """Returns the names of a layer's kernel, recurrent kernel and bias."""
  parts = ("kernel", "recurrent_kernel", "bias")
  return tuple(f"tagging/bilstm_{number}/{part}" for part in parts)


def table(num_layers: int) -> list[Row]:
  """Returns the rows of a BERT with all heads, in the order of TF1 files."""
  norm = "bert/embeddings/LayerNorm"
  transform = "cls/predictions/transform"
  names = [LAYER_MIX, *sum(map(bilstm_names, range(BILSTM_LAYERS)), ())]
  return [
    *(
      Row(
        f"bert/embeddings/{kind}_embeddings",
        f"bert.embeddings.{kind}_embeddings.weight",
        f"encoder/_{theirs}embedding_layer/embeddings",
      )
      for kind, theirs in (
        ("word", ""), ("token_type", "type_"), ("position", "position_")
      )
    ),
    *_rows(norm, "encoder/_embedding_norm_layer"),
    *(
      row
      for number in range(num_layers)
      for tf1, garden, layouts in _LAYER
      for row in _rows(
        f"bert/encoder/layer_{number}/{tf1}",
        f"encoder/_transformer_layers/{number}/{garden}", layouts,
      )
    ),
    *_rows("bert/pooler/dense", "encoder/_pooler_layer"),
    *_rows(f"{transform}/dense", "masked_lm/dense"),
    *_rows(f"{transform}/LayerNorm", "masked_lm/layer_norm"),
    Row(
      "cls/predictions/output_bias", "cls.predictions.bias", "masked_lm/bias"
    ),
    # TF1 keeps this one as [outputs, H], unlike its dense layers.
    Row(
      "cls/seq_relationship/output_weights", "cls.seq_relationship.weight",
      "next_sentence/out_proj/kernel", model_garden_layout="transposed",
    ),
    Row(
      "cls/seq_relationship/output_bias", "cls.seq_relationship.bias",
      "next_sentence/out_proj/bias",
    ),
    Row("output_weights", "classifier.weight", None),
    Row("output_bias", "classifier.bias", None),
    Row("cls/squad/output_weights", "qa_outputs.weight", None),
    Row("cls/squad/output_bias", "qa_outputs.bias", None),
    *(Row(name, None, None) for name in names),
  ]


def _rows(tf1, garden, garden_layouts=_AS_HERE):
  """Returns the two rows of a dense layer or a layer norm."""
  theirs = re.sub(r"layer_(\d+)", r"layer.\1", tf1).replace("/", ".")
  parts = _NORM if tf1.endswith("LayerNorm") else _DENSE
  return [
    Row(
      f"{tf1}/{ours}", f"{theirs}.{word}", f"{garden}/{ours}", layout,
      garden_layout,
    )
    for (ours, word, layout), garden_layout in zip(parts, garden_layouts)
  ]


def count_layers(names: Iterable[str]) -> int:
  """Number of encoder layers with weights of their own, from TF1 names."""
  return _count(r"/encoder/(?:layer|transformer/group)_(\d+)/", names)


def _count(pattern, names):
  # The highest number and not a count: every layer has many weights.
  found = (re.search(pattern, name) for name in names)
  return max((int(match[1]) + 1 for match in found if match), default=0)


def from_tf1(value: np.ndarray, layout: str, num_heads: int) -> np.ndarray:
  """Lays a TF1 value out for another world (a contiguous array)."""
  return np.ascontiguousarray(LAYOUTS[layout][0](value, num_heads))


def to_tf1(value: np.ndarray, layout: str) -> np.ndarray:
  """Lays a value of another world out as TF1 has it (a contiguous array)."""
  return np.ascontiguousarray(LAYOUTS[layout][1](value))


def tf1_shape(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
  """Returns the shape that `to_tf1` gives a value of this shape."""
  # No number is stored: strides of 0.
  return LAYOUTS[layout][1](np.broadcast_to(np.int8(0), shape)).shape


# Hugging Face


class Kind(NamedTuple):
  """How Hugging Face names the models of one architecture.

  Attributes:
    title: what the names of its classes start with.
    parts: first parts of an encoder's names. In models with a head there is
      the variant's name before them, such as "bert."; not in an encoder alone.
    tied: copy of a weight -> the weight; older files carry copies.
    renamed: (part of BERT's name, part of this kind's name), in the order of
      their replacement; None for the second where there is no such weight.
    tokenizer: class of transformers, for a list of word pieces.
  """

  title: str
  parts: str
  tied: dict[str, str]
  renamed: tuple = ()
  tokenizer: str = "BertTokenizer"


KINDS = {
  "bert": Kind(
    title="Bert",
    parts="embeddings|encoder|pooler",
    tied={
      "cls.predictions.decoder.weight":
        "bert.embeddings.word_embeddings.weight",
      "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
  ),
  "distilbert": Kind(
    title="DistilBert",
    parts="embeddings|transformer",
    tied={
      "vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight",
    },
    renamed=(
      ("bert.embeddings.token_type_embeddings.", None),
      ("cls.seq_relationship.", None),
      ("bert.embeddings.", "distilbert.embeddings."),
      ("bert.encoder.layer.", "distilbert.transformer.layer."),
      (".attention.self.query.", ".attention.q_lin."),
      (".attention.self.key.", ".attention.k_lin."),
      (".attention.self.value.", ".attention.v_lin."),
      (".attention.output.dense.", ".attention.out_lin."),
      (".attention.output.LayerNorm.", ".sa_layer_norm."),
      (".intermediate.dense.", ".ffn.lin1."),
      (".output.dense.", ".ffn.lin2."),
      (".output.LayerNorm.", ".output_layer_norm."),
      ("bert.pooler.dense.", "pre_classifier."),
      ("cls.predictions.transform.dense.", "vocab_transform."),
      ("cls.predictions.transform.LayerNorm.", "vocab_layer_norm."),
      ("cls.predictions.bias", "vocab_projector.bias"),
    ),
    tokenizer="DistilBertTokenizer",
  ),
  "albert": Kind(
    title="Albert",
    parts="embeddings|encoder|pooler",
    tied={
      "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
      "predictions.decoder.bias": "predictions.bias",
    },
    renamed=(
      ("bert.embeddings.", "albert.embeddings."),
      ("bert.encoder.layer.", "albert.encoder.albert_layer_groups."),
      (".attention.self.", ".albert_layers.0.attention."),
      (".attention.output.", ".albert_layers.0.attention."),
      (".intermediate.dense.", ".albert_layers.0.ffn."),
      (".output.dense.", ".albert_layers.0.ffn_output."),
      (".output.LayerNorm.", ".albert_layers.0.full_layer_layer_norm."),
      ("bert.pooler.dense.", "albert.pooler."),
      ("cls.predictions.transform.", "predictions."),
      ("cls.predictions.", "predictions."),
      ("cls.seq_relationship.", "sop_classifier.classifier."),
    ),
  ),
}
# End of a class's name -> what its TF1 names start with, besides the encoder's.
# The first that has all its names is taken, so of two with the same names the
# second has to be asked for.
_HEADS = {
  "ForQuestionAnswering": ("cls/squad/",),
  "ForSequenceClassification": ("output_",),
  "ForTokenClassification": ("output_",),
  "ForPreTraining": ("cls/seq_relationship/", "cls/predictions/"),
  "ForMaskedLM": ("cls/predictions/",),
  "ForNextSentencePrediction": ("cls/seq_relationship/",),
  "Model": (),
}


def _architectures(variant):
  """Returns {class of transformers: what its TF1 names start with}."""
  title = KINDS[variant].title
  found = {title + head: starts for head, starts in _HEADS.items()}
  # Its dense layer, which is in no other class.
  if variant == "distilbert":
    found["DistilBertForSequenceClassification"] += ("bert/pooler/",)
  known = choices.HUGGINGFACE_ARCHITECTURES
  return {name: starts for name, starts in found.items() if name in known}


def architecture_of(names: Iterable[str], variant: str = "bert") -> str:
  """Returns the class of transformers for a model with these TF1 names."""
  return next(
    architecture
    for architecture, starts in _architectures(variant).items()
    if all(any(name.startswith(start) for name in names) for start in starts)
  )


def variant_of(names: Iterable[str]) -> str:
  """Returns the variant that a file's names are of, where no file says it."""
  if any(re.match(r"(distilbert|transformer)\.", name) for name in names):
    return "distilbert"
  return "albert" if any("albert_layer" in name for name in names) else "bert"


def rows(variant: str, num_layers: int) -> list[Row]:
  """Returns the rows of `table` as a variant has them.

  Args:
    variant: a key of KINDS.
    num_layers: how many layers have weights of their own.
  """
  renamed = KINDS[variant].renamed
  found = [
    row._replace(huggingface=_renamed(row.huggingface, renamed))
    for row in table(num_layers)
  ]
  if variant != "albert":
    return found
  # The mapping of narrow embeddings has no counterpart in BERT's table.
  ours = f"bert/encoder/{albert.MAPPING}"
  theirs = f"albert.encoder.{albert.MAPPING}"
  return [
    Row(f"{ours}/kernel", f"{theirs}.weight", None, "transposed"),
    Row(f"{ours}/bias", f"{theirs}.bias", None),
    *(row._replace(tf1=albert.tf1_name(row.tf1)) for row in found),
  ]


def _renamed(name, replacements):
  """Returns the name, None where the variant has no such weight."""
  for old, new in replacements:
    # Once a name is None it stays None: the weight does not exist there.
    if name and old in name:
      name = name.replace(old, new) if new else None
  return name


class Found(NamedTuple):
  """What the names of a file of Hugging Face are of.

  Attributes:
    values: dict from TF1 name to (name in the file, key of LAYOUTS); what no
      row has is under its own name.
    derived: names of what a model makes of its other weights, sorted.
  """

  values: dict[str, tuple[str, str]]
  derived: list[str]


def find(variant: str, names: Iterable[str]) -> Found:
  """Returns what the names of a file are of, by models of one variant."""
  count = _count(r"\b(?:layer|albert_layer_groups)\.(\d+)\.", names)
  known = {row.huggingface: row for row in rows(variant, count)}
  made = (f"{variant}.embeddings.position_ids", *KINDS[variant].tied)
  found = Found({}, [])
  for name in sorted(names):
    full = _full_name(variant, name)
    if full in known:
      found.values[known[full].tf1] = name, known[full].huggingface_layout
    elif full in made:
      found.derived.append(name)
    # Under its own name, so that the report lists it among the unused.
    else:
      found.values[name] = name, "same"
  return found


def _full_name(variant, name):
  """Returns the name as models with a head save it today."""
  # An encoder saved alone has names without the prefix.
  name = re.sub(rf"^(?=({KINDS[variant].parts})\.)", f"{variant}.", name)
  # Files of before 2019 name the two as TensorFlow does.
  name = re.sub(r"(?<=LayerNorm\.)gamma$", "weight", name)
  return re.sub(r"(?<=LayerNorm\.)beta$", "bias", name)


def to_write(
  names: Iterable[str], variant: str, architecture: str
) -> list[Row]:
  """Returns the rows of TF1 names, as a class of transformers has them.

  Raises:
    InputError: the class is of another variant.
  """
  if architecture not in _architectures(variant):
    raise errors.InputError(
      f"--architecture={architecture} is of another kind of model; this one "
      f"is {variant}: choose among {', '.join(_architectures(variant))}"
    )
  # A model without a head is saved without the name of its encoder: BertModel
  # has "encoder.layer.0...", all others have "bert.encoder.layer.0...".
  prefix = f"{variant}." if architecture.endswith("Model") else ""
  # DistilBERT's is the dense layer of its classifier and of nothing else.
  no_pooler = variant == "distilbert" and (
    not architecture.endswith("ForSequenceClassification")
  )
  return [
    row._replace(huggingface=row.huggingface.removeprefix(prefix))
    for row in rows(variant, count_layers(names))
    if row.tf1 in names and row.huggingface
    and not (no_pooler and row.tf1.startswith("bert/pooler/"))
  ]
