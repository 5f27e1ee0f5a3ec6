"""Creates the encoder for a configuration.

The key `variant` of a configuration names a model related to BERT; without this
key, the model is BERT. Modules that support all variants create encoders, and
get the shapes of their variables, through this module.
"""

from typing import Any

import configuration
import heads
import modeling
from common import errors
from variants import (
  albert,
  distilbert,
  electra,
  left_to_right,
  modernbert,
  points,
  roberta,
)

_CLASSES = {
  "albert": albert.AlbertModel,
  "bert": modeling.BertModel,
  "camembert": roberta.RobertaModel,
  "distilbert": distilbert.DistilBertModel,
  "electra": electra.ElectraModel,
  "left_to_right": left_to_right.LeftToRightModel,
  "modernbert": modernbert.ModernBertModel,
  "roberta": roberta.RobertaModel,
  "xlm-roberta": roberta.RobertaModel,
}


# Parts of an encoder that a checkpoint without a head may lack.
OPTIONAL = (*heads.POOLER, "^bert/head/")


def name_of(config: configuration.BertConfig) -> str:
  """Returns the name of a configuration's variant, such as "bert"."""
  # BertConfig.from_dict stores unknown keys, such as `variant`, as attributes.
  return getattr(config, "variant", "bert")


def encoder_class(config: configuration.BertConfig) -> type[modeling.BertModel]:
  """Returns modeling.BertModel or its subclass for a configuration.

  Raises InputError: the variant, or what is on top of it, is unknown.
  """
  name = name_of(config)
  if name not in _CLASSES:
    raise errors.InputError(
      f"the model configuration has variant {name!r}; expected one of "
      + ", ".join(sorted(_CLASSES))
    )
  encoder = _CLASSES[name]
  for top in configuration.tops(config):
    encoder = points.TOPS.load(top).on(encoder)
  return encoder


def new_variables(config: configuration.BertConfig) -> list[str]:
  """Returns patterns of the variables on top, which old weights may lack."""
  files = [points.TOPS.load(top) for top in configuration.tops(config)]
  return [f"^{file.NAME}/" for file in files]


def make_encoder(
  config: configuration.BertConfig, **options: Any
) -> modeling.BertModel:
  """Returns a configuration's encoder; for options see modeling.BertModel."""
  return encoder_class(config)(config, **options)


def predicts_next_word(config: configuration.BertConfig) -> bool:
  """Returns whether a model is pre-trained on next words, not masked words."""
  return getattr(encoder_class(config), "predicts_next_word", False)


def pretraining_network(config: configuration.BertConfig) -> str:
  """Returns the name in pretraining/networks of a model's default network."""
  return getattr(encoder_class(config), "pretraining_network", "encoder")


def check_masked_words(config: configuration.BertConfig) -> None:
  """Raises InputError if a model is pre-trained on next words."""
  if predicts_next_word(config):
    raise errors.InputError(
      f"{name_of(config)} is trained to predict the next word and cannot fill "
      "[MASK]; pass a masked language model"
    )


def layers_differ(config: configuration.BertConfig) -> bool:
  """Returns whether a layer's computation depends on its number."""
  return getattr(encoder_class(config), "layers_differ", False)


def check_next_sentence(
  config: configuration.BertConfig, is_used: bool
) -> None:
  """Raises InputError if the next-sentence head `is_used` but missing."""
  if is_used and not getattr(
    encoder_class(config), "predicts_next_sentence", True
  ):
    raise errors.InputError(
      f"{name_of(config)} has no next-sentence head; pass "
      "--use_next_sentence_loss=false"
    )


def check_layer_rates(
  config: configuration.BertConfig,
  freeze_layers: int,
  layerwise_lr_decay: float,
) -> None:
  """Raises InputError if layers that share weights would have unequal rates."""
  # Shared weights would get the last layer's rate, see training/layer_rates.py.
  shares = getattr(encoder_class(config), "shares_layers", False)
  if shares and (freeze_layers or layerwise_lr_decay != 1):
    flag = "layerwise_lr_decay" if layerwise_lr_decay != 1 else "freeze_layers"
    raise errors.InputError(
      f"--{flag} does not fit {name_of(config)}, whose layers share their "
      "weights; leave the flag out (--freeze_encoder freezes all layers)"
    )


def shapes(
  config: configuration.BertConfig, scope: str = "bert"
) -> dict[str, tuple[int, ...]]:
  """Returns {name: shape} for the encoder's variables, in their order."""
  return encoder_class(config).shapes(config, scope)
