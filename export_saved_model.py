r"""Writes a SavedModel that takes raw text, for TensorFlow Serving and TF Hub.

  python export_saved_model.py --head=classification \
      --model_dir=sst2_output/final_model --export_dir=models/sentiment

The model folder says how long its texts are, how long ones are cut into
windows, and what its labels are: the export does the same, unless a flag says
otherwise. The tokenizer becomes part of the graph, and is compared with
tokenization.py before anything is written. Takes less than a minute on 2 CPU
cores. serve.py serves the result; so does TensorFlow Serving.
"""

from common import command, flags
from serving import export_options
from training import common_flags

common_flags.define_model_flags()
common_flags.define_tokenizer_flags()
flags.define_options(export_options.EXPORT)
flags.mark_flag_as_required("head")
flags.DEFINE_string(
  "export_dir", None,
  "Folder of the model; the export becomes its subfolder --version.",
  required=True,
)
flags.DEFINE_integer(
  "version", 1, "Number of the export: TensorFlow Serving takes the highest.",
  lower_bound=0,
)
flags.DEFINE_string(
  "warmup_file", None,
  "Texts that TensorFlow Serving runs at its start, one a line, two texts "
  "with a tab between; a sentence of our own if not given.",
)
flags.DEFINE_bool(
  "allow_tokenizer_differences", False,
  "Export although some text gives other ids than with tokenization.py.",
)

# --help and mistakes are answered before TensorFlow is loaded.
command.parse_flags(__name__)

import os

from checkpoints import model_settings
from common import errors, file_io, program
from serving import (
  export_settings,
  graph_tokenizer,
  models,
  raw_text,
  saved_model,
)


def read_warmup_texts(path, names):
  """Returns the requests of --warmup_file, a list of tuples of strings."""
  if not path:
    # With a mask, so that it suits every head.
    return [(f"The keeper lit the {raw_text.MASK}.",) * len(names)]
  texts = []
  for number, line in file_io.read_lines(path):
    texts.append(tuple(line.split("\t")))
    if len(texts[-1]) != len(names):
      raise errors.InputError(
        f"{path}:{number}: {len(texts[-1])} texts with tabs between them; this "
        f"model takes {len(names)} ({', '.join(names)})"
      )
  return texts


def main(_):
  settings = flags.read_settings(check=False)
  settings, config = export_settings.find_model(settings)
  settings = export_settings.resolve(settings, config)
  tokenizer = model_settings.make_tokenizer(settings, config)
  model = models.KINDS[settings.head](config, settings, tokenizer)
  raw = raw_text.RawText(model)
  warmup_texts = read_warmup_texts(settings.warmup_file, model.text_inputs)
  model.load()
  # Last before the folder is written: it tries every character there is.
  graph_tokenizer.check_same(
    raw.tokenizer, tokenizer, may_differ=settings.allow_tokenizer_differences
  )
  # TensorFlow Serving looks for folders with numbers.
  folder = os.path.join(settings.export_dir, str(settings.version))
  saved_model.write(
    folder, raw, warmup_texts=warmup_texts,
    name=os.path.basename(os.path.abspath(settings.export_dir)),
  )
  print(f"The model is in {folder}.")
  line = f"Serve it: python serve.py --saved_model_dir={settings.export_dir}"
  print(program.hint(line))


if __name__ == "__main__":
  command.run(main)
