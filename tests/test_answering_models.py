"""Compares models and raw_text with the pipeline in Python, for each head."""

import numpy as np
import pytest
import tensorflow as tf

import tokenization
from answering import models
from common import errors
from exports import raw_text
from serving_models import (
  FOLDER,
  LABELS,
  LENGTH,
  assert_close,
  in_python,
  inputs_in_python,
  make,
  softmax,
  tokenizer,
)
from text import input_sequences

TEXTS = ["The \u00c9mile Stra\u00dfe, 1999!", "", "cat " * 90, "\u4e2d\u0000b"]


def run(model, *texts):
  outputs = model.from_text(*(tf.constant(rows) for rows in texts))
  return {name: value.numpy() for name, value in outputs.items()}


def strings(array):
  return [value.decode() for value in array.tolist()]


def test_bfloat16_stores_matrices_and_stays_close():
  half = make("embedding", dtype="bfloat16")
  for variable in half.variables:
    wide = variable.shape.rank < 2
    assert variable.dtype == (tf.float32 if wide else tf.bfloat16)
  names = [v.name for v in half.variables]
  assert names == [v.name for v in make("embedding").variables]
  difference = run(half, TEXTS)["embedding"]
  difference -= run(make("embedding"), TEXTS)["embedding"]
  assert 0 < np.abs(difference).max() < 0.05


def test_several_classes_at_once():
  model = make("classification", output_activation="sigmoid")
  outputs = run(model, ["the cat"])
  (expected,) = in_python(model, "the cat")["logits"]
  assert strings(outputs["labels"][0]) == LABELS
  assert_close(outputs["probabilities"][0], tf.sigmoid(expected))
  assert "label" not in outputs


def test_fillings():
  model = make("masked_lm", top_k=3)
  outputs = run(model, ["The [MASK] is[MASK]", "[MASK]"])
  assert outputs["fillings"].shape == (2, 2, 3)
  full = tokenizer()
  mask_id = full.vocab["[MASK]"]
  # These are the ids that fill_mask.py computes.
  ids = [*full.encode("The "), mask_id, *full.encode(" is"), mask_id]
  inputs = inputs_in_python(ids)
  positions = tf.where(inputs["input_ids"][0] == mask_id)[:, 0][tf.newaxis]
  sequence = model.model.outputs(inputs)["sequence_output"]
  expected = softmax(model.model.head(sequence, positions))[0]
  order = np.argsort(-expected, axis=-1, kind="stable")[:, :3]
  assert_close(
    outputs["probabilities"][0], np.take_along_axis(expected, order, axis=-1)
  )
  assert [strings(row) for row in outputs["fillings"][0]] == [
    full.convert_ids_to_tokens(row) for row in order.tolist()
  ]
  assert outputs["probabilities"][1, 0].all()
  # The second text has one mask.
  assert not outputs["probabilities"][1, 1].any()
  assert not outputs["fillings"][1, 1].any()


@pytest.mark.parametrize(
  "text, facts",
  [
    ("no mask, no [mask]", r"no \[MASK\]"),
    ("", r"no \[MASK\]"),
    ("a " * 80, r"no \[MASK\]"),
    ("[MASK] " + "a " * 70 + "[MASK]", rf"\[MASK\] beyond the {LENGTH} tokens"),
  ],
)
def test_a_text_whose_masks_cannot_be_filled_is_refused(text, facts):
  """In the graph, as in answering.answers."""
  model = make("masked_lm")
  with pytest.raises(tf.errors.InvalidArgumentError, match=facts):
    run(model, ["The [MASK]", text])


@pytest.mark.parametrize("case", ["b1", "full_length"])
def test_pairs_have_the_log_probabilities_of_the_original(case):
  folder = FOLDER.parents[1] / "models" / "gelu_L3_H48"
  model = make("next_sentence").model
  values = np.load(folder / "vars.npz")
  for variable in model.variables:
    variable.assign(values[variable.name.removesuffix(":0")])
  data = np.load(folder / f"forward_{case}.npz")
  inputs = {name: tf.constant(data[name]) for name in model.id_inputs}
  outputs = model.named(model.from_ids(**inputs))
  expected = data["next_sentence_log_probs"]
  assert_close(outputs["log_probabilities"], expected)
  assert_close(outputs["probability"], np.exp(expected[:, 0]))


def ragged(*lengths):
  return tf.RaggedTensor.from_row_lengths(
    tf.concat([10 + tf.range(length) for length in lengths], 0),
    tf.constant(lengths, tf.int64),
  )


