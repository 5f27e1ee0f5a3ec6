"""ELECTRA's replaced-token detection (Clark et al. 2020, arXiv 2003.10555).

  masked text --> generator --> words drawn from its softmax
                                   |
                                   v
  text with these words --> discriminator --> which tokens were replaced?

  loss = cross-entropy of the masked words, a mean over them
       + 50 (binary cross-entropy of all tokens, a mean over them)

The generator is a smaller encoder with the discriminator's embeddings (tables
of words, positions and segments, and their layer norm), which learn from both
losses. The second loss does not train the rest of the generator: a drawn word
has no gradient. A drawn word that is right counts as original.

Letters: B sequences, T tokens, P masked tokens of each, V words, H width.
"""

import copy
from typing import NamedTuple

import tensorflow as tf

import configuration
import heads
import layers
from checkpoints import weight_files
from common import errors
from pretraining import model as pretraining_model
from records import pipeline
from training import loop
from variants import electra, registry

# How much the discriminator's loss counts (section 3.1).
_WEIGHT = 50.0
# The generator and the discriminator share these sizes.
_SHARED_SIZES = (
  "vocab_size", "embedding_size", "max_position_embeddings", "type_vocab_size"
)


def generator_config(
  config: configuration.BertConfig, path: str | None = None
) -> configuration.BertConfig:
  """Returns the generator's configuration for a discriminator's.

  The default has a quarter of the heads, each as wide as the discriminator's,
  so a quarter of the widths, and as many layers. As in the original: its
  default, for heads that are 64 wide. Raises InputError: the embeddings in
  `path` have another shape, or `config` is not a discriminator's.
  """
  if not issubclass(registry.encoder_class(config), electra.ElectraModel):
    raise errors.InputError(
      "--replaced_token_detection trains ELECTRA, and --bert_config_file is of "
      f'{registry.name_of(config)}: add "variant": "electra" and '
      '"embedding_size" to it'
    )
  config.check()
  if not path:
    generator_config, heads = copy.copy(config), config.num_attention_heads
    generator_config.num_attention_heads = max(1, heads // 4)
    for name in ("hidden_size", "intermediate_size"):
      width = getattr(config, name) * max(1, heads // 4) // heads
      setattr(generator_config, name, width)
    return generator_config
  generator_config = configuration.BertConfig.from_json_file(path)
  differences = [
    f"{name} {size} (and not {getattr(config, name)})"
    for name in _SHARED_SIZES
    if (size := getattr(generator_config, name, None)) != getattr(config, name)
  ]
  variant = registry.name_of(generator_config)
  if differences or variant != registry.name_of(config):
    what = ", ".join(differences) or f"variant {variant}"
    raise errors.InputError(
      f"--generator_config_file={path} has {what}: a generator shares the "
      "embeddings of --bert_config_file, and is of its variant"
    )
  return generator_config


class Generator(electra.ElectraModel):
  """A generator that shares the embeddings and has no pooler."""

  def __init__(self, config, discriminator, **options):
    super().__init__(config, scope=electra.GENERATOR, **options)
    # The lambda keeps the embeddings out of this model's variables.
    self._shared = lambda: discriminator.embeddings

  @classmethod
  def shapes(cls, config, scope=electra.GENERATOR):
    """Returns {name: shape} of the variables that are not shared."""
    generator_prefixes = (f"{scope}/{cls.mapping}/", f"{scope}/encoder/")
    return {
      name: shape for name, shape in super().shapes(config, scope).items()
      if name.startswith(generator_prefixes)
    }

  @property
  def embeddings(self):
    """{name below "embeddings/": variable} of the discriminator."""
    return self._shared()

  @property
  def word_embeddings(self):
    """The discriminator's variable [V, E]."""
    return self.embeddings["word_embeddings"]

  def pool(self, states, *, fused=False):
    """Returns the states unchanged: nothing reads the pooled output."""
    del fused
    return states


class Outputs(NamedTuple):
  """What `ReplacedTokensModel.run` computes.

  Attributes:
    masked_lm: logits of the generator, float32 [B, P, V].
    drawn: the words that the generator drew, int32 [B, P].
    is_replaced: float32 [B, T], 1 where a token differs from the text.
    logits: of the discriminator, float32 [B, T]; above 0: replaced.
  """

  masked_lm: tf.Tensor
  drawn: tf.Tensor
  is_replaced: tf.Tensor
  logits: tf.Tensor


class ReplacedTokensModel(tf.Module):
  """The discriminator, its generator, and a head for each."""

  # The records hold labels for this head only.
  head_names = ("masked_lm",)

  def __init__(self, config, generator, **model_options):
    """Makes the variables; `generator` comes from `generator_config`."""
    super().__init__()
    self.config, self._generator_config = config, generator
    seed = model_options["seed"]
    self.bert = registry.make_encoder(config, **model_options)
    self.head = heads.ReplacedTokenHead(config, seed=seed)
    self.generator = Generator(generator, self.bert, **model_options)
    self.masked_lm = heads.MaskedLMHead(
      generator, self.generator.word_embeddings, seed=seed,
      scope=f"{electra.GENERATOR}/",
    )

  def run(self, batch, dropout_seed=None) -> Outputs:
    """Computes both models.

    Args:
      batch: features of records with masks.
      dropout_seed: int32 [2] in training, which also seeds the drawn words.
      If None, the words are a function of the batch.
    """
    seeds = [None] * 2
    draws = tf.stack([
      layers.name_number("drawn"), tf.reduce_sum(batch["input_ids"])
    ])
    if dropout_seed is not None:
      # The two encoders have different dropout masks.
      *seeds, draws = [
        tf.random.experimental.stateless_fold_in(dropout_seed, number)
        for number in range(3)
      ]
    places = batch["masked_lm_positions"]
    states = self.generator.encode(batch, seeds[0], positions=places)
    masked_lm = self.masked_lm(states.sequence_output)  # [B, P, V]
    drawn = draw(masked_lm, draws)
    original, ids = (
      pretraining_model.with_words(batch, words)
      for words in (batch["masked_lm_ids"], drawn)
    )
    states = self.bert.encode({**batch, "input_ids": ids}, seeds[1])
    return Outputs(
      masked_lm, drawn, tf.cast(tf.not_equal(ids, original), tf.float32),
      self.head(states.sequence_output),
    )

  def labels(self, name: str, batch: dict) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the masked words, and their weights, float32."""
    del name
    return batch["masked_lm_ids"], batch["masked_lm_weights"]

  def trained_variables(self):
    """Returns all variables but the pooler's."""
    return [v for v in self.variables if "/pooler/" not in v.name]

  def unused_variables(self):
    """Returns regular expressions for the variables that the loss ignores."""
    return heads.POOLER

  def objective(self) -> loop.Objective:
    """Returns the sum of both losses."""
    return objective(self)

  def result_names(self) -> list[str]:
    """Returns the names of the evaluation metrics."""
    return [
      "loss", "masked_lm_loss", "masked_lm_accuracy",
      "sampled_masked_lm_accuracy", "disc_loss", "disc_accuracy",
      "disc_precision", "disc_recall",
    ]

  def parts(self):
    """Yields (folder, {name: variable}, configuration) of each model."""
    by_name = weight_files.by_name(self.variables)
    start = f"{electra.GENERATOR}/"
    yield "", {
      name: variable for name, variable in by_name.items()
      if not name.startswith(start)
    }, self.config
    names = electra.generator_names(by_name)
    yield electra.GENERATOR, {
      name: by_name[there] for name, there in names.items()
    }, self._generator_config


def draw(logits: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
  """Draws a word from each softmax: int32 [...] of logits [..., V].

  It adds Gumbel noise and takes the largest of logits - log(-log(u)), where u
  is uniform in [0, 1), a function of the seed, integers [2].
  """
  uniform = tf.random.stateless_uniform(tf.shape(logits), seed, alg="philox")
  noisy = logits - tf.math.log(-tf.math.log(uniform))
  return tf.argmax(noisy, axis=-1, output_type=tf.int32)


def objective(model: ReplacedTokensModel) -> loop.Objective:
  """Returns the sum of both losses."""

  def weights(batch):
    tokens = tf.reduce_sum(tf.cast(batch["input_mask"], tf.float32))
    words = tf.reduce_sum(batch["masked_lm_weights"])
    # A batch without a masked word gives 0 / 1e-20 instead of 0 / 0.
    return {"masked_lm": tf.maximum(words, 1e-20), "replaced_tokens": tokens}

  def sums(batch, dropout_seed):
    outputs = model.run(batch, dropout_seed)
    labels, counts = model.labels("masked_lm", batch)
    loss, correct, words = pretraining_model.loss_and_accuracy(
      outputs.masked_lm, labels, counts
    )
    drawn = tf.cast(outputs.drawn, labels.dtype)
    is_right = tf.cast(tf.equal(drawn, labels), tf.float32)
    metrics = {
      "masked_lm_loss": (loss, words), "masked_lm_accuracy": (correct, words),
      "sampled_masked_lm_accuracy": (tf.reduce_sum(is_right * counts), words),
      **discriminator_metrics(outputs, batch["input_mask"]),
    }
    losses = {
      "masked_lm": loss, "replaced_tokens": _WEIGHT * metrics["disc_loss"][0]
    }
    if dropout_seed is not None:
      metrics.update(pipeline.token_metrics(batch))
    return losses, metrics

  return loop.Objective(weights=weights, sums=sums)


def discriminator_metrics(outputs: Outputs, input_mask: tf.Tensor) -> dict:
  """Returns {name: (sum, weight)}, over the tokens of a mask [B, T].

  As in the original: the names are the same. Precision is the share of replaced
  tokens among the tokens predicted as replaced, recall the share of replaced
  tokens that are predicted as replaced.
  """
  is_token = tf.cast(input_mask, tf.float32)
  labels = outputs.is_replaced
  losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, outputs.logits)
  predicted = tf.cast(outputs.logits > 0, tf.float32)
  is_right = tf.cast(tf.equal(predicted, labels), tf.float32)
  return {
    f"disc_{name}": (tf.reduce_sum(values * counts), tf.reduce_sum(counts))
    for name, values, counts in (
      ("loss", losses, is_token), ("accuracy", is_right, is_token),
      ("precision", labels, predicted * is_token),
      ("recall", predicted, labels * is_token),
    )
  }
