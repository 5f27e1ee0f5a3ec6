"""An option that is a flag of scripts and a keyword argument in Python."""

from typing import Any, NamedTuple

from common import run_settings


class Option(NamedTuple):
  """A flag of a script, or a keyword argument in Python.

  Attributes:
    heads: heads that the option applies to, separated by spaces; "" means all.
    choices: the possible values; () means any.
    lower_bound: the smallest valid value of an integer option.
    needs, not_with: see run_settings.Rule.
    is_fraction: whether the value is a float.
    names_model: whether the value may be the name of a model of the Hub.
  """

  name: str
  default: Any = None
  meaning: str = ""
  heads: str = ""
  choices: tuple[str, ...] = ()
  lower_bound: int | None = None
  needs: str = ""
  not_with: str = ""
  is_fraction: bool = False
  names_model: bool = False

  @property
  def rule(self) -> run_settings.Rule:
    """The rule that says when the option has an effect."""
    head_condition = "|".join(f"head={head}" for head in self.heads.split())
    needs = " ".join(filter(None, [head_condition, self.needs]))
    return run_settings.Rule(self.name, needs, self.not_with)
