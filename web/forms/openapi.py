"""Describes all paths of the server in OpenAPI's format.

GET /openapi.json
"""

import re
from typing import Any

from common import errors, program
from web import application, refusals

with errors.needs_extra("serve"):
  from aiohttp import web

_ERROR = {
  "description": "A refusal.",
  "content": {
    "application/json": {
      "schema": {
        "type": "object",
        "required": ["error"],
        "properties": {"error": {"type": "string"}},
      }
    }
  },
}


def add(site: application.Site) -> None:
  """Adds the path."""

  async def show(request: web.Request) -> web.Response:
    del request
    return refusals.json_response(document(site))

  site.get("/openapi.json", show, "This description.")


def document(site: application.Site) -> dict[str, Any]:
  """Returns the description of a site."""
  paths: dict[str, dict] = {}
  for method, pattern, operation in site.described:
    # aiohttp's {name:regular expression}
    path = re.sub(r"{(\w+):[^}]*}", r"{\1}", pattern)
    parameters = [
      {"name": n, "in": "path", "required": True, "schema": {"type": "string"}}
      for n in re.findall(r"{(\w+)}", path)
    ]
    paths.setdefault(path, {})[method.lower()] = {
      **operation,
      **({"parameters": parameters} if parameters else {}),
      "responses": {"200": {"description": "The answer."}, "default": _ERROR},
    }
  return {
    "openapi": "3.1.0",
    "info": {
      "title": f"Models: {', '.join(site.hosted)}",
      "version": program.package_version(),
    },
    "paths": paths,
  }
