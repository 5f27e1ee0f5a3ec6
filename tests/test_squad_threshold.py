"""Where a null threshold comes from and where it is kept."""

import json

import pytest

import errors
import squad_answers
import squad_data
import squad_threshold


def found(folder, weights=""):
  """Finds a threshold between two questions and stores it."""
  questions = [
    squad_data.Question("a", "?", [], answers=("x",)),
    squad_data.Question("b", "?", []),
  ]
  answers = [
    squad_answers.Answer("a", "", [], "x", null_odds=1.5),
    squad_answers.Answer("b", "", [], "y", null_odds=2.5),
  ]
  threshold = squad_threshold.NullThreshold("auto", weights=weights)
  assert threshold.is_auto and threshold.value is None
  threshold.find(
    squad_data.SquadFile("dev.json", questions, True, []), answers
  )
  threshold.write(str(folder))
  return threshold.value


def test_the_value_with_the_best_f1_is_stored_with_the_model(tmp_path):
  value = found(tmp_path)
  assert 1.5 <= value < 2.5
  stored = json.loads((tmp_path / "null_threshold.json").read_text())
  assert stored == {
    "null_score_diff_threshold": value, "found_on": "dev.json", "weights": ""
  }
  folders = [str(tmp_path / "other"), str(tmp_path)]
  for text in (None, "auto"):
    assert squad_threshold.NullThreshold(text, folders).value == value


def test_what_the_user_says_comes_first(tmp_path):
  found(tmp_path)
  threshold = squad_threshold.NullThreshold("-3.5", [str(tmp_path)])
  assert threshold.value == -3.5 and not threshold.is_auto


def test_without_a_word_and_a_file_it_is_the_originals(tmp_path):
  assert squad_threshold.NullThreshold(None, [str(tmp_path)]).value == 0.0
  assert squad_threshold.NullThreshold("auto", [str(tmp_path)]).value is None


def test_a_threshold_belongs_to_the_weights_it_was_found_with(tmp_path):
  value = found(tmp_path, weights="a.ckpt")
  folders = [str(tmp_path)]
  same = squad_threshold.NullThreshold(None, folders, "a.ckpt")
  other = squad_threshold.NullThreshold(None, folders, "b.ckpt")
  assert (same.value, other.value) == (value, 0.0)


def test_one_that_was_not_found_is_not_stored(tmp_path):
  squad_threshold.NullThreshold("1").write(str(tmp_path))
  assert not list(tmp_path.iterdir())


def test_training_on_forgets_it(tmp_path):
  found(tmp_path)
  squad_threshold.forget(str(tmp_path))
  squad_threshold.forget(str(tmp_path))
  assert not list(tmp_path.iterdir())


def test_what_is_no_number_is_refused(tmp_path):
  with pytest.raises(errors.InputError, match="=high: expected a number or"):
    squad_threshold.NullThreshold("high")
  (tmp_path / "null_threshold.json").write_text(
    '{"null_score_diff_threshold": "x"}'
  )
  with pytest.raises(errors.InputError, match="is 'x', expected a number"):
    squad_threshold.NullThreshold(None, [str(tmp_path)])
