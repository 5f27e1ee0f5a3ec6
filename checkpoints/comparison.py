"""Compares the outputs of a model before and after a conversion."""

import numpy as np
import tensorflow as tf

import configuration
import heads
from checkpoints import converter, weight_files
from variants import electra, registry


def random_batch(config: configuration.BertConfig) -> list[np.ndarray]:
  """Returns random input_ids, input_mask, segment_ids: int32 arrays [3, T]."""
  rng = np.random.RandomState(0)
  length = min(config.max_position_embeddings, 32)
  # Pad two of the examples, so that the comparison covers masked positions.
  lengths = np.array([length, (length + 1) // 2, 1])
  mask = np.arange(length) < lengths[:, None]
  # Padding has the id 0, like [PAD] in the released vocabularies.
  ids = rng.randint(0, config.vocab_size, mask.shape) * mask
  types = rng.randint(0, config.type_vocab_size, mask.shape) * mask
  return [array.astype(np.int32) for array in (ids, mask, types)]


def outputs(source: converter.Source) -> dict[str, np.ndarray]:
  """Returns the outputs of the encoder and the heads for `random_batch`."""
  config, reader = source.config, source.reader
  encoder = registry.make_encoder(config)
  weight_files.load(
    encoder.variables, reader, allowed_missing=registry.OPTIONAL
  )
  output = encoder(*map(tf.constant, random_batch(config)))
  sequence, pooled = output.sequence_output, output.pooled_output
  computed = {"sequence_output": sequence}
  sequence = encoder.head_states(sequence)
  if {"bert/pooler/dense/kernel", "bert/head/dense/kernel"} & {*reader.shapes}:
    computed["pooled_output"] = pooled
  num_labels = reader.shapes.get("output_bias", [1])[0]
  known_heads = {
    "cls/predictions/": (
      "masked_lm",
      heads.MaskedLMHead(config, encoder.word_embeddings),
      sequence,
    ),
    "cls/seq_relationship/": (
      "next_sentence",
      heads.NextSentenceHead(config),
      pooled,
    ),
    "cls/replaced_tokens/": (
      "replaced_tokens",
      electra.ReplacedTokenHead(config),
      sequence,
    ),
    "cls/squad/": ("span", heads.SpanHead(config), sequence),
    # Apply every classifier per token, because the comparison needs no pooling.
    "": ("labels", heads.TokenClassificationHead(config, num_labels), sequence),
  }
  for prefix, (name, head, states) in known_heads.items():
    if f"{prefix}output_bias" in reader.shapes:
      weight_files.load(head.variables, reader)
      computed[name] = head(states)
  return {name: np.asarray(value) for name, value in computed.items()}


def compare(source: converter.Source, output: str) -> dict[str, float]:
  """Returns {name of an output: largest absolute difference}.

  `output` is a folder that `converter.convert` wrote from the source.
  """
  # Load the converted model from its files, as a user would.
  expected, converted = map(outputs, (source, converter.open_source(output)))
  return {
    name: float(np.max(np.abs(expected[name] - converted[name])))
    for name in sorted(expected.keys() & converted.keys())
  }
