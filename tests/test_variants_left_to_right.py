"""Tests the left-to-right model: which tokens each state depends on."""

import numpy as np
import pytest
import tensorflow as tf

import modeling
import named_weights
import tiny_model
from checkpoints import converter, model_writer
from classification import model as classification_model
from common import errors
from exports import export_folder, onnx_graph
from message_facts import says
from pretraining.networks import next_word
from variants import registry

CONFIG = modeling.BertConfig.from_dict(
  {**tiny_model.TINY, "variant": "left_to_right"}
)
LENGTHS = tiny_model.LENGTHS
data = tiny_model.unequal_batch
LEADING_PADDING = tf.constant([[0, 0] + [1] * 8] * 3)
WAYS = {
  "padded": {},
  "unpadded": {"skip_padding": True},
  "recomputed": {"recompute_activations": True},
}


def make_encoder(**options):
  return registry.make_encoder(CONFIG, seed=4, **options)


class BertWithTriangle(modeling.BertModel):
  def _attention_bias(self, input_ids, input_mask):
    mask = input_mask.numpy()[:, None] * np.tri(10)  # [B, T, T]
    return tf.constant((1 - mask[:, None]) * -10000, tf.float32)


@pytest.mark.parametrize(
  "way, mask",
  [*((way, {}) for way in WAYS), ("padded", {"input_mask": LEADING_PADDING})],
)
def test_states_equal_berts_with_a_triangular_mask(way, mask):
  batch, encoder = data(**mask), make_encoder(**WAYS[way])
  bert = BertWithTriangle(tiny_model.tiny(), seed=4)
  expected = bert.encode(batch)
  states = expected.sequence_output.numpy()
  is_token = batch["input_mask"].numpy() > 0
  whole = encoder.encode(batch)
  tiny_model.assert_close(
    whole.sequence_output.numpy()[is_token], states[is_token]
  )
  # The last token is pooled, even if only its state is computed.
  last = encoder.pooled_positions(batch["input_mask"])
  assert last.numpy()[:, 0].tolist() == ([9] * 3 if mask else [7, 6, 2])
  pooled = bert.pool(states[range(3), last.numpy()[:, 0]])
  tiny_model.assert_close(whole.pooled_output, pooled)
  alone = encoder.encode(batch, positions=last)
  tiny_model.assert_close(alone.pooled_output, pooled)


@pytest.mark.parametrize("way", WAYS)
def test_selected_positions_have_the_same_states(way):
  batch, encoder = data(), make_encoder(**WAYS[way])
  positions = np.array([[6, 0, 3], [2, 5, 5], [1, 2, 0]], np.int32)
  inputs = batch["input_ids"], batch["input_mask"], batch["segment_ids"]
  full = encoder(*inputs, return_attention=True)
  some = encoder(*inputs, positions=positions, return_attention=True)
  tiny_model.assert_close(
    some.sequence_output,
    np.take_along_axis(
      full.sequence_output.numpy(), positions[..., None], axis=1
    ),
  )
  tiny_model.assert_close(
    some.attention_probs[-1],
    np.take_along_axis(
      full.attention_probs[-1].numpy(), positions[:, None, :, None], axis=2
    ),
  )


def test_states_of_leading_padding_ignore_later_tokens():
  batch = data(input_mask=LEADING_PADDING)
  ids, encoder = batch["input_ids"], make_encoder()
  first, second = (
    encoder.encode({**batch, "input_ids": input_ids}).sequence_output.numpy()
    for input_ids in (ids, (ids + ([0] * 9 + [1])) % 30)
  )
  np.testing.assert_array_equal(first[:, :9], second[:, :9])
  assert (first[:, 9] != second[:, 9]).any(axis=-1).all()


def test_without_a_mask_and_without_a_token():
  encoder, batch = make_encoder(), data()
  ids = batch["input_ids"]
  no_mask, ones = encoder(ids), encoder(ids, tf.ones_like(ids))
  tiny_model.assert_close(no_mask.pooled_output, ones.pooled_output, 0)
  tiny_model.assert_close(no_mask.sequence_output, ones.sequence_output, 0)
  assert encoder.pooled_positions(tf.zeros([1, 4], tf.int32)).numpy() == [[0]]