@pytest.mark.parametrize("odd_to_longer", [False, True])
def test_every_pair_is_truncated_as_by_input_sequences(odd_to_longer):
  frame = input_sequences.Frame(1, 2, odd_to_longer=odd_to_longer)
  room, lengths = 5, [(a, b) for a in range(9) for b in range(9)]
  rows = []
  for a, b in lengths:
    row_a, row_b = ragged(a, b).to_list()
    # As in the original: a second text without pieces is treated as missing.
    input_sequences.truncate_pair(
      row_a, row_b, room + (not row_b), odd_to_longer=odd_to_longer
    )
    rows.append(input_sequences.build_inputs(row_a, row_b or None, frame=frame))
  inputs = raw_text.pair_inputs(
    ragged(*[a for a, _ in lengths]),
    ragged(*[b for _, b in lengths]),
    room + 3,
    frame,
  )
  for name, values in input_sequences.pad_batch(*zip(*rows)).items():
    assert inputs[name].dtype == tf.int32
    np.testing.assert_array_equal(inputs[name], values)


def test_tags():
  model = make("tagging")
  text = " Stra\u00dfe, na\u0308h-e 3"
  outputs = run(model, [text, "", "a " * 80])
  expected = softmax(in_python(model, text)["logits"])[0]
  pieces = tokenizer().tokenize(text)
  assert_close(
    outputs["probabilities"][0, : len(pieces) + 2], expected[: len(pieces) + 2]
  )
  words = ["Stra\u00dfe", ",", "na\u0308h", "-", "e", "3"]
  numbers, counts = np.unique(outputs["words"][0], return_counts=True)
  assert numbers.tolist() == [-1, *range(6)]
  assert counts[1:].tolist() == [len(tokenizer().encode(w)) for w in words]
  masks = [outputs["words"][0] == number for number in range(6)]
  assert words == [
    text[outputs["starts"][0][mask].min() : outputs["ends"][0][mask].max()]
    for mask in masks
  ]
  assert (outputs["words"][1] == -1).all() and not outputs["ends"][1].any()
  # A long text is cut, so that [CLS] and [SEP] fit.
  assert (outputs["words"][2] >= 0).sum() == LENGTH - 2
  tagged = run(make("tagging", tag_words="white_space"), ["a-b  U.N.\u2028c"])
  assert np.unique(tagged["words"]).size == 4


@pytest.mark.parametrize("context", ["Caf\u00e9 a", "b", "cat " * 90, ""])
def test_spans(context):
  model = make("span", max_query_length=3)
  outputs = run(model, ["who is it now"], [context])
  question = tokenizer().encode("who is it now")[:3]
  pieces = tokenizer().encode(context)[: LENGTH - 6]
  expected = model.model.from_ids(**inputs_in_python(question, pieces))
  count = 5 + len(pieces) + bool(pieces) if pieces else 5
  for name in ("start_logits", "end_logits"):
    assert_close(outputs[name][0, :count], expected[name][0, :count])
  covered = [
    context[start:end].lower().replace("\u00e9", "e")
    for start, end in zip(outputs["starts"][0], outputs["ends"][0])
  ]
  tokens = tokenizer().convert_ids_to_tokens(pieces)
  assert covered[5 : 5 + len(pieces)] == [t.replace("##", "") for t in tokens]
  assert not any(covered[:5]) and not any(covered[5 + len(pieces) :])


def test_unsuitable_lengths_and_vocabularies_are_refused(tmp_path):
  with pytest.raises(errors.InputError, match="max_position_embeddings"):
    make("embedding", max_seq_length=65)
  path = tmp_path / "vocab.txt"
  path.write_text("[UNK]\n[CLS]\n[SEP]\na\n")
  full = tokenization.FullTokenizer(str(path))
  embedder, filler = make("embedding").model, make("masked_lm").model
  embedder.tokenizer = filler.tokenizer = full
  raw_text.RawText(embedder)
  with pytest.raises(errors.InputError, match=r"vocab.txt: .\[MASK\]. is not"):
    raw_text.RawText(filler)


def test_no_more_fillings_than_tokens():
  model, full = make("masked_lm", top_k=10**6).model, tokenizer()
  ids = [full.convert_tokens_to_ids(["[CLS]", "[MASK]", "[SEP]"])]
  outputs = model.from_ids(
    masked_lm_positions=tf.constant([[1]]),
    input_ids=tf.constant(ids),
    input_mask=tf.constant([[1, 1, 1]]),
    segment_ids=tf.constant([[0, 0, 0]]),
  )
  assert outputs["fillings"].shape == (1, 1, len(full.vocab))


def test_threads_that_are_started_cannot_change():
  tf.linalg.matmul([[1.0]], [[1.0]])
  models.use_threads(0)
  used = tf.config.threading.get_intra_op_parallelism_threads()
  if used:
    models.use_threads(used)
  with pytest.raises(errors.InputError, match=f"num_threads={used + 3}"):
    models.use_threads(used + 3)
