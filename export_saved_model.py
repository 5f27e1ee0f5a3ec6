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

import modeling
from checkpoints import model_settings, weight_files
from common import errors, file_io, program
from serving import export_settings, graph_tokenizer, raw_text, saved_model


def read_warmup_texts(settings, model):
  """Returns the requests of --warmup_file, a list of tuples of strings."""
  count = len(model.text_inputs)
  if not settings.warmup_file:
    # With a mask, so that it suits every head.
    return [(f"The keeper lit the {raw_text.MASK}.",) * count]
  texts = []
  for number, line in file_io.read_lines(settings.warmup_file):
    fields = tuple(line.split("\t"))
    if len(fields) != count:
      raise errors.InputError(
        f"{settings.warmup_file}:{number}: {len(fields)} texts with tabs "
        f"between them; this model takes {count} "
        f"({', '.join(model.text_inputs)})"
      )
    texts.append(fields)
  return texts


def main(_):
  settings = model_settings.resolve(flags.read_settings(check=False))
  if not settings.init_checkpoint:
    raise errors.InputError(
      "pass --init_checkpoint or --model_dir: the weights to export"
    )
  config = modeling.BertConfig.from_json_file(settings.bert_config_file)
  settings = export_settings.resolve(settings, config)
  tokenizer = model_settings.make_tokenizer(settings, config)
  model = export_settings.make_model(settings, config, tokenizer)
  raw = raw_text.RawText(model, tokenizer)
  warmup_texts = read_warmup_texts(settings, model)
  weight_files.load(
    model.variables,
    settings.init_checkpoint,
    allowed_missing=model.variables_may_be_missing,
  )
  # Last before the folder is written: it tries every character there is.
  graph_tokenizer.check_same(
    raw.tokenizer, tokenizer, may_differ=settings.allow_tokenizer_differences
  )
  # TensorFlow Serving looks for folders with numbers.
  folder = os.path.join(settings.export_dir, str(settings.version))
  saved_model.write(
    folder,
    raw,
    warmup_texts=warmup_texts,
    name=os.path.basename(os.path.abspath(settings.export_dir)),
  )
  print(f"The model is in {folder}.")
  line = f"Serve it: python serve.py --saved_model_dir={settings.export_dir}"
  print(program.hint(line))


if __name__ == "__main__":
  command.run(main)
