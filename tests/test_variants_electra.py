"""Tests ELECTRA with a checkpoint of its authors' code: it has two models."""

import pathlib

import numpy as np

import modeling
import stored_weights
import tiny_model
import transformers_goldens
from checkpoints import converter, weight_files
from variants import electra, registry

GOLDEN = pathlib.Path("tests/golden/electra")
ORIGINAL = GOLDEN / "original"


def config_of(**changes):
  return modeling.BertConfig.from_dict(
    {**tiny_model.TINY, "variant": "electra", "embedding_size": 6, **changes}
  )


# The authors' code uses the exact GELU.
DISCRIMINATOR = config_of(
  hidden_size=8,
  num_attention_heads=2,
  intermediate_size=12,
  hidden_act="gelu_erf",
)


def sigmoid(x):
  return 1 / (1 + np.exp(-x))


def open_original(tmp_path):
  path = tmp_path / "config.json"
  path.write_text(DISCRIMINATOR.to_json_string())
  return converter.open_source(str(ORIGINAL), bert_config_file=str(path))


def test_the_authors_discriminator_gives_their_probabilities(tmp_path):
  expected = np.load(ORIGINAL / "outputs.npz")
  source = open_original(tmp_path)
  encoder = registry.make_encoder(source.config)
  weight_files.load(
    encoder.variables, source.reader, allowed_missing=["^bert/pooler/"]
  )
  head = electra.ReplacedTokenHead(source.config)
  weight_files.load(head.variables, source.reader)
  output = encoder(
    *(
      expected[name] for name in ("fake_input_ids", "input_mask", "segment_ids")
    )
  )
  logits = head(output.sequence_output).numpy()
  is_token = expected["input_mask"] > 0
  np.testing.assert_allclose(
    sigmoid(logits)[is_token], expected["disc_probs"][is_token], atol=1e-5
  )


def test_conversion_to_tf1_keeps_both_models(tmp_path):
  source = open_original(tmp_path)
  converter.convert(source, f"{tmp_path}/tf1", "tf1")
  again = converter.open_source(f"{tmp_path}/tf1")
  transformers_goldens.check_equal(
    stored_weights.read(f"{tmp_path}/tf1"),
    {name: source.reader.read(name) for name in source.reader.shapes},
  )
  assert "generator_predictions/output_bias" in again.reader.shapes
  conversion = converter.convert(again, f"{tmp_path}/hf", "huggingface")
  assert "ElectraForPreTraining" in (tmp_path / "hf/config.json").read_text()
  left_out = {name.split("/")[0] for name in conversion.left_out}
  assert left_out == {"generator", "generator_predictions"}
