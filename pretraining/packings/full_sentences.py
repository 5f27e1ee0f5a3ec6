"""As many sentences as fit, even from several documents, without a label.

As in RoBERTa's FULL-SENTENCES (arXiv 1907.11692, section 4.2): a [SEP] is
between two documents.
"""

import array
import random
from collections.abc import Iterator

import numpy as np

from pretraining import data, packings

HAS_LABEL = False
FILLS = True


def arrange(text: packings.Text) -> packings.Text:
  """Returns a text of one document: all documents with [SEP] between them.

  Each [SEP] is the first token of the sentence after it.
  """
  corpus = text.corpus
  ids, continues = array.array(corpus.ids.dtype.char), bytearray()
  starts = array.array("q", [0])
  for document in text.documents:
    first, last = corpus.sentences_of(document)
    start, end = corpus.sentence_starts[first], corpus.sentence_starts[last]
    if ids:
      ids.append(text.frame.sep_id)
      continues.append(data.NO_WORD)
    # `shift` maps positions in the old array to positions in the new array.
    shift = len(ids) - start
    ids.frombytes(corpus.ids[start:end].tobytes())
    continues += corpus.continues[start:end]
    ends = corpus.sentence_starts[first + 1 : last + 1]
    starts.extend([sentence_end + shift for sentence_end in ends])
  joined = data.Corpus(
    np.frombuffer(ids, corpus.ids.dtype),
    starts,
    array.array("q", [0, len(starts) - 1]),
    bytes(continues),
    corpus.num_words,
  )
  return text._replace(corpus=joined, documents=[0])


def one_pass(
  text: packings.Text, rng: random.Random
) -> Iterator[packings.SegmentPair]:
  """Yields the SegmentPairs of one pass; see packings."""
  return packings.packed(text, 0, len(text.corpus.ids), rng)
