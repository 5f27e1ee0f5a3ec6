"""How Hugging Face names the weights of BERT and of each of its variants.

A variant's names are made from BERT's rows of `weight_names.table`; what the
variant calls them is in its module in the folder `variants`.
"""

import re
from typing import NamedTuple

from checkpoints import weight_names
from common import errors
from variants import albert, distilbert


class Kind(NamedTuple):
  """The models of one architecture.

  Attributes:
    prefix: what names start with in models with a head; those of the encoder
      alone have none.
    parts: first parts of an encoder's names, without the prefix.
    architectures: class of transformers -> what its TF1 names start with,
      besides the encoder's. The first one that has all its names is taken, so
      of two classes with the same names the second has to be asked for.
    tied: copy of a weight -> the weight; older files carry copies.
    renamed: (part of BERT's name, part of this kind's name), in the order of
      their replacement; None for the second where there is no such weight.
    tokenizer: class of transformers.
  """

  prefix: str
  parts: str
  architectures: dict
  tied: dict
  renamed: tuple = ()
  tokenizer: str = "BertTokenizer"


KINDS = {
  "bert": Kind(
    prefix="bert.",
    parts="embeddings|encoder|pooler",
    architectures={
      "BertForQuestionAnswering": ["cls/squad/"],
      "BertForSequenceClassification": ["output_"],
      "BertForTokenClassification": ["output_"],
      "BertForPreTraining": ["cls/seq_relationship/", "cls/predictions/"],
      "BertForMaskedLM": ["cls/predictions/"],
      "BertForNextSentencePrediction": ["cls/seq_relationship/"],
      "BertModel": [],
    },
    tied={
      "cls.predictions.decoder.weight":
        "bert.embeddings.word_embeddings.weight",
      "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
  ),
  "distilbert": Kind(
    prefix="distilbert.",
    parts="embeddings|transformer",
    architectures={
      "DistilBertForQuestionAnswering": ["cls/squad/"],
      "DistilBertForSequenceClassification": ["output_", "bert/pooler/"],
      "DistilBertForTokenClassification": ["output_"],
      "DistilBertForMaskedLM": ["cls/predictions/"],
      "DistilBertModel": [],
    },
    tied={
      "vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight",
    },
    renamed=distilbert.HUGGINGFACE_NAMES,
    tokenizer="DistilBertTokenizer",
  ),
  "albert": Kind(
    prefix="albert.",
    parts="embeddings|encoder|pooler",
    architectures={
      "AlbertForQuestionAnswering": ["cls/squad/"],
      "AlbertForSequenceClassification": ["output_"],
      "AlbertForTokenClassification": ["output_"],
      "AlbertForPreTraining": ["cls/seq_relationship/", "cls/predictions/"],
      "AlbertForMaskedLM": ["cls/predictions/"],
      "AlbertModel": [],
    },
    tied={
      "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
      "predictions.decoder.bias": "predictions.bias",
    },
    renamed=albert.HUGGINGFACE_NAMES,
    # Of a list of word pieces; SentencePiece's are of AlbertTokenizer.
    tokenizer="BertTokenizer",
  ),
}


def variant_of(names):
  """Returns the variant that a file's names are of, where no file says it."""
  if any(re.match(r"(distilbert|transformer)\.", name) for name in names):
    return "distilbert"
  return "albert" if any("albert_layer" in name for name in names) else "bert"


def rows(variant, num_layers):
  """Returns the rows of `weight_names.table` as a variant has them.

  Args:
    variant: a key of KINDS.
    num_layers: how many layers have weights of their own.
  """
  renamed = KINDS[variant].renamed
  found = [
    row._replace(huggingface=_renamed(row.huggingface, renamed))
    for row in weight_names.table(num_layers)
  ]
  # The mapping of narrow embeddings has no counterpart in BERT's table.
  if variant != "albert":
    return found
  own = f"bert/encoder/{albert.MAPPING}"
  theirs = f"albert.encoder.{albert.MAPPING}"
  mapping = [
    weight_names.Row(f"{own}/kernel", f"{theirs}.weight", None, "transposed"),
    weight_names.Row(f"{own}/bias", f"{theirs}.bias", None),
  ]
  return [
    *mapping, *(row._replace(tf1=albert.tf1_name(row.tf1)) for row in found)
  ]


def _renamed(name, replacements):
  """Returns the name, None where the variant has no such weight."""
  for old, new in replacements:
    # Once a name is None it stays None: the weight does not exist there.
    if name and old in name:
      name = name.replace(old, new) if new else None
  return name


def rows_of_file(variant, names):
  """Returns {full name: row} of all weights that a file may have."""
  layer = re.compile(r"\b(?:layer|albert_layer_groups)\.(\d+)\.")
  numbers = (layer.search(name) for name in names)
  # The highest number and not a count: every layer has many weights.
  count = max((int(m.group(1)) + 1 for m in numbers if m), default=0)
  return {row.huggingface: row for row in rows(variant, count)
          if row.huggingface}


def full_name(variant, name):
  """Returns the name as models with a head save it today."""
  kind = KINDS[variant]
  # An encoder saved alone has names without the prefix.
  name = re.sub(rf"^(?=({kind.parts})\.)", kind.prefix, name)
  # Files of before 2019 name the two as TensorFlow does.
  name = re.sub(r"(?<=LayerNorm\.)gamma$", "weight", name)
  return re.sub(r"(?<=LayerNorm\.)beta$", "bias", name)


def is_made_from_others(variant, name):
  """Whether a full name is of what a model makes of its weights."""
  kind = KINDS[variant]
  return name in (f"{kind.prefix}embeddings.position_ids", *kind.tied)


def architecture_of(names, variant="bert"):
  """Returns the class of transformers for a model with these TF1 names."""
  return next(
    architecture
    for architecture, prefixes in KINDS[variant].architectures.items()
    if all(any(n.startswith(prefix) for n in names) for prefix in prefixes)
  )


def rows_to_write(names, variant, architecture):
  """Returns the rows of TF1 names that a class of transformers has.

  Raises:
    InputError: the class is of another variant.
  """
  kind = KINDS[variant]
  if architecture not in kind.architectures:
    raise errors.InputError(
      f"--architecture={architecture} is of another kind of model; this one "
      f"is {variant}: choose among {', '.join(kind.architectures)}"
    )
  found = [
    row
    for row in rows(variant, weight_names.count_layers(names))
    if row.tf1 in names and row.huggingface
  ]
  # DistilBERT's is the dense layer of its classifier and of nothing else.
  if variant == "distilbert" and (
    not architecture.endswith("ForSequenceClassification")
  ):
    found = [row for row in found if not row.tf1.startswith("bert/pooler/")]
  return found
