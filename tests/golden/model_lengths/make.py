"""Writes the folders and answers.json: python make.py, in this folder."""

import json
import pathlib
import tempfile

import numpy as np
import sentence_transformers
import torch
import transformers
from sentence_transformers import models

POSITIONS, WIDTH = 160, 8
# What tokenizer_config.json says as model_max_length.
LENGTHS = {"64": 64, "144": 144, "huge": int(1e30), "none": None}
WORDS = [f"w{n}" for n in range(10)]
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
# 200 words: longer than all lengths.
TEXT = " ".join(WORDS[n * n * 7 % 11 % 10] for n in range(200))
HEADS = {
  "classification": transformers.BertForSequenceClassification,
  "tagging": transformers.BertForTokenClassification,
  "span": transformers.BertForQuestionAnswering,
  "masked_lm": transformers.BertForMaskedLM,
  "next_sentence": transformers.BertForNextSentencePrediction,
  "embedding": transformers.BertModel,
  "reranker": transformers.BertForSequenceClassification,
}
LABELS = {"classification": 2, "tagging": 3, "reranker": 1}


def write_model(head):
  """Writes a folder without a length; returns the model."""
  torch.manual_seed(3)
  model = HEADS[head](
    transformers.BertConfig(
      vocab_size=len(TOKENS),
      hidden_size=WIDTH,
      num_hidden_layers=1,
      num_attention_heads=2,
      intermediate_size=8,
      max_position_embeddings=POSITIONS,
      initializer_range=0.8,
      num_labels=LABELS.get(head, 2),
    )
  )
  model.eval().save_pretrained(head)
  tokenizer = transformers.BertTokenizer(
    vocab={token: n for n, token in enumerate(TOKENS)}
  )
  tokenizer.save_pretrained(head)
  if head == "reranker":
    sentence_transformers.CrossEncoder(head).save_pretrained(head)
    pathlib.Path(head, "README.md").unlink()
  path = pathlib.Path(head, "tokenizer_config.json")
  values = json.loads(path.read_text())
  values.pop("model_max_length")
  path.write_text(json.dumps(values, indent=2) + "\n")
  return model


def answer(head, model, folder, length):
  """Returns the answer to TEXT of a folder that states a length."""
  if head == "reranker":
    scorer = sentence_transformers.CrossEncoder(str(folder))
    return scorer.predict([(TEXT, "w1 w2")]).tolist()
  if head == "embedding":
    encoder = models.Transformer(str(folder))
    pooling = models.Pooling(WIDTH, "mean")
    vectors = sentence_transformers.SentenceTransformer(
      modules=[encoder, pooling]
    )
    return vectors.encode([TEXT])[0].tolist()
  tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
  # Without a limit, the number of positions is the limit.
  limit = min(tokenizer.model_max_length, POSITIONS)
  texts = {
    "masked_lm": [f"{TEXT[: 3 * (limit - 4)]}[MASK] {TEXT}"],
    "next_sentence": [TEXT, "w1 w2"],
    "span": ["w1 w2", TEXT[: 3 * (limit - 6)]],
  }.get(head, [TEXT])
  inputs = tokenizer(
    *texts, truncation=True, max_length=limit, return_tensors="pt"
  )
  with torch.no_grad():
    outputs = model(**inputs)
  if head == "span":
    return best_span(outputs, inputs)
  scores = outputs.logits[0].softmax(-1).numpy()
  if head == "masked_lm":
    (place,) = np.flatnonzero(inputs["input_ids"][0].numpy() == 4)
    scores = np.sort(scores[place])[::-1][:5]
  if head == "tagging":
    scores = scores.max(-1)[1:-1]
  return scores.tolist()


def best_span(outputs, inputs):
  """Returns the largest sum of a start's and an end's logit in the context."""
  inside = inputs["token_type_ids"][0].numpy().astype(bool)
  inside[-1] = False
  places = np.flatnonzero(inside)
  start, end = outputs.start_logits[0].numpy(), outputs.end_logits[0].numpy()
  return max(
    float(start[i] + end[j]) for i in places for j in places if 0 <= j - i < 30
  )


def main():
  """Writes the folders and the answers."""
  answers = {"text": TEXT, "answers": {}}
  for head in HEADS:
    model = write_model(head)
    answers["answers"][head] = {}
    for name, length in LENGTHS.items():
      with tempfile.TemporaryDirectory() as folder:
        for path in pathlib.Path(head).iterdir():
          pathlib.Path(folder, path.name).write_bytes(path.read_bytes())
        path = pathlib.Path(folder, "tokenizer_config.json")
        values = json.loads(path.read_text())
        if length:
          path.write_text(json.dumps({**values, "model_max_length": length}))
        answers["answers"][head][name] = answer(head, model, folder, length)
  with open("answers.json", "w", encoding="utf-8") as stream:
    json.dump(answers, stream, indent=1)
    stream.write("\n")


if __name__ == "__main__":
  main()
