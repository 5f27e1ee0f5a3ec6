"""The settings of a command: the values of its flags, read once and frozen.

Only a script's `main` reads flags. What it hands on is a `Settings`, so that
every part can be called, and tested, without a command line.
"""

from typing import Callable, NamedTuple

from common import errors


class Settings:
  """Values by name, as attributes; nothing can be assigned to.

  Attributes:
    given: frozenset of the names that the user gave, as opposed to defaults.
  """

  def __init__(self, values, given=(), parse=None):
    """Freezes values; lists become tuples, so that nobody changes them.

    Args:
      values: dict from names to values.
      given: names that the user gave.
      parse: function of a name and a value from elsewhere, such as a file;
        returns the value that the flag would have. Any value will do if None.
    """
    frozen = {
      # absl gives lists.
      name: tuple(value) if isinstance(value, list) else value
      for name, value in values.items()
    }
    # Past __setattr__ below, which refuses all.
    object.__setattr__(self, "_values", frozen)
    object.__setattr__(self, "given", frozenset(given))
    object.__setattr__(self, "_parse", parse)

  def __getattr__(self, name):
    # Only called for what is no attribute; copying asks before `_values` is.
    values = self.__dict__.get("_values", {})
    if name not in values:
      raise AttributeError(f"no setting is called {name}")
    return values[name]

  def __setattr__(self, name, value):
    raise AttributeError(f"settings are frozen: {name} cannot become {value!r}")

  def __contains__(self, name):
    return name in self._values

  def __repr__(self):
    listed = ", ".join(f"{n}={value!r}" for n, value in self._values.items())
    return f"Settings({listed})"

  def get(self, name, default=None):
    """Returns a value, or `default` where no setting has this name."""
    return self._values.get(name, default)

  def replace(self, **changes):
    """Returns settings with some other values; what was given stays so.

    Raises:
      AttributeError: a name is not among the settings.
    """
    # For its error: a name that is no setting.
    for name in changes:
      getattr(self, name)
    return Settings({**self._values, **changes}, self.given, self._parse)

  def parse(self, name, value):
    """Returns a value from elsewhere as the flag of this name would have it.

    Raises:
      TypeError, ValueError: the flag cannot have this value.
    """
    return self._parse(name, value) if self._parse else value


class Conflict(NamedTuple):
  """Flags that have no effect under some condition.

  Attributes:
    flags: their names, separated by spaces.
    condition: function of the Settings.
    reason: what follows a flag's name in the error.
  """

  flags: str
  condition: Callable
  reason: str


def refuse_ignored(settings, conflicts):
  """Refuses flags that were given and would have no effect.

  A flag that was given as false, empty or None asks for nothing: it passes.

  Args:
    settings: Settings.
    conflicts: Conflicts, in the order in which they are looked for.

  Raises:
    InputError: there is such a flag; the first is named.
  """
  for conflict in conflicts:
    if not conflict.condition(settings):
      continue
    for name in conflict.flags.split():
      value = getattr(settings, name)
      # `is`, since 0 == False and a number may be meant.
      asks = value is not False and value not in (None, "", ())
      if name in settings.given and asks:
        raise errors.InputError(f"--{name} {conflict.reason}")
