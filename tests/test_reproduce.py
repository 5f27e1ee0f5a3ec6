"""Tests reproduce.py: runs, their deviations, and the report's verdicts."""

import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest

import script_runner
from common import errors
from reproduction import report, rows, runs

BASE = "uncased_L-12_H-768_A-12"
START = time.strftime("%Y-%m-%d")


def write(path, text=""):
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(text)


def result(row="mrpc-base", seed=1, value=0.86, **others):
  return {
    "row": row,
    "seed": seed,
    "model": BASE,
    "command": ["python", "x.py"],
    "results": {"eval_accuracy": value},
    "date": "2026-01-02",
    "machine": "an abacus",
    "deviations": [],
    "grid": [],
    **others,
  }


def write_results(folder, *results):
  for number, values in enumerate(results):
    path = folder / values["row"] / f"seed_{number}" / "result.json"
    write(path, json.dumps(values))


def test_results_of_an_earlier_version_are_refused(tmp_path):
  old = result()
  del old["deviations"]
  write_results(tmp_path, result(), old)
  message = "seed_1.result.json was written by an earlier version; move its"
  with pytest.raises(errors.InputError, match=message):
    report.write(str(tmp_path))


TINY = {"row": "mrpc-tiny", "results": {"eval_f1": 0.8, "eval_accuracy": 0.7}}


@pytest.mark.parametrize(
  "change, verdict, band",
  [
    ({"value": 0.84}, report.REPRODUCED, "84 to 88.5"),
    ({"value": 0.5}, report.OUTSIDE, "84 to 88.5"),
    ({"value": 0.9}, report.OUTSIDE, "84 to 88.5"),
    ({"row": "mnli-base", "value": 0.9}, report.REPRODUCED, "at least 84"),
    (TINY, report.NO_BAND, "-"),
    ({"deviations": [["smoke run", "stopped"]]}, "smoke run", "84 to 88.5"),
  ],
)
def test_the_first_deviation_or_else_the_band_gives_the_verdict(
  tmp_path, change, verdict, band
):
  write_results(tmp_path, result(**change))
  line = report.collect(tmp_path)[0]
  assert line["verdict"] == verdict
  assert f" | {band} | {verdict} | " in report.markdown([line])


def test_seeds_are_summarised_and_runs_that_differ_are_kept_apart(tmp_path):
  smoke = {
    "deviations": [
      ["smoke run", "stopped after 3 steps"],
      ["other weights", "weights a|b"],
    ]
  }
  write_results(
    tmp_path,
    result(value=0.84),
    result(seed=2, value=0.86),
    result(seed=3, value=0.87),
    result(**smoke, value=0.1),
  )
  text, written = report.write(str(tmp_path))
  assert text.splitlines()[-2:] == [
    "| mrpc-base | eval_accuracy | 86.7 (paper, table 5) | 86.00 (sd 1.53), 3 "
    "seeds | 84 to 88.5 | reproduced | none | an abacus; 2026-01-02 |",
    "| mrpc-base | eval_accuracy | 86.7 (paper, table 5) | 10.00, 1 seed | 84 "
    "to 88.5 | smoke run | stopped after 3 steps; weights a&#124;b | an abacus"
    "; 2026-01-02 |",
  ]
  assert written == f"written: {tmp_path}/report.md, {tmp_path}/report.json"
  first, _ = json.loads((tmp_path / "report.json").read_text())
  assert first["low"] == 84.0 and first["seeds"] == [1, 2, 3]
  assert first["model"] == BASE


TABLE = """\
train_batch_size\tlearning_rate\teval_f1\teval_accuracy\teval_loss
16\t0.0003\t0.81\t0.72\t0.6
8\t0.0001\t0.8\t0.75\t0.6
8\t0.0003\t0.7\t0.6\t0.6
"""


