r"""Classifies texts and pairs: GLUE, XNLI, PAWS-X, IMDB, SWAG or your own data.

  python run_classifier.py --task_name=MRPC --data_dir=glue/MRPC \
      --do_train --do_eval --do_predict --max_seq_length=128 \
      --train_batch_size=32 --learning_rate=2e-5 --num_train_epochs=3 \
      --vocab_file=vocab.txt --bert_config_file=bert_config.json \
      --init_checkpoint=bert_model.ckpt --output_dir=mrpc_output

Flags, defaults and files match google-research/bert. For your own data:

  python run_classifier.py --do_train --do_eval --do_predict \
      --train_file=train.csv --eval_file=dev.csv --predict_file=new.csv \
      --text_column=review --label_column=stars ...

A trained model classifies texts at once; --text=- reads standard input:

  python run_classifier.py --text="A fine film." --model_dir=final_model
"""

from answering import export_options
from classification import classifier_flags
from common import command, flags
from running import repetitions
from serving import text_flags
from training import common_flags

common_flags.define_fine_tuning_flags()
classifier_flags.define_task_flags()
classifier_flags.define_own_data_flags()
classifier_flags.define_run_flags()
classifier_flags.define_pair_flags()
flags.define_options(export_options.for_script("max_windows"))
flags.define_options(
  export_options.for_script(
    "pooling_layer", needs="task_kind=similarity|task_kind=retrieval"
  )
)
flags.define_options(export_options.ENGINE)
flags.rule("engine", needs="do_predict")
flags.rule("seed", needs="do_train|eval_fraction")
repetitions.define(
  repetitions.Script(
    "classification", "the first of --metrics", "glue_submission_dir"
  )
)
flags.rule("freeze_encoder", needs="do_train")
flags.rule(
  "bucket_by_length",
  not_with="freeze_encoder",
  why=", which reads cached features, not sequences",
)
text_flags.define("text", "text_b")
# --help and flag errors need no TensorFlow, which takes seconds to import.
command.parse_flags(
  __name__, imports_tensorflow=lambda: not text_flags.is_export()
)

if __name__ == "__main__" and text_flags.are_given():
  text_flags.run("classification")
if __name__ == "__main__" and text_flags.is_export():
  from serving import exported_classifier

  command.run(lambda _: exported_classifier.run(flags.read_settings()))

from absl import logging

from checkpoints import model_files
from classification import data, job, sequences, task
from common import run_settings
from training import distribution, run_setup


def main(_: list[str]) -> None:
  """Prepares the data; trains, evaluates and predicts with each model."""
  settings = flags.read_settings(check=False)
  files = model_files.ModelFiles.of(settings)
  settings = task.complete_settings(settings, files)
  run_setup.require_one_of(settings, "do_train", "do_eval", "do_predict")
  run_settings.refuse_ignored(settings)
  # Several models start with new heads; OF_VECTORS tasks have no head.
  is_new = (
    repetitions.are_several(settings) or settings.task_kind in data.OF_VECTORS
  )
  config = run_setup.model_config(
    settings, files, None if is_new else "classification"
  )
  files.make_tokenizer(settings)
  # TensorFlow cannot rearrange its devices after the first computation.
  strategy, settings = arrange_devices(settings)
  run = job.prepare(settings, config, strategy)
  repetitions.run(
    settings,
    lambda new_settings: run_model(new_settings, run),
    f"eval_{run.task.metrics[0]}",
    is_chief=distribution.is_chief(strategy),
  )


def arrange_devices(settings: run_settings.Settings) -> tuple:
  """Returns the tf.distribute.Strategy and settings; windows turn XLA off."""
  strategy = run_setup.make_strategy(settings)
  # Texts have different numbers of windows; XLA would compile each shape.
  if settings.doc_stride and settings.jit_compile == "auto":
    if distribution.default_jit_compile(strategy):
      logging.info(
        "--doc_stride: the step runs without XLA, so batches need no padding "
        "to a fixed number of windows; --jit_compile=true uses XLA"
      )
    settings = settings.replace(jit_compile="false")
  return strategy, settings


def run_model(settings: run_settings.Settings, run):
  """Trains, evaluates and predicts with one model; returns the scores."""
  model = job.ModelRun(settings, run)
  results = {}
  if settings.do_train:
    model.train()
  else:
    model.load_weights()
  if settings.do_eval:
    results = model.evaluate()
  if settings.do_train or settings.do_eval:
    model.write_report(results)
  network = None
  if settings.engine != "tensorflow":
    # Most runs need no engine, and the module takes time to import.
    from serving import engine_choice

    network = engine_choice.network_on_engine(
      model.variables,
      settings,
      run.config,
      sequences.tokenizer_of(run.options),
      **model.export_head,
    )
  for name in run.records:
    if name.startswith("predict"):
      model.write_predictions(name, network)
  return results


if __name__ == "__main__":
  command.run(main)
