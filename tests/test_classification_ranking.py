"""Rerankers: losses, ranks, groups, folders of other programs, and a run."""

import contextlib
import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

import script_runner
import tiny_model
from classification import data, model, ranking, reranker, scores
from common import errors
from message_facts import says
from serving import text_models
from test_classification_data import settings as read_settings
from test_classification_task import config, read_task
from tiny_model import assert_close

with contextlib.suppress(ModuleNotFoundError):
  import tensorflow_text  # noqa: F401  (the exported tokenizer's operations)

GOLDEN = script_runner.ROOT / "tests" / "golden" / "cross_encoder"
COLUMNS = {
  "text_column": "query",
  "text_b_column": "passage",
  "label_column": "relevance",
}


def make(loss, **options):
  return reranker.Reranker(
    tiny_model.tiny(), "ranking", 1, loss=loss, seed=5, **options
  )


def losses_of(loss, logits, relevances):
  return (
    make(loss)
    .example_losses(tf.constant(logits), tf.constant(relevances))
    .numpy()
  )


def test_losses_of_single_passages_are_torchs_binary_cross_entropy():
  # Computed by torch 2.13. A relevance of 2 counts as 1.
  assert_close(
    losses_of(
      "pointwise", [[0.3], [-1.2], [2.0], [0.7]], [[1.0], [0.0], [0.5], [2.0]]
    ),
    [0.5543552, 0.2632824, 1.1269280, 0.4031861],
    1e-6,
  )
  # Evaluation has no groups, so every loss is the pointwise one.
  for loss in ("pairwise", "listwise"):
    assert_close(losses_of(loss, [[0.3]], [[1.0]]), [0.5543552], 1e-6)


def test_losses_of_groups():
  logits = [[0.8392295, 0.8083774, 0.3008495, 9.0], [1.0, 2.0, 0.0, 1.0]]
  relevances = [[1.0, 0.0, 3.0, -1.0], [0.0, 1.0, 0.0, 3.0]]
  # From RankNetLoss of sentence-transformers 6.2, which uses log2.
  first, second = losses_of("pairwise", logits, relevances)
  assert first == pytest.approx(1.2766642 * np.log(2), abs=1e-6)
  pairs = [(2.0, 1.0), (2.0, 0.0), (1.0, 1.0), (1.0, 2.0), (1.0, 0.0)]
  assert second == pytest.approx(
    np.mean([np.log(1 + np.exp(worse - better)) for better, worse in pairs])
  )
  weights = np.exp(logits) * (np.array(relevances) >= 0)
  logs = np.log(weights[:, :3] / weights.sum(1, keepdims=True)[:, :3])
  expected = -(logs[0, 0] + 3 * logs[0, 2]) / 4
  losses = losses_of("listwise", logits, relevances)
  assert losses[0] == pytest.approx(expected, abs=1e-6)
  share = np.log(weights[1] / weights[1].sum())
  assert losses[1] == pytest.approx(-(share[1] + 3 * share[3]) / 4, abs=1e-6)


def results_of(values, gold, queries, task_kind="ranking"):
  return scores.Results(
    task_kind,
    (),
    np.array(gold, np.float32),
    np.array(values, np.float32)[:, None],
    queries=np.array(queries),
  )


def test_gains_are_those_of_scikit_learn():
  """The expected gains are sklearn.metrics.ndcg_score(k=10) of version 1.9."""
  rng = np.random.RandomState(5)
  values, gold, queries = [], [], []
  for query in range(6):
    count = int(rng.randint(2, 25))
    values += (rng.permutation(40)[:count] / 10 - 2).tolist()
    relevances = rng.randint(0, 4, count)
    relevances[0] = max(1, relevances[0])
    gold += relevances.tolist()
    queries += [query] * count
  expected = [
    0.9499755804487898,
    0.38586451130530075,
    1.0,
    0.5423638256970881,
    0.511040600716023,
    0.7202681291830265,
  ]
  # Rows of a query need not be neighbours.
  order = rng.permutation(len(values))
  values, gold, queries = (
    np.array(array)[order] for array in (values, gold, queries)
  )
  for task_kind in data.OF_RANKS:
    metrics = scores.compute(
      results_of(values, gold, queries, task_kind), ["ndcg@10"]
    )
    assert metrics["ndcg@10"] == pytest.approx(np.mean(expected), abs=1e-9)
  assert max(np.bincount(queries)) > 10
  for query in range(6):
    of_query = queries == query
    gain = scores.discounted_gain(
      10, results_of(values[of_query], gold[of_query], queries[of_query] * 0)
    )
    assert gain == pytest.approx(expected[query], abs=1e-9)


