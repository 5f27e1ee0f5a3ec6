"""Model Garden checkpoints both ways, against the installed package."""

import numpy as np
import pytest
import tensorflow as tf

import layers
import modeling
import stored_weights
import tiny_model
from checkpoints import model_garden, weight_files
from common import errors
from transformers_goldens import check_equal

networks = pytest.importorskip("official.nlp.modeling.networks")
garden_models = pytest.importorskip("official.nlp.modeling.models")
garden_layers = pytest.importorskip("official.nlp.modeling.layers")

CONFIG = tiny_model.tiny(hidden_size=8, num_attention_heads=2)
RNG = np.random.RandomState(0)
IDS = RNG.randint(0, 30, [3, 7]).astype(np.int32)
MASK = (np.arange(7) < [[7], [5], [2]]).astype(np.int32)
TYPES = RNG.randint(0, 2, [3, 7]).astype(np.int32)
POSITIONS = np.array([[1, 3], [0, 2], [1, 1]], np.int32)


def garden_encoder(kind=networks.BertEncoder):
  encoder = kind(
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
    return {layers.variable_name(v): v.numpy() for v in self.variables}

  def __call__(self):
    output = self.bert(IDS, MASK, TYPES)
    return dict(
      sequence_output=output.sequence_output,
      pooled_output=output.pooled_output,
      mlm_logits=self.masked_lm(output.sequence_output, POSITIONS),
      next_sentence=self.next_sentence(output.pooled_output),
    )


def check_same(ours, theirs, keys):
  for key in keys:
    np.testing.assert_allclose(ours[key], theirs[key], rtol=0, atol=1e-5)


@pytest.mark.parametrize("root", ["encoder", "model"])
@pytest.mark.parametrize("kind", [networks.BertEncoder, networks.BertEncoderV2])
def test_an_encoder_is_read(tmp_path, kind, root):
  theirs = garden_encoder(kind)
  randomize(theirs)
  path = tf.train.Checkpoint(**{root: theirs}).save(f"{tmp_path}/ckpt")
  reader = weight_files.open_reader(path)
  assert reader.file_format == "Model Garden" and reader.num_heads == 2
  bert = modeling.BertModel(CONFIG)
  report = weight_files.load(bert.variables, reader)
  assert len(report.loaded) == len(theirs.variables)
  assert not report.unused
  output = bert(IDS, MASK, TYPES)._asdict()
  keys = ("sequence_output", "pooled_output")
  check_same(output, theirs(garden_inputs()), keys)


@pytest.mark.parametrize("with_model", [False, True])
def test_a_pretrainer_with_its_optimizer_is_read(tmp_path, with_model):
  theirs = garden_pretrainer()
  randomize(theirs)
  optimizer = tf.keras.optimizers.Adam()
  optimizer.build(theirs.trainable_variables)
  items = dict(theirs.checkpoint_items, optimizer=optimizer)
  if with_model:
    items["model"] = theirs
  path = tf.train.Checkpoint(**items).save(f"{tmp_path}/ckpt")
  ours, reader = Pretrainer(CONFIG), weight_files.open_reader(str(tmp_path))
  assert reader.path == path
  report = weight_files.load(
    ours.variables, reader, allowed_missing=["^cls/seq_relationship/"]
  )
  assert "pooler's kernel is that of the next-sent" in " ".join(reader.notes)
  inputs = garden_inputs(masked_lm_positions=POSITIONS)
  keys = ["sequence_output", "mlm_logits"]
  if with_model:
    # Their last layer of the next-sentence head hangs from the model only.
    keys.append("next_sentence")
    assert not report.missing
  check_same(ours(), theirs(inputs), keys)


@pytest.mark.parametrize("kind", [networks.BertEncoder, networks.BertEncoderV2])
def test_an_encoder_is_written(tmp_path, kind):
  bert = modeling.BertModel(CONFIG)
  weights = {layers.variable_name(v): v.numpy() for v in bert.variables}
  prefix = write_garden(tmp_path, weights)
  theirs = garden_encoder(kind)
  for root in ("encoder", "model"):
    randomize(theirs)
    status = tf.train.Checkpoint(**{root: theirs}).read(prefix)
    status.assert_existing_objects_matched()
    keys = ("sequence_output", "pooled_output")
    output = bert(IDS, MASK, TYPES)._asdict()
    check_same(output, theirs(garden_inputs()), keys)


def test_a_pretrainer_is_written(tmp_path):
  ours = Pretrainer(CONFIG)
  prefix = write_garden(tmp_path, ours.weights())
  theirs = garden_pretrainer()
  keys = ["sequence_output", "pooled_output", "mlm_logits", "next_sentence"]
  inputs = garden_inputs(masked_lm_positions=POSITIONS)
  status = tf.train.Checkpoint(model=theirs).read(prefix)
  status.assert_existing_objects_matched()
  check_same(ours(), theirs(inputs), keys)
  randomize(theirs)
  status = tf.train.Checkpoint(**theirs.checkpoint_items).read(prefix)
  status.assert_existing_objects_matched()
  check_same(ours(), theirs(inputs), keys[:3])
  # And back: bit for bit.
  check_equal(stored_weights.read(prefix), ours.weights())


def test_other_object_based_checkpoints_are_refused(tmp_path):
  other = tf.Module()
  other.kernel = tf.Variable([1.0])
  path = tf.train.Checkpoint(model=other).save(f"{tmp_path}/ckpt")
  with pytest.raises(errors.InputError, match="object-based.*not of a Model"):
    weight_files.open_reader(path)


@pytest.mark.parametrize(
  "kind, reason",
  [
    (networks.AlbertEncoder, "not of a Model Garden BERT"),
    (networks.BertEncoderV2, "its embeddings are narrower than its layers"),
  ],
)
def test_other_encoders_are_refused(tmp_path, kind, reason):
  encoder = kind(
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
