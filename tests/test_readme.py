"""README.md: each row of "I want to ..." runs as it is typed."""

import json
import re
import shlex
import shutil
import signal

import pytest

import script_runner
import serving_models
from test_first_use import first_line_with, free_port
from test_layout import ROOT

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
TABLE = TEXT.partition("## I want to")[2].partition("\nMore pages")[0]
ROWS = [line for line in TABLE.splitlines() if line.startswith("| ")][1:]
COMMANDS = re.findall(r"`python (\w+\.py) ([^`]*)`", TABLE)


def write_files(folder):
  """Writes the files that the commands name: a few rows of each kind."""
  files = {
    "train.csv": "review,stars\n" + "the gold star,5\nhe was in it,1\n" * 20,
    "eng.train": "the - - O\nstar - - I-LOC\n\nhe - - I-PER\nwas - - O\n\n"
    * 40,
    "pairs.txt": "the gold star ||| a star of gold\n",
    "queries.txt": "gold\n",
    "lines.txt": "the gold star\nhe was in it\n",
    "pairs.tsv": "question\tanswer\n"
    + "who was it?\the was\nwhich star?\tthe gold star\n" * 20,
    "rows.csv": "query,passage,relevance\n"
    + "".join(f"who {n}?,he was,1\nwho {n}?,the star,0\n" for n in range(40)),
  }
  for name, text in files.items():
    (folder / name).write_text(text, encoding="utf-8")
  answers = [{"text": "he", "answer_start": 0}]
  paragraph = {
    "context": "he was in the street",
    "qas": [
      {"id": str(n), "question": "who was it?", "answers": answers}
      for n in range(40)
    ],
  }
  data = {"data": [{"title": "", "paragraphs": [paragraph]}]}
  (folder / "train-v1.1.json").write_text(json.dumps(data))


def sentence_model(folder):
  """Writes a small model whose folder names a pooling, as MiniLM's does."""
  shutil.copytree(serving_models.FOLDER, folder)
  modules = [
    {"idx": 0, "name": "0", "path": "", "type": "models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "models.Pooling"},
  ]
  (folder / "modules.json").write_text(
    json.dumps(
      [{**m, "type": f"sentence_transformers.{m['type']}"} for m in modules]
    )
  )
  (folder / "1_Pooling").mkdir()
  pooling = {"word_embedding_dimension": 64, "pooling_mode_mean_tokens": True}
  (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))


def test_rows_have_commands_and_the_makefile_its_targets():
  makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
  first_screen = TEXT.partition("## ")[0]
  targets = re.findall(r"^    make (\w+)", first_screen, re.M)
  assert targets == ["quickstart", "test"]
  assert all(f"\n{target}:" in makefile for target in targets)
  assert "\nmake test\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
  assert len(ROWS) == 14 and len(COMMANDS) == 16
  others = [row for row in ROWS if "`python" not in row]
  assert len(others) == 4 and "make quickstart" in others[0]


@pytest.mark.slow
def test_each_command_runs_as_it_is_typed(tmp_path, monkeypatch):
  pytest.importorskip("onnxruntime")
  pytest.importorskip("aiohttp")
  monkeypatch.chdir(tmp_path)
  write_files(tmp_path)
  sentence_model(tmp_path / "m")
  models = {"$M": tmp_path / "m", "$L": serving_models.FOLDER}
  for script, arguments in COMMANDS:
    for name, folder in models.items():
      arguments = arguments.replace(name, str(folder))
    words = shlex.split(arguments)
    if script == "serve.py":
      server = script_runner.start(
        script, port=free_port(), model_dir=words[0].partition("=")[2]
      )
      first_line_with(server.stderr, "example request: ")
      server.send_signal(signal.SIGTERM)
      server.communicate()
      continue
    if "--train_file=train-v1.1.json" in words:
      words.append("--max_query_length=8")  # The model has 64 positions.
    done = script_runner.succeed(script, *words)
    prints = script in ("fill_mask.py", "extract_features.py") or any(
      word.startswith(("--text=", "--question=")) for word in words
    )
    assert bool(done.out.strip()) or not prints, arguments
  assert {path.name for path in tmp_path.glob("*/final_model")} == {
    "final_model"
  }
  folders = {path.parent.name for path in tmp_path.glob("*/final_model")}
  assert folders == {
    "stars",
    "names",
    "answers",
    "bert_output",
    "bert_output_2",
  }
