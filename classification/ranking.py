"""Prepares a reranker's examples: passages with their relevance for a query.

The rows of a query's passages need not be next to each other in a file. No
TensorFlow.
"""

import itertools
from collections.abc import Iterator

import numpy as np
from absl import logging

from classification import data, scores
from common import errors


def prepare(splits: dict, loss: str, *, group_size: int, seed: int) -> None:
  """Checks the evaluation examples, and groups the training examples.

  The pointwise loss needs no groups. Raises InputError: no evaluation query has
  a relevant passage; for the training examples see `groups`.

  Args:
    loss: one of flag_values.RANKING_LOSSES.
    group_size, seed: see `groups`.
  """
  for name, examples in splits.items():
    if name.startswith("eval"):
      _check_scored(examples)
  if "train" in splits and loss != "pointwise":
    splits["train"] = groups(splits["train"], group_size, seed)


def groups(
  examples: list[data.Example], group_size: int, seed: int
) -> list[data.Example]:
  """Returns examples that each hold up to `group_size` passages of a query.

  A query with more passages is split into as few groups as possible. Its
  passages are sorted by relevance, and dealt to the groups in turn; `seed`
  shuffles equally relevant passages. Groups whose passages are all equally
  relevant are left out. Raises InputError: no group is left.
  """
  order = np.random.RandomState(seed).permutation(len(examples))
  rows = [examples[index] for index in order]
  rows.sort(key=lambda row: (row.text_a, -row.label))
  parts = []
  for _, group in itertools.groupby(rows, key=lambda row: row.text_a):
    passages = list(group)
    count = -(-len(passages) // group_size)
    parts += [passages[start::count] for start in range(count)]
  parts = [part for part in parts if part[0].label > part[-1].label]
  if not parts:
    raise errors.InputError(
      f"{examples[0].place}: no query in the file has passages of different "
      "relevance to compare; add some, or pass --ranking_loss=pointwise"
    )
  counts = sum(map(len, parts)), len(rows), len(parts), group_size
  logging.info("%d of %d passages are in %d groups of at most %d", *counts)
  missing = [-1.0] * max(map(len, parts))
  return [
    part[0]._replace(
      text_b=None,
      endings=tuple(row.text_b for row in part),
      label=(*[row.label for row in part], *missing[len(part) :]),
    )
    for part in parts
  ]


def split_off(examples: list, fraction: float, seed: int) -> tuple[list, list]:
  """Splits like data.split_off, but keeps the passages of a query together."""
  queries = {each.text_a: each._replace(label=0.0) for each in examples}
  _, scored = data.split_off(list(queries.values()), fraction, seed, "queries")
  scored_queries = {each.text_a for each in scored}
  parts: tuple[list, list] = [], []
  for example in examples:
    parts[example.text_a in scored_queries].append(example)
  return parts


def mistakes(
  results: scores.Results, examples: list[data.Example]
) -> Iterator[tuple]:
  """Yields the queries whose top-ranked passage is irrelevant (relevance 0).

  Each result is (score difference, query, first relevant passage, top passage).
  Queries without a relevant passage are left out.
  """
  gold, values = np.ravel(results.gold), results.predicted
  # Break ties as the metrics do.
  ranks = scores.ranks(results.queries, values, gold)
  top: dict[str, int] = {}
  relevant: dict[str, int] = {}
  for index in np.argsort(ranks):
    top.setdefault(examples[index].text_a, index)
    if gold[index] > 0:
      relevant.setdefault(examples[index].text_a, index)
  for query, index in relevant.items():
    if gold[top[query]] == 0:
      texts = [examples[each].text_b for each in (index, top[query])]
      yield (values[top[query]] - values[index], query, *texts)


def _check_scored(examples: list[data.Example]) -> None:
  queries = data.query_numbers(examples)
  best = np.zeros(queries.max() + 1)
  labels = np.array([each.label for each in examples], float)
  np.maximum.at(best, queries, labels)
  if best.all():
    return
  sentence = (
    f"{examples[np.argmin(best[queries])].place}: no relevant passage for "
    f"{np.sum(best == 0)} of {len(best)} queries (the first is on this line)"
  )
  if not best.any():
    raise errors.InputError(f"{sentence}; add rows, or fix the relevances")
  logging.warning("%s; each scores 0 in mrr@10 and ndcg@10", sentence)
