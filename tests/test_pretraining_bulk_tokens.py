"""Compares bulk_tokens with FullTokenizer.encode_lines."""

import random
import unicodedata

import pytest

import small_corpus
import tokenization
from pretraining import bulk_tokens

ODD = [
  "",
  " ",
  "The cat  sat",
  "\tThe\tcat\n sat\x0bon\rthe mat",
  "a\x85b c\u2028d \ufffd \x00x \ufeff",
  "Ünïcödé ÀÉ 的一是 the的cat",
  "x" * 201 + " " + "y" * 200,
  "don't, (the) cat...sat!? $5 e=mc^2",
  "[MASK] [UNK] ##s ##",
  "ΣΑΣ σς İstanbul ǅ",
]


def lines_of(seed):
  rng = random.Random(seed)
  characters = [chr(rng.randrange(0x3000)) for _ in range(300)] + list(
    "the cat sat on ,.!-  \t" * 20
  )
  characters = [c for c in characters if unicodedata.category(c) != "Cs"]
  return [
    "".join(rng.choices(characters, k=rng.randint(0, 60))) for _ in range(300)
  ]


def check(tokenizer, lines, encode=None):
  encode = encode or bulk_tokens.line_encoder(tokenizer)
  assert isinstance(encode, bulk_tokens.BulkEncoder)
  expected_ids, expected_lengths, expected_flags = tokenizer.encode_lines(lines)
  ids, lengths, flags = encode(lines)
  assert ids.tolist() == expected_ids
  assert lengths == expected_lengths
  assert flags is expected_flags is None
  return encode


@pytest.mark.parametrize("vocabulary", ["uncased", "multi_cased"])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize(
  "rules", [{}, {"strip_accents": False}, {"tokenize_chinese_chars": False}]
)
def test_the_ids_of_odd_lines(tmp_path, vocabulary, lower, rules):
  path = small_corpus.released_vocab(tmp_path, vocabulary)
  tokenizer = tokenization.FullTokenizer(path, lower, **rules)
  encode = check(tokenizer, ODD)
  for seed in range(3):
    check(tokenizer, lines_of(seed), encode)
  check(tokenizer, [])


def test_words_that_stay_whole(tmp_path):
  path = small_corpus.released_vocab(tmp_path)
  tokenizer = tokenization.FullTokenizer(
    path, never_split=["[MASK]", "[unused1]"]
  )
  check(tokenizer, [*ODD, "a [mask] b [UNUSED1] [unused1]."])


@pytest.mark.parametrize("name", ["_LARGEST_TABLE", "_LARGEST_IDS"])
def test_the_table_begins_again(tmp_path, monkeypatch, name):
  monkeypatch.setattr(bulk_tokens, name, 50)
  monkeypatch.setattr(bulk_tokens, "_CHARS_TOGETHER", 100)
  tokenizer = tokenization.FullTokenizer(small_corpus.released_vocab(tmp_path))
  check(tokenizer, lines_of(7))


def test_an_unknown_word_without_unk_is_an_error(tmp_path):
  path = tmp_path / "vocab.txt"
  path.write_text("[CLS]\n[SEP]\n[MASK]\na\n")
  encode = bulk_tokens.line_encoder(tokenization.FullTokenizer(str(path)))
  with pytest.raises(tokenization.UnknownTokenError, match="vocab.txt"):
    encode(["a b"])


def test_other_tokenizers_keep_their_own_form(tmp_path):
  class Other(tokenization.FullTokenizer):
    def encode_lines(self, lines):
      return [1] * len(lines), [1] * len(lines), None

  tokenizer = Other(small_corpus.write_vocab(tmp_path))
  assert bulk_tokens.line_encoder(tokenizer) == tokenizer.encode_lines
