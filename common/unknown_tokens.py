"""Counts [UNK] in a model's input, to test whether a vocabulary fits."""

import numpy as np
from absl import logging

# With a suitable vocabulary, the share of [UNK] is far below 1 %.
_MANY_PERCENT = 10


def count(batch: dict[str, np.ndarray], tokenizer) -> dict[str, int]:
  """Counts the pieces of a batch (`tokens`), and [UNK] among them (`unknown`).

  input_ids and input_mask are integers [B, T]; [CLS] and [SEP] do not count.
  """
  ids = batch["input_ids"]
  unknown = ids == tokenizer.vocab.get(tokenizer.unk_token, -1)
  is_piece = (batch["input_mask"] > 0) & ~np.isin(ids, tokenizer.frame[:2])
  return {
    "unknown": int(np.sum(unknown & is_piece)),
    "tokens": int(np.sum(is_piece)),
  }


def log_share(place: str, unknown: int, tokens: int) -> None:
  """Logs the share of [UNK] among a file's tokens; warns above 10 %."""
  # A text without tokens has the share 0.
  percent = 100 * unknown / max(tokens, 1)
  logging.info("%s: %.2f %% of the tokens are [UNK]", place, percent)
  if percent > _MANY_PERCENT:
    logging.warning(
      "%s: %.1f %% of the tokens are [UNK], and the model learns nothing from "
      "them: check that --vocab_file and --do_lower_case fit the text",
      place,
      percent,
    )
