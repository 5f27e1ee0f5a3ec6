r"""Exports a model for other programs, as a SavedModel or for ONNX or LiteRT.

  python export_saved_model.py --head=classification \
      --model_dir=sst2_output/final_model --export_dir=models/sentiment

The model folder sets the sequence length, the windows for long texts and the
labels; flags override them.

A SavedModel takes raw text, because the tokenizer becomes part of the graph.
Before writing the model, the script compares this tokenizer with
tokenization.py, in less than a minute on 2 CPU cores. serve.py and TensorFlow
Serving serve the result, and users of TensorFlow Hub can fine-tune it.

--format=onnx writes the network for ONNX Runtime, OpenVINO and programs built
on them, with Hugging Face's tokenizer and configuration files. --format=litert
does the same for LiteRT, for the sequence lengths in --lengths.
"""

from answering import export_options
from checkpoints import model_flags
from common import command, flag_values, flags

model_flags.define()
flags.define_options(export_options.EXPORT)
flags.mark_flag_as_required("head")
flags.DEFINE_string(
  "export_dir",
  None,
  "Folder for the export; a SavedModel goes to its subfolder --version.",
  required=True,
)
flags.DEFINE_enum(
  "format",
  "saved_model",
  ["saved_model", *flag_values.ENGINES[1:]],
  "SavedModel, or ONNX or LiteRT with Hugging Face's tensor and file names.",
)
flags.DEFINE_list(
  "lengths",
  [],
  "Sequence lengths, ascending: a text is padded to the first length that it "
  "fits in, or cut to the last. By default the powers of 2 from 16 to "
  "--max_seq_length, and this length itself.",
  needs="format=litert",
)
flags.define_options(
  export_options.for_script("quantize", needs="format=onnx|format=litert")
)
flags.DEFINE_string(
  "calibration_file",
  None,
  "File of texts for which the quantized and the unquantized model's outputs "
  "are compared. A line has one text, or two separated by a tab. By default "
  "four built-in sentences.",
  needs="quantize=int8",
)
flags.DEFINE_float(
  "max_quantization_difference",
  export_options.MOST_DIFFERENCE,
  "Refuse to write a model if an output differs by more than this share of the "
  "outputs' typical norm.",
  lower_bound=0.0,
  needs="quantize=int8",
)
flags.DEFINE_integer(
  "version",
  1,
  "Version number; TensorFlow Serving loads the highest.",
  lower_bound=0,
  needs="format=saved_model",
)
flags.rule(
  "dtype",
  needs="format=saved_model",
  why=" (other formats are float32 or int8)",
)
flags.rule(
  "max_seq_length", not_with="lengths", why=", whose last value replaces it"
)

# --help and flag errors need no TensorFlow, which takes seconds to import.
command.parse_flags(__name__)

import os

from answering import export_settings, models
from common import errors, file_io, program, run_settings
from engines import networks
from exports import graph_tokenizer, network_export, raw_text, saved_model

# TensorFlow Serving's warm-up request; the masked-LM head needs a [MASK].
WARMUP_TEXT = "The keeper lit the [MASK]."


def read_texts(path: str, names: tuple[str, ...]) -> list[tuple[str, ...]]:
  """Returns the texts of a file, or built-in texts, as tuples of strings."""
  if not path:
    return [(text,) * len(names) for text in network_export.COMPARED_TEXTS]
  texts = []
  for number, line in file_io.read_lines(path):
    texts.append(tuple(line.split("\t")))
    if len(texts[-1]) != len(names):
      raise errors.InputError(
        f"{path}:{number}: the number of tab-separated texts is "
        f"{len(texts[-1])}; this model takes {len(names)} ({', '.join(names)})"
      )
  return texts


def main(_: list[str]) -> None:
  """Exports a model for other programs."""
  settings = flags.read_settings(check=False)
  settings, files = export_settings.find_model(settings)
  settings = export_settings.resolve(settings, files)
  run_settings.refuse_ignored(settings)
  settings = network_export.with_lengths(settings, files.config)
  tokenizer = files.make_tokenizer(settings)
  model = models.make(settings, files, tokenizer)
  if settings.format != "saved_model":
    texts = read_texts(settings.calibration_file, model.text_inputs)
    model.load()
    network_export.write(model, texts)
    print(f"The model is in {settings.export_dir}.")
    return
  if engine := networks.engine_of(settings.export_dir):
    raise errors.InputError(
      f"{settings.export_dir} has an export for {engine}, which serve.py would "
      "load instead of the new one; pass another --export_dir"
    )
  raw = raw_text.RawText(model)
  model.load()
  # This check comes last, because it is slow: it tries every character.
  graph_tokenizer.check_same(raw.tokenizer, tokenizer)
  # TensorFlow Serving looks for folders whose names are numbers.
  folder = os.path.join(settings.export_dir, str(settings.version))
  saved_model.write(
    folder,
    raw,
    warmup_texts=[(WARMUP_TEXT,) * len(model.text_inputs)],
    name=os.path.basename(os.path.abspath(settings.export_dir)),
  )
  print(f"The model is in {folder}.")
  line = f"Serve it: python serve.py --saved_model_dir={settings.export_dir}"
  print(program.hint(line))


if __name__ == "__main__":
  command.run(main)