def test_a_grid_is_reported_by_its_best_setting_and_its_spread(tmp_path):
  write(tmp_path / "search_results.tsv", TABLE)
  grid = runs.read_search(str(tmp_path))
  _, scores = grid[0]
  record = result(row="mrpc-tiny", results=scores, grid=grid)
  write_results(tmp_path, record, {**record, "seed": 2})
  _, accuracy = report.collect(tmp_path)
  # The setting with the best F1, not with the best accuracy.
  best = "train_batch_size=16 learning_rate=0.0003"
  assert (
    "| mrpc-tiny | eval_accuracy | 71.1 (README, test set) | 72.00 (sd 0.00), "
    f"2 seeds: {best}; {best}, the best of 3 settings; median of all 72.00 "
    "(sd 7.10), 60.00 to 75.00 |"
  ) in report.markdown([accuracy])


@pytest.fixture
def plan(tmp_path, monkeypatch):
  """A plan of mrpc-base after a failed start; the next start succeeds."""
  write(tmp_path / BASE / "config.json", "{}")
  write(tmp_path / BASE / "model.safetensors", "x")
  write(
    tmp_path / BASE / "download.json",
    json.dumps({"name": BASE, "files": ["https://a.b/c.zip"]}),
  )
  write(tmp_path / "mrpc" / "train.tsv", "x\n" * 3669)
  write(tmp_path / "mrpc" / "dev.tsv", "x\n" * 408)  # One of 409 is missing.
  planned = runs.Plan(
    rows.ROWS["mrpc-base"],
    str(tmp_path / BASE),
    str(tmp_path / "mrpc"),
    str(tmp_path / "out"),
  )
  commands = []

  def run_script(command, **_):
    commands.append(command)
    scores = "eval_accuracy = 0.25\neval_f1 = 0.5 (yes)\n"
    (folder,) = [word for word in command if word.startswith("--output_dir=")]
    write(pathlib.Path(folder.partition("=")[2]) / "eval_results.txt", scores)
    return len(commands) == 1

  monkeypatch.setattr(runs, "_call", run_script)
  # A script that fails leaves no result.
  with pytest.raises(errors.InputError, match="classifier.py ended with code"):
    runs.run(planned, 1)
  assert not runs.finished(planned.output)
  return planned


def test_a_finished_seed_is_not_run_again(plan, monkeypatch):
  runs.run(plan, 1)
  monkeypatch.delattr(runs, "_call")
  runs.run(plan, 1)
  [record] = runs.finished(plan.output)
  assert record["results"] == {"eval_accuracy": 0.25, "eval_f1": 0.5}
  assert record["command"] == runs.command(plan, 1)
  assert record["deviations"] == [] and record["model"] == BASE
  assert re.search(r", \d+ cores?(,|$)", record["machine"])
  assert record["row"] == "mrpc-base" and record["seed"] == 1
  assert record["data"] == plan.data and record["weights"] == plan.model
  assert record["source"] == ["https://a.b/c.zip"] and record["grid"] == []
  assert 0 <= record["seconds"] < 60
  assert record["date"] in (time.strftime("%Y-%m-%d"), START)
  with pytest.raises(errors.InputError, match="is from another command"):
    runs.run(plan._replace(max_steps=3), 1)


def test_the_best_run_of_a_search_gives_the_results(plan):
  write(pathlib.Path(plan.folder(1), "search_results.tsv"), TABLE)
  runs.run(plan, 1)
  [record] = runs.finished(plan.output)
  assert record["results"]["eval_f1"] == 0.81 and len(record["grid"]) == 3


@pytest.mark.parametrize("count, cores", [(1, ", 1 core"), (2, ", 2 cores")])
def test_the_machine_has_cores(monkeypatch, count, cores):
  monkeypatch.setattr(runs.process_pool, "default_processes", lambda: count)
  monkeypatch.setattr(runs.shutil, "which", lambda name: None)
  assert runs.machine().endswith(cores)


def test_the_machine_has_the_name_of_its_processor():
  path = pathlib.Path("/proc/cpuinfo")
  names = [
    line.partition(": ")[2]
    for line in (path.read_text() if path.exists() else "").splitlines()
    if line.startswith("model name")
  ]
  assert not names or runs.machine().startswith(f"{names[0]}, ")


