"""Both ends of a conversion on one input."""

import pathlib

import pytest

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


def convert(path, output, kind, **options):
  source = converter.open_source(str(path))
  converter.convert(source, str(output), kind, **options)
  return source


@pytest.mark.parametrize("name", OUTPUTS)
def test_every_output_is_compared(tmp_path, name):
  source = convert(HUGGINGFACE / name, tmp_path / "out", "tf1")
  found = comparison.compare(source, f"{tmp_path}/out")
  assert found.keys() == {"sequence_output"} | OUTPUTS[name]
  assert set(found.values()) == {0.0}


def test_another_function_is_noticed(tmp_path):
  source = convert(HUGGINGFACE / "BertModel", tmp_path / "out", "tf1")
  config = tmp_path / "out/bert_config.json"
  config.write_text(config.read_text().replace("gelu_erf", "gelu"))
  assert max(comparison.compare(source, f"{tmp_path}/out").values()) > 1e-5
