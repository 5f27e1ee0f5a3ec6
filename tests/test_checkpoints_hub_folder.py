"""SavedModel folders of TF Hub and Kaggle, as models and as inputs."""

import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

import heads
import script_runner
import stored_weights
import tiny_model
from checkpoints import converter, hub_folder, model_garden, weight_files
from common import errors
from serving import text_models
from variants import registry

CONFIG = tiny_model.tiny(
  vocab_size=25, hidden_size=8, num_attention_heads=2, num_hidden_layers=2
)
# The operation Erf or Erfc shows that a graph has the exact GELU.
ACTIVATIONS = {
  "gelu": lambda x: tf.nn.gelu(x, approximate=True),
  "gelu_erf": lambda x: x * tf.math.erfc(-x / np.sqrt(2)) / 2,
  "gelu_erf of Erf": lambda x: x * (1 + tf.math.erf(x / np.sqrt(2))) / 2,
  "relu": tf.nn.relu,
  "silu": tf.nn.silu,
}


def weights_of(config=CONFIG):
  shapes = {**registry.shapes(config), **heads.masked_lm_shapes(config)}
  rng = np.random.RandomState(0)
  return {
    name: rng.randn(*shape).astype(np.float32) / 2
    for name, shape in shapes.items()
  }


def write_hub(folder, act="gelu", lowers=True, **more):
  """Writes a SavedModel like that of Model Garden's exporter."""
  items, _ = model_garden.objects(weights_of(), CONFIG.num_attention_heads)
  root = tf.train.Checkpoint(**items, **more)
  root.do_lower_case = tf.Variable(lowers, trainable=False)
  vocab_file = tiny_model.write_vocabulary(folder.parent)
  root.vocab_file = tf.saved_model.Asset(vocab_file)
  root.compute = tf.function(
    lambda x: tf.tanh(ACTIVATIONS[act](x)),
    input_signature=[tf.TensorSpec([None], tf.float32)],
    autograph=False,
  )
  tf.saved_model.save(root, str(folder))
  return folder


@pytest.mark.parametrize("act", ACTIVATIONS)
@pytest.mark.parametrize("to", ["tf1", "huggingface"])
def test_the_folder_gives_all_that_a_model_needs(tmp_path, act, to):
  lowers = act == "relu"
  folder = write_hub(tmp_path / "hub", act, lowers=lowers)
  source = converter.open_source(str(folder))
  conversion = converter.convert(source, f"{tmp_path}/out", to)
  assert not conversion.left_out
  again = converter.open_source(f"{tmp_path}/out")
  name = act.partition(" ")[0]
  expected = {**CONFIG.to_dict(), "hidden_act": name, "initializer_range": 0.02}
  assert again.config.to_dict().items() >= expected.items()
  written = stored_weights.read(f"{tmp_path}/out")
  for name, value in weights_of().items():
    np.testing.assert_array_equal(written[name], value)
  out = tmp_path / "out"
  vocabulary = (tmp_path / "vocab.txt").read_bytes()
  assert (out / "vocab.txt").read_bytes() == vocabulary
  config = json.loads((out / "tokenizer_config.json").read_text())
  assert config["do_lower_case"] is lowers


# Every script with --model_dir answers or trains as from a converted folder.

