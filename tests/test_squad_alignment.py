"""Tests how an answer's words are found in the passage as written."""

import gzip
import json
import logging
import pathlib

import pytest

import tokenization
from squad import alignment

GOLDEN = pathlib.Path(__file__).parent / "golden" / "squad" / "answers"


def passage_of(words, do_lower_case=True):
  basic = tokenization.BasicTokenizer(do_lower_case)
  return alignment.PassageText(
    words, lambda word: " ".join(basic.tokenize(word))
  )


def final_text(predicted, written, do_lower_case):
  words = written.split(" ")
  passage = passage_of(words, do_lower_case)
  return passage.find(predicted, 0, len(words) - 1)[0]


def test_every_text_is_the_originals():
  packed = (GOLDEN / "final_text.jsonl.gz").read_bytes()
  pairs = [json.loads(line) for line in gzip.decompress(packed).splitlines()]
  assert len(pairs) == 300
  for pair in pairs:
    arguments = [pair[k] for k in ("predicted", "written", "do_lower_case")]
    assert final_text(*arguments) == pair["final"], pair


@pytest.mark.parametrize(
  "pieces, text",
  [
    (["sm", "##ith", "'"], "smith '"),
    # The first piece may be the rest of a word.
    (["##ith", "##s", "of"], "iths of"),
    (["[UNK]", "of"], "[UNK] of"),
    (["#", "#"], "# #"),
    (["##", "a"], "a"),
  ],
)
def test_pieces_are_joined_to_words(pieces, text):
  assert tokenization.FullTokenizer.joined_pieces(None, pieces) == text


@pytest.mark.parametrize(
  "predicted, written, final",
  [
    ("anna lang", "Anna Lang's", "Anna Lang"),
    ("lang ' s", "Anna Lang's", "Lang's"),
    # The accent is a separate character in NFD, but not in NFC.
    ("cafe", "the (Café)", "Café"),
    ("cafe", "the (Cafe\u0301)", "the (Cafe\u0301)"),
    # Lower-casing the first letter gives two characters.
    ("i", "(İ)", "İ"),
    ("ﬁ", "ﬁ,", "ﬁ"),
    # An unknown piece, and no piece.
    ("[UNK]", "(☃)", "(☃)"),
    ("", "(x)", "(x)"),
    # The first of two occurrences.
    ("a", "b-a-A", "a"),
    # White space other than U+0020 prevents the alignment.
    ("b", "a\u00a0b", "a\u00a0b"),
  ],
)
def test_final_text(predicted, written, final):
  assert final_text(predicted, written, True) == final


def test_failed_alignments_are_logged_when_debugging(caplog):
  for predicted, level, messages in (
    ("cat", logging.DEBUG, ["cannot locate 'cat' in '(dog)': using all words"]),
    ("cat", logging.INFO, []),
    ("dog", logging.DEBUG, []),
  ):
    caplog.clear()
    with caplog.at_level(level, logger="absl"):
      final_text(predicted, "(dog)", True)
    assert [record.getMessage() for record in caplog.records] == messages


# "\u200b" has no tokens; its character is missing on one side.
WORDS = ["\u200b", "One", "\u200b", "(two)", "two", "\u200b"]


@pytest.mark.parametrize(
  "predicted, first, last, answer",
  [
    ("one", 1, 1, "One"),
    ("two", 3, 3, "two"),
    ("two )", 3, 4, "two)"),
    # Words outside first to last are not searched.
    ("two", 4, 4, "two"),
    ("one", 3, 4, "(two) two"),
    # A character is missing on one side, so all words are returned.
    ("one", 0, 1, "\u200b One"),
    ("two", 4, 5, "two \u200b"),
    ("one ( two", 1, 3, "One \u200b (two)"),
    # The words have no tokens.
    ("one", 0, 0, "\u200b"),
    ("two", 5, 5, "\u200b"),
  ],
)
def test_only_the_given_words_are_searched(predicted, first, last, answer):
  text, (start, end) = passage_of(WORDS).find(predicted, first, last)
  assert text == " ".join(WORDS)[start:end] == answer


@pytest.mark.parametrize(
  "context, span, text",
  [
    (" a  bc\nd ", (0, 1), "a"),
    (" a  bc\nd ", (2, 6), "bc\nd"),
    ("ab \tab", (3, 5), "ab"),
  ],
)
def test_offsets_among_words_are_converted_to_the_context(context, span, text):
  start, end = alignment.in_context(context, span)
  assert context[start:end] == text
  assert start == (context.rindex(text) if span[0] else context.index(text))


@pytest.fixture
def tokenizer(tmp_path):
  words = "[UNK] ab ##c , e 東 京 cafe ##s".split()
  (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n", "utf-8")
  return tokenization.FullTokenizer(str(tmp_path / "vocab.txt"))


@pytest.mark.parametrize(
  "word, texts",
  [
    ("ABc,e", ["AB", "c", ",", "e"]),
    ("東京東京", ["東", "京", "東", "京"]),
    ("cafe\u0301s,", ["cafe\u0301", "s", ","]),
    ("Caf\u00e9s", ["Caf\u00e9", "s"]),
    ("xyz東", ["xyz", "東"]),  # An unknown word covers all its characters.
    ("a\u200bb,", ["a\u200bb", ","]),
  ],
)
def test_pieces_have_their_offsets_in_the_word(tokenizer, word, texts):
  offsets = alignment.written_places(word, tokenizer)
  assert [word[start:end] for start, end in offsets] == texts
  assert len(tokenizer.tokenize(word)) == len(texts)


def test_the_finder_counts_the_spaces_between_words(tokenizer):
  words = ["ab,", "\u200b", "xyz東", "e"]
  numbers = [
    number
    for number, word in enumerate(words)
    for _ in tokenizer.tokenize(word)
  ]
  finder = alignment.PieceFinder(words, numbers, tokenizer)
  assert finder.find(0, 1) == ("ab,", (0, 3))
  assert finder.find(2, 2) == ("xyz", (6, 9))
  assert finder.find(3, 4) == ("東 e", (9, 12))
