"""Model Garden checkpoints, compared with the models of tf-models-official."""

import numpy as np
import pytest
import tensorflow as tf

import modeling
import named_weights
import stored_weights
import tiny_model
from checkpoints import model_garden, weight_files
from common import errors
from message_facts import says
from transformers_goldens import check_equal

networks = pytest.importorskip("official.nlp.modeling.networks")
garden_models = pytest.importorskip("official.nlp.modeling.models")
garden_layers = pytest.importorskip("official.nlp.modeling.layers")

ENCODERS = [networks.BertEncoder, networks.BertEncoderV2]
CONFIG = tiny_model.tiny(hidden_size=8, num_attention_heads=2)
RNG = np.random.RandomState(0)
IDS = RNG.randint(0, 30, [3, 7]).astype(np.int32)
MASK = (np.arange(7) < [[7], [5], [2]]).astype(np.int32)
TYPES = RNG.randint(0, 2, [3, 7]).astype(np.int32)
POSITIONS = np.array([[1, 3], [0, 2], [1, 1]], np.int32)


def garden_encoder(encoder_class=networks.BertEncoder):
  encoder = encoder_class(
    vocab_size=CONFIG.vocab_size,
    hidden_size=CONFIG.hidden_size,
    num_layers=CONFIG.num_hidden_layers,
    num_attention_heads=CONFIG.num_attention_heads,
    intermediate_size=CONFIG.intermediate_size,
    max_sequence_length=CONFIG.max_position_embeddings,
    type_vocab_size=CONFIG.type_vocab_size,
    dict_outputs=True,
  )
  encoder(garden_inputs())
  return encoder


def garden_inputs(**more):
  return dict(input_word_ids=IDS, input_mask=MASK, input_type_ids=TYPES, **more)


def write_garden(folder, weights):
  """Writes weights in Model Garden's layout; returns the prefix."""
  prefix = f"{folder}/bert_model.ckpt"
  with weight_files.temporary_prefix(prefix) as temporary:
    paths = model_garden.write(temporary, weights, num_heads=2)
  assert paths.keys() == weights.keys()
  return prefix


def garden_pretrainer():
  head = garden_layers.ClassificationHead(
    CONFIG.hidden_size, 2, dropout_rate=0.0, name="next_sentence"
  )
  model = garden_models.BertPretrainerV2(
    garden_encoder(networks.BertEncoderV2),
    mlm_activation=lambda x: tf.nn.gelu(x, approximate=True),
    classification_heads=[head],
  )
  model(garden_inputs(masked_lm_positions=POSITIONS))
  return model


def randomize(model):
  rng = np.random.RandomState(1)
  for variable in model.variables:
    variable.assign(rng.randn(*variable.shape) * 0.5)


class Pretrainer(tiny_model.Pretraining):
  """This project's model with both pre-training heads."""

  def weights(self):
    return {named_weights.variable_name(v): v.numpy() for v in self.variables}

  def __call__(self):
    output = self.bert(IDS, MASK, TYPES)
    return dict(
      sequence_output=output.sequence_output,
      pooled_output=output.pooled_output,
      mlm_logits=self.masked_lm(output.sequence_output, POSITIONS),
      next_sentence=self.next_sentence(output.pooled_output),
    )


def check_same(outputs, expected, keys):
  for key in keys:
    np.testing.assert_allclose(outputs[key], expected[key], rtol=0, atol=1e-5)


@pytest.mark.parametrize("root", ["encoder", "model"])
@pytest.mark.parametrize("encoder_class", ENCODERS)
def test_an_encoder_is_read(tmp_path, encoder_class, root):
  garden = garden_encoder(encoder_class)
  randomize(garden)
  path = tf.train.Checkpoint(**{root: garden}).save(f"{tmp_path}/ckpt")
  reader = weight_files.open_reader(path)
  assert reader.file_format == "Model Garden" and reader.num_heads == 2
  bert = modeling.BertModel(CONFIG)
  report = weight_files.load(bert.variables, reader)
  assert len(report.loaded) == len(garden.variables)
  assert not report.unused
  output = bert(IDS, MASK, TYPES)._asdict()
  keys = ("sequence_output", "pooled_output")
  check_same(output, garden(garden_inputs()), keys)


