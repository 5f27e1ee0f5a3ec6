"""All numbers that are reported about a classifier, computed with numpy.

Names and values are as in scikit-learn and SciPy with one exception: a value
that is undefined there (nan) is a number here, so that the best model can be
selected. Letters: N examples, L classes, W texts of an example, D width of a
text's vector.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from classification import data
from common import errors

# Classes with at least this probability are predicted.
THRESHOLD = 0.5
# This many query vectors are compared with all others at a time.
_QUERIES_TOGETHER = 256


def of_logits(task_kind: str, logits: np.ndarray) -> np.ndarray:
  """Returns `Results.scores` for a network's outputs, float32 [N, L].

  For vectors [N, W, D] they are the cosines of the first two, [N, 1].
  """
  logits = np.asarray(logits, np.float32)
  if task_kind in data.OF_VECTORS:
    squares = np.square(logits).sum(-1, keepdims=True)
    vectors = logits / np.sqrt(np.maximum(squares, 1e-12))
    return (vectors[:, 0] * vectors[:, 1]).sum(-1, keepdims=True)
  if task_kind in (data.REGRESSION, data.RANKING_LOGIT):
    return logits
  if task_kind in (data.MULTI_LABEL, data.RANKING):
    # The exponential of a large positive number would overflow.
    shares = np.exp(-np.abs(logits))
    return np.where(logits < 0, shares, 1) / (1 + shares)
  weights = np.exp(logits - logits.max(-1, keepdims=True))
  return weights / weights.sum(-1, keepdims=True)


class Results(NamedTuple):
  """A classifier's scores of examples, and the correct labels.

  Attributes:
    task_kind: one of data.KINDS.
    labels: names of the classes, L; empty for numbers.
    gold: int [N], or int [N, L] of 0 and 1 for several classes at once, or
      float [N] for numbers, [N, 1] for ranking; int [N, W] for retrieval,
      equal for equal texts.
    scores: float [N, L], probabilities; [N, 1] for numbers.
    positive: number of the positive class of two.
    vectors: for retrieval: float [N, W, D], of all texts, each of length 1.
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
    """The predictions, in the form of `gold`; the cosines for retrieval."""
    if self.task_kind in data.OF_NUMBERS:
      return self.scores[:, 0]
    if self.task_kind == data.MULTI_LABEL:
      return (self.scores >= THRESHOLD).astype(np.int64)
    return np.argmax(self.scores, axis=1)

  def confusions(self) -> np.ndarray:
    """Returns int [L, L]: examples of class `row` predicted as `column`."""
    size = self.scores.shape[1]
    # A pair of classes becomes one number, so that one count is enough.
    pairs = np.asarray(self.gold) * size + self.predicted
    return np.bincount(pairs, minlength=size**2).reshape(size, size)


def error_sizes(results: Results) -> np.ndarray:
  """Returns how wrong each prediction is, float [N]; 0 where it is right.

  It is the distance of numbers, and for classes the part of the probability
  that the correct one lacks. Retrieval and ranking compare a text with others:
  they have no errors of single examples.
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


def _class_counts(results):
  """Returns true positives, predicted and gold counts per class, int [L]."""
  if results.task_kind == data.MULTI_LABEL:
    gold, predicted = results.gold, results.predicted
    return [each.sum(axis=0) for each in (gold * predicted, predicted, gold)]
  matrix = results.confusions()
  return [np.diag(matrix), matrix.sum(axis=0), matrix.sum(axis=1)]


def _ratio(part, whole):
  """Returns part / whole, or 0 where whole is 0."""
  part, whole = np.asarray(part, float), np.asarray(whole, float)
  return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


# They take the `_class_counts` as float [L]. F1 is 2 p r / (p + r), and is
# defined even if precision or recall is not.
_SCORES = {
  "precision": lambda right, predicted, gold: _ratio(right, predicted),
  "recall": lambda right, predicted, gold: _ratio(right, gold),
  "f1": lambda right, predicted, gold: _ratio(2 * right, predicted + gold),
}
# Metrics of the positive class.
OF_POSITIVE_CLASS = tuple(_SCORES)


# Metrics of Results.


def accuracy(results: Results) -> float:
  """The share of examples that are right in all classes at once."""
  right = results.gold == results.predicted  # [N] or [N, L]
  return float(np.mean(right.reshape(len(right), -1).all(axis=1)))


def _of_classes(name, average, results):
  """Computes precision, recall or F1.

  Args:
    average: "": of the positive class of two. "_micro": over all decisions
      together. "_macro": the plain mean over classes; as in scikit-learn, for
      one class of several without classes that neither occur nor are
      predicted, for several classes at once over all classes.
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
  """The correlation of predicted and correct classes.

  It is Matthews' (1975) for two classes and Gorodkin's (2004) for more; 0 if
  only one class is predicted or correct.
  """
  # In int64 the fourth power would overflow from 60,000 examples on.
  matrix = results.confusions().astype(float)
  total, right = matrix.sum(), np.trace(matrix)
  gold, predicted = matrix.sum(axis=1), matrix.sum(axis=0)  # [L]
  # This is Gorodkin's R_K, which is Matthews' phi for two classes.
  covariance = right * total - gold @ predicted
  spread = (total**2 - gold @ gold) * (total**2 - predicted @ predicted)
  return float(covariance / np.sqrt(spread)) if spread else 0.0


