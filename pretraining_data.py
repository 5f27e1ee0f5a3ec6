"""Documents -> pairs of segments -> masked-LM instances. No TensorFlow.

A *corpus* is documents, which are sentences, which are ids of tokens, all in
one array. An *instance* is two stretches of that array (segment A and B),
the positions that are masked and what stands there instead: a few dozen
numbers, whatever the length of the sequence. `instance_features` makes the
padded arrays of a batch of them, which are what a record holds.

As in the original: the same text, flags and seed give the same instances in
the same order. So each call of `rng` stands where the original has one, and
tells what it decides.
"""

import array
import bisect
import dataclasses
import re
from typing import NamedTuple

import numpy as np

import errors

SPECIAL_TOKENS = ("[CLS]", "[SEP]", "[MASK]")
_SPECIALS_PER_PAIR = 3  # [CLS] a [SEP] b [SEP]
_LINES_PER_BLOCK = 4096
_TRIES_FOR_ANOTHER_DOCUMENT = 10

# First pieces are 0 and continuations ("##able") 1: a word is any piece (the
# first of the sequence may be a continuation) and the continuations after it.
_WORD = re.compile(rb"[\x00\x01]\x01*")


@dataclasses.dataclass(frozen=True)
class Options:
  """How instances are made; the names and defaults are the flags'.

  Raises InputError when made with values that cannot work.
  """

  max_seq_length: int = 128
  max_predictions_per_seq: int = 20
  random_seed: int = 12345
  dupe_factor: int = 10
  masked_lm_prob: float = 0.15
  short_seq_prob: float = 0.1
  do_whole_word_mask: bool = False

  def __post_init__(self):
    least = _SPECIALS_PER_PAIR + 2
    self._check(
      self.max_seq_length >= least,
      "max_seq_length",
      f"at least {least}: [CLS], two [SEP] and a token of each segment",
    )
    self._check(self.dupe_factor >= 1, "dupe_factor", "at least 1")
    self._check(
      1 <= self.max_predictions_per_seq <= self.max_seq_length,
      "max_predictions_per_seq",
      f"from 1 to --max_seq_length ({self.max_seq_length})",
    )
    self._check(
      0 < self.masked_lm_prob <= 1, "masked_lm_prob", "in (0, 1]"
    )
    self._check(
      0 <= self.short_seq_prob <= 1, "short_seq_prob", "in [0, 1]"
    )

  def _check(self, holds, name, expected):
    if not holds:
      raise errors.InputError(
        f"--{name}={getattr(self, name)}: must be {expected}"
      )


class Corpus(NamedTuple):
  """All documents as arrays.

  Sentence s is ids[sentence_starts[s]:sentence_starts[s + 1]]; document d is
  the sentences document_starts[d] to document_starts[d + 1] (not included).
  Neither is ever empty. Memory: 2 bytes a token (4 where the vocabulary has
  more than 65,536), 8 a sentence and 8 a document.
  """

  ids: np.ndarray
  sentence_starts: array.array
  document_starts: array.array

  def sentences_of(self, document):
    """Returns (first, last + 1) of the numbers of a document's sentences."""
    return self.document_starts[document], self.document_starts[document + 1]

  @property
  def num_documents(self):
    return len(self.document_starts) - 1

  @property
  def num_sentences(self):
    return len(self.sentence_starts) - 1


class Vocabulary:
  """What masking needs to know of a vocabulary.

  Attributes:
    cls_id, sep_id, mask_id: ids of the special tokens.
    ids: array [V] of all ids, in the order of the vocabulary's tokens.
    continues: bytes [largest id + 1], 1 for a token that starts with "##".
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
    largest = max(vocab.values())
    self.dtype = np.dtype(np.uint16 if largest < 1 << 16 else np.uint32)
    self.ids = np.array(list(vocab.values()), self.dtype)
    continues = bytearray(largest + 1)
    for token, index in vocab.items():
      continues[index] = token.startswith("##")
    self.continues = bytes(continues)


def read_corpus(lines, encode, dtype):
  """Reads text with a sentence a line and blank lines between documents.

  As in the original: "blank" is what str.strip leaves nothing of (NBSP too),
  and a sentence without any token is passed over without ending its document.

  Args:
    lines: iterable of str. A new file alone does not start a new document.
    encode: function of a line (str) that returns its ids.
    dtype: integers that hold every id, see Vocabulary.

  Returns:
    A Corpus.

  Raises:
    InputError: there is no sentence at all.
  """
  ids = array.array(dtype.char)
  sentence_starts, document_starts = array.array("q", [0]), array.array("q")
  in_document = False
  for line in lines:
    line = line.strip()
    sentence = encode(line)
    if sentence:
      if not in_document:
        document_starts.append(len(sentence_starts) - 1)
      in_document = True
      ids.extend(sentence)
      sentence_starts.append(len(ids))
    elif not line:
      in_document = False
  if not document_starts:
    raise errors.InputError(
      "the input holds no sentence: give text with one sentence a line and "
      "blank lines between documents"
    )
  document_starts.append(len(sentence_starts) - 1)
  return Corpus(np.frombuffer(ids, dtype), sentence_starts, document_starts)


class SegmentPair(NamedTuple):
  """Two stretches of a corpus's ids: a_start to a_end (not included)."""

  a_start: int
  a_end: int
  b_start: int
  b_end: int
  is_random_next: bool

  @property
  def num_tokens(self):
    """Length of [CLS] a [SEP] b [SEP]."""
    lengths = self.a_end - self.a_start + self.b_end - self.b_start
    return lengths + _SPECIALS_PER_PAIR


