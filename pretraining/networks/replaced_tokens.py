"""ELECTRA: a generator fills masks, a discriminator finds the replaced tokens.

  masked text --> generator --> words drawn from its softmax
                                   |
                                   v
  text with these words --> discriminator --> which tokens were replaced?

As in arXiv 2003.10555, section 3, the loss is the mean cross-entropy of the
masked words plus 50 times the mean binary cross-entropy of all tokens. The
generator is a smaller encoder with the discriminator's embeddings (tables and
layer norm), which learn from both losses. A drawn word has no gradient, so the
second loss does not train the rest of the generator. A drawn word that is right
counts as not replaced.

Letters: B sequences, T tokens, P masked tokens of each, V words, H width.
"""

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf

import configuration
import heads
import layers
import named_weights
from checkpoints import weight_files
from common import errors
from pretraining import networks
from records import pipeline
from training import training_step
from variants import electra, registry

IGNORED = "objectives", "replaced tokens are the objective"
MASKS = True
OPTIONS = {
  "generator_config_file": (
    None,
    "Configuration of the generator; by default, the model's with a quarter of "
    "the heads and widths.",
  )
}
_WEIGHT = 50.0  # The factor of the discriminator's loss (section 3.1).
# As in the authors' checkpoints: the generator's variables and its head's.
_GENERATOR, _HEAD = "generator", "generator_predictions"
_SHARED_SIZES = (
  "vocab_size",
  "embedding_size",
  "max_position_embeddings",
  "type_vocab_size",
)


def labels(settings: Any) -> dict:
  """Returns {}: the tokens before masking are the labels."""
  del settings
  return {}


def fixed(settings: Any) -> dict[str, Any]:
  """Returns the settings that must not change in a run."""
  path = settings.generator_config_file
  values = {"network": settings.network}
  if path:
    config = configuration.BertConfig.from_json_file(path)
    values["generator_config_file"] = config.to_dict()
  return values


def check(config: configuration.BertConfig, settings: Any) -> None:
  """Raises InputError: the model is not ELECTRA's, or has no such generator."""
  if not issubclass(registry.encoder_class(config), electra.ElectraModel):
    raise errors.InputError(
      f"--network={settings.network} trains ELECTRA, but --bert_config_file is "
      f'of {registry.name_of(config)}: add "variant": "electra" and '
      '"embedding_size" to it'
    )
  if "use_next_sentence_loss" in settings.given:
    registry.check_next_sentence(config, settings.use_next_sentence_loss)
  if not settings.max_predictions_per_seq:
    raise errors.InputError(
      f"--max_predictions_per_seq=0 leaves --network={settings.network} no "
      "word to replace; pass the number of the records"
    )
  generator_config(config, settings.generator_config_file)


