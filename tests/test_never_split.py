"""Tests that the tokenizers keep the words of never_split whole."""

import json
import random

import pytest
import tokenizers

import tiny_model
import tokenization
from checkpoints import tokenizer_files
from common import errors, run_settings
from exports import graph_tokenizer
from message_facts import says
from script_runner import run
from tiny_model import write_shape, write_vocabulary
from variants import vocabularies, vocabulary_files

PIECES = ["c++", "C#", "node.js", "\u00e9,", "\u4e2d", "c", "+", ","]
PIECES += [".", "node", "js", "a", "b", "#", "C", "new-york", "e", "A"]
NEVER = ["c++", "C#", "node.js", "\u00e9,", "\u4e2d", "[MASK]"]
# Tokens from Hugging Face's BertTokenizer; a pair is (lower-cased, cased).
EXPECTED = {
  "a c++ b": ["a", "c++", "b"],
  "C++": (["c++"], ["C", "+", "+"]),
  "C# c#": ["C#", "c", "#"],
  "c++, c++b": ["c", "+", "+", ",", "c", "+", "+", "b"],
  "\u4e2dc++\u4e2d": ["\u4e2d", "c++", "\u4e2d"],
  "c\u200b+\t+ \u200bc++\u2028c++": ["c", "+", "+", "c++", "c++"],
  "Node.js node.js.": (
    ["node.js", "node", ".", "js", "."],
    ["[UNK]", ".", "js", "node", ".", "js", "."],
  ),
  "c\u0301++ \u00e9, e,": (
    ["c++", "\u00e9,", "e", ","],
    ["[UNK]", "+", "+", "\u00e9,", "e", ","],
  ),
  "[MASK] [mask]": (
    ["[MASK]", "[UNK]", "[UNK]", "[UNK]"],
    ["[MASK]", "[UNK]", "[UNK]", "[UNK]"],
  ),
}


@pytest.fixture(scope="module", params=[True, False], ids=["lower", "cased"])
def tokenizer(request, tmp_path_factory):
  folder = tmp_path_factory.mktemp("vocab")
  return tokenization.FullTokenizer(
    write_vocabulary(folder, PIECES), request.param, NEVER
  )


def random_lines(count):
  rng = random.Random(3)
  parts = ["[MASK]", *PIECES, *map(str.upper, PIECES)]
  parts += " ,  \u0301\u200b\u00c9"
  return ["".join(rng.choices(parts, k=9)) for _ in range(count)]


@pytest.mark.parametrize("text", EXPECTED)
def test_words_of_the_list_stay_whole(text, tokenizer):
  expected = EXPECTED[text]
  if isinstance(expected, tuple):
    expected = expected[not tokenizer.do_lower_case]
  assert tokenizer.tokenize(text) == expected
  assert tokenizer.encode(text) == tokenizer.convert_tokens_to_ids(expected)


def test_texts_without_these_words_are_tokenized_as_usual(tokenizer):
  plain = tokenization.FullTokenizer(
    tokenizer.vocab_file, tokenizer.do_lower_case
  )
  for line in random_lines(300):
    text = line.replace(" ", "") + "."
    if "\u4e2d" not in text:
      assert tokenizer.tokenize(text) == plain.tokenize(text)


def test_the_graph_tokenizer_refuses_the_list(tokenizer):
  with pytest.raises(errors.InputError, match="cannot keep words whole"):
    graph_tokenizer.GraphTokenizer(tokenizer)


