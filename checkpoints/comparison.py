"""Runs both ends of a conversion on the same random input.

An end is run by this project, and by the peer that it was made for where that
is installed: transformers (with torch), or tf-models-official.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf

import heads
from checkpoints import (
  converter,
  huggingface,
  tokenizer_files,
  transformers_run,
  weight_files,
  weight_names,
)
from common import errors, file_io
from variants import registry, vocabularies

# Kind of a checkpoint -> the program that it was made for.
_PEERS = {
  huggingface.Reader.kind: "transformers",
  "Model Garden": "tf-models-official",
}
_KINDS = {
  "huggingface": huggingface.Reader.kind, "model_garden": "Model Garden",
}
# For the share of unknown pieces. A vocabulary of any language has Latin
# letters; more than a tenth unknown is a sign of another one's vocabulary.
_SAMPLE = (
  "At 7:45 the ferry left Quayside Pier; two boys, their grandmother and a dog "
  "named Max waved goodbye. 'Back by Friday?' she asked."
)
_MANY_UNKNOWN = 0.1
# By the file's path: as a module it would bring this whole package along.
_RUN_TRANSFORMERS = (
  "import runpy, sys; functions = runpy.run_path(sys.argv[1]); "
  f"functions['{transformers_run.write_outputs.__name__}'](*sys.argv[2:])"
)


def random_batch(config, seed=0):
  """Returns input_ids, input_mask, segment_ids: int32 arrays [3, T]."""
  rng = np.random.RandomState(seed)
  length = min(config.max_position_embeddings, 32)
  # Full, half and a single token: padding must have no effect in either.
  lengths = np.array([length, (length + 1) // 2, 1])
  mask = np.arange(length) < lengths[:, None]
  # Padding has id 0, as [PAD] in the released vocabularies.
  ids = rng.randint(0, config.vocab_size, mask.shape) * mask
  types = rng.randint(0, config.type_vocab_size, mask.shape) * mask
  return tuple(values.astype(np.int32) for values in (ids, mask, types))


def compare(source, output, architecture=None):
  """Runs both ends in every way that is installed.

  Args:
    source: converter.Source.
    output: folder that `converter.convert` wrote.
    architecture: class of transformers; by default found from the names.

  Returns:
    list of (who ran which end, output, largest difference from what this
    project computes from the input).
  """
  architecture = architecture or weight_names.architecture_of(
    source.reader.shapes, registry.name_of(source.config)
  )
  batch = random_batch(source.config)
  # All ends are compared with this one, so that a fault of ours shows too.
  expected = our_outputs(source, architecture, batch)
  # Read back from the files, as anybody else would read them.
  result = converter.open_source(output)
  rows = [
    ("this project, output", name, difference)
    for name, difference in _differences(
      expected, our_outputs(result, architecture, batch)
    )
  ]
  for end, opened in (("input", source), ("output", result)):
    peer, outputs = _peer_outputs(opened, architecture, batch)
    rows += [
      (f"{peer}, {end}", name, difference)
      for name, difference in _differences(expected, outputs)
    ]
  return rows


def describe_peers(source, rows, kind):
  """Says which other programs ran an end, and which are not installed.

  Args:
    source: converter.Source.
    rows: what `compare` returned.
    kind: of the output, a key of converter.WRITERS.
  """
  # The programs that could run one of the two ends.
  kinds = {huggingface.Reader.kind, "Model Garden"} & {
    source.reader.kind, _KINDS.get(kind)
  }
  if not kinds:
    return "none computes either kind but the original, which is not run"
  said = []
  for peer in sorted(_PEERS[kind] for kind in kinds):
    ends = [
      end
      for end in ("input", "output")
      if any(who == f"{peer}, {end}" for who, _, _ in rows)
    ]
    said.append(
      f"{peer} ran the {' and the '.join(ends)}" if ends
      else f"{peer} did NOT run (not installed, or it cannot read the files)"
    )
  return "; ".join(said)


def describe_vocabulary(source):
  """Says how many tokens there are, and how much of a text is unknown."""
  if not source.vocab_file:
    return "none next to the input"
  lower = converter.known_case(source)
  if lower is None:
    lower = not tokenizer_files.has_capitals(source.vocab_file)
  tokenizer = vocabularies.make_tokenizer(
    source.vocab_file, do_lower_case=lower
  )
  pieces = tokenizer.tokenize(_SAMPLE)
  share = pieces.count(tokenizer.unk_token) / len(pieces)
  warning = "; is it the right one?" if share > _MANY_UNKNOWN else ""
  return (
    f"{len(tokenizer.vocab)} tokens for {source.config.vocab_size} rows, "
    f"{share:.0%} {tokenizer.unk_token} in an English sample{warning}"
  )


def _differences(expected, found):
  for name in expected.keys() & found.keys():
    yield name, float(np.max(np.abs(expected[name] - found[name])))


def _peer_outputs(source, architecture, batch):
  """Returns (name of the peer, its outputs; {} where it cannot be run)."""
  kind = source.reader.kind
  if kind == huggingface.Reader.kind:
    return _PEERS[kind], huggingface_outputs(source, architecture, batch)
  if kind == "Model Garden":
    return _PEERS[kind], model_garden_outputs(source, batch)
  return "", {}


def our_outputs(source, architecture, batch):
  """Returns {output: float32 array} of this project's model."""
  config, shapes = source.config, source.reader.shapes
  bert = registry.make_encoder(config)
  weight_files.load(
    bert.variables, source.reader, allowed_missing=["^bert/pooler/"]
  )
  output = bert(*map(tf.constant, batch))
  found = {"sequence_output": output.sequence_output}
  if "bert/pooler/dense/kernel" in shapes:
    found["pooled_output"] = output.pooled_output

  def run(head, *inputs):
    weight_files.load(head.variables, source.reader)
    return head(*inputs)

  if "cls/predictions/output_bias" in shapes:
    rows, length = batch[0].shape
    # All positions: the head gathers what it is told to.
    everywhere = tf.tile(tf.range(length)[None], [rows, 1])
    found["masked_lm"] = run(
      heads.MaskedLMHead(config, bert.word_embeddings),
      output.sequence_output,
      everywhere,
    )
  if "cls/seq_relationship/output_bias" in shapes:
    head = heads.NextSentenceHead(config)
    found["next_sentence"] = run(head, output.pooled_output)
  if "cls/squad/output_bias" in shapes:
    head = heads.SpanHead(config)
    found["start"], found["end"] = run(head, output.sequence_output)
  if "output_bias" in shapes:
    count = shapes["output_bias"][0]
    # The two classes have the same names: only the architecture tells.
    if architecture.endswith("ForTokenClassification"):
      head = heads.TokenClassificationHead(config, count)
      found["labels"] = run(head, output.sequence_output)
    else:
      head = heads.ClassificationHead(config, count)
      found["labels"] = run(head, output.pooled_output)
  return {name: value.numpy() for name, value in found.items()}


