"""Tests the losses of objectives against plain NumPy, token by token."""

import math

import numpy as np
import pytest
import tensorflow as tf

import modeling
import named_weights
import optimizers
import tiny_model
from checkpoints import model_writer
from common import errors
from pretraining.networks import next_word, token_dropping
from pretraining.networks.encoder import PretrainingModel
from pretraining.objectives import distillation, sentence_order, span_boundary

ROWS, LENGTH, PREDICTIONS = 2, 12, 7
CONFIG = tiny_model.tiny(
  hidden_act="gelu_erf",
  hidden_dropout_prob=0.0,
  attention_probs_dropout_prob=0.0,
)
# Two spans, one right after [CLS]; three masked tokens that are one span.
POSITIONS = [[1, 2, 5, 6, 7, 9, 0], [3, 4, 5, 0, 0, 0, 0]]
COUNTS = [6, 3]
# (row, left, right, place) of each masked token, by hand.
SPANS = [
  (0, 0, 3, 0),
  (0, 0, 3, 1),
  (0, 4, 8, 0),
  (0, 4, 8, 1),
  (0, 4, 8, 2),
  (0, 8, 10, 0),
  (1, 2, 6, 0),
  (1, 2, 6, 1),
  (1, 2, 6, 2),
]


def batch():
  weights = np.arange(PREDICTIONS) < np.array(COUNTS)[:, None]
  data = tiny_model.pretraining_batch(POSITIONS, weights, ROWS, LENGTH)
  return {**data, "input_mask": tf.ones_like(data["input_mask"])}


def mean_losses(model, data, seed=None):
  """Returns {name of a loss: its mean}, and the metrics' means."""
  goal = model.objective()
  denominators, (sums, metrics) = goal.denominators(data), goal.sums(data, seed)
  assert sums.keys() == denominators.keys()
  losses = {name: float(sums[name] / denominators[name]) for name in sums}
  return losses, {n: float(s / w) for n, (s, w) in metrics.items()}


@pytest.mark.parametrize(
  "names, counts, tokens",
  [
    # 1e-5 only where a batch may have no label.
    (["masked_lm", "next_sentence"], {"masked_lm": 1e-5}, "masked_lm"),
    (["next_sentence", "masked_lm"], {"masked_lm": 1e-5}, "masked_lm"),
    (["sentence_order"], {}, None),
    (["masked_lm"], {"masked_lm": 1e-5}, "masked_lm"),
  ],
)
def test_batches_without_masked_tokens_have_a_denominator(
  names, counts, tokens
):
  model = PretrainingModel(CONFIG, names, seed=1)
  data = {**batch(), "masked_lm_weights": tf.zeros([ROWS, PREDICTIONS])}
  found = model.objective().denominators(data)
  assert {name: float(value) for name, value in found.items()} == {
    name: np.float32(counts.get(name, ROWS)) for name in names
  }
  labels = model.token_labels()
  assert (labels and labels[0]) == tokens
  trained = {named_weights.variable_name(v) for v in model.trained_variables()}
  reads_pooled = names != ["masked_lm"]
  assert ("bert/pooler/dense/kernel" in trained) == reads_pooled


# Spans


def span_model():
  model = PretrainingModel(CONFIG, ["masked_lm", "span_boundary"], seed=1)
  # Biases and layer norms that are not 0 and 1, so that each one counts.
  rng = np.random.RandomState(2)
  for variable in model.objectives[1].variables:
    variable.assign_add(rng.normal(0, 0.3, variable.shape).astype(np.float32))
  return model


def test_spans_are_runs_of_masked_positions():
  spans = span_boundary.find_spans(batch())
  found = [
    (row, *(int(part[row, number]) for part in spans))
    for row, count in enumerate(COUNTS)
    for number in range(count)
  ]
  assert found == SPANS
  # Unused entries point into the sequence.
  assert all((part.numpy() >= 0).all() for part in spans)
  assert (spans.right.numpy() < LENGTH).all()


