"""Tests training/run_setup.py: strategies, options, run folders from flags."""

import json
import logging

import pytest
import tensorflow as tf

import script_flags
import tiny_model
import two_replicas
from checkpoints import model_files
from common import errors, run_settings
from message_facts import says
from training import run_folder, run_setup


@pytest.fixture
def parse(tmp_path):
  """A function that parses flags of run_classifier.py."""
  with script_flags.classifier_parser(tmp_path) as parse_flags:
    yield parse_flags


def test_defaults_are_those_of_the_script(parse):
  settings = parse(distribution_strategy="off")
  assert settings.learning_rate == 5e-5
  assert run_setup.make_strategy(settings) is tf.distribute.get_strategy()
  options = run_setup.model_options(settings, tf.distribute.get_strategy())
  assert options == {
    "seed": 12345,
    "compute_dtype": tf.float32,
    "use_one_hot_embeddings": False,
    "is_for_tpu": False,
    "recompute_activations": False,
    "skip_padding": True,
  }


def config_of(settings):
  files = model_files.ModelFiles.of(settings)
  return run_setup.model_config(settings, files)


def test_config_is_read_and_checked(parse, tmp_path):
  settings = parse()
  assert config_of(settings).hidden_size == 16
  settings = parse(max_seq_length=17)
  with pytest.raises(errors.InputError, match="17 .*_embeddings 16"):
    config_of(settings)
  bad = tmp_path / "bad.json"
  bad.write_text("{}")
  settings = parse(bert_config_file=bad)
  with pytest.raises(errors.InputError, match=says("bad.json", "vocab_size")):
    config_of(settings)


def test_a_model_larger_than_the_memory_is_refused(parse, monkeypatch):
  settings = parse()
  monkeypatch.setattr("common.memory.total_bytes", lambda: 10)
  with pytest.raises(errors.InputError, match="memory"):
    config_of(settings)


@pytest.mark.parametrize(
  "values, by_default, compiles",
  [
    ({}, True, True),
    ({}, False, False),
    ({"jit_compile": "true"}, False, True),
    ({"jit_compile": "false"}, True, False),
  ],
)
def test_devices_decide_whether_xla_compiles(
  parse, monkeypatch, values, by_default, compiles
):
  monkeypatch.setattr(
    run_setup.distribution, "default_jit_compile", lambda _: by_default
  )
  strategy = tf.distribute.get_strategy()
  assert run_setup.jit_compile(parse(**values), strategy) == compiles


def test_shapes_may_vary_only_without_xla(parse):
  settings = parse(jit_compile="true")
  assert not run_setup.shapes_may_vary(settings, tf.distribute.get_strategy())
  options = run_setup.model_options(settings, tf.distribute.get_strategy())
  assert not options["skip_padding"]
  settings = parse(jit_compile="false")
  assert run_setup.shapes_may_vary(settings, tf.distribute.get_strategy())


@pytest.mark.parametrize(
  "values, refused",
  [
    ({"train_batch_size": 3}, None),
    ({"train_batch_size": 3, "do_train": True}, "train_batch_size=3"),
    ({"eval_batch_size": 5, "do_train": True}, None),
    ({"eval_batch_size": 5, "do_train": True, "eval_steps": 9}, "eval_batc"),
    ({"eval_batch_size": 5, "do_eval": True}, "eval_batch_size=5"),
    ({"predict_batch_size": 7, "do_predict": True}, "predict_batch_size=7"),
  ],
)
def test_batches_that_cannot_be_shared(parse, monkeypatch, values, refused):
  strategy = two_replicas.strategy()
  monkeypatch.setattr(
    run_setup.distribution, "make_strategy", lambda *_, **__: strategy
  )
  settings = parse(**values)
  if refused:
    with pytest.raises(errors.InputError, match=f"--{refused}.* by 2 replicas"):
      run_setup.make_strategy(settings)
  else:
    assert run_setup.make_strategy(settings) is strategy