def transformers_is_installed():
  """Whether models of Hugging Face can be run."""
  return all(
    importlib.util.find_spec(name) for name in ("torch", "transformers")
  )


def huggingface_outputs(source, architecture, batch):
  """Returns {output: array} of transformers; {} where it is not installed.

  Raises:
    InputError: it cannot run the model.
  """
  folder = source.reader.path
  has_config = os.path.exists(os.path.join(folder, "config.json"))
  if not has_config or not transformers_is_installed():
    return {}
  with tempfile.TemporaryDirectory() as scratch:
    given, found = (
      os.path.join(scratch, name) for name in ("given.npz", "found.npz")
    )
    np.savez(given, **dict(zip(("ids", "mask", "types"), batch)))
    done = subprocess.run(
      [
        sys.executable, "-c", _RUN_TRANSFORMERS, transformers_run.__file__,
        folder, architecture, given, found,
      ],
      capture_output=True, text=True, check=False,
    )
    if done.returncode:
      # The last line of a traceback.
      *_, reason = done.stderr.strip().split("\n")
      raise errors.InputError(
        f"transformers cannot run {folder} as {architecture}: {reason}"
      )
    with np.load(found) as outputs:
      return {name: outputs[name] for name in outputs.files}


def make_model_garden_encoder(config):
  """Returns the BertEncoderV2 of a modeling.BertConfig.

  Raises:
    ImportError: tf-models-official is not installed.
  """
  from official.nlp.modeling import networks

  activation, approximate = config.hidden_act, config.hidden_act == "gelu"
  if activation in ("gelu", "gelu_erf"):
    activation = lambda x: tf.nn.gelu(x, approximate=approximate)  # noqa: E731
  return networks.BertEncoderV2(
    vocab_size=config.vocab_size,
    hidden_size=config.hidden_size,
    num_layers=config.num_hidden_layers,
    num_attention_heads=config.num_attention_heads,
    inner_dim=config.intermediate_size,
    inner_activation=activation,
    max_sequence_length=config.max_position_embeddings,
    type_vocab_size=config.type_vocab_size,
  )


def model_garden_outputs(source, batch):
  """Returns {output: array} of BertEncoderV2; {} without tf-models-official."""
  try:
    encoder = make_model_garden_encoder(source.config)
  except ImportError:
    return {}
  names = ("input_word_ids", "input_mask", "input_type_ids")
  inputs = dict(zip(names, map(tf.constant, batch)))
  encoder(inputs)
  # After a first call, which makes the variables that it fills.
  status = tf.train.Checkpoint(encoder=encoder).read(
    file_io.literal_name(source.reader.path)
  )
  status.expect_partial().assert_existing_objects_matched()
  output = encoder(inputs)
  return {
    name: output[name].numpy() for name in ("sequence_output", "pooled_output")
  }