def test_a_classifier_reads_the_last_token():
  batch = {name: value[:, None] for name, value in data().items()}
  network = classification_model.ClassifierModel(CONFIG, "single", 3, seed=4)
  logits = network(batch)
  states = network.bert.encode(data()).sequence_output.numpy()
  last = states[range(3), LENGTHS - 1]
  expected = network.head(network.bert.pool(last))
  tiny_model.assert_close(logits, expected)


# Pre-training


def records():
  """Returns a batch of three rows with two, one and two masked words."""
  batch = tiny_model.pretraining_batch(
    [[1, 4], [3, 0], [2, 1]], [[1, 1], [1, 0], [1, 1]], 3, 8
  )
  del batch["next_sentence_labels"]
  # Parsed records have 32-bit integers.
  return {
    name: value if value.dtype == tf.float32 else tf.cast(value, tf.int32)
    for name, value in batch.items()
  }


def text_of(batch):
  """Returns the ids before masking."""
  ids = batch["input_ids"].numpy().copy()
  for row in range(3):
    for position, token_id, weight in zip(
      *(
        batch[f"masked_lm_{name}"].numpy()[row]
        for name in ("positions", "ids", "weights")
      )
    ):
      if weight:
        ids[row, position] = token_id
  return ids


def test_masked_words_are_restored():
  batch = records()
  text = text_of(batch)
  assert (text != batch["input_ids"].numpy()).sum() >= 4
  np.testing.assert_array_equal(next_word.unmasked(batch), text)
  # Records that are masked while they are read have no masks to restore.
  plain = {k: v for k, v in batch.items() if not k.startswith("masked_lm_")}
  assert next_word.unmasked(plain) is plain["input_ids"]


@pytest.mark.parametrize("skip_padding", [False, True])
def test_the_loss_covers_every_next_word(skip_padding):
  batch = records()
  model = next_word.NextWordModel(CONFIG, seed=1, skip_padding=skip_padding)
  ids, mask = text_of(batch), batch["input_mask"].numpy()
  output = model.bert(ids, mask, batch["segment_ids"])
  log_probs = tf.nn.log_softmax(model.next_word(output.sequence_output)).numpy()
  losses = [
    -log_probs[row, position, ids[row, position + 1]]
    for row in range(3)
    for position in range(mask[row].sum() - 1)
  ]
  goal = model.objective()
  sums, metrics = goal.sums(batch, None)
  assert len(losses) == 7 + 6 + 5
  assert goal.denominators(batch)["next_word"].numpy() == pytest.approx(
    18, 1e-5
  )
  assert sums["next_word"].numpy() == pytest.approx(sum(losses), rel=1e-5)
  assert {"loss", *metrics} == set(model.result_names())
  best = log_probs.argmax(-1)[:, :-1] == ids[:, 1:]
  right, count = metrics["next_word_accuracy"]
  assert right.numpy() == (best * mask[:, 1:]).sum() and count.numpy() == 18


# Formats that cannot hold this model


def test_programs_without_such_a_network_are_refused(tmp_path):
  encoder = make_encoder()
  folder = str(tmp_path / "model")
  model_writer.write(folder, encoder.variables, CONFIG, None, None)
  source = converter.open_source(folder)
  with pytest.raises(errors.InputError, match=says("left_to_right", "no")):
    converter.convert(source, f"{tmp_path}/hf", "huggingface")
  converter.convert(source, f"{tmp_path}/tf1", "tf1")
  again = converter.open_source(f"{tmp_path}/tf1")
  assert registry.name_of(again.config) == "left_to_right"
  assert set(again.reader.shapes) >= set(registry.shapes(CONFIG))
  with pytest.raises(errors.InputError, match=says("left_to_right", "no")):
    export_folder.write(None, CONFIG, None)
  weights = {
    named_weights.variable_name(v): v.numpy() for v in encoder.variables
  }
  with pytest.raises(
    errors.InputError, match=says("left_to_right", "ONNX", "cannot")
  ):
    onnx_graph.make("embedding", weights, CONFIG)
