"""step_speed.py and our_steps.py: batches, operations, steps, contenders."""

import argparse

import numpy as np
import pytest

import our_steps
import step_speed
import table_work

TINY = {
  "vocab_size": 50,
  "hidden_size": 8,
  "num_hidden_layers": 1,
  "num_attention_heads": 2,
  "intermediate_size": 16,
  "type_vocab_size": 2,
  "max_position_embeddings": 16,
}


def test_a_masked_words_label_is_the_token_at_its_position():
  batch = step_speed.Work("pretrain", "float32", 3, 16, 4, TINY).batch()
  tokens = np.take_along_axis(batch.input_ids, batch.masked_lm_positions, 1)
  np.testing.assert_array_equal(tokens, batch.masked_lm_ids)
  for positions in batch.masked_lm_positions:  # Strictly ascending.
    assert (np.diff(positions) > 0).all()


def test_flop_count_by_hand():
  # Multiply-adds (2 operations) per token: 4 · 8 · 8 for query, key, value and
  # output; 2 · 8 · 16 for feed-forward. Attention: 2 products of 16 · 16 · 8.
  layer = 2 * 16 * (4 * 64 + 2 * 128) + 2 * 2 * 16 * 16 * 8
  predict = step_speed.Work("predict", "float32", 1, 16, values=TINY)
  assert predict.flop() == layer
  # The head of 4 positions: dense 8 · 8, vocabulary 8 · 50.
  pretrain = predict._replace(method="pretrain", predictions=4)
  assert pretrain.flop() == 3 * (layer + 2 * 4 * (64 + 400))


@pytest.mark.parametrize(
  "compiled", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_our_steps_train(compiled):
  options = dict(dtype="float32", compiled=compiled)
  classifier = our_steps.Classifier(TINY, **options)
  pretraining = our_steps.Pretraining(TINY, **options)
  for contender, method, predictions in (
    (classifier, "train", 0),
    (classifier, "predict", 0),
    (pretraining, "pretrain", 3),
  ):
    sizes = 4, 16, predictions
    batch = step_speed.Work(method, "float32", *sizes, TINY).batch()
    before = [variable.numpy() for variable in contender._variables]
    getattr(contender, method)(batch)
    contender.wait()
    after = [variable.numpy() for variable in contender._variables]
    changed = [np.any(a != b) for a, b in zip(before, after, strict=True)]
    assert any(changed) == (method != "predict")


def test_which_contenders_take_part():
  predict = step_speed.Work("predict", "float32", 8, 128)
  # In prediction, torch.compile takes part even without compiled peers.
  for method, takes_part in (("predict", True), ("train", False)):
    work = predict._replace(method=method)
    names = step_speed.contenders(work, compiled=False)
    assert ("Hugging Face, torch.compile" in names) == takes_part
  # ONNX Runtime has no bfloat16. With bfloat16, torch uses oneDNN by default,
  # so oneDNN is no separate contender.
  in_float32, in_bfloat16 = (
    {*step_speed.contenders(predict._replace(dtype=dtype), compiled=True)}
    for dtype in ("float32", "bfloat16")
  )
  assert in_float32 - in_bfloat16 == {"ONNX Runtime", "Hugging Face, oneDNN"}
  assert "OpenVINO" in in_bfloat16


@pytest.mark.slow
def test_each_contender_runs_in_its_own_process(tmp_path, monkeypatch):
  monkeypatch.setattr(step_speed, "contenders", lambda work, compiled: ["here"])
  options = argparse.Namespace(
    peer_python="no/python", rounds=1, compiled_peers=False
  )
  values = {**step_speed.BASE, "num_hidden_layers": 1}
  sizes = "predict", 1, 16, 0, values
  monkeypatch.setitem(table_work._STEPS, "train8", sizes)
  works = {work.name: work for work in table_work.all_works()}
  step = works["step/train8/float32"]
  results = step.turn(options, tmp_path)["here"]
  assert results["examples_per_second"] > 0 and 0 < results["share"] < 2
