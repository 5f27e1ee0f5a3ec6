"""Tests the smoothed shares of languages."""

import pathlib

import numpy as np
import pytest

import script_runner
from common import errors
from pretraining import data, languages


def test_factors_are_those_of_the_formula():
  sizes = [9000, 900, 100]
  shares = np.array(sizes) / 10000
  expected = shares**0.7 / (shares**0.7).sum()
  factors = np.array(languages.factors(sizes, 0.7))
  np.testing.assert_allclose(factors * shares, expected, rtol=1e-12)
  assert languages.factors(sizes, 1.0) == pytest.approx([1, 1, 1])
  assert languages.factors([5, 0], 0.7) == [1.0, 0.0]


def test_files_are_repeated_and_shortened(tmp_path):
  for name, count in (("en", 900), ("is", 100)):
    document = f"{name} {name}\n{name}\n\n"
    (tmp_path / name).write_text(document * count)
  paths = [str(tmp_path / name) for name in ("en", "is")]
  whole = data.whole_files(paths)
  assert languages.smoothed(whole, 1.0) is whole
  pieces = languages.smoothed(whole, 0.5)
  lines = list(data.read_lines(pieces, joined=False))
  # 0.9 and 0.1 become 0.75 and 0.25.
  assert lines.count("en") == pytest.approx(750, abs=10)
  assert lines.count("is") == pytest.approx(250, abs=5)
  # A file is left out in hundredths: 83 of 100 stay, and 2.5 times a whole.
  counts = [sum(p.path == path for p in pieces) for path in paths]
  assert 80 <= counts[0] <= 86 and 45 <= counts[1] <= 55
  # The parts that are left out are spread over the file.
  starts = np.array([p.start for p in pieces if p.path == paths[0]])
  assert np.diff(starts).max() < whole[0].end / 20
  with pytest.raises(errors.InputError, match="a file for each language"):
    languages.smoothed(whole[:1], 0.7)


def test_both_scripts_smooth_their_text(tmp_path):
  (tmp_path / "en.txt").write_text("the cat sat\nthe cat ran\n\n" * 200)
  (tmp_path / "is.txt").write_text("ymir odin thor\nodin ymir\n\n" * 4)
  command = {"input_file": tmp_path / "*.txt", "language_smoothing": 0.3}
  vocab = tmp_path / "vocab"
  script_runner.succeed(
    "create_vocabulary.py", **command, output_file=vocab, min_frequency=20
  )
  # Four times are less than --min_frequency.
  assert {"the", "odin"} <= set(pathlib.Path(vocab).read_text().split())
  done = script_runner.succeed(
    "create_pretraining_data.py",
    **command,
    vocab_file=vocab,
    output_file=tmp_path / "records",
    max_seq_length=32,
  )
  assert "is.txt: read 11." in done.err and "en.txt: read 0.7" in done.err
