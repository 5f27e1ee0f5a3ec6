"""Maps names and layouts of weights in other programs to TF1's.

  TF1            the released checkpoints, the original, and this project
  Hugging Face   BertModel, BertForPreTraining, ... in PyTorch
  Model Garden   BertEncoder and BertPretrainerV2 of tf-models-official

TF1's names come from configuration.bert_shapes, the shapes in heads.py, and the
changes in variants/. The layers need the endings kernel, bias, gamma and beta.

H is the width, N the number of heads, D = H / N. TF1 stores the matrix of a
dense layer as [inputs, outputs], PyTorch as [outputs, inputs]; Model Garden's
attention matrices have an axis for heads. Conversions do not change values.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

import configuration
import heads
from common import errors, flag_values
from variants import electra, registry, spanbert


class Layout(NamedTuple):
  """Functions that convert a value to another program's layout and back."""

  there: Callable  # From TF1's value and N to the other program's value.
  back: Callable  # From the other program's value to TF1's.
  shape: Callable  # From the other program's shape to TF1's.


LAYOUTS = {
  "same": Layout(lambda x, n: x, lambda x: x, lambda s: s),
  "transposed": Layout(lambda x, n: x.T, lambda x: x.T, lambda s: s[::-1]),
  # [H, H] -> [H, N, D]: the heads are in the outputs.
  "heads_out": Layout(
    lambda x, n: x.reshape(x.shape[0], n, -1),
    lambda x: x.reshape(x.shape[0], -1),
    lambda s: (s[0], s[1] * s[2]),
  ),
  # [H, H] -> [N, D, H]: the heads are in the inputs.
  "heads_in": Layout(
    lambda x, n: x.reshape(n, -1, x.shape[1]),
    lambda x: x.reshape(-1, x.shape[2]),
    lambda s: (s[0] * s[1], s[2]),
  ),
  # [H] -> [N, D]
  "heads": Layout(
    lambda x, n: x.reshape(n, -1),
    lambda x: x.reshape(-1),
    lambda s: (s[0] * s[1],),
  ),
}


class Reader:
  """Reads the values of a checkpoint on demand, by their TF1 names.

  Attributes:
    file_format: such as "Hugging Face".
    path: a folder, a file, or the prefix of TensorFlow's files.
    folder: the folder of the files.
    shapes: {TF1 name: shape (tuple)}, sorted by name.
    config: dict for `BertConfig.from_dict`, if the checkpoint has it.
    notes: remarks for the user about the model.
    num_heads: number of attention heads, if the shapes determine it.
  """

  def __init__(
    self,
    file_format: str,
    path: str,
    names: dict[str, tuple[str, str]],
    shape_of: Callable[[str], Sequence[int]],
    value_of: Callable[[str], np.ndarray],
    *,
    folder: str,
    config: dict | None = None,
    notes: Sequence[str] = (),
    num_heads: int | None = None,
  ):
    """Creates a reader of values in files.

    Args:
      names: {TF1 name: (name in the files, key of LAYOUTS)}.
      shape_of, value_of: functions of a name in the files.
    """
    self.file_format, self.path, self.folder = file_format, path, folder
    self.config, self.notes, self.num_heads = config, notes, num_heads
    self._names, self._value_of = names, value_of
    self.shapes = {
      tf1: LAYOUTS[layout].shape(tuple(shape_of(name)))
      for tf1, (name, layout) in sorted(names.items())
    }

  def read(self, tf1: str) -> np.ndarray:
    """Returns the value for a TF1 name; raises InputError if it is damaged."""
    name, layout = self._names[tf1]
    return to_tf1(self._value_of(name), layout)


def from_tf1(value: np.ndarray, layout: str, num_heads: int = 1) -> np.ndarray:
  """Converts a TF1 value to a program's layout, as a contiguous array."""
  return np.ascontiguousarray(LAYOUTS[layout].there(value, num_heads))


def to_tf1(value: np.ndarray, layout: str) -> np.ndarray:
  """Converts a value of another program to TF1's layout."""
  # np.ascontiguousarray would turn a scalar into a vector.
  if layout == "same":
    return value
  return np.ascontiguousarray(LAYOUTS[layout].back(value))


# Names: each program has pairs (regular expression, replacement), applied in
# order to a TF1 name. If the result is "", the program lacks the weight.