def numpy_span_loss(states, values, table, labels):
  """Returns the mean loss of the formula.

  Args:
    states: [B, T, H].
    values: {last parts of the name: array}.
    table: [V, H].
    labels: integers [number of SPANS].
  """

  def normalized_gelu(x, layer):
    x = x @ values[f"linear{layer}/kernel"] + values[f"linear{layer}/bias"]
    x = x * (1 + np.vectorize(math.erf)(x / np.sqrt(2))) / 2
    x = (x - x.mean()) / np.sqrt(x.var() + 1e-12)
    gamma = values[f"layer_norm{layer}/gamma"]
    return x * gamma + values[f"layer_norm{layer}/beta"]

  losses = []
  for (row, left, right, place), label in zip(SPANS, labels):
    place_vector = values["position_embeddings"][place]
    x = np.concatenate([states[row, left], states[row, right], place_vector])
    x = normalized_gelu(normalized_gelu(x, 1), 2)
    logits = table @ x + values["output_bias"]
    losses.append(np.log(np.exp(logits).sum()) - logits[label])
  return np.mean(losses)


def test_the_span_loss_is_that_of_the_formula():
  model, data = span_model(), batch()
  states = model.bert.encode(data).sequence_output.numpy().astype(np.float64)
  values = {
    named_weights.variable_name(v)
    .removeprefix("cls/pair_target_predictions/")
    .removeprefix("mlp_layer_norm/"): v.numpy()
    for v in model.objectives[1].variables
  }
  shapes = {name: value.shape for name, value in values.items()}
  assert shapes["position_embeddings"] == (20, 200) and len(shapes) == 10
  assert shapes["linear1/kernel"] == (2 * 16 + 200, 16)
  labels = [
    data["masked_lm_ids"].numpy()[row, number]
    for row, count in enumerate(COUNTS)
    for number in range(count)
  ]
  table = model.bert.word_embeddings.numpy().astype(np.float64)
  expected = numpy_span_loss(states, values, table, labels)
  losses, metrics = mean_losses(model, data)
  assert losses["span_boundary"] == pytest.approx(expected, rel=1e-5)
  assert {"loss", *metrics} == set(model.result_names())
  # The other loss is that of a model without the head.
  plain, _ = mean_losses(PretrainingModel(CONFIG, ["masked_lm"], seed=1), data)
  assert losses["masked_lm"] == pytest.approx(plain["masked_lm"], rel=1e-6)


def test_the_span_loss_reaches_its_variables_and_the_table():
  model, data = span_model(), batch()
  watched = [*model.objectives[1].variables, model.bert.word_embeddings]
  with tf.GradientTape() as tape:
    sums, _ = model.objective().sums(data, None)
  for variable, gradient in zip(
    watched, tape.gradient(sums["span_boundary"], watched)
  ):
    assert np.abs(tf.convert_to_tensor(gradient)).max() > 0, variable.name


def test_what_follows_the_twentieth_token_of_a_span_has_no_label():
  positions = tf.range(3, 28)[tf.newaxis]
  data = {
    "masked_lm_positions": positions,
    "masked_lm_ids": positions,
    "masked_lm_weights": tf.ones_like(positions, tf.float32),
  }
  head = span_boundary.make(CONFIG, modeling.BertModel(CONFIG), seed=1)
  _, weights = head.labels(data)
  assert weights.numpy().tolist() == [[1.0] * 20 + [0.0] * 5]


def test_the_sentences_order_is_read_like_the_next_sentence():
  data = batch()
  one, other = (
    mean_losses(PretrainingModel(CONFIG, [name], seed=1), data)[0]
    for name in ("next_sentence", "sentence_order")
  )
  assert one["next_sentence"] == other["sentence_order"]
  without = tiny_model.tiny()
  without.variant = "distilbert"
  with pytest.raises(errors.InputError, match="no next-sentence head"):
    sentence_order.check(without)


# Distillation

