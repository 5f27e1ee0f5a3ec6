"""The tiny SentencePiece model of tests/golden/sentencepiece, as a file."""

import gzip

import script_runner

GOLDEN = script_runner.ROOT / "tests" / "golden" / "sentencepiece"


def write(folder):
  """Writes spiece.model to a folder; returns its path."""
  path = folder / "spiece.model"
  path.write_bytes(gzip.decompress((GOLDEN / "spiece.model.gz").read_bytes()))
  return path
