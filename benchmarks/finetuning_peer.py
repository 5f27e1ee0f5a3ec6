"""Fine-tunes a model with Hugging Face's Trainer, for finetuning_scores.py.

The argument is a JSON object with the settings. This script needs torch,
transformers (5 or newer), accelerate, scikit-learn, scipy and seqeval. It
shares no code with this project, so that a bug cannot affect both sides. Inputs
are as in Hugging Face's run_glue.py, run_qa.py and run_ner.py with
--pad_to_max_length False; with pad_to_max_length 1, GLUE's inputs are padded as
by run_glue.py's default. The last line of the output is JSON.
"""

import argparse
import collections
import json
import pathlib
import re
import string
import sys
import tempfile

import numpy as np
import torch
import transformers
from scipy import stats
from seqeval import metrics as entity_metrics
from sklearn import metrics

import tagging_peer

# {task: (columns of the texts, column of the label, number of header lines)}
GLUE = {
  "cola": ((3,), 1, 0),
  "mrpc": ((3, 4), 0, 1),
  "qnli": ((1, 2), 3, 1),
  "qqp": ((3, 4), 5, 1),
  "rte": ((1, 2), 3, 1),
  "sst-2": ((0,), 1, 1),
  "sts-b": ((7, 8), 9, 1),
  "wnli": ((1, 2), 3, 1),
  # MNLI's dev set has five annotators' labels before the gold label.
  "mnli": ((8, 9), -1, 1),
}


_SCORES = {
  "accuracy": metrics.accuracy_score,
  "f1": metrics.f1_score,
  "matthews": metrics.matthews_corrcoef,
  "pearson": lambda gold, values: stats.pearsonr(gold, values)[0],
  "spearman": lambda gold, values: stats.spearmanr(gold, values)[0],
}


def read_glue(task, path):
  """Returns the columns of texts, and the labels as in the file."""
  columns, label, header = GLUE[task]
  # splitlines would also split at other line separators of Unicode.
  lines = path.read_text(encoding="utf-8-sig").split("\n")[header:]
  rows = [line.split("\t") for line in lines if line]
  texts = [[row[column] for row in rows] for column in columns]
  return texts, [row[label].strip() for row in rows]


class Glue:
  """A GLUE task: features, network and scores."""

  collator = transformers.DataCollatorWithPadding
  network = transformers.AutoModelForSequenceClassification

  def __init__(self, settings, tokenizer):
    self._metrics, task = settings.metrics, settings.task
    train, dev = (
      read_glue(task, settings.data_dir / f"{name}.tsv")
      for name in ("train", "dev_matched" if task == "mnli" else "dev")
    )
    # The numbering of the classes depends only on the data.
    names = sorted(set(train[1]))
    to_label = float if task == "sts-b" else names.index
    self.num_labels = 1 if task == "sts-b" else len(names)

    def inputs(texts, labels):
      encoded = tokenizer(
        *texts,
        truncation=True,
        max_length=settings.max_seq_length,
        padding="max_length" if settings.pad_to_max_length else False,
      )
      return [
        {name: encoded[name][i] for name in encoded} | {"label": to_label(text)}
        for i, text in enumerate(labels)
      ]

    self.train, self.eval = inputs(*train), inputs(*dev)
    self._gold = [row["label"] for row in self.eval]

  def scores(self, predictions):
    """Returns the task's official metrics."""
    is_score = self.num_labels == 1
    answers = predictions[:, 0] if is_score else predictions.argmax(-1)
    return {name: _SCORES[name](self._gold, answers) for name in self._metrics}


def read_files(settings, read):
  """Returns what a function reads from the training and the dev file."""
  names = settings.train_file, settings.predict_file
  return [read(settings.data_dir / name) for name in names]


def read_squad(path):
  """Returns a list of (question, context, list of answers)."""
  return [
    (question["question"], paragraph["context"], question["answers"])
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]
    for paragraph in article["paragraphs"]
    for question in paragraph["qas"]
  ]


