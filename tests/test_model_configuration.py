"""Tests BertConfig: the original's JSON, and the errors for wrong files."""

import json
import pathlib
import re

import pytest

import configuration
import modeling
from common import errors, memory, model_formats
from message_facts import says
from tiny_model import tiny
from variants import registry

GOLDEN = pathlib.Path("tests/golden")


def test_configuration_json_equals_the_original():
  golden = json.loads((GOLDEN / "api" / "api.json").read_text())
  config = modeling.BertConfig(30522)
  assert config.to_json_string() == golden["config_default_json"]
  config = modeling.BertConfig.from_dict(
    {"vocab_size": 5, "directionality": "bidi", "pooler_fc_size": 768}
  )
  assert config.to_json_string() == golden["config_from_dict_extra_keys_json"]
  assert config.directionality == "bidi"


def test_a_configuration_is_checked_when_a_model_is_made():
  wrong = modeling.BertConfig(vocab_size=99, hidden_size=37)
  assert json.loads(wrong.to_json_string())["hidden_size"] == 37
  with pytest.raises(errors.InputError, match="37 is not a multiple"):
    modeling.BertModel(wrong)
  assert hash(modeling.BertConfig(None)) == hash(modeling.BertConfig(None))
  with pytest.raises(errors.InputError, match="vocab_size is None"):
    modeling.BertModel(modeling.BertConfig(None))


@pytest.mark.parametrize(
  "text, message",
  [
    ("{", "not JSON"),
    ("[1]", r"expected an object in JSON, got \[1\]"),
    ("{}", "vocab_size is None in the model configuration; expected an int"),
    ('{"vocab_size": "9"}', "vocab_size is '9' .* integer"),
    ('{"vocab_size": true}', "vocab_size is True"),
    ('{"vocab_size": 0}', "at least 1"),
    ('{"vocab_size": 9, "hidden_size": 10}', "10 is not a multiple .* 12"),
    ('{"vocab_size": 9, "hidden_dropout_prob": 1.0}', "less than 1"),
    ('{"vocab_size": 9, "initializer_range": -1}', "at least 0"),
    ('{"vocab_size": 9, "hidden_act": "mish"}', "unknown activation 'mish'"),
    ('{"vocab_size": 9, "id2label": ["a"]}', "id2label is .'a'.* an object"),
    ('{"model_type": {}}', "model_type is {}; expected a string"),
    ('{"model_type": "gpt2"}', "is 'gpt2'; only the types 'albert', 'bert', "),
    ('{"model_type": "albert", "inner_group_num": 2}', "group_num is 2, which"),
  ],
)
def test_bad_configuration_files(tmp_path, text, message):
  path = tmp_path / "bert_config.json"
  path.write_text(text)
  with pytest.raises(errors.InputError, match=f"bert_config.json: .*{message}"):
    modeling.BertConfig.from_json_file(str(path))


def test_label_names():
  assert not tiny().label_names()
  values = {**tiny().to_dict(), "id2label": {"1": "b", "0": "a"}}
  assert modeling.BertConfig.from_dict(values).label_names() == ["a", "b"]
  del values["id2label"]["0"]
  with pytest.raises(errors.InputError, match=says("'0'", "no", "labels")):
    modeling.BertConfig.from_dict(values).label_names()


def huggingface(**changes):
  values = {**tiny().to_dict(), "model_type": "bert", "hidden_act": "gelu"}
  return {**values, **changes}


@pytest.mark.parametrize(
  "name, name_here",
  [("gelu", "gelu_erf"), ("gelu_new", "gelu"), ("relu", "relu")],
)
def test_an_activation_is_renamed_but_stays_the_same(name, name_here, tmp_path):
  path = tmp_path / "config.json"
  path.write_text(json.dumps(huggingface(hidden_act=name)))
  config = modeling.BertConfig.from_json_file(path)
  assert config == tiny(hidden_act=name_here)
  # Both formats keep the activation.
  assert modeling.BertConfig.from_dict(config.to_dict()) == config
  exported = configuration.to_huggingface(config.to_dict(), "BertModel")
  assert exported["hidden_act"] == name
  assert modeling.BertConfig.from_dict(exported) == config


DEFAULTS = json.loads((GOLDEN / "huggingface" / "defaults.json").read_text())