def test_weights_are_identified_by_all_their_files(plan, monkeypatch):
  folder = pathlib.Path(plan.model)
  names = ["b.safetensors", "a.bin", "c.data-00000-of-00001"]
  for name in [*names, "x.index", "bins", "c.data-0"]:
    write(folder / name, name)
  (folder / "download.json").unlink()
  listdir = os.listdir
  monkeypatch.setattr(
    runs.os, "listdir", lambda path: sorted(listdir(path), reverse=True)
  )
  found = runs._weights(plan, 1)
  assert found["model"] == BASE and found["source"] == []
  assert [*found["sha256"]] == sorted([*names, "model.safetensors"])


@pytest.mark.parametrize(
  "row, files, expected",
  [
    ("mrpc-base", ["mrpc/train.tsv"], "mrpc"),
    ("mrpc-base", ["train.tsv"], ""),
    ("mrpc-base", ["mrpc/a/train.tsv"], None),
    ("mrpc-base", [], None),
    ("xnli-en-multilingual-uncased", ["xnli/XNLI-1.0/a.tsv"], "xnli"),
    ("xnli-en-multilingual-uncased", ["XNLI-1.0/a.tsv"], ""),
    ("xnli-en-multilingual-uncased", ["XNLI/a.tsv"], None),
    ("squad1-base", ["squad1/train-v1.1.json"], None),
  ],
)
def test_data_are_in_a_folder_of_downloads_or_in_their_own(
  tmp_path, row, files, expected
):
  for name in files:
    write(tmp_path / name)
  if expected is None:
    with pytest.raises(errors.InputError, match=re.escape(str(tmp_path))):
      runs.find_data(rows.ROWS[row], str(tmp_path))
    return
  found = runs.find_data(rows.ROWS[row], str(tmp_path))
  assert found == os.path.join(tmp_path, *filter(None, [expected]))


def deviations(plan):
  runs.run(plan, 1)
  return [tuple(pair) for pair in runs.finished(plan.output)[0]["deviations"]]


def test_every_deviation_is_reported_the_most_serious_first(plan, tmp_path):
  write(tmp_path / "mrpc" / "train.tsv", "x\n" * 3600)
  write(tmp_path / BASE / "download.json", '{"name": "other", "files": ["u"]}')
  ((verdict, text), _) = runs._deviations(plan, runs._weights(plan, 1), None)
  assert verdict == "other weights" and text.endswith("source: u")
  os.remove(tmp_path / BASE / "download.json")
  flags = ("--dtype=bfloat16",)
  assert deviations(plan._replace(max_steps=3, extra=flags)) == [
    ("smoke run", "stopped after 3 steps"),
    ("recipe changed", "flags --dtype=bfloat16"),
    # A folder of the right name, not made by download.py.
    (
      "other weights",
      (
        f"weights {tmp_path / BASE}, SHA-256: model.safetensors "
        "2d711642b726b044, source: a folder that download.py did not create"
      ),
    ),
    ("less data", "train.tsv with 3,600 of 3,669 lines"),
  ]


def test_another_configuration_and_earlier_deviations_are_reported(
  plan, tmp_path
):
  changed = plan._replace(row=rows.ROWS["size-3-768-12"], data="a.tfrecord")
  write(tmp_path / BASE / "config.json", '{"num_hidden_layers": 2}')
  reported = deviations(changed)
  assert ("recipe changed", "num_hidden_layers 2 instead of 3") in reported
  for seed in 1, 2:  # Both runs start from the model of seed 1.
    write(tmp_path / "out/size-3-768-12/seed_1/final_model/config.json", "{}")
    next_row = rows.ROWS["size-3-768-12-mnli"]
    runs.run(plan._replace(row=next_row, model="", data="d"), seed)
  *_, second = runs.finished(plan.output)
  assert second["seed"] == 2 and second["model"] == "size-3-768-12"
  assert second["deviations"] == [
    [verdict, f"size-3-768-12: {text}"] for verdict, text in reported
  ]


