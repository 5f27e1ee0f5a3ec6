"""Text -> a corpus: documents, which are sentences, which are ids of tokens.

One array holds all ids, two more the starts of sentences and documents, so a
corpus needs about three bytes per token. No TensorFlow.
"""

import array
import itertools
from typing import NamedTuple

import numpy as np

from common import errors
from variants import vocabularies

SPECIAL_TOKENS = ("[CLS]", "[SEP]", "[MASK]")
_LINES_PER_BLOCK = 4096

# Values of Corpus.continues.
STARTS_WORD, CONTINUES_WORD, NO_WORD = 0, 1, 2


class Vocabulary:
  """The part of a vocabulary that instances depend on.

  Attributes:
    cls_id, sep_id, mask_id: ids of the special tokens.
    unk_id: id of [UNK] or <unk>, or None.
    ids: array [V] of all ids, in the order of the vocabulary's tokens.
    continues: array [largest id + 1] uint8, 1 for a token that continues a
      word ("##s", or a SentencePiece without "▁"), else 0.
    dtype: the smallest unsigned integers that hold every id.
  """

  def __init__(self, vocab):
    """Takes a dict of token -> id; raises InputError without the specials."""
    missing = [token for token in SPECIAL_TOKENS if token not in vocab]
    if missing:
      raise errors.InputError(
        f"the vocabulary has no {', '.join(missing)}; pre-training needs "
        f"{', '.join(SPECIAL_TOKENS)}: use a released vocabulary or one made "
        "by create_vocabulary.py"
      )
    self.cls_id, self.sep_id, self.mask_id = map(vocab.get, SPECIAL_TOKENS)
    self.unk_id = vocabularies.unknown_id(vocab)
    largest = max(vocab.values())
    self.dtype = np.dtype(np.uint16 if largest < 1 << 16 else np.uint32)
    # As in the original: a random number means a place in the list of tokens,
    # so the order of the dict decides which id it is.
    self.ids = np.array(list(vocab.values()), self.dtype)
    self.continues = np.zeros(largest + 1, np.uint8)
    continues = vocabularies.continues_word(vocab)
    for token, index in vocab.items():
      if continues(token):
        self.continues[index] = CONTINUES_WORD


class Corpus(NamedTuple):
  """All documents as arrays.

  Sentence s is ids[sentence_starts[s]:sentence_starts[s + 1]]; document d is
  the sentences document_starts[d] to document_starts[d + 1] (not included).
  Neither is ever empty. Memory: 2 bytes a token (4 where the vocabulary has
  more than 65,536), 8 a sentence and 8 a document.

  Attributes:
    ids: array of all tokens' ids.
    sentence_starts, document_starts: array.array of int64.
    continues: bytes, one for each token, if words come from a segmenter:
      STARTS_WORD, CONTINUES_WORD, NO_WORD; else None.
    num_words: words of text, separated by white space.
  """

  ids: np.ndarray
  sentence_starts: array.array
  document_starts: array.array
  continues: bytes | None
  num_words: int

  def sentences_of(self, document):
    """Returns (first, last + 1) of the numbers of a document's sentences."""
    return self.document_starts[document], self.document_starts[document + 1]

  @property
  def num_documents(self):
    return len(self.document_starts) - 1

  @property
  def num_sentences(self):
    return len(self.sentence_starts) - 1


def read_corpus(lines, encode_lines, dtype):
  """Reads text with a sentence a line and blank lines between documents.

  As in the original: a line is blank if str.strip leaves nothing (NBSP too),
  a sentence without any token is skipped without ending its document, and a
  file does not end a document, see text_shards.read_lines.

  Args:
    lines: iterable of str.
    encode_lines: function of a list of lines that returns (ids of all lines
      one after another, number of ids of each line), and as a third item the
      `continues` of all tokens, or None.
    dtype: integers that hold every id, see Vocabulary.

  Returns:
    A Corpus, which may be empty.
  """
  # array.array grows in place; numpy would copy all for every block.
  ids, flags = array.array(dtype.char), bytearray()
  sentence_starts, document_starts = array.array("q", [0]), array.array("q")
  num_words = 0
  in_document = False
  stripped = map(str.strip, lines)
  while block := list(itertools.islice(stripped, _LINES_PER_BLOCK)):
    block_ids, lengths, continues = encode_lines(block)
    ids.frombytes(np.asarray(block_ids, dtype).tobytes())
    flags += continues or b""
    for line, length in zip(block, lengths):
      if length:
        if not in_document:
          document_starts.append(len(sentence_starts) - 1)
        in_document = True
        sentence_starts.append(sentence_starts[-1] + length)
      # A line without tokens (control characters alone) is no blank one.
      elif not line:
        in_document = False
      num_words += len(line.split())
  document_starts.append(len(sentence_starts) - 1)
  return Corpus(
    np.frombuffer(ids, dtype),
    sentence_starts,
    document_starts,
    bytes(flags) or None,
    num_words,
  )


def word_flags(corpus, vocabulary):
  """Returns bytes: for each token whether it starts or continues a word.

  By the "##" of the vocabulary, unless the corpus was segmented.
  """
  return corpus.continues or vocabulary.continues[corpus.ids].tobytes()
