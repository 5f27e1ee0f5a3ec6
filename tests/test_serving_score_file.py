"""Scores on labelled files: of networks whose answers are known."""

import json
import types

import numpy as np
import pytest

import tokenization
from common import errors, run_settings
from serving import score_file
from tiny_model import SPECIAL, write_vocabulary

SETTINGS = {
  "output_activation": "softmax", "max_seq_length": 16, "doc_stride": 0,
  "max_windows": 0, "version_2_with_negative": False, "max_answer_length": 5,
  "null_score_diff_threshold": None, "max_query_length": 4, "n_best_size": 20,
  "labels": ("bad", "good", "fine"), "do_lower_case": True,
}


def number(input_ids):
  """Of the words: w0 is 0, w1 is 1, ...; below 0: special tokens."""
  return np.asarray(input_ids) - len(SPECIAL)


def one_hot(numbers, width):
  return np.float32(np.asarray(numbers)[..., None] == np.arange(width))


def score(tmp_path, head, name, content, network, pair=False, **values):
  path = tmp_path / name
  path.write_text(content)
  vocab_file = write_vocabulary(tmp_path)
  model = types.SimpleNamespace(
    settings=run_settings.Settings(
      {**SETTINGS, "head": head, "vocab_file": vocab_file, **values}
    ),
    tokenizer=tokenization.FullTokenizer(vocab_file),
    text_inputs=("text_a", "text_b") if pair else ("text",),
  )
  return score_file.make(model, str(path))(network)


def first_word(width, scale=9.0):
  """A network that knows one thing: the first word."""
  return lambda input_ids, **_: {
    "logits": scale * one_hot(number(input_ids)[:, 1], width)
  }


def test_classes(tmp_path):
  content = "text\tlabel\nw0 w5\tbad\nw1\tgood\nw2 w1 w1\tbad\nw2\tfine\n"
  found = score(tmp_path, "classification", "a.tsv", content, first_word(3))
  assert found == pytest.approx(
    {"accuracy": 0.75, "f1_macro": (2 / 3 + 1 + 2 / 3) / 3}
  )


def test_pairs(tmp_path):
  def network(input_ids, segment_ids, **_):
    second = [row[s > 0][0] for row, s in zip(number(input_ids), segment_ids)]
    return {"logits": one_hot(second, 2)}

  content = "text,text_b,label\nw0,w1,good\nw0,w0,bad\nw1,w1,bad\n"
  found = score(
    tmp_path, "classification", "a.csv", content, network, pair=True,
    labels=("bad", "good"),
  )
  assert found == pytest.approx({"accuracy": 2 / 3, "f1": 2 / 3})


def test_several_classes(tmp_path):
  content = (
    '{"text": "w0", "label": ["bad"]}\n{"text": "w1", "label": ["bad", "good"]}'
  )
  found = score(
    tmp_path, "classification", "a.jsonl", content,
    lambda **batch: {"logits": first_word(3)(**batch)["logits"] - 4},
    output_activation="sigmoid",
  )
  assert found["accuracy"] == 0.5
  assert found["f1_micro"] == pytest.approx(0.8)


def test_numbers(tmp_path):
  content = "text\tlabel\nw0\t1\nw3\t2\nw5\t7.5\n"
  found = score(
    tmp_path, "classification", "a.tsv", content,
    lambda input_ids, **_: {"logits": number(input_ids)[:, 1:2] * 1.0},
    output_activation="linear", labels=(),
  )
  assert found["spearman"] == pytest.approx(1)
  assert found["pearson"] == pytest.approx(
    np.corrcoef([0, 3, 5], [1, 2, 7.5])[0, 1]
  )


def vectors(input_ids, **_):
  """Of w0 (1, 0), of w1 (1, 1), of w2 (1, 2)."""
  words = number(input_ids)[:, 1]
  return {"embedding": np.stack([words * 0 + 1, words], 1)}


def test_vectors(tmp_path):
  content = "text\ttext_b\tlabel\nw0\tw0\t5\nw0\tw1\t1\nw1\tw2\t3\n"
  found = score(tmp_path, "embedding", "a.tsv", content, vectors)
  assert found["spearman"] == pytest.approx(1)
  cosines, gold = [1, 2**-0.5, 3 / 10**0.5], [5, 1, 3]
  assert found["pearson"] == pytest.approx(np.corrcoef(cosines, gold)[0, 1])
  with pytest.raises(errors.InputError, match="with --text_pairs a vector is"):
    score(tmp_path, "embedding", "a.tsv", content, vectors, pair=True)


def squad(tmp_path, answers, **values):
  """Scores answers to "w9", which a network takes to be w3."""
  def network(input_ids, **_):
    is_answer = one_hot(number(input_ids), 4)[..., 3]
    return {"start_logits": is_answer, "end_logits": is_answer}

  context = "w1 w2 w3 w4"
  questions = [
    {"id": str(n), "question": "w9",
     "answers": [{"text": a, "answer_start": context.index(a)}] if a else [],
     **({"is_impossible": not a} if values else {})}
    for n, a in enumerate(answers)
  ]
  file = {"version": "1", "data": [
    {"title": "", "paragraphs": [{"context": context, "qas": questions}]}
  ]}
  return score(
    tmp_path, "span", "a.json", json.dumps(file), network, doc_stride=4,
    **values,
  )


def test_answers(tmp_path):
  found = squad(tmp_path, ["w3", "w1", "w2 w3", "w3"])
  assert found == pytest.approx({"exact_match": 50, "f1": 200 / 3})
  found = squad(tmp_path, ["w3", ""], version_2_with_negative=True)
  assert found == {"exact": 50, "f1": 50}
  with pytest.raises(errors.InputError, match="not every question has an answ"):
    squad(tmp_path, ["w3", ""])


def tags(tmp_path, content, labels):
  return score(
    tmp_path, "tagging", "a.conll", content, lambda input_ids, **_: {
      "probabilities": one_hot(number(input_ids), len(labels))
    }, labels=labels,
  )


def test_tags(tmp_path):
  content = "w1 B-PER\nw2 I-PER\nw0 O\n\nw1 B-PER\nw0 I-PER\n"
  found = tags(tmp_path, content, ("O", "B-PER", "I-PER"))
  assert found == {"precision": 0.5, "recall": 0.5, "f1": 0.5, "accuracy": 0.8}
  found = tags(tmp_path, "w1 NN\nw0 DT\nw1 DT\nw0 DT\n", ("DT", "NN"))
  assert found == {"accuracy": 0.75}
  with pytest.raises(errors.InputError, match="a.conll:1: 'X' is none of the"):
    tags(tmp_path, "w1 X\n", ("DT", "NN"))
