"""An encoder whose middle layers skip unimportant tokens in training.

As in arXiv 2203.13240 (token dropping): of L layers, the first L / 2 - 1 and
the last compute all tokens; those between compute only the more important ones.
The last layer reads the dropped tokens' states from before they were dropped.
With half of the tokens, a step of BERT base computes a quarter less. The
variables equal the plain encoder's. Evaluation drops nothing.

In the paper, the importance of a token is a running mean of its masked-LM loss.
Here it is the loss of a model that knows only frequencies, -log softmax(the
masked-LM head's bias). This needs no further state, so runs resume and
replicas agree bit for bit. The first token and masked tokens are always
computed.

Letters: B sequences, T tokens, K tokens that the middle layers compute.
"""

import math
from typing import Any

import tensorflow as tf

import configuration
import layers
import modeling
import unpadding
from common import errors
from pretraining.networks import encoder
from variants import registry

IGNORED = encoder.IGNORED
MASKS = encoder.MASKS
labels = encoder.labels
OPTIONS = {
  "kept_tokens": (
    0.5,
    "Fraction of a sequence's positions that the middle layers compute.",
  )
}
_ALWAYS = 1e9  # Importance of tokens that are never dropped.
_TIE_BREAK = 1e-3  # Random numbers below it order equally important tokens.


def check(config: configuration.BertConfig, settings: Any) -> None:
  """Raises InputError: the options are wrong, or there is no middle layer."""
  encoder.check(config, settings)
  if not 0 < settings.kept_tokens <= 1:
    raise errors.InputError(
      f"--kept_tokens={settings.kept_tokens}: expected a number above 0 and at "
      "most 1, such as 0.5"
    )
  if config.num_hidden_layers < 3:
    raise errors.InputError(
      f"--network={settings.network} drops tokens between the first and the "
      f"last layer, and --bert_config_file has {config.num_hidden_layers} "
      "layers; it needs 3 or more"
    )
  if registry.layers_differ(config):
    raise errors.InputError(
      f"--network={settings.network} does not fit {registry.name_of(config)}, "
      "some of whose layers attend only to near tokens; leave the flag out"
    )
  if "masked_lm" not in encoder.names(settings):
    raise errors.InputError(
      f"--network={settings.network} needs masked_lm among --objectives, whose "
      "head tells how important tokens are"
    )


def fixed(settings: Any) -> dict[str, Any]:
  """Returns the settings that must not change in a run.

  The network may change: a run may end without dropping.
  """
  return encoder.fixed(settings)


def kept_positions(
  importance: tf.Tensor, input_mask: tf.Tensor, share: float
) -> tf.Tensor:
  """Returns int32 [B, K], the most important positions, ascending.

  Args:
    importance: float32 [B, T].
    input_mask: integers [B, T]; padding is dropped first.
    share: K as a fraction of T, rounded up.
  """
  length = layers.sizes(input_mask)[1]
  if isinstance(length, int):
    count = math.ceil(share * length)
  else:
    count = tf.cast(tf.math.ceil(share * tf.cast(length, tf.float32)), tf.int32)
  importance = tf.where(input_mask > 0, importance, -_ALWAYS)
  _, positions = tf.math.top_k(importance, count, sorted=False)
  return tf.sort(positions, axis=1)


