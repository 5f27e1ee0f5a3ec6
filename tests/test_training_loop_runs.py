"""Repeats whole runs of the original, without dropout."""

import functools
import json
import pathlib
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

import heads
import modeling
import optimization
import optimizers
import two_replicas
from checkpoints import weight_files
from common import errors
from pretraining.networks import encoder
from script_runner import logged
from squad import model as squad_model
from training import loop, run_folder, training_step

GOLDEN = pathlib.Path("tests/golden/optimizer")
# A constant added to all keys, or (for spans) to all tokens of the last layer,
# changes no softmax. The gradients are rounding errors, which Adam amplifies.
NO_GRADIENT = "/self/key/bias|layer_1/output/LayerNorm/beta|squad/output_bias"
STRATEGIES = {"one": tf.distribute.get_strategy, "two": two_replicas.strategy}


class GoldenRun:
  """The model, objective, batches and expected values of a golden run."""

  def __init__(self, name, strategy):
    with np.load(GOLDEN / f"{name}.npz") as arrays:
      self.arrays = {key: arrays[key] for key in arrays.files}
    settings = json.loads((GOLDEN / "runs.json").read_text())[name]
    config = modeling.BertConfig.from_dict(settings.pop("config"))
    self.rate = functools.partial(optimization.learning_rate, **settings)
    with strategy.scope():
      if name.startswith("pre"):
        model = encoder.PretrainingModel(config, seed=1)
        self.objective = model.objective()
      elif name.startswith("squad"):
        model = squad_model.SpanModel(config, seed=1)
        self.objective = squad_model.objective(model, mask_padding=False)
      else:
        model = GoldenClassifier(config)
        self.objective = training_step.Objective(model.denominators, model.sums)
    self.variables = self.trained = model.variables
    if name.startswith("squad"):
      self.trained = model.trained_variables()
    for variable in self.variables:
      variable.assign(self.part("initial")[variable.name.split(":")[0]])

  def trainer(self, strategy, **options):
    return loop.Trainer(
      strategy=strategy,
      variables=self.variables,
      trained=self.trained,
      objective=self.objective,
      optimizer=optimizers.make_optimizer("bertadam", jit_compile=False),
      learning_rate=self.rate,
      options=loop.TrainOptions(batch_size=self.batch_size, **options),
    )

  def part(self, part):
    start = f"{part}/"
    return {
      key.removeprefix(start): value
      for key, value in self.arrays.items()
      if key.startswith(start)
    }

  def batches(self, strategy):
    numbers = range(len({key.split("/")[0] for key in self.part("batch")}))
    batches = [self.part(f"batch/{number}") for number in numbers]
    stacked = {
      name: np.stack([batch[name] for batch in batches]) for name in batches[0]
    }
    self.batch_size = stacked["input_ids"].shape[1]
    examples = tf.data.Dataset.from_tensor_slices(stacked).unbatch().repeat()
    share = self.batch_size // strategy.num_replicas_in_sync
    return strategy.distribute_datasets_from_function(
      lambda context: examples.map(integers_as_int32).batch(share)
    )


def integers_as_int32(example):
  return {
    name: value if value.dtype == tf.float32 else tf.cast(value, tf.int32)
    for name, value in example.items()
  }


class GoldenClassifier(tf.Module):
  """The original's classifier for three labels."""

  def __init__(self, config):
    super().__init__()
    self.bert = modeling.BertModel(config)
    self.head = heads.ClassificationHead(config, 3)

  def sums(self, batch, dropout_seed):
    output = self.bert(
      batch["input_ids"],
      batch["input_mask"],
      batch["segment_ids"],
      training=True,
      dropout_seed=dropout_seed,
    )
    # The head is in evaluation mode: the goldens have no dropout, and the
    # head's dropout cannot be switched off.
    logits = self.head(output.pooled_output)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
      batch["label_ids"], logits
    )
    return {"loss": tf.reduce_sum(losses)}, {}

  @staticmethod
  def denominators(batch):
    return {"loss": tf.cast(tf.shape(batch["label_ids"])[0], tf.float32)}


@pytest.mark.parametrize(
  "name, devices, parts",
  [
    ("classifier_gelu_warm2", "one", 1),
    ("pre_gelu_warm5", "one", 2),
    ("pre_linear_warm_longer_than_total", "two", 1),
    ("squad_relu_warm2", "one", 2),
  ],
)
def test_whole_runs_of_the_original(tmp_path, name, devices, parts):
  strategy = STRATEGIES[devices]()
  run = GoldenRun(name, strategy)
  batches, steps = run.batches(strategy), run.part("steps")
  trainer = run.trainer(
    strategy,
    output_dir=str(tmp_path),
    num_train_steps=len(steps["loss"]),
    log_steps=1,
    gradient_accumulation_steps=parts,
  )
  trainer.train(lambda step: batches)
  for key, golden in (
    ("loss", "loss"),
    ("learning_rate", "lr"),
    ("gradient_norm", "grad_norm_reference"),
  ):
    log_values = [line[key] for line in logged(tmp_path)]
    np.testing.assert_allclose(log_values, steps[golden], rtol=5e-5, atol=1e-9)
  state, compared = trainer.state(), 0
  is_squad = name.startswith("squad")
  ignored = NO_GRADIENT if is_squad else "/self/key/bias"
  for name, expected in run.part("final").items():
    if not re.search(ignored, name):
      scale = np.abs(expected).max()
      np.testing.assert_allclose(
        state[name].numpy(), expected, rtol=0, atol=5e-5 * scale, err_msg=name
      )
      compared += 1
  assert compared > (30 if is_squad else 50)


def test_a_run_of_the_original_resumes_with_its_moments(tmp_path):
  for path in pathlib.Path("tests/golden/checkpoints").glob("model.ckpt-12.*"):
    shutil.copy(path, tmp_path)
  text = 'model_checkpoint_path: "gs://bucket/run/model.ckpt-12"\n'
  (tmp_path / "checkpoint").write_text(text)
  strategy = STRATEGIES["one"]()
  run = GoldenRun("pre_linear_warm_longer_than_total", strategy)
  batches = run.batches(strategy)
  trainer = run.trainer(strategy, output_dir=str(tmp_path), num_train_steps=13)
  trainer.start_from(run_folder.starting_point(str(tmp_path), None))
  state, final = trainer.state(), run.part("final")
  assert trainer.global_step == trainer.applied_updates == 12
  assert {name for name in state if "adam" in name} < final.keys()
  for name, expected in final.items():
    np.testing.assert_array_equal(state[name].numpy(), expected, err_msg=name)
  trainer.train(lambda step: batches)
  assert run_folder.newest_checkpoint(str(tmp_path)).step == 13
  # A model with other shapes is refused.
  checkpoint = run_folder.newest_checkpoint(str(tmp_path))
  wrong = tf.Variable(np.zeros([2, 2], "f"), name="bert/pooler/dense/kernel")
  with pytest.raises(errors.InputError, match=r"pooler/dense/kernel has shape"):
    weight_files.load([wrong], checkpoint.path)
