"""A vocabulary that does not fit the text causes a warning."""

import logging

from common import unknown_tokens


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
