"""From a mirror to a report in two commands; and what the report may claim."""

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

import local_server
import script_runner
import test_download
from common import errors
from reproduction import report, rows, runs

BASE = "uncased_L-12_H-768_A-12"
BASE_PATH = f"/storage.googleapis.com/bert_models/2018_10_18/{BASE}.zip"
SWAG_PATH = "/raw.githubusercontent.com/rowanz/swagaf/master/data/"


def mirror():
  """Files of a release small enough for a test, at the official paths."""
  files = {BASE_PATH: test_download.tiny_release()}
  for name, count in (("train", 64), ("val", 8), ("test", 8)):
    # Sentences with four endings, as SWAG's files have them.
    rows = "".join(f"the river,is,a,b,c,d,{n % 4}\n" for n in range(count))
    names = "sent1,sent2,ending0,ending1,ending2,ending3,label\n"
    files[f"{SWAG_PATH}{name}.csv"] = (names + rows).encode()
  return files


def make(path, text=""):
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(text)


def result(row="mrpc-base", seed=1, model=BASE, value=0.86, **others):
  return {
    "row": row, "seed": seed, "model": model, "command": ["python", "x.py"],
    "extra": [], "smoke": False, "results": {"eval_accuracy": value},
    "seconds": 1.0, "date": "2026-01-02", "source": ["https://a.b/c.zip"],
    "max_steps": 0, "fewer": {}, "machine": "CPU", "weights": model,
    "sha256": {}, "grid": [], "config": {}, "before": None, **others,
  }


def write_results(folder, *results):
  for number, values in enumerate(results):
    path = folder / values["row"] / f"seed_{number}" / "result.json"
    make(path, json.dumps(values))


def test_results_of_an_earlier_version_are_refused(tmp_path):
  values = result()
  del values["before"]
  write_results(tmp_path, result(), values)
  sentence = "seed_1.result.json was written by an earlier version; move its"
  with pytest.raises(errors.InputError, match=sentence):
    report.write(str(tmp_path))


@pytest.mark.parametrize("change, verdict", [
  ({}, report.REPRODUCED), ({"value": 0.5}, report.OUTSIDE),
  ({"smoke": True}, report.SMOKE),
  ({"extra": ["--dtype=bfloat16"]}, report.CHANGED),
  ({"model": "all-MiniLM-L6-v2"}, report.OTHER),
  # A folder of the right name, not made by download.py.
  ({"source": []}, report.OTHER),
  ({"fewer": {"train.tsv": [9, 3669]}}, report.LESS_DATA),
  ({"row": "sst-2-tiny", "model": "uncased_L-2_H-128_A-2"}, report.NO_BAND)
])
def test_what_a_run_may_claim(tmp_path, change, verdict):
  write_results(tmp_path, result(**change))
  [line] = report.collect(tmp_path)
  assert line["verdict"] == verdict


WEIGHTS = "weights {}, SHA-256: unknown, source: https://a.b/c.zip"


def test_seeds_are_summarised_and_kinds_of_runs_kept_apart(tmp_path):
  write_results(
    tmp_path, result(value=0.84), result(seed=2, value=0.86),
    result(seed=3, value=0.87), result(smoke=True, value=0.1),
    # Folders of one name.
    result(model="model", weights="a/model"),
    result(model="model", weights="b/model", seed=2),
  )
  first, second, *others = report.collect(tmp_path)
  assert [line["deviations"] for line in others] == [
    [WEIGHTS.format("a/model")], [WEIGHTS.format("b/model")]
  ]
  assert first["median"] == pytest.approx(86.0)
  assert first["sd"] == pytest.approx(1.52752523)
  assert first["seeds"] == [1, 2, 3] and first["verdict"] == report.REPRODUCED
  assert second["verdict"] == report.SMOKE and second["sd"] is None
  text, written = report.write(str(tmp_path))
  assert "| mrpc-base | eval_accuracy | 86.7 (paper, table 5) |" in text
  assert "| 86.00 (sd 1.53), 3 seeds | " in text
  assert "84 to 88.5 | reproduced" in text
  assert written == f"written: {tmp_path}/report.md, {tmp_path}/report.json"
  assert json.loads((tmp_path / "report.json").read_text())[0]["low"] == 84.0


