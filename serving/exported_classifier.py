"""Runs run_classifier.py --do_predict with an export. No TensorFlow."""

from answering import answers as answering_answers
from checkpoints import model_files
from classification import answers, data
from common import console, errors, run_settings
from exports import exported_network
from text import cut_texts

# Only these flags have an effect, because an export fixes all input settings.
_FLAGS = frozenset(
  "model_dir output_dir do_predict predict_file engine verbose "
  "predict_batch_size text_column text_b_column id_column file_format "
  "separator encoding on_bad_row".split()
)


def run(settings: run_settings.Settings) -> None:
  """Writes predictions for the examples of --predict_file.

  Args:
    settings: settings of run_classifier.py whose --model_dir is an export.

  Raises:
    InputError: the export is not a classifier, a flag would have no effect or
      is missing, or the file cannot be read.
  """
  export = exported_network.ExportedNetwork(settings.model_dir)
  _check(settings, export)
  files = model_files.ModelFiles.of(settings)
  settings = files.complete(settings, ["text_column", "text_b_column"])
  network = export.network(export.settings)
  logits, options = answering_answers.classifier(export.settings, network)
  if len(export.texts) == 2 and not settings.text_b_column:
    raise errors.InputError(
      "the model takes two texts per example: pass --text_b_column"
    )
  examples = data.ExampleStream(
    settings.predict_file,
    settings,
    options.task_kind,
    labels=options.labels,
    split="predict",
    has_labels=False,
  )
  cut = cut_texts.CutTexts(options.max_seq_length)
  parts = answers.score_blocks(
    logits, options, examples, settings.predict_batch_size, cut=cut
  )
  answers.write_predictions(settings.output_dir, "", options, examples, parts)
  console.keep_in(settings.output_dir)
  cut.log(settings.predict_file)


def _check(
  settings: run_settings.Settings, export: exported_network.ExportedNetwork
) -> None:
  folder, engine = settings.model_dir, export.settings.engine
  if export.settings.head != "classification":
    raise errors.InputError(
      f"{folder} is an export of --head={export.settings.head}; export the "
      "classifier with --head=classification"
    )
  ignored = sorted(settings.given - _FLAGS)
  if "engine" in settings.given and settings.engine != engine:
    ignored.append("engine")
  if ignored:
    names = ", ".join(f"--{name}" for name in ignored)
    raise errors.InputError(
      f"{folder} is an export for --engine={engine} with fixed settings: leave "
      f"out {names}, which would have no effect, or pass the folder of the "
      "model's weights"
    )
  if not settings.do_predict:
    raise errors.InputError("nothing to do: pass --do_predict")
