"""One model folder, five ways to ask it: all say the same, for every head.

  file         the script that trains the head writes its predictions
  stdin        the same script answers lines of its standard input
  SavedModel   what export_saved_model.py writes
  HTTP         serve.py of that, over a connection
  Python       text_models.load of the folder

The scripts read how the input is made from the model folder: no length, stride
or threshold is given to any of them.
"""

import asyncio
import csv
import json
import math
import pathlib

import pytest
import tensorflow as tf

import heads
import modeling
import script_runner
import served
import serving_models
import tokenization
from checkpoints import model_folder
from serving import (
  batching,
  export_settings,
  models,
  raw_text,
  saved_model,
  text_models,
)


# To optimize a graph takes longer than to run it a few times.
@pytest.fixture(autouse=True, scope="module")
def _graphs_as_they_are():
  tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
  yield
  tf.config.optimizer.set_experimental_options(
    {"disable_meta_optimizer": False}
  )


LABELS = ["bad", "fair", "good"]
LONG = "the gold star had to light up the street, and he was with him. " * 3
TEXTS = ["the street is up", "It's gold!", LONG, "he \u00c9mile, she", "x y"]
SECOND = ["and a star", LONG, "in the gold", "to", "which"]
# One text each, with what separates two texts of a line.
SEPARATED = ["the street\tis up", "in ||| the gold"]
SHORT = {"max_seq_length": 32}


def export(folder, target, head, **given):
  paths = model_folder.find(str(folder))
  given = {"head": head, **given}
  settings = serving_models.export_settings_of(given).replace(**paths)
  config = modeling.BertConfig.from_json_file(settings.bert_config_file)
  settings = export_settings.resolve(settings, config)
  tokenizer = tokenization.FullTokenizer(settings.vocab_file)
  model = models.KINDS[head](config, settings, tokenizer)
  model.load()
  saved_model.write(str(target / "1"), raw_text.RawText(model))
  return saved_model.LoadedModel(str(target))


def instances_of(inputs):
  """{"text": ["a", "b"]} -> [{"text": "a"}, {"text": "b"}]"""
  return [dict(zip(inputs, row)) for row in zip(*inputs.values())]


def encoded(inputs):
  return [
    {name: text.encode() for name, text in instance.items()}
    for instance in instances_of(inputs)
  ]


def over_http(model, inputs):
  async def answered():
    body = json.dumps({"instances": instances_of(inputs)})
    async with served.asking(model, batching.Limits()) as ask:
      return await ask("m:predict", body)

  status, answer = asyncio.run(answered())
  assert status == 200, answer
  return answer["predictions"]


def rows_of(model, inputs):
  rows = model.run("serving_default", encoded(inputs))
  return [next(iter(r.values())) if len(r) == 1 else r for r in rows]


def served_both_ways(model, **inputs):
  """Returns the answers, which are equal in a SavedModel and over HTTP."""
  rows, answers = rows_of(model, inputs), over_http(model, inputs)
  assert len(rows) == len(answers)
  assert_short_ones_equal_the_graph(model, inputs, rows)
  for row, answer in zip(rows, answers):
    assert_same(row, answer)
  return rows


def assert_short_ones_equal_the_graph(model, inputs, rows):
  """Of texts that fit into a sequence: what TensorFlow Serving would answer."""
  found = model.graph("serving_default", encoded(inputs))
  client = {}
  page = (script_runner.ROOT / "docs" / "serving.md").read_text("utf-8")
  exec(page.split("```python\n")[1].split("```")[0], client)
  compared = 0
  for instance, row, answer in zip(instances_of(inputs), found, rows):
    if max(map(len, instance.values())) > 30:
      continue
    compared += 1
    if "question" in instance:
      text, _ = client["answer"](row, instance["context"], longest=5)
      assert answer["answer"] in ("", " ".join(text.split()))
    elif "words" in row:
      tags = client["tags"](row, instance["text"], labels_of(model))
      assert list(tags) == list(zip(answer["words"], answer["tags"]))
    elif "fillings" in row:
      count = len(answer["fillings"])
      assert_same([v[:count] for v in row.values()], list(answer.values()))
    else:
      row.pop("logits", None)
      assert_same(row if len(row) > 1 else list(row.values())[0], answer)
  assert compared


