"""serving_model.py: equal to the pipeline in Python, for every kind of head."""

import numpy as np
import pytest
import tensorflow as tf

import tokenization
from common import errors
from serving import graph_inputs, models
from serving_models import (
  LABELS,
  LENGTH,
  assert_close,
  config,
  in_python,
  inputs_in_python,
  make,
  softmax,
  tokenizer,
)

TEXTS = ["The \u00c9mile Stra\u00dfe, 1999!", "", "cat " * 90, "\u4e2d\u0000b"]
OTHERS = ["dog " * 40, "a", "", "It's."]


def run(model, *texts):
  """Returns {name: array} of the model on lists of str."""
  outputs = model.from_text(*(tf.constant(rows) for rows in texts))
  return {name: value.numpy() for name, value in outputs.items()}


def strings(array):
  return [value.decode() for value in array.tolist()]


# Classification.


@pytest.mark.parametrize("pairs", [False, True])
def test_classification(pairs):
  model = make("classification", text_pairs=pairs)
  texts = [TEXTS, OTHERS] if pairs else [TEXTS]
  outputs = run(model, *texts)
  assert outputs["labels"].shape == (4, 3)
  assert strings(outputs["labels"][1]) == LABELS
  for number, row in enumerate(zip(*texts)):
    expected = softmax(in_python(model, *row)["logits"])[0]
    assert_close(outputs["probabilities"][number], expected)
    assert_close(outputs["probability"][number], expected.max())
    assert outputs["label"][number].decode() == LABELS[expected.argmax()]


def test_several_labels_and_regression():
  model = make("classification", activation="sigmoid")
  outputs = run(model, TEXTS)
  assert outputs.keys() == {"labels", "probabilities"}
  logits = in_python(model, TEXTS[0])["logits"]
  assert_close(outputs["probabilities"][0], tf.sigmoid(logits)[0])
  model = make("classification", activation="linear")
  outputs = run(model, TEXTS)
  assert outputs.keys() == {"score"}
  assert_close(outputs["score"][0], in_python(model, TEXTS[0])["logits"][0, 0])


# Embeddings.


@pytest.mark.parametrize("pooling", models.POOLINGS)
def test_embedding(pooling):
  model = make("embedding", pooling=pooling)
  embedding = run(model, TEXTS)["embedding"]
  for number, text in enumerate(TEXTS):
    output = in_python(model, text)
    count = min(LENGTH, 2 + len(tokenizer().encode(text)))
    states = output["sequence_output"][0, :count].numpy()
    expected = {
      "pooled": output["pooled_output"][0],
      "mean": states.mean(0),
      "cls": states[0],
    }
    assert_close(embedding[number], expected[pooling])


def test_embedding_of_length_one():
  plain = run(make("embedding"), TEXTS)["embedding"]
  scaled = run(make("embedding", normalize=True), TEXTS)["embedding"]
  assert_close(scaled, plain / np.linalg.norm(plain, axis=1, keepdims=True))


def test_bfloat16_stores_matrices_and_stays_near():
  half = make("embedding", bfloat16=True)
  for variable in half.variables:
    wide = variable.shape.rank < 2
    assert variable.dtype == (tf.float32 if wide else tf.bfloat16)
  names = [v.name for v in half.variables]
  assert names == [v.name for v in make("embedding").variables]
  expected = run(make("embedding"), TEXTS)["embedding"]
  found = run(half, TEXTS)["embedding"]
  assert 0 < np.abs(found - expected).max() < 0.05


# Mask filling.


def test_fillings():
  model = make("masked_lm", top_k=3)
  texts = ["The [MASK] is[MASK]", "no mask, no [mask]", "[MASK]", "a " * 80]
  texts.append("a " * 70 + "[MASK]")
  outputs = run(model, texts)
  assert outputs["fillings"].shape == (5, 2, 3)
  full = tokenizer()
  mask_id = full.vocab["[MASK]"]
  # As fill_mask.py does it.
  ids = [*full.encode("The "), mask_id, *full.encode(" is"), mask_id]
  inputs = inputs_in_python(ids)
  positions = tf.where(inputs["input_ids"][0] == mask_id)[:, 0][tf.newaxis]
  sequence = model.outputs(inputs)["sequence_output"]
  expected = softmax(model.head(sequence, positions))[0]
  order = np.argsort(-expected, axis=-1, kind="stable")[:, :3]
  assert_close(
    outputs["probabilities"][0], np.take_along_axis(expected, order, axis=-1)
  )
  assert [strings(row) for row in outputs["fillings"][0]] == [
    full.convert_ids_to_tokens(row) for row in order.tolist()
  ]
  for row in (1, 3, 4):
    assert not outputs["probabilities"][row].any()
    assert not outputs["fillings"][row].any()
  assert outputs["probabilities"][2, 0].all()
  assert not outputs["probabilities"][2, 1].any()


# Tags.


