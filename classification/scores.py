"""Computes a classifier's metrics with NumPy.

Metrics have the same values as in scikit-learn and SciPy, with two exceptions:
a value that is undefined there is a number here, so that models can be
compared, and ndcg@10 counts ties as ranking errors instead of averaging them.
Letters: N examples, L classes, W texts of an example, D width of a vector.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from classification import data
from common import errors

# multi_label predicts the classes with at least this probability.
THRESHOLD = 0.5
# Number of query vectors to compare with all other vectors at a time.
_QUERIES_PER_BLOCK = 256


def of_logits(task_kind: str, logits: np.ndarray) -> np.ndarray:
  """Converts a network's outputs to `Results.scores`, float32 [N, L] or [N, 1].

  Vectors [N, W, D] become the cosines of each example's first two texts.
  """
  logits = np.asarray(logits, np.float32)
  if task_kind in data.OF_VECTORS:
    squares = np.square(logits).sum(-1, keepdims=True)
    vectors = logits / np.sqrt(np.maximum(squares, 1e-12))
    return (vectors[:, 0] * vectors[:, 1]).sum(-1, keepdims=True)
  if task_kind in (data.REGRESSION, data.RANKING_LOGIT):
    return logits
  if task_kind in (data.MULTI_LABEL, data.RANKING):
    # The sigmoid, without positive exponents, because large ones overflow.
    powers = np.exp(-np.abs(logits))
    return np.where(logits < 0, powers, 1) / (1 + powers)
  weights = np.exp(logits - logits.max(-1, keepdims=True))
  return weights / weights.sum(-1, keepdims=True)


class Results(NamedTuple):
  """A classifier's scores of examples, and the correct labels.

  Attributes:
    task_kind: one of data.KINDS.
    labels: names of the L classes; empty for data.OF_NUMBERS.
    gold: the correct labels: class indices, int [N]; 0 or 1, int [N, L], for
      multi_label; float [N] for regression and similarity; float [N, 1] for
      ranking; int [N, W] for retrieval, equal for equal texts.
    scores: probabilities, float [N, L]; numbers [N, 1] for data.OF_NUMBERS.
    positive: index of the positive one of two classes.
    vectors: for retrieval: the texts' unit vectors, float [N, W, D].
    queries: for ranking: int [N], equal for passages of the same query.
  """

  task_kind: str
  labels: Sequence[str]
  gold: np.ndarray
  scores: np.ndarray
  positive: int = 1
  vectors: np.ndarray | None = None
  queries: np.ndarray = np.zeros(0, int)

  @property
  def predicted(self) -> np.ndarray:
    """The predictions: class indices, 0 or 1 per class, or numbers [N]."""
    if self.task_kind in data.OF_NUMBERS:
      return self.scores[:, 0]
    if self.task_kind == data.MULTI_LABEL:
      return (self.scores >= THRESHOLD).astype(np.int64)
    return np.argmax(self.scores, axis=1)

  def confusions(self) -> np.ndarray:
    """Returns int [L, L]: counts of class `row` predicted as class `column`."""
    size = self.scores.shape[1]
    # Encode each pair of classes as one integer, so that bincount can count.
    pairs = np.asarray(self.gold) * size + self.predicted
    return np.bincount(pairs, minlength=size**2).reshape(size, size)


def error_sizes(results: Results) -> np.ndarray:
  """Returns the size of each prediction's error, float [N]; 0 if correct.

  For numbers it is the absolute difference. For a wrong class it is 1 minus the
  probability of the correct class. For multi_label it is the largest difference
  between a class's probability and its label (0 or 1). For retrieval and
  ranking it is 0, because their metrics do not judge single examples.
  """
  gold, predicted = np.asarray(results.gold), results.predicted
  if results.task_kind in (data.RETRIEVAL, *data.OF_RANKS):
    return np.zeros(len(gold))
  if results.task_kind in data.OF_NUMBERS:
    return np.abs(predicted - gold)
  if results.task_kind == data.MULTI_LABEL:
    return np.abs(gold - results.scores).max(1) * (gold != predicted).any(1)
  right = np.take_along_axis(results.scores, gold[:, None], 1)[:, 0]
  return (1 - right) * (gold != predicted)


def _class_counts(results: Results) -> list[np.ndarray]:
  """Returns true positives, predictions and gold labels per class, int [L]."""
  if results.task_kind == data.MULTI_LABEL:
    gold, predicted = results.gold, results.predicted
    return [each.sum(axis=0) for each in (gold * predicted, predicted, gold)]
  matrix = results.confusions()
  return [np.diag(matrix), matrix.sum(axis=0), matrix.sum(axis=1)]


def _ratio(part: Any, whole: Any) -> np.ndarray:
  """Returns part / whole, or 0 where whole is 0."""
  part, whole = np.asarray(part, float), np.asarray(whole, float)
  return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


# Functions of the results of `_class_counts`. This form of F1 equals
# 2 p r / (p + r), and is also defined if precision or recall is not.
_SCORES = {
  "precision": lambda right, predicted, gold: _ratio(right, predicted),
  "recall": lambda right, predicted, gold: _ratio(right, gold),
  "f1": lambda right, predicted, gold: _ratio(2 * right, predicted + gold),
}
# Metrics that refer to the positive class.
OF_POSITIVE_CLASS = tuple(_SCORES)


def accuracy(results: Results) -> float:
  """Returns the proportion of examples whose classes are all correct."""
  right = results.gold == results.predicted  # [N] or [N, L]
  return float(np.mean(right.reshape(len(right), -1).all(axis=1)))


def _of_classes(name: str, average: str, results: Results) -> float:
  """Returns precision, recall or F1.

  Args:
    average: "" for the positive one of two classes; "_micro" for the counts of
      all classes together; "_macro" for the mean over classes. As in
      scikit-learn, the mean for multi_label is over all classes, otherwise over
      the classes that occur in the labels or predictions.
  """
  counts = _class_counts(results)
  if average == "_micro":
    counts = [np.sum(each, keepdims=True) for each in counts]
  values = _SCORES[name](*counts)
  if average == "":
    return float(values[results.positive])
  if average == "_macro" and results.task_kind != data.MULTI_LABEL:
    values = values[counts[1] + counts[2] > 0]
  return float(np.mean(values))


def matthews(results: Results) -> float:
  """Returns the correlation of predicted and correct classes.

  It is Matthews' phi (1975) for two classes, and Gorodkin's R_K (2004) for
  more. It is 0 if all predictions or all correct labels are the same class.
  """
  # In int64, the products below would overflow from some 55,000 examples on.
  matrix = results.confusions().astype(float)
  total, right = matrix.sum(), np.trace(matrix)
  gold, predicted = matrix.sum(axis=1), matrix.sum(axis=0)  # [L]
  # With two classes, R_K equals phi.
  covariance = right * total - gold @ predicted
  spread = (total**2 - gold @ gold) * (total**2 - predicted @ predicted)
  return float(covariance / np.sqrt(spread)) if spread else 0.0


def auc(results: Results) -> float:
  """Returns the mean area under the ROC curves, one class against the rest.

  With two classes, both curves have the same area. Classes that no example or
  every example has are excluded; the area is 0.5 if no class remains.
  """
  if results.task_kind == data.MULTI_LABEL:
    is_class = results.gold.astype(bool)  # [N, L]
  else:
    is_class = np.arange(results.scores.shape[1]) == results.gold[:, None]
  areas = []
  for column, scores in zip(is_class.T, results.scores.T, strict=True):
    count, others = column.sum(), (~column).sum()
    if count and others:
      # The rank sum minus its minimum is the number of correctly ordered pairs
      # of a positive and a negative example (Mann-Whitney).
      right = average_ranks(scores)[column].sum() - count * (count + 1) / 2
      areas.append(right / (count * others))
  return float(np.mean(areas)) if areas else 0.5


def average_ranks(values: Any) -> np.ndarray:
  """Returns the ranks of values, float [N], from 1; ties get the mean rank."""
  # The values 3 7 7 9 have the ranks 1, 2.5, 2.5 and 4.
  _, inverse, counts = np.unique(
    values, return_inverse=True, return_counts=True
  )
  last = np.cumsum(counts)  # The last rank of each value.
  return (last - (counts - 1) / 2)[inverse]


def correlation(x: Any, y: Any) -> float:
  """Returns Pearson's r of two arrays [N]; 0 if one of them is constant."""
  x, y = (np.asarray(values, float) for values in (x, y))
  # Rounding can make the standard deviation of equal values positive.
  if np.ptp(x) == 0 or np.ptp(y) == 0:
    return 0.0
  return float(np.corrcoef(x, y)[0, 1])


