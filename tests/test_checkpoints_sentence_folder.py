"""What sentence-transformers' folders say of vectors is read and written."""

import json

import pytest

import heads
import modeling
import tiny_model
from checkpoints import sentence_folder
from common import errors


def write_modules(folder, names, pooling):
  (folder / "1_Pooling").mkdir(exist_ok=True)
  (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
  # As version 6 names them, and older ones.
  (folder / "modules.json").write_text(json.dumps([
    {"idx": n, "type": f"sentence_transformers.base.modules.x.{name}"}
    for n, name in enumerate(names)
  ]))
  return str(folder)


OLD = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}


@pytest.mark.parametrize("names, pooling, expected", [
  ("Transformer Pooling", OLD, ("mean", False)),
  ("Transformer Pooling Normalize", OLD, ("mean", True)),
  ("Transformer Pooling", {"pooling_mode": "cls"}, ("cls", False)),
  ("Transformer Pooling Dense", OLD, None),
  ("Transformer Pooling", {"pooling_mode": "lasttoken"}, None),
  ("Transformer Pooling", {**OLD, "pooling_mode_max_tokens": True}, None),
  ("SparseEncoder", OLD, None), ("", OLD, None),
])
def test_modules_say_the_pooling(tmp_path, names, pooling, expected):
  folder = write_modules(tmp_path, names.split(), pooling)
  found = sentence_folder.read(folder)
  assert found == (
    dict(zip(("pooling", "normalize"), expected)) if expected else {}
  )


def test_a_folder_without_modules_says_nothing(tmp_path):
  assert sentence_folder.read(str(tmp_path)) == {}
  (tmp_path / "modules.json").write_text("[]")
  assert sentence_folder.read(str(tmp_path)) == {}
  folder = write_modules(tmp_path, ["Transformer"], {})
  (tmp_path / "modules.json").write_text("[1]")
  with pytest.raises(errors.InputError, match="modules.json"):
    sentence_folder.read(folder)


@pytest.mark.parametrize("layers, is_known", [
  (((-1,),), True), (((1,),), True), (((-2,),), False), (((-1,), (0,)), False),
])
def test_modules_are_of_the_last_layer(tmp_path, layers, is_known):
  config = tiny_model.tiny()
  model = modeling.BertModel(config)
  sentence_folder.write(
    str(tmp_path / "out"), model.variables, config,
    tiny_model.write_vocabulary(tmp_path), True,
    pooling=heads.Pooling("max", layers), max_length=9, never_split=("a-b",),
  )
  found = sentence_folder.read(str(tmp_path / "out"))
  assert found == ({"pooling": "max", "normalize": False} if is_known else {})
  names = {path.name for path in (tmp_path / "out").iterdir()}
  assert {
    "bert_config.json", "config.json", "model.safetensors", "tokenizer.json",
    "vocab.txt",
  } <= names
  values = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
  assert values["never_split"] == ["a-b"]
