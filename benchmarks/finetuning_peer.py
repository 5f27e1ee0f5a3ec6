"""One fine-tuning run of Hugging Face's Trainer, for others to compare with.

  python benchmarks/finetuning_peer.py --task=mrpc --data_dir=glue/MRPC \
      --weights=FOLDER --seed=1

Needs torch, transformers (5 or newer), accelerate, scikit-learn and scipy, and
nothing of this project: texts, labels, windows, answers and metrics are made
here, by other libraries, so that a fault of ours cannot hide on both sides.
What the model is given and how it is trained is what Hugging Face's examples
run_glue.py, run_qa.py and run_ner.py do with --pad_to_max_length False, or,
with --pad_to_max_length=1 and a task of GLUE, by default; metrics come from
scikit-learn and scipy instead of from the hub, those of tags from
tagging_peer.py. The last line of the output is JSON: metrics, steps, and
seconds of the training, of all and of the processor.
"""

import argparse
import collections
import json
import pathlib
import re
import string
import tempfile
import time

import numpy as np
import torch
import transformers
from scipy import stats
from sklearn import metrics as sk_metrics

import tagging_peer

# task -> columns of the texts, column of the label, lines above the data
GLUE = {
  "cola": ((3,), 1, 0),
  "mnli": ((8, 9), -1, 1),  # The dev set has five annotators' labels before.
  "mrpc": ((3, 4), 0, 1),
  "qnli": ((1, 2), 3, 1),
  "qqp": ((3, 4), 5, 1),
  "rte": ((1, 2), 3, 1),
  "sst-2": ((0,), 1, 1),
  "sts-b": ((7, 8), 9, 1),
  "wnli": ((1, 2), 3, 1),
}


def read_glue(task, path):
  """Returns the columns of texts, and the labels as they are there."""
  columns, label, header = GLUE[task]
  # Not splitlines, which ends lines at other separators of Unicode too.
  lines = path.read_text(encoding="utf-8-sig").split("\n")[header:]
  rows = [line.split("\t") for line in lines if line]
  return [[row[c] for row in rows] for c in columns], [
    row[label].strip() for row in rows
  ]


def glue_metrics(task, logits, labels):
  """Returns the task's official metrics; labels are those of the model."""
  if task == "sts-b":
    found = logits[:, 0]
    return {
      "pearson": stats.pearsonr(found, labels)[0],
      "spearman": stats.spearmanr(found, labels)[0],
    }
  found = logits.argmax(-1)
  if task == "cola":
    return {"mcc": sk_metrics.matthews_corrcoef(labels, found)}
  scores = {"accuracy": sk_metrics.accuracy_score(labels, found)}
  if task in ("mrpc", "qqp"):
    scores["f1"] = sk_metrics.f1_score(labels, found)
  return scores


def tokenize_glue(tokenizer, texts, labels, *, max_seq_length, padding):
  """Returns a list of what the collator takes, padded as `padding` says."""
  encoded = tokenizer(
    *texts, truncation=True, max_length=max_seq_length, padding=padding
  )
  return [
    {name: encoded[name][i] for name in encoded} | {"label": label}
    for i, label in enumerate(labels)
  ]


class Glue:
  """A task of GLUE: features, model and scores."""

  collator = transformers.DataCollatorWithPadding

  def __init__(self, arguments, tokenizer):
    self._task = arguments.task
    folder = arguments.data_dir
    texts, labels = read_glue(self._task, folder / "train.tsv")
    eval_texts, eval_labels = read_glue(
      self._task,
      folder / ("dev_matched.tsv" if self._task == "mnli" else "dev.tsv"),
    )
    # The numbers of classes are a function of the data alone.
    names = sorted(set(labels))
    to_label = float if self._task == "sts-b" else names.index
    self.num_labels = 1 if self._task == "sts-b" else len(names)
    self._gold = [to_label(label) for label in eval_labels]
    options = dict(
      max_seq_length=arguments.max_seq_length,
      padding="max_length" if arguments.pad_to_max_length else False,
    )
    self.train = tokenize_glue(
      tokenizer, texts, [to_label(label) for label in labels], **options
    )
    self.eval = tokenize_glue(tokenizer, eval_texts, self._gold, **options)

  def model(self, weights):
    """Returns the classifier, with a new head."""
    return transformers.AutoModelForSequenceClassification.from_pretrained(
      weights, num_labels=self.num_labels, attn_implementation="sdpa"
    )

  def scores(self, predictions):
    """Returns dict from metric to number."""
    return glue_metrics(self._task, predictions, self._gold)


def read_squad(path):
  """Returns a list of (id, question, context, list of (text, start))."""
  data = json.loads(path.read_text(encoding="utf-8"))["data"]
  return [
    (
      question["id"],
      question["question"],
      paragraph["context"],
      [(a["text"], a["answer_start"]) for a in question["answers"]],
    )
    for article in data
    for paragraph in article["paragraphs"]
    for question in paragraph["qas"]
  ]