_HUGGINGFACE = (
  ("^output_", "classifier/output_"),
  ("cls/squad/", "qa_outputs/"),
  ("_embeddings$", "_embeddings/weight"),
  ("(kernel|gamma|output_weights)$", "weight"),
  ("(beta|output_bias)$", "bias"),
  (r"layer_(\d+)", r"layer.\1"),
  ("/", "."),
)
_RENAMED = {
  "bert": _HUGGINGFACE,
  "distilbert": (
    ("cls/seq_relationship.*", ""),
    ("bert/pooler/dense", "pre_classifier"),
    ("bert/encoder", "bert/transformer"),
    ("^bert", "distilbert"),
    (r"attention/self/(\w)\w+", r"attention/\1_lin"),
    ("attention/output/dense", "attention/out_lin"),
    ("attention/output/LayerNorm", "sa_layer_norm"),
    ("intermediate/dense", "ffn/lin1"),
    ("/output/dense", "/ffn/lin2"),
    ("/output/LayerNorm", "/output_layer_norm"),
    ("cls/predictions/transform/dense", "vocab_transform"),
    ("cls/predictions/transform/LayerNorm", "vocab_layer_norm"),
    ("cls/predictions/", "vocab_projector/"),
    *_HUGGINGFACE,
  ),
  "albert": (
    ("bert/pooler/dense", "bert/pooler"),
    ("^bert", "albert"),
    (
      r"transformer/group_(\d+)/inner_group_0",
      r"albert_layer_groups/\1/albert_layers/0",
    ),
    ("attention_1/(self|output)", "attention"),
    ("0/LayerNorm/", "0/attention/LayerNorm/"),
    ("LayerNorm_1", "full_layer_layer_norm"),
    ("ffn_1/intermediate/dense", "ffn"),
    ("ffn_1/intermediate/output/dense", "ffn_output"),
    ("cls/predictions/(transform/)?", "predictions/"),
    ("cls/seq_relationship/", "sop_classifier/classifier/"),
    *_HUGGINGFACE,
  ),
  "electra": (
    ("cls/seq_relationship.*", ""),
    ("bert/pooler/dense", "classifier/dense"),
    ("^bert", "electra"),
    ("cls/predictions/transform/", "generator_predictions/"),
    ("cls/predictions/", "generator_lm_head/"),
    ("cls/replaced_tokens/dense", "discriminator_predictions/dense"),
    ("cls/replaced_tokens/", "discriminator_predictions/dense_prediction/"),
    *_HUGGINGFACE,
  ),
  "modernbert": (
    ("cls/seq_relationship.*", ""),
    ("^cls/squad/", "classifier/"),
    ("^cls/predictions/output_", "decoder/"),
    ("^bert/head/", "head/"),
    ("^bert/encoder/LayerNorm", "bert/final_norm"),
    ("^bert/encoder/layer_", "bert/layers/"),
    ("^bert/", "model/"),
    ("word_embeddings$", "tok_embeddings/weight"),
    ("attention/LayerNorm", "attn_norm"),
    ("attention/self/qkv", "attn/Wqkv"),
    ("attention/output/dense", "attn/Wo"),
    ("intermediate/LayerNorm", "mlp_norm"),
    ("intermediate/dense", "mlp/Wi"),
    (r"(\d)/output/dense", r"\1/mlp/Wo"),
    ("(embeddings|head)/LayerNorm", r"\1/norm"),
    *_HUGGINGFACE,
  ),
  "roberta": (
    ("cls/seq_relationship.*", ""),
    ("^bert", "roberta"),
    ("cls/predictions/transform/dense", "lm_head/dense"),
    ("cls/predictions/transform/LayerNorm", "lm_head/layer_norm"),
    ("cls/predictions/", "lm_head/"),
    *_HUGGINGFACE,
  ),
  "model_garden": (
    ("bert/embeddings/LayerNorm", "encoder/_embedding_norm_layer"),
    ("bert/embeddings/word_", "encoder/_embedding_layer/"),
    ("bert/embeddings/token_type_", "encoder/_type_embedding_layer/"),
    ("bert/embeddings/position_", "encoder/_position_embedding_layer/"),
    ("bert/encoder/layer_", "encoder/_transformer_layers/"),
    (r"attention/self/(\w+)", r"_attention_layer/_\1_dense"),
    ("attention/output/dense", "_attention_layer/_output_dense"),
    ("attention/output/LayerNorm", "_attention_layer_norm"),
    ("intermediate/dense", "_intermediate_dense"),
    ("/output/dense", "/_output_dense"),
    ("/output/LayerNorm", "/_output_layer_norm"),
    ("bert/pooler/dense", "encoder/_pooler_layer"),
    ("cls/predictions/transform/dense", "masked_lm/dense"),
    ("cls/predictions/transform/LayerNorm", "masked_lm/layer_norm"),
    ("cls/predictions/output_", "masked_lm/"),
    ("cls/seq_relationship/output_weights", "next_sentence/out_proj/kernel"),
    ("cls/seq_relationship/output_bias", "next_sentence/out_proj/bias"),
    # Model Garden's pretrainer has no heads for other tasks.
    ("cls/pair_target_predictions/.*", ""),
    (".*output_(weights|bias)$", ""),
  ),
}
# {regular expression of a TF1 name: layout}. The output_weights of heads are
# [outputs, H] in TF1 and PyTorch, so only dense layers' kernels are transposed.
_HUGGINGFACE_LAYOUTS = {"/kernel$": "transposed"}
# {variant: variant with the same names}
_FAMILIES = {"camembert": "roberta", "xlm-roberta": "roberta"}
# {variant: first part of the names of its encoder}, if it is not the variant.
_PREFIXES = {"modernbert": "model"}
# {variant: prefixes of names that only its sequence classifier has}. ELECTRA's
# token classifier has a different name for the last layer, and RoBERTa's
# encoder has a different name for the pooler.
_ONLY_FOR_SEQUENCES = {
  "distilbert": ("pre_classifier.",),
  "electra": ("classifier.dense.", "classifier.out_proj."),
  "roberta": ("classifier.dense.", "classifier.out_proj."),
}
# {variant: prefixes of names that a class without a head lacks}
_ONLY_WITH_HEAD = {"modernbert": ("head.",)}
# The same for the classes for multiple choice, which have a pooler. DistilBERT
# names them all as in the sequence classifier.
_NOT_FOR_CHOICES = {
  "electra": ("classifier.out_proj.",),
  "roberta": ("classifier.dense.", "classifier.out_proj."),
}
_MODEL_GARDEN_LAYOUTS = {
  "attention/self/.*/kernel$": "heads_out",
  "attention/self/.*/bias$": "heads",
  # The bias of this layer has no axis for heads.
  "attention/output/dense/kernel$": "heads_in",
  "cls/seq_relationship/output_weights$": "transposed",
}