RECORD = '{"words": ["w1", "w2"], "labels": ["O", "B-A"]}\n'
QUESTION = {
  "id": "q",
  "question": "w1",
  "answers": [{"text": "w3", "answer_start": 3}],
}
SQUAD = {"data": [{"paragraphs": [{"context": "w2 w3", "qas": [QUESTION]}]}]}
TEXTS = "w1 w2.\nw3 w4.\n\nw5 w6\nw7\n"
TRAINING = {
  "do_train": True,
  "train_batch_size": 1,
  "num_train_epochs": 1,
  "max_seq_length": 12,
}
# {script: (content of its file, its flag, other flags)}
SCRIPTS = {
  "create_pretraining_data.py": (TEXTS, "input_file", {"dupe_factor": 1}),
  "extract_features.py": (TEXTS, "input_file", {"layers": "-1,-2"}),
  "fill_mask.py": ("w1 [MASK]\n[MASK] w2 W3\n", "input_file", {}),
  "export_saved_model.py": (
    "",
    None,
    {"head": "embedding", "pooling": "cls", "format": "onnx"},
  ),
  "run_classifier.py": ("text,label\nw1,a\nw2 W3,b\n", "train_file", TRAINING),
  "run_ner.py": (RECORD, "train_file", TRAINING),
  "run_squad.py": (
    json.dumps(SQUAD),
    "train_file",
    {**TRAINING, "max_query_length": 3},
  ),
}
ENDINGS = {"run_classifier.py": "csv", "run_ner.py": "jsonl"}
FAST = ("create_pretraining_data.py", "extract_features.py", "fill_mask.py")


def outputs_of(script, folder, model_dir):
  """Runs a script; returns what it prints or writes, which is comparable."""
  content, flag, flags = SCRIPTS[script]
  folder.mkdir()
  file = folder / f"data.{ENDINGS.get(script, 'txt')}"
  file.write_text(content)
  out = folder / "out"
  kind = "output_dir" if script.startswith("run_") else "output_file"
  if script == "export_saved_model.py":
    kind = "export_dir"
  outputs = {} if script == "fill_mask.py" else {kind: out}
  if flag:
    outputs[flag] = file
  done = script_runner.succeed(script, model_dir=model_dir, **flags, **outputs)
  if script == "fill_mask.py":
    return done.out
  if script == "export_saved_model.py":
    return text_models.load(str(out)).embed(["w1 W2"]).tolist()
  if script.startswith("run_"):
    weights = stored_weights.read(str(out / "final_model"))
    return {name: value.tolist() for name, value in weights.items()}
  return out.read_bytes()


@pytest.mark.parametrize(
  "script",
  [
    pytest.param(name, marks=() if name in FAST else pytest.mark.slow)
    for name in SCRIPTS
  ],
)
def test_a_script_computes_the_same_from_a_converted_folder(tmp_path, script):
  hub = write_hub(tmp_path / "hub")
  converter.convert(
    converter.open_source(str(hub)), f"{tmp_path}/converted", "tf1"
  )
  if script == "export_saved_model.py":
    pytest.importorskip("onnxruntime")
  first, second = (
    outputs_of(script, tmp_path / f"of_{name}", tmp_path / name)
    for name in ("hub", "converted")
  )
  assert first and first == second


def test_python_and_the_server_load_the_folder(tmp_path):
  hub = write_hub(tmp_path / "hub")
  bert = text_models.load(str(hub))
  assert bert.embed("w1 W2", pooling="mean").shape == (CONFIG.hidden_size,)
  filled = bert.fill_mask("w1 [MASK]")
  (served,) = bert.servable("masked_lm").answerer()([("w1 [MASK]",)])
  assert served == filled
  with pytest.raises(errors.InputError, match="no head to classify|trained to"):
    bert.classify("w1")


def test_the_unpacked_folder_is_removed_at_the_end(tmp_path, monkeypatch):
  registered = []
  monkeypatch.setattr(
    hub_folder.atexit,
    "register",
    lambda *function, **options: registered.append((function, options)),
  )
  folder = write_hub(tmp_path / "hub")
  (folder / "assets" / "spiece.model").write_bytes(b"pieces")
  unpacked = pathlib.Path(weight_files.open_reader(str(folder)).folder)
  assert {path.name for path in unpacked.iterdir()} == {
    "bert_config.json",
    "vocab.txt",
    "spiece.model",
    "tokenizer_config.json",
  }
  assert (unpacked / "spiece.model").read_bytes() == b"pieces"
  (((function, *arguments), options),) = [
    each for each in registered if str(unpacked) in each[0]
  ]
  function(*arguments, **options)
  assert not unpacked.exists() and folder.exists()