def test_the_average_of_glue_names_its_tasks(tmp_path):
  def scored(row, **results):
    return result(row=row, results={"eval_loss": 9, "loss": 9, **results})

  write_results(
    tmp_path,
    *(scored("mrpc-base", eval_accuracy=a, eval_f1=0.9) for a in (0.7, 0.8)),
    scored("mrpc-base", eval_accuracy=0.1, eval_f1=0.9),
    scored("mnli-base", eval_accuracy=0.8, eval_mismatched_accuracy=0.82),
    scored("squad1-base", exact_match=80.0, f1=88.0),
    scored("cola-base-test"),
    result(row="cola-base", model="m", weights="x/m", smoke=True, max_steps=2,
           results={"eval_matthews": -0.1}),
  )
  other, ours = report.glue_averages(tmp_path)
  assert other == (
    "GLUE average of m; stopped after 2 steps; "
    f"{WEIGHTS.format('x/m')}: -10.0 over 1 of 9 tasks (cola -10.0), on dev "
    "sets; the official average needs all 9, on test sets."
  )
  assert ours.startswith(f"GLUE average of {BASE}: 80.5 over 2 of 9 tasks (")
  assert "(mrpc 80.0, mnli 81.0)" in ours
  assert ours in report.write(str(tmp_path))[0]


DEVIATING = {
  "model": "model", "weights": "minilm/model", "smoke": True, "max_steps": 3,
  "fewer": {"train.tsv": [1001, 3669]}, "extra": ["--dtype=bfloat16"],
  "machine": "an abacus, 2 cores",
}


def test_every_deviation_is_in_the_row(tmp_path):
  write_results(tmp_path, result(**DEVIATING), result(**DEVIATING, seed=2))
  [line] = report.collect(tmp_path)
  expected = [
    "stopped after 3 steps", "flags --dtype=bfloat16",
    WEIGHTS.format("minilm/model"),
    "train.tsv with 1,001 of 3,669 lines",
  ]
  place = ["an abacus, 2 cores", "2026-01-02"]
  assert line["deviations"] == expected
  assert f"| {'; '.join(expected)} | {'; '.join(place)} |" in (
    report.markdown([line])
  )


TABLE = """\
train_batch_size\tlearning_rate\teval_f1\teval_accuracy\teval_loss
16\t0.0003\t0.81\t0.72\t0.6
8\t0.0001\t0.8\t0.75\t0.6
8\t0.0003\t0.7\t0.6\t0.6
"""


def test_a_grid_is_reported_by_its_best_setting_and_its_spread(tmp_path):
  make(tmp_path / "search_results.tsv", TABLE)
  grid = runs.read_search(str(tmp_path))
  settings, scores = grid[0]
  assert settings == {"train_batch_size": "16", "learning_rate": "0.0003"}
  assert scores == {"eval_f1": 0.81, "eval_accuracy": 0.72, "eval_loss": 0.6}
  write_results(
    tmp_path, result(row="mrpc-tiny", results=scores, grid=grid, sha256={
      "model.safetensors": "0123456789abcdef0123"}, source=[], model="model"),
  )
  f1, accuracy = report.collect(tmp_path)
  assert f1["grid"]["values"] == pytest.approx([81.0, 80.0, 70.0])
  # The setting with the best F1, not with the best accuracy.
  assert accuracy["median"] == pytest.approx(72.0)
  text = report.markdown([accuracy])
  assert "| mrpc-tiny | eval_accuracy | 71.1 (README, test set) | 72.00" in text
  assert (
    "1 seed: train_batch_size=16 learning_rate=0.0003, the best of 3 settings; "
    "median of all 72.00 (sd 7.94), 60.00 to 75.00"
  ) in text
  assert (
    "weights model, SHA-256: model.safetensors 0123456789abcdef, source: a "
    "folder that download.py did not make"
  ) in text


