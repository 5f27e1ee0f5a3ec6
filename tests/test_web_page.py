"""Tests the page of serve.py, in a browser if one is installed."""

import asyncio
import base64
import hashlib
import json
import re
import shutil
import threading

import aiohttp
import pytest

import served
from web import application, work_queue
from web.forms import page

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
in_chromium = pytest.mark.skipif(
  not BROWSER, reason="no Chromium on this machine"
)
XSS = "<img src=x onerror=\"document.title='ran'\">"
# {head: (typed inputs, the model's answer to each row, texts on the page)}
HEADS = {
  "classification": (
    {"text": XSS},
    {"labels": ["bad", XSS], "probabilities": [0.25, 0.75], "label": XSS},
    [XSS, "75.0 %"],
  ),
  "regression": (
    {"text_a": "a", "text_b": "b"},
    {"score": 2.5},
    ["Score: 2.5000"],
  ),
  "span": (
    {"question": "Who?", "context": "😀 Émile <b>met</b> Anna."},
    {"answer": "Émile", "score": 3.5, "start": 2, "end": 7, "null_score": 0.0},
    ["Answer: Émile, score 3.50", "MARK Émile", "<b>met</b>"],
  ),
  "tagging": (
    {"text": "😀 Anna Maria saw Rome"},
    {
      "tags": ["O", "B-PER", "I-PER", "O", "B-LOC"],
      "starts": [0, 2, 7, 13, 17],
      "ends": [1, 6, 12, 16, 21],
    },
    ["MARK Anna MariaPER", "MARK RomeLOC"],
  ),
  "masked_lm": (
    {"text": "a [MASK] b"},
    {"fillings": [["sun", "moon"]], "probabilities": [[0.5, 0.125]]},
    ["[MASK] 1", "sun", "12.5 %"],
  ),
  "sparse": (
    {"text": "one"},
    {"weights": {"sun": 2.5, "2008": 0.25}},
    ["sun 2.500 2008 0.250"],
  ),
  "next_sentence": (
    {"text_a": "a", "text_b": "b"},
    {"probability": 0.75, "log_probabilities": [-0.29, -1.39]},
    ["follows", "75.0 %", "does not", "25.0 %"],
  ),
  "embedding": (
    {"text": "one\n\ntwo"},
    {"embedding": [3.0, 4.0]},
    ["1 one", "2 two", "1.000"],
  ),
}


def model_of(head, inputs, answer):
  """Returns a model that gives `answer` for each row."""
  head = "classification" if head == "regression" else head
  return served.model(lambda rows: [answer] * len(rows), head, list(inputs))


def test_the_page_allows_only_its_own_script_and_style():
  models = [{"name": "</script>", "mask": "<mask>"}]
  html = page.make(models)
  (data,) = re.findall(r'id="data">(.*?)</script>', html)
  assert json.loads(data) == models
  policy = page.security_policy()
  assert "unsafe" not in policy and "default-src 'none'" in policy
  for tag in ("script", "style"):
    (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest())
    assert f"{tag}-src 'sha256-{digest.decode()}'" in policy
  assert "http:" not in html and "https:" not in html


def run_with_server(use, model, *arguments):
  async def test():
    async with served.asking(model) as ask:
      return await use(ask.port, *arguments)

  return asyncio.run(test())


async def get_page(port):
  async with (
    aiohttp.ClientSession() as session,
    session.get(f"http://127.0.0.1:{port}/") as response,
  ):
    return response.headers, await response.text()


@pytest.mark.parametrize(
  "head, stride, windows",
  [
    ("span", 0, True),
    ("tagging", 0, True),
    ("classification", 0, False),
    ("classification", 4, True),
  ],
)
def test_the_page_knows_each_model(head, stride, windows):
  model = served.model(
    None,
    head,
    ("a", "b"),
    labels=("x", "y"),
    doc_stride=stride,
    max_seq_length=9,
    engine="onnx",
  )
  hosted = application.host("m", model, work_queue.Limits())
  assert page.described(hosted) == {
    "name": "m",
    "head": head,
    "inputs": ["a", "b"],
    "mask": "[MASK]",
    "labels": ["x", "y"],
    "length": 9,
    "windows": windows,
    "engine": "onnx",
  }


def test_the_server_sends_the_page_with_its_policy():
  model = model_of("span", {"question": "", "context": ""}, {})
  headers, text = run_with_server(get_page, model)
  assert headers["Content-Security-Policy"] == page.security_policy()
  assert headers["X-Content-Type-Options"] == "nosniff"
  assert headers["Content-Type"] == "text/html; charset=utf-8"
  (data,) = re.findall(r'id="data">(.*?)</script>', text)
  assert json.loads(data) == [
    {
      "name": "m",
      "head": "span",
      "inputs": ["question", "context"],
      "mask": "[MASK]",
      "labels": [],
      "length": 128,
      "windows": True,
      "engine": "tensorflow",
    }
  ]