def test_reciprocal_ranks():
  # The first relevant passage is second, eleventh, first, or missing.
  gold = [0, 1, 2] + [0] * 10 + [1] + [3, 0] + [0, 0]
  values = [3, 1, 2] + list(range(20, 9, -1)) + [5, 4] + [1, 2]
  queries = [0] * 3 + [1] * 11 + [2] * 2 + [3] * 2
  metrics = scores.compute(results_of(values, gold, queries), ["mrr@10"])
  assert metrics == {"mrr@10": pytest.approx((1 / 2 + 0 + 1 + 0) / 4)}


def test_among_equal_scores_the_less_relevant_comes_first():
  results = results_of([1, 1, 1, 0], [0, 2, 1, 0], [0] * 4)
  ideal = 2 + 1 / np.log2(3)
  assert scores.compute(results, ["mrr@10", "ndcg@10"]) == pytest.approx(
    {"mrr@10": 1 / 2, "ndcg@10": (1 / np.log2(3) + 2 / 2) / ideal}
  )
  # In files, passages of equal scores have the order of their rows.
  ranks = scores.ranks(np.array([0, 1, 0, 0]), np.array([1.0, 9, 1, 2]))
  assert ranks.tolist() == [2, 1, 3, 1]


def rows(*relevances_of_queries):
  """Returns examples of q0, q1, ...; an argument lists a query's relevances."""
  return [
    data.Example(
      f"{query}-{place}",
      f"q{query}",
      f"p{query} {place}",
      float(relevance),
      place=f"a.tsv:{query}{place}",
    )
    for query, relevances in enumerate(relevances_of_queries)
    for place, relevance in enumerate(relevances)
  ]


def grouped(examples, size):
  return ranking.groups(examples, group_size=size, seed=1)


def test_passages_of_a_query_become_one_example():
  examples = rows([0, 2, 1], [1, 0])
  mixed = [examples[number] for number in (3, 0, 4, 2, 1)]
  first, second = sorted(grouped(mixed, 3), key=lambda group: group.text_a)
  assert first[1:5] == ("q0", None, (2.0, 1.0, 0.0), ("p0 1", "p0 2", "p0 0"))
  # Labels are padded with -1 to the size of the largest group.
  assert second[1:5] == ("q1", None, (1.0, 0.0, -1.0), ("p1 0", "p1 1"))


def test_a_large_group_is_split_by_relevance(caplog):
  caplog.set_level("INFO", logger="absl")
  groups = grouped(rows([1, 0, 0, 0, 0, 1, 0, 0], [0, 0, 0], [1] + [0] * 8), 4)
  by_query = {}
  for group in groups:
    by_query.setdefault(group.text_a, []).append(group)
    assert group.label[0] == 1 and set(group.label[1:]) <= {0, -1}
  # A relevant passage is grouped with three others, so q2 uses three of eight.
  passages = [text for group in by_query["q0"] for text in group.endings]
  assert len(by_query["q0"]) == 2 and sorted(passages) == [
    f"p0 {n}" for n in range(8)
  ]
  assert [len(group.endings) for group in by_query["q2"]] == [3]
  assert set(by_query) == {"q0", "q2"}
  assert re.search(says("11", "20", "3", "4", "most"), caplog.text)


