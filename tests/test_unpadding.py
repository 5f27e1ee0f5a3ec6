"""Tests that skipping padding does not change the outputs of tokens."""

import numpy as np
import pytest
import tensorflow as tf

from encoder_cases import SHAPES, Case, check_same, check_same_step
from tiny_model import assert_close


# One shape is enough to test recomputation, which works on whole layers.
@pytest.mark.parametrize(
  "number, recompute",
  [*((number, False) for number in range(len(SHAPES))), (1, True)],
)
@pytest.mark.parametrize("is_partial", [False, True])
def test_skipping_padding_changes_no_output(number, is_partial, recompute):
  padded = Case(number)
  tokens = Case(number, skip_padding=True, recompute_activations=recompute)
  check_same_step(tokens.step(is_partial), padded.step(is_partial))
  output, expected = tokens.model(*tokens.batch), padded.model(*padded.batch)
  is_token = np.array(padded.mask, bool)
  is_token |= ~is_token.any(axis=1, keepdims=True)
  for states, expected_states in zip(
    [output.embedding_output, *output.all_encoder_layers],
    [expected.embedding_output, *expected.all_encoder_layers],
  ):
    mask = is_token[..., np.newaxis]
    check_same(states * mask, expected_states * mask)
    # [CLS] is computed even if it is masked.
    assert not states.numpy()[:, 1:][~is_token[:, 1:]].any()
  # This includes the empty row, which attends everywhere, as in the original.
  check_same(output.pooled_output, expected.pooled_output)


@pytest.mark.parametrize("is_partial", [False, True])
def test_matrix_products_for_a_tpu_give_the_same_outputs(is_partial):
  case = Case(1, is_for_tpu=True, use_one_hot_embeddings=True)
  check_same_step(case.step(is_partial), Case(1).step(is_partial))


def test_a_masked_first_token_is_computed():
  case, mask = Case(2, skip_padding=True), np.ones([5, 12], np.int32)
  mask[:3, [0, 4]] = 0
  pooled = case.model(case.batch[0], mask).pooled_output
  expected = Case(2).model(case.batch[0], mask).pooled_output
  assert_close(pooled, expected)


def test_embedding_gradients_have_the_norm_of_the_padded_batch():
  norms = []
  for skip_padding in (False, True):
    case = Case(1, skip_padding=skip_padding)
    with tf.GradientTape() as tape:
      loss = tf.reduce_sum(case.model(*case.batch).pooled_output)
    gradients = tape.gradient(loss, case.model.variables[:3])
    # The position table's gradient is dense: its rows are already summed.
    assert [isinstance(g, tf.IndexedSlices) for g in gradients] == [
      True,
      False,
      False,
    ]
    norms.append([tf.norm(getattr(g, "values", g)) for g in gradients])
  np.testing.assert_allclose(norms[0], norms[1], rtol=1e-5)
