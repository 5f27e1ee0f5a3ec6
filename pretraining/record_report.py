"""Pre-training records: whether they are possible, and what they contain.

Reads files of the records that record_maker describes, whoever wrote them.
"""

import collections

import numpy as np

import tokenization
from common import errors, file_io, unknown_tokens
from pretraining import data
from records import tfrecord

_ALWAYS = {"input_ids", "input_mask", "segment_ids"}
_MASKED = {"masked_lm_positions", "masked_lm_ids", "masked_lm_weights"}


def examine(
  paths: list[str], tokenizer: tokenization.FullTokenizer
) -> list[str]:
  """Reads all records of TFRecord files; logs the share of [UNK].

  Returns:
    The lines of a report, which ends with the first record.

  Raises:
    InputError: a file is damaged or has no record, or a record is not possible
      with this vocabulary, or has not as many values as the first one.
  """
  vocabulary = data.Vocabulary(tokenizer.vocab)
  lines, first, sums = [], {}, collections.Counter()
  for path in paths:
    number = 0
    for number, record in enumerate(tfrecord.read_records(path), 1):
      first = first or record
      fault = _fault(record, first, vocabulary)
      if fault:
        raise errors.InputError(
          f"{path}: record {number}: {fault}: make the file again, or pass the "
          "--vocab_file that it was made with"
        )
      sums.update(_counts(record, tokenizer))
    if not number:
      raise errors.InputError(f"{path}: holds no record")
    lines.append(f"{path}: {number:,} records")
  unknown_tokens.log_share(
    file_io.listed(paths), sums["unknown"], sums["tokens"]
  )
  masked = sums["masked_lm_weights"] / sums["input_mask"]
  lines.append(
    f"{sums['records']:,} records, {sums['input_mask']:,} tokens, of which "
    f"{masked:.1%} are to be predicted"
  )
  return [*lines, example_line(first, tokenizer)]


def _fault(record, first, vocabulary):
  """Returns what is wrong with a record, "" if nothing is."""
  needed = _ALWAYS | (_MASKED if _MASKED & set(record) else set())
  if missing := needed - set(record):
    return f"no {', '.join(sorted(missing))}: this is no pre-training record"
  sizes, expected = (
    {name: len(each[name]) for name in sorted(each)} for each in (record, first)
  )
  if sizes != expected:
    return f"its features have {sizes} values, those of the first {expected}"
  checks = _checks(record, vocabulary)
  return next((fault for fault, is_good in checks if not is_good), "")


def _checks(record, vocabulary):
  """Yields (fault, whether the record is without it)."""
  ids, mask, segments = (
    record[name] for name in ("input_ids", "input_mask", "segment_ids")
  )
  length = int(mask.sum())
  # [CLS], a token and [SEP].
  yield "input_mask is not three ones or more, then zeros", length >= 3 and (
    np.array_equal(mask, np.arange(len(mask)) < length)
  )
  known = range(len(vocabulary.continues))
  yield "input_ids is not [CLS], ids of the vocabulary, [SEP] and zeros", (
    ids[0] == vocabulary.cls_id and ids[length - 1] == vocabulary.sep_id
    and not ids[length:].any() and ids.min() in known and ids.max() in known
  )
  # Between tokens alone: padding is 0 again.
  steps = np.diff(segments[:length], prepend=0)
  yield "segment_ids is not zeros and then ones, up to the padding", (
    steps.min() >= 0 and steps.sum() <= 1 and not segments[length:].any()
  )
  if "masked_lm_weights" in record:
    weights, labels = record["masked_lm_weights"], record["masked_lm_ids"]
    count = int((weights > 0).sum())
    yield "masked_lm_weights is not ones and then zeros", (
      np.array_equal(weights, np.arange(len(weights)) < count)
    )
    places = [0, *record["masked_lm_positions"][:count], length - 1]
    yield "masked_lm_positions do not ascend from [CLS] to the last [SEP]", (
      np.diff(places).min() > 0
    )
    yield "a masked token is [CLS], [SEP] or not in the vocabulary", all(
      label in known and label not in (vocabulary.cls_id, vocabulary.sep_id)
      for label in labels[:count].tolist()
    )
  for name in ("next_sentence_labels", "word_starts"):
    yield f"{name} is not 0 or 1", np.isin(record.get(name, 0), (0, 1)).all()


def _counts(record, tokenizer):
  """Returns what `examine` sums up."""
  ids = record["input_ids"].copy()
  if "masked_lm_ids" in record:
    # As it was without masks.
    count = int(record["masked_lm_weights"].sum())
    places = record["masked_lm_positions"][:count]
    ids[places] = record["masked_lm_ids"][:count]
  return {
    "records": 1, "input_mask": int(record["input_mask"].sum()),
    "masked_lm_weights": int(np.sum(record.get("masked_lm_weights", 0))),
    **unknown_tokens.count({**record, "input_ids": ids}, tokenizer),
  }


def example_line(
  record: dict[str, np.ndarray], tokenizer: tokenization.FullTokenizer
) -> str:
  """Returns a record (dict of arrays) as a line of tokens."""
  ids = record["input_ids"][: int(record["input_mask"].sum())]
  parts = [" ".join(tokenizer.convert_ids_to_tokens(ids.tolist()))]
  if "masked_lm_ids" in record:
    count = int(record["masked_lm_weights"].sum())
    positions, labels = (
      record[name][:count].tolist()
      for name in ("masked_lm_positions", "masked_lm_ids")
    )
    tokens = " ".join(tokenizer.convert_ids_to_tokens(labels))
    parts.append(f"to predict at {positions}: {tokens}")
  if "next_sentence_labels" in record:
    is_other = record["next_sentence_labels"][0]
    said = "random or swapped" if is_other else "actual"
    parts.append(f"next sentence: {said}")
  return " | ".join(parts)
