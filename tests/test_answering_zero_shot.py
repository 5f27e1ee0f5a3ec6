"""Compares zero_shot.py with transformers' pipeline, in every way of asking."""

import asyncio
import json

import numpy as np
import pytest

import script_runner
import served
from answering import zero_shot
from common import errors
from serving import text_models

GOLDEN = script_runner.ROOT / "tests" / "golden" / "zero_shot"
EXPECTED = json.loads((GOLDEN / "results.json").read_text(encoding="utf-8"))
TEXTS, CASES = EXPECTED["texts"], EXPECTED["cases"]


@pytest.fixture(scope="module")
def model():
  return text_models.load(GOLDEN / "model")


@pytest.mark.parametrize("case", CASES)
def test_the_scores_are_those_of_transformers(model, case):
  options = {n: value for n, value in case.items() if n != "results"}
  answers = model.classify(TEXTS, **options)
  single = model.classify(TEXTS[0], **options)
  np.testing.assert_allclose(
    single["probabilities"], answers[0]["probabilities"], atol=1e-6
  )
  for answer, expected in zip(answers, case["results"], strict=True):
    assert answer["labels"] == case["labels"]
    scores = dict(zip(expected["labels"], expected["scores"]))
    np.testing.assert_allclose(
      answer["probabilities"], [scores[n] for n in case["labels"]], atol=1e-5
    )
    assert ("label" in answer) != case["multi_label"]
    if "label" in answer:
      assert answer["label"] == expected["labels"][0]
      assert answer["probability"] == max(answer["probabilities"])


def test_the_server_answers_in_the_form_of_the_pipeline(model):
  hosted = model.servable()

  async def main():
    async with served.asking(hosted) as ask:
      for case in CASES:
        results, labels = case["results"], case["labels"]
        options = {n: case[n] for n in ("multi_label", "hypothesis_template")}
        for path in ("/zero-shot", "m:classify"):
          status, answers = await ask(
            path,
            {
              "inputs": TEXTS,
              "parameters": {"candidate_labels": labels, **options},
            },
          )
          assert status == 200, answers
          for answer, expected in zip(answers, results, strict=True):
            assert answer["sequence"] == expected["sequence"]
            assert answer["labels"] == expected["labels"]
            np.testing.assert_allclose(
              answer["scores"], expected["scores"], atol=1e-5
            )
      status, answer = await ask(
        "/zero-shot",
        {"inputs": "a man", "parameters": {"candidate_labels": "gold, man"}},
      )
      assert status == 200 and sorted(answer["labels"]) == ["gold", "man"]
      for body, fact in (
        ({"inputs": "a"}, "parameters"),
        ({"inputs": "a", "parameters": {}}, "labels"),
        ({"inputs": " ", "parameters": {"candidate_labels": "b"}}, "empty"),
        ({"inputs": "a", "parameters": {"candidate_labels": [1]}}, "[1]"),
        ({"inputs": "a", "parameters": {"top_k": 1}}, "top_k"),
        (
          {
            "inputs": "a",
            "parameters": {"candidate_labels": "b", "multi_label": 1},
          },
          "multi_label",
        ),
      ):
        status, answer = await ask("/zero-shot", body)
        assert status == 400 and fact in answer["error"], answer

  asyncio.run(main())


@pytest.mark.parametrize(
  "options, fact",
  [
    ({"labels": []}, "labels"),
    ({"labels": "man"}, "'man'"),
    ({"labels": ["man", ""]}, "['man', '']"),
    ({"labels": ["a"], "hypothesis_template": 5}, "hypothesis_template is 5"),
    ({"labels": ["a"], "hypothesis_template": "no place"}, "no place"),
    ({"labels": ["a"], "hypothesis_template": "{} {}"}, "{} {}"),
    ({"labels": ["a"], "multi_label": "yes"}, "'yes'"),
    ({"labels": ["a"], "candidate_labels": ["b"]}, "candidate_labels"),
    ({"multi_label": True}, "multi_label"),
  ],
)
def test_invalid_options(model, options, fact):
  with pytest.raises(errors.InputError) as raised:
    model.classify("a man", **options)
  assert fact in str(raised.value)


def test_pairs_and_other_models_are_refused(model):
  with pytest.raises(errors.InputError, match="takes strings"):
    model.classify(("a", "b"), labels=["c"])
  settings = model.servable().settings.replace(labels=("bad", "good"))
  with pytest.raises(errors.InputError, match="bad, good"):
    zero_shot.make(settings, None, 1, zero_shot.Classes(["a"]))


@pytest.mark.parametrize(
  "labels, fits",
  [
    (["Entailment", "neutral", "contradiction"], True),
    (["entailed", "contradicted"], True),
    (["entailment", "not_entailment"], False),
    ([], False),
  ],
)
def test_which_models_fit(labels, fits):
  assert zero_shot.fits(labels) == fits


def test_large_scores_do_not_overflow():
  scores = np.array([[1000.0, 0.0], [0.0, 0.0]])
  np.testing.assert_array_equal(zero_shot._softmax(scores), [[1, 0], [0.5] * 2])
