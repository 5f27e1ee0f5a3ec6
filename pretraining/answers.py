"""Encodes texts with [MASK] as ids and mask positions, and checks texts."""

import tokenization
from common import errors
from text import cut_texts


def encode(
  tokenizer: tokenization.FullTokenizer, text: str
) -> tuple[list, list]:
  """Returns the ids of "[CLS] text [SEP]" and the indices of its masks.

  As in the original: the tokenizer splits "[MASK]" into "[", "mask", "]". So
  the texts between the masks are tokenized separately.
  """
  frame, mask_id = tokenizer.frame, tokenizer.mask_id
  specials = tokenizer.specials
  parts = text.split(specials.mask)
  before, after = specials.mask_strips
  if before:
    parts[:-1] = map(str.rstrip, parts[:-1])
  if after:
    parts[1:] = map(str.lstrip, parts[1:])
  *parts, last = parts
  ids, positions = [frame.cls_id], []
  for part in parts:
    ids += tokenizer.encode(part)
    positions.append(len(ids))
    ids.append(mask_id)
  return [*ids, *tokenizer.encode(last), frame.sep_id], positions


def encode_within(
  tokenizer: tokenization.FullTokenizer,
  text: str,
  max_seq_length: int,
  cut: cut_texts.CutTexts | None = None,
) -> tuple[list, list]:
  """Returns `encode`'s ids, cut to a length, and the indices of all masks.

  It adds the text to `cut`. Raises InputError: a mask is behind the length.
  """
  ids, positions = encode(tokenizer, text)
  if positions and positions[-1] >= max_seq_length - 1:
    mask = tokenizer.specials.mask
    raise errors.InputError(
      f"the text {text!r:.40} has a {mask} at token {positions[-1] + 1}, but "
      f"the model reads {max_seq_length} (max_seq_length); raise it, or "
      "shorten the text"
    )
  if cut:
    cut.add(len(ids) > max_seq_length)
  if len(ids) > max_seq_length:
    ids = [*ids[: max_seq_length - 1], ids[-1]]
  return ids, positions


def require_mask(text: str, mask: str, place: str) -> None:
  """Raises InputError for a text without the model's mask."""
  if mask not in text:
    raise errors.InputError(f"{place}: no {mask} in {text!r}; write one")


def check(
  text: str,
  tokenizer: tokenization.FullTokenizer,
  max_seq_length: int,
  place: str,
) -> None:
  """Raises InputError for a text that has no mask or would be truncated."""
  require_mask(text, tokenizer.specials.mask, place)
  _check_length(len(encode(tokenizer, text)[0]), max_seq_length, place)


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


def _check_length(count: int, max_seq_length: int, place: str) -> None:
  if count > max_seq_length:
    raise errors.InputError(
      f"{place}: {count} word pieces with [CLS] and [SEP] exceed "
      f"--max_seq_length={max_seq_length}; raise it, or shorten the text"
    )