def generator_config(
  config: configuration.BertConfig, path: str | None = None
) -> configuration.BertConfig:
  """Returns the generator's configuration for a discriminator's.

  The default has a quarter of the heads, of the discriminator's width each, so
  a quarter of the widths, and as many layers. Raises InputError: the embeddings
  in `path` have other shapes.
  """
  config.check()
  if not path:
    smaller, count = copy.copy(config), config.num_attention_heads
    smaller.num_attention_heads = max(1, count // 4)
    for name in ("hidden_size", "intermediate_size"):
      width = getattr(config, name) * smaller.num_attention_heads // count
      setattr(smaller, name, width)
    return smaller
  generator = configuration.BertConfig.from_json_file(path)
  differences = [
    f"{name} {size} (not {getattr(config, name)})"
    for name in _SHARED_SIZES
    if (size := getattr(generator, name, None)) != getattr(config, name)
  ]
  variant = registry.name_of(generator)
  if variant != registry.name_of(config):
    differences.append(f"variant {variant} (not {registry.name_of(config)})")
  if differences:
    raise errors.InputError(
      f"--generator_config_file={path} has {', '.join(differences)}: a "
      "generator shares the embeddings of --bert_config_file"
    )
  return generator


class Generator(electra.ElectraModel):
  """An encoder with another model's embeddings and without a pooler."""

  def __init__(
    self,
    config: configuration.BertConfig,
    discriminator: electra.ElectraModel,
    **options: Any,
  ):
    """Creates the variables that are not the discriminator's."""
    super().__init__(config, scope=_GENERATOR, **options)
    # The function keeps the embeddings out of this model's variables.
    self._shared = lambda: discriminator

  @classmethod
  def shapes(
    cls, config: configuration.BertConfig, scope: str = _GENERATOR
  ) -> dict[str, tuple[int, ...]]:
    """Returns {name: shape} of the variables that are not shared."""
    starts = (f"{scope}/{cls.mapping}/", f"{scope}/encoder/")
    return {
      name: shape
      for name, shape in super().shapes(config, scope).items()
      if name.startswith(starts)
    }

  def weights_below(self, prefix: str) -> dict[str, tf.Variable]:
    """Returns {rest of the name: variable}; embeddings are shared."""
    if prefix == f"{_GENERATOR}/embeddings/":
      return self._shared().weights_below("bert/embeddings/")
    return super().weights_below(prefix)

  @property
  def word_embeddings(self) -> tf.Variable:
    """The discriminator's table of words [V, E]."""
    return self._shared().word_embeddings

  def pool(self, states: tf.Tensor, *, fused: bool = False) -> tf.Tensor:
    """Returns the states unchanged: nothing reads the pooled output."""
    del fused
    return states


class GeneratorHead(named_weights.Weights):
  """A masked-LM head with the names in the authors' checkpoints."""

  def __init__(
    self, config: configuration.BertConfig, table: tf.Variable, *, seed: int
  ):
    """Creates the variables for a table of words [V, E]."""
    width = table.shape[1]
    dense = configuration.dense_shapes(
      f"{_HEAD}/dense", config.hidden_size, width
    )
    norm = configuration.norm_shapes(f"{_HEAD}/LayerNorm", width)
    bias = {f"{_HEAD}/output_bias": (config.vocab_size,)}
    super().__init__(
      {**dense, **norm, **bias}, stddev=config.initializer_range, seed=seed
    )
    act = configuration.masked_lm_act(config)
    self._activation = layers.get_activation(act)
    self._epsilon = config.layer_norm_eps
    self._table = lambda: table

  def __call__(self, states: tf.Tensor) -> tf.Tensor:
    """Returns logits [B, P, V] from states [B, P, H]."""
    weights = self.weights_below(f"{_HEAD}/")
    x = layers.dense(states, weights, "dense", self._activation)
    x = layers.layer_norm(x, weights, "LayerNorm", self._epsilon)
    return layers.output_logits(x, self._table(), weights["output_bias"])


class Outputs(NamedTuple):
  """What `ReplacedTokensModel.run` computes.

  Attributes:
    masked_lm: the generator's logits, float32 [B, P, V].
    drawn: the words that the generator drew, int32 [B, P].
    is_replaced: float32 [B, T], 1 where a token differs from the text.
    logits: the discriminator's, float32 [B, T]; above 0: replaced.
  """

  masked_lm: tf.Tensor
  drawn: tf.Tensor
  is_replaced: tf.Tensor
  logits: tf.Tensor


class ReplacedTokensModel(networks.Network):
  """The discriminator, its generator, and a head for each."""

  def __init__(
    self,
    config: configuration.BertConfig,
    generator: configuration.BertConfig,
    **model_options: Any,
  ):
    """Creates the variables; `generator` comes from `generator_config`."""
    super().__init__()
    self.config, self._generator_config = config, generator
    self.bert: Any = registry.make_encoder(config, **model_options)
    self.head = electra.ReplacedTokenHead(config, seed=model_options["seed"])
    self.generator = Generator(generator, self.bert, **model_options)
    self.masked_lm = GeneratorHead(
      generator, self.generator.word_embeddings, seed=model_options["seed"]
    )

  def run(self, batch: dict, dropout_seed: Any = None) -> Outputs:
    """Computes both models.

    Args:
      batch: features of records with masks.
      dropout_seed: int32 [2] in training, which also seeds the drawn words; if
        None, these are a function of the batch.
    """
    seeds: list[Any] = [None, None]
    numbers = (
      named_weights.name_number("drawn"),
      tf.reduce_sum(batch["input_ids"]),
    )
    draws = tf.stack(numbers)
    if dropout_seed is not None:
      # The two encoders have different dropout masks.
      *seeds, draws = [
        tf.random.experimental.stateless_fold_in(dropout_seed, number)
        for number in range(3)
      ]
    positions = batch["masked_lm_positions"]
    output = self.generator.encode(batch, seeds[0], positions=positions)
    masked_lm = self.masked_lm(output.sequence_output)  # [B, P, V]
    drawn = draw(masked_lm, draws)
    text = networks.with_words(batch, batch["masked_lm_ids"])
    ids = networks.with_words(batch, drawn)
    output = self.bert.encode({**batch, "input_ids": ids}, seeds[1])
    return Outputs(
      masked_lm,
      drawn,
      tf.cast(tf.not_equal(ids, text), tf.float32),
      self.head(output.sequence_output),
    )

  def unused_variables(self) -> tuple[str, ...]:
    """Returns patterns of the pooler, which no loss reaches."""
    return heads.POOLER

  def new_variables(self) -> list[str]:
    """Returns patterns of variables that a discriminator may lack."""
    return [*super().new_variables(), f"^{_GENERATOR}", f"^{_HEAD}/"]

  def parts(self) -> Iterator[networks.Part]:
    """Yields the discriminator, and the generator in its own folder."""
    variables = weight_files.by_name(self.variables)
    yield networks.Part(
      "",
      {n: v for n, v in variables.items() if not n.startswith(_GENERATOR)},
      self.config,
    )
    generator = {
      renamed: variable
      for name, variable in variables.items()
      if (renamed := _name_in_generator(name))
    }
    yield networks.Part(_GENERATOR, generator, self._generator_config)

  def token_labels(self) -> tuple[str, Callable[[dict], Any]]:
    """Returns the generator's loss; see networks."""
    return "masked_lm", _word_labels

  def result_names(self) -> list[str]:
    """Returns the names of the evaluation metrics of `objective`."""
    tokens = ("loss", "accuracy", "precision", "recall")
    return [
      "loss",
      "masked_lm_loss",
      "masked_lm_accuracy",
      "sampled_masked_lm_accuracy",
      *(f"disc_{name}" for name in tokens),
    ]

  def objective(self) -> training_step.Objective:
    """Returns the sum of both losses."""

    def denominators(batch: dict) -> dict[str, tf.Tensor]:
      words = tf.reduce_sum(batch["masked_lm_weights"])
      tokens = tf.reduce_sum(tf.cast(batch["input_mask"], tf.float32))
      # A batch without a masked word gives 0 / 1e-20 instead of 0 / 0.
      return {"masked_lm": tf.maximum(words, 1e-20), "replaced_tokens": tokens}

    def sums(batch: dict, dropout_seed: Any) -> tuple[dict, dict]:
      outputs = self.run(batch, dropout_seed)
      metrics = {
        **_word_metrics(outputs, batch),
        **_token_metrics(outputs, batch["input_mask"]),
      }
      losses = {
        "masked_lm": metrics["masked_lm_loss"][0],
        "replaced_tokens": _WEIGHT * metrics["disc_loss"][0],
      }
      if dropout_seed is not None:
        metrics.update(pipeline.token_metrics(batch))
      return losses, metrics

    return training_step.Objective(denominators=denominators, sums=sums)


def make(
  config: configuration.BertConfig, settings: Any, **model_options: Any
) -> ReplacedTokensModel:
  """Returns the model that the flags describe."""
  generator = generator_config(config, settings.generator_config_file)
  return ReplacedTokensModel(config, generator, **model_options)


def draw(logits: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
  """Draws a word from each softmax: int32 [...] of logits [..., V].

  The largest of logits - log(-log(u)) is such a draw (Gumbel noise), where u is
  uniform in [0, 1) and a function of the seed, integers [2].
  """
  uniform = tf.random.stateless_uniform(tf.shape(logits), seed, alg="philox")
  noisy = logits - tf.math.log(-tf.math.log(uniform))
  return tf.argmax(noisy, axis=-1, output_type=tf.int32)


def _name_in_generator(name: str) -> str | None:
  """Returns a variable's name in the generator's own folder, or None."""
  if name.startswith("bert/embeddings/"):
    return name
  renamed = re.sub(
    rf"^{_HEAD}/(dense|LayerNorm)/", r"cls/predictions/transform/\1/", name
  )
  renamed = re.sub(rf"^{_HEAD}/", "cls/predictions/", renamed)
  renamed = re.sub(f"^{_GENERATOR}/", "bert/", renamed)
  return renamed if renamed != name else None


def _word_labels(batch: dict) -> tuple[tf.Tensor, tf.Tensor]:
  return batch["masked_lm_ids"], batch["masked_lm_weights"]


def _word_metrics(outputs: Outputs, batch: dict) -> dict[str, tuple]:
  """Returns {metric: (sum, weight)} over the masked words.

  The authors' program has the same names. The sampled accuracy is the share
  of drawn words that are the text's.
  """
  words, counts = _word_labels(batch)
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
    words, outputs.masked_lm
  )
  predicted = tf.argmax(outputs.masked_lm, axis=-1, output_type=words.dtype)
  drawn = tf.cast(outputs.drawn, words.dtype)
  values = {
    "masked_lm_loss": losses,
    "masked_lm_accuracy": tf.cast(tf.equal(predicted, words), tf.float32),
    "sampled_masked_lm_accuracy": tf.cast(tf.equal(drawn, words), tf.float32),
  }
  total = tf.reduce_sum(counts)
  return {
    name: (tf.reduce_sum(each * counts), total) for name, each in values.items()
  }


def _token_metrics(outputs: Outputs, input_mask: tf.Tensor) -> dict[str, tuple]:
  """Returns {metric: (sum, weight)} over the tokens of a mask [B, T].

  Precision is the share of replaced tokens among those predicted as replaced;
  recall is the share of replaced tokens that are predicted as replaced.
  """
  is_token, labels = tf.cast(input_mask, tf.float32), outputs.is_replaced
  losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, outputs.logits)
  predicted = tf.cast(outputs.logits > 0, tf.float32)
  is_right = tf.cast(tf.equal(predicted, labels), tf.float32)
  rows = (
    ("loss", losses, is_token),
    ("accuracy", is_right, is_token),
    ("precision", labels, predicted * is_token),
    ("recall", predicted, labels * is_token),
  )
  return {
    f"disc_{name}": (tf.reduce_sum(values * counts), tf.reduce_sum(counts))
    for name, values, counts in rows
  }
