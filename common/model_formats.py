"""The keys of transformers' config.json, for each model type.

configuration.py converts a file with these tables. No TensorFlow.
"""

from typing import Any, NamedTuple

# The keys that the formats of all model types have, under our names.
SHARED = tuple(
  (
    "vocab_size hidden_size num_hidden_layers num_attention_heads "
    "intermediate_size max_position_embeddings type_vocab_size hidden_act "
    "hidden_dropout_prob attention_probs_dropout_prob initializer_range"
  ).split()
)
EPSILON = 1e-12  # BERT's layer_norm_eps.


class ModelFormat(NamedTuple):
  """Describes transformers' configuration format of one model type.

  Attributes:
    defaults: {our name of a key: its default}, where BertConfig's does not fit.
    names: {our name: transformers' name, or None}, where the names differ.
    others: further keys of this model type, not in `SHARED`.
    activations: the keys among `others` that name an activation.
    other_networks: {transformers' key that changes the network: the value that
      is supported}; None: OTHER_NETWORKS.
    has_transform: whether the masked-LM head has a transform of its own, or
      shares the encoder's, which all heads read.
  """

  defaults: dict[str, Any]
  names: dict[str, str | None] = {}
  others: tuple[str, ...] = ()
  activations: tuple[str, ...] = ()
  other_networks: dict[str, Any] | None = None
  has_transform: bool = True


_BERT = {"vocab_size": 30522, "type_vocab_size": 2, "hidden_act": "gelu"}
_ROBERTA = ModelFormat(
  defaults={
    **_BERT,
    "vocab_size": 50265,
    # Includes the table's rows before position 0, which BertConfig excludes.
    "max_position_embeddings": 512,
    "pad_token_id": 1,
    "layer_norm_eps": EPSILON,
  },
  others=("pad_token_id", "layer_norm_eps"),
)
_XLM_ROBERTA = _ROBERTA._replace(
  defaults={**_ROBERTA.defaults, "vocab_size": 30522}
)
# {key of either format that changes the network: BERT's value}
OTHER_NETWORKS = {
  "ln_type": "postln",
  "use_bottleneck": False,
  "trigram_input": False,
  "intra_bottleneck_size": None,
  "normalization_type": "layer_norm",
  "inner_group_num": 1,
  "net_structure_type": 0,
  "position_embedding_type": "absolute",
  "is_decoder": False,
  "add_cross_attention": False,
}
ROBERTA_TYPES = ("camembert", "roberta", "xlm-roberta")
# {model_type: ModelFormat}; a model_type is also the name of a variant.
FORMATS = {
  "bert": ModelFormat(defaults=_BERT, others=("layer_norm_eps",)),
  "distilbert": ModelFormat(
    defaults={**_BERT, "num_hidden_layers": 6},
    names={
      "hidden_size": "dim",
      "num_hidden_layers": "n_layers",
      "num_attention_heads": "n_heads",
      "intermediate_size": "hidden_dim",
      "hidden_act": "activation",
      "hidden_dropout_prob": "dropout",
      "attention_probs_dropout_prob": "attention_dropout",
      "type_vocab_size": None,
    },
  ),
  "albert": ModelFormat(
    defaults={
      **_BERT,
      "vocab_size": 30000,
      "embedding_size": 128,
      "hidden_size": 4096,
      "num_hidden_groups": 1,
      "num_attention_heads": 64,
      "intermediate_size": 16384,
      "hidden_act": "gelu_new",
      "hidden_dropout_prob": 0,
      "attention_probs_dropout_prob": 0,
    },
    others=("embedding_size", "num_hidden_groups", "layer_norm_eps"),
  ),
  "electra": ModelFormat(
    defaults={
      **_BERT,
      "embedding_size": 128,
      "hidden_size": 256,
      "num_attention_heads": 4,
      "intermediate_size": 1024,
    },
    others=("embedding_size", "layer_norm_eps"),
  ),
  "camembert": _XLM_ROBERTA,
  "roberta": _ROBERTA,
  "xlm-roberta": _XLM_ROBERTA,
  # variants/modernbert.py has the meaning of the keys, and most defaults.
  "modernbert": ModelFormat(
    defaults={
      **_BERT,
      "vocab_size": 50368,
      "intermediate_size": 1152,
      "num_hidden_layers": 22,
      "max_position_embeddings": 8192,
      "hidden_dropout_prob": 0.0,
      "attention_probs_dropout_prob": 0.0,
      "head_dropout": 0.0,
      "layer_norm_eps": 1e-5,
      "pad_token_id": 50283,
    },
    names={
      "hidden_act": "hidden_activation",
      "hidden_dropout_prob": "embedding_dropout",
      "attention_probs_dropout_prob": "attention_dropout",
      "layer_norm_eps": "norm_eps",
      "head_dropout": "classifier_dropout",
      "type_vocab_size": None,
    },
    others=tuple(
      (
        "layer_norm_eps norm_bias attention_bias mlp_bias classifier_bias "
        "mlp_dropout head_dropout classifier_activation "
        "classifier_pooling global_attn_every_n_layers local_attention "
        "global_rope_theta local_rope_theta layer_types rope_parameters "
        "initializer_cutoff_factor pad_token_id bos_token_id eos_token_id "
        "cls_token_id sep_token_id"
      ).split()
    ),
    activations=("classifier_activation",),
    # transformers ignores position_embedding_type, which may be "sans_pos".
    other_networks={
      "decoder_bias": True,
      "rope_scaling": None,
      "head_dim": None,
      "is_decoder": False,
      "add_cross_attention": False,
    },
    has_transform=False,
  ),
}