def test_nothing_to_compare_is_refused():
  with pytest.raises(errors.InputError, match=says("a.tsv:00", "no")):
    grouped(rows([0, 0], [1]), 4)


def test_a_query_is_in_one_part_of_a_split():
  examples = rows(*[[1, 0, 0]] * 10)
  parts = ranking.split_off(examples, 0.3, 1)
  sizes = [len({example.text_a for example in part}) for part in parts]
  assert sizes == [7, 3] and [len(part) for part in parts] == [21, 9]
  with pytest.raises(errors.InputError, match=says("0.1", "0", "too", "few")):
    ranking.split_off(rows([1, 0, 0]), 0.1, 1)


def test_mistakes_are_queries_whose_first_passage_is_irrelevant():
  examples = rows([0, 0, 2, 1], [1, 0], [0, 0], [0, 1])
  results = results_of(
    [0.7, 0.9, 0.1, 0.4, 0.8, 0.2, 0.5, 0.6, 0.5, 0.5],
    [example.label for example in examples],
    data.query_numbers(examples),
  )
  # q3's scores are equal, which is a mistake; q2 has no relevant passage.
  assert sorted(ranking.mistakes(results, examples)) == [
    (0, "q3", "p3 1", "p3 0"),
    (pytest.approx(0.5), "q0", "p0 3", "p0 1"),
  ]


def test_queries_without_a_relevant_passage_are_named(caplog):
  options = {"loss": "pointwise", "group_size": 2, "seed": 1}
  splits = {"eval": rows([0, 1], [0, 0], [0]), "predict": []}
  ranking.prepare(splits, **options)
  assert re.search(says("a.tsv:10", "2", "3", "no"), caplog.text)
  with pytest.raises(errors.InputError, match="^a.tsv:00: .* 2 of 2 queries"):
    ranking.prepare({"eval": rows([0, 0], [0])}, **options)


def write(path, lines):
  path.write_text("".join(f"{line}\n" for line in lines))
  return str(path)


LISTS = [
  {"query": "a", "passages": ["b", "c"], "relevances": [0, 1.5], "id": 7},
  {"query": "d", "passages": ["e"], "relevances": [1], "id": "x"},
  {"query": "a", "passages": "f", "relevances": 2, "id": "y"},
]
LIST_COLUMNS = {
  "text_column": "query",
  "text_b_column": "passages",
  "label_column": "relevances",
}
NESTED = {
  **LIST_COLUMNS,
  "text_b_column": "passages.passage_text",
  "label_column": "passages.is_selected",
}


def write_lists(folder, rows=LISTS, ending="jsonl"):
  """Writes objects as JSON lines, a JSON array or Parquet."""
  path = folder / f"lists.{ending}"
  if ending == "parquet":
    pyarrow = pytest.importorskip("pyarrow")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
  elif ending == "json":
    path.write_text(json.dumps(rows))
  else:
    write(path, map(json.dumps, rows))
  return str(path)


def test_each_passage_of_a_list_becomes_a_row(tmp_path):
  settings = read_settings(**LIST_COLUMNS, id_column="id")
  path = write_lists(tmp_path)
  examples = data.read(path, settings, "ranking")
  assert [example[:4] for example in examples] == [
    ("7-1", "a", "b", 0.0),
    ("7-2", "a", "c", 1.5),
    ("x-1", "d", "e", 1.0),
    ("y", "a", "f", 2.0),
  ]
  places = [example.place for example in examples]
  assert places == [f"{path}:{line}" for line in (1, 1, 2, 3)]
  stream = data.ExampleStream(path, settings, "ranking", has_labels=False)
  assert [example[:4] for example in stream] == [
    (*example[:3], None) for example in examples
  ]


