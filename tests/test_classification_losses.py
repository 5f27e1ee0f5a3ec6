"""The files of classification/losses, compared with other programs."""

import numpy as np
import pytest
import tensorflow as tf

from classification import bi_encoder, data, points
from classification.losses import cosent, matryoshka, soft_labels
from common import errors, run_settings
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
  assert points.LOSSES.names() == ("cosent", "matryoshka", "soft_labels")
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
