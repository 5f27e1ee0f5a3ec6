"""The data of rerankers: passages with their relevance for a query.

Rows with the same query belong together, wherever they are in a file. No
TensorFlow.
"""

import itertools
from collections.abc import Iterator

import numpy as np
from absl import logging

from classification import data, scores
from common import errors


def prepare(splits: dict, settings) -> None:
  """Checks the examples to score, and groups the examples to train on.

  Raises InputError: no query to score has a relevant passage, or see `groups`.
  """
  for name, examples in splits.items():
    if name.startswith("eval"):
      _check_scored(examples)
  if "train" in splits and settings.ranking_loss != "pointwise":
    splits["train"] = groups(splits["train"], settings)


def groups(examples: list[data.Example], settings) -> list[data.Example]:
  """Returns examples of several passages of a query, at most --group_size.

  If a query has more passages, they are sorted by relevance (ties are in random
  order, by the seed) and dealt into as few groups as possible. Groups in which
  all passages are equally relevant are left out. Raises InputError: no group is
  left.
  """
  order = np.random.RandomState(settings.seed).permutation(len(examples))
  rows = [examples[place] for place in order]
  rows.sort(key=lambda row: (row.text_a, -row.label))
  parts = []
  for _, group in itertools.groupby(rows, key=lambda row: row.text_a):
    passages = list(group)
    count = -(-len(passages) // settings.group_size)
    parts += [passages[start::count] for start in range(count)]
  parts = [part for part in parts if part[0].label > part[-1].label]
  if not parts:
    raise errors.InputError(
      f"{examples[0].place}: no query of these rows has passages of different "
      "relevance to compare; add some, or pass --ranking_loss=pointwise"
    )
  counts = sum(map(len, parts)), len(rows), len(parts), settings.group_size
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
  """Divides as data.split_off, but keeps the passages of a query together."""
  firsts = {each.text_a: each._replace(label=0.0) for each in examples}
  _, scored = data.split_off(list(firsts.values()), fraction, seed, "queries")
  queries = {each.text_a for each in scored}
  parts: tuple[list, list] = [], []
  for example in examples:
    parts[example.text_a in queries].append(example)
  return parts


def mistakes(
  results: scores.Results, examples: list[data.Example]
) -> Iterator[tuple]:
  """Yields the queries whose best-ranked passage has relevance 0.

  Each is (difference of scores, query, best relevant passage, best passage).
  """
  gold, values = np.ravel(results.gold), results.predicted
  ranks = scores.ranks(results.queries, values, gold)  # As in the metrics.
  first: dict[str, int] = {}
  right: dict[str, int] = {}
  for place in np.argsort(ranks):
    first.setdefault(examples[place].text_a, place)
    if gold[place] > 0:
      right.setdefault(examples[place].text_a, place)
  for query, place in right.items():
    if gold[first[query]] == 0:
      texts = [examples[each].text_b for each in (place, first[query])]
      yield (values[first[query]] - values[place], query, *texts)


def _check_scored(examples):
  queries = data.query_numbers(examples)
  best = np.zeros(queries.max() + 1)
  np.maximum.at(best, queries, [each.label for each in examples])
  if best.all():
    return
  sentence = (
    f"{examples[np.argmin(best[queries])].place}: {np.sum(best == 0)} of "
    f"{len(best)} queries, this one first, have no relevance above 0"
  )
  if not best.any():
    raise errors.InputError(f"{sentence}; add rows, or fix the relevances")
  logging.warning("%s: each counts as 0 in mrr@10 and ndcg@10", sentence)