def labels_of(model):
  return lines_in(pathlib.Path(model.folder, "assets", "labels.txt"))


def assert_same(one, other):
  """Compares numbers within 1e-5 (large ones of them), the rest exactly."""
  if isinstance(one, dict):
    assert one.keys() == other.keys()
    for key in one:
      assert_same(one[key], other[key])
  elif isinstance(one, (list, tuple)):
    assert len(one) == len(other)
    for pair in zip(one, other):
      assert_same(*pair)
  elif isinstance(one, float):
    assert abs(one - other) <= 1e-5 * max(1, abs(other))
  else:
    assert one == other


def script(name, **flags):
  finished = script_runner.succeed(name, **flags)
  return finished.out


def lines_in(path):
  return path.read_text(encoding="utf-8").splitlines()


def classified(folder, tmp_path, texts, **flags):
  """Returns (rows of predictions.tsv, answers to lines), of tuples of texts."""
  pairs = len(texts[0]) == 2
  with open(tmp_path / "new.csv", "w", encoding="utf-8", newline="") as stream:
    csv.writer(stream).writerows([["text", "b"][: 1 + pairs], *texts])
  lines = "".join("\t".join(text) + "\n" for text in texts)
  out = script(
    "run_classifier.py", model_dir=folder, output_dir=tmp_path / "out",
    do_predict=True, predict_file=tmp_path / "new.csv",
    text_b_column="b" if pairs else None, interactive=True,
    answer_format="json", stdin=lines.encode(), **flags,
  )
  rows = lines_in(tmp_path / "out" / "predictions.tsv")
  answers = [json.loads(line) for line in out.splitlines() if line[:1] == "{"]
  assert len(rows) - 1 == len(answers) == len(texts)
  return [row.split("\t") for row in rows[1:]], answers


def classifier(path, problem, stored, count=3):
  labels = {str(number): label for number, label in enumerate(LABELS)}
  return serving_models.trained(
    path, lambda config, _: heads.ClassificationHead(config, count),
    stored=stored, problem_type=problem,
    **({"id2label": labels} if count > 1 else {}),
  )


def asked(folder, tmp_path, texts, names=("text",)):
  """Yields the server's answer, the file's row and the line's answer."""
  model = export(folder, tmp_path / "export", "classification")
  answers = served_both_ways(model, **dict(zip(names, map(list, zip(*texts)))))
  in_python = text_models.load(str(folder)).classify
  alone = len(names) == 1
  found = in_python([text for text, in texts] if alone else texts)
  for answer, python, row, line in zip(
    answers, found, *classified(folder, tmp_path, texts), strict=True
  ):
    assert_same(python if isinstance(answer, dict) else python["score"], answer)
    yield answer, row, line


@pytest.mark.parametrize("stored, pairs", [
  pytest.param(
    {"text_pairs": False}, False, id="texts", marks=pytest.mark.slow
  ),
  pytest.param({"text_pairs": True}, True, id="pairs", marks=pytest.mark.slow),
  pytest.param(
    {"text_pairs": True, "doc_stride": 12}, True, id="pairs_in_windows"
  ),
])
def test_classes(stored, pairs, tmp_path):
  folder = classifier(
    tmp_path / "model", "single_label_classification", {**SHORT, **stored}
  )
  texts = [(text,) for text in TEXTS + SEPARATED]
  names = ("text",)
  if pairs:
    texts, names = list(zip(TEXTS, SECOND)), ("text_a", "text_b")
  seen = set()
  for answer, row, line in asked(folder, tmp_path, texts, names):
    assert answer["label"] == row[1] == line["label"]
    assert_same(answer["probability"], float(row[2]))
    scores = dict(zip(answer["labels"], answer["probabilities"]))
    assert_same(scores, line["scores"])
    seen.add(round(answer["probability"], 3))
  assert len(seen) > 1


def test_several_labels(tmp_path):
  folder = classifier(tmp_path / "model", "multi_label_classification", SHORT)
  for answer, row, line in asked(folder, tmp_path, [(t,) for t in TEXTS]):
    scores = dict(zip(answer["labels"], answer["probabilities"]))
    on = [label for label, score in scores.items() if score >= 0.5]
    assert ",".join(on) == row[1] and on == list(line["label"])
    assert_same(answer["probabilities"], list(map(float, row[2:5])))
    assert_same(scores, line["scores"])


