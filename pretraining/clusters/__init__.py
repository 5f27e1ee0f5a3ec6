"""Distributes work to the machines of a cluster.

Each module of this folder drives one engine and defines

  check(options)   raises errors.InputError if the engine is not installed or
                   refuses the options; starts nothing
  in_order(options, function, blocks, results=path)
                   returns function(block) for each block, in the order of
                   `blocks`. Function, blocks and results are picklable, and
                   `path` may be used for a temporary file. Errors that
                   `function` raises are raised as they are

The output files have the same bytes as on one machine. Every worker needs this
project's package and access to the files (gs://..., a shared disk).
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

from common import errors, extensions

_BOOLS = {"true": True, "false": False}


def names() -> tuple[str, ...]:
  """Returns the names of the engines."""
  return extensions.names(__name__)


def check(engine: str, options: str) -> None:
  """Raises InputError: no such engine or package, or it refuses `options`."""
  extensions.load(__name__, engine, "--engine").check(options)


def in_order(
  engine: str, options: str, function: Callable, blocks: list, *, results: str
) -> Iterator:
  """Yields function(block) for each block, in the order of `blocks`.

  Raises InputError: see `check`, or `function` raises it for a block (all other
  blocks are still computed), or the engine fails.

  Args:
    engine: one of `names()`, or a user's file or module.
    options: options of the engine.
    function: function of one block. It and the blocks must be picklable.
    blocks: the parts of the work. They are sent to the workers, so they should
      name their data rather than contain it.
    results: path for a temporary file.
  """
  if not blocks:
    return  # Starting a cluster takes minutes.
  module = extensions.load(__name__, engine, "--engine")
  work = functools.partial(_attempt, function)
  first_fault = ""

  def attempts() -> Iterator[tuple[str, Any]]:
    yield from module.in_order(options, work, blocks, results=results)

  pairs = attempts()
  while pair := _next(engine, pairs):
    fault, result = pair
    first_fault = first_fault or fault
    # Blocks behind a fault are computed, but nobody waits for their results.
    if not first_fault:
      yield result
  if first_fault:
    raise errors.InputError(first_fault)


def _next(engine: str, pairs: Iterator) -> tuple[str, Any] | None:
  """Returns the next pair of `_attempt`, None at the end.

  Raises InputError: the engine failed.
  """
  try:
    return next(pairs, None)
  except errors.InputError:
    raise
  except Exception as error:
    # The message may be a worker's traceback, whose last line is the error.
    fault = str(error).strip().split("\n")[-1]
    raise errors.InputError(
      f"--engine={engine}: {type(error).__name__}: {fault}; every worker needs "
      "bert-tf2 and access to all files. Run the same command again to make "
      "the missing files"
    ) from error


def _attempt(function: Callable, block: Any) -> tuple[str, Any]:
  """Returns (error message or "", result) for a block."""
  try:
    return "", function(block)
  # An engine would retry a function that raises, and print long tracebacks.
  except errors.InputError as error:
    return str(error), None


def arguments(options: str, engine: str) -> dict[str, Any]:
  """Returns the arguments that connect to an engine's scheduler.

  They are the address of a scheduler, or "name=value name=value" with integers,
  true and false. Raises InputError: `options` has another form.
  """
  if options and "=" not in options:
    return {"address": options}
  return {
    name: int(value) if value.isdecimal() else _BOOLS.get(value, value)
    for name, value in key_values(options, engine).items()
  }


def key_values(options: str, engine: str) -> dict[str, str]:
  """Parses "name=value name=value"; raises InputError for anything else."""
  values = {}
  for part in options.split():
    name, equals, value = part.partition("=")
    if not (name and equals):
      raise errors.InputError(
        f"--engine_options={options}: expected NAME=VALUE pairs of {engine}, "
        f"separated by spaces; got {part!r}"
      )
    values[name] = value
  return values