def segment_pairs(corpus, order, place, options, rng):
  """Yields the SegmentPairs of the document order[place].

  Sentences are collected until they fill a sequence; a random part of them
  becomes segment A, and B is the rest or, half of the time, a stretch of a
  random document. The generator draws from `rng` as it goes, so whoever
  draws between two pairs (the masking) does so where the original does.

  Args:
    corpus: Corpus.
    order: shuffled numbers of its documents.
    place: an index of `order`.
    options: Options.
    rng: random.Random.
  """
  max_tokens = options.max_seq_length - _SPECIALS_PER_PAIR
  target = max_tokens
  # Some sequences are short, so that fine-tuning's short ones are not new.
  if rng.random() < options.short_seq_prob:
    target = rng.randint(2, max_tokens)
  starts = corpus.sentence_starts
  sentence, document_end = corpus.sentences_of(order[place])
  while sentence < document_end:
    chunk_end = _chunk_end(starts, sentence, document_end, target)
    size = chunk_end - sentence
    a_end = sentence + (rng.randint(1, size - 1) if size > 1 else 1)
    a = starts[sentence], starts[a_end]
    # As in the original: one sentence alone always gets a random next one.
    is_random_next = size == 1 or rng.random() < 0.5
    if is_random_next:
      rest = target - (a[1] - a[0])
      b = _random_stretch(corpus, order, place, rest, rng)
      sentence = a_end  # The rest of the chunk is put back.
    else:
      b = starts[a_end], starts[chunk_end]
      sentence = chunk_end
    yield SegmentPair(*_truncated(*a, *b, max_tokens, rng), is_random_next)


def _chunk_end(starts, sentence, last, target):
  """Returns the first end of a sentence with `target` tokens before it."""
  enough = starts[sentence] + target
  return bisect.bisect_left(starts, enough, sentence + 1, last)


def _random_stretch(corpus, order, place, target, rng):
  """Returns (start, end) of sentences of about `target` tokens elsewhere.

  As in the original: ten tries to find another document. So with a single
  document it is always the same one, labelled as random.
  """
  for _ in range(_TRIES_FOR_ANOTHER_DOCUMENT):
    other = rng.randint(0, len(order) - 1)
    if other != place:
      break
  first, last = corpus.sentences_of(order[other])
  sentence = first + rng.randint(0, last - first - 1)
  starts = corpus.sentence_starts
  return starts[sentence], starts[_chunk_end(starts, sentence, last, target)]


def _truncated(a_start, a_end, b_start, b_end, max_tokens, rng):
  """Cuts tokens off the longer stretch until both fit, at random ends.

  As in the original: B where both are equally long, and a draw for each
  token, whether it is the first or the last.
  """
  length_a, length_b = a_end - a_start, b_end - b_start
  while length_a + length_b > max_tokens:
    from_front = rng.random() < 0.5
    if length_a > length_b:
      length_a -= 1
      a_start += from_front
    else:
      length_b -= 1
      b_start += from_front
  return a_start, a_start + length_a, b_start, b_start + length_b


class Instances:
  """Masked pairs, a row each, in the order of their making.

  Attributes:
    pairs: int64 [n, 5], the fields of a SegmentPair.
    num_masked: uint16 [n].
    positions: uint16 [n, P], the masked positions, rising, then zeros.
    replacements: [n, P], the ids that stand there in the input.
  """

  def __init__(self, max_predictions, dtype):
    self._max_predictions = max_predictions
    self._dtype = dtype
    self._pairs = array.array("q")
    self._num_masked = array.array("H")
    self._positions = array.array("H")
    self._replacements = array.array(dtype.char)

  def __len__(self):
    return len(self._num_masked)

  def append(self, pair, masked):
    """Adds a SegmentPair with its masked [(position, replacement)]."""
    padding = [0] * (self._max_predictions - len(masked))
    self._pairs.extend(pair)
    self._num_masked.append(len(masked))
    self._positions.extend([position for position, _ in masked] + padding)
    self._replacements.extend([new for _, new in masked] + padding)

  @property
  def pairs(self):
    return np.frombuffer(self._pairs, np.int64).reshape(len(self), -1)

  @property
  def num_masked(self):
    return np.frombuffer(self._num_masked, np.uint16)

  @property
  def positions(self):
    rows = np.frombuffer(self._positions, np.uint16)
    return rows.reshape(len(self), self._max_predictions)

  @property
  def replacements(self):
    rows = np.frombuffer(self._replacements, self._dtype)
    return rows.reshape(len(self), self._max_predictions)