def split_windows(tokenizer, examples, max_seq_length, doc_stride):
  """Returns one dict a window: inputs, example's index, offsets in context.

  Offsets are an array [tokens, 2]; -1 outside of the context. The stride of
  the tokenizer is what two windows share.
  """
  encoded = tokenizer(
    # As in run_qa.py: some questions begin with long white space.
    [question.lstrip() for _, question, _, _ in examples],
    [context for _, _, context, _ in examples],
    truncation="only_second",
    max_length=max_seq_length,
    stride=doc_stride,
    return_overflowing_tokens=True,
    return_offsets_mapping=True,
  )
  windows = []
  for i, example in enumerate(encoded["overflow_to_sample_mapping"]):
    inside = np.array([part == 1 for part in encoded.sequence_ids(i)])
    offsets = np.array(encoded["offset_mapping"][i])
    names = ("input_ids", "token_type_ids", "attention_mask")
    windows.append(
      ({name: encoded[name][i] for name in names}, example,
       np.where(inside[:, None], offsets, -1))
    )
  return windows


def answer_positions(offsets, answer):
  """Returns first and last token of an answer, or 0, 0 if it is not inside."""
  text, start = answer
  end = start + len(text)
  # Those of the context.
  tokens = np.flatnonzero(offsets[:, 0] >= 0)
  inside = offsets[tokens]
  # As in run_qa.py: half an answer is none.
  if not len(tokens) or inside[0, 0] > start or inside[-1, 1] < end:
    return 0, 0
  first = tokens[np.flatnonzero(inside[:, 0] <= start)[-1]]
  last = tokens[np.flatnonzero(inside[:, 1] >= end)[0]]
  return int(first), int(last)


def best_span(start, end, offsets, *, n_best=20, max_length=30):
  """Returns score and character span of a window's best answer.

  Only the `n_best` largest start and end logits take part. Score is -inf
  where none of their pairs is an answer.
  """
  starts = np.argsort(start)[-n_best:]
  ends = np.argsort(end)[-n_best:]
  # After the choice of the best: tokens of the question take places among them.
  starts, ends = (x[offsets[x, 0] >= 0] for x in (starts, ends))
  tokens = ends[None, :] - starts[:, None] + 1
  scores = start[starts][:, None] + end[ends][None, :]
  scores = np.where((tokens > 0) & (tokens <= max_length), scores, -np.inf)
  if not scores.size or scores.max() == -np.inf:
    return -np.inf, (0, 0)
  row, column = np.unravel_index(scores.argmax(), scores.shape)
  return scores[row, column], (
    offsets[starts[row], 0], offsets[ends[column], 1]
  )


def normalized(text):
  """Words of an answer as SQuAD compares them."""
  text = "".join(c for c in text.lower() if c not in string.punctuation)
  return re.sub(r"\b(a|an|the)\b", " ", text).split()


def word_f1(found, gold):
  """F1 of the words of two answers, 0 to 1."""
  both = collections.Counter(found) & collections.Counter(gold)
  common = sum(both.values())
  return 2 * common / (len(found) + len(gold)) if common else 0.0


def files(arguments, train, dev):
  """Returns the paths of the files that the flags name, or of these."""
  return (
    arguments.data_dir / (arguments.train_file or train),
    arguments.data_dir / (arguments.predict_file or dev),
  )


class Squad:
  """SQuAD 1.1: windows, model and scores."""

  collator = transformers.DataCollatorWithPadding

  def __init__(self, arguments, tokenizer):
    sizes = arguments.max_seq_length, arguments.doc_stride
    train, dev = files(arguments, "train-v1.1.json", "dev-v1.1.json")
    examples = read_squad(train)
    windows = split_windows(tokenizer, examples, *sizes)
    self.train = []
    for inputs, example, offsets in windows:
      first, last = answer_positions(offsets, examples[example][3][0])
      self.train.append(
        inputs | {"start_positions": first, "end_positions": last}
      )
    self._examples = read_squad(dev)
    self._windows = split_windows(tokenizer, self._examples, *sizes)
    self.eval = [inputs for inputs, _, _ in self._windows]

  def model(self, weights):
    """Returns the network for answers, with a new head."""
    return transformers.AutoModelForQuestionAnswering.from_pretrained(
      weights, attn_implementation="sdpa"
    )

  def scores(self, predictions):
    """Returns exact match and F1, in percent."""
    best = {}
    for (_, example, offsets), start, end in zip(
      self._windows, *predictions, strict=True
    ):
      # Rows of the predictions are padded to the longest of all.
      length = len(offsets)
      candidate = best_span(start[:length], end[:length], offsets)
      # The best of all windows of a question.
      if example not in best or candidate[0] > best[example][0]:
        best[example] = candidate
    exact, f1 = [], []
    for number, (_, (first, last)) in best.items():
      _, _, context, answers = self._examples[number]
      found = normalized(context[first:last])
      gold = [normalized(text) for text, _ in answers]
      exact.append(found in gold)
      f1.append(max(word_f1(found, words) for words in gold))
    return {"exact_match": 100 * np.mean(exact), "f1": 100 * np.mean(f1)}