class Row(NamedTuple):
  """A weight's names in TF1 and in another program, and a key of LAYOUTS."""

  tf1: str
  name: str
  layout: str = "same"


def rows(program: str, names: Iterable[str]) -> list[Row]:
  """Returns the rows of all weights that a program can have.

  Args:
    program: a variant in Hugging Face, or "model_garden".
    names: names in TF1 or the program, which determine the layer numbers.
  """
  is_garden, program = program == "model_garden", family_of(program)
  layouts = _MODEL_GARDEN_LAYOUTS if is_garden else _HUGGINGFACE_LAYOUTS
  # The first number in a name is the number of the layer or layer group.
  matches = [re.search(r"\d+", name) for name in names]
  numbers = sorted({m[0] for m in matches if m}, key=lambda n: (len(n), n))
  table = []
  for tf1 in _tf1_names("bert" if is_garden else program, numbers):
    fitting = [v for regex, v in layouts.items() if re.search(regex, tf1)]
    name = tf1
    # The default is for variants without a class in transformers.
    for regex, new in _RENAMED.get(program, _HUGGINGFACE):
      name = re.sub(regex, new, name)
    if name:
      table.append(Row(tf1, name, *fitting))
    special = name.replace("roberta.pooler.", "classifier.")
    if tf1.startswith("output_"):
      special = name.replace("classifier.", "classifier.out_proj.")
    prefixes = _ONLY_FOR_SEQUENCES.get(program, ())
    if special != name and special.startswith(prefixes):
      table.append(Row(tf1, special, *fitting))
  return table


def _tf1_names(variant: str, numbers: Sequence[str]) -> list[str]:
  """Returns the TF1 names of an encoder with these layers, and of all heads."""
  config = configuration.BertConfig.from_dict(
    {
      "vocab_size": 1,
      # The second layer has the names of all further layers.
      "num_hidden_layers": 2,
      "variant": variant,
      # For ALBERT and ELECTRA.
      "embedding_size": 1,
      "num_hidden_groups": 1,
      "pad_token_id": 1,  # For RoBERTa.
      # For ModernBERT.
      "attention_bias": True,
      "mlp_bias": True,
      "norm_bias": True,
      "classifier_bias": True,
    }
  )
  shapes = {**registry.shapes(config), **heads.masked_lm_shapes(config)}
  if variant == "electra":
    shapes.update(electra.replaced_token_shapes(config))
  if variant == "bert":
    shapes.update(spanbert.pair_target_shapes(config))
  for head in ("cls/seq_relationship/", "", "cls/squad/"):
    shapes.update(heads.output_shapes(config, head, 1))
  of_layer = "encoder/(layer|transformer/group)_[01]/"
  names = [
    re.sub(of_layer, rf"encoder/\g<1>_{number}/", name)
    for name in shapes
    for number in (numbers if re.search(of_layer, name) else [0])
  ]
  return list(dict.fromkeys(names))