def test_questions_are_counted(tmp_path):
  write(tmp_path / "dev-v1.1.json", '[{"question": 1}, {"question":""}]')
  assert runs.fewer_rows(rows.ROWS["squad1-base"], str(tmp_path)) == [
    "dev-v1.1.json with 2 of 10,570 questions"
  ]


@pytest.mark.parametrize(
  "find, row, message",
  [
    (runs.find_model, "mrpc-base", "download.py --model=uncased_L"),
    (runs.find_model, "pretrain-base", "has no released model to"),
    (runs.find_data, "mrpc-base", "download.py --data=mrpc --dir="),
    (runs.find_data, "conll2003-base", "agreement with NIST"),
  ],
)
def test_what_is_missing_is_named_with_the_command_that_downloads_it(
  find, row, message
):
  with pytest.raises(errors.InputError, match=message):
    find(rows.ROWS[row], "x")


def test_a_chained_row_uses_the_run_before_it(tmp_path):
  row = rows.ROWS["pretrain-base-512"]
  plan = runs.Plan(row, str(tmp_path), "data", str(tmp_path))
  with pytest.raises(errors.InputError, match="run --row=pretrain-base first"):
    runs.run(plan, 1)
  row = rows.ROWS["xnli-zh-zero-shot"]
  assert runs.find_model(row, None) == ""
  arguments = runs.command(plan._replace(row=row, model=""), 2)
  previous = tmp_path / "xnli-en-multilingual-uncased" / "seed_2"
  assert f"--model_dir={previous / 'final_model'}" in arguments


def flags_of(row, seed=1, **changes):
  """Returns the flags after the model's in the command of a row."""
  plan = runs.Plan(rows.ROWS[row], "", "D", "O")._replace(**changes)
  _, script, *flags = runs.command(plan, seed)
  assert script == str(script_runner.ROOT / rows.ROWS[row].script)
  return flags


@pytest.mark.parametrize(
  "row, flags",
  [
    # The two runs share --num_train_steps, and each takes a half of them.
    (
      "pretrain-base",
      ["--num_train_steps=6", "--num_warmup_steps=0", "--stop_step=3"],
    ),
    (
      "pretrain-base-512",
      ["--num_train_steps=6", "--num_warmup_steps=0", "--stop_step=6"],
    ),
    ("mrpc-base", ["--max_train_steps=3"]),
    ("xnli-zh-zero-shot", []),
  ],
)
def test_a_smoke_run_is_short(row, flags):
  full, short = flags_of(row), flags_of(row, max_steps=3)
  is_trained = "--do_train" in full
  assert ("--seed=1" in full) == is_trained
  # absl takes the last value of a flag.
  end = [*flags, *["--seed=1"] * is_trained]
  end.append(f"--output_dir=O/{row}/seed_1")
  assert short[-len(end) :] == end
  assert [flag for flag in short if flag not in flags] == full


def test_places_in_a_recipe_are_filled_in():
  flags = flags_of("xnli-zh-zero-shot", seed=2, extra=("--a=b", "--c"))
  before = "O/xnli-en-multilingual-uncased/seed_2/final_model"
  assert f"--model_dir={before}" in flags and "--data_dir=D" in flags
  assert flags[-2:] == ["--a=b", "--c"] and "{" not in "".join(flags)


@pytest.mark.parametrize(
  "names, flags",
  [
    (["bert_model.ckpt.index", "bert_config.json"], ["--model_dir={}"]),
    (["model.safetensors", "config.json"], ["--model_dir={}"]),
    (["pytorch_model.bin", "config.json"], ["--model_dir={}"]),
    (
      ["bert_config.json", "vocab.txt"],
      ["--bert_config_file={}/bert_config.json", "--vocab_file={}/vocab.txt"],
    ),
    (["config.json"], ["--bert_config_file={}/config.json"]),
  ],
)
def test_a_model_without_weights_is_a_configuration(tmp_path, names, flags):
  for name in names:
    write(tmp_path / name)
  expected = [flag.format(tmp_path) for flag in flags]
  assert runs._model_flags(str(tmp_path)) == expected


