"""Runs run_pretraining.py with each objective, network, masking and packing.

Each case trains on sample_text.txt, is resumed, and is compared with a run on
two devices, in two parts, and in bfloat16. Dropout is off, so that the runs
compute the same numbers.
"""

import pathlib
import re

import numpy as np
import pytest
import safetensors

import modeling
import resumed_runs
import script_runner
import stored_weights
import tiny_model
from checkpoints import model_writer
from message_facts import says
from pretraining.networks import encoder
from records import tfrecord
from script_runner import results_in, succeed

VOCAB = pathlib.Path("tests/golden/pretraining_run/model/vocab.txt")
LENGTHS = {"max_seq_length": 32, "max_predictions_per_seq": 5}
# {name of a case: (flags of the records, flags of the training, metrics)}
CASES = {
  "original": ({}, {}, "masked_lm next_sentence"),
  "spanbert": (
    {"packing": "doc_sentences", "masking": "spans"},
    {"objectives": "masked_lm,span_boundary"},
    "masked_lm span_boundary",
  ),
  "albert": (
    {"packing": "sentence_order", "masking": "ngrams"},
    {"objectives": "masked_lm,sentence_order", "variant": "albert"},
    "masked_lm sentence_order",
  ),
  "roberta": (
    {"packing": "full_sentences", "dynamic_masking": True},
    {"objectives": "masked_lm", "masking": "whole_words"},
    "masked_lm",
  ),
  "dynamic_spans": (
    {"packing": "full_sentences", "dynamic_masking": True},
    {"objectives": "masked_lm,span_boundary", "masking": "spans"},
    "masked_lm span_boundary",
  ),
  "dynamic_ngrams": (
    {"packing": "sentence_pairs", "dynamic_masking": True},
    {"objectives": "next_sentence,masked_lm", "masking": "ngrams"},
    "next_sentence masked_lm",
  ),
  "ernie": (
    {"masking": "phrases", "phrases_file": "PHRASES"},
    {},
    "masked_lm next_sentence",
  ),
  "electra": (
    {"packing": "full_sentences"},
    {"network": "replaced_tokens", "variant": "electra"},
    "masked_lm disc",
  ),
  "distilbert": (
    {"packing": "full_sentences"},
    {"objectives": "distillation", "teacher_checkpoint": "TEACHER"},
    "masked_lm",
  ),
  "token_dropping": (
    {"packing": "full_sentences"},
    {"network": "token_dropping", "objectives": "masked_lm"},
    "masked_lm",
  ),
  "next_word": (
    {"masking": "pieces"},
    {"variant": "left_to_right", "use_next_sentence_loss": False},
    "next_word",
  ),
}
# The keys of each variant's configuration.
VARIANTS = {
  "bert": {},
  "albert": {"embedding_size": 8, "num_hidden_groups": 1},
  "electra": {"embedding_size": 8},
  "left_to_right": {},
}
SLOW = [
  name if name == "spanbert" else pytest.param(name, marks=pytest.mark.slow)
  for name in CASES
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """A folder with a phrases file, and a teacher."""
  folder = tmp_path_factory.mktemp("extensions")
  (folder / "phrases.txt").write_text("the sea\nlamp room\nin the\n")
  path = configuration(folder, "bert")
  config = modeling.BertConfig.from_json_file(str(path))
  model = encoder.PretrainingModel(config, ["masked_lm"], seed=3)
  model_writer.write(str(folder / "teacher"), model.variables, config)
  return folder


def in_folder(folder, flags):
  """Returns flags with the paths of the files in `folder`."""
  files = {"PHRASES": folder / "phrases.txt", "TEACHER": folder / "teacher"}
  return {name: files.get(value, value) for name, value in flags.items()}


def records(folder, flags):
  """Writes the records of a case, once; returns their file."""
  name = "_".join(map(str, [*flags, *flags.values()])) or "default"
  path = folder / f"{name}.tfrecord"
  if not path.exists():
    lengths = {**LENGTHS, "dupe_factor": 1}
    if "dynamic_masking" in flags:
      lengths = {"max_seq_length": 32}
    succeed(
      "create_pretraining_data.py",
      input_file="sample_text.txt",
      output_file=path,
      vocab_file=VOCAB,
      **lengths,
      **in_folder(folder, flags),
    )
  return path


def configuration(folder, variant):
  vocab_size = len(VOCAB.read_text(encoding="utf-8").splitlines())
  config = tiny_model.tiny(
    vocab_size=vocab_size,
    max_position_embeddings=32,
    num_hidden_layers=3,
    initializer_range=0.02,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
  )
  vars(config).update(VARIANTS[variant])
  if variant != "bert":
    config.variant = variant
  path = folder / f"{variant}.json"
  path.write_text(config.to_json_string())
  return path


def pretrain(folder, case, output_dir, **more):
  record_flags, flags, _ = CASES[case]
  flags = in_folder(folder, flags)
  config_file = configuration(folder, flags.pop("variant", "bert"))
  return succeed(
    "run_pretraining.py",
    **{
      **LENGTHS,
      "do_train": True,
      "input_file": records(folder, record_flags),
      "bert_config_file": config_file,
      "vocab_file": VOCAB,
      "output_dir": output_dir,
      "train_batch_size": 8,
      "num_warmup_steps": 1,
      "num_train_steps": 6,
      "save_checkpoints_steps": 3,
      "learning_rate": 1e-3,
      "log_steps": 1,
      **flags,
      **more,
    },
  )


def losses(output_dir):
  lines = script_runner.logged(output_dir)
  return np.array([line["loss"] for line in lines])


@pytest.fixture(scope="module")
def whole_runs():
  """{case: folder of a run without interruption}, filled by the tests."""
  return {}


@pytest.mark.parametrize("case", SLOW)
def test_a_run_equals_its_interrupted_form(folder, case, tmp_path, whole_runs):
  evaluation = {"do_eval": True, "max_eval_steps": 1}
  resumed_runs.assert_same_weights(
    lambda output_dir: pretrain(folder, case, output_dir, **evaluation),
    tmp_path,
  )
  results = results_in(tmp_path / "whole")
  expected = {"loss", "global_step"}
  for name in CASES[case][2].split():
    expected |= {f"{name}_loss", f"{name}_accuracy"}
  assert set(results) >= expected
  assert all(np.isfinite(value) for value in results.values())
  whole_runs[case] = tmp_path / "whole"


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_run_equals_its_split_forms(folder, case, tmp_path, whole_runs):
  if case not in whole_runs:
    whole_runs[case] = tmp_path / "whole"
    pretrain(folder, case, whole_runs[case])
  whole = losses(whole_runs[case])
  assert len(whole) == 6
  forms = {
    "mirrored": {"distribution_strategy": "mirrored", "num_logical_cpus": 2},
    "parts": {"gradient_accumulation_steps": 2},
    "bfloat16": {"dtype": "bfloat16"},
  }
  for name, flags in forms.items():
    pretrain(folder, case, tmp_path / name, **flags)
    tolerance = 0.02 if name == "bfloat16" else 2e-4
    # Like dropout, their random choices depend on the replica and the part.
    if case in ("electra", "token_dropping"):
      tolerance = 0.1
    np.testing.assert_allclose(
      losses(tmp_path / name), whole, rtol=tolerance, err_msg=name
    )


def example_of_the_docs(path):
  """Writes the objective of docs/pretraining.md to a file."""
  page = (script_runner.ROOT / "docs/pretraining.md").read_text("utf-8")
  (source,) = re.findall(r"```python\n(\"\"\"Whether .*?)```", page, re.S)
  assert source.count("\n") <= 36
  path.write_text(source)
  return path


def test_an_objective_of_ones_own_is_trained(folder, tmp_path):
  own = example_of_the_docs(tmp_path / "repeated.py")
  flags = {"objectives": f"masked_lm,{own}", "do_eval": True}
  run = {"num_train_steps": 30, "max_eval_steps": 4, "num_warmup_steps": 1}
  done = pretrain(folder, "original", tmp_path / "run", **flags, **run)
  results = results_in(tmp_path / "run")
  # Guessing gives log 2.
  assert results["repeated_loss"] < np.log(2)
  assert results["repeated_accuracy"] > 0.5
  # A tiny model has learned few words in 30 steps.
  assert re.search(says("masked_lm_loss", "plateau"), done.err)
  stored = stored_weights.read(str(tmp_path / "run/final_model"))
  assert stored["cls/repeated/dense/kernel"].any()


@pytest.mark.parametrize(
  "source, reason",
  [
    (None, "no such file"),
    ("import nothing_like_this", "ModuleNotFoundError"),
    ("name = 1", "does not define make"),
    ("OPTIONS = {'a': 1 + x}\ndef make(): pass", "OPTIONS must be a literal"),
  ],
)
def test_a_damaged_file_is_named(tmp_path, source, reason):
  own = tmp_path / "own.py"
  if source:
    own.write_text(source)
  shape = tiny_model.write_shape(tmp_path, ["a"])
  script_runner.refuse(
    "run_pretraining.py",
    reason,
    do_train=True,
    input_file=VOCAB,
    output_dir=tmp_path / "run",
    objectives=own,
    max_seq_length=8,
    **shape,
  )


def test_options_of_ones_own_file_are_flags(tmp_path):
  own = tmp_path / "every_other.py"
  own.write_text(
    "OPTIONS = {'step_of_words': (2, 'Distance of masked words.')}\n"
    "def groups(text, rng): return iter(text.pieces()[::2][:text.budget])\n"
  )
  done = script_runner.run("create_pretraining_data.py", "--help", masking=own)
  assert "--step_of_words: Distance of masked words." in done.out
  path = tmp_path / "records"
  succeed(
    "create_pretraining_data.py",
    input_file="sample_text.txt",
    output_file=path,
    vocab_file=VOCAB,
    masking=own,
    dupe_factor=1,
    masked_lm_prob=0.05,
    **LENGTHS,
  )
  first = next(tfrecord.read_records(str(path)))
  assert first["masked_lm_positions"][0] == 1
  own.write_text("def groups(text, rng): yield 0, 1\n")
  script_runner.refuse(
    "create_pretraining_data.py",
    "more than text.budget, ",
    input_file="sample_text.txt",
    output_file=path,
    vocab_file=VOCAB,
    masking=own,
    masked_lm_prob=0.0,
    max_seq_length=32,
  )


@pytest.mark.slow
def test_electra_writes_both_models(folder, tmp_path):
  pretrain(folder, "electra", tmp_path, num_train_steps=1)
  model = tmp_path / "final_model"
  discriminator = set(stored_weights.read(str(model)))
  generator = set(stored_weights.read(str(model / "generator")))
  assert "cls/replaced_tokens/output_bias" in discriminator
  assert not [name for name in discriminator if "generator" in name]
  assert "cls/predictions/output_bias" in generator
  filled = succeed(
    "fill_mask.py", model_dir=model / "generator", text="a [MASK] here"
  )
  assert "[MASK] 1:" in filled.out
  for part, architecture in (
    (model, "ElectraForPreTraining"),
    (model / "generator", "ElectraForMaskedLM"),
  ):
    output = tmp_path / architecture
    succeed(
      "convert_checkpoint.py", input=part, output=output, to="huggingface"
    )
    assert architecture in (output / "config.json").read_text()
  # Both models are trained further from the run's checkpoint.
  done = pretrain(
    folder,
    "electra",
    tmp_path / "more",
    num_train_steps=1,
    init_checkpoint=tmp_path / "model.ckpt-1",
  )
  lines = done.err.splitlines()
  missing = [line for line in lines if "missing" in line or "lacks" in line]
  assert not [line for line in missing if "generator" in line]


def test_all_variables_of_a_head_are_saved(folder, tmp_path):
  pretrain(folder, "spanbert", tmp_path, num_train_steps=1)
  stored = stored_weights.read(str(tmp_path / "final_model"))
  heads = {name for name in stored if "/pair_target_" in name}
  assert len(heads) == 10
  # Hugging Face's format keeps the authors' names, and comes back.
  for source, output, to in (
    ("final_model", "hf", "huggingface"),
    ("hf", "again", "tf1"),
  ):
    succeed(
      "convert_checkpoint.py",
      input=tmp_path / source,
      output=tmp_path / output,
      to=to,
      verify=True,
    )
  with safetensors.safe_open(tmp_path / "hf/model.safetensors", "np") as file:
    prefix = "cls.pair_target_predictions."
    names = {n.removeprefix(prefix) for n in file.keys() if prefix in n}
  layers = [
    f"mlp_layer_norm.{layer}{number}.{end}"
    for layer in ("linear", "layer_norm")
    for number in (1, 2)
    for end in ("weight", "bias")
  ]
  assert names == {"bias", "position_embeddings.weight", *layers}
  again = stored_weights.read(str(tmp_path / "again"))
  for name in heads:
    np.testing.assert_array_equal(again[name], stored[name])
