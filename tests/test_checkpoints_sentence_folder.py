"""Embedding settings in folders of sentence-transformers."""

import functools
import json
import pathlib
import re
import shutil

import numpy as np
import pytest

import modeling
import named_weights
import script_runner
import stored_weights
import tiny_model
from checkpoints import (
  converter,
  model_writer,
  sentence_folder,
  sentence_pooling,
)
from common import errors, flag_values
from message_facts import says
from serving import text_models
from variants import registry


def write_modules(folder, names, pooling):
  pooling_folder = folder / "_".join(["1", *names[1:2]])
  pooling_folder.mkdir(exist_ok=True)
  (pooling_folder / "config.json").write_text(json.dumps(pooling))
  # Types as in sentence-transformers 6. In every version, a type ends in the
  # name of the class.
  (folder / "modules.json").write_text(
    json.dumps(
      [
        {
          "idx": n,
          "type": f"sentence_transformers.base.modules.x.{name}",
          "path": f"{n}_{name}" if n else "",
        }
        for n, name in enumerate(names)
      ]
    )
  )
  return str(folder)


OLD_POOLING = {
  "pooling_mode_cls_token": False,
  "pooling_mode_mean_tokens": True,
}
THREE_MODULES = "Transformer Pooling Normalize"


@pytest.mark.parametrize("normalize", [True, False])
def test_the_written_files_are_those_of_sentence_transformers(
  tmp_path, normalize
):
  pooling = sentence_pooling.Pooling("mean", normalize=normalize)
  sentence_folder.write_modules(str(tmp_path), 4, 9, pooling)
  places = {"Transformer": "", "Pooling": "1_Pooling"}
  if normalize:
    places["Normalize"] = "2_Normalize"
  assert json.loads((tmp_path / "modules.json").read_text()) == [
    {
      "idx": number,
      "name": str(number),
      "path": path,
      "type": f"sentence_transformers.models.{name}",
    }
    for number, (name, path) in enumerate(places.items())
  ]
  assert all((tmp_path / path).is_dir() for path in places.values())
  lengths = json.loads((tmp_path / "sentence_bert_config.json").read_text())
  assert lengths == {"max_seq_length": 9, "do_lower_case": False}
  config = json.loads((tmp_path / "1_Pooling" / "config.json").read_text())
  assert config == {
    "word_embedding_dimension": 4,
    "pooling_mode_cls_token": False,
    "pooling_mode_max_tokens": False,
    "pooling_mode_mean_tokens": True,
  }
  assert {path.name for path in tmp_path.iterdir()} == {
    "modules.json",
    "sentence_bert_config.json",
    *filter(None, places.values()),
  }


def test_the_written_files_of_sparse_vectors_are_a_sparse_encoders(tmp_path):
  sentence_folder.write_sparse_modules(str(tmp_path), 9, ("sum", "log1p_relu"))
  places = "sentence_transformers.sparse_encoder.models"
  assert json.loads((tmp_path / "modules.json").read_text()) == [
    {"idx": 0, "name": "0", "path": "", "type": f"{places}.MLMTransformer"},
    {
      "idx": 1,
      "name": "1",
      "path": "1_SpladePooling",
      "type": f"{places}.SpladePooling",
    },
  ]
  path = tmp_path / "1_SpladePooling" / "config.json"
  assert json.loads(path.read_text()) == {
    "pooling_strategy": "sum",
    "activation_function": "log1p_relu",
    "word_embedding_dimension": None,
  }
  path = tmp_path / "config_sentence_transformers.json"
  assert json.loads(path.read_text()) == {
    "model_type": "SparseEncoder",
    "prompts": {},
  }
  assert sentence_folder.read_sparse(str(tmp_path)) == {
    "sparse_pooling": "sum",
    "sparse_activation": "log1p_relu",
    "max_seq_length": 9,
  }


