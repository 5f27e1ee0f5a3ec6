"""Makes an HTML page that shows the attention of every layer and head.

The page contains its data, style and script. On the left is a grid of small
pictures, with layers in rows and heads in columns. Clicking a head enlarges it,
as a matrix and as lines between tokens. Pointing at a token shows only its
lines. A menu selects a text, one field searches for texts with a token, and
another excludes tokens such as [SEP], which often gets most of the attention.
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
    sentences: pairs of T tokens and their attention probabilities, float
      [layers, heads, T, T]: how much each token (second-last axis) attends to
      each token (last axis).
    title: the page's title, as plain text.
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
  # Escape "<", because "</script>" in a text would end the page's script.
  text = json.dumps(data).replace("<", "\\u003c")
  return _PAGE.replace("@TITLE@", html.escape(title)).replace("@DATA@", text)


def _packed(attention: np.ndarray) -> str:
  """Returns probabilities as base64, one byte each; 255 means 1."""
  # Colours cannot show more than 8 bits, and floats take four times the space.
  numbers = np.rint(np.clip(attention, 0, 1) * 255).astype(np.uint8)
  return base64.b64encode(numbers.tobytes()).decode("ascii")
