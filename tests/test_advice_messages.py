"""Lists the messages that advise another flag, and what tries each advice.

A message of the product that advises a flag other than the one at fault needs
an entry, so a new message without one fails: test_advice.py tries the advice,
or another module of tests passes the flag to a command, or the entry says why
none does. Advice about the flag at fault (leave it out, another value) can only
bring back a command without the mistake.
"""

import ast
import collections
import re

import pytest

import test_advice
import test_layout
from script_runner import ROOT

FLAG = re.compile(r"(?<![\w-])--(\w[\w*]*|\{\})")
VERB = re.compile(
  r"\b(add|change|check|choose|download|drop|export|give|keep|leave|lift|lower|"
  r"name|needs?|pass|put|raise|run|set|split|train|try|use)\b"
)
# Calls whose texts are the helps of flags.
HELPS = re.compile(r"DEFINE|define|Option$|Rule$|rule$|_file$|_folder$|_flag$")

# tests/test_advice.py
TRIED = "test_advice"
# It names another program to run, or a flag of another program.
OTHER_PROGRAM = "another program's command"
# It needs TPUs, several processes, a network, or full memory.
MACHINES = "cannot run here"
# The user has to choose a value, which only training tells to be good.
TO_CHOOSE = "a value to choose"
# It needs other files of the model.
OTHER_FILES = "files of the user's own"
# A folder to choose, whose flag the command has: the error is about its value.
OWN_FOLDER = "another folder"