def refuse(folder, *facts):
  with pytest.raises(errors.InputError) as refused:
    weight_files.open_reader(str(folder))
  for fact in facts:
    assert fact in str(refused.value)


def test_other_saved_models_are_refused_by_name(tmp_path):
  folder = write_hub(tmp_path / "hub")
  (folder / "keras_metadata.pb").write_text('{"norm_first": true}')
  refuse(folder, "norm_first is true")
  (folder / "keras_metadata.pb").write_text('{"norm_epsilon": 1e-05, "a": 1}')
  refuse(folder, "norm_epsilon is 1e-05")
  (folder / "keras_metadata.pb").write_text('{"norm_epsilon": 1e-12}')
  weight_files.open_reader(str(folder))
  graph = (folder / "saved_model.pb").read_bytes()
  (folder / "saved_model.pb").write_bytes(b"")
  refuse(folder, "which show the activation")
  (folder / "saved_model.pb").write_bytes(graph[:-5])
  refuse(folder, "saved_model.pb is damaged")
  # A module of TensorFlow 1 has this file.
  (folder / "tfhub_module.pb").write_bytes(b"")
  refuse(folder, "hub module of TensorFlow 1")
  more = write_hub(tmp_path / "more", gate=tf.Variable([1.0]))
  refuse(more, "weights that BERT lacks", "gate/")
  # The original exports SavedModels with the names of variables.
  prefix = tmp_path / "named" / "variables" / "variables"
  weight_files.write_tf1(str(prefix), weights_of())
  shutil.copy(more / "saved_model.pb", tmp_path / "named")
  refuse(tmp_path / "named", "SavedModel of TensorFlow 1")


@pytest.mark.slow
@pytest.mark.parametrize("with_mlm", [False, True])
def test_the_exporter_of_model_garden_gives_the_same_states(tmp_path, with_mlm):
  exporter = pytest.importorskip("official.nlp.tools.export_tfhub_lib")
  from official.legacy.bert import configs

  bert_config = configs.BertConfig(**CONFIG.to_dict())
  _, model = exporter._create_model(bert_config=bert_config, with_mlm=with_mlm)
  rng = np.random.RandomState(0)
  for variable in model.variables:
    variable.assign(rng.randn(*variable.shape) / 2)
  items = model.checkpoint_items if with_mlm else {"model": model}
  checkpoint = tf.train.Checkpoint(**items).save(f"{tmp_path}/model")
  folder = f"{tmp_path}/hub"
  exporter.export_model(
    folder,
    bert_config=bert_config,
    model_checkpoint_path=checkpoint,
    with_mlm=with_mlm,
    vocab_file=tiny_model.write_vocabulary(tmp_path),
    do_lower_case=True,
  )
  ids, mask, types = tiny_model.batch(3, 8)
  ids %= CONFIG.vocab_size
  positions = tf.constant([[0, 1], [3, 2], [1, 4]])
  inputs = {"input_word_ids": ids, "input_mask": mask, "input_type_ids": types}
  if with_mlm:
    inputs["masked_lm_positions"] = positions
  expected = model(inputs)
  reader = weight_files.open_reader(folder)
  config = type(CONFIG).from_dict(reader.config)
  bert = registry.make_encoder(config)
  weight_files.load(bert.variables, reader)
  output = bert(ids, mask, types)
  for name in ("sequence_output", "pooled_output"):
    np.testing.assert_allclose(
      getattr(output, name), expected[name], rtol=0, atol=1e-5
    )
  if with_mlm:
    head = heads.MaskedLMHead(config, bert.word_embeddings)
    weight_files.load(head.variables, reader)
    states = tf.gather(output.sequence_output, positions, batch_dims=1)
    np.testing.assert_allclose(
      head(states), expected["mlm_logits"], rtol=0, atol=1e-4
    )
