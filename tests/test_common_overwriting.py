"""No command overwrites its input files."""

import contextlib
import os

import pytest

import script_runner
from common import errors, overwriting, run_settings
from message_facts import says


@pytest.fixture
def working_folder(tmp_path, monkeypatch):
  """Changes into a folder with input files, links to them and a model."""
  monkeypatch.chdir(tmp_path)
  for name in ("a.txt", "b.txt", "vocab.txt"):
    (tmp_path / name).write_text(f"{name}\n")
  os.symlink("a.txt", "link.txt")
  os.link("a.txt", "hard.txt")
  (tmp_path / "model").mkdir()
  (tmp_path / "model" / "vocab.txt").write_text("x\n")
  (tmp_path / "out").mkdir()
  for name in ("predictions.tsv", "new.tsv"):
    (tmp_path / "out" / name).write_text("x\n")


@pytest.mark.parametrize(
  "values, message",
  [
    *(
      ({"input_file": "*.txt", "output_file": name}, "--input_file reads")
      for name in ("a.txt", "./a.txt", "link.txt", "hard.txt")
    ),
    (
      {"input_file": "b.txt,a.txt", "output_file": "out/../a.txt"},
      "_file reads",
    ),
    (
      {
        "input_file": "a.txt",
        "vocab_file": "vocab.txt",
        "output_file": "new.tf,vocab.txt",
      },
      "is a file that --vocab_file reads",
    ),
    ({"input_file": "a.txt", "attention_html": "a.txt"}, "_html=a.txt"),
    ({"output_file": "o.tf,./o.tf"}, says("o.tf", "same")),
    (
      {"model_dir": "model", "output_file": "model/vocab.txt"},
      "is a file that --model_dir reads",
    ),
    (
      {"init_checkpoint": "model", "output_file": "model/vocab.txt"},
      "is a file that --init_checkpoint reads",
    ),
    *(
      ({name: "a.txt", "output_file": "a.txt"}, f"file that --{name} reads")
      for name in (
        *("phrases_file", "generator_config_file", "predictions_file"),
        *("add_tokens", "search"),
      )
    ),
    *(
      (
        {flag: f"out/{name}", "output_dir": "out", "do_eval": True},
        f"--{flag}=.* is a file that --do_eval writes to",
      )
      for flag, name in (
        ("train_file", "eval_results.txt"),
        ("eval_file", "seeds_results.txt"),
        ("predict_file", "search_results.tsv"),
      )
    ),
    (
      {"teacher_checkpoint": "model", "output_file": "model/vocab.txt"},
      "is a file that --teacher_checkpoint reads",
    ),
    (
      {
        "predict_file": "out/predictions.tsv",
        "output_dir": "./out",
        "do_predict": True,
      },
      "is a file that --do_predict writes to",
    ),
  ],
)
def test_an_output_that_is_an_input_is_refused(working_folder, values, message):
  with pytest.raises(errors.InputError, match=message):
    overwriting.refuse(run_settings.Settings(values))


@pytest.mark.parametrize(
  "values",
  [
    {"input_file": "a.txt", "output_file": "new.txt,other.txt"},
    {"input_file": "none*.txt", "output_file": "a.txt"},
    {"model_dir": "model", "output_file": "model/vectors.jsonl"},
    {"predict_file": "out/new.tsv", "output_dir": "out", "do_predict": True},
    {"input_file": "a.txt", "output_file": "gs://a/c"},
    # Another folder, and another action.
    {"predict_file": "predictions.tsv", "output_dir": "out", "do_predict": 1},
    {"eval_file": "out/predictions.tsv", "output_dir": "out", "do_eval": True},
  ],
)
def test_other_outputs_pass(working_folder, values):
  overwriting.refuse(run_settings.Settings(values))


@pytest.mark.parametrize(
  "value, missing",
  [
    ("a.txt", None),
    ("a.txt, b.txt", None),
    ("?.txt,model", None),
    ("shards.tfrecord,a.txt", None),
    ("shards.tfrecord.gz", None),
    ("unfinished.tfrecord", None),
    ("a,b", None),
    ("gs://bucket/none,a.txt", None),
    ("a", "a"),
    ("vocab.tx", "vocab.tx"),
    ("a.txt,shard,b.txt", "shard"),
    ("gs://bucket/none,c.txt", "c.txt"),
  ],
)
def test_missing_inputs_are_named(working_folder, value, missing):
  for name in (
    "shards.tfrecord-00000-of-00002",
    "unfinished.tfrecord.manifest.json",
    "a,b",
  ):
    open(name, "w").close()
  expected = contextlib.nullcontext()
  if missing:
    expected = pytest.raises(errors.InputError, match=f"file: {missing}$")
  with expected:
    overwriting.refuse_missing({"input_file": value})


@pytest.mark.parametrize(
  "script, flags",
  [
    ("create_vocabulary.py", {"vocab_size": 99}),
    ("create_pretraining_data.py", {"vocab_file": "vocab.txt"}),
    (
      "extract_features.py",
      {
        "vocab_file": "vocab.txt",
        "bert_config_file": "b.txt",
        "init_checkpoint": "x",
      },
    ),
  ],
)
def test_scripts_refuse_before_anything_is_written(
  working_folder, script, flags
):
  before = {name: open(name).read() for name in os.listdir() if "." in name}
  script_runner.refuse(
    script,
    "--input_file reads",
    input_file="a.txt",
    output_file="link.txt",
    **flags,
  )
  assert {n: open(n).read() for n in os.listdir() if "." in n} == before


def test_a_pattern_without_a_match_is_named(working_folder):
  with pytest.raises(errors.InputError, match=r"'none\*.txt'"):
    overwriting.refuse_missing({"input_file": "a.txt, none*.txt"})


@pytest.mark.parametrize("name", ["predict_file", "input_file"])
def test_the_standard_input_is_not_read(name):
  with pytest.raises(errors.InputError, match=f"^--{name}=-: .*--text=-"):
    overwriting.refuse_missing({name: "-"})