# {file: {words of the message: what tries the advice, or why nothing does}}
ENTRIES = {
  "answering/export_settings.py": {
    "which name the model's": "test_export_saved_model",
    "names of the labels": "test_export_saved_model",
  },
  "checkpoints/converter.py": {
    "has no configuration": TRIED,
    "no vocabulary is written": TRIED,
  },
  "checkpoints/growth.py": {"pass --vocab_file": "test_checkpoints_growth"},
  "checkpoints/hub_folder.py": {"none of the": OTHER_FILES},
  "checkpoints/model_files.py": {
    "was trained to": OTHER_PROGRAM,
    "no such folder": "test_checkpoints_hub_cache",
    "leave out --do_lower_case": "test_checkpoints_model_files",
    "capital letters": "test_run_ner",
    "to train without it": "test_checkpoints_sentence_prompts",
  },
  "checkpoints/model_folder.py": {"torch 2.6": OTHER_FILES},
  "checkpoints/model_options.py": {
    "see --download": "test_checkpoints_hub_cache"
  },
  "checkpoints/sentence_folder.py": {
    "pass --pooling": "test_checkpoints_sentence_folder",
    "use its sparse vectors": "test_classification_losses",
  },
  "checkpoints/sentence_prompts.py": {
    "include_prompt is false": "test_checkpoints_sentence_prompts"
  },
  "checkpoints/weight_files.py": {"outputs, and this task": OWN_FOLDER},
  "classification/bi_encoder.py": {"leaves no negatives": TRIED},
  "classification/data.py": {
    "fix them": TRIED,
    "ranking, pass": TRIED,
    "to predict numbers": TRIED,
    "fix the header": TRIED,
    "; or pass --on_bad_row": TRIED,
    "pass --file_format": TRIED,
    "too few classes": TRIED,
    "leaves too few": TRIED,
    "separator of its classes": TRIED,
  },
  "classification/glue.py": {"no such task": "test_run_classifier"},
  "classification/job.py": {"to export it": OTHER_PROGRAM},
  "classification/ranking.py": {"different relevance": TRIED},
  "classification/soft_labels.py": {
    "needs the classes": TRIED,
    "for logits": TRIED,
  },
  "classification/tables.py": {
    "pass another --encoding": TRIED,
    "columns may be separated": TRIED,
    "one object per line": "test_classification_tables",
  },
  "classification/task.py": {
    "supports only": "test_run_classifier",
    "has no id2label": "test_run_classifier",
    "needs --data_dir": "test_run_classifier",
    "was trained to classify": OTHER_PROGRAM,
    "needs pairs of texts": TRIED,
    "SWAG's format": "test_classification_task",
    "leave --labels out": "test_classification_task",
    "leave --task_kind out": "test_classification_task",
    "classes are numbers": TRIED,
    "also training examples": TRIED,
    "has no classes": "test_classification_task",
  },
  "common/errors.py": {
    "not enough memory": MACHINES,
    "model of this format": OTHER_PROGRAM,
  },
  "common/flags.py": {"Repeats the run": "test_default_folder"},
  "common/folder_lock.py": {"is in use": OWN_FOLDER},
  "common/lean_tensorflow.py": {"another package": OTHER_PROGRAM},
  "common/unknown_tokens.py": {"are [UNK]": TO_CHOOSE},
  "create_vocabulary.py": {"smaller --min_frequency": TRIED},
  "download.py": {"nothing to do": TRIED},
  "engines/litert_engine.py": {"LiteRT model takes": OTHER_PROGRAM},
  "export_saved_model.py": {"would load instead": OWN_FOLDER},
  "exports/graph_tokenizer.py": {
    "gives different ids": "test_exports_graph_tokenizer",
    "not a list of BERT's": "test_variants_tokenizer_file_scripts",
    "cannot keep words": "test_exports_graph_tokenizer",
  },
  "exports/network_export.py": {
    "pass --quantize=none": "test_exports_network_export",
    "built-in sentences": "test_export_saved_model",
  },
  "exports/onnx_graph.py": {
    "the weights have no": OTHER_PROGRAM,
    "cannot be written as ONNX": "test_serving_text_models",
  },
  "exports/saved_model.py": {
    "another --version": "test_export_saved_model",
    "no SavedModel in": OTHER_PROGRAM,
    "cannot write": OWN_FOLDER,
  },
  "extract_features.py": {
    "nothing to do": TRIED,
    "the weights to use": "test_extract_features",
    "in one process": MACHINES,
    "compared with themselves": "test_checkpoints_sentence_prompts",
  },
  "features/vector_search.py": {"no readable vectors": OTHER_PROGRAM},
  "fill_mask.py": {"nothing to do": TRIED},
  "pretraining/data.py": {"have one sentence": TRIED, "are not used": TRIED},
  "pretraining/dynamic_masking.py": {"does not define": OTHER_PROGRAM},
  "pretraining/inputs.py": {
    "no next-sentence labels": "test_variants_scripts",
    "has no masks": "test_run_pretraining",
    "must be from 0": OTHER_FILES,
  },
  "pretraining/maskings/phrases.py": {"needs --phrases_file": TRIED},
  "pretraining/networks/token_dropping.py": {
    "needs masked_lm": "test_pretraining_token_dropping"
  },
  "pretraining/objectives/distillation.py": {
    "needs --teacher_checkpoint": "test_pretraining_objectives",
    "pass 0 as the last": "test_pretraining_objectives",
  },
  "pretraining/record_checks.py": {
    "values per record": "test_records_pipeline"
  },
  "pretraining/record_maker.py": {"too few records": OWN_FOLDER},
  "pretraining/sharding.py": {
    "were made with": OWN_FOLDER,
    "but not its manifest": OWN_FOLDER,
  },
  "pretraining/vocabulary.py": {"is too small": TRIED},
  "reproduce.py": {"nothing to do": TRIED, "is not a flag": "test_reproduce"},
  "reproduction/downloads.py": {
    "not what was published": MACHINES,
    "not from download.py": OWN_FOLDER,
    "cannot be unpacked": MACHINES,
    "has the file as": "test_download",
  },
  "reproduction/hub.py": {"not from download.py": OWN_FOLDER},
  "reproduction/report.py": {"no finished run": OTHER_PROGRAM},
  "reproduction/runs.py": {
    "download it": OTHER_PROGRAM,
    "needs the data": OTHER_PROGRAM,
    "is not finished": OTHER_PROGRAM,
    "there is no model": OTHER_PROGRAM,
    "your record files": "test_reproduce",
    "from another command": OWN_FOLDER,
  },
  "run_classifier.py": {"runs without XLA": "test_run_xla"},
  "run_squad.py": {"needs --eval_file": "test_run_squad"},
  "running/repetitions/search_flags.py": {"a run without --search": OWN_FOLDER},
  "running/reports/html_page.py": {
    "try --class_weights": "test_running_reports"
  },
  "serve.py": {
    "or --saved_model_dir": "test_serve",
    "models are called": "test_serve",
  },
  "serving/exported_classifier.py": {
    "two texts per example": "test_answering_export_settings",
    "is an export of": OTHER_PROGRAM,
    "with fixed settings": OTHER_FILES,
    "nothing to do": "test_run_classifier",
  },
  "squad/data.py": {
    "is SQuAD 1.1": TRIED,
    "expected exactly 1": "test_squad_data",
    "as in SQuAD 2.0": "test_squad_data",
  },
  "squad/null_threshold.py": {"is nan": "test_squad_null_threshold"},
  "squad/scores.py": {"no answer to compare": TRIED},
  "tagging/data.py": {
    "words of each sentence": TRIED,
    "labels are numbers": TRIED,
    "check --label_column, or ": TRIED,
    "spans of characters": "test_tagging_text_spans",
    "check --label_column, or train": "test_run_ner",
  },
  "tagging/inputs.py": {"no labels known": "test_run_ner"},
  "tagging/label_schemes.py": {
    "is not a label of": TRIED,
    "does not allow": TRIED,
    "has the label O": TRIED,
  },
  "training/common_flags.py": {"of TF_CONFIG": MACHINES},
  "training/distribution.py": {"cannot reach a TPU": MACHINES},
  "training/evaluation_loop.py": {"do not fill": "test_scripts"},
  "training/harness.py": {
    "--use_best": "test_training_harness",
    "and another --output_dir": OWN_FOLDER,
    "too few examples": TO_CHOOSE,
    "--jit_compile=false": "test_training_harness",
  },
  "training/loop.py": {
    "are ruined": "test_run_squad",
    "without a finite loss": TO_CHOOSE,
    "a replica's share": TO_CHOOSE,
    "slots are missing": OWN_FOLDER,
    "nothing to train": "test_training_loop",
    "not all weights are finite": OWN_FOLDER,
  },
  "training/run_folder.py": {
    "another program": OWN_FOLDER,
    "belongs to another run": OWN_FOLDER,
  },
  "training/run_setup.py": {"no weights": "test_run_classifier"},
  "variants/registry.py": {
    "no next-sentence head": "test_variants_scripts",
    "share their weights": "test_run_classifier",
  },
  "variants/vocabulary_files.py": {
    "and files of older formats": "test_serving_text_models",
    "which a list of word pieces": "test_checkpoints_text_rules",
  },
  "web/application.py": {"--allowed_hosts": "test_web_server"},
  "web/forms/api_key.py": {"either --api_key": "test_web_forms"},
  "web/server.py": {"cannot listen": MACHINES},
}
REASONS = (OTHER_PROGRAM, OTHER_FILES, MACHINES, TO_CHOOSE, OWN_FOLDER)


