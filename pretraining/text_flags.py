"""Defines the flags of text that several scripts of pre-training have."""

from common import flags


def define_smoothing_flag() -> None:
  """Defines --language_smoothing."""
  flags.DEFINE_float(
    "language_smoothing",
    1.0,
    "Each file is a language, and its share P of the text becomes proportional "
    "to P to this power: 0.7 in google-research/bert's multilingual model; 1 "
    "changes nothing.",
    lower_bound=0.0,
    upper_bound=1.0,
  )