def test_regression(tmp_path):
  folder = classifier(tmp_path / "model", "regression", SHORT, count=1)
  for score, row, line in asked(folder, tmp_path, [(t,) for t in TEXTS]):
    assert_same(score, float(row[1]))
    assert_same(score, line["label"])


def test_answers_with_a_null_threshold(tmp_path):
  stored = {
    **SHORT, "doc_stride": 8, "max_query_length": 6, "max_answer_length": 5,
    "n_best_size": 7, "version_2_with_negative": True,
  }
  # Of weights that nobody evaluated no threshold is stored.
  threshold = {"null_score_diff_threshold": -28.0}
  folder = serving_models.trained(
    tmp_path / "model", stored=stored,
    head=lambda config, _: heads.SpanHead(config),
  )
  contexts = [LONG, "Gold  Street\nwas up.", LONG.upper(), "he was in it"]
  questions = ["who was it?", "which street is it on", "what", "is he in"]
  model = export(folder, tmp_path / "export", "span", **threshold)
  answers = served_both_ways(model, question=questions, context=contexts)
  in_python = text_models.load(str(folder)).answer
  assert_same(in_python(questions, contexts, **threshold), answers)
  best = in_python(questions, contexts, top_k=3, **threshold)
  best = [row.pop("candidates") for row in best]
  paragraphs = [
    {"context": context, "qas": [{"id": str(n), "question": question}]}
    for n, (question, context) in enumerate(zip(questions, contexts))
  ]
  data = {"version": "2.0", "data": [{"title": "", "paragraphs": paragraphs}]}
  path = tmp_path / "dev.json"
  path.write_text(json.dumps(data))
  script(
    "run_squad.py", model_dir=folder, output_dir=tmp_path / "out",
    do_predict=True, predict_file=path, **threshold,
  )
  out = script(
    "run_squad.py", model_dir=folder, do_predict=True, predict_file="-",
    top_k=3, **threshold,
    stdin="".join(
      json.dumps({"question": question, "context": context}) + "\n"
      for question, context in zip(questions, contexts)
    ).encode(),
  )
  lines = [json.loads(line) for line in out.splitlines()]
  texts = json.loads((tmp_path / "out" / "predictions.json").read_text())
  odds = json.loads((tmp_path / "out" / "null_odds.json").read_text())
  for number, (answer, line) in enumerate(zip(answers, lines, strict=True)):
    assert answer["answer"] == texts[str(number)] == line["answer"]
    assert_same(answer["null_score"] - answer["score"], odds[str(number)])
    assert_same(line["null_odds"], odds[str(number)])
    assert_same(line["candidates"], best[number])
    (first,) = [each for each in best[number] if each["answer"]][:1]
    names = ("score", "start", "end")
    if answer["answer"]:
      assert_same([first[n] for n in names], [answer[n] for n in names])
  assert "" in texts.values() and any(texts.values())


def test_tags_of_long_sentences(tmp_path):
  labels = ["O", "B-X", "I-X", "B-Y"]
  folder = serving_models.trained(
    tmp_path / "model", stored=SHORT,
    head=lambda config, _: heads.TokenClassificationHead(config, 4),
    id2label={str(n): label for n, label in enumerate(labels)},
  )
  sentences = [LONG.split() * 2, ["gold"], ["abcdefghijk" * 4, "it's", "is"]]
  path = tmp_path / "words.conll"
  path.write_text(
    "\n".join("".join(f"{word}\n" for word in words) for words in sentences)
  )
  script(
    "run_ner.py", model_dir=folder, output_dir=tmp_path / "out",
    do_predict=True, predict_file=path,
  )
  predicted = [
    line.split()[-1]
    for line in lines_in(tmp_path / "out" / "test_predictions.conll")
    if line.strip()
  ]
  model = export(
    folder, tmp_path / "export", "tagging", tag_words="white_space"
  )
  out = script(
    "run_ner.py", model_dir=folder, do_predict=True, predict_file="-",
    stdin=path.read_bytes(),
  )
  assert predicted == [
    line.split()[-1] for line in out.splitlines() if line.strip()
  ]
  answers = served_both_ways(model, text=[" ".join(s) for s in sentences])
  in_python = text_models.load(str(folder)).tag(
    [" ".join(s) for s in sentences], tag_words="white_space"
  )
  tags = []
  for found, answer in zip(in_python, answers, strict=True):
    for name in found:
      assert_same(found[name], answer[name][: answer["num_words"]])
  for answer, words in zip(answers, sentences, strict=True):
    count = answer["num_words"]
    assert answer["words"][:count] == words
    tags += answer["tags"][:count]
  assert tags == predicted and len(set(tags)) > 1


