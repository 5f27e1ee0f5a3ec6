r"""Three claims of BERT's paper on a laptop: see the README next to this file.

  python examples/paper_in_miniature/run.py --text=novels.txt \
      --data_dir=downloads --output_dir=miniature

Every step is an ordinary command of a script, run in the output folder and
printed before. A stopped or killed run continues with the same command.
results.json in that folder holds the scores of the finished steps.
"""

import argparse
import json
import math
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
from collections.abc import Iterator

SCRIPTS = pathlib.Path(__file__).resolve().parents[2]
# Layers, width, heads and initializer_range of each network.
NETWORKS = {
  "main": (4, 192, 3, 0.02), "small": (2, 128, 2, 0.06),
  "narrower": (2, 64, 2, 0.06), "deeper": (3, 128, 2, 0.06),
}
# Length, steps, learning rate, and dupe_factor of each pre-training, named
# NETWORK-LENGTH. A network's second run goes on with the weights of its first.
PRETRAININGS = {
  "main-64": (64, 10000, 1e-3, 4), "main-256": (256, 5000, 6e-4, 2),
}
for _name in ("narrower", "small", "deeper"):
  PRETRAININGS[f"{_name}-16"] = (16, 1000, 1e-3, 2)
  PRETRAININGS[f"{_name}-64"] = (64, 1500, 1e-3, 2)
PRETRAINED = "--init_checkpoint=main-256/final_model"
FEATURES = (
  f"{PRETRAINED} --freeze_encoder --bilstm_size=64 --learning_rate=5e-3 "
  "--feature_layers="
)
FINE_TUNINGS = {
  "sts-b.random": "--learning_rate=4e-4",
  "sts-b.pre-trained": f"{PRETRAINED} --learning_rate=4e-4",
  "names.fine-tuned": f"{PRETRAINED} --learning_rate=4e-4",
  "names.embeddings": FEATURES + "embeddings", "names.last": FEATURES + "last",
  "names.last-four": FEATURES + "concat_last_four",
}
# Better and worse contender: names of steps without the seed.
COMPARISONS = {
  "STS-B, Spearman × 100: pre-trained > random weights":
    ("sts-b.pre-trained", "sts-b.random"),
  "names, F1: fine-tuning > features of the last four layers":
    ("names.fine-tuned", "names.last-four"),
  "names, F1: features of the last four layers > of the last":
    ("names.last-four", "names.last"),
  "names, F1: features of the last layer > embeddings":
    ("names.last", "names.embeddings"),
  "masked-LM perplexity: 2 × 128 < 2 × 64": ("small-64", "narrower-64"),
  "masked-LM perplexity: 3 × 128 < 2 × 128": ("deeper-64", "small-64"),
}
SENTENCE_END = re.compile(r"(?<=[.!?]) +(?=[\"'(]*[A-Z0-9])")
WORD = re.compile(r"\w+(?:['\u2019.-]\w+)*|[^\w\s]")


def find(folder: str, pattern: str) -> pathlib.Path:
  """Returns the first file below a folder that matches; exits if none does."""
  for path in sorted(pathlib.Path(folder).rglob(pattern)):
    return path.resolve()
  sys.exit(
    f"--data_dir={folder} has no {pattern}; download it: python download.py "
    "--data=glue,squad1 --dir=downloads"
  )


def paragraphs(folder: str, pattern: str) -> list[tuple[list[str], list[str]]]:
  """Returns the sentences and the questions of SQuAD's paragraphs."""
  articles = json.loads(find(folder, pattern).read_text("utf-8"))["data"]
  return [
    (SENTENCE_END.split(" ".join(part["context"].split())),
     [" ".join(entry["question"].split()) for entry in part["qas"]])
    for article in articles for part in article["paragraphs"]
  ]


def tagged(sentence: str) -> str:
  """Returns CoNLL columns: lower-cased words, and whether each is a name.

  A word with a capital inside a sentence counts as a name.
  """
  lines, tag = [], "O"
  for place, word in enumerate(WORD.findall(sentence)):
    is_name = place > 0 and word[0].isupper()
    tag = ("B-NAME" if tag == "O" else "I-NAME") if is_name else "O"
    lines.append(f"{word.lower()} {tag}")
  return "\n".join(lines) + "\n"


