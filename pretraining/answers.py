"""Encodes texts with [MASK] as ids and mask positions, and checks texts."""

import tokenization
from common import errors


def encode(
  tokenizer: tokenization.FullTokenizer, text: str
) -> tuple[list, list]:
  """Returns the ids of "[CLS] text [SEP]" and the indices of its masks.

  As in the original: the tokenizer splits "[MASK]" into "[", "mask", "]". So
  the texts between the masks are tokenized separately.
  """
  frame, mask_id = tokenizer.frame, tokenizer.mask_id
  *parts, last = text.split(tokenizer.specials.mask)
  ids, positions = [frame.cls_id], []
  for part in parts:
    # The mask token includes the space before it.
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
  """Raises InputError for a text that has no mask or would be truncated."""
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
  """Raises InputError for a text that has no token or would be truncated."""
  count = len(tokenizer.encode(text))
  if not count:
    raise errors.InputError(
      f"{place}: {text!r:.40} has no word piece; leave it out"
    )
  _check_length(count + 2, max_seq_length, place)


def _check_length(count, max_seq_length, place):
  if count > max_seq_length:
    raise errors.InputError(
      f"{place}: {count} word pieces with [CLS] and [SEP] exceed "
      f"--max_seq_length={max_seq_length}; raise it, or shorten the text"
    )
