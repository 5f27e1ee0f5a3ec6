"""Reads and writes Model Garden (tf-models-official) checkpoints.

These checkpoints are object-based: a value is identified by a path of
attributes, such as
encoder/_transformer_layers/0/_attention_layer/_query_dense/kernel, and the
checkpoint stores the graph of objects. This module supports the objects of
`BertEncoder`, `BertEncoderV2` and `BertPretrainerV2` (with or without a
next-sentence head), and does not need tf-models-official.
"""

import itertools
import re
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from checkpoints import weight_names
from common import errors

GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"

# A next-sentence head has its own dense layer, which corresponds to BERT's
# pooler; the encoder's pooler is then untrained. These are the layer's path in
# the pretrainer, and its path at the root, from which fine-tuning loads it.
_HEAD_POOLERS = ("classification_heads/0/dense", "next_sentence.pooler_dense")
_TABLE = "bert/embeddings/word_embeddings"
_QUERY = "bert/encoder/layer_0/attention/self/query/kernel"
# An encoder has this object if its embeddings are narrower than its layers.
_PROJECTION = "_embedding_projection"
# Training state, and the flag of an exported model; see hub_folder.
_NO_WEIGHTS = re.compile(
  "(^|/)(optimizer|save_counter|global_step|do_lower_case)/"
)


class _Objects:
  """The graph of objects in a checkpoint."""

  def __init__(self, data: bytes):
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    graph.ParseFromString(data)
    self._nodes = graph.nodes
    self.parts = [
      {child.local_name: child.node_id for child in node.children}
      for node in graph.nodes
    ]

  def find(self, path: str) -> int | None:
    """Returns the id of the first node at a path below any node, or None."""
    reached = [*range(len(self.parts))]
    for name in path.split("/"):
      reached = [
        self.parts[number][name]
        for number in reached
        if name in self.parts[number]
      ]
    return reached[0] if reached else None

  def key(self, path: str) -> str | None:
    """Returns the checkpoint key of the value at a path, or None."""
    number = self.find(path)
    if number is None or not self._nodes[number].attributes:
      return None
    return self._nodes[number].attributes[0].checkpoint_key


def from_bundle(bundle: weight_names.Reader) -> weight_names.Reader:
  """Returns a reader that finds Model Garden weights by their TF1 names.

  `bundle` reads values by their keys in the files. Values without a row in
  weight_names keep their keys, but training state is omitted. Raises
  InputError: the objects are not a BERT encoder.
  """
  objects, notes = _Objects(bytes(bundle.read(GRAPH))), []
  if objects.find(_PROJECTION) is not None:
    raise errors.InputError(
      f"{bundle.path} has an {_PROJECTION}: its embeddings are narrower than "
      "its layers, unlike BERT's"
    )
  names = _names(objects)
  if not {_TABLE, _QUERY} <= names.keys():
    raise errors.InputError(
      f"{bundle.path} is an object-based checkpoint, but not of a Model Garden "
      "BERT encoder or pretrainer"
    )
  used = {GRAPH, *(key for key, _ in names.values())}
  for part, head in itertools.product(("kernel", "bias"), _HEAD_POOLERS):
    key = objects.key(f"{head}/{part}")
    if key and key not in used:
      names[f"bert/pooler/dense/{part}"] = key, "same"
      notes.append(f"the pooler's {part} is from the next-sentence head")
      used.add(key)
  for key in bundle.shapes.keys() - used:
    if not _NO_WEIGHTS.search(key):
      names[key] = key, "same"
  key, _ = names[_QUERY]
  return weight_names.Reader(
    "Model Garden",
    bundle.path,
    names,
    bundle.shapes.__getitem__,
    bundle.read,
    folder=bundle.folder,
    notes=notes,
    num_heads=bundle.shapes[key][1],
  )


def _names(objects: _Objects) -> dict[str, tuple[str, str]]:
  """Returns {TF1 name: (key, layout)} for values with a weight_names.Row."""
  layers = objects.find("_transformer_layers")
  names = {}
  for row in weight_names.rows("model_garden", objects.parts[layers or 0]):
    # Omit the parents, because `find` searches below all nodes.
    path = row.name.removeprefix("encoder/")
    path = path.replace("next_sentence/", "classification_heads/0/")
    if key := objects.key(path):
      names[row.tf1] = key, row.layout
  return names


# Writing


def write(
  prefix: str, weights: dict[str, np.ndarray], num_heads: int
) -> dict[str, str]:
  """Writes a checkpoint that Model Garden models can restore.

  Without a masked-LM head, the root's "encoder" and "model" are the encoder,
  and a next-sentence head is left out. With a masked-LM head, "model" is a
  pretrainer, and the root also has "encoder", "masked_lm" and, with a
  next-sentence head, "next_sentence.pooler_dense". Call this in a block of
  `weight_files.temporary_prefix`, which provides `prefix`.

  Returns:
    {TF1 name: path} for all weights with a path.
  """
  items, paths = objects(weights, num_heads)
  tf.train.Checkpoint(**items).write(prefix)
  return paths


def objects(
  weights: dict[str, np.ndarray], num_heads: int
) -> tuple[dict[str, Any], dict[str, str]]:
  """Returns {name: object below the checkpoint's root}, and {TF1 name: path}.

  For both see `write`.
  """
  tree: dict[str, Any] = {}
  paths = {}
  if not any(name.startswith("cls/predictions/") for name in weights):
    # Only a pretrainer has heads, and every pretrainer has a masked-LM head.
    weights = {n: w for n, w in weights.items() if not n.startswith("cls/")}
  for row in weight_names.rows("model_garden", weights):
    if row.tf1 in weights:
      paths[row.tf1] = row.name
      *parents, name = row.name.split("/")
      node = tree
      for parent in parents:
        node = node.setdefault(parent, {})
      node[name] = tf.Variable(
        weight_names.from_tf1(weights[row.tf1], row.layout, num_heads)
      )
  return _items(tree), paths


def _items(tree: dict[str, Any]) -> dict[str, Any]:
  """Returns {name: object} for the children of the checkpoint's root."""
  encoder, head = _tracked(tree["encoder"]), tree.get("next_sentence")
  if "masked_lm" not in tree:
    return {"encoder": encoder, "model": encoder}
  # The masked-LM head shares the encoder's word embeddings.
  table = {"embedding_table": tree["encoder"]["_embedding_layer"]["embeddings"]}
  masked_lm = _tracked(tree["masked_lm"] | table)
  # The attribute names of BertPretrainerV2.
  model = {"encoder_network": encoder, "masked_lm": masked_lm}
  items = {"encoder": encoder, "masked_lm": masked_lm}
  if head:
    pooler = tree["encoder"].get("_pooler_layer", {})
    # Copy the pooler: the model restores it and the head's layer separately.
    dense = _tracked({name: tf.Variable(v) for name, v in pooler.items()})
    model["classification_heads"] = [_tracked(head | {"dense": dense})]
    items["next_sentence.pooler_dense"] = dense
  return items | {"model": _tracked(model)}


def _tracked(tree: Any) -> Any:
  """Returns an object with the keys of a dict as its attributes."""
  if not isinstance(tree, dict):
    return tree
  parts = {name: _tracked(part) for name, part in tree.items()}
  # Members of a list have the names "0", "1", ..., in this order.
  return [*parts.values()] if "0" in parts else tf.train.Checkpoint(**parts)
