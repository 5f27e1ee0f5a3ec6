"""One HTML page that shows the attention of every layer and head.

The page is self-contained: data, style and script are in it. On the left is a
grid of small pictures, layers in rows and heads in columns; a click enlarges
one head, as a matrix and as lines between tokens. Pointing at a token shows
only its lines. A list selects one of several texts.
"""

import base64
import json

import numpy as np


def attention_page(sentences, title="Attention"):
  """Makes the page.

  Args:
    sentences: list of (tokens, attention): T strings, and probabilities
      [layers, heads, T, T] that sum to 1 over the last axis: how much each
      token (row) attends to each (column).
    title: text of the page's title.

  Returns:
    HTML, a str.
  """
  data = [
    {
      "tokens": list(tokens),
      "layers": attention.shape[0],
      "heads": attention.shape[1],
      "attention": _packed(attention),
    }
    for tokens, attention in (
      (tokens, np.asarray(attention)) for tokens, attention in sentences
    )
  ]
  # "</script>" in a text must not end the script that contains the data.
  text = json.dumps(data).replace("<", "\\u003c")
  # A file's name may hold either.
  title = title.replace("&", "&amp;").replace("<", "&lt;")
  return _PAGE.replace("@TITLE@", title).replace("@DATA@", text)


def _packed(attention):
  """Returns probabilities as base64 of one byte each, 255 for 1."""
  # A byte shows as much as a colour can; four would make a page of megabytes.
  numbers = np.rint(np.clip(attention, 0, 1) * 255).astype(np.uint8)
  return base64.b64encode(numbers.tobytes()).decode("ascii")


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>@TITLE@</title>
<style>
body { font: 14px system-ui, sans-serif; margin: 16px; color: #222; }
h1 { font-size: 18px; margin: 0 0 4px; }
p { margin: 0 0 12px; color: #555; }
/* Controls and pictures stay within a narrow window, however long a text. */
label { display: flex; gap: 6px; }
select { min-width: 0; max-width: 100%; }
#views > div { max-width: 100%; overflow-x: auto; }
#views { display: flex; gap: 32px; align-items: flex-start; flex-wrap: wrap; }
#grid { display: grid; gap: 3px; align-items: center; }
#grid span { color: #666; font-size: 11px; text-align: center; }
#grid canvas { width: 44px; height: 44px; border: 1px solid #ccc;
  cursor: pointer; image-rendering: pixelated; }
#grid canvas.chosen { outline: 2px solid #d62728; }
h2 { font-size: 14px; margin: 0 0 8px; }
svg { overflow: visible; margin-right: 40px; }
svg text { font: 12px ui-monospace, monospace; cursor: default; }
svg text.faded { fill: #bbb; }
#readout { min-height: 18px; }
</style>
</head>
<body>
<h1>@TITLE@</h1>
<p>Each small picture is a head: rows are the tokens that attend, columns the
tokens they attend to. Click one to see it large; point at a token or a
cell.</p>
<p><label>Text: <select id="text"></select></label></p>
<div id="views">
<div><h2>Layers (rows) and heads (columns)</h2><div id="grid"></div></div>
<div><h2 id="chosen"></h2><div id="lines"></div></div>
<div><h2>The same as a matrix</h2><div id="matrix"></div>
<p id="readout"></p></div>
</div>
<script>
const sentences = @DATA@;
const SVG = "http://www.w3.org/2000/svg";
const state = {text: 0, layer: 0, head: 0, token: null};
for (const s of sentences) {
  s.size = s.tokens.length;
  s.bytes = Uint8Array.from(atob(s.attention), c => c.charCodeAt(0));
  s.at = (layer, head, from, to) => s.bytes[
    ((layer * s.heads + head) * s.size + from) * s.size + to] / 255;
}
function element(name, attributes, parent, text) {
  const e = document.createElementNS(SVG, name);
  for (const key in attributes) e.setAttribute(key, attributes[key]);
  if (text !== undefined) e.textContent = text;
  parent.appendChild(e);
  return e;
}
function colour(p) {
  // White to blue; the root lets small shares be seen.
  const q = Math.sqrt(p);
  return [255 - 224 * q, 255 - 136 * q, 255 - 75 * q].map(Math.round);
}
function paint(canvas, s, layer, head) {
  canvas.width = canvas.height = s.size;
  const context = canvas.getContext("2d");
  const image = context.createImageData(s.size, s.size);
  for (let i = 0; i < s.size * s.size; i++) {
    const rgb = colour(s.at(layer, head, Math.floor(i / s.size), i % s.size));
    image.data.set([...rgb, 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
}
function cell(text) {
  const span = document.createElement("span");
  span.textContent = text;
  document.getElementById("grid").appendChild(span);
}
function drawGrid() {
  const s = sentences[state.text];
  const grid = document.getElementById("grid");
  grid.replaceChildren();
  grid.style.gridTemplateColumns = `20px repeat(${s.heads}, 46px)`;
  cell("");
  for (let head = 0; head < s.heads; head++) cell(head);
  for (let layer = 0; layer < s.layers; layer++) {
    cell(layer);
    for (let head = 0; head < s.heads; head++) {
      const canvas = document.createElement("canvas");
      canvas.title = `layer ${layer}, head ${head}`;
      if (layer === state.layer && head === state.head)
        canvas.className = "chosen";
      paint(canvas, s, layer, head);
      canvas.onclick = () => {
        state.layer = layer; state.head = head; state.token = null; draw();
      };
      grid.appendChild(canvas);
    }
  }
}
function drawLines() {
  const s = sentences[state.text], row = 18, left = 120, right = 320;
  const box = document.getElementById("lines");
  box.replaceChildren();
  const svg = element("svg",
    {width: 440, height: row * s.size + 8}, box);
  const y = i => row * i + row / 2 + 4;
  for (let from = 0; from < s.size; from++) {
    if (state.token !== null && state.token !== from) continue;
    for (let to = 0; to < s.size; to++) {
      const p = s.at(state.layer, state.head, from, to);
      if (p < 0.02) continue;
      element("line", {x1: left, y1: y(from), x2: right, y2: y(to),
        stroke: "#1f77b4", "stroke-width": 0.5 + 3 * p,
        "stroke-opacity": Math.min(1, 0.1 + p)}, svg);
    }
  }
  s.tokens.forEach((token, i) => {
    const faded = state.token !== null && state.token !== i;
    const text = element("text", {x: left - 6, y: y(i) + 4,
      "text-anchor": "end", class: faded ? "faded" : ""}, svg, token);
    text.onmouseenter = () => { state.token = i; drawLines(); };
    const p = state.token === null ? "" :
      ` ${(100 * s.at(state.layer, state.head, state.token, i)).toFixed(0)}%`;
    element("text", {x: right + 6, y: y(i) + 4}, svg, token + p);
  });
  svg.onmouseleave = () => { state.token = null; drawLines(); };
}
function drawMatrix() {
  const s = sentences[state.text];
  const size = Math.max(4, Math.min(18, Math.floor(560 / s.size)));
  const box = document.getElementById("matrix");
  box.replaceChildren();
  const svg = element("svg", {width: 100 + size * s.size,
    height: 100 + size * s.size}, box);
  s.tokens.forEach((token, i) => {
    const middle = 96 + size * i + size * 0.7;
    if (size < 9) return;
    element("text", {x: 92, y: middle, "text-anchor": "end"}, svg, token);
    element("text", {transform: `translate(${middle} 92) rotate(-60)`}, svg,
      token);
  });
  for (let from = 0; from < s.size; from++)
    for (let to = 0; to < s.size; to++) {
      const p = s.at(state.layer, state.head, from, to);
      const rect = element("rect", {x: 96 + size * to, y: 96 + size * from,
        width: size, height: size, fill: `rgb(${colour(p)})`}, svg);
      rect.onmouseenter = () => {
        document.getElementById("readout").textContent =
          `${s.tokens[from]} attends to ${s.tokens[to]}: ` +
          `${(100 * p).toFixed(1)}%`;
      };
    }
}
function draw() {
  document.getElementById("chosen").textContent =
    `Layer ${state.layer}, head ${state.head}: who attends (left) to whom`;
  drawGrid(); drawLines(); drawMatrix();
}
const select = document.getElementById("text");
sentences.forEach((s, i) => select.add(new Option(s.tokens.join(" "), i)));
select.onchange = () => {
  state.text = Number(select.value); state.token = null; draw();
};
draw();
</script>
</body>
</html>
"""
