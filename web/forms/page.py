"""Serves a page at / to try the models in a browser; it is a single file."""

import base64
import functools
import hashlib
import json
import pathlib
import re
from typing import Any

from common import errors
from web import application

with errors.needs_extra("serve"):
  from aiohttp import web

_PAGE = pathlib.Path(__file__).with_suffix(".html").read_text(encoding="utf-8")


def add(site: application.Site) -> None:
  """Adds the path."""
  text = make([described(each) for each in site.hosted.values()])
  headers = {
    "Content-Security-Policy": security_policy(),
    "X-Content-Type-Options": "nosniff",
  }

  async def show(request: web.Request) -> web.Response:
    del request
    return web.Response(text=text, content_type="text/html", headers=headers)

  site.get("/", show, "A page to try the models.")


def described(hosted: application.Hosted) -> dict[str, Any]:
  """Returns the facts of a model that the page shows and needs."""
  model = hosted.model
  settings = model.settings
  return {
    "name": hosted.name,
    "head": settings.head,
    "inputs": list(model.texts),
    "mask": model.tokenizer.specials.mask,
    "labels": list(settings.labels),
    "length": settings.max_seq_length,
    "windows": settings.head in ("span", "tagging")
    or bool(settings.doc_stride),
    "engine": settings.engine,
  }


def make(models: list[dict[str, Any]]) -> str:
  """Returns the page's HTML for models as in `described`."""
  # Escape "<", because a name could end the HTML element that contains it.
  text = json.dumps(models).replace("<", "\\u003c")
  return _PAGE.replace("MODELS", text, 1)


@functools.cache
def security_policy() -> str:
  """Returns a Content-Security-Policy for the page's script, style and host."""
  rules = [
    "default-src 'none'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ]
  for directive, tag in (("script-src", "script"), ("style-src", "style")):
    # The pattern excludes the script element with attributes: it contains data.
    (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", _PAGE, re.DOTALL)
    digest = hashlib.sha256(content.encode()).digest()
    rules.append(f"{directive} 'sha256-{base64.b64encode(digest).decode()}'")
  return "; ".join(rules)
