"""Words of texts are those of tokenization.py, with their places."""

import pytest

import tokenization
from tagging import text_tagger


@pytest.mark.parametrize(
  "text, at_punctuation, words",
  [
    (" Stra\u00dfe, na\u0308h-e 3", True,
     ["Stra\u00dfe", ",", "na\u0308h", "-", "e", "3"]),
    ("a-b  U.N.\u2028c", False, ["a-b", "U.N.", "c"]),
    # Control characters belong to no word, unless they are within one.
    ("\x00a\u200bb\x00 \x00 c", True, ["a\u200bb", "c"]),
    ("\u4e2d\u6587x", True, ["\u4e2d", "\u6587", "x"]),
    ("\u4e2d\u6587x", False, ["\u4e2d\u6587x"]),
    (" ", True, []),
  ],
)
def test_words(text, at_punctuation, words):
  places = text_tagger.word_places(text, at_punctuation=at_punctuation)
  assert [text[start:end] for start, end in places] == words
  if at_punctuation:
    found = tokenization.BasicTokenizer(False).tokenize(text)
    assert found == [word.replace("\u200b", "") for word in words]
