"""Prompts: equal to sentence-transformers' in every way that makes vectors."""

import json
import pathlib
import re
import shutil

import numpy as np
import pytest

import message_facts
import script_runner
from checkpoints import (
  converter,
  model_files,
  sentence_folder,
  sentence_prompts,
)
from common import errors, json_files, run_settings
from serving import text_models
from test_checkpoints_sentence_folder import write_case
from test_web_forms import ask_each

GOLDEN = pathlib.Path(__file__).parent / "golden" / "sentence_vectors"
EXPECTED = json.loads((GOLDEN / "prompts.json").read_text())
TEXTS = EXPECTED["texts"]
# {case of the golden file: options in Python and flags}
CASES = {
  "default": {},
  "none": {"prompt": ""},
  "text": {"prompt": "The keeper: "},
  "lit": {"prompt_name": "lit"},
  "query": {"prompt_name": "query"},
}
FILE = sentence_prompts.FILE


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  folder = write_case(tmp_path_factory.mktemp("prompts") / "model", "mean")
  (pathlib.Path(folder) / FILE).write_text(json.dumps(EXPECTED["file"]))
  return folder


@pytest.fixture(scope="module")
def sparse_folder(tmp_path_factory):
  folder = tmp_path_factory.mktemp("prompts") / "sparse"
  shutil.copytree(GOLDEN / "sparse", folder)
  (folder / FILE).write_text(json.dumps(EXPECTED["file"]))
  return str(folder)


def assert_vectors(vectors, case):
  np.testing.assert_allclose(vectors, EXPECTED["vectors"][case], atol=1e-5)


def assert_weights(rows, case):
  for row, expected in zip(rows, EXPECTED["weights"][case], strict=True):
    assert row == pytest.approx(expected, abs=1e-5)


@pytest.fixture(scope="module")
def exports(folder, tmp_path_factory):
  """{format: an export with the default prompt, or with one that is given}."""
  paths = {}
  # A graph takes only a list of word pieces.
  listed = shutil.copytree(folder, tmp_path_factory.mktemp("prompts") / "list")
  vocab = json.loads((listed / "tokenizer.json").read_text())["model"]["vocab"]
  (listed / "tokenizer.json").unlink()
  (listed / "vocab.txt").write_text("\n".join(sorted(vocab, key=vocab.get)))
  for form, flags in (("onnx", {}), ("saved_model", CASES["text"])):
    paths[form] = tmp_path_factory.mktemp("prompts") / form
    script_runner.succeed(
      "export_saved_model.py",
      head="embedding",
      model_dir=listed,
      export_dir=paths[form],
      format=form,
      **flags,
    )
  return paths


@pytest.mark.parametrize("case", CASES)
def test_vectors_in_python_equal_sentence_transformers(folder, exports, case):
  """Options of a method, and of `load`, on weights and on an export."""
  options = CASES[case]
  for model in (folder, str(exports["onnx"])):
    loaded = text_models.load(model)
    assert_vectors(loaded.embed(TEXTS, **options), case)
    assert_vectors(text_models.load(model, **options).embed(TEXTS), case)
    # Another prompt needs no other network.
    loaded.embed(TEXTS[:1], prompt="other ")
    assert_vectors(loaded.embed(TEXTS), "default")


@pytest.mark.parametrize("case", CASES)
def test_sparse_weights_equal_sentence_transformers(sparse_folder, case):
  if case != "query":
    model = text_models.load(sparse_folder)
    assert_weights(model.embed_sparse(TEXTS, **CASES[case]), case)


def test_a_saved_model_adds_its_prompt_in_the_graph_and_in_serve(exports):
  import tensorflow as tf

  from exports import saved_model

  path = str(exports["saved_model"])
  served = saved_model.load(path)
  rows = [(text,) for text in TEXTS]
  vectors = [row["embedding"] for row in served.answerer()(rows)]
  assert_vectors(vectors, "text")
  named = served.answerer()(rows, prompt=served.prompts.chosen(None, "lit"))
  assert_vectors([row["embedding"] for row in named], "lit")
  in_graph = tf.saved_model.load(served.folder).signatures["serving_default"]
  assert_vectors(in_graph(text=tf.constant(TEXTS))["embedding"], "text")


