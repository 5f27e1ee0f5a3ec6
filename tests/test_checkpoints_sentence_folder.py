"""What sentence-transformers' folders say of vectors is read and written."""

import json

import pytest

import heads
import layers
import modeling
import tiny_model
from checkpoints import sentence_folder, weight_files
from common import errors
from variants import registry


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


@pytest.mark.parametrize("kind, states, changes, expected", [
  ("max", ((-1,),), {}, True), ("cls", ((1,),), {}, True),
  ("mean", ((-2,),), {}, False), ("mean", ((-1,), (0,)), {}, False),
  ("pooled", ((-1,),), {}, False),
  ("mean", ((-1,),), {"variant": "left_to_right"}, False),
])
def test_what_sentence_transformers_computes(kind, states, changes, expected):
  config = modeling.BertConfig.from_dict({**tiny_model.TINY, **changes})
  found = sentence_folder.is_for(config, heads.Pooling(kind, states))
  assert found == expected


@pytest.mark.parametrize("variant", ["bert", "albert", "distilbert", "electra"])
def test_a_folder_has_what_others_read(tmp_path, variant):
  size = {"embedding_size": 8, "num_hidden_groups": 1}
  config = modeling.BertConfig.from_dict(
    {**tiny_model.TINY, "variant": variant, **size}
  )
  model = registry.make_encoder(config)
  sentence_folder.write(
    str(tmp_path / "out"), model.variables, config,
    tiny_model.write_vocabulary(tmp_path), True,
    pooling=heads.Pooling("max"), max_length=9, never_split=("a-b",),
  )
  found = sentence_folder.read(str(tmp_path / "out"))
  assert found == {"pooling": "max", "normalize": False}
  names = {path.name for path in (tmp_path / "out").iterdir()}
  assert {
    "bert_config.json", "config.json", "model.safetensors", "tokenizer.json",
    "vocab.txt",
  } <= names
  path = tmp_path / "out" / "tokenizer_config.json"
  assert json.loads(path.read_text())["never_split"] == ["a-b"]
  read = weight_files.read_weights(str(tmp_path / "out"))
  for variable in model.variables:
    name = layers.variable_name(variable)
    if "/pooler/" not in name:
      assert read[name].tobytes() == variable.numpy().tobytes()