def test_embeddings(tmp_path):
  pooling = "mean"
  stored = {**SHORT, "pooling": pooling}
  folder = serving_models.trained(tmp_path / "model", stored=stored, head=None)
  model = export(folder, tmp_path / "export", "embedding")
  answers = served_both_ways(model, text=TEXTS)
  path = tmp_path / "texts.txt"
  path.write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
  script(
    "extract_features.py", model_dir=folder, input_file=path,
    output_file=tmp_path / "out.jsonl", pooling=pooling,
  )
  out = script(
    "extract_features.py", model_dir=folder, input_file="-", pooling=pooling,
    stdin=path.read_bytes(),
  )
  rows, lines = (
    [json.loads(line) for line in texts]
    for texts in (lines_in(tmp_path / "out.jsonl"), out.splitlines())
  )
  assert len(rows) == len(TEXTS)
  assert_same(rows, lines)
  assert_same(text_models.load(str(folder)).embed(TEXTS).tolist(), answers)
  for answer, row in zip(answers, rows, strict=True):
    assert_same(answer, row["vector"])


def test_masks_without_a_pooler(tmp_path):
  """Hugging Face's BertForMaskedLM has none either."""
  folder = serving_models.trained(
    tmp_path / "model", stored=SHORT, pooler=False,
    head=lambda config, bert: heads.MaskedLMHead(
      config, bert.word_embeddings
    ),
  )
  texts = ["the [MASK] is on [MASK]", "[MASK]", "he was in it [MASK]"]
  path = tmp_path / "texts.txt"
  path.write_text("".join(f"{text}\n" for text in texts))
  from_file = script("fill_mask.py", model_dir=folder, input_file=path)
  from_stdin = script("fill_mask.py", model_dir=folder, stdin=path.read_bytes())
  assert from_file == from_stdin
  found = [
    line.split(": ")[1] for line in from_file.splitlines() if ": " in line
  ]
  model = export(folder, tmp_path / "export", "masked_lm")
  fillings_served = []
  for answer in served_both_ways(model, text=texts):
    for fillings, probabilities in zip(
      answer["fillings"], answer["probabilities"]
    ):
      if any(fillings):
        fillings_served.append(zip(fillings, probabilities))
  assert len(fillings_served) == len(found) == 4
  for row, line in zip(fillings_served, found):
    words = line.split()
    for (token, probability), said, number in zip(row, words[::2], words[1::2]):
      assert token == said and abs(probability - float(number)) < 6e-5


def test_pairs_of_sentences(tmp_path):
  folder = serving_models.trained(
    tmp_path / "model", stored=SHORT,
    head=lambda config, _: heads.NextSentenceHead(config),
  )
  path = tmp_path / "texts.txt"
  path.write_text("".join(
    f"{first} ||| {second}\n" for first, second in zip(TEXTS, SECOND)
  ))
  flags = {"model_dir": folder, "score": True}
  from_file = script("fill_mask.py", **flags, input_file=path)
  from_stdin = script("fill_mask.py", **flags, stdin=path.read_bytes())
  assert from_file == from_stdin
  model = export(folder, tmp_path / "export", "next_sentence")
  rows = served_both_ways(model, text_a=TEXTS, text_b=SECOND)
  bert = text_models.load(str(folder))
  assert_same(bert.next_sentence(list(zip(TEXTS, SECOND))), rows)
  lines = from_file.splitlines()
  for row, line, text in zip(rows, lines, lines_in(path), strict=True):
    number, said = line.split("\t")
    assert said == text and abs(float(number) - row["probability"]) < 1e-5
    assert sum(map(math.exp, row["log_probabilities"])) == pytest.approx(1)
  assert len({row["probability"] for row in rows}) == len(TEXTS)
