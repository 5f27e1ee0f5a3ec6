r"""Pre-trains BERT on masked tokens and next sentences, and evaluates it.

  python run_pretraining.py --do_train --do_eval \
      --input_file=pretraining.tfrecord --bert_config_file=bert_config.json \
      --output_dir=pretraining_output

create_pretraining_data.py writes the records. `make quickstart` runs both
scripts on a sample, in two minutes on 2 CPU cores, and reaches a masked-LM
accuracy above 0.9.
"""

from common import command, flags
from training import common_flags

common_flags.define_model_flags()
common_flags.define_output_flags()
common_flags.define_training_flags()
common_flags.define_evaluation_flags()
common_flags.define_device_flags()
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
  "pairs.",
)
common_flags.define_masking_flags(", in records of --dynamic_masking")
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

import numpy as np

from checkpoints import model_folder, model_settings, model_writer, weight_files
from common import result_lines, run_settings
from pretraining import inputs, masks, next_word
from pretraining import model as pretraining_model
from records import tfrecord
from training import distribution, evaluation_loop, harness, run_setup
from variants import registry, vocabularies, vocabulary_files

# For records with masks, which were written without --dynamic_masking.
_ARE_MASKED = run_settings.Rule(
  "masked_lm_prob do_whole_word_mask mask_shares",
  why=": the records are masked already",
)
# For models that are trained to predict the next word.
_NO_MASKS = _ARE_MASKED._replace(why=": this model predicts the next word")


def make_input(settings, names, config):
  """Returns the inputs.PretrainingInput for the files that a flag names."""
  data = inputs.PretrainingInput(
    tfrecord.find_files(names),
    config,
    max_predictions=settings.max_predictions_per_seq,
    whole_words=settings.do_whole_word_mask,
    **settings.pick(
      "max_seq_length use_next_sentence_loss vocab_file masked_lm_prob seed"
    ),
    shares=masks.parse_shares(settings.mask_shares),
    masks=not registry.predicts_next_word(config),
  )
  if data.is_masked:
    run_settings.refuse_ignored(settings, [_ARE_MASKED])
  return data


def make_model(settings, config, **model_options):
  """Returns the model for a configuration."""
  if registry.predicts_next_word(config):
    return next_word.NextWordModel(config, **model_options)
  return pretraining_model.PretrainingModel(
    config, with_next_sentence=settings.use_next_sentence_loss, **model_options
  )


def make_evaluation(settings, strategy, model, data, trim):
  """Returns a function that evaluates the current weights."""
  objective = pretraining_model.objective(model)
  evaluator = evaluation_loop.make_evaluator(strategy, objective)

  def evaluate():
    batches = data.repeated_batches(
      strategy, batch_size=settings.eval_batch_size, trim=trim
    )
    with data.faults_named():
      return evaluator(batches, settings.max_eval_steps)

  return evaluate


def write_model(settings, model, folder, step):
  """Writes the current weights to a folder."""
  vocab_file = settings.vocab_file
  input_settings = {"max_seq_length": settings.max_seq_length}
  model_writer.write(
    folder,
    weight_files.by_name(model.variables),
    model_folder.with_input_settings(model.config, input_settings),
    vocab_file,
    # Records do not store do_lower_case; the vocabulary's folder may.
    vocab_file and vocabulary_files.VocabularyFiles(vocab_file).do_lower_case,
    step=step,
  )


def train(settings, strategy, model, data, evaluate, *, start, trim):
  """Trains from `start`; returns the last step."""
  spec = harness.TrainingSpec(
    model,
    model.config,
    strategy,
    pretraining_model.objective(model),
    settings.output_dir,
    length=(settings.num_train_steps, settings.num_warmup_steps),
    # The start weights may be an encoder without pre-training heads.
    new_variables=["^cls/", *model.unused_variables()],
    data=lambda: data.training_data(trim),
    evaluate=evaluate,
    result_names=pretraining_model.result_names(model),
    write=functools.partial(write_model, settings, model),
  )
  with data.faults_named():
    return harness.train(settings, spec, start)


def check_vocabulary(settings, config):
  """Refuses a vocabulary that does not fit the model or the records."""
  vocab = vocabularies.load_vocab(settings.vocab_file)
  config.check_vocabulary(len(vocab), settings.vocab_file)
  for names in filter(None, (settings.input_file, settings.eval_input_file)):
    tfrecord.check_vocabulary(tfrecord.find_files(names), settings.vocab_file)


def main(_):
  """Trains and evaluates."""
  settings = model_settings.resolve(flags.read_settings())
  run_setup.require_one_of(settings, "do_train", "do_eval")
  if not settings.do_train:
    settings = model_settings.restore_trained(settings, ["max_seq_length"])
  config = run_setup.model_config(settings)
  registry.check_next_sentence(config, settings.use_next_sentence_loss)
  if registry.predicts_next_word(config):
    run_settings.refuse_ignored(settings, [_NO_MASKS])
  if settings.vocab_file:
    check_vocabulary(settings, config)

  # TensorFlow cannot rearrange its devices after the first computation.
  strategy = run_setup.make_strategy(settings)
  trim = run_setup.shapes_may_vary(settings, strategy)
  # As in the original: evaluation reads the training files by default.
  data = eval_data = make_input(settings, settings.input_file, config)
  if settings.eval_input_file:
    eval_data = make_input(settings, settings.eval_input_file, config)

  start = run_setup.open_run(settings, "pretraining", config, strategy)
  with strategy.scope(), weight_files.without_random_init(start.path):
    model = make_model(
      settings, config, **run_setup.model_options(settings, strategy)
    )
  evaluate = make_evaluation(settings, strategy, model, eval_data, trim)

  step = start.step
  if settings.do_train:
    step = train(
      settings, strategy, model, data, evaluate, start=start, trim=trim
    )
  else:
    weight_files.load(
      model.variables, start.path, allowed_missing=model.unused_variables()
    )

  if settings.do_eval:
    # As in the original: metrics are printed as float32.
    results = {name: np.float32(value) for name, value in evaluate().items()}
    if distribution.is_chief(strategy):
      path = os.path.join(settings.output_dir, "eval_results.txt")
      result_lines.write(path, {"global_step": step, **results})
      if settings.do_train and settings.max_predictions_per_seq:
        head = model.head_names[0]
        labels = functools.partial(model.labels, head)
        data.warn_of_plateau(head, results[f"{head}_loss"], labels)


if __name__ == "__main__":
  command.run(main)
