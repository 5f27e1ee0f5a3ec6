r"""Runs the original's own tests against this project's modules.

  git clone https://github.com/google-research/bert
  python benchmarks/original_tests.py --original=bert

TensorFlow 2 emulates TensorFlow 1. For each test, the script prints "passed" or
the last line of the error. Tests that build a graph with the original's calls
fail, see docs/migrating.md.
"""

import argparse
import contextlib
import io
import os
import runpy
import sys
import types
import unittest
import unittest.mock

import six  # noqa: F401  (before `run` replaces modules)
import tensorflow as tf

# A script has only its own folder on the path, not the parent.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import modeling
import optimization
import tokenization
from common import errors

_OURS = {
  "modeling": modeling, "optimization": optimization,
  "tokenization": tokenization, "tensorflow": tf.compat.v1,
}

def run(path: str) -> dict[str, str]:
  """Runs a file of tests; returns {test id: "passed" or an error}."""
  if not os.path.exists(path):
    raise errors.InputError(f"no such file: {path}; clone google-research/bert")
  name = os.path.basename(path).removesuffix(".py")
  with unittest.mock.patch.dict(sys.modules, _OURS):
    module = types.SimpleNamespace(**runpy.run_path(path, run_name=name))
  tests = unittest.defaultTestLoader.loadTestsFromModule(module)
  results = {test.id(): "passed" for suite in tests for test in suite}
  result = unittest.TestResult()
  with contextlib.redirect_stdout(io.StringIO()):
    tests.run(result)
  for test, trace in [*result.errors, *result.failures]:
    results[test.id()] = trace.strip().splitlines()[-1]
  for test, _ in result.skipped:
    del results[test.id()]  # A test of TensorFlow.
  return results


@errors.report_input_errors
def main(argv):
  parser = argparse.ArgumentParser(description="See the top of the file.")
  parser.add_argument("--original", required=True, help="Its checkout.")
  folder = parser.parse_args(argv[1:]).original
  for name in ("tokenization", "modeling", "optimization"):
    for test, outcome in run(os.path.join(folder, f"{name}_test.py")).items():
      print(f"{test}: {outcome}")


if __name__ == "__main__":
  main(sys.argv)
