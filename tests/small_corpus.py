"""A vocabulary of a few words and texts of them, for the data tests."""

import gzip
import pathlib
import random

GOLDEN = pathlib.Path(__file__).parent / "golden"
TOKENS = "[PAD] [UNK] [CLS] [SEP] [MASK] the cat dog sat ran on mat ##s . ,"


def write_vocab(folder):
  path = folder / "vocab.txt"
  path.write_text(TOKENS.replace(" ", "\n") + "\n")
  return str(path)


def text_of(num_documents, seed=0):
  """Returns documents of one to six sentences of one to twelve words."""
  rng = random.Random(seed)
  words = "the cat dog cats dogs sat ran on mat mats . , xyzzy".split()
  documents = [
    "\n".join(
      " ".join(rng.choices(words, k=rng.randint(1, 12)))
      for _ in range(rng.randint(1, 6))
    )
    for _ in range(num_documents)
  ]
  return "\n\n".join(documents) + "\n"


def write_text(folder, name="text.txt", num_documents=40, seed=0):
  path = folder / name
  path.write_text(text_of(num_documents, seed))
  return str(path)


def released_vocab(folder):
  """Writes the released uncased vocabulary; returns its path."""
  packed = GOLDEN / "tokenization" / "uncased_vocab.txt.gz"
  path = folder / "vocab.txt"
  path.write_bytes(gzip.decompress(packed.read_bytes()))
  return str(path)
