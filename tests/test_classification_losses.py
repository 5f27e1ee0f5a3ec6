"""The files of classification/losses, compared with other programs."""

import json
import pathlib
import types

import numpy as np
import pytest
import tensorflow as tf

import script_flags
import script_runner
import tiny_model
import vector_models
from classification import bi_encoder, data, model, points
from classification.losses import cosent, matryoshka, soft_labels, splade
from common import errors, flags, run_settings
from serving import text_models
from test_classification_bi_encoder import in_batch, unit

VECTORS = np.random.RandomState(7).randn(5, 2, 8)
GOLD = tf.constant([0.1, 0.9, 0.5, 0.5, 0.2])


def of(losses, labels=GOLD):
  return losses(tf.constant(unit(VECTORS), tf.float32), labels).numpy()


def test_cosent_is_that_of_sentence_transformers():
  """The values are of sentence-transformers 6, with the same vectors v.

  losses.CoSENTLoss(model, scale)([{"x": v[:, 0]}, {"x": v[:, 1]}], gold)
  """
  for temperature, expected in ((0.05, 22.2353393), (0.2, 6.0143032)):
    values = of(cosent.make(None, "similarity", temperature))
    np.testing.assert_allclose(values, np.full(5, expected), rtol=1e-5)


def test_matryoshka_is_that_of_sentence_transformers():
  """As above, with MatryoshkaLoss(model, inner, dims)."""
  inner = cosent.make(None, "similarity", 0.05)
  values = of(matryoshka.make(inner, "similarity", ["8", "4", "2"]))
  np.testing.assert_allclose(values.mean(), 82.3876471, rtol=1e-5)

  def ranking(vectors, ids):
    return bi_encoder.in_batch_losses(vectors, ids, 0.05)

  ids = tf.reshape(tf.range(10), [5, 2])
  values = of(matryoshka.make(ranking, "retrieval", ["8", "3"]), ids)
  np.testing.assert_allclose(values.mean(), 30.1967347, rtol=1e-5)
  # By default, the whole vector, a half, a quarter and an eighth.
  parts = [VECTORS[..., :size] for size in (8, 4, 2, 1)]
  expected = sum(in_batch(np.float32(part), ids) for part in parts)
  values = of(matryoshka.make(ranking, "retrieval", []), ids)
  np.testing.assert_allclose(values, expected, rtol=1e-5)


def test_splade_is_that_of_sentence_transformers():
  """As above, with max(v, 0) and SpladeLoss(model, inner, 0.3, 0.1).

  inner = SparseMultipleNegativesRankingLoss(model, scale=1)
  """

  def ranking(vectors, ids):
    return bi_encoder.in_batch_losses(vectors, ids, 1.0)

  losses = splade.make(ranking, "retrieval", 0.1, 0.3)
  weights = tf.constant(np.maximum(VECTORS, 0), tf.float32)
  values = losses(weights, tf.reshape(tf.range(10), [5, 2])).numpy()
  np.testing.assert_allclose(values.mean(), 2.5338731, rtol=1e-6)
  np.testing.assert_allclose(splade.flops(weights[:, :1]), 1.3375413, rtol=1e-6)
  np.testing.assert_allclose(splade.flops(weights[:, 1:]), 1.8191895, rtol=1e-6)


@pytest.mark.parametrize("sizes", [["0"], ["x"], ["4", "9"]])
def test_sizes_that_no_vector_has(sizes):
  with pytest.raises(errors.InputError, match="--matryoshka_dims"):
    of(matryoshka.make(cosent.make(None, "", 1.0), "similarity", sizes))


def softmax(values):
  powers = np.exp(values - values.max(-1, keepdims=True))
  return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_soft_labels_are_a_teachers_logits(temperature):
  rng = np.random.RandomState(1)
  teacher, student = rng.randn(2, 4, 3).astype(np.float32)
  losses = soft_labels.make(
    None,
    "single",
    temperature,
    soft_label_columns=[],
    soft_labels_are_logits=False,
  )
  values = losses(tf.constant(student), tf.constant(softmax(teacher)))
  soft = softmax(teacher / temperature)
  logs = np.log(softmax(student / temperature))
  expected = -(soft * logs).sum(-1) * temperature**2
  np.testing.assert_allclose(values.numpy(), expected, rtol=1e-5)


