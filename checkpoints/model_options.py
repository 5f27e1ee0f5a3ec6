"""The options for a model's files and its input, for flags and for Python.

For their precedence see model_files.ModelFiles. No TensorFlow, so --help is
fast.
"""

from common import flag_values, options

_MODEL_DIR = options.Option(
  "model_dir",
  None,
  "Folder with a model: sets --bert_config_file, --vocab_file and "
  "--init_checkpoint, unless they are given. Or the name of a model in the "
  "hub's cache on this machine, such as bert-base-uncased; see --download.",
  names_model=True,
)
_LENGTH = options.Option(
  "max_seq_length",
  flag_values.default_length(),
  "Maximum sequence length in word pieces, including [CLS] and [SEP]. The "
  "default is capped at the model's number of positions; a model that is not "
  "trained has the length in its folder. TFRecords must be read with the "
  "length that they were written with.",
  lower_bound=1,
)
DOWNLOAD = options.Option(
  "download",
  False,
  "Download the model with this name from the Hub if it is not in the Hub's "
  "cache on this machine.",
)
TOKENIZER = (
  options.Option(
    "vocab_file", None, "Vocabulary: one token per line, or a tokenizer.json."
  ),
  options.Option(
    "do_lower_case",
    True,
    "Whether to lower-case the text and strip accents: true for uncased "
    "models, false for cased models. A tokenizer_config.json (or else a "
    "tokenizer.json) next to --vocab_file sets the default.",
  ),
  options.Option(
    "never_split",
    [],
    "Tokens of the vocabulary, such as c++, that stay whole where white space "
    "surrounds them. With lower-casing, c++ also matches C++ in the text. A "
    "tokenizer_config.json next to --vocab_file sets the default.",
  ),
)


def of_model(head: str = "") -> tuple[options.Option, ...]:
  """Returns the options for a model and its initial weights.

  `head` is one of flag_values.SERVING_HEADS, if the script has one head.
  """
  return (
    options.Option(
      "bert_config_file",
      None,
      "Model configuration: bert_config.json, or Hugging Face's config.json.",
    ),
    _MODEL_DIR,
    options.Option(
      "init_checkpoint",
      None,
      "Initial weights: a checkpoint of TensorFlow 1 or this project (prefix, "
      ".index file or folder), a Hugging Face folder, .safetensors or .bin "
      "file, or a Model Garden checkpoint.",
      names_model=True,
    ),
    _LENGTH._replace(default=flag_values.default_length(head)),
  )


def of_folder(replaced: str) -> options.Option:
  """Returns --model_dir of a script in which it sets the flags `replaced`."""
  return _MODEL_DIR._replace(
    meaning=f"Folder with a model: sets {replaced}, unless they are given. "
    "Or the name of a model in the hub's cache on this machine, such as "
    "bert-base-uncased; see --download."
  )
