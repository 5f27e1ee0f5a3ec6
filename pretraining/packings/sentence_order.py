"""Two segments that follow each other; half of the pairs are swapped (ALBERT).

As in arXiv 1909.11942, section 3.1: the label of --objectives=sentence_order is
1 for a swapped pair. A single last sentence is paired with the sentence before
it; a document of one sentence has no order and gives no pair.
"""

import random
from collections.abc import Iterator

from pretraining import packings

HAS_LABEL = True
FILLS = False


def one_pass(
  text: packings.Text, rng: random.Random
) -> Iterator[packings.SegmentPair]:
  """Yields the SegmentPairs of one pass; see packings."""
  corpus, room = text.corpus, text.room
  starts = corpus.sentence_starts
  for document in text.documents:
    target = packings.draw_target(room, text.options, rng)
    sentence, document_end = corpus.sentences_of(document)
    if document_end - sentence == 1:
      continue
    while sentence < document_end:
      sentence = min(sentence, document_end - 2)
      chunk_end = packings.chunk_end(starts, sentence, document_end, target)
      # One sentence may fill a sequence, and a pair needs two.
      chunk_end = max(chunk_end, sentence + 2)
      a_end = sentence + rng.randint(1, chunk_end - sentence - 1)
      is_swapped = rng.random() < 0.5
      a, b = packings.truncated(
        (starts[sentence], starts[a_end]),
        (starts[a_end], starts[chunk_end]),
        room,
        rng,
      )
      pair = b + a if is_swapped else a + b
      yield packings.SegmentPair(*pair, is_swapped)
      sentence = chunk_end