def test_weights_are_named_by_their_sums_and_their_source(tmp_path):
  make(tmp_path / "model.safetensors", "x")
  make(tmp_path / "vocab.txt")
  record = runs.weights_record(str(tmp_path))
  assert record["model"] == tmp_path.name and record["source"] == []
  assert list(record["sha256"]) == ["model.safetensors"]
  make(tmp_path / "download.json", json.dumps({"name": BASE, "files": ["u"]}))
  record = runs.weights_record(str(tmp_path))
  assert record["model"] == BASE and record["source"] == ["u"]


def test_shortened_files_are_counted(tmp_path):
  (tmp_path / "train.tsv").write_text("x\n" * 3000)
  (tmp_path / "dev.tsv").write_text("x\n" * 409)
  found = runs.fewer_rows(rows.ROWS["mrpc-base"], str(tmp_path))
  assert found == {"train.tsv": (3000, 3669)}
  (tmp_path / "dev-v1.1.json").write_text('[{"question": 1}, {"question":""}]')
  found = runs.fewer_rows(rows.ROWS["squad1-base"], str(tmp_path))
  assert found == {"dev-v1.1.json": (2, 10570)}


def test_a_finished_seed_is_not_run_again(tmp_path, monkeypatch):
  make(tmp_path / "model" / "config.json", "{}")
  make(tmp_path / "model" / "model.safetensors")
  make(tmp_path / "mrpc" / "train.tsv")
  plan = runs.Plan(
    rows.ROWS["mrpc-base"], str(tmp_path / "model"), str(tmp_path / "mrpc"),
    str(tmp_path / "out"),
  )
  folder, commands = tmp_path / "out" / "mrpc-base" / "seed_1", []

  def run_script(command, **_):
    commands.append(command)
    make(folder / "eval_results.txt", "eval_accuracy = 0.25\neval_f1 = 0.5\n")
    return len(commands) == 1

  monkeypatch.setattr(runs, "_call", run_script)
  monkeypatch.setattr(runs, "machine", lambda: "an abacus, 2 cores")
  # One that fails is no result.
  with pytest.raises(errors.InputError, match="classifier.py ended with code"):
    runs.run(plan, 1)
  assert not runs.finished(tmp_path / "out")
  for _ in range(2):
    runs.run(plan, 1)
  assert commands == [runs.command(plan, 1)] * 2
  [record] = runs.finished(tmp_path / "out")
  assert record["results"] == {"eval_accuracy": 0.25, "eval_f1": 0.5}
  assert not record["smoke"] and record["fewer"] == {"train.tsv": [0, 3669]}
  assert record["weights"] == str(tmp_path / "model")
  with pytest.raises(errors.InputError, match="is of another command"):
    runs.run(plan._replace(max_steps=3), 1)


def test_the_machine_is_named():
  assert re.search(r", \d+ cores?(,|$)", runs.machine())


def test_what_is_missing_is_named_with_the_command_that_brings_it(tmp_path):
  row = rows.ROWS["mrpc-base"]
  with pytest.raises(errors.InputError, match="download.py --model=uncased_L"):
    runs.find_model(row, None)
  with pytest.raises(errors.InputError, match="download.py --data=mrpc --dir="):
    runs.find_data(row, "x")
  with pytest.raises(errors.InputError, match="agreement with NIST"):
    runs.find_data(rows.ROWS["conll2003-base"], str(tmp_path))
  with pytest.raises(errors.InputError, match="starts from no released model"):
    runs.find_model(rows.ROWS["pretrain-base"], None)
  with pytest.raises(errors.InputError, match="GLUE's server scores it"):
    runs.command(runs.Plan(rows.ROWS["glue-tiny"], "", "", "out"), 1)
  row = rows.ROWS["pretrain-base-512"]
  plan = runs.Plan(row, str(tmp_path), "data", str(tmp_path / "out"))
  with pytest.raises(errors.InputError, match="run --row=pretrain-base first"):
    runs.run(plan, 1)
  row = rows.ROWS["xnli-zh-zero-shot"]
  assert runs.find_model(row, None) == ""
  plan = runs.Plan(row, "", "data", str(tmp_path / "out"))
  with pytest.raises(errors.InputError, match="xnli-en-multilingual-uncased f"):
    runs.run(plan, 2)
  words = runs.command(plan, 2)
  before = tmp_path / "out" / "xnli-en-multilingual-uncased" / "seed_2"
  assert f"--model_dir={before / 'final_model'}" in words
  row = rows.ROWS["mrpc-base"]
  make(tmp_path / "mrpc" / "train.tsv")
  assert runs.find_data(row, str(tmp_path)) == str(tmp_path / "mrpc")
  assert runs.find_data(row, str(tmp_path / "mrpc")) == str(tmp_path / "mrpc")


