"""Settings are frozen, and flags that have no effect are refused."""

import copy

import pytest

from common import errors, run_settings
from message_facts import says

SETTINGS = run_settings.Settings({"seed": 1, "names": ["a"]}, given={"seed"})


def test_values_are_attributes_and_frozen():
  assert SETTINGS.seed == 1
  assert SETTINGS.names == ("a",)
  assert "seed" in SETTINGS and "speed" not in SETTINGS
  assert SETTINGS.get("speed", 3) == 3
  with pytest.raises(AttributeError, match="frozen: seed cannot become 2"):
    SETTINGS.seed = 2
  with pytest.raises(AttributeError, match="no setting is called speed"):
    _ = SETTINGS.speed
  assert repr(SETTINGS) == "Settings(seed=1, names=('a',))"
  assert copy.copy(SETTINGS).seed == 1
  assert SETTINGS.pick("seed names") == {"seed": 1, "names": ("a",)}
  with pytest.raises(AttributeError, match="no setting is called speed"):
    SETTINGS.pick("seed speed")


def test_replace_keeps_the_names_of_passed_flags():
  changed = SETTINGS.replace(seed=2)
  assert (SETTINGS.seed, changed.seed) == (1, 2)
  assert changed.given == {"seed"}
  with pytest.raises(AttributeError, match="no setting is called speed"):
    SETTINGS.replace(speed=1)


def test_rules_and_parsers_stay_with_changed_settings():
  settings = run_settings.Settings(
    {"seed": 1, "speed": None},
    given={"seed"},
    parse=lambda name, value: int(value),
    rules=[run_settings.Rule("seed", "speed")],
  )
  changed = settings.replace(seed=2).filled({"seed": 3, "speed": 0, "rate": 4})
  assert (changed.seed, changed.speed, "rate" in changed) == (2, 0, False)
  assert changed.parse("seed", "7") == 7
  with pytest.raises(errors.InputError, match="--seed needs --speed"):
    run_settings.refuse_ignored(changed)
  run_settings.refuse_ignored(settings.filled({"speed": 1}))


def test_values_of_other_sources_are_parsed_like_flags():
  assert SETTINGS.parse("seed", "x") == "x"
  settings = run_settings.Settings(
    {"seed": 1}, parse=lambda name, value: int(value)
  )
  assert settings.replace(seed=3).parse("seed", "7") == 7
  with pytest.raises(ValueError):
    settings.parse("seed", "x")


def test_a_flag_without_effect_is_refused_if_it_was_passed():
  rules = [run_settings.Rule("names seed", "", "names", ", as told")]
  with pytest.raises(
    errors.InputError, match=says("--seed", "--names", "has no effect", "leave")
  ):
    run_settings.refuse_ignored(SETTINGS, rules)
  run_settings.refuse_ignored(SETTINGS.replace(names=[]), rules)
  run_settings.refuse_ignored(SETTINGS.replace(seed=None), rules)


@pytest.mark.parametrize(
  "rule, message",
  [
    (
      run_settings.Rule("seed", "speed"),
      "--seed needs --speed; add it, or remove this flag",
    ),
    (
      run_settings.Rule("seed", "speed rate"),
      "--seed needs --speed and --rate; add what is missing, or remove this "
      "flag",
    ),
    (
      run_settings.Rule("seed", "speed|rate"),
      "--seed needs --speed or --rate; add one of them, or remove this flag",
    ),
    (
      run_settings.Rule("seed", "speed|!names"),
      "--seed needs --speed or no --names; do one of these, or remove this "
      "flag",
    ),
    (
      run_settings.Rule("seed", why=": as told"),
      "--seed has no effect: as told; leave it out",
    ),
  ],
)
def test_the_advice_fits_the_condition(rule, message):
  with pytest.raises(errors.InputError) as refused:
    run_settings.refuse_ignored(SETTINGS, [rule])
  assert str(refused.value) == message


def test_a_flag_with_several_values_is_on_for_each_of_them():
  settings = run_settings.Settings(
    {"losses": ["cosent", "matryoshka"], "dims": 1}, given={"dims"}
  )
  rule = run_settings.Rule("dims", "losses=matryoshka")
  run_settings.refuse_ignored(settings, [rule])
  with pytest.raises(errors.InputError, match="--losses=other"):
    run_settings.refuse_ignored(
      settings, [run_settings.Rule("dims", "losses=other")]
    )