@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet"])
def test_lists_in_an_object(tmp_path, ending):
  """MS MARCO has this form."""
  path = write_lists(
    tmp_path,
    [
      {
        "query": row["query"],
        "query_id": 1,
        "passages": {
          "passage_text": row["passages"],
          "is_selected": row["relevances"],
        },
      }
      for row in LISTS[:2]
    ],
    ending,
  )
  examples = data.read(path, read_settings(**NESTED), "ranking")
  assert [example[1:4] for example in examples] == [
    ("a", "b", 0.0),
    ("a", "c", 1.5),
    ("d", "e", 1.0),
  ]
  wrong = read_settings(**{**NESTED, "label_column": "passages.selected"})
  with pytest.raises(
    errors.InputError,
    match=says(":1", "'passages.selected'", "'query'", "no", "among"),
  ):
    data.read(path, wrong, "ranking")


@pytest.mark.parametrize(
  "changes, message",
  [
    (
      {"passages": []},
      "texts in 'passages': 0, numbers in 'relevances': 2; "
      "pass at least one text, and as many relevances",
    ),
    ({"passages": ["b"]}, "texts in 'passages': 1, numbers in 'relevances': 2"),
    (
      {"relevances": 1},
      "texts in 'passages': 2, numbers in 'relevances': no list",
    ),
    ({"relevances": [1, "good"]}, "label 'good' is not a number from 0"),
    ({"passages": ["b", {"c": 1}]}, "'passages' is {'c': 1}, not a text"),
    ({"passages": "b"}, "label [0, 1.5] is not a number from 0"),
  ],
)
def test_bad_lists_are_named(tmp_path, changes, message):
  path = write_lists(tmp_path, [LISTS[1], LISTS[0] | changes])
  with pytest.raises(errors.InputError, match=re.escape(f"{path}:2: ")) as bad:
    data.read(path, read_settings(**LIST_COLUMNS), "ranking")
  assert message in str(bad.value)
  # Only rankers read lists of texts.
  with pytest.raises(errors.InputError, match="not a text"):
    data.read(
      write_lists(tmp_path), read_settings(**LIST_COLUMNS), "regression"
    )


@pytest.mark.parametrize(
  "relevance, options, message",
  [
    ("high", {}, "label 'high' is not a number from 0 to"),
    ("-1", {}, "label '-1' is not a number from 0 to the largest float32$"),
    (
      "3",
      {"do_train": True, "ranking_loss": "pointwise"},
      "from 0 to 1; fix the row; .*--ranking_loss=listwise",
    ),
    ("3", {"do_train": True, "ranking_loss": "listwise"}, None),
    ("3", {"do_train": False, "ranking_loss": "pointwise"}, None),
  ],
)
def test_relevances_are_checked(tmp_path, relevance, options, message):
  path = write(
    tmp_path / "a.tsv", ["query\tpassage\trelevance", f"a\tb\t{relevance}"]
  )
  settings = read_settings(**COLUMNS, **options)
  if message:
    with pytest.raises(errors.InputError, match=f"a.tsv:2: .*{message}"):
      data.read(path, settings, "ranking")
  else:
    (example,) = data.read(path, settings, "ranking")
    assert example[1:4] == ("a", "b", 3.0)


def test_the_kind_of_a_model():
  def kind_of(problem, **flags):
    return read_task(config(problem_type=problem), **flags).task_kind

  for problem in ("ranking", "ranking_logit"):
    assert kind_of(problem) == kind_of(problem, task_kind="ranking") == problem
  assert kind_of("regression", task_kind="ranking") == "ranking"
  # Cross-encoders may also score similarity.
  assert kind_of("ranking", task_kind="regression") == "regression"
  with pytest.raises(errors.InputError, match="ranking, but .* for single"):
    kind_of("single_label_classification", task_kind="ranking")
  with pytest.raises(errors.InputError, match="ranking needs pairs of texts"):
    read_task(purposes=["eval"], task_kind="ranking", eval_file="a.csv")