TEMPERATURE = 2.0
STUDENT = tiny_model.tiny(
  num_hidden_layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
  """The folder of a model with a masked-LM head, and the model."""
  model = PretrainingModel(tiny_model.tiny(), ["masked_lm"], seed=5)
  folder = str(tmp_path_factory.mktemp("teacher"))
  model_writer.write(folder, model.variables, model.config)
  return folder, model


def options(folder, weights="5,2,3"):
  return {
    "teacher_checkpoint": folder,
    "distillation_temperature": TEMPERATURE,
    "distillation_weights": weights.split(","),
  }


def make_student(folder, weights="5,2,3", config=STUDENT):
  return PretrainingModel(
    config, ["distillation"], {"distillation": options(folder, weights)}, seed=1
  )


def softmax(logits):
  powers = np.exp(logits - logits.max())
  return powers / powers.sum()


def states_and_logits(model, data):
  states = model.bert.encode(data).sequence_output
  logits = model.objectives[0](states, data["masked_lm_positions"])
  return states.numpy(), logits.numpy()


def numpy_distillation(data, student, teacher):
  """Returns the means of soft targets and cosines, token by token."""
  our_states, ours = states_and_logits(student, data)
  their_states, theirs = states_and_logits(teacher, data)
  soft, cosines = [], []
  for row in range(ROWS):
    for number in range(COUNTS[row]):
      p, q = (
        softmax(logits[row, number].astype(np.float64) / TEMPERATURE)
        for logits in (ours, theirs)
      )
      soft.append(TEMPERATURE**2 * np.sum(q * np.log(q / p)))
    for position in range(LENGTH):
      if data["input_mask"][row, position]:
        a, b = our_states[row, position], their_states[row, position]
        cosines.append(1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b))
  return np.mean(soft), np.mean(cosines)


def test_distillation_is_the_weighted_sum(teacher):
  folder, model = teacher
  student, data = make_student(folder), batch()
  soft, cosine = numpy_distillation(data, student, model)
  plain = PretrainingModel(STUDENT, ["masked_lm"], seed=1)
  hard = mean_losses(plain, data)[0]["masked_lm"]
  losses, metrics = mean_losses(student, data, [1, 2])
  assert losses == {
    "masked_lm": pytest.approx(5 * soft + 2 * hard, rel=1e-4),
    "states": pytest.approx(3 * cosine, rel=1e-4),
  }
  assert metrics["masked_lm_soft_loss"] == pytest.approx(soft, rel=1e-4)
  assert metrics["masked_lm_loss"] == pytest.approx(hard, rel=1e-5)
  assert metrics["states_loss"] == pytest.approx(cosine, rel=1e-4)


def test_a_teacher_encodes_a_batch_once(teacher, monkeypatch):
  made = distillation.Teacher(teacher[0], seed=1)
  encoded = []
  encode = made._encoder.encode
  monkeypatch.setattr(
    made._encoder, "encode", lambda data: encoded.append(1) or encode(data)
  )
  data, other = batch(), batch()
  other["input_ids"] = (other["input_ids"] + 1) % CONFIG.vocab_size
  logits, states = made.outputs(data)
  assert made.outputs(data)[0] is logits and len(encoded) == 1
  assert not np.allclose(made.outputs(other)[1], states)
  assert np.allclose(made.outputs(data)[1], states)


def test_only_the_student_learns_and_is_saved(teacher):
  student = make_student(teacher[0])
  plain = PretrainingModel(STUDENT, ["masked_lm"], seed=1)
  trained = student.trained_variables()
  names = [named_weights.variable_name(v) for v in student.variables]
  assert names == [named_weights.variable_name(v) for v in plain.variables]
  with tf.GradientTape(watch_accessed_variables=False) as tape:
    tape.watch(trained)
    total = tf.add_n(student.objective().sums(batch(), [1, 2])[0].values())
  assert all(gradient is not None for gradient in tape.gradient(total, trained))


