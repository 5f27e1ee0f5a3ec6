"""Sizes in words, and models that do not fit."""

import pytest

from common import errors, memory


@pytest.mark.parametrize(
  "size, words",
  [
    (0, "0 bytes"), (999, "999 bytes"), (1536, "1.54 kB"), (10**9, "1 GB"),
    (64 * 10**9, "64 GB"), (10**20, "1e+05 PB"), (10**4000, "1e+285 PB"),
  ],
)
def test_sizes_in_words(size, words):
  assert memory.describe(size) == words


def test_this_machine_holds_what_it_can(monkeypatch):
  assert memory.total_bytes() > 10**8
  monkeypatch.setattr(memory, "total_bytes", lambda: 4000)
  memory.check_parameters(1000, "vocab_size 5")
  with pytest.raises(
    errors.InputError, match="needs 4 kB .* has 4 kB; .* such as vocab_size 5$"
  ):
    memory.check_parameters(1001, "vocab_size 5")
  # Where nobody can tell, TensorFlow has to.
  monkeypatch.setattr(memory, "total_bytes", lambda: None)
  memory.check_parameters(10**30, "vocab_size 5")


def test_a_limit_on_address_space_counts(monkeypatch):
  monkeypatch.setattr("resource.getrlimit", lambda which: (10**6, -1))
  assert memory.total_bytes() == 10**6
