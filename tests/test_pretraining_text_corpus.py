"""text_corpus: vocabularies and the arrays of a corpus."""

import numpy as np
import pytest

from common import errors
from pretraining import text_corpus

WORDS = {
  token: index
  for index, token in enumerate("[PAD] [CLS] [SEP] [MASK] a ##b".split())
}


def count_letters(lines):
  lengths = [sum(character.isalpha() for character in line) for line in lines]
  return [7] * sum(lengths), lengths, None


def test_blank_lines_end_documents_and_wordless_lines_do_not():
  lines = ["", "aa", "\u200b", "b \n", "\u00a0\n", "\x1c", "", "c", "d e"]
  corpus = text_corpus.read_corpus(lines, count_letters, np.dtype("H"))
  assert list(corpus.document_starts) == [0, 2, 4]
  assert list(corpus.sentence_starts) == [0, 2, 3, 4, 6]
  assert corpus.ids.tolist() == [7] * 6
  assert (corpus.num_documents, corpus.num_sentences) == (2, 4)
  assert corpus.num_words == 6  # With U+200B.
  assert corpus.sentences_of(1) == (2, 4)
  assert corpus.continues is None


def test_blocks_of_lines_are_one_text(monkeypatch):
  lines = ["a", "b", "", "cc", "d", "", "e"]
  whole = text_corpus.read_corpus(lines, count_letters, np.dtype("H"))
  monkeypatch.setattr(text_corpus, "_LINES_PER_BLOCK", 2)
  parts = text_corpus.read_corpus(lines, count_letters, np.dtype("H"))
  assert parts.ids.tolist() == whole.ids.tolist()
  assert parts[1:] == whole[1:]


@pytest.mark.parametrize("lines", [[], ["", " \n"], ["\u200b"]])
def test_no_sentence(lines):
  corpus = text_corpus.read_corpus(lines, count_letters, np.dtype("H"))
  assert (corpus.num_documents, corpus.num_sentences) == (0, 0)
  assert len(corpus.ids) == 0


def test_vocabulary():
  vocabulary = text_corpus.Vocabulary({**WORDS, "##c": 70000})
  assert (vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id) == (1, 2, 3)
  assert vocabulary.ids.tolist() == [0, 1, 2, 3, 4, 5, 70000]
  assert np.flatnonzero(vocabulary.continues).tolist() == [5, 70000]
  assert vocabulary.dtype == np.uint32
  assert text_corpus.Vocabulary(WORDS).dtype == np.uint16


@pytest.mark.parametrize("token", ["[CLS]", "[SEP]", "[MASK]"])
def test_vocabulary_without_a_special_token(token):
  vocab = {name: index for name, index in WORDS.items() if name != token}
  with pytest.raises(errors.InputError) as error:
    text_corpus.Vocabulary(vocab)
  assert f"has no {token};" in str(error.value)


def test_word_flags_are_the_vocabularys_unless_segmented():
  vocabulary = text_corpus.Vocabulary(WORDS)
  corpus = text_corpus.read_corpus(
    ["ab"], lambda _: ([4, 5], [2], None), vocabulary.dtype
  )
  assert text_corpus.word_flags(corpus, vocabulary) == b"\x00\x01"
  corpus = corpus._replace(continues=b"\x00\x00")
  assert text_corpus.word_flags(corpus, vocabulary) == b"\x00\x00"
