"""Tests the attention page: its data and, with a browser, how it looks."""

import base64
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from features import attention_page

RNG = np.random.RandomState(0)
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


def in_a_browser(test):
  return pytest.mark.slow(
    pytest.mark.skipif(not BROWSER, reason="no chromium is installed")(test)
  )


def attention(layers, heads, size):
  scores = RNG.randn(layers, heads, size, size)
  return np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)


FIRST = (["[CLS]", "a<b", "</script>", "[SEP]"], attention(2, 3, 4))
SECOND = (["[CLS]", "Zürich", "[SEP]"], attention(2, 3, 3))


def data_of(page):
  return json.loads(re.search(r"^const sentences = (.*);$", page, re.M)[1])


def test_the_page_holds_the_probabilities():
  rows = data_of(attention_page.attention_page([FIRST, SECOND]))
  for row, (tokens, probabilities) in zip(rows, [FIRST, SECOND], strict=True):
    assert row["tokens"] == tokens
    assert (row["layers"], row["heads"]) == (2, 3)
    quantized = np.frombuffer(base64.b64decode(row["attention"]), np.uint8)
    np.testing.assert_allclose(
      quantized.reshape(probabilities.shape) / 255, probabilities, atol=0.002
    )


def test_the_page_loads_nothing_and_no_text_ends_its_script():
  page = attention_page.attention_page([FIRST], title="a < b & c")
  assert not re.search(r"(src|href)=|@import|url\(", page)
  assert "<title>a &lt; b &amp; c</title>" in page
  assert page.count("</script>") == 1


def browse(tmp_path, page, *options):
  """Opens a page in a headless browser; returns its standard output."""
  path = tmp_path / "page.html"
  path.write_text(page, encoding="utf-8")
  return subprocess.run(
    [
      BROWSER,
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      f"--user-data-dir={tmp_path}/profile",
      "--window-size=1600,800",
      *options,
      path.as_uri(),
    ],
    check=True,
    capture_output=True,
    text=True,
    timeout=120,
  ).stdout


@in_a_browser
def test_a_browser_shows_every_head_and_follows_a_click(tmp_path):
  page = attention_page.attention_page([FIRST, SECOND])
  click = "<script>document.querySelectorAll('canvas')[5].click()</script>"
  page = page.replace("</body>", f"{click}</body>")
  document = browse(tmp_path, page, "--dump-dom")
  assert document.count("<canvas") == 2 * 3
  assert "Layer 1, head 2: who attends" in document
  assert document.count("<rect") == 4 * 4
  # The token is left and right of the lines, left of the matrix and above it.
  assert document.count(">a&lt;b</text>") == 4
  lines = (FIRST[1][1, 2] * 255).round() / 255 >= 0.02
  assert document.count("<line") == lines.sum()
  assert document.count("<option") == 2


def typed(page, field, text):
  """Returns a page in which a text is typed into a field."""
  return page.replace(
    "</body>",
    f"""<script>
    const field = document.getElementById("{field}");
    field.value = "{text}";
    field.dispatchEvent(new Event("input"));
  </script></body>""",
  )


@in_a_browser
@pytest.mark.parametrize(
  "text, matches, shown, hidden",
  [
    ("ZÜR", "1 tokens in 1 texts", "Zürich", 1),
    ("[", "4 tokens in 2 texts", "a&lt;b", 0),
    ("nothing", "0 tokens in 0 texts", "a&lt;b", 2),
    (" ", "", "a&lt;b", 0),
  ],
)
def test_a_token_is_found(tmp_path, text, matches, shown, hidden):
  page = attention_page.attention_page([FIRST, SECOND])
  document = browse(tmp_path, typed(page, "find", text), "--dump-dom")
  assert f'<span id="matches">{matches}</span>' in document
  assert len(re.findall("<option[^>]* hidden", document)) == hidden
  assert document.count(f">{shown}</text>") == 4
  marked = re.findall('class="found">(.*?)</text>', document)
  assert marked == {"ZÜR": ["Zürich"], "[": ["[CLS]", "[SEP]"]}.get(text, [])


@in_a_browser
@pytest.mark.parametrize(
  "text, hidden", [("[SEP]  [CLS]", [0, 3]), ("[sep]", []), ("a<b x", [1])]
)
def test_hidden_tokens_are_left_out(tmp_path, text, hidden):
  page = typed(attention_page.attention_page([FIRST]), "hide", text)
  page = page.replace(
    "</body>",
    """<script>
    const all = [...Array(4).keys()];
    document.body.dataset.shares = JSON.stringify(
      all.map(i => all.map(j => sentences[0].at(1, 2, i, j))));
  </script></body>""",
  )
  document = browse(tmp_path, page, "--dump-dom")
  shares = json.loads(re.search('data-shares="(.*?)"', document)[1])
  expected = FIRST[1][1, 2].copy()
  expected[hidden] = expected[:, hidden] = 0
  expected /= np.maximum(expected.sum(1, keepdims=True), 1e-9)
  np.testing.assert_allclose(shares, expected, atol=0.01)
  assert document.count('class="hidden"') == len(hidden)


@in_a_browser
def test_arrow_keys_choose_a_head(tmp_path):
  """From layer 0, head 0: right, down, down (the last layer), left, left."""
  page = attention_page.attention_page([FIRST])
  page = page.replace(
    "</body>",
    """<script>
    document.querySelector("#grid canvas.chosen").focus();
    for (const key of ["Right", "Right", "Down", "Down", "Left"])
      document.activeElement.dispatchEvent(
        new KeyboardEvent("keydown", {key: `Arrow${key}`}));
    document.body.dataset.focus = document.activeElement.title;
  </script></body>""",
  )
  document = browse(tmp_path, page, "--dump-dom")
  assert "Layer 1, head 1: who attends" in document
  assert 'data-focus="layer 1, head 1"' in document
  assert re.findall(r'tabindex="(.*?)"', document).count("0") == 1


@in_a_browser
def test_a_dark_page_has_dark_pictures(tmp_path):
  page = attention_page.attention_page([FIRST])
  script = """<script>
    document.body.dataset.colours = colour(0) + " " +
      getComputedStyle(document.body).backgroundColor;
  </script>"""
  page = page.replace("</body>", f"{script}</body>")
  for options, colours in (
    ([], "255,255,255 rgb(255, 255, 255)"),
    (["--blink-settings=preferredColorScheme=0"], "24,25,27 rgb(24, 25, 27)"),
  ):
    document = browse(tmp_path, page, *options, "--dump-dom")
    assert f'data-colours="{colours}"' in document


@in_a_browser
def test_nothing_overflows_a_window_of_900_pixels(tmp_path):
  words = ["[CLS]", *(f"word{number}" for number in range(40)), "[SEP]"]
  page = attention_page.attention_page([(words, attention(2, 16, 42))])
  script = """<script>
    const control = document.querySelector("select");
    document.body.dataset.sizes = [document.documentElement.scrollWidth,
      control.getBoundingClientRect().right, innerWidth].join(" ");
  </script>"""
  page = page.replace("</body>", f"{script}</body>")
  document = browse(tmp_path, page, "--window-size=900,800", "--dump-dom")
  sizes = re.search('data-sizes="(.*?)"', document)[1]
  page_width, control_right, window = map(float, sizes.split())
  assert window <= 900
  assert max(page_width, control_right) <= window
