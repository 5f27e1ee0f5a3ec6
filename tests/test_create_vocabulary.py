"""create_vocabulary.py as a user types it."""

import os
import subprocess
import sys

import pytest

import script_runner
import tokenization
from pretraining import vocabulary

TEXTS = {
  "b.txt": "Lower and lower, the kites sank.\nSlower kites sank last.\n",
  "a.txt": "The slowest of the low kites: 1, 2, 13.\n\nA caf\u00e9!\n",
}

# What is wrong: the flags, what the one sentence must say.
BAD = [
  ({"input_file": "none*.txt"}, "no file matches 'none*.txt'"),
  ({"input_file": "empty.txt"}, "no word in empty.txt"),
  ({"input_file": "a.txt,latin1.txt"}, "latin1.txt:2: not UTF-8"),
  ({"input_file": "a.txt", "vocab_size": 9}, "vocab_size 9 is too"),
  ({"input_file": "a.txt", "output_file": "a.txt/x/vocab.txt"},
   "cannot write a.txt/x/vocab.txt: a.txt/x is not a folder"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  folder = tmp_path_factory.mktemp("texts")
  for name, text in TEXTS.items():
    (folder / name).write_text(text, encoding="utf-8")
  (folder / "empty.txt").write_bytes(b"\n \n")
  (folder / "latin1.txt").write_bytes(b"one\ncaf\xe9\n")
  return folder


def test_a_vocabulary(folder):
  run = subprocess.run(
    [
      sys.executable, str(script_runner.ROOT / "create_vocabulary.py"),
      "--input_file=*[ab].txt", "--output_file=new/vocab.txt",
      "--vocab_size=64", "--num_unused_tokens=2",
    ],
    cwd=folder,
    # Another order of Python's sets than this process has.
    env={**os.environ, "PYTHONHASHSEED": "1"}, capture_output=True, text=True,
  )
  assert run.returncode == 0, run.stderr
  assert os.listdir(folder / "new") == ["vocab.txt"]
  path = folder / "new" / "vocab.txt"
  counts = vocabulary.WordCounts(do_lower_case=True, max_words=1000)
  for text in TEXTS.values():
    for line in text.split("\n"):
      counts.add(line)
  tokens = vocabulary.make_vocabulary(
    counts, do_lower_case=True, vocab_size=64, num_unused_tokens=2,
    # The flags' defaults.
    min_frequency=2, max_characters=1000, max_learned_words=200_000,
  )
  assert path.read_bytes() == "".join(f"{t}\n" for t in tokens).encode()
  assert tokens[:4] == ["[PAD]", "[unused1]", "[unused2]", "[UNK]"]
  assert f"Wrote {len(tokens)} tokens to new/vocab.txt" in run.stderr
  assert "Fewer than --vocab_size=64" in run.stderr
  full = tokenization.FullTokenizer(str(path))
  for text in TEXTS.values():
    assert "[UNK]" not in full.tokenize(text)


@pytest.mark.parametrize("flags, said", BAD)
def test_bad_input_is_said_in_one_sentence(flags, said, folder, monkeypatch):
  monkeypatch.chdir(folder)
  script_runner.refuse("create_vocabulary.py", said, **flags)
  assert not (folder / "vocab.txt").exists()
