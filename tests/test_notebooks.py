"""Tests the notebooks: their stored outputs, and whether they run."""

import ast
import json
import os
import re

import pytest

import serving_models
from test_layout import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
# A small model and few steps.
SHORT = {
  "BERT_MODEL": str(serving_models.FOLDER),
  "BERT_EPOCHS": "1",
  "BERT_STEPS": "4",
}


def cells(path):
  """Returns the cells of a notebook, each a dict of nbformat."""
  return json.loads(path.read_text(encoding="utf-8"))["cells"]


def texts_of(output):
  """Yields the texts that an output shows."""
  yield from output.get("text", [])
  for mime_type, text in output.get("data", {}).items():
    if mime_type.startswith("text/"):
      yield from text


def test_there_are_notebooks_and_a_page_links_each():
  page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
  linked = re.findall(r"\(notebooks/(\w+\.ipynb)\)", page)
  assert linked and sorted(linked) == [path.name for path in NOTEBOOKS]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stored_and_show_no_local_path(path):
  all_cells = cells(path)
  assert len(all_cells) <= 25 and all_cells[0]["cell_type"] == "markdown"
  code = [cell for cell in all_cells if cell["cell_type"] == "code"]
  # All cells were run in order.
  assert [c["execution_count"] for c in code] == list(range(1, len(code) + 1))
  outputs = [output for cell in code for output in cell["outputs"]]
  assert {output["output_type"] for output in outputs} <= {
    "stream",
    "display_data",
    "execute_result",
  }
  assert any("image/png" in output.get("data", {}) for output in outputs)
  shown = "".join(text for output in outputs for text in texts_of(output))
  assert shown
  assert not re.search(r"(?<![\w.])/(tmp|root|home|work|mnt)\b", shown)
  for cell in code:
    ast.parse("".join(cell["source"]))


def write_sentences(folder):
  """Writes train.tsv and dev.tsv in SST-2's format, 20 sentences each."""
  rows = ["a fine film\t1\n", "a long evening\t0\n"] * 10
  for name in ("train.tsv", "dev.tsv"):
    (folder / name).write_text("".join(["sentence\tlabel\n", *rows]))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_with_a_tiny_model(path, tmp_path, monkeypatch):
  import nbclient
  import nbformat

  for name, value in SHORT.items():
    monkeypatch.setenv(name, value)
  monkeypatch.setenv("BERT_WORK", str(tmp_path / "out"))
  monkeypatch.setenv("BERT_SST2", str(tmp_path))
  write_sentences(tmp_path)
  notebook = nbformat.read(path, as_version=4)
  # Raises if a cell raises.
  nbclient.NotebookClient(
    notebook,
    timeout=600,
    kernel_name="python3",
    # Outside the clone, the kernel imports the installed package.
    resources={
      "metadata": {"path": os.environ.get("NOTEBOOK_FOLDER", path.parent)}
    },
  ).execute()
  assert any(cell.get("outputs") for cell in notebook.cells)
  assert (tmp_path / "out").is_dir()
