"""Steps of several contenders in turns, as a share of the machine's peak.

The peak is that of square matrix products, measured in the same turns, so that
other work on the machine slows all of them alike.
"""

import json
import statistics
import time

import tensorflow as tf


def make_peak(dtype, size=2048):
  """Returns a function that gives the FLOP per second of a square product."""
  square = tf.cast(tf.random.normal([size, size]), dtype)
  product = tf.function(lambda x: tf.reduce_max(tf.matmul(x, x)))

  def measure_once():
    seconds = min(
      # The best of three: other work can only make it slower.
      seconds_of(lambda: product(square).numpy())[0] for _ in range(3)
    )
    return 2 * size**3 / seconds

  measure_once()
  return measure_once


def seconds_of(function):
  """Returns how long a call of a function takes: wall, processor time."""
  wall, processor = time.perf_counter(), time.process_time()
  function()
  return time.perf_counter() - wall, time.process_time() - processor


def measure(contenders, method, batch, *, peak, flop, rounds):
  """Measures a method of every contender, and prints it.

  Args:
    contenders: objects with `name`, the method, `wait()`, which returns when
      what the method started has ended, and `optional`: whether one that fails
      in its first call is left out with a line that says so.
    method: "train", "predict" or "pretrain".
    batch: argument of the method; its first part has a row for every example.
    peak: function that returns the machine's FLOP per second.
    flop: floating-point operations of one example.
    rounds: turns after one to warm up.

  Returns:
    dict from contender to dict of medians: examples_per_second, share of the
    peak (0 to 1), processor_seconds of a step.
  """
  contenders = [c for c in contenders if _works(c, method, batch)]
  size = len(batch[0])
  taken = {contender.name: [] for contender in contenders}
  for _ in range(rounds):
    # In every turn, next to what it is compared with.
    best = peak()
    for contender in contenders:
      wall, processor = seconds_of(lambda: _step(contender, method, batch))
      taken[contender.name].append((wall, size * flop / wall / best, processor))
  results = {}
  for name, turns in taken.items():
    wall, share, processor = map(statistics.median, zip(*turns))
    results[name] = {
      "examples_per_second": size / wall,
      "share": share,
      "processor_seconds": processor,
    }
    print(
      f"{method:8s} batch {size:3d}  {name:30s}{size / wall:8.2f} examples/s"
      f"{100 * share:5.0f} % of the peak",
      flush=True,
    )
  return results


def _step(contender, method, batch):
  getattr(contender, method)(batch)
  contender.wait()


def _works(contender, method, batch):
  """Warms a contender up, which compiles what it compiles."""
  try:
    _step(contender, method, batch)
  except Exception as error:  # Compilers of other programs fail in any way.
    if not contender.optional:
      raise
    first_line = str(error).strip().split("\n")[0]
    print(f"without {contender.name}: {type(error).__name__}: {first_line}")
    return False
  return True


def write(path, results):
  """Writes what `measure` returned as JSON, if there is a path."""
  if path:
    with open(path, "w", encoding="utf-8") as stream:
      json.dump(results, stream)
