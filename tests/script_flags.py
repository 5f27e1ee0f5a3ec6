"""Defines a script's flags in this process, for one script after another."""

import contextlib
import runpy

import pytest
from absl import flags

import test_layout
from common import command

FLAGS = flags.FLAGS.__dict__


class _Defined(Exception):
  """Stops the script once all its flags are defined."""


def _stop(name, **options):
  raise _Defined


@contextlib.contextmanager
def defined(verb):
  """Lets absl's FLAGS hold only a script's flags; yields their names."""
  previous_flags = dict(FLAGS)
  FLAGS.clear()
  FLAGS.update(vars(flags.FlagValues()))
  try:
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(_Defined):
      patch.setattr(command, "parse_flags", _stop)
      runpy.run_path(str(test_layout.VERBS[verb]))
    # absl's own flags have no `rules`.
    yield {name for name in flags.FLAGS if hasattr(flags.FLAGS[name], "rules")}
  finally:
    FLAGS.clear()
    FLAGS.update(previous_flags)
