"""Bi-encoders: losses, vectors, ranks, and training on pairs of texts.

The expected losses for `vectors()` come from sentence-transformers 6.2, from
compute_loss_from_embeddings of MultipleNegativesRankingLoss (scale 20) and of
CosineSimilarityLoss.
"""

import contextlib
import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

import heads
import optimizers
import script_runner
import tiny_model
import two_replicas
from checkpoints import sentence_folder
from classification import (
  bi_encoder,
  data,
  inputs,
  job,
  model,
  scores,
  sequences,
)
from common import errors
from serving import text_models
from test_classification_data import settings as read_settings
from test_classification_task import config, read_task
from tiny_model import assert_close
from training import loop
from vector_models import settings_and_task


def vectors():
  return np.random.RandomState(3).standard_normal([4, 3, 5]).astype(np.float32)


def unit(values):
  return values / np.linalg.norm(values, axis=-1, keepdims=True)


def make(task_kind, official=None, **changes):
  settings, task = settings_and_task(task_kind, **changes)
  return job.make_network(
    settings, tiny_model.tiny(), task._replace(official=official), seed=5
  )


def in_batch(values, ids=None, temperature=0.05):
  ids = (
    np.arange(values[..., 0].size).reshape(values.shape[:2])
    if (ids is None)
    else np.array(ids)
  )
  return bi_encoder.in_batch_losses(
    tf.constant(unit(values)), tf.constant(ids, tf.int32), temperature
  ).numpy()


@pytest.mark.parametrize(
  "texts, expected", [(2, 13.536844253540039), (3, 18.32876968383789)]
)
def test_in_batch_losses_are_those_of_sentence_transformers(texts, expected):
  assert in_batch(vectors()[:, :texts]).mean() == pytest.approx(expected)


def test_an_equal_text_is_no_candidate():
  values = vectors()
  # Rows 0 and 2 have the same query, so row 1's negative text, which is right
  # for row 2, is also right for row 0. Row 3's negative is right for row 1.
  ids = np.array([[1, 2, 3], [4, 5, 7], [1, 7, 8], [9, 10, 5]])
  losses = in_batch(values, ids, 0.5)
  for row in range(4):
    candidates = [row]
    for text in range(1, 3):
      for other_row in range(4):
        if ids[other_row, text] not in ids[ids[:, 0] == ids[row, 0], 1]:
          candidates.append(other_row + 4 * (text - 1))
    texts = np.concatenate([unit(values)[:, 1], unit(values)[:, 2]])
    logits = texts[candidates] @ unit(values)[row, 0] / 0.5
    assert_close(losses[row], np.log(np.exp(logits).sum()) - logits[0])
  assert len(candidates) == 8
  assert not np.allclose(losses, in_batch(values, None, 0.5))


def test_the_similarity_loss_is_the_squared_error_of_the_cosine():
  gold = np.float32([0, 0.25, 0.5, 1])
  values = tf.constant(unit(vectors()[:, :2]))
  network = make("similarity")
  losses = network.example_losses(values, tf.constant(gold))
  # From sentence-transformers.
  assert np.mean(losses) == pytest.approx(0.9216019511222839)
  cosines = (values[:, 0] * values[:, 1]).numpy().sum(-1, keepdims=True)
  assert_close(network.evaluated(values.numpy(), gold)["scores"], cosines)


def batch(rows=3):
  names = ("input_ids", "input_mask", "segment_ids")
  arrays = tiny_model.batch(2 * rows, 8)
  return {n: tf.reshape(a, [rows, 2, 8]) for n, a in zip(names, arrays)}


@pytest.mark.parametrize(
  "pooling, layers",
  [("mean", ["-1"]), ("max", ["0", "-1"]), ("cls", ["-2"]), ("pooled", ["-1"])],
)
def test_vectors_are_those_of_the_texts_alone(pooling, layers):
  network = make("similarity", pooling=pooling, pooling_layer=layers)
  computed = network(batch())
  assert computed.shape == (3, 2, 16 * len(layers))
  for row in range(3):
    for text in range(2):
      alone = [values[row, text][None] for values in batch().values()]
      expected = heads.pool(network.bert(*alone), alone[1], network.pooling)[0]
      assert_close(computed[row, text], unit(expected.numpy()))