def extract(folder, tmp_path, **flags):
  (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
  return script_runner.succeed(
    "extract_features.py",
    model_dir=folder,
    input_file=tmp_path / "texts.txt",
    **flags,
  )


@pytest.mark.parametrize("case", ["default", "text", "lit"])
def test_extract_features_adds_prompts(folder, tmp_path, case):
  out = tmp_path / "out.jsonl"
  extract(folder, tmp_path, output_file=out, pooling="mean", **CASES[case])
  lines = map(json.loads, out.read_text().splitlines())
  assert_vectors([line["vector"] for line in lines], case)


def test_extract_features_adds_prompts_to_sparse_weights(
  sparse_folder, tmp_path
):
  out = tmp_path / "out.jsonl"
  extract(sparse_folder, tmp_path, output_file=out, sparse=True)
  lines = map(json.loads, out.read_text().splitlines())
  assert_weights([line["weights"] for line in lines], "default")


def test_a_text_of_a_flag_gets_the_prompt(folder, exports):
  for model in (folder, exports["onnx"]):
    done = script_runner.succeed(
      "extract_features.py", model_dir=model, text=TEXTS[0], prompt_name="lit"
    )
    vector = json.loads(done.out)["embedding"]
    np.testing.assert_allclose(vector, EXPECTED["vectors"]["lit"][0], atol=1e-5)


@pytest.mark.parametrize(
  "flags, line_case, query_case",
  [
    # The folder has no prompt "document", but "passage".
    ({}, "default", "query"),
    (CASES["text"], "text", "text"),
    ({"query_prompt": "The keeper: "}, "default", "text"),
    ({"prompt": "", "query_prompt": "The keeper: "}, "none", "text"),
  ],
)
def test_search_has_a_prompt_for_lines_and_one_for_queries(
  folder, tmp_path, flags, line_case, query_case
):
  lines, queries = (
    np.array(EXPECTED["vectors"][case]) for case in (line_case, query_case)
  )
  expected = np.sort((queries[:1] @ lines[:3].T)[0])[::-1]
  model = text_models.load(folder)
  found = model.search(TEXTS[0], TEXTS[:3], **flags)
  cosines = [row["cosine"] for row in found]
  np.testing.assert_allclose(cosines, expected, atol=1e-5)
  (tmp_path / "queries.txt").write_text(TEXTS[0] + "\n")
  done = extract(folder, tmp_path, search=tmp_path / "queries.txt", **flags)
  rows = json.loads(done.out.splitlines()[0])["results"]
  found = {row["text"]: row["cosine"] for row in rows}
  for text, cosine in zip(TEXTS[:2], (queries[:1] @ lines.T)[0]):
    assert found[text] == pytest.approx(cosine, abs=1e-5)


def test_equal_files_refuse_a_prompt_for_queries(folder, tmp_path):
  (tmp_path / "texts.txt").write_text("a\nb\n")
  script_runner.refuse(
    "extract_features.py",
    "pass --prompt instead",
    model_dir=folder,
    input_file=tmp_path / "texts.txt",
    search=tmp_path / "texts.txt",
    query_prompt="q ",
  )


def test_hidden_states_get_a_prompt_that_is_asked_for(folder):
  model = text_models.load(folder)
  tokens = model.encode(TEXTS[0]).tokens
  assert tokens[:2] == ["[CLS]", "the"]
  prompted = model.encode(TEXTS[0], prompt_name="lit").tokens
  assert len(prompted) >= len(tokens)
  assert prompted == model.encode("lit" + TEXTS[0]).tokens


def test_the_server_takes_the_name_of_a_prompt(folder):
  model, body = (
    text_models.load(folder).servable("embedding"),
    {"inputs": TEXTS},
  )
  openai = {"model": "m", "input": TEXTS}
  (_, lit), (_, default), (_, vectors), (status, refused) = ask_each(
    model,
    [
      ("/embed", {**body, "prompt_name": "lit"}),
      ("/embed", body),
      ("/v1/embeddings", openai),
      ("/embed", {**body, "prompt_name": "no"}),
    ],
  )
  assert_vectors(lit, "lit")
  assert_vectors(default, "default")
  assert_vectors([row["embedding"] for row in vectors["data"]], "default")
  assert status == 400 and "query, passage, lit" in refused["error"]


def test_conversion_keeps_prompts(folder, tmp_path):
  converter.convert(converter.open_source(folder), f"{tmp_path}/out", "tf1")
  assert_vectors(text_models.load(f"{tmp_path}/out").embed(TEXTS), "default")


@pytest.mark.parametrize(
  "given, facts",
  [
    (("a", "lit"), ["prompt='a'", "prompt_name='lit'"]),
    ((None, "other"), ["'other'", "query, passage, lit", FILE]),
  ],
)
def test_prompts_that_cannot_be_chosen_are_named(folder, given, facts):
  prompts = model_files.ModelFiles(folder).prompts
  with pytest.raises(errors.InputError) as refused:
    prompts.chosen(*given)
  for fact in facts:
    assert fact in str(refused.value)


def test_prompts_outside_of_the_pooling_are_refused(folder, tmp_path):
  shutil.copytree(folder, tmp_path / "model")
  path = tmp_path / "model/1_Pooling/config.json"
  path.write_text(
    json.dumps({**json.loads(path.read_text()), "include_prompt": False})
  )
  model = text_models.load(tmp_path / "model")
  for options in ({}, CASES["lit"]):
    with pytest.raises(errors.InputError, match="include_prompt is false"):
      model.embed(TEXTS, **options)
  # What the message advises.
  assert_vectors(model.embed(TEXTS, prompt=""), "none")


def test_a_default_without_a_prompt_is_refused(tmp_path):
  (tmp_path / FILE).write_text('{"prompts": {}, "default_prompt_name": "q"}')
  with pytest.raises(errors.InputError, match="default_prompt_name is 'q'"):
    sentence_prompts.read(str(tmp_path))
  (tmp_path / FILE).write_text('{"default_prompt_name": "query"}')
  assert sentence_prompts.read(str(tmp_path)).default == ""


def test_a_prompt_without_a_name_gets_one(tmp_path):
  prompts = sentence_prompts.Prompts({"q": "query: "})
  sentence_prompts.write(str(tmp_path), prompts, "other: ")
  read = sentence_prompts.read(json_files.Folder(str(tmp_path)))
  assert read.by_name == {"q": "query: ", "default": "other: "}
  assert read.default == "other: "


@pytest.mark.parametrize(
  "by_name, default, stored",
  [
    ({}, "", None),
    ({"q": "query: "}, "", ({"q": "query: "}, None)),
    ({"q": "query: "}, "query: ", ({"q": "query: "}, "q")),
    ({}, "text: ", ({"default": "text: "}, "default")),
  ],
)
def test_the_written_file_has_the_default_by_its_name(
  tmp_path, by_name, default, stored
):
  sentence_prompts.write(
    str(tmp_path), sentence_prompts.Prompts(by_name), default
  )
  if stored is None:
    assert not [*tmp_path.iterdir()]
    return
  prompts, name = stored
  assert json.loads((tmp_path / FILE).read_text()) == {
    "prompts": prompts,
    "default_prompt_name": name,
    "similarity_fn_name": "cosine",
  }
  assert sentence_prompts.read(str(tmp_path)).default == default


@pytest.mark.parametrize("name", ["query", "document", None, "p"])
def test_the_default_may_be_a_name_without_a_file(tmp_path, name):
  values = {"prompts": {"p": None}, "default_prompt_name": name}
  (tmp_path / FILE).write_text(json.dumps(values))
  prompts = sentence_prompts.read(str(tmp_path))
  assert (prompts.by_name, prompts.default) == ({"p": ""}, "")
  assert prompts.place == str(tmp_path / FILE)


def test_a_prompt_that_is_given_is_not_looked_up(tmp_path):
  folder = write_case(tmp_path / "model", "mean")
  values = {"prompts": {"q": "query: "}, "default_prompt_name": "q"}
  (tmp_path / "model" / FILE).write_text(json.dumps(values))
  path = tmp_path / "model/1_Pooling/config.json"
  path.write_text(
    json.dumps({**json.loads(path.read_text()), "include_prompt": False})
  )
  files = model_files.ModelFiles(folder)
  none = {"prompt": None, "prompt_name": None, "pooling": "mean"}
  with pytest.raises(errors.InputError, match="include_prompt is false"):
    files.complete(run_settings.Settings(none), head="embedding")
  given = run_settings.Settings({**none, "prompt": ""}, {"prompt"})
  assert files.complete(given, head="embedding").prompt == ""
  both = run_settings.Settings(
    {**none, "prompt": "", "prompt_name": "q"}, {"prompt", "prompt_name"}
  )
  with pytest.raises(errors.InputError, match="two prompts"):
    files.complete(both, head="embedding")


def test_training_names_a_prompt_that_it_does_not_add(folder, tmp_path):
  assert sentence_folder.read_prompts(folder).default
  (tmp_path / "train.csv").write_text("a,b,score\nthe,river,0.5\n")
  script_runner.refuse(
    "run_classifier.py",
    "pass --pooling",
    do_train=True,
    task_kind="similarity",
    model_dir=folder,
    train_file=tmp_path / "train.csv",
    text_column="a",
    text_b_column="b",
    label_column="score",
    output_dir=tmp_path / "out",
  )


def test_training_says_that_named_prompts_are_not_added(folder, tmp_path):
  shutil.copytree(folder, tmp_path / "model")
  path = tmp_path / "model" / FILE
  values = {**json.loads(path.read_text()), "default_prompt_name": None}
  path.write_text(json.dumps(values))
  (tmp_path / "train.csv").write_text("a,b,score\nthe,river,0.5\n")
  finished = script_runner.run(
    "run_classifier.py",
    do_train=True,
    task_kind="similarity",
    model_dir=tmp_path / "model",
    train_file=tmp_path / "train.csv",
    text_column="a",
    text_b_column="b",
    label_column="score",
    train_batch_size=1,
    num_train_epochs=1,
    output_dir=tmp_path / "out",
    eager=True,
  )
  names = [name for name, text in values["prompts"].items() if text]
  assert re.search(
    message_facts.says(str(path), *names, "not added"), finished.err
  )


@pytest.mark.parametrize(
  "default, prompts, given, outcome",
  [
    ("q", {"q": "query: "}, {"pooling"}, "query: "),
    ("q", {"q": "query: "}, set(), errors.InputError),
    (None, {"q": "query: ", "e": ""}, set(), "(q)"),
    (None, {"e": ""}, set(), None),
  ],
)
def test_a_command_that_adds_no_prompt_says_so_once(
  default, prompts, given, outcome, tmp_path, caplog
):
  """Training has --pooling, but not --prompt."""
  folder = write_case(tmp_path / "model", "mean")
  values = {"prompts": prompts, "default_prompt_name": default}
  (tmp_path / "model" / FILE).write_text(json.dumps(values))
  settings = run_settings.Settings({"pooling": "mean"}, given)
  files = model_files.ModelFiles(folder)
  if outcome is errors.InputError:
    with pytest.raises(errors.InputError, match="pass --pooling"):
      files.complete(settings, head="embedding")
    return
  for _ in range(2):
    files.complete(settings, head="embedding")
    # Other heads have no prompts.
    files.complete(settings, head="masked_lm")
  warnings = [text for text in caplog.messages if FILE in text]
  assert len(warnings) == bool(outcome)
  assert not outcome or outcome in warnings[0]
