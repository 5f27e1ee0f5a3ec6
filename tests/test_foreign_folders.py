"""Folders of other programs give those programs' answers, or are refused.

The grid is folder x way; texts are longer than the folders' lengths. The right
answers are those of transformers and sentence-transformers.
"""

import json
import pathlib
import shutil

import numpy as np
import pytest

import script_runner
from common import errors
from exports import saved_model
from serving import text_models

GOLDEN = script_runner.ROOT / "tests" / "golden" / "foreign_folders"
STORED = json.loads((GOLDEN / "answers.json").read_text("utf-8"))
# {folder: what the refusal names}
REFUSED = {
  "roberta_bert_words": ("vocabulary", "[UNK]", "pad_token_id"),
  "vectors_dense": ("modules.json", "Dense"),
  "scores_dense": ("Dense", "classify"),
}
HEADS = {
  "classes": "classification",
  "pairs": "classification",
  "several": "classification",
  "scores": "classification",
  "tag": "tagging",
  "span": "span",
  "mask": "masked_lm",
  "vectors": "embedding",
  "sparse": "sparse",
}
PAIRS = {"text_pairs": True}


def rows_of(name, mask):
  """Returns (kind of answer, the rows of texts as tuples, right answers)."""
  kind, answers = STORED["answers"][name]
  rows = STORED.get(kind, STORED["texts"])
  if kind in ("pairs", "scores"):
    rows = STORED["pairs"]
  rows = [tuple([row] if isinstance(row, str) else row) for row in rows]
  if kind == "mask":
    rows = [(text.replace("[MASK]", mask),) for (text,) in rows]
  return kind, rows, answers


def check(kind, found, right):
  """Compares an answer of answering.answers with the stored one."""
  near = {"rtol": 0, "atol": 1e-5}
  if kind in ("classes", "pairs", "several"):
    np.testing.assert_allclose(found["probabilities"], right, **near)
  elif kind in ("scores", "span"):
    np.testing.assert_allclose(found["score"], right, **near)
  elif kind == "vectors":
    np.testing.assert_allclose(found["embedding"], right, **near)
  elif kind == "sparse":
    assert found["weights"].keys() == right.keys()
    values = [found["weights"][word] for word in right]
    np.testing.assert_allclose(values, [*right.values()], **near)
  elif kind == "mask":
    assert found["fillings"] == [right[0]]
    np.testing.assert_allclose(found["probabilities"], [right[1]], **near)
  else:
    # Windows also tag the words that theirs cut.
    labels, probabilities = zip(*right)
    count = len(labels)
    assert found["tags"][:count] == [*labels]
    values = found["probabilities"][:count]
    np.testing.assert_allclose(values, probabilities, **near)


def by_python(folder, head, options, **engine):
  """Returns the function of text_models for rows."""
  bert = text_models.load(folder, **engine, **options)
  ask = {
    "classification": bert.classify,
    "tagging": bert.tag,
    "masked_lm": bert.fill_mask,
    "embedding": lambda rows: [{"embedding": v} for v in bert.embed(rows)],
    "sparse": lambda rows: [{"weights": w} for w in bert.embed_sparse(rows)],
  }

  def answer(rows):
    if head == "span":
      return bert.answer(*map(list, zip(*rows)))
    return ask[head]([row[0] if len(row) == 1 else row for row in rows])

  return answer


def by_onnx_engine(folder, head, options):
  return by_python(folder, head, options, engine="onnx")


def by_server(folder, head, options):
  """Returns the function of serve.py --model_dir."""
  return text_models.load(folder, **options).servable(head).answerer()


def exported(folder, head, options, export_format):
  export = pathlib.Path(folder).parent / "export"
  script_runner.succeed(
    "export_saved_model.py",
    model_dir=folder,
    export_dir=export,
    head=head,
    format=export_format,
    **options,
  )
  return str(export)


def by_onnx_export(folder, head, options):
  return by_python(exported(folder, head, options, "onnx"), head, {})


def by_saved_model(folder, head, options):
  export = exported(folder, head, options, "saved_model")
  return saved_model.load(export).answerer()


SCRIPTS = {
  "classification": "run_classifier.py",
  "tagging": "run_ner.py",
  "span": "run_squad.py",
  "embedding": "extract_features.py",
  "sparse": "extract_features.py",
}


def by_script(folder, head, options):
  """Returns the function of a script's --text and --text_b."""
  names = ("question", "context") if head == "span" else ("text", "text_b")
  flags = {"model_dir": folder, "sparse": True if head == "sparse" else None}

  def answer(rows):
    texts = {name: [*column] for name, column in zip(names, zip(*rows))}
    done = script_runner.run(SCRIPTS[head], **texts, **flags)
    if done.code:
      raise errors.InputError(done.last_line)
    return [json.loads(line) for line in done.out.splitlines()]

  return answer


WAYS = {
  "script": by_script,
  "python": by_python,
  "onnx engine": by_onnx_engine,
  "server": by_server,
  "onnx export": by_onnx_export,
  "saved_model": by_saved_model,
}
FAST = ("python", "server", "saved_model")


def cases():
  for name in STORED["answers"]:
    for way in WAYS:
      # The graph's tokenizer takes lists of word pieces only.
      if way == "saved_model" and name != "bert_by_hand":
        continue
      # fill_mask.py prints tokens and probabilities; others test it.
      if way == "script" and "mask" in name:
        continue
      yield pytest.param(
        name, way, marks=() if way in FAST else pytest.mark.slow
      )


@pytest.mark.parametrize("name, way", list(cases()))
def test_a_folder_gives_the_answers_of_its_program_or_is_refused(
  tmp_path, name, way, caplog
):
  if way.startswith("onnx"):
    pytest.importorskip("onnxruntime")
  folder = str(tmp_path / name)
  shutil.copytree(GOLDEN / name, folder)
  mask = "<mask>" if name.startswith("roberta") else "[MASK]"
  kind, rows, right = rows_of(name, mask)
  options = PAIRS if kind == "pairs" else {}
  if name in REFUSED:
    if "export" in way:
      return  # As the engine, whose network it writes.
    with pytest.raises(errors.InputError) as refused:
      WAYS[way](folder, HEADS[kind], options)(rows)
    assert all(fact in str(refused.value) for fact in REFUSED[name])
    return
  answers = WAYS[way](folder, HEADS[kind], options)(rows)
  assert len(answers) == len(right)
  for found, expected in zip(answers, right):
    check(kind, found, expected)
  if way == "python" and kind not in ("tag", "span"):
    assert "texts are longer than" in caplog.text
