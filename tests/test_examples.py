"""The examples: the paper in miniature, from its data to its table."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from script_runner import ROOT

SCRIPT = ROOT / "examples" / "paper_in_miniature" / "run.py"


def write_data(folder):
  """Writes text, SQuAD and STS-B, as small as the steps can be made of."""
  (folder / "STS-B").mkdir()
  names = "index genre filename year old_index source1 source2 sentence1"
  for part in ("train", "dev"):
    with open(folder / "STS-B" / f"{part}.tsv", "w") as stream:
      table = csv.writer(stream, delimiter="\t", lineterminator="\n")
      table.writerow([*names.split(), "sentence2", "score"])
      for n in range(24):
        texts = [f"a {part} sees {n} dogs", f"{n} dogs are seen by a {part}"]
        table.writerow([n, *["-"] * 6, *texts, (n % 6) * 0.8])
  for file, count in (("train-v1.1.json", 40), ("dev-v1.1.json", 12)):
    paragraphs = [{
      "context": f"The {file[:3]} river Tamar runs {n} miles. Then Ann came.",
      "qas": [{"id": f"{file[:3]}{n}", "question": "How long is it?"}],
    } for n in range(count)]
    text = json.dumps({"data": [{"title": "", "paragraphs": paragraphs}]})
    (folder / file).write_text(text)
  story = "The dog ran home.\nIt was a long way.\nNobody saw the dog.\n\n"
  (folder / "text.txt").write_text(story * 60)


def start(folder, *flags):
  return subprocess.Popen(
    [sys.executable, str(SCRIPT), f"--output_dir={folder / 'out'}", *flags],
    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    start_new_session=True,
  )


def flags_of(folder):
  return f"--text={folder / 'text.txt'}", f"--data_dir={folder}", "--smoke"


@pytest.mark.slow
def test_the_miniature_is_killed_and_continues_to_its_table(tmp_path):
  write_data(tmp_path)
  process = start(tmp_path, *flags_of(tmp_path))
  log = tmp_path / "out" / "main-64" / "train_log.jsonl"
  while not log.exists():
    assert process.poll() is None, process.communicate()
    time.sleep(0.2)
  os.killpg(process.pid, signal.SIGKILL)
  process.communicate()
  process = start(tmp_path, *flags_of(tmp_path))
  out, err = process.communicate()
  assert process.returncode == 0, err
  assert "vocabulary:\n" not in out and "main-64:\n" in out
  rows = [line for line in out.splitlines() if line.startswith("| ")]
  assert len(rows) == 7 and all("one run each" in row for row in rows[1:])
  # Every 20th of 60 stories and 40 paragraphs of SQuAD's training file.
  held = (tmp_path / "out" / "held.txt").read_text()
  assert held.count("The dog ran home.") == 3 and "the dev river" not in held
  assert held.count("How long is it?\nThe tra river Tamar") == 2
  assert "tamar B-NAME\nruns O" in (tmp_path / "out/names-dev.txt").read_text()
  # Again: nothing runs, the table is printed.
  again = start(tmp_path, *flags_of(tmp_path)).communicate()[0]
  assert again.splitlines() == out.splitlines()[-8:]


def test_the_miniature_names_what_is_missing(tmp_path):
  assert "--text, --data_dir" in start(tmp_path).communicate()[1]
  (tmp_path / "text.txt").write_text("A line.\n")
  err = start(tmp_path, *flags_of(tmp_path)).communicate()[1]
  assert "has no train*v1.1.json; download it: python download.py" in err


@pytest.mark.parametrize("scores, expected", [
  ({}, "| - | - | not run |"),
  ({"random": [0.2], "pre-trained": [0.45, 0.4]},
   "| 42.5 and 20.0 | +22.5 | one run each |"),
  ({"random": [0.18, 0.2, 0.22], "pre-trained": [0.4, 0.44, 0.48]},
   "| 44.0 and 20.0 | +24.0 (sd 4.5) | yes |"),
  ({"random": [0.4, 0.44, 0.48], "pre-trained": [0.18, 0.2, 0.22]},
   "| 20.0 and 44.0 | -24.0 (sd 4.5) | reversed |"),
  ({"random": [0.2, 0.3, 0.4], "pre-trained": [0.4, 0.44, 0.48]},
   "| 44.0 and 30.0 | +14.0 (sd 10.8) | within the spread |"),
])
def test_a_claim_counts_from_two_deviations_on(scores, expected):
  results = {
    f"sts-b.{name}.{seed}": value
    for name, values in scores.items() for seed, value in enumerate(values, 1)
  }
  code = (
    "import json, runpy, sys; names = runpy.run_path(sys.argv[1]); "
    "title = next(iter(names['COMPARISONS'])); "
    "print(names['row'](json.loads(sys.argv[2]), title))"
  )
  done = subprocess.run(
    [sys.executable, "-c", code, str(SCRIPT), json.dumps(results)],
    capture_output=True, text=True, check=True,
  )
  assert done.stdout.rstrip().endswith(expected)