def auc(results: Results) -> float:
  """The area under the ROC curve: the mean over classes, each against all.

  With two classes both curves have the same area. A class that no example or
  every example has is left out; the area is 0.5 if no class is left.
  """
  if results.task_kind == data.MULTI_LABEL:
    is_class = results.gold.astype(bool)  # [N, L]
  else:
    is_class = np.arange(results.scores.shape[1]) == results.gold[:, None]
  areas = []
  for column, scores in zip(is_class.T, results.scores.T, strict=True):
    count, others = column.sum(), (~column).sum()
    if count and others:
      # The rank sum minus its minimum is the number of pairs that are scored in
      # the right order (Mann-Whitney).
      right = average_ranks(scores)[column].sum() - count * (count + 1) / 2
      areas.append(right / (count * others))
  return float(np.mean(areas)) if areas else 0.5


def average_ranks(values) -> np.ndarray:
  """Returns the ranks from 1 of values [N]; equal values share their mean."""
  # The values 3 7 7 9 have the ranks 1, 2.5, 2.5 and 4.
  _, inverse, counts = np.unique(
    values, return_inverse=True, return_counts=True
  )
  last = np.cumsum(counts)  # The last rank of each value.
  return (last - (counts - 1) / 2)[inverse]


def correlation(x, y) -> float:
  """Returns Pearson's r of two arrays [N]; 0 if one of them is constant."""
  x, y = (np.asarray(values, float) for values in (x, y))
  # The deviation is unsuitable: rounding makes it positive for equal values.
  if np.ptp(x) == 0 or np.ptp(y) == 0:
    return 0.0
  return float(np.corrcoef(x, y)[0, 1])


def _ranks(results):
  """Returns the query of each right text, and its rank; int [R] each.

  Queries are the different first texts, numbered from 0. All other texts are
  ranked by their cosine with the query, 1 for the nearest; on ties the right
  text is the last.
  """
  gold, vectors = np.asarray(results.gold), results.vectors
  _, query_rows, queries = np.unique(
    gold[:, 0], return_index=True, return_inverse=True
  )
  _, text_places, texts = np.unique(
    gold[:, 1:], return_index=True, return_inverse=True
  )
  texts = texts.reshape(gold[:, 1:].shape)[:, 0]  # [N], the right texts.
  candidates = vectors[:, 1:].reshape(-1, vectors.shape[-1])[text_places]
  # Duplicates are removed, and the pairs sorted by query.
  right = np.unique(np.stack([queries, texts], axis=1), axis=0)  # [R, 2]
  ranks = []
  for start in range(0, len(right), _QUERIES_TOGETHER):
    query, text = right[start : start + _QUERIES_TOGETHER].T
    cosines = vectors[query_rows[query], 0] @ candidates.T
    cosine = np.take_along_axis(cosines, text[:, None], axis=1)
    ranks.append(np.sum(cosines >= cosine, axis=1))
  return right[:, 0], np.concatenate(ranks)


def recall(count: int, results: Results) -> float:
  """The share of a query's right texts among the `count` nearest.

  The result is the mean over queries.
  """
  queries, ranks = _ranks(results)
  shares = np.bincount(queries, ranks <= count) / np.bincount(queries)
  return float(shares.mean())


def mean_reciprocal_rank(results: Results) -> float:
  """The mean over queries of 1 / the rank of the nearest right text."""
  queries, ranks = _ranks(results)
  best = np.zeros(queries[-1] + 1)
  np.maximum.at(best, queries, 1 / ranks)
  return float(best.mean())


