"""The settings of a command: the values of its flags, read once and frozen.

A script's `main` reads the flags, and passes a `Settings` to all other code,
which can then be called and tested without a command line.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from common import errors


class Settings:
  """The values as read-only attributes."""

  given: frozenset[str]  # The names of the flags that the user gave.
  rules: tuple["Rule", ...]  # For `refuse_ignored`.

  def __init__(
    self,
    values: Mapping[str, Any],
    given: Iterable[str] = (),
    parse: Callable[[str, Any], Any] | None = None,
    rules: Iterable["Rule"] = (),
  ) -> None:
    """Freezes values; lists become tuples, which cannot change.

    Args:
      parse: function of a flag's name and a raw value, such as one from a file;
        returns the flag's value. None accepts any value.
    """
    frozen = {
      # absl returns lists.
      name: tuple(value) if isinstance(value, list) else value
      for name, value in values.items()
    }
    # This bypasses __setattr__ below, which refuses all assignments.
    vars(self).update(
      frozen,
      _values=frozen,
      given=frozenset(given),
      _parse=parse,
      rules=tuple(rules),
    )

  def __getattr__(self, name: str) -> Any:
    # Python calls this only for missing attributes.
    raise AttributeError(f"no setting is called {name}")

  def __setattr__(self, name: str, value: Any) -> None:
    raise AttributeError(f"settings are frozen: {name} cannot become {value!r}")

  def __contains__(self, name: object) -> bool:
    return name in self._values

  def __iter__(self) -> Iterator[str]:
    return iter(self._values)

  def __repr__(self) -> str:
    listed = ", ".join(f"{n}={value!r}" for n, value in self._values.items())
    return f"Settings({listed})"

  def get(self, name: str, default: Any = None) -> Any:
    """Returns a value, or `default` if no setting has this name."""
    return self._values.get(name, default)

  def pick(self, names: str | Iterable[str]) -> dict[str, Any]:
    """Returns values by name; spaces separate the names in a string."""
    listed = names.split() if isinstance(names, str) else names
    return {name: getattr(self, name) for name in listed}

  def replace(self, **changes: Any) -> "Settings":
    """Returns settings with changed values; `given` stays the same.

    Raises AttributeError: a name is not among the settings.
    """
    # getattr raises the error for an unknown name.
    for name in changes:
      getattr(self, name)
    values = {**self._values, **changes}
    return Settings(values, self.given, self._parse, self.rules)

  def filled(self, values: Mapping[str, Any]) -> "Settings":
    """Returns settings with `values`, except for what the user gave.

    It skips names that are not among the settings. So the order of the calls is
    the order of precedence, lowest first.
    """
    names = (values.keys() & self._values.keys()) - self.given
    return self.replace(**{name: values[name] for name in names})

  def parse(self, name: str, value: Any) -> Any:
    """Returns a raw value, such as one from a file, as the flag would parse it.

    Raises:
      TypeError, ValueError: the value is invalid for the flag.
    """
    return self._parse(name, value) if self._parse else value


class Rule(NamedTuple):
  """The conditions under which flags have an effect.

  Conditions are names of settings, separated by spaces; "head=span" means that
  head has this value. Only `needs` may contain "do_eval|seeds" (either is on)
  and "!do_train" (do_train is off). A rule with only `why` always refuses.
  """

  names: str  # The flags' names, separated by spaces.
  needs: str = ""  # Conditions, all of which must hold.
  not_with: str = ""  # Conditions, any of which makes the flags useless.
  why: str = ""  # The reason for not_with or, if that is empty, for needs.

  @property
  def help(self) -> str:
    """The sentences about the rule in the flag's help."""
    needed, refused = _listed(self.needs), _listed(self.not_with)
    return (f" Needs {needed}." if needed else "") + (
      f" Not with {refused.replace(' and ', ' or ')}." if refused else ""
    )

  def fault(self, settings: "Settings") -> str:
    """Returns why the flags have no effect, or "" if they have an effect."""
    for name in self.not_with.split():
      if _is_on(settings, name):
        return f"has no effect with --{name}{self.why}; leave one of them out"
    missing = " ".join(
      names
      for names in self.needs.split()
      if not any(_is_on(settings, name) for name in names.split("|"))
    )
    if self.why and not (self.needs or self.not_with):
      return f"has no effect{self.why}; leave it out"
    why = "" if self.not_with else self.why
    advice = "add it"
    for sign, text in (
      ("|", "add one of them"),
      (" ", "add what is missing"),
      ("!", "do one of these"),
    ):
      advice = text if sign in missing else advice
    needed = f"needs {_listed(missing)}{why}; {advice}, or remove this flag"
    return needed if missing else ""


def _is_on(settings: Settings, condition: str) -> bool:
  name, _, value = condition.removeprefix("!").partition("=")
  setting = settings.get(name)
  is_on = bool(setting)
  if value:
    # A flag with several values is on for each of them.
    listed = setting if isinstance(setting, (list, tuple)) else [setting]
    is_on = value in map(str, listed)
  return is_on != condition.startswith("!")


def _listed(condition: str) -> str:
  """Returns "--a and --b=c" for "a b=c", and "--a or no --b" for "a|!b"."""
  return (", and " if "|" in condition else " and ").join(
    names.replace("|", " or --").replace("--!", "no --")
    for names in (f"--{each}" for each in condition.split())
  )


def refuse_ignored(
  settings: Settings, rules: Iterable[Rule] | None = None
) -> None:
  """Refuses flags that the user gave and that would have no effect.

  A flag set to false, empty or None requests nothing, and passes.
  Raises InputError: such flags exist; all are named.
  """
  faults = {
    f"--{name} {fault}"
    for rule in (settings.rules if rules is None else rules)
    for name in settings.given.intersection(rule.names.split())
    # `is`, because 0 == False, but 0 is a real value of a numeric flag.
    if settings.get(name) is not False
    and settings.get(name) not in (None, "", ())
    and (fault := rule.fault(settings))
  }
  if faults:
    raise errors.InputError(". ".join(sorted(faults)))
