"""A BiLSTM on top of an encoder: what the heads read, and how it is trained."""

import json

import numpy as np
import pytest
import tensorflow as tf

import modeling
import named_weights
import script_runner
import stored_weights
import tiny_model
from checkpoints import converter
from common import errors
from serving import text_models
from squad import model as squad_model
from tiny_model import unequal_batch
from variants import recurrence, registry


def config_of(variant="bert", **changes):
  values = {**tiny_model.TINY, "variant": variant, "bilstm_on_top": True}
  return modeling.BertConfig.from_dict({**values, **changes})


def weights_of(encoder):
  return [
    encoder.weights_below("bilstm/")[name]
    for name in ("kernel", "recurrent_kernel", "bias")
  ]


@pytest.mark.parametrize(
  "variant, last", [("bert", [0, 0, 0]), ("left_to_right", [7, 6, 2])]
)
@pytest.mark.parametrize("options", [{}, {"skip_padding": True}])
def test_heads_read_its_states(variant, last, options):
  batch, config = unequal_batch(), config_of(variant)
  encoder = registry.make_encoder(config, seed=4, **options)
  plain = registry.make_encoder(config_of(variant, bilstm_on_top=False), seed=4)
  below = plain.encode(unequal_batch()).sequence_output
  states = recurrence.bilstm(below, [8, 7, 3], *weights_of(encoder)).numpy()
  found = encoder.encode(batch)
  is_token = batch["input_mask"].numpy() > 0
  tiny_model.assert_close(
    found.sequence_output.numpy()[is_token], states[is_token]
  )
  pooled = plain.pool(states[range(3), last])
  tiny_model.assert_close(found.pooled_output, pooled)
  # Only some positions are read, and all others take part in them.
  positions = np.array([last, [2, 1, 0]], np.int32).T
  some = encoder.encode(batch, positions=positions)
  tiny_model.assert_close(some.pooled_output, pooled)
  tiny_model.assert_close(
    some.sequence_output, np.take_along_axis(states, positions[..., None], 1)
  )


def test_without_a_mask_every_token_counts():
  encoder = registry.make_encoder(config_of(), seed=4)
  ids = unequal_batch()["input_ids"]
  found, expected = encoder(ids), encoder(ids, tf.ones_like(ids))
  tiny_model.assert_close(found.sequence_output, expected.sequence_output)
  tiny_model.assert_close(found.pooled_output, expected.pooled_output)


def test_initial_weights_are_those_of_an_lstm():
  kernel, recurrent, bias = weights_of(
    registry.make_encoder(config_of(), seed=4)
  )
  assert not bias.numpy().any()
  limit = 1 / np.sqrt(8)
  for weight in (kernel.numpy(), recurrent.numpy()):
    assert 0.9 * limit < np.abs(weight).max() <= limit


def test_it_is_trained_with_the_task():
  model = squad_model.SpanModel(config_of(), seed=1)
  zeros = tf.zeros([3], tf.int32)
  batch = unequal_batch(start_positions=zeros, end_positions=zeros)
  with tf.GradientTape() as tape:
    sums, _ = squad_model.objective(model).sums(batch, None)
  trained = model.trained_variables()
  names = [named_weights.variable_name(v) for v in trained]
  of_bilstm = {n for n in names if n.startswith("bilstm/")}
  assert len(of_bilstm) == 3
  for name, gradient in zip(names, tape.gradient(sums["span"], trained)):
    assert abs(tf.convert_to_tensor(gradient).numpy()).max() > 0, name


def test_an_odd_width_is_refused():
  config = config_of(hidden_size=15, num_attention_heads=3)
  with pytest.raises(errors.InputError, match="hidden_size is 15"):
    registry.shapes(config)


def test_a_classifier_with_a_bilstm_is_trained_and_used(tmp_path):
  """The flag is needed only for training, and old weights may lack it."""
  words = ["good", "bad", "film", "day"]
  shape = tiny_model.write_shape(tmp_path, words)
  rows = [f"{word} film,{word}" for word in ("good", "bad")] * 8
  (tmp_path / "train.csv").write_text("\n".join(["text,label", *rows]) + "\n")
  flags = {
    "text_column": "text",
    "label_column": "label",
    "max_seq_length": 8,
    "eval_file": tmp_path / "train.csv",
    "do_eval": True,
  }
  train = {
    "do_train": True,
    "train_file": tmp_path / "train.csv",
    "num_train_epochs": 15,
    "train_batch_size": 8,
    "learning_rate": 0.02,
    **shape,
  }
  script_runner.succeed(
    "run_classifier.py",
    on_top="bilstm",
    output_dir=tmp_path / "out",
    **train,
    **flags,
  )
  assert script_runner.results_in(tmp_path / "out")["eval_accuracy"] == 1.0
  folder = tmp_path / "out" / "final_model"
  assert json.loads((folder / "bert_config.json").read_text())["bilstm_on_top"]
  assert stored_weights.read(str(folder))["bilstm/kernel"].any()
  answers = text_models.load(folder).classify(["good film", "bad film"])
  assert [answer["label"] for answer in answers] == ["good", "bad"]
  source = converter.open_source(str(folder))
  with pytest.raises(errors.InputError, match="bilstm on top"):
    converter.convert(source, f"{tmp_path}/hf", "huggingface")
  script_runner.refuse(
    "run_classifier.py",
    "--on_top",
    on_top="bilstm",
    freeze_encoder=True,
    output_dir=tmp_path / "other",
    **train,
    **flags,
  )