class _Dropping:
  """Makes a subclass of modeling.BertModel drop tokens."""

  def encode(
    self: Any, batch: dict, dropout_seed: Any = None, *, positions: Any = None
  ) -> modeling.BertOutput:
    """Encodes a batch; the middle layers compute its kept_positions [B, K].

    Without kept_positions, it is modeling.BertModel.encode. With them,
    all_encoder_layers has only the last layer's states.
    """
    if "kept_positions" not in batch:
      return super().encode(  # type: ignore[misc]
        batch, dropout_seed, positions=positions
      )
    ids, mask = batch["input_ids"], batch["input_mask"]
    dropout = layers.Dropout.of_call(
      True, dropout_seed, is_for_tpu=self._is_for_tpu
    )
    rows = whole_rows = self._rows(ids, mask)
    x = self._embed(rows, ids, batch["segment_ids"], dropout)
    bias = whole_bias = self._attention_bias(ids, mask)
    kept, depth = batch["kept_positions"], self.config.num_hidden_layers
    embedded = states = rows.pad(x)  # [B, T, H]
    for number in range(depth):
      is_last = number == depth - 1
      if number == _first_dropping(depth):
        states = rows.pad(x)
        rows = unpadding.PaddedRows(*layers.sizes(kept))
        x = rows.unpad(tf.gather(states, kept, batch_dims=1))  # [B K, H]
        bias = self._attention_bias(
          *(tf.gather(values, kept, batch_dims=1) for values in (ids, mask))
        )
      if is_last:
        states = _replaced(states, kept, rows.pad(x))
        rows, bias = whole_rows, whole_bias
        x = rows.unpad(states)  # [S, H]
      (x,) = self._run_layer(
        x,
        self._layer_weights(number),
        rows=rows,
        bias=bias,
        positions=positions if is_last else None,
        dropout={
          site: dropout.at(f"layer_{number}/{site}")
          for site in modeling.LAYER_SITES
        },
        return_attention=False,
      )
    rows = unpadding.PaddedRows(*layers.sizes(positions))
    states = rows.pad(x)  # [B, P, H]
    pooled = self.pool(states[:, 0])
    return modeling.BertOutput(embedded, (states,), states, pooled, None)


def _first_dropping(depth: int) -> int:
  """Returns the number of the first layer that drops tokens."""
  return max(1, depth // 2 - 1)


def _replaced(
  states: tf.Tensor, positions: tf.Tensor, values: tf.Tensor
) -> tf.Tensor:
  """Returns states [B, T, H] with values [B, K, H] at positions [B, K]."""
  rows = tf.zeros_like(positions) + tf.range(tf.shape(positions)[0])[:, None]
  indices = tf.stack([rows, positions], axis=2)  # [B, K, 2]
  return tf.tensor_scatter_nd_update(states, indices, values)


class TokenDroppingModel(encoder.PretrainingModel):
  """The encoder with the heads of its objectives; see networks.Network."""

  kept_tokens = 0.5

  def _make_encoder(self, **model_options: Any) -> modeling.BertModel:
    base = registry.encoder_class(self.config)
    made: Any = type("DroppingModel", (_Dropping, base), {})
    return made(self.config, **model_options)

  def __call__(
    self, batch: dict, dropout_seed: tf.Tensor | None = None
  ) -> dict[str, tf.Tensor]:
    """Returns {name of an objective: logits}; drops tokens in training."""
    if dropout_seed is not None:
      importance = self._importance(batch, dropout_seed)
      kept = kept_positions(importance, batch["input_mask"], self.kept_tokens)
      batch = {**batch, "kept_positions": kept}
    return super().__call__(batch, dropout_seed)

  def _importance(self, batch: dict, seed: tf.Tensor) -> tf.Tensor:
    """Returns float32 [B, T]: how important each token is."""
    head: Any = next(e for e in self.objectives if e.name == "masked_lm")
    (bias,) = head.weights_below("cls/predictions/output_bias").values()
    losses = -tf.nn.log_softmax(tf.convert_to_tensor(bias))  # [V]
    ids = batch["input_ids"]
    importance = tf.gather(tf.stop_gradient(losses), ids)  # [B, T]
    random = tf.random.stateless_uniform(tf.shape(ids), seed)
    importance += _TIE_BREAK * random
    # Unused entries are 0, the first token.
    always = tf.one_hot(batch["masked_lm_positions"], tf.shape(ids)[1])
    is_kept = tf.reduce_any(always > 0, axis=1)  # [B, T]
    is_kept |= tf.range(tf.shape(ids)[1]) == 0
    return tf.where(is_kept, _ALWAYS, importance)


def make(
  config: configuration.BertConfig, settings: Any, **model_options: Any
) -> encoder.PretrainingModel:
  """Returns the model that the flags describe."""
  model: Any = encoder.make_as(
    TokenDroppingModel, config, settings, **model_options
  )
  model.kept_tokens = settings.kept_tokens
  return model
