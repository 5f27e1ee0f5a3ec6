"""A vocabulary that does not fit the text causes a warning."""

import logging

import numpy as np

import tiny_model
import tokenization
from common import unknown_tokens


def test_special_tokens_and_padding_do_not_count(tmp_path):
  tokenizer = tokenization.FullTokenizer(
    tiny_model.write_vocabulary(tmp_path, ["a"]), do_lower_case=True
  )
  pad, unk, cls, sep, a = (
    tokenizer.vocab[token]
    for token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a")
  )
  batch = {
    "input_ids": np.array([[cls, a, unk, sep, pad], [cls, a, sep, unk, unk]]),
    "input_mask": np.array([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]]),
  }
  counts = unknown_tokens.count(batch, tokenizer)
  assert counts == {"unknown": 1, "tokens": 3}


def test_the_share_is_logged_and_a_large_one_is_a_warning(caplog):
  caplog.set_level("INFO", logger="absl")
  unknown_tokens.log_share("a.txt", 0, 0)
  unknown_tokens.log_share("b.txt", 10, 100)
  assert {record.levelno for record in caplog.records} == {logging.INFO}
  assert "b.txt: 10.00 % of the tokens are [UNK]" in caplog.messages
  caplog.clear()
  unknown_tokens.log_share("c.txt", 101, 1000)
  (_, warning) = caplog.records
  assert warning.levelno == logging.WARNING
  assert warning.getMessage().startswith("c.txt: 10.1 % of the tokens are")
