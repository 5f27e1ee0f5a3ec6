"""Defines the flags of text and masks that several scripts have."""

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


def define_text_flag() -> None:
  """Defines --input_file of the scripts that read plain text."""
  flags.DEFINE_string(
    "input_file",
    None,
    "Text files to read: names or glob patterns, separated by commas.",
    required=True,
  )


def define_masking_flags(note: str = "") -> None:
  """Defines the flags of masking; `note` names the records they affect."""
  flags.DEFINE_integer(
    # As in the original: 0 and numbers above the sequence length are valid.
    "max_predictions_per_seq",
    20,
    "Maximum number of masked tokens in a record; must be equal in "
    "create_pretraining_data.py and run_pretraining.py. 0: train only "
    "next-sentence prediction.",
    lower_bound=0,
    upper_bound=1 << 16,
  )
  flags.DEFINE_float(
    "masked_lm_prob",
    0.15,
    f"Fraction of the tokens to mask{note}.",
    lower_bound=0.0,
    upper_bound=1.0,
  )
  flags.DEFINE_bool(
    "do_whole_word_mask",
    False,
    f"Mask all pieces of a word together instead of single pieces{note}.",
  )
  flags.DEFINE_list(
    "mask_shares",
    ["80", "10", "10"],
    "Percentages of the masked tokens that become [MASK], that stay unchanged, "
    "and that become random tokens.",
  )