def _ranks(results: Results) -> tuple[np.ndarray, np.ndarray]:
  """Returns (queries, ranks), int [R] each, for the R distinct correct pairs.

  A query is the number of a distinct first text. The rank is the position of
  the correct text among the distinct second texts and hard negatives, sorted by
  cosine with the query (1: nearest). In a tie, the correct text is last.
  """
  gold, vectors = np.asarray(results.gold), np.asarray(results.vectors)
  _, query_rows, queries = np.unique(
    gold[:, 0], return_index=True, return_inverse=True
  )
  _, text_rows, texts = np.unique(
    gold[:, 1:], return_index=True, return_inverse=True
  )
  texts = texts.reshape(gold[:, 1:].shape)[:, 0]  # [N], the correct texts.
  candidates = vectors[:, 1:].reshape(-1, vectors.shape[-1])[text_rows]
  # This removes duplicates and sorts the pairs by query.
  right = np.unique(np.stack([queries, texts], axis=1), axis=0)  # [R, 2]
  ranks = []
  for start in range(0, len(right), _QUERIES_PER_BLOCK):
    query, text = right[start : start + _QUERIES_PER_BLOCK].T
    cosines = vectors[query_rows[query], 0] @ candidates.T
    cosine = np.take_along_axis(cosines, text[:, None], axis=1)
    ranks.append(np.sum(cosines >= cosine, axis=1))
  return right[:, 0], np.concatenate(ranks)


