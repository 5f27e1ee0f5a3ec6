"""Tiny networks of every variant and head, their outputs and ONNX inputs."""

import numpy as np
import tensorflow as tf

import heads
import modeling
import named_weights
from checkpoints import sentence_pooling
from common import flag_values
from tiny_model import TINY, batch
from variants import registry

VARIANTS = {
  "bert": {},
  "albert": {"embedding_size": 6, "num_hidden_groups": 2},
  "distilbert": {},
  "electra": {"embedding_size": 6},
  "roberta": {"pad_token_id": 1, "layer_norm_eps": 1e-2},
  "modernbert": {"local_attention": 4, "classifier_pooling": "mean"},
}
# "sparse" uses the network of "masked_lm".
HEADS = [head for head in flag_values.SERVING_HEADS if head != "sparse"]
LABELS = 3
POOLING = sentence_pooling.Pooling("mean")


def config_of(variant="bert", **changes):
  values = {**TINY, "num_hidden_layers": 5, **VARIANTS[variant], **changes}
  if variant != "bert":
    values["variant"] = variant
  return modeling.BertConfig.from_dict(values)


def network(config, head_name, labels=LABELS):
  """Returns (encoder, head or None, weights by name), all weights random."""
  encoder = registry.make_encoder(config)
  head = {
    "classification": lambda: heads.ClassificationHead(config, labels),
    "embedding": lambda: None,
    "masked_lm": lambda: heads.MaskedLMHead(config, encoder.word_embeddings),
    "next_sentence": lambda: heads.NextSentenceHead(config),
    "span": lambda: heads.SpanHead(config),
    "tagging": lambda: heads.TokenClassificationHead(config, labels),
  }[head_name]()
  variables = [*encoder.variables, *(head.variables if head else ())]
  make_random(variables)
  return (
    encoder,
    head,
    {named_weights.variable_name(v): v.numpy() for v in variables},
  )


def make_random(variables):
  """Adds noise to all variables: biases of 0 would hide mistakes."""
  for variable in variables:
    seed = [3, named_weights.name_number(variable.name)]
    noise = tf.random.stateless_normal(variable.shape, seed, stddev=0.1)
    variable.assign_add(noise)


def outputs(encoder, head, head_name, inputs, *, pooling=POOLING):
  """Returns {name: array}, the outputs of this project's network."""
  output = encoder(*inputs)
  if head_name == "embedding":
    # Engines compute no layer above the highest that is pooled.
    highest = max(
      number % len(output.all_encoder_layers)
      for summed in pooling.layers
      for number in summed
    )
    values = {
      "last_hidden_state": output.all_encoder_layers[highest],
      "sentence_embedding": heads.pool(output, inputs[1], pooling),
    }
  elif head_name == "span":
    start, end = head(encoder.head_states(output.sequence_output))
    values = {"start_logits": start, "end_logits": end}
  else:
    is_pooled = head_name in ("classification", "next_sentence")
    states = encoder.head_states(output.sequence_output)
    if is_pooled:
      states = output.pooled_output
    values = {"logits": head(states)}
  return {name: value.numpy() for name, value in values.items()}


def assert_close(value, expected, tolerance=1e-5):
  """Compares relative to the largest output: engines differ in rounding."""
  largest = max(1.0, np.abs(expected).max(initial=0.0))
  np.testing.assert_allclose(value, expected, rtol=0, atol=tolerance * largest)


def feed(config, inputs):
  """Returns {name: array}, the inputs of the ONNX model."""
  names = ["input_ids", "attention_mask", "token_type_ids"]
  if registry.name_of(config) in ("distilbert", "modernbert"):
    names.pop()
  arrays = [np.asarray(value, np.int64) for value in inputs]
  return dict(zip(names, arrays))


# In each batch, row n ends with n padding tokens.
BATCHES = (batch(3, 8), batch(1, 1), batch(2, 12, seed=1))