def text_of(node):
  """Returns the text of a string, with {} for values, or "" for others."""
  if isinstance(node, ast.JoinedStr):
    return "".join(
      part.value if isinstance(part, ast.Constant) else "{}"
      for part in node.values
    )
  value = getattr(node, "value", "")
  return (
    value if isinstance(node, ast.Constant) and isinstance(value, str) else ""
  )


def advised(text):
  """Returns the flags after a verb that the text has not named before."""
  flags = set()
  for verb in VERB.finditer(text):
    named = {*FLAG.findall(text[: verb.start()])}
    flags |= {*FLAG.findall(text[verb.end() :])} - named
  return flags


def is_no_message(node):
  """Returns whether a node's texts are docstrings or the helps of flags."""
  if isinstance(node, ast.Call):
    return bool(HELPS.search(ast.unparse(node.func)))
  if isinstance(node, ast.Assign):
    return ast.unparse(node.targets[0]) == "OPTIONS"
  return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def messages():
  """Returns {file: {message: the flags that it advises}}."""
  found = collections.defaultdict(dict)
  for path in test_layout.SOURCES:
    skipped = set()
    for node in ast.walk(test_layout.tree_of(path)):
      if is_no_message(node):
        skipped.update(ast.walk(node))
      if isinstance(node, ast.JoinedStr):
        skipped.update(node.values)
      text = "" if node in skipped else text_of(node)
      if flags := advised(text):
        found[path.relative_to(ROOT).as_posix()][text] = flags
  return found


MESSAGES = messages()


def entry_of(path, text):
  """Returns the words of a message's entry, the longest that it has, or ""."""
  words = [words for words in ENTRIES.get(path, ()) if words in text]
  return max(words, key=len, default="")


def test_each_message_that_advises_another_flag_has_an_entry():
  assert len(MESSAGES) > 60
  lacking = {
    f"{path}: {text}"
    for path, texts in MESSAGES.items()
    for text in texts
    if not entry_of(path, text)
  }
  assert not lacking, "\n".join(sorted(lacking))


def test_each_entry_is_of_a_message():
  outdated = {
    f"{path}: {words}"
    for path, entries in ENTRIES.items()
    for words in entries
    if words not in [entry_of(path, text) for text in MESSAGES.get(path, ())]
  }
  assert not outdated, "\n".join(sorted(outdated))


@pytest.mark.parametrize("path", sorted(MESSAGES))
def test_the_test_of_an_entry_passes_the_advised_flag(path):
  tried = [
    " ".join(map(str, case))
    for case in (
      *test_advice.ADVICE,
      *test_advice.OTHER_SCRIPTS,
      *test_advice.TRAININGS,
    )
  ]
  for message, flags in MESSAGES[path].items():
    entry = ENTRIES[path][entry_of(path, message)]
    if entry in REASONS:
      continue
    texts = tried
    if entry != TRIED:
      texts = [(ROOT / "tests" / f"{entry}.py").read_text(encoding="utf-8")]
    names = {flag.strip("{}") for flag in flags}
    assert any(name in text for text in texts for name in names), message
