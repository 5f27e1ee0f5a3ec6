"""What flags become: the objects that scripts work with."""

import contextlib
import json
import logging

import pytest
import tensorflow as tf
from absl import flags

import optimization
import two_replicas
from common import errors
from training import common_flags, loop, run_folder

FLAGS = flags.FLAGS

common_flags.define_model_flags(max_seq_length=16)
common_flags.define_tokenizer_flags()
common_flags.define_output_flags()
common_flags.define_training_flags(train_batch_size=4)
common_flags.define_epoch_flags()
common_flags.define_evaluation_flags()
common_flags.define_prediction_flags()
common_flags.define_device_flags()

CONFIG = {
  "vocab_size": 11, "hidden_size": 4, "num_hidden_layers": 2,
  "num_attention_heads": 2, "intermediate_size": 8,
  "max_position_embeddings": 16, "type_vocab_size": 2,
}
NAMES = [
  "bert/embeddings/word_embeddings",
  "bert/encoder/layer_0/output/dense/kernel",
  "bert/encoder/layer_1/output/dense/kernel",
  "bert/pooler/dense/kernel",
  "output_weights",
]


@pytest.fixture
def parse(tmp_path):
  """A function that sets the flags; they are as they were afterwards."""
  path = tmp_path / "bert_config.json"
  path.write_text(json.dumps(CONFIG))
  saved = {name: FLAGS[name].value for name in FLAGS}
  required = {
    "bert_config_file": str(path),
    "vocab_file": "vocab.txt",
    "output_dir": str(tmp_path / "out"),
  }

  def parse_flags(**values):
    given = {**required, **values}
    FLAGS(["test", *(f"--{name}={value}" for name, value in given.items())])

  yield parse_flags
  for name, value in saved.items():
    with contextlib.suppress(flags.IllegalFlagValueError):
      FLAGS[name].value = value
    FLAGS[name].present = 0
  FLAGS.unparse_flags()


def make_trainer(**options):
  variables = [tf.Variable([1.0], name=name) for name in NAMES]
  return common_flags.make_trainer(
    variables,
    trained=variables,
    config=common_flags.model_config(),
    strategy=tf.distribute.get_strategy(),
    objective=None,
    num_train_steps=10,
    num_warmup_steps=2,
    **options,
  )


def moments(trainer):
  return {name for name in trainer.state() if name.endswith("/adam_m")}


def test_defaults_are_those_of_the_script(parse):
  parse()
  assert FLAGS.max_seq_length == 16
  assert FLAGS.train_batch_size == 4
  assert FLAGS.learning_rate == 5e-5
  options = common_flags.model_options(tf.distribute.get_strategy())
  assert options == {
    "seed": 12345,
    "compute_dtype": tf.float32,
    "use_one_hot_embeddings": False,
    "recompute_activations": False,
  }


def test_config_is_read_and_checked(parse, tmp_path):
  parse()
  assert common_flags.model_config().hidden_size == 4
  parse(max_seq_length=17)
  with pytest.raises(errors.InputError, match="17 .*_embeddings 16"):
    common_flags.model_config()
  bad = tmp_path / "bad.json"
  bad.write_text("{}")
  parse(bert_config_file=bad)
  with pytest.raises(errors.InputError, match="bad.json: .*no vocab_size"):
    common_flags.model_config()


@pytest.mark.parametrize(
  "given, trained",
  [
    ({}, NAMES),
    ({"freeze_layers": 1}, NAMES[2:]),
    ({"freeze_encoder": True}, NAMES[3:]),
  ],
)
def test_frozen_variables_are_saved_but_not_trained(parse, given, trained):
  parse(**given)
  trainer = make_trainer()
  assert moments(trainer) == {f"{name}/adam_m" for name in trained}
  assert set(NAMES) <= trainer.state().keys()


def test_optimizer_and_its_options(parse):
  parse(optimizer="lamb", weight_decay_rate=0.1, layerwise_lr_decay=0.5)
  optimizer = make_trainer()._optimizer
  assert isinstance(optimizer, optimization.Lamb)
  assert optimizer._weight_decay_rate == 0.1
  assert optimizer._rate_multipliers[NAMES[0]] == 0.5**3
  assert optimizer._rate_multipliers["output_weights"] == 1.0


def test_schedule(parse):
  parse(learning_rate=0.5, learning_rate_schedule="constant")
  rate = make_trainer()._learning_rate
  assert [float(rate(step)) for step in (0, 1, 2, 9)] == [0, 0.25, 0.5, 0.5]


def test_training_options(parse, tmp_path):
  parse(
    dtype="float16", jit_compile="true", profile_steps="10,20",
    gradient_accumulation_steps=2, seed=7,
  )
  options = make_trainer()._options
  assert options.loss_scaling
  assert options.jit_compile is True
  assert options.profile_steps == (10, 20)
  assert options.gradient_accumulation_steps == 2
  assert options.seed == 7
  assert options.output_dir == str(tmp_path / "out")


@pytest.mark.parametrize("steps", ["10", "10,20,30", "a,b", "9,9", "20,10"])
def test_profile_steps_are_two_numbers(parse, steps):
  parse(profile_steps=steps)
  with pytest.raises(errors.InputError, match=f"--profile_steps={steps}: exp"):
    make_trainer()


def test_the_seed_is_told(parse, caplog):
  parse()
  with caplog.at_level(logging.INFO, logger="absl"):
    make_trainer()
  assert "--seed=12345: " in caplog.text


