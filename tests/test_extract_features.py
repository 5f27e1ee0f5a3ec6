"""Runs extract_features.py with the flags that a user passes."""

import gzip
import json
import os
import re

import numpy as np
import pytest

import script_runner
import stored_weights
from checkpoints import weight_files
from tiny_model import assert_close

GOLDEN = script_runner.ROOT / "tests" / "golden"
MODEL = GOLDEN / "pretraining_run" / "model"
LINES = GOLDEN / "extract_features" / "lines.txt"
DEFAULTS = {
  "input_file": LINES,
  "bert_config_file": MODEL / "bert_config.json",
  "vocab_file": MODEL / "vocab.txt",
  "init_checkpoint": MODEL / "bert_model.ckpt",
  "max_seq_length": 20,
}


def extract(tmp_path, code=0, **flags):
  """Runs the script, by default with the golden model."""
  return script_runner.run(
    "extract_features.py",
    code=code,
    **{**DEFAULTS, "output_file": tmp_path / "out", **flags},
  )


def refuse(tmp_path, message, **flags):
  script_runner.refuse(
    "extract_features.py",
    message,
    **{**DEFAULTS, "output_file": tmp_path / "out", **flags},
  )


def read_lines(path):
  with open(path, encoding="utf-8") as stream:
    return [json.loads(line) for line in stream]


def golden():
  path = GOLDEN / "extract_features" / "features.jsonl.gz"
  with gzip.open(path, "rt", encoding="utf-8") as stream:
    return [json.loads(line) for line in stream]


def values_of(record):
  """Returns the values of all tokens and layers, [T, L, H]."""
  return np.array(
    [
      [layer["values"] for layer in token["layers"]]
      for token in record["features"]
    ]
  )


def without_values(record):
  """Returns everything in a record except the values."""
  return (
    record["linex_index"],
    record.keys(),
    [
      (
        token["token"],
        token.keys(),
        [(layer["index"], layer.keys()) for layer in token["layers"]],
      )
      for token in record["features"]
    ],
  )


@pytest.mark.parametrize(
  "flags",
  [
    {"batch_size": 4},
    {
      "batch_size": 3,
      "use_one_hot_embeddings": True,
      "distribution_strategy": "mirrored",
      "num_logical_cpus": 2,
    },
  ],
  ids=["as the original", "two devices"],
)
def test_the_originals_features(tmp_path, flags):
  finished = extract(tmp_path, layers="-1,0", **flags)
  assert re.search(r"^11/11 lines  .*100\.0%$", finished.err, re.M)
  records, golden_records = read_lines(tmp_path / "out"), golden()
  for record, golden_record in zip(records, golden_records, strict=True):
    assert without_values(record) == without_values(golden_record)
    assert_close(values_of(record), values_of(golden_record))


def test_npz_and_xla_give_the_same_numbers(tmp_path):
  extract(tmp_path, layers="-1,0", output_format="npz", jit_compile="true")
  archive = np.load(tmp_path / "out")
  vectors = np.split(archive["values"], np.cumsum(archive["lengths"])[:-1])
  for values, golden_record in zip(vectors, golden(), strict=True):
    assert_close(values, values_of(golden_record))


def mean_vectors():
  """Returns each line's last layer, averaged over the tokens."""
  return [values_of(record)[:, 0].mean(axis=0) for record in golden()]


@pytest.fixture(scope="module")
def bare_encoder(tmp_path_factory):
  """The golden model without its pooler."""
  path = tmp_path_factory.mktemp("bare") / "bare.ckpt"
  weights = stored_weights.read(str(MODEL / "bert_model.ckpt"))
  weight_files.write_tf1(
    str(path), {k: v for k, v in weights.items() if "pooler" not in k}
  )
  return path


def test_the_mean_of_the_last_layer(tmp_path, bare_encoder):
  extract(tmp_path, init_checkpoint=bare_encoder, pooling="mean")
  records = read_lines(tmp_path / "out")
  assert [record["linex_index"] for record in records] == list(range(11))
  assert_close([record["vector"] for record in records], mean_vectors())


def test_the_pooled_vector_needs_a_pooler(tmp_path, bare_encoder):
  finished = extract(
    tmp_path, 1, init_checkpoint=bare_encoder, pooling="pooled"
  )
  assert "has no bert/pooler/dense/bias" in finished.last_line


def test_similarity_of_pairs(tmp_path):
  lines = LINES.read_text(encoding="utf-8").split("\n")
  pairs = tmp_path / "pairs.txt"
  pairs.write_text(f"{lines[1]} ||| {lines[5]}\n{lines[2]} ||| {lines[2]}\n")
  extract(
    tmp_path, input_file=pairs, pooling="mean", similarity=True, batch_size=3
  )
  different, equal = read_lines(tmp_path / "out")
  assert equal == {"linex_index": 1, "similarity": 1.0}
  a, b = mean_vectors()[1], mean_vectors()[5]
  cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
  assert different["similarity"] == pytest.approx(cosine, abs=1e-5)
  assert cosine < 0.9


def test_similarity_and_search_print_when_no_file_is_named(tmp_path):
  lines = LINES.read_text(encoding="utf-8").split("\n")
  pairs = tmp_path / "pairs.txt"
  pairs.write_text(f"{lines[1]} ||| {lines[5]}\n{lines[2]} ||| {lines[2]}\n")
  flags = {"pooling": "mean", "output_file": None}
  shown = extract(tmp_path, input_file=pairs, similarity=True, **flags)
  different, equal = map(json.loads, shown.out.splitlines())
  assert equal == {"linex_index": 1, "similarity": 1.0}
  assert different["similarity"] < 0.9
  shown = extract(tmp_path, search=LINES, top_k=3, **flags)
  means = np.array(mean_vectors())
  for number, line in enumerate(map(json.loads, shown.out.splitlines())):
    assert_results(line, number, nearest(number, means, 3), lines)
  assert [path.name for path in tmp_path.iterdir()] == ["pairs.txt"]


