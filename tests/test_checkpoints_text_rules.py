"""Text rules of tokenizer files are followed, converted or refused."""

import json
import logging
import re

import pytest
import tensorflow as tf

import tiny_model
from checkpoints import converter, model_files, weight_files
from common import errors
from exports import graph_tokenizer
from message_facts import says
from script_runner import ROOT
from variants import registry, vocabularies, vocabulary_files

GOLDEN = json.loads(
  (ROOT / "tests" / "golden" / "text_rules" / "rules.json").read_text("utf-8")
)
CASES = {case["name"]: case for case in GOLDEN["cases"]}
# Cases whose vocabulary file is a list of word pieces, vocab.txt.
LISTS = [name for name in CASES if name.startswith("lower")]


def write_folder(folder, files):
  """Writes a model folder without weights; returns its vocabulary file."""
  folder.mkdir(exist_ok=True)
  (folder / "vocab.txt").write_text("\n".join(GOLDEN["vocab"]) + "\n", "utf-8")
  for name, values in {"config.json": {"model_type": "bert"}, **files}.items():
    (folder / name).write_text(json.dumps(values))
  return model_files.ModelFiles(str(folder)).paths["vocab_file"]


def tokenizer_of(vocab_file):
  files = vocabulary_files.VocabularyFiles(vocab_file)
  files.check()
  return vocabularies.make_tokenizer(files, do_lower_case=files.do_lower_case)


def ids_of(vocab_file):
  return list(map(tokenizer_of(vocab_file).encode, GOLDEN["texts"]))


@pytest.mark.parametrize("name", CASES)
def test_ids_are_those_of_transformers(name, tmp_path):
  vocab_file = write_folder(tmp_path, CASES[name]["files"])
  assert vocab_file.endswith("vocab.txt") == (name in LISTS)
  assert ids_of(vocab_file) == CASES[name]["ids"]
  ids, lengths, _ = tokenizer_of(vocab_file).encode_lines(GOLDEN["texts"])
  assert list(ids) == sum(CASES[name]["ids"], [])
  assert lengths == list(map(len, CASES[name]["ids"]))


@pytest.mark.parametrize("name", [name for name in LISTS if "None" not in name])
def test_configured_rules_replace_those_of_a_file(name, tmp_path, caplog):
  files = json.loads(json.dumps(CASES["added two"]["files"]))
  vocab = {word: number for number, word in enumerate(GOLDEN["vocab"])}
  files["tokenizer.json"]["model"]["vocab"] = vocab
  files["tokenizer.json"]["added_tokens"] = []
  files["tokenizer_config.json"] = CASES[name]["files"]["tokenizer_config.json"]
  for normalizer in (files["tokenizer.json"]["normalizer"], None):
    files["tokenizer.json"]["normalizer"] = normalizer
    write_folder(tmp_path, files)
    (tmp_path / "vocab.txt").unlink()
    vocab_file = model_files.ModelFiles(str(tmp_path)).paths["vocab_file"]
    tokenizer = vocabularies.make_tokenizer(vocab_file)
    assert [*map(tokenizer.encode, GOLDEN["texts"])] == CASES[name]["ids"]
  assert re.search(says("tokenizer.json", "tokenizer_con", "no"), caplog.text)


@pytest.mark.parametrize(
  "name, every_character",
  [
    ("lower=True strip=False han=False", False),
    *(
      pytest.param(name, True, marks=pytest.mark.slow)
      for name in LISTS
      if "None" not in name
    ),  # Left out: cases with strip=None, which equal True or False.
  ],
)
def test_the_graph_has_the_same_rules(name, every_character, tmp_path):
  tokenizer = tokenizer_of(write_folder(tmp_path, CASES[name]["files"]))
  graph = graph_tokenizer.GraphTokenizer(tokenizer)
  ids = graph.tokenize(tf.constant(GOLDEN["texts"])).ids.to_list()
  assert ids == CASES[name]["ids"]
  if every_character:
    graph_tokenizer.check_same(graph, tokenizer)


