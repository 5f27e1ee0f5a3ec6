"""Compares sparse vectors with sentence-transformers' SparseEncoder."""

import json
import pathlib
import shutil

import pytest

import script_runner
from checkpoints import model_files, sentence_folder
from common import errors
from message_facts import says
from serving import text_models
from test_checkpoints_model_files import settings_of

GOLDEN = pathlib.Path(__file__).parent / "golden" / "sentence_vectors"
EXPECTED = json.loads((GOLDEN / "weights.json").read_text())


@pytest.fixture
def folder(tmp_path):
  """Returns a copy of the golden folder."""
  return shutil.copytree(GOLDEN / "sparse", tmp_path / "model")


def write_rules(folder, values):
  (folder / "1_SpladePooling" / "config.json").write_text(json.dumps(values))


def by_python(folder, texts, _, **options):
  return text_models.load(str(folder), **options).embed_sparse(texts)


def by_onnx(folder, texts, _):
  pytest.importorskip("onnxruntime")
  return by_python(folder, texts, _, engine="onnx")


def by_script(folder, texts, tmp_path):
  (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
  script_runner.succeed(
    "extract_features.py",
    sparse=True,
    input_file=tmp_path / "texts.txt",
    output_file=tmp_path / "out.jsonl",
    model_dir=folder,
  )
  lines = (tmp_path / "out.jsonl").read_text().splitlines()
  return [json.loads(line)["weights"] for line in lines]


@pytest.mark.parametrize("name", EXPECTED["cases"])
@pytest.mark.parametrize("embed", [by_python, by_onnx, by_script])
def test_weights_equal_sentence_transformers(embed, name, folder, tmp_path):
  case = EXPECTED["cases"][name]
  write_rules(folder, case["rules"])
  answers = embed(folder, EXPECTED["texts"], tmp_path)
  for answer, expected in zip(answers, case["weights"], strict=True):
    assert list(answer) == list(expected)
    assert answer == pytest.approx(expected, abs=1e-5)


def test_a_single_text_has_a_single_answer(folder):
  bert = text_models.load(str(folder))
  assert bert.embed_sparse(EXPECTED["texts"][0]) == pytest.approx(
    EXPECTED["cases"]["max"]["weights"][0], abs=1e-5
  )
  with pytest.raises(errors.InputError, match="pass strings"):
    bert.embed_sparse([("the keeper", "lit")])


def test_options_override_the_folder(folder, caplog):
  answer = text_models.load(str(folder)).embed_sparse(
    EXPECTED["texts"][0], sparse_pooling="sum", sparse_activation="log1p_relu"
  )
  expected = EXPECTED["cases"]["sum"]["weights"][0]
  assert answer == pytest.approx(expected, abs=1e-5)
  assert "--sparse_pooling=sum (trained with max)" in caplog.text


def test_the_folder_decides_which_head_is_served(folder):
  settings = settings_of(folder, bert_config_file=str(folder / "config.json"))
  assert model_files.ModelFiles.of(settings).head == "sparse"
  (folder / "modules.json").unlink()
  assert model_files.ModelFiles.of(settings).head == "masked_lm"
  assert sentence_folder.read_sparse(str(folder)) == {}


@pytest.mark.parametrize(
  "file_name, content, message",
  [
    (
      "1_SpladePooling/config.json",
      {"pooling_strategy": "mean"},
      says("1_SpladePooling/config.json", "'mean'", "not"),
    ),
    (
      "1_SpladePooling/config.json",
      {"activation_function": "softplus"},
      says("1_SpladePooling/config.json", "'softplus'", "log1p_relu", "not"),
    ),
    (
      "modules.json",
      [
        {"type": "x.Transformer"},
        {"path": "1_SpladePooling", "type": "x.Pooling"},
      ],
      "are Transformer, Pooling; this project computes sparse vectors only",
    ),
    ("modules.json", [{"type": "x.Router"}], "the modules are Router; this"),
  ],
)
def test_other_modules_are_refused(folder, file_name, content, message):
  (folder / file_name).write_text(json.dumps(content))
  with pytest.raises(errors.InputError, match=message):
    text_models.load(str(folder)).embed_sparse("the lamp")


def test_sparse_vectors_need_a_masked_lm_head(tmp_path):
  (tmp_path / "texts.txt").write_text("the lamp\n")
  script_runner.refuse(
    "extract_features.py",
    "has no head to fill in [MASK]",
    sparse=True,
    input_file=tmp_path / "texts.txt",
    output_file=tmp_path / "out.jsonl",
    model_dir=GOLDEN / "folder",
  )