def nearest(query, means, count):
  """Returns [(line number, cosine)] without the query itself, using NumPy."""
  cosines = means @ means[query]
  cosines /= np.linalg.norm(means, axis=1) * np.linalg.norm(means[query])
  neighbors = [n for n in np.argsort(-cosines) if n != query]
  return [(n, cosines[n]) for n in neighbors[:count]]


def assert_results(record, number, expected, lines):
  assert record["linex_index"] == number
  results = record["results"]
  assert [r["line"] for r in results] == [n for n, _ in expected]
  assert [r["text"] for r in results] == [lines[n] for n, _ in expected]
  assert_close([r["cosine"] for r in results], [c for _, c in expected])


def test_search_of_lines_and_then_by_their_stored_vectors(tmp_path):
  lines = LINES.read_text(encoding="utf-8").removesuffix("\n").split("\n")
  means = np.array(mean_vectors())
  finished = extract(tmp_path, search=LINES, pooling="mean", top_k=3)
  answers = [json.loads(line) for line in finished.out.splitlines()]
  for number, (line, query) in enumerate(zip(answers, lines, strict=True)):
    assert line["query"] == query
    assert_results(line, number, nearest(number, means, 3), lines)
  stored = np.load(tmp_path / "out")["vectors"]
  assert_close(stored, means)
  queries = tmp_path / "queries.txt"
  queries.write_bytes(f"{lines[5]}\r\n{lines[1]}".encode())
  finished = extract(
    tmp_path,
    search=queries,
    pooling="mean",
    vectors_file=tmp_path / "out",
    output_file=None,
    top_k=99,
  )
  for number, line in enumerate(map(json.loads, finished.out.splitlines())):
    query = (5, 1)[number]
    assert line["query"] == lines[query]
    expected = [(query, 1.0), *nearest(query, means, 99)]
    assert_results(line, number, expected, lines)
  assert number == 1
  search_flags = {"search": queries, "vectors_file": tmp_path / "out"}
  refuse(
    tmp_path,
    "out has a different vector for the first line than this",
    **search_flags,
    pooling="max",
    output_file=None,
  )
  message = f"--output_file={queries} is a file that --search reads"
  refuse(tmp_path, message, search=queries, pooling="max", output_file=queries)
  queries.write_text("")
  refuse(
    tmp_path,
    f"{queries} is empty",
    **search_flags,
    pooling="mean",
    output_file=None,
  )


def test_the_attention_of_chosen_lines(tmp_path):
  extract(
    tmp_path,
    output_file=None,
    picture_lines="5,0",
    attention_html=tmp_path / "page.html",
  )
  assert os.listdir(tmp_path) == ["page.html"]
  text = (tmp_path / "page.html").read_text(encoding="utf-8")
  assert '"tokens": ["[CLS]", "more", "text", "[SEP]"], "layers": 3' in text
  assert '"guide"' in text


@pytest.mark.parametrize(
  "flags, message",
  [
    (
      {},
      "--layers=-1,-2,-3,-4: '-4' is not a layer of this model, which has 3; "
      "the valid numbers are -3 to 2",
    ),
    ({"layers": "last"}, "'last' is not a layer of this model"),
    ({"layers": "1,-4"}, "'-4' is not a layer of this model"),
    (
      {"pooling": "last_four_concat"},
      "'-4' is not a layer of this model, which",
    ),
    (
      {"pooling": "mean", "similarity": True},
      "lines.txt:2: no pair in 'his gold, as it fell'",
    ),
    ({"layers": "0", "init_checkpoint": None}, "pass --init_checkpoint"),
    ({"output_file": None}, "pass --output_file, --similarity, --search or "),
    (
      {
        "output_file": None,
        "attention_html": "page.html",
        "picture_lines": "2,11",
      },
      "lines.txt has no line 11 (the first is 0)",
    ),
    (
      {"layers": "0", "picture_lines": "-1", "attention_html": "page.html"},
      "--picture_lines=-1: expected",
    ),
    (
      {"layers": "0", "max_seq_length": 65},
      "more than the model's max_position_embeddings 64",
    ),
    ({"layers": "0", "input_file": "absent.txt"}, "no such file: absent.txt"),
  ],
)
def test_errors_are_one_sentence(tmp_path, flags, message):
  refuse(tmp_path, message, **flags)
  assert not (tmp_path / "out").exists()


def test_the_layers_of_a_vector(tmp_path):
  extract(tmp_path, pooling="mean", pooling_layer="0,-1+0")
  means = np.array([values_of(line).mean(axis=0) for line in golden()])
  expected = np.concatenate([means[:, 1], means.sum(axis=1)], axis=1)
  assert_close(
    [line["vector"] for line in read_lines(tmp_path / "out")], expected
  )


def test_an_empty_file_gives_an_empty_file(tmp_path):
  """As in the original."""
  empty = tmp_path / "empty.txt"
  empty.write_text("")
  finished = extract(tmp_path, input_file=empty, layers="0")
  assert (tmp_path / "out").read_bytes() == b""
  assert "the input has no line" in finished.err
  finished = extract(
    tmp_path,
    1,
    input_file=empty,
    layers="0",
    output_file=tmp_path / "npz",
    output_format="npz",
  )
  assert "empty.txt is empty" in finished.last_line
