"""Asks for a key in each request, except at /healthz.

A program sends it as "Authorization: Bearer KEY". A browser asks its user for a
password, which is the key; the user's name may be anything.
"""

import base64
import binascii
import hmac
import os

from common import errors, file_io
from web import application

with errors.needs_extra("serve"):
  from aiohttp import web

OPTIONS = {
  "api_key": "Key that each request must send (Authorization: Bearer KEY). "
  "Other users of this machine can see it; --api_key_file hides it.",
  "api_key_file": "File with the key in its first line, instead of --api_key.",
}


def add(
  site: application.Site,
  api_key: str | None = None,
  api_key_file: str | None = None,
) -> None:
  """Adds the guard, if there is a key.

  Raises InputError: the key is empty or given twice, or the file is missing.
  """
  if api_key_file:
    if api_key:
      raise errors.InputError("pass either --api_key or --api_key_file")
    if not os.path.exists(api_key_file):
      raise errors.InputError(f"no such file: {api_key_file}")
    _, api_key = next(iter(file_io.read_lines(api_key_file)), (0, ""))
  if api_key is None:
    return
  key = api_key.strip().encode()
  if not key:
    raise errors.InputError("--api_key is empty; pass a key, or leave it out")

  def check(request: web.Request) -> None:
    sent = _sent(request.headers.get("Authorization", ""))
    # The time of this comparison does not tell how much of the key is right.
    if request.path != "/healthz" and not hmac.compare_digest(sent, key):
      raise web.HTTPUnauthorized(
        text="the API key is missing or wrong; send Authorization: Bearer KEY",
        headers={"WWW-Authenticate": 'Basic realm="bert", charset="UTF-8"'},
      )

  site.guards.append(check)


def _sent(header: str) -> bytes:
  """Returns the key in an Authorization header, or b""."""
  scheme, _, value = header.partition(" ")
  data = value.strip().encode("utf-8", "surrogateescape")
  if scheme.lower() == "bearer":
    return data
  if scheme.lower() == "basic":
    try:
      _, _, password = base64.b64decode(data, validate=True).partition(b":")
      return password
    except binascii.Error:
      pass
  return b""