@pytest.mark.parametrize("to", ["huggingface", "tf1", "tf2"])
@pytest.mark.parametrize(
  "name",
  [
    "lower=True strip=False han=False",
    "lower=False strip=True han=True",
    "added two",
  ],
)
def test_conversions_keep_the_rules(name, to, tmp_path):
  config = tiny_model.tiny(vocab_size=len(GOLDEN["vocab"]) + 2)
  folder = tmp_path / "model"
  vocab_file = write_folder(folder, CASES[name]["files"])
  (folder / "config.json").unlink()
  (folder / "bert_config.json").write_text(config.to_json_string())
  variables = registry.make_encoder(config).variables
  weight_files.write_tf1(
    str(folder / "bert_model.ckpt"), weight_files.by_name(variables)
  )
  source = converter.open_source(str(tmp_path / "model"))
  assert source.vocab_file == vocab_file
  converter.convert(source, str(tmp_path / "out"), to)
  assert (
    ids_of(model_files.ModelFiles(str(tmp_path / "out")).paths["vocab_file"])
    == (CASES[name]["ids"])
  )
  if to == "huggingface":
    # Other programs read tokenizer.json, which has the same rules.
    tokenizer = vocabularies.make_tokenizer(
      str(tmp_path / "out/tokenizer.json")
    )
    assert list(map(tokenizer.encode, GOLDEN["texts"])) == CASES[name]["ids"]


URL = {str(len(GOLDEN["vocab"])): {"content": "<URL>", "special": False}}


@pytest.mark.parametrize(
  "files, message",
  [
    (
      {"added_tokens.json": {"<URL>": 28}},
      "added tokens are <URL>, which a li",
    ),
    (
      {"tokenizer_config.json": {"added_tokens_decoder": URL}},
      "are <URL>, whi",
    ),
    (
      {"special_tokens_map.json": {"additional_special_tokens": ["[E1]"]}},
      r"added tokens are \[E1\], which",
    ),
    ({"tokenizer_config.json": {"cls_token": "<s>"}}, says("cls_token", "<s>")),
    (
      {"special_tokens_map.json": {"mask_token": {"content": "<m>"}}},
      says("mask_token", "<m>", "cannot"),
    ),
    (
      {"tokenizer_config.json": {"do_basic_tokenize": False}},
      "do_basic_tokenize is false",
    ),
    (
      {**CASES["added plain"]["files"], "added_tokens.json": {"[E1]": 29}},
      says("tokenizer.json", "[E1]", "lacks"),
    ),
    (
      {"tokenizer_config.json": {"strip_accents": "no"}},
      says("strip_accents", "'no'"),
    ),
  ],
)
def test_unsupported_rules_are_refused(tmp_path, files, message):
  with pytest.raises(errors.InputError, match=message):
    tokenizer_of(write_folder(tmp_path, files))


def test_added_tokens_that_a_vocab_txt_can_hold(tmp_path):
  specials = {str(n): {"content": GOLDEN["vocab"][n]} for n in range(5)}
  vocab_file = write_folder(
    tmp_path,
    {
      "tokenizer_config.json": {
        "added_tokens_decoder": specials,
        "never_split": ["tamar"],
        "do_lower_case": True,
      },
      "added_tokens.json": {"tamar": 25},
    },
  )
  assert tokenizer_of(vocab_file).never_split == ()
  assert vocab_file.endswith("vocab.txt")


def test_a_tokenizer_json_says_what_the_configuration_does_not(tmp_path):
  rules = json.loads(json.dumps(CASES["added plain"]["files"]))
  rules["tokenizer.json"]["added_tokens"].pop()
  rules["tokenizer.json"]["normalizer"].update(
    lowercase=False, strip_accents=True
  )
  vocab_file = write_folder(
    tmp_path,
    {
      "tokenizer.json": rules["tokenizer.json"],
      "tokenizer_config.json": {"tokenizer_class": "BertTokenizer"},
    },
  )
  expected = CASES["lower=False strip=True han=True"]["ids"]
  assert vocab_file.endswith("vocab.txt") and ids_of(vocab_file) == expected