def test_tokenizer_json_and_the_stored_list(tokenizer, tmp_path, caplog):
  lower = tokenizer.do_lower_case
  tokenizer_files.write(
    str(tmp_path),
    tokenizer.vocab_file,
    lower,
    512,
    fast=True,
    never_split=NEVER,
  )
  fast = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
  # In tokenizer.json, these stay whole even next to punctuation: skip them.
  changed = {"C#", "\u00e9,", "[MASK]"} if lower else {"[MASK]"}
  texts = [
    text
    for text in [*EXPECTED, *random_lines(500)]
    if not any(word in text for word in changed)
  ]
  assert len(texts) > 100
  for text in texts:
    ids = fast.encode(text, add_special_tokens=False).ids
    assert ids == tokenizer.encode(text), text
  assert fast.encode("a C# b", add_special_tokens=False).tokens[1] == "C#"
  assert ("tokenizer.json keeps C#, " in caplog.text) == lower
  # Copies keep the list.
  copy = tmp_path / "copy"
  copy.mkdir()
  tokenizer_files.write(str(copy), str(tmp_path / "vocab.txt"), None, 512)
  files = vocabulary_files.VocabularyFiles(str(copy / "vocab.txt"))
  assert files.never_split == tuple(NEVER)


def test_word_text_keeps_a_word_of_the_list(tokenizer):
  assert tokenizer.word_text("c++") == "c++"


@pytest.mark.parametrize(
  "word", ["d++", "a b", "a\u200b", "\u4e2da", "", "A\n"]
)
def test_words_that_cannot_stay_whole(word, tokenizer):
  with pytest.raises(errors.InputError) as raised:
    tokenization.FullTokenizer(tokenizer.vocab_file, True, ["c++", word, "x+"])
  assert f"never_split: {word!r}, 'x+' cannot stay whole" in str(raised.value)


def test_never_split_is_refused_with_a_tokenizer_json():
  with pytest.raises(errors.InputError, match=says("tokenizer.json", "leave")):
    vocabularies.make_tokenizer("tokenizer.json", never_split=["a"])


def resolved(path, given_flags=(), **flags):
  return tiny_model.completed(
    run_settings.Settings(
      {
        "vocab_file": str(path / "vocab.txt"),
        "do_lower_case": True,
        "never_split": (),
        **flags,
      },
      given_flags,
    )
  ).never_split


def test_flags_override_the_stored_list(tmp_path):
  (tmp_path / "vocab.txt").write_text("a\n")
  assert resolved(tmp_path) == ()
  (tmp_path / "tokenizer_config.json").write_text('{"never_split": ["x", "y"]}')
  assert resolved(tmp_path) == ("x", "y")
  flags = {"never_split": ["a"]}
  assert resolved(tmp_path, flags, **flags) == ("a",)
  assert resolved(tmp_path, ["never_split"]) == ()
  (tmp_path / "tokenizer_config.json").write_text('{"never_split": null}')
  assert resolved(tmp_path) == ()
  (tmp_path / "tokenizer_config.json").write_text('{"never_split": "x"}')
  with pytest.raises(
    errors.InputError, match=says("never_split", "'x'", "expected")
  ):
    resolved(tmp_path)


@pytest.mark.slow
def test_a_trained_model_keeps_the_list(tmp_path):
  (tmp_path / "train.tsv").write_text(
    "text\tlabel\n" + "c++ a\tgood\nc + + a\tbad\n" * 2
  )
  model_flags = write_shape(tmp_path, ["c++", "c", "+", "a"])
  run(
    "run_classifier.py",
    **model_flags,
    do_train=True,
    never_split="c++",
    train_file=tmp_path / "train.tsv",
    max_train_steps=1,
    train_batch_size=2,
    max_seq_length=8,
    output_dir=tmp_path / "out",
  )
  folder = tmp_path / "out" / "final_model"
  config = json.loads((folder / "tokenizer_config.json").read_text())
  assert config["never_split"] == ["c++"]
  (tmp_path / "line.txt").write_text("c++ C++.\n")
  run(
    "extract_features.py",
    model_dir=folder,
    layers="-1",
    input_file=tmp_path / "line.txt",
    output_file=tmp_path / "line.jsonl",
  )
  line = json.loads((tmp_path / "line.jsonl").read_text())
  tokens = [token["token"] for token in line["features"]]
  assert tokens == ["[CLS]", "c++", "c", "+", "+", "[UNK]", "[SEP]"]