@pytest.mark.parametrize(
  "pooling, layers, count",
  [("mean", ["-1"], 37), ("mean", ["-2"], 21), ("pooled", ["-1"], 39)],
)
def test_variables_without_effect_are_not_trained(pooling, layers, count):
  network = make("retrieval", pooling=pooling, pooling_layer=layers)
  data = {**batch(), "label_ids": tf.reshape(tf.range(6), [3, 2])}
  data["is_real_example"] = tf.ones([3], tf.int32)
  trained = network.trained_variables()
  assert len(trained) == count and len(network.variables) == 39
  with tf.GradientTape() as tape:
    sums, _ = model.objective(network).sums(data, tf.constant([1, 2]))
  gradients = tape.gradient(sums["classifier"], network.variables)
  reached = [
    v.name for v, g in zip(network.variables, gradients) if (g is not None)
  ]
  assert reached == [v.name for v in trained]


@pytest.mark.parametrize(
  "changes, fault",
  [
    ({"train_batch_size": 1}, "train_batch_size=1 leaves no negatives"),
    ({"pooling_layer": ["2"]}, "'2' is not a layer"),
    ({}, None),
    ({"train_batch_size": 1, "negative_column": "worse"}, None),
    ({"train_batch_size": 1, "do_train": False}, None),
  ],
)
def test_unusable_settings_are_refused(changes, fault):
  settings, _ = settings_and_task(
    "retrieval",
    **{
      "train_batch_size": 4,
      "do_train": True,
      "negative_column": None,
      **changes,
    },
  )
  with (
    pytest.raises(errors.InputError, match=fault)
    if fault
    else (contextlib.nullcontext())
  ):
    bi_encoder.check(settings, tiny_model.tiny(), "retrieval")


NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def step(folder, replicas, parts, *, changed=lambda _, same: same, **options):
  """Trains one step on 8 pairs, with some equal texts and one padding pair.

  Returns the loss, the metrics, the gradient's norm and Adam's first moments by
  name. After one step the moments are a tenth of the clipped gradients.
  """
  strategy = (
    two_replicas.strategy() if replicas == 2 else tf.distribute.get_strategy()
  )
  settings, task = settings_and_task("retrieval")
  config_changes = options.pop("config", NO_DROPOUT)
  with strategy.scope():
    network = job.make_network(
      settings, tiny_model.tiny(**config_changes), task, seed=5
    )
  rng = np.random.RandomState(2)
  pairs = {name: values.numpy() for name, values in batch(8).items()}
  pairs["input_ids"] = rng.randint(0, 30, [8, 2, 8])
  pairs["label_ids"] = rng.permutation(16).reshape([8, 2])
  pairs["label_ids"][5] = pairs["label_ids"][1, 0], pairs["label_ids"][7, 1]
  pairs["is_real_example"] = np.array([1, 1, 1, 0, 1, 1, 1, 1])
  pairs = {n: tf.constant(values, tf.int32) for n, values in pairs.items()}
  trainer = loop.Trainer(
    strategy=strategy,
    variables=network.variables,
    trained=network.trained_variables(),
    objective=changed(network, model.objective(network)),
    optimizer=optimizers.make_optimizer("adamw", jit_compile=False),
    learning_rate=lambda step: tf.constant(1e-3),
    options=loop.TrainOptions(
      output_dir=str(folder),
      num_train_steps=1,
      batch_size=8,
      gradient_accumulation_steps=parts,
      **options,
    ),
  )
  loss, metrics, _, norm, _ = trainer.training_step.step(
    two_replicas.halves(pairs) if replicas == 2 else pairs
  )
  moments = {
    name: value.numpy()
    for name, value in trainer.state().items()
    if name.endswith("adam_m")
  }
  return float(loss), metrics, float(norm), moments


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
  return step(tmp_path_factory.mktemp("whole"), 1, 1)


