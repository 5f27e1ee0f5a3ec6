"""Writes the model and results.json with transformers; see README.md."""

import json
import pathlib
import shutil
import sys

import torch
import transformers

here = pathlib.Path(__file__).parent
vocabulary = here.parent / "pretraining_run" / "model" / "vocab.txt"
model_folder = str(here / "model")
torch.manual_seed(3)
config = transformers.BertConfig(
  vocab_size=len(vocabulary.read_text(encoding="utf-8").splitlines()),
  hidden_size=16,
  num_hidden_layers=2,
  num_attention_heads=2,
  intermediate_size=32,
  max_position_embeddings=64,
  initializer_range=0.5,
  id2label={0: "CONTRADICTION", 1: "neutral", 2: "entailment"},
  label2id={"CONTRADICTION": 0, "neutral": 1, "entailment": 2},
)
transformers.BertForSequenceClassification(config).save_pretrained(model_folder)
shutil.copy(vocabulary, here / "model" / "vocab.txt")
transformers.BertTokenizer(str(vocabulary)).save_pretrained(model_folder)
pipe = transformers.pipeline("zero-shot-classification", model=model_folder)
texts = ["the gold star was up the street", "he was a man of the old house"]
results = []
for labels in (["gold", "old house", "street"], ["man"]):
  for multi_label in (False, True):
    for template in ("This example is {}.", "it is of {} ."):
      options = {"multi_label": multi_label, "hypothesis_template": template}
      results.append(
        {
          "labels": labels,
          **options,
          "results": pipe(texts, candidate_labels=labels, **options),
        }
      )
(here / "results.json").write_text(
  json.dumps({"texts": texts, "cases": results}, indent=1) + "\n"
)
print(transformers.__version__, torch.__version__, sys.version.split()[0])