def test_tags():
  model = make("tagging")
  text = " Stra\u00dfe, na\u0308h-e 3"
  outputs = run(model, [text, "", "a " * 80])
  assert outputs["num_words"].tolist() == [6, 0, 80]
  words = ["Stra\u00dfe", ",", "na\u0308h", "-", "e", "3"]
  assert strings(outputs["words"][0][:6]) == words
  spans = zip(outputs["starts"][0], outputs["ends"][0])
  assert [text[start:end] for start, end in spans][:6] == words
  probabilities = softmax(in_python(model, text)["logits"])[0]
  position = 1
  for number, word in enumerate(words):
    assert_close(
      outputs["probabilities"][0, number], probabilities[position].max()
    )
    tag = LABELS[probabilities[position].argmax()]
    assert outputs["tags"][0, number].decode() == tag
    position += len(tokenizer().encode(word))
  assert not outputs["tags"][1].any() and not outputs["tags"][0, 6:].any()


def test_tags_of_words_between_white_space():
  model = make("tagging", split_at_punctuation=False)
  outputs = run(model, ["a-b  U.N.\u2028c"])
  assert strings(outputs["words"][0]) == ["a-b", "U.N.", "c"]
  assert outputs["starts"].tolist() == [[0, 5, 10]]
  assert outputs["ends"].tolist() == [[3, 9, 11]]


# Answers.


def best_span(
  model, question, context, *, stride, longest, max_query, best_of=20
):
  """Returns the score and the pieces of the best span, by trying them all."""
  cls_id, sep_id = tokenizer().convert_tokens_to_ids(["[CLS]", "[SEP]"])
  question = tokenizer().encode(question)[:max_query]
  context = tokenizer().encode(context)
  ragged = [tf.RaggedTensor.from_row_lengths(
    tf.constant(ids, tf.int32), tf.constant([len(ids)], tf.int64)
  ) for ids in (question, context)]
  windows = graph_inputs.windows(
    *ragged, max_seq_length=LENGTH, doc_stride=stride,
    max_query_length=max_query, cls_id=cls_id, sep_id=sep_id,
  )
  may_start = graph_inputs.is_max_context(
    windows, tf.constant([len(context)], tf.int64)
  ).to_list()
  best, null_scores = (-np.inf, 0, 0), []
  for number, first in enumerate(windows.starts.numpy()):
    length = int(windows.lengths[number])
    row = inputs_in_python(question, context[first : first + length])
    logits = model.from_ids(**row)
    start, end = (
      logits[name][0].numpy() for name in ("start_logits", "end_logits")
    )
    null_scores.append(start[0] + end[0])
    starts, ends = (
      np.argsort(-logits, kind="stable")[:best_of] for logits in (start, end)
    )
    offset = int(windows.offsets[number])
    for i in range(length):
      for j in range(i, min(length, i + longest)):
        score = start[offset + i] + end[offset + j]
        tried = offset + i in starts and offset + j in ends
        if tried and may_start[number][i] and score > best[0]:
          best = (score, first + i, first + j)
  return best, min(null_scores), len(windows.starts)


def test_answers():
  options = dict(stride=16, longest=5, max_query=8)
  model = make(
    "span", doc_stride=16, max_answer_length=5, max_query_length=8
  )
  contexts = [" the c at in a box. " * 12, "Caf\u00e9 a", "b c", ""]
  questions = ["who is it?", "what " * 30, "", "why"]
  outputs = run(model, questions, contexts)
  for number, (question, context) in enumerate(zip(questions[:3], contexts)):
    best, null_score, count = best_span(model, question, context, **options)
    assert (count > 3) == (number == 0)
    assert_close(outputs["score"][number], best[0])
    assert_close(outputs["null_score"][number], null_score)
    tokens = model.tokenizer.tokenize([context])
    start = tokens.starts.to_list()[0][best[1]]
    end = tokens.ends.to_list()[0][best[2]]
    assert outputs["start"][number] == start
    assert outputs["end"][number] == end
    assert outputs["answer"][number].decode() == context[start:end] != ""
  assert outputs["answer"][3] == b"" and outputs["end"][3] == 0


@pytest.mark.parametrize("above", [-0.1, 0.1])
def test_no_answer(above):
  question, context = ["who"], ["the cat is in a box"]
  answer = run(make("span", max_query_length=8), question, context)
  difference = float(answer["null_score"][0] - answer["score"][0])
  model = make(
    "span", max_query_length=8, null_threshold=difference + above
  )
  outputs = run(model, question, context)
  expected = answer["answer"][0] if above > 0 else b""
  assert outputs["answer"][0] == expected
  assert_close(outputs["score"], answer["score"])


# What cannot be.


def test_errors():
  with pytest.raises(errors.InputError, match="--max_query_length=61"):
    make("span", max_query_length=61)
  with pytest.raises(errors.InputError, match="max_position_embeddings"):
    make("embedding", max_seq_length=65)


def test_a_vocabulary_without_special_tokens(tmp_path):
  path = tmp_path / "vocab.txt"
  path.write_text("[UNK]\n[CLS]\n[SEP]\na\n")
  full = tokenization.FullTokenizer(str(path))
  models.Embedder(config(), full, models.ServingOptions(64))
  with pytest.raises(errors.InputError, match=r"\[MASK\].*the head needs it"):
    models.MaskFiller(config(), full, models.ServingOptions(64))