def recall(count: int, results: Results) -> float:
  """Returns the mean over queries of the recall in the `count` nearest texts.

  A query's recall is the proportion of its correct texts that are among these.
  """
  queries, ranks = _ranks(results)
  shares = np.bincount(queries, ranks <= count) / np.bincount(queries)
  return float(shares.mean())


def mean_reciprocal_rank(results: Results) -> float:
  """Returns the mean over queries of 1 / rank of the nearest correct text."""
  queries, ranks = _ranks(results)
  best = np.zeros(queries[-1] + 1)
  np.maximum.at(best, queries, 1 / ranks)
  return float(best.mean())


def ranks(
  queries: np.ndarray, values: np.ndarray, *ties: np.ndarray
) -> np.ndarray:
  """Returns the rank of each value within its query, int [N], from 1.

  The largest value has rank 1. Equal values are sorted by `ties`, ascending,
  then by position.
  """
  order = np.lexsort((*ties, -values, queries))
  result = np.empty(len(order), int)
  # A rank is the position minus the first position of the query, plus 1.
  starts = np.searchsorted(queries[order], queries[order])
  result[order] = np.arange(len(order)) - starts + 1
  return result


def reciprocal_rank(count: int, results: Results) -> float:
  """Returns the mean over queries of 1 / rank of the first relevant passage.

  A query without a relevant passage in the first `count` scores 0. Among
  passages with equal scores, less relevant ones come first.
  """
  gold, queries = np.ravel(results.gold), results.queries
  rank = ranks(queries, results.predicted, gold)
  best = np.zeros(queries.max() + 1)
  np.maximum.at(best, queries, (gold > 0) * (rank <= count) / rank)
  return float(best.mean())


def discounted_gain(count: int, results: Results) -> float:
  """Returns the mean over queries of the NDCG of the first `count` passages.

  As in scikit-learn, a passage at rank r gains relevance / log2(r + 1), and a
  query without a relevant passage scores 0. Ties: see `reciprocal_rank`.
  """
  gold, queries = np.ravel(results.gold), results.queries

  def gains(values: np.ndarray) -> np.ndarray:
    rank = ranks(queries, values, gold)
    return np.bincount(queries, gold * (rank <= count) / np.log2(rank + 1))

  return float(np.mean(_ratio(gains(results.predicted), gains(gold))))


def _averages(*averages: str) -> dict[str, Any]:
  """Returns a dict of metrics, such as {"f1_macro": function of Results}."""
  return {
    f"{name}{average}": functools.partial(_of_classes, name, average)
    for name in _SCORES
    for average in averages
  }