@pytest.mark.parametrize("activation", ["Sigmoid", "Identity"])
@pytest.mark.parametrize("stored", ["new", "section", "old", "converted"])
def test_a_folder_scores_as_in_sentence_transformers(
  tmp_path, activation, stored
):
  golden = json.loads((GOLDEN / "scores.json").read_text())
  folder = tmp_path / "folder"
  shutil.copytree(GOLDEN / "folder", folder)
  newer = folder / "config_sentence_transformers.json"
  name = f"torch.nn.modules.any.{activation}"
  values = json.loads(newer.read_text()) | {"activation_fn": name}
  newer.write_text(json.dumps(values))
  if stored in ("section", "old"):
    newer.unlink()
    path = folder / "config.json"
    values = json.loads(path.read_text())
    values |= (
      {"sentence_transformers": {"activation_fn": name}}
      if (stored == "section")
      else {"sbert_ce_default_activation_function": name}
    )
    path.write_text(json.dumps(values))
  if stored == "converted":
    for to in ("tf1", "huggingface"):
      script_runner.succeed(
        "convert_checkpoint.py", input=folder, output=tmp_path / to, to=to
      )
      folder = tmp_path / to
    values = json.loads((folder / "config.json").read_text())
    section = {"activation_fn": f"torch.nn.{activation}"}
    assert values["sentence_transformers"] == section
    assert "problem_type" not in values
  answers = text_models.load(str(folder)).classify(golden["pairs"])
  assert_close(
    [answer["score"] for answer in answers], golden["scores"][activation]
  )


def run(output_dir, **flags):
  return script_runner.succeed(
    "run_classifier.py", output_dir=output_dir, **flags
  )


def write_rows(path, count=12):
  """Writes rows; w13 marks relevant passages. A query's rows are scattered."""
  lines = [
    f"w1 w{n}\tw2 w{(n + shift) % count} w{13 + shift}\t{int(shift == 0)}"
    for shift in (1, 0, 5, 3)
    for n in range(count)
    if not (n == 2 and shift == 3)
  ]
  return write(path, ["query\tpassage\trelevance", *lines])


def training(folder, **shape):
  return {
    **tiny_model.write_shape(folder, tiny_model.WORDS, **shape),
    **COLUMNS,
    "train_file": write_rows(folder / "rows.tsv"),
    "task_kind": "ranking",
    "do_train": True,
    "ranking_loss": "listwise",
    "train_batch_size": 4,
    "learning_rate": 3e-3,
    "max_seq_length": 12,
    "num_train_epochs": 20,
  }


def test_passages_are_ranked_and_the_folder_answers(tmp_path):
  flags = training(tmp_path, num_hidden_layers=1)
  path = flags["train_file"]
  run(
    tmp_path / "run",
    **flags,
    do_eval=True,
    eval_file=path,
    do_predict=True,
    predict_file=path,
    bucket_by_length=True,
  )
  results = script_runner.results_in(tmp_path / "run")
  assert set(results) == {
    "eval_mrr@10",
    "eval_ndcg@10",
    "eval_loss",
    "loss",
    "global_step",
  }
  # With 4 passages, chance gives 0.52.
  assert results["eval_mrr@10"] > 0.9 and results["global_step"] == 60
  header, *lines = [
    line.split("\t")
    for line in (tmp_path / "run" / "predictions.tsv").read_text().splitlines()
  ]
  assert header == ["id", "score", "rank", "text", "text_b"]
  for query in {line[3] for line in lines}:
    ranked = [line for line in lines if line[3] == query]
    ranked.sort(key=lambda line: int(line[2]))
    assert [int(line[2]) for line in ranked] == [*range(1, len(ranked) + 1)]
    values = [float(line[1]) for line in ranked]
    assert values == sorted(values, reverse=True) and 0 < values[-1] < 1
  gold = (tmp_path / "run" / "eval_predictions.tsv").read_text().splitlines()
  assert gold[0].split("\t")[:4] == ["id", "gold", "predicted", "rank"]
  folder = tmp_path / "run" / "final_model"
  texts = [line[3:] for line in lines[:5]]
  run(
    tmp_path / "b",
    model_dir=folder,
    do_eval=True,
    eval_file=path,
    label_column="relevance",
    eager=True,
  )
  assert (
    script_runner.results_in(tmp_path / "b")["eval_mrr@10"]
    == (results["eval_mrr@10"])
  )
  answers = text_models.load(str(folder)).classify([tuple(t) for t in texts])
  for answer, line in zip(answers, lines, strict=False):
    assert answer == {"score": pytest.approx(float(line[1]), abs=1e-5)}
  script_runner.succeed(
    "export_saved_model.py",
    head="classification",
    model_dir=folder,
    export_dir=tmp_path / "saved",
    version=1,
  )
  network = tf.saved_model.load(str(tmp_path / "saved" / "1"))
  first, second = map(tf.constant, zip(*texts))
  outputs = network.signatures["serving_default"](text_a=first, text_b=second)
  assert_close(outputs["score"], [answer["score"] for answer in answers])
  card = (folder / "README.md").read_text()
  assert "pipeline_tag: text-ranking" in card


