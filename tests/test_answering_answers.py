"""Tests the settings of an export, cut texts and the form of an answer."""

import json

import numpy as np
import pytest

import tiny_model
import tokenization
from answering import answers, export_options
from checkpoints import sentence_prompts
from common import errors, run_settings
from message_facts import says
from squad import answers as squad_answers
from text import cut_texts


@pytest.mark.parametrize(
  "head, limit, noun",
  [
    ("span", 5, "questions"),
    ("tagging", 7, "words"),
    ("classification", 9, "texts"),
    ("embedding", 9, "texts"),
  ],
)
def test_what_is_counted_as_cut(head, limit, noun, caplog):
  lengths = {"max_seq_length": 9, "max_query_length": 5}
  cut = answers.counter_of(run_settings.Settings({"head": head, **lengths}))
  cut.add(1, 3)
  cut.log()
  (message,) = caplog.messages
  assert message.startswith(f"1 of 3 {noun} are longer than {limit} tokens")


CONTEXT = "It was in  Bath."


@pytest.mark.parametrize(
  "null_odds, text, expected",
  [
    # Without null odds, every question has an answer.
    (None, "empty", ("Bath", 11, 15)),
    (-2.0, "Bath", ("Bath", 11, 15)),
    (2.0, "", ("", 0, 0)),
  ],
)
def test_an_answer_has_its_place_in_the_context(null_odds, text, expected):
  best = squad_answers.Answer(
    "q", text, [], "Bath", null_odds, 1.5, {"Bath": (10, 14)}, -0.5
  )
  result = answers._described_span(best, ("where", CONTEXT), 0)
  assert (result["answer"], result["start"], result["end"]) == expected
  assert (result["score"], result["null_score"]) == (1.5, -0.5)
  assert "candidates" not in result
  assert "candidates" in answers._described_span(best, ("where", CONTEXT), 1)


def test_a_missing_answer_has_a_finite_score():
  none = squad_answers.Answer("q", "", [], "", 0.0, None)
  result = answers._described_span(none, ("where", CONTEXT), 0)
  assert (result["answer"], result["start"], result["end"]) == ("", 0, 0)
  assert result["score"] == -1e9


def write(folder, head, **values):
  """Writes the settings of an export; returns (their path, the vocabulary)."""
  path = folder / "answers.json"
  vocab_file = tiny_model.write_vocabulary(folder)
  settings = run_settings.Settings(
    {
      **export_options.DEFAULTS,
      "head": head,
      "vocab_file": vocab_file,
      "labels": ("a", "b"),
      **values,
    }
  )
  prompts = sentence_prompts.Prompts({"q": "query: "})
  answers.write_settings(str(path), settings, ["text"], prompts)
  return path, vocab_file


@pytest.mark.parametrize(
  "head, has_prompts",
  [("embedding", True), ("sparse", True), ("classification", False)],
)
def test_settings_and_prompts_are_read_back(tmp_path, head, has_prompts):
  path, vocab_file = write(tmp_path, head, max_seq_length=9, prompt="x: ")
  settings, texts = answers.read_settings(str(path), vocab_file)
  assert texts == ["text"] and settings.labels == ("a", "b")
  assert settings.vocab_file == vocab_file
  assert (settings.head, settings.max_seq_length) == (head, 9)
  prompts = sentence_prompts.read(str(tmp_path))
  expected = {"q": "query: ", "default": "x: "} if has_prompts else {}
  assert (prompts.by_name, prompts.default) == (
    expected,
    expected.get("default", ""),
  )


def test_an_export_of_an_earlier_version_gets_defaults(tmp_path):
  path, vocab_file = write(tmp_path, "span", n_best_size=7)
  values = json.loads(path.read_text())
  del values["settings"]["max_answer_length"], values["text_rules"]
  path.write_text(json.dumps(values))
  settings, _ = answers.read_settings(str(path), vocab_file)
  assert (settings.max_answer_length, settings.n_best_size) == (30, 7)
  assert settings.text_rules == {}


@pytest.mark.parametrize(
  "name, value",
  [
    ("settings", [1]),
    ("labels", "ab"),
    ("labels", [1]),
    ("text_inputs", None),
    ("text_rules", 3),
  ],
)
def test_damaged_settings_are_named(tmp_path, name, value):
  path, vocab_file = write(tmp_path, "span")
  values = json.loads(path.read_text())
  path.write_text(json.dumps({**values, name: value}))
  with pytest.raises(errors.InputError, match=says("answers.json", name)):
    answers.read_settings(str(path), vocab_file)


@pytest.mark.parametrize(
  "head, rows, number",
  [
    ("classification", [("a",), (" ",)], "1"),
    ("next_sentence", [("a", "b"), ("c", "d"), ("e", "")], "2"),
    ("masked_lm", [("a [MASK]",), ("b",)], "1"),
    ("embedding", [("",)], None),
    ("sparse", [("",)], None),
    ("masked_lm", [("a [MASK]",)], None),
    ("tagging", [("b",)], None),
  ],
)
def test_texts_without_words_or_a_mask_are_refused(head, rows, number):
  if number is None:
    answers.check(head, rows, "[MASK]")
    return
  with pytest.raises(errors.InputError, match=says("text", number)):
    answers.check(head, rows, "[MASK]")


def test_a_server_says_at_most_once_a_minute_how_many_texts_it_cut(
  tmp_path, monkeypatch, caplog
):
  times = [1000.0, 1060.0 - 2**-10, 1060.0]
  monkeypatch.setattr(cut_texts.time, "monotonic", iter(times).__next__)
  settings = run_settings.Settings(
    {**export_options.DEFAULTS, "head": "embedding", "max_seq_length": 4}
  )
  tokenizer = tokenization.FullTokenizer(tiny_model.write_vocabulary(tmp_path))
  served = answers.Served(
    "",
    settings,
    ["text"],
    tokenizer,
    lambda input_ids, **_: {"embedding": input_ids[:, :2].astype(np.float32)},
    8,
  )
  answer = served.answerer()
  for _ in times:
    rows = answer([("w1 w2 w3",), ("w1 w2",)])
    # [CLS] and the first word.
    assert rows == [{"embedding": [2.0, 6.0]}] * 2
  assert [line.split(" are ")[0] for line in caplog.messages] == [
    "1 of 2 texts",
    "2 of 4 texts",
  ]