def test_the_folder_of_a_vocabulary_sets_its_case(parse, tmp_path, caplog):
  vocab = tmp_path / "vocab.txt"
  vocab.write_text("".join(f"{word}\n" for word in "abcdefghijk"))
  (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
  settings = parse(vocab_file=vocab)
  assert settings.do_lower_case
  with caplog.at_level(logging.INFO, logger="absl"):
    settings = tiny_model.completed(settings)
  assert "tokenizer_config.json" in caplog.records[-1].getMessage()
  assert not settings.do_lower_case
  tokenizer = model_files.ModelFiles.of(settings).make_tokenizer(settings)
  assert not tokenizer.basic_tokenizer.do_lower_case
  # A flag overrides the file, with a warning.
  settings = tiny_model.completed(parse(vocab_file=vocab, do_lower_case=True))
  assert settings.do_lower_case
  assert caplog.records[-1].levelno == logging.WARNING
  assert "--do_lower_case=True was given" in caplog.text


def test_a_model_folder_replaces_three_flags(parse, tmp_path):
  folder = tmp_path / "model"
  folder.mkdir()
  with pytest.raises(errors.InputError, match="has no bert_config.json or c"):
    tiny_model.completed(parse(model_dir=folder))
  (folder / "adapter_config.json").write_text("{}")
  with pytest.raises(
    errors.InputError, match="base model of this PEFT adapter"
  ):
    tiny_model.completed(parse(model_dir=folder))
  (folder / "config.json").write_text("{}")
  (folder / "vocab.txt").write_text("a\n")
  parsed = parse(model_dir=folder)
  settings = tiny_model.completed(parsed)
  assert settings.init_checkpoint == str(folder)
  assert settings.vocab_file == "vocab.txt"
  settings = tiny_model.completed(
    run_settings.Settings({**parsed._values, "vocab_file": None}, ["model_dir"])
  )
  assert settings.vocab_file == str(folder / "vocab.txt")
  assert settings.bert_config_file == str(folder / "config.json")


def test_a_run_folder_is_refused_as_a_model_folder(parse, tmp_path):
  (tmp_path / "run" / "final_model").mkdir(parents=True)
  (tmp_path / "run" / "final_model" / "bert_config.json").write_text("{}")
  with pytest.raises(errors.InputError, match="pass --model_dir=.*final_mo"):
    tiny_model.completed(parse(model_dir=tmp_path / "run"))
  with pytest.raises(errors.InputError, match="no such folder"):
    tiny_model.completed(parse(model_dir=tmp_path / "nowhere"))


def test_a_stored_value_that_a_flag_cannot_have_is_refused(parse, tmp_path):
  path = tmp_path / "c.json"
  path.write_text('{"input_settings": {"seed": "x"}}')
  with pytest.raises(
    errors.InputError, match=says("c.json", "--seed", "'x'", "not")
  ):
    tiny_model.completed(parse(bert_config_file=path), ["seed"])


def test_the_settings_of_a_training_are_recorded(parse, tmp_path, caplog):
  strategy = tf.distribute.get_strategy()
  data = tmp_path / "train.txt"
  data.write_text("a")

  def open_run(**values):
    settings = parse(do_train=True, train_file=data, **values)
    return run_setup.open_run(settings, "tests", config_of(settings), strategy)

  open_run(init_checkpoint="model.ckpt")
  path = tmp_path / "out" / "run_fingerprint.json"
  fingerprint = json.loads(path.read_text())
  assert fingerprint["task"] == "tests"
  assert fingerprint["bert_config"]["hidden_size"] == 16
  trained_with = fingerprint["trained_with"]
  assert trained_with["fixed"] == {"optimizer": "bertadam"}
  assert trained_with["watched"]["init_checkpoint"] == "model.ckpt"
  assert f"{data} (1 files, 1 bytes, " in trained_with["watched"]["train_file"]
  run_folder.save(str(tmp_path / "out"), 1, {"x": [1.0]})
  data.write_text("ab")
  open_run(init_checkpoint="model.ckpt")
  assert "began with train_file" in caplog.text
  with pytest.raises(errors.InputError, match='is "bertadam" there and "lam'):
    open_run(optimizer="lamb")
  # A script names further settings that must not change, such as its losses.
  folder, fixed = str(tmp_path / "other"), {"use_next_sentence_loss": False}
  settings = {"do_train": True, "output_dir": folder, "optimizer": "lamb"}
  trained_with = run_setup.claim_folder(
    run_settings.Settings(settings),
    "tests",
    config_of(parse()),
    strategy,
    **fixed,
  )
  assert trained_with.fixed == {"optimizer": "lamb", **fixed}


def test_which_settings_of_a_training_are_watched(tmp_path):
  (tmp_path / "data").mkdir()
  for name, text in (("a1", "a"), ("a2", "bc"), ("data/train", "defg")):
    (tmp_path / name).write_text(text)
  files, folder = f"{tmp_path}/a*", str(tmp_path / "data")
  settings = run_settings.Settings(
    {
      "do_train": True,
      "optimizer": "lamb",
      "init_checkpoint": "x",
      "input_file": files,
      "train_file": None,
      "data_dir": folder,
    }
  )
  fixed, watched = run_setup._trained_with(settings, {"labels": 2})
  assert fixed == {"optimizer": "lamb", "labels": 2}
  assert {n: text.rpartition(", ")[0] for n, text in watched.items()} == {
    "init_checkpoint": "",
    "input_file": f"{files} (2 files, 3 bytes",
    "data_dir": f"{folder} (1 files, 4 bytes",
  }
  assert watched["init_checkpoint"] == "x"
  assert run_setup._trained_with(settings.replace(do_train=False), {}) is None


@pytest.mark.parametrize(
  "flags, expected",
  [
    ({"do_train": True}, {"train": "t"}),
    ({"do_train": True, "eval_steps": 3}, {"train": "t", "eval": "e"}),
    ({"eval_steps": 3}, {}),
    ({"do_eval": True, "do_predict": True}, {"eval": "e", "predict": "p"}),
  ],
)
def test_which_files_are_read(flags, expected):
  phases = {"do_train": False, "do_eval": False, "do_predict": False}
  files = {"train_file": "t", "eval_file": "e", "predict_file": "p"}
  settings = run_settings.Settings(
    {**phases, "eval_steps": 0, **files, **flags}
  )
  assert run_setup.files_to_read(settings) == expected


def test_random_weights_are_only_trained(parse):
  strategy = tf.distribute.get_strategy()
  for flags in ({"do_train": True}, {"do_eval": True}):
    settings = parse(**flags)
    claim = "tests", config_of(settings), strategy
    if "do_train" in flags:
      assert run_setup.open_run(settings, *claim).origin == "random"
    else:
      with pytest.raises(errors.InputError, match="no weights: there is no"):
        run_setup.open_run(settings, *claim)


def test_a_command_does_at_least_one_thing():
  settings = run_settings.Settings({"do_train": False, "do_eval": True})
  run_setup.require_one_of(settings, "do_train", "do_eval")
  with pytest.raises(errors.InputError, match="one of --do_train, --do_eval$"):
    settings = settings.replace(do_eval=False)
    run_setup.require_one_of(settings, "do_train", "do_eval")
