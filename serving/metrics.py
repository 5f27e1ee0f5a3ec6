"""A server's numbers in the text form of Prometheus. No TensorFlow."""

import bisect
import collections
import itertools

from serving import batching

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Upper bounds of the histogram's buckets, in seconds.
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Requests:
  """Counts prediction requests, whether they were answered or refused."""

  def __init__(self):
    """Starts at zero."""
    self._statuses: collections.Counter = collections.Counter()
    self._buckets = [0] * (len(_BOUNDS) + 1)
    self._seconds = 0.0

  def add(self, status: int, seconds: float) -> None:
    """Counts a request with its HTTP status and the time that it took."""
    self._statuses[status] += 1
    # A bucket includes its upper bound.
    self._buckets[bisect.bisect_left(_BOUNDS, seconds)] += 1
    self._seconds += seconds

  def text(self, batcher: batching.Batcher) -> str:
    """Returns all numbers, including the batcher's."""
    bounds = [*_BOUNDS, "+Inf"]
    counts = list(itertools.accumulate(self._buckets))
    latency = {
      **{f'_bucket{{le="{b}"}}': n for b, n in zip(bounds, counts)},
      "_sum": self._seconds, "_count": counts[-1],
    }
    statuses = {f'{{status="{s}"}}': n for s, n in self._statuses.items()}
    return "".join(
      f"# HELP {name} {meaning}\n# TYPE {name} {metric_type}\n"
      + "".join(f"{name}{rest} {value}\n" for rest, value in samples.items())
      for name, metric_type, meaning, samples in (
        ("bert_requests_total", "counter",
         "Prediction requests by HTTP status.", statuses),
        ("bert_request_duration_seconds", "histogram",
         "Time from a prediction request to its answer.", latency),
        ("bert_queue_texts", "gauge", "Texts that wait.",
         {"": batcher.queue_length}),
        ("bert_texts_total", "counter", "Texts that were computed.",
         {"": batcher.num_instances}),
        ("bert_batches_total", "counter", "Batches that were computed.",
         {"": batcher.num_batches}),
      )
    )
