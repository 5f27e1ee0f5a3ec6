r"""Answers questions with spans of a text: SQuAD 1.1 and 2.0.

  python run_squad.py --do_train --do_predict --train_file=train-v1.1.json \
      --predict_file=dev-v1.1.json --vocab_file=vocab.txt \
      --bert_config_file=bert_config.json --init_checkpoint=bert_model.ckpt \
      --output_dir=squad_output

The script fine-tunes as the paper does (arXiv 1810.04805, sections 4.2 and
4.3). It writes predictions.json, nbest_predictions.json and, for SQuAD 2.0
(--version_2_with_negative), null_odds.json. If --predict_file has answers, the
script scores the predictions. A trained model's folder sets --max_seq_length
and the other flags that it stores:

  python run_squad.py --do_predict --predict_file=new.json \
      --model_dir=squad_output/final_model --output_dir=new_output
  python run_squad.py --question="Who lit it?" --context="Anna lit the lamp." \
      --model_dir=squad_output/final_model
  python run_squad.py --evaluate_only --predict_file=dev-v1.1.json \
      --predictions_file=predictions.json           the official scores
"""

from answering import export_options
from common import command, flag_values, flags
from running import repetitions
from serving import text_flags
from training import common_flags

# No flag is required, because --evaluate_only needs no model; see the rules.
common_flags.define_fine_tuning_flags(head="span", required=False)
flags.DEFINE_string("train_file", None, "SQuAD JSON to train on.")
flags.DEFINE_string(
  "eval_file",
  None,
  "SQuAD JSON with answers for --do_eval, --eval_steps and "
  "--null_score_diff_threshold=auto; --predict_file if not given.",
  needs="do_eval|eval_steps|null_score_diff_threshold=auto",
)
flags.DEFINE_string(
  "predict_file", None, "SQuAD JSON to answer; scored if it has answers."
)
flags.DEFINE_integer(
  "doc_stride",
  128,
  "Stride of the windows over a long passage, in word pieces.",
  lower_bound=1,
)
flags.define_options(
  export_options.for_script(
    "max_query_length max_answer_length n_best_size version_2_with_negative"
  )
)
flags.DEFINE_bool(
  "pad_to_max_length",
  False,
  "Like google-research/bert, pad every window to --max_seq_length, and "
  "include padding in the training softmax and among the n best positions.",
)
flags.DEFINE_string(
  "null_score_diff_threshold",
  None,
  "A question gets no answer if the no-answer score exceeds the best answer's "
  "score by more than this. auto: finds the value with the best F1 on "
  "--eval_file and stores it with the model. By default the value stored with "
  "the weights, or 0.0.",
  needs="version_2_with_negative",
)
flags.DEFINE_bool(
  "verbose_logging",
  False,
  "Whether to log each answer that cannot be found in the text, and the reason "
  "for each skipped question.",
)
flags.DEFINE_bool(
  "evaluate_only",
  False,
  "Score --predictions_file against --predict_file; needs no model.",
)
flags.DEFINE_string(
  "predictions_file",
  None,
  "A predictions.json, for --evaluate_only. For SQuAD 2.0, the best thresholds "
  "are computed from null_odds.json in the same folder, if it exists.",
  needs="evaluate_only",
)
flags.DEFINE_enum(
  "f1_units",
  "auto",
  flag_values.ANSWER_UNITS,
  "What F1 counts: words, as in SQuAD; characters, as in KorQuAD; mixed, each "
  "Han character and the words of other scripts, as in MLQA. auto: words, "
  "unless most letters of the correct answers are of a script without spaces, "
  "or Korean.",
)
repetitions.define(repetitions.Script("squad", "f1"))
# As in the original: the other training flags are accepted without --do_train,
# because its documented commands pass --do_train=False --train_file=....
flags.rule("freeze_encoder jit_compile seed", needs="do_train")
flags.rule(
  "do_train do_eval do_predict",
  needs="bert_config_file|model_dir vocab_file|model_dir",
)
flags.rule("do_train", needs="train_file")
flags.rule("do_predict", needs="predict_file")
flags.rule("do_eval eval_steps", needs="eval_file|predict_file")
flags.rule("evaluate_only", needs="predict_file predictions_file")
flags.rule(
  "eval_batch_size", needs="do_eval|eval_steps|null_score_diff_threshold=auto"
)
flags.rule(
  "bucket_by_length",
  not_with="pad_to_max_length",
  why=", which pads all windows",
)
flags.rule_for_others(
  "evaluate_only",
  but="version_2_with_negative verbose_logging output_dir "
  "predict_file predictions_file f1_units",
  why=", which scores a file of predictions without a model",
)

