r"""Converts a checkpoint between TF1, Hugging Face and Model Garden.

  python convert_checkpoint.py --input=uncased_L-12_H-768_A-12 \
      --output=bert-base-uncased --to=huggingface --verify

The script detects the input's format from its files. It prints which weights it
leaves out and why; --verbose lists all weights under both names. --verify
checks that both checkpoints compute the same outputs. Converting BERT-base
takes seconds. --add_tokens and --max_position_embeddings enlarge the model.
"""

from checkpoints import model_flags
from common import command, flag_values, flags, run_settings

flags.DEFINE_string(
  "input",
  None,
  "Checkpoint in the format of google-research/bert, this project or Model "
  "Garden (folder, prefix or one of its files), or of Hugging Face (folder or "
  ".safetensors file); by default the one in --model_dir.",
  names_model=True,
)
model_flags.define_model_dir_flag(
  "--input, --bert_config_file and --vocab_file", has_model=True
)
model_flags.require_or_model_dir("input")
flags.DEFINE_string("output", None, "New folder.", required=True)
flags.DEFINE_enum(
  "to",
  None,
  flag_values.CHECKPOINT_KINDS,
  "Format of the output. tf1 and tf2 both mean this project's format, which is "
  "google-research/bert's.",
  required=True,
)
flags.DEFINE_string(
  "bert_config_file",
  None,
  "Model configuration (bert_config.json, or Hugging Face's config.json), if "
  "the file is not next to the input.",
)
flags.DEFINE_string(
  "vocab_file", None, "Vocabulary, if it is not vocab.txt next to the input."
)
flags.DEFINE_bool(
  "do_lower_case",
  None,
  "Whether the tokenizer of a Hugging Face output lower-cases text, and "
  "whether new words are lower-cased; by default detected from the vocabulary.",
  needs="to=huggingface|add_tokens",
)
flags.DEFINE_enum(
  "architecture",
  None,
  flag_values.HUGGINGFACE_ARCHITECTURES,
  "transformers class of a Hugging Face output; by default inferred from the "
  "names of the weights. These are the same for token and sequence "
  "classifiers: pass the class for another program's token classifier.",
  needs="to=huggingface",
)
flags.DEFINE_string(
  "add_tokens",
  None,
  "File of words to add to the model, one per line. A new word's embedding is "
  "the mean of the embeddings of the word pieces that it replaces.",
)
flags.DEFINE_bool(
  "use_unused_tokens",
  False,
  "Whether new words first replace the vocabulary's [unused...] tokens.",
  needs="add_tokens",
)
flags.DEFINE_integer(
  "max_position_embeddings",
  None,
  "Number of positions of the output, more than the input's. New positions "
  "repeat the learned embeddings of positions 1 and later.",
  lower_bound=1,
)
flags.DEFINE_list(
  "keep_layers",
  None,
  "Numbers of the layers to keep, from 0: 0,2,4,6,8,10 is the start of a "
  "student of half the depth.",
)
flags.DEFINE_bool(
  "verify",
  False,
  "Whether to run the network with the weights of both checkpoints on the same "
  "random input, and compare all outputs.",
)

# --help and flag errors need no TensorFlow, which takes seconds to import.
command.parse_flags(__name__)

import tempfile

import numpy as np

from checkpoints import comparison, converter, growth, layer_choice, model_files
from common import console, errors, file_io
from variants import vocabulary_files

# Differences up to this value come from float32 rounding.
TOLERANCE = 1e-3


def print_conversion(
  settings: run_settings.Settings, source: converter.Source, conversion
) -> None:
  """Prints the weights left out, notes and a summary; --verbose: all names."""
  reasons: dict[str, list[str]] = {}
  for name, reason in sorted(conversion.left_out.items()):
    reasons.setdefault(reason, []).append(name)
  if settings.verbose:
    for name, new_name in sorted(conversion.names.items()):
      print(f"{name} {list(source.reader.shapes[name])} -> {new_name}")
  for reason, names in reasons.items():
    shown = ", ".join(names) if settings.verbose else file_io.listed(names)
    print(f"left out: {shown} ({reason})")
  for note in conversion.notes:
    print(f"note: {note}")
  print(
    f"wrote {len(conversion.names)} tensors of {source.reader.path} "
    f"({source.reader.file_format}) to {settings.output} ({settings.to}); "
    f"left out {len(conversion.left_out)}"
  )


def print_new_words(
  settings: run_settings.Settings, source: converter.Source, words: list
) -> None:
  """Prints how many words --add_tokens added; with --verbose, each word."""
  if not words:
    return
  for word in words if settings.verbose else ():
    print(f"{word.word} is token {word.token_id}, the mean of {word.pieces}")
  files = vocabulary_files.VocabularyFiles(source.vocab_file or "")
  never_split = files.never_split
  unsplit = [word.word for word in words if word.word in never_split]
  print(
    f"new words: {len(words)}; the word embedding table has "
    f"{source.config.vocab_size} rows"
  )
  if unsplit:
    print(f"added to never_split due to punctuation: {file_io.listed(unsplit)}")


def verify(settings: run_settings.Settings, source: converter.Source) -> None:
  """Prints the largest output difference. InputError: it exceeds TOLERANCE."""
  differences = comparison.compare(source, settings.output)
  largest = np.max(list(differences.values()))
  summary = f"largest difference {largest:.2g} of {', '.join(differences)}"
  # `not <=` also refuses NaN.
  if not largest <= TOLERANCE:
    raise errors.InputError(
      f"{settings.input} and {settings.output} compute different outputs "
      f"({summary}); check the model configuration"
    )
  print(f"outputs: the same ({summary}; up to {TOLERANCE:g} is rounding)")


def main(_: list[str]) -> None:
  """Converts a checkpoint and, with --verify, compares the outputs of both."""
  settings = flags.read_settings()
  if not settings.verbose:
    # The printed summary repeats the log.
    console.show_warnings_alone()
  if settings.model_dir:
    paths = {**model_files.ModelFiles(settings.model_dir).paths}
    paths["input"] = paths.pop("init_checkpoint")
    settings = settings.replace(
      **{name: settings.get(name) or path for name, path in paths.items()}
    )
  source = converter.open_source(
    settings.input, **settings.pick("bert_config_file vocab_file")
  )
  if settings.keep_layers:
    source = layer_choice.keep(source, settings.keep_layers)
  # The folder holds the vocabulary with the new words until convert copies it.
  with tempfile.TemporaryDirectory() as folder:
    source, words = growth.grow(
      source,
      folder,
      **settings.pick(
        "add_tokens use_unused_tokens max_position_embeddings do_lower_case"
      ),
    )
    conversion = converter.convert(
      source,
      settings.output,
      settings.to,
      **settings.pick("architecture do_lower_case"),
    )
    print_conversion(settings, source, conversion)
    print_new_words(settings, source, words)
    if settings.verify:
      verify(settings, source)


if __name__ == "__main__":
  command.run(main)
