r"""Pre-trains BERT on masked tokens and next sentences, and evaluates it.

  python run_pretraining.py --do_train --do_eval \
      --input_file=pretraining.tfrecord --bert_config_file=bert_config.json \
      --output_dir=pretraining_output

create_pretraining_data.py writes the records. `make quickstart` runs both
scripts on a sample, in two minutes on 2 CPU cores, and reaches a masked-LM
accuracy above 0.9.
"""

from checkpoints import model_flags
from common import command, extension_flags, flags
from pretraining import points, text_flags
from running import repetitions
from training import common_flags

model_flags.define_model_flags()
common_flags.define_output_flags()
common_flags.define_training_flags()
common_flags.define_evaluation_flags()
common_flags.define_device_flags()
repetitions.define(repetitions.Script("pretraining"))
flags.DEFINE_string(
  "input_file",
  None,
  "TFRecord files or glob patterns, separated by commas. Shards may also be "
  "named by their manifest or by the --output_file that wrote them.",
  required=True,
)
flags.DEFINE_string(
  "eval_input_file",
  None,
  "TFRecord files to evaluate on; by default --input_file.",
  needs="do_eval|eval_steps",
)
flags.DEFINE_string(
  "vocab_file",
  None,
  "Vocabulary of the records, copied next to the final weights. Required for "
  "masking records of --dynamic_masking while they are read.",
)
flags.DEFINE_bool(
  "use_next_sentence_loss",
  True,
  "Whether to predict the next sentence, which needs records of sentence "
  "pairs. false is short for --objectives=masked_lm.",
)
extension_flags.define(
  points.OBJECTIVES,
  "What the heads predict; several names are separated by commas. Default: "
  "masked_lm,next_sentence.",
  several=True,
)
flags.rule("use_next_sentence_loss", not_with="objectives")
extension_flags.define(
  points.NETWORKS,
  "What is trained. Default: encoder, unless the model's variant has its own.",
)
text_flags.define_masking_flags(", in records of --dynamic_masking")
extension_flags.define(
  points.MASKINGS,
  "What is masked together, in records of --dynamic_masking. Default: pieces.",
)
flags.rule("do_whole_word_mask", not_with="masking")
flags.DEFINE_integer(
  "num_train_steps", 100000, "Optimizer steps of the whole run.", lower_bound=1
)
flags.DEFINE_integer(
  "num_warmup_steps",
  10000,
  "Steps in which the learning rate rises from 0 to its peak.",
  lower_bound=0,
)
flags.DEFINE_integer(
  "max_eval_steps",
  100,
  "Number of evaluation batches; if the data have fewer, they are repeated.",
  lower_bound=1,
)
# As in the original: the other training flags are accepted without --do_train,
# so training and evaluation can use the same command.
flags.rule("freeze_encoder", needs="do_train")

# --help and flag errors need no TensorFlow, which takes seconds to import.
command.parse_flags(__name__)

import functools
import os
from typing import Any

import numpy as np

import configuration
from checkpoints import model_files, model_folder, model_writer, weight_files
from common import result_lines, run_settings
from pretraining import inputs, masks, vocabulary_notes
from records import tfrecord
from training import distribution, evaluation_loop, harness, run_setup
from variants import registry, vocabularies, vocabulary_files

# For records with masks, which were written without --dynamic_masking.
_ARE_MASKED = run_settings.Rule(
  "masked_lm_prob masking do_whole_word_mask mask_shares",
  why=": the records are masked already",
)


def find_network(
  settings: run_settings.Settings, config: configuration.BertConfig
):
  """Returns the file of pretraining/networks that the flags select.

  Raises InputError: a given flag has no effect on it, or it cannot be made.
  """
  name = settings.network or registry.pretraining_network(config)
  network: Any = points.NETWORKS.load(name)
  ignored, why = network.IGNORED
  if ignored:
    rule = run_settings.Rule(ignored, why=f": {why}")
    run_settings.refuse_ignored(settings, [rule])
  network.check(config, settings)
  return network


def masking_of(settings: run_settings.Settings):
  """Returns the name of the masking that the flags select."""
  default = "whole_words" if settings.do_whole_word_mask else "pieces"
  return settings.masking or default


def make_input(
  settings: run_settings.Settings,
  names: str,
  config: configuration.BertConfig,
  network,
):
  """Returns the inputs.PretrainingInput for the files that a flag names."""
  data = inputs.PretrainingInput(
    tfrecord.find_files(names),
    config,
    max_predictions=settings.max_predictions_per_seq,
    labels=network.labels(settings),
    masking=masking_of(settings),
    **settings.pick("max_seq_length vocab_file masked_lm_prob seed"),
    shares=masks.parse_shares(settings.mask_shares),
    masks=network.MASKS,
  )
  if data.is_masked:
    run_settings.refuse_ignored(settings, [_ARE_MASKED])
  return data