@pytest.mark.parametrize(
  "replicas, parts, options",
  [
    (1, 4, {}),
    (2, 2, {"loss_scaling": True}),
    pytest.param(2, 1, {}, marks=pytest.mark.slow),
    pytest.param(2, 2, {"jit_compile": True}, marks=pytest.mark.slow),
  ],
)
def test_a_batch_in_parts_has_the_gradient_of_the_whole(
  tmp_path, whole, replicas, parts, options
):
  loss, metrics, norm, moments = step(tmp_path, replicas, parts, **options)
  assert [loss, norm] == pytest.approx([whole[0], whole[2]], rel=1e-5)
  assert_close(metrics["classifier_loss"], whole[1]["classifier_loss"])
  assert moments.keys() == whole[3].keys() and len(moments) == 37
  for name, value in moments.items():
    assert_close(value, whole[3][name], 1e-6)
  assert 0 < np.abs(moments["bert/embeddings/word_embeddings/adam_m"]).max()


def test_both_passes_drop_the_same_units(tmp_path, whole):
  def with_gap(network, _):
    passes = []

    def recording(*args, **options):
      passes.append(network(*args, **options))
      return passes[-1]

    recording.task_kind, recording.compares_examples = "retrieval", True
    recording.training_losses = network.training_losses
    objective = model.objective(recording)

    def compare(share, vectors):
      return {**objective.compare(share, vectors), "first": vectors}

    def sums(part, seed):
      losses, _ = objective.sums(part, seed)
      gap = tf.reduce_max(tf.abs(part["first"] - passes[-1]))
      return losses, {"gap": (gap, gap)}

    return dataclasses.replace(objective, compare=compare, sums=sums)

  loss, metrics, _, _ = step(tmp_path, 2, 2, changed=with_gap, config={})
  assert abs(loss - whole[0]) > 0.01 and float(metrics["gap"][0]) < 1e-5


def test_ranks_are_those_of_a_plain_search():
  """Integer vectors make equal similarities exact ties."""
  rng = np.random.RandomState(1)
  # Five queries, most of them with several right texts.
  gold = np.stack(
    [rng.randint(0, 7, 12), rng.randint(20, 35, 12), rng.randint(20, 50, 12)],
    axis=1,
  )
  table = rng.randint(-2, 3, [50, 3]).astype(np.float32)
  recalls, reciprocals = {1: [], 5: [], 10: []}, []
  for query in set(gold[:, 0]):
    right = set(gold[gold[:, 0] == query, 1])
    dots = {text: table[query] @ table[text] for text in set(gold[:, 1:].flat)}
    ranks = [sum(dots[r] <= dot for dot in dots.values()) for r in right]
    for k, shares in recalls.items():
      shares.append(np.mean([rank <= k for rank in ranks]))
    reciprocals.append(1 / min(ranks))
  assert len(reciprocals) < len(np.unique(gold[:, :2], axis=0))
  results = scores.Results("retrieval", (), gold, None, 1, table[gold])
  metrics = scores.compute(results, scores.default_metrics("retrieval", 0))
  assert metrics == pytest.approx(
    {
      **{f"recall@{k}": np.mean(shares) for k, shares in recalls.items()},
      "mrr": np.mean(reciprocals),
    }
  )
  recalls = [metrics[f"recall@{k}"] for k in recalls]
  assert 0 < recalls[0] < recalls[1] < recalls[2] < 1


COLUMNS = {"text_column": "q", "text_b_column": "p"}
NEGATIVE = {**COLUMNS, "negative_column": "n"}


def write_pairs(folder, name="pairs.tsv", count=4, score=""):
  """Writes rows in which p shares a word with q, but n does not."""
  head = "q\tp\tn" + "\tscore" * bool(score)
  rows = [
    f"w1 w{n}\tw2 w{n} w3\tw{n + 7}" + f"\t{score}" * bool(score)
    for n in range(count)
  ]
  (folder / name).write_text("\n".join([head, *rows]) + "\n")
  return str(folder / name)


