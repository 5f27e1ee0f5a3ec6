"""Vectors, in the forms of OpenAI's and text-embeddings-inference's clients.

  POST /v1/embeddings  {"model": "minilm", "input": ["a text", "another"]}
  POST /embed          {"inputs": ["a text", "another"]}
  GET  /v1/models      the names of all models

A text that exceeds the model's length is truncated, as in all other answers.
"""

import base64
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from answering import answers
from common import errors, short_floats
from web import application, texts_of

with errors.needs_extra("serve"):
  from aiohttp import web

from web import refusals

_OPENAI: dict[str, Any] = {
  "type": "object",
  "required": ["input", "model"],
  "properties": {
    "model": {"type": "string"},
    "input": texts_of.SCHEMA,
    "encoding_format": {"type": "string", "enum": ["float", "base64"]},
    "dimensions": {"type": "integer", "description": "The vectors' length."},
    "user": {"type": "string", "description": "It has no effect."},
  },
}
_EMBED: dict[str, Any] = {
  "type": "object",
  "required": ["inputs"],
  "properties": {
    "model": {"type": "string"},
    "inputs": texts_of.SCHEMA,
    "normalize": {"type": "boolean", "default": True},
    "truncate": {
      "type": "boolean",
      "default": True,
      "description": "false: refuse a text that is too long.",
    },
    "prompt_name": {
      "type": "string",
      "description": "A prompt of the model, to put before each text.",
    },
  },
}


def add(site: application.Site) -> None:
  """Adds the paths."""
  created = int(time.time())

  async def openai(request: web.Request, values: dict) -> dict:
    del request
    hosted = _find(site, values)
    texts_of.refuse_unknown(values, _OPENAI)
    form = texts_of.option(values, "encoding_format", "float")
    if form not in ("float", "base64"):
      raise errors.InputError(
        f'"encoding_format" is {form!a:.40}; expected float or base64'
      )
    vectors, counts = await _vectors(hosted, *texts_of.field(values, "input"))
    width = texts_of.option(values, "dimensions", None)
    if width not in (None, len(vectors[0])):
      raise errors.InputError(
        f'"dimensions" is {width}; the vectors of {hosted.name!r} have '
        f"{len(vectors[0])}"
      )
    data = [
      {
        "object": "embedding",
        "index": number,
        "embedding": _base64(vector) if form == "base64" else vector,
      }
      for number, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": sum(counts), "total_tokens": sum(counts)}
    return {
      "object": "list",
      "data": data,
      "model": hosted.name,
      "usage": usage,
    }

  async def embed(request: web.Request, values: dict) -> list:
    del request
    hosted = _find(site, values)
    texts_of.refuse_unknown(values, _EMBED)
    normalize = texts_of.option(values, "normalize", True)
    name = texts_of.option(values, "prompt_name", "") or None
    texts, is_single = texts_of.field(values, "inputs")
    vectors, counts = await _vectors(hosted, texts, is_single, name)
    longest = hosted.model.settings.max_seq_length
    if not texts_of.option(values, "truncate", True) and max(counts) > longest:
      raise web.HTTPRequestEntityTooLarge(
        longest,
        max(counts),
        text=f"a text has {max(counts)} tokens, the model takes {longest}",
      )
    return [_normal(vector) if normalize else vector for vector in vectors]

  async def models(request: web.Request) -> web.Response:
    del request
    listed = [
      {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "bert-tf2",
      }
      for name in site.hosted
    ]
    return refusals.json_response({"object": "list", "data": listed})

  site.post("/v1/embeddings", openai, "Vectors, in OpenAI's form.", _OPENAI)
  # OpenAI's clients show the message of an object.
  site.error_forms["/v1/embeddings"] = lambda sentence, status: {
    "message": sentence,
    "type": "server_error" if status >= 500 else "invalid_request_error",
    "code": status,
  }
  site.post("/embed", embed, "Vectors, in the form of TEI.", _EMBED)
  site.get("/v1/models", models, "The names of the models.")


def _find(site: application.Site, values: dict) -> application.Hosted:
  def fits(model: answers.Served) -> bool:
    # With --text_pairs, each vector is that of two texts.
    return model.settings.head == "embedding" and len(model.texts) == 1

  return site.find(values.get("model"), fits, "a model for vectors of texts")


async def _vectors(
  hosted: application.Hosted, texts: list[str], _: bool, name: str | None = None
) -> tuple[list[list[float]], list[int]]:
  """Returns the vectors of texts, and their numbers of tokens.

  `name` is the name of a prompt; None: the model's default.
  """
  rows = [(text,) for text in texts]
  options = {}
  if name is not None:
    options["prompt"] = hosted.model.prompts.chosen(None, name)
  results = await hosted.queue.submit(rows, _counted(hosted, options))
  return [r["embedding"] for r in results], [r["tokens"] for r in results]


def _counted(
  hosted: application.Hosted, options: dict[str, str]
) -> Callable[[list], list]:
  """Returns the model's function, which also counts the tokens of a text.

  `options` may have a `prompt`, which replaces the model's.
  """
  tokenizer, settings = hosted.model.tokenizer, hosted.model.settings
  prompt = options.get("prompt", settings.get("prompt") or "")

  def answer(rows: list[tuple]) -> list[dict[str, Any]]:
    counts = [len(tokenizer.tokenize(prompt + text)) + 2 for (text,) in rows]
    results = hosted.queue.answer(rows, **options)
    return [{**r, "tokens": count} for r, count in zip(results, counts)]

  return answer


def _base64(vector: list[float]) -> str:
  return base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()


def _normal(vector: list[float]) -> list[float]:
  values = np.asarray(vector, np.float32)
  normal = values / max(float(np.linalg.norm(values)), 1e-12)
  return short_floats.of(normal).tolist()
