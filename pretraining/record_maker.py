"""Turns text into TFRecords of pre-training instances.

A record is a tf.train.Example. T is max_seq_length, P max_predictions_per_seq;
unused entries are 0.

  input_ids              int [T]    [CLS] a [SEP] b [SEP], masks applied
  input_mask             int [T]    1 for a token, 0 for padding
  segment_ids            int [T]    0 for [CLS] a [SEP], 1 for b [SEP]
  masked_lm_positions    int [P]    positions of the masked tokens, ascending
  masked_lm_ids          int [P]    ids of these tokens before masking
  masked_lm_weights      float [P]  1.0 for each masked token
  next_sentence_labels   int [1]    1 if b is a random segment, 0 if it follows

Records of packings without a label have no next_sentence_labels and no b.
Records with masking "none" (for dynamic masking) have this feature instead of
the three masked_lm features:

  word_starts            int [T]    1 for the first piece of a word; 0 for other
                                    pieces, [CLS], [SEP] and padding
"""

import functools
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from absl import logging

from common import errors
from pretraining import bulk_tokens, data, instance_maker, points
from records import tfrecord
from variants import vocabularies, vocabulary_files

_RECORDS_PER_BLOCK = 512


def _split(lines: Iterable[str], split: Callable) -> Iterator[str]:
  """Yields the sentences of lines; a blank line stays blank."""
  for line in lines:
    yield from split(line) if line.strip() else [line]


class RecordMaker:
  """Makes records according to instance_maker.RecordOptions."""

  def __init__(self, options: instance_maker.RecordOptions):
    """Raises InputError if the vocabulary cannot be used."""
    self._options = options
    packing: Any = points.PACKINGS.load(options.packing)
    self._has_pairs = packing.HAS_LABEL
    files = vocabulary_files.VocabularyFiles(options.vocab_file)
    self.tokenizer = tokenizer = vocabularies.make_tokenizer(
      files,
      do_lower_case=options.do_lower_case,
      never_split=options.never_split,
    )
    self._vocabulary = data.Vocabulary(tokenizer.vocab, tokenizer.specials)
    self._encode_lines = bulk_tokens.line_encoder(tokenizer)
    if not options.segmented_text:
      return
    if not files.is_list:
      raise errors.InputError(
        "--segmented_text needs one token per Chinese character, as in BERT; "
        f"{options.vocab_file} has longer tokens: leave the flag out"
      )
    self._encode_lines = functools.partial(data.encode_segmented, tokenizer)

  def read(self, pieces: list[data.Piece], *, joined: bool) -> data.Corpus:
    """Reads text; `joined` is as in data.read_lines."""
    lines = data.read_lines(pieces, joined=joined)
    if self._options.sentence_splitter:
      splitter: Any = points.SPLITTERS.load(self._options.sentence_splitter)
      lines = _split(lines, splitter.split)
    corpus = data.read_corpus(lines, self._encode_lines, self._vocabulary)
    if self._options.units:
      masking: Any = points.MASKINGS.load(self._options.units)
      options = dict(self._options.unit_options)
      corpus = masking.prepare(corpus, self.tokenizer, **options)
    if self._has_pairs:
      data.warn_of_shape(corpus, self._options.max_seq_length)
    return corpus

  def count_unknown(self, corpus: data.Corpus) -> int:
    """Returns the number of [UNK] tokens."""
    return int(np.count_nonzero(corpus.ids == self._vocabulary.unk_id))

  def write(
    self,
    corpus: data.Corpus,
    writers: list[tfrecord.RecordWriter],
    *,
    seed: int,
    show: Callable[[dict], None] = lambda features: None,
    after_pass: Callable[[], None] = lambda: None,
  ) -> int:
    """Writes the records of a corpus; returns how many there are.

    As in the original: record i goes to writer i mod n. Unlike the original:
    raises InputError if several writers get fewer records than there are
    writers. In the original, some files stay empty.

    Args:
      corpus: the text.
      writers: open RecordWriters.
      seed: seeds all random numbers.
      show: called with the features of the first records.
      after_pass: as in instance_maker.create_instances.
    """
    if corpus.num_documents == 1 and self._has_pairs:
      logging.warning(
        "%s: its text is a single document, so segments that are labelled as "
        "random also come from that document: put blank lines between "
        "documents, or pass more text (larger shards)",
        writers[0].path,
      )
    rng = random.Random(seed)
    instances = instance_maker.create_instances(
      corpus, self._vocabulary, self._options, rng, after_pass=after_pass
    )
    if len(writers) > 1 and len(instances) < len(writers):
      raise errors.InputError(
        f"too few records ({len(instances)}): they cannot fill {len(writers)} "
        "files; name fewer in --output_file"
      )
    # Records are made in blocks, because the arrays of all records would need
    # 30× more memory than the instances.
    for first in range(0, len(instances), _RECORDS_PER_BLOCK):
      features = instances.features(first, first + _RECORDS_PER_BLOCK)
      if first == 0:
        show(features)
      records = tfrecord.serialize_examples(features)
      for index, writer in enumerate(writers):
        # Records are numbered across blocks.
        start = (index - first) % len(writers)
        writer.write_all(records[start :: len(writers)])
    return len(instances)
