"""Runs create_vocabulary.py as a user does."""

import pytest

import script_runner
import tokenization

TEXTS = {
  "b.txt": "Lower and lower, the kites sank.\nSlower kites sank last.\n",
  "a.txt": "The slowest of the low kites: 1, 2, 13.\n\nA caf\u00e9!\n",
  "c.txt": '{"text": "Kites \u00df"}\n',
}
SAMPLE = script_runner.ROOT / "sample_text.txt"

# (wrong flags, part of the error message)
BAD = [
  ({"input_file": "none*.txt"}, "no file matches 'none*.txt'"),
  ({"input_file": "empty.txt"}, "no word in empty.txt"),
  ({"input_file": "a.txt,latin1.txt"}, "latin1.txt:2: not UTF-8"),
  ({"input_file": "a.txt", "vocab_size": 9}, "vocab_size 9 is too"),
  (
    {"input_file": "a.txt", "output_file": "a.txt/x/vocab.txt"},
    "cannot write a.txt/x/vocab.txt: a.txt/x is not a folder",
  ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  folder = tmp_path_factory.mktemp("texts")
  for name, text in TEXTS.items():
    (folder / name).write_text(text, encoding="utf-8")
  (folder / "empty.txt").write_bytes(b"\n \n")
  (folder / "latin1.txt").write_bytes(b"one\ncaf\xe9\n")
  return folder


@pytest.fixture
def run(folder, monkeypatch):
  """Returns a function that runs the script in `folder` and returns the log."""
  monkeypatch.chdir(folder)

  def run_script(**flags):
    script = script_runner.start("create_vocabulary.py", **flags)
    _, log = script.communicate()
    assert script.returncode == 0, log
    return log

  return run_script


def test_the_vocabulary_and_its_log(folder, run):
  log = run(
    input_file="*[abc].txt",
    output_file="new/vocab.txt",
    vocab_size=100,
    num_unused_tokens=2,
  )
  assert [path.name for path in (folder / "new").iterdir()] == ["vocab.txt"]
  path = folder / "new" / "vocab.txt"
  tokens = path.read_text(encoding="utf-8").splitlines()
  assert tokens[:4] == ["[PAD]", "[unused1]", "[unused2]", "[UNK]"]
  assert "{" not in tokens and "\u00df" in tokens
  assert "3/3 files" in log
  assert f"Wrote {len(tokens)} tokens to new/vocab.txt" in log
  assert "Fewer than --vocab_size=100" in log


def test_two_runs_write_the_same_bytes(folder, run, monkeypatch):
  # Many pairs of this text are equally frequent, even at the size limit.
  for seed in ("1", "2"):
    monkeypatch.setenv("PYTHONHASHSEED", seed)
    monkeypatch.setenv("RAYON_NUM_THREADS", seed)
    log = run(
      input_file=SAMPLE,
      output_file=f"{seed}.txt",
      vocab_size=400,
      max_characters=45,
      min_frequency=1,
    )
    assert "Learning from " in log and "Fewer than" not in log
  first = (folder / "1.txt").read_bytes()
  assert first.count(b"\n") == 400
  assert first == (folder / "2.txt").read_bytes()


def test_no_word_of_the_sample_is_unknown(folder, run):
  run(input_file=SAMPLE, output_file="cased.txt", do_lower_case=False)
  tokenizer = tokenization.FullTokenizer(str(folder / "cased.txt"), False)
  tokens = tokenizer.tokenize(SAMPLE.read_text(encoding="utf-8"))
  assert "[UNK]" not in tokens and "The" in tokens


@pytest.mark.parametrize("flags, message", BAD)
def test_bad_input_is_reported(flags, message, folder, monkeypatch):
  monkeypatch.chdir(folder)
  script_runner.refuse("create_vocabulary.py", message, **flags)
  assert not (folder / "vocab.txt").exists()
