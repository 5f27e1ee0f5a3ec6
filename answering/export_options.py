"""The options of a served model, in one table for flags and for Python.

Scripts define them as flags, `text_models` takes them as keyword arguments, and
`export_settings` reads their values from a trained model. No TensorFlow, so
--help is fast.
"""

from typing import Any

from checkpoints import model_options
from common import flag_values, options, run_settings

Option = options.Option

_MODEL = (*model_options.of_model(), *model_options.TOKENIZER)
_WITHOUT_LABELS = "output_activation=linear output_activation=relevance"
EXPORT = (
  Option("head", None, "Task of the model.", choices=flag_values.SERVING_HEADS),
  Option(
    "labels",
    [],
    "Names of the labels, in the order of the logits. By default the names in "
    "--bert_config_file, which training or Hugging Face stored there.",
    "classification tagging",
    not_with=_WITHOUT_LABELS,
  ),
  Option(
    "output_activation",
    None,
    "softmax: one label per text; sigmoid: any number of labels; linear: a "
    "number (regression); relevance: the sigmoid of a number (reranker). By "
    "default the one for the task in --bert_config_file, else softmax.",
    "classification",
    choices=("softmax", "sigmoid", "linear", "relevance"),
  ),
  Option(
    "text_pairs",
    False,
    "Whether an example has two texts. By default as in training, if the "
    "model's folder stores that.",
    "classification embedding",
  ),
  Option(
    "pooling",
    "pooled",
    "pooled: the pooler's output; mean, max: the mean or maximum of the hidden "
    "states of all tokens; cls: the hidden state of [CLS]; last_four_concat: "
    "the means of the last 4 layers, concatenated.",
    "embedding",
    choices=flag_values.SENTENCE_POOLINGS,
  ),
  Option(
    "pooling_layer",
    ["-1"],
    "Layers whose hidden states --pooling uses: 0 is the lowest, -1 the last. "
    "Several layers are concatenated; -1+-2 is the sum of two layers.",
    "embedding",
    not_with="pooling=pooled pooling=last_four_concat",
  ),
  Option(
    "normalize", False, "Whether to scale vectors to norm 1.", "embedding"
  ),
  Option(
    "prompt",
    None,
    "Text to put before each text, or before the first of a pair; by default "
    "what the folder's config_sentence_transformers.json says. Empty: none.",
    "embedding sparse",
  ),
  Option(
    "prompt_name",
    None,
    "Name of a prompt in config_sentence_transformers.json, instead of "
    "--prompt.",
    "embedding sparse",
  ),
  Option(
    "sparse_pooling",
    "max",
    "How to pool the weights of a vocabulary token over a text's positions.",
    "sparse",
    choices=flag_values.SPARSE_RULES[0],
  ),
  Option(
    "sparse_activation",
    "relu",
    "Function from a logit to a weight. relu: log(1 + relu(logit)); "
    "log1p_relu: log(1 + log(1 + relu(logit))).",
    "sparse",
    choices=flag_values.SPARSE_RULES[1],
  ),
  Option(
    "top_k", 5, "Number of fillings per [MASK].", "masked_lm", lower_bound=1
  ),
  Option(
    "doc_stride",
    None,
    "Stride between windows of a long text, in word pieces; 0 truncates the "
    "text. By default as in training, else 128 (span) or 0 (classification).",
    "classification span",
    lower_bound=0,
  ),
  Option(
    "max_windows",
    0,
    "Maximum number of windows per text; 0: no limit.",
    "classification",
    lower_bound=0,
    needs="doc_stride",
  ),
  Option(
    "max_query_length",
    64,
    "Maximum length of a question in word pieces; the rest is truncated.",
    "span",
    lower_bound=1,
  ),
  Option(
    "max_answer_length",
    30,
    "Maximum length of an answer in word pieces.",
    "span",
    lower_bound=1,
  ),
  Option(
    "n_best_size",
    20,
    "Number of starts and ends to try in each window, and of answers per "
    "question that run_squad.py writes to nbest_predictions.json.",
    "span",
    lower_bound=1,
  ),
  Option(
    "version_2_with_negative",
    False,
    "Whether a question may have no answer, as in SQuAD 2.0.",
    "span",
  ),
  Option(
    "null_score_diff_threshold",
    None,
    "The answer is empty if the empty answer's score exceeds the best answer's "
    "by more than this. By default the value stored by run_squad.py, else 0.0.",
    "span",
    needs="version_2_with_negative",
    is_fraction=True,
  ),
  Option(
    "tag_words",
    "punctuation",
    "Where words end: at white space and punctuation, or at white space only.",
    "tagging",
    choices=("punctuation", "white_space"),
  ),
  Option(
    "dtype",
    "float32",
    "Type in which to store and multiply the encoder's matrices.",
    choices=("float32", "bfloat16"),
  ),
)
# run_classifier.py, extract_features.py and Python have these options.
ENGINE = (
  Option(
    "engine",
    "tensorflow",
    "Library that computes predictions: TensorFlow, or (only on the CPU) ONNX "
    'Runtime (pip install "bert-tf2[onnx]") or LiteRT ("bert-tf2[litert]").',
    choices=flag_values.ENGINES,
  ),
  Option(
    "quantize",
    "none",
    "int8 stores matrices in 8 bits: the model is faster and a quarter of the "
    "size. The log shows how much its outputs differ from float32.",
    choices=("none", "int8"),
    needs="engine=onnx|engine=litert",
  ),
)
BY_NAME = {option.name: option for option in (*_MODEL, *EXPORT, *ENGINE)}
# Arguments of text_models.load that are not settings of the model.
LOADING = {
  "batch_size": Option("batch_size", lower_bound=1),
  "num_threads": Option("num_threads", lower_bound=0),
}
DEFAULTS = {name: option.default for name, option in BY_NAME.items()}
# These rules also check settings that come from the model's training.
RULES = [option.rule for option in EXPORT]
ENGINE_RULES = [
  *(option.rule for option in ENGINE),
  run_settings.Rule("dtype", not_with="engine=onnx engine=litert"),
]
# The default of --max_quantization_difference, and the limit in scripts that
# lack this flag.
MOST_DIFFERENCE = 0.4


def names_of(head: str) -> list[str]:
  """Returns the names of the options that a head has."""
  return [
    name
    for name, option in BY_NAME.items()
    if not option.heads or head in option.heads.split()
  ]


def for_script(names: str, **changes: Any) -> list[Option]:
  """Returns copies of options, with changes, for a script with one head."""
  return [BY_NAME[n]._replace(heads="", **changes) for n in names.split()]


def checked(name: str, value: Any, table: dict[str, Option] = BY_NAME) -> Any:
  """Returns the value; raises ValueError if it is invalid for the option."""
  option = table.get(name)
  if option is None:
    raise ValueError(f"unknown option; known: {', '.join(sorted(table))}")
  if option.choices and value not in option.choices:
    raise ValueError(f"expected one of {', '.join(option.choices)}")
  # In Python, True is an int, but it is not valid for a numeric option.
  is_whole = isinstance(value, int) and not isinstance(value, bool)
  least = option.lower_bound
  if least is not None and not (is_whole and value >= least):
    raise ValueError(f"expected an integer of at least {least}")
  # A single pooling_layer may be a string.
  if option.default == [] and isinstance(value, str):
    raise ValueError("expected a list of strings")
  if isinstance(option.default, bool) and not isinstance(value, bool):
    raise ValueError("expected True or False")
  is_number = least is not None or option.is_fraction
  if option.default is None and not is_number and not isinstance(value, str):
    raise ValueError("expected a string")
  return value