def test_an_outdated_vocab_txt_is_not_used(tmp_path, caplog):
  caplog.set_level(logging.INFO, "absl")
  rules = json.loads(json.dumps(CASES["added plain"]["files"]))
  rules["tokenizer.json"]["added_tokens"].pop()
  vocab = rules["tokenizer.json"]["model"]["vocab"]
  for word, name in (("tamar", "TokenizersBackend"), ("zebra", None)):
    vocab[word] = vocab.pop("tamar")
    rules["tokenizer_config.json"] = {"tokenizer_class": name}
    assert write_folder(tmp_path, rules) == str(tmp_path / "tokenizer.json")
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING"] * (word == "zebra") + ["INFO"]
    reason = ("vocab.txt", "differ") if word == "zebra" else (name,)
    for line in caplog.messages:
      assert re.search(says("tokenizer.json", *reason), line)
    caplog.clear()


def test_ignored_settings_are_named_once(tmp_path, caplog):
  files = json.loads(json.dumps(CASES["added plain"]["files"]))
  files["tokenizer.json"]["added_tokens"].pop()
  files["tokenizer.json"]["normalizer"]["strip_accents"] = False
  files["tokenizer_config.json"] |= {
    "strip_accents": True,
    "fold_digits": True,
    "truncation_side": "left",
    "padding_side": "left",
    "name_or_path": "x",
  }
  vocab_file = write_folder(tmp_path, files)
  for _ in range(2):
    assert ids_of(vocab_file) == CASES["lower=True strip=True han=True"]["ids"]
  assert caplog.text.count("this project ignores fold_digits, truncation_") == 1
  assert caplog.text.count("{'strip_accents': True}, but the tokenizer") == 1


