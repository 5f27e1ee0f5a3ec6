"""Encodes texts with [MASK] to ids and mask positions, and checks texts."""

import tokenization
from common import errors


def encode(
  tokenizer: tokenization.FullTokenizer, text: str
) -> tuple[list, list]:
  """Returns the ids of "[CLS] text [SEP]" and the indices of its masks.

  The tokenizer cuts "[MASK]" to "[", "mask", "]", as the original's does, so
  the text between the masks is tokenized piece by piece.
  """
  frame, mask_id = tokenizer.frame, tokenizer.mask_id
  *others, last = text.split(tokenizer.specials.mask)
  ids, positions = [frame.cls_id], []
  for part in others:
    # A mask takes the space before it, which some tokenizers count.
    ids += tokenizer.encode(part.rstrip())
    positions.append(len(ids))
    ids.append(mask_id)
  return [*ids, *tokenizer.encode(last), frame.sep_id], positions


def check(
  text: str,
  tokenizer: tokenization.FullTokenizer,
  max_seq_length: int,
  place: str,
) -> None:
  """Raises InputError for a text without a mask, or that would be cut off."""
  ids, positions = encode(tokenizer, text)
  if not positions:
    mask = tokenizer.specials.mask
    raise errors.InputError(f"{place}: no {mask} in {text!r}; write one")
  _check_length(len(ids), max_seq_length, place)


def check_sentence(
  text: str,
  tokenizer: tokenization.FullTokenizer,
  max_seq_length: int,
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
