"""A server's metrics in the text format of Prometheus. No TensorFlow."""

import bisect
import collections
import itertools

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Upper bounds of the histogram's buckets, in seconds.
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Requests:
  """Counts prediction requests, both answered and refused."""

  def __init__(self) -> None:
    """Sets all counts to zero."""
    self._statuses: collections.Counter = collections.Counter()
    self._buckets = [0] * (len(_BOUNDS) + 1)
    self._seconds = 0.0

  def add(self, status: int, seconds: float) -> None:
    """Counts a request by its HTTP status and its duration in seconds."""
    self._statuses[status] += 1
    # A bucket includes its upper bound.
    self._buckets[bisect.bisect_left(_BOUNDS, seconds)] += 1
    self._seconds += seconds

  def text(self, waiting: int) -> str:
    """Returns all metrics; `waiting` is the number of waiting texts."""
    name, bounds = "bert_request_duration_seconds", (*_BOUNDS, "+Inf")
    counts = list(itertools.accumulate(self._buckets))
    return "\n".join(
      [
        "# TYPE bert_requests_total counter",
        *(
          f'bert_requests_total{{status="{status}"}} {count}'
          for status, count in self._statuses.items()
        ),
        f"# TYPE {name} histogram",
        *(
          f'{name}_bucket{{le="{bound}"}} {count}'
          for bound, count in zip(bounds, counts)
        ),
        f"{name}_sum {self._seconds}",
        f"{name}_count {counts[-1]}",
        "# TYPE bert_queue_texts gauge",
        f"bert_queue_texts {waiting}\n",
      ]
    )