def test_a_run_begins_with_the_last_checkpoint_of_the_run_before(tmp_path):
  row = rows.ROWS["pretrain-base-512"]
  plan = runs.Plan(row, "", "", str(tmp_path))
  before = tmp_path / "pretrain-base" / "seed_1"
  kept = {"model.ckpt-20.index", "model.ckpt-20.data", "run_fingerprint.json"}
  for name in kept | {"model.ckpt-2.index", "model.ckpt-200.index", "log.txt"}:
    write(before / name, name)
  write(before / "result.json")
  # Seed 2 starts from seed 1, because the row before has no such run.
  runs._begin_after(plan, 2, 20.0)
  found = tmp_path / "pretrain-base-512" / "seed_2"
  assert {path.name: path.read_text() for path in found.iterdir()} == {
    name: name for name in kept
  }


@pytest.mark.parametrize(
  "files, seed, folder",
  [
    ([], 2, "seed_2"),
    (["seed_1"], 2, "seed_1"),
    (["seed_1", "seed_2"], 2, "seed_2"),
    (["seed_2"], 3, "seed_3"),
  ],
)
@pytest.mark.parametrize("unfinished", ["seed_1", "seed_2", "seed_3"])
def test_a_seed_starts_from_its_own_run_or_from_the_first(
  tmp_path, files, seed, folder, unfinished
):
  write(tmp_path / "pretrain-base" / unfinished / "log.txt")
  for name in files:
    write(tmp_path / "pretrain-base" / name / "result.json")
  plan = runs.Plan(rows.ROWS["pretrain-base-512"], "", "", str(tmp_path))
  assert plan.folder_before(seed) == str(tmp_path / "pretrain-base" / folder)
  assert plan._replace(row=rows.ROWS["mrpc-base"]).folder_before(seed) == ""


@pytest.mark.parametrize("lines, is_fewer", [(3633, False), (3632, True)])
def test_one_percent_of_a_files_rows_may_be_missing(tmp_path, lines, is_fewer):
  write(tmp_path / "train.tsv", "x\n" * lines)
  found = runs.fewer_rows(rows.ROWS["mrpc-base"], str(tmp_path))
  assert found == [f"train.tsv with {lines:,} of 3,669 lines"] * is_fewer


def test_the_machine_has_the_names_of_its_gpus(tmp_path, monkeypatch):
  for code, names in ((0, [", GPU A", ", GPU B"]), (1, [])):
    write(
      tmp_path / "nvidia-smi",
      f"#!/bin/sh\necho GPU A; echo GPU B; echo no >&2; exit {code}\n",
    )
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(runs.process_pool, "default_processes", lambda: 2)
    assert runs.machine().endswith(", 2 cores" + "".join(names))


def test_results_are_numbers_with_the_names_of_a_file(tmp_path):
  write(tmp_path / "eval_results.txt", "f1 = 0.5 (yes)\nloss = 2.0\n")
  found = runs.read_eval_results(str(tmp_path))
  assert found == {"f1": 0.5, "loss": 2.0}
  with pytest.raises(errors.InputError, match="did not evaluate"):
    runs.read_eval_results(str(tmp_path / "other"))
  assert runs.read_search(str(tmp_path)) == []