def test_a_dry_run_prints_the_script_s_command(tmp_path):
  model, data = tmp_path / BASE, tmp_path / "mrpc"
  make(model / "bert_config.json", "{}")
  make(model / "bert_model.ckpt.index")
  make(data / "train.tsv")
  done = script_runner.succeed(
    "reproduce.py", "--", "--dtype=bfloat16", row="mrpc-base", seeds=2,
    model_dir=tmp_path, data_dir=tmp_path, output_dir=tmp_path / "out",
    dry_run=True,
  )
  first, second = done.out.strip().split("\n")
  words = shlex.split(first)
  assert words[1].endswith("run_classifier.py")
  assert {"--task_name=MRPC", f"--data_dir={data}", f"--model_dir={model}",
          "--seed=1", "--learning_rate=2e-5"} <= set(words)
  assert words[-1] == "--dtype=bfloat16" and "--seed=2" in second
  assert not (tmp_path / "out").exists()


def test_every_row_is_listed():
  done = script_runner.succeed("reproduce.py", list=True)
  assert all(name in done.out for name in rows.ROWS)


@pytest.mark.parametrize("words, flags, sentence", [
  ([], {}, "pass --row, --report or --list"),
  ([], {"report": True, "output_dir": "nowhere"},
   "nowhere holds no finished run; run a row first"),
  ([], {"row": "mrpc"}, "--row=mrpc is unknown"),
  (["--", "--max_steps=3"], {"row": "mrpc-base"},
   "--max_steps is for reproduce.py: put it be"),
  (["--", "--seed=7"], {"row": "mrpc-base"},
   "--seeds=N is for reproduce.py: put it before --"),
  (["mrpc-base"], {"row": "mrpc-base"},
   "'mrpc-base' is not a flag; rows: --row=NAME"),
])
def test_mistakes(words, flags, sentence):
  done = script_runner.run("reproduce.py", *words, **flags)
  assert done.code == 1 and sentence in done.last_line


def reproduce(folder):
  return subprocess.Popen(
    [sys.executable, str(script_runner.ROOT / "reproduce.py"),
     "--row=swag-base", f"--model_dir={folder / 'd'}", "--seeds=2",
     f"--data_dir={folder / 'd'}", f"--output_dir={folder / 'out'}", "--",
     "--max_seq_length=16", "--save_checkpoints_steps=2"],
    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    start_new_session=True,
  )


@pytest.mark.slow
def test_from_a_mirror_to_a_report_in_two_commands(tmp_path):
  with local_server.serve(mirror()) as server:
    script_runner.succeed(
      "download.py", dir=tmp_path / "d", model=BASE, data="swag",
      base_url=server.url,
    )
  # Killed, with the script that it runs, once there is a checkpoint.
  process = reproduce(tmp_path)
  commit = tmp_path / "out" / "swag-base" / "seed_1" / "model.ckpt-2.commit"
  deadline = time.monotonic() + 300
  while not commit.exists() and time.monotonic() < deadline:
    time.sleep(0.1)
  assert commit.exists()
  os.killpg(process.pid, signal.SIGKILL)
  assert process.wait() == -signal.SIGKILL
  process = reproduce(tmp_path)
  out, _ = process.communicate(timeout=600)
  assert process.returncode == 0
  assert "| swag-base | eval_accuracy | 81.6 (paper, table 4) |" in out
  [line] = json.loads((tmp_path / "out" / "report.json").read_text())
  assert line["seeds"] == [1, 2] and line["verdict"] == report.CHANGED
  # Finished seeds are not run again.
  files = tmp_path.glob("out/*/*/*")
  before = {path: path.stat().st_mtime_ns for path in files}
  process = reproduce(tmp_path)
  process.communicate()
  assert process.returncode == 0
  assert before == {path: path.stat().st_mtime_ns for path in before}