async def use_page(port, inputs):
  """Types the inputs; returns the page's text, its title and its errors."""
  from playwright import async_api

  async with async_api.async_playwright() as playwright:
    browser = await playwright.chromium.launch(
      executable_path=BROWSER, args=["--no-sandbox"]
    )
    tab = await browser.new_page()
    problems = []
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on(
      "console",
      lambda line: problems.append(line.text) if line.type == "error" else None,
    )
    tab.on(
      "request",
      lambda request: (
        problems.append(request.url)
        if f"127.0.0.1:{port}" not in request.url
        else None
      ),
    )
    await tab.goto(f"http://127.0.0.1:{port}/")
    for name, text in inputs.items():
      # Fields are found by their labels, as by a screen reader.
      await tab.get_by_label(name.replace("_", " "), exact=True).fill(text)
    await tab.keyboard.press("Control+Enter")
    await tab.wait_for_selector("#result > *")
    await tab.evaluate(
      "document.querySelectorAll('mark').forEach(m => m.prepend('MARK '))"
    )
    await tab.evaluate("document.querySelector('details').open = true")
    page_text = await tab.inner_text("main")
    title = await tab.title()
    await browser.close()
  return page_text, title, problems


@in_chromium
@pytest.mark.parametrize("head", HEADS)
def test_every_head_in_a_browser(head):
  pytest.importorskip("playwright")
  inputs, answer, expected = HEADS[head]
  model = model_of(head, inputs, answer)
  page_text, title, problems = run_with_server(use_page, model, inputs)
  plain = " ".join(page_text.split())
  for text in expected:
    assert text in plain
  assert "curl -d" in plain and ":predict" in plain and " ms" in plain
  assert title == "Try m" and not problems


@in_chromium
def test_a_refusal_is_shown():
  pytest.importorskip("playwright")

  def refuse(rows):
    raise KeyError("secret")

  model = served.model(refuse)
  page_text, _, _ = run_with_server(use_page, model, {"text": "a"})
  assert "the server failed" in page_text and "secret" not in page_text


async def in_a_browser(models, use, width=1280):
  """Calls use(tab) with the page of a server of {name: model} in Chromium."""
  from playwright import async_api

  async with (
    served.asking(models) as ask,
    async_api.async_playwright() as playwright,
  ):
    browser = await playwright.chromium.launch(
      executable_path=BROWSER, args=["--no-sandbox"]
    )
    tab = await browser.new_page(viewport={"width": width, "height": 800})
    problems = []
    tab.on("pageerror", lambda error: problems.append(str(error)))
    await tab.goto(f"http://127.0.0.1:{ask.port}/")
    await use(tab)
    assert not problems
    await browser.close()


@in_chromium
def test_the_newest_answer_is_shown_and_older_ones_are_dimmed():
  """The answer to the first text comes after the answer to the second."""
  pytest.importorskip("playwright")
  may_end = threading.Event()

  def answer(rows):
    ((text,),) = rows
    if text == "slow":
      assert may_end.wait(60)
    return [{"score": float(len(text))}]

  async def use(tab):
    result, send = tab.locator("#result"), tab.locator("#send")
    await tab.fill("#text", "slow")
    await send.click()
    await tab.wait_for_function("document.querySelector('#send').disabled")
    assert "Computing" in await tab.inner_text("#state")
    await tab.fill("#text", "second")
    await tab.keyboard.press("Control+Enter")
    await tab.wait_for_selector("#result > *")
    assert "6.0000" in await result.inner_text()
    assert not await send.is_disabled()
    async with tab.expect_response(lambda _: True):
      may_end.set()
    await tab.wait_for_timeout(200)
    assert "6.0000" in await result.inner_text()
    assert await result.get_attribute("class") == ""
    await tab.fill("#text", "third")
    assert await result.get_attribute("class") == "old"

  asyncio.run(in_a_browser({"m": served.model(answer)}, use))


@in_chromium
@pytest.mark.parametrize("width", [1280, 768, 360])
def test_long_texts_and_many_lines_fit(width):
  pytest.importorskip("playwright")
  labels = ["a very long label " * 9, "short"]
  models = {
    "lines": served.model(
      lambda rows: [{"embedding": [1.0, 0.0]}] * len(rows), "embedding"
    ),
    "classes": served.model(
      lambda rows: [{"labels": labels, "probabilities": [1.0, 0.0]}],
      labels=labels,
    ),
  }

  async def use(tab):
    for name in models:
      await tab.select_option("#models", name)
      assert await tab.title() == f"Try {name}"
      await tab.fill(
        "#text", "\n".join(f"{n} " + "word" * 99 for n in range(60))
      )
      await tab.click("#send")
      await tab.wait_for_selector("#result > *")
      sizes = await tab.evaluate(
        """[document.documentElement.scrollWidth, innerWidth,
            document.documentElement.scrollHeight,
            ...[...document.querySelectorAll('.bars td.number')].map(
              td => td.getBoundingClientRect().right)]"""
      )
      assert sizes[0] <= width == sizes[1] and sizes[2] < 1400
      assert all(right <= width for right in sizes[3:])
    facts = await tab.inner_text("#facts")
    assert "labels: a very long" in facts and "128 word pieces" in facts

  asyncio.run(in_a_browser(models, use, width))


@in_chromium
def test_the_example_of_every_head_is_answered():
  pytest.importorskip("playwright")
  models = {
    name: model_of(name, inputs, answer)
    for name, (inputs, answer, _) in HEADS.items()
  }

  async def use(tab):
    for name in models:
      await tab.select_option("#models", name)
      await tab.click("#example")
      await tab.wait_for_selector("#result > *")
      assert not await tab.locator("#result .error").count(), name

  asyncio.run(in_a_browser(models, use))