def test_every_loss_is_a_name_and_fits_its_kinds():
  assert points.LOSSES.names() == (
    "cosent",
    "matryoshka",
    "soft_labels",
    "splade",
  )
  for name in points.LOSSES.names():
    values = {
      option: v for option, (v, _) in points.LOSSES.options(name).items()
    }
    settings = run_settings.Settings({"losses": [name], **values})
    kinds = points.LOSSES.load(name).KINDS
    for kind in data.KINDS:
      if kind in kinds:
        ((file, options),) = points.losses_of(settings, kind)
        assert callable(file.make(lambda *_: 0, kind, **options))
        continue
      with pytest.raises(errors.InputError) as raised:
        points.losses_of(settings, kind)
      assert f"--losses={name}" in str(raised.value)


@pytest.mark.parametrize(
  "names, compares",
  [
    (["matryoshka"], False),
    (["cosent"], True),
    (["cosent", "matryoshka"], True),
    (["matryoshka", "cosent"], True),
  ],
)
def test_a_network_compares_examples_if_one_of_its_losses_does(names, compares):
  network = types.SimpleNamespace(
    training_losses=None, task_kind="similarity", compares_examples=False
  )
  options = {
    "cosent": {"cosent_temperature": 1.0},
    "matryoshka": {"matryoshka_dims": ["4"]},
  }
  files = [(points.LOSSES.load(name), options[name]) for name in names]
  model.Network.train_with(network, files)
  assert network.compares_examples == compares
  assert network.training_losses


def test_what_the_docs_say_of_each_loss():
  """Its options with their defaults, and whether it compares examples."""
  compares, defaults = {}, {}
  for name in points.LOSSES.names():
    compares[name] = points.LOSSES.load(name).COMPARES
    for option, (default, *_) in points.LOSSES.options(name).items():
      defaults[option] = default
  assert [name for name in compares if compares[name]] == ["cosent", "splade"]
  assert defaults == {
    "cosent_temperature": 0.05,
    "matryoshka_dims": [],
    "soft_label_columns": [],
    "soft_labels_are_logits": False,
    "distillation_temperature": 1.0,
    "splade_query_weight": 5e-5,
    "splade_document_weight": 3e-5,
    "sparse_pooling": "max",
    "sparse_activation": "relu",
  }


def test_several_losses_may_be_named():
  with script_flags.defined("run_classifier"):
    values = flags.FLAGS
    values(["run_classifier.py", "--model_dir=m", "--losses=matryoshka,cosent"])
    assert values.losses == ["matryoshka", "cosent"]


@pytest.mark.parametrize("given, scale", [((), 1), (("temperature",), 4)])
def test_splade_scales_its_products_only_if_asked(given, scale):
  """--temperature has the default of cosines, which suits no products."""
  settings, task = vector_models.settings_and_task(
    "retrieval",
    temperature=0.25,
    sparse_pooling="max",
    sparse_activation="relu",
  )
  settings = run_settings.Settings(
    {name: settings.get(name) for name in settings}, given
  )
  network = splade.network(bi_encoder.Retriever)(
    settings, tiny_model.tiny(), task, seed=1
  )
  weights = tf.constant(np.maximum(VECTORS, 0), tf.float32)
  ids = tf.reshape(tf.range(10), [5, 2])
  np.testing.assert_allclose(
    network.example_losses(weights, ids),
    bi_encoder.in_batch_losses(weights, ids, 1 / scale),
    rtol=1e-6,
  )


SPARSE = pathlib.Path(__file__).parent / "golden/sentence_vectors/sparse"


