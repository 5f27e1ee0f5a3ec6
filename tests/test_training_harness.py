"""Tests training/harness.py: trainers, schedules, evaluations from flags."""

import logging
import re
import types

import pytest
import tensorflow as tf

import configuration
import optimizers
import script_flags
from checkpoints import model_files
from common import errors, run_settings
from training import harness, run_setup, training_step

NAMES = [
  "bert/embeddings/word_embeddings",
  "bert/encoder/layer_0/output/dense/kernel",
  "bert/encoder/layer_1/output/dense/kernel",
  "bert/pooler/dense/kernel",
  "output_weights",
]


@pytest.fixture
def parse(tmp_path):
  """A function that parses flags of run_classifier.py."""
  with script_flags.classifier_parser(tmp_path) as parse_flags:
    yield parse_flags


def make_spec(settings, num_train_steps=10):
  variables = [tf.Variable([1.0], name=name) for name in NAMES]
  return harness.TrainingSpec(
    types.SimpleNamespace(
      variables=variables, trained_variables=lambda: variables
    ),
    run_setup.model_config(settings, model_files.ModelFiles.of(settings)),
    tf.distribute.get_strategy(),
    objective=None,
    output_dir=settings.output_dir,
    length=(num_train_steps, 2),
    new_variables=[],
    data=None,
    evaluate=None,
    result_names=None,
    write=None,
  )


def make_trainer(settings, **options):
  return harness.make_trainer(settings, make_spec(settings, **options))


def moments(trainer):
  return {name for name in trainer.state() if name.endswith("/adam_m")}


@pytest.mark.parametrize(
  "values, trained",
  [
    ({}, NAMES),
    ({"freeze_layers": 1}, NAMES[2:]),
    ({"freeze_encoder": True}, NAMES[3:]),
    ({"freeze_encoder": True, "freeze_pooler": True}, NAMES[4:]),
  ],
)
def test_frozen_variables_are_saved_but_not_trained(parse, values, trained):
  settings = parse(**values)
  trainer = make_trainer(settings)
  assert moments(trainer) == {f"{name}/adam_m" for name in trained}
  assert set(NAMES) <= trainer.state().keys()


@pytest.mark.parametrize(
  "name, value", [("freeze_layers", 1), ("layerwise_lr_decay", 0.5)]
)
def test_layers_that_share_weights_have_no_rates_of_their_own(
  parse, name, value
):
  settings = parse(**{name: value})
  spec = make_spec(settings)
  albert = {"variant": "albert", "embedding_size": 8, "num_hidden_groups": 1}
  values = {**spec.config.to_dict(), **albert}
  config = configuration.BertConfig.from_dict(values)
  with pytest.raises(errors.InputError, match=f"--{name}"):
    harness.make_trainer(settings, spec._replace(config=config))


def test_optimizer_and_its_options(parse):
  settings = parse(
    optimizer="lamb",
    weight_decay_rate=0.1,
    layerwise_lr_decay=0.5,
    adam_beta2=0.98,
    adam_epsilon=1e-5,
  )
  optimizer = make_trainer(settings).training_step.optimizer
  assert isinstance(optimizer, optimizers.Lamb)
  assert optimizer._weight_decay_rate == 0.1
  assert optimizer._adam == {"beta_1": 0.9, "beta_2": 0.98, "epsilon": 1e-5}
  assert optimizer._rate_multipliers[NAMES[0]] == 0.5**3
  assert optimizer._rate_multipliers["output_weights"] == 1.0


def test_the_optimizer_is_the_originals_unless_flags_say_otherwise(parse):
  """The defaults of the flags equal those of the class."""
  optimizer = make_trainer(parse()).training_step.optimizer
  expected = optimizers.AdamWeightDecay()
  assert isinstance(optimizer, optimizers.AdamWeightDecay)
  for name in ("_adam", "_betas", "_weight_decay_rate", "_corrects_bias"):
    assert getattr(optimizer, name) == getattr(expected, name), name


def test_schedule(parse):
  settings = parse(learning_rate=0.5, learning_rate_schedule="constant")
  rate = make_trainer(settings).training_step._learning_rate
  assert [float(rate(step)) for step in (0, 1, 2, 9)] == [0, 0.25, 0.5, 0.5]


def test_a_stop_step_does_not_change_the_schedule(parse):
  stopped, whole = make_trainer(parse(stop_step=4)), make_trainer(parse())
  rates = [
    [float(trainer.training_step._learning_rate(step)) for step in (1, 2, 4, 9)]
    for trainer in (stopped, whole)
  ]
  assert rates[0] == rates[1]
  for stop, end in ((0, 10), (4, 4), (10, 10)):
    assert make_trainer(parse(stop_step=stop))._options.num_train_steps == end
  # The last step of the schedule is always evaluated; a stop step is not.
  settings = parse(stop_step=4, eval_steps=3)
  periodic = harness.periodic_evaluation(settings, make_spec(settings), None)
  assert [step for step in range(11) if periodic.is_due(step)] == [3, 6, 9, 10]
  with pytest.raises(errors.InputError, match="=11 is beyond .* step, 10;"):
    make_trainer(parse(stop_step=11))