text_flags.define("question", "context")
# --help and flag errors need no TensorFlow, which takes seconds to import.
command.parse_flags(__name__, imports_tensorflow=text_flags.need_tensorflow)
if __name__ == "__main__" and text_flags.are_given():
  text_flags.run("span")

import functools
import os

from absl import logging

from checkpoints import model_files, model_folder
from common import console, errors, file_io, run_settings
from squad import answers, data, inputs, job, scores, windowing
from training import distribution, run_setup


def score_predictions(settings: run_settings.Settings) -> None:
  """Scores a file of predictions without a model."""
  version_2, odds = settings.version_2_with_negative, None
  units = settings.f1_units
  file = data.read(settings.predict_file, version_2=version_2)
  data.require_answers(file)
  predictions = scores.read_by_id(settings.predictions_file, str)
  if version_2:
    folder = os.path.dirname(settings.predictions_file)
    path = os.path.join(folder, answers.NULL_ODDS_FILE)
    if file_io.exists(path):
      odds = scores.read_by_id(path, float)
      logging.info("the best thresholds come from the odds in %s", path)
    results = scores.score_v2(file.questions, predictions, odds, units=units)
  else:
    results = scores.score_v1(file.questions, predictions, units=units)
  job.write_results(results, settings.output_dir)


def complete_settings(
  settings: run_settings.Settings, files: model_files.ModelFiles
) -> run_settings.Settings:
  """Returns the settings from the flags and a trained model's folder."""
  # Unlike the original: a trained model's lengths replace the flags' defaults.
  is_answering = not (settings.do_train or settings.evaluate_only)
  stored = job.INPUT_FLAGS if is_answering else ()
  settings = files.complete(settings, stored, head="span")
  if settings.verbose_logging:
    console.show_details()
  run_setup.require_one_of(
    settings, "do_train", "do_eval", "do_predict", "evaluate_only"
  )
  run_settings.refuse_ignored(settings)
  return settings.replace(eval_file=settings.eval_file or settings.predict_file)


def files_to_read(settings: run_settings.Settings):
  """Returns {"train", "eval" or "predict": path} for the files to read."""
  paths = run_setup.files_to_read(settings)
  if settings.null_score_diff_threshold == "auto":
    if not settings.eval_file:
      raise errors.InputError(
        "--null_score_diff_threshold=auto needs --eval_file"
      )
    paths["eval"] = settings.eval_file
  return paths


def run_model(settings: run_settings.Settings, work):
  """Trains, evaluates and predicts with one model; returns its scores."""
  if settings.do_train:
    work.train()
  else:
    work.load()
  if settings.version_2_with_negative:
    work.look_up_threshold()
  eval_answers, results = None, {}
  if settings.do_eval or work.threshold.is_auto:
    eval_answers, results = work.evaluate()
  if settings.do_predict:
    work.predict(eval_answers)
  work.write_report()
  return results


def main(_: list[str]) -> None:
  """Prepares the data; trains, evaluates and predicts with each model."""
  settings = flags.read_settings(check=False)
  files = model_files.ModelFiles.of(settings)
  settings = complete_settings(settings, files)
  if settings.evaluate_only:
    score_predictions(settings)
    return
  paths = files_to_read(settings)
  config = model_folder.without_input_settings(
    run_setup.model_config(settings, files, "span")
  )
  tokenizer = files.make_tokenizer(settings)
  config.check_pairs(tokenizer.specials.segment_b)
  lengths = windowing.lengths_of(settings, tokenizer.specials)

  # TensorFlow cannot rearrange its devices after the first computation.
  strategy = run_setup.make_strategy(settings)
  questions = data.read_all(paths, version_2=settings.version_2_with_negative)
  version = "2.0" if settings.version_2_with_negative else "1.1"
  task = f"question answering, SQuAD {version}"
  # All runs share these inputs. The first run prepares them after it has found
  # its weights.
  make_inputs = functools.cache(
    lambda: inputs.prepare_all(
      questions, tokenizer, lengths, folder=settings.output_dir
    )
  )

  def run(new_settings: run_settings.Settings) -> dict | None:
    start = run_setup.open_run(new_settings, task, config, strategy)
    return run_model(
      new_settings,
      job.SquadRun(
        new_settings, config, strategy, tokenizer, make_inputs, start=start
      ),
    )

  if repetitions.are_several(settings):
    run_setup.claim_folder(settings, task, config, strategy)
  repetitions.run(settings, run, "f1", is_chief=distribution.is_chief(strategy))


if __name__ == "__main__":
  command.run(main)
