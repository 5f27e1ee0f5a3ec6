"""Reranks passages for a query, in the forms of several servers' clients.

  POST /rerank     {"query": "who?", "texts": ["a passage", "another"]}
  POST /v1/rerank  {"model": "m", "query": "who?", "documents": ["a passage"]}

Clients of text-embeddings-inference send the first form, clients of Cohere and
Jina the second. The scores are sigmoids of the logits, or with "raw_scores" the
logits, whatever scores the model's folder names. The best passage comes first.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from answering import answers
from classification import answers as classification_answers
from classification import data
from common import errors
from web import application, texts_of

with errors.needs_extra("serve"):
  from aiohttp import web

_TEXTS = {"type": "array", "items": {"type": "string"}}
_RERANK: dict[str, Any] = {
  "type": "object",
  "required": ["query", "texts"],
  "properties": {
    "model": {"type": "string"},
    "query": {"type": "string"},
    "texts": _TEXTS,
    "raw_scores": {"type": "boolean", "default": False},
    "return_text": {"type": "boolean", "default": False},
    "truncate": {"type": "boolean", "enum": [True]},
  },
}
_DOCUMENTS: dict[str, Any] = {
  "type": "object",
  "required": ["query", "documents"],
  "properties": {
    "model": {"type": "string"},
    "query": {"type": "string"},
    "documents": _TEXTS,
    "top_n": {"type": "integer", "description": "By default all."},
    "return_documents": {"type": "boolean", "default": False},
  },
}


def add(site: application.Site) -> None:
  """Adds the paths."""

  async def rerank(request: web.Request, values: dict) -> list:
    del request
    texts_of.refuse_unknown(values, _RERANK)
    if not texts_of.option(values, "truncate", True):
      raise errors.InputError(
        '"truncate" is false; this server truncates long texts: leave it out'
      )
    passages, _ = texts_of.field(values, "texts")
    raw = texts_of.option(values, "raw_scores", False)
    with_text = texts_of.option(values, "return_text", False)
    ranked = await _ranked(site, values, passages, raw)
    return [
      {"index": n, "score": score}
      | ({"text": passages[n]} if with_text else {})
      for n, score in ranked
    ]

  async def cohere(request: web.Request, values: dict) -> dict:
    del request
    texts_of.refuse_unknown(values, _DOCUMENTS)
    passages, _ = texts_of.field(values, "documents")
    most = texts_of.option(values, "top_n", None)
    if most is not None and most < 1:
      raise errors.InputError(f'"top_n" is {most}; expected 1 or more')
    with_text = texts_of.option(values, "return_documents", False)
    ranked = await _ranked(site, values, passages, False)
    results = [
      {"index": n, "relevance_score": score}
      | ({"document": {"text": passages[n]}} if with_text else {})
      for n, score in ranked[:most]
    ]
    return {"model": _find(site, values).name, "results": results}

  site.post("/rerank", rerank, "Ranks passages, in the form of TEI.", _RERANK)
  site.post("/v1/rerank", cohere, "Ranks documents.", _DOCUMENTS)


def _find(site: application.Site, values: dict) -> application.Hosted:
  def fits(model: answers.Served) -> bool:
    is_classifier = model.settings.head == "classification"
    return is_classifier and len(model.texts) == 2 and not model.settings.labels

  return site.find(values.get("model"), fits, "a reranker")


async def _ranked(
  site: application.Site, values: dict, passages: list[str], raw: bool
) -> list[tuple[int, float]]:
  """Returns (number, score) of the passages, the best first."""
  hosted = _find(site, values)
  queries, is_single = texts_of.field(values, "query")
  if not is_single:
    raise errors.InputError('"query" is a list; expected one text')
  rows = [(queries[0], passage) for passage in passages]
  for number, row in enumerate(rows):
    for text in row:
      errors.require_text(text, f"text number {number}")
  scores = await hosted.queue.submit(rows, _scorer(hosted, raw))
  order = sorted(range(len(rows)), key=lambda n: -scores[n])
  return [(n, scores[n]) for n in order]


def _scorer(
  hosted: application.Hosted, raw: bool
) -> Callable[[list], list[float]]:
  """Returns a function from pairs to their scores."""
  model = hosted.model
  logits, options = answers.classifier(model.settings, hosted.network)
  kind = data.RANKING_LOGIT if raw else data.RANKING
  options = dataclasses.replace(options, task_kind=kind)

  def score(rows: list[tuple]) -> list[float]:
    examples = [data.Example("", *row) for row in rows]
    return classification_answers.scores_of(
      logits, options, examples, model.batch_size
    )[:, 0].tolist()

  return score
