"""Tests how a null threshold is found, stored and read."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf

from checkpoints import weight_files
from common import errors
from message_facts import says
from squad import answers, data, null_threshold

FILE = null_threshold.FILE


def head(value=0.5):
  return {
    "cls/squad/output_weights": np.full([2, 4], value, np.float32),
    "cls/squad/output_bias": np.zeros([2], np.float32),
  }


def threshold_of(weights="a", path="dev.json"):
  """Returns the threshold that is best for two questions."""
  questions = [
    data.Question("a", "?", [], answers=("x",)),
    data.Question("b", "?", []),
  ]
  predictions = [
    answers.Answer("a", "", [], "x", null_odds=1.5),
    answers.Answer("b", "", [], "y", null_odds=2.5),
  ]
  current_weights = weights if callable(weights) else lambda: weights
  threshold = null_threshold.NullThreshold("auto", current_weights)
  assert threshold.is_auto and threshold.value == 0.0
  threshold.find(data.SquadFile(path, questions, True, []), predictions)
  return threshold


def looked_up(weights, *folders, text=None):
  threshold = null_threshold.NullThreshold(text, lambda: weights)
  threshold.look_up([str(folder) for folder in folders])
  return threshold.value


def test_the_value_with_the_best_f1_is_stored_with_the_model(tmp_path, caplog):
  caplog.set_level("INFO", logger="absl")
  threshold = threshold_of()
  assert 1.5 <= threshold.value < 2.5
  threshold.write(str(tmp_path))
  assert json.loads((tmp_path / FILE).read_text()) == {
    "null_score_diff_threshold": threshold.value,
    "found_on": "dev.json",
    "weights": "a",
  }
  flag = "null_score_diff_threshold"
  found, stored = caplog.messages
  assert found.startswith("best F1 on ") and found.endswith(
    f"dev.json with --{flag}={threshold.value}"
  )
  assert stored == f"stored {flag} = {threshold.value} in {tmp_path / FILE}"
  assert looked_up("a", tmp_path / "other", tmp_path) == threshold.value
  assert caplog.messages[2:] == [
    f"{flag} = {threshold.value}, as stored in {tmp_path / FILE}"
  ]


def test_a_threshold_that_answers_no_question_is_reported(caplog):
  caplog.set_level("WARNING")
  threshold_of()
  assert not caplog.text
  threshold = null_threshold.NullThreshold("auto", lambda: "a")
  questions = [data.Question("a", "?", [])]
  predictions = [answers.Answer("a", "", [], "x", null_odds=1.5)]
  threshold.find(data.SquadFile("d.json", questions, True, []), predictions)
  assert re.search(says("d.json", "no"), caplog.text)


def test_a_threshold_belongs_to_the_weights_it_was_found_with(tmp_path, caplog):
  caplog.set_level("WARNING")
  threshold_of().write(str(tmp_path))
  assert looked_up("b", tmp_path) == 0.0
  assert "which belongs to different weights" in caplog.text


def test_the_users_value_comes_first(tmp_path):
  assert looked_up("a", tmp_path) == 0.0
  threshold_of().write(str(tmp_path))
  assert looked_up("a", tmp_path, text="-3.5") == -3.5
  assert looked_up("a", tmp_path, text="auto") == 0.0  # Not found yet.
  assert not null_threshold.NullThreshold("-3.5", None).is_auto
  (tmp_path / FILE).write_text(
    '{"null_score_diff_threshold": -2, "weights": "a"}'
  )
  assert looked_up("a", tmp_path) == -2.0


def test_a_folder_with_new_weights_loses_the_old_threshold(tmp_path):
  threshold_of("old").write(str(tmp_path))
  threshold = null_threshold.NullThreshold("1", lambda: "old")
  threshold.write(str(tmp_path))  # The stored value stays.
  assert looked_up("old", tmp_path) > 0
  null_threshold.NullThreshold("1", lambda: "new").write(str(tmp_path))
  assert not list(tmp_path.iterdir())
  (tmp_path / FILE).write_text("damaged")
  null_threshold.NullThreshold("1", lambda: "new").write(str(tmp_path))
  assert not list(tmp_path.iterdir())


def test_further_training_removes_the_threshold(tmp_path):
  threshold_of(iter(["step 20", "step 40"]).__next__).write(str(tmp_path))
  assert not list(tmp_path.iterdir())
  threshold_of().write(str(tmp_path))
  null_threshold.forget(str(tmp_path))
  null_threshold.forget(str(tmp_path))
  assert not list(tmp_path.iterdir())


def test_weights_are_identified_by_their_values(tmp_path):
  digest = null_threshold.digest(head())
  prefix = str(tmp_path / "a" / "bert_model.ckpt")
  weight_files.write_tf1(prefix, {**head(), "bert/other": np.zeros(3)})
  for path in (prefix, f"{prefix}.index", f"{tmp_path}/a", f"{tmp_path}/./a/"):
    assert null_threshold.digest_of_checkpoint(path) == digest
    folder = null_threshold.folder_of(path)
    assert (tmp_path / folder).resolve() == tmp_path / "a"
    assert null_threshold.of_checkpoint(path) == 0.0
  assert null_threshold.folder_of("model.ckpt") == "."
  threshold_of(digest).write(str(tmp_path / "a"))
  assert null_threshold.of_checkpoint(prefix) == threshold_of().value
  variables = [tf.Variable(value, name=name) for name, value in head().items()]
  assert null_threshold.digest_of_variables(variables) == digest
  variables[1].assign([0.0, 1e-9])
  assert null_threshold.digest_of_variables(variables) != digest
  weight_files.write_tf1(prefix, {"bert/other": np.zeros(3)})
  assert null_threshold.digest_of_checkpoint(prefix) is None


def test_a_threshold_is_stored_next_to_an_evaluated_model(tmp_path):
  model = tmp_path / "model"
  weight_files.write_tf1(str(model / "bert_model.ckpt"), head())
  threshold = threshold_of(null_threshold.digest(head()))
  threshold.write_next_to(str(model))
  assert not (model / FILE).exists()  # It has no bert_config.json.
  (model / "bert_config.json").write_text("{}")
  threshold_of(null_threshold.digest(head(2.0))).write_next_to(str(model))
  assert not (model / FILE).exists()
  threshold.write_next_to(str(model))
  assert (model / FILE).exists()


def test_a_folder_without_a_checkpoint_is_only_reported(tmp_path, caplog):
  caplog.set_level("WARNING")
  (tmp_path / "bert_config.json").write_text("{}")
  threshold_of().write_next_to(str(tmp_path))
  assert "is not stored in" in caplog.text


def test_a_file_may_have_any_name(tmp_path):
  threshold_of(path="/data/d\udce9v.json").write(str(tmp_path))
  stored = json.loads((tmp_path / FILE).read_text("utf-8"))
  assert stored["found_on"] == "d\ufffdv.json"


def test_other_values_than_numbers_are_refused(tmp_path):
  for text in ("high", "nan", ""):
    with pytest.raises(errors.InputError, match=f"={text}: expected a number"):
      null_threshold.NullThreshold(text, None)
  for value in ('"x"', "true", "NaN", "null"):
    (tmp_path / FILE).write_text(
      f'{{"null_score_diff_threshold": {value}, "weights": "a"}}'
    )
    with pytest.raises(errors.InputError, match="expected a number"):
      looked_up("a", tmp_path)