class Tagging:
  """Tags of words in CoNLL columns: features, model and scores."""

  collator = transformers.DataCollatorForTokenClassification

  def __init__(self, arguments, tokenizer):
    train, dev = map(
      tagging_peer.read_columns, files(arguments, "train.conll", "dev.conll")
    )
    self._names = sorted({tag for _, tags in train for tag in tags})
    self._gold = [tags for _, tags in dev]
    length = arguments.max_seq_length
    encoded = tagging_peer.tokenize(tokenizer, train, length)
    self.train = [
      tagging_peer.with_labels(
        inputs, pieces, [self._names.index(tag) for tag in tags]
      )
      for (inputs, pieces), (_, tags) in zip(encoded, train, strict=True)
    ]
    encoded = tagging_peer.tokenize(tokenizer, dev, length)
    self.eval = [inputs for inputs, _ in encoded]
    self._pieces = [pieces for _, pieces in encoded]

  def model(self, weights):
    """Returns the classifier of tokens, with a new head."""
    return transformers.AutoModelForTokenClassification.from_pretrained(
      weights, num_labels=len(self._names), attn_implementation="sdpa"
    )

  def scores(self, predictions):
    """Returns precision, recall and F1 of entities, shares of 1."""
    best = predictions.argmax(-1)
    found = [
      [self._names[row[place]] for place in pieces]
      for row, pieces in zip(best, self._pieces, strict=True)
    ]
    return tagging_peer.scores(self._gold, found)


def train_and_predict(task, arguments, tokenizer, folder):
  """Trains as the arguments say.

  Returns:
    (predictions, steps, seconds of the training without start and evaluation).
  """
  transformers.set_seed(arguments.seed)
  model = task.model(arguments.weights)
  sampling = "group_by_length" if arguments.bucket_by_length else "random"
  trainer = transformers.Trainer(
    model=model,
    args=transformers.TrainingArguments(
      output_dir=folder,
      seed=arguments.seed,
      learning_rate=arguments.learning_rate,
      num_train_epochs=arguments.num_train_epochs,
      # -1: as many as the epochs have.
      max_steps=arguments.max_steps or -1,
      # Below 1: a share of all steps.
      warmup_steps=arguments.warmup_proportion,
      per_device_train_batch_size=arguments.train_batch_size,
      per_device_eval_batch_size=arguments.eval_batch_size,
      weight_decay=arguments.weight_decay,
      # Ours; Hugging Face's default is 1e-8.
      adam_epsilon=1e-6,
      bf16=arguments.dtype == "bfloat16",
      torch_compile=bool(arguments.torch_compile),
      train_sampling_strategy=sampling,
      save_strategy="no",
      report_to="none",
      logging_steps=50,
      use_cpu=not torch.cuda.is_available(),
    ),
    train_dataset=task.train,
    data_collator=task.collator(tokenizer),
  )
  seconds = trainer.train().metrics["train_runtime"]
  # Predictions would come back in another order.
  trainer.args.train_sampling_strategy = "random"
  found = trainer.predict(task.eval).predictions
  return found, trainer.state.global_step, seconds


# Every other task is one of GLUE's.
OTHERS = {"squad": Squad, "ner": Tagging}


def parse_arguments():
  """Returns the flags, an argparse.Namespace."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--task", choices=[*GLUE, *OTHERS], required=True)
  parser.add_argument("--data_dir", type=pathlib.Path, required=True)
  parser.add_argument("--weights", required=True)
  parser.add_argument("--train_file", help="of SQuAD, or of tags")
  parser.add_argument("--predict_file", help="of SQuAD, or of tags")
  parser.add_argument(
    "--dtype", choices=("float32", "bfloat16"), default="float32"
  )
  parser.add_argument("--num_train_epochs", type=float, default=2.0)
  for name, value in (
    ("seed", 1), ("max_seq_length", 128), ("doc_stride", 128),
    ("train_batch_size", 16), ("eval_batch_size", 32),
    ("bucket_by_length", 0), ("pad_to_max_length", 0), ("torch_compile", 0),
    ("max_steps", 0),
  ):
    parser.add_argument(f"--{name}", type=int, default=value)
  for name, value in (
    ("learning_rate", 1e-4), ("weight_decay", 0.01), ("warmup_proportion", 0.0),
  ):
    parser.add_argument(f"--{name}", type=float, default=value)
  return parser.parse_args()


def main():
  wall, cpu = time.perf_counter(), time.process_time()
  arguments = parse_arguments()
  tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.weights)
  task = OTHERS.get(arguments.task, Glue)(arguments, tokenizer)
  with tempfile.TemporaryDirectory() as folder:
    found, steps, seconds = train_and_predict(
      task, arguments, tokenizer, folder
    )
  scores = {k: round(float(v), 5) for k, v in task.scores(found).items()}
  print(json.dumps({
    "metrics": scores, "steps": steps, "train_seconds": round(seconds, 1),
    "seconds": round(time.perf_counter() - wall, 1),
    "cpu_seconds": round(time.process_time() - cpu, 1),
  }))


if __name__ == "__main__":
  main()
