"""Vocabularies before tokenizer.json, compared with transformers."""

import base64
import json
import pickle

import pytest

import tiny_model
from checkpoints import model_writer
from common import errors
from features import text_batches
from script_runner import ROOT
from variants import sentencepiece_model, vocabularies, vocabulary_files

PATH = ROOT / "tests" / "golden" / "older_tokenizers" / "ids.json"
GOLDEN = json.loads(PATH.read_text(encoding="utf-8"))
CASES = {case["name"]: case for case in GOLDEN["cases"]}
TEXTS = [text for text in GOLDEN["texts"] if not {"<", "["} & {*text}]


def write_folder(folder, name):
  """Writes the folder of a case; returns its VocabularyFiles."""
  folder.mkdir(exist_ok=True)
  case = CASES[name]
  for file, data in case["files"].items():
    (folder / file).write_bytes(base64.b64decode(data))
  config = json.dumps({"model_type": case["model_type"]})
  (folder / "config.json").write_text(config)
  if case["config"]:
    (folder / "tokenizer_config.json").write_text(json.dumps(case["config"]))
  return vocabulary_files.of_folder(str(folder), case["model_type"])


@pytest.mark.parametrize("name", CASES)
def test_ids_are_those_of_transformers(tmp_path, name):
  case, files = CASES[name], write_folder(tmp_path / "theirs", name)
  files.check()
  tokenizer = vocabularies.make_tokenizer(files)
  assert [*map(tokenizer.encode, TEXTS)] == case["ids"]
  encode = text_batches.make_encoder(tokenizer, 512)
  assert encode(*TEXTS[:2])[0] == case["pair"]
  assert tokenizer.mask_id == case["mask"]
  # An id that no file names would be beyond the model's embeddings.
  assert max(tokenizer.inv_vocab) <= max(case["mask"], *sum(case["ids"], []))
  words = TEXTS[0].split()
  assert sum(tokenizer.encode_words(words), []) == tokenizer.encode(TEXTS[0])
  # Worker processes get a copy.
  again = pickle.loads(pickle.dumps(tokenizer))
  assert [*map(again.encode, TEXTS)] == case["ids"]
  # A model of this project has the same files, which transformers reads, too.
  final = tmp_path / "final"
  final.mkdir()
  model_writer.write_config(str(final), tiny_model.tiny(), files.path, None)
  for file, data in case["files"].items():
    assert (final / file).read_bytes() == base64.b64decode(data)
  (final / "config.json").write_text(
    json.dumps({"model_type": case["model_type"]})
  )
  own = vocabulary_files.of_folder(str(final), case["model_type"])
  tokenizer = vocabularies.make_tokenizer(own)
  assert [*map(tokenizer.encode, TEXTS)] == case["ids"]


@pytest.mark.parametrize(
  "name, file, data, facts",
  [
    ("roberta", "merges.txt", b"#version: 0.2\na b\na b c\n", [":3", "a b c"]),
    ("roberta", "vocab.json", b"[1]", ["vocab.json"]),
    ("phobert", "vocab.txt", b"a@@ 3\nword\n", [":2", "word"]),
    ("phobert", "bpe.codes", b"a b 3\na\n", [":2", "'a'"]),
    ("albert", "spiece.model", b"\x0a\x7fabc", ["spiece.model", "copy it"]),
    ("albert", "spiece.model", b"\xff" * 30, ["spiece.model", "copy it"]),
    ("albert", "spiece.model", b"", ["0 pieces"]),
    (
      "albert",
      "spiece.model",
      b"\n\3\n\1a" * 5 + b"\x12\2\x18\2",
      ["algorithm 2"],
    ),
  ],
)
def test_damaged_files_are_named(tmp_path, name, file, data, facts):
  write_folder(tmp_path, name)
  (tmp_path / file).write_bytes(data)
  files = vocabulary_files.of_folder(str(tmp_path), CASES[name]["model_type"])
  with pytest.raises(errors.InputError) as refused:
    vocabularies.make_tokenizer(files)
  for fact in facts:
    assert fact in str(refused.value)


@pytest.mark.parametrize("missing", ["vocab.json", "merges.txt"])
def test_a_missing_file_is_named(tmp_path, missing):
  write_folder(tmp_path, "roberta")
  path = str(tmp_path / "vocab.json")
  files = vocabulary_files.VocabularyFiles(path)
  (tmp_path / missing).unlink()
  with pytest.raises(errors.InputError, match=f"no such file.*{missing}"):
    vocabularies.make_tokenizer(files)


def test_normalized_tweets_are_refused(tmp_path):
  write_folder(tmp_path, "bertweet")
  (tmp_path / "tokenizer_config.json").write_text('{"normalization": true}')
  files = vocabulary_files.of_folder(str(tmp_path), "roberta")
  with pytest.raises(errors.InputError, match="normalization is true"):
    vocabularies.make_tokenizer(files)


