"""Classes of the request's own, for a model of inference.

  POST /zero-shot, and POST /v1/models/NAME:classify
  {"inputs": "Anna scored twice.",
   "parameters": {"candidate_labels": ["sports", "politics"]}}

This is the form of Hugging Face's API for zero-shot classification. "inputs"
may be a list of texts. An answer lists the classes from the likeliest on.
"""

from typing import Any

from answering import answers, zero_shot
from common import errors, json_files
from web import application, texts_of

with errors.needs_extra("serve"):
  from aiohttp import web

_BODY: dict[str, Any] = {
  "type": "object",
  "required": ["inputs", "parameters"],
  "properties": {
    "inputs": texts_of.SCHEMA,
    "parameters": {
      "type": "object",
      "required": ["candidate_labels"],
      "properties": {
        "candidate_labels": {"type": "array", "items": {"type": "string"}},
        "hypothesis_template": {
          "type": "string",
          "default": zero_shot.TEMPLATE,
        },
        "multi_label": {"type": "boolean", "default": False},
      },
    },
    "model": {"type": "string"},
  },
}


def add(site: application.Site) -> None:
  """Adds the paths."""

  async def classify(request: web.Request, values: dict) -> Any:
    name = request.match_info.get("name", values.pop("model", None))
    hosted = site.find(name, _fits, "a model of inference")
    texts, is_single = texts_of.field(values, "inputs")
    options = json_files.field(values, "parameters", dict, "the body")
    options = dict(options)
    labels = options.pop("candidate_labels", None)
    if isinstance(labels, str):  # As in transformers.
      labels = [each.strip() for each in labels.split(",")]
    texts_of.refuse_unknown(options, _BODY["properties"]["parameters"])
    texts_of.refuse_unknown(values, _BODY)
    classes = zero_shot.Classes(labels or [], **options)
    model = hosted.model
    answer = zero_shot.make(
      model.settings, hosted.network, model.batch_size, classes
    )
    for number, text in enumerate(texts):
      errors.require_text(text, f"text number {number}")
    results = await hosted.queue.submit(texts, answer, len(classes.labels))
    ordered = [_ordered(*each) for each in zip(texts, results)]
    return ordered[0] if is_single else ordered

  for path in ("/zero-shot", "/v1/models/{name:[^/:]+}:classify"):
    site.post(path, classify, "Classes of the request's own.", _BODY)


def _fits(model: answers.Served) -> bool:
  is_classifier = model.settings.head == "classification"
  return is_classifier and zero_shot.fits(model.settings.labels)


def _ordered(text: str, answer: dict) -> dict:
  pairs = zip(answer["probabilities"], answer["labels"])
  ordered = sorted(pairs, key=lambda pair: -pair[0])
  return {
    "sequence": text,
    "labels": [label for _, label in ordered],
    "scores": [score for score, _ in ordered],
  }