def split_windows(tokenizer, examples, settings):
  """Returns (inputs, example's index, offsets in the context) of each window.

  Offsets are an array [tokens, 2], -1 outside the context. The inputs have the
  first and last token of the answer; both are 0 if an end of the answer is
  outside the window. Adjacent windows share `doc_stride` tokens.
  """
  encoded = tokenizer(
    # As in run_qa.py, because some questions begin with long white space.
    [question.lstrip() for question, _, _ in examples],
    [context for _, context, _ in examples],
    truncation="only_second",
    max_length=settings.max_seq_length,
    stride=settings.doc_stride,
    return_overflowing_tokens=True,
    return_offsets_mapping=True,
  )
  windows = []
  for i, example in enumerate(encoded["overflow_to_sample_mapping"]):
    inside = np.array([part == 1 for part in encoded.sequence_ids(i)])
    offsets = np.where(inside[:, None], encoded["offset_mapping"][i], -1)
    names = ("input_ids", "token_type_ids", "attention_mask")
    inputs = {name: encoded[name][i] for name in names}
    answer = examples[example][2][0]
    text, start = answer["text"], answer["answer_start"]
    # White space at the ends of an answer has no token.
    ends = len(text) - len(text.lstrip()), len(text.rstrip()) - 1
    tokens = [encoded.char_to_token(i, start + end, 1) for end in ends]
    first, last = (0, 0) if None in tokens else tokens
    inputs |= {"start_positions": first, "end_positions": last}
    windows.append((inputs, example, offsets))
  return windows


def best_span(start, end, offsets, *, max_length=30):
  """Returns the score and character span of a window's best answer.

  It tries all pairs of tokens; run_qa.py tries only 20 starts and 20 ends.
  """
  tokens = np.flatnonzero(offsets[:, 0] >= 0)
  lengths = tokens[None, :] - tokens[:, None] + 1
  scores = start[tokens][:, None] + end[tokens][None, :]
  scores = np.where((lengths > 0) & (lengths <= max_length), scores, -np.inf)
  row, column = np.unravel_index(scores.argmax(), scores.shape)
  first, last = offsets[tokens[row], 0], offsets[tokens[column], 1]
  return scores[row, column], (first, last)


def normalized(text):
  """Returns the words of an answer as SQuAD compares them."""
  text = "".join(c for c in text.lower() if c not in string.punctuation)
  return re.sub(r"\b(a|an|the)\b", " ", text).split()


def word_f1(predicted, gold):
  """Returns the F1 of the words of two answers, 0 to 1."""
  both = collections.Counter(predicted) & collections.Counter(gold)
  common = both.total()
  return 2 * common / (len(predicted) + len(gold)) if common else 0.0


class Squad:
  """SQuAD 1.1: windows, network and scores."""

  collator = transformers.DataCollatorWithPadding
  network = transformers.AutoModelForQuestionAnswering
  num_labels = 2

  def __init__(self, settings, tokenizer):
    train, self._examples = read_files(settings, read_squad)
    windows = split_windows(tokenizer, train, settings)
    self._windows = split_windows(tokenizer, self._examples, settings)
    self.train, self.eval = (
      [inputs for inputs, _, _ in part] for part in (windows, self._windows)
    )

  def scores(self, predictions):
    """Returns exact match and F1, in percent."""
    best = {}
    for (_, example, offsets), start, end in zip(
      self._windows, *predictions, strict=True
    ):
      # Predictions are padded to the length of the longest window.
      length = len(offsets)
      candidate = best_span(start[:length], end[:length], offsets)
      if example not in best or candidate[0] > best[example][0]:
        best[example] = candidate
    exact, f1 = [], []
    for number, (_, (first, last)) in best.items():
      _, context, answers = self._examples[number]
      predicted = normalized(context[first:last])
      gold = [normalized(answer["text"]) for answer in answers]
      exact.append(predicted in gold)
      f1.append(max(word_f1(predicted, words) for words in gold))
    return {"exact_match": 100 * np.mean(exact), "f1": 100 * np.mean(f1)}