def test_a_tokenizer_json_takes_precedence(tmp_path):
  assert write_folder(tmp_path, "roberta").path.endswith("vocab.json")
  (tmp_path / "tokenizer.json").write_text("{}")
  files = vocabulary_files.of_folder(str(tmp_path), "roberta")
  assert files.path.endswith("tokenizer.json")


def converted(folder, **files):
  """Returns the tokenizer.json of RoBERTa's old files, {stem: text}."""
  (folder / "vocab.json").write_text(files["vocab"])
  (folder / "merges.txt").write_bytes(files["merges"].encode())
  path = str(folder / "vocab.json")
  return vocabulary_files.VocabularyFiles(path).tokenizer


@pytest.mark.parametrize(
  "text, pairs",
  [
    ("#version: 0.2\na b\n", [["a", "b"]]),
    ("#version: 0.2\r\na b\r\n\r\n\nab c", [["a", "b"], ["ab", "c"]]),
    # Only the first line has the version; a byte may be "#".
    ("a b\n#version c\n", [["a", "b"], ["#version", "c"]]),
    ("# a\n", [["#", "a"]]),
    ("", []),
  ],
)
def test_lines_of_merges_txt(tmp_path, text, pairs):
  values = converted(tmp_path, vocab="{}", merges=text)
  assert values["model"] == {"type": "BPE", "vocab": {}, "merges": pairs}


@pytest.mark.parametrize("space", [False, True])
def test_rules_of_bytes_are_those_of_transformers(tmp_path, space):
  """The entries are those that transformers 5.24.0 writes for both cases."""
  config = json.dumps({"add_prefix_space": space})
  (tmp_path / "tokenizer_config.json").write_text(config)
  values = converted(tmp_path, vocab="{}", merges="")
  rules = {"add_prefix_space": space, "trim_offsets": True}
  splitter = {"type": "ByteLevel", **rules, "use_regex": True}
  assert values["pre_tokenizer"] == values["decoder"] == splitter
  ends = {"sep": ["</s>", 2], "cls": ["<s>", 0]}
  expected = {"type": "RobertaProcessing", **ends, **rules}
  assert values["post_processor"] == expected


def test_special_tokens_have_the_ids_of_the_vocabulary(tmp_path):
  vocab = {"<mask>": 9, "</s>": 7, "<s>": 5, "a": 0, "<pad>": 1}
  values = converted(tmp_path, vocab=json.dumps(vocab), merges="")
  flags = dict.fromkeys(("single_word", "rstrip", "normalized"), False)
  assert values["added_tokens"] == [
    {"id": 5, "content": "<s>", "lstrip": False, "special": True, **flags},
    {"id": 1, "content": "<pad>", "lstrip": False, "special": True, **flags},
    {"id": 7, "content": "</s>", "lstrip": False, "special": True, **flags},
    # As in the released files: the mask includes the space before it.
    {"id": 9, "content": "<mask>", "lstrip": True, "special": True, **flags},
  ]
  ends = values["post_processor"]
  assert (ends["cls"], ends["sep"]) == (["<s>", 5], ["</s>", 7])


def test_fields_of_a_protocol_buffer():
  """A number, eight bytes, a text and four bytes."""
  data = b"\x08\x96\x01" + b"\x11abcdefgh" + b"\x1a\x02ij" + b"\x25klmn"
  assert [*sentencepiece_model._fields(data)] == [
    (1, 150),
    (2, b"abcdefgh"),
    (3, b"ij"),
    (4, b"klmn"),
  ]
  largest = b"\x08" + b"\xff" * 9 + b"\x01"
  assert [*sentencepiece_model._fields(largest)] == [(1, 2**64 - 1)]
  for damaged, reason in (
    (b"\x08\x01\x0b", "type 3 at byte 3"),
    (b"\x1a\x03ij", "byte 2"),
    (b"\x08" + b"\xff" * 10, "too long"),
  ):
    with pytest.raises(ValueError, match=reason):
      [*sentencepiece_model._fields(damaged)]


def transformers_rules(name):
  """Returns the tokenizer.json that transformers wrote for another golden."""
  path = ROOT / "tests" / "golden" / "like_transformers" / "ids.json"
  cases = json.loads(path.read_text(encoding="utf-8"))["cases"]
  (case,) = (case for case in cases if case["name"] == name)
  return case["files"]["tokenizer.json"]


