"""What can be said of a served model: one table for flags and for Python.

export_saved_model.py makes flags of it, `text_models` keyword arguments. No
TensorFlow: --help answers at once.
"""

from typing import Any, NamedTuple

from common import choices, run_settings


class Option(NamedTuple):
  """One flag, or keyword argument.

  Attributes:
    choices: of which it is one, if there are any.
    lower_bound: of integers, and of nothing else.
    needs, not_with: see run_settings.Rule.
    is_fraction: whether it is a number, not only a whole one.
  """

  name: str
  default: Any = None
  meaning: str = ""
  choices: tuple[str, ...] = ()
  lower_bound: int | None = None
  needs: str = ""
  not_with: str = ""
  is_fraction: bool = False

  def check(self, value: Any) -> None:
    """Raises ValueError if the option cannot have this value."""
    if self.choices and value not in self.choices:
      raise ValueError(f"expected one of {', '.join(self.choices)}")
    # True is an int in Python, and 1 is no bool here.
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if self.lower_bound is not None and not (
      is_number and value >= self.lower_bound
    ):
      raise ValueError(f"expected an integer of at least {self.lower_bound}")
    if isinstance(self.default, bool) and not isinstance(value, bool):
      raise ValueError("expected True or False")


# Flags of other scripts, too: as common_flags defines them.
_MODEL = (
  Option("bert_config_file"), Option("vocab_file"), Option("init_checkpoint"),
  Option("max_seq_length", 128, lower_bound=1), Option("do_lower_case", True),
)
EXPORT = (
  Option(
    "head", None, "What the model does.", choices=choices.SERVING_HEADS
  ),
  Option(
    "labels", [],
    "Names of the labels, in order; by default those in --bert_config_file, "
    "where our scripts and Hugging Face write them.",
    needs="head=classification|head=tagging",
    not_with="output_activation=linear",
  ),
  Option(
    "label_file", None, "The same, in a file with one label a line.",
    needs="head=classification|head=tagging",
    not_with="output_activation=linear",
  ),
  Option(
    "output_activation", None,
    "One label, several labels, or one number (regression); by default what "
    "--bert_config_file says that the model was trained for, or softmax.",
    choices=("softmax", "sigmoid", "linear"), needs="head=classification",
  ),
  Option(
    "text_pairs", False,
    "Two texts, not one; by default what the model was trained for, where it "
    "says so.", needs="head=classification|head=embedding",
  ),
  Option(
    "pooling", "pooled",
    "The pooler's output, the mean over all tokens, or the last state of "
    "[CLS].", choices=("pooled", "mean", "cls"), needs="head=embedding",
  ),
  Option(
    "normalize", False, "Whether to scale vectors to length 1.",
    needs="head=embedding",
  ),
  Option(
    "top_k", 5, "How many fillings of each [MASK].", lower_bound=1,
    needs="head=masked_lm",
  ),
  Option(
    "doc_stride", None,
    "From one window of a long text to the next, in word pieces; by default as "
    "in training, or 128 (span) and 0: texts are cut off.", lower_bound=0,
    needs="head=classification|head=span",
  ),
  Option(
    "max_windows", 0, "At most this many windows of a text; 0: all.",
    lower_bound=0, needs="head=classification doc_stride",
  ),
  Option(
    "max_query_length", 64, "Longer questions are cut off.", lower_bound=1,
    needs="head=span",
  ),
  Option(
    "max_answer_length", 30, "Longest answer, in word pieces.", lower_bound=1,
    needs="head=span",
  ),
  Option(
    "n_best_size", 20, "How many starts and ends of a window are tried.",
    lower_bound=1, needs="head=span",
  ),
  Option(
    "version_2_with_negative", False, "Whether there may be no answer.",
    needs="head=span",
  ),
  Option(
    "null_score_diff_threshold", None,
    "There is no answer if its score is more than this above the best "
    "answer's. Not given: what run_squad.py stored with the model, or 0.0.",
    needs="head=span version_2_with_negative", is_fraction=True,
  ),
  Option(
    "tag_words", "punctuation",
    "Where words end. punctuation is a word of its own, or part of what white "
    "space separates.", choices=("punctuation", "white_space"),
    needs="head=tagging",
  ),
  Option(
    "dtype", "float32",
    "Type in which the encoder's matrices are stored and multiplied.",
    choices=("float32", "bfloat16"),
  ),
)
BY_NAME = {option.name: option for option in (*_MODEL, *EXPORT)}
DEFAULTS = {name: option.default for name, option in BY_NAME.items()}
# Looked for in settings that know what the model was trained with.
RULES = [
  run_settings.Rule(option.name, option.needs, option.not_with)
  for option in EXPORT
  if option.needs
]