class Tagging:
  """Tags of words in CoNLL columns: features, network and scores."""

  collator = transformers.DataCollatorForTokenClassification
  network = transformers.AutoModelForTokenClassification

  def __init__(self, settings, tokenizer):
    train, dev = read_files(settings, tagging_peer.read_columns)
    self._names = sorted({tag for _, tags in train for tag in tags})
    self.num_labels = len(self._names)
    self._gold = [tags for _, tags in dev]
    length = settings.max_seq_length
    encoded = tagging_peer.tokenize(tokenizer, train, length)
    self.train = [
      tagging_peer.with_labels(inputs, pieces, map(self._names.index, tags))
      for (inputs, pieces), (_, tags) in zip(encoded, train, strict=True)
    ]
    encoded = tagging_peer.tokenize(tokenizer, dev, length)
    self.eval, self._pieces = zip(*encoded, strict=True)

  def scores(self, predictions):
    """Returns precision, recall and F1 of entities, from 0 to 1."""
    predicted = [
      [self._names[row[piece]] for piece in pieces]
      for row, pieces in zip(predictions.argmax(-1), self._pieces, strict=True)
    ]
    return {
      "precision": entity_metrics.precision_score(self._gold, predicted),
      "recall": entity_metrics.recall_score(self._gold, predicted),
      "f1": entity_metrics.f1_score(self._gold, predicted),
    }


class Trainer(transformers.Trainer):
  """A Trainer with the schedule of BERT's authors.

  The linear decay to 0 begins at step 0, and the warm-up replaces its first
  steps. Hugging Face's decay begins after the warm-up, so its later rates are
  higher by a constant factor.
  """

  def create_scheduler(self, num_training_steps, optimizer=None):
    warmup = self.args.get_warmup_steps(num_training_steps)
    self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
      optimizer or self.optimizer,
      lambda step: (
        step / warmup if step < warmup else 1 - step / num_training_steps
      ),
    )
    return self.lr_scheduler


def predictions(task, settings, tokenizer):
  """Fine-tunes a network; returns its outputs for task.eval."""
  transformers.set_seed(settings.seed)
  model = task.network.from_pretrained(
    settings.weights, num_labels=task.num_labels, attn_implementation="sdpa"
  )
  steps = len(task.train) * settings.num_train_epochs
  steps /= settings.train_batch_size
  sampling = "group_by_length" if settings.bucket_by_length else "random"
  with tempfile.TemporaryDirectory() as folder:
    options = transformers.TrainingArguments(
      folder,
      seed=settings.seed,
      learning_rate=settings.learning_rate,
      num_train_epochs=settings.num_train_epochs,
      per_device_train_batch_size=settings.train_batch_size,
      per_device_eval_batch_size=settings.eval_batch_size,
      weight_decay=settings.weight_decay,
      warmup_steps=int(steps * settings.warmup_proportion),
      # As in this project; Hugging Face's default is 1e-8.
      adam_epsilon=1e-6,
      bf16=settings.dtype == "bfloat16",
      train_sampling_strategy=sampling,
      save_strategy="no",
      report_to="none",
      logging_steps=50,
      use_cpu=not torch.cuda.is_available(),
    )
    trainer = Trainer(
      model, options, task.collator(tokenizer), train_dataset=task.train
    )
    trainer.train()
    # Grouping by length would change the order of the predictions.
    trainer.args.train_sampling_strategy = "random"
    return trainer.predict(task.eval).predictions


def main():
  settings = argparse.Namespace(**json.loads(sys.argv[1]))
  settings.data_dir = pathlib.Path(settings.data_dir)
  tokenizer = transformers.AutoTokenizer.from_pretrained(settings.weights)
  make = {"squad": Squad, "ner": Tagging}.get(settings.task, Glue)
  task = make(settings, tokenizer)
  scores = task.scores(predictions(task, settings, tokenizer))
  print(json.dumps({k: round(float(v), 5) for k, v in scores.items()}))


if __name__ == "__main__":
  main()