def test_a_teacher_that_does_not_fit_is_refused(teacher, tmp_path):
  folder, _ = teacher
  narrow = tiny_model.tiny(hidden_size=8)
  with pytest.raises(errors.InputError, match="0 as the last of"):
    distillation.check(narrow, **options(folder))
  distillation.check(narrow, **options(folder, "5,2,0"))
  student = make_student(folder, "5,2,0", narrow)
  assert [each.name for each in student.objectives] == ["masked_lm"]
  positions = tiny_model.tiny().max_position_embeddings
  for changes, reason in (
    ({"vocab_size": 31}, "has vocab_size 30"),
    ({"max_position_embeddings": positions + 1}, f"has {positions} positions"),
  ):
    with pytest.raises(errors.InputError, match=reason):
      distillation.check(tiny_model.tiny(**changes), **options(folder))
  shorter = tiny_model.tiny(max_position_embeddings=positions - 1)
  distillation.check(shorter, **options(folder))
  for temperature in (0.0, -1.0):
    cold = {**options(folder), "distillation_temperature": temperature}
    with pytest.raises(errors.InputError, match=f"={temperature}: expected"):
      distillation.check(STUDENT, **cold)
  for wrong, reason in (
    (None, "needs --teacher_chec"),
    ("x", "no such folder"),
  ):
    with pytest.raises(errors.InputError, match=reason):
      distillation.check(STUDENT, **options(wrong))
  headless = str(tmp_path / "headless")
  encoder = modeling.BertModel(CONFIG)
  model_writer.write(headless, encoder.variables, CONFIG)
  with pytest.raises(errors.InputError, match="cls/predictions/"):
    make_student(headless)


@pytest.mark.parametrize(
  "weights", ["1,2", "0,1,0", "1,x,1", "1,-1,1", "nan,1,1", "1,inf,1"]
)
def test_wrong_weights_are_refused(weights):
  with pytest.raises(errors.InputError, match=f"weights={weights}: expected"):
    distillation.parse_weights(weights.split(","))


# Learning


def learned(model, data, num_steps=60):
  """Returns {name of a loss: (its mean before, and after some steps)}."""
  goal, trained = model.objective(), model.trained_variables()
  optimizer = optimizers.make_optimizer("adamw", jit_compile=False)

  @tf.function
  def step(number):
    denominators = goal.denominators(data)
    with tf.GradientTape() as tape:
      sums, _ = goal.sums(data, tf.stack([1, number]))
      loss = tf.add_n([sums[name] / denominators[name] for name in sums])
    optimizer.apply_gradients(
      tape.gradient(loss, trained), trained, learning_rate=0.01, step=number
    )

  before, _ = mean_losses(model, data)
  optimizer.create_slots(trained)
  for number in range(1, num_steps + 1):
    step(tf.constant(number))
  after, _ = mean_losses(model, data)
  return {name: (before[name], after[name]) for name in before}


@pytest.mark.parametrize(
  "names",
  [
    ["masked_lm", "next_sentence"],
    ["masked_lm", "span_boundary"],
    ["masked_lm", "sentence_order"],
  ],
  ids="-".join,
)
def test_objectives_learn_together(names):
  model = PretrainingModel(CONFIG, names, seed=1)
  for name, (before, after) in learned(model, batch()).items():
    assert after < 0.2 * before, name


def test_a_student_learns_from_its_teacher(teacher):
  student = make_student(teacher[0], "5,0,3")
  for name, (before, after) in learned(student, batch()).items():
    assert after < 0.5 * before, name


def test_the_networks_learn():
  networks = {
    "next_word": next_word.NextWordModel(CONFIG, seed=1),
    "token_dropping": token_dropping.TokenDroppingModel(
      tiny_model.tiny(num_hidden_layers=4), ["masked_lm"], seed=1
    ),
  }
  for network, model in networks.items():
    for name, (before, after) in learned(model, batch()).items():
      assert after < 0.5 * before, (network, name)