def test_rows_are_listed_and_a_dry_run_prints_commands(tmp_path):
  model, data = tmp_path / BASE, tmp_path / "mrpc"
  write(model / "bert_config.json", "{}")
  write(model / "bert_model.ckpt.index")
  write(data / "train.tsv")
  # --data_dir may be the data's own folder or the folder of all downloads.
  assert runs.find_data(rows.ROWS["mrpc-base"], str(data)) == str(data)
  done = script_runner.succeed(
    "reproduce.py",
    "--",
    "--dtype=bfloat16",
    row="mrpc-base",
    seeds=2,
    model_dir=tmp_path,
    data_dir=tmp_path,
    output_dir=tmp_path / "out",
    dry_run=True,
  )
  first, second = done.out.strip().split("\n")
  arguments = shlex.split(first)
  assert arguments[1].endswith("run_classifier.py")
  assert {
    "--task_name=MRPC",
    f"--data_dir={data}",
    f"--model_dir={model}",
    "--seed=1",
    "--learning_rate=2e-5",
  } <= set(arguments)
  assert arguments[-1] == "--dtype=bfloat16" and "--seed=2" in second
  assert not (tmp_path / "out").exists()
  done = script_runner.succeed("reproduce.py", list=True)
  assert all(name in done.out for name in rows.ROWS)


@pytest.mark.parametrize(
  "arguments, flags, message",
  [
    ([], {}, "pass --row, --report or --list"),
    (
      [],
      {"report": True, "output_dir": "nowhere"},
      "nowhere has no finished run; run a row first",
    ),
    ([], {"row": "mrpc"}, "--row=mrpc is unknown"),
    ([], {"row": "glue-tiny"}, "GLUE's server scores it"),
    (
      ["--", "--max_steps=3"],
      {"row": "mrpc-base"},
      "--max_steps is for reproduce.py: put it be",
    ),
    (
      ["--", "--seed=7"],
      {"row": "mrpc-base"},
      "--seeds=N is for reproduce.py: put it before --",
    ),
    (
      ["mrpc-base"],
      {"row": "mrpc-base"},
      "'mrpc-base' is not a flag; use --row=NAME",
    ),
  ],
)
def test_wrong_arguments_are_refused(arguments, flags, message):
  done = script_runner.run("reproduce.py", *arguments, **flags)
  assert done.code == 1 and message in done.last_line


PRETRAINING = script_runner.ROOT / "tests" / "golden" / "pretraining_run"


@pytest.mark.slow
def test_a_row_continues_the_run_of_another(tmp_path):
  for row, step in (("pretrain-base", 2), ("pretrain-base-512", 4)):
    done = script_runner.succeed(
      "reproduce.py",
      "--",
      "--max_seq_length=64",
      "--train_batch_size=8",
      "--max_predictions_per_seq=10",
      "--max_eval_steps=1",
      row=row,
      model_dir=PRETRAINING / "model",
      data_dir=PRETRAINING / "a.tfrecord",
      output_dir=tmp_path,
      max_steps=2,
    )
    folder = tmp_path / row / "seed_1"
    record = json.loads((folder / "result.json").read_text())
    assert record["results"]["global_step"] == step
    assert (folder / f"model.ckpt-{step}.commit").exists()
  assert f"resuming from {folder}/model.ckpt-2" in done.err
  lines = json.loads((tmp_path / "report.json").read_text())
  assert {line["verdict"] for line in lines} == {"smoke run"}
  # The report has the deviations of the first run of the chain.
  assert "pretrain-base: stopped after 2 steps" in lines[1]["deviations"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_script_ends_with_the_process_that_started_it(tmp_path, number):
  path = tmp_path / "ended"
  child = (
    "import pathlib, signal, sys, time; path = pathlib.Path(sys.argv[1]); "
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit(path.unlink())); "
    "path.touch(); time.sleep(60)"
  )
  parent = (
    "import signal, sys; from reproduction import runs; "
    # A shell starts background jobs with SIGINT ignored.
    "signal.signal(signal.SIGINT, signal.default_int_handler); "
    "runs._call([sys.executable, '-c', *sys.argv[1:]])"
  )
  process = subprocess.Popen(
    [sys.executable, "-c", parent, child, path],
    cwd=script_runner.ROOT,
    stderr=subprocess.DEVNULL,
  )
  while not path.exists():
    assert process.poll() is None
    time.sleep(0.05)
  process.send_signal(number)
  code = 143 if number == signal.SIGTERM else -signal.SIGINT
  assert process.wait(timeout=20) == code
  assert not path.exists()
