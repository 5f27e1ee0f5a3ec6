"""The web page of serve.py for trying the model; it is a single file."""

import base64
import functools
import hashlib
import json
import pathlib
import re
from collections.abc import Iterable

_PAGE = pathlib.Path(__file__).with_suffix(".html").read_text(encoding="utf-8")


def make(
  name: str, head: str, inputs: Iterable[str], mask: str = "[MASK]"
) -> str:
  """Returns the page's HTML."""
  values = {"name": name, "head": head, "inputs": list(inputs), "mask": mask}
  # Escape "<", because a name could end the HTML element that contains it.
  text = json.dumps(values).replace("<", "\\u003c")
  return _PAGE.replace("MODEL", text, 1)


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
