"""Tests models that share BERT's network, each in its published file layout.

Each row of the table in docs/variants.md has a test here, which loads a folder
with random weights in the layout of that model's files.
"""

import json
import pathlib
import re
import textwrap
from typing import NamedTuple

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

import configuration
import heads
import modeling
import tiny_model
import tokenization
from checkpoints import model_files, weight_files, weight_names
from common import errors, run_settings
from variants import vocabularies

PAGE = pathlib.Path("docs/variants.md")

UNCASED = "the patient bank ##s ran ."
CASED = "The the Patient patient ##s ran ."
CHINESE = "中 国 人 ##国 ."
# Keys of all configurations. Hugging Face's gelu is the exact one, with erf.
SHAPE = {**tiny_model.TINY, "vocab_size": 12, "hidden_act": "gelu"}
HEADS = {
  "masked_lm": heads.masked_lm_shapes(tiny_model.tiny(vocab_size=12)),
  "next_sentence": heads.output_shapes(
    tiny_model.tiny(), "cls/seq_relationship/", 2
  ),
  "classifier": heads.output_shapes(tiny_model.tiny(), "", 3),
}
BOTH_HEADS = ["masked_lm", "next_sentence"]


class Layout(NamedTuple):
  """The layout of the files of a family of models."""

  checkpoint: str = ""  # TF1 prefix; without it, the weights are safetensors
  config: dict = {}  # keys of the configuration besides SHAPE
  words: str = UNCASED
  tokenizer: dict | None = None  # tokenizer_config.json
  heads: list = []  # keys of HEADS
  without: str = "^$"  # regular expression for BERT's missing names
  more: dict = {}  # arrays under names that BERT lacks
  prefix: str = "bert."  # of the encoder's Hugging Face names
  old_norms: bool = False  # layer norms have gamma and beta
  is_cased: bool = False  # whether the model reads cased text
  flags: dict = {}  # what a user must pass


BERT = {"model_type": "bert"}
CASED_BY_FLAG = {
  "words": CASED,
  "is_cased": True,
  "flags": {"do_lower_case": False},
}
LAYOUTS = {
  "SciBERT": Layout(old_norms=True, heads=["masked_lm"]),
  "SciBERT, cased": Layout(**CASED_BY_FLAG),
  "SciBERT, TF1": Layout("bert_model.ckpt", heads=BOTH_HEADS),
  "BioBERT 1.0, TF1": Layout(
    "biobert_model.ckpt",
    heads=BOTH_HEADS,
    more={
      "bert/pooler/dense/kernel/adam_m": np.zeros((16, 16), np.float32),
      "global_step": np.array(5, np.int64),
    },
    **CASED_BY_FLAG,
  ),
  "BioBERT 1.1, TF1": Layout("model.ckpt-1000000", **CASED_BY_FLAG),
  "BioBERT": Layout(config=BERT, **CASED_BY_FLAG),
  "ClinicalBERT": Layout(config=BERT, heads=BOTH_HEADS, **CASED_BY_FLAG),
  "LegalBERT": Layout(
    config={**BERT, "output_past": True},
    tokenizer={"do_lower_case": True},
    heads=BOTH_HEADS,
  ),
  "FinBERT": Layout(
    heads=["classifier"],
    config={
      **BERT,
      "architectures": ["BertForSequenceClassification"],
      "id2label": {"0": "positive", "1": "negative", "2": "neutral"},
    },
  ),
  "TinyBERT": Layout(
    config={"cell": {}, "emb_size": 16, "structure": []},
    more={
      "fit_denses.0.weight": np.zeros((16, 16), np.float32),
      "fit_denses.0.bias": np.zeros(16, np.float32),
    },
  ),
  "MiniLM": Layout(
    config=BERT,
    prefix="",
    tokenizer={"do_lower_case": True},
    more={"embeddings.position_ids": np.arange(12)[None]},
  ),
  "SpanBERT": Layout(without="^bert/pooler/", **CASED_BY_FLAG),
  "multilingual, TF1": Layout(
    "bert_model.ckpt",
    heads=BOTH_HEADS,
    config={"directionality": "bidi", "pooler_fc_size": 768},
    **CASED_BY_FLAG,
  ),
  "multilingual": Layout(
    config={**BERT, "pooler_type": "first_token_transform"},
    words=CASED,
    tokenizer={"do_lower_case": False},
    is_cased=True,
    heads=["masked_lm"],
  ),
  "Chinese": Layout(
    config={**BERT, "directionality": "bidi"},
    words=CHINESE,
    tokenizer={"do_lower_case": False},
    is_cased=True,
    heads=["masked_lm"],
  ),
  "Chinese whole-word masking": Layout(
    config={**BERT, "architectures": ["BertForMaskedLM"]},
    words=CHINESE,
    heads=["masked_lm"],
  ),
}


