"""Tests vocabulary.py: counted words, chosen characters, learned pieces."""

import collections
import random

import pytest

import tokenization
from common import errors
from pretraining import vocabulary

WORDS = {"low": 5, "lower": 2, "newest": 6, "widest": 3, "caf\u00e9": 1}


def learn(words, vocab_size, **options):
  characters = collections.Counter("".join(w * n for w, n in words.items()))
  return vocabulary.learn(
    words,
    characters,
    vocab_size=vocab_size,
    **{
      "do_lower_case": True,
      "num_unused_tokens": 0,
      "min_frequency": 1,
      "max_characters": 1000,
      **options,
    },
  )


def longer_pieces(words, vocab_size=1000, **options):
  tokens = learn(words, vocab_size, **options)
  return [t for t in tokens[5:] if len(t.removeprefix("##")) > 1]


def test_words_are_those_of_the_basic_tokenizer():
  lines = ["A caf\u00e9, a\u4e00b.", "", "CAFE"]
  words, characters = vocabulary.count_words(lines, do_lower_case=True)
  assert words == {"a": 2, "cafe": 2, ",": 1, "\u4e00": 1, "b": 1, ".": 1}
  assert characters == collections.Counter("aacafecafe,\u4e00b.")
  words, _ = vocabulary.count_words(["A a"], do_lower_case=False)
  assert words == {"A": 1, "a": 1}


def test_the_log_says_what_is_left_out(caplog):
  caplog.set_level("INFO", logger="absl")
  vocabulary.count_words(["a b c d"], True, max_words=4)
  assert not caplog.text
  vocabulary.count_words(["a b c d e"], True, max_words=4)
  assert "More than 4 different words" in caplog.text
  learn({"aab": 2, "c": 2}, 50, max_characters=2)
  assert "2 of 3 characters, 75.0000 % of the text" in caplog.text


def test_rare_words_are_dropped_beyond_the_limit_but_not_their_characters():
  lines = ["a a a b b c", "d e", "b b f"]
  words, characters = vocabulary.count_words(lines, True, max_words=4)
  assert words == {"a": 3, "b": 4, "f": 1}
  assert characters == {"a": 3, "b": 4, "c": 1, "d": 1, "e": 1, "f": 1}


def test_special_tokens_are_where_released_vocabularies_have_them():
  assert vocabulary.special_tokens(0) == [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
  ]
  tokens = vocabulary.special_tokens(101)
  assert tokens[:2] == ["[PAD]", "[unused1]"]
  assert tokens[99:] == [
    "[unused99]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "[unused100]",
    "[unused101]",
  ]


def test_tokens_and_their_order():
  words = {"to": 2, "be": 2, ",": 1, "or": 1, "not": 1, "\u4e00": 1}
  assert learn(words, 50, num_unused_tokens=1, min_frequency=2) == [
    *["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
    *[",", "b", "e", "n", "o", "r", "t", "\u4e00"],
    # Punctuation and Han characters continue no word.
    *["##b", "##e", "##n", "##o", "##r", "##t"],
    *["be", "to"],
  ]


def test_too_small_for_the_characters():
  words = {"to": 2, "be": 2, ",": 1, "or": 1, "not": 1}
  assert len(learn(words, 18)) == 18  # No room for longer pieces.
  with pytest.raises(errors.InputError, match="17 .* 5 special .* 7 .* 18"):
    learn(words, 17)
  # "b" and "e" are equally frequent: the lower code point is taken.
  assert learn(words, 11, max_characters=3)[5:8] == ["b", "o", "t"]


def test_pieces_are_the_frequent_parts_up_to_the_size():
  size = len(learn(WORDS, 1000, min_frequency=99))
  # "##es" comes first: it is in "newest" (6 times) and "widest" (3 times).
  assert longer_pieces(WORDS, size + 4) == ["##es", "##est", "lo", "low"]
  assert set(WORDS) <= set(longer_pieces(WORDS))


def test_pieces_are_as_frequent_as_min_frequency():
  assert longer_pieces({"ab": 1, "cd": 1}, min_frequency=2) == []
  assert longer_pieces({"ab": 2, "cd": 1}, min_frequency=2) == ["ab"]
  # Pieces count over all words: "ing" occurs twice.
  pieces = longer_pieces({"xing": 1, "ying": 1}, min_frequency=2)
  assert pieces == ["##in", "##ing"]
  # A single word with a high count.
  assert longer_pieces({"ab": 25_000}, min_frequency=25_000) == ["ab"]
  assert longer_pieces({"ab": 25_000}, min_frequency=25_001) == []


def test_words_with_rare_characters_are_left_out():
  assert longer_pieces({"ab": 5, "axb": 4}, max_characters=2) == ["ab"]


def test_only_the_most_frequent_words_are_used(monkeypatch):
  monkeypatch.setattr(vocabulary, "_MAX_LEARNED_WORDS", 1)
  assert longer_pieces(WORDS) == longer_pieces({"newest": 6})


def test_learning_does_not_depend_on_the_order_of_the_counts(monkeypatch):
  monkeypatch.setattr(vocabulary, "_MAX_LEARNED_WORDS", 300)
  rng = random.Random(3)
  words = {
    "".join(rng.choices("abcdefgh", k=rng.randrange(2, 8))): rng.randrange(
      1, 40
    )
    for _ in range(400)
  }
  expected = learn(words, 171)
  assert len(expected) == 171
  items = list(words.items())
  rng.shuffle(items)
  assert learn(dict(items), 171) == expected


def test_no_word_of_the_text_is_unknown_and_frequent_ones_are_whole():
  rng = random.Random(5)
  stems = ["walk", "talk", "jump", "look", "h\u00f6r", "\uac00\uac01", "1998"]
  stems += ["\u0915\u094d\u0937", "\u05e9\u05dc\u05d5\u05dd", "\U0001f600"]
  ends = ["", "ed", "ing", "s", "er", ","]
  lines = [
    " ".join(rng.choice(stems) + rng.choice(ends) for _ in range(8))
    for _ in range(40)
  ]
  words, _ = vocabulary.count_words(lines, do_lower_case=True)
  tokens = learn(words, 110)
  assert len(tokens) == len(set(tokens)) == 110
  pieces = tokenization.WordpieceTokenizer(dict.fromkeys(tokens))
  for word in words:
    assert "[UNK]" not in pieces.tokenize(word)
  assert pieces.tokenize("walk") == ["walk"]
