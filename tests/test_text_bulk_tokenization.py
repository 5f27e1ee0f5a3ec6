"""bulk_tokenization: the fast tokenizer, where it is alike."""

import itertools
import random
import string

import pytest

import small_corpus
import tokenization
from pretraining import data
from text import bulk_tokenization


@pytest.fixture(scope="module", params=[True, False], ids=["lower", "cased"])
def tokenizer(request, tmp_path_factory):
  name = "uncased" if request.param else "cased"
  path = small_corpus.released_vocab(tmp_path_factory.mktemp("vocab"), name)
  return tokenization.FullTokenizer(path, do_lower_case=request.param)


@pytest.fixture(scope="module")
def fast(tokenizer):
  encoder = bulk_tokenization.BulkEncoder(tokenizer, characters_before_fast=0)
  encoder(["x"])  # Switches to the fast tokenizer.
  return encoder


def assert_alike(lines, tokenizer, fast):
  ids, lengths, continues = fast(lines)
  assert continues is None
  expected = [tokenizer.encode(line) for line in lines]
  assert lengths == list(map(len, expected))
  assert list(ids) == list(itertools.chain.from_iterable(expected))


def alike_characters():
  characters = map(chr, range(0x20, 0xE000))
  return [
    character
    for character in characters
    if bulk_tokenization.is_alike(character)
  ]


def test_every_character_that_is_taken_for_alike(tokenizer, fast):
  characters = alike_characters()
  assert len(characters) == 32827
  lines = [f"a{c}b {c} x{c}{c} A{c}1" for c in characters]
  assert all(map(bulk_tokenization.is_alike, lines))
  assert_alike(lines, tokenizer, fast)


@pytest.mark.parametrize("seed", range(3))
def test_random_lines(seed, tokenizer, fast):
  rng = random.Random(seed)
  some = alike_characters()
  words = ["[MASK]", "[UNK]", "[CLS]", "##ing", "don't", "#", "xyz" * 33]
  words += rng.sample([t for t in tokenizer.vocab if t.isalpha()], 200)
  lines = []
  for _ in range(700):
    lines += [
      "".join(rng.choices(string.printable[:95], k=rng.randrange(200))),
      " ".join(rng.choices(words, k=rng.randrange(20))).swapcase(),
      "".join(rng.choices(some[:700] + [" "] * 99, k=rng.randrange(99))),
      "".join(rng.choices(some, k=rng.randrange(30))),
    ]
  share = sum(map(bulk_tokenization.is_alike, lines)) / len(lines)
  assert 0.8 < share < 1  # Some words are too long.
  assert_alike(lines, tokenizer, fast)


def test_text_before_the_fast_tokenizer_is_encoded_exactly(tokenizer):
  exact = bulk_tokenization.BulkEncoder(tokenizer)
  lines = ["Don't stop, Émile!", "", "a\tb", "x" * 300, "unaffable, STOP!"]
  for _ in range(2):  # The second time from what is kept.
    assert_alike(lines, tokenizer, exact)


def test_lines_of_both_kinds_keep_their_order(tokenizer, fast):
  lines = ["plain", "½ Σ ΟΔΟΣ", "", "z" * 150, "ﬁne", "a\tb", "e\u0301", "end"]
  flags = list(map(bulk_tokenization.is_alike, lines))
  assert flags == [True, False, True, False, False, False, False, True]
  assert_alike(lines, tokenizer, fast)
  assert_alike(["½", "Σ"], tokenizer, fast)
  assert_alike([], tokenizer, fast)


@pytest.mark.parametrize("line, alike", [
  ("x" * 100, True), ("x" * 101, False), ("x" * 100 + " " + "y" * 100, True),
  ("x " * 60 + "y" * 101, False), ("é" * 33 + " " + "é" * 33, True),
  ("é" * 34, False)
])
def test_long_words_are_not_alike(line, alike):
  assert bulk_tokenization.is_alike(line) == alike


def test_a_small_text_is_left_to_the_exact_tokenizer(tokenizer, monkeypatch):
  monkeypatch.setattr(bulk_tokenization, "_fast_tokenizer", lambda _: 1 / 0)
  encoder = bulk_tokenization.BulkEncoder(tokenizer, characters_before_fast=9)
  texts = ["ä" * 5, "", "a" * 12]  # ASCII counts a quarter.
  assert encoder(texts)[1] == [len(tokenizer.encode(text)) for text in texts]
  with pytest.raises(ZeroDivisionError):
    encoder(["äö"])


@pytest.mark.parametrize(
  "more, first_id",
  [("a", 3), ("a b", 1), ("x" * 300, 1), ("", 1), ("##", 1), ("a-b", 1)],
)
def test_odd_vocabularies(tmp_path, more, first_id):
  path = tmp_path / "vocab.txt"
  path.write_text(f"[UNK]\na\nb\n{more}\nc\n")
  tokenizer = tokenization.FullTokenizer(str(path))
  encoder = bulk_tokenization.BulkEncoder(tokenizer, characters_before_fast=0)
  ids, lengths, _ = encoder(["a b z", "b a-b"])
  assert (list(ids), lengths) == ([first_id, 2, 0, 2, first_id, 0, 2], [3, 4])


def test_segmented_chinese(tmp_path):
  path = tmp_path / "vocab.txt"
  tokens = "[UNK] 使 用 语 言 模 型 t ##s bert ， -"
  path.write_text(tokens.replace(" ", "\n"), encoding="utf-8")
  tokenizer = tokenization.FullTokenizer(str(path))
  lines = ["使用 语言 模型", "", "ts模型 ， bert-用 龙龙 用"]
  ids, lengths, continues = data.encode_segmented(tokenizer, lines)
  assert ids == sum((tokenizer.encode(line) for line in lines), [])
  assert lengths == [6, 0, 11]
  #                          使 用 语 言 模 型
  assert list(continues[:6]) == [0, 1, 0, 1, 0, 1]
  #                              t ##s 模 型 ， bert - 用 [UNK] [UNK] 用
  assert list(continues[6:]) == [0, 1, 1, 1, 0, 0, 0, 1, 0, 1, 0]
