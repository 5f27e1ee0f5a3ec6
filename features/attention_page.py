"""Makes an HTML page that shows the attention of every layer and head.

The page contains its data, style and script. On the left is a grid of small
pictures, with layers in rows and heads in columns. A click enlarges a head, as
a matrix and as lines between tokens. Pointing at a token shows only its lines.
A list selects a text, a field searches texts with a token, and another field
hides tokens such as [SEP], which gets much attention.
"""

import base64
import html
import json
import pathlib
from collections.abc import Iterable

import numpy as np

_PAGE = pathlib.Path(__file__).with_suffix(".html").read_text(encoding="utf-8")


def attention_page(
  sentences: Iterable[tuple[list[str], np.ndarray]], title: str = "Attention"
) -> str:
  """Returns the page's HTML.

  Args:
    sentences: (tokens, attention): T strings, and probabilities
      [layers, heads, T, T] that sum to 1 over the last axis: how much each
      token (row) attends to each token (column).
    title: text of the page's title.
  """
  data = [
    {
      "tokens": tokens,
      "layers": attention.shape[0],
      "heads": attention.shape[1],
      "attention": _packed(attention),
    }
    for tokens, attention in sentences
  ]
  # Escape "<": "</script>" in a text must not end the script with the data.
  text = json.dumps(data).replace("<", "\\u003c")
  return _PAGE.replace("@TITLE@", html.escape(title)).replace("@DATA@", text)


def _packed(attention):
  """Returns probabilities as base64, with a byte for each; 255 means 1."""
  # Colours show no more than a byte; four bytes would make a page of megabytes.
  numbers = np.rint(np.clip(attention, 0, 1) * 255).astype(np.uint8)
  return base64.b64encode(numbers.tobytes()).decode("ascii")