@pytest.mark.parametrize("loss", ["pairwise", "listwise"])
def test_parts_add_up_to_the_batch(loss):
  """The second part has no third passages, so only two sequences are passed."""
  names = ("input_ids", "input_mask", "segment_ids")
  batch = {
    name: tf.reshape(values[:, :4], [4, 3, 4])
    for name, values in zip(names, tiny_model.batch(12, 16))
  }
  present = tf.constant([[1, 1, 1], [1, 1, 1], [1, 1, 0], [1, 1, 0]])
  batch["input_mask"] = tf.ones([4, 3, 4], tf.int32) * present[..., None]
  batch["label_ids"] = tf.constant(
    [[1.0, 0.0, 0.0], [2.0, 1.0, 0.0], [1.0, 0.0, -1.0], [3.0, 0.0, -1.0]]
  )
  batch["is_real_example"] = tf.ones([4], tf.int32)
  objective = model.objective(make(loss, skip_padding=True))
  parts = [
    {n: v[:2] for n, v in batch.items()},
    {
      name: values[2:, :2] if name in names else values[2:]
      for name, values in batch.items()
    },
  ]
  losses, weights = zip(
    *[
      (
        float(objective.sums(part, None)[0]["classifier"]),
        float(objective.denominators(part)["classifier"]),
      )
      for part in [batch, *parts]
    ]
  )
  assert losses[0] == pytest.approx(losses[1] + losses[2], rel=1e-5)
  assert weights[0] == weights[1] + weights[2] == 4 and losses[0] > 0


def test_one_file_a_frozen_encoder_and_single_passages(tmp_path):
  """Trains from a sentence-transformers folder; the scores stay logits."""
  folder = tmp_path / "folder"
  shutil.copytree(GOLDEN / "folder", folder)
  path = folder / "config_sentence_transformers.json"
  path.write_text(path.read_text().replace("Sigmoid", "Identity"))
  flags = {
    **COLUMNS,
    "train_file": write_rows(tmp_path / "rows.tsv"),
    "model_dir": folder,
    "do_train": True,
    "do_eval": True,
    "eval_fraction": 0.25,
    "max_train_steps": 2,
    "train_batch_size": 4,
  }
  run(tmp_path / "a", **flags, eager=True)
  path = tmp_path / "a" / "eval_predictions.tsv"
  header, *rows = [row.split("\t") for row in path.read_text().splitlines()]
  assert len({row[header.index("text")] for row in rows}) == 3
  assert len(rows) in (11, 12)
  values = json.loads(
    (tmp_path / "a" / "final_model" / "bert_config.json").read_text()
  )
  assert values["problem_type"] == "ranking_logit"
  # Nothing is learned yet: the report lists queries as mistakes.
  assert "<td>w1 w" in (tmp_path / "a" / "report.html").read_text()
  run(
    tmp_path / "b",
    **flags,
    task_kind="ranking",
    ranking_loss="pairwise",
    group_size=3,
    freeze_encoder=True,
  )
  assert "eval_ndcg@10" in script_runner.results_in(tmp_path / "b")