def make_evaluation(
  settings: run_settings.Settings, strategy, model, data, trim
):
  """Returns a function that evaluates the current weights."""
  evaluator = evaluation_loop.make_evaluator(strategy, model.objective())

  def evaluate() -> dict[str, float]:
    batches = data.repeated_batches(
      strategy, batch_size=settings.eval_batch_size, trim=trim
    )
    with data.faults_named():
      return evaluator(batches, settings.max_eval_steps)

  return evaluate


def write_model(
  settings: run_settings.Settings, model, folder: str, step
) -> None:
  """Writes the current weights to a folder, and further models below it."""
  vocab_file = settings.vocab_file
  input_settings = {"max_seq_length": settings.max_seq_length}
  for part in model.parts():
    model_writer.write(
      os.path.join(folder, part.folder) if part.folder else folder,
      part.variables,
      model_folder.with_input_settings(part.config, input_settings),
      vocab_file,
      # Records do not store do_lower_case; the vocabulary's folder may.
      vocab_file and vocabulary_files.VocabularyFiles(vocab_file).do_lower_case,
      step=step,
    )


def train(
  settings: run_settings.Settings,
  strategy,
  model,
  data,
  evaluate,
  *,
  start,
  trim,
):
  """Trains from `start`; returns the last step."""
  spec = harness.TrainingSpec(
    model,
    model.config,
    strategy,
    model.objective(),
    settings.output_dir,
    length=(settings.num_train_steps, settings.num_warmup_steps),
    new_variables=model.new_variables(),
    data=lambda: data.training_data(trim),
    evaluate=evaluate,
    result_names=model.result_names(),
    write=functools.partial(write_model, settings, model),
  )
  with data.faults_named():
    return harness.train(settings, spec, start)


def check_vocabulary(
  settings: run_settings.Settings, config: configuration.BertConfig
) -> None:
  """Refuses a vocabulary that does not fit the model or the records."""
  vocab = vocabularies.load_vocab(settings.vocab_file)
  config.check_vocabulary(len(vocab), settings.vocab_file)
  for names in filter(None, (settings.input_file, settings.eval_input_file)):
    vocabulary_notes.check(tfrecord.find_files(names), settings.vocab_file)


def main(_: list[str]) -> None:
  """Trains and evaluates."""
  settings = flags.read_settings()
  files = model_files.ModelFiles.of(settings)
  run_setup.require_one_of(settings, "do_train", "do_eval")
  stored = () if settings.do_train else ["max_seq_length"]
  settings = files.complete(settings, stored)
  config = run_setup.model_config(settings, files)
  network = find_network(settings, config)
  if settings.vocab_file:
    check_vocabulary(settings, config)

  # TensorFlow cannot rearrange its devices after the first computation.
  strategy = run_setup.make_strategy(settings)
  trim = run_setup.shapes_may_vary(settings, strategy)
  # As in the original: evaluation reads the training files by default.
  data = eval_data = make_input(settings, settings.input_file, config, network)
  if settings.eval_input_file:
    eval_data = make_input(settings, settings.eval_input_file, config, network)

  start = run_setup.open_run(
    settings, "pretraining", config, strategy, **network.fixed(settings)
  )
  with strategy.scope(), weight_files.without_random_init(start.path):
    model = network.make(
      config, settings, **run_setup.model_options(settings, strategy)
    )
  evaluate = make_evaluation(settings, strategy, model, eval_data, trim)

  step = start.step
  if settings.do_train:
    step = train(
      settings, strategy, model, data, evaluate, start=start, trim=trim
    )
  else:
    assert start.path  # Without training, a random start is refused.
    weight_files.load(
      model.variables, start.path, allowed_missing=model.unused_variables()
    )

  if settings.do_eval:
    # As in the original: metrics are printed as float32.
    results = {name: np.float32(value) for name, value in evaluate().items()}
    if distribution.is_chief(strategy):
      path = os.path.join(settings.output_dir, "eval_results.txt")
      result_lines.write(path, {"global_step": step, **results})
      tokens = model.token_labels()
      if tokens and settings.do_train and settings.max_predictions_per_seq:
        name, labels = tokens
        data.warn_of_plateau(name, results[f"{name}_loss"], labels)


if __name__ == "__main__":
  command.run(main)