def create_instances(corpus, vocabulary, options, rng):
  """Makes all instances of a corpus.

  Args:
    corpus: Corpus.
    vocabulary: Vocabulary.
    options: Options.
    rng: random.Random, in the state that its seed gives.

  Returns:
    (Instances, order): the original's list is instances order[0], order[1]...
  """
  documents = list(range(corpus.num_documents))
  rng.shuffle(documents)
  instances = Instances(options.max_predictions_per_seq, vocabulary.dtype)
  for _ in range(options.dupe_factor):
    for place in range(len(documents)):
      for pair in segment_pairs(corpus, documents, place, options, rng):
        masked = masked_tokens(pair, corpus, vocabulary, options, rng)
        instances.append(pair, masked)
  order = array.array("q", range(len(instances)))
  rng.shuffle(order)
  return instances, np.frombuffer(order, np.int64)


def masked_tokens(pair, corpus, vocabulary, options, rng):
  """Chooses what the model must predict in a pair, and what it sees there.

  Args:
    pair: SegmentPair.
    corpus, vocabulary, options: as in create_instances.
    rng: random.Random.

  Returns:
    A list of (position in [CLS] a [SEP] b [SEP], id to put there), rising.
  """
  room = max(1, round(pair.num_tokens * options.masked_lm_prob))
  room = min(room, options.max_predictions_per_seq)
  ids = corpus.ids[pair.a_start:pair.a_end].tolist()
  second_separator = len(ids) + 1
  ids += corpus.ids[pair.b_start:pair.b_end].tolist()
  words = _words(ids, vocabulary.continues, options.do_whole_word_mask)
  rng.shuffle(words)
  masked = []
  for index in _within_room(words, room):
    position = index + 1 + (index + 1 >= second_separator)
    masked.append((position, _replacement(ids[index], vocabulary, rng)))
  return sorted(masked)


def _words(ids, continues, whole):
  """Returns ranges of indexes that are masked together.

  As in the original: a continuation at the start of segment B (whose front
  was cut off) joins the last word of segment A.
  """
  if not whole:
    return [range(index, index + 1) for index in range(len(ids))]
  flags = bytes([continues[index] for index in ids])
  return [range(*word.span()) for word in _WORD.finditer(flags)]


def _within_room(words, room):
  """Yields the indexes of the first words which fit into `room` together.

  As in the original: a word that is too long for the rest is passed over.
  """
  for word in words:
    if not room:
      return
    if len(word) <= room:
      room -= len(word)
      yield from word


def _replacement(token_id, vocabulary, rng):
  """Returns [MASK] (80 %), the token itself (10 %) or a random one (10 %).

  As in the original: random ones come from the whole vocabulary, [PAD],
  [unused0] and "##" pieces included.
  """
  if rng.random() < 0.8:
    return vocabulary.mask_id
  if rng.random() < 0.5:
    return token_id
  return int(vocabulary.ids[rng.randint(0, len(vocabulary.ids) - 1)])


def instance_features(corpus, instances, rows, vocabulary, options):
  """Returns what the records of some instances hold.

  Args:
    corpus, instances, vocabulary, options: as in create_instances.
    rows: array [B] of the instances' numbers.

  Returns:
    A dict of input_ids, input_mask, segment_ids [B, T]; masked_lm_positions,
    masked_lm_ids, masked_lm_weights (float) [B, P]; next_sentence_labels
    [B, 1], 1 for a random next segment.
  """
  a_start, a_end, b_start, b_end, is_random = instances.pairs[rows].T[..., None]
  b_first = a_end - a_start + 2  # Position of B's first token.
  length = b_first + b_end - b_start + 1
  column = np.arange(options.max_seq_length)
  in_a = (column >= 1) & (column < b_first - 1)
  in_b = (column >= b_first) & (column < length - 1)
  source = column + np.where(in_b, b_start - b_first, a_start - 1)
  input_ids = np.zeros(source.shape, np.int64)
  input_ids[in_a | in_b] = corpus.ids[source[in_a | in_b]]
  input_ids[:, 0] = vocabulary.cls_id
  separators = (column == b_first - 1) | (column == length - 1)
  input_ids[separators] = vocabulary.sep_id
  return {
    **_apply_masks(input_ids, instances, rows),
    "input_mask": (column < length).astype(np.uint8),
    "segment_ids": ((column >= b_first) & (column < length)).astype(np.uint8),
    "next_sentence_labels": is_random,
  }


def _apply_masks(input_ids, instances, rows):
  """Puts the replacements into `input_ids`; returns it and the labels."""
  positions = instances.positions[rows].astype(np.int64)
  num_masked = instances.num_masked[rows]
  masked = np.arange(positions.shape[1]) < num_masked[:, None]
  labels = np.where(masked, np.take_along_axis(input_ids, positions, 1), 0)
  row, _ = np.nonzero(masked)
  input_ids[row, positions[masked]] = instances.replacements[rows][masked]
  return {
    "input_ids": input_ids,
    "masked_lm_positions": positions,
    "masked_lm_ids": labels,
    "masked_lm_weights": masked.astype(np.float32),
  }
