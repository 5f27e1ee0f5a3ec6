"""Compares tokenization.py with the original, with full and empty caches."""

import json
import lzma
import pickle
import random
import sys
import unicodedata

import pytest

import common
import small_corpus
import tiny_model
import tokenization
from common import errors
from message_facts import says
from script_runner import ROOT

GOLDEN = ROOT / "tests" / "golden" / "tokenization"

# {setting of the goldens: (vocabulary, do_lower_case)}.
SETTINGS = {
  "uncased": ("uncased", True),
  "cased": ("cased", False),
  "multi_cased": ("multi_cased", False),
  "cased_vocab_lower": ("cased", True),
  "uncased_vocab_nolower": ("uncased", False),
}
# Python 3.13's Unicode 15.1 changes nothing here.
UNICODE = {"15.1.0": "15.0.0"}.get(
  unicodedata.unidata_version, unicodedata.unidata_version
)
KNOWN_UNICODE = ("11.0.0", "13.0.0", "14.0.0", "15.0.0")

PIECES = ["[UNK]", "[CLS]", "[SEP]", "shell", "##shell", "##s", "she", "sea"]
PIECES += ["gle", "##am", ","]


def read_golden_lines():
  lines = []
  with lzma.open(GOLDEN / "lines.jsonl.xz", "rt", encoding="utf-8") as stream:
    for row in map(json.loads, stream):
      changed = row.pop("changed", {})
      if UNICODE in KNOWN_UNICODE or not changed:
        lines.append({**row, **changed.get(UNICODE, {})})
  return lines


@pytest.fixture(scope="module")
def golden_lines():
  return read_golden_lines()


@pytest.fixture(scope="module")
def full_tokenizers(tmp_path_factory):
  tokenizers = {}
  for setting, (name, do_lower_case) in SETTINGS.items():
    path = small_corpus.released_vocab(tmp_path_factory.mktemp(setting), name)
    tokenizers[setting] = tokenization.FullTokenizer(path, do_lower_case)
  return tokenizers


@pytest.fixture
def vocab_file(tmp_path):
  path = tmp_path / "vocab.txt"

  def write(tokens, ending="\n"):
    path.write_bytes("".join(t + ending for t in tokens).encode("utf-8"))
    return str(path)

  return write


def test_golden_has_every_line():
  with lzma.open(GOLDEN / "lines.jsonl.xz", "rb") as stream:
    assert len(stream.readlines()) == 1572


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_golden_line(setting, golden_lines, full_tokenizers):
  full = full_tokenizers[setting]
  words = "basic_lower" if SETTINGS[setting][1] else "basic"
  # The second pass reads the caches.
  for row in golden_lines * 2:
    text = row["text"]
    assert full.basic_tokenizer.tokenize(text) == row[words]
    assert full.encode(text) == row[setting]
    assert full.tokenize(text) == full.convert_ids_to_tokens(row[setting])


@pytest.mark.parametrize("case", ["lower", "nolower"])
def test_every_code_point(case):
  expected = {}
  path = GOLDEN / f"code_points_{case}.tsv.xz"
  with lzma.open(path, "rt", encoding="utf-8") as stream:
    for line in stream:
      code_point, words = line.split("\t")
      expected[int(code_point, 16)] = json.loads(words)
  changed = json.loads((GOLDEN / "code_points_changed.json").read_bytes())
  if UNICODE not in KNOWN_UNICODE:
    pytest.skip(f"no golden for Unicode {UNICODE}")
  for code_point, words in changed.get(UNICODE, {}).get(case, {}).items():
    expected[int(code_point, 16)] = words
  tokenize = tokenization.BasicTokenizer(case == "lower").tokenize
  wrong = []
  for code_point in range(sys.maxunicode + 1):
    text = f"a{chr(code_point)}b"
    if tokenize(text) != expected.get(code_point, [text]):
      wrong.append(f"{code_point:X}")
  assert not wrong


def test_functions_that_take_a_vocabulary():
  """The original has these functions, and users import them."""
  vocab = {token: index for index, token in enumerate(PIECES)}
  tokens = ["sea", "##shell", "##s"]
  assert tokenization.convert_tokens_to_ids(vocab, tokens) == [7, 4, 5]
  inverse = dict(enumerate(PIECES))
  assert tokenization.convert_ids_to_tokens(inverse, [7, 4, 5]) == tokens
  for convert, table, item in (
    (tokenization.convert_tokens_to_ids, vocab, "##shells"),
    (tokenization.convert_ids_to_tokens, inverse, 11),
    (tokenization.convert_by_vocab, vocab, "##shells"),
  ):
    with pytest.raises(KeyError) as caught:
      convert(table, [item])
    assert isinstance(caught.value, errors.InputError)
    assert str(caught.value).startswith(f"{item!r} is not among the 11 entries")


