"""As many sentences of one document as fit, without a label (SpanBERT).

As in RoBERTa's DOC-SENTENCES (arXiv 1907.11692, section 4.2): a sequence does
not cross documents, so the last sequence of a document may be short.
"""

import random
from collections.abc import Iterator

from pretraining import packings

HAS_LABEL = False
FILLS = True


def one_pass(
  text: packings.Text, rng: random.Random
) -> Iterator[packings.SegmentPair]:
  """Yields the SegmentPairs of one pass; see packings."""
  starts = text.corpus.sentence_starts
  for document in text.documents:
    first, last = text.corpus.sentences_of(document)
    yield from packings.packed(text, starts[first], starts[last], rng)