def ranks(queries: np.ndarray, values: np.ndarray, *ties) -> np.ndarray:
  """Returns the rank of each value for its query, int [N], 1 for the largest.

  The first of equal values has the least of `ties`, then the least place.
  """
  order = np.lexsort((*ties, -values, queries))
  result = np.empty(len(order), int)
  # The place minus the place of the query's first.
  starts = np.searchsorted(queries[order], queries[order])
  result[order] = np.arange(len(order)) - starts + 1
  return result


def reciprocal_rank(count: int, results: Results) -> float:
  """The mean over queries of 1 / the rank of the first relevant passage.

  It is 0 if none is among the first `count`. Of equal scores the less relevant
  passage comes first, here and in `discounted_gain`.
  """
  gold, queries = np.ravel(results.gold), results.queries
  rank = ranks(queries, results.predicted, gold)
  best = np.zeros(queries.max() + 1)
  np.maximum.at(best, queries, (gold > 0) * (rank <= count) / rank)
  return float(best.mean())


def discounted_gain(count: int, results: Results) -> float:
  """The mean over queries of the NDCG of the first `count` passages.

  A passage at rank r gains relevance / log2(r + 1), as in scikit-learn; a
  query without a relevant passage has 0.
  """
  gold, queries = np.ravel(results.gold), results.queries

  def gains(values):
    rank = ranks(queries, values, gold)
    return np.bincount(queries, gold * (rank <= count) / np.log2(rank + 1))

  return float(np.mean(_ratio(gains(results.predicted), gains(gold))))


def _averages(*ways):
  """Returns a dict such as {"f1_macro": function}."""
  return {
    f"{name}{way}": functools.partial(_of_classes, name, way)
    for name in _SCORES
    for way in ways
  }


_CORRELATIONS = {
  "pearson": lambda results: correlation(results.predicted, results.gold),
  "spearman": lambda results: correlation(
    average_ranks(results.predicted), average_ranks(results.gold)
  ),
}
# Maps kind -> name of --metrics -> function of Results.
METRICS = {
  data.SINGLE: {
    "accuracy": accuracy, **_averages("", "_macro", "_micro"),
    "matthews": matthews, "auc": auc,
  },
  data.CHOICE: {"accuracy": accuracy},
  data.MULTI_LABEL: {
    "accuracy": accuracy, **_averages("_macro", "_micro"), "auc": auc
  },
  data.REGRESSION: _CORRELATIONS, data.SIMILARITY: _CORRELATIONS,
  **dict.fromkeys(data.OF_RANKS, {
    "mrr@10": functools.partial(reciprocal_rank, 10),
    "ndcg@10": functools.partial(discounted_gain, 10),
  }),
  data.RETRIEVAL: {
    **{f"recall@{k}": functools.partial(recall, k) for k in (1, 5, 10)},
    "mrr": mean_reciprocal_rank,
  },
}


def default_metrics(task_kind: str, num_classes: int) -> tuple:
  """Returns the names of the default metrics of unofficial data."""
  return {
    data.SINGLE: ("accuracy", "f1" if num_classes == 2 else "f1_macro"),
    data.MULTI_LABEL: ("accuracy", "f1_micro", "f1_macro"),
  }.get(task_kind) or tuple(METRICS[task_kind])


def check_metrics(names, task_kind: str, num_classes: int) -> None:
  """Raises InputError for a metric that the kind of task lacks."""
  known = set(METRICS[task_kind])
  if num_classes != 2:
    known -= set(OF_POSITIVE_CLASS)
  for name in names:
    if name not in known:
      raise errors.InputError(
        f"--metrics={name}: this task ({task_kind}, {num_classes} classes) has "
        f"{', '.join(sorted(known))}"
      )


def compute(results: Results, names) -> dict[str, float]:
  """Returns the values of metrics."""
  return {name: METRICS[results.task_kind][name](results) for name in names}


def mean_over_batches(losses: np.ndarray, batch_size: int) -> float:
  """Returns the mean of the means of batches; the last may be short.

  As in the original: this is the `loss` of an evaluation, and `eval_loss` is
  the mean over examples.
  """
  return float(np.mean([
    np.mean(losses[start : start + batch_size], dtype=np.float64)
    for start in range(0, len(losses), batch_size)
  ]))


# Reports for readers.


def report(results: Results) -> str:
  """Returns scores of each class and the confusion matrix as text.

  For regression it is the errors of the predictions.
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
    lines += ["", "rows: right, columns: predicted", " " * width + names]
    for label, row in zip(results.labels, results.confusions()):
      lines.append(f"{label:{width}}" + "".join(f"{n:{width}d}" for n in row))
  return "\n".join(lines) + "\n"


def _class_lines(results, width):
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
