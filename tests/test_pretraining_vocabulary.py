"""vocabulary.py: counted words, chosen characters, learned pieces."""

import collections
import random

import pytest

import tokenization
from common import errors
from pretraining import vocabulary

WORDS = {"low": 5, "lower": 2, "newest": 6, "widest": 3, "caf\u00e9": 1}


def count(*lines, **options):
  counts = vocabulary.WordCounts(
    **{"do_lower_case": True, "max_words": 1000, **options}
  )
  for line in lines:
    counts.add(line)
  return counts


def make(counts, vocab_size, **options):
  options = {
    "do_lower_case": True, "num_unused_tokens": 0, "min_frequency": 2,
    "max_characters": 1000, "max_learned_words": 1000, **options,
  }
  return vocabulary.make_vocabulary(counts, vocab_size=vocab_size, **options)


def wordpiece(tokens):
  return tokenization.WordpieceTokenizer(dict.fromkeys(tokens))


def test_words_are_those_of_the_basic_tokenizer():
  counts = count("A caf\u00e9, a\u4e00b.", "", "CAFE")
  assert counts.words == {
    "a": 2, "cafe": 2, ",": 1, "\u4e00": 1, "b": 1, ".": 1,
  }
  assert counts.num_words == 8
  assert count("A a", do_lower_case=False).words == {"A": 1, "a": 1}


def test_characters_are_those_of_all_words():
  counts = count("a bb", "b" * 50)
  assert counts.words == {"a": 1, "bb": 1, "b" * 50: 1}
  assert counts.num_words == 3
  assert counts.characters() == {"a": 1, "b": 52}


def test_rare_words_are_forgotten_beyond_the_limit():
  counts = count("a a a b b c", max_words=4)
  assert counts.max_undercount == 0
  counts.add("d e")  # Five words: c, d and e go, for they were seen once.
  assert counts.words == {"a": 3, "b": 2} and counts.max_undercount == 1
  counts.add("c d e f f f")  # Six: at 2 go b (2), c, d and e, but not f.
  assert counts.words == {"a": 3, "f": 3} and counts.max_undercount == 3
  assert counts.characters() == {"a": 3, "b": 2, "c": 2, "d": 2, "e": 2, "f": 3}


def test_counts_are_never_too_small_by_more_than_is_said():
  rng = random.Random(0)
  words = [str(int(rng.paretovariate(0.8))) for _ in range(3000)]
  counts = count(*words, max_words=20)
  assert len(counts.words) <= 20 and counts.max_undercount > 0
  for word, exact in collections.Counter(words).items():
    lost = exact - counts.words[word]
    assert 0 <= lost <= counts.max_undercount


def test_special_tokens_stand_where_released_vocabularies_have_them():
  assert vocabulary.special_tokens(0) == [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]",
  ]
  tokens = vocabulary.special_tokens(101)
  assert tokens[:2] == ["[PAD]", "[unused1]"]
  assert tokens[99:] == [
    "[unused99]", "[UNK]", "[CLS]", "[SEP]", "[MASK]",
    "[unused100]", "[unused101]",
  ]


def test_alphabet_is_the_most_frequent_characters():
  characters = {"z": 5, "b": 2, "a": 2, "c": 1}
  assert vocabulary.choose_alphabet(characters, 2) == ["a", "z"]
  assert vocabulary.choose_alphabet(characters, 9) == ["a", "b", "c", "z"]


def test_characters_that_stand_alone_have_no_following_piece():
  pieces = vocabulary.character_pieces(["!", "a", "\u4e00", "\uac00"], True)
  assert pieces == ["!", "a", "\u4e00", "\uac00", "##a", "##\uac00"]


def test_rows_and_their_order():
  tokens = make(count("to be, or not to be"), 24, num_unused_tokens=1)
  assert tokens == [
    *["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
    *[",", "b", "e", "n", "o", "r", "t"],
    *["##b", "##e", "##n", "##o", "##r", "##t"], *["be", "to"],
  ]


def test_too_small_for_the_characters():
  counts = count("to be, or not to be")
  assert len(make(counts, 18)) == 18
  with pytest.raises(errors.InputError, match="17 .* 5 special .* 7 .* 18"):
    make(counts, 17)
  assert len(make(counts, 17, max_characters=6)) == 17


def learn(words, num_pieces, **options):
  options = {"min_frequency": 1, "max_words": 100, **options}
  return vocabulary.learn(
    words, sorted(set("".join(words))), num_pieces=num_pieces, **options
  )


def test_pieces_are_the_frequent_parts():
  pieces = learn(WORDS, 4)
  # Of "es", "st" and "lo" "##es" comes first: 6 and 3 times.
  assert pieces == ["##es", "##est", "lo", "low"]
  # All of them, when there is room.
  assert set(WORDS) <= set(learn(WORDS, 100))


def test_pieces_are_as_frequent_as_asked():
  assert learn({"ab": 1, "cd": 1}, 10, min_frequency=2) == []
  assert learn({"ab": 2, "cd": 1}, 10, min_frequency=2) == ["ab"]
  # A part may be seen more often than any word.
  pieces = learn({"xing": 1, "ying": 1}, 10, min_frequency=2)
  assert pieces == ["##in", "##ing"]


def test_only_the_most_frequent_words_are_looked_at():
  assert learn(WORDS, 100, max_words=1)[-1] == "newest"
  assert learn(WORDS, 100, max_words=1) == learn({"newest": 6}, 100)


def test_words_with_other_characters_are_left_out():
  pieces = vocabulary.learn(
    {"ab": 5, "ax": 9}, ["a", "b"], num_pieces=9, min_frequency=1, max_words=9
  )
  assert pieces == ["ab"]


def test_nothing_to_learn():
  assert learn({}, 10) == [] and learn(WORDS, 0) == []


def test_learning_does_not_depend_on_the_order_of_the_counts():
  rng = random.Random(3)
  letters = "abcdefgh"
  words = {
    "".join(rng.choices(letters, k=rng.randrange(2, 8))): rng.randrange(1, 40)
    for _ in range(400)
  }
  expected = learn(words, 150, max_words=300)
  assert len(expected) == 150
  items = list(words.items())
  rng.shuffle(items)
  assert learn(dict(items), 150, max_words=300) == expected


def test_no_word_of_the_text_is_unknown_and_frequent_ones_are_whole():
  rng = random.Random(5)
  stems = ["walk", "talk", "jump", "look", "h\u00f6r", "\uac00\uac01", "1998"]
  ends = ["", "ed", "ing", "s", "er", ","]
  lines = [
    " ".join(rng.choice(stems) + rng.choice(ends) for _ in range(8))
    for _ in range(40)
  ]
  counts = count(*lines)
  tokens = make(counts, 75)
  assert len(tokens) == len(set(tokens)) == 75
  pieces = wordpiece(tokens)
  for word in counts.words:
    assert "[UNK]" not in pieces.tokenize(word)
  assert pieces.tokenize("walk") == ["walk"]