def test_training_options(parse, tmp_path, caplog):
  settings = parse(
    dtype="float16",
    jit_compile="true",
    profile_steps="10,20",
    gradient_accumulation_steps=2,
    seed=7,
  )
  caplog.set_level(logging.DEBUG, logger="absl")
  options = make_trainer(settings)._options
  assert options.loss_scaling
  assert options.jit_compile is True
  assert options.profile_steps == (10, 20)
  assert options.gradient_accumulation_steps == 2
  assert options.seed == 7
  assert options.output_dir == str(tmp_path / "out")
  assert "--seed=7: " in caplog.text
  # bfloat16 has float32's range.
  assert not make_trainer(parse(dtype="bfloat16"))._options.loss_scaling


@pytest.mark.parametrize(
  "num_train_steps, values, interval",
  [
    (10, {}, 1),
    (500, {}, 5),
    (100_000, {}, 100),
    (500, {"log_steps": 100}, 100),
  ],
)
def test_short_runs_log_more_often(parse, num_train_steps, values, interval):
  settings = parse(**values)
  trainer = make_trainer(settings, num_train_steps=num_train_steps)
  assert trainer._options.log_steps == interval


@pytest.mark.parametrize("steps", ["10", "10,20,30", "a,b", "9,9", "20,10"])
def test_profile_steps_are_two_numbers(parse, steps):
  settings = parse(profile_steps=steps)
  with pytest.raises(errors.InputError, match=f"--profile_steps={steps}: exp"):
    make_trainer(settings)


@pytest.mark.parametrize(
  "jit, optimizer, compiles",
  [
    ("auto", "bertadam", False),
    ("auto", "lamb", True),
    ("false", "bertadam", False),
    ("false", "lamb", False),
  ],
)
def test_what_xla_compiles_on_a_cpu(parse, jit, optimizer, compiles):
  settings = parse(jit_compile=jit, optimizer=optimizer)
  trainer = make_trainer(settings)
  trainer.training_step._objective = training_step.Objective(
    denominators=lambda batch: {"loss": tf.constant(1.0)},
    sums=lambda batch, seed: (
      {
        "loss": tf.add_n(
          [v[0] * batch[0] for v in trainer.training_step._trained]
        )
      },
      {},
    ),
  )
  step = trainer.training_step.step.get_concrete_function(tf.ones([4]))
  text = str(step.graph.as_graph_def())
  # By default, XLA compiles only LAMB's update on a CPU, because TensorFlow has
  # no kernel for it.
  assert ("_XlaMustCompile" in text) == compiles


def test_bucketing_needs_shapes_that_vary(parse, monkeypatch):
  strategy = tf.distribute.get_strategy()
  settings = parse(jit_compile="false")
  assert not harness.is_bucketed(settings, strategy)
  settings = parse(bucket_by_length="true", jit_compile="false")
  assert harness.is_bucketed(settings, strategy)
  settings = parse(bucket_by_length="true", jit_compile="true")
  with pytest.raises(errors.InputError, match="pass --jit_compile=false"):
    harness.is_bucketed(settings, strategy)
  # A TPU always compiles.
  monkeypatch.setattr(harness.distribution, "is_tpu", lambda _: True)
  settings = parse(bucket_by_length="true", jit_compile="false")
  with pytest.raises(errors.InputError, match="length: leave it out$"):
    harness.is_bucketed(settings, strategy)


def test_evaluation_during_training(parse):
  def evaluation_of(names=None, **values):
    settings = parse(**values)
    spec = make_spec(settings)._replace(
      evaluate=lambda: {"loss": 1.0}, result_names=names
    )
    return harness.periodic_evaluation(settings, spec, lambda step: None)

  assert evaluation_of() is None
  evaluation = evaluation_of(
    eval_steps=5, save_best="loss", early_stopping_patience=1
  )
  assert evaluation.every_steps == 5
  evaluation.run(5)
  evaluation.run(10)
  assert evaluation.should_stop
  with pytest.raises(errors.InputError, match="best=F1 is not .*: f1, loss"):
    evaluation_of(eval_steps=5, save_best="F1", names=["loss", "f1"])
  assert evaluation_of(eval_steps=5, save_best="F1")


@pytest.mark.parametrize(
  "best, flags, message",
  [
    (None, False, "the last step, 30: --save_best=f1 was never a finite numb"),
    (20, False, "of step 20, are in .*/best_model: pass --use_best to use tho"),
    (20, None, "of step 20, are in (.*/best_model): pass --model_dir=\\1 and"),
  ],
)
def test_the_final_weights_are_logged(parse, caplog, best, flags, message):
  settings = parse(eval_steps=5, save_best="f1")
  settings = run_settings.Settings(
    {
      **{name: settings.get(name) for name in ("save_best", "output_dir")},
      **({} if flags is None else {"use_best": flags}),
      "bert_config_file": settings.bert_config_file,
      "max_seq_length": 16,
    }
  )
  with caplog.at_level(logging.INFO, logger="absl"):
    spec = make_spec(settings)
    assert harness.choose_weights(settings, spec, best, 30) == 30
  assert re.search(message, caplog.text)