def all_shapes(layout):
  shapes = configuration.bert_shapes(tiny_model.tiny(vocab_size=12))
  for head in layout.heads:
    shapes.update(HEADS[head])
  return {n: s for n, s in shapes.items() if not re.search(layout.without, n)}


def random_weights(layout):
  rng = np.random.default_rng(0)
  return {
    name: rng.normal(0, 0.5, shape).astype(np.float32)
    for name, shape in all_shapes(layout).items()
  }


def write_weights(folder, layout, weights):
  if layout.checkpoint:
    weight_files.write_tf1(
      str(folder / layout.checkpoint), {**weights, **layout.more}
    )
    return
  tensors = {}
  for row in weight_names.rows("bert", weights):
    if row.tf1 in weights:
      name = re.sub("^bert[.]", layout.prefix, row.name)
      if layout.old_norms:
        name = re.sub(r"(LayerNorm\.)weight$", r"\1gamma", name)
        name = re.sub(r"(LayerNorm\.)bias$", r"\1beta", name)
      tensors[name] = weight_names.from_tf1(weights[row.tf1], row.layout)
  tensors.update(layout.more)
  safetensors.numpy.save_file(tensors, folder / "model.safetensors")


def write_folder(folder, layout, weights):
  write_weights(folder, layout, weights)
  is_tf1 = bool(layout.checkpoint)
  name = "bert_config.json" if is_tf1 else "config.json"
  (folder / name).write_text(json.dumps({**SHAPE, **layout.config}))
  # As in some published files: no newline at the end, and CRLF.
  tokens = [*tiny_model.SPECIAL, *layout.words.split()]
  text = ("\r\n" if is_tf1 else "\n").join(tokens)
  (folder / "vocab.txt").write_bytes(text.encode())
  if layout.tokenizer is not None:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(layout.tokenizer))


def settings_for(folder, flags):
  values = {
    "model_dir": str(folder),
    "bert_config_file": None,
    "vocab_file": None,
    "init_checkpoint": None,
    "do_lower_case": True,
  }
  return run_settings.Settings({**values, **flags}, {"model_dir", *flags})


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_folder_of_this_layout_is_loaded(tmp_path, name):
  layout = LAYOUTS[name]
  weights = random_weights(layout)
  write_folder(tmp_path, layout, weights)
  settings = tiny_model.completed(settings_for(tmp_path, layout.flags))
  assert settings.do_lower_case is not layout.is_cased
  config = modeling.BertConfig.from_json_file(settings.bert_config_file)
  is_tf1 = bool(layout.checkpoint)
  assert config.hidden_act == ("gelu" if is_tf1 else "gelu_erf")
  labels = layout.config.get("id2label", {})
  assert config.label_names() == list(labels.values())
  model = modeling.BertModel(config)
  report = weight_files.load(
    model.variables, settings.init_checkpoint, allowed_missing=[layout.without]
  )
  for variable in model.variables:
    key = variable.name.removesuffix(":0")
    if key in weights:
      np.testing.assert_array_equal(variable, weights[key], err_msg=key)
  head_names = {n for head in layout.heads for n in HEADS[head]}
  added = {n for n in layout.more if n.startswith("fit_denses")}
  assert set(report.unused) == head_names | added
  tokenizer = tokenization.FullTokenizer(
    settings.vocab_file, do_lower_case=settings.do_lower_case
  )
  texts = {
    CASED: ("The patients ran.", ["The", "patient", "##s", "ran", "."]),
    UNCASED: ("The banks ran.", ["the", "bank", "##s", "ran", "."]),
    CHINESE: ("中国人.", ["中", "国", "人", "."]),
  }
  text, pieces = texts[layout.words]
  assert tokenizer.tokenize(text) == pieces
  assert model(tf.constant([[2, 5, 3]])).pooled_output.shape == (1, 16)


