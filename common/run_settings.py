"""The settings of a command: the values of its flags, read once and frozen.

Only a script's `main` reads flags. What it hands on is a `Settings`, so that
every part can be called, and tested, without a command line.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from common import errors


class Settings:
  """Values by name, as attributes; nothing can be assigned to."""

  given: frozenset[str]  # The names that the user gave, as opposed to defaults.
  rules: tuple["Rule", ...]  # For `refuse_ignored`.

  def __init__(
    self, values: Mapping[str, Any], given: Iterable[str] = (),
    parse: Callable[[str, Any], Any] | None = None, rules: Iterable["Rule"] = ()
  ):
    """Freezes values; lists become tuples, so that nobody changes them.

    Args:
      parse: gives a name and a value from elsewhere, such as a file, the value
        that the flag would have; any value will do if None.
    """
    frozen = {
      # absl gives lists.
      name: tuple(value) if isinstance(value, list) else value
      for name, value in values.items()
    }
    # Past __setattr__ below, which refuses all.
    vars(self).update(
      frozen, _values=frozen, given=frozenset(given), _parse=parse,
      rules=tuple(rules),
    )

  def __getattr__(self, name: str) -> Any:
    # Only called for what is no attribute.
    raise AttributeError(f"no setting is called {name}")

  def __setattr__(self, name, value):
    raise AttributeError(f"settings are frozen: {name} cannot become {value!r}")

  def __contains__(self, name):
    return name in self._values

  def __repr__(self):
    listed = ", ".join(f"{n}={value!r}" for n, value in self._values.items())
    return f"Settings({listed})"

  def get(self, name: str, default: Any = None) -> Any:
    """Returns a value, or `default` where no setting has this name."""
    return self._values.get(name, default)

  def pick(self, names: str) -> dict[str, Any]:
    """Returns some values by name; the names have spaces between them."""
    return {name: getattr(self, name) for name in names.split()}

  def replace(self, **changes) -> "Settings":
    """Returns settings with some other values; what was given stays so.

    Raises AttributeError: a name is not among the settings.
    """
    # For its error: a name that is no setting.
    for name in changes:
      getattr(self, name)
    values = {**self._values, **changes}
    return Settings(values, self.given, self._parse, self.rules)

  def parse(self, name: str, value: Any) -> Any:
    """Returns a value from elsewhere as the flag of this name would have it.

    Raises:
      TypeError, ValueError: the flag cannot have this value.
    """
    return self._parse(name, value) if self._parse else value


class Rule(NamedTuple):
  """When flags count.

  Conditions are names of settings: "do_train save_best" both, "do_eval|seeds"
  one of the two, "head=span" one of this value, "!do_train" one that is off.
  """

  names: str  # Of the flags, separated by spaces.
  needs: str = ""  # The condition.
  not_with: str = ""  # Names, each of which makes the flags useless.
  why: str = ""  # What is added to the error, that of not_with if there is one.

  @property
  def help(self) -> str:
    """What the flag's help says of the rule."""
    needed, refused = _listed(self.needs), _listed(self.not_with)
    return (f" Needs {needed}." if needed else "") + (
      f" Not with {refused.replace(', and ', ' or ')}." if refused else ""
    )

  def fault(self, settings: "Settings") -> str:
    """Returns what is wrong with the flags, "" if they count."""
    for name in self.not_with.split():
      if _is_on(settings, name):
        return f"has no effect with --{name}{self.why}; leave one of them out"
    missing = " ".join(
      names for names in self.needs.split()
      if not any(_is_on(settings, name) for name in names.split("|"))
    )
    why = "" if self.not_with else self.why
    needed = f"needs {_listed(missing)}{why}; pass that too, or leave it out"
    return needed if missing else ""


def _is_on(settings, condition):
  name, _, value = condition.removeprefix("!").partition("=")
  found = settings.get(name)
  is_on = str(found) == value if value else bool(found)
  return is_on != condition.startswith("!")


def _listed(condition):
  """"a|!b c=d" -> "--a or no --b, and --c=d" """
  return ", and ".join(
    names.replace("|", " or --").replace("--!", "no --")
    for names in (f"--{each}" for each in condition.split())
  )


def refuse_ignored(settings: Settings, rules=None) -> None:
  """Refuses flags that were given and would have no effect.

  A flag that was given as false, empty or None asks for nothing: it passes.
  Raises InputError: there is such a flag; all are named.
  """
  faults = {
    f"--{name} {fault}"
    for rule in (settings.rules if rules is None else rules)
    for name in settings.given.intersection(rule.names.split())
    # `is`, since 0 == False and a number may be meant.
    if settings.get(name) is not False
    and settings.get(name) not in (None, "", ())
    and (fault := rule.fault(settings))
  }
  if faults:
    raise errors.InputError(". ".join(sorted(faults)))
