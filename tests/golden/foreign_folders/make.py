"""Writes the folders and answers.json: python make.py, in this folder."""

import json
import pathlib
import shutil
import tempfile

import numpy as np
import sentence_transformers
import tokenizers
import torch
import transformers
from sentence_transformers import cross_encoder, models

POSITIONS, LENGTH, WIDTH = 64, 56, 8
# Some words have several pieces; σ and ς, and words of more than 100
# characters, are tokenized differently by the original BERT.
LETTERS = [*"abcdefghijklmnopqrstuvwxyz", "σ", "ς", "α"]
KNOWN = "the dog cat sat on mat big red blue was it is".split()
TOKENS = list(
  dict.fromkeys(
    "[PAD] [UNK] [CLS] [SEP] [MASK]".split()
    + [*KNOWN, "##s", "##ning", ",", ".", "?", "The"]
    + LETTERS
    + [f"##{letter}" for letter in LETTERS]
  )
)
BYTE_PIECES = 300  # All bytes, and some pieces of several.
RNG = np.random.RandomState(0)


def words(count):
  """Returns a text of known words."""
  return " ".join(RNG.choice([*KNOWN, "a", "b"], count))


ODD = f"ΑΣ The dogs, running {'x' * 101} big"
TEXTS = [words(5), ODD, words(90), f"{ODD} {words(60)}"]
PAIRS = [
  (words(4), words(9)),
  (words(41), words(42)),
  (words(9), words(80)),
  (ODD, words(70)),
]
QUESTIONS = [("is it a cat", words(9)), ("dogs", f"the {ODD} sat")]
# One mask, before what is cut.
MASKED = [f"the [MASK] {words(4)}", f"a [MASK], {words(90)}"]
ROWS = {"tag": [TEXTS[0], TEXTS[2]], "mask": MASKED, "span": QUESTIONS}

CONFIGS = {
  "Bert": transformers.BertConfig,
  "DistilBert": transformers.DistilBertConfig,
  "Electra": transformers.ElectraConfig,
  "Albert": transformers.AlbertConfig,
  "Roberta": transformers.RobertaConfig,
}
TAGS = {"id2label": {0: "O", 1: "B-A", 2: "I-A"}}
MANY = {"problem_type": "multi_label_classification"}
# {folder: (kind of answer, class, entries of the configuration)}
FOLDERS = {
  "bert_classes": ("classes", "BertForSequenceClassification", {}),
  "bert_cased": ("classes", "BertForSequenceClassification", {}),
  "bert_pairs": ("pairs", "BertForSequenceClassification", {}),
  "bert_several": ("several", "BertForSequenceClassification", MANY),
  "bert_tags": ("tag", "BertForTokenClassification", TAGS),
  "bert_span": ("span", "BertForQuestionAnswering", {}),
  "bert_mask": ("mask", "BertForMaskedLM", {}),
  "bert_by_hand": ("classes", "BertForSequenceClassification", {}),
  "distilbert_classes": ("classes", "DistilBertForSequenceClassification", {}),
  "distilbert_tags": ("tag", "DistilBertForTokenClassification", TAGS),
  "electra_classes": ("classes", "ElectraForSequenceClassification", {}),
  "albert_classes": ("classes", "AlbertForSequenceClassification", {}),
  "roberta_pairs": ("pairs", "RobertaForSequenceClassification", {}),
  "roberta_mask": ("mask", "RobertaForMaskedLM", {}),
  # The padding of the model is the unknown token of the tokenizer.
  "roberta_bert_words": ("classes", "RobertaForSequenceClassification", {}),
}


def config_of(class_name, values):
  """Returns a small configuration with large weights."""
  kind = class_name.partition("For")[0].removesuffix("Model")
  sizes = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
  }
  if kind == "DistilBert":
    sizes = {"dim": WIDTH, "n_layers": 1, "n_heads": 2, "hidden_dim": 8}
  elif kind in ("Electra", "Albert"):
    sizes["embedding_size"] = 4
  shifted = 2 if kind == "Roberta" else 0
  if shifted:
    sizes |= {"pad_token_id": 1, "type_vocab_size": 1}
  return CONFIGS[kind](
    vocab_size=BYTE_PIECES if shifted else len(TOKENS),
    max_position_embeddings=POSITIONS + shifted,
    initializer_range=0.6,
    **{"num_labels": 2 if "Question" in class_name else 3, **sizes, **values},
  )


def tokenizer_of(name):
  """Returns a tokenizer that states LENGTH."""
  if name in ("roberta_pairs", "roberta_mask"):
    bpe = tokenizers.ByteLevelBPETokenizer()
    bpe.train_from_iterator(
      [*TEXTS, *map(" ".join, PAIRS)],
      vocab_size=BYTE_PIECES,
      min_frequency=1,
      special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
      show_progress=False,
    )
    with tempfile.TemporaryDirectory() as folder:
      vocab, merges = bpe.save_model(folder)
      return transformers.RobertaTokenizer(
        vocab=json.loads(pathlib.Path(vocab).read_text("utf-8")),
        merges=[
          tuple(line.split())
          for line in pathlib.Path(merges).read_text("utf-8").split("\n")[1:]
          if line
        ],
        model_max_length=LENGTH,
      )
  return transformers.BertTokenizer(
    vocab={token: number for number, token in enumerate(TOKENS)},
    do_lower_case=name != "bert_cased",
    model_max_length=LENGTH,
  )