def test_every_row_of_the_page_has_a_test():
  page = PAGE.read_text(encoding="utf-8")
  section = page.partition("## Models with BERT's network")[2]
  table = section.partition("\n## ")[0]
  rows = re.findall(r"^\| ([^|]+?) \|", table, re.M)
  assert set(rows) - {"model", "---"} == {*LAYOUTS, "Japanese"}


def test_japanese_vocabularies_need_another_tokenizer(tmp_path):
  layout = Layout(
    config=BERT,
    tokenizer={
      "do_lower_case": False,
      "word_tokenizer_type": "mecab",
      "subword_tokenizer_type": "wordpiece",
      "tokenizer_class": "BertJapaneseTokenizer",
    },
  )
  weights = random_weights(layout)
  write_folder(tmp_path, layout, weights)
  with pytest.raises(errors.InputError, match="BertJapaneseTokenizer .*mecab"):
    tiny_model.completed(settings_for(tmp_path, {}))
  reader = weight_files.open_reader(str(tmp_path))
  assert set(reader.shapes) == set(weights)
  # The page's commands write a tokenizer.json for text split into words.
  words = ["東京", "に", "##タワー", "行く"]
  tiny_model.write_vocabulary(tmp_path, words)
  section = PAGE.read_text(encoding="utf-8").partition("### Japanese")[2]
  code = section[section.index("    import os") :].partition("\n\n")[0]
  code = textwrap.dedent(code).replace("bert-base-japanese/", f"{tmp_path}/")
  exec(code.replace('"japanese', f'"{tmp_path}/japanese'))
  flags = {"vocab_file": f"{tmp_path}/japanese/tokenizer.json"}
  settings = tiny_model.completed(settings_for(tmp_path, flags))
  tokenizer = vocabularies.make_tokenizer(settings.vocab_file)
  assert tokenizer.tokenize("東京タワー に 行く 東京駅") == [
    "東京",
    "##タワー",
    "に",
    "行く",
    "[UNK]",
  ]


def test_a_cased_vocabulary_without_the_flag_gives_a_warning(tmp_path, caplog):
  layout = LAYOUTS["BioBERT"]
  write_folder(tmp_path, layout, random_weights(layout))
  tiny_model.completed(settings_for(tmp_path, {}))
  assert "pass --do_lower_case=false" in caplog.text
  caplog.clear()
  tiny_model.completed(settings_for(tmp_path, layout.flags))
  assert "do_lower_case" not in caplog.text


def test_config_json_next_to_huggingface_weights_has_their_gelu(tmp_path):
  path = tmp_path / "config.json"
  path.write_text(json.dumps(SHAPE))
  assert modeling.BertConfig.from_json_file(path).hidden_act == "gelu"
  (tmp_path / "pytorch_model.bin").touch()
  assert modeling.BertConfig.from_json_file(path).hidden_act == "gelu_erf"
  paths = model_files.ModelFiles(str(tmp_path)).paths
  assert paths["bert_config_file"] == str(path)
  assert configuration.read(str(path))["hidden_act"] == "gelu_erf"
