"""Tests the forms of requests: embeddings, rerank, openapi, api_key."""

import asyncio
import base64
import math
import re
import time

import numpy as np
import pytest

import served
from answering import answers
from common import errors
from message_facts import says
from web import texts_of, work_queue


def embed(rows):
  return [{"embedding": [float(len(text)), 4.0]} for (text,) in rows]


def embedder():
  return served.model(embed, "embedding", max_seq_length=8)


def network(input_ids, input_mask, segment_ids):
  """Gives the number of tokens of the passage, minus 3, as its logit."""
  del input_ids, input_mask
  return {"logits": segment_ids.sum(1, keepdims=True).astype(np.float32) - 3}


def reranker(**values):
  fake = served.model(
    None,
    "classification",
    ("text_a", "text_b"),
    output_activation="relevance",
    doc_stride=0,
    text_pairs=True,
    vocab_file=str(served.VOCABULARY),
    **values,
  )
  return answers.Served(*fake._replace(network=network))


def ask_each(models, requests, **options):
  """Returns (status, answer) for each (path, body, headers)."""

  async def main():
    async with served.asking(models, **options) as ask:
      return [
        await ask(path, body, **(headers[0] if headers else {}))
        for path, body, *headers in requests
      ]

  return asyncio.run(main())


def test_embeddings_in_openais_form():
  body = {"model": "m", "input": ["the star", "gold"], "user": "u"}
  results = ask_each(
    embedder(),
    [
      ("/v1/embeddings", body),
      ("/v1/embeddings", {**body, "encoding_format": "base64"}),
      ("/v1/embeddings", {"model": "m", "input": "gold", "dimensions": 2}),
      ("/v1/models", None),
    ],
  )
  assert [status for status, _ in results] == [200] * 4
  first, second, third, models = (answer for _, answer in results)
  assert first["object"] == "list" and first["model"] == "m"
  assert first["data"] == [
    {"object": "embedding", "index": 0, "embedding": [8.0, 4.0]},
    {"object": "embedding", "index": 1, "embedding": [4.0, 4.0]},
  ]
  # [CLS] the star [SEP], [CLS] gold [SEP]
  assert first["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
  vectors = [
    np.frombuffer(base64.b64decode(row["embedding"]), "<f4").tolist()
    for row in second["data"]
  ]
  assert vectors == [[8.0, 4.0], [4.0, 4.0]]
  assert third["data"][0]["embedding"] == [4.0, 4.0]
  (row,) = models["data"]
  assert 0 <= time.time() - row.pop("created") < 600
  assert row == {"id": "m", "object": "model", "owned_by": "bert-tf2"}
  assert models["object"] == "list"


def test_vectors_in_the_form_of_tei():
  results = ask_each(
    embedder(),
    [
      ("/embed", {"inputs": "him"}),
      ("/embed", {"inputs": ["him", "gold"], "normalize": False}),
      ("/embed", {"inputs": "him " * 7, "truncate": False}),
      ("/embed", {"inputs": "him " * 7}),
      ("/embed", {"inputs": ["a", "him " * 6], "truncate": False}),
      ("/embed", {"inputs": ["him " * 7, "a"], "truncate": False}),
      ("/embed", {"inputs": "him", "normalise": True}),
    ],
  )
  np.testing.assert_allclose(results[0][1], [[0.6, 0.8]], atol=1e-6)
  assert results[1] == (200, [[3.0, 4.0], [4.0, 4.0]])
  # With [CLS] and [SEP], the text has 9 tokens; the model takes 8.
  assert results[2][0] == 413 and "9 tokens" in results[2][1]["error"]
  assert results[3][0] == results[4][0] == 200
  assert results[5][0] == 413
  assert results[6][0] == 400 and "'normalise'" in results[6][1]["error"]


def test_vectors_of_pairs_are_no_vectors_of_texts():
  pairs = served.model(embed, "embedding", ("text_a", "text_b"))
  requests = [
    ("/embed", {"inputs": "him"}),
    ("/v1/embeddings", {"model": "m", "input": "him"}),
  ]
  for status, answer in ask_each(pairs, requests):
    assert status == 400 and "a model for vectors of texts" in str(answer)


def test_the_prompt_of_a_model_counts_as_tokens():
  model = served.model(embed, "embedding", max_seq_length=8, prompt="the star ")
  ((_, answer),) = ask_each(
    model, [("/v1/embeddings", {"model": "m", "input": "gold"})]
  )
  assert answer["usage"]["prompt_tokens"] == 5


def test_rerank_in_two_forms():
  passages = ["the", "the gold star was", "the star"]
  request = {"query": "who ?", "texts": passages}
  documents = {"model": "m", "query": "who ?", "documents": passages}
  results = ask_each(
    reranker(),
    [
      ("/rerank", {**request, "raw_scores": True}),
      ("/rerank", {**request, "return_text": True}),
      ("/v1/rerank", {**documents, "top_n": 1, "return_documents": True}),
      ("/v1/rerank", {**documents, "documents": ["gold", "the", "star"]}),
      ("/rerank", {"query": "who ?", "texts": ["the"], "truncate": True}),
    ],
  )
  assert [status for status, _ in results] == [200] * 5
  # The passage and its [SEP] have 2, 5 and 3 tokens.
  assert results[0][1] == [
    {"index": 1, "score": 2.0},
    {"index": 2, "score": 0.0},
    {"index": 0, "score": -1.0},
  ]
  sigmoid = 1 / (1 + math.exp(-2))
  best = results[1][1][0]
  assert best["text"] == passages[1] and best["index"] == 1
  assert best["score"] == pytest.approx(sigmoid)
  (best,) = results[2][1]["results"]
  assert best["relevance_score"] == pytest.approx(sigmoid)
  assert best["document"] == {"text": passages[1]} and best["index"] == 1
  # Equal scores keep the order of the request.
  score = 1 / (1 + math.exp(1))
  assert results[3][1] == {
    "model": "m",
    "results": [
      {"index": n, "relevance_score": pytest.approx(score)} for n in range(3)
    ],
  }
  assert results[4][1] == [{"index": 0, "score": pytest.approx(score)}]


@pytest.mark.parametrize(
  "path, body, status, fact",
  [
    ("/v1/embeddings", {"model": "e"}, 400, '"input"'),
    ("/v1/embeddings", {"model": "e", "input": []}, 400, '"input"'),
    ("/v1/embeddings", {"model": "e", "input": [[1, 2]]}, 400, "LangChain"),
    ("/v1/embeddings", {"model": "e", "input": "a", "x": 1}, 400, "'x'"),
    (
      "/v1/embeddings",
      {"model": "e", "input": "a", "dimensions": 1},
      400,
      "have 2",
    ),
    (
      "/v1/embeddings",
      {"model": "e", "input": "a", "encoding_format": "hex"},
      400,
      "hex",
    ),
    ("/v1/embeddings", {"model": "r", "input": "a"}, 400, "for vectors"),
    ("/v1/embeddings", {"model": "c", "input": "a"}, 400, "for vectors"),
    ("/embed", {"inputs": "a", **dict.fromkeys("zyxwvu", 1)}, 400, "'u'"),
    (
      "/v1/rerank",
      {"query": "a", "documents": ["b"], "texts": 1},
      400,
      "texts",
    ),
    ("/v1/embeddings", {"model": "gpt", "input": "a"}, 404, "e, r, c"),
    ("/v1/embeddings", {"model": 5, "input": "a"}, 400, '"model"'),
    ("/embed", {"inputs": "a", "normalize": 1}, 400, "bool"),
    ("/zero-shot", {"inputs": "a"}, 400, "none"),
    ("/rerank", {"model": "c", "query": "a", "texts": ["b"]}, 400, "reranker"),
    ("/rerank", {"model": "r", "texts": ["b"]}, 400, '"query"'),
    ("/rerank", {"model": "r", "query": ["a"], "texts": ["b"]}, 400, "a list"),
    ("/rerank", {"model": "r", "query": " ", "texts": ["b"]}, 400, "empty"),
    (
      "/rerank",
      {"model": "r", "query": "a", "texts": ["b"], "truncate": False},
      400,
      "truncate",
    ),
    (
      "/v1/rerank",
      {"model": "r", "query": "a", "documents": ["b"], "top_n": 0},
      400,
      '"top_n"',
    ),
  ],
)
def test_invalid_requests(path, body, status, fact):
  models = {
    "e": embedder(),
    "r": reranker(),
    "c": served.model(lambda rows: [{"score": 1.0}] * len(rows), labels=["x"]),
  }
  ((got, answer),) = ask_each(models, [(path, body)])
  error = answer["error"]
  if path == "/v1/embeddings":  # As OpenAI's clients expect it.
    assert error["code"] == status
    assert error["type"] == "invalid_request_error"
    error = error["message"]
  assert got == status and fact in error, answer


@pytest.mark.parametrize(
  "value, texts, is_single",
  [
    ("a", ["a"], True),
    (["a"], ["a"], False),
    (["a", ""], ["a", ""], False),
    ("\ud7ff\ue000", ["\ud7ff\ue000"], True),
    *((value, None, False) for value in ([], None, 1, ["a", 1], {"a": 1})),
    *((value, None, False) for value in ("\ud800", "\udfff", ["a", "\udabc"])),
  ],
)
def test_a_field_has_one_text_or_several(value, texts, is_single):
  if texts:
    assert texts_of.field({"input": value}, "input") == (texts, is_single)
    return
  with pytest.raises(errors.InputError) as raised:
    texts_of.field({"input": value}, "input")
  # Only numbers can be the ids of tokens.
  assert ("LangChain" in str(raised.value)) == (value == ["a", 1])


@pytest.mark.parametrize(
  "value, default, expected",
  [
    (None, True, True),
    (False, True, False),
    (None, None, None),
    (3, None, 3),
    ("x", "", "x"),
    (True, None, "int"),
    (1, True, "bool"),
    (1.0, None, "int"),
    (2, "", "str"),
  ],
)
def test_an_option_has_the_type_of_its_default(value, default, expected):
  values = {} if value is None else {"n": value}
  if expected in ("int", "bool", "str"):
    with pytest.raises(errors.InputError, match=says(expected, "n")):
      texts_of.option(values, "n", default)
  else:
    assert texts_of.option(values, "n", default) is expected


def test_a_fault_in_openais_form():
  def fail(rows):
    raise KeyError("fault")

  body = {"model": "m", "input": "a"}
  model = served.model(fail, "embedding", max_seq_length=8)
  ((status, answer),) = ask_each(model, [("/v1/embeddings", body)])
  assert status == answer["error"]["code"] == 500
  assert answer["error"]["type"] == "server_error"


def test_several_models_share_the_server():
  models = {"a": embedder(), "b": served.model(embed, "embedding")}
  results = ask_each(
    models,
    [
      ("a:predict", {"instances": ["x"]}),
      ("b:predict", {"instances": ["xy"]}),
      ("c:predict", {"instances": ["x"]}),
      ("/v1/embeddings", {"model": "b", "input": "xyz"}),
      ("b", None),
      ("/v1/embeddings", {"input": "x"}),
    ],
  )
  assert [status for status, _ in results] == [200, 200, 404, 200, 200, 400]
  assert "a, b" in results[5][1]["error"]["message"]
  assert results[1][1] == {"predictions": [[2.0, 4.0]]}
  assert re.search(says("'a'", "1", "'b'"), results[2][1]["error"])


def test_openapi_describes_every_path():
  ((status, document),) = ask_each(embedder(), [("/openapi.json", None)])
  assert status == 200 and document["openapi"] == "3.1.0"
  site = served.site({"m": embedder()}, work_queue.Limits())
  resources = {r.canonical for r in site.application.router.resources()}
  assert document["paths"].keys() == {
    re.sub(r"{(\w+):[^}]*}", r"{\1}", path) for path in resources
  }
  operation = document["paths"]["/v1/models/{name}:predict"]["post"]
  assert operation["parameters"] == [
    {
      "name": "name",
      "in": "path",
      "required": True,
      "schema": {"type": "string"},
    }
  ]
  assert "parameters" not in document["paths"]["/embed"]["post"]
  assert document["info"]["title"] == "Models: m"
  assert re.match(r"\d+\.", document["info"]["version"])
  for operations in document["paths"].values():
    for operation in operations.values():
      assert operation["summary"]
      responses = operation["responses"]
      assert responses.keys() == {"200", "default"}
      assert all(each["description"] for each in responses.values())
      content = responses["default"]["content"]
      assert in_words(content["application/json"]["schema"]) == "{error*: text}"


def in_words(schema):
  """Returns a JSON schema in one line; * marks a required property."""
  if choices := schema.get("oneOf"):
    return " | ".join(map(in_words, choices))
  kind = schema.get("type", "any")
  if kind == "array":
    return f"[{in_words(schema['items'])}]"
  if "properties" in schema:
    required = schema.get("required", [])
    assert {*required} <= {*schema["properties"]}
    fields = [
      f"{name}{'*' if name in required else ''}: {in_words(value)}"
      for name, value in schema["properties"].items()
    ]
    return f"{{{', '.join(fields)}}}"
  words = "text" if kind == "string" else kind
  if "enum" in schema:
    words += f" of {schema['enum']}"
  return words + (f" = {schema['default']}" if "default" in schema else "")


PREDICT = (
  "{instances: [any], inputs: object, "
  "signature_name: text of ['serving_default']}"
)
ZERO_SHOT = (
  "{inputs*: text | [text], parameters*: {candidate_labels*: [text], "
  "hypothesis_template: text = This example is {}., "
  "multi_label: boolean = False}, model: text}"
)
BODIES = {
  "/v1/models/{name}:predict": PREDICT,
  "/v1/models/{name}/versions/{version}:predict": PREDICT,
  "/v1/embeddings": "{model*: text, input*: text | [text], encoding_format: "
  "text of ['float', 'base64'], dimensions: integer, user: text}",
  "/embed": "{model: text, inputs*: text | [text], normalize: boolean = True, "
  "truncate: boolean = True, prompt_name: text}",
  "/rerank": "{model: text, query*: text, texts*: [text], raw_scores: boolean "
  "= False, return_text: boolean = False, truncate: boolean of [True]}",
  "/v1/rerank": "{model: text, query*: text, documents*: [text], top_n: "
  "integer, return_documents: boolean = False}",
  "/zero-shot": ZERO_SHOT,
  "/v1/models/{name}:classify": ZERO_SHOT,
}


def test_openapi_describes_every_body():
  ((_, document),) = ask_each(embedder(), [("/openapi.json", None)])
  found = {
    path: in_words(
      operations["post"]["requestBody"]["content"]["application/json"]["schema"]
    )
    for path, operations in document["paths"].items()
    if "post" in operations
  }
  assert found == BODIES


def keywords_of(schema):
  """Yields the keywords of a JSON schema and of the schemas in it."""
  if not isinstance(schema, dict):
    return
  yield from schema
  for name in ("items", "additionalProperties"):
    yield from keywords_of(schema.get(name))
  for inner in schema.get("properties", {}).values():
    yield from keywords_of(inner)
  for name in ("oneOf", "anyOf", "prefixItems"):
    for inner in schema.get(name, []):
      yield from keywords_of(inner)


def test_openapi_has_only_keywords_of_json_schema():
  ((_, document),) = ask_each(embedder(), [("/openapi.json", None)])
  schemas = [
    content["schema"]
    for operations in document["paths"].values()
    for operation in operations.values()
    for content in operation.get("requestBody", {}).get("content", {}).values()
  ]
  keywords = {word for schema in schemas for word in keywords_of(schema)}
  assert {"type", "properties", "required", "default"} <= keywords
  assert keywords <= {
    *("type", "enum", "default", "description", "title", "examples"),
    *("properties", "required", "additionalProperties"),
    *("items", "prefixItems", "minItems", "maxItems"),
    *("oneOf", "anyOf", "minimum", "maximum", "minLength"),
  }


def basic(password):
  return "Basic " + base64.b64encode(f"anyone:{password}".encode()).decode()


@pytest.mark.parametrize(
  "sent, status",
  [
    (None, 401),
    ("", 401),
    ("Bearer", 401),
    ("Bearer ", 401),
    ("Bearer kéy2", 401),
    ("Bearer ké", 401),
    ("kéy", 401),
    ("Basic kéy", 401),
    ("Basic !!!", 401),
    (basic("wrong"), 401),
    ("Bearer kéy", 200),
    ("bearer   kéy ", 200),
    (basic("kéy"), 200),
  ],
)
def test_an_api_key_is_asked_for(sent, status):
  headers = {} if sent is None else {"Authorization": sent}
  requests = [
    ("/embed", {"inputs": "a"}, headers),
    ("/v1/models", None, headers),
    ("/nothing", None, headers),
    ("/healthz", None, headers),
  ]
  results = ask_each(embedder(), requests, api_key="kéy")
  unknown = 404 if status == 200 else status
  assert [code for code, _ in results] == [status, status, unknown, 200]


def test_the_key_of_a_file(tmp_path):
  path = tmp_path / "key"
  path.write_text("secret\n")
  requests = [("/v1/models", None, {"Authorization": "Bearer secret"})]
  for options in ({"api_key_file": str(path)}, {"api_key": "secret"}, {}):
    assert ask_each(embedder(), requests, **options)[0][0] == 200
  path.write_text("\n")
  for options in (
    {"api_key": ""},
    {"api_key_file": str(path)},
    {"api_key_file": str(tmp_path / "none")},
    {"api_key": "a", "api_key_file": str(path)},
  ):
    with pytest.raises(errors.InputError):
      served.site({"m": embedder()}, work_queue.Limits(), **options)