def test_pairs_with_a_negative_text_become_three_sequences(tmp_path):
  path = write_pairs(tmp_path)
  examples = data.read(path, read_settings(**NEGATIVE), "retrieval")
  assert [example[1:5] for example in examples[:2]] == [
    ("w1 w0", "w2 w0 w3", 1.0, ("w7",)),
    ("w1 w1", "w2 w1 w3", 1.0, ("w8",)),
  ]
  options = sequences.InputOptions(
    "retrieval", (), tiny_model.write_vocabulary(tmp_path), max_seq_length=8
  )
  arrays, num_rows, _ = sequences.encode(examples, options)
  assert num_rows.tolist() == [3] * 4
  assert arrays["input_mask"].sum(axis=1).tolist() == [4, 5, 3] * 4
  assert not arrays["segment_ids"].any()
  ids = inputs.label_ids([*examples, examples[0]], "retrieval", ())
  assert ids.shape == (5, 3) and len(set(ids.flat)) == 12
  assert (ids[4] == ids[0]).all() and np.abs(ids).max() <= 2**31
  # Rows to predict need no negative text.
  to_predict = data.ExampleStream(
    path, read_settings(**NEGATIVE), "retrieval", has_labels=False
  )
  assert next(iter(to_predict)).endings == ()


def test_scores_out_of_their_range_are_listed_together(tmp_path):
  path = write_pairs(tmp_path, score="5.5")
  settings = read_settings(**COLUMNS, label_column="score")
  with pytest.raises(errors.InputError) as refused:
    data.read(path, settings, "similarity")
  for line in range(2, 6):
    assert (
      f"{path}:{line}: label '5.5' is not a number from 0 to 1; fix"
      in str(refused.value)
    )


def test_kinds_of_official_tasks(tmp_path):
  (tmp_path / "dev.tsv").write_text(
    "index\tsentence1\tsentence2\tscore\n0\ta b\tc\t3.8\n"
  )

  def kind_of(task_name, **flags):
    return read_task(
      task_name=task_name, data_dir=str(tmp_path), **{"purposes": [], **flags}
    ).task_kind

  assert kind_of("STS-B") == "regression"
  assert kind_of("STS-B", task_kind="similarity", purposes=["eval"]) == (
    "similarity"
  )
  for name, kind in (("STS-B", "retrieval"), ("MRPC", "similarity")):
    with pytest.raises(errors.InputError, match=f"task_kind={kind}: {name} "):
      kind_of(name, task_kind=kind)
  with pytest.raises(errors.InputError, match="pairs of texts; pass --text_b"):
    read_task(purposes=["eval"], task_kind="similarity", eval_file="a.csv")
  # Weights trained for regression are not evaluated as an embedding model.
  with pytest.raises(errors.InputError, match="was trained for regression"):
    read_task(
      config(problem_type="regression"),
      purposes=["eval"],
      task_kind="similarity",
      eval_file="a.csv",
      **COLUMNS,
    )


def run(output_dir, **flags):
  return script_runner.succeed(
    "run_classifier.py", output_dir=output_dir, **flags
  )


def test_pairs_are_learned_and_the_folder_answers(tmp_path):
  path = write_pairs(tmp_path, count=12)
  data = {"do_eval": True, "eval_file": path, **NEGATIVE}
  run(
    tmp_path / "run",
    **tiny_model.write_shape(tmp_path, tiny_model.WORDS),
    **data,
    do_train=True,
    train_file=path,
    task_kind="retrieval",
    train_batch_size=6,
    num_train_epochs=20,
    learning_rate=3e-3,
    max_seq_length=8,
    normalize=True,
    pooling_layer="1",
  )
  results = script_runner.results_in(tmp_path / "run")
  assert set(results) == {
    "eval_recall@1",
    "eval_recall@5",
    "eval_recall@10",
    "eval_mrr",
    "eval_loss",
    "loss",
    "global_step",
  }
  # With 24 candidates, chance gives 0.16.
  assert results["eval_mrr"] > 0.6
  model = tmp_path / "run" / "final_model"
  run(tmp_path, model_dir=model, do_predict=True, predict_file=path, **data)
  alone = script_runner.results_in(tmp_path)
  assert {**alone, "global_step": 40} == pytest.approx(results, abs=1e-5)
  row = (tmp_path / "predictions.tsv").read_text().splitlines()[1].split("\t")
  vectors = text_models.load(str(model)).embed(row[2:])
  assert_close(np.linalg.norm(vectors, axis=1), 1)
  assert float(row[1]) == pytest.approx(vectors[0] @ vectors[1], abs=1e-5)
  assert sentence_folder.read(str(model)) == {
    "pooling": "mean",
    "normalize": True,
    "max_seq_length": 8,
  }
  values = json.loads((model / "config.json").read_text())
  assert "problem_type" not in values
  assert values["architectures"] == ["BertModel"]
