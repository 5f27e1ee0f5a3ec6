"""What the page of table.py shows first, and what its --short measures."""

DYNAMIC = "Trainer, dynamic padding"

# The page's own table and chart: group, text, work, measure, peers.
HEADLINES = (
  ("Fine-tuning", "MiniLM on MRPC, float32", "job/mrpc/float32", "wall",
   DYNAMIC),
  ("Fine-tuning", "MiniLM on MRPC, bfloat16", "job/mrpc/bfloat16", "wall",
   DYNAMIC),
  ("Fine-tuning", "MiniLM on CoLA, float32", "job/cola/float32", "wall",
   DYNAMIC),
  ("Fine-tuning", "MiniLM on STS-B, float32", "job/sts-b/float32", "wall",
   DYNAMIC),
  ("Fine-tuning", "MiniLM on SQuAD, float32", "job/squad/float32", "wall", ""),
  ("Fine-tuning", "MiniLM on names of CoNLL's kind, bfloat16",
   "job/tagging/bfloat16", "wall", ""),
  ("Fine-tuning", "BERT-base on MRPC, float32", "job/base/float32", "wall",
   DYNAMIC),
  ("Pre-training", "text to records", "data", "wall", ""),
  ("Pre-training", "BERT-base, step of 32 × 128, float32",
   "step/pretrain128/float32", "examples_per_second", ""),
  ("Prediction", "BERT-base, 32 × 128, float32", "step/predict32/float32",
   "examples_per_second", ""),
  ("Prediction", "BERT-base, 32 × 128, bfloat16", "step/predict32/bfloat16",
   "examples_per_second", ""),
  ("Prediction", "MiniLM, vectors of phrases, float32",
   "lines/features/float32", "wall", ""),
  ("Prediction", "MiniLM, vectors of phrases, int8 against float32",
   "lines/features/int8", "wall", ""),
  ("Prediction", "MiniLM, classes of phrases, float32",
   "lines/predictions/float32", "wall", ""),
)
_ALONE = {"repeats": 1, "padded": 0}
# --short: the minutes of a work on two cores, and flags for it. With few steps
# the start is a larger part of a job than in a whole one, in all programs.
SHORT = {
  "job/mrpc/float32": (6, {"repeats": 1, "steps": 150}),
  "job/mrpc/bfloat16": (3, {**_ALONE, "steps": 150}),
  "job/cola/float32": (2, {**_ALONE, "steps": 100}),
  "job/sts-b/float32": (3, {**_ALONE, "steps": 100}),
  "job/squad/float32": (6, {"repeats": 1, "steps": 60}),
  "job/tagging/bfloat16": (3, {"repeats": 1, "steps": 150}),
  "job/base/float32": (4, {**_ALONE, "steps": 20}),
  "step/train8/float32": (2, {"repeats": 1, "rounds": 3}),
  "step/train8/bfloat16": (2, {"repeats": 1, "rounds": 3}),
  "step/predict32/float32": (5, {"repeats": 1, "rounds": 3}),
  "step/predict32/bfloat16": (4, {"repeats": 1, "rounds": 3}),
  "step/pretrain128/float32": (7, {"repeats": 1, "rounds": 2}),
  "data": (2, {"repeats": 1}),
  "lines/features/float32": (1.5, {"repeats": 1, "lines": 10000}),
  "lines/features/int8": (1, {"repeats": 1, "lines": 10000}),
  "lines/predictions/float32": (1.5, {"repeats": 1, "lines": 10000}),
  "engines/minilm": (
    5, {"repeats": 1, "seconds": 2, "threads": "all threads"}
  ),
  "start/first_step": (1, {"repeats": 1}),
}
