"""Lets every kind of call of the C library fail in small jobs of all scripts.

See fault_runs for what holds after a fault. Of a job with more faults than its
limit, an even sample is run. Workers run side by side, one per processor.
"""

import collections
import concurrent.futures
import os
import queue
import time

import pytest

import fault_jobs
import fault_runs

LEAST_FAULTS = 2000
# The nightly job injects all faults up to the jobs' limits, with FAULT_SHARE=1.
SHARE = float(os.environ.get("FAULT_SHARE", "0.03"))
LEAST_OF_A_JOB = 12
_SHOWN = 20


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
  folder = tmp_path_factory.mktemp("faults")
  preloaded = fault_runs.compiled(folder)
  if not preloaded:
    pytest.skip("needs Linux and a C compiler (cc)")
  count = os.cpu_count() or 1
  workers = [
    fault_runs.Worker(folder / f"worker{number}", preloaded)
    for number in range(count)
  ]
  yield workers
  for worker in workers:
    worker.close()


def outcomes(worker, job, faults):
  """Yields (fault, Outcome) of the faults in a queue, until it is empty."""
  worker.prepare(job)
  while True:
    try:
      fault = faults.get_nowait()
    except queue.Empty:
      return
    yield fault, worker.judge(job, fault)


def run_job(workers, job, share=SHARE):
  """Returns [(fault, Outcome)] of a job's faults, and their full number."""
  workers[0].prepare(job)
  limit = max(LEAST_OF_A_JOB, round(share * job.limit))
  chosen = workers[0].faults(min(limit, job.limit))
  faults = queue.SimpleQueue()
  for fault in chosen:
    faults.put(fault)
  with concurrent.futures.ThreadPoolExecutor(len(workers)) as pool:
    parts = pool.map(lambda w: list(outcomes(w, job, faults)), workers)
    results = [result for part in parts for result in part]
  assert len(results) == len(chosen)
  return results, workers[0].faults(10**6)


@pytest.mark.slow
def test_a_fault_at_any_call_loses_and_hides_nothing(workers, tmp_path, capsys):
  began, total, bad = time.monotonic(), 0, []
  for job in fault_jobs.jobs(tmp_path):
    results, every = run_job(workers, job)
    total += len(results)
    kinds = collections.Counter(outcome.kind for _, outcome in results)
    violations = [
      f"{job.name}: {fault}: {violation}"
      for fault, outcome in results
      for violation in outcome.violations
    ]
    bad += violations
    with capsys.disabled():
      print("", *violations, sep="\n")
      listed = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
      print(f"\n{job.name}: {len(results)} of {len(every)} faults: {listed}")
  seconds = time.monotonic() - began
  with capsys.disabled():
    print(f"{total} faults in {seconds:.0f} s, {len(bad)} violations")
  assert not bad, "\n".join(bad[:_SHOWN])
  assert total >= SHARE * LEAST_FAULTS


def test_a_fault_is_injected_where_it_is_asked_for(workers, tmp_path):
  """Checks the method with the smallest job."""
  job = fault_jobs.jobs(tmp_path)[0]
  results, every = run_job(workers[:1], job, share=1)
  assert len(results) == len(every) >= LEAST_OF_A_JOB
  assert not [
    outcome.violations for _, outcome in results if outcome.violations
  ]
  kinds = collections.Counter(outcome.kind for _, outcome in results)
  # Only a short write is repeated.
  assert kinds["went on"] == 1
  assert kinds["stopped with a sentence"] == len(results) - 1
  causes = {os.strerror(fault.code) for fault, _ in results if fault.code}
  lines = " ".join(outcome.line for _, outcome in results)
  assert all(cause in lines for cause in causes)