@pytest.mark.parametrize("name", ["albert", "xlm-roberta"])
def test_rules_of_sentencepiece_are_those_of_transformers(tmp_path, name):
  found, expected = (
    write_folder(tmp_path, name).tokenizer,
    transformers_rules(name),
  )
  for key in ("version", "pre_tokenizer", "decoder", "post_processor"):
    assert found[key] == expected[key]
  # The vocabularies differ, so the masks have different ids.
  assert found["added_tokens"][:4] == expected["added_tokens"][:4]
  assert found["model"]["type"] == "Unigram"
  assert found["model"]["unk_id"] == expected["model"]["unk_id"]
  assert found["normalizer"]["type"] == "Sequence"
  *rules, own = found["normalizer"]["normalizers"]
  assert own.keys() == {"type", "precompiled_charsmap"}
  assert own["type"] == "Precompiled"
  assert rules == (expected["normalizer"] or {"normalizers": []})["normalizers"]


def test_pieces_of_a_sentencepiece_model_may_lack_fields(tmp_path):
  """Score 0, a normal piece, the unigram algorithm and no map are omitted."""
  path = tmp_path / "spiece.model"
  piece, user_defined = b"\n\3\n\1a", b"\n\x05\n\1b\x18\4"
  score = b"\n\x08\n\1c\x15\0\0\x80\xbf"
  path.write_bytes(piece * 2 + user_defined + score + b"\x12\0\x1a\0")
  pieces, algorithm, characters = sentencepiece_model._read(str(path))
  assert pieces == [("a", 0.0, 1), ("a", 0.0, 1), ("b", 0.0, 4), ("c", -1.0, 1)]
  assert (algorithm, characters) == (1, b"")
  folder = vocabulary_files.VocabularyFiles(str(path))
  assert folder.tokenizer["normalizer"]["normalizers"] == []
  path.write_bytes(piece * 3)
  with pytest.raises(errors.InputError, match="has 3 pieces"):
    sentencepiece_model._read(str(path))


def test_user_defined_pieces_are_added_tokens(tmp_path):
  path = tmp_path / "spiece.model"
  pieces = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "(", "x"]
  path.write_bytes(
    b"".join(
      bytes([10, len(text) + 4, 10, len(text)])
      + text.encode()
      + b"\x18"
      + (b"\4" if text in ("(", "[MASK]") else b"\1")
      for text in pieces
    )
  )
  values = vocabulary_files.VocabularyFiles(str(path)).tokenizer
  flags = ("single_word", "lstrip", "rstrip", "normalized")
  assert values["added_tokens"] == [
    {
      "id": number,
      "content": text,
      **dict.fromkeys(flags, False),
      "special": text != "(",
    }
    for number, text in enumerate(pieces[:-1])
  ]
  assert values["model"]["vocab"] == [(text, 0.0) for text in pieces]


def test_a_vocabulary_with_word_ends(tmp_path):
  """The piece "xy" and the pair's parts follow; from there, ids are unknown."""
  (tmp_path / "vocab.txt").write_text("the 9\nod@@ 5\na b 1\n")
  (tmp_path / "bpe.codes").write_text("t he</w> 3\nx y 2\no d\n")
  values = vocabulary_files.VocabularyFiles(
    str(tmp_path / "vocab.txt")
  ).tokenizer
  known = ["<s>", "<pad>", "</s>", "<unk>", "the</w>", "od", "a b</w>"]
  more = ["t", "he</w>", "x", "y", "xy", "o", "d"]
  vocab = {piece: n for n, piece in enumerate([*known, "<mask>", *more])}
  merges = [["t", "he</w>"], ["x", "y"], ["o", "d"]]
  assert values["unknown_from"] == 8
  assert values["model"] == {
    "type": "BPE",
    "unk_token": "<unk>",
    "end_of_word_suffix": "</w>",
    "vocab": vocab,
    "merges": merges,
  }
  assert values["version"] == "1.0"
  assert values["pre_tokenizer"] == {"type": "WhitespaceSplit"}
  assert values["decoder"] == {"type": "BPEDecoder", "suffix": "</w>"}
  assert (
    values["post_processor"] == transformers_rules("roberta")["post_processor"]
  )
  ids = [entry["id"] for entry in values["added_tokens"]]
  assert ids == [0, 1, 2, 3, 7]


@pytest.mark.parametrize(
  "names, path, copied",
  [
    (["vocab.json", "merges.txt"], "vocab.json", ("vocab.json", "merges.txt")),
    (["vocab.txt", "bpe.codes"], "vocab.txt", ("vocab.txt", "bpe.codes")),
    (["30k-clean.model"], "30k-clean.model", ("30k-clean.model",)),
    (["other.model"], "other.model", ("other.model",)),
    (["vocab.txt"], "vocab.txt", ()),
    (["tokenizer.json"], "tokenizer.json", ()),
  ],
)
def test_the_files_of_an_older_format(tmp_path, names, path, copied):
  for name in names:
    (tmp_path / name).touch()
  files = vocabulary_files.VocabularyFiles(str(tmp_path / path))
  assert files.copied == copied
  assert files.is_list == (names == ["vocab.txt"])
