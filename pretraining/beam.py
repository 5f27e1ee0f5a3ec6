"""Distributes work to the workers of an Apache Beam runner.

The output files have the same bytes as on one machine. Every worker needs this
project's package and access to the files (gs://..., a shared disk).
"""

import functools
import shlex
import threading
from collections.abc import Callable
from typing import Any

from absl import logging

from common import errors, file_io, json_files


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
      f"--beam_options={options}: Beam refuses these flags: {fault}"
    ) from error


def in_order(
  options: str, function: Callable, blocks: list, *, results: str
) -> list:
  """Returns function(block) for each block, in the order of `blocks`.

  Raises InputError: see `make_pipeline`, or `function` raises it for a block
  (all other blocks are still computed), or the pipeline fails.

  Args:
    options: as in `make_pipeline`.
    function: function of one block. It and the blocks must be picklable. Its
      results are converted to JSON and back, so tuples become lists.
    blocks: the parts of the work. They are sent to the runner with the
      pipeline, so they should name their data rather than contain it.
    results: path of a temporary file for the results.
  """
  if not blocks:
    return []  # Starting a cluster takes minutes.
  pipeline = make_pipeline(options)
  import apache_beam

  _ = (
    pipeline
    | "Blocks" >> apache_beam.Create(list(enumerate(blocks)))
    # Otherwise Beam fuses the steps, and one worker gets all blocks.
    | "Spread" >> apache_beam.Reshuffle()
    | "Work" >> apache_beam.Map(functools.partial(_attempt, function))
    | "Gather" >> apache_beam.combiners.ToList()
    | "Write" >> apache_beam.Map(functools.partial(json_files.write, results))
  )
  file_io.remove(results)  # A killed run may have left this file.
  try:
    pipeline.run().wait_until_finish()
    done = sorted(json_files.read(results, list))
  except Exception as error:
    logging.debug("The pipeline failed", exc_info=True)
    # The message may be a worker's traceback, whose last line is the error.
    fault = str(error).strip().split("\n")[-1]
    raise errors.InputError(
      f"--beam_options={options}: the pipeline failed ({type(error).__name__}: "
      f"{fault}); every worker needs bert-tf2 and access to all files. Run the "
      "same command again to make the missing files"
    ) from error
  file_io.remove(results)
  for _, fault, _ in done:
    if fault:
      raise errors.InputError(fault)
  return [result for _, _, result in done]


# A worker may have several threads, but only enough memory for one block.
_one_at_a_time = threading.Lock()


def _attempt(function: Callable, numbered) -> tuple:
  """Returns (number, error message or "", result) for a (number, block)."""
  number, block = numbered
  try:
    with _one_at_a_time:
      return number, "", function(block)
  # A runner would retry a function that raises, and print long tracebacks.
  except errors.InputError as error:
    return number, str(error), None
