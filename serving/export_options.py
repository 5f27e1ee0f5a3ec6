"""The options of a served model: one table for flags and for Python.

export_saved_model.py makes flags from it, `text_models` keyword arguments, and
`export_settings` reads these options from a trained model. No TensorFlow:
--help answers immediately.
"""

from typing import Any, NamedTuple

from common import choices, run_settings


class Option(NamedTuple):
  """One flag, or keyword argument.

  Attributes:
    heads: heads that it is for, separated by spaces; "" means all.
    choices: its possible values; () means any.
    lower_bound: the smallest value; only integers have it.
    needs, not_with: see run_settings.Rule.
    is_fraction: whether it may be a fraction, not only a whole number.
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

  @property
  def rule(self) -> run_settings.Rule:
    """The rule for when the option has an effect."""
    of_heads = "|".join(f"head={head}" for head in self.heads.split())
    needs = " ".join(filter(None, [of_heads, self.needs]))
    return run_settings.Rule(self.name, needs, self.not_with)


# common_flags defines these flags, which other scripts have, too.
_MODEL = (
  Option("model_dir"), Option("bert_config_file"), Option("vocab_file"),
  Option("init_checkpoint"), Option("max_seq_length", 128, lower_bound=1),
  Option("do_lower_case", True), Option("never_split", []),
  Option("never_split_file"),
)
_NAMELESS = "output_activation=linear output_activation=relevance"
EXPORT = (
  Option("head", None, "What the model does.", choices=choices.SERVING_HEADS),
  Option(
    "labels", [],
    "Names of the labels, in order; by default those in --bert_config_file, "
    "where our scripts and Hugging Face write them.",
    "classification tagging", not_with=_NAMELESS,
  ),
  Option(
    "output_activation", None,
    "One label, several labels, one number (regression), or a reranker's "
    "sigmoid of it; by default what --bert_config_file says that the model was "
    "trained for, or softmax.",
    "classification", choices=("softmax", "sigmoid", "linear", "relevance"),
  ),
  Option(
    "text_pairs", False,
    "Two texts, not one; by default what the model was trained for, where it "
    "says so.", "classification embedding",
  ),
  Option(
    "pooling", "pooled",
    "The pooler's output, or the mean or maximum of all tokens' states, or the "
    "state of [CLS]; last_four_concat: means of four layers side by side.",
    "embedding", choices=choices.SENTENCE_POOLINGS,
  ),
  Option(
    "pooling_layer", ["-1"],
    "Layers whose states --pooling reads: 0 is the lowest, -1 the last. "
    "Several lie side by side, those with + between them are added (-1+-2).",
    "embedding", not_with="pooling=pooled pooling=last_four_concat",
  ),
  Option(
    "normalize", False, "Whether to scale vectors to length 1.", "embedding"
  ),
  Option(
    "sparse_pooling", "max",
    "The weight of a word in a text: the largest of all tokens', or the sum.",
    "sparse", choices=("max", "sum"),
  ),
  Option(
    "sparse_activation", "relu",
    "A token's weight of a word: log(1 + relu(logit)), or the logarithm of 1 + "
    "that.", "sparse", choices=("relu", "log1p_relu"),
  ),
  Option(
    "top_k", 5, "How many fillings of each [MASK].", "masked_lm", lower_bound=1
  ),
  Option(
    "doc_stride", None,
    "From one window of a long text to the next, in word pieces; by default as "
    "in training, or 128 (span) and 0: texts are cut off.",
    "classification span", lower_bound=0,
  ),
  Option(
    "max_windows", 0, "At most this many windows of a text; 0: all.",
    "classification", lower_bound=0, needs="doc_stride",
  ),
  Option(
    "max_query_length", 64, "Longer questions are cut to N word pieces.",
    "span", lower_bound=1,
  ),
  Option(
    "max_answer_length", 30, "Longest answer, in word pieces.", "span",
    lower_bound=1,
  ),
  Option(
    "n_best_size", 20, "How many starts and ends of a window are tried.",
    "span", lower_bound=1,
  ),
  Option(
    "version_2_with_negative", False,
    "Whether a question may have no answer, as in SQuAD 2.0.", "span",
  ),
  Option(
    "null_score_diff_threshold", None,
    "There is no answer if its score is more than this above the best "
    "answer's. Not given: what run_squad.py stored with the model, or 0.0.",
    "span", needs="version_2_with_negative", is_fraction=True,
  ),
  Option(
    "tag_words", "punctuation",
    "Where words end. punctuation is a word of its own, or part of what white "
    "space separates.", "tagging", choices=("punctuation", "white_space"),
  ),
  Option(
    "dtype", "float32",
    "Type in which the encoder's matrices are stored and multiplied.",
    choices=("float32", "bfloat16"),
  ),
)
# Python and the scripts that predict have these options.
ENGINE = (
  Option(
    "engine", "tensorflow",
    "What computes predictions: TensorFlow, or on the CPU ONNX Runtime "
    '(pip install "bert-tf2[onnx]") or LiteRT ("bert-tf2[litert]").',
    choices=choices.ENGINES,
  ),
  Option(
    "quantize", "none",
    "int8: matrices of 8 bits, a quarter of the size and faster; the log says "
    "how far the outputs are from those of float32.", choices=("none", "int8"),
    needs="engine=onnx|engine=litert",
  ),
)
BY_NAME = {option.name: option for option in (*_MODEL, *EXPORT, *ENGINE)}
DEFAULTS = {name: option.default for name, option in BY_NAME.items()}
# These rules check settings that include the model's training settings.
RULES = [option.rule for option in EXPORT]
ENGINE_RULES = [
  *(option.rule for option in ENGINE),
  run_settings.Rule("dtype", not_with="engine=onnx engine=litert"),
]
# Default of --max_quantization_difference.
MOST_DIFFERENCE = 0.4


def for_script(names: str, **changes) -> list[Option]:
  """Returns options, with changes, for the flags of a script with one head."""
  return [BY_NAME[n]._replace(heads="", **changes) for n in names.split()]


def checked(name: str, value: Any) -> Any:
  """Returns a value; raises ValueError if no option can have it."""
  option = BY_NAME.get(name)
  if option is None:
    raise ValueError(f"no such option; there are {', '.join(sorted(BY_NAME))}")
  if option.choices and value not in option.choices:
    raise ValueError(f"expected one of {', '.join(option.choices)}")
  # True is an int in Python, but here it is not a number.
  is_whole = isinstance(value, int) and not isinstance(value, bool)
  least = option.lower_bound
  if least is not None and not (is_whole and value >= least):
    raise ValueError(f"expected an integer of at least {least}")
  if isinstance(option.default, bool) and not isinstance(value, bool):
    raise ValueError("expected True or False")
  return value
