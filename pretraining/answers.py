"""Texts with [MASK] -> ids and the places of the masks."""

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
  if len(ids) > max_seq_length:
    raise errors.InputError(
      f"{place}: {len(ids)} word pieces with [CLS] and [SEP], but "
      f"--max_seq_length is {max_seq_length}; shorten the text or raise it"
    )
