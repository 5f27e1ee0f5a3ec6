"""Texts with [MASK] -> ids and places of the masks; texts that are checked."""

import tokenization
from common import errors

MASK = "[MASK]"


def encode(
  tokenizer: tokenization.FullTokenizer, text: str
) -> tuple[list, list]:
  """Returns the ids of "[CLS] text [SEP]" and the indices of its masks.

  The tokenizer cuts "[MASK]" to "[", "mask", "]", as the original's does, so
  the text between the masks is tokenized piece by piece.
  """
  cls_id, sep_id, mask_id = tokenizer.convert_tokens_to_ids(
    ["[CLS]", "[SEP]", MASK]
  )
  first, *others = text.split(MASK)
  ids, positions = [cls_id, *tokenizer.encode(first)], []
  for part in others:
    positions.append(len(ids))
    ids += [mask_id, *tokenizer.encode(part)]
  return [*ids, sep_id], positions


def check(
  text: str, tokenizer: tokenization.FullTokenizer, max_seq_length: int,
  place: str,
) -> None:
  """Raises InputError for a text without a mask, or that would be cut off."""
  ids, positions = encode(tokenizer, text)
  if not positions:
    raise errors.InputError(f"{place}: no {MASK} in {text!r}; write one")
  _check_length(len(ids), max_seq_length, place)


def check_sentence(
  text: str, tokenizer: tokenization.FullTokenizer, max_seq_length: int,
  place: str,
) -> None:
  """Raises InputError for a text without a piece, or that would be cut off."""
  count = len(tokenizer.encode(text))
  if not count:
    raise errors.InputError(
      f"{place}: {text!r:.40} has no word piece; leave it out"
    )
  _check_length(count + 2, max_seq_length, place)


def _check_length(count, max_seq_length, place):
  if count > max_seq_length:
    raise errors.InputError(
      f"{place}: {count} word pieces with [CLS] and [SEP], but "
      f"--max_seq_length is {max_seq_length}; shorten the text or raise it"
    )