# Replacements for names in checkpoints of ELECTRA's authors. The checkpoints
# also have a generator, which keeps its names and is not used.
_ELECTRA = (
  ("^electra/", "bert/"),
  (
    "^discriminator_predictions/dense_1/kernel",
    "cls/replaced_tokens/output_weights",
  ),
  ("^discriminator_predictions/dense_1/", "cls/replaced_tokens/output_"),
  ("^discriminator_predictions/", "cls/replaced_tokens/"),
)


def of_tf1(names: Iterable[str]) -> dict[str, tuple[str, str]]:
  """Maps this project's names to (name in a TF1 file, key of LAYOUTS)."""
  is_electra = any(name.startswith("electra/") for name in names)
  names_in_file = {}
  for name in names:
    tf1 = name
    for regex, new in _ELECTRA if is_electra else ():
      tf1 = re.sub(regex, new, tf1)
    # This project stores only a head's last layer as [outputs, inputs].
    is_last = "cls/replaced_tokens/output_weights" in tf1 and tf1 != name
    names_in_file[tf1] = name, "transposed" if is_last else "same"
  return names_in_file


# Hugging Face's classes and files

# {suffix of a class's name: prefixes of its TF1 names besides the encoder's}.
# The first class whose prefixes all occur is the default. The other two classes
# with an "output_" need --architecture, or a configuration that names the task.
_HEADS = {
  "ForQuestionAnswering": ("cls/squad/",),
  "ForSequenceClassification": ("output_",),
  "ForTokenClassification": ("output_",),
  "ForMultipleChoice": ("output_",),
  "ForPreTraining": ("cls/seq_relationship/", "cls/predictions/"),
  "ForMaskedLM": ("cls/predictions/",),
  "ForNextSentencePrediction": ("cls/seq_relationship/",),
  "Model": (),
}
# {name of a copy: name of the weight}; older files contain these copies.
_TABLE = "{}.embeddings.word_embeddings.weight"
_TIED = {
  "cls.predictions.decoder.weight": _TABLE,
  "cls.predictions.decoder.bias": "cls.predictions.bias",
  "cls.pair_target_predictions.decoder.weight": _TABLE,
  "predictions.decoder.weight": _TABLE,
  "predictions.decoder.bias": "predictions.bias",
  "vocab_projector.weight": _TABLE,
  "generator_lm_head.weight": _TABLE,
  "decoder.weight": "model.embeddings.tok_embeddings.weight",
  "lm_head.decoder.weight": _TABLE,
  "lm_head.decoder.bias": "lm_head.bias",
}
# Other spellings of names in Hugging Face's files, replaced before the lookup.
_SPELLINGS = (
  # Old PyTorch files have TensorFlow's names for these two weights.
  (r"(?<=LayerNorm\.)gamma$", "weight"),
  (r"(?<=LayerNorm\.)beta$", "bias"),
  (r"\b(layer_norm\d\.)gamma$", r"\1weight"),
  (r"\b(layer_norm\d\.)beta$", r"\1bias"),
  # NVIDIA's programs compute a dense layer and its activation in one module.
  (r"\bdense_act\.", "dense."),
  # The layer before the output in ELECTRA's class for multiple choice.
  (r"^sequence_summary\.summary\.", "classifier.dense."),
)


def _architectures(variant: str) -> dict[str, tuple[str, ...]]:
  """Returns {transformers class: prefixes of its TF1 names}."""
  title = flag_values.HUGGINGFACE_TITLES[variant]
  starts_of = {title + head: starts for head, starts in _HEADS.items()}
  # In these variants, a token classifier lacks the pooler's dense layer.
  if family_of(variant) in _ONLY_FOR_SEQUENCES:
    for head in ("ForSequenceClassification", "ForMultipleChoice"):
      starts_of[title + head] += ("bert/pooler/",)
  if variant == "electra":
    starts_of["ElectraForPreTraining"] = ("cls/replaced_tokens/",)
  known = flag_values.HUGGINGFACE_ARCHITECTURES
  return {name: starts for name, starts in starts_of.items() if name in known}


