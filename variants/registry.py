"""Maps a configuration to its encoder.

The key `variant` of a configuration names a model related to BERT; BERT lacks
it. Each can have a BiLSTM on top, `bilstm_on_top`. The rest of the project uses
this module to make encoders and to get the shapes of their variables, so it
does not depend on the variant.
"""

import configuration
import modeling
from common import errors
from variants import (
  albert,
  bilstm_on_top,
  distilbert,
  electra,
  left_to_right,
  roberta,
)

_CLASSES = {
  "albert": albert.AlbertModel, "bert": modeling.BertModel,
  "camembert": roberta.RobertaModel, "distilbert": distilbert.DistilBertModel,
  "electra": electra.ElectraModel,
  "left_to_right": left_to_right.LeftToRightModel,
  "roberta": roberta.RobertaModel, "xlm-roberta": roberta.RobertaModel,
}


def name_of(config: configuration.BertConfig) -> str:
  """Returns the name of a configuration's variant, such as "bert"."""
  # BertConfig.from_dict makes an attribute of a key that it does not know.
  return getattr(config, "variant", "bert")


def encoder_class(config: configuration.BertConfig) -> type[modeling.BertModel]:
  """Returns modeling.BertModel or its subclass for a configuration.

  Raises InputError: the configuration names a variant that is not known.
  """
  name = name_of(config)
  if name not in _CLASSES:
    raise errors.InputError(
      f"the model configuration has variant {name!r}; known are "
      + ", ".join(sorted(_CLASSES))
    )
  encoder = _CLASSES[name]
  on_top = getattr(config, "bilstm_on_top", False)
  return bilstm_on_top.on(encoder) if on_top else encoder


def make_encoder(
  config: configuration.BertConfig, **options
) -> modeling.BertModel:
  """Makes a configuration's encoder; see modeling.BertModel for options."""
  return encoder_class(config)(config, **options)


def predicts_next_word(config: configuration.BertConfig) -> bool:
  """Returns whether a model is pre-trained on next, not on masked words."""
  return getattr(encoder_class(config), "predicts_next_word", False)


def check_masked_words(config: configuration.BertConfig) -> None:
  """Raises InputError if a model is pre-trained on next words."""
  if predicts_next_word(config):
    raise errors.InputError(
      f"{name_of(config)} predicts next words, and cannot fill [MASK]; pass a "
      "model of masked words"
    )


def check_next_sentence(
  config: configuration.BertConfig, is_used: bool
) -> None:
  """Raises InputError if pairs are used and the variant has no head for it."""
  if is_used and not getattr(
    encoder_class(config), "predicts_next_sentence", True
  ):
    raise errors.InputError(
      f"{name_of(config)} is trained without next sentences; pass "
      "--use_next_sentence_loss=false"
    )


def check_layer_rates(
  config: configuration.BertConfig, freeze_layers: int,
  layerwise_lr_decay: float,
) -> None:
  """Raises InputError if layers that share weights would need to differ."""
  # Shared weights would get the last layer's rate, see optimization.layer_of.
  shares = getattr(encoder_class(config), "shares_layers", False)
  if shares and (freeze_layers or layerwise_lr_decay != 1):
    flag = "layerwise_lr_decay" if layerwise_lr_decay != 1 else "freeze_layers"
    raise errors.InputError(
      f"--{flag} has no effect on single layers of {name_of(config)}, whose "
      "layers share their weights; leave it out (--freeze_encoder freezes all)"
    )


def shapes(
  config: configuration.BertConfig, scope: str = "bert"
) -> dict[str, tuple[int, ...]]:
  """Returns {name: shape} of the encoder's variables, in their order."""
  return encoder_class(config).shapes(config, scope)
