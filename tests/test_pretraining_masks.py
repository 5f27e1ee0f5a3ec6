"""Tests --mask_shares; test_pretraining_instance_maker.py tests the masks."""

import pytest

from common import errors
from pretraining import masks


@pytest.mark.parametrize(
  "shares, mask, keep",
  [
    ("80,10,10", 0.8, 0.5),
    ("100,0,0", 1, 0.5),
    ("0,0,100", 0, 0),
    ("80,20,0", 0.8, 1),
    ("0,20,80", 0, 0.2),
  ],
)
def test_shares_of_a_flag(shares, mask, keep):
  assert masks.parse_shares(shares.split(",")) == (mask, keep)


def test_the_default_shares_are_those_of_the_paper():
  assert masks.SHARES == masks.parse_shares(["80", "10", "10"])


@pytest.mark.parametrize(
  "shares", ["80,10", "80,10,x", "80,30,-10", "8,1,1", "80,nan,10"]
)
def test_bad_shares_are_refused(shares):
  with pytest.raises(errors.InputError, match=f"--mask_shares={shares}: "):
    masks.parse_shares(shares.split(","))
