"""Two segments, with a label that says whether the second follows the first.

As in the original: sentences are collected until they reach a target length. A
random number of the first sentences form segment A. B is the other sentences
or, half of the time, text of a random document.
"""

import random
from collections.abc import Iterator

from pretraining import packings

HAS_LABEL = True
FILLS = False
_TRIES_FOR_ANOTHER_DOCUMENT = 10


def one_pass(
  text: packings.Text, rng: random.Random
) -> Iterator[packings.SegmentPair]:
  """Yields the SegmentPairs of one pass; see packings."""
  corpus, room = text.corpus, text.room
  starts = corpus.sentence_starts
  for index, document in enumerate(text.documents):
    target = packings.draw_target(room, text.options, rng)
    sentence, document_end = corpus.sentences_of(document)
    while sentence < document_end:
      chunk_end = packings.chunk_end(starts, sentence, document_end, target)
      # For example, with a target of 8, sentences of 5, 4 and 6 tokens give a
      # chunk of the first two sentences, and A is the first sentence.
      size = chunk_end - sentence
      a_end = sentence + (rng.randint(1, size - 1) if size > 1 else 1)
      a = starts[sentence], starts[a_end]
      # As in the original: a single sentence always gets a random next segment.
      is_random_next = size == 1 or rng.random() < 0.5
      if is_random_next:
        b = _random_range(text, index, target - (a[1] - a[0]), rng)
        sentence = a_end  # The next chunk starts with the rest of this one.
      else:
        b = starts[a_end], starts[chunk_end]
        sentence = chunk_end
      a, b = packings.truncated(a, b, room, rng)
      yield packings.SegmentPair(*a, *b, is_random_next)


def _random_range(
  text: packings.Text, index: int, target: int, rng: random.Random
) -> tuple[int, int]:
  """Returns (start, end) of about `target` tokens in a random document.

  As in the original: up to ten draws look for a document other than the one at
  `index`. If all draws fail, the segment comes from that same document.
  """
  for _ in range(_TRIES_FOR_ANOTHER_DOCUMENT):
    other = rng.randint(0, len(text.documents) - 1)
    if other != index:
      break
  first, last = text.corpus.sentences_of(text.documents[other])
  sentence = rng.randint(first, last - 1)
  starts = text.corpus.sentence_starts
  end = packings.chunk_end(starts, sentence, last, target)
  return starts[sentence], starts[end]