@pytest.mark.parametrize("is_list", [True, False])
@pytest.mark.parametrize("normalizer", ["lower", "cased", "other"])
@pytest.mark.parametrize("configured", [True, False, None])
def test_text_is_lower_cased_once_or_refused(
  tmp_path, is_list, normalizer, configured
):
  """sentence_bert_config.json lower-cases; the tokenizer may be silent."""
  folder = write_modules(tmp_path, ["Transformer", "Pooling"], OLD_POOLING)
  settings = '{"do_lower_case": true, "max_seq_length": 7}'
  (tmp_path / "sentence_bert_config.json").write_text(settings)
  vocab = {"[UNK]": 0, "a": 1}
  rules = {"type": "BertNormalizer", "lowercase": normalizer == "lower"}
  if normalizer == "other":
    rules = {"type": "NFKC"}
  tokenizer = {"normalizer": rules, "model": {"vocab": vocab}}
  (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
  if is_list:
    (tmp_path / "vocab.txt").write_text("[UNK]\na\n")
  if configured is not None:
    config = json.dumps({"do_lower_case": configured})
    (tmp_path / "tokenizer_config.json").write_text(config)
  # transformers lower-cases text for a list of word pieces by default.
  by_file = {"lower": True, "cased": False, "other": is_list}[normalizer]
  if by_file if configured is None else configured:
    assert sentence_folder.read(folder)["pooling"] == "mean"
  else:
    with pytest.raises(errors.InputError, match="for a cased tokenizer"):
      sentence_folder.read(folder)


@pytest.mark.parametrize(
  "names, pooling, expected",
  [
    ("Transformer Pooling", OLD_POOLING, ("mean", False)),
    (THREE_MODULES, OLD_POOLING, ("mean", True)),
    ("Transformer Pooling", {"pooling_mode": "cls"}, ("cls", False)),
    (THREE_MODULES, {"pooling_mode": ["max"]}, ("max", True)),
  ],
)
def test_the_pooling_is_read_from_the_modules(
  tmp_path, names, pooling, expected
):
  folder = write_modules(tmp_path, names.split(), pooling)
  settings = sentence_folder.read(folder)
  assert settings == dict(zip(("pooling", "normalize"), expected))


@pytest.mark.parametrize(
  "names, pooling, files, message",
  [
    (
      "Transformer Pooling Dense Normalize",
      OLD_POOLING,
      {},
      "the modules are Transformer, Pooling, Dense, Normalize",
    ),
    (
      "MLMTransformer SpladePooling",
      OLD_POOLING,
      {},
      "MLMTransformer, SpladePooling",
    ),
    (
      "Transformer Pooling Normalize Normalize",
      OLD_POOLING,
      {},
      "Normalize, Normalize",
    ),
    ("Transformer", OLD_POOLING, {}, "the modules are Transformer"),
    ("", OLD_POOLING, {}, "the modules are none"),
    (
      THREE_MODULES,
      {"pooling_mode": "lasttoken"},
      {},
      "the pooling is lasttoken",
    ),
    (
      THREE_MODULES,
      {"pooling_mode_mean_sqrt_len_tokens": True},
      {},
      "is mean_sqrt_len_tokens",
    ),
    (
      THREE_MODULES,
      {**OLD_POOLING, "pooling_mode_max_tokens": True},
      {},
      "is mean, max",
    ),
    (THREE_MODULES, {"pooling_mode": ["cls", "mean"]}, {}, "is cls, mean"),
    (
      THREE_MODULES,
      {"pooling_mode_cls_token": False},
      {},
      "the pooling is none",
    ),
    (
      THREE_MODULES,
      OLD_POOLING,
      {"config_sentence_transformers": {"truncate_dim": 64}},
      "vectors are truncated to 64 dimensions",
    ),
    (
      THREE_MODULES,
      OLD_POOLING,
      {
        "sentence_bert_config": {"do_lower_case": True},
        "tokenizer_config": {"do_lower_case": False},
      },
      says("do_lower_case", "lower-cases"),
    ),
  ],
)
def test_unsupported_vectors_are_refused(
  tmp_path, caplog, names, pooling, files, message
):
  folder = write_modules(tmp_path, names.split(), pooling)
  for name, values in files.items():
    (tmp_path / f"{name}.json").write_text(json.dumps(values))
  with pytest.raises(errors.InputError, match=message) as refused:
    sentence_folder.read(folder)
  assert re.search(says("--pooling", "different"), str(refused.value))
  # With --pooling, there is a warning, and the folder gives only the length.
  (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 9}')
  if "tokenizer_config" not in files:
    assert sentence_folder.read(folder, {"pooling"}) == {"max_seq_length": 9}
    sentence_folder.read(folder, {"pooling"})
    assert caplog.text.count("--pooling computes different vectors") == 1


@pytest.mark.parametrize(
  "files, length",
  [
    ({"sentence_bert_config": {"max_seq_length": 256}}, 256),
    ({"sentence_xlm-roberta_config": {"max_seq_length": 256}}, 256),
    (
      {
        "sentence_bert_config": {"max_seq_length": 256},
        "tokenizer_config": {"model_max_length": 512},
      },
      256,
    ),
    (
      {
        "sentence_bert_config": {"transformer_task": "feature-extraction"},
        "tokenizer_config": {"model_max_length": 200},
      },
      200,
    ),
    ({}, None),
    # transformers writes a huge number for a tokenizer without a limit.
    (
      {
        "tokenizer_config": {"model_max_length": 10**30},
        "config": {**tiny_model.TINY, "model_type": "bert"},
      },
      12,
    ),
    (
      {
        "sentence_bert_config": {"max_seq_length": 514},
        "config": {
          **tiny_model.TINY,
          "model_type": "roberta",
          "max_position_embeddings": 514,
        },
      },
      512,
    ),
  ],
)
def test_the_length_is_read_from_the_folder(tmp_path, files, length, caplog):
  folder = write_modules(tmp_path, THREE_MODULES.split(), OLD_POOLING)
  for name, values in files.items():
    (tmp_path / f"{name}.json").write_text(json.dumps(values))
  assert sentence_folder.read(folder).get("max_seq_length") == length
  assert not caplog.text


@pytest.mark.parametrize("function", ["cosine", None])
def test_what_this_project_does_itself_is_not_warned_of(
  tmp_path, function, caplog
):
  folder = write_modules(tmp_path, THREE_MODULES.split(), OLD_POOLING)
  (tmp_path / "config_sentence_transformers.json").write_text(
    json.dumps({"similarity_fn_name": function, "truncate_dim": None})
  )
  (tmp_path / "sentence_bert_config.json").write_text('{"config_args": {}}')
  assert sentence_folder.read(folder)["normalize"]
  assert not caplog.text


def test_similarities_and_arguments_without_effect_are_named(tmp_path, caplog):
  folder = write_modules(tmp_path, THREE_MODULES.split(), OLD_POOLING)
  (tmp_path / "config_sentence_transformers.json").write_text(
    json.dumps(
      {
        "prompts": {"query": "query: ", "document": "", "p": "passage: "},
        "default_prompt_name": None,
        "similarity_fn_name": "dot",
      }
    )
  )
  (tmp_path / "sentence_bert_config.json").write_text('{"config_args": [1]}')
  for _ in range(2):
    assert sentence_folder.read(folder)["pooling"] == "mean"
  for text in ("is 'dot'", "ignores config_args"):
    assert caplog.text.count(text) == 1


# Every way to compute vectors must give the vectors of sentence-transformers.

GOLDEN = pathlib.Path(__file__).parent / "golden" / "sentence_vectors"
EXPECTED = json.loads((GOLDEN / "vectors.json").read_text())


def write_case(folder, name):
  """Copies the golden folder with the files of a case."""
  shutil.copytree(GOLDEN / "folder", folder)
  for path, values in EXPECTED["cases"][name]["files"].items():
    (folder / path).write_text(json.dumps(values))
  return str(folder)


def by_python(folder, texts, _):
  return text_models.load(folder).embed(texts)


def by_export(folder, texts, tmp_path, **flags):
  out = str(tmp_path / "export")
  script_runner.succeed(
    "export_saved_model.py",
    head="embedding",
    model_dir=folder,
    export_dir=out,
    **flags,
  )
  assert (tmp_path / "export" / "modules.json").exists()
  assert sentence_folder.read(out) == sentence_folder.read(folder)
  return text_models.load(out).embed(texts)


def by_extract_features(folder, texts, tmp_path):
  (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
  pooling = sentence_folder.read(folder)["pooling"]
  script_runner.succeed(
    "extract_features.py",
    input_file=tmp_path / "texts.txt",
    output_file=tmp_path / "out.npz",
    output_format="npz",
    pooling=pooling,
    model_dir=folder,
  )
  with np.load(tmp_path / "out.npz") as arrays:
    (name,) = [n for n in arrays if arrays[n].ndim == 2]
    return arrays[name]


WAYS = {
  "python": by_python,
  "features": by_extract_features,
  "onnx": functools.partial(by_export, format="onnx"),
  "litert": functools.partial(by_export, format="litert"),
}


@pytest.mark.parametrize(
  "way, case",
  [
    # LiteRT's cases are slow; other tests check its outputs for every head.
    pytest.param(way, case, marks=[pytest.mark.slow] * (way == "litert"))
    for way in WAYS
    for case in EXPECTED["cases"]
  ],
)
def test_vectors_equal_sentence_transformers(tmp_path, case, way):
  folder = write_case(tmp_path / "model", case)
  vectors = WAYS[way](folder, EXPECTED["texts"], tmp_path)
  expected = EXPECTED["cases"][case]["vectors"]
  np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_the_encoder_in_a_folder_of_its_own_keeps_its_pooling(tmp_path):
  write_case(tmp_path / "root" / "0_Transformer", "cls")
  folder = str(tmp_path / "root" / "0_Transformer")
  for name in ("modules.json", "1_Pooling"):
    shutil.move(f"{folder}/{name}", tmp_path / "root" / name)
  vectors = text_models.load(folder).embed(EXPECTED["texts"])
  expected = EXPECTED["cases"]["cls"]["vectors"]
  np.testing.assert_allclose(vectors, expected, atol=1e-5)
  (tmp_path / "root" / "config_sentence_transformers.json").write_text(
    json.dumps({"prompts": {"q": "query: "}, "default_prompt_name": "q"})
  )
  assert sentence_folder.read_prompts(folder).default == "query: "


@pytest.mark.parametrize("case", EXPECTED["cases"])
@pytest.mark.parametrize("to", flag_values.CHECKPOINT_KINDS)
def test_a_converted_folder_gives_the_same_vectors(tmp_path, case, to):
  folder = write_case(tmp_path / "model", case)
  source = converter.open_source(folder)
  conversion = converter.convert(source, f"{tmp_path}/out", to)
  assert "other modules go along" in " ".join(conversion.notes)
  assert sentence_folder.read(f"{tmp_path}/out") == sentence_folder.read(folder)
  vectors = text_models.load(f"{tmp_path}/out").embed(EXPECTED["texts"])
  expected = EXPECTED["cases"][case]["vectors"]
  np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_conversion_keeps_all_that_is_not_the_encoder(tmp_path):
  """Also with new words, and from the encoder in a folder of its own."""
  folder = tmp_path / "root" / "0_Transformer"
  write_case(folder, "mean")
  for name in ("modules.json", "1_Pooling"):
    shutil.move(folder / name, tmp_path / "root" / name)
  vocab = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
  (folder / "tokenizer.json").unlink()
  (folder / "vocab.txt").write_text("\n".join(sorted(vocab, key=vocab.get)))
  kept = {
    "sentence_bert_config.json": b'{"max_seq_length": 7}',
    "config_sentence_transformers.json": b'{"prompts": {"q": "query: "}}',
    "1_Pooling/config.json": b'{"pooling_mode": "mean", "x": 1}',
    "2_Dense/model.safetensors": b"bytes",
    "2_Dense/more/settings.json": b"{}",
  }
  (tmp_path / "root" / "2_Dense" / "more").mkdir(parents=True)
  for name, data in kept.items():
    parent = folder if name == "sentence_bert_config.json" else folder.parent
    (parent / name).write_bytes(data)
  path = folder.parent / "modules.json"
  modules = json.loads(path.read_text())[:2]
  modules[0]["path"] = "0_Transformer"
  modules.append({"idx": 2, "type": "a.Dense", "path": "2_Dense"})
  path.write_text(json.dumps(modules))
  (tmp_path / "words.txt").write_text("electroencephalogram\n")
  script_runner.succeed(
    "convert_checkpoint.py",
    input=folder.parent,
    output=tmp_path / "out",
    to="huggingface",
    add_tokens=tmp_path / "words.txt",
  )
  for name, data in kept.items():
    assert (tmp_path / "out" / name).read_bytes() == data
  written = json.loads((tmp_path / "out" / "modules.json").read_text())
  assert written == [{**modules[0], "path": ""}, *modules[1:]]
  for path in ("", "../2_Dense", "3_Lost", None):
    modules[2]["path"] = path
    (folder.parent / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(errors.InputError, match="there is no folder"):
      sentence_folder.copy(str(folder), str(tmp_path), 9)


def test_a_sparse_model_keeps_one_weight_per_token(tmp_path):
  folder = write_modules(
    tmp_path, ["Transformer", "SpladePooling"], {"embedding_dimension": 8}
  )
  (tmp_path / "out").mkdir()
  assert sentence_folder.copy(folder, f"{tmp_path}/out", 9) == ["SpladePooling"]
  copied = tmp_path / "out" / "1_SpladePooling" / "config.json"
  assert json.loads(copied.read_text()) == {"embedding_dimension": 9}
  values = {"word_embedding_dimension": 8, "embedding_dimension": None}
  write_modules(tmp_path, ["Transformer", "SpladePooling"], values)
  sentence_folder.copy(folder, f"{tmp_path}/out", 9)
  assert json.loads(copied.read_text()) == {
    **values,
    "word_embedding_dimension": 9,
  }
  write_modules(tmp_path, ["Router", "Pooling"], {})
  with pytest.raises(errors.InputError, match="the first module is Router"):
    sentence_folder.copy(folder, f"{tmp_path}/out", 9)


def test_similarity_uses_the_pooling_of_the_folder(tmp_path):
  folder = write_case(tmp_path / "model", "mean")
  a, b = EXPECTED["texts"][:2]
  (tmp_path / "pairs.txt").write_text(f"{a} ||| {b}\n")
  flags = {
    "input_file": tmp_path / "pairs.txt",
    "output_file": tmp_path / "out.jsonl",
    "similarity": True,
    "model_dir": folder,
  }
  script_runner.succeed("extract_features.py", **flags)
  vectors = np.array(EXPECTED["cases"]["mean"]["vectors"][:2])
  similarity = json.loads((tmp_path / "out.jsonl").read_text())["similarity"]
  assert abs(similarity - vectors[0] @ vectors[1]) < 1e-5
  # A folder without modules.json stores no pooling.
  (tmp_path / "model" / "modules.json").unlink()
  message = "--similarity needs --pooling"
  script_runner.refuse("extract_features.py", message, **flags)


def test_a_passed_pooling_overrides_the_folder(tmp_path, caplog):
  folder = write_case(tmp_path / "model", "mean")
  vectors = text_models.load(folder).embed(
    EXPECTED["texts"][:1], pooling="cls", normalize=False
  )
  expected = EXPECTED["cases"]["cls"]["vectors"][:1]
  np.testing.assert_allclose(vectors, expected, atol=1e-5)
  assert "--pooling=cls (trained with mean)" in caplog.text


def test_a_folder_without_modules_has_no_settings(tmp_path):
  assert sentence_folder.read(str(tmp_path)) == {}
  (tmp_path / "modules.json").write_text("[1]")
  with pytest.raises(errors.InputError, match="modules.json"):
    sentence_folder.read(str(tmp_path))


@pytest.mark.parametrize(
  "mode, layers, changes, expected",
  [
    ("max", ((-1,),), {}, True),
    ("cls", ((1,),), {}, True),
    ("mean", ((-2,),), {}, False),
    ("mean", ((-1,), (0,)), {}, False),
    ("pooled", ((-1,),), {}, False),
    ("mean", ((-1,),), {"variant": "left_to_right"}, False),
  ],
)
def test_which_poolings_sentence_transformers_supports(
  mode, layers, changes, expected
):
  config = modeling.BertConfig.from_dict({**tiny_model.TINY, **changes})
  pooling = sentence_pooling.Pooling(mode, layers)
  assert model_writer.is_for_sentences(config, pooling) == expected


@pytest.mark.parametrize("variant", ["bert", "albert", "distilbert", "electra"])
def test_a_folder_has_all_files_of_a_sentence_model(tmp_path, variant):
  size = {"embedding_size": 8, "num_hidden_groups": 1}
  config = modeling.BertConfig.from_dict(
    {**tiny_model.TINY, "variant": variant, **size}
  )
  model = registry.make_encoder(config)
  model_writer.write_sentence_model(
    str(tmp_path / "out"),
    model.variables,
    config,
    tiny_model.write_vocabulary(tmp_path),
    True,
    pooling=sentence_pooling.Pooling("max"),
    max_length=9,
    never_split=("a-b",),
  )
  settings = sentence_folder.read(str(tmp_path / "out"))
  assert settings == {"pooling": "max", "normalize": False, "max_seq_length": 9}
  names = {path.name for path in (tmp_path / "out").iterdir()}
  assert {
    "bert_config.json",
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "vocab.txt",
  } <= names
  path = tmp_path / "out" / "tokenizer_config.json"
  assert json.loads(path.read_text())["never_split"] == ["a-b"]
  weights = stored_weights.read(str(tmp_path / "out"))
  for variable in model.variables:
    name = named_weights.variable_name(variable)
    if "/pooler/" not in name:
      assert weights[name].tobytes() == variable.numpy().tobytes()


def test_hidden_states_need_no_word_about_the_pooling(tmp_path, caplog):
  """The folder's own pooling, or modules that no hidden state needs."""
  folder = write_case(tmp_path / "model", "cls")
  model = text_models.load(folder)
  states = model.encode(EXPECTED["texts"][:1])[0].layers
  assert "--pooling" not in caplog.text
  # The same head computes vectors with the folder's pooling.
  vectors = model.embed(EXPECTED["texts"])
  expected = EXPECTED["cases"]["cls"]["vectors"]
  np.testing.assert_allclose(vectors, expected, atol=1e-5)
  (tmp_path / "model" / "modules.json").write_text('[{"type": "Router"}]')
  again = text_models.load(folder).encode(EXPECTED["texts"][:1])[0].layers
  np.testing.assert_array_equal(again, states)


def test_a_reranker_with_a_dense_layer_is_named(tmp_path):
  folder = write_case(tmp_path / "model", "mean")
  write_modules(
    tmp_path / "model", ["Transformer", "Pooling", "Dense"], OLD_POOLING
  )
  with pytest.raises(errors.InputError) as refused:
    text_models.load(folder).classify([("a", "b")])
  for fact in ("Transformer".lower(), "Pooling, Dense", "Dense is not"):
    assert fact.lower() in str(refused.value).lower()
  assert "only an encoder" not in str(refused.value)
