"""Model Garden (tf-models-official) checkpoints, without that package.

They are object-based: a value is found by the path of attributes that leads
to it, such as encoder/_transformer_layers/0/_attention_layer/_query_dense/
kernel, and a graph of the objects is stored next to the values. What is read
and written here is what `BertEncoder`, `BertEncoderV2` and `BertPretrainerV2`
(with a next-sentence head) hold.
"""

import re

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from checkpoints import weight_names
from common import errors

GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"

# How the path of a variable ends -> how weight_names writes it. What
# the model hangs from does not matter.
_ENDINGS = (
  (r"(_transformer_layers/\d+/.*)", "encoder/{}"),
  (
    r"(_(?:embedding|type_embedding|position_embedding|embedding_norm|pooler)"
    r"_layer/\w+)",
    "encoder/{}",
  ),
  (r"(masked_lm/\w+(?:/\w+)?)", "{}"),
  (r"classification_heads/0/((?:dense|out_proj)/\w+)", "next_sentence/{}"),
  (r"next_sentence\.pooler_(dense/\w+)", "next_sentence/{}"),
)
# The longest of them: _transformer_layers/0/_attention_layer/_key_dense/bias
_LONGEST_ENDING = 5
# The next-sentence head has a dense layer of its own, which is BERT's pooler;
# the encoder's pooler is then never trained.
_HEAD_POOLER = {
  "next_sentence/dense/kernel": "encoder/_pooler_layer/kernel",
  "next_sentence/dense/bias": "encoder/_pooler_layer/bias",
}
_TABLE = "bert/embeddings/word_embeddings"
_QUERY = "bert/encoder/layer_0/attention/self/query/kernel"
# What an encoder has whose embeddings are narrower than its layers.
_PROJECTION = "_embedding_projection"


def from_bundle(bundle: weight_names.Reader) -> weight_names.Reader:
  """Returns a Model Garden checkpoint under TF1 names.

  Args:
    bundle: of the keys that the files have. What no row of weight_names has
      stays under its key.

  Raises:
    InputError: the objects are not those of a BERT encoder.
  """
  found, rest = _keys_by_path(bundle)
  notes = []
  for head, pooler in _HEAD_POOLER.items():
    if head in found:
      # Instead of the encoder's own, which was never trained.
      found[pooler] = found.pop(head)
      notes.append(f"the pooler is {head} of the next-sentence head")
  names = {
    row.tf1: (found[row.theirs], row.layout)
    for row in weight_names.rows("model_garden", found)
    if row.theirs in found
  }
  if not {_TABLE, _QUERY} <= names.keys():
    raise errors.InputError(
      f"{bundle.path}: an object-based checkpoint, but not of a Model Garden "
      "BERT encoder or pretrainer"
    )
  key, _ = names[_QUERY]
  return weight_names.Reader(
    "Model Garden", bundle.path, {**{k: (k, "same") for k in rest}, **names},
    bundle.shapes.__getitem__, bundle.read, folder=bundle.folder, notes=notes,
    num_heads=bundle.shapes[key][1],
  )


def _keys_by_path(bundle):
  """Finds what the values of an object-based checkpoint belong to.

  Returns:
    {path of weight_names: key of the bundle}, and the sorted keys of
    other variables, the optimizer's left out.
  """
  graph = trackable_object_graph_pb2.TrackableObjectGraph()
  graph.ParseFromString(bundle.read(GRAPH))
  found, rest = {}, set()
  for number, ends in _path_ends(graph).items():
    endings = ["/".join(end) for end in ends]
    if any(_PROJECTION in ending for ending in endings):
      raise errors.InputError(
        f"{bundle.path}: has an {_PROJECTION}: its embeddings are narrower "
        "than its layers, which BERT's are not"
      )
    names = [name for name in map(_known_name, endings) if name]
    for attribute in graph.nodes[number].attributes:
      # One value may be reached by several paths, such as encoder and model.
      found.update((name, attribute.checkpoint_key) for name in names)
      if not names:
        rest.add(attribute.checkpoint_key)
  return found, sorted(rest)


def _path_ends(graph):
  """{object: the last names of all paths to it}, without the optimizer's."""
  # From the root, node 0. An object may hang from several others, so it has
  # several paths, and its parts are visited again when another one is found.
  ends, unvisited = {0: {()}}, [0]
  while unvisited:
    number = unvisited.pop()
    for child in graph.nodes[number].children:
      name = child.local_name
      if name in ("optimizer", "save_counter", "global_step"):
        continue
      found = ends.setdefault(child.node_id, set())
      new = {(*end, name)[-_LONGEST_ENDING:] for end in ends[number]}
      if not new <= found:
        found |= new
        unvisited.append(child.node_id)
  return ends


def _known_name(ending):
  """The path as weight_names writes it, or None."""
  for pattern, name in _ENDINGS:
    match = re.search(rf"(?:^|/){pattern}$", ending)
    if match:
      return name.format(match[1])
  return None


# Writing


def write(
  prefix: str, weights: dict[str, np.ndarray], num_heads: int
) -> dict[str, str]:
  """Writes a checkpoint that Model Garden models restore.

  An encoder alone hangs from "encoder" and "model"; with the masked-LM head
  "model" is a pretrainer, and "masked_lm" and "next_sentence.pooler_dense"
  are what fine-tuning from it looks for.

  Args:
    prefix: of a block of `weight_files.temporary_prefix`.
    weights: by TF1 name.
    num_heads: heads of the attention.

  Returns:
    TF1 name -> path; what has none there is left out.
  """
  root, paths = tf.Module(), {}
  for row in weight_names.rows("model_garden", weights):
    if row.tf1 in weights:
      value = weight_names.from_tf1(weights[row.tf1], row.layout, num_heads)
      paths[row.tf1] = row.theirs
      node, (*parents, name) = root, row.theirs.split("/")
      for parent in parents:
        node = _child(node, parent)
      setattr(node, name, tf.Variable(value))
  tf.train.Checkpoint(**_items(root)).write(prefix)
  return paths


def _child(node, name):
  """Returns a part of an object, which is made if need be."""
  # Members of a list are tracked as "0", "1", ...; they come in this order.
  if isinstance(node, list):
    if int(name) == len(node):
      node.append(tf.Module())
    return node[int(name)]
  if not hasattr(node, name):
    # Any trackable object will do: only the names of attributes count.
    setattr(node, name, [] if name == "_transformer_layers" else tf.Module())
  return getattr(node, name)


def _items(root):
  """What hangs from the root of the checkpoint: dict from name to object."""
  encoder = root.encoder
  if not hasattr(root, "masked_lm"):
    return {"encoder": encoder, "model": encoder}
  model = tf.Module()
  # The name that BertPretrainerV2 gives it.
  model.encoder_network = encoder
  model.masked_lm = root.masked_lm
  # Two layers hold the table of words.
  model.masked_lm.embedding_table = encoder._embedding_layer.embeddings
  items = {"encoder": encoder, "model": model, "masked_lm": model.masked_lm}
  if hasattr(root, "next_sentence"):
    model.classification_heads = [root.next_sentence]
    if hasattr(encoder, "_pooler_layer"):
      # Copies: one object of a file cannot become two of a model.
      dense = root.next_sentence.dense = tf.Module()
      dense.kernel = tf.Variable(encoder._pooler_layer.kernel)
      dense.bias = tf.Variable(encoder._pooler_layer.bias)
      items["next_sentence.pooler_dense"] = dense
  return items
