"""Distributes work to the workers of an Apache Beam runner."""

import functools
import shlex
import threading
from collections.abc import Callable
from typing import Any

from absl import logging

from common import errors, file_io, json_files


def check(options: str) -> None:
  """Raises InputError: see `make_pipeline`."""
  make_pipeline(options)


def make_pipeline(options: str) -> Any:
  """Returns an empty apache_beam.Pipeline.

  Raises InputError: apache-beam is not installed, or rejects the options.

  Args:
    options: Beam's own flags, separated by spaces as in a shell.
  """
  with errors.needs_extra("beam"):
    import apache_beam
    from apache_beam.options import pipeline_options
  try:
    parsed = pipeline_options.PipelineOptions(shlex.split(options))
    parsed.get_all_options()  # Checks the values.
    return apache_beam.Pipeline(options=parsed)
  # Beam parses with argparse, which prints the error and exits.
  except (ValueError, ImportError, SystemExit) as error:
    is_printed = isinstance(error, SystemExit)
    fault = "see above" if is_printed else " ".join(str(error).split())
    raise errors.InputError(
      f"--engine_options={options}: Beam refuses these flags: {fault}"
    ) from error


def in_order(
  options: str, function: Callable, blocks: list, *, results: str
) -> list:
  """Returns function(block) for each block; see the folder's docstring.

  Results are converted to JSON and back, so tuples become lists.
  """
  pipeline = make_pipeline(options)
  import apache_beam

  _ = (
    pipeline
    | "Blocks" >> apache_beam.Create(list(enumerate(blocks)))
    # Otherwise Beam fuses the steps, and one worker gets all blocks.
    | "Spread" >> apache_beam.Reshuffle()
    | "Work" >> apache_beam.Map(functools.partial(_numbered, function))
    | "Gather" >> apache_beam.combiners.ToList()
    | "Write" >> apache_beam.Map(functools.partial(json_files.write, results))
  )
  file_io.remove(results)  # A killed run may have left this file.
  try:
    pipeline.run().wait_until_finish()
    done = sorted(json_files.read(results, list))
  except Exception:
    logging.debug("The pipeline failed", exc_info=True)
    raise
  file_io.remove(results)
  return [result for _, result in done]


# A worker may have several threads, but only enough memory for one block.
_one_at_a_time = threading.Lock()


def _numbered(function: Callable, numbered: tuple) -> tuple:
  number, block = numbered
  with _one_at_a_time:
    return number, function(block)