def test_the_defaults_of_every_format_are_known():
  assert DEFAULTS.keys() == model_formats.FORMATS.keys()


@pytest.mark.parametrize("model_type", DEFAULTS)
def test_keys_that_a_file_omits_have_transformers_defaults(model_type):
  """transformers does not write a value that is its default."""
  defaults = DEFAULTS[model_type]
  omitted = configuration.from_huggingface({"model_type": model_type})
  written = configuration.from_huggingface(defaults)
  assert written.items() >= omitted.items()
  first, second = (
    modeling.BertConfig.from_dict(values) for values in (omitted, written)
  )
  assert first == second
  assert registry.shapes(first) == registry.shapes(second)
  # What is read is written under the same names.
  exported = configuration.to_huggingface(written, "AnyModel")
  assert exported.pop("architectures") == ["AnyModel"]
  assert exported == {name: defaults[name] for name in exported}
  assert len(exported) >= 10


# {key: (BERT's value, another)}
OTHER_NETWORKS = {
  "ln_type": ("postln", "preln"),
  "use_bottleneck": (False, True),
  "trigram_input": (False, True),
  "intra_bottleneck_size": (None, 128),
  "normalization_type": ("layer_norm", "no_norm"),
  "inner_group_num": (1, 2),
  "net_structure_type": (0, 1),
  "position_embedding_type": ("absolute", "relative_key"),
  "is_decoder": (False, True),
  "add_cross_attention": (False, True),
}
OTHER_MODERNBERTS = {
  "decoder_bias": (True, False),
  "rope_scaling": (None, {"factor": 2.0}),
  "head_dim": (None, 64),
  "is_decoder": (False, True),
  "add_cross_attention": (False, True),
}


@pytest.mark.parametrize(
  "model_type, key, known, other",
  [
    (model_type, key, *values)
    for model_type, table in (
      ("bert", OTHER_NETWORKS),
      ("roberta", OTHER_NETWORKS),
      ("modernbert", OTHER_MODERNBERTS),
    )
    for key, values in table.items()
  ],
)
def test_a_network_that_is_not_implemented_is_refused(
  model_type, key, known, other
):
  values = {"model_type": model_type}
  configuration.from_huggingface({**values, key: known})
  message = re.escape(f"{key} is {other!r}, which is not supported")
  with pytest.raises(errors.InputError, match=f"^{message}"):
    configuration.from_huggingface({**values, key: other})


def test_pad_token_id_does_not_change_the_positions_of_a_bert():
  config = tiny(max_position_embeddings=512)
  config.pad_token_id = 0
  exported = configuration.to_huggingface(config.to_dict(), "BertModel")
  assert exported["max_position_embeddings"] == 512


def test_what_a_model_was_trained_for_is_kept():
  source = huggingface(
    problem_type="multi_label_classification",
    id2label={"0": "no", "1": "yes"},
    classifier_input={"max_seq_length": 256},
  )
  config = modeling.BertConfig.from_dict(source).to_dict()
  exported = configuration.to_huggingface(config, "BertModel")
  for name in ("problem_type", "id2label", "classifier_input"):
    assert exported[name] == config[name] == source[name]
  assert exported["label2id"] == {"no": 0, "yes": 1}
  # transformers refuses a problem_type that it does not know.
  config["problem_type"] = "multiple_choice"
  exported = configuration.to_huggingface(config, "BertModel")
  assert "problem_type" not in exported
  source = huggingface(architectures=["BertForMultipleChoice"])
  config = modeling.BertConfig.from_dict(source).to_dict()
  assert config["problem_type"] == "multiple_choice"