def test_splade_learns_products_and_removes_weights():
  """200 steps of Adam (arXiv 1412.6980) on three pairs of one word each."""
  settings, task = vector_models.settings_and_task(
    "retrieval", temperature=1.0, sparse_pooling="max", sparse_activation="relu"
  )
  config = tiny_model.tiny(
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    initializer_range=0.2,
  )
  network = splade.network(bi_encoder.Retriever)(settings, config, task, seed=1)
  weights = {"splade_query_weight": 1e-3, "splade_document_weight": 1e-3}
  network.train_with([(splade, weights)])
  ids = tf.constant(
    [[[1, n, 2], [1, n + 1, 2]] for n in (3, 5, 7)]
  )  # [3, 2, 3]
  batch = {
    "input_ids": ids,
    "input_mask": tf.ones_like(ids),
    "segment_ids": tf.zeros_like(ids),
  }
  variables = network.trained_variables()
  moments = [[tf.zeros_like(v), tf.zeros_like(v)] for v in variables]

  @tf.function
  def gradients():
    with tf.GradientTape() as tape:
      losses = network.training_losses(network(batch), ids[..., 1])
    return tape.gradient(losses, variables)

  before = network(batch).numpy()
  for step in range(1, 201):
    found = [tf.convert_to_tensor(g) for g in gradients()]
    for variable, pair, gradient in zip(variables, moments, found):
      pair[0] = 0.9 * pair[0] + 0.1 * gradient
      pair[1] = 0.999 * pair[1] + 0.001 * gradient**2
      size = pair[0] / (1 - 0.9**step)
      variable.assign_sub(
        0.01 * size / (tf.sqrt(pair[1] / (1 - 0.999**step)) + 1e-8)
      )
  after = network(batch).numpy()
  products = after[:, 0] @ after[:, 1].T
  assert (products.argmax(1) == range(3)).all()
  assert products[~np.eye(3, dtype=bool)].max() < 0.2 * products.max()
  assert (after > 0).sum() < 0.6 * (before > 0).sum()


def test_a_splade_model_is_trained_and_read(tmp_path):
  """It starts from a masked language model, and is one of SparseEncoder."""
  texts = ["the ferry", "the keeper", "sundays"]
  lines = [f"{a},{b}" for a, b in zip(["river", "lamp", "winter"], texts)]
  (tmp_path / "train.csv").write_text("\n".join(["a,b", *lines]) + "\n")
  shared = {
    "task_kind": "retrieval",
    "text_column": "a",
    "text_b_column": "b",
    "max_seq_length": 8,
  }
  flags = {
    **shared,
    "do_train": True,
    "train_file": tmp_path / "train.csv",
    "model_dir": SPARSE,
    "losses": "splade",
  }
  script_runner.succeed(
    "run_classifier.py",
    do_eval=True,
    eval_file=tmp_path / "train.csv",
    output_dir=tmp_path / "run",
    train_batch_size=3,
    num_train_epochs=100,
    learning_rate=0.01,
    splade_document_weight=0.01,
    splade_query_weight=0.01,
    **flags,
  )
  trained = script_runner.results_in(tmp_path / "run")
  assert "eval_mrr" in trained
  folder = tmp_path / "run/final_model"
  evaluation = {
    **shared,
    "do_eval": True,
    "eval_file": tmp_path / "train.csv",
    "model_dir": folder,
  }
  script_runner.succeed(
    "run_classifier.py",
    output_dir=tmp_path / "again",
    losses="splade",
    eager=True,
    **evaluation,
  )
  again = script_runner.results_in(tmp_path / "again")
  assert again["eval_mrr"] == trained["eval_mrr"]
  script_runner.refuse(
    "run_classifier.py",
    "--losses",
    output_dir=tmp_path / "refused",
    **evaluation,
  )
  before, after = (
    text_models.load(each).embed_sparse(texts) for each in (SPARSE, folder)
  )
  assert sum(map(len, after)) < sum(map(len, before))
  modules = json.loads((folder / "modules.json").read_text())
  assert modules[1]["type"].endswith(".SpladePooling")
  encoder = json.loads((folder / "config.json").read_text())["architectures"]
  assert encoder == ["BertForMaskedLM"]
  script_runner.refuse(
    "run_classifier.py",
    "--losses=splade with the rule 'most'",
    sparse_pooling="most",
    output_dir=tmp_path / "other",
    **flags,
  )


@pytest.mark.parametrize("kind", [data.SINGLE, data.MULTI_LABEL])
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_only_probabilities_of_one_of_several_classes_have_a_loss(kind, dtype):
  logits, labels = tf.constant([[2.0, 0.0]]), tf.constant([[1, 0]], dtype)
  losses = soft_labels.make(lambda *_: "inner", kind, 2.0)(logits, labels)
  if kind == data.MULTI_LABEL or dtype == "int32":
    assert losses == "inner"
  else:  # The temperature 2: the logits are 1 and 0.
    expected = 4 * np.log1p(np.exp(-1))
    np.testing.assert_allclose(losses, [expected], rtol=1e-6)