_CORRELATIONS = {
  "pearson": lambda results: correlation(results.predicted, results.gold),
  "spearman": lambda results: correlation(
    average_ranks(results.predicted), average_ranks(results.gold)
  ),
}
# {task kind: {name in --metrics: function of Results}}
METRICS = {
  data.SINGLE: {
    "accuracy": accuracy,
    **_averages("", "_macro", "_micro"),
    "matthews": matthews,
    "auc": auc,
  },
  data.CHOICE: {"accuracy": accuracy},
  data.MULTI_LABEL: {
    "accuracy": accuracy,
    **_averages("_macro", "_micro"),
    "auc": auc,
  },
  data.REGRESSION: _CORRELATIONS,
  data.SIMILARITY: _CORRELATIONS,
  **dict.fromkeys(
    data.OF_RANKS,
    {
      "mrr@10": functools.partial(reciprocal_rank, 10),
      "ndcg@10": functools.partial(discounted_gain, 10),
    },
  ),
  data.RETRIEVAL: {
    **{f"recall@{k}": functools.partial(recall, k) for k in (1, 5, 10)},
    "mrr": mean_reciprocal_rank,
  },
}


def default_metrics(task_kind: str, num_classes: int) -> tuple:
  """Returns the names of the default metrics for the user's data."""
  return {
    data.SINGLE: ("accuracy", "f1" if num_classes == 2 else "f1_macro"),
    data.MULTI_LABEL: ("accuracy", "f1_micro", "f1_macro"),
  }.get(task_kind) or tuple(METRICS[task_kind])


def check_metrics(
  names: Iterable[str], task_kind: str, num_classes: int
) -> None:
  """Raises InputError for a metric that a kind of task does not support."""
  known = set(METRICS[task_kind])
  if num_classes != 2:
    known -= set(OF_POSITIVE_CLASS)
  for name in names:
    if name not in known:
      raise errors.InputError(
        f"--metrics={name}: the metrics of this task ({task_kind}, "
        f"{num_classes} classes) are {', '.join(sorted(known))}"
      )


def compute(results: Results, names: Iterable[str]) -> dict[str, float]:
  """Returns {name: value} for metrics."""
  return {name: METRICS[results.task_kind][name](results) for name in names}


def mean_over_batches(losses: np.ndarray, batch_size: int) -> float:
  """Returns the mean over batches of each batch's mean loss.

  The last batch may be smaller. As in the original: an evaluation's `loss` is
  this mean, and `eval_loss` is the mean over examples.
  """
  return float(
    np.mean(
      [
        np.mean(losses[start : start + batch_size], dtype=np.float64)
        for start in range(0, len(losses), batch_size)
      ]
    )
  )


def report(results: Results) -> str:
  """Returns a text with each class's scores and the confusion matrix.

  multi_label has no matrix. For tasks without classes, the text has the metrics
  instead and, for regression, the mean errors.
  """
  if results.task_kind in data.OF_NUMBERS:
    values = compute(results, METRICS[results.task_kind])
    if results.task_kind == data.REGRESSION:
      distances = results.predicted - np.asarray(results.gold, float)
      values |= {
        "mean error": np.mean(distances),
        "mean absolute error": np.mean(np.abs(distances)),
        "root mean squared error": np.sqrt(np.mean(distances**2)),
      }
    lines = [f"{name:25}{value:11.4f}" for name, value in values.items()]
    return "\n".join([f"{len(results.gold)} examples", *lines]) + "\n"
  width = max(16, *(len(label) + 2 for label in results.labels))
  lines = _class_lines(results, width)
  if results.task_kind != data.MULTI_LABEL:
    names = "".join(f"{label:>{width}}" for label in results.labels)
    lines += ["", "rows: correct, columns: predicted", " " * width + names]
    for label, row in zip(results.labels, results.confusions()):
      lines.append(f"{label:{width}}" + "".join(f"{n:{width}d}" for n in row))
  return "\n".join(lines) + "\n"


def _class_lines(results: Results, width: int) -> list[str]:
  counts = _class_counts(results)
  columns = [score(*counts) for score in _SCORES.values()]
  means = [_of_classes(name, "_macro", results) for name in _SCORES]
  rows = [
    *zip(results.labels, zip(*columns), counts[2]),
    # As in scikit-learn, an example counts for each of its classes.
    ("macro avg", means, counts[2].sum()),
  ]
  names = "".join(f"{name:>11}" for name in (*_SCORES, "support"))
  return [" " * width + names] + [
    f"{label:{width}}{''.join(f'{n:11.4f}' for n in values)}{support:11d}"
    for label, values, support in rows
  ]