def architecture_of(names: Iterable[str], variant: str = "bert") -> str:
  """Returns the transformers class of a model with these TF1 names."""
  return next(
    architecture
    for architecture, starts in _architectures(variant).items()
    if all(any(name.startswith(start) for name in names) for start in starts)
  )


def variant_of(names: Iterable[str]) -> str:
  """Returns the variant to which Hugging Face's names belong."""
  if any(re.match(r"(distilbert|transformer)\.", name) for name in names):
    return "distilbert"
  if any(re.match(r"electra\.|embeddings_project\.", name) for name in names):
    return "electra"
  if any("embeddings.tok_embeddings." in name for name in names):
    return "modernbert"
  if any(re.match(r"(roberta|lm_head)\.", name) for name in names):
    return "roberta"
  return "albert" if any("albert_layer" in name for name in names) else "bert"


def family_of(variant: str) -> str:
  """Returns the variant from which a variant takes its names."""
  return _FAMILIES.get(variant, variant)


def prefix_of(variant: str) -> str:
  """Returns the start of the names of an encoder that has a head."""
  family = family_of(variant)
  return f"{_PREFIXES.get(family, family)}."


def tied(variant: str) -> dict[str, str]:
  """Returns {name of a possible copy: name of the weight}."""
  return {copy: n.format(family_of(variant)) for copy, n in _TIED.items()}


def find(
  variant: str, names: Iterable[str], *, is_span: bool = False
) -> tuple[dict[str, tuple[str, str]], list[str]]:
  """Maps the names in a Hugging Face file to TF1 names.

  `is_span` says that the file is of a class for question answering, where its
  names do not show this.

  Returns:
    {TF1 name: (name in the file, key of LAYOUTS)}, and the names of tensors
    that are copies or constants. Weights without a row keep their names.
  """
  prefix, variant = prefix_of(variant), family_of(variant)
  # In ModernBERT, classifiers and layers that find answers share names.
  fitting = sorted(
    rows(variant, names),
    key=lambda row: row.tf1.startswith("cls/squad/") == is_span,
  )
  known = {row.name: row for row in fitting}
  values, derived = {}, []
  for name in sorted(names):
    # Names in an encoder without a head lack the prefix.
    full = re.sub(
      r"^(?=(embeddings|embeddings_project|encoder|transformer|pooler|layers|"
      r"final_norm)\.)",
      prefix,
      name,
    )
    for regex, new in _SPELLINGS:
      full = re.sub(regex, new, full)
    if full in _TIED or full == f"{prefix}embeddings.position_ids":
      derived.append(name)
    else:
      row = known.get(full, Row(name, name))
      # The classifier's dense layer sorts first and gets the pooler's TF1 name.
      row = Row(name, name) if row.tf1 in values else row
      values[row.tf1] = name, row.layout
  return values, derived


def to_write(
  names: Iterable[str], variant: str, architecture: str
) -> list[Row]:
  """Returns the rows of the TF1 names that a transformers class has.

  Raises InputError: the class belongs to another variant.
  """
  if architecture not in _architectures(variant):
    raise errors.InputError(
      f"--architecture={architecture} does not fit this model, which is "
      f"{variant}; choose among {', '.join(_architectures(variant))}"
    )
  # In a model without a head, names lack the encoder's prefix: BertModel has
  # "encoder.layer.0...", all other classes have "bert.encoder.layer.0...".
  family = family_of(variant)
  is_bare = architecture.endswith("Model")
  prefix = prefix_of(family) if is_bare else ""
  is_choice = architecture.endswith("ForMultipleChoice")
  excluded = _ONLY_FOR_SEQUENCES.get(family, ())
  if architecture.endswith("ForSequenceClassification"):
    excluded = ()
  elif is_choice:
    excluded = _NOT_FOR_CHOICES.get(family, ())
  elif is_bare:
    excluded += _ONLY_WITH_HEAD.get(family, ())
  # If a TF1 name has two rows, the second is for the sequence classifier.
  row_of = {
    row.tf1: row._replace(name=row.name.removeprefix(prefix))
    for row in rows(variant, names)
    if row.tf1 in names and not row.name.startswith(excluded)
  }
  if is_choice and family == "electra":
    for tf1, row in row_of.items():
      name = row.name.replace("classifier.dense.", "sequence_summary.summary.")
      row_of[tf1] = row._replace(name=name)
  return list(row_of.values())
