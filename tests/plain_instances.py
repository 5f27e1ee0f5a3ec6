"""Pre-training instances in the plainest way: loops over lists of tokens.

What instance_maker and masks compute with arrays and positions, written again
as one reads it in a paper: slow, and easy to check by eye. The tests compare
both on random texts and options.
(That instance_maker makes the instances of the original is tested with its
records.)

A document is a list of sentences, a sentence a list of tokens (str).
"""

import itertools

import numpy as np

SPECIAL = ("[CLS]", "[SEP]")


def features_of(documents, vocab, options, rng):
  """Returns what Instances.features returns for all instances, in order.

  Args:
    documents: list of documents.
    vocab: dict of token -> id.
    options: instance_maker.RecordOptions.
    rng: random.Random.
  """
  documents = list(documents)
  rng.shuffle(documents)
  instances = [
    (tokens, num_first, is_random, mask(tokens, vocab, options, rng))
    for _ in range(options.dupe_factor)
    for tokens, num_first, is_random in sequences(documents, options, rng)
  ]
  rng.shuffle(instances)
  rows = [feature_row(*instance, vocab, options) for instance in instances]
  return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def feature_row(tokens, num_first, is_random, masked, vocab, options):
  """Returns the features of one instance, a dict of lists."""

  def padded(values, length):
    return values + [0] * (length - len(values))

  length, width = options.max_seq_length, options.max_predictions_per_seq
  row = {
    "input_mask": padded([1] * len(tokens), length),
    "segment_ids": padded(
      [0] * num_first + [1] * (len(tokens) - num_first), length
    ),
  }
  if options.packing == "sentence_pairs":
    row["next_sentence_labels"] = [int(is_random)]
  ids = [vocab[token] for token in tokens]
  if options.masking == "none":
    starts = [int(is_start(tokens, n)) for n in range(len(tokens))]
    return {
      **row, "input_ids": padded(ids, length),
      "word_starts": padded(starts, length),
    }
  positions = sorted(masked)
  return {
    **row,
    "masked_lm_positions": padded(positions, width),
    "masked_lm_ids": padded([ids[n] for n in positions], width),
    "masked_lm_weights": padded([1] * len(positions), width),
    "input_ids": padded(
      [masked.get(place, index) for place, index in enumerate(ids)], length
    ),
  }


def is_start(tokens, place):
  """Whether the token there starts a word of its segment."""
  if tokens[place] in SPECIAL:
    return False
  return not tokens[place].startswith("##") or tokens[place - 1] in SPECIAL


# Sequences.


def sequences(documents, options, rng):
  """Yields (tokens, how many are of the first segment, whether B is random)."""
  if options.packing == "sentence_pairs":
    for place in range(len(documents)):
      yield from pairs(documents, place, options, rng)
    return
  sentences = list(documents[0])
  for document in documents[1:]:
    sentences += [["[SEP]", *document[0]], *document[1:]]
  yield from packed(sentences, options, rng)


def target_length(max_tokens, options, rng):
  is_short = rng.random() < options.short_seq_prob
  return rng.randint(2, max_tokens) if is_short else max_tokens


def until(target, sentences):
  """Returns the first sentences, as many as it takes to have `target`."""
  taken = []
  for sentence in sentences:
    taken.append(sentence)
    if sum(map(len, taken)) >= target:
      break
  return taken


def joined(sentences):
  return list(itertools.chain.from_iterable(sentences))


def pairs(documents, place, options, rng):
  """Yields the sequences of one document with next-sentence labels."""
  max_tokens = options.max_seq_length - 3
  target = target_length(max_tokens, options, rng)
  rest = documents[place]
  while rest:
    chunk = until(target, rest)
    count = rng.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
    a, b = joined(chunk[:count]), joined(chunk[count:])
    is_random = len(chunk) == 1 or rng.random() < 0.5
    if is_random:
      b = joined(until(target - len(a), elsewhere(documents, place, rng)))
    rest = rest[count if is_random else len(chunk) :]
    shorten(a, b, max_tokens, rng)
    yield ["[CLS]", *a, "[SEP]", *b, "[SEP]"], len(a) + 2, is_random


def shorten(a, b, max_tokens, rng):
  """Removes tokens from the longer list until both fit."""
  while len(a) + len(b) > max_tokens:
    longer = a if len(a) > len(b) else b
    longer.pop(0 if rng.random() < 0.5 else -1)


def elsewhere(documents, place, rng):
  """Returns the sentences of another document, from a random one on."""
  tries = (rng.randint(0, len(documents) - 1) for _ in range(10))
  other = place
  while other == place:
    tried = next(tries, None)
    if tried is None:
      break
    other = tried
  return documents[other][rng.randint(0, len(documents[other]) - 1) :]


def packed(sentences, options, rng):
  """Yields sequences of as many whole sentences as fit, without a B."""
  rest = [list(sentence) for sentence in sentences]
  while rest:
    if rest[0][0] == "[SEP]":
      rest[0].pop(0)
    target = target_length(options.max_seq_length - 2, options, rng)
    tokens = []
    while rest and len(tokens) + len(rest[0]) <= target:
      tokens += rest.pop(0)
    if not tokens:
      tokens, rest[0] = rest[0][:target], rest[0][target:]
    yield ["[CLS]", *tokens, "[SEP]"], len(tokens) + 2, False


# Masks.


def mask(tokens, vocab, options, rng):
  """Returns {position: id in the input} of the masked tokens."""
  masked = {}
  if options.masking == "none":
    return masked
  budget = max(1, round(len(tokens) * options.masked_lm_prob))
  budget = min(budget, options.max_predictions_per_seq)
  words = words_of(tokens, options.masking == "whole_words")
  rng.shuffle(words)
  for word in words:
    if len(masked) == budget:
      break
    if len(masked) + len(word) <= budget:
      for place in word:
        masked[place] = replaced(tokens[place], vocab, options, rng)
  return masked


def replaced(token, vocab, options, rng):
  """Returns the id that the model sees instead of a token to predict."""
  if rng.random() < options.mask_shares.mask:
    return vocab["[MASK]"]
  if rng.random() < options.mask_shares.keep:
    return vocab[token]
  return list(vocab.values())[rng.randint(0, len(vocab) - 1)]


def words_of(tokens, whole):
  """Returns lists of positions. A "##" after [SEP] belongs to segment A."""
  words = []
  for place, token in enumerate(tokens):
    if token not in SPECIAL:
      if whole and words and token.startswith("##"):
        words[-1].append(place)
      else:
        words.append([place])
  return words