@pytest.mark.parametrize(
  "name, value",
  [
    ("hidden_size", 10**23 // 4 * 4),
    ("vocab_size", 10**12),
    ("num_hidden_layers", 10**9),
    ("intermediate_size", 10**4000),
  ],
)
def test_a_model_that_no_machine_can_hold_is_refused(name, value):
  config = tiny(**{name: value})
  message = f" needs .*B of memory .* has .*B; .* such as {name} {value}"
  with pytest.raises(errors.InputError, match=message):
    modeling.BertModel(config)
  with pytest.raises(errors.InputError, match=message):
    config.check_memory()


def test_a_model_is_compared_with_the_memory(monkeypatch):
  assert memory.total_bytes() > 10**8
  needed = 4 * tiny().num_parameters()
  for total in (needed, None):  # None: unknown, so nothing is refused.
    monkeypatch.setattr(memory, "total_bytes", lambda p=total: p)
    tiny().check_memory()
  monkeypatch.setattr(memory, "total_bytes", lambda: needed - 1)
  with pytest.raises(errors.InputError, match="such as vocab_size 30$"):
    tiny().check_memory()
  # A limit on the address space counts as the memory.
  monkeypatch.undo()
  monkeypatch.setattr("resource.getrlimit", lambda which: (10**6, -1))
  assert memory.total_bytes() == 10**6


@pytest.mark.parametrize("value", [-1, "small", None])
def test_an_epsilon_that_no_layer_norm_can_have_is_refused(value):
  for values in (tiny().to_dict(), huggingface()):
    with pytest.raises(errors.InputError, match=f"layer_norm_eps is {value!r}"):
      modeling.BertConfig.from_dict({**values, "layer_norm_eps": value})


@pytest.mark.parametrize("key", ["to_dict", "from_dict", "__class__"])
def test_a_key_that_hides_a_method_is_refused(key):
  with pytest.raises(
    errors.InputError, match=f"a key '{key}'.*; remove the key"
  ):
    modeling.BertConfig.from_dict({"vocab_size": 5, key: 1})


def test_a_regression_has_one_label_for_transformers():
  # Without label names, transformers assumes two and refuses the weights.
  config = {**tiny().to_dict(), "problem_type": "regression"}
  named = configuration.to_huggingface(config, "BertForSequenceClassification")
  assert named["id2label"] == {"0": "LABEL_0"}
  assert named["label2id"] == {"LABEL_0": 0}


def test_text_pairs_need_two_segment_embeddings():
  config = modeling.BertConfig(9, type_vocab_size=1)
  config.check_pairs(0)
  with pytest.raises(errors.InputError, match="two texts need 2 segments, but"):
    config.check_pairs(1)
  modeling.BertConfig(9, type_vocab_size=2).check_pairs(1)


@pytest.mark.parametrize("count, level", [(29, "WARNING"), (30, None)])
def test_a_vocabulary_smaller_than_the_table_is_named(count, level, caplog):
  tiny().check_vocabulary(count, "words.txt")
  assert [each.levelname for each in caplog.records] == [level] * bool(level)
  if level:
    assert re.search(says("words.txt", "29", "30"), caplog.text)


def test_the_largest_vocabulary_and_the_longest_sequence():
  tiny().check_sequence_length(12)
  with pytest.raises(errors.InputError, match=says("words.txt", "31", "30")):
    tiny().check_vocabulary(31, "words.txt")
  with pytest.raises(errors.InputError, match=says("13", "12")):
    tiny().check_sequence_length(13)


@pytest.mark.parametrize(
  "name, name_here",
  [
    ("gelu_python", "gelu_erf"),
    ("gelu_fast", "gelu"),
    ("gelu_pytorch_tanh", "gelu"),
  ],
)
def test_other_names_of_an_activation_are_read(name, name_here):
  config = modeling.BertConfig.from_dict(huggingface(hidden_act=name))
  assert config.hidden_act == name_here


@pytest.mark.parametrize(
  "values, name, weights, expected",
  [
    *(
      ({key: "x"}, "bert_config.json", "", True)
      for key in ("model_type", "architectures", "transformers_version")
    ),
    # In files from 2019, no key shows the format.
    *(
      ({"vocab_size": 9}, "config.json", weights, True)
      for weights in ("model.safetensors", "pytorch_model.bin", "tf_model.h5")
    ),
    ({}, "config.json", "bert_model.ckpt.index", False),
    ({}, "bert_config.json", "pytorch_model.bin", False),
  ],
)
def test_keys_or_weights_show_the_format(
  values, name, weights, expected, tmp_path
):
  if weights:
    (tmp_path / weights).touch()
  path = str(tmp_path / name)
  assert configuration.is_huggingface(values, path) == expected
  known = expected and not weights
  assert configuration.is_huggingface(values) == known


def test_a_missing_file_is_named(tmp_path):
  path = tmp_path / "bert_config.json"
  with pytest.raises(errors.InputError, match=f"no such file: {path}"):
    configuration.read(str(path))
