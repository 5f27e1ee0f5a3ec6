"""Cases for a script's table of run_settings.Conflict."""

import pytest

from common import errors, run_settings


class Table:
  """A script's conflicts and the defaults of its flags."""

  def __init__(self, conflicts, defaults):
    self._conflicts = conflicts
    self._defaults = defaults

  def check(self, flags, given):
    """Refuses what would be ignored of flags, of which some were given."""
    settings = run_settings.Settings({**self._defaults, **flags}, given)
    run_settings.refuse_ignored(settings, self._conflicts)

  def check_case(self, ignored, with_flags, fine):
    """Asserts that a flag is refused next to some, and passes next to others.

    Args:
      ignored: dict of the one flag.
      with_flags, fine: dicts of the flags next to it.
    """
    (name,) = ignored
    with pytest.raises(errors.InputError, match=f"^--{name} .*; "):
      self.check({**with_flags, **ignored}, set(ignored))
    # Not where it counts, was not given, or asks for nothing.
    self.check({**fine, **ignored}, set(ignored))
    self.check({**with_flags, name: self._defaults[name]}, set())
    for nothing in (None, False, "", []):
      self.check({**with_flags, name: nothing}, set(ignored))
