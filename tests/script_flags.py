"""A script's flags in this process, as often as a test likes."""

import contextlib
import runpy

import pytest
from absl import flags

import test_layout
from common import command

FLAGS = flags.FLAGS.__dict__


class _Defined(Exception):
  """All flags of the script are defined."""


def _stop(name, **options):
  raise _Defined


@contextlib.contextmanager
def defined(verb):
  """Has absl's FLAGS hold those of a script alone; gives their names."""
  others = dict(FLAGS)
  FLAGS.clear()
  FLAGS.update(vars(flags.FlagValues()))
  try:
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(_Defined):
      patch.setattr(command, "parse_flags", _stop)
      runpy.run_path(str(test_layout.VERBS[verb]))
    # absl has some of its own.
    yield {name for name in flags.FLAGS if hasattr(flags.FLAGS[name], "rules")}
  finally:
    FLAGS.clear()
    FLAGS.update(others)