@pytest.mark.parametrize("with_model", [False, True])
def test_a_pretrainer_with_its_optimizer_is_read(tmp_path, with_model):
  garden = garden_pretrainer()
  randomize(garden)
  optimizer = tf.keras.optimizers.Adam()
  optimizer.build(garden.trainable_variables)
  items = dict(garden.checkpoint_items, optimizer=optimizer)
  if with_model:
    items["model"] = garden
  path = tf.train.Checkpoint(**items).save(f"{tmp_path}/ckpt")
  bert, reader = Pretrainer(CONFIG), weight_files.open_reader(str(tmp_path))
  assert reader.path == path
  report = weight_files.load(
    bert.variables, reader, allowed_missing=["^cls/seq_relationship/"]
  )
  assert "pooler's kernel is from the next-sent" in " ".join(reader.notes)
  inputs = garden_inputs(masked_lm_positions=POSITIONS)
  keys = ["sequence_output", "mlm_logits"]
  if with_model:
    # Only `model` tracks the last layer of Model Garden's next-sentence head.
    keys.append("next_sentence")
    assert not report.missing
  check_same(bert(), garden(inputs), keys)


@pytest.mark.parametrize("encoder_class", ENCODERS)
def test_an_encoder_is_written(tmp_path, encoder_class):
  bert = modeling.BertModel(CONFIG)
  weights = {named_weights.variable_name(v): v.numpy() for v in bert.variables}
  prefix = write_garden(tmp_path, weights)
  garden = garden_encoder(encoder_class)
  for root in ("encoder", "model"):
    randomize(garden)
    status = tf.train.Checkpoint(**{root: garden}).read(prefix)
    status.assert_existing_objects_matched()
    keys = ("sequence_output", "pooled_output")
    output = bert(IDS, MASK, TYPES)._asdict()
    check_same(output, garden(garden_inputs()), keys)


def test_a_pretrainer_is_written(tmp_path):
  pretrainer = Pretrainer(CONFIG)
  prefix = write_garden(tmp_path, pretrainer.weights())
  garden = garden_pretrainer()
  keys = ["sequence_output", "pooled_output", "mlm_logits", "next_sentence"]
  inputs = garden_inputs(masked_lm_positions=POSITIONS)
  status = tf.train.Checkpoint(model=garden).read(prefix)
  status.assert_existing_objects_matched()
  check_same(pretrainer(), garden(inputs), keys)
  randomize(garden)
  status = tf.train.Checkpoint(**garden.checkpoint_items).read(prefix)
  status.assert_existing_objects_matched()
  check_same(pretrainer(), garden(inputs), keys[:3])
  # Reading the file gives the same bits.
  check_equal(stored_weights.read(prefix), pretrainer.weights())


def test_a_next_sentence_head_without_a_masked_lm_head_is_left_out(tmp_path):
  weights = Pretrainer(CONFIG).weights()
  head = {n: w for n, w in weights.items() if "cls/predictions" not in n}
  with weight_files.temporary_prefix(f"{tmp_path}/model.ckpt") as temporary:
    paths = model_garden.write(temporary, head, num_heads=2)
  assert paths.keys() == {n for n in head if not n.startswith("cls/")}
  assert len(paths) < len(head)


def test_other_object_based_checkpoints_are_refused(tmp_path):
  module = tf.Module()
  module.kernel = tf.Variable([1.0])
  path = tf.train.Checkpoint(model=module).save(f"{tmp_path}/ckpt")
  with pytest.raises(errors.InputError, match="object-based.*not of a Model"):
    weight_files.open_reader(path)


@pytest.mark.parametrize(
  "encoder_class, reason",
  [
    (networks.AlbertEncoder, says("BERT", "not")),
    (networks.BertEncoderV2, "its embeddings are narrower than its layers"),
  ],
)
def test_other_encoders_are_refused(tmp_path, encoder_class, reason):
  encoder = encoder_class(
    vocab_size=30,
    embedding_width=4,
    hidden_size=8,
    num_layers=1,
    num_attention_heads=2,
    intermediate_size=12,
  )
  encoder(garden_inputs())
  path = tf.train.Checkpoint(model=encoder).save(f"{tmp_path}/ckpt")
  with pytest.raises(errors.InputError, match=reason):
    weight_files.open_reader(path)
