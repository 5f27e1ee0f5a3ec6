"""A model with two narrow layers, batches for it and a training step."""

import numpy as np
import tensorflow as tf

import heads
import modeling
from checkpoints import huggingface, model_files
from variants import registry

TINY = dict(
  vocab_size=30,
  hidden_size=16,
  num_hidden_layers=2,
  num_attention_heads=4,
  intermediate_size=24,
  max_position_embeddings=12,
  type_vocab_size=2,
  initializer_range=0.5,
)


SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [f"w{number}" for number in range(20)]


def write_vocabulary(folder, words=WORDS, name="vocab.txt"):
  """Writes the special tokens and words; returns the file's path."""
  path = folder / name
  path.write_text("\n".join([*SPECIAL, *words]) + "\n", encoding="utf-8")
  return str(path)


def write_shape(folder, words, **changes):
  """Writes a vocabulary and a configuration; returns the flags of both."""
  path = folder / "bert_config.json"
  size = len(SPECIAL) + len(words)
  path.write_text(tiny(vocab_size=size, **changes).to_json_string())
  return {
    "bert_config_file": path,
    "vocab_file": write_vocabulary(folder, words),
  }


def tiny(**changes):
  return modeling.BertConfig(**{**TINY, **changes})


def batch(rows=3, length=8, seed=0):
  """Returns ids, mask and segments [rows, length]; row n ends with n pads."""
  rng = np.random.RandomState(seed)
  ids = rng.randint(0, 30, [rows, length])
  mask = (np.arange(length) < length - np.arange(rows)[:, None]).astype(int)
  segments = rng.randint(0, 2, [rows, length])
  return tuple(tf.constant(x, tf.int32) for x in (ids, mask, segments))


# The number of tokens in each row of `unequal_batch`.
LENGTHS = np.array([8, 7, 3])


def unequal_batch(**changes):
  """Returns a batch [3, 10] by feature name; its rows have LENGTHS tokens."""
  ids, _, segments = batch(3, 10)
  mask = np.arange(10) < LENGTHS[:, None]
  return {
    "input_ids": ids,
    "input_mask": tf.constant(mask.astype(np.int32)),
    "segment_ids": segments,
    **changes,
  }


def pretraining_batch(positions, weights, rows=3, length=8):
  """Returns a pre-training batch whose masked words have random labels."""
  rng = np.random.RandomState(0)
  ids, mask, segments = batch(rows, length)
  weights = np.array(weights, np.float32)
  labels = rng.randint(0, 30, weights.shape) * (weights > 0)
  return {
    "input_ids": ids,
    "input_mask": mask,
    "segment_ids": segments,
    "masked_lm_positions": tf.constant(positions),
    "masked_lm_ids": tf.constant(labels),
    "masked_lm_weights": tf.constant(weights),
    "next_sentence_labels": tf.constant([[i % 2] for i in range(rows)]),
  }


def assert_close(value, expected, tolerance=1e-5):
  np.testing.assert_allclose(value, expected, rtol=0, atol=tolerance)


def classifier_step(model, head, *data):
  """Returns the loss and all gradients of a training step, dropout on."""
  with tf.GradientTape() as tape:
    output = model(*data, training=True, dropout_seed=[1, 2])
    logits = head(output.pooled_output, True, dropout_seed=[1, 2])
    loss = -tf.reduce_mean(tf.nn.log_softmax(logits)[:, 0])
  variables = model.trainable_variables + head.trainable_variables
  return loss, tape.gradient(loss, variables)


def classifier(config=None, **options):
  config = config or tiny()
  model = modeling.BertModel(config, **options)
  return model, heads.ClassificationHead(config, 3)


def write_masked_lm(folder, config, **options):
  """Writes a variant with random weights as its ...ForMaskedLM class."""
  encoder = registry.make_encoder(config)
  head = heads.MaskedLMHead(config, encoder.word_embeddings)
  huggingface.write(
    str(folder),
    {v.name.split(":")[0]: v for v in [*encoder.variables, *head.variables]},
    config.to_dict(),
    **options,
  )


class Pretraining:
  """A model with both pre-training heads."""

  def __init__(self, config, **options):
    self.bert = modeling.BertModel(config, **options)
    self.masked_lm = heads.MaskedLMHead(config, self.bert.word_embeddings)
    self.next_sentence = heads.NextSentenceHead(config)
    modules = self.bert, self.masked_lm, self.next_sentence
    self.variables = [v for module in modules for v in module.variables]

  def losses(self, output, data):
    """Returns log probabilities and losses, named as in tests/golden/models."""
    logits = self.masked_lm(output.sequence_output, data["masked_lm_positions"])
    word_log_probs = tf.nn.log_softmax(
      tf.reshape(logits, [-1, logits.shape[-1]])
    )
    ids, weights, labels = (
      tf.reshape(data[name], [-1])
      for name in ("masked_lm_ids", "masked_lm_weights", "next_sentence_labels")
    )
    word_loss = -tf.gather(word_log_probs, ids, batch_dims=1)
    masked_lm_loss = tf.reduce_sum(weights * word_loss)
    masked_lm_loss /= tf.reduce_sum(weights) + 1e-5
    pair_log_probs = tf.nn.log_softmax(self.next_sentence(output.pooled_output))
    pair_loss = -tf.gather(pair_log_probs, labels, batch_dims=1)
    next_sentence_loss = tf.reduce_mean(pair_loss)
    return {
      "masked_lm_log_probs": word_log_probs,
      "masked_lm_per_example_loss": word_loss,
      "masked_lm_loss": masked_lm_loss,
      "next_sentence_log_probs": pair_log_probs,
      "next_sentence_per_example_loss": pair_loss,
      "next_sentence_loss": next_sentence_loss,
      "total_loss": masked_lm_loss + next_sentence_loss,
    }


def completed(settings, stored=(), **options):
  """Returns settings with what the files of their model say."""
  files = model_files.ModelFiles.of(settings)
  return files.complete(settings, stored, **options)