@pytest.mark.parametrize(
  "convert", [tokenization.convert_to_unicode, tokenization.printable_text]
)
def test_bytes_are_utf8_and_invalid_ones_are_dropped(vocab_file, convert):
  full = tokenization.FullTokenizer(vocab_file(PIECES))
  assert full.tokenize("sh\u00e8,".encode() + b"\xff") == ["she", ","]
  assert convert("\u00e9\n") == "\u00e9\n"
  assert convert(b"\xc3\xa9\xff.") == "\u00e9."
  with pytest.raises(ValueError, match="str or bytes, not int"):
    convert(3)


def test_whitespace_tokenize():
  text = " a\u00a0b\u2028c\x1cd\n"
  assert tokenization.whitespace_tokenize(text) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("length, tokens", [(3, ["a", "##a", "##a"]), (4, "?")])
def test_longest_word(length, tokens):
  wordpiece = tokenization.WordpieceTokenizer(
    {"a": 0, "##a": 1}, unk_token="?", max_input_chars_per_word=3
  )
  assert wordpiece.tokenize("a" * length) == list(tokens)


def random_texts(seed, count):
  rng = random.Random(seed)
  odd = "\t\n\r\x0b\x0c\x1c\x85\xa0\xad\u200b\u2028\u3000\ufeff\ufffd\x00\ud800"
  accents = "\u0301\u0323\u0345\u00e9\u1e69\u0130\u0131\u00df\u1e9e\uac01"
  words = "\u03a3\u03c2\u4e00\u9fff\u3042\u0e01\ufb01ABab12"
  mixed = odd + accents + words + " " * 9
  alphabets = [odd, accents, words, "abAB  ,.-", mixed]
  for _ in range(count):
    alphabet = rng.choice(alphabets)
    yield "".join(rng.choice(alphabet) for _ in range(rng.randrange(40)))


@pytest.mark.parametrize("setting", SETTINGS)
def test_encode_is_tokenize_and_convert(setting, full_tokenizers):
  full = full_tokenizers[setting]
  for text in random_texts(seed=1, count=500):
    tokens = full.tokenize(text)
    assert full.encode(text) == full.convert_tokens_to_ids(tokens)
    # The two stages do not use the cache of chunks.
    words = full.basic_tokenizer.tokenize(text)
    assert tokens == [
      piece
      for word in words
      for piece in full.wordpiece_tokenizer.longest_matches(word)
    ]


def test_a_full_cache_changes_nothing(monkeypatch, full_tokenizers):
  full = full_tokenizers["uncased"]
  caches = (full._chunk_ids, full._chunk_tokens, full._word_ids)
  caches += (full.wordpiece_tokenizer._pieces_of,)
  texts = list(random_texts(seed=4, count=300))
  before = [(full.encode(text), full.tokenize(text)) for text in texts]
  monkeypatch.setattr(tokenization, "_CACHED_ENTRIES", 3)
  for cache in caches:
    cache.clear()
  for text, (ids, tokens) in zip(texts, before):
    assert full.encode(text) == ids
    assert full.tokenize(text) == tokens
    assert all(len(cache) <= 3 for cache in caches)


def test_long_chunks_are_not_cached(vocab_file):
  full = tokenization.FullTokenizer(vocab_file(PIECES))
  full.encode("," * 1000)
  assert not full._chunk_ids and list(full._word_ids) == [","]


def test_pickled_tokenizer_is_the_same_without_its_cache(vocab_file):
  full = tokenization.FullTokenizer(vocab_file(PIECES), do_lower_case=False)
  ids = full.encode("shell gleam")
  copy = pickle.loads(pickle.dumps(full))
  assert not copy._chunk_ids
  assert copy.encode("shell gleam") == ids
  assert copy.encode("Shell") == [0]


def test_load_vocab_strips_lines_and_the_last_of_equal_lines_counts(vocab_file):
  path = vocab_file(["a", " b\t", "a", "", "\u00a0c\u2028"], ending="\r\n")
  vocab = tokenization.load_vocab(path)
  assert vocab == {"a": 2, "b": 1, "": 3, "c": 4}
  assert list(vocab) == ["a", "b", "", "c"]


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_load_vocab_splits_at_line_feeds_only(vocab_file, scheme):
  """A carriage return within a line stays, locally and with TensorFlow."""
  path = scheme + vocab_file(["a\x0bb\u2028c\rd", "e\r"])
  assert tokenization.load_vocab(path) == {"a\x0bb\u2028c\rd": 0, "e": 1}