def write_data(text: list[str], data: str, is_smoke: bool) -> None:
  """Writes the text to pre-train on, a held-out part, and the tagged names."""
  squad = {
    "train": paragraphs(data, "train*v1.1.json"),
    "dev": paragraphs(data, "dev-v1.1.json"),
  }
  documents = [
    document.strip() + "\n" for path in text
    for document in re.split(r"\n\s*\n", pathlib.Path(path).read_text("utf-8"))
    if document.strip()
  ]
  # Each question is followed by its paragraph, without the answer; all of a
  # paragraph are one document, so that they are held out together or not.
  documents += [
    "\n".join("\n".join([question, *lines]) + "\n" for question in questions)
    for lines, questions in squad["train"]
  ]
  documents = documents[: 100 if is_smoke else None]
  for part, count in (("train", 1500), ("dev", 750)):
    lines = [line for each, _ in squad[part] for line in each if " " in line]
    # At equal distances, so from all articles.
    step = max(1, -(-len(lines) // (32 if is_smoke else count)))
    write(f"names-{part}.txt", "\n".join(map(tagged, lines[::step])))
  write("held.txt", "\n".join(documents[::20]))
  training = (text for n, text in enumerate(documents) if n % 20)
  write("train.txt", "\n".join(training))


def write(name: str, text: str) -> None:
  """Writes a file whole or not at all."""
  pathlib.Path(f"{name}.tmp").write_text(text, encoding="utf-8")
  os.replace(f"{name}.tmp", name)


def steps(data: str, is_smoke: bool) -> Iterator[tuple[str, str, str]]:
  """Yields (name, command, metric that is its score, if any) in their order."""
  yield "vocabulary", (
    "create_vocabulary.py --input_file=train.txt --output_file=vocab.txt "
    f"--vocab_size={300 if is_smoke else 8000}"
  ), ""
  for name in PRETRAININGS:
    yield from pretraining(name, is_smoke)
  table = shlex.quote(str(find(data, "STS-B/train.tsv").parent))
  sts_b = (
    f"run_classifier.py --task_name=STS-B --data_dir={table} "
    f"--num_train_epochs=3{' --max_train_examples=64' * is_smoke}"
  )
  names = (
    "run_ner.py --train_file=names-train.txt --eval_file=names-dev.txt "
    "--scheme=iob2 --bucket_by_length --train_batch_size=16 "
    "--num_train_epochs=4"
  )
  for seed in range(1, 2 if is_smoke else 4):
    for name, changes in FINE_TUNINGS.items():
      is_table = name.startswith("sts-b")
      yield f"{name}.{seed}", (
        f"{sts_b if is_table else names} {changes} --max_seq_length=128 "
        f"{training(f'{name}.{seed}', 'main', 256, 0.1, is_smoke)} "
        f"--seed={seed} --max_to_keep=1"
      ), "eval_spearman" if is_table else "f1"


def pretraining(name: str, is_smoke: bool) -> Iterator[tuple[str, str, str]]:
  """Yields the steps of a pre-training; see `steps`."""
  length, num_steps, rate, copies = PRETRAININGS[name]
  network, num_steps = name.split("-")[0], 8 if is_smoke else num_steps
  sizes = (
    f"--max_seq_length={length} "
    f"--max_predictions_per_seq={math.ceil(0.15 * length)}"
  )
  records = {"train": f"train-{length}x{copies}", "held": f"held-{length}x1"}
  for part, label in records.items():
    yield f"records.{label}", (
      f"create_pretraining_data.py --input_file={part}.txt {sizes} "
      f"--vocab_file=vocab.txt --dupe_factor={label.split('x')[1]} "
      f"--shard_size_mb=10 --output_file={label}.tfrecord"
    ), ""
  start = ""
  before = next(each for each in PRETRAININGS if each.startswith(network))
  if before != name:
    start = f"--init_checkpoint={before}-grown"
    yield f"grown.{name}", (
      f"convert_checkpoint.py --to=tf2 --input={before}/final_model "
      f"--max_position_embeddings={length} --output={before}-grown"
    ), ""
  # Small networks leave the plateau earlier without next sentences.
  pairs = "true" if network == "main" else "false"
  yield name, (
    f"run_pretraining.py {training(name, network, length, 0.0, is_smoke)} "
    f"--input_file={records['train']}.tfrecord --eval_batch_size=32 "
    f"--eval_input_file={records['held']}.tfrecord {sizes} {start} "
    f"--train_batch_size={2048 // length} --learning_rate={rate} "
    f"--num_train_steps={num_steps} --num_warmup_steps={num_steps // 20} "
    f"--use_next_sentence_loss={pairs}"
  ), "masked_lm_loss"


def training(name, network, length, dropout, is_smoke):
  """Returns flags of a training; writes the configuration of its network."""
  num_layers, width, heads, deviation = NETWORKS[network]
  width = 16 * heads if is_smoke else width
  path = f"{network}-{length}-{dropout}.json"
  write(path, json.dumps({
    "vocab_size": 300 if is_smoke else 8000, "hidden_size": width,
    "num_hidden_layers": num_layers, "num_attention_heads": heads,
    "intermediate_size": 4 * width, "max_position_embeddings": length,
    "type_vocab_size": 2, "initializer_range": deviation,
    "hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout,
  }))
  return (
    f"--do_train --do_eval --optimizer=adamw --bert_config_file={path} "
    f"--vocab_file=vocab.txt --dtype={'float32' if is_smoke else 'bfloat16'} "
    f"--output_dir={name}"
  )


def run(data: str, is_smoke: bool, results: dict[str, float]) -> None:
  """Runs the steps that have no result; writes results.json after each.

  A step without a metric has the result 0.
  """
  for name, text, metric in steps(data, is_smoke):
    if name in results:
      continue
    script, *arguments = shlex.split(text)
    command = [sys.executable, str(SCRIPTS / script), *arguments]
    print(f"{name}:\n{shlex.join(command)}", flush=True)
    # Unlike subprocess.run, this lets a script save its step after Ctrl-C.
    with subprocess.Popen(command) as script_run:
      code = script_run.wait()
    if code:
      sys.exit(f"{script} ended with code {code}; see its message above")
    results[name] = 0.0
    if metric:
      lines = pathlib.Path(name, "eval_results.txt").read_text("utf-8")
      values = dict(line.split(" = ") for line in lines.splitlines())
      results[name] = float(values[metric].split()[0])
    write("results.json", json.dumps(results, indent=1) + "\n")


def scores(results: dict[str, float], name: str) -> list[float]:
  """Returns the scores of all seeds of a contender, as the table has them."""
  return [
    math.exp(value) if name in PRETRAININGS else 100 * value
    for step, value in results.items()
    if name in (step, step.rpartition(".")[0])
  ]


def row(results: dict[str, float], title: str) -> str:
  """Returns a line of the table; medians count, and their spread.

  A difference is significant from two standard deviations of a difference
  between single runs on.
  """
  better, worse = (scores(results, name) for name in COMPARISONS[title])
  if not better or not worse:
    return f"| {title} | - | - | not run |"
  medians = [statistics.median(values) for values in (better, worse)]
  difference = medians[0] - medians[1]
  difference *= -1 if "<" in title else 1
  shown = f"| {title} | {medians[0]:.1f} and {medians[1]:.1f} "
  shown += f"| {difference:+.1f}"
  if min(len(better), len(worse)) < 2:
    return f"{shown} | one run each |"
  spread = math.hypot(statistics.stdev(better), statistics.stdev(worse))
  verdict = "within the spread"
  if abs(difference) > 2 * spread:
    verdict = "yes" if difference > 0 else "reversed"
  return f"{shown} (sd {spread:.1f}) | {verdict} |"


def main():
  parser = argparse.ArgumentParser(description="Three claims of BERT's paper.")
  parser.add_argument(
    "--text", required=True, help="files with one sentence per line and a "
    "blank line between documents, about 20 MB; commas separate them",
  )
  parser.add_argument(
    "--data_dir", required=True, help="folder with SQuAD 1.1 and GLUE's STS-B"
  )
  parser.add_argument("--output_dir", default="miniature", help="of all steps")
  parser.add_argument(
    "--smoke", action="store_true", help="a few updates: nothing is learned"
  )
  values = parser.parse_args()
  data, text = os.path.abspath(values.data_dir), values.text.split(",")
  text = [os.path.abspath(path) for path in text]
  os.makedirs(values.output_dir, exist_ok=True)
  os.chdir(values.output_dir)
  inputs, marker = json.dumps([text, data, values.smoke]), "inputs.json"
  if not os.path.exists(marker):
    write_data(text, data, values.smoke)
    write(marker, inputs)
  elif pathlib.Path(marker).read_text("utf-8") != inputs:
    sys.exit(f"{values.output_dir} has other inputs; pass another --output_dir")
  path = pathlib.Path("results.json")
  results = json.loads(path.read_text("utf-8")) if path.exists() else {}
  run(data, values.smoke, results)
  print("| claim | medians | difference | shown |\n|---|---|---|---|")
  print(*(row(results, title) for title in COMPARISONS), sep="\n")


if __name__ == "__main__":
  main()