def write(name, class_name, values):
  """Writes a folder; returns its model and tokenizer, as read from it."""
  torch.manual_seed(5)
  cls = getattr(transformers, class_name)
  cls(config_of(class_name, values)).save_pretrained(name)
  tokenizer_of(name).save_pretrained(name)
  if name == "bert_by_hand":
    # As a user of TensorFlow 1 or PyTorch may leave it.
    pathlib.Path(name, "tokenizer.json").unlink()
    pathlib.Path(name, "vocab.txt").write_text("\n".join(TOKENS) + "\n")
  tokenizer = transformers.AutoTokenizer.from_pretrained(name)
  return cls.from_pretrained(name).eval(), tokenizer


def inputs_of(tokenizer, row):
  """Returns a network's inputs for a text or a pair of texts."""
  texts = row if isinstance(row, tuple) else (row,)
  return tokenizer(*texts, truncation=True, return_tensors="pt")


def tags(model, tokenizer, text):
  """Returns the label and its probability for the words that are not cut."""
  inputs = tokenizer(
    text.split(), is_split_into_words=True, truncation=True, return_tensors="pt"
  )
  best = model(**inputs).logits[0].softmax(-1).max(-1)
  first = [n for n, word in enumerate(inputs.word_ids()) if word is not None]
  return [
    [model.config.id2label[int(best.indices[n])], float(best.values[n])]
    for n in first
  ]


def span(model, tokenizer, row):
  """Returns the largest sum of a start's and an end's logit in the context."""
  inputs = inputs_of(tokenizer, row)
  outputs = model(**inputs)
  places = [n for n, text in enumerate(inputs.sequence_ids()) if text == 1]
  return max(
    float(outputs.start_logits[0, i] + outputs.end_logits[0, j])
    for i in places
    for j in places
    if 0 <= j - i < 30
  )


def fillings(model, tokenizer, text):
  """Returns the five best tokens and their probabilities."""
  inputs = inputs_of(tokenizer, text.replace("[MASK]", tokenizer.mask_token))
  (place,) = np.flatnonzero(inputs["input_ids"][0] == tokenizer.mask_token_id)
  best = model(**inputs).logits[0, place].softmax(-1).topk(5)
  names = tokenizer.convert_ids_to_tokens(best.indices.tolist())
  return [names, best.values.tolist()]


def classes(model, tokenizer, row):
  """Returns the probability of each class."""
  logits = model(**inputs_of(tokenizer, row)).logits[0]
  several = model.config.problem_type == MANY["problem_type"]
  return (logits.sigmoid() if several else logits.softmax(-1)).tolist()


KINDS = {"tag": tags, "span": span, "mask": fillings}


def write_sentence_models():
  """Writes the folders of sentence-transformers; returns their answers."""
  answers = {}
  with tempfile.TemporaryDirectory() as folder:

    def base(class_name, **values):
      write(f"{folder}/{class_name}", class_name, values)
      return f"{folder}/{class_name}"

    encoder = base("BertModel")
    for name, ending in {
      "vectors_mean": [models.Pooling(WIDTH, "mean"), models.Normalize()],
      "vectors_cls": [models.Pooling(WIDTH, "cls")],
      "vectors_max": [models.Pooling(WIDTH, "max"), models.Normalize()],
      "vectors_dense": [models.Pooling(WIDTH, "mean"), models.Dense(WIDTH, 4)],
    }.items():
      transformer = models.Transformer(encoder, max_seq_length=40)
      model = sentence_transformers.SentenceTransformer(
        modules=[transformer, *ending], device="cpu"
      )
      model.save_pretrained(name)
      answers[name] = "vectors", model.encode(TEXTS).tolist()
    sparse = sentence_transformers.SparseEncoder(
      base("BertForMaskedLM"), device="cpu"
    )
    sparse.save_pretrained("sparse")
    rows = sparse.encode(TEXTS, convert_to_tensor=True).to_dense().tolist()
    answers["sparse"] = (
      "sparse",
      [
        {TOKENS[n]: value for n, value in enumerate(row) if value}
        for row in rows
      ],
    )
    single = base("BertForSequenceClassification", num_labels=1)
    for name, length in {"scores": LENGTH, "scores_20": 20}.items():
      scorer = cross_encoder.CrossEncoder(
        single, device="cpu", max_length=length
      )
      scorer.save_pretrained(name)
      answers[name] = "scores", scorer.predict(PAIRS).tolist()
    scorer = cross_encoder.CrossEncoder(
      modules=[
        models.Transformer(encoder, max_seq_length=40),
        models.Pooling(WIDTH, "mean"),
        models.Dense(WIDTH, 1, module_output_name="scores"),
      ],
      device="cpu",
    )
    scorer.save_pretrained("scores_dense")
    answers["scores_dense"] = "scores", np.ravel(scorer.predict(PAIRS)).tolist()
  return answers


def main():
  """Writes the folders and the answers."""
  for path in pathlib.Path().iterdir():
    if path.is_dir():
      shutil.rmtree(path)
  answers = {}
  for name, (kind, class_name, values) in FOLDERS.items():
    model, tokenizer = write(name, class_name, values)
    rows = ROWS.get(kind, PAIRS if kind == "pairs" else TEXTS)
    with torch.no_grad():
      compute = KINDS.get(kind, classes)
      answers[name] = kind, [compute(model, tokenizer, row) for row in rows]
  answers |= write_sentence_models()
  for path in pathlib.Path().rglob("README.md"):
    if path.parent.name:
      path.unlink()
  values = {"texts": TEXTS, "pairs": PAIRS, **ROWS, "answers": answers}
  with open("answers.json", "w", encoding="utf-8") as stream:
    json.dump(values, stream, indent=1)
    stream.write("\n")


if __name__ == "__main__":
  main()
