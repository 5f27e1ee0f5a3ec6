"""SpanBERT (arXiv 1907.10529): BERT with a head for the boundaries of spans."""

import itertools

import configuration


def pair_target_shapes(
  config: configuration.BertConfig, width: int | None = None
) -> dict[str, tuple]:
  """Returns {name: shape} of the span boundary head of SpanBERT's authors.

  The names are the authors'. `width` is the width of the word embeddings.
  """
  prefix, hidden = "cls/pair_target_predictions/", config.hidden_size
  # As in the authors' program: 20 places, whose embeddings are 200 wide.
  shapes: dict[str, tuple] = {f"{prefix}position_embeddings": (20, 200)}
  sizes = (2 * hidden + 200, hidden, width or hidden)
  for number, (inputs, outputs) in enumerate(itertools.pairwise(sizes), 1):
    name = f"{prefix}mlp_layer_norm/"
    shapes |= configuration.dense_shapes(
      f"{name}linear{number}", inputs, outputs
    )
    shapes |= configuration.norm_shapes(f"{name}layer_norm{number}", outputs)
  shapes[f"{prefix}output_bias"] = (config.vocab_size,)
  return shapes
