"""The texts that fill_mask.py reads, and the lines that it prints."""

import types

import pytest

import script_flags
from common import run_settings


@pytest.fixture(scope="module")
def fill_mask():
  return script_flags.functions("fill_mask")


def test_texts_come_from_flags_and_from_the_lines_of_a_file(
  fill_mask, tmp_path, monkeypatch
):
  lines = [("standard input:1", "typed")]
  monkeypatch.setattr(fill_mask.standard_input, "lines", lambda: lines)
  path = tmp_path / "a.txt"
  path.write_text("one\n\ntwo\n \n\n")
  found = list(fill_mask.texts_to_fill(["a", "-", "b"], str(path)))
  assert found == [
    ("--text", "a"),
    *lines,
    ("--text", "b"),
    # Empty lines count, except at the end.
    (f"{path}:1", "one"),
    (f"{path}:2", ""),
    (f"{path}:3", "two"),
  ]
  assert list(fill_mask.texts_to_fill(["a"], None)) == found[:1]


def test_each_mask_has_a_line(fill_mask):
  answer = {
    "fillings": [["sun", "moon"], ["is", "was"]],
    "probabilities": [[0.5, 0.25], [0.12345, 0.0]],
  }
  assert fill_mask.described("the [MASK]", answer, "<mask>") == (
    "the [MASK]\n"
    "  <mask> 1: sun 0.5000  moon 0.2500\n"
    "  <mask> 2: is 0.1235  was 0.0000"
  )


def test_a_text_is_scored_alone_and_a_pair_together(fill_mask, monkeypatch):
  checked = []
  monkeypatch.setattr(
    fill_mask.answers, "check_sentence", lambda *each: checked.append(each)
  )
  model = types.SimpleNamespace(
    tokenizer="words",
    max_seq_length=8,
    next_sentence=lambda pair: {
      "probability": 0.5 if pair == ("a", "b") else 0
    },
    likelihood=lambda text: {
      "perplexity": 2.5,
      "log_likelihood": -3.0,
      "tokens": text.split(),
    },
  )
  assert fill_mask.scored(model, "a ||| b", "x") == "0.500000\ta ||| b"
  assert not checked
  assert fill_mask.scored(model, "a b", "f:2") == "2.5000\t-3.0000\t2\ta b"
  assert checked == [("a b", "words", 8, "f:2")]


def test_only_given_flags_replace_what_the_folder_states(
  fill_mask, monkeypatch, capsys
):
  values = {
    "model_dir": "m",
    "text": ["a <m>"],
    "input_file": None,
    "score": False,
    "top_k": 2,
    "max_seq_length": 9,
    "do_lower_case": True,
  }
  settings = run_settings.Settings(values, {"text", "top_k", "max_seq_length"})
  loads, checks = [], []
  model = types.SimpleNamespace(
    tokenizer=types.SimpleNamespace(specials=types.SimpleNamespace(mask="<m>")),
    max_seq_length=9,
    fill_mask=lambda text, top_k: {
      "fillings": [["b", "c"][:top_k]],
      "probabilities": [[0.5, 0.25]],
    },
  )

  def load(folder, **options):
    loads.append((folder, options))
    return model

  names = fill_mask.main.__globals__
  monkeypatch.setitem(
    names, "flags", types.SimpleNamespace(read_settings=lambda: settings)
  )
  monkeypatch.setattr(fill_mask.text_models, "load", load)
  monkeypatch.setattr(
    fill_mask.answers, "check", lambda *each: checks.append(each)
  )
  fill_mask.main([])
  assert loads == [("m", {"max_seq_length": 9})]
  assert checks == [("a <m>", model.tokenizer, 9, "--text")]
  assert capsys.readouterr().out == "a <m>\n  <m> 1: b 0.5000  c 0.2500\n"