@pytest.mark.parametrize(
  "values, expected",
  [
    ({}, (343, 34)),
    ({"max_train_steps": 100}, (100, 10)),
    ({"max_train_steps": 343}, (343, 34)),
    ({"max_train_steps": 500}, (343, 34)),
    # As in the original: the rate rises until the end.
    ({"warmup_proportion": 1.5}, (343, 514)),
  ],
)
def test_the_numbers_of_steps_for_mrpc(parse, values, expected):
  settings = parse(train_batch_size=32, **values)
  assert harness.training_length(settings, 3668) == expected


def test_too_few_examples_for_a_step_are_refused(parse):
  settings = parse(train_batch_size=32, num_train_epochs=3.0)
  assert harness.training_length(settings, 11) == (1, 0)
  with pytest.raises(errors.InputError, match="10 .* of 32 for 3.0 epochs"):
    harness.training_length(settings, 10)


@pytest.fixture
def calls(monkeypatch):
  """What `train` passes to a trainer, at whose end step 10 is done."""
  calls = []

  def make_trainer(settings, spec):
    return types.SimpleNamespace(
      start_from=lambda start, allowed_missing: calls.append(
        ("start", start, allowed_missing)
      ),
      train=lambda batches_from, evaluation: batches_from(3),
      global_step=tf.Variable(10),
    )

  def batches(strategy, **options):
    calls.append(("batches", options))

  monkeypatch.setattr(harness, "make_trainer", make_trainer)
  monkeypatch.setattr(harness.pipeline, "training_batches", batches)
  return calls


@pytest.mark.parametrize("is_chief", [True, False])
@pytest.mark.parametrize("buckets", [True, False])
def test_what_a_training_consists_of(
  parse, calls, caplog, monkeypatch, is_chief, buckets
):
  caplog.set_level(logging.INFO, logger="absl")
  monkeypatch.setattr(harness.distribution, "is_chief", lambda _: is_chief)
  settings = parse(
    seed=5, stop_step=10, bucket_by_length=buckets, jit_compile="false"
  )
  data = harness.TrainingData(["a", "b"], {"x": 1}, 7, True, len)
  spec = make_spec(settings, num_train_steps=20)._replace(
    data=lambda: data,
    new_variables=["^new/"],
    begins=lambda: calls.append("begins"),
    write=lambda folder, step: calls.append(("write", folder, step)),
  )
  assert harness.train(settings, spec, "the start") == 10
  start, begins, batches, *written = calls
  assert start[:2] == ("start", "the start") and "^new/" in start[2]
  assert begins == "begins"
  assert batches[1] == {
    "files": ["a", "b"],
    "features": {"x": 1},
    "num_records": 7,
    "trim": True,
    "transform": len,
    "batch_size": 4,
    "seed": 5,
    "first_step": 3,
    "bucketing": buckets,
  }
  final = ("write", f"{settings.output_dir}/final_model", 10)
  assert written == [final] * is_chief
  assert "stopped at step 10 of 20" in caplog.text
  caplog.clear()
  harness.train(settings, spec._replace(length=(10, 2)), "the start")
  assert "stopped" not in caplog.text


@pytest.mark.parametrize(
  "save_best, use_best, final",
  [(None, None, 10), ("f1", False, 10), ("f1", True, 6)],
)
def test_the_best_weights_are_kept_and_may_be_the_final_ones(
  parse, calls, monkeypatch, caplog, save_best, use_best, final
):
  caplog.set_level(logging.INFO, logger="absl")
  loaded = []
  monkeypatch.setattr(
    harness.weight_files, "load", lambda _, path: loaded.append(path)
  )
  make_trainer = harness.make_trainer

  def evaluating(settings, spec):
    trainer = make_trainer(settings, spec)
    trainer.train = lambda batches_from, evaluation: evaluation.run(6)
    return trainer

  monkeypatch.setattr(harness, "make_trainer", evaluating)
  settings = parse(eval_steps=6, save_best=save_best, use_best=use_best)
  written = []
  spec = make_spec(settings)._replace(
    data=lambda: None,
    evaluate=lambda: {"f1": 0.5},
    write=lambda folder, step: written.append((folder, step)),
  )
  assert harness.train(settings, spec, "the start") == final
  best = f"{settings.output_dir}/best_model"
  kept = [(best, 6)] if save_best else []
  assert written == [*kept, (f"{settings.output_dir}/final_model", final)]
  assert loaded == ([best] if use_best else [])
  assert ("weights of step 6, the best" in caplog.text) == bool(use_best)
  assert not [r for r in caplog.records if r.levelno >= logging.WARNING]
