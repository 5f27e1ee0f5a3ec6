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
import modeling
from checkpoints import (
  converter,
  huggingface,
  model_garden,
  tokenizer_files,
  transformers_run,
  weight_files,
  weight_names,
)
from common import errors, file_io
from variants import registry, vocabularies

# {name of an output: float32 array}
Outputs = dict[str, np.ndarray]

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


def random_batch(
  config: modeling.BertConfig, seed: int = 0
) -> tuple[np.ndarray, ...]:
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


def compare(
  source: converter.Source, output: str, architecture: str | None = None
) -> dict[str, dict[str, float]]:
  """Runs both ends in every way that is installed.

  Args:
    output: folder that `converter.convert` wrote.
    architecture: class of transformers; by default found from the names.

  Returns:
    dict from who ran which end, such as "transformers, input", to a dict from
    output to its largest difference from what this project computes from the
    input: {} for who could not run.
  """
  architecture = architecture or weight_names.architecture_of(
    source.reader.shapes, registry.name_of(source.config)
  )
  batch = random_batch(source.config)
  # All ends are compared with this one, so that a fault of ours shows too.
  expected = our_outputs(source, architecture, batch)
  # Read back from the files, as anybody else would read them.
  result = converter.open_source(output)
  ran = {"this project, output": our_outputs(result, architecture, batch)}
  for end, opened in (("input", source), ("output", result)):
    if opened.reader.kind in _PEERS:
      peer, outputs = _PEERS[opened.reader.kind]
      ran[f"{peer}, {end}"] = outputs(opened, architecture, batch)
  return {
    who: {
      name: float(np.max(np.abs(expected[name] - found[name])))
      for name in expected.keys() & found.keys()
    }
    for who, found in ran.items()
  }


def describe_peers(compared: dict[str, dict[str, float]]) -> str:
  """Says which other programs ran an end, and which are not installed."""
  said = []
  for peer in sorted(peer for peer, _ in _PEERS.values()):
    ends = [end for end in ("input", "output") if f"{peer}, {end}" in compared]
    ran = [end for end in ends if compared[f"{peer}, {end}"]]
    if ran:
      said.append(f"{peer} ran the {' and the '.join(ran)}")
    elif ends:
      said.append(
        f"{peer} did NOT run (not installed, or it cannot read the files)"
      )
  return "; ".join(said) or (
    "none computes either kind but the original, which is not run"
  )


def describe_vocabulary(source: converter.Source) -> str:
  """Says how many tokens there are, and how much of a text is unknown."""
  if not source.vocab_file:
    return "none next to the input"
  tokenizer = vocabularies.make_tokenizer(
    source.vocab_file,
    do_lower_case=tokenizer_files.likely_case(source.vocab_file),
  )
  pieces = tokenizer.tokenize(_SAMPLE)
  share = pieces.count(tokenizer.unk_token) / len(pieces)
  warning = "; is it the right one?" if share > _MANY_UNKNOWN else ""
  return (
    f"{len(tokenizer.vocab)} tokens for {source.config.vocab_size} rows, "
    f"{share:.0%} {tokenizer.unk_token} in an English sample{warning}"
  )


def our_outputs(source: converter.Source, architecture: str, batch) -> Outputs:
  """Returns what this project's model computes."""
  config, shapes = source.config, source.reader.shapes
  bert = registry.make_encoder(config)
  weight_files.load(
    bert.variables, source.reader, allowed_missing=["^bert/pooler/"]
  )
  output = bert(*map(tf.constant, batch))
  sequence, pooled = output.sequence_output, output.pooled_output
  found = {"sequence_output": sequence}
  if "bert/pooler/dense/kernel" in shapes:
    found["pooled_output"] = pooled

  def run(head, *inputs):
    weight_files.load(head.variables, source.reader)
    return head(*inputs)

  if "cls/predictions/output_bias" in shapes:
    rows, length = batch[0].shape
    # All positions: the head gathers what it is told to.
    everywhere = tf.tile(tf.range(length)[None], [rows, 1])
    head = heads.MaskedLMHead(config, bert.word_embeddings)
    found["masked_lm"] = run(head, sequence, everywhere)
  if "cls/seq_relationship/output_bias" in shapes:
    found["next_sentence"] = run(heads.NextSentenceHead(config), pooled)
  if "cls/squad/output_bias" in shapes:
    found["start"], found["end"] = run(heads.SpanHead(config), sequence)
  if "output_bias" in shapes:
    count = shapes["output_bias"][0]
    # The two classes have the same names: only the architecture tells.
    if architecture.endswith("ForTokenClassification"):
      head = heads.TokenClassificationHead(config, count)
      found["labels"] = run(head, sequence)
    else:
      head = heads.ClassificationHead(config, count)
      found["labels"] = run(head, pooled)
  return {name: value.numpy() for name, value in found.items()}


def transformers_is_installed() -> bool:
  """Whether models of Hugging Face can be run."""
  return all(
    importlib.util.find_spec(name) for name in ("torch", "transformers")
  )


def huggingface_outputs(
  source: converter.Source, architecture: str, batch
) -> Outputs:
  """Returns what transformers computes; {} where it is not installed.

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


def model_garden_outputs(
  source: converter.Source, architecture: str, batch
) -> Outputs:
  """Returns what BertEncoderV2 computes; {} without tf-models-official."""
  del architecture  # It computes no head.
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


# Kind of a checkpoint -> the program that it was made for, and how that runs.
_PEERS = {
  huggingface.Reader.kind: ("transformers", huggingface_outputs),
  model_garden.Reader.kind: ("tf-models-official", model_garden_outputs),
}