PRETRAINING = script_runner.ROOT / "tests" / "golden" / "pretraining_run"


@pytest.mark.slow
def test_rows_go_on_with_the_runs_and_the_weights_of_others(tmp_path):
  def succeed(row, *words, **flags):
    return script_runner.succeed(
      "reproduce.py", "--", "--max_seq_length=64", "--train_batch_size=8",
      *words, row=row, output_dir=tmp_path, max_steps=2, **flags,
    )

  for row, step in (("pretrain-base", 2), ("pretrain-base-512", 4)):
    done = succeed(
      row, "--max_predictions_per_seq=10", "--max_eval_steps=1",
      model_dir=PRETRAINING / "model", data_dir=PRETRAINING / "a.tfrecord",
    )
    folder = tmp_path / row / "seed_1"
    values = json.loads((folder / "result.json").read_text())
    assert values["results"]["global_step"] == step
    assert (folder / f"model.ckpt-{step}.commit").exists()
  assert f"resuming from {folder}/model.ckpt-2" in done.err
  # Two seeds of a fine-tuning start from one pre-training.
  text = "index\tsentence1\tsentence2\tgold_label\n" + "".join(
    f"{n}\tthe river\tis\tneutral\n" for n in range(16)
  )
  make(tmp_path / "mnli" / "train.tsv", text)
  make(tmp_path / "mnli" / "dev_matched.tsv", text)
  done = succeed("steps-1000k-mnli", data_dir=tmp_path, seeds=2)
  assert f"{folder / 'final_model'}" in done.err
  lines = json.loads((tmp_path / "report.json").read_text())
  [line] = [line for line in lines if line["row"] == "steps-1000k-mnli"]
  assert line["seeds"] == [1, 2] and line["verdict"] == report.SMOKE
  deviations = " | ".join(line["deviations"])
  # Those of the first run of the chain, too.
  first = "pretrain-base-512: pretrain-base: "
  assert f"{first}stopped after 2 steps" in deviations
  assert f"{first}num_hidden_layers 3 instead of 12" in deviations


def test_neither_script_waits_for_tensorflow():
  code = (
    "import sys; from reproduction import assemble, report, runs, transfer; "
    "assert 'tensorflow' not in sys.modules"
  )
  command = [sys.executable, "-c", code]
  subprocess.run(command, cwd=script_runner.ROOT, check=True)


@pytest.mark.parametrize("number", [
  signal.SIGINT, signal.SIGTERM, signal.SIGKILL
])
def test_a_script_ends_with_the_process_that_started_it(tmp_path, number):
  path = tmp_path / "pid"
  child = (
    "import os, time; "
    f"open({str(path)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
  )
  parent = (
    "import signal, sys; from reproduction import runs; "
    # A job in the background of a shell is started with SIGINT ignored.
    "signal.signal(signal.SIGINT, signal.default_int_handler); "
    "runs._call([sys.executable, '-c', sys.argv[1]])"
  )
  process = subprocess.Popen(
    [sys.executable, "-c", parent, child], cwd=script_runner.ROOT,
    stderr=subprocess.DEVNULL,
  )
  while not (path.exists() and path.read_text()):
    assert process.poll() is None
    time.sleep(0.05)
  process.send_signal(number)
  process.wait(timeout=20)
  state = pathlib.Path("/proc", path.read_text(), "stat")
  for _ in range(100):
    # A process whose parent is gone may be a zombie until it is collected.
    if not state.exists() or state.read_text().split()[2] == "Z":
      return
    time.sleep(0.1)
  raise AssertionError("the script still runs")