@pytest.mark.parametrize("jit", ["auto", "false"])
def test_without_jit_compile_nothing_is_compiled(parse, jit):
  parse(jit_compile=jit)
  trainer = make_trainer()
  trainer._objective = loop.Objective(
    weights=lambda batch: {"loss": tf.constant(1.0)},
    sums=lambda batch, seed: (
      {"loss": tf.add_n([v[0] * batch[0] for v in trainer._trained])}, {}
    ),
  )
  step = trainer._compiled_step.get_concrete_function(tf.ones([4]))
  text = str(step.graph.as_graph_def())
  # What a CPU gets by itself is the optimizer's formula.
  assert ("_XlaMustCompile" in text) == (jit == "auto")


def test_shapes_may_vary_only_without_xla(parse):
  parse(jit_compile="true")
  assert not common_flags.shapes_may_vary(tf.distribute.get_strategy())
  parse(jit_compile="false")
  assert common_flags.shapes_may_vary(tf.distribute.get_strategy())


def test_bucketing_needs_lengths_and_shapes_that_vary(parse):
  features, strategy = {"input_mask": None}, tf.distribute.get_strategy()
  parse(jit_compile="false")
  assert common_flags.bucketing(features, strategy) is None
  parse(bucket_by_length="true", jit_compile="false")
  bucketing = common_flags.bucketing(features, strategy)
  assert bucketing.batch_size == FLAGS.train_batch_size
  with pytest.raises(errors.InputError, match="no lengths to go by"):
    common_flags.bucketing({}, strategy)
  parse(bucket_by_length="true", jit_compile="true")
  with pytest.raises(errors.InputError, match="pass --jit_compile=false"):
    common_flags.bucketing(features, strategy)


def test_evaluation_during_training(parse):
  parse()
  assert common_flags.periodic_evaluation(dict, None) is None
  parse(save_best="loss")
  with pytest.raises(errors.InputError, match="pass --eval_steps too"):
    common_flags.periodic_evaluation(dict, None)
  parse(eval_steps=5, save_best="loss", early_stopping_patience=1)
  evaluation = common_flags.periodic_evaluation(lambda: {"loss": 1.0}, None)
  assert evaluation.every_steps == 5
  evaluation.run(5)
  evaluation.run(10)
  assert evaluation.should_stop


def test_save_best_is_checked_where_the_names_are_known(parse):
  parse(eval_steps=5, save_best="F1")
  with pytest.raises(errors.InputError, match="best=F1 is not .*: f1, loss"):
    common_flags.periodic_evaluation(dict, None, names=["loss", "f1"])
  assert common_flags.periodic_evaluation(dict, None)


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
def test_batches_that_replicas_cannot_share_are_refused_at_once(
  parse, monkeypatch, values, refused
):
  strategy = two_replicas.strategy()
  monkeypatch.setattr(
    common_flags.distribution, "make_strategy", lambda *_, **__: strategy
  )
  parse(**values)
  if refused:
    with pytest.raises(errors.InputError, match=f"--{refused}.* by 2 replicas"):
      common_flags.make_strategy()
  else:
    assert common_flags.make_strategy() is strategy


def test_the_case_of_a_vocabulary_is_taken_from_beside_it(
  parse, tmp_path, caplog
):
  vocab = tmp_path / "vocab.txt"
  vocab.write_text("".join(f"{word}\n" for word in "abcdefghijk"))
  (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
  parse(vocab_file=vocab)
  assert FLAGS.do_lower_case
  with caplog.at_level(logging.INFO, logger="absl"):
    tokenizer = common_flags.make_tokenizer(common_flags.model_config())
  assert not tokenizer.basic_tokenizer.do_lower_case
  assert not FLAGS.do_lower_case
  assert "tokenizer_config.json" in caplog.records[-1].getMessage()
  # A flag that is given goes before the file, aloud.
  parse(vocab_file=vocab, do_lower_case=True)
  common_flags.settle_case()
  assert FLAGS.do_lower_case
  assert caplog.records[-1].levelno == logging.WARNING
  assert "--do_lower_case=True was given" in caplog.text


def test_what_a_run_was_trained_with_is_kept(parse, tmp_path, caplog):
  strategy = tf.distribute.get_strategy()
  flags.DEFINE_string("train_file", None, "As some scripts have it.")
  data = tmp_path / "train.txt"
  data.write_text("a")

  def open_run(**values):
    parse(do_train=True, train_file=data, **values)
    return common_flags.open_run(
      "tests", common_flags.model_config(), strategy, pairs=True
    )

  try:
    open_run(init_checkpoint="model.ckpt")
    path = tmp_path / "out" / "run_fingerprint.json"
    noted = json.loads(path.read_text())["trained_with"]
    assert noted["fixed"] == {"optimizer": "bertadam", "pairs": True}
    assert noted["watched"]["init_checkpoint"] == "model.ckpt"
    assert f"{data} (1 files, 1 bytes, " in noted["watched"]["train_file"]
    run_folder.save(str(tmp_path / "out"), 1, {"x": [1.0]})
    data.write_text("ab")
    open_run(init_checkpoint="model.ckpt")
    assert "began with train_file" in caplog.text
    with pytest.raises(errors.InputError, match='is "bertadam" there and "lam'):
      open_run(optimizer="lamb")
  finally:
    FLAGS.__delattr__("train_file")


def test_a_command_that_asks_for_nothing(parse):
  parse()
  with pytest.raises(errors.InputError, match="one of --do_train, --do_eval"):
    common_flags.require_one_of("do_train", "do_eval")
  parse(do_eval=True)
  common_flags.require_one_of("do_train", "do_eval")


def test_strategy_of_the_flags(parse):
  parse(distribution_strategy="one_device", use_tpu=True)
  with pytest.raises(errors.InputError, match="--use_tpu contradicts"):
    common_flags.make_strategy()
  parse(distribution_strategy="off", use_tpu=False)
  assert common_flags.make_strategy() is tf.distribute.get_strategy()
