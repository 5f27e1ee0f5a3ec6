"""Which encoder a configuration is of.

A configuration of a relative of BERT names it in one more key, `variant`; BERT
has none. The rest of the project makes encoders and asks for their tables of
variables here, and reads nothing of which one it works with.
"""

import modeling
from common import errors
from variants import distilbert

_CLASSES = {
  "bert": modeling.BertModel,
  "distilbert": distilbert.DistilBertModel,
}


def name_of(config):
  """Returns the name of a modeling.BertConfig's variant, such as "bert"."""
  return getattr(config, "variant", "bert")


def encoder_class(config):
  """Returns modeling.BertModel or its subclass for a configuration.

  Raises:
    InputError: the configuration names a variant that is not known.
  """
  name = name_of(config)
  if name not in _CLASSES:
    raise errors.InputError(
      f"the model configuration has variant {name!r}; known are "
      + ", ".join(sorted(_CLASSES))
    )
  return _CLASSES[name]


def make_encoder(config, **options):
  """Makes the encoder of a configuration; options as of modeling.BertModel."""
  return encoder_class(config)(config, **options)


def shapes(config, scope="bert"):
  """Returns {name: shape} of the encoder's variables, in their order."""
  return encoder_class(config).shapes(config, scope)