@pytest.mark.parametrize(
  "vocabulary, tokenizer_class, winner",
  [
    ("tokenizer.json", "TokenizersBackend", "tokenizer.json"),
    ("tokenizer.json", "X", "tokenizer_config.json"),
    ("words.txt", "TokenizersBackend", "tokenizer_config.json"),
  ],
)
def test_the_file_that_takes_precedence_is_named(
  vocabulary, tokenizer_class, winner, tmp_path, caplog
):
  rules = {"type": "BertNormalizer", "lowercase": True, "strip_accents": None}
  values = {"normalizer": rules, "model": {"vocab": {"[UNK]": 0}}}
  (tmp_path / "tokenizer.json").write_text(json.dumps(values))
  config = {
    "tokenizer_class": tokenizer_class,
    "do_lower_case": False,
    "strip_accents": True,
  }
  if (
    vocabulary == "tokenizer.json"
  ):  # It has all rules; no other has an effect.
    config["fold_digits"] = True
  (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
  path = str(tmp_path / vocabulary)
  vocabulary_files.VocabularyFiles(path).check()
  (message,) = caplog.messages
  assert "'do_lower_case': False" in message and "accents" not in message
  assert f"{winner} takes" in message


@pytest.mark.parametrize(
  "values, length",
  [
    ({"model_max_length": 512}, 512),
    ({"model_max_length": 128.0, "max_len": 64}, 128),
    # The name in old files.
    ({"max_len": 64}, 64),
    ({"model_max_length": 1e30}, None),
    ({"model_max_length": 10**9}, None),
    ({"model_max_length": 10**9 - 1}, 10**9 - 1),
    ({}, None),
  ],
)
def test_the_longest_input_of_a_tokenizer(values, length, tmp_path):
  (tmp_path / "tokenizer_config.json").write_text(json.dumps(values))
  files = vocabulary_files.VocabularyFiles(str(tmp_path / "vocab.txt"))
  assert files.max_length == length


@pytest.mark.parametrize(
  "token, has_capitals",
  [
    ("Word", True),
    ("wOrd", True),
    ("##S", True),
    ("[X]", False),
    ("[X", True),
    ("word", False),
    ("\u00c9", False),
    ("[UNK]s", True),
  ],
)
def test_capitals_outside_of_brackets_show_a_cased_list(
  token, has_capitals, tmp_path
):
  path = tmp_path / "vocab.txt"
  path.write_text(f"[UNK]\n{token}\n", encoding="utf-8")
  files = vocabulary_files.VocabularyFiles(str(path))
  assert files.has_capitals == has_capitals
  assert files.likely_case == (not has_capitals)
  (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
  assert vocabulary_files.VocabularyFiles(str(path)).likely_case


@pytest.mark.parametrize(
  "key", ["additional_special_tokens", "extra_special_tokens"]
)
@pytest.mark.parametrize("as_object", [False, True])
@pytest.mark.parametrize("file", ["special_tokens_map", "tokenizer_config"])
def test_added_tokens_are_found_in_every_form(key, as_object, file, tmp_path):
  tokens = ["[E1]", {"content": "[E2]"}]
  value = dict(zip("ab", tokens)) if as_object else tokens
  (tmp_path / f"{file}.json").write_text(json.dumps({key: value}))
  (tmp_path / "added_tokens.json").write_text('{"[E3]": 30}')
  files = vocabulary_files.VocabularyFiles(str(tmp_path / "vocab.txt"))
  (fault,) = files.beyond_a_list
  assert fault.endswith("[E1], [E2], [E3]")


@pytest.mark.parametrize(
  "files, variant, expected",
  [
    (["vocab.txt"], "bert", "vocab.txt"),
    (["tokenizer.json"], "bert", "tokenizer.json"),
    (["vocab.txt", "tokenizer.json"], "xlm-roberta", "tokenizer.json"),
    (["vocab.txt", "bpe.codes"], "roberta", "vocab.txt"),
    (["vocab.txt"], "camembert", None),
    (["vocab.txt"], "roberta", None),
    (["vocab.txt", "tokenizer.json"], "roberta", "tokenizer.json"),
    (["30k-clean.model", "z.model"], "albert", "30k-clean.model"),
    (["vocab.json", "merges.txt"], "roberta", "vocab.json"),
    (["vocab.json"], "roberta", None),
    (["other.model"], "xlm-roberta", "other.model"),
    (["b.model", "a.model"], "albert", "a.model"),
    (["words.txt"], "bert", None),
  ],
)
def test_the_vocabulary_of_a_folder(files, variant, expected, tmp_path):
  for name in files:
    (tmp_path / name).write_text("{}")
  found = vocabulary_files.of_folder(str(tmp_path), variant)
  path = found and found.path
  assert path == (str(tmp_path / expected) if expected else None)


def files_at(folder, name="vocab.txt", **contents):
  """Returns the VocabularyFiles of {stem of a JSON file: its entries}."""
  for stem, values in contents.items():
    (folder / f"{stem}.json").write_text(json.dumps(values))
  return vocabulary_files.VocabularyFiles(str(folder / name))


def test_settings_that_change_no_ids_give_no_warning(tmp_path, caplog):
  config = {
    **vocabulary_files.SPECIALS,
    "padding_side": "left",
    "truncation_side": "right",
    "chat_template": "x",
    "word_tokenizer_type": "basic",
  }
  files_at(tmp_path, tokenizer_config=config).check()
  assert not caplog.messages


@pytest.mark.parametrize(
  "config, fact",
  [
    ({"tokenizer_class": "BertJapaneseTokenizer"}, "'mecab'"),
    ({"word_tokenizer_type": "sudachi"}, "a tokenizer with .* 'sudachi'"),
  ],
)
def test_words_of_another_analyser_are_refused(config, fact, tmp_path):
  with pytest.raises(errors.InputError, match=fact):
    files_at(tmp_path, tokenizer_config=config).check()


@pytest.mark.parametrize(
  "config, token, count",
  [("[CLS]", "<s>", 0), ("<s>", "[CLS]", 1), (None, "<s>", 1), (None, None, 0)],
)
def test_the_configuration_wins_over_the_map_of_tokens(
  config, token, count, tmp_path
):
  files = files_at(
    tmp_path,
    tokenizer_config={"cls_token": config},
    special_tokens_map={"cls_token": token},
  )
  assert len(files.beyond_a_list) == count


@pytest.mark.parametrize("token, is_lost", [("<e>", False), ("<f>", True)])
def test_added_tokens_of_a_unigram_model_may_be_pieces(
  token, is_lost, tmp_path
):
  model = {"type": "Unigram", "vocab": [["a", 0.0], [], "x", ["<e>", -1.0]]}
  files = files_at(
    tmp_path,
    "tokenizer.json",
    tokenizer={"model": model},
    added_tokens={token: 1},
  )
  if not is_lost:
    files.check()
    return
  with pytest.raises(errors.InputError, match=says("tokenizer.json", "<f>")):
    files.check()


def test_a_missing_tokenizer_json_has_lost_no_tokens(tmp_path):
  """Its absence is reported by what reads it."""
  files = files_at(tmp_path, "tokenizer.json", added_tokens={"<e>": 1})
  assert files._lost_tokens() == set()


LOWER = {"normalizer": {"type": "BertNormalizer", "lowercase": True}}


@pytest.mark.parametrize(
  "name, contents, lowers, settings",
  [
    ("vocab.txt", {}, True, {"never_split": ()}),
    (
      "vocab.txt",
      {"tokenizer_config": {"do_lower_case": False, "never_split": ["a"]}},
      False,
      {"never_split": ("a",), "do_lower_case": False},
    ),
    (
      "vocab.txt",
      {"tokenizer": {"normalizer": {"type": "BertNormalizer"}}},
      True,
      {"never_split": ()},
    ),
    (
      "vocab.txt",
      {"tokenizer": LOWER},
      True,
      {"never_split": (), "do_lower_case": True},
    ),
    ("tokenizer.json", {"tokenizer": LOWER}, True, {"do_lower_case": False}),
    ("tokenizer.json", {"tokenizer": {}}, False, {"do_lower_case": False}),
  ],
)
def test_the_case_and_whole_words_of_a_vocabulary(
  name, contents, lowers, settings, tmp_path
):
  files = files_at(tmp_path, name, **contents)
  assert files.lowers_text is lowers and files.settings == settings


@pytest.mark.parametrize(
  "names, stored, expected",
  [
    ([], None, False),
    (["config.json"], None, True),
    (["tokenizer.json"], None, True),
    (["config.json", "bert_config.json"], None, False),
    (["config.json", "bert_config.json"], True, True),
    (["config.json"], False, False),
    (["vocab.json", "merges.txt"], None, True),
  ],
)
def test_which_programs_rules_a_folder_has(names, stored, expected, tmp_path):
  for name in names:
    (tmp_path / name).write_text("{}" if name.endswith("json") else "")
  config = {"like_transformers": stored, "tokenize_chinese_chars": True}
  vocabulary = "vocab.json" if "vocab.json" in names else "vocab.txt"
  files = files_at(tmp_path, vocabulary, tokenizer_config=config)
  assert files.like_transformers is expected
  assert files.text_rules == ({"like_transformers": True} if expected else {})


@pytest.mark.parametrize(
  "contents, count",
  [
    ({"tokenizer": {"model": {"vocab": {"a ": 0, "b": 1}}}}, 0),
    ({"tokenizer": {"model": {}}}, 0),
    ({"tokenizer": {"model": {"vocab": {"a": 1, "b": 0}}}}, 1),
    ({"tokenizer": {"model": {"vocab": [["a", 0.0], ["b", 0.0]]}}}, 1),
    ({"tokenizer_config": {"tokenizer_class": "TokenizersBackend"}}, 1),
    (
      {
        "tokenizer_config": {
          "tokenizer_class": "PreTrainedTokenizerFast",
          "do_basic_tokenize": False,
        },
        "added_tokens": {"<e>": 2},
      },
      3,
    ),
  ],
)
def test_reasons_against_a_list(contents, count, tmp_path, caplog):
  (tmp_path / "vocab.txt").write_text("a\nb\n")
  assert len(files_at(tmp_path, **contents).unlike_tokenizer()) == count
  warns = count and "tokenizer" in contents
  assert len(caplog.messages) == (1 if warns else 0)


@pytest.mark.parametrize(
  "kind, is_added", [("WordPiece", True), ("BPE", False)]
)
def test_only_word_pieces_get_berts_rules(kind, is_added, tmp_path, caplog):
  values = {"model": {"type": kind}}
  config = {"do_lower_case": False, "like_transformers": False}
  files = files_at(
    tmp_path, "tokenizer.json", tokenizer=values, tokenizer_config=config
  )
  rules = {
    "type": "BertNormalizer",
    "clean_text": True,
    "lowercase": False,
    "strip_accents": None,
    "handle_chinese_chars": True,
  }
  expected = {**values, "normalizer": rules} if is_added else values
  assert files.merged_tokenizer == expected
  assert len(caplog.messages) == is_added