@pytest.mark.parametrize(
  "content, vocab, fault",
  [
    (b"a\nb", {"a": 0, "b": 1}, None),  # The last line feed is missing.
    # As in the original: an empty line takes an id.
    (b"", {}, "vocab.txt: no token"),
    (b"\n \n\n", {"": 2}, "vocab.txt: no token"),
    (b"[PAD]\ncaf\xc3\xa9\nna\xefve\n", None, "txt:3: not UTF-8.*0xef"),
    (None, None, "no such file: .*vocab.txt"),
  ],
)
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_vocabulary_files(tmp_path, scheme, content, vocab, fault):
  path = tmp_path / "vocab.txt"
  if content is not None:
    path.write_bytes(content)
  name = f"{scheme}{path}"
  if vocab is not None:
    assert tokenization.load_vocab(name) == vocab
  if fault:
    with pytest.raises(errors.InputError, match=fault):
      tokenization.FullTokenizer(name)


def test_vocabulary_with_a_scheme_but_no_tensorflow(monkeypatch):
  monkeypatch.setitem(sys.modules, "common.lean_tensorflow", None)
  monkeypatch.delattr(common, "lean_tensorflow", raising=False)
  with pytest.raises(errors.InputError, match="needs TensorFlow"):
    tokenization.load_vocab("gs://bucket/vocab.txt")


def test_tokens_and_ids_that_are_not_in_the_vocabulary(vocab_file):
  full = tokenization.FullTokenizer(vocab_file(["[CLS]", "a"]))
  with pytest.raises(errors.InputError, match=r"vocab.txt: '\[SEP\]' is not"):
    full.convert_tokens_to_ids(["[CLS]", "a", "[SEP]"])
  with pytest.raises(errors.InputError, match=says("2", "not", "among")):
    full.convert_ids_to_tokens([0, 2])
  assert full.tokenize("a b") == ["a", "[UNK]"]
  with pytest.raises(errors.InputError, match=r"'\[UNK\]' is not"):
    full.encode("a b")


@pytest.mark.parametrize(
  "name, fits",
  [
    ("uncased_L-12_H-768_A-12", True),
    ("wwm_uncased_L-24_H-1024_A-16", True),
    ("multilingual_L-12_H-768_A-12", True),
    ("chinese_L-12_H-768_A-12", True),
    ("cased_L-24_H-1024_A-16", False),
    ("wwm_cased_L-24_H-1024_A-16", False),
    ("multi_cased_L-12_H-768_A-12", False),
  ],
)
def test_case_of_released_checkpoints(name, fits):
  for path in (
    f"{name}/bert_model.ckpt",
    f"gs://bucket/{name}/bert_model.ckpt-7",
  ):
    tokenization.validate_case_matches_checkpoint(fits, path)
    with pytest.raises(errors.InputError, match=f"--do_lower_case={fits}, or"):
      tokenization.validate_case_matches_checkpoint(not fits, path)


@pytest.mark.parametrize(
  "path",
  [
    None,
    "",
    "cased_L-12_H-768_A-12/model.ckpt",
    "cased_L-12_H-768_A-12",
    "my_cased_L-12_H-768_A-12/bert_model.ckpt",
    "cased_L-12_H-768_A-12_v2/bert_model.ckpt",
    "cased_L-12_H-768_A-12/sub/bert_model.ckpt",
  ],
)
def test_case_of_other_checkpoints_is_not_known(path):
  validate = tokenization.validate_case_matches_checkpoint
  assert validate(False, path) is validate(True, path) is None


def test_a_batch_is_a_networks_input(tmp_path):
  path = tmp_path / "vocab.txt"
  path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n")
  tokenizer = tokenization.FullTokenizer(str(path))
  batch = tokenizer.batch(["a b c", ("a", "b"), "a b c a b c"], 6)
  assert batch["input_ids"].tolist() == [
    [2, 5, 6, 7, 3, 0],
    [2, 5, 3, 6, 3, 0],
    [2, 5, 6, 7, 5, 3],
  ]
  assert batch["input_mask"].tolist() == [
    [1, 1, 1, 1, 1, 0],
    [1, 1, 1, 1, 1, 0],
    [1, 1, 1, 1, 1, 1],
  ]
  assert batch["segment_ids"][1].tolist() == [0, 0, 0, 1, 1, 0]
  short = tokenizer.batch(["a", "b c"], 6, pad=False)
  assert short["input_ids"].tolist() == [[2, 5, 3, 0], [2, 6, 7, 3]]
  assert tokenizer.batch([], 6)["input_ids"].shape == (0, 6)


@pytest.mark.parametrize("like, lengths", [(False, [3, 2]), (True, [2, 3])])
def test_a_batch_truncates_pairs_like_the_models_program(
  tmp_path, like, lengths
):
  """Of an odd room, transformers gives the longer text one piece more."""
  tokenizer = tokenization.FullTokenizer(
    tiny_model.write_vocabulary(tmp_path, [*"abcd"]), like_transformers=like
  )
  batch = tokenizer.batch([("a b c d", "a b c d a")], 8)
  second = int(batch["segment_ids"].sum()) - 1
  assert [5 - second, second] == lengths
